//! The output of haft in pipes and on terminals.

use super::*;

#[test]
fn piped_output_has_no_colours() {
    let fixture = two_files();
    fixture.run(&["call", "Read", "file_path=one.txt"]);
    let all: [&[&str]; 7] = [
        &["tools"],
        &["doctor"],
        &["stats"],
        &["--help"],
        &["call", "--help"],
        &["--no-such-flag"],
        &["--dialect", "klingon", "doctor"],
    ];
    for args in all {
        for (name, value) in [("TERM", "xterm-256color"), ("NO_COLOR", "1")] {
            let output = RunOutput::of(fixture.haft(args).env(name, value).output().unwrap());
            assert!(
                !output.stdout.contains('\x1b') && !output.stderr.contains('\x1b'),
                "{args:?}: {output:?}"
            );
        }
    }
    let forced = RunOutput::of(fixture.haft(&["tools"]).env("CLICOLOR_FORCE", "1").output().unwrap());
    assert!(forced.stdout.contains('\x1b'), "colours are there for those who want them");
}

#[test]
fn a_reply_in_a_pipe_is_exact() {
    let fixture = Fixture::new(&[("escape.txt", "\u{1b}[31mred\u{1b}[0m\n")]);
    let output = fixture.run(&["call", "Read", "file_path=escape.txt"]);
    assert_eq!(output.stdout, "     1\t\u{1b}[31mred\u{1b}[0m\n");
}

#[test]
fn completions_for_every_shell() {
    let fixture = two_files();
    let scripts = ["bash", "elvish", "fish", "powershell", "zsh"].map(|shell| {
        let output = fixture.run(&["completions", shell]);
        assert_eq!(output.code, 0, "{shell}");
        assert!(output.stdout.contains("haft") && output.stdout.contains("doctor"), "{shell}");
        output.stdout
    });
    for (at, script) in scripts.iter().enumerate() {
        assert!(!scripts[..at].contains(script));
    }
    fixture.run(&["completions", "tcsh"]).refused("tcsh");
}

#[test]
fn tools_are_defined_for_every_api() {
    let fixture = two_files();
    let first =
        |format: &str| fixture.run(&["--dialect", "ally", "tools", "--format", format]).json()[0].clone();
    assert_eq!(first("openai")["function"]["name"], "read");
    assert_eq!(first("openai")["function"]["parameters"]["required"], json!(["file_paths"]));
    assert_eq!(first("openai-responses")["parameters"]["type"], "object");
    assert_eq!(first("anthropic")["input_schema"]["type"], "object");
    assert_eq!(first("mcp")["inputSchema"]["type"], "object");
    assert_eq!(first("mcp")["annotations"]["readOnlyHint"], true);
    assert_eq!(first("json")["read_only"], true);
    assert_eq!(fixture.run(&["--dialect", "ally", "--json", "tools"]).json()[0], first("json"));
    assert!(fixture.run(&["tools"]).stdout.starts_with("claude  "));
}

/// The output of haft on a terminal.
fn on_a_terminal(fixture: &Fixture, args: &[&str]) -> String {
    use std::io::Read as _;
    use std::os::unix::ffi::OsStrExt as _;

    use rustix::pty::OpenptFlags;

    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let ours = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&ours).unwrap();
    rustix::pty::unlockpt(&ours).unwrap();
    let name = rustix::pty::ptsname(&ours, Vec::new()).unwrap();
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
    let theirs = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut child = fixture.haft(args).env("TERM", "dumb").stdout(theirs).spawn().unwrap();
    let mut shown = Vec::new();
    // The end of a terminal is an error.
    let _ = std::fs::File::from(ours).read_to_end(&mut shown);
    assert!(child.wait().unwrap().success());
    String::from_utf8(shown).unwrap()
}

#[test]
fn a_turn_on_a_terminal_is_shown_for_reading() {
    let fixture = two_files();
    let turn = r#"[{"id":"1","name":"Read","input":{"file_path":"one.txt"}},{"id":"2","name":"Red"}]"#;
    std::fs::write(fixture.base.join("turn.jsonl"), turn).unwrap();
    let shown = on_a_terminal(&fixture, &["batch", fixture.base.join("turn.jsonl").to_str().unwrap()]);
    for part in ["turn 1", "2 calls", "✓ Read one.txt", "     1\t", "✗ Red", "did you mean `Read`?"] {
        assert!(shown.contains(part), "`{part}` is not in {shown}");
    }
    assert!(!shown.contains(r#""is_error""#), "{shown}");
}

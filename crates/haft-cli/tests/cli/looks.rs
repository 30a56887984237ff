//! What haft prints, and for whom.

use super::*;

#[test]
fn nothing_that_is_piped_has_colours() {
    let lab = two_files();
    lab.run(&["call", "Read", "file_path=one.txt"]);
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
            let ran = Ran::of(lab.haft(args).env(name, value).output().unwrap());
            assert!(!ran.stdout.contains('\x1b') && !ran.stderr.contains('\x1b'), "{args:?}: {ran:?}");
        }
    }
    let forced = Ran::of(lab.haft(&["tools"]).env("CLICOLOR_FORCE", "1").output().unwrap());
    assert!(forced.stdout.contains('\x1b'), "colours are there for those who want them");
}

#[test]
fn a_reply_in_a_pipe_is_exact() {
    let lab = Lab::new(&[("escape.txt", "\u{1b}[31mred\u{1b}[0m\n")]);
    let ran = lab.run(&["call", "Read", "file_path=escape.txt"]);
    assert_eq!(ran.stdout, "     1\t\u{1b}[31mred\u{1b}[0m\n");
}

#[test]
fn completions_for_every_shell() {
    let lab = two_files();
    let scripts = ["bash", "elvish", "fish", "powershell", "zsh"].map(|shell| {
        let ran = lab.run(&["completions", shell]);
        assert_eq!(ran.code, 0, "{shell}");
        assert!(ran.stdout.contains("haft") && ran.stdout.contains("doctor"), "{shell}");
        ran.stdout
    });
    for (at, script) in scripts.iter().enumerate() {
        assert!(!scripts[..at].contains(script));
    }
    lab.run(&["completions", "tcsh"]).refused("tcsh");
}

#[test]
fn tools_are_defined_for_every_api() {
    let lab = two_files();
    let first = |format: &str| lab.run(&["--dialect", "ally", "tools", "--format", format]).json()[0].clone();
    assert_eq!(first("openai")["function"]["name"], "read");
    assert_eq!(first("openai")["function"]["parameters"]["required"], json!(["file_paths"]));
    assert_eq!(first("openai-responses")["parameters"]["type"], "object");
    assert_eq!(first("anthropic")["input_schema"]["type"], "object");
    assert_eq!(first("mcp")["inputSchema"]["type"], "object");
    assert_eq!(first("mcp")["annotations"]["readOnlyHint"], true);
    assert_eq!(first("json")["read_only"], true);
    assert_eq!(lab.run(&["--dialect", "ally", "--json", "tools"]).json()[0], first("json"));
    assert!(lab.run(&["tools"]).stdout.starts_with("claude  "));
}

/// What haft prints when its standard output is a terminal.
fn on_a_terminal(lab: &Lab, args: &[&str]) -> String {
    use std::io::Read as _;
    use std::os::unix::ffi::OsStrExt as _;

    let flags = rustix::pty::OpenptFlags::RDWR | rustix::pty::OpenptFlags::NOCTTY;
    let ours = rustix::pty::openpt(flags).unwrap();
    rustix::pty::grantpt(&ours).unwrap();
    rustix::pty::unlockpt(&ours).unwrap();
    let name = rustix::pty::ptsname(&ours, Vec::new()).unwrap();
    let path = std::path::Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
    let theirs = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut child = lab.haft(args).env("TERM", "dumb").stdout(theirs).spawn().unwrap();
    let mut shown = Vec::new();
    // The end of a terminal is told as an error.
    let _ = std::fs::File::from(ours).read_to_end(&mut shown);
    assert!(child.wait().unwrap().success());
    String::from_utf8(shown).unwrap()
}

#[test]
fn a_turn_on_a_terminal_is_shown_for_reading() {
    let lab = two_files();
    let turn = r#"[{"id":"1","name":"Read","input":{"file_path":"one.txt"}},{"id":"2","name":"Red"}]"#;
    std::fs::write(lab.base.join("turn.jsonl"), turn).unwrap();
    let shown = on_a_terminal(&lab, &["batch", lab.base.join("turn.jsonl").to_str().unwrap()]);
    for part in ["turn 1", "2 calls", "✓ Read one.txt", "     1\t", "✗ Red", "did you mean `Read`?"] {
        assert!(shown.contains(part), "`{part}` is not in {shown}");
    }
    assert!(!shown.contains(r#""is_error""#), "{shown}");
}

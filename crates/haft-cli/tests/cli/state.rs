//! Statistics, sessions, settings and `haft doctor`.

use super::*;

#[test]
fn statistics_add_up_over_runs() {
    let fixture = two_files();
    assert!(fixture.run(&["stats"]).stdout.starts_with("no call has been made in "));
    assert_eq!(fixture.run(&["--json", "stats"]).json(), json!([]));
    fixture.run(&["call", "Read", "file_path=one.txt"]);
    fixture.run(&["call", "Read", "file_path=three.txt"]);
    fixture.run(&["--dialect", "ally", "call", "ls", "file_path=."]);
    fixture.run(&["call", "NoSuchTool"]);
    let stats = fixture.run(&["--json", "stats"]).json();
    let counts: Vec<Value> = stats
        .as_array()
        .unwrap()
        .iter()
        .map(|row| json!([row["tool"], row["calls"], row["successes"], row["failures"], row["success_rate"]]))
        .collect();
    assert_eq!(counts, [json!(["Read", 2, 1, 1, 0.5]), json!(["ls", 1, 1, 0, 1.0])]);
    let table = fixture.run(&["stats"]).stdout;
    assert!(table.lines().count() == 3 && table.contains("50.0 %"), "{table}");
}

#[test]
fn statistics_of_concurrent_processes_are_all_counted() {
    let fixture = two_files();
    let children: Vec<_> = (0..8)
        .map(|_| {
            let mut command = fixture.haft(&["call", "Read", "file_path=one.txt"]);
            command.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let stats = fixture.run(&["--json", "stats"]).json();
    assert_eq!((&stats[0]["calls"], &stats[0]["successes"]), (&json!(8), &json!(8)));
}

#[test]
fn statistics_belong_to_a_workspace() {
    let fixture = two_files();
    fixture.run(&["call", "Read", "file_path=one.txt"]);
    std::fs::create_dir(fixture.base.join("other")).unwrap();
    assert_eq!(fixture.run(&["--workspace", "../other", "--json", "stats"]).json(), json!([]));
}

#[test]
fn a_session_remembers_what_two_processes_have_read_at_once() {
    // Some clients start haft for each call, and make several calls at once.
    let fixture = two_files();
    let mut clients = ["one.txt", "two.txt"].map(|file| {
        let mut client = super::mcp::client::Client::ready(&fixture, &["--session", "s"]);
        client.call("Glob", json!({"pattern": file}));
        (client, file)
    });
    for (client, file) in &mut clients {
        assert_eq!(client.call("Read", json!({"file_path": file}))["isError"], false);
    }
    for (client, _) in &mut clients {
        drop(client.stdin.take());
        assert!(client.child.wait().unwrap().success());
    }
    for (_, file) in &clients {
        let write = ["call", "Write", &format!("file_path={file}"), "content=new"];
        let run = fixture.run(&[&["--session", "s", "--mode", "accept-edits"], write.as_slice()].concat());
        assert_eq!(run.code, 0, "{file}: {}", run.stdout);
    }
}

#[test]
fn a_session_remembers_between_runs() {
    let fixture = two_files();
    let reads = || -> Vec<String> {
        let saved = std::fs::read(fixture.state().join("sessions/work.json")).unwrap();
        let saved: Value = serde_json::from_slice(&saved).unwrap();
        let mut names: Vec<String> = saved["seen"]
            .as_array()
            .unwrap()
            .iter()
            .map(|read| Path::new(read["path"].as_str().unwrap()).file_name().unwrap().display().to_string())
            .collect();
        names.sort();
        names
    };
    fixture.run(&["--session", "work", "call", "Read", "file_path=one.txt"]);
    assert_eq!(reads(), ["one.txt"]);
    fixture.run(&["--session", "work", "call", "Read", "file_path=two.txt"]);
    assert_eq!(reads(), ["one.txt", "two.txt"]);
    fixture.run(&["--session", "work", "call", "Read", "file_path=three.txt"]);
    assert_eq!(reads(), ["one.txt", "two.txt"], "what could not be read was not seen");
}

#[test]
fn a_session_that_cannot_be_kept_is_refused() {
    let fixture = two_files();
    let read = |name: &str| fixture.run(&["--session", name, "call", "Read", "file_path=one.txt"]);
    read("../escape").refused("../escape");
    read("work");
    std::fs::write(fixture.state().join("sessions/work.json"), "{").unwrap();
    read("work").refused("the session `work` is damaged; remove ");
}

#[test]
fn doctor_reports_settings_and_state() {
    let fixture = two_files();
    fixture.settings("dialect = \"cdd\"\n[[hooks.pre_tool_use]]\nmatcher = \"Read\"\ncommand = \"true\"\n");
    let output = fixture.run(&["doctor"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""));
    for told in ["ws\n", "cdd: ", "config.toml", "not trusted", "PreToolUse Read: true", "state"] {
        assert!(output.stdout.contains(told), "`{told}` is not in {}", output.stdout);
    }
    let findings = fixture.run(&["--json", "doctor"]).json();
    let states: Vec<&str> =
        findings.as_array().unwrap().iter().map(|finding| finding["state"].as_str().unwrap()).collect();
    assert!(states.contains(&"ok") && !states.contains(&"bad"), "{findings}");
}

#[test]
fn doctor_names_the_place_of_a_mistake_in_the_settings() {
    let fixture = two_files();
    fixture.settings("dialect = \"ally\"\n\n[limits]\nkeep_days = \"seven\"\n");
    let output = fixture.run(&["doctor"]);
    assert_eq!((output.code, output.stderr.as_str()), (1, ""));
    for told in ["home/.config/haft/config.toml", "line 4", "keep_days", "✓ state"] {
        assert!(output.stdout.contains(told), "`{told}` is not in {}", output.stdout);
    }
}

#[test]
fn an_invalid_hook_pattern_is_a_settings_error() {
    let fixture = two_files();
    fixture.settings("[[hooks.pre_tool_use]]\nmatcher = \"(\"\ncommand = \"true\"\n");
    fixture.run(&["call", "Read", "file_path=one.txt"]).refused("`(` is no pattern for tool names");
}

#[test]
fn an_invalid_setting_is_refused() {
    let fixture = two_files();
    for (settings, reason) in [
        (
            "[limits]\nmax_result = { Raed = 2000 }",
            "`Raed`, which is no tool of any dialect; did you mean `Read`?",
        ),
        ("[limits]\nmax_result = { Read = 999 }", "it must be 1000 at least"),
        ("[[hooks.pre_tool_use]]\ncommand = \"x\"\ntimeout = 0", "it must be 1 at least"),
        ("trusted = [\"code\"]", "write a whole path"),
        ("add_dirs = [\"~/nowhere\"]", "home/nowhere"),
    ] {
        fixture.settings(settings);
        fixture.run(&["call", "Read", "file_path=one.txt"]).refused(reason);
        let told = fixture.run(&["doctor"]);
        assert!(told.code == 1 && told.stdout.contains(reason), "{told:?}");
    }
}

#[test]
fn a_hook_that_never_runs_is_reported() {
    let fixture = two_files();
    fixture.settings("[[hooks.pre_tool_use]]\nmatcher = \"Raed\"\ncommand = \"false\"\n");
    let output = fixture.run(&["call", "Read", "file_path=one.txt"]);
    assert_eq!(output.code, 0);
    assert_eq!(output.stderr, "note: the hook `false` never runs: no tool matches `Raed`\n");
}

#[test]
fn folders_in_settings_start_at_the_workspace_or_the_home() {
    let fixture = two_files();
    fixture.write("beside/a.txt", "one\n");
    fixture.write("home/mine/b.txt", "two\n");
    fixture.settings("add_dirs = [\"../beside\", \"~/mine\"]\n");
    let workspace = fixture.base.join("ws");
    for file in ["../beside/a.txt", "~/mine/b.txt"] {
        let mut command = fixture.haft(&[
            "--workspace",
            workspace.to_str().unwrap(),
            "call",
            "Read",
            &format!("file_path={file}"),
        ]);
        let output = RunOutput::of(command.current_dir(fixture.base.join("home")).output().unwrap());
        assert_eq!(output.code, 0, "{output:?}");
    }
}

/// Opening a FIFO for reading blocks until another process opens it for writing.
#[test]
#[cfg(target_os = "linux")]
fn settings_that_are_no_file_do_not_hang() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let fixture = two_files();
    std::fs::create_dir(fixture.base.join("ws/.haft")).unwrap();
    let path = fixture.base.join("ws/.haft/config.toml");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    fixture.run(&["call", "Read", "file_path=one.txt"]).refused("the project's settings cannot be read");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
    fixture.run(&["call", "Read", "file_path=one.txt"]).refused("the project's settings cannot be read");
}

#[test]
fn nothing_from_a_project_reaches_the_terminal_as_it_is() {
    let fixture = Fixture::new(&[(".haft/config.toml", "\"\u{9b}2J\" = 1\n"), ("one.txt", "one\n")]);
    let output = fixture.run(&["call", "Read", "file_path=one.txt"]);
    assert!(output.code == 2 && !output.stderr.contains('\u{9b}'), "{output:?}");
    let output = fixture.run(&["doctor"]);
    assert!(output.code == 1 && !output.stdout.contains('\u{9b}'), "{output:?}");
}

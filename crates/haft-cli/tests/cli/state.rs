//! Figures, sessions and settings.

use super::*;

#[test]
fn figures_add_up_over_runs() {
    let lab = two_files();
    assert!(lab.run(&["stats"]).stdout.starts_with("no call has been made in "));
    assert_eq!(lab.run(&["--json", "stats"]).json(), json!([]));
    lab.run(&["call", "Read", "file_path=one.txt"]);
    lab.run(&["call", "Read", "file_path=three.txt"]);
    lab.run(&["--dialect", "ally", "call", "ls", "file_path=."]);
    lab.run(&["call", "NoSuchTool"]);
    let stats = lab.run(&["--json", "stats"]).json();
    let counts: Vec<Value> = stats
        .as_array()
        .unwrap()
        .iter()
        .map(|row| json!([row["tool"], row["calls"], row["successes"], row["failures"], row["success_rate"]]))
        .collect();
    assert_eq!(counts, [json!(["Read", 2, 1, 1, 0.5]), json!(["ls", 1, 1, 0, 1.0])]);
    let table = lab.run(&["stats"]).stdout;
    assert!(table.lines().count() == 3 && table.contains("50.0 %"), "{table}");
}

#[test]
fn figures_of_processes_that_run_at_once_are_all_counted() {
    let lab = two_files();
    let children: Vec<_> = (0..8)
        .map(|_| {
            let mut command = lab.haft(&["call", "Read", "file_path=one.txt"]);
            command.stdout(Stdio::null()).spawn().unwrap()
        })
        .collect();
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let stats = lab.run(&["--json", "stats"]).json();
    assert_eq!((&stats[0]["calls"], &stats[0]["successes"]), (&json!(8), &json!(8)));
}

#[test]
fn figures_belong_to_a_workspace() {
    let lab = two_files();
    lab.run(&["call", "Read", "file_path=one.txt"]);
    std::fs::create_dir(lab.base.join("other")).unwrap();
    assert_eq!(lab.run(&["--workspace", "../other", "--json", "stats"]).json(), json!([]));
}

#[test]
fn a_session_remembers_between_runs() {
    let lab = two_files();
    let reads = || -> Vec<String> {
        let saved = std::fs::read(lab.state().join("sessions/work.json")).unwrap();
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
    lab.run(&["--session", "work", "call", "Read", "file_path=one.txt"]);
    assert_eq!(reads(), ["one.txt"]);
    lab.run(&["--session", "work", "call", "Read", "file_path=two.txt"]);
    assert_eq!(reads(), ["one.txt", "two.txt"]);
    lab.run(&["--session", "work", "call", "Read", "file_path=three.txt"]);
    assert_eq!(reads(), ["one.txt", "two.txt"], "what could not be read was not seen");
}

#[test]
fn a_session_that_cannot_be_kept_is_refused() {
    let lab = two_files();
    let read = |name: &str| lab.run(&["--session", name, "call", "Read", "file_path=one.txt"]);
    read("../escape").refused("../escape");
    read("work");
    std::fs::write(lab.state().join("sessions/work.json"), "{").unwrap();
    read("work").refused("the session `work` is damaged; remove ");
}

#[test]
fn doctor_says_what_is_in_force() {
    let lab = two_files();
    lab.settings("dialect = \"cdd\"\n[[hooks.pre_tool_use]]\nmatcher = \"Read\"\ncommand = \"true\"\n");
    let ran = lab.run(&["doctor"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
    for told in ["ws\n", "cdd: ", "config.toml", "not trusted", "PreToolUse Read: true", "state"] {
        assert!(ran.stdout.contains(told), "`{told}` is not in {}", ran.stdout);
    }
    let findings = lab.run(&["--json", "doctor"]).json();
    let states: Vec<&str> =
        findings.as_array().unwrap().iter().map(|finding| finding["state"].as_str().unwrap()).collect();
    assert!(states.contains(&"ok") && !states.contains(&"bad"), "{findings}");
}

#[test]
fn doctor_names_the_place_of_a_mistake_in_the_settings() {
    let lab = two_files();
    lab.settings("dialect = \"ally\"\n\n[limits]\nkeep_days = \"seven\"\n");
    let ran = lab.run(&["doctor"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (1, ""));
    for told in ["home/.config/haft/config.toml", "line 4", "keep_days", "✓ state"] {
        assert!(ran.stdout.contains(told), "`{told}` is not in {}", ran.stdout);
    }
}

#[test]
fn a_wrong_hook_pattern_is_a_mistake_in_the_settings() {
    let lab = two_files();
    lab.settings("[[hooks.pre_tool_use]]\nmatcher = \"(\"\ncommand = \"true\"\n");
    lab.run(&["call", "Read", "file_path=one.txt"]).refused("`(` is no pattern for tool names");
}

#[test]
fn a_setting_that_makes_no_sense_is_refused() {
    let lab = two_files();
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
        lab.settings(settings);
        lab.run(&["call", "Read", "file_path=one.txt"]).refused(reason);
        let told = lab.run(&["doctor"]);
        assert!(told.code == 1 && told.stdout.contains(reason), "{told:?}");
    }
}

#[test]
fn a_hook_that_never_runs_is_told() {
    let lab = two_files();
    lab.settings("[[hooks.pre_tool_use]]\nmatcher = \"Raed\"\ncommand = \"false\"\n");
    let ran = lab.run(&["call", "Read", "file_path=one.txt"]);
    assert_eq!(ran.code, 0);
    assert_eq!(ran.stderr, "note: the hook `false` never runs: no tool matches `Raed`\n");
}

#[test]
fn folders_in_settings_start_at_the_workspace_or_the_home() {
    let lab = two_files();
    lab.write("beside/a.txt", "one\n");
    lab.write("home/mine/b.txt", "two\n");
    lab.settings("add_dirs = [\"../beside\", \"~/mine\"]\n");
    let workspace = lab.base.join("ws");
    for file in ["../beside/a.txt", "~/mine/b.txt"] {
        let mut command = lab.haft(&[
            "--workspace",
            workspace.to_str().unwrap(),
            "call",
            "Read",
            &format!("file_path={file}"),
        ]);
        let ran = Ran::of(command.current_dir(lab.base.join("home")).output().unwrap());
        assert_eq!(ran.code, 0, "{ran:?}");
    }
}

/// Opening a FIFO to read from it waits for somebody who writes.
#[test]
#[cfg(target_os = "linux")]
fn settings_that_are_no_file_do_not_hang() {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    let lab = two_files();
    std::fs::create_dir(lab.base.join("ws/.haft")).unwrap();
    let path = lab.base.join("ws/.haft/config.toml");
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
    lab.run(&["call", "Read", "file_path=one.txt"]).refused("the project's settings cannot be read");
    std::fs::remove_file(&path).unwrap();
    std::os::unix::fs::symlink("/etc/hostname", &path).unwrap();
    lab.run(&["call", "Read", "file_path=one.txt"]).refused("the project's settings cannot be read");
}

#[test]
fn nothing_from_a_project_reaches_the_terminal_as_it_is() {
    let lab = Lab::new(&[(".haft/config.toml", "\"\u{9b}2J\" = 1\n"), ("one.txt", "one\n")]);
    let ran = lab.run(&["call", "Read", "file_path=one.txt"]);
    assert!(ran.code == 2 && !ran.stderr.contains('\u{9b}'), "{ran:?}");
    let ran = lab.run(&["doctor"]);
    assert!(ran.code == 1 && !ran.stdout.contains('\u{9b}'), "{ran:?}");
}

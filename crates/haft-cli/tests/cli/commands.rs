//! Commands: what they get from the user's shell, what is kept of what they print, and what ends with them.

use super::*;

fn bash(lab: &Lab, command: &str) -> Value {
    let call = serde_json::json!({"name": "Bash", "input": {"command": command}}).to_string();
    lab.batch(&["--mode", "bypass"], &[&call]).remove(0)
}

#[test]
fn the_profile_is_read_once_and_again_when_it_changes() {
    let lab = two_files();
    lab.write(
        "home/.bashrc",
        "echo chatter; echo read >> \"$HOME/count\"; export FROM_PROFILE=first PATH=$PATH:/opt/mine/bin\n",
    );
    lab.write("home/.bash_profile", ". ~/.bashrc\n");
    let told = bash(&lab, "echo $FROM_PROFILE $PATH; test -e ~/count || echo read-only");
    let told = text(&told);
    assert!(told.starts_with("first ") && told.contains("/opt/mine/bin"), "{told}");
    assert!(told.contains("read-only"), "a profile is read in a cage: {told}");
    let kept = std::fs::read(lab.state().join("environment")).unwrap();
    assert!(String::from_utf8_lossy(&kept).contains("FROM_PROFILE=first"));
    lab.write("home/.bashrc", "export FROM_PROFILE=second!\n");
    assert_eq!(text(&bash(&lab, "echo $FROM_PROFILE")), "second!");
    lab.settings("[sandbox]\nprofile = false\n");
    assert_eq!(text(&bash(&lab, "echo \"<$FROM_PROFILE>\"")), "<>");
}

#[test]
fn a_profile_that_hangs_or_fails_stops_nothing() {
    let lab = two_files();
    lab.write("home/.bash_profile", "exit 3\n");
    assert_eq!(text(&bash(&lab, "echo fine")), "fine");
    lab.write("home/.bash_profile", "sleep 1000\n");
    assert_eq!(text(&bash(&lab, "echo fine")), "fine");
}

#[test]
fn secrets_of_the_profile_are_neither_passed_on_nor_kept() {
    let lab = two_files();
    lab.write("home/.bash_profile", "export GITHUB_TOKEN=token-of-mine HARMLESS=yes\n");
    assert_eq!(text(&bash(&lab, "env | grep -c token-of-mine; echo $HARMLESS")), "0\nyes");
    assert!(
        !String::from_utf8_lossy(&std::fs::read(lab.state().join("environment")).unwrap())
            .contains("token-of-mine")
    );
}

#[test]
fn all_of_a_long_output_is_kept() {
    let lab = two_files();
    let reply = bash(&lab, "seq 1 1000000");
    let all: String =
        reply["content"].as_array().unwrap().iter().map(|part| part["text"].as_str().unwrap()).collect();
    let path = all.split("that it printed are in `").nth(1).and_then(|rest| rest.split('`').next());
    let path = path.unwrap_or_else(|| panic!("{}", &all[all.len() - 500..]));
    let kept = std::fs::read_to_string(path).unwrap();
    assert_eq!(kept.len(), 6_888_896);
    assert!(kept.starts_with("1\n2\n") && kept.ends_with("999999\n1000000\n"));
    assert_eq!(reply["structured"]["bytes_printed"], 6_888_896);
}

#[test]
fn what_runs_in_the_background_ends_with_the_session() {
    let lab = two_files();
    let calls = [
        r#"{"name":"Bash","input":{"command":"echo $$; touch started; sleep 1000","run_in_background":true}}"#,
        r#"{"name":"Bash","input":{"command":"until test -e started; do sleep 0.01; done"}}"#,
    ];
    let before = sleepers();
    lab.batch(&["--mode", "bypass"], &calls);
    let gone = (0..1000).any(|_| {
        sleepers() <= before || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }
    });
    assert!(gone, "a process was left behind");
}

/// How many processes sleep for a thousand seconds.
fn sleepers() -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let is_sleeper = |entry: &std::fs::DirEntry| {
        std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == b"sleep\x001000\x00")
    };
    processes.filter(is_sleeper).count()
}

#[test]
fn nothing_stands_in_for_guarded_names_once_haft_was_interrupted() {
    let lab = two_files();
    let mut child = lab
        .haft(&["--mode", "bypass", "call", "Bash", "command=trap '' TERM; touch started; sleep 1000"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !lab.base.join("ws/started").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    child.wait().unwrap();
    let mut left: Vec<_> =
        std::fs::read_dir(lab.base.join("ws")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["one.txt", "started", "two.txt"]);
}

/// Settings may lie in the workspace, as when somebody keeps their home in order with an agent.
#[test]
fn no_command_changes_the_users_settings_wherever_they_lie() {
    let lab = two_files();
    lab.settings("mode = \"default\"\n");
    let home = lab.base.join("home").display().to_string();
    let read = || std::fs::read_to_string(lab.base.join("home/.config/haft/config.toml")).unwrap();
    for command in [
        "echo x > .config/haft/config.toml",
        "cp .profile .config/haft/config.toml",
        "python3 -c \"open('.config/haft/config.toml', 'w').write('x')\"",
        "python3 -c \"import os; os.rename('.config', 'other')\"",
    ] {
        let command = format!("command={command}");
        let ran = lab.run(&["--workspace", &home, "--mode", "bypass", "call", "Bash", &command]);
        assert_eq!((ran.code, read().as_str()), (1, "mode = \"default\"\n"), "{command}: {ran:?}");
    }
}

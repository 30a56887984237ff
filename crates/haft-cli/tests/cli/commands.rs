//! Commands: the login shell's environment, long output, background processes, guarded files.

use super::*;

fn bash(fixture: &Fixture, command: &str) -> Value {
    let call = serde_json::json!({"name": "Bash", "input": {"command": command}}).to_string();
    fixture.batch(&["--mode", "bypass"], &[&call]).remove(0)
}

#[test]
fn the_profile_is_read_once_and_again_when_it_changes() {
    let fixture = two_files();
    fixture.write(
        "home/.bashrc",
        "echo chatter; echo read >> \"$HOME/count\"; export FROM_PROFILE=first PATH=$PATH:/opt/mine/bin\n",
    );
    fixture.write("home/.bash_profile", ". ~/.bashrc\n");
    let told = bash(&fixture, "echo $FROM_PROFILE $PATH; test -e ~/count || echo read-only");
    let told = text(&told);
    assert!(told.starts_with("first ") && told.contains("/opt/mine/bin"), "{told}");
    assert!(told.contains("read-only"), "a profile is read in a sandbox: {told}");
    let kept = std::fs::read(fixture.state().join("environment")).unwrap();
    assert!(String::from_utf8_lossy(&kept).contains("FROM_PROFILE=first"));
    fixture.write("home/.bashrc", "export FROM_PROFILE=second!\n");
    assert_eq!(text(&bash(&fixture, "echo $FROM_PROFILE")), "second!");
    fixture.settings("[sandbox]\nprofile = false\n");
    assert_eq!(text(&bash(&fixture, "echo \"<$FROM_PROFILE>\"")), "<>");
}

#[test]
fn a_profile_that_hangs_or_fails_stops_nothing() {
    let fixture = two_files();
    fixture.write("home/.bash_profile", "exit 3\n");
    assert_eq!(text(&bash(&fixture, "echo fine")), "fine");
    fixture.write("home/.bash_profile", "sleep 1000\n");
    assert_eq!(text(&bash(&fixture, "echo fine")), "fine");
}

#[test]
fn secrets_of_the_profile_are_neither_passed_on_nor_kept() {
    let fixture = two_files();
    fixture.write("home/.bash_profile", "export GITHUB_TOKEN=token-of-mine HARMLESS=yes\n");
    assert_eq!(text(&bash(&fixture, "env | grep -c token-of-mine; echo $HARMLESS")), "0\nyes");
    assert!(
        !String::from_utf8_lossy(&std::fs::read(fixture.state().join("environment")).unwrap())
            .contains("token-of-mine")
    );
}

#[test]
fn a_command_that_only_reads_sees_the_users_settings_and_the_folders_above() {
    let fixture = Fixture::outside_of_temporary_folders(&[("note.swp", "x\n"), ("deep/file.txt", "x\n")]);
    fixture.write("home/.gitconfig", "[core]\n\texcludesFile = ~/.ignored\n");
    fixture.write("home/.ignored", "*.swp\n");
    let made = fixture.run(&["--mode", "bypass", "call", "Bash", "command=git init -q . && git add deep"]);
    assert_eq!(made.code, 0, "{made:?}");
    let mut below =
        fixture.haft(&["call", "Bash", "command=git status --short && git rev-parse --show-prefix"]);
    below.current_dir(fixture.base.join("ws/deep")).stdin(Stdio::null());
    let told = RunOutput::of(below.output().unwrap());
    assert_eq!((told.code, told.stdout.as_str()), (0, "A  file.txt\ndeep/\n"), "{told:?}");
}

#[test]
fn commands_see_no_secrets_of_the_system_or_the_user() {
    let fixture = Fixture::outside_of_temporary_folders(&[]);
    fixture.write("home/.codex/auth.json", "hush");
    fixture.write("home/.config/gh/hosts.yml", "hush");
    let script = "import os, sys\n\
        paths = ['/etc/shadow', '~/.codex/auth.json', '~/.config/gh/hosts.yml']\n\
        for path in paths:\n    try: print(len(open(os.path.expanduser(path)).read()))\n    except OSError: print(0)\n\
        print(os.environ.get('DATABASE_URL'), os.environ.get('EDITOR_MODE'))";
    fixture.write("ws/look.py", script);
    let mut haft = fixture.haft(&["--mode", "bypass", "call", "Bash", "command=python3 look.py"]);
    haft.env("DATABASE_URL", "postgres://app:hush@localhost/app")
        .env("EDITOR_MODE", "vi")
        .stdin(Stdio::null());
    assert_eq!(RunOutput::of(haft.output().unwrap()).stdout, "0\n0\n0\nNone vi\n");
}

#[test]
fn all_of_a_long_output_is_kept() {
    let fixture = two_files();
    let reply = bash(&fixture, "seq 1 1000000");
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
fn background_commands_end_with_the_session() {
    let fixture = two_files();
    let calls = [
        r#"{"name":"Bash","input":{"command":"echo $$; touch started; sleep 1000","run_in_background":true}}"#,
        r#"{"name":"Bash","input":{"command":"until test -e started; do sleep 0.01; done"}}"#,
    ];
    let before = count_sleepers();
    fixture.batch(&["--mode", "bypass"], &calls);
    let gone = (0..1000).any(|_| {
        count_sleepers() <= before || {
            std::thread::sleep(Duration::from_millis(10));
            false
        }
    });
    assert!(gone, "a process was left behind");
}

/// The number of processes that sleep for a thousand seconds.
fn count_sleepers() -> usize {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let is_sleeper = |entry: &std::fs::DirEntry| {
        std::fs::read(entry.path().join("cmdline")).is_ok_and(|line| line == b"sleep\x001000\x00")
    };
    processes.filter(is_sleeper).count()
}

#[test]
fn an_interrupt_leaves_only_what_the_command_made() {
    let fixture = two_files();
    let mut child = fixture
        .haft(&["--mode", "bypass", "call", "Bash", "command=trap '' TERM; touch started; sleep 1000"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !fixture.base.join("ws/started").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(5));
    }
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::INT)
        .unwrap();
    child.wait().unwrap();
    let mut left: Vec<_> =
        std::fs::read_dir(fixture.base.join("ws")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["one.txt", "started", "two.txt"]);
}

/// The user's settings can lie in the workspace, as when an agent works in the home folder.
#[test]
fn no_command_changes_the_users_settings_wherever_they_lie() {
    let fixture = two_files();
    fixture.settings("mode = \"default\"\n");
    let home = fixture.base.join("home").display().to_string();
    let read = || std::fs::read_to_string(fixture.base.join("home/.config/haft/config.toml")).unwrap();
    for command in [
        "echo x > .config/haft/config.toml",
        "cp .profile .config/haft/config.toml",
        "python3 -c \"open('.config/haft/config.toml', 'w').write('x')\"",
        "python3 -c \"import os; os.rename('.config', 'other')\"",
    ] {
        let command = format!("command={command}");
        let output = fixture.run(&["--workspace", &home, "--mode", "bypass", "call", "Bash", &command]);
        assert_eq!((output.code, read().as_str()), (1, "mode = \"default\"\n"), "{command}: {output:?}");
    }
}

//! Help, man pages, settings and sessions: what tells people how haft works and what it keeps.

use super::*;

#[test]
fn the_help_has_groups_examples_exit_codes_and_the_environment() {
    let fixture = Fixture::new(&[]);
    let help = fixture.run(&["--help"]);
    assert_eq!((help.code, help.stderr.as_str()), (0, ""));
    for part in [
        "\nCalls:\n",
        "\nChanges:\n",
        "\nPermissions:\n",
        "\nSessions:\n",
        "\nExamples:\n",
        "\nExit codes:\n",
        "\nEnvironment:\n",
    ] {
        assert!(help.stdout.contains(part), "{part}: {}", help.stdout);
    }
    assert!(help.stdout.starts_with("An engine for a model's tool calls"), "{}", help.stdout);
    assert!(fixture.run(&["help"]).stdout.contains("\nExit codes:\n"));
    assert!(fixture.run(&["-h"]).stdout.contains("\nCalls:\n"));
}

/// The description of flags that a command shares once replaced that of the command.
#[test]
fn the_help_of_a_command_says_what_the_command_does() {
    let fixture = Fixture::new(&[]);
    for (command, begins) in [
        (["mcp"].as_slice(), "Serve haft's tools to clients of the Model Context Protocol"),
        (&["call"], "Make one call"),
        (&["undo"], "Undo changes"),
        (&["rules", "allow"], "Let calls happen without being asked"),
    ] {
        let help = fixture.run(&[command, &["--help"]].concat()).stdout;
        assert!(help.starts_with(begins), "{command:?}: {help}");
        let (own, shared) = help.split_once("Options of every command:").unwrap();
        assert!(shared.contains("--workspace") && !own.contains("--workspace"), "{help}");
    }
}

#[test]
fn man_pages_are_written_for_each_command() {
    let fixture = Fixture::new(&[]);
    std::fs::create_dir(fixture.base.join("man")).unwrap();
    let output = fixture.run(&["man", "../man"]);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
    for page in ["haft.1", "haft-call.1", "haft-mcp.1", "haft-rules-allow.1"] {
        let text = std::fs::read_to_string(fixture.base.join("man").join(page)).unwrap();
        assert!(text.contains(".TH"), "{page}: {text}");
    }
    fixture.run(&["man", "../missing"]).refused("the folder must exist");
}

#[test]
fn colours_are_used_when_they_are_asked_for() {
    let fixture = Fixture::new(&[]);
    assert!(fixture.run(&["--color", "always", "tools"]).stdout.contains('\u{1b}'));
    assert!(!fixture.run(&["--color", "never", "tools"]).stdout.contains('\u{1b}'));
    assert!(!fixture.run(&["tools"]).stdout.contains('\u{1b}'));
}

#[test]
fn the_settings_in_force_have_their_source() {
    let fixture =
        Fixture::new(&[(".haft/config.toml", "mode = \"bypass\"\n[permissions]\ndeny = [\"Read(.env)\"]\n")]);
    fixture
        .settings("dialect = \"ally\"\n[permissions]\ndeny = [\"Read(*.key)\"]\n[search]\nhidden = true\n");
    let rows = fixture.run(&["--json", "settings"]).json();
    let find = |name: &str| -> Vec<Value> {
        rows.as_array().unwrap().iter().filter(|row| row["setting"] == name).cloned().collect()
    };
    assert_eq!(find("dialect")[0]["value"], "ally");
    assert!(find("dialect")[0]["source"].as_str().unwrap().ends_with("/haft/config.toml"));
    assert_eq!((find("search.hidden")[0]["value"].clone(), find("permissions.deny").len()), (json!(true), 2));
    let mode = find("mode");
    let followed: Vec<_> =
        mode.iter().map(|row| (&row["value"], &row["source"], &row["is_followed"])).collect();
    assert_eq!(
        followed,
        [
            (&json!("bypass"), &json!(".haft/config.toml"), &json!(false)),
            (&json!("default"), &json!("the default"), &json!(true))
        ]
    );
    let rows = fixture.run(&["--json", "--dialect", "cdd", "settings"]).json();
    let typed = rows.as_array().unwrap().iter().find(|row| row["setting"] == "dialect").unwrap().clone();
    assert_eq!((&typed["value"], &typed["source"]), (&json!("cdd"), &json!("the command line")));
    let text = fixture.run(&["settings"]).stdout;
    assert!(text.contains("(ignored: not trusted)") && text.contains("search.hidden"), "{text}");
}

#[test]
fn the_schema_of_the_settings_describes_each_of_them() {
    let schema = Fixture::new(&[]).run(&["settings", "--schema"]).json();
    assert!(schema["$schema"].is_string() && schema["title"].is_string(), "{schema}");
    for name in ["dialect", "permissions", "sandbox", "hooks"] {
        assert!(schema["properties"][name]["description"].is_string(), "{name}: {schema}");
    }
}

#[test]
fn trust_can_be_asked_for_and_given_as_json() {
    let fixture = Fixture::new(&[(".haft/config.toml", "mode = \"bypass\"\n")]);
    let output = fixture.run(&["--json", "trust"]);
    let told = output.json();
    assert_eq!(
        (output.code, &told["is_trusted"], &told["ignored"]),
        (1, &json!(false), &json!([".haft/config.toml: mode"]))
    );
    let output = fixture.run(&["--json", "trust", "--yes"]);
    assert_eq!((output.code, &output.json()["is_trusted"]), (0, &json!(true)));
    assert_eq!(fixture.run(&["--json", "trust"]).code, 0);
}

#[test]
fn sessions_are_listed_and_removed() {
    let fixture = two_files();
    assert_eq!(fixture.run(&["--json", "sessions"]).json(), json!([]));
    fixture.run(&["--session", "work", "call", "Read", "file_path=one.txt"]);
    fixture.run(&["call", "Read", "file_path=one.txt"]);
    let rows = fixture.run(&["--json", "sessions"]).json();
    let of = |name: &dyn Fn(&str) -> bool| {
        rows.as_array().unwrap().iter().find(|row| name(row["session"].as_str().unwrap())).unwrap().clone()
    };
    assert_eq!(of(&|name| name == "work")["files_seen"], 1);
    assert_eq!(of(&|name| name.starts_with("process-"))["is_here"], true);
    let text = fixture.run(&["sessions"]).stdout;
    assert!(text.starts_with("session") && text.contains("(here)") && text.lines().count() == 3, "{text}");
    let output = fixture.run(&["sessions", "remove", "work", "none"]);
    assert!(output.code == 1 && output.stderr.contains("there is no session `none` here"), "{output:?}");
    assert_eq!(fixture.run(&["--json", "sessions"]).json().as_array().unwrap().len(), 1);
}

#[test]
fn calls_are_logged_when_that_is_asked_for() {
    let fixture = two_files();
    let call = ["call", "Read", "file_path=one.txt"];
    let output = RunOutput::of(fixture.haft(&call).env("HAFT_LOG", "haft=info").output().unwrap());
    assert!(output.stderr.contains("call started") && output.stderr.contains("call ended"), "{output:?}");
    assert_eq!(fixture.run(&call).stderr, "");
    let output = RunOutput::of(fixture.haft(&call).env("HAFT_LOG", "haft=loud").output().unwrap());
    output.refused("HAFT_LOG is `haft=loud`");
    let requests = [
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
            "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/initialized"}),
        json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call",
            "params": {"name": "Read", "arguments": {"file_path": "one.txt"}}}),
    ];
    let lines: String = requests.iter().map(|request| format!("{request}\n")).collect();
    let output = fixture.run_with(&["mcp", "--log-file", "../haft.log"], &lines);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");
    let log = std::fs::read_to_string(fixture.base.join("haft.log")).unwrap();
    assert!(log.contains("call ended") && log.contains("Read"), "{log}");
}

#[test]
fn a_server_listens_at_a_name() {
    let fixture = two_files();
    let mut command = fixture.haft(&["mcp", "--http", "localhost:0"]);
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap()).read_line(&mut line).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(line.starts_with("note: serving http://127.0.0.1:"), "{line}");
    fixture.run(&["mcp", "--http", "localhost"]).refused("`localhost` is no address to listen at");
}

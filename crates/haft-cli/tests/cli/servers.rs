//! Tools of other MCP servers: configuration, trust, life cycle, rules.

use super::mcp::client::{Client, text_of};
use super::mcp::http::Server;
use super::*;

/// A workspace with `tests/peers/fault.py` as a server of the user's; nothing where there is no Python.
fn fixture() -> Option<Fixture> {
    if !require(Need::Python) {
        return None;
    }
    let fixture = Fixture::new(&[("one.txt", "one\n"), (".env", "SECRET=1\n")]);
    fixture.settings(&settings("fault", &[]));
    Some(fixture)
}

fn script() -> String {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/peers/fault.py");
    script.canonicalize().unwrap().to_str().unwrap().to_owned()
}

/// Settings of a server that creates a marker file when it starts.
fn settings(name: &str, manner: &[&str]) -> String {
    let manner = manner.join(" ");
    let line = format!("touch started-{name}; exec python3 {} {manner}", script());
    format!("[mcp.servers.{name}]\ncommand = \"sh\"\nargs = [\"-c\", \"{line}\"]\n")
}

fn mcp_json(manner: &str) -> String {
    let line = format!("touch started-project; exec python3 {} {manner}", script());
    json!({"mcpServers": {"project": {"command": "sh", "args": ["-c", line]}}}).to_string()
}

impl Fixture {
    fn has(&self, name: &str) -> bool {
        self.base.join("ws").join(name).exists()
    }
}

#[test]
fn a_servers_tool_is_called_like_any_other_and_no_server_is_started_for_others() {
    let Some(fixture) = fixture() else { return };
    let read = fixture.run(&["call", "Read", "file_path=one.txt"]);
    assert_eq!((read.code, read.stdout.as_str(), read.stderr.as_str()), (0, "     1\tone\n", ""));
    assert!(!fixture.has("started-fault"), "nobody wanted it");
    let denied = fixture.run(&["call", "mcp__fault__echo", "text=hello"]);
    assert_eq!(denied.code, 1);
    assert!(denied.stdout.contains("haft rules allow 'mcp__fault__echo'"), "{denied:?}");
    fixture.run(&["rules", "allow", "mcp__fault__*"]);
    let called = fixture.run(&["call", "mcp__fault__echo", "text=7"]);
    assert_eq!((called.code, called.stdout.as_str()), (0, "7\n"), "{called:?}");
    assert!(fixture.has("started-fault"));
    let stats = fixture.run(&["stats"]);
    assert!(stats.stdout.contains("mcp__fault__echo"), "{stats:?}");
}

#[test]
fn a_tool_that_its_server_has_changed_is_asked_about_again() {
    let Some(fixture) = fixture() else { return };
    fixture.run(&["rules", "allow", "mcp__fault__*"]);
    let echo = |args: &[&str]| fixture.run(&[args, &["call", "mcp__fault__echo", "text=7"]].concat());
    assert_eq!(echo(&[]).code, 0);
    std::fs::write(fixture.base.join("ws/changed.txt"), "").unwrap();
    let changed = echo(&[]);
    assert_eq!(changed.code, 1, "{changed:?}");
    let why = "the MCP server `fault` has changed the description of `mcp__fault__echo` since a call of it was last allowed";
    assert!(changed.stdout.contains(why), "{changed:?}");
    // The question was not answered, so that it stays. Once a call is allowed, the rule counts again.
    assert_eq!(echo(&[]).code, 1);
    assert_eq!(echo(&["--mode", "bypass"]).code, 0);
    assert_eq!(echo(&[]).code, 0);
}

#[test]
fn nothing_that_haft_was_started_with_reaches_servers_or_hooks() {
    let Some(fixture) = fixture() else { return };
    let hook = "[[hooks.pre_tool_use]]\ncommand = \"ls /proc/self/fd > ../hook-files; exit 0\"\n";
    fixture.settings(&(settings("fault", &[]) + hook));
    let haft = fixture.haft(&["--mode", "bypass", "call", "mcp__fault__files"]);
    let mut shell = Command::new("sh");
    let line = "exec 7<one.txt 9</dev/null; exec \"$@\"";
    shell
        .args(["-c", line, "sh"])
        .arg(haft.get_program())
        .args(haft.get_args())
        .current_dir(fixture.base.join("ws"));
    shell.env_clear().envs(haft.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = RunOutput::of(shell.stdin(Stdio::null()).output().unwrap());
    assert_eq!(output.code, 0, "{output:?}");
    let hook = std::fs::read_to_string(fixture.base.join("hook-files")).unwrap();
    for files in [output.stdout, hook] {
        let files: Vec<&str> = files.split_whitespace().collect();
        assert!(files.contains(&"2") && !files.contains(&"7") && !files.contains(&"9"), "{files:?}");
    }
}

#[test]
fn a_server_that_fails_to_start_and_an_unknown_tool_are_explained() {
    let Some(fixture) = fixture() else { return };
    fixture.settings(&(settings("fault", &[]) + &settings("dead", &["exits"])));
    let dead = fixture.run(&["call", "mcp__dead__echo"]);
    assert_eq!(dead.code, 1);
    for word in ["`dead`", "code 7", "the port is taken", "haft mcp test dead"] {
        assert!(dead.stdout.contains(word), "{dead:?}");
    }
    assert!(!fixture.has("started-fault"));
    let unknown = fixture.run(&["call", "mcp__fault__ecco"]);
    assert!(unknown.stdout.contains("mcp__fault__echo"), "{unknown:?}");
}

#[test]
fn rules_about_files_hold_for_a_servers_tools() {
    let Some(fixture) = fixture() else { return };
    fixture.run(&["rules", "allow", "mcp__fault__*"]);
    fixture.run(&["rules", "deny", "Read(**/.env)"]);
    let absolute = format!("path={}/ws/.env", fixture.base.display());
    for path in ["path=.env", "path=./x/../.env", absolute.as_str()] {
        let read = fixture.run(&["call", "mcp__fault__peek", path]);
        assert_eq!(read.code, 1, "{read:?}");
        assert!(read.stdout.contains("Read(**/.env)"), "{read:?}");
    }
    // A server may normalize or trim a path before it uses it.
    let root = fixture.base.join("ws").display().to_string();
    let many: Vec<&str> = vec!["x"; 200].into_iter().chain([".env"]).collect();
    for input in [
        json!({"path": "aa:/../.env"}),
        json!({"path": "a\n/../.env"}),
        json!({"path": " .env"}),
        json!({"path": ".env\u{0}"}),
        json!({"path": format!("file://h{root}/.env")}),
        json!({"path": format!("file://{root}/%2eenv")}),
        json!({"path": "x", "q": format!(" FILE://{root}/.env")}),
        json!({"path": "x", "paths": many}),
    ] {
        let read = fixture.run(&["call", "mcp__fault__peek", &input.to_string()]);
        assert!(read.code == 1 && !read.stdout.starts_with("peek"), "{input}: {read:?}");
    }
    let elsewhere = json!({"path": "https://a.example/.env"}).to_string();
    assert_eq!(fixture.run(&["call", "mcp__fault__peek", &elsewhere]).code, 0);
    assert_eq!(fixture.run(&["call", "mcp__fault__peek", "path=one.txt"]).stdout, "peek one.txt\n");
    fixture.run(&["rules", "deny", "Edit(one.txt)"]);
    assert_eq!(fixture.run(&["call", "mcp__fault__peek", "path=one.txt"]).code, 0);
    assert_eq!(fixture.run(&["call", "mcp__fault__wipe", "path=one.txt"]).code, 1);
    let own = format!("path={}/home/.config/haft/config.toml", fixture.base.display());
    let guarded = fixture.run(&["--mode", "bypass", "call", "mcp__fault__wipe", &own]);
    assert!(guarded.stdout.contains("haft's own"), "{guarded:?}");
    let checked = fixture.run(&["rules", "check", "mcp__fault__peek", "path=.env"]);
    assert_eq!(checked.code, 1);
    assert!(checked.stdout.contains("deny"), "{checked:?}");
    let planning = fixture.run(&["--mode", "plan", "call", "mcp__fault__add", "a=1", "b=2"]);
    assert!(planning.stdout.contains("only plans"), "{planning:?}");
}

#[test]
fn hooks_see_a_servers_tools() {
    let Some(fixture) = fixture() else { return };
    let hook = "[[hooks.pre_tool_use]]\nmatcher = \"mcp__fault__.*\"\ncommand = \"cat > seen.json\"\n";
    fixture.settings(&(settings("fault", &[]) + hook));
    fixture.run(&["--mode", "bypass", "call", "mcp__fault__echo", "text=hello"]);
    let seen = std::fs::read_to_string(fixture.base.join("ws/seen.json")).unwrap();
    assert!(seen.contains("mcp__fault__echo") && seen.contains("hello"), "{seen}");
}

#[test]
fn a_projects_servers_are_started_once_it_is_trusted_with_them() {
    let Some(fixture) = fixture() else { return };
    fixture.settings("");
    fixture.write("ws/.mcp.json", &mcp_json("plain"));
    let call = ["--mode", "bypass", "call", "mcp__project__echo", "text=hello"];
    let before = fixture.run(&call);
    assert_eq!(before.code, 1, "{before:?}");
    assert!(before.stderr.contains(".mcp.json: mcpServers"), "{before:?}");
    assert!(before.stdout.contains("`haft trust`"), "{before:?}");
    let listed = fixture.run(&["--json", "mcp", "list"]).json();
    assert_eq!((&listed[0]["name"], &listed[0]["state"]), (&json!("project"), &json!("not trusted")));
    fixture.run(&["mcp", "test", "project"]).refused("not trusted");
    fixture.run(&["tools"]);
    let shown = fixture.run(&["trust"]);
    assert!(shown.stdout.contains("project would start: sh -c touch started-project"), "{shown:?}");
    assert!(!fixture.has("started-project"), "nobody agreed");
    assert_eq!(fixture.run(&["trust", "--yes"]).code, 0);
    assert_eq!(fixture.run(&call).stdout, "hello\n");
    // The settings have changed since they were trusted.
    std::fs::remove_file(fixture.base.join("ws/started-project")).unwrap();
    fixture.write("ws/.mcp.json", &mcp_json("other"));
    let changed = fixture.run(&call);
    assert!(changed.stderr.contains("have changed since it was trusted"), "{changed:?}");
    assert!(!fixture.has("started-project"));
    assert_eq!(fixture.run(&["trust", "--yes"]).code, 0);
    assert_eq!(fixture.run(&call).stdout, "hello\n");
}

#[test]
fn a_project_that_names_haft_as_a_server_does_not_start_haft_without_end() {
    let fixture = two_files();
    let own = env!("CARGO_BIN_EXE_haft");
    // Behind a script, haft cannot be recognised. The script limits the recursion in case of a bug. A server that only the
    // project asks for runs in the sandbox, so what it writes is in the workspace or in a temporary folder.
    let script = format!(
        "#!/bin/sh\necho x >> '{log}'\n[ $(wc -l < '{log}') -le 4 ] || exit 1\nexec '{own}' mcp --workspace '{ws}'\n",
        log = fixture.base.join("ws/log").display(),
        ws = fixture.base.join("ws").display(),
    );
    fixture.write("ws/wrapped", &script);
    let wrapped = fixture.base.join("ws/wrapped");
    std::fs::set_permissions(&wrapped, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let servers = json!({"mcpServers": {
        "itself": {"command": own, "args": ["mcp"]},
        "wrapped": {"command": wrapped, "env": {"HOME": fixture.base.join("home"), "XDG_STATE_HOME": "/tmp/state"}},
    }});
    fixture.write("ws/.mcp.json", &servers.to_string());
    fixture.settings(&format!("trusted = [{:?}]\n", fixture.base.join("ws")));
    let listed = fixture.run(&["mcp", "list"]);
    assert!(listed.stdout.contains("it is haft itself"), "{listed:?}");
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    let tools = client.request("tools/list", json!({}));
    let named = |start: &str| {
        let tools = tools["tools"].as_array().unwrap();
        tools.iter().any(|tool| tool["name"].as_str().is_some_and(|name| name.starts_with(start)))
    };
    assert!(named("mcp__wrapped__Read"), "the one behind the script works: {tools}");
    assert!(!named("mcp__wrapped__mcp__") && !named("mcp__itself__"), "{tools}");
    let read = client.call("mcp__wrapped__Read", json!({"file_path": "one.txt"}));
    assert_eq!(text_of(&read), ONE);
    // `mcp list` and the session each start it once.
    assert_eq!(fixture.read("log"), "x\nx\n");
}

#[test]
fn servers_in_a_projects_settings_need_trust_too() {
    let Some(fixture) = fixture() else { return };
    fixture.settings("");
    fixture.write("ws/.haft/config.toml", &settings("mine", &[]));
    let call = ["--mode", "bypass", "call", "mcp__mine__echo", "text=hello"];
    assert_eq!(fixture.run(&call).code, 1);
    assert!(!fixture.has("started-mine"));
    assert_eq!(fixture.run(&["trust", "--yes"]).code, 0);
    assert_eq!(fixture.run(&call).stdout, "hello\n");
}

#[test]
fn an_invalid_server_is_reported_with_file_server_and_key() {
    let fixture = two_files();
    let user = fixture.base.join("home/.config/haft/config.toml");
    for (written, words) in [
        ("[mcp.servers.a]\ncommand = \"x\"\nurl = \"http://x\"", &["`a`", "`command`", "`url`"][..]),
        ("[mcp.servers.a]\ncomand = \"x\"", &["comand", "line 2"]),
        ("[mcp.servers.a]\ncommand = \"x\"\ncall_seconds = 0", &["`a`", "`call_seconds`"]),
        ("[mcp.servers.a]\ncommand = \"x\"\nargs = \"y\"", &["args"]),
    ] {
        fixture.settings(written);
        let output = fixture.run(&["call", "Read", "file_path=one.txt"]);
        output.refused(user.to_str().unwrap());
        assert!(words.iter().all(|word| output.stderr.contains(word)), "{output:?}");
    }
    fixture.settings(&format!("trusted = [\"{}\"]", fixture.base.join("ws").display()));
    for (written, words) in
        [(r#"{"mcpServers": {"a": {"command": "x"}, "a": {"command": "y"}}}"#, &["a"][..]), ("{", &["JSON"])]
    {
        fixture.write("ws/.mcp.json", written);
        let output = fixture.run(&["call", "Read", "file_path=one.txt"]);
        output.refused(".mcp.json");
        assert!(words.iter().all(|word| output.stderr.contains(word)), "{output:?}");
    }
    // An invalid server is reported when it is used, and keys of other programs are ignored.
    fixture.write(
        "ws/.mcp.json",
        r#"{"inputs": [], "mcpServers": {"a": {"colour": 1}, "b": {"command": "true", "timeout": 1}}}"#,
    );
    assert_eq!(fixture.run(&["call", "Read", "file_path=one.txt"]).code, 0);
    let output = fixture.run(&["mcp", "test", "a"]);
    assert!(
        output.code == 1 && output.stdout.contains("neither") && output.stdout.contains("`colour`"),
        "{output:?}"
    );
    let output = fixture.run(&["mcp", "list"]);
    assert!(
        output.stdout.contains("its process ended with code 0") && !output.stdout.contains("timeout"),
        "{output:?}"
    );
    // Other programs use the file, too: an error in it matters only once haft uses it.
    fixture.settings("");
    fixture.write("ws/.mcp.json", "{");
    assert_eq!(fixture.run(&["call", "Read", "file_path=one.txt"]).code, 0);
    let trusted = fixture.run(&["trust", "--yes"]);
    assert_eq!(trusted.code, 2, "{trusted:?}");
    assert!(trusted.stderr.contains("nothing can be trusted that cannot be read"), "{trusted:?}");
}

#[test]
fn a_missing_variable_is_reported_when_the_server_is_used() {
    let fixture = two_files();
    fixture
        .settings("[mcp.servers.a]\nurl = \"http://127.0.0.1:9/mcp\"\nbearer_token = \"${NO_SUCH_TOKEN}\"");
    assert_eq!(fixture.run(&["call", "Read", "file_path=one.txt"]).code, 0);
    let output = fixture.run(&["mcp", "test", "a"]);
    assert_eq!(output.code, 1);
    assert!(
        output.stdout.contains("`bearer_token`") && output.stdout.contains("NO_SUCH_TOKEN"),
        "{output:?}"
    );
}

#[test]
fn servers_are_listed_and_tested() {
    let Some(fixture) = fixture() else { return };
    let off = "[mcp.servers.off]\ncommand = \"x\"\ndisabled = true\n";
    fixture.settings(&(settings("fault", &[]) + &settings("dead", &["exits"]) + off));
    let listed = fixture.run(&["--json", "mcp", "list"]).json();
    let states: Vec<(&str, &str)> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|row| (row["name"].as_str().unwrap(), row["state"].as_str().unwrap()))
        .collect();
    assert_eq!(states, [("dead", "fails"), ("fault", "works"), ("off", "disabled")]);
    assert!(
        listed[1]["tools"].as_u64().unwrap() > 20
            && listed[1]["from"].as_str().unwrap().ends_with("config.toml")
    );
    assert!(fixture.run(&["mcp", "list"]).stdout.contains("fault 1, protocol 2025-11-25"));
    let tested = fixture.run(&["--json", "mcp", "test", "fault"]).json();
    assert_eq!((&tested["name"], &tested["works"]), (&json!("fault"), &json!(true)));
    assert!(tested["latency_ms"].as_f64().unwrap() > 0.0);
    let dead = fixture.run(&["mcp", "test", "dead"]);
    assert_eq!(dead.code, 1);
    assert!(dead.stdout.contains("the port is taken"), "{dead:?}");
    fixture.run(&["mcp", "test", "fualt"]).refused("there is no MCP server `fualt`");
}

#[test]
fn the_tools_of_servers_are_defined_for_apis() {
    let Some(fixture) = fixture() else { return };
    let tools = fixture.run(&["tools", "--format", "anthropic"]).json();
    let names: Vec<&str> =
        tools.as_array().unwrap().iter().filter_map(|tool| tool["name"].as_str()).collect();
    assert!(names.contains(&"Read") && names.contains(&"mcp__fault__echo"), "{names:?}");
}

#[test]
fn a_batch_starts_a_server_once() {
    let Some(fixture) = fixture() else { return };
    let replies = fixture.batch(
        &["--mode", "bypass"],
        &[
            r#"{"name":"Read","input":{"file_path":"one.txt"}}"#,
            r#"[{"name":"mcp__fault__pid","input":{}},{"name":"mcp__fault__echo","input":{"text":"a"}}]"#,
            r#"{"dialect":"ally","calls":[{"name":"mcp__fault__pid","input":{}}]}"#,
        ],
    );
    assert_eq!(text(&replies[2]), "a");
    let pid = text(&replies[1]);
    // The dialect `ally` puts every reply into an object.
    let other = json!({"success": true, "error": "", "result": pid}).to_string();
    assert_eq!(text(&replies[3]), other, "another session of the same user");
    assert!(!Path::new("/proc").join(pid).exists(), "{pid} is still there");
}

#[test]
fn a_client_of_haft_has_the_tools_of_its_servers() {
    let Some(fixture) = fixture() else { return };
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    let listed = client.request("tools/list", json!({}));
    let has = |listed: &Value, name: &str| {
        listed["tools"].as_array().unwrap().iter().any(|tool| tool["name"] == name)
    };
    assert!(has(&listed, "mcp__fault__echo") && has(&listed, "Read"));
    let pid = client.call("mcp__fault__pid", json!({}));
    let pid = text_of(&pid).to_owned();
    // A change of the server's list is passed on.
    client.send_request("tools/call", json!({"name": "mcp__fault__grow", "arguments": {}}));
    while client.next()["method"] != "notifications/tools/list_changed" {}
    let listed = client.request("tools/list", json!({}));
    assert!(has(&listed, "mcp__fault__extra_0"));
    drop(client.stdin.take());
    assert!(client.child.wait().unwrap().success());
    assert!(!Path::new("/proc").join(&pid).exists(), "{pid} is still there");
}

#[test]
fn a_call_may_come_before_the_tools_were_listed() {
    let Some(fixture) = fixture() else { return };
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    assert_eq!(text_of(&client.call("mcp__fault__echo", json!({"text": "early"}))), "early");
}

#[test]
fn a_server_over_http_is_sent_its_token() {
    let other = two_files();
    other.write("token", "a-token-that-nobody-guesses");
    let file = other.base.join("token");
    let served = Server::start(&other, &["--token-file", file.to_str().unwrap()]);
    let fixture = Fixture::new(&[]);
    let url = format!("url = \"http://{}/mcp\"", served.address);
    fixture.settings(&format!(
        "[mcp.servers.haft]\n{url}\nbearer_token = \"${{TOKEN}}\"\n[mcp.servers.open]\n{url}\n"
    ));
    let mut call = fixture.haft(&["--mode", "bypass", "call", "mcp__haft__Read", "file_path=one.txt"]);
    let output = RunOutput::of(call.env("TOKEN", "a-token-that-nobody-guesses").output().unwrap());
    assert_eq!((output.code, output.stdout.trim_end()), (0, ONE), "{output:?}");
    let mut wrong = fixture.haft(&["mcp", "test", "haft"]);
    let output = RunOutput::of(wrong.env("TOKEN", "another-token-altogether").output().unwrap());
    assert_eq!(output.code, 1, "{output:?}");
    assert!(output.stdout.contains("wants to know for whom"), "{output:?}");
    assert!(!output.stdout.contains("another-token"), "a token is not told");
    let none = fixture.run(&["mcp", "test", "open"]);
    assert!(none.stdout.contains("haft mcp login open"), "{none:?}");
}

#[test]
fn read_only_hints_are_trusted_only_with_the_setting() {
    let Some(fixture) = fixture() else { return };
    assert_eq!(fixture.run(&["call", "mcp__fault__echo", "text=a"]).code, 1);
    fixture.settings(&(settings("fault", &[]) + "believe_read_only = true\n"));
    assert_eq!(fixture.run(&["call", "mcp__fault__echo", "text=a"]).stdout, "a\n");
    assert_eq!(fixture.run(&["--mode", "plan", "call", "mcp__fault__echo", "text=a"]).stdout, "a\n");
    assert_eq!(
        fixture.run(&["call", "mcp__fault__add", "a=1", "b=2"]).code,
        1,
        "it does not say so of itself"
    );
}

#[test]
fn a_servers_question_reaches_the_user_of_hafts_client() {
    let Some(fixture) = fixture() else { return };
    let mut client = Client::start(&fixture, &["--mode", "bypass"]);
    client.initialize(json!({"elicitation": {}}));
    let call = json!({"name": "mcp__fault__ask", "arguments": {}});
    let id = client.send_request("tools/call", call);
    let reply = loop {
        let message = client.next();
        if message["method"] == "elicitation/create" {
            let field = &message["params"]["requestedSchema"]["properties"]["answer_1"]["enum"][0];
            let content = if field.is_null() { json!({"other_1": "7"}) } else { json!({"answer_1": field}) };
            let answer = json!({"action": "accept", "content": content});
            client.send(&json!({"jsonrpc": "2.0", "id": message["id"], "result": answer}));
        } else if message["id"] == id {
            break message;
        }
    };
    let answered: Value = serde_json::from_str(text_of(&reply["result"])).unwrap();
    assert_eq!(answered["content"], json!({"colour": "green", "count": 7}), "{reply}");
}

#[test]
fn invisible_characters_in_a_list_of_servers_are_escaped() {
    let fixture = two_files();
    fixture.settings(&format!("trusted = [\"{}\"]", fixture.base.join("ws").display()));
    let hidden =
        ['\u{e0041}', '\u{e0100}', '\u{ad}', '\u{61c}', '\u{115f}', '\u{180e}', '\u{3164}', '\u{fffa}'];
    let text: String = hidden.iter().collect();
    let server = json!({"command": format!("no-such{text}"), "args": [format!("-x{text}")]});
    let name = format!("files{text}");
    fixture.write("ws/.mcp.json", &json!({"mcpServers": {&name: server}}).to_string());
    for args in [&["mcp", "list"][..], &["mcp", "test", &name]] {
        let shown = fixture.run(args);
        let shown = format!("{}{}", shown.stdout, shown.stderr);
        assert!(shown.contains("files") || shown.contains("no-such"), "{shown}");
        assert!(!shown.contains(hidden), "{args:?}: {}", shown.escape_unicode());
    }
    assert!(fixture.run(&["mcp", "list"]).stdout.contains("files\\u{e0041}"));
}

#[test]
fn a_servers_folder_may_begin_in_the_home() {
    let Some(fixture) = fixture() else { return };
    std::fs::create_dir_all(fixture.base.join("home/own")).unwrap();
    for (cwd, place) in [("~", "home"), ("~/own", "home/own"), ("own", "ws/own"), ("~own", "ws/~own")] {
        std::fs::create_dir_all(fixture.base.join(place)).unwrap();
        fixture.settings(&(settings("fault", &[]) + &format!("cwd = \"{cwd}\"\n")));
        assert_eq!(
            fixture.run(&["--mode", "bypass", "call", "mcp__fault__echo", "text=7"]).stdout,
            "7\n",
            "{cwd}"
        );
        assert!(fixture.base.join(place).join("started-fault").exists(), "{cwd}");
    }
    fixture.settings(&(settings("fault", &[]) + "cwd = \"~/own\"\n"));
    let mut homeless = fixture.haft(&["mcp", "test", "fault"]);
    homeless.env("HOME", "").env("XDG_CONFIG_HOME", fixture.base.join("home/.config"));
    let told = RunOutput::of(homeless.output().unwrap());
    assert!(told.code == 1 && told.stdout.contains("`cwd`") && told.stdout.contains("HOME"), "{told:?}");
}

#[test]
fn output_schemas_of_servers_are_passed_on_with_the_content() {
    let Some(fixture) = fixture() else { return };
    let mut client = Client::ready(&fixture, &["--mode", "bypass"]);
    let listed = client.request("tools/list", json!({}));
    let tools = listed["tools"].as_array().unwrap();
    let named = |name: &str| tools.iter().find(|tool| tool["name"] == name).unwrap();
    let promised = &named("mcp__fault__structured")["outputSchema"];
    assert_eq!((&promised["type"], &promised["required"]), (&json!("object"), &json!(["degrees"])));
    assert!(promised.get("additionalProperties").is_none(), "haft says there what it has cut: {promised}");
    assert!(named("mcp__fault__echo").get("outputSchema").is_none());
    let answer = client.call("mcp__fault__structured", json!({}));
    assert_eq!(answer["structuredContent"], json!({"degrees": 21}), "{answer}");
}

/// A project with a server that writes down what it could do: write outside of the workspace, and see networks.
fn curious_server() -> Option<Fixture> {
    let fixture = fixture()?;
    fixture.settings("");
    let probe = "echo x > \\\"$HOME/out.txt\\\" || echo kept-in > in.txt; ls /sys/class/net /proc/net/dev_snmp6 > nets.txt";
    let line = format!("{}; exec python3 {}", probe.replace('\\', ""), script());
    let text = json!({"mcpServers": {"project": {"command": "sh", "args": ["-c", line]}}}).to_string();
    std::fs::write(fixture.base.join("ws/.mcp.json"), text).unwrap();
    let trusted = fixture.run(&["trust", "--yes"]);
    assert_eq!(trusted.code, 0, "{trusted:?}");
    Some(fixture)
}

#[test]
fn a_server_that_only_the_project_asks_for_runs_in_the_sandbox() {
    let Some(fixture) = curious_server() else { return };
    let call = ["--mode", "bypass", "call", "mcp__project__echo", "text=7"];
    let called = fixture.run(&call);
    assert_eq!((called.code, called.stdout.as_str()), (0, "7\n"), "{called:?}");
    assert!(!fixture.base.join("home/out.txt").exists());
    assert!(fixture.has("in.txt"));
    // The user can let it out.
    let own = std::fs::read_to_string(fixture.base.join("home/.config/haft/config.toml")).unwrap();
    fixture.settings(&format!("{own}\n[mcp]\nfree = [\"project\"]\n"));
    assert_eq!(fixture.run(&call).stdout, "7\n");
    assert!(fixture.base.join("home/out.txt").exists());
}

#[test]
fn a_server_in_the_sandbox_that_fails_is_told_to_be_there() {
    let Some(fixture) = fixture() else { return };
    fixture.settings("");
    std::fs::write(fixture.base.join("ws/.mcp.json"), mcp_json("exits")).unwrap();
    fixture.run(&["trust", "--yes"]);
    let dead = fixture.run(&["call", "mcp__project__echo"]);
    for word in ["code 7", "the port is taken", "in the sandbox", "mcp.network", "mcp.free"] {
        assert!(dead.stdout.contains(word), "{word}: {dead:?}");
    }
}

#[test]
fn a_project_cannot_let_its_own_servers_out_of_the_sandbox() {
    let Some(fixture) = curious_server() else { return };
    std::fs::create_dir_all(fixture.base.join("ws/.haft")).unwrap();
    for key in ["free", "network"] {
        let text = format!("[mcp]\n{key} = [\"project\"]\n");
        std::fs::write(fixture.base.join("ws/.haft/config.toml"), text).unwrap();
        let refused = fixture.run(&["call", "Read", "file_path=one.txt"]);
        assert_ne!(refused.code, 0);
        assert!(refused.stderr.contains(&format!("`mcp.{key}`")), "{refused:?}");
    }
}

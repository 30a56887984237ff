//! Real programs of projects. They print times and hashes, so these tests cannot be cases.

use super::*;

impl Fixture {
    /// A call in a dialect, with the programs that whoever runs the tests has.
    fn ask(&self, dialect: &str, mode: &str, tool: &str, input: Value) -> (i32, Value) {
        let mut command =
            self.haft(&["--dialect", dialect, "--mode", mode, "call", tool, &input.to_string()]);
        let home = PathBuf::from(std::env::var_os("HOME").unwrap());
        for (name, folder) in [("RUSTUP_HOME", ".rustup"), ("CARGO_HOME", ".cargo")] {
            let own = std::env::var_os(name).map(PathBuf::from).unwrap_or_else(|| home.join(folder));
            command.env(name, own);
        }
        let output = RunOutput::of(command.stdin(Stdio::null()).output().unwrap());
        let value =
            serde_json::from_str(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
        (output.code, value)
    }

    fn git(&self, args: &[&str]) {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]).args(args);
        let output = command.current_dir(self.base.join("ws")).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
    }
}

#[test]
fn tests_of_a_rust_project() {
    if !require(Need::Cargo) {
        return;
    }
    let text = "#[test]\nfn adds() {\n    assert_eq!(1 + 1, 2);\n}\n#[test]\nfn breaks() {\n    panic!(\"on purpose\");\n}\n";
    let manifest = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";
    let fixture = Fixture::new(&[("app/Cargo.toml", manifest), ("app/src/lib.rs", text)]);
    let (code, reply) = fixture.ask("workspace", "default", "run_tests", json!({"path": "app/src"}));
    assert_eq!(code, 0, "{reply}");
    let value = &reply["value"];
    assert_eq!(
        (&value["passed"], &value["failed"], &value["success"]),
        (&json!(1), &json!(1), &json!(false)),
        "{reply}"
    );
    let failure = &value["failures"][0];
    assert_eq!((&failure["test"], &failure["message"]), (&json!("breaks"), &json!("on purpose")), "{reply}");
    assert_eq!((&failure["file"], &failure["line"]), (&json!("app/src/lib.rs"), &json!(7)), "{reply}");
    let (_, reply) =
        fixture.ask("workspace", "default", "run_tests", json!({"path": "app", "filter": "adds"}));
    assert_eq!((&reply["value"]["passed"], &reply["value"]["success"]), (&json!(1), &json!(true)), "{reply}");
}

#[test]
fn a_rust_project_that_does_not_compile() {
    if !require(Need::Cargo) {
        return;
    }
    let manifest = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";
    let fixture =
        Fixture::new(&[("Cargo.toml", manifest), ("src/lib.rs", "pub fn f() -> u8 {\n    \"no\"\n}\n")]);
    let (_, reply) = fixture.ask("workspace", "default", "run_tests", json!({}));
    let failure = &reply["value"]["failures"][0];
    assert_eq!(
        (&failure["file"], &failure["line"], &failure["code"]),
        (&json!("src/lib.rs"), &json!(2), &json!("E0308")),
        "{reply}"
    );
    assert_eq!(reply["value"]["passed"], Value::Null);
    let rustfmt = fixture.ask("workspace", "accept-edits", "format_code", json!({"paths": ["src/lib.rs"]}));
    if require(Need::Rustfmt) {
        assert_eq!(rustfmt.1["value"]["files"], json!([]), "{}", rustfmt.1);
    }
}

#[test]
fn a_rust_file_is_formatted() {
    if !(require(Need::Cargo) && require(Need::Rustfmt)) {
        return;
    }
    let manifest = "[package]\nname = \"small\"\nversion = \"0.1.0\"\nedition = \"2021\"\n[workspace]\n";
    let fixture = Fixture::new(&[("Cargo.toml", manifest), ("src/lib.rs", "pub fn f( ) { }\n")]);
    let (_, reply) = fixture.ask("workspace", "default", "format_code", json!({"check": true}));
    assert_eq!(
        (&reply["value"]["files"], &reply["value"]["formatted"]),
        (&json!(["src/lib.rs"]), &json!(false)),
        "{reply}"
    );
    let (_, reply) = fixture.ask("workspace", "accept-edits", "format_code", json!({}));
    assert_eq!(reply["value"]["formatted"], json!(true), "{reply}");
    assert_eq!(std::fs::read_to_string(fixture.base.join("ws/src/lib.rs")).unwrap(), "pub fn f() {}\n");
}

#[test]
fn tests_of_a_python_project() {
    if !require(Need::Python) {
        return;
    }
    let text = "import unittest\n\nclass T(unittest.TestCase):\n    def test_good(self):\n        pass\n\n    def test_bad(self):\n        self.fail('on purpose')\n";
    let fixture = Fixture::new(&[("pyproject.toml", "[project]\nname = 'x'\n"), ("test_a.py", text)]);
    let (_, reply) = fixture.ask("workspace", "default", "run_tests", json!({}));
    let value = &reply["value"];
    assert_eq!((&value["passed"], &value["failed"]), (&json!(1), &json!(1)), "{reply}");
    assert_eq!(
        (&value["failures"][0]["file"], &value["failures"][0]["line"]),
        (&json!("test_a.py"), &json!(8)),
        "{reply}"
    );
    let left: Vec<_> = std::fs::read_dir(fixture.base.join("ws")).unwrap().collect();
    assert_eq!(left.len(), 2, "tests leave nothing behind: {left:?}");
}

#[test]
fn tests_of_a_node_project() {
    if !(require(Need::Node) && require(Need::Npm)) {
        return;
    }
    let text = "const test = require('node:test');\ntest('good', () => {});\ntest('bad', () => { throw new Error('on purpose'); });\n";
    let manifest = r#"{"scripts": {"test": "node --test --test-reporter=tap"}}"#;
    let fixture = Fixture::new(&[("package.json", manifest), ("a.test.js", text)]);
    let (_, reply) = fixture.ask("workspace", "default", "run_tests", json!({}));
    let value = &reply["value"];
    assert_eq!((&value["passed"], &value["failed"]), (&json!(1), &json!(1)), "{reply}");
    let failure = &value["failures"][0];
    assert_eq!(
        (&failure["test"], &failure["file"], &failure["line"]),
        (&json!("bad"), &json!("a.test.js"), &json!(3)),
        "{reply}"
    );
}

#[test]
fn commits_are_made_and_replaced() {
    if !require(Need::Git) {
        return;
    }
    let fixture = Fixture::new(&[("a.txt", "one\n")]);
    fixture.write("home/.gitconfig", "[user]\nname = Ada\nemail = ada@example.com\n");
    fixture.git(&["init", "-q", "-b", "main"]);
    // The test's home is in `/tmp`, which is private in the sandbox.
    fixture.git(&["config", "user.name", "Ada"]);
    fixture.git(&["config", "user.email", "ada@example.com"]);
    let (code, reply) = fixture.ask("workspace", "accept-edits", "git_add", json!({"paths": ["a.txt"]}));
    assert_eq!((code, &reply["value"]["entries"][0]["staged"]), (0, &json!("A")), "{reply}");
    let (code, reply) = fixture.ask(
        "workspace",
        "accept-edits",
        "git_commit",
        json!({"message": "Begin\n\nIt is $(not) run."}),
    );
    assert_eq!(code, 0, "{reply}");
    let commit = &reply["value"]["commit"];
    assert_eq!(
        (&commit["subject"], &commit["body"], &commit["author"]),
        (&json!("Begin"), &json!("It is $(not) run."), &json!("Ada"))
    );
    assert_eq!(reply["value"]["files"], json!([{"path": "a.txt", "added": 1, "removed": 0}]));
    fixture.write("ws/a.txt", "one\ntwo\n");
    let (_, reply) = fixture.ask(
        "workspace",
        "bypass",
        "git_commit",
        json!({"message": "Begin better", "all": true, "amend": true}),
    );
    assert_eq!(
        (&reply["value"]["commit"]["subject"], &reply["value"]["commit"]["parents"]),
        (&json!("Begin better"), &json!([])),
        "{reply}"
    );
    let (_, reply) = fixture.ask("workspace", "default", "git_status", json!({}));
    assert_eq!(
        (&reply["value"]["clean"], &reply["value"]["branch"]),
        (&json!(true), &json!("main")),
        "{reply}"
    );
}

#[test]
fn git_reads_run_nothing_of_the_repository() {
    if !require(Need::Git) {
        return;
    }
    let fixture = Fixture::new(&[("a.txt", "one\n"), (".gitattributes", "*.txt diff=evil\n")]);
    fixture.git(&["init", "-q", "-b", "main"]);
    fixture.git(&["add", "."]);
    fixture.git(&["commit", "-q", "-m", "Begin"]);
    let evil = format!("touch {}", fixture.base.join("ws/planted").display());
    for key in ["core.fsmonitor", "core.pager", "diff.external", "diff.evil.command", "diff.evil.textconv"] {
        fixture.git(&["config", key, &evil]);
    }
    fixture.write("ws/a.txt", "two\n");
    for (tool, input) in
        [("git_status", json!({})), ("git_diff", json!({})), ("git_show", json!({})), ("git_log", json!({}))]
    {
        let (code, reply) = fixture.ask("workspace", "default", tool, input);
        assert_eq!(code, 0, "{tool}: {reply}");
        assert!(!fixture.base.join("ws/planted").exists(), "{tool} ran what the repository says");
        if tool == "git_diff" {
            assert!(reply["value"]["diff"].as_str().unwrap().contains("+two"), "{reply}");
        }
    }
}

#[test]
fn a_linked_working_tree_is_worked_in_like_any_other() {
    if !require(Need::Git) {
        return;
    }
    let fixture = Fixture::new(&[]);
    let main = fixture.base.join("main");
    let git = |args: &[&str]| {
        let mut command = Command::new("git");
        command.args(["-c", "user.name=Ada", "-c", "user.email=ada@example.com", "-C"]).arg(&main).args(args);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    fixture.write("main/a.txt", "one\n");
    let ws = fixture.base.join("ws");
    std::fs::remove_dir(&ws).unwrap();
    git(&["init", "-q", "-b", "main"]);
    git(&["add", "."]);
    git(&["commit", "-q", "-m", "Begin"]);
    git(&["worktree", "add", "-q", "../other"]);
    git(&["worktree", "add", "-q", "../ws"]);

    let bash = |mode: &str, command: &str| {
        fixture.run(&["--mode", mode, "call", "Bash", &json!({"command": command}).to_string()])
    };
    fixture.write("ws/a.txt", "two\n");
    assert_eq!(bash("default", "git status --short").stdout, " M a.txt\n");
    let output = bash("bypass", "git -c user.name=Ada -c user.email=a@example.com commit -qam Second");
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(git(&["log", "--format=%s", "ws"]), "Second\nBegin\n");

    // A repository may name its trees by relative paths.
    std::fs::write(main.join(".git/worktrees/ws/gitdir"), "../../../../ws/.git\n").unwrap();
    let output =
        bash("bypass", "git -c user.name=Ada -c user.email=a@example.com commit -q --allow-empty -m Third");
    assert_eq!(output.code, 0, "{output:?}");

    // Files that make git run programs, and those of other trees, cannot be changed.
    for place in ["hooks/post-commit", "config", "worktrees/other/commondir", "worktrees/ws/commondir"] {
        let path = main.join(".git").join(place);
        let before = std::fs::read(&path).ok();
        bash("bypass", &format!("echo evil >> '{}'", path.display()));
        assert_eq!(std::fs::read(&path).ok(), before, "{place}");
    }
    // A tree that the repository does not name gets no access.
    let claimed = fixture.base.join("claimed");
    std::fs::create_dir(&claimed).unwrap();
    let git_file = std::fs::read_to_string(ws.join(".git")).unwrap();
    std::fs::write(claimed.join(".git"), git_file).unwrap();
    let object = main.join(".git/objects/planted");
    let input = json!({"command": format!("touch '{}'", object.display())}).to_string();
    let mut command = fixture.haft(&["--mode", "bypass", "call", "Bash", &input]);
    command.arg("--workspace").arg(&claimed);
    command.output().unwrap();
    assert!(!object.exists());
}

#[test]
fn long_code_runs_as_it_is() {
    let fixture = Fixture::new(&[]);
    let code = format!("# {}\necho end", "é".repeat(200_000));
    let input = json!({"language": "bash", "code": code}).to_string();
    let output = fixture.run_with(&["--dialect", "workspace", "call", "run_code", "-"], &input);
    let reply: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(reply["value"]["stdout"], json!("end\n"), "{output:?}");
    let long = json!({"language": "bash", "code": format!("# {}", "x".repeat(1 << 20))}).to_string();
    let output = fixture.run_with(&["--dialect", "workspace", "call", "run_code", "-"], &long);
    assert!(output.stdout.contains("TOO_LARGE"), "{output:?}");
}

#[test]
fn a_missing_program_is_named_with_how_to_get_it() {
    let fixture = Fixture::new(&[("pyproject.toml", ""), ("go/go.mod", "module x\n")]);
    let calls = [
        ("run_code", json!({"language": "python", "code": "1"}), "python3"),
        ("install_package", json!({"names": ["x"], "manager": "poetry"}), "poetry"),
        ("format_code", json!({"check": true}), "ruff"),
        ("run_tests", json!({"path": "go"}), "go"),
        ("git_status", json!({}), "git"),
    ];
    for (tool, input, program) in calls {
        let mut command =
            fixture.haft(&["--dialect", "workspace", "--mode", "bypass", "call", tool, &input.to_string()]);
        let output = RunOutput::of(
            command.env("PATH", fixture.base.join("nothing")).stdin(Stdio::null()).output().unwrap(),
        );
        let reply: Value = serde_json::from_str(&output.stdout).unwrap();
        let error = &reply["error"];
        let message = error["message"].as_str().unwrap();
        assert!(message.starts_with(&format!("`{program}` is not installed")), "{tool}: {message}");
        assert!(error["details"]["hint"].as_str().unwrap().contains("have the user"), "{tool}: {error}");
    }
}

/// A repository with one commit, and a bare one outside of the workspace as its remote `origin`.
fn with_remote() -> Fixture {
    let fixture = Fixture::new(&[("a.txt", "one\n")]);
    let remote = fixture.base.join("remote.git");
    fixture.git(&["init", "-q", "--bare", "-b", "main", remote.to_str().unwrap()]);
    fixture.git(&["init", "-q", "-b", "main"]);
    fixture.git(&["add", "."]);
    fixture.git(&["commit", "-q", "-m", "Begin"]);
    fixture.git(&["remote", "add", "origin", "../remote.git"]);
    fixture
}

/// The subject of the last commit of the remote's branch.
fn pushed(fixture: &Fixture) -> String {
    let output = Command::new("git")
        .args([
            "--git-dir",
            fixture.base.join("remote.git").to_str().unwrap(),
            "log",
            "-1",
            "--format=%s",
            "main",
        ])
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn a_push_is_always_asked_about_with_what_goes_where() {
    let fixture = with_remote();
    fixture.run(&["rules", "allow", "git_push", "Bash(git push)"]);
    let push = ["--dialect", "workspace", "call", "git_push", "{}"];
    let denied = fixture.run(&push);
    assert_eq!((denied.code, pushed(&fixture).as_str()), (1, ""), "{denied:?}");
    let mut seat = super::seat::Seat::take(&fixture, &push, &[]);
    seat.sees("> ");
    let shown = seat.shown();
    for part in [
        "DANGEROUS",
        "`main` would be pushed to `origin`, ../remote.git: 1 commit\n(",
        "Begin",
        "to ../remote.git",
    ] {
        assert!(shown.contains(part), "`{part}` is not in {shown}");
    }
    assert!(!shown.contains("[s]"), "{shown}");
    seat.types("y");
    assert_eq!(seat.ends(), 0, "{}", seat.shown());
    assert_eq!(pushed(&fixture), "Begin");
}

#[test]
fn a_push_goes_to_a_repository_on_this_machine() {
    let fixture = with_remote();
    let ask = |input: Value| fixture.ask("workspace", "bypass", "git_push", input);
    let (code, reply) = ask(json!({"set_upstream": "yes"}));
    let value = &reply["value"];
    assert_eq!(
        (code, &value["status"], &value["remote"]),
        (0, &json!("created"), &json!("origin")),
        "{reply}"
    );
    assert_eq!(
        (&value["branch"], &value["commits"][0]["subject"]),
        (&json!("main"), &json!("Begin")),
        "{reply}"
    );
    assert_eq!(ask(json!({})).1["value"]["status"], "up_to_date");
    fixture.git(&["commit", "-q", "--allow-empty", "-m", "Second"]);
    let url = format!("file://{}", fixture.base.join("remote.git").display());
    fixture.git(&["remote", "set-url", "origin", &url]);
    let (_, reply) = ask(json!({"remote": "origin", "branch": "main"}));
    assert_eq!(
        (&reply["value"]["status"], &reply["value"]["urls"][0]),
        (&json!("updated"), &json!(url)),
        "{reply}"
    );
    assert_eq!(pushed(&fixture), "Second");
    // What the remote has is not replaced, unless that is asked for.
    fixture.git(&["commit", "-q", "--amend", "--allow-empty", "-m", "Other"]);
    let (code, reply) = ask(json!({}));
    assert_eq!((code, &reply["error"]["code"]), (1, &json!("CONFLICT")), "{reply}");
    assert_eq!(pushed(&fixture), "Second");
    assert_eq!(ask(json!({"force": true})).1["value"]["status"], "forced");
    assert_eq!(pushed(&fixture), "Other");
    // Hooks get no network, and so do not run. Those of the other repository cannot be changed.
    fixture.write("ws/.git/hooks/pre-push", "#!/bin/sh\ntouch ran\nexit 1\n");
    let hook = fixture.base.join("ws/.git/hooks/pre-push");
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    fixture.write(
        "remote.git/hooks/post-receive",
        "#!/bin/sh\necho x > hooks/planted; echo x >> config; echo ran\n",
    );
    let hook = fixture.base.join("remote.git/hooks/post-receive");
    std::fs::set_permissions(&hook, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    fixture.git(&["commit", "-q", "--allow-empty", "-m", "Last"]);
    let (code, reply) = ask(json!({}));
    assert_eq!(pushed(&fixture), "Last");
    assert!(!fixture.base.join("remote.git/hooks/planted").exists());
    assert!(!std::fs::read_to_string(fixture.base.join("remote.git/config")).unwrap().contains('x'));
    assert!(code == 0 && reply["notes"].to_string().contains("`pre-push` did not run"), "{reply}");
    assert!(!fixture.base.join("ws/ran").exists());
}

#[test]
fn a_push_that_cannot_work_says_why() {
    let fixture = with_remote();
    let ask = |input: Value| fixture.ask("workspace", "bypass", "git_push", input).1["error"].clone();
    let told = |error: &Value, part: &str| assert!(error.to_string().contains(part), "{error}");
    told(&ask(json!({"remote": "orgin"})), "there is no remote `orgin`");
    told(&ask(json!({"branch": "mian"})), "did you mean `main`?");
    told(&ask(json!({"remote": "https://example.com/x.git"})), "is no name of a remote");
    told(&ask(json!({"remote": "--receive-pack=touch x"})), "like an option");
    fixture.git(&["remote", "set-url", "origin", "../nowhere.git"]);
    told(&ask(json!({})), "is no repository");
    fixture.git(&["remote", "set-url", "origin", "ext::sh -c touch%20ran"]);
    ask(json!({}));
    assert!(!fixture.base.join("ws/ran").exists());
    fixture.git(&["checkout", "-q", "--detach"]);
    told(&ask(json!({})), "no branch is checked out");
    fixture.git(&["checkout", "-q", "main"]);
    fixture.git(&["remote", "remove", "origin"]);
    told(&ask(json!({})), "the repository has no remote");
    std::fs::remove_dir_all(fixture.base.join("ws/.git")).unwrap();
    told(&ask(json!({})), "is in no git repository");
    fixture.git(&["init", "-q", "-b", "main"]);
    told(&ask(json!({})), "the repository has no commit yet");
    fixture.settings("[permissions]\ndeny = [\"Bash(git push:*)\"]\n");
    told(&ask(json!({})), "denied by the rule");
}

/// A server on loopback that wants credentials, as hosts of repositories do.
#[test]
fn a_push_without_credentials_says_how_to_push() {
    let fixture = with_remote();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = [0; 4096];
            let _ = std::io::Read::read(&mut stream, &mut head);
            let answer = "HTTP/1.1 401 Unauthorized\r\nWWW-Authenticate: Basic realm=\"x\"\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    let url = format!("http://me:secret@127.0.0.1:{port}/x.git");
    fixture.git(&["remote", "set-url", "origin", &url.replace("me:secret@", "")]);
    let (code, reply) = fixture.ask("workspace", "bypass", "git_push", json!({}));
    let error = reply["error"].to_string();
    assert_eq!((code, &reply["error"]["code"]), (1, &json!("PERMISSION_DENIED")), "{reply}");
    assert!(error.contains("wants credentials, which the sandbox hides"), "{error}");
    assert!(error.contains("`git push origin main` in a terminal"), "{error}");
    fixture.git(&["remote", "set-url", "origin", &url]);
    let (_, reply) = fixture.ask("workspace", "bypass", "git_push", json!({}));
    assert!(!reply.to_string().contains("secret"), "{reply}");
}

//! `haft rules`, `haft audit` and `haft trust`.

use super::*;

#[test]
fn a_rule_is_added_checked_and_removed() {
    let fixture = two_files();
    assert!(fixture.run(&["rules"]).stdout.contains("there are no rules"));
    let check = ["rules", "check", "Bash", "command=git push"];
    let asked = fixture.run(&check);
    assert_eq!((asked.code, asked.stdout.starts_with("ask: ")), (1, true), "{asked:?}");
    assert_eq!(
        fixture.run(&["rules", "allow", "Bash(git push:*)"]).stdout,
        "allow Bash(git push:*) in this project\n"
    );
    let allowed = fixture.run(&check);
    assert_eq!(allowed.code, 0, "{allowed:?}");
    for part in ["allow: by the rule `Bash(git push:*)`", "runs   git push", "held by", "the sandbox"] {
        assert!(allowed.stdout.contains(part), "`{part}` is not in {}", allowed.stdout);
    }
    fixture.run(&["rules", "deny", "--user", "Bash(git push:*)"]);
    assert!(fixture.run(&check).stdout.starts_with("deny: "), "the strictest wins");
    let listed = fixture.run(&["--json", "rules"]).json();
    assert_eq!(listed[0]["effect"], "deny");
    assert_eq!((&listed[1]["effect"], &listed[1]["from"]), (&json!("allow"), &json!("this project")));
    assert_eq!(fixture.run(&["rules", "remove", "--user", "Bash(git push:*)"]).code, 0);
    assert_eq!(fixture.run(&check).code, 0);
    assert_eq!(fixture.run(&["rules", "remove", "Bash(git push:*)"]).code, 0);
    assert_eq!(fixture.run(&check).code, 1);
    fixture.run(&["rules", "remove", "Bash(git push:*)"]).refused("there is no rule `Bash(git push:*)`");
    fixture.run(&["rules", "allow", "Bash("]).refused("is no rule");
    fixture.run(&["rules", "deny", "Raed(.env)"]).refused("there is no tool `Raed`; perhaps `Read`");
    fixture.run(&["rules", "allow", "word_count(a)"]).refused("takes nothing in brackets");
}

#[test]
fn a_rule_can_be_about_a_tool_that_a_program_adds() {
    let fixture = two_files();
    let added = fixture.run(&["rules", "allow", "word_count"]);
    assert_eq!((added.code, added.stdout.as_str()), (0, "allow word_count in this project\n"));
    assert!(added.stderr.contains("no tool of haft's own is called `word_count`"), "{added:?}");
    assert_eq!(fixture.run(&["call", "Read", "file_path=one.txt"]).code, 0, "the settings can still be read");
}

#[test]
fn the_rest_of_the_users_settings_stays_as_it_is() {
    let fixture = two_files();
    let before =
        "# mine\nmode = \"default\" # careful\n\n[permissions]\nallow = [\n    \"Read\", # of course\n]\n";
    fixture.settings(before);
    assert_eq!(fixture.run(&["rules", "allow", "--user", "Edit(docs/**)"]).code, 0);
    let read = || std::fs::read_to_string(fixture.base.join("home/.config/haft/config.toml")).unwrap();
    for part in ["# mine", "# careful", "# of course", "Edit(docs/**)"] {
        assert!(read().contains(part), "`{part}` is not in {}", read());
    }
    assert_eq!(fixture.run(&["rules", "remove", "--user", "Edit(docs/**)"]).code, 0);
    assert!(!read().contains("Edit(docs/**)") && read().contains("\"Read\", # of course"));
}

#[test]
fn every_decision_is_audited_and_tampering_is_detected() {
    let fixture = two_files();
    fixture.settings("[permissions]\ndeny = [\"Read(two.txt)\"]\nallow = [\"Edit(one.txt)\"]\n");
    let calls = [
        r#"{"id":"a","name":"Read","input":{"file_path":"one.txt"}}"#,
        r#"{"id":"b","name":"Read","input":{"file_path":"two.txt"}}"#,
        r#"{"id":"c","name":"Edit","input":{"file_path":"one.txt","old_string":"one","new_string":"1"}}"#,
        r#"{"id":"d","name":"Write","input":{"file_path":"three.txt","content":"x"}}"#,
    ];
    fixture.batch(&["--session", "mine"], &calls);
    let told = fixture.run(&["--json", "audit"]).json();
    let of = |n: usize, field: &str| told["lines"][n][field].as_str().unwrap().to_owned();
    assert_eq!((of(0, "decision"), of(0, "by")), ("allowed".into(), "the rule `Edit(one.txt)`".into()));
    assert_eq!(of(1, "decision"), "denied");
    assert!(of(1, "by").contains("Read(two.txt)"));
    assert_eq!((of(2, "decision"), of(2, "by")), ("allowed".into(), "the rule `Edit(one.txt)`".into()));
    assert_eq!(of(3, "decision"), "denied");
    assert_eq!((told["whole"].as_bool(), of(3, "session")), (Some(true), "mine".into()));
    let shown = fixture.run(&["audit"]);
    assert!(shown.code == 0 && shown.stdout.contains("all 4 lines are as they were written"), "{shown:?}");

    let replayed = fixture.run(&["rules", "replay", "mine"]).stdout;
    assert!(replayed.ends_with("of 4 calls would end otherwise\n"), "{replayed}");
    fixture.settings("");
    let replayed = fixture.run(&["rules", "replay", "mine"]).stdout;
    assert!(replayed.contains("Read was denied, now allowed"), "{replayed}");
    fixture.run(&["rules", "replay", "yours"]).refused("nothing is known of a session `yours`");

    let file = fixture.state().join("audit.jsonl");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replacen("denied", "allowed", 1)).unwrap();
    let changed = fixture.run(&["audit"]);
    assert!(changed.code == 1 && changed.stdout.contains("from line 2 on"), "{changed:?}");
    for entry in std::fs::read_dir(fixture.state()).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().starts_with("audit.") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    let gone = fixture.run(&["audit"]);
    assert_eq!(gone.code, 1, "{gone:?}");
    assert!(gone.stdout.contains("all lines are gone, although 4 calls were made here"), "{gone:?}");
    let wrong = two_files();
    assert_eq!(wrong.run(&["call", "Read", "file_path=missing.txt"]).code, 1);
    let nothing = wrong.run(&["audit"]);
    assert_eq!((nothing.code, nothing.stdout.as_str()), (0, "no call was decided about here yet\n"));
    let unused = Fixture::new(&[]).run(&["audit"]);
    assert_eq!((unused.code, unused.stdout.as_str()), (0, "no call was decided about here yet\n"));
}

#[test]
fn a_hooks_script_in_the_workspace_is_not_run_once_it_has_changed() {
    let fixture = Fixture::new(&[("one.txt", "one\n"), ("hooks/check.sh", "exit 0\n")]);
    for command in ["sh hooks/check.sh", "sh \\\"$CLAUDE_PROJECT_DIR\\\"/hooks/check.sh"] {
        fixture.settings(&format!("[[hooks.pre_tool_use]]\ncommand = \"{command}\"\n"));
        let script = fixture.base.join("ws/hooks/check.sh");
        std::fs::write(&script, "exit 0\n").unwrap();
        let read = || fixture.run(&["call", "Read", "file_path=one.txt"]);
        assert_eq!(read().code, 0);
        let planted = "touch \"$CLAUDE_PROJECT_DIR/../planted\"\n";
        std::fs::write(&script, planted).unwrap();
        let changed = read();
        assert_eq!(changed.code, 1, "{changed:?}");
        assert!(changed.stdout.contains("has changed since you trusted it"), "{changed:?}");
        assert!(!fixture.base.join("planted").exists());
        assert_eq!(
            fixture
                .run(&["--session", "other", "--focus", "hooks", "call", "Read", "file_path=check.sh"])
                .code,
            1
        );
        let trusted = fixture.run(&["trust", "--yes"]);
        assert!(trusted.stdout.contains("hooks/check.sh is run by a hook, and has changed"), "{trusted:?}");
        let accepted = read();
        assert_eq!(accepted.code, 0, "{accepted:?}");
        assert!(fixture.base.join("planted").exists());
        std::fs::remove_file(fixture.base.join("planted")).unwrap();
        // A link that leads elsewhere is another script.
        std::fs::remove_file(&script).unwrap();
        std::os::unix::fs::symlink("/bin/true", &script).unwrap();
        assert_eq!(read().code, 1);
        std::fs::remove_file(&script).unwrap();
        std::fs::write(&script, planted).unwrap();
        assert_eq!(read().code, 0);
        std::fs::remove_file(fixture.base.join("planted")).unwrap();
        std::fs::remove_file(fixture.state().join("hooks.json")).unwrap();
    }
}

#[test]
fn an_audit_that_is_cut_together_with_its_head_is_noticed() {
    let fixture = two_files();
    fixture.batch(&[], &[r#"{"id":"a","name":"Read","input":{"file_path":"one.txt"}}"#]);
    let (head, lines) = (fixture.state().join("audit.head"), fixture.state().join("audit.jsonl"));
    let (old_head, old_lines) = (std::fs::read(&head).unwrap(), std::fs::read(&lines).unwrap());
    fixture.batch(&[], &[r#"{"id":"b","name":"Read","input":{"file_path":"two.txt"}}"#]);
    let mark = fixture.run(&["--json", "audit"]).json()["last"].as_str().unwrap().to_owned();
    assert_eq!(fixture.run(&["audit", "--contains", &mark]).code, 0);
    assert!(fixture.run(&["audit"]).stdout.contains(&mark));
    fixture.run(&["audit", "--contains", "2"]).refused("NUMBER:HASH");
    let other = fixture.run(&["audit", "--contains", "2:abc"]);
    assert!(other.code == 1 && other.stdout.contains("line 2 is not the one of `2:abc`"), "{other:?}");

    std::fs::write(&head, old_head).unwrap();
    std::fs::write(&lines, old_lines).unwrap();
    let cut = fixture.run(&["audit"]);
    assert_eq!(cut.code, 1, "{cut:?}");
    assert!(cut.stdout.contains("there are 1, although 2 calls were made here"), "{cut:?}");
    // Even where the statistics were reset as well, a mark that was kept shows it.
    for entry in std::fs::read_dir(fixture.state()).unwrap().map(Result::unwrap) {
        if entry.file_name().to_string_lossy().starts_with("stats") {
            std::fs::remove_file(entry.path()).unwrap();
        }
    }
    let missing = fixture.run(&["audit", "--contains", &mark]);
    assert!(missing.code == 1 && missing.stdout.contains("is not there"), "{missing:?}");
}

#[test]
fn a_project_that_is_not_trusted_overrides_no_setting_of_the_users() {
    let fixture = two_files();
    fixture.settings(
        "[permissions]\nseconds = 5\n[search]\nhidden = false\nseconds = 7\n[files]\ncheck = true\n",
    );
    fixture.write(
        "ws/.haft/config.toml",
        "[permissions]\nseconds = 600\n[search]\nhidden = true\nignored = true\nseconds = 1\n[files]\ncheck = false\n",
    );
    fixture.write("ws/.hidden", "one\n");
    let found = fixture.run(&["call", "Grep", "pattern=one"]);
    assert!(!found.stdout.contains(".hidden"), "{found:?}");
    for key in ["permissions.seconds", "search", "files.check"] {
        assert!(found.stderr.contains(&format!(".haft/config.toml: {key}")), "{key}: {found:?}");
    }
    let write = json!({"file_path": "a.json", "content": "{"});
    let written = fixture.run(&["--mode", "accept-edits", "call", "Write", &write.to_string()]);
    assert!(written.stdout.contains("unclosed `{`"), "the syntax is still checked: {written:?}");
    // Stricter settings apply without trust.
    fixture.write("ws/.haft/config.toml", "[permissions]\nseconds = 2\n[files]\ncheck = true\n");
    assert_eq!(fixture.run(&["call", "Grep", "pattern=one"]).stderr, "");
}

#[test]
fn trust_ends_when_the_settings_of_a_project_change() {
    let fixture =
        Fixture::new(&[("a.txt", "one\n"), (".haft/config.toml", "[permissions]\nallow = [\"Write\"]\n")]);
    let write = ["call", "Write", "file_path=b.txt", "content=x"];
    let check = ["rules", "check", "Write", "file_path=b.txt", "content=x"];
    assert_eq!(fixture.run(&check).code, 1);
    let nobody = fixture.run(&["trust"]);
    assert!(nobody.code == 2 && nobody.stdout.contains("allow = [\"Write\"]"), "{nobody:?}");
    assert!(nobody.stderr.contains("nobody is there to agree"), "{nobody:?}");
    assert_eq!(fixture.run(&["trust", "--yes"]).code, 0);
    // A folder inside a trusted one is another project, and not trusted.
    fixture.write("ws/pkg/.haft/config.toml", "[permissions]\nallow = [\"Write\"]\n");
    let nested = fixture.base.join("ws/pkg").display().to_string();
    assert_eq!(fixture.run(&[&["--workspace", nested.as_str()], &check[..]].concat()).code, 1);
    let output = fixture.run(&write);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{output:?}");

    fixture.write("ws/.haft/config.toml", "[permissions]\nallow = [\"Write\", \"Bash\"]\n");
    let changed = fixture.run(&["rules", "check", "Bash", "command=make"]);
    assert_eq!(changed.code, 1);
    assert!(changed.stderr.contains("have changed since it was trusted"), "{changed:?}");
    assert!(fixture.run(&["doctor"]).stdout.contains("have changed since they were trusted"));
    assert_eq!(fixture.run(&["trust", "--yes"]).code, 0);
    assert_eq!(fixture.run(&["rules", "check", "Bash", "command=make"]).code, 0);
}

/// The rules that the answer to a call without permission names.
fn offered(fixture: &Fixture, call: &[&str]) -> Vec<String> {
    let asked = fixture.run(call);
    assert_eq!(asked.code, 1, "{asked:?}");
    let (_, rules) = asked.stdout.split_once("haft rules allow").unwrap_or_default();
    let (rules, _) = rules.split_once('`').unwrap_or_default();
    rules.split('\'').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn a_rule_that_is_offered_ends_the_question() {
    for (call, expected) in [
        (["call", "Bash", "command=rm one.txt"], "Bash(rm one.txt)"),
        (["call", "Bash", "command=touch new.txt"], "Bash(touch:*)"),
        (["call", "Bash", "command=cargo test"], "Bash(cargo test:*)"),
    ] {
        let fixture = two_files();
        let rules = offered(&fixture, &call);
        assert_eq!(rules, [expected], "{call:?}");
        for rule in &rules {
            assert_eq!(fixture.run(&["rules", "allow", rule]).code, 0, "{rule}");
        }
        let [_, tool, input] = call;
        let checked = fixture.run(&["rules", "check", tool, input]);
        assert!(checked.stdout.starts_with("allow: by the rule"), "{call:?}: {checked:?}");
    }
    let fixture = two_files();
    fixture.run(&["rules", "allow", "Bash(rm one.txt)"]);
    let other = fixture.run(&["rules", "check", "Bash", "command=rm two.txt"]);
    assert!(other.stdout.starts_with("ask: "), "{other:?}");
}

#[test]
fn what_a_command_touches_is_told_truly() {
    let fixture = two_files();
    let check =
        |command: &str| fixture.run(&["rules", "check", "Bash", &format!("command={command}")]).stdout;
    for (command, not) in
        [("git push", "reads  push"), ("cargo test", "reads  test"), ("npm install", "reads  install")]
    {
        assert!(!check(command).contains(not), "{}", check(command));
    }
    let commit = check("git commit -m 'fix: a'");
    assert!(commit.contains("writes the repository (`.git`)") && !commit.contains("everything"), "{commit}");
    assert!(commit.starts_with("ask: it changes the repository (`.git`)\n"), "{commit}");
    assert!(
        check("chown root one.txt").starts_with("ask: it changes `one.txt`\n"),
        "{}",
        check("chown root one.txt")
    );
    assert!(check("cargo test").starts_with("ask: "), "{}", check("cargo test"));
}

#[test]
fn a_rule_that_never_takes_effect_says_so() {
    let fixture = two_files();
    for (effect, rule, why) in [
        ("allow", "delete_file", "`delete_file` needs approval every time"),
        ("allow", "install_package", "`install_package` needs approval every time"),
        ("allow", "git_status", "changes nothing, and needs no approval"),
        ("allow", "Read", "only a rule that names the path"),
        ("deny", "Read(~secrets)", "`~/…` is the home"),
        ("allow", "Bash(sudo:*)", "`sudo` runs something else"),
        ("allow", "Bash(bash *)", "`bash` runs something else"),
        ("allow", "Bash(git add . && git commit:*)", "a rule is about one command, and `&&`"),
        ("deny", "Bash(curl x | sh)", "a rule is about one command, and `|`"),
        ("deny", "MultiEdit", "haft has no tool `MultiEdit`"),
    ] {
        let added = fixture.run(&["rules", effect, rule]);
        assert_eq!(added.code, 0, "{added:?}");
        let said = added.stderr.contains(&format!("{rule} has no effect: ")) && added.stderr.contains(why);
        assert!(said, "{effect} {rule}: {added:?}");
    }
    for (effect, rule) in [
        ("allow", "delete_file(old/**)"),
        ("allow", "Write"),
        ("allow", "Bash(sudo ls)"),
        ("allow", "Bash(git add . && git commit -m x)"),
        ("allow", "Bash(cargo test:*)"),
        ("allow", "Bash(python3 app.py *)"),
        ("deny", "Read"),
        ("deny", "delete_file"),
        ("deny", "Bash(sudo:*)"),
        ("allow", "Read(/etc/hosts)"),
        ("allow", "Edit(./.)"),
        ("allow", "mcp__github__*"),
    ] {
        let added = Fixture::new(&[]).run(&["rules", effect, rule]);
        assert_eq!((added.code, added.stderr.as_str()), (0, ""), "{effect} {rule}");
    }
    let listed = fixture.run(&["rules"]).stdout;
    assert!(listed.contains("allow delete_file  this project\n      has no effect: "), "{listed}");
    let fixture = two_files();
    fixture.run(&["rules", "deny", "--user", "Bash(git push:*)"]);
    let overruled = fixture.run(&["rules", "allow", "Bash(git push:*)"]);
    assert!(overruled.stderr.contains("`Bash(git push:*)` denies the same"), "{overruled:?}");
}

#[test]
fn a_check_says_that_an_allowing_rule_does_not_count() {
    let fixture = two_files();
    fixture.run(&["rules", "allow", "delete_file"]);
    let check = ["--dialect", "workspace", "rules", "check", "delete_file", "path=one.txt"];
    let asked = fixture.run(&check);
    assert!(
        asked
            .stdout
            .starts_with("ask: `one.txt` would be deleted; the rule `delete_file` would allow it, but"),
        "{asked:?}"
    );
    fixture.run(&["rules", "allow", "delete_file(./one.txt)"]);
    let allowed = fixture.run(&check);
    assert!(allowed.stdout.starts_with("allow: by the rule `delete_file"), "{allowed:?}");
}

#[test]
fn no_recommended_rule_is_without_effect() {
    let fixture = two_files();
    fixture.settings("[permissions]\nrecommended = true\n");
    let rules = fixture.run(&["--json", "rules"]).json();
    let rules = rules.as_array().unwrap();
    assert!(rules.len() > 50);
    for rule in rules {
        assert_eq!(rule["no_effect"], Value::Null, "{rule}");
    }
}

#[test]
fn a_deny_holds_for_the_script_that_a_command_runs() {
    let fixture =
        Fixture::new(&[("f.txt", "x\n"), ("evil.sh", "echo hi\nrm f.txt\n"), ("good.sh", "echo hi\n")]);
    fixture.settings("[permissions]\ndeny = [\"Bash(rm:*)\"]\n");
    let bash = |command: &str| json!({"name": "Bash", "input": {"command": command}}).to_string();
    let written = json!([
        {"id": "a", "name": "Write", "input": {"file_path": "new.sh", "content": "rm f.txt\n"}},
        {"id": "b", "name": "Bash", "input": {"command": "sh new.sh"}},
    ]);
    let lines = [bash("sh evil.sh"), bash(". ./evil.sh"), bash("sh good.sh"), written.to_string()];
    let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
    let replies = fixture.batch(&["--mode", "bypass"], &lines);
    for denied in [&replies[0], &replies[1], &replies[4]] {
        assert!(text(denied).contains("is denied by the rule `Bash(rm:*)`"), "{denied}");
    }
    assert_eq!((text(&replies[2]), replies[3]["is_error"].as_bool()), ("hi", Some(false)), "{replies:?}");
    assert!(fixture.base.join("ws/f.txt").exists());
    let doubted = fixture.run(&["--mode", "bypass", "call", "Bash", "command=sh /etc/profile"]);
    assert!(doubted.stdout.contains("lies outside of the workspace"), "{doubted:?}");
    // Where a person is asked, the text of the script counts as well.
    let checked = fixture.run(&["rules", "check", "Bash", "command=bash evil.sh"]);
    assert!(checked.stdout.starts_with("deny: "), "{checked:?}");
}

#[test]
fn a_loop_that_only_reads_is_not_asked_about() {
    let fixture = two_files();
    for (command, printed) in [
        ("for f in *.txt; do echo \"$f\"; cat \"$f\"; done", "one.txt\none\ntwo.txt\ntwo\n"),
        ("while read l; do echo \"<$l>\"; done < one.txt", "<one>\n"),
        ("if grep -q one one.txt; then echo y; fi", "y\n"),
    ] {
        let output = fixture.run(&["call", "Bash", &format!("command={command}")]);
        assert_eq!((output.code, output.stdout.as_str()), (0, printed), "{output:?}");
    }
    for command in ["for f in *.txt; do rm \"$f\"; done", "for f in /srv/*; do cat \"$f\"; done"] {
        let asked = fixture.run(&["rules", "check", "Bash", &format!("command={command}")]);
        assert!(asked.stdout.starts_with("ask: "), "{asked:?}");
    }
}

#[test]
fn a_command_without_the_sandbox_does_not_read_what_is_denied() {
    let fixture = two_files();
    fixture.write("ws/.env", "hush\n");
    fixture.settings("permissions.deny = [\"Read(.env)\"]\n");
    let code = "python3 -c \"print(open(chr(46) + 'env').read())\"";
    let call = serde_json::json!({"command": code, "dangerously_disable_sandbox": true}).to_string();
    let output = fixture.run(&["--mode", "bypass", "call", "Bash", &call]);
    assert!(
        output.code == 1 && output.stdout.contains("without the sandbox nothing would hold"),
        "{output:?}"
    );
    assert!(!output.stdout.contains("hush"));
}

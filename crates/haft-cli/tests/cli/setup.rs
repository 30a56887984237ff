//! `haft setup`: files of clients, in an empty home and project.

use std::os::unix::fs::PermissionsExt;

use super::seat::Seat;
use super::*;

/// A file of every form that a person has written, with keys that setup adds to.
const JSON: &str = r#"{
    // mine
    "$schema": "https://example.com", /* keep */
    "mcpServers": {"other": {"command": "x"}},
    "mcp": {
        "other": {"command": ["x"]} // theirs
    },
    "permissions": {
        "allow": ["Bash(ls:*)"],
        "deny": ["Read", "Bash(rm:*)"], // never
    },
    "permission": {"*": "ask", "bash": "ask"},
    "unknown": [1, 2.50, {"ä": null}]
}
"#;
const TOML: &str = "# mine\nmodel = 'x' # why\n\n[mcp_servers.other]\ncommand = \"x\"\n\n[features]\nshell_tool = true # on\n";
const YAML: &str =
    "# mine\nGOOSE_MODE: approve # why\nextensions:\n  other:\n    enabled: true\n\n# the end\nlast: 1\n";

fn seed(path: &Path) -> &'static str {
    match path.extension().and_then(|ending| ending.to_str()) {
        Some("toml") => TOML,
        Some("yaml") => YAML,
        _ => JSON,
    }
}

/// Every client with the arguments that it needs, for each level that it has.
fn targets(fixture: &Fixture) -> Vec<Vec<String>> {
    let mut all = Vec::new();
    for client in fixture.run(&["setup", "--json"]).json().as_array().unwrap() {
        let name = client["client"].as_str().unwrap();
        let user = match name {
            "claude-desktop" | "windsurf" => vec!["setup", name, "--workspace", "."],
            _ => vec!["setup", name],
        };
        let is_alone = matches!(name, "claude-desktop" | "goose" | "windsurf");
        let levels = [Some(user), (!is_alone).then(|| vec!["setup", name, "--project"])];
        all.extend(levels.into_iter().flatten().map(|args| args.into_iter().map(str::to_owned).collect()));
    }
    assert_eq!(all.len(), 21);
    all
}

fn with<'a>(target: &'a [String], more: &[&'a str]) -> Vec<&'a str> {
    target.iter().map(String::as_str).chain(more.iter().copied()).collect()
}

/// The files that a run of setup would write.
fn files(fixture: &Fixture, args: &[&str]) -> Vec<PathBuf> {
    let plans = fixture.run(&[args, &["--dry-run", "--json"]].concat()).json();
    let files = plans[0]["files"].as_array().unwrap().clone();
    files.iter().map(|file| PathBuf::from(file["path"].as_str().unwrap())).collect()
}

fn succeeds(fixture: &Fixture, args: &[&str], told: &str) -> RunOutput {
    let output = fixture.run(args);
    assert_eq!((output.code, output.stderr.as_str()), (0, ""), "{args:?}: {output:?}");
    assert!(output.stdout.contains(told), "{args:?}: {output:?}");
    output
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Everything in the home and the project, but haft's own state.
fn tree(fixture: &Fixture) -> Vec<PathBuf> {
    let mut all = Vec::new();
    let mut folders = vec![fixture.base.join("home"), fixture.base.join("ws")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path.clone());
            }
            all.push(path);
        }
    }
    all.sort();
    all
}

#[test]
fn every_client_is_set_up_once_and_removed_without_a_trace() {
    let fixture = Fixture::new(&[]);
    let before = tree(&fixture);
    for target in targets(&fixture) {
        let files = files(&fixture, &with(&target, &["--no-builtin-tools"]));
        succeeds(&fixture, &with(&target, &["--yes", "--no-builtin-tools"]), "haft is set up");
        let written: Vec<String> = files.iter().map(|file| read(file)).collect();
        assert!(written[0].contains("mcp"), "{target:?}: {written:?}");
        succeeds(&fixture, &with(&target, &["--yes", "--no-builtin-tools"]), "already set up");
        assert_eq!(files.iter().map(|file| read(file)).collect::<Vec<_>>(), written);
        succeeds(&fixture, &with(&target, &["--remove", "--yes"]), "no longer set up");
        assert_eq!(tree(&fixture), before, "{target:?}");
        succeeds(&fixture, &with(&target, &["--remove", "--yes"]), "not set up");
    }
}

#[test]
fn removal_restores_the_bytes_of_every_file_and_comments_survive() {
    for more in [&["--yes"][..], &["--yes", "--no-builtin-tools"]] {
        let fixture = Fixture::new(&[]);
        for target in targets(&fixture) {
            let files = files(&fixture, &with(&target, &[]));
            for file in &files {
                std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                std::fs::write(file, seed(file)).unwrap();
            }
            succeeds(&fixture, &with(&target, more), "haft is set up");
            for file in &files {
                let (text, seed) = (read(file), seed(file));
                for comment in ["mine", "keep", "theirs", "never", "why", "on", "the end"] {
                    let count = |text: &str| text.matches(&format!(" {comment}")).count();
                    assert_eq!(count(&text), count(seed), "{comment}: {text}");
                }
            }
            succeeds(&fixture, &with(&target, more), "already set up");
            succeeds(&fixture, &with(&target, &["--remove", "--yes"]), "no longer set up");
            for file in files {
                assert_eq!(read(&file), seed(&file), "{target:?}");
                std::fs::remove_file(file).unwrap();
            }
        }
    }
}

#[test]
fn what_others_changed_in_the_meantime_survives_removal() {
    let fixture = Fixture::new(&[]);
    for target in targets(&fixture) {
        let files = files(&fixture, &with(&target, &[]));
        for file in &files {
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, seed(file)).unwrap();
        }
        succeeds(&fixture, &with(&target, &["--yes", "--no-builtin-tools"]), "haft is set up");
        let later = |file: &Path| if seed(file) == JSON { "// later\n" } else { "# later\n" };
        for file in &files {
            std::fs::write(file, format!("{}{}", read(file), later(file))).unwrap();
        }
        // Whoever leaves the option out wants the tools back.
        succeeds(&fixture, &with(&target, &["--yes"]), "");
        succeeds(&fixture, &with(&target, &["--remove", "--yes"]), "no longer set up");
        for file in files {
            assert_eq!(read(&file), format!("{}{}", seed(&file), later(&file)), "{target:?}");
            std::fs::remove_file(file).unwrap();
        }
    }
}

#[test]
fn a_file_that_cannot_be_parsed_is_not_touched() {
    let fixture = Fixture::new(&[]);
    for target in targets(&fixture) {
        let files = files(&fixture, &with(&target, &[]));
        std::fs::create_dir_all(files[0].parent().unwrap()).unwrap();
        for broken in ["{ \"a\": [\n", "\u{0}", "[1]\n- x: {"] {
            std::fs::write(&files[0], broken).unwrap();
            for more in [&["--yes"][..], &["--remove", "--yes"], &["--dry-run"]] {
                let output = fixture.run(&with(&target, more));
                output.refused("is left as it is, because it cannot be edited");
                assert!(output.stderr.contains(files[0].to_str().unwrap()), "{output:?}");
            }
            assert_eq!(read(&files[0]), broken);
        }
        std::fs::write(&files[0], b"{\"a\": \"\xff\"}").unwrap();
        fixture.run(&with(&target, &["--yes"])).refused("is not UTF-8: it is left as it is");
        std::fs::remove_file(&files[0]).unwrap();
    }
}

#[test]
fn a_layout_that_cannot_be_edited_is_left_with_advice() {
    let fixture = Fixture::new(&[]);
    let file = "home/.config/goose/config.yaml";
    let text = "extensions: {a: {enabled: true}}\n";
    fixture.write(file, text);
    let output = fixture.run(&["setup", "goose", "--yes"]);
    output.refused("not written with one key on each line");
    assert!(output.stderr.contains("by hand, set `extensions.haft` to {\"name\":\"haft\""), "{output:?}");
    assert_eq!(read(&fixture.base.join(file)), text);
}

#[test]
fn of_two_files_the_one_with_the_entry_is_meant() {
    let fixture = Fixture::new(&[("opencode.json", "{}\n")]);
    let mine = "{\n  // mine\n  \"mcp\": {\"haft\": {\"type\": \"local\", \"command\": [\"/old\"]}}\n}\n";
    fixture.write("ws/opencode.jsonc", mine);
    succeeds(&fixture, &["setup", "opencode", "--project", "--yes"], "haft is set up");
    assert_eq!(read(&fixture.base.join("ws/opencode.json")), "{}\n");
    assert!(read(&fixture.base.join("ws/opencode.jsonc")).contains("haft_*"));
    succeeds(&fixture, &["setup", "opencode", "--project", "--remove", "--yes"], "no longer");
    assert_eq!(read(&fixture.base.join("ws/opencode.jsonc")), "{\n  // mine\n  \"mcp\": {}\n}\n");
}

#[test]
fn the_home_is_not_a_project() {
    let fixture = Fixture::new(&[]);
    let home = fixture.base.join("home");
    let run = |args: &[&str]| {
        RunOutput::of(fixture.haft(args).current_dir(&home).stdin(Stdio::null()).output().unwrap())
    };
    run(&["setup", "codex", "--project", "--yes"]).refused("this is your home, not a project");
    assert_eq!(run(&["setup", "codex", "--yes"]).code, 0);
    let found = run(&["doctor", "--json"]).json();
    let clients = found.as_array().unwrap().iter().filter(|finding| finding["what"] == "client");
    assert_eq!(clients.map(|finding| finding["state"].clone()).collect::<Vec<_>>(), ["ok"]);
}

#[test]
fn without_a_terminal_nothing_is_written_unless_it_was_agreed() {
    let fixture = Fixture::new(&[]);
    let before = tree(&fixture);
    let output = fixture.run(&["setup", "codex"]);
    assert_eq!(output.code, 2, "{output:?}");
    assert!(
        output.stderr.contains("say `--yes`") && output.stdout.contains("+[mcp_servers.haft]"),
        "{output:?}"
    );
    fixture.run(&["setup", "codex", "--json"]).refused("with --json, say `--yes`");
    let output = succeeds(&fixture, &["setup", "codex", "--dry-run"], "+[mcp_servers.haft]");
    assert!(!output.stdout.contains("haft is set up"), "{output:?}");
    let plan = succeeds(&fixture, &["setup", "codex", "--dry-run", "--json"], "").json();
    assert_eq!((&plan[0]["written"], &plan[0]["files"][0]["changes"]), (&json!(false), &json!(true)));
    fixture.run(&["setup", "--yes"]).refused("name a client, or say --all");
    fixture.run(&["setup", "goose", "--project", "--yes"]).refused("has no settings of projects");
    fixture.run(&["setup", "windsurf", "--yes"]).refused("name it with --workspace");
    let output = fixture.run(&["setup", "emacs"]);
    assert!(output.code == 2 && output.stderr.contains("claude-code"), "{output:?}");
    assert_eq!(tree(&fixture), before);
    let done = succeeds(&fixture, &["setup", "codex", "--yes", "--json"], "").json();
    assert_eq!(done[0]["written"], true);
    assert!(read(&fixture.base.join("home/.codex/config.toml")).contains("[mcp_servers.haft]"));
}

#[test]
fn at_a_terminal_setup_shows_the_difference_and_asks() {
    let fixture = Fixture::new(&[]);
    let file = fixture.base.join("home/.cursor/mcp.json");
    let mut seat = Seat::take(&fixture, &["setup", "cursor"], &[]);
    seat.sees("\"haft\": {").sees("write this? [y/N] ").types("n\n");
    assert_eq!(seat.leaves().0, 1);
    assert!(!file.exists());
    let mut seat = Seat::take(&fixture, &["setup", "cursor"], &[]);
    seat.sees("write this? [y/N] ").types("y\n");
    let (code, screen) = seat.leaves();
    assert!(code == 0 && screen.contains("haft is set up"), "{screen}");
    let written: Value = serde_json::from_str(&read(&file)).unwrap();
    assert_eq!(written["mcpServers"]["haft"]["args"], json!(["mcp", "--workspace", "${workspaceFolder}"]));
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn a_link_and_the_mode_of_its_target_are_kept() {
    let fixture = Fixture::new(&[]);
    fixture.write("home/dotfiles/gemini.json", "{}\n");
    let target = fixture.base.join("home/dotfiles/gemini.json");
    std::fs::set_permissions(&target, PermissionsExt::from_mode(0o644)).unwrap();
    std::fs::create_dir(fixture.base.join("home/.gemini")).unwrap();
    let link = fixture.base.join("home/.gemini/settings.json");
    std::os::unix::fs::symlink("../dotfiles/gemini.json", &link).unwrap();
    succeeds(&fixture, &["setup", "gemini", "--yes"], "haft is set up");
    assert!(link.symlink_metadata().unwrap().is_symlink() && read(&target).contains("\"trust\": true"));
    assert_eq!(target.metadata().unwrap().permissions().mode() & 0o777, 0o644);
    succeeds(&fixture, &["setup", "gemini", "--remove", "--yes"], "no longer");
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(read(&target), "{}\n");
}

#[test]
fn an_entry_that_was_changed_by_hand_is_removed_by_its_name_alone() {
    let fixture = Fixture::new(&[]);
    let mine = "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"},\n    \"haft\": {\"command\": \"/old\", \"env\": {\"A\": \"b\"}}\n  }\n}\n";
    fixture.write("home/.claude.json", mine);
    let allowed = "{\"permissions\": {\"allow\": [\"mcp__haft\", \"Edit\"], \"deny\": [\"Read\", \"Write\", \"Edit\", \"NotebookEdit\", \"Glob\", \"Grep\", \"Bash\"]}}";
    fixture.write("home/.claude/settings.json", allowed);
    let output = succeeds(
        &fixture,
        &["setup", "claude-code", "--remove", "--dry-run"],
        "-    \"haft\": {\"command\": \"/old\"",
    );
    assert!(
        output.stdout.contains("`permissions.deny`") && output.stdout.contains("no record"),
        "{output:?}"
    );
    succeeds(&fixture, &["setup", "claude-code", "--remove", "--yes"], "no longer");
    let file = fixture.base.join("home/.claude.json");
    assert_eq!(read(&file), "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"}\n  }\n}\n");
    let settings = read(&fixture.base.join("home/.claude/settings.json"));
    assert_eq!(settings, allowed.replace("\"mcp__haft\", ", ""));
    // An update keeps what is not setup's own.
    fixture.write("home/.claude.json", mine);
    succeeds(&fixture, &["setup", "claude-code", "--yes"], "haft is set up");
    let updated: Value = serde_json::from_str(&read(&file)).unwrap();
    assert_eq!(updated["mcpServers"]["haft"]["env"], json!({"A": "b"}));
    succeeds(&fixture, &["setup", "claude-code", "--remove", "--yes"], "no longer");
    assert!(!read(&file).contains("haft"));
}

#[test]
fn options_become_part_of_the_entry_and_can_be_changed() {
    let fixture = Fixture::new(&[]);
    let file = fixture.base.join("ws/.crush.json");
    std::fs::write(&file, "{}").unwrap();
    let entry = || -> Value { serde_json::from_str(&read(&file)).unwrap() };
    let args = ["--dialect", "cdd", "--mode", "accept-edits", "setup", "crush", "--project", "--yes"];
    succeeds(&fixture, &args, "haft is set up");
    assert_eq!(entry()["mcp"]["haft"]["args"], json!(["mcp", "--dialect", "cdd", "--mode", "accept-edits"]));
    assert_eq!(entry()["permissions"]["allowed_tools"][0], "mcp_haft_read");
    let args = [
        "--dialect",
        "claude",
        "--mode",
        "default",
        "setup",
        "crush",
        "--project",
        "--yes",
        "--no-builtin-tools",
    ];
    succeeds(&fixture, &args, "haft is set up");
    assert_eq!(entry()["mcp"]["haft"]["args"], json!(["mcp", "--dialect", "claude", "--mode", "default"]));
    assert_eq!(entry()["permissions"]["allowed_tools"][0], "mcp_haft_Read");
    assert!(entry()["options"]["disabled_tools"].as_array().unwrap().contains(&json!("bash")));
    succeeds(&fixture, &["setup", "crush", "--project", "--yes", "--builtin-tools"], "haft is set up");
    assert_eq!(entry().get("options"), None);
    succeeds(&fixture, &["setup", "crush", "--project", "--remove", "--yes"], "no longer");
    assert_eq!(read(&file), "{}");
}

#[test]
fn if_haft_does_not_ask_the_client_does() {
    let fixture = Fixture::new(&[]);
    let args = ["--mode", "bypass", "setup", "gemini", "claude-code", "--yes"];
    let output = succeeds(&fixture, &args, "stays on");
    assert!(!read(&fixture.base.join("home/.gemini/settings.json")).contains("trust"), "{output:?}");
    assert!(!fixture.base.join("home/.claude/settings.json").exists());
}

#[test]
fn the_entry_names_haft_if_that_is_this_program() {
    let fixture = Fixture::new(&[]);
    let bin = fixture.base.join("bin");
    std::fs::create_dir(&bin).unwrap();
    let run = |args: &[&str]| {
        let path = format!("{}:/usr/bin:/bin", bin.display());
        RunOutput::of(fixture.haft(args).env("PATH", path).stdin(Stdio::null()).output().unwrap())
    };
    let command = || -> Value {
        let file = read(&fixture.base.join("ws/.mcp.json"));
        serde_json::from_str::<Value>(&file).unwrap()["mcpServers"]["haft"]["command"].clone()
    };
    assert_eq!(run(&["setup", "claude-code", "--project", "--yes"]).code, 0);
    assert_eq!(command(), env!("CARGO_BIN_EXE_haft"));
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_haft"), bin.join("haft")).unwrap();
    assert_eq!(run(&["setup", "claude-code", "--project", "--yes"]).code, 0);
    assert_eq!(command(), "haft");
    // haft reads `.mcp.json` too, and must not start itself.
    assert_eq!(run(&["trust", "--yes"]).code, 0);
    let listed = run(&["mcp", "list"]).stdout;
    assert!(listed.contains("haft itself"), "{listed}");
}

#[test]
fn the_list_tells_what_is_installed_and_what_works() {
    let fixture = Fixture::new(&[]);
    std::fs::create_dir(fixture.base.join("home/.qwen")).unwrap();
    succeeds(&fixture, &["setup", "--all", "--yes"], "Qwen Code");
    fixture.write(
        "home/.codeium/windsurf/mcp_config.json",
        r#"{"mcpServers": {"haft": {"command": "/gone/haft"}}}"#,
    );
    fixture.write("home/.config/zed/settings.json", "{ broken");
    let rows = succeeds(&fixture, &["setup", "--json"], "").json();
    let row = |name: &str| rows.as_array().unwrap().iter().find(|row| row["client"] == name).unwrap().clone();
    assert_eq!(row("qwen")["installed"], fixture.base.join("home/.qwen").to_str().unwrap());
    assert_eq!(row("qwen")["entries"][0]["works"], true);
    assert_eq!(row("goose")["entries"], json!([]));
    let broken = row("windsurf")["entries"][0].clone();
    assert_eq!((&broken["works"], &broken["level"]), (&json!(false), &json!("user")));
    assert!(broken["problem"].as_str().unwrap().contains("cannot be started"), "{broken}");
    assert_eq!(row("zed")["entries"][0]["command"], Value::Null);
    let shown = succeeds(&fixture, &["setup"], "✓ user ").stdout;
    assert!(shown.contains("✗ user ") && shown.contains("not found"), "{shown}");
    succeeds(&fixture, &["setup", "--all", "--remove", "--yes", "--project"], "no client was found");
}

#[test]
fn doctor_checks_what_is_set_up() {
    let fixture = Fixture::new(&[]);
    let clients = || -> Vec<(String, String)> {
        let found = fixture.run(&["doctor", "--json"]).json();
        let clients = found.as_array().unwrap().iter().filter(|finding| finding["what"] == "client");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        clients.map(|finding| (text(&finding["state"]), text(&finding["detail"]))).collect()
    };
    assert_eq!(clients(), []);
    succeeds(&fixture, &["setup", "codex", "--yes"], "");
    succeeds(&fixture, &["setup", "codex", "--project", "--yes"], "");
    let found = clients();
    assert_eq!(found.iter().map(|(state, _)| state.as_str()).collect::<Vec<_>>(), ["ok", "ok", "note"]);
    assert!(
        found[2].1.contains("several entries") && found[2].1.contains("haft setup codex --remove"),
        "{found:?}"
    );
    succeeds(&fixture, &["setup", "codex", "--remove", "--yes"], "");
    // Another version, and a program that a project brings: the latter must not be started.
    let script = |name: &str, text: &str| {
        fixture.write(name, text);
        let path = fixture.base.join(name);
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let old = script("old-haft", "#!/bin/sh\necho haft 0.0.1\n");
    let entry = |command: &str| json!({"mcpServers": {"haft": {"command": command}}}).to_string();
    fixture.write("home/.claude.json", &entry(&old));
    let evil = script("ws/evil", "#!/bin/sh\ntouch started\necho haft 0.0.1\n");
    fixture.write("ws/.gemini/settings.json", &entry(&evil));
    let found = clients();
    assert!(found[0].0 == "bad" && found[0].1.contains("starts haft 0.0.1"), "{found:?}");
    assert!(found[0].1.contains("`haft setup claude-code` writes the entry anew"), "{found:?}");
    let project = found.iter().find(|(_, detail)| detail.contains(".gemini")).unwrap();
    assert!(project.0 == "note" && project.1.contains("not started from here"), "{found:?}");
    fixture.run(&["setup"]);
    assert!(!fixture.base.join("ws/started").exists());
}

#[test]
fn a_damaged_record_is_named() {
    let fixture = Fixture::new(&[]);
    succeeds(&fixture, &["setup", "qwen", "--yes"], "");
    let folder = fixture.base.join("state/haft/setup");
    for entry in std::fs::read_dir(&folder).unwrap() {
        std::fs::write(entry.unwrap().path(), "{").unwrap();
    }
    fixture.run(&["setup", "qwen", "--remove", "--yes"]).refused("is damaged; delete it");
}

#[test]
fn one_permission_for_everything_is_kept_beside_that_for_haft() {
    for more in [&["--yes"][..], &["--yes", "--no-builtin-tools"]] {
        let fixture = Fixture::new(&[]);
        let before = "{\n  // mine\n  \"permission\": \"ask\"\n}\n";
        fixture.write("home/.config/opencode/opencode.jsonc", before);
        let path = fixture.base.join("home/.config/opencode/opencode.jsonc");
        succeeds(&fixture, &with(&["setup".to_owned(), "opencode".to_owned()], more), "haft is set up");
        let text = read(&path);
        let (all, own) = (text.find("\"*\": \"ask\""), text.find("\"haft_*\": \"allow\""));
        assert!(all.is_some() && all < own && text.contains("// mine"), "the last match counts: {text}");
        // What others add in the meantime does not keep the shorthand from coming back.
        std::fs::write(&path, text.replace("// mine", "// mine, still")).unwrap();
        succeeds(&fixture, &["setup", "opencode", "--remove", "--yes"], "no longer set up");
        assert_eq!(read(&path), before.replace("// mine", "// mine, still"));
    }
}

#[test]
fn a_later_setup_keeps_what_was_chosen_and_says_so() {
    let fixture = Fixture::new(&[]);
    for (client, file, off) in [
        ("qwen", "home/.qwen/settings.json", "run_shell_command"),
        ("opencode", "home/.config/opencode/opencode.json", "\"bash\": \"deny\""),
        ("codex", "home/.codex/config.toml", "shell_tool = false"),
    ] {
        let chosen = ["--mode", "accept-edits", "--dialect", "ally", "--add-dir", "../home"];
        let first = [&["setup", client, "--yes", "--no-builtin-tools"], &chosen[..]].concat();
        succeeds(&fixture, &first, "haft is set up");
        let path = fixture.base.join(file);
        let before = read(&path);
        let again = succeeds(&fixture, &["setup", client, "--yes"], "already set up");
        assert_eq!(read(&path), before);
        assert!(again.stdout.contains("its own tools stay off"), "{again:?}");
        assert!(again.stdout.contains("--dialect ally --mode accept-edits --add-dir /"), "{again:?}");
        // Another key of the file changed since: the record is only a list of edits then.
        std::fs::write(&path, before.clone() + "\n").unwrap();
        succeeds(&fixture, &["setup", client, "--yes"], "its own tools stay off");
        assert!(read(&path).contains(off) && read(&path).contains("accept-edits"), "{}", read(&path));
        succeeds(
            &fixture,
            &["setup", client, "--yes", "--builtin-tools", "--mode", "plan"],
            "haft is set up",
        );
        let after = read(&path);
        assert!(!after.contains(off) && after.contains("plan") && !after.contains("accept-edits"), "{after}");
        assert!(after.contains("ally"), "{after}");
        succeeds(&fixture, &["setup", client, "--remove", "--yes"], "no longer set up");
        let fresh = succeeds(&fixture, &["setup", client, "--yes"], "haft is set up");
        assert!(!fresh.stdout.contains("stay") && !read(&path).contains("ally"), "{fresh:?}");
    }
    // An entry that a project brings is not taken over.
    fixture.write(
        "ws/.gemini/settings.json",
        r#"{"mcpServers": {"haft": {"command": "haft", "args": ["mcp", "--mode", "bypass"]}}}"#,
    );
    succeeds(&fixture, &["setup", "gemini", "--project", "--yes"], "haft is set up");
    assert!(!read(&fixture.base.join("ws/.gemini/settings.json")).contains("bypass"));
}

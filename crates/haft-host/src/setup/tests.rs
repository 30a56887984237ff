//! Edits of documents: what is inserted where, and that nothing else changes.

use serde_json::{Value, json};

use super::document::{Form, Step};
use super::edit::{Edit, Made};
use super::record::Splice;

fn entry() -> Edit {
    Edit::set(&["mcpServers", "haft"], json!({"command": "haft", "args": ["mcp"]}))
}

/// Makes the edits, one after the other; returns the text, how to take them back, and the changes of the text.
fn make(form: Form, text: &str, edits: &[Edit]) -> Result<(String, Vec<Made>, Vec<Splice>), String> {
    let (mut text, mut made, mut splices) = (text.to_owned(), Vec::new(), Vec::new());
    for edit in edits {
        let document = form.parse(&text)?;
        made.push(edit.made_in(&document));
        for step in edit.steps(&document)? {
            let after = form.apply(&text, &step)?;
            splices.push(Splice::between(&text, &after));
            text = after;
        }
    }
    Ok((text, made, splices))
}

fn take_back(form: Form, text: &str, made: &[Made]) -> Result<String, String> {
    let mut text = text.to_owned();
    for made in made.iter().rev() {
        for step in made.removal(&form.parse(&text)?) {
            text = form.apply(&text, &step)?;
        }
    }
    Ok(text)
}

/// Checks the text after the edits, that they are not made twice, and that taking them back restores the old text.
#[track_caller]
fn check(form: Form, before: &str, edits: &[Edit], after: &str) {
    let (text, made, _) = make(form, before, edits).unwrap();
    assert_eq!(text, after);
    assert_eq!(make(form, &text, edits).unwrap().0, text, "a second time changes nothing");
    assert_eq!(take_back(form, &text, &made).unwrap(), before);
}

/// Like [`check`], where taking back restores the meaning, but not the layout of something empty.
#[track_caller]
fn check_one_way(form: Form, before: &str, edits: &[Edit], after: &str, back: &str) {
    let (text, made, _) = make(form, before, edits).unwrap();
    assert_eq!(text, after);
    let restored = take_back(form, &text, &made).unwrap();
    assert_eq!(restored, back);
    assert_eq!(form.parse(&restored), form.parse(before));
}

#[test]
fn json_of_one_line_stays_on_one_line() {
    check(
        Form::Json,
        r#"{"a":1}"#,
        &[entry()],
        r#"{"a":1, "mcpServers": {"haft": {"command": "haft", "args": ["mcp"]}}}"#,
    );
    check(
        Form::Json,
        r#"{"mcpServers":{"x":{"command":"x"}}, "b": []}"#,
        &[entry(), Edit::item(&["b"], "one")],
        r#"{"mcpServers":{"x":{"command":"x"}, "haft": {"command": "haft", "args": ["mcp"]}}, "b": ["one"]}"#,
    );
}

#[test]
fn json_follows_the_indentation_and_comments_of_the_file() {
    check(
        Form::Json,
        "{\n\t// servers\n\t\"mcpServers\": {\n\t\t\"x\": {\"command\": \"x\"} // the last\n\t} /* end */\n}\n",
        &[entry()],
        "{\n\t// servers\n\t\"mcpServers\": {\n\t\t\"x\": {\"command\": \"x\"}, // the last\n\t\t\"haft\": {\n\t\t\t\"command\": \"haft\",\n\t\t\t\"args\": [\"mcp\"]\n\t\t}\n\t} /* end */\n}\n",
    );
    check(
        Form::Json,
        "{\n    \"a\": 1, // one\n    // nothing more\n}\n",
        &[Edit::set(&["b"], json!(true))],
        "{\n    \"a\": 1, // one\n    \"b\": true,\n    // nothing more\n}\n",
    );
}

#[test]
fn json_keeps_line_breaks_marks_and_missing_ends() {
    check(
        Form::Json,
        "\u{feff}{\r\n  \"ä\": \"ö\"\r\n}",
        &[Edit::set(&["b"], json!({"c": false}))],
        "\u{feff}{\r\n  \"ä\": \"ö\",\r\n  \"b\": {\r\n    \"c\": false\r\n  }\r\n}",
    );
}

#[test]
fn json_lists_grow_as_they_are_laid_out() {
    let both = [Edit::item(&["l"], "b"), Edit::item(&["l"], "c")];
    check(Form::Json, r#"{"l": ["a"]}"#, &both, r#"{"l": ["a", "b", "c"]}"#);
    check(
        Form::Json,
        "{\n  \"l\": [\n    \"a\" // first\n  ]\n}\n",
        &both,
        "{\n  \"l\": [\n    \"a\", // first\n    \"b\",\n    \"c\"\n  ]\n}\n",
    );
    check(
        Form::Json,
        "{\n  \"l\": [\n    \"a\",\n  ],\n}\n",
        &both,
        "{\n  \"l\": [\n    \"a\",\n    \"b\",\n    \"c\",\n  ],\n}\n",
    );
}

#[test]
fn json_without_content_gets_its_first_value() {
    let edit = [Edit::set(&["a"], json!(1))];
    check_one_way(Form::Json, "", &edit, "{\n  \"a\": 1\n}\n", "{}\n");
    check_one_way(Form::Json, "// mine\n", &edit, "// mine\n{\n  \"a\": 1\n}\n", "// mine\n{}\n");
    check(Form::Json, "{}", &edit, "{\n  \"a\": 1\n}");
    check_one_way(Form::Json, "{\n}\n", &edit, "{\n  \"a\": 1\n}\n", "{}\n");
    check(Form::Json, "{\n  // none\n}\n", &edit, "{\n  // none\n  \"a\": 1\n}\n");
}

#[test]
fn a_table_that_was_empty_before_stays() {
    let before = "{\n  \"mcpServers\": {},\n  \"b\": 2\n}";
    let (text, made, _) = make(Form::Json, before, &[entry()]).unwrap();
    assert_eq!(take_back(Form::Json, &text, &made).unwrap(), before);
}

#[test]
fn what_others_added_to_a_new_table_stays() {
    let (text, made, _) = make(Form::Json, "{\n  \"b\": 2\n}", &[entry()]).unwrap();
    let theirs = Edit::set(&["mcpServers", "other"], json!({"command": "x"}));
    let (text, ..) = make(Form::Json, &text, &[theirs]).unwrap();
    let back = take_back(Form::Json, &text, &made).unwrap();
    assert_eq!(Form::Json.parse(&back), Ok(json!({"b": 2, "mcpServers": {"other": {"command": "x"}}})));
}

#[test]
fn other_keys_of_an_entry_stay_when_it_is_updated() {
    let before = "{\n  \"mcpServers\": {\n    \"haft\": {\"command\": \"/old/haft\", \"env\": {\"A\": \"b\"}}\n  }\n}\n";
    let (text, ..) = make(Form::Json, before, &[entry()]).unwrap();
    let expected = r#"{"command": "haft", "env": {"A": "b"}, "args": ["mcp"]}"#;
    assert_eq!(text, before.replace(r#"{"command": "/old/haft", "env": {"A": "b"}}"#, expected));
}

#[test]
fn a_replaced_value_comes_back() {
    check(
        Form::Json,
        "{\n  \"permission\": {\"edit\": \"ask\"}\n}\n",
        &[Edit::set(&["permission", "edit"], json!("deny"))],
        "{\n  \"permission\": {\"edit\": \"deny\"}\n}\n",
    );
    check(
        Form::Toml,
        "[features]\nshell_tool = true # mine\n",
        &[Edit::set(&["features", "shell_tool"], json!(false))],
        "[features]\nshell_tool = false # mine\n",
    );
}

#[test]
fn broken_json_is_refused() {
    for text in ["{\"a\":}", "{\"a\": 1 \"b\": 2}", "{'a': 1}", "{\"a\": 1", "[1]", "1", "{} {}"] {
        Form::Json.parse(text).unwrap_err();
        make(Form::Json, text, &[entry()]).unwrap_err();
    }
    for (form, text) in
        [(Form::Toml, "a = "), (Form::Toml, "[a]\n[a]\n"), (Form::Yaml, "a: [1"), (Form::Yaml, "- 1")]
    {
        make(form, text, &[entry()]).unwrap_err();
    }
}

#[test]
fn a_value_of_another_type_is_named() {
    let error = make(Form::Json, r#"{"mcpServers": []}"#, &[entry()]).unwrap_err();
    assert_eq!(error, "`mcpServers` is not a table");
    let error = make(Form::Json, r#"{"l": {}}"#, &[Edit::item(&["l"], "a")]).unwrap_err();
    assert_eq!(error, "`l` is not a list");
}

fn codex() -> Edit {
    Edit::set(&["mcp_servers", "haft"], json!({"command": "haft", "args": ["mcp"], "mode": "approve"}))
}

const CODEX: &str = "[mcp_servers.haft]\ncommand = \"haft\"\nargs = [\"mcp\"]\nmode = \"approve\"\n";

#[test]
fn toml_keeps_comments_order_and_line_breaks() {
    let before = "# mine\nmodel = \"x\" # why\n\n[mcp_servers.other] # theirs\ncommand = 'y'\n\n[tui]\ntheme = \"z\"\n# end\n";
    let (text, made, _) = make(Form::Toml, before, &[codex()]).unwrap();
    for line in before.lines().filter(|line| !line.is_empty()) {
        assert!(text.contains(line), "{text}");
    }
    assert!(text.contains(CODEX), "{text}");
    assert_eq!(take_back(Form::Toml, &text, &made).unwrap(), before);
    let dos = "[a]\r\nx = 1\r\n";
    check(Form::Toml, dos, &[codex()], &format!("{dos}\r\n{}", CODEX.replace('\n', "\r\n")));
    let mixed = "[a]\r\nx = 1\ny = 2\n";
    assert!(make(Form::Toml, mixed, &[codex()]).unwrap_err().contains("line breaks"));
}

#[test]
fn toml_tables_can_be_written_in_other_ways() {
    for before in ["mcp_servers = { x = { command = \"y\" } }\n", "mcp_servers.x.command = \"y\"\n", ""] {
        let (text, made, _) = make(Form::Toml, before, &[codex()]).unwrap();
        assert_eq!(Form::Toml.parse(&text).unwrap()["mcp_servers"]["haft"]["command"], "haft", "{text}");
        let back = take_back(Form::Toml, &text, &made).unwrap();
        assert_eq!(back, before);
    }
}

fn goose() -> Edit {
    Edit::set(&["extensions", "haft"], json!({"cmd": "haft", "args": ["mcp"], "enabled": true}))
}

#[test]
fn yaml_gets_an_entry_below_its_table() {
    let added = "  haft:\n    cmd: \"haft\"\n    args: [\"mcp\"]\n    enabled: true\n";
    let first = "# mine\nextensions:\n  developer: # theirs\n    enabled: true\n    args:\n    - a\n";
    let last = "# the provider\nGOOSE_PROVIDER: x\n";
    check(Form::Yaml, &format!("{first}\n{last}"), &[goose()], &format!("{first}{added}\n{last}"));
    check(Form::Yaml, last, &[goose()], &format!("{last}extensions:\n{added}"));
    check(Form::Yaml, first, &[goose()], &format!("{first}{added}"));
    let (text, ..) = make(Form::Yaml, first.trim_end(), &[goose()]).unwrap();
    assert_eq!(text, format!("{first}{added}"));
    let dos = first.replace('\n', "\r\n");
    check(Form::Yaml, &dos, &[goose()], &format!("{first}{added}").replace('\n', "\r\n"));
}

#[test]
fn yaml_that_is_not_laid_out_in_lines_is_refused() {
    for text in
        ["extensions: {a: {enabled: true}}\n", "{extensions: {a: 1}}\n", "a: &x {b: 1}\nextensions: *x\n"]
    {
        make(Form::Yaml, text, &[goose()]).unwrap_err();
    }
}

#[test]
fn an_empty_yaml_table_in_braces_gets_lines() {
    let added = "  haft:\n    cmd: \"haft\"\n    args: [\"mcp\"]\n    enabled: true\n";
    let (text, made, _) = make(Form::Yaml, "extensions: {} # mine\na: 1\n", &[goose()]).unwrap();
    assert_eq!(text, format!("extensions: # mine\n{added}a: 1\n"));
    assert_eq!(take_back(Form::Yaml, &text, &made).unwrap(), "extensions: {} # mine\na: 1\n");
}

#[test]
fn a_yaml_table_is_empty_again_after_its_last_key() {
    let text = "extensions:\n  haft:\n    cmd: x\nother: 1\n";
    let path = vec!["extensions".to_owned(), "haft".to_owned()];
    let after = Form::Yaml.apply(text, &Step::Remove { path }).unwrap();
    assert_eq!(after, "extensions: {}\nother: 1\n");
}

#[test]
fn a_yaml_entry_is_updated_in_place() {
    let before = "extensions:\n  haft:\n    cmd: old # mine\n    args:\n      - mcp\n      - x\n    envs: {A: b}\n    enabled: true\n";
    let (text, ..) = make(Form::Yaml, before, &[goose()]).unwrap();
    assert_eq!(
        text,
        "extensions:\n  haft:\n    cmd: \"haft\"\n    args: [\"mcp\"]\n    envs: {A: b}\n    enabled: true\n"
    );
}

/// Texts whose edits are compared: whatever the layout, an edit means what it says, and the recorded changes lead back.
#[test]
fn the_recorded_changes_lead_back_from_every_layout() {
    let blanks = ["", " ", "\n", "\n\n  ", " // c\n ", " /* c */ ", "\r\n\t"];
    let others = ["", "\"mcpServers\": {}", "\"mcpServers\": {\"x\": 1}", "\"l\": [\"ü\"]", "\"l\": []"];
    let edits =
        [entry(), Edit::item(&["l"], "one"), Edit::item(&["l"], "two"), Edit::set(&["t", "u"], json!("v"))];
    for before in blanks {
        for after in blanks {
            for other in others {
                for comma in ["", ","] {
                    if other.is_empty() && !comma.is_empty() {
                        continue;
                    }
                    let text = format!("{{{before}{other}{after}{comma}{before}}}{after}");
                    let (changed, made, splices) = make(Form::Json, &text, &edits).unwrap();
                    let document = Form::Json.parse(&changed).unwrap();
                    assert!(edits.iter().all(|edit| edit.is_in(&document)), "{changed}");
                    let back =
                        splices.iter().rev().try_fold(changed.clone(), |text, splice| splice.undo(&text));
                    assert_eq!(back.as_ref(), Some(&text));
                    let taken = take_back(Form::Json, &changed, &made).unwrap();
                    let meaning = |text: &str| Form::Json.parse(text).unwrap();
                    assert_eq!(meaning(&taken), meaning(&text), "{changed}");
                    let comments =
                        |text: &str| (text.matches("// c").count(), text.matches("/* c */").count());
                    assert_eq!(comments(&taken), comments(&text), "{changed}");
                }
            }
        }
    }
}

#[test]
fn a_splice_never_cuts_a_character() {
    for (before, after) in [("aéb", "aèb"), ("é", "éé"), ("日本", "本"), ("", "é"), ("é", "")] {
        let splice = Splice::between(before, after);
        assert_eq!(splice.undo(after).as_deref(), Some(before));
    }
}

#[test]
fn names_of_clients_are_unique_and_their_data_is_consistent() {
    let mut names = std::collections::BTreeSet::new();
    for client in super::CLIENTS {
        assert!(names.insert(client.name), "{}", client.name);
        let shown = client.layout.entry("haft", &["mcp".to_owned()]);
        let command = client.layout.command(&Value::Object(shown));
        assert_eq!(command, Some(vec!["haft".to_owned(), "mcp".to_owned()]));
        assert!(!client.user.servers.is_empty() && !client.programs.is_empty() && !client.traces.is_empty());
    }
    assert!(names.iter().is_sorted());
}

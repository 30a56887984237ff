//! Properties across dialects: equivalent requests lower to the same operation, and the limits in descriptions are those
//! of the operation.
#![allow(clippy::disallowed_methods)] // the tests create their files with std::fs

use std::collections::BTreeMap;

use haft_core::{Context, Engine, Tool, Workspace};
use serde_json::{Value, json};

use super::{ally, cdd, claude, workspace};
use haft_ops::{self as ops, List, Part};

const MB: u64 = 1024 * 1024;

/// A workspace with `src/notes.txt` in it, and a context.
fn workspace_with_notes() -> (tempfile::TempDir, Context) {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("src")).unwrap();
    std::fs::write(folder.path().join("src/notes.txt"), "one\ntwo\n").unwrap();
    let session = Engine::default().session(Workspace::open(folder.path()).unwrap()).start();
    let cx = session.context();
    (folder, cx)
}

fn read<T: Tool<Op = ops::Read>>(input: Value, cx: &Context) -> ops::Read {
    T::lower(&serde_json::from_value(input).unwrap(), cx).unwrap()
}

fn list<T: Tool<Op = List>>(input: Value, cx: &Context) -> List {
    T::lower(&serde_json::from_value(input).unwrap(), cx).unwrap()
}

#[test]
fn the_same_file_is_the_same_operation_in_every_dialect() {
    use haft_core::Operation as _;
    let (_folder, cx) = workspace_with_notes();
    let all = [
        read::<claude::Read>(json!({"file_path": "src/notes.txt"}), &cx),
        read::<ally::Read>(json!({"file_paths": ["src/notes.txt"]}), &cx),
        read::<cdd::Read>(json!({"file_path": "src/notes.txt"}), &cx),
        read::<workspace::ReadFile>(json!({"path": "src/notes.txt"}), &cx),
    ];
    for other in &all[1..] {
        assert_eq!(all[0].files, other.files);
        assert_eq!(all[0].claims(), other.claims());
        assert_eq!(all[0].fingerprint(&cx), other.fingerprint(&cx));
    }
    assert_eq!(all[0].claims().iter().count(), 1);
}

#[test]
fn the_same_window_is_the_same_part_however_its_lines_are_counted() {
    let (_folder, cx) = workspace_with_notes();
    let wanted = Part::Lines { start: 3, count: Some(2) };
    let path = "src/notes.txt";
    let claude = read::<claude::Read>(json!({"file_path": path, "offset": 3, "limit": 2}), &cx);
    let ally = read::<ally::Read>(json!({"file_paths": [path], "offset": 3, "limit": 2}), &cx);
    let cdd = read::<cdd::Read>(json!({"file_path": path, "offset": 2, "limit": 2}), &cx);
    assert_eq!([claude.part, ally.part, cdd.part], [wanted; 3]);
}

#[test]
fn every_dialect_starts_at_the_first_line_by_default() {
    let (_folder, cx) = workspace_with_notes();
    let path = "src/notes.txt";
    let starts = [
        read::<claude::Read>(json!({"file_path": path}), &cx).part,
        read::<claude::Read>(json!({"file_path": path, "offset": 0}), &cx).part,
        read::<cdd::Read>(json!({"file_path": path}), &cx).part,
    ];
    assert_eq!(starts, [Part::Lines { start: 1, count: Some(2000) }; 3]);
    let all = Part::Lines { start: 1, count: None };
    assert_eq!(read::<ally::Read>(json!({"file_paths": [path]}), &cx).part, all);
    assert_eq!(read::<ally::Read>(json!({"file_paths": [path], "limit": 0, "offset": 0}), &cx).part, all);
    assert_eq!(read::<workspace::ReadFile>(json!({"path": path}), &cx).part, Part::Bytes);
}

#[test]
fn the_same_folder_is_the_same_operation() {
    use haft_core::Operation as _;
    let (_folder, cx) = workspace_with_notes();
    let ally = list::<ally::Ls>(json!({"file_path": "src"}), &cx);
    let workspace = list::<workspace::ListDirectory>(json!({"path": "src"}), &cx);
    assert_eq!((&ally.folder, ally.claims()), (&workspace.folder, workspace.claims()));
    assert_eq!(ally.depth, workspace.depth);
    let deep = list::<workspace::ListDirectory>(json!({"path": "src", "recursive": true}), &cx);
    assert_eq!(deep.depth, ops::Depth::All);
}

/// Every number of lines, characters, tokens, entries or megabytes in a description is the operation's limit.
#[test]
fn limits_in_descriptions_are_the_real_ones() {
    let (_folder, cx) = workspace_with_notes();
    let path = "src/notes.txt";
    let claude = read::<claude::Read>(json!({"file_path": path}), &cx);
    let cdd = read::<cdd::Read>(json!({"file_path": path}), &cx);
    let ally = read::<ally::Read>(json!({"file_paths": [path]}), &cx);
    let ls = list::<ally::Ls>(json!({"file_path": "."}), &cx);
    let file = read::<workspace::ReadFile>(json!({"path": path}), &cx);
    let real: BTreeMap<&str, Vec<(&str, u64)>> = BTreeMap::from([
        ("claude/Read", vec![("lines", lines(&claude)), ("characters", claude.caps.line_chars as u64)]),
        (
            "cdd/read",
            vec![
                ("lines", lines(&cdd)),
                ("characters", cdd.caps.line_chars as u64),
                ("MB", cdd.caps.file_bytes.unwrap() / MB),
            ],
        ),
        ("ally/read", vec![("tokens", ally.caps.tokens.unwrap().max as u64)]),
        ("ally/ls", vec![("entries", ls.limit as u64)]),
        ("workspace/read_file", vec![("MB", file.caps.file_bytes.unwrap() / MB)]),
    ]);
    for dialect in super::all() {
        for tool in dialect.tools() {
            let name = format!("{}/{}", dialect.name(), tool.spec().name);
            let limits = quoted_limits(&tool.spec().description);
            assert_eq!(limits, real.get(&*name).cloned().unwrap_or_default(), "{name}");
        }
    }
}

fn lines(read: &ops::Read) -> u64 {
    match read.part {
        Part::Lines { count: Some(count), .. } => count,
        other => panic!("no limit of lines: {other:?}"),
    }
}

/// The limits in a text, such as `2000 lines`, without repetitions.
fn quoted_limits(text: &str) -> Vec<(&'static str, u64)> {
    let words: Vec<&str> = text.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
    let mut found = Vec::new();
    for unit in ["lines", "characters", "tokens", "entries", "MB"] {
        for pair in words.windows(2) {
            if let (Ok(number), true) = (pair[0].parse(), pair[1] == unit) {
                found.push((unit, number));
            }
        }
    }
    found.dedup();
    found
}

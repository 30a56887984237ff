//! The references in `docs/` are up to date with what the binary prints. `UPDATE_DOCS=1` regenerates them.
#![allow(clippy::disallowed_methods, clippy::unwrap_used)] // runs the binary, and reads and writes docs

use std::path::Path;
use std::process::Command;

#[test]
fn tools_md_is_what_haft_prints() {
    is_fresh("tools.md", &["tools", "--format", "markdown"]);
}

#[test]
fn settings_md_is_what_haft_prints() {
    is_fresh("settings.md", &["settings", "--reference"]);
}

#[test]
fn setup_md_is_what_haft_prints() {
    is_fresh("setup.md", &["setup", "--markdown"]);
}

#[test]
fn the_readme_names_every_client_as_setup_md_does() {
    let read = |file: &str| {
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)).unwrap()
    };
    let (readme, setup) = (read("README.md"), read("docs/setup.md"));
    let rows: Vec<&str> =
        setup.lines().filter(|line| line.contains("`haft setup ") && line.starts_with("| ")).collect();
    assert_eq!(rows.len(), haft_host::setup::CLIENTS.len());
    assert!(readme.contains(&rows.join("\n")), "README.md lacks this table:\n{}", rows.join("\n"));
}

fn is_fresh(file: &str, args: &[&str]) {
    let output = Command::new(env!("CARGO_BIN_EXE_haft")).args(args).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let printed = String::from_utf8(output.stdout).unwrap();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        return std::fs::write(path, printed).unwrap();
    }
    let written = std::fs::read_to_string(&path).unwrap_or_default();
    if let Some((at, (old, new))) =
        written.lines().zip(printed.lines()).enumerate().find(|(_, (old, new))| old != new)
    {
        panic!("docs/{file}, line {} is not what haft prints:\n- {old}\n+ {new}\n{HOW}", at + 1);
    }
    assert!(written == printed, "docs/{file} is shorter or longer than what haft prints\n{HOW}");
}

const HOW: &str = "UPDATE_DOCS=1 cargo test -p haft-cli --test docs writes it anew";

#[test]
fn the_readme_names_the_tools_of_every_dialect() {
    let readme = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../README.md");
    let readme = std::fs::read_to_string(readme).unwrap();
    for dialect in haft_dialects::all() {
        let mut command = Command::new(env!("CARGO_BIN_EXE_haft"));
        let output =
            command.args(["tools", "--format", "json", "--dialect", dialect.name()]).output().unwrap();
        let tools: Vec<serde_json::Value> = serde_json::from_slice(&output.stdout).unwrap();
        let names: Vec<&str> = tools.iter().filter_map(|tool| tool["name"].as_str()).collect();
        let row = format!("| {} |", names.join(", "));
        assert!(readme.contains(&row), "{}: {row}", dialect.name());
    }
}

/// An unescaped `|` in a cell would add a column.
#[test]
fn tables_have_as_many_columns_as_their_heads() {
    for file in ["tools.md", "settings.md", "setup.md"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs").join(file);
        let text = std::fs::read_to_string(path).unwrap();
        let mut columns = None;
        for line in text.lines() {
            let count = line.replace("\\|", "").matches('|').count();
            columns = match (line.starts_with('|'), columns) {
                (false, _) => None,
                (true, None) => Some(count),
                (true, Some(head)) => {
                    assert_eq!(head, count, "{file}: {line}");
                    Some(head)
                }
            };
        }
    }
}

//! `haft setup` without a client: which clients are installed, which are set up, and whether that works.

use std::io::Write;
use std::process::ExitCode;

use haft_host::setup::{self, CLIENTS, Places};
use serde_json::json;

use super::check::{self, Checked};
use crate::args::Common;
use crate::style::{BAD, BOLD, DIM, GOOD, one_line};

pub(super) fn run(common: &Common, places: &Places) -> anyhow::Result<ExitCode> {
    let checked = check::check(setup::find(places))?;
    let of = |name: &str| -> Vec<&Checked> {
        checked.iter().filter(|checked| checked.found.client.name == name).collect()
    };
    let mut out = anstream::stdout().lock();
    if common.json {
        let rows: Vec<_> = CLIENTS
            .iter()
            .map(|client| {
                let entries: Vec<_> = of(client.name).into_iter().map(entry).collect();
                let installed = client.installed(places).map(|how| how.path().display().to_string());
                json!({"client": client.name, "title": client.title, "installed": installed, "entries": entries})
            })
            .collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    for client in CLIENTS {
        let installed = match client.installed(places) {
            Some(how) => format!("installed ({})", one_line(&how.path().display().to_string())),
            None => "not found".to_owned(),
        };
        writeln!(out, "{BOLD}{:14}{BOLD:#} {:15} {DIM}{installed}{DIM:#}", client.name, client.title)?;
        for Checked { found, problem } in of(client.name) {
            let path = one_line(&found.path.display().to_string());
            let command = found.command.as_ref().map(|words| words.join(" ")).unwrap_or_default();
            match problem {
                None => {
                    writeln!(out, "  {GOOD}✓{GOOD:#} {} {path}: {}", found.level.name(), one_line(&command))?
                }
                Some(problem) => {
                    writeln!(out, "  {BAD}✗{BAD:#} {} {path}: {}", found.level.name(), one_line(problem))?;
                }
            }
        }
    }
    writeln!(out, "`haft setup CLIENT` shows what it would write, and asks")?;
    Ok(ExitCode::SUCCESS)
}

fn entry(Checked { found, problem }: &Checked) -> serde_json::Value {
    json!({
        "level": found.level.name(),
        "path": found.path.display().to_string(),
        "command": found.command.as_ref().ok(),
        "works": problem.is_none(),
        "problem": problem,
    })
}

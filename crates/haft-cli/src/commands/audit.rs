//! `haft audit`: every decision about a call, and whether the hash chain of the log is intact.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use haft_core::audit::{Audit, AuditLine, AuditOutcome, Chain};
use haft_core::stats::ToolStats;
use serde_json::json;

use crate::args::Common;
use crate::host;
use crate::style::{self, BAD, DIM, GOOD};
use crate::table::{self, Rows};

pub(super) fn run(common: &Common, limit: usize) -> anyhow::Result<ExitCode> {
    let environment = host::environment(common)?;
    let (lines, mut chain) = Audit::read(&environment.state)?;
    if lines.is_empty() && chain == Chain::Intact {
        // Another record tells whether there were calls. Those that succeeded or were denied were written down before; one
        // that failed may have been wrong in itself, so that nothing was decided about it.
        let decided = |tool: &ToolStats| tool.successes + tool.denials;
        let calls: u64 = haft_host::stats(&environment.state)?.values().map(decided).sum();
        if calls > 0 {
            chain = Chain::Broken(1, format!("all lines are gone, although {calls} calls were made here"));
        }
    }
    let of_session =
        |line: &&AuditLine| common.session.as_ref().is_none_or(|name| *name == line.entry.session);
    let wanted: Vec<&AuditLine> = lines.iter().filter(of_session).collect();
    let shown = &wanted[wanted.len().saturating_sub(limit)..];
    let mut out = anstream::stdout().lock();
    let code = if chain == Chain::Intact { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    if common.json {
        let broken = match &chain {
            Chain::Intact => None,
            Chain::Broken(at, why) => Some(json!({"line": at, "why": why})),
        };
        let output = json!({"whole": broken.is_none(), "broken": broken, "lines": shown});
        writeln!(out, "{}", serde_json::to_string_pretty(&output)?)?;
        return Ok(code);
    }
    let mut rows = Rows::new(&["line", "ago", "decision", "session", "call", "by"]);
    for AuditLine { number, entry: decided, .. } in shown {
        let word = match decided.decision {
            AuditOutcome::Allowed => "allowed",
            AuditOutcome::Denied => "denied",
        };
        rows.add([
            number.to_string(),
            style::ago(UNIX_EPOCH + Duration::from_millis(decided.at)),
            word.to_owned(),
            decided.session.to_string(),
            format!("{} {}", decided.tool, about(&decided.input)),
            decided.by.clone(),
        ]);
    }
    rows.numbers([0]);
    if !rows.is_empty() {
        write!(out, "{rows}")?;
    }
    if shown.len() < wanted.len() {
        let (few, all) = (shown.len(), wanted.len());
        let told = format!("the last {few} of {all} decisions; `haft audit -n {all}` shows all");
        writeln!(out, "{DIM}{}{DIM:#}", table::hanging(&told, 0))?;
    }
    match chain {
        Chain::Intact if lines.is_empty() => writeln!(out, "no call was decided about here yet")?,
        Chain::Intact => {
            writeln!(out, "{GOOD}all {} lines are as they were written{GOOD:#}", lines.len())?;
            let checked = "checked: no line was changed, removed or inserted. The chain has no key, so this does not detect \
                           somebody who can write haft's state and computes all of it anew";
            writeln!(out, "{DIM}{}{DIM:#}", table::hanging(checked, 0))?;
        }
        Chain::Broken(at, why) => {
            writeln!(out, "{BAD}from line {at} on this cannot be trusted: {why}{BAD:#}")?
        }
    }
    Ok(code)
}

/// The first string among a call's arguments, shortened.
fn about(input: &serde_json::Value) -> String {
    let first = input.as_object().and_then(|fields| fields.values().find_map(|value| value.as_str()));
    first.unwrap_or_default().chars().take(60).collect()
}

//! `haft audit`: every decision about a call, and whether the hash chain of the log is intact.

use std::io::Write;
use std::process::ExitCode;
use std::time::{Duration, UNIX_EPOCH};

use haft_core::audit::{Audit, AuditLine, AuditOutcome, Chain};
use serde_json::json;

use crate::args::Common;
use crate::host;
use crate::style::{self, BAD, DIM, GOOD, one_line};

pub(super) fn run(common: &Common, limit: usize) -> anyhow::Result<ExitCode> {
    let environment = host::environment(common)?;
    let (lines, mut chain) = Audit::read(&environment.state)?;
    if lines.is_empty() && chain == Chain::Intact {
        // Another record tells whether there were calls, which are written down before they happen.
        let calls: u64 = haft_host::stats(&environment.state)?.values().map(|tool| tool.calls).sum();
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
    for AuditLine { number, entry: decided, .. } in shown {
        let when = style::ago(UNIX_EPOCH + Duration::from_millis(decided.at));
        let (word, style) = match decided.decision {
            AuditOutcome::Allowed => ("allowed", GOOD),
            AuditOutcome::Denied => ("denied", BAD),
        };
        let (tool, by) = (one_line(&decided.tool), one_line(&decided.by));
        let about = about(&decided.input);
        writeln!(
            out,
            "{DIM}{number:>5}  {when}{DIM:#}  {style}{word:<7}{style:#}  {tool} {about}  {DIM}{by}{DIM:#}"
        )?;
    }
    match chain {
        Chain::Intact if lines.is_empty() => writeln!(out, "no call was decided about here yet")?,
        Chain::Intact => {
            writeln!(out, "{GOOD}all {} lines are as they were written{GOOD:#}", lines.len())?;
            writeln!(
                out,
                "{DIM}checked: no line was changed, removed or inserted. The chain has no key, so this does not detect \
                 somebody who can write haft's state and computes all of it anew{DIM:#}"
            )?;
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
    one_line(first.unwrap_or_default()).chars().take(60).collect()
}

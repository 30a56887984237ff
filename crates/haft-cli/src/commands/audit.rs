//! `haft audit`: every decision about a call, and whether the hash chain of the log is intact.

use std::fmt;
use std::io::Write;
use std::process::ExitCode;
use std::str::FromStr;
use std::time::{Duration, UNIX_EPOCH};

use haft_core::Store;
use haft_core::audit::{Audit, AuditLine, AuditOutcome, Chain};
use haft_core::stats::ToolStats;
use serde_json::json;

use crate::args::Common;
use crate::host;
use crate::style::{self, BAD, DIM, GOOD};
use crate::table::{self, Rows};

pub(super) fn run(common: &Common, limit: usize, known: Option<&KnownLine>) -> anyhow::Result<ExitCode> {
    let environment = host::environment(common)?;
    let (lines, mut chain) = Audit::read(&environment.state)?;
    if chain == Chain::Intact {
        chain = enough_lines(&lines, &environment.state)?;
    }
    if let (Chain::Intact, Some(known)) = (&chain, known) {
        chain = known.find(&lines);
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
        let last = lines.last().map(|line| KnownLine::of(line).to_string());
        let output = json!({"whole": broken.is_none(), "broken": broken, "last": last, "lines": shown});
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
            let last = lines.last().map(KnownLine::of).unwrap_or_default();
            let checked = format!(
                "checked: no line was changed, removed or inserted, and there are as many as calls were counted. The chain \
                 has no key, so this does not detect somebody who can write haft's state and computes all of it anew. \
                 To notice that, too, keep the last line's mark elsewhere and check later that it is still there: \
                 `haft audit --contains {last}`"
            );
            writeln!(out, "{DIM}{}{DIM:#}", table::hanging(&checked, 0))?;
        }
        Chain::Broken(at, why) => {
            writeln!(out, "{BAD}from line {at} on this cannot be trusted: {why}{BAD:#}")?
        }
    }
    Ok(code)
}

/// Compares the number of lines with the statistics, which count calls on their own. Those that succeeded or were denied
/// were written down before; one that failed may have been wrong in itself, so that nothing was decided about it.
fn enough_lines(lines: &[AuditLine], state: &Store) -> anyhow::Result<Chain> {
    let decided = |tool: &ToolStats| tool.successes + tool.denials;
    let calls: u64 = haft_host::stats(state)?.values().map(decided).sum();
    let last = lines.last().map_or(0, |line| line.number);
    Ok(match last {
        last if last >= calls => Chain::Intact,
        0 => Chain::Broken(1, format!("all lines are gone, although {calls} calls were made here")),
        last => {
            let why = format!(
                "lines are missing at the end: there are {last}, although {calls} calls were made here"
            );
            Chain::Broken(last + 1, why)
        }
    })
}

/// Number and hash of a line that a person has kept elsewhere, as `NUMBER:HASH`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KnownLine {
    number: u64,
    hash: String,
}

impl KnownLine {
    fn of(line: &AuditLine) -> Self {
        Self { number: line.number, hash: line.hash.clone() }
    }

    /// Whether the log still has the line. One that a rotation has dropped cannot be found any more.
    fn find(&self, lines: &[AuditLine]) -> Chain {
        match lines.iter().find(|line| line.number == self.number) {
            Some(line) if line.hash == self.hash => Chain::Intact,
            Some(_) => Chain::Broken(self.number, format!("line {} is not the one of `{self}`", self.number)),
            None => Chain::Broken(self.number, format!("the line of `{self}` is not there")),
        }
    }
}

impl fmt::Display for KnownLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.number, self.hash)
    }
}

impl FromStr for KnownLine {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (number, hash) =
            text.split_once(':').ok_or("it must be NUMBER:HASH, as `haft audit` prints it")?;
        let number = number.parse().map_err(|_| format!("`{number}` is no number of a line"))?;
        Ok(Self { number, hash: hash.to_owned() })
    }
}

/// The first string among a call's arguments, shortened.
fn about(input: &serde_json::Value) -> String {
    let first = input.as_object().and_then(|fields| fields.values().find_map(|value| value.as_str()));
    first.unwrap_or_default().chars().take(60).collect()
}

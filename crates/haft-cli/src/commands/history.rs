//! `haft history`: the changes in the journal, with diffs on request.

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context as _;
use haft_core::AbsPath;
use haft_journal::{Entry, EntryState, Side};
use haft_ops as ops;
use serde_json::{Value, json};

use crate::args::Common;
use crate::host::{self, Interaction};
use crate::style::{BOLD, DIM, NAME, ago, diff_line, notice, one_line};
use haft_host::Host;

pub(super) fn run(common: &Common, diff: bool, limit: usize, numbers: &[u64]) -> anyhow::Result<ExitCode> {
    let host = host::open(common, Interaction::Terminal)?;
    let entries = match numbers {
        [] => host.journal().history(limit)?,
        numbers => {
            let each = numbers.iter().map(|number| host.journal().entry(*number));
            match each.collect::<Result<Vec<_>, _>>() {
                Ok(entries) => entries,
                Err(error) => {
                    crate::style::report(&error.into());
                    return Ok(ExitCode::FAILURE);
                }
            }
        }
    };
    host.journal().take_notes().iter().for_each(|note| notice(note));
    let mut out = anstream::stdout().lock();
    if common.json {
        let rows = entries.iter().map(|entry| row(&host, entry, diff)).collect::<anyhow::Result<Vec<_>>>()?;
        writeln!(out, "{}", serde_json::to_string_pretty(&rows)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    if entries.is_empty() {
        writeln!(
            out,
            "{DIM}nothing has been changed in {}{DIM:#}",
            one_line(&host.workspace().root().to_string())
        )?;
    }
    for entry in &entries {
        let state = match entry.state {
            EntryState::Done => String::new(),
            EntryState::Undone(by) => format!("  undone by {by}"),
            EntryState::NotApplied => "  not applied".to_owned(),
            EntryState::External => "  interrupted".to_owned(),
            EntryState::Open => "  unfinished".to_owned(),
        };
        let undoes = entry.undoes.map(|number| format!("  undoes {number}")).unwrap_or_default();
        writeln!(
            out,
            "{BOLD}{:>5}{BOLD:#}  {DIM}{:>8}{DIM:#}  {NAME}{}{NAME:#}  {}{DIM}{undoes}{state}{DIM:#}",
            entry.number,
            ago(entry.time),
            one_line(&entry.tool),
            one_line(&touched(&host, entry)),
        )?;
        if diff {
            for line in changes(&host, entry)?.lines() {
                writeln!(out, "{}", diff_line(line))?;
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// The diff of a change.
fn changes(host: &Host, entry: &Entry) -> anyhow::Result<String> {
    let sides = [Side::Before, Side::After];
    ops::difference(host.journal(), host.workspace(), entry, sides)
        .with_context(|| format!("change {} cannot be shown", entry.number))
}

fn touched(host: &Host, entry: &Entry) -> String {
    let paths = entry.touched.iter().map(|touched| {
        let path = host.workspace().display(&AbsPath::lexical(&touched.path));
        match (touched.before.as_str(), touched.after.as_str()) {
            ("nothing", _) => format!("+{path}"),
            (_, "nothing") => format!("-{path}"),
            _ => path,
        }
    });
    paths.collect::<Vec<_>>().join(" ")
}

fn row(host: &Host, entry: &Entry, diff: bool) -> anyhow::Result<Value> {
    let touched = entry.touched.iter().map(|touched| {
        json!({
            "path": host.workspace().display(&AbsPath::lexical(&touched.path)),
            "before": touched.before,
            "after": touched.after,
            "size_before": touched.size_before,
            "size_after": touched.size_after,
        })
    });
    let (state, by) = match entry.state {
        EntryState::Done => ("done", None),
        EntryState::Undone(by) => ("undone", Some(by)),
        EntryState::NotApplied => ("not_applied", None),
        EntryState::External => ("interrupted", None),
        EntryState::Open => ("unfinished", None),
    };
    let time = entry.time.duration_since(std::time::SystemTime::UNIX_EPOCH).unwrap_or_default();
    let mut row = json!({
        "number": entry.number,
        "time_ms": time.as_millis() as u64,
        "tool": entry.tool,
        "session": entry.session,
        "state": state,
        "undone_by": by,
        "undoes": entry.undoes,
        "files": touched.collect::<Vec<_>>(),
    });
    if diff {
        row["diff"] = json!(changes(host, entry)?);
    }
    Ok(row)
}

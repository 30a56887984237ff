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
            one_line(&touched(&host, entry).join(" ")),
        )?;
        if let Some(command) = &entry.command {
            writeln!(out, "{:17}{DIM}$ {}{DIM:#}", "", one_line(command))?;
        }
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

/// Most paths that are shown of what a command changed.
const MAX_TOLD: usize = 8;

/// What a session's commands have changed since a change with this number, for the person at the terminal.
pub(super) fn tell_commands(host: &Host, session: &str, since: u64) {
    let entries = host.journal().history(MAX_TOLD).unwrap_or_default();
    let is_new = |entry: &&Entry| entry.number > since && entry.session == session && entry.command.is_some();
    for entry in entries.iter().filter(is_new) {
        let all = touched(host, entry);
        let mut shown = all.iter().take(MAX_TOLD).cloned().collect::<Vec<_>>().join(" ");
        if all.len() > MAX_TOLD {
            shown.push_str(&format!(" and {} more", all.len() - MAX_TOLD));
        }
        notice(&format!("change {}: {}; `haft undo` undoes it", entry.number, one_line(&shown)));
    }
}

/// The number of the last change.
pub(super) fn last_number(host: &Host) -> u64 {
    host.journal().history(1).ok().and_then(|entries| entries.first().map(|entry| entry.number)).unwrap_or(0)
}

/// The paths that a change touched, deletions first; files of a repository itself as one.
fn touched(host: &Host, entry: &Entry) -> Vec<String> {
    let paths = entry.touched.iter().map(|touched| {
        let git = touched.path.ancestors().find(|above| above.ends_with(".git"));
        let path = host.workspace().display(&AbsPath::lexical(git.unwrap_or(&touched.path)));
        match (touched.before.as_str(), touched.after.as_str()) {
            _ if git.is_some_and(|git| git != touched.path) => path,
            ("nothing", _) => format!("+{path}"),
            (_, "nothing") => format!("-{path}"),
            _ => path,
        }
    });
    let mut paths: Vec<String> = paths.collect();
    paths.sort_by_key(|path| !path.starts_with('-'));
    let mut seen = std::collections::HashSet::new();
    paths.retain(|path| seen.insert(path.clone()));
    paths
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
        "command": entry.command,
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

//! `haft undo` and `haft redo`: for people. Whoever types it has decided it, so nobody is asked.

use std::io::Write;
use std::process::ExitCode;

use haft_core::{Durability, Fault};
use haft_journal::Label;
use haft_ops::{Clash, Direction, Undo, Undone, Which};
use serde_json::json;

use crate::args::Common;
use crate::host::{self, Asked};
use crate::style::{BOLD, NAME, diff_line, notice, one_line};

/// What was typed.
pub(super) struct Wanted {
    pub(super) numbers: Vec<u64>,
    pub(super) last: Option<std::num::NonZeroUsize>,
    pub(super) clash: Clash,
    pub(super) dry_run: bool,
}

pub(super) fn run(common: &Common, direction: Direction, wanted: &Wanted) -> anyhow::Result<ExitCode> {
    let host = host::open(common, Asked::AtTerminal)?;
    if host.mode() == haft_core::Mode::Plan && !wanted.dry_run {
        anyhow::bail!("in the mode `plan` nothing is changed; `--dry-run` shows what would be");
    }
    let which = match wanted.numbers.as_slice() {
        [] => Which::Last(wanted.last.map_or(1, std::num::NonZeroUsize::get), common.session.as_deref()),
        numbers => Which::Numbers(numbers),
    };
    let undo = match Undo::find(&host.journal(), &host.workspace(), &which, direction, wanted.clash) {
        Ok(undo) => undo,
        Err(fault) => return Ok(failed(fault)),
    };
    let mut out = anstream::stdout().lock();
    if wanted.dry_run {
        let diff = match undo.preview(&host.journal(), &host.workspace()) {
            Ok(diff) => diff,
            Err(fault) => return Ok(failed(fault)),
        };
        for line in diff.lines() {
            writeln!(out, "{}", diff_line(line))?;
        }
        return Ok(ExitCode::SUCCESS);
    }
    let (tool, word) = match direction {
        Direction::Undo => ("undo", "undid"),
        Direction::Redo => ("redo", "redid"),
    };
    let session = common.session.as_deref().unwrap_or("command line");
    let label = Label { tool, session, durability: Durability::Full };
    let done = match undo.carry_out(&host.journal(), &host.workspace(), label) {
        Ok(done) => done,
        Err(fault) => return Ok(failed(fault)),
    };
    let Undone { changes, diff, notes } = done;
    if common.json {
        let changes: Vec<_> =
            changes.iter().map(|(entry, by)| json!({"change": entry.number, "by": by})).collect();
        writeln!(
            out,
            "{}",
            serde_json::to_string_pretty(&json!({"changes": changes, "diff": diff, "notes": notes}))?
        )?;
        return Ok(ExitCode::SUCCESS);
    }
    for (entry, by) in &changes {
        let number = entry.number;
        writeln!(
            out,
            "{word} change {BOLD}{number}{BOLD:#} ({NAME}{}{NAME:#}) as change {by}",
            one_line(&entry.tool)
        )?;
    }
    for line in diff.lines() {
        writeln!(out, "{}", diff_line(line))?;
    }
    notes.iter().for_each(|note| notice(note));
    Ok(ExitCode::SUCCESS)
}

/// It was asked rightly and cannot be done.
fn failed(fault: Fault) -> ExitCode {
    crate::style::report(&anyhow::anyhow!(fault));
    ExitCode::FAILURE
}

//! `haft undo` and `haft redo`, for people. The user typed the command, so no approval is needed.

use std::io::Write;
use std::process::ExitCode;

use haft_core::{Durability, Fault, FaultKind};
use haft_host::Host;
use haft_journal::Label;
use haft_ops::{Clash, Direction, Undo, Undone, Which};
use serde_json::json;

use crate::args::Common;
use crate::host::{self, Interaction};
use crate::style::{BOLD, NAME, diff_line, notice, one_line};

/// The arguments of the command.
pub(super) struct UndoArgs {
    pub(super) numbers: Vec<u64>,
    pub(super) last: Option<std::num::NonZeroUsize>,
    pub(super) any: bool,
    pub(super) clash: Clash,
    pub(super) dry_run: bool,
}

pub(super) fn run(common: &Common, direction: Direction, args: &UndoArgs) -> anyhow::Result<ExitCode> {
    let host = host::open(common, Interaction::Terminal)?;
    if host.mode() == haft_core::Mode::Plan && !args.dry_run {
        anyhow::bail!("in the mode `plan` nothing is changed; `--dry-run` shows what would be");
    }
    let session = host::session_name(common).unwrap_or_else(|| "command line".to_owned());
    // What a person undoes, no call of the session redoes; so it has a label of its own, unless a session was named.
    let label = match common.session {
        Some(_) => session.clone(),
        None => format!("{session}, typed"),
    };
    let reach = match direction {
        Direction::Undo => &session,
        Direction::Redo => &label,
    };
    let reach = (!args.any).then_some(reach.as_str());
    let which = match args.numbers.as_slice() {
        [] => Which::Last(args.last.map_or(1, std::num::NonZeroUsize::get), reach),
        numbers => Which::Numbers(numbers),
    };
    let undo = match Undo::find(host.journal(), host.workspace(), &which, direction, args.clash) {
        Ok(undo) => undo,
        Err(fault) if fault.kind() == FaultKind::NotFound && args.numbers.is_empty() && !args.any => {
            return Ok(failed(fault.hint(elsewhere(&host, direction, args))));
        }
        Err(fault) => return Ok(failed(fault)),
    };
    let mut out = anstream::stdout().lock();
    if args.dry_run {
        let diff = match undo.preview(host.journal(), host.workspace()) {
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
    let label = Label { tool, session: &label, durability: Durability::Full };
    let done = match undo.execute(host.journal(), host.workspace(), label) {
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

/// What to do where this session has nothing to undo or redo: other sessions may have.
fn elsewhere(host: &Host, direction: Direction, args: &UndoArgs) -> String {
    let word = match direction {
        Direction::Undo => "undo",
        Direction::Redo => "redo",
    };
    let which = Which::Last(args.last.map_or(1, std::num::NonZeroUsize::get), None);
    match Undo::find(host.journal(), host.workspace(), &which, direction, args.clash) {
        Ok(others) => {
            let changes = others.entries().iter().map(|entry| entry.number.to_string());
            let changes = changes.collect::<Vec<_>>().join(", ");
            format!(
                "other sessions made changes: `haft {word} --any` would {word} {changes}, which `haft history {changes}` shows",
                changes = changes.replace(", ", " ")
            )
        }
        Err(_) => "`haft history` shows what was changed here".to_owned(),
    }
}

/// Reports a fault of a valid request.
fn failed(fault: Fault) -> ExitCode {
    crate::style::report(&anyhow::anyhow!(fault));
    ExitCode::FAILURE
}

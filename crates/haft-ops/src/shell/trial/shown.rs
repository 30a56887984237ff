//! What the model and the person are told about a trial, in words.

use std::fmt::Write as _;

use haft_core::Context;
use haft_sandbox::Exit;
use haft_sandbox::sandbox::trial::{ChangeKind as Kind, CommitError, Listing};

use super::super::recorded::MAX_LISTED;
use super::super::{ChangeKind, FileChange, words};
use super::conflicting;
use super::parts::shown;

/// What the user can do where nobody can be asked.
pub(super) const HOW_TO_APPROVE: &str = "the user can approve such changes in a terminal, in a client that shows forms, or \
                                         by a rule such as `add src/**` under `permissions.effects`";

/// Most files that a note to the model lists.
const MAX_NOTED: usize = 30;

/// The files that a command changed in its view, deletions first.
pub(super) fn files(listing: &Listing, cx: &Context) -> Vec<FileChange> {
    let file = |change: &haft_sandbox::sandbox::trial::Change| FileChange {
        path: shown(&change.path, cx),
        kind: match change.kind {
            Kind::Deleted => ChangeKind::Deleted,
            Kind::Created if change.moved_from.is_some() => ChangeKind::Moved,
            Kind::Created => ChangeKind::Created,
            Kind::Attributes | Kind::Changed | Kind::Touched => ChangeKind::Changed,
        },
        from: change.moved_from.as_ref().map(|from| shown(from, cx)),
    };
    listing.changes.iter().take(MAX_LISTED).map(file).collect()
}

/// Files and what happened to them, a line each.
pub(super) fn listed(files: &[FileChange], total: usize) -> String {
    let mut text = String::new();
    for file in files {
        let _ = writeln!(text, "{} {}", file.kind.name(), file.path);
    }
    if files.len() < total {
        let _ = writeln!(text, "and {} more", total - files.len());
    }
    text
}

/// Notes about guarded paths that the command made or changed.
pub(super) fn refused(listing: &Listing, cx: &Context) -> Vec<String> {
    let note = |path: &std::path::PathBuf| {
        format!(
            "`{}` was not kept: by its name other programs would run something, so it is the user's",
            shown(path, cx)
        )
    };
    listing.refused.iter().map(note).collect()
}

/// Why a person is asked about the changes of a trial.
pub(super) fn reason(listing: &Listing, exit: Exit) -> String {
    let count = |kind: &[Kind]| listing.changes.iter().filter(|change| kind.contains(&change.kind)).count();
    let counts = [
        (count(&[Kind::Deleted]), "deletes"),
        (count(&[Kind::Changed, Kind::Attributes]), "changes"),
        (count(&[Kind::Created]), "creates"),
        (count(&[Kind::Touched]), "touches"),
    ];
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, verb)| format!("{verb} {count}"))
        .collect();
    let ended = match words::in_words(exit) {
        Some(words) => format!(", and ended so: {words}"),
        None => String::new(),
    };
    format!("it was tried: it {}{ended}. Nothing of it counts yet", counts.join(", "))
}

/// The note about changes that do not count.
pub(super) fn not_kept(why: &str, files: &[FileChange], total: usize) -> String {
    if total == 0 {
        return format!("the command was tried, and nothing was changed: {why}");
    }
    let few = &files[..files.len().min(MAX_NOTED)];
    format!(
        "the command was tried, and nothing of what it changed was kept: {why}. It would have changed:\n{}",
        listed(few, total).trim_end()
    )
}

/// Why nothing was committed, with the files that are in the way.
pub(super) fn not_committed(error: &CommitError, cx: &Context) -> String {
    let conflicts: Vec<String> =
        conflicting(error).iter().map(|(path, why)| format!("`{}`: {why}", shown(path, cx))).collect();
    match conflicts.is_empty() {
        true => error.to_string(),
        false => format!("other programs changed the same files ({})", conflicts.join("; ")),
    }
}

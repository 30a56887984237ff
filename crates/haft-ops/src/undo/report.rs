//! Diffs of recorded changes, and the faults of an undo that the journal refused. Reads the journal and changes nothing.

use std::collections::HashMap;
use std::path::PathBuf;

use haft_core::{AbsPath, Fault, FaultKind, Workspace};
use haft_journal::{Conflict, Entry, Journal, JournalError, Side};
use haft_text::{self as text, Diff, DiffLimits, unified};

/// Largest file with a diff, in bytes.
const MAX_COMPARED: usize = 32 << 20;
/// Largest number of files in the diff of one change.
const MAX_SHOWN: usize = 200;

/// Diff of the files of a recorded change, between the two given sides of it.
pub fn difference(
    journal: &Journal,
    workspace: &Workspace,
    entry: &Entry,
    sides: [Side; 2],
) -> Result<String, JournalError> {
    differences(journal, workspace, entry, sides, &HashMap::new())
}

/// Diff of the files of a recorded change. `known` has the diffs of files that were merged, whose result the journal does
/// not know yet.
pub(super) fn differences(
    journal: &Journal,
    workspace: &Workspace,
    entry: &Entry,
    [from, to]: [Side; 2],
    known: &HashMap<PathBuf, String>,
) -> Result<String, JournalError> {
    let (old, new) =
        (journal.content(workspace, entry.number, from)?, journal.content(workspace, entry.number, to)?);
    let mut paths: Vec<&PathBuf> = old.iter().chain(&new).map(|(path, _)| path).collect();
    paths.sort();
    paths.dedup();
    let [old, new] = [&old, &new]
        .map(|side| side.iter().map(|(path, content)| (path, content.as_deref())).collect::<HashMap<_, _>>());
    let mut report = String::new();
    for path in paths.iter().take(MAX_SHOWN) {
        if let Some(known) = known.get(*path) {
            report.push_str(known);
            continue;
        }
        let shown = workspace.display(&AbsPath::lexical(path));
        let [old, new] = [&old, &new].map(|side| side.get(path).copied().flatten());
        let name = |content: Option<&[u8]>| if content.is_some() { &*shown } else { "/dev/null" };
        let size = |content: Option<&[u8]>| content.map_or(0, <[u8]>::len);
        if size(old).max(size(new)) > MAX_COMPARED {
            report.push_str(&format!("`{shown}` is too large to show what changes in it\n"));
            continue;
        }
        let diff: Diff = unified(
            text::Side { name: name(old), bytes: old.unwrap_or_default() },
            text::Side { name: name(new), bytes: new.unwrap_or_default() },
            DiffLimits::default(),
        );
        report.push_str(&diff.text);
    }
    if paths.len() > MAX_SHOWN {
        report.push_str(&format!("and {} more files\n", paths.len() - MAX_SHOWN));
    }
    // Without any text to compare, as after a change of attributes, the recorded states have to do.
    if report.is_empty() && known.is_empty() {
        for touched in &entry.touched {
            let shown = workspace.display(&AbsPath::lexical(&touched.path));
            let (before, after) = match from {
                Side::Before => (&touched.before, &touched.after),
                Side::After => (&touched.after, &touched.before),
            };
            report.push_str(&format!("{shown}: {before} → {after}\n"));
        }
    }
    Ok(report)
}

/// Converts an error of the journal to a fault, with a diff where a file has changed since.
pub(super) fn journal_fault(error: JournalError, journal: &Journal, workspace: &Workspace) -> Fault {
    match error {
        JournalError::Conflict(conflict) => {
            let mergeable = conflict.recorded_content.is_some()
                && conflict.found_content.is_some()
                && kept_before(journal, workspace, &conflict).is_ok_and(|before| before.is_some());
            changed_since(&conflict, workspace).hint(match mergeable {
                true => "nothing was undone; undo the later changes too, or keep them with `merge`",
                false => "nothing was undone; undo what was done to it since, or make the change by hand",
            })
        }
        error => error.into(),
    }
}

/// Content of a file before the change to undo, if the journal kept it.
pub(super) fn kept_before(
    journal: &Journal,
    workspace: &Workspace,
    conflict: &Conflict,
) -> Result<Option<Vec<u8>>, JournalError> {
    let before = journal.content(workspace, conflict.number, Side::Before)?;
    Ok(before.into_iter().find(|(path, _)| *path == conflict.path).and_then(|(_, content)| content))
}

/// Fault about a file that has changed since the change to undo.
pub(super) fn changed_since(conflict: &Conflict, workspace: &Workspace) -> Fault {
    let shown = workspace.display(&AbsPath::lexical(&conflict.path));
    let fault = |message| Fault::new(FaultKind::Conflict, message).at(&shown).with("change", conflict.number);
    let (Some(was), Some(is)) = (&conflict.recorded_content, &conflict.found_content) else {
        let Conflict { number, recorded, found, .. } = conflict;
        return fault(format!(
            "`{shown}` has changed since change {number}: it left {recorded}, now there is {found}"
        ));
    };
    if was == is {
        let Conflict { number, recorded, found, .. } = conflict;
        return fault(format!(
            "`{shown}` has the content that change {number} left, but not its attributes: it left {recorded}, now there is {found}"
        ));
    }
    let side = |bytes| text::Side { name: &shown, bytes };
    let diff = unified(side(was), side(is), DiffLimits::default());
    let message = format!(
        "`{shown}` has changed since change {}; what changed:\n{}",
        conflict.number,
        diff.text.trim_end()
    );
    fault(message).with("diff", diff.text)
}

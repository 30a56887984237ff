//! Three-way merge for the undo of a change in a file that has changed since: the content that the change left is the base,
//! the current content and the content before the change are the two sides. Knows nothing of sessions.

use std::collections::HashMap;

use bytes::Bytes;
use haft_core::{AbsPath, Fault, Hash, Workspace};
use haft_journal::{Content, Entry, Journal, JournalError, Merged};
use haft_text::{DiffLimits, Side, unified};

use super::BACK;
use super::report::{changed_since, differences, journal_fault, kept_before};

/// Longest part of a file that is merged, in lines: the merge of a longer one could take very long.
const MAX_MERGED_LINES: usize = 5000;

/// Undoes one change with `attempt`, and returns its diff. Each conflict that `attempt` reports is merged and the attempt
/// repeated with the result, until it succeeds or a file conflicts a second time.
pub(super) fn merging<T>(
    journal: &Journal,
    workspace: &Workspace,
    entry: &Entry,
    mut attempt: impl FnMut(&Merged) -> Result<T, JournalError>,
) -> Result<(T, String), Fault> {
    let mut merged = Merged::new();
    let mut diffs = HashMap::new();
    loop {
        let conflict = match attempt(&merged) {
            Ok(done) => return Ok((done, differences(journal, workspace, entry, BACK, &diffs)?)),
            Err(JournalError::Conflict(conflict)) if !merged.contains_key(&conflict.path) => conflict,
            Err(error) => return Err(journal_fault(error, journal, workspace)),
        };
        let before = kept_before(journal, workspace, &conflict)?;
        let (Some(base), Some(now), Some(before)) =
            (&conflict.recorded_content, &conflict.found_content, before)
        else {
            return Err(
                changed_since(&conflict, workspace).hint("only files whose content was kept can be merged")
            );
        };
        let result = merge_lines(base, now, &before)
            .map_err(|problem| changed_since(&conflict, workspace).hint(problem.to_string()))?;
        let shown = workspace.display(&AbsPath::lexical(&conflict.path));
        let side = |bytes| Side { name: &shown, bytes };
        diffs.insert(conflict.path.clone(), unified(side(now), side(&result), DiffLimits::default()).text);
        merged.insert(conflict.path.clone(), (Hash::of(now), spliced(now, &result)));
    }
}

/// Why a merge failed.
#[derive(Debug, thiserror::Error)]
enum MergeProblem {
    #[error(
        "changes that are more than {MAX_MERGED_LINES} lines apart are not merged; edit the file instead"
    )]
    TooLong,
    #[error("the same lines were changed since, so this cannot be merged; edit the file instead")]
    SameLines,
}

/// Merges the changes from `base` to `now` with those from `base` to `other`. Skips the lines that all three have in common
/// at the start and at the end, so that the cost depends on the differences and not on the file.
fn merge_lines(base: &[u8], now: &[u8], other: &[u8]) -> Result<Vec<u8>, MergeProblem> {
    let all = [base, now, other];
    let head = common(now, base).min(common(now, other));
    let head = memchr::memrchr(b'\n', &now[..head]).map_or(0, |at| at + 1);
    let [base, now_rest, other] = all.map(|content| &content[head..]);
    let tail = common_end(now_rest, base).min(common_end(now_rest, other));
    let end = &now_rest[now_rest.len() - tail..];
    // The common end may start within a line: its first whole line starts after the first line end.
    let tail = memchr::memchr(b'\n', end).map_or(0, |at| tail - at - 1);
    let [base, now_rest, other] = [base, now_rest, other].map(|content| &content[..content.len() - tail]);
    let lines = |content: &[u8]| memchr::memchr_iter(b'\n', content).count();
    if [base, now_rest, other].into_iter().any(|content| lines(content) > MAX_MERGED_LINES) {
        return Err(MergeProblem::TooLong);
    }
    let middle = diffy::merge_bytes(base, now_rest, other).map_err(|_| MergeProblem::SameLines)?;
    Ok([&now[..head], &middle, &now[now.len() - tail..]].concat())
}

/// Length of the common prefix.
fn common(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

/// Length of the common suffix.
fn common_end(one: &[u8], other: &[u8]) -> usize {
    one.iter().rev().zip(other.iter().rev()).take_while(|(one, other)| one == other).count()
}

/// Content that the journal stores as the difference from the current one.
fn spliced(now: &[u8], result: &[u8]) -> Content {
    let head = common(now, result);
    let tail = common_end(&now[head..], &result[head..]);
    let new = Bytes::copy_from_slice(&result[head..result.len() - tail]);
    Content::spliced(&Bytes::copy_from_slice(now), vec![(head..now.len() - tail, new)])
}

//! The current content of a file, compared with the version that the model has seen. Detects changes that others made
//! since, and words the faults about them. Knows nothing of the change to come.

use bytes::Bytes;
use haft_core::sessions::{Seen, SeenStatus};
use haft_core::{AbsPath, Context, Effect, Fault, FaultKind, Hash};
use haft_journal::{JournalError, Replaced};
use haft_sandbox::{ChangeErrorKind, OpenFile, PathErrorKind, Stamp};

use super::{ChangeRequest, Knowledge};
use crate::{MAX_CHANGED, SMALL};
use haft_text::{DiffLimits, Side, Source, unified};

/// Largest number of ranges of lines that a fault names.
const MAX_RANGES: usize = 10;

/// The current content of a file, read completely.
pub(crate) struct Current {
    pub(crate) bytes: Bytes,
    pub(crate) stamp: Stamp,
    /// Whether the stamp was old enough when the file was read to prove that a later equal stamp means equal content.
    settled: bool,
    pub(crate) hash: Hash,
}

impl Current {
    /// Reads a file; `None` if it does not exist.
    pub(crate) fn read(path: &AbsPath, named: &str, cx: &Context) -> Result<Option<Self>, Fault> {
        let open = Self::open(path, named, cx)?;
        open.map(|open| Self::of(open, named)).transpose()
    }

    /// Opens a file for reading; `None` if it does not exist.
    pub(super) fn open(path: &AbsPath, named: &str, cx: &Context) -> Result<Option<OpenFile>, Fault> {
        match cx.workspace().open_file(path) {
            Err(error) if matches!(error.kind, PathErrorKind::NotFound) => Ok(None),
            Err(mut error) => {
                error.path = named.to_owned();
                Err(error.into())
            }
            Ok(open) => Ok(Some(open)),
        }
    }

    /// Reads an open file.
    pub(super) fn of(open: OpenFile, named: &str) -> Result<Self, Fault> {
        let size = open.stat.size;
        if size > MAX_CHANGED {
            return Err(Fault::new(
                FaultKind::TooLarge,
                format!("`{named}` is {size} bytes; files of more than {MAX_CHANGED} cannot be changed"),
            )
            .hint("change it with a command instead")
            .at(named)
            .with("size", size)
            .with("limit", MAX_CHANGED));
        }
        let stamp = open.stat.stamp;
        let settled = !stamp.is_fresh();
        // The limit also ends the read of a file that grows meanwhile.
        let bytes = open.read_whole(MAX_CHANGED + 1).map_err(|error| {
            Fault::new(FaultKind::Io, format!("`{named}` could not be read: {error}")).at(named)
        })?;
        let hash = Hash::of(&bytes);
        Ok(Self { bytes: bytes.into(), stamp, settled, hash })
    }

    /// The replaced content, so that the journal need not read the file again.
    pub(crate) fn replaced(&self) -> Replaced {
        Replaced { content: self.bytes.clone(), stamp: self.stamp, settled: self.settled }
    }

    /// Version of the file that the model knows once it has seen this content.
    pub(crate) fn seen(&self) -> Seen {
        match self.bytes.len() as u64 <= SMALL {
            true => Seen::content(self.stamp, self.bytes.clone()),
            false => Seen::hash(self.stamp, self.hash),
        }
    }

    /// Fails if the model has not seen the file, or if the file has changed since.
    pub(crate) fn require_known(
        &self,
        path: &AbsPath,
        named: &str,
        knowledge: Knowledge,
        cx: &Context,
    ) -> Result<(), Fault> {
        match (cx.session().standing(path, &self.seen()), knowledge) {
            (SeenStatus::Current, _) | (SeenStatus::Unseen, Knowledge::Current) => Ok(()),
            (SeenStatus::Unseen, Knowledge::Required) => Err(unread(named, &self.bytes)),
            (SeenStatus::Changed { was }, _) => Err(self.changed_since(path, named, was, cx)),
        }
    }

    /// Fails if the model has seen only a part of the file: replacing all of it would lose lines that it does not know.
    pub(super) fn require_all_shown(&self, path: &AbsPath, named: &str, cx: &Context) -> Result<(), Fault> {
        let shown = cx.session().shown_lines(path);
        if shown.is_all() {
            return Ok(());
        }
        let missing = shown.missing();
        let unread: Vec<String> = missing.iter().take(MAX_RANGES).map(show_range).collect();
        let more = if missing.len() > MAX_RANGES { " and others" } else { "" };
        let unread = format!("{}{more}", unread.join(", "));
        Err(Fault::new(
            FaultKind::Unread,
            format!("`{named}` has been read only in part, and writing all of it would lose what was not read: {unread}"),
        )
        .hint(
            "read these lines first, or edit only the part that changes; a line that is too long to be shown counts \
             as not read",
        )
        .at(named)
        .with("unread", unread))
    }

    /// Fault about a file that has changed since the model saw it, with a diff. If the diff is complete, the session
    /// records the current content as seen, so that the model can retry without reading the file again.
    pub(crate) fn changed_since(
        &self,
        path: &AbsPath,
        named: &str,
        was: Option<Bytes>,
        cx: &Context,
    ) -> Fault {
        let fault = |message| Fault::new(FaultKind::Conflict, message).at(named);
        let message = format!("`{named}` was changed since you last saw it");
        let again = "read it again before you change it";
        let Some(was) = was else { return fault(message).hint(again) };
        let side = |bytes| Side { name: named, bytes };
        let diff = unified(side(&was), side(&self.bytes), DiffLimits::default());
        let shown = diff.added + diff.removed > 0;
        let message = match shown {
            true => format!("{message}; what changed:\n{}", diff.text.trim_end()),
            false => message,
        };
        let fault = fault(message).with("diff", &diff.text);
        if diff.cut > 0 || !shown {
            return fault.hint(again);
        }
        let lines = cx.session().shown_lines(path).after_change(&was, &self.bytes);
        cx.effect(Effect::Shown { path: path.clone(), seen: self.seen().only(lines) });
        fault.hint("nothing was written; take these changes into account and make the call again")
    }
}

/// A range of lines, as a person would write it.
fn show_range(range: &(u64, Option<u64>)) -> String {
    match range {
        (first, Some(last)) if first == last => format!("line {first}"),
        (first, Some(last)) => format!("lines {first}-{last}"),
        (first, None) => format!("line {first} and everything after it"),
    }
}

fn unread(named: &str, bytes: &Bytes) -> Fault {
    // The hint to read the file first would send the model round in a circle: a binary file cannot be read.
    if Source::new(bytes.to_vec()).is_err() {
        return Fault::new(
            FaultKind::WrongKind,
            format!("`{named}` is a binary file that has not been read, so it cannot be changed"),
        )
        .hint("change binary files with a command, or write to another path")
        .at(named);
    }
    Fault::new(FaultKind::Unread, format!("`{named}` exists but has not been read, so it cannot be changed"))
        .hint("read the file first, then make the call again")
        .at(named)
}

/// Fault about a change that the journal refused. If another program changed the file meanwhile, it shows how.
pub(super) fn conflict(
    error: JournalError,
    request: &ChangeRequest,
    before: Option<&Current>,
    cx: &Context,
) -> Fault {
    let ChangeRequest { path, named, .. } = request;
    match error {
        JournalError::Change(error)
            if matches!(error.kind, ChangeErrorKind::Conflict(_) | ChangeErrorKind::Exists) =>
        {
            match (Current::read(path, named, cx), before) {
                (Ok(Some(now)), Some(before)) => {
                    now.changed_since(path, named, Some(before.bytes.clone()), cx)
                }
                (Ok(Some(_)), None) => {
                    Fault::new(FaultKind::Conflict, format!("`{named}` was made by somebody else meanwhile"))
                        .hint("read it before you change it")
                        .at(named)
                }
                _ => Fault::from(error),
            }
        }
        error => crate::journal_fault(error, path, named, cx),
    }
}

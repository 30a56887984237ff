//! The syntax check of a changed file. A check that takes a fraction of a millisecond runs at once, any other on tokio's
//! pool of blocking threads while the file is written.

use bytes::Bytes;
use haft::journal::Content;
use haft::{AbsPath, Context};
use haft_sandbox::names;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::check::{Checked, Checkers};
use crate::ops::MAX_CHECKED;

/// A check that has begun.
pub(super) enum Checking {
    Done(Option<Checked>),
    Running(JoinHandle<Option<Checked>>),
}

impl Checking {
    /// Starts the check of a change.
    pub(super) fn start(checkers: &Checkers, path: &AbsPath, before: Option<Bytes>, after: &Content) -> Self {
        let name = file_name(path);
        if !checkers.knows(&name) || after.len() > MAX_CHECKED {
            return Self::Done(None);
        }
        let after = after.whole();
        let rechecked = before.as_ref().and_then(|before| {
            let text = |bytes| std::str::from_utf8(bytes).ok();
            checkers.recheck(&name, text(before)?, text(&after)?)
        });
        match rechecked {
            Some(checked) => Self::Done(Some(checked)),
            None => {
                let checkers = checkers.clone();
                Self::Running(spawn_blocking(move || compared(&checkers, &name, before, after)))
            }
        }
    }

    /// Waits for the result. The file is changed by then, so a cancelled call waits, too.
    pub(super) async fn finish(self, cx: &Context) -> Option<Checked> {
        match self {
            Self::Done(checked) => checked,
            Self::Running(checking) => cx.uncancelled(checking).await.ok().flatten(),
        }
    }
}

/// Checks what a change did to the syntax of a file, which takes up to some milliseconds.
pub(in crate::ops) fn checked(
    checkers: &Checkers,
    path: &AbsPath,
    before: Option<Bytes>,
    after: &Content,
) -> Option<Checked> {
    let name = file_name(path);
    (checkers.knows(&name) && after.len() <= MAX_CHECKED)
        .then(|| compared(checkers, &name, before, after.whole()))
        .flatten()
}

/// A path as checkers know it.
pub(in crate::ops) fn file_name(path: &AbsPath) -> String {
    names::show(path.as_path())
}

fn compared(checkers: &Checkers, name: &str, before: Option<Bytes>, after: Bytes) -> Option<Checked> {
    let text = |bytes: Bytes| match String::from_utf8(bytes.into()) {
        Ok(text) => Some(text),
        Err(error) => Some(crate::text::Source::new(error.into_bytes()).ok()?.text().to_owned()),
    };
    let before = before.filter(|before| before.len() as u64 <= MAX_CHECKED).and_then(text);
    checkers.compare(name, before.as_deref(), &text(after)?)
}

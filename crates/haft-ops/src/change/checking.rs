//! The syntax check of a changed file. An incremental check takes a fraction of a millisecond and runs at once; a full one
//! runs on tokio's pool of blocking threads while the file is written. Knows nothing of languages.

use bytes::Bytes;
use haft_core::{AbsPath, Context};
use haft_journal::Content;
use haft_sandbox::names;
use tokio::task::{JoinHandle, spawn_blocking};

use crate::MAX_CHECKED;
use haft_text::check::{Checked, Checkers};

/// A syntax check that has started.
pub(super) enum Checking {
    Done(Option<Checked>),
    Running(JoinHandle<Option<Checked>>),
}

impl Checking {
    /// Starts the syntax check of a change.
    pub(super) fn start(checkers: &Checkers, path: &AbsPath, before: Option<Bytes>, after: &Content) -> Self {
        let name = file_name(path);
        if !checkers.knows(&name) || after.len() > MAX_CHECKED {
            return Self::Done(None);
        }
        let after = after.whole();
        // Incremental: reuses the parse of the content before the change.
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

    /// Waits for the result. A cancelled call waits, too: the file has changed by then, and its result must say how.
    pub(super) async fn finish(self, cx: &Context) -> Option<Checked> {
        match self {
            Self::Done(checked) => checked,
            Self::Running(checking) => cx.uncancelled(checking).await.ok().flatten(),
        }
    }
}

/// Checks the effect of a change on the syntax of a file. Blocks for up to some milliseconds.
pub(crate) fn checked(
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

/// Text form of a path by which checkers recognize the language.
pub(crate) fn file_name(path: &AbsPath) -> String {
    names::show(path.as_path())
}

/// Compares the syntax errors before and after a change.
fn compared(checkers: &Checkers, name: &str, before: Option<Bytes>, after: Bytes) -> Option<Checked> {
    let text = |bytes: Bytes| match String::from_utf8(bytes.into()) {
        Ok(text) => Some(text),
        Err(error) => Some(haft_text::Source::new(error.into_bytes()).ok()?.text().to_owned()),
    };
    let before = before.filter(|before| before.len() as u64 <= MAX_CHECKED).and_then(text);
    checkers.compare(name, before.as_deref(), &text(after)?)
}

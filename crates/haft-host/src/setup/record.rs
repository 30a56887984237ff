//! haft's records of what it wrote into which file, in its state folder. As long as a file is as setup left it, the record
//! restores its old bytes; after that, it tells which parts of the file are setup's own.

use std::path::{Path, PathBuf};

use haft_core::Hash;
use haft_sandbox::Store;
use serde::{Deserialize, Serialize};

use super::edit::Made;
use crate::error::{Explain as _, HostError, HostErrorKind};

/// What setup wrote into one file. It holds nothing else of the file, since that may be secret.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The file, for people who read the record.
    pub(super) file: String,
    /// Whether the file did not exist before.
    pub(super) created: bool,
    /// The folders that were made for it, outermost first.
    pub(super) folders: Vec<PathBuf>,
    /// What was brought into the file.
    pub(super) made: Vec<Made>,
    /// The hash of the text that was written.
    pub(super) hash: String,
    /// The changes of the text, in order, if they lead back to the text before setup.
    pub(super) splices: Option<Vec<Splice>>,
}

/// One contiguous change of a text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Splice {
    at: usize,
    wrote: String,
    replaced: String,
}

impl Splice {
    /// The change between two texts.
    pub(super) fn between(before: &str, after: &str) -> Self {
        let is_edge = |at: usize| before.is_char_boundary(at) && after.is_char_boundary(at);
        let mut start = haft_text::common_start(before.as_bytes(), after.as_bytes());
        while !is_edge(start) {
            start -= 1;
        }
        let mut end = haft_text::common_end(&before.as_bytes()[start..], &after.as_bytes()[start..]);
        while !before.is_char_boundary(before.len() - end) {
            end -= 1;
        }
        let (wrote, replaced) = (&after[start..after.len() - end], &before[start..before.len() - end]);
        Self { at: start, wrote: wrote.to_owned(), replaced: replaced.to_owned() }
    }

    pub(super) fn undo(&self, text: &str) -> Option<String> {
        let rest = text.get(self.at..)?.strip_prefix(&self.wrote)?;
        Some(format!("{}{}{rest}", &text[..self.at], self.replaced))
    }
}

impl Record {
    pub(super) fn load(store: &Store, path: &Path) -> Result<Option<Self>, HostError> {
        let name = file_name(path);
        let Some(bytes) = store.read(&name)? else { return Ok(None) };
        let damaged = || format!("`{}` is damaged; delete it", store.path(&name).display());
        serde_json::from_slice(&bytes).explain(HostErrorKind::State, damaged).map(Some)
    }

    pub(super) fn save(&self, store: &Store, path: &Path) -> Result<(), HostError> {
        let bytes =
            serde_json::to_vec_pretty(self).explain(HostErrorKind::State, || "a record".to_owned())?;
        Ok(store.write(&file_name(path), &bytes)?)
    }

    pub(super) fn forget(store: &Store, path: &Path) -> Result<(), HostError> {
        Ok(store.remove(&file_name(path))?)
    }

    /// The text before setup; `None` if the file has changed since, or if that text is not known.
    pub(super) fn undo(&self, text: &str) -> Option<String> {
        if self.hash != hash(text) {
            return None;
        }
        let splices = self.splices.as_ref()?;
        splices.iter().rev().try_fold(text.to_owned(), |text, splice| splice.undo(&text))
    }
}

/// The hash of a text.
pub(super) fn hash(text: &str) -> String {
    Hash::of(text.as_bytes()).to_string()
}

fn file_name(path: &Path) -> String {
    let hash = Hash::of(path.as_os_str().as_encoded_bytes()).to_string();
    format!("{}.json", &hash[..24])
}

//! The mutable state of a session, behind one lock: current folder, mode, grants, seen files and ended calls.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::SystemTime;

use haft_sandbox::{AbsPath, Store, Workspace};

use super::SavedSession;
use super::seen::SeenFiles;
use crate::permissions::Rule;
use crate::plans::Planning;
use crate::{Effect, KnownContent, Mode};

/// The most changed files that a session remembers.
pub(super) const MAX_MODIFIED: usize = 20;
/// The most ended calls that a session remembers.
const MAX_CALLS: usize = 1000;

pub(super) struct State {
    pub(super) cwd: AbsPath,
    pub(super) mode: Mode,
    pub(super) grants: Vec<Rule>,
    pub(super) planning: Planning,
    pub(super) seen: SeenFiles,
    pub(super) modified: VecDeque<AbsPath>,
    /// When files were changed in this run.
    pub(super) written: HashMap<AbsPath, SystemTime>,
    /// Messages for the program that leads the conversation.
    pub(super) queued: Vec<String>,
    pub(super) calls: Calls,
}

impl State {
    /// Restores saved state. Resolves paths again, and skips those that no longer exist or have left the workspace.
    pub(super) fn resume(
        workspace: &Workspace,
        mode: Mode,
        saved: SavedSession,
        contents: Option<Store>,
    ) -> State {
        let start = workspace.focus().unwrap_or_else(|| workspace.root()).clone();
        let place = |path: &String| {
            let place = workspace.resolve(&start, path).ok()?;
            place.stat.map(|_| place.path)
        };
        let cwd = saved.cwd.as_ref().and_then(place).unwrap_or_else(|| start.clone());
        // Plan mode goes on; after it the session returns to the mode of this run.
        let planning = Planning::resume(saved.planning.as_ref(), mode, workspace);
        State {
            cwd,
            mode: if saved.planning.is_some() { Mode::Plan } else { mode },
            grants: saved.grants,
            planning,
            seen: SeenFiles::resume(&saved.seen, contents, workspace),
            modified: saved.modified.iter().filter_map(place).collect(),
            written: HashMap::new(),
            queued: Vec::new(),
            calls: Calls::default(),
        }
    }

    pub(super) fn set_mode(&mut self, mode: Mode) {
        match (self.mode, mode) {
            (Mode::Plan, Mode::Plan) => {}
            (before, Mode::Plan) => self.planning.before = before,
            // Leaving plan mode by other means withdraws a pending plan.
            _ => self.planning.request = None,
        }
        self.mode = mode;
    }

    pub(super) fn grant(&mut self, rule: Rule) {
        if !self.grants.contains(&rule) {
            self.grants.push(rule);
        }
    }

    /// Applies an effect on the files that the model knows; ignores all others.
    pub(super) fn apply_file_effect(&mut self, effect: Effect) {
        match effect {
            Effect::Read { path, seen } => self.seen.add(path, seen),
            Effect::Shown { path, seen } => self.seen.insert(path, seen),
            Effect::Changed { path, now } => {
                match now {
                    KnownContent::Seen(seen) => self.seen.insert(path.clone(), seen),
                    KnownContent::AsBefore => {}
                    KnownContent::Gone => self.seen.remove(&path),
                }
                self.modified.retain(|modified| *modified != path);
                self.written.insert(path.clone(), SystemTime::now());
                self.modified.push_front(path);
                self.modified.truncate(MAX_MODIFIED);
            }
            Effect::Moved { from, to } => {
                self.seen.rename(&from, &to);
                self.modified.retain(|modified| !modified.is_within(&from) && *modified != to);
                self.modified.push_front(to);
                self.modified.truncate(MAX_MODIFIED);
            }
            _ => {}
        }
    }
}

/// A call that has ended, with the files that hold its full output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PastCall {
    /// The tool.
    pub tool: Arc<str>,
    /// Files with the output that did not fit into the reply.
    pub files: Vec<PathBuf>,
}

/// The calls that have ended, as a first-in, first-out cache.
#[derive(Default)]
pub(super) struct Calls {
    by_id: BTreeMap<Arc<str>, PastCall>,
    order: VecDeque<Arc<str>>,
}

impl Calls {
    pub(super) fn get(&self, id: &str) -> Option<&PastCall> {
        self.by_id.get(id)
    }

    /// Adds a call. A later call with the same id replaces the earlier one.
    pub(super) fn insert(&mut self, id: Arc<str>, call: PastCall) {
        if self.by_id.insert(id.clone(), call).is_some() {
            self.order.retain(|known| *known != id);
        }
        self.order.push_back(id);
        if self.order.len() > MAX_CALLS
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_id.remove(&oldest);
        }
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<PastCall> {
        self.order.retain(|known| &**known != id);
        self.by_id.remove(id)
    }

    pub(super) fn ids(&self) -> Vec<Arc<str>> {
        self.order.iter().cloned().collect()
    }
}

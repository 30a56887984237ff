//! The saved form of a session, and how two saved sessions merge.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::state::MAX_MODIFIED;
use crate::permissions::Rule;
use crate::plans::SavedPlanning;
use crate::sessions::SavedSeen;

/// The saved state of a session: see [`Session::save`](crate::Session::save). Paths are escaped by
/// [`names::show`](haft_sandbox::names::show), since a file name need not be UTF-8 and JSON must be. Unknown fields of a
/// later version are ignored.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedSession {
    /// The version of the format: [`SavedSession::VERSION`] or an earlier one.
    pub version: u32,
    /// The current folder.
    pub cwd: Option<String>,
    /// The rules that were granted for the session.
    #[serde(deserialize_with = "only_rules")]
    pub grants: Vec<Rule>,
    /// The files that the model has seen.
    pub seen: Vec<SavedSeen>,
    /// The most recently changed files, newest first.
    pub modified: Vec<String>,
    /// The plan, if the session is in plan mode.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planning: Option<SavedPlanning>,
    /// The state of tools, by name: see [`SavedState`](crate::sessions::SavedState).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub lasting: BTreeMap<String, Value>,
    /// The names in `lasting` whose values have changed since the session was resumed.
    #[serde(skip)]
    pub changed: BTreeSet<String>,
}

impl Default for SavedSession {
    fn default() -> Self {
        Self {
            version: Self::VERSION,
            cwd: None,
            grants: Vec::new(),
            seen: Vec::new(),
            modified: Vec::new(),
            planning: None,
            lasting: BTreeMap::new(),
            changed: BTreeSet::new(),
        }
    }
}

impl SavedSession {
    /// The current version of the format. It changes when an older haft could no longer read it.
    pub const VERSION: u32 = 1;

    /// Merges another session over the same files into this one: the grants of both, and of each file the newest state
    /// that either has seen. The current folder stays.
    pub fn merge(&mut self, other: SavedSession) {
        self.merge_grants(other.grants);
        let changed = other.changed;
        let lasting = other.lasting.into_iter().filter(|(name, _)| changed.contains(name));
        for (name, value) in lasting {
            if self.changed.insert(name.clone()) {
                self.lasting.insert(name, value);
            }
        }
        self.planning = self.planning.take().or(other.planning);
        self.merge_seen(other.seen);
        for path in other.modified {
            if self.modified.len() < MAX_MODIFIED && !self.modified.contains(&path) {
                self.modified.push(path);
            }
        }
    }

    /// Adds files that were seen elsewhere. Of each file the newest state that was seen remains.
    pub fn merge_seen(&mut self, others: Vec<SavedSeen>) {
        // Word 4 of a stamp is the time of the last status change (ctime): the higher one was seen later.
        let mut all: BTreeMap<String, SavedSeen> = BTreeMap::new();
        for seen in std::mem::take(&mut self.seen).into_iter().chain(others) {
            match all.get_mut(&seen.path) {
                Some(known) if seen.stamp == known.stamp && seen.hash == known.hash => {
                    known.lines = known.lines.with(&seen.lines);
                }
                Some(known) if seen.stamp[4] <= known.stamp[4] => {}
                _ => {
                    all.insert(seen.path.clone(), seen);
                }
            }
        }
        self.seen = all.into_values().collect();
    }

    /// Adds granted rules that are not there yet.
    pub fn merge_grants(&mut self, grants: Vec<Rule>) {
        for rule in grants {
            if !self.grants.contains(&rule) {
                self.grants.push(rule);
            }
        }
    }

    /// Replaces the state of tools, except for the values that this session has changed.
    pub fn merge_lasting(&mut self, lasting: BTreeMap<String, Value>) {
        let own = std::mem::replace(&mut self.lasting, lasting);
        self.lasting.extend(own.into_iter().filter(|(name, _)| self.changed.contains(name)));
    }
}

/// Deserializes a list of rules and skips entries in an older form: such calls need approval again.
fn only_rules<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Rule>, D::Error> {
    let all = Vec::<Value>::deserialize(from)?;
    Ok(all.into_iter().filter_map(|rule| serde_json::from_value(rule).ok()).collect())
}

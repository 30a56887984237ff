//! What is kept of a session between runs, and how two that were kept become one.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::state::MAX_MODIFIED;
use crate::permissions::Rule;
use crate::plans::SavedPlanning;
use crate::sessions::SavedSeen;

/// What is kept of a session between runs. Paths are text, as [`names::show`](haft_sandbox::names::show) gives it,
/// since a name need not be UTF-8 and JSON must be. Fields that a later version may add are passed over when it is
/// read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SavedSession {
    /// The form of all this: [`SavedSession::VERSION`] or an earlier one.
    pub version: u32,
    /// The current folder.
    pub cwd: Option<String>,
    /// What was allowed for good.
    #[serde(deserialize_with = "only_rules")]
    pub grants: Vec<Rule>,
    /// The files that the model has seen, each with the state it saw.
    pub seen: Vec<SavedSeen>,
    /// The files that were changed last, newest first.
    pub modified: Vec<String>,
    /// If the session only plans: on what.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub planning: Option<SavedPlanning>,
    /// What its tools keep, by name: see [`Lasting`](crate::sessions::Lasting).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub lasting: BTreeMap<String, Value>,
    /// The names of what has changed of that since the session was resumed.
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
    /// The form that is written now. It changes when an older haft could no longer read it.
    pub const VERSION: u32 = 1;

    /// Adds what another session over the same files knows: what either was granted, and of each file the
    /// newest state that either has seen. The current folder stays.
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
        // The last word is when the file last changed; who saw the later one saw it later.
        let mut all: BTreeMap<String, SavedSeen> = BTreeMap::new();
        for seen in std::mem::take(&mut self.seen).into_iter().chain(other.seen) {
            let newer = all.get(&seen.path).is_none_or(|known| seen.stamp[4] > known.stamp[4]);
            if newer {
                all.insert(seen.path.clone(), seen);
            }
        }
        self.seen = all.into_values().collect();
        for path in other.modified {
            if self.modified.len() < MAX_MODIFIED && !self.modified.contains(&path) {
                self.modified.push(path);
            }
        }
    }

    /// Adds what was granted elsewhere.
    pub fn merge_grants(&mut self, grants: Vec<Rule>) {
        for rule in grants {
            if !self.grants.contains(&rule) {
                self.grants.push(rule);
            }
        }
    }

    /// Takes over what tools keep elsewhere, but for what this session has changed.
    pub fn merge_lasting(&mut self, lasting: BTreeMap<String, Value>) {
        let own = std::mem::replace(&mut self.lasting, lasting);
        self.lasting.extend(own.into_iter().filter(|(name, _)| self.changed.contains(name)));
    }
}

/// The rules of a list. What an older haft has kept in another form is asked again.
fn only_rules<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Vec<Rule>, D::Error> {
    let all = Vec::<Value>::deserialize(from)?;
    Ok(all.into_iter().filter_map(|rule| serde_json::from_value(rule).ok()).collect())
}

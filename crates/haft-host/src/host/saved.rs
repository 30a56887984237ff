//! Reads what is saved between runs: named sessions and statistics.

use std::collections::BTreeMap;

use haft_core::Store;
use haft_core::sessions::SavedSession;
use haft_core::stats::{Stats, ToolStats};

use super::Result;
use crate::error::{Explain as _, HostError, HostErrorKind};

/// The file of the statistics, in the state folder.
pub(super) const STATS: &str = "stats.json";

/// The saved state of a named session. `None` if there is none.
pub fn load_session(state: &Store, name: &str) -> Result<Option<SavedSession>> {
    let sessions = state.folder("sessions");
    let file = format!("{name}.json");
    let bytes =
        sessions.read(&file).explain(HostErrorKind::State, || format!("no session can be named `{name}`"))?;
    let damaged = || {
        format!("the session `{name}` is damaged; remove `{}` to begin anew", sessions.path(&file).display())
    };
    bytes.map(|bytes| parse_session(&bytes).explain(HostErrorKind::State, damaged)).transpose()
}

/// Parses a saved session. Fails if a newer haft wrote it.
pub fn parse_session(bytes: &[u8]) -> Result<SavedSession> {
    let saved: SavedSession = serde_json::from_slice(bytes).kind(HostErrorKind::State)?;
    if saved.version > SavedSession::VERSION {
        return Err(HostError::new(
            HostErrorKind::State,
            format!("it was kept by a newer haft (version {})", saved.version),
        ));
    }
    Ok(saved)
}

/// The statistics of a workspace, by tool.
pub fn stats(state: &Store) -> Result<BTreeMap<String, ToolStats>> {
    Stats::load(state, STATS).explain(HostErrorKind::State, || {
        format!("the figures cannot be read; `{}` may be damaged", state.path(STATS).display())
    })
}

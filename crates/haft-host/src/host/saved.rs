//! What is kept between runs: sessions that have a name, and statistics.

use std::collections::BTreeMap;

use haft_core::Store;
use haft_core::sessions::SavedSession;
use haft_core::stats::{Stats, ToolStats};

use super::Result;
use crate::error::{Explain as _, HostError, HostErrorKind};

/// Where the statistics are.
pub(super) const STATS: &str = "stats.json";

/// What is kept of a session, if anything is.
pub fn saved(state: &Store, name: &str) -> Result<Option<SavedSession>> {
    let sessions = state.folder("sessions");
    let file = format!("{name}.json");
    let bytes =
        sessions.read(&file).explain(HostErrorKind::State, || format!("no session can be named `{name}`"))?;
    let damaged = || {
        format!("the session `{name}` is damaged; remove `{}` to begin anew", sessions.path(&file).display())
    };
    bytes.map(|bytes| read_session(&bytes).explain(HostErrorKind::State, damaged)).transpose()
}

/// What was kept of a session.
pub fn read_session(bytes: &[u8]) -> Result<SavedSession> {
    let saved: SavedSession = serde_json::from_slice(bytes).kind(HostErrorKind::State)?;
    if saved.version > SavedSession::VERSION {
        return Err(HostError::new(
            HostErrorKind::State,
            format!("it was kept by a newer haft (version {})", saved.version),
        ));
    }
    Ok(saved)
}

/// The figures of a workspace.
pub fn stats(state: &Store) -> Result<BTreeMap<String, ToolStats>> {
    Stats::load(state, STATS).explain(HostErrorKind::State, || {
        format!("the figures cannot be read; `{}` may be damaged", state.path(STATS).display())
    })
}

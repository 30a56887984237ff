//! What the protocol needs of whoever sets up sessions.

use std::path::PathBuf;
use std::sync::Arc;

use haft::journal::Entry;
use haft::{Approver, Session, Store};

/// Sets up a session for each client, and takes it back.
pub trait Host: Send + Sync + 'static {
    /// What a client is told about the server, for its model.
    fn instructions(&self) -> String;

    /// Starts a session.
    fn open(&self, client: Client) -> Result<Session, String>;

    /// Told when a session is over and its calls have been stopped.
    fn close(&self, session: &Session);

    /// Where replies are kept that were too long.
    fn results(&self) -> Store;

    /// What a change did, as a diff.
    fn difference(&self, session: &Session, entry: &Entry) -> Result<String, String>;
}

/// A client that wants a session.
pub struct Client {
    /// A name for the session that no other has.
    pub id: Arc<str>,
    /// The folders that the client works in. They can only narrow what a session may touch.
    pub roots: Vec<PathBuf>,
    /// Whom to ask, if the client can ask its user.
    pub approver: Option<Arc<dyn Approver>>,
}

//! The servers whose tools a served session uses, as far as requests have to wait for them. There are none without the
//! feature `client`.

use haft_core::Session;

#[cfg(feature = "client")]
use crate::client::Servers;

/// Starts every server of a session, without waiting for it.
pub(super) fn spawn_all(session: &Session) {
    #[cfg(feature = "client")]
    for servers in Servers::joined(session) {
        tokio::spawn(async move { servers.start_all().await });
    }
    #[cfg(not(feature = "client"))]
    let _ = session;
}

/// Starts every server of a session, and waits until each has started or failed.
pub(super) async fn start_all(session: &Session) {
    #[cfg(feature = "client")]
    for servers in Servers::joined(session) {
        servers.start_all().await;
    }
    #[cfg(not(feature = "client"))]
    let _ = session;
}

/// Starts the servers that may have a tool of this name and are not running. Calls `before_start` before each wait.
pub(super) async fn start_for(session: &Session, tool: &str, before_start: impl Fn()) {
    #[cfg(feature = "client")]
    for servers in Servers::joined(session).iter().filter(|servers| servers.may_have(tool)) {
        before_start();
        servers.start_for(&[tool]).await;
    }
    #[cfg(not(feature = "client"))]
    let _ = (session, tool, before_start);
}

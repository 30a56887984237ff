//! A client's roots: the folders that it works in, by its own account.
#![expect(deprecated, reason = "clients of today have roots")]

use std::path::PathBuf;
use std::time::Duration;

use rmcp::model::Root;
use rmcp::service::{Peer, RoleServer};
use url::Url;

/// A client that does not answer within this time counts as one without roots.
const TIMEOUT: Duration = Duration::from_secs(3);
/// The most roots that are read.
const MAX_ROOTS: usize = 100;

/// Asks a client for its roots, if it supports that.
pub(super) async fn list(peer: &Peer<RoleServer>) -> Vec<PathBuf> {
    let has_roots = peer.peer_info().is_some_and(|info| info.capabilities.roots.is_some());
    if !has_roots {
        return Vec::new();
    }
    match tokio::time::timeout(TIMEOUT, peer.list_roots()).await {
        Ok(Ok(listed)) => listed.roots.iter().take(MAX_ROOTS).filter_map(folder).collect(),
        _ => Vec::new(),
    }
}

fn folder(root: &Root) -> Option<PathBuf> {
    Url::parse(&root.uri).ok().filter(|url| url.scheme() == "file")?.to_file_path().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_folders_are_roots() {
        let folder = |uri: &str| folder(&Root::new(uri));
        assert_eq!(folder("file:///a/b%20c"), Some(PathBuf::from("/a/b c")));
        assert_eq!(folder("file:///a/../b"), Some(PathBuf::from("/b")));
        for uri in ["https://example.com/a", "file://elsewhere/a", "/a", ""] {
            assert_eq!(folder(uri), None, "{uri}");
        }
    }
}

//! What serving clients and using servers have in common: haft's name, the longest message, and requests that are
//! cancelled when their caller is dropped.

use rmcp::model::{CancelledNotification, CancelledNotificationParam, RequestId};
use rmcp::service::{Peer, RequestHandle, ServiceError, ServiceRole};
use tokio::runtime::Handle;

/// The name under which haft introduces itself, as a server and as a client.
pub(crate) const PROGRAM: &str = "haft";

/// The longest JSON-RPC message that haft reads, in bytes.
pub(crate) const MAX_MESSAGE_BYTES: usize = 16 * 1024 * 1024;

/// Waits for the response to a request. Dropping the future sends the peer a cancellation.
pub(crate) async fn response<R: ServiceRole>(request: RequestHandle<R>) -> Result<R::PeerResp, ServiceError> {
    let mut cancel = CancelOnDrop::<R>(Some((request.peer.clone(), request.id.clone())));
    let response = request.await_response().await;
    cancel.0 = None;
    response
}

struct CancelOnDrop<R: ServiceRole>(Option<(Peer<R>, RequestId)>);

impl<R: ServiceRole> Drop for CancelOnDrop<R> {
    fn drop(&mut self) {
        let (Some((peer, id)), Ok(runtime)) = (self.0.take(), Handle::try_current()) else { return };
        let params =
            CancelledNotificationParam::new(Some(id), Some("nobody waits for it any more".to_owned()));
        let notification = R::Not::from(CancelledNotification::new(params));
        runtime.spawn(async move { peer.send_notification(notification).await });
    }
}

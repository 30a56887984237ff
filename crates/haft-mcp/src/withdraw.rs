//! Questions to the other side of a connection that are taken back when nobody waits for the answer any more.

use rmcp::model::{CancelledNotification, CancelledNotificationParam, RequestId};
use rmcp::service::{Peer, RequestHandle, ServiceError, ServiceRole};
use tokio::runtime::Handle;

/// Waits for the answer. When this is dropped before, the other side is told.
pub(crate) async fn answered<R: ServiceRole>(asked: RequestHandle<R>) -> Result<R::PeerResp, ServiceError> {
    let mut withdraws = Withdraws::<R>(Some((asked.peer.clone(), asked.id.clone())));
    let answer = asked.await_response().await;
    withdraws.0 = None;
    answer
}

struct Withdraws<R: ServiceRole>(Option<(Peer<R>, RequestId)>);

impl<R: ServiceRole> Drop for Withdraws<R> {
    fn drop(&mut self) {
        let (Some((peer, id)), Ok(runtime)) = (self.0.take(), Handle::try_current()) else { return };
        let params =
            CancelledNotificationParam::new(Some(id), Some("nobody waits for it any more".to_owned()));
        let notification = R::Not::from(CancelledNotification::new(params));
        runtime.spawn(async move { peer.send_notification(notification).await });
    }
}

//! Passes a server's progress and logs on to the call they belong to. Observes them in the transport, before the SDK
//! dispatches messages to tasks, so that a call's progress never arrives after its response. Also works around the SDK's
//! matching of response ids.
#![expect(deprecated, reason = "servers of today have a log")]

use std::sync::Arc;

use haft_core::events::Progress;
use rmcp::model::{
    JsonRpcMessage, LoggingMessageNotificationParam, ProgressNotificationParam, RequestId, ServerNotification,
};
use rmcp::service::{RoleClient, RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;

use super::bounds;
use super::handler::SharedState;

/// A transport whose incoming notifications are observed.
pub(super) struct Observed<T> {
    pub(super) inner: T,
    pub(super) server: Arc<str>,
    pub(super) shared: Arc<SharedState>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Observed<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.inner.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let mut message = self.inner.receive().await?;
        match &mut message {
            JsonRpcMessage::Notification(message) => match &message.notification {
                ServerNotification::ProgressNotification(progress) => self.progress(&progress.params),
                ServerNotification::LoggingMessageNotification(log) => self.log(&log.params),
                _ => {}
            },
            JsonRpcMessage::Response(response) => quote_string(&mut response.id),
            JsonRpcMessage::Error(response) => response.id.iter_mut().for_each(quote_string),
            JsonRpcMessage::Request(_) => {}
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

/// Quotes a string id. The SDK would match the string "1" to request 1, and haft's requests have numbers.
fn quote_string(id: &mut RequestId) {
    if let RequestId::String(text) = id {
        *text = format!("{text:?}").into();
    }
}

impl<T> Observed<T> {
    fn progress(&self, params: &ProgressNotificationParam) {
        let progress = Progress {
            // The cast saturates: negative numbers and NaN become 0.
            done: params.progress as u64,
            total: params.total.map(|total| total as u64),
            message: bounds::text(params.message.as_deref().unwrap_or_default(), bounds::MAX_MESSAGE),
        };
        self.shared.progress(&params.progress_token, progress);
    }

    fn log(&self, params: &LoggingMessageNotificationParam) {
        let Some(cx) = self.shared.latest_context() else { return };
        let level = serde_json::to_value(params.level).unwrap_or_default();
        let text = match &params.data {
            Value::String(data) => bounds::text(data, bounds::MAX_MESSAGE),
            other => bounds::text(&other.to_string(), bounds::MAX_MESSAGE),
        };
        let source = match &params.logger {
            Some(logger) => format!("{}/{}", self.server, bounds::word(logger)),
            None => self.server.to_string(),
        };
        cx.log(&source, level.as_str().unwrap_or("info"), &text);
    }
}

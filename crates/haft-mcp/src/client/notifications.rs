//! Progress and logs of a server, told on as something that happens to the call they belong to. They are heard where
//! messages come in, so that nothing of a call is told after its answer. Answers are held to whom they are for.
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
use super::handler::Surroundings;

/// A connection that is listened to.
pub(super) struct Overheard<T> {
    pub(super) inner: T,
    pub(super) server: Arc<str>,
    pub(super) surroundings: Arc<Surroundings>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Overheard<T> {
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
            JsonRpcMessage::Notification(told) => match &told.notification {
                ServerNotification::ProgressNotification(told) => self.progress(&told.params),
                ServerNotification::LoggingMessageNotification(told) => self.log(&told.params),
                _ => {}
            },
            JsonRpcMessage::Response(answer) => keep_text(&mut answer.id),
            JsonRpcMessage::Error(answer) => answer.id.iter_mut().for_each(keep_text),
            JsonRpcMessage::Request(_) => {}
        }
        Some(message)
    }

    async fn close(&mut self) -> Result<(), Self::Error> {
        self.inner.close().await
    }
}

/// Makes a text that could be taken for a number one that cannot: the SDK would, and haft's requests have numbers.
fn keep_text(id: &mut RequestId) {
    if let RequestId::String(text) = id {
        *text = format!("{text:?}").into();
    }
}

impl<T> Overheard<T> {
    fn progress(&self, told: &ProgressNotificationParam) {
        let progress = Progress {
            // What is negative or no number at all counts as nothing.
            done: told.progress as u64,
            total: told.total.map(|total| total as u64),
            message: bounds::text(told.message.as_deref().unwrap_or_default(), bounds::MAX_MESSAGE),
        };
        self.surroundings.progress(&told.progress_token, progress);
    }

    fn log(&self, told: &LoggingMessageNotificationParam) {
        let Some(cx) = self.surroundings.latest() else { return };
        let level = serde_json::to_value(told.level).unwrap_or_default();
        let said = match &told.data {
            Value::String(text) => bounds::text(text, bounds::MAX_MESSAGE),
            other => bounds::text(&other.to_string(), bounds::MAX_MESSAGE),
        };
        let source = match &told.logger {
            Some(logger) => format!("{}/{}", self.server, bounds::word(logger)),
            None => self.server.to_string(),
        };
        cx.log(&source, level.as_str().unwrap_or("info"), &said);
    }
}

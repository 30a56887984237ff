//! Parses texts that may be changed next, on one background thread that is started when it is first needed. What it does
//! is never waited for.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::stack::with_stack;
use super::{Checker, readable};

/// Smaller texts are parsed in so little time that it is not worth it to wake a thread for them.
const MIN_BYTES: usize = 16 << 10;
/// How many texts may wait; of more, each is left out.
const MAX_WAITING: usize = 8;

type Waiting = (Arc<dyn Checker>, Bytes);

/// Whether a text is large enough to be prepared.
pub(super) fn is_worthwhile(text: &Bytes) -> bool {
    text.len() >= MIN_BYTES
}

/// Has a text prepared.
pub(super) fn in_background(checker: Arc<dyn Checker>, text: Bytes) {
    static THREAD: OnceLock<Option<SyncSender<Waiting>>> = OnceLock::new();
    if let Some(thread) = THREAD.get_or_init(start) {
        // Where too many wait, the text is parsed when it is changed.
        let _ = thread.try_send((checker, text));
    }
}

fn start() -> Option<SyncSender<Waiting>> {
    let (sender, waiting) = sync_channel(MAX_WAITING);
    let thread = std::thread::Builder::new().name("haft-prepare".to_owned());
    thread.spawn(move || prepare_all(&waiting)).ok()?;
    Some(sender)
}

fn prepare_all(waiting: &Receiver<Waiting>) {
    for (checker, text) in waiting {
        with_stack(text.len(), || {
            let text = readable(std::str::from_utf8(&text).ok()?)?;
            checker.prepare(text);
            Some(())
        });
    }
}

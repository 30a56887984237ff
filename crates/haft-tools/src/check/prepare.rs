//! The background thread that parses texts which may be changed next. It starts when it is first needed, and nothing
//! waits for it.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use super::stack::with_stack;
use super::{Checker, readable};

/// Smaller texts take so little time to parse that waking a thread for them is not worth it.
const MIN_BYTES: usize = 16 << 10;
/// How many texts may wait for the thread.
const MAX_WAITING: usize = 8;

type Waiting = (Arc<dyn Checker>, Bytes);

/// Whether a text is large enough to be prepared.
pub(super) fn is_worthwhile(text: &Bytes) -> bool {
    text.len() >= MIN_BYTES
}

/// Hands a text to the thread, or skips it if too many wait.
pub(super) fn in_background(checker: Arc<dyn Checker>, text: Bytes) {
    static THREAD: OnceLock<Option<SyncSender<Waiting>>> = OnceLock::new();
    if let Some(thread) = THREAD.get_or_init(start) {
        // A text that is skipped is parsed when it is changed.
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

#[cfg(test)]
mod tests {
    use super::super::table;
    use super::*;

    #[test]
    fn what_was_prepared_is_rechecked_at_once() {
        for (name, line) in [("a.c", "int x_0 = 0;\n"), ("a.py", "x_0 = 0\n"), ("a.ts", "let x_0 = 0;\n")] {
            let checkers = table::checkers();
            let before: String = (0..9).map(|n| line.replace("_0", &format!("_{n}"))).collect();
            let recheck =
                |from: &str, to: &str| checkers.recheck(name, &before, &before.replacen(from, to, 1));
            assert_eq!(recheck("x_4", "y"), None, "{name}: nothing is known");
            let (sender, waiting) = sync_channel(2);
            let checker = checkers.find(name).unwrap();
            // A text that fails does not keep the thread from the next one.
            sender.send((checker.clone(), Bytes::from_static(b"\xFF"))).unwrap();
            sender.send((checker.clone(), before.clone().into())).unwrap();
            drop(sender);
            prepare_all(&waiting);
            assert!(
                recheck("x_4", "y").is_some_and(|checked| checked.passed() && checked.existing == 0),
                "{name}"
            );
            assert_eq!(recheck("x_4", "(("), None, "{name}: an error needs a parse of the whole text");
        }
    }
}

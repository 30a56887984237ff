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
            // What fails must not keep the rest from being prepared.
            sender.send((checker.clone(), Bytes::from_static(b"\xFF"))).unwrap();
            sender.send((checker.clone(), before.clone().into())).unwrap();
            drop(sender);
            prepare_all(&waiting);
            assert!(
                recheck("x_4", "y").is_some_and(|checked| checked.passed() && checked.existing == 0),
                "{name}"
            );
            assert_eq!(recheck("x_4", "(("), None, "{name}: what is wrong is told by a check of the whole");
        }
    }
}

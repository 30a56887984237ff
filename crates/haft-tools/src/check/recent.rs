//! A bounded cache of what checkers found out about the texts they parsed last. The key is the hash of the whole content,
//! so a cached value can never belong to another text.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use haft::Hash;

/// The kind of file, and the hash of its text.
pub(super) type Key = (usize, Hash);

/// A cache that drops what was not used for longest.
pub(super) struct Recent<V> {
    /// The most recently used first.
    entries: Mutex<VecDeque<Entry<V>>>,
    max_entries: usize,
    max_bytes: usize,
}

struct Entry<V> {
    key: Key,
    bytes: usize,
    value: V,
}

impl<V: Clone> Recent<V> {
    /// A cache of at most `max_entries` values, which take at most `max_bytes` together.
    pub(super) fn new(max_entries: usize, max_bytes: usize) -> Self {
        Self { entries: Mutex::default(), max_entries, max_bytes }
    }

    pub(super) fn get(&self, key: Key) -> Option<V> {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let at = entries.iter().position(|entry| entry.key == key)?;
        let entry = entries.remove(at)?;
        let value = entry.value.clone();
        entries.push_front(entry);
        Some(value)
    }

    /// Drops a value that will not be asked for again.
    pub(super) fn remove(&self, key: Key) {
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        let removed = entries.iter().position(|entry| entry.key == key).and_then(|at| entries.remove(at));
        drop(entries);
        drop(removed);
    }

    /// Caches a value that takes about `bytes` of memory, unless it alone is over the limit.
    pub(super) fn put(&self, key: Key, bytes: usize, value: V) {
        if bytes > self.max_bytes {
            return;
        }
        let mut entries = self.entries.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| entry.key != key);
        entries.push_front(Entry { key, bytes, value });
        let mut held = 0;
        let fits = entries.iter().take(self.max_entries).take_while(|entry| {
            held += entry.bytes;
            held <= self.max_bytes
        });
        let kept = fits.count();
        let dropped = entries.split_off(kept);
        // Freeing a syntax tree takes a while, so it happens without the lock.
        drop(entries);
        drop(dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(text: &str) -> Key {
        (0, Hash::of(text.as_bytes()))
    }

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let recent = Recent::new(2, 100);
        recent.put(key("a"), 1, 'a');
        recent.put(key("b"), 1, 'b');
        assert_eq!(recent.get(key("a")), Some('a'));
        recent.put(key("c"), 1, 'c');
        assert_eq!(["a", "b", "c"].map(|text| recent.get(key(text))), [Some('a'), None, Some('c')]);
        assert_eq!(recent.get((1, Hash::of(b"a"))), None, "another kind of file");
    }

    #[test]
    fn values_take_no_more_bytes_than_they_may() {
        let recent = Recent::new(10, 100);
        recent.put(key("a"), 60, 'a');
        recent.put(key("b"), 40, 'b');
        assert_eq!(["a", "b"].map(|text| recent.get(key(text))), [Some('a'), Some('b')]);
        recent.put(key("c"), 1, 'c');
        assert_eq!(["a", "b", "c"].map(|text| recent.get(key(text))), [None, Some('b'), Some('c')]);
        recent.put(key("d"), 101, 'd');
        assert_eq!(["b", "c", "d"].map(|text| recent.get(key(text))), [Some('b'), Some('c'), None]);
    }

    #[test]
    fn a_value_takes_the_place_of_an_older_one() {
        let recent = Recent::new(10, 100);
        recent.put(key("a"), 90, 'a');
        recent.put(key("a"), 90, 'b');
        assert_eq!(recent.get(key("a")), Some('b'));
        recent.remove(key("a"));
        assert_eq!(recent.get(key("a")), None);
    }
}

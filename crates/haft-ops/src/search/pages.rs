//! A cache of the positions at which pages of a search ended, so that the next page resumes there instead of searching
//! again from the start. Only positions are cached, never results: each page is read from the files as they are.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::SystemTime;

use parking_lot::Mutex;

/// Number of cached positions.
const CAPACITY: usize = 64;

/// Sort key of a file in the order of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OrderKey {
    /// Time of its last change, if the search sorts by time.
    pub(super) newest: Option<Reverse<SystemTime>>,
    /// Key of its folder; see [`WalkKey`](super::walk::WalkKey).
    pub(super) folder: Vec<u8>,
    /// Its name in that folder.
    pub(super) name: OsString,
}

/// The position at which a page ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// The file in which it ended.
    pub(super) place: OrderKey,
    /// Number of entries of this file that were already reported.
    pub(super) reported: u64,
}

/// Cache of page ends of a session: search identity, number of skipped entries, position. The oldest comes first.
#[derive(Debug, Default)]
pub(super) struct Pages(Mutex<VecDeque<(u64, u64, Position)>>);

impl Pages {
    /// The position of the page of a search that begins after `skip` entries.
    pub(super) fn find(&self, search: u64, skip: u64) -> Option<Position> {
        let pages = self.0.lock();
        pages
            .iter()
            .rev()
            .find(|(known, at, _)| (*known, *at) == (search, skip))
            .map(|(.., place)| place.clone())
    }

    pub(super) fn remember(&self, search: u64, skip: u64, position: Position) {
        let mut pages = self.0.lock();
        pages.retain(|(known, at, _)| (*known, *at) != (search, skip));
        if pages.len() >= CAPACITY {
            pages.pop_front();
        }
        pages.push_back((search, skip, position));
    }
}

/// Hash that identifies a search: equal for equal pattern, filter and order.
pub(super) fn identity(search: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    search.hash(&mut hasher);
    hasher.finish()
}

//! Where pages of a search ended, so that the next one goes on from there instead of searching for what was
//! told already. Only places are remembered, and what is there is read anew: nothing told is old.

use std::cmp::Reverse;
use std::collections::VecDeque;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::SystemTime;

use parking_lot::Mutex;

/// So many places are remembered.
const KEPT: usize = 64;

/// The place of a file in the order of a search.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct OrderKey {
    /// When it was changed, where that is the order.
    pub(super) newest: Option<Reverse<SystemTime>>,
    /// The folder, as a walk orders them.
    pub(super) folder: Vec<u8>,
    /// Its name in it.
    pub(super) name: OsString,
}

/// Where a page ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Position {
    /// The file.
    pub(super) place: OrderKey,
    /// How many entries of it were told.
    pub(super) told: u64,
}

/// The ends of the pages that a session was told.
#[derive(Debug, Default)]
pub(super) struct Pages(Mutex<VecDeque<(u64, u64, Position)>>);

impl Pages {
    /// Where the page that begins after so many entries of a search begins.
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
        if pages.len() >= KEPT {
            pages.pop_front();
        }
        pages.push_back((search, skip, position));
    }
}

/// What tells one search from another.
pub(super) fn identity(search: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    search.hash(&mut hasher);
    hasher.finish()
}

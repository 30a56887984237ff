//! Pages that a session fetched a short time ago. Permission is decided before a call gets here, so a page is never
//! shown to a call that could not fetch it.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::fetch::{Fetched, Want};

/// How long a page is kept.
const MAX_AGE: Duration = Duration::from_secs(15 * 60);
/// The most pages.
const MAX_PAGES: usize = 16;
/// The most bytes of all pages.
const MAX_BYTES: usize = 8 * 1024 * 1024;

/// Session extension: the pages that were fetched last, the newest first.
#[derive(Default)]
pub(crate) struct PageCache(Mutex<VecDeque<Page>>);

struct Page {
    url: String,
    want: Want,
    since: Instant,
    fetched: Fetched,
}

impl PageCache {
    /// The page of a URL, if it is still fresh.
    pub(crate) fn get(&self, url: &str, want: Want) -> Option<Fetched> {
        let mut pages = self.0.lock();
        pages.retain(|page| page.since.elapsed() < MAX_AGE);
        let found = pages.iter().find(|page| page.url == url && page.want == want)?;
        Some(Fetched { is_cached: true, ..found.fetched.clone() })
    }

    /// Keeps a page, and drops the oldest ones that no longer fit.
    pub(crate) fn keep(&self, url: &str, want: Want, fetched: &Fetched) {
        if fetched.content.bytes() > MAX_BYTES / 2 {
            return;
        }
        let mut pages = self.0.lock();
        pages.retain(|page| page.since.elapsed() < MAX_AGE && (page.url != url || page.want != want));
        pages.push_front(Page { url: url.to_owned(), want, since: Instant::now(), fetched: fetched.clone() });
        pages.truncate(MAX_PAGES);
        while pages.iter().map(|page| page.fetched.content.bytes()).sum::<usize>() > MAX_BYTES {
            pages.pop_back();
        }
    }
}

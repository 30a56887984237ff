//! Filling one page of a content search: skips the entries of earlier pages, adds entries up to the limits of the page,
//! and finds the position of the next page. Knows nothing of threads or files.

use std::ops::ControlFlow;

use haft_core::{AbsPath, Context};

use super::grep::MatchedFile;
use super::pages::Position;
use super::{FileFound, Grep, GrepResult, Page, Stopped};

/// Builds a page of results from files that come in order.
pub(super) struct PageBuilder<'a> {
    grep: &'a Grep,
    /// Number of entries still to skip.
    skip: u64,
    /// The position at which the search resumed: the entries to skip are in its file.
    resumed: Option<&'a Position>,
    bytes: usize,
    pub(super) found: GrepResult,
    /// Where the page ended, once it is full.
    end: Option<Position>,
    cx: &'a Context,
}

impl<'a> PageBuilder<'a> {
    pub(super) fn new(grep: &'a Grep, from: Option<&'a Position>, cx: &'a Context) -> Self {
        let skip = from.map_or(grep.page.skip, |from| from.reported);
        Self { grep, skip, resumed: from, bytes: 0, found: GrepResult::default(), end: None, cx }
    }

    /// Adds the next files in order, until the page is full.
    pub(super) fn take(&mut self, files: Vec<MatchedFile>) -> ControlFlow<()> {
        files.into_iter().try_for_each(|file| match self.end {
            Some(_) => ControlFlow::Break(()),
            None => self.take_file(file),
        })
    }

    fn take_file(&mut self, file: MatchedFile) -> ControlFlow<()> {
        let MatchedFile { place, below, modified, hits } = file;
        let is_lines = self.grep.what.is_lines();
        let path = match below.as_os_str().is_empty() {
            true => self.grep.root.clone(),
            false => AbsPath::lexical(&self.grep.root.as_path().join(&below)),
        };
        if self.resumed.is_some_and(|from| from.place != place) {
            // The file in which the last page ended has no matches any more.
            self.skip = 0;
        }
        let entries = if is_lines { hits.skipped + hits.lines.len() as u64 } else { 1 };
        let skipped = self.skip.min(entries);
        self.skip -= skipped;
        let cost = self.cx.workspace().display(&path).len() + self.grep.page.each;
        let mut shown = FileFound { path, modified, count: hits.count, lines: Vec::new() };
        let mut reported = skipped;
        let unwanted = usize::try_from(skipped.saturating_sub(hits.skipped)).unwrap_or(usize::MAX);
        let mut lines = hits.lines.into_iter().skip(unwanted);
        let mut full = false;
        while reported < entries && !full {
            let line = if is_lines { lines.next() } else { None };
            let bytes = cost + line.as_ref().map_or(0, |line| line.text.len());
            full = self.is_full(bytes);
            if !full {
                self.bytes += bytes;
                self.found.entries += 1;
                reported += 1;
                shown.lines.extend(line);
            }
        }
        if reported > skipped {
            self.found.matches += match is_lines {
                true => shown.lines.iter().filter(|line| line.column.is_some()).count() as u64,
                false => hits.count,
            };
            self.found.files.push(shown);
        }
        if full {
            self.end = Some(Position { place, reported });
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn is_full(&self, bytes: usize) -> bool {
        let Page { limit, bytes: most, .. } = self.grep.page;
        limit.is_some_and(|limit| self.found.entries >= limit)
            || (self.found.entries > 0 && self.bytes + bytes > most)
    }

    /// Records why the page ended. Returns the number of entries before the next page and its position, if there may be
    /// one.
    pub(super) fn finish(
        &mut self,
        after_timeout: impl FnOnce() -> Option<Position>,
    ) -> Option<(u64, Position)> {
        let reported = self.found.entries;
        let (stopped, reported, position) = match self.end.take() {
            Some(end) => (Stopped::PageFull, reported, end),
            // At least 1, or the next page's position would replace the one of this page in the cache.
            None => (Stopped::Time, reported.max(1), after_timeout()?),
        };
        let next = self.grep.page.skip + reported;
        (self.found.stopped, self.found.next) = (Some(stopped), Some(next));
        Some((next, position))
    }
}

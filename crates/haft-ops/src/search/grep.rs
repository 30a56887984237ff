//! Searching file contents: one file, or a folder by path or by time of change. Threads search files out of order, and
//! results are collected in order until the page is full. Knows nothing of how one file is searched (`lines`) or how
//! folders are walked (`walk`).

use std::cmp::Reverse;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use grep_matcher::Matcher;
use haft_core::{AbsPath, Claims, Context, Fault, Operation, Resource};
use haft_sandbox::{Kind, Name, OpenFile, PathErrorKind};
use parking_lot::Mutex;

use super::lines::{CollectOptions, FileMatches, FileResult, Finder};
use super::ordered::{self, Publish, WorkResult, ordered};
use super::page_builder::PageBuilder;
use super::pages::{OrderKey, Pages, Position, identity};
use super::pattern::Compiled;
use super::rules::Rules;
use super::signal::{Signal, StopReason};
use super::walk::{HiddenContent, UnreadableLog, Walk};
use super::{Filter, Line, LineMode, Pattern, Searching, Unreadable, drive};

/// Number of files that form one work item in a search by time.
const BATCH: usize = 16;

/// Searches file contents for a pattern.
#[derive(Clone, Debug)]
pub struct Grep {
    /// The file or folder to search.
    pub root: AbsPath,
    /// The pattern.
    pub pattern: Pattern,
    /// Which files of a folder to search.
    pub filter: Filter,
    /// What to report of each file: lines, a count, or only that it matches.
    pub what: LineMode,
    /// The order of the files.
    pub sorting: Sorting,
    /// Which part of the results to return.
    pub page: Page,
}

/// Order of the files in the results of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sorting {
    /// By path, the files of a folder before its subfolders.
    Path,
    /// By time of change, the newest first.
    Newest,
}

/// Pagination of search results. An entry is a line if the search reports lines, and a file otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Number of entries to skip.
    pub skip: u64,
    /// Maximum number of entries.
    pub limit: Option<u64>,
    /// Maximum size of all entries in bytes; the page holds at least one entry.
    pub bytes: usize,
    /// Overhead in bytes that the reply's format adds to each entry, besides its path and its line.
    pub each: usize,
    /// Maximum characters of a line; a longer one is truncated around the match.
    pub line_chars: usize,
}

/// Results of a content search.
#[derive(Debug, Default)]
pub struct GrepResult {
    /// The files with matches.
    pub files: Vec<FileFound>,
    /// Number of entries on this page.
    pub entries: u64,
    /// Number of matching lines on this page.
    pub matches: u64,
    /// Value of [`Page::skip`] for the next page, if there may be one.
    pub next: Option<u64>,
    /// StopReason the search ended early, if it did.
    pub stopped: Option<Stopped>,
    /// Number of files that were searched.
    pub searched: u64,
    /// Number of binary files that were left out.
    pub binary: u64,
    /// Number of files and folders that ignore files left out.
    pub ignored: u64,
    /// Files and folders that could not be read.
    pub unreadable: Unreadable,
}

/// StopReason a search ended before it covered everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The page is full.
    PageFull,
    /// The timeout expired.
    Time,
}

/// A file with matches.
#[derive(Debug)]
pub struct FileFound {
    /// The file.
    pub path: AbsPath,
    /// When it was last changed.
    pub modified: SystemTime,
    /// Number of matching lines, as far as the file was searched.
    pub count: u64,
    /// The lines to show; empty unless the search reports lines.
    pub lines: Vec<Line>,
}

impl Operation for Grep {
    type Output = GrepResult;

    fn claims(&self) -> Claims {
        Claims::none().read(Resource::Path(self.root.clone()))
    }

    async fn run(self, cx: &Context) -> Result<GrepResult, Fault> {
        let searching = cx.session().extension::<Searching>();
        let (inside, time) = (cx.clone(), searching.time);
        drive(cx, time, move |signal| match self.pattern.compiled()? {
            Compiled::Regex(matcher) => self.search(&matcher, &searching, signal, &inside),
            #[cfg(feature = "pcre2")]
            Compiled::Perl(matcher) => self.search(&matcher, &searching, signal, &inside),
        })
        .await
    }
}

/// A file with matches and its place in the order.
pub(super) struct MatchedFile {
    pub(super) place: OrderKey,
    /// Its path relative to the searched folder.
    pub(super) below: PathBuf,
    pub(super) modified: SystemTime,
    pub(super) hits: FileMatches,
}

impl ordered::Weighed for MatchedFile {
    fn weight(&self) -> usize {
        let lines = self.hits.lines.iter().map(|line| line.text.len() + size_of::<Line>());
        size_of::<Self>() + self.below.as_os_str().len() * 2 + lines.sum::<usize>()
    }
}

/// A running search: the state that all threads share.
struct Search<'a, M> {
    grep: &'a Grep,
    matcher: &'a M,
    rules: &'a Rules,
    /// The position at which the search resumes, if a cached page ended there.
    from: Option<&'a Position>,
    signal: &'a Signal,
    cx: &'a Context,
    binary: AtomicU64,
    unreadable: UnreadableLog,
    /// Number of lines still to skip, where no cached position says in which file the page begins.
    unskipped: AtomicU64,
    /// The files that the threads were searching when the search was stopped.
    interrupted: Mutex<Vec<(OrderKey, PathBuf)>>,
}

/// A file that a search by time is going to search.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    place: OrderKey,
    below: PathBuf,
}

impl ordered::Weighed for Candidate {
    fn weight(&self) -> usize {
        0
    }
}

impl Grep {
    /// Searches with a compiled pattern. Blocks until the page is full or the search ends.
    pub(super) fn search<M: Matcher + Clone + Sync>(
        &self,
        matcher: &M,
        searching: &Searching,
        signal: &Signal,
        cx: &Context,
    ) -> Result<GrepResult, Fault> {
        let filter = searching.filter(&self.filter);
        let id = identity(&(&self.root, &self.pattern, &filter, self.what, self.sorting));
        let pages = cx.session().extension::<Pages>();
        let from = pages.find(id, self.page.skip);
        let rules = Rules::new(&filter)?;
        let search = Search {
            grep: self,
            matcher,
            rules: &rules,
            from: from.as_ref(),
            signal,
            cx,
            binary: AtomicU64::new(0),
            unreadable: UnreadableLog::default(),
            unskipped: AtomicU64::new(self.page.skip),
            interrupted: Mutex::default(),
        };
        let mut page = PageBuilder::new(self, from.as_ref(), cx);
        let left = match (cx.workspace().stat(&self.root)?.kind, self.sorting) {
            (Kind::Directory, Sorting::Path) => search.search_by_path(&mut page)?,
            (Kind::Directory, Sorting::Newest) => search.search_by_time(&mut page)?,
            _ => search.search_one(&mut page)?,
        };
        if let Some((next, position)) = page.finish(|| search.resume_after_timeout(left)) {
            pages.remember(id, next, position);
        }
        let mut found = page.found;
        found.searched = signal.files.load(Ordering::Relaxed);
        found.binary = search.binary.into_inner();
        found.unreadable = search.unreadable.take();
        found.ignored = rules.ignored();
        Ok(found)
    }
}

impl<M: Matcher + Clone + Sync> Search<'_, M> {
    fn finder(&self) -> Finder<'_, M> {
        let Page { limit, bytes, line_chars, .. } = self.grep.page;
        let lines = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        // One line more than the page holds shows that there is a next page.
        let options =
            CollectOptions { mode: self.grep.what, lines: lines.saturating_add(1), bytes, line_chars };
        Finder::new(self.matcher.clone(), &self.grep.pattern, options, self.signal)
    }

    /// Number of threads. A search that must count lines to skip runs on one: with several, the lines of later files would
    /// have to be held until all earlier files are counted.
    fn threads(&self) -> usize {
        let begins_anywhere = self.from.is_none() && self.grep.page.skip > 0;
        if begins_anywhere && self.grep.what.is_lines() { 1 } else { ordered::threads() }
    }

    /// Number of lines to skip at the beginning of a file.
    fn skip_in(&self, place: &OrderKey) -> u64 {
        match self.from {
            Some(from) if from.place == *place => from.reported,
            Some(_) => 0,
            None => self.unskipped.load(Ordering::Relaxed),
        }
    }

    /// Searches a single file, whatever the filter says of it.
    fn search_one(&self, page: &mut PageBuilder<'_>) -> Result<Option<OrderKey>, Fault> {
        let open = self.cx.workspace().open_file(&self.grep.root)?;
        match self.search_open(&mut self.finder(), Ok(open), OrderKey::default(), PathBuf::new()) {
            Some(found) => {
                let _ = page.take(found.into_iter().collect());
            }
            None => page.found.stopped = Some(Stopped::Time),
        }
        Ok(None)
    }

    /// Searches a folder in the order of a walk. Returns the first unfinished place, if the search was stopped.
    fn search_by_path(&self, page: &mut PageBuilder<'_>) -> Result<Option<OrderKey>, Fault> {
        let walk = Walk {
            from: self.from.map(|Position { place, .. }| (place.folder.clone(), place.name.clone())),
            hidden: HiddenContent::below(&self.grep.root, self.cx),
            ..Walk::new(self.rules, &self.unreadable)
        };
        let first = walk.begin(&self.grep.root, self.cx)?;
        let worker = || {
            let (mut finder, walk) = (self.finder(), &walk);
            move |step, publish: &Publish<'_, _, _>| {
                walk.step(step, publish, |folder, handle, names| {
                    self.search_batch(
                        names,
                        |entry| (folder.key.clone(), entry.name.clone()),
                        |entry| {
                            let place = OrderKey {
                                newest: None,
                                folder: folder.key.clone(),
                                name: entry.name.clone(),
                            };
                            self.search_open(
                                &mut finder,
                                handle.file(&entry.name),
                                place,
                                folder.below.join(&entry.name),
                            )
                        },
                    )
                })
            }
        };
        let left = ordered(vec![first], self.threads(), self.signal, worker, |found| page.take(found));
        Ok(left.map(|(folder, name)| OrderKey { newest: None, folder, name }))
    }

    /// Searches a batch of files until the search is stopped, but at least the first of them.
    fn search_batch<T, K>(
        &self,
        files: &[T],
        place: impl Fn(&T) -> K,
        mut search: impl FnMut(&T) -> Option<Option<MatchedFile>>,
    ) -> WorkResult<K, MatchedFile> {
        let mut done = WorkResult { found: Vec::new(), examined: 0, resume_at: None };
        for file in files {
            let result = if done.examined > 0 && self.signal.is_stopped() { None } else { search(file) };
            let Some(found) = result else {
                done.resume_at = Some(place(file));
                break;
            };
            done.examined += 1;
            done.found.extend(found);
        }
        done
    }

    /// Searches a folder by time of change, the newest files first. The order is known only when all files are listed, so
    /// the listing does not stop at the timeout: a page could not resume from a part of the order.
    fn search_by_time(&self, page: &mut PageBuilder<'_>) -> Result<Option<OrderKey>, Fault> {
        let hidden = HiddenContent::below(&self.grep.root, self.cx);
        let walk = Walk { batch: usize::MAX, hidden, ..Walk::new(self.rules, &self.unreadable) };
        let first = walk.begin(&self.grep.root, self.cx)?;
        let mut files: Vec<Candidate> = Vec::new();
        let worker = || {
            |step, publish: &Publish<'_, _, _>| {
                walk.step(step, publish, |folder, handle, names| {
                    let candidate = |entry: &Name| {
                        let modified = handle.stat(&entry.name).ok()?.modified;
                        let (folder_key, name) = (folder.key.clone(), entry.name.clone());
                        let place = OrderKey { newest: Some(Reverse(modified)), folder: folder_key, name };
                        Some(Candidate { place, below: folder.below.join(&entry.name) })
                    };
                    WorkResult {
                        found: names.iter().filter_map(candidate).collect(),
                        examined: 0,
                        resume_at: None,
                    }
                })
            }
        };
        ordered(vec![first], ordered::threads(), self.signal, worker, |found| {
            files.extend(found);
            ControlFlow::Continue(())
        });
        files.sort_unstable();
        if let Some(from) = self.from {
            files.retain(|file| file.place >= from.place);
        }
        let files = &files;
        let batches = (0..files.len()).step_by(BATCH);
        let first = batches.map(|at| (at, at..files.len().min(at + BATCH))).collect();
        let worker = || {
            let mut finder = self.finder();
            move |batch: Range<usize>, _: &Publish<'_, _, _>| {
                let batch: Vec<usize> = batch.collect();
                self.search_batch(
                    &batch,
                    |at| *at,
                    |at| {
                        let file = &files[*at];
                        let path = AbsPath::lexical(&self.grep.root.as_path().join(&file.below));
                        let open = self.cx.workspace().open_file(&path).map_err(|error| error.kind);
                        self.search_open(&mut finder, open, file.place.clone(), file.below.clone())
                    },
                )
            }
        };
        let left = ordered(first, self.threads(), self.signal, worker, |found| page.take(found));
        Ok(left.and_then(|at: usize| files.get(at).map(|file| file.place.clone())))
    }

    /// The position at which the next page resumes after a timeout. A file that already was the first one of this page and
    /// took all the time is reported as unreadable and skipped: otherwise no page would ever get past it.
    fn resume_after_timeout(&self, left: Option<OrderKey>) -> Option<Position> {
        let mut place = left.filter(|_| self.signal.why() == Some(StopReason::Time))?;
        let interrupted = self.interrupted.lock();
        if let Some((_, below)) = interrupted.iter().find(|(interrupted, _)| *interrupted == place)
            && self.from.is_some_and(|from| from.place == place)
        {
            self.unreadable.add_because(below, "it takes too long");
            // No file name contains a NUL, so this key sorts right after the file and before the next one.
            place.name.push("\0");
        }
        Some(Position { place, reported: 0 })
    }

    /// Searches an open file. Returns `None` if the search was stopped in the middle of it.
    fn search_open(
        &self,
        finder: &mut Finder<'_, M>,
        open: Result<OpenFile, PathErrorKind>,
        place: OrderKey,
        below: PathBuf,
    ) -> Option<Option<MatchedFile>> {
        let open = match open {
            Ok(open) => open,
            // The file was removed or replaced since its folder was read.
            Err(PathErrorKind::NotFound | PathErrorKind::LinkAppeared | PathErrorKind::NotAFile(_)) => {
                return Some(None);
            }
            Err(_) => {
                self.unreadable.add(&below);
                return Some(None);
            }
        };
        let modified = open.stat.modified;
        match finder.search(open, self.skip_in(&place)) {
            FileResult::Matches(hits) => {
                if self.from.is_none() {
                    self.unskipped.fetch_sub(hits.skipped, Ordering::Relaxed);
                }
                return Some(Some(MatchedFile { place, below, modified, hits }));
            }
            FileResult::NoMatch => {}
            FileResult::Binary => {
                self.binary.fetch_add(1, Ordering::Relaxed);
            }
            FileResult::Unreadable => self.unreadable.add(&below),
            FileResult::TooLarge => {
                self.unreadable.add_because(&below, "too large to be searched over several lines")
            }
            FileResult::Interrupted => {
                self.interrupted.lock().push((place, below));
                return None;
            }
        }
        Some(None)
    }
}

//! Searching what is in files.

use std::cmp::Reverse;
use std::ops::{ControlFlow, Range};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use grep_matcher::Matcher;
use haft_core::{AbsPath, Claims, Context, Fault, Operation, Resource};
use haft_sandbox::{Kind, Name, OpenFile, PathErrorKind};
use parking_lot::Mutex;

use super::lines::{Finder, Hits, Looked, Wants};
use super::ordered::{self, Done, Publish, ordered};
use super::pages::{OrderKey, Pages, Position, identity};
use super::pattern::Compiled;
use super::rules::Rules;
use super::signal::{Signal, Why};
use super::walk::{Hidden, Missed, Walk};
use super::{Filter, Line, LineMode, Pattern, Searching, Unreadable, drive};

/// So many files, by time, are one piece of work.
const BATCH: usize = 16;

/// Searches what is in files.
#[derive(Clone, Debug)]
pub struct Grep {
    /// The file or folder to search.
    pub root: AbsPath,
    /// What to search for.
    pub pattern: Pattern,
    /// Which files to search, in a folder.
    pub filter: Filter,
    /// What is to be found out about each.
    pub what: LineMode,
    /// In which order.
    pub sorting: Sorting,
    /// Which part of it is told.
    pub page: Page,
}

/// In which order files come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sorting {
    /// By path, the files of a folder before the folders in it.
    Path,
    /// Those that were changed last first.
    Newest,
}

/// Which part of what was found is told. Lines are counted where lines are told, and files otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// So many are left out at the beginning.
    pub skip: u64,
    /// So many are told.
    pub limit: Option<u64>,
    /// As long as they have no more than so many bytes; one is always told.
    pub bytes: usize,
    /// So many bytes come with each, beside its path and its line.
    pub each: usize,
    /// Longer lines are cut around what matches.
    pub line_chars: usize,
}

/// What was found.
#[derive(Debug, Default)]
pub struct GrepResult {
    /// The files.
    pub files: Vec<FileFound>,
    /// How many entries are told.
    pub entries: u64,
    /// How many lines match in the files that are told.
    pub matches: u64,
    /// How many entries to skip to go on, if there is more, or may be.
    pub next: Option<u64>,
    /// Why the search ended before it had seen everything.
    pub stopped: Option<Stopped>,
    /// How many files were searched.
    pub searched: u64,
    /// How many binary files were left out.
    pub binary: u64,
    /// How many files and folders were left out because of ignore files.
    pub ignored: u64,
    /// What could not be read.
    pub unreadable: Unreadable,
}

/// Why a search ended before it had seen everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// The page was full.
    PageFull,
    /// Its time was up.
    Time,
}

/// A file in which something was found.
#[derive(Debug)]
pub struct FileFound {
    /// The file.
    pub path: AbsPath,
    /// When it was last changed.
    pub modified: SystemTime,
    /// How many lines match, as far as it was searched.
    pub count: u64,
    /// The lines.
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

/// A file in which something was found, in its place.
struct InFile {
    place: OrderKey,
    below: PathBuf,
    modified: SystemTime,
    hits: Hits,
}

impl ordered::Weighed for InFile {
    fn weight(&self) -> usize {
        let lines = self.hits.lines.iter().map(|line| line.text.len() + size_of::<Line>());
        size_of::<Self>() + self.below.as_os_str().len() * 2 + lines.sum::<usize>()
    }
}

/// A search under way: what all threads share.
struct Search<'a, M> {
    grep: &'a Grep,
    matcher: &'a M,
    rules: &'a Rules,
    /// Where to begin, if not at the beginning.
    from: Option<&'a Position>,
    signal: &'a Signal,
    cx: &'a Context,
    binary: AtomicU64,
    missed: Missed,
    /// How many lines are still to be left out, where it is not known in which file the page begins.
    unskipped: AtomicU64,
    /// The files in which the search was when it was stopped.
    given_up: Mutex<Vec<(OrderKey, PathBuf)>>,
}

/// A file that is going to be searched.
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
            missed: Missed::default(),
            unskipped: AtomicU64::new(self.page.skip),
            given_up: Mutex::default(),
        };
        let mut filling = Filling::new(self, from.as_ref(), cx);
        let left = match (cx.workspace().stat(&self.root)?.kind, self.sorting) {
            (Kind::Directory, Sorting::Path) => search.by_path(&mut filling)?,
            (Kind::Directory, Sorting::Newest) => search.by_time(&mut filling)?,
            _ => search.one(&mut filling)?,
        };
        if let Some((next, position)) = filling.finish(|| search.end_of_time(left)) {
            pages.remember(id, next, position);
        }
        let mut found = filling.found;
        found.searched = signal.files.load(Ordering::Relaxed);
        found.binary = search.binary.into_inner();
        found.unreadable = search.missed.take();
        found.ignored = rules.ignored();
        Ok(found)
    }
}

impl<M: Matcher + Clone + Sync> Search<'_, M> {
    fn finder(&self) -> Finder<'_, M> {
        let Page { limit, bytes, line_chars, .. } = self.grep.page;
        let lines = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        // One more than is told, to know that there is one.
        let wants = Wants { what: self.grep.what, lines: lines.saturating_add(1), bytes, chars: line_chars };
        Finder::new(self.matcher.clone(), &self.grep.pattern, wants, self.signal)
    }

    /// How many threads search. Where it is not known in which file the page begins, what is left out before it
    /// would have to be held until it is.
    fn threads(&self) -> usize {
        let begins_anywhere = self.from.is_none() && self.grep.page.skip > 0;
        if begins_anywhere && self.grep.what.is_lines() { 1 } else { ordered::threads() }
    }

    /// How many lines of a file are left out at its beginning.
    fn skip_in(&self, place: &OrderKey) -> u64 {
        match self.from {
            Some(from) if from.place == *place => from.told,
            Some(_) => 0,
            None => self.unskipped.load(Ordering::Relaxed),
        }
    }

    /// Searches one file, however it is named.
    fn one(&self, filling: &mut Filling<'_>) -> Result<Option<OrderKey>, Fault> {
        let open = self.cx.workspace().open_file(&self.grep.root)?;
        match self.look(&mut self.finder(), Ok(open), OrderKey::default(), PathBuf::new()) {
            Some(found) => {
                let _ = filling.take(found.into_iter().collect());
            }
            None => filling.found.stopped = Some(Stopped::Time),
        }
        Ok(None)
    }

    fn by_path(&self, filling: &mut Filling<'_>) -> Result<Option<OrderKey>, Fault> {
        let walk = Walk {
            from: self.from.map(|Position { place, .. }| (place.folder.clone(), place.name.clone())),
            hidden: Hidden::below(&self.grep.root, self.cx),
            ..Walk::new(self.rules, &self.missed)
        };
        let first = walk.begin(&self.grep.root, self.cx)?;
        let worker = || {
            let (mut finder, walk) = (self.finder(), &walk);
            move |step, publish: &Publish<'_, _, _>| {
                walk.step(step, publish, |folder, handle, names| {
                    self.each(
                        names,
                        |entry| (folder.key.clone(), entry.name.clone()),
                        |entry| {
                            let place = OrderKey {
                                newest: None,
                                folder: folder.key.clone(),
                                name: entry.name.clone(),
                            };
                            self.look(
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
        let left = ordered(vec![first], self.threads(), self.signal, worker, |found| filling.take(found));
        Ok(left.map(|(folder, name)| OrderKey { newest: None, folder, name }))
    }

    /// Looks at some files, at one at least, until the search is stopped.
    fn each<T, K>(
        &self,
        files: &[T],
        place: impl Fn(&T) -> K,
        mut look: impl FnMut(&T) -> Option<Option<InFile>>,
    ) -> Done<K, InFile> {
        let mut done = Done { found: Vec::new(), looked: 0, rest: None };
        for file in files {
            let looked = if done.looked > 0 && self.signal.is_stopped() { None } else { look(file) };
            let Some(found) = looked else {
                done.rest = Some(place(file));
                break;
            };
            done.looked += 1;
            done.found.extend(found);
        }
        done
    }

    /// Searches the files that were changed last first. For that all are looked at before the first is read,
    /// however long it takes: nobody could go on from a part of them.
    fn by_time(&self, filling: &mut Filling<'_>) -> Result<Option<OrderKey>, Fault> {
        let hidden = Hidden::below(&self.grep.root, self.cx);
        let walk = Walk { batch: usize::MAX, hidden, ..Walk::new(self.rules, &self.missed) };
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
                    Done { found: names.iter().filter_map(candidate).collect(), looked: 0, rest: None }
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
                self.each(
                    &batch,
                    |at| *at,
                    |at| {
                        let file = &files[*at];
                        let path = AbsPath::lexical(&self.grep.root.as_path().join(&file.below));
                        let open = self.cx.workspace().open_file(&path).map_err(|error| error.kind);
                        self.look(&mut finder, open, file.place.clone(), file.below.clone())
                    },
                )
            }
        };
        let left = ordered(first, self.threads(), self.signal, worker, |found| filling.take(found));
        Ok(left.and_then(|at: usize| files.get(at).map(|file| file.place.clone())))
    }

    /// Where a search that had no more time goes on. A file that was the first to be searched and took all the
    /// time is told as one that could not be read: otherwise nobody would ever get past it.
    fn end_of_time(&self, left: Option<OrderKey>) -> Option<Position> {
        let mut place = left.filter(|_| self.signal.why() == Some(Why::Time))?;
        let took_all = self.given_up.lock();
        if let Some((_, below)) = took_all.iter().find(|(given_up, _)| *given_up == place)
            && self.from.is_some_and(|from| from.place == place)
        {
            self.missed.add_because(below, "it takes too long");
            place.name.push("\0");
        }
        Some(Position { place, told: 0 })
    }

    /// What is in a file; nothing if the search was stopped in the middle of it.
    fn look(
        &self,
        finder: &mut Finder<'_, M>,
        open: Result<OpenFile, PathErrorKind>,
        place: OrderKey,
        below: PathBuf,
    ) -> Option<Option<InFile>> {
        let open = match open {
            Ok(open) => open,
            // Gone, or something else by now.
            Err(PathErrorKind::NotFound | PathErrorKind::LinkAppeared | PathErrorKind::NotAFile(_)) => {
                return Some(None);
            }
            Err(_) => {
                self.missed.add(&below);
                return Some(None);
            }
        };
        let modified = open.stat.modified;
        match finder.search(open, self.skip_in(&place)) {
            Looked::Hits(hits) => {
                if self.from.is_none() {
                    self.unskipped.fetch_sub(hits.skipped, Ordering::Relaxed);
                }
                return Some(Some(InFile { place, below, modified, hits }));
            }
            Looked::Nothing => {}
            Looked::Binary => {
                self.binary.fetch_add(1, Ordering::Relaxed);
            }
            Looked::Unreadable => self.missed.add(&below),
            Looked::TooLarge => {
                self.missed.add_because(&below, "too large to be searched over several lines")
            }
            Looked::GivenUp => {
                self.given_up.lock().push((place, below));
                return None;
            }
        }
        Some(None)
    }
}

/// A page that is being filled.
struct Filling<'a> {
    grep: &'a Grep,
    /// How many entries are still to be left out.
    skip: u64,
    /// In which file they are, where the search goes on from a place.
    resumed: Option<&'a Position>,
    bytes: usize,
    found: GrepResult,
    end: Option<Position>,
    cx: &'a Context,
}

impl<'a> Filling<'a> {
    fn new(grep: &'a Grep, from: Option<&'a Position>, cx: &'a Context) -> Self {
        let skip = from.map_or(grep.page.skip, |from| from.told);
        Self { grep, skip, resumed: from, bytes: 0, found: GrepResult::default(), end: None, cx }
    }

    /// Takes what comes next in order, until the page is full.
    fn take(&mut self, files: Vec<InFile>) -> ControlFlow<()> {
        files.into_iter().try_for_each(|file| match self.end {
            Some(_) => ControlFlow::Break(()),
            None => self.take_file(file),
        })
    }

    fn take_file(&mut self, file: InFile) -> ControlFlow<()> {
        let InFile { place, below, modified, hits } = file;
        let is_lines = self.grep.what.is_lines();
        let path = match below.as_os_str().is_empty() {
            true => self.grep.root.clone(),
            false => AbsPath::lexical(&self.grep.root.as_path().join(&below)),
        };
        if self.resumed.is_some_and(|from| from.place != place) {
            // The file where the last page ended has nothing any more.
            self.skip = 0;
        }
        let entries = if is_lines { hits.skipped + hits.lines.len() as u64 } else { 1 };
        let skipped = self.skip.min(entries);
        self.skip -= skipped;
        let cost = self.cx.workspace().display(&path).len() + self.grep.page.each;
        let mut taken = FileFound { path, modified, count: hits.count, lines: Vec::new() };
        let mut told = skipped;
        let unwanted = usize::try_from(skipped.saturating_sub(hits.skipped)).unwrap_or(usize::MAX);
        let mut lines = hits.lines.into_iter().skip(unwanted);
        let mut full = false;
        while told < entries && !full {
            let line = if is_lines { lines.next() } else { None };
            let bytes = cost + line.as_ref().map_or(0, |line| line.text.len());
            full = self.is_full(bytes);
            if !full {
                self.bytes += bytes;
                self.found.entries += 1;
                told += 1;
                taken.lines.extend(line);
            }
        }
        if told > skipped {
            self.found.matches += match is_lines {
                true => taken.lines.iter().filter(|line| line.column.is_some()).count() as u64,
                false => hits.count,
            };
            self.found.files.push(taken);
        }
        if full {
            self.end = Some(Position { place, told });
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn is_full(&self, bytes: usize) -> bool {
        let Page { limit, bytes: most, .. } = self.grep.page;
        limit.is_some_and(|limit| self.found.entries >= limit)
            || (self.found.entries > 0 && self.bytes + bytes > most)
    }

    /// Finds out whether there is more, and where the next page begins then.
    fn finish(&mut self, end_of_time: impl FnOnce() -> Option<Position>) -> Option<(u64, Position)> {
        let told = self.found.entries;
        let (stopped, told, position) = match self.end.take() {
            Some(end) => (Stopped::PageFull, told, end),
            // A page that begins where this one began must not begin further on.
            None => (Stopped::Time, told.max(1), end_of_time()?),
        };
        let next = self.grep.page.skip + told;
        (self.found.stopped, self.found.next) = (Some(stopped), Some(next));
        Some((next, position))
    }
}

//! Searching what is in files.

use std::cmp::Reverse;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use grep_matcher::Matcher;
use haft::{AbsPath, Claims, Context, Fault, Operation, Resource};
use haft_sandbox::{Kind, Name, OpenFile, PathErrorKind};

use super::lines::{Finder, Hits, Looked, Wants};
use super::ordered::{self, Left, Publish, ordered};
use super::pages::{Pages, Place, Position, identity};
use super::pattern::Compiled;
use super::rules::Rules;
use super::signal::{Signal, Why};
use super::walk::{Missed, Walk};
use super::{Filter, Line, Pattern, Searching, Unreadable, What, drive};

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
    pub what: What,
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
    /// Longer lines are cut around what matches.
    pub line_chars: usize,
}

/// What was found.
#[derive(Debug, Default)]
pub struct Found {
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
    type Output = Found;

    fn claims(&self) -> Claims {
        Claims::none().read(Resource::Path(self.root.clone()))
    }

    async fn run(self, cx: &Context) -> Result<Found, Fault> {
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
    place: Place,
    below: PathBuf,
    modified: SystemTime,
    hits: Hits,
}

impl ordered::Found for InFile {
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
}

/// What is left of a search that was stopped: where it was, and what it found further on.
type Rest = (Option<Place>, Vec<InFile>);

/// A file that is going to be searched.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    place: Place,
    below: PathBuf,
}

impl ordered::Found for Candidate {
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
    ) -> Result<Found, Fault> {
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
        };
        let mut filling = Filling::new(self, from.as_ref());
        let (from, found) = match (cx.workspace().stat(&self.root)?.kind, self.sorting) {
            (Kind::Directory, Sorting::Path) => search.by_path(&mut filling)?,
            (Kind::Directory, Sorting::Newest) => search.by_time(&mut filling)?,
            _ => search.one(&mut filling)?,
        };
        let (mut found, next) = filling.finish(signal.why(), from, found);
        if let (Some(next), Some(position)) = (found.next, next) {
            pages.remember(id, next, position);
        }
        found.searched = signal.files.load(Ordering::Relaxed);
        found.binary = search.binary.into_inner();
        found.unreadable = search.missed.take();
        Ok(found)
    }
}

impl<M: Matcher + Clone + Sync> Search<'_, M> {
    fn finder(&self) -> Finder<'_, M> {
        let told = self.from.map_or(self.grep.page.skip, |from| from.told);
        let most = self.grep.page.limit.unwrap_or(u64::MAX).saturating_add(told).saturating_add(1);
        let wants = Wants {
            what: self.grep.what,
            // Each line takes at least a byte of the page.
            lines: usize::try_from(most).unwrap_or(usize::MAX).min(self.grep.page.bytes + told as usize + 1),
            chars: self.grep.page.line_chars,
        };
        Finder::new(self.matcher.clone(), &self.grep.pattern, wants, self.signal)
    }

    /// Searches one file, however it is named.
    fn one(&self, filling: &mut Filling<'_>) -> Result<Rest, Fault> {
        let open = self.cx.workspace().open_file(&self.grep.root)?;
        let found = self.look(&mut self.finder(), Ok(open), Place::default(), PathBuf::new());
        if filling.take(found.into_iter().collect()).is_break() {
            self.signal.stop(Why::Enough);
        }
        Ok((None, Vec::new()))
    }

    fn by_path(&self, filling: &mut Filling<'_>) -> Result<Rest, Fault> {
        let walk = Walk {
            from: self.from.map(|from| from.place.folder.clone()),
            ..Walk::new(self.rules, &self.missed)
        };
        let first = walk.begin(&self.grep.root, self.cx)?;
        let worker = || {
            let (mut finder, walk) = (self.finder(), &walk);
            move |step, publish: &Publish<'_, _, _>| {
                walk.step(step, publish, |folder, names| {
                    let begins = self.from.map(|from| &from.place).filter(|place| place.folder == folder.key);
                    let names =
                        names.iter().filter(|entry| begins.is_none_or(|begins| entry.name >= begins.name));
                    let look = |entry: &Name| {
                        let place =
                            Place { newest: None, folder: folder.key.clone(), name: entry.name.clone() };
                        let open = folder.handle.file(&entry.name);
                        self.look(&mut finder, open, place, folder.below.join(&entry.name))
                    };
                    names.take_while(|_| !self.signal.is_stopped()).filter_map(look).collect()
                })
            }
        };
        let Left { from, found } = ordered(vec![first], self.signal, worker, |found| filling.take(found));
        let place = from.map(|(folder, _)| Place { folder, ..Place::default() });
        Ok((place, found))
    }

    /// Searches the files that were changed last first. For that all are looked at before the first is read.
    fn by_time(&self, filling: &mut Filling<'_>) -> Result<Rest, Fault> {
        let walk = Walk { batch: usize::MAX, ..Walk::new(self.rules, &self.missed) };
        let first = walk.begin(&self.grep.root, self.cx)?;
        let mut files: Vec<Candidate> = Vec::new();
        let worker = || {
            |step, publish: &Publish<'_, _, _>| {
                walk.step(step, publish, |folder, names| {
                    let candidate = |entry: &Name| {
                        let modified = folder.handle.stat(&entry.name).ok()?.modified;
                        let (folder_key, name) = (folder.key.clone(), entry.name.clone());
                        let place = Place { newest: Some(Reverse(modified)), folder: folder_key, name };
                        Some(Candidate { place, below: folder.below.join(&entry.name) })
                    };
                    names.iter().filter_map(candidate).collect()
                })
            }
        };
        ordered(vec![first], self.signal, worker, |found| {
            files.extend(found);
            ControlFlow::Continue(())
        });
        files.sort_unstable();
        if let Some(from) = self.from {
            files.retain(|file| file.place >= from.place);
        }
        let begins: Vec<Place> = files.chunks(BATCH).map(|batch| batch[0].place.clone()).collect();
        let first = files.chunks(BATCH).map(<[Candidate]>::to_vec).enumerate().collect();
        let worker = || {
            let mut finder = self.finder();
            move |batch: Vec<Candidate>, _: &Publish<'_, _, _>| {
                let look = |file: Candidate| {
                    let path = AbsPath::lexical(&self.grep.root.as_path().join(&file.below));
                    let open = self.cx.workspace().open_file(&path).map_err(|error| error.kind);
                    self.look(&mut finder, open, file.place, file.below)
                };
                batch.into_iter().take_while(|_| !self.signal.is_stopped()).filter_map(look).collect()
            }
        };
        let Left { from, found } = ordered(first, self.signal, worker, |found| filling.take(found));
        Ok((from.and_then(|at: usize| begins.get(at).cloned()), found))
    }

    fn look(
        &self,
        finder: &mut Finder<'_, M>,
        open: Result<OpenFile, PathErrorKind>,
        place: Place,
        below: PathBuf,
    ) -> Option<InFile> {
        let open = match open {
            Ok(open) => open,
            // Gone, or something else by now.
            Err(PathErrorKind::NotFound | PathErrorKind::LinkAppeared | PathErrorKind::NotAFile(_)) => {
                return None;
            }
            Err(_) => {
                self.missed.add(&below);
                return None;
            }
        };
        let modified = open.stat.modified;
        match finder.search(open) {
            Looked::Hits(hits) => Some(InFile { place, below, modified, hits }),
            Looked::Nothing => None,
            Looked::Binary => {
                self.binary.fetch_add(1, Ordering::Relaxed);
                None
            }
            Looked::Unreadable => {
                self.missed.add(&below);
                None
            }
        }
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
    found: Found,
    end: Option<Position>,
}

impl<'a> Filling<'a> {
    fn new(grep: &'a Grep, from: Option<&'a Position>) -> Self {
        let skip = from.map_or(grep.page.skip, |from| from.told);
        Self { grep, skip, resumed: from, bytes: 0, found: Found::default(), end: None }
    }

    /// Takes what comes next in order, until the page is full.
    fn take(&mut self, files: Vec<InFile>) -> ControlFlow<()> {
        files.into_iter().try_for_each(|file| self.take_file(file))
    }

    fn take_file(&mut self, file: InFile) -> ControlFlow<()> {
        let InFile { place, below, modified, hits } = file;
        let is_lines = matches!(self.grep.what, What::Lines { .. });
        let path = match below.as_os_str().is_empty() {
            true => self.grep.root.clone(),
            false => AbsPath::lexical(&self.grep.root.as_path().join(&below)),
        };
        if self.resumed.is_some_and(|from| from.place != place) {
            // The file where the last page ended has nothing any more.
            self.skip = 0;
        }
        let entries = if is_lines { hits.lines.len() as u64 } else { 1 };
        let skipped = self.skip.min(entries);
        self.skip -= skipped;
        let mut taken = FileFound { path, modified, count: hits.count, lines: Vec::new() };
        let mut told = skipped;
        let cost = below.as_os_str().len() + 2;
        let mut lines = hits.lines.into_iter().skip(usize::try_from(skipped).unwrap_or(usize::MAX));
        let mut full = false;
        while told < entries && !full {
            let line = if is_lines { lines.next() } else { None };
            let bytes = cost + line.as_ref().map_or(8, |line| line.text.len() + 10);
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

    /// The page, and where the next one begins.
    fn finish(
        mut self,
        why: Option<Why>,
        from: Option<Place>,
        rest: Vec<InFile>,
    ) -> (Found, Option<Position>) {
        let skip = self.grep.page.skip;
        if let Some(end) = self.end.take() {
            self.found.next = Some(skip + self.found.entries);
            self.found.stopped = Some(Stopped::PageFull);
            return (self.found, Some(end));
        }
        if why != Some(Why::Time) {
            return (self.found, None);
        }
        self.found.stopped = Some(Stopped::Time);
        // What was found out of order is better than nothing, even if it will be found once more.
        if self.found.files.is_empty() {
            let _ = self.take(rest);
        }
        // A page that begins where this one began must not begin further on.
        self.found.next = Some(skip + self.found.entries.max(1));
        (self.found, from.map(|place| Position { place, told: 0 }))
    }
}

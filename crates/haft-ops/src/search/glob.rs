//! Finding files by name, the most recently changed first. Where nothing matches, a second walk looks for a near miss
//! to report. Knows nothing of how a glob is parsed (`globs`).

use std::cmp::Ordering;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::SystemTime;

use haft_core::{AbsPath, Claims, Context, Fault, Operation, Resource};
use haft_sandbox::{Kind, Name, OpenFolder};

use super::globs::{Globs, NamePattern, matcher};
use super::ordered::{self, Publish, WorkResult, ordered};
use super::rules::Rules;
use super::signal::Signal;
use super::walk::{UnreadableLog, Walk};
use super::{Case, Filter, Hidden, Ignored, Searching, Unreadable, drive};
use haft_text::Source;

/// Bytes of a file that are read for its preview.
const MAX_PREVIEW_READ: u64 = 64 << 10;
/// Characters of a line in a preview; longer ones are truncated.
const MAX_LINE_CHARS: usize = 500;
/// Bytes of the previews of all files together.
const MAX_PREVIEWS: usize = 80_000;
/// Number of names that are examined to find out why nothing matches.
const MAX_NEAR: usize = 20_000;

/// Finds files whose names match a glob.
#[derive(Clone, Debug)]
pub struct Glob {
    /// The glob and its root folder.
    pub globs: Globs,
    /// Which files to consider.
    pub filter: Filter,
    /// Maximum number of results.
    pub limit: usize,
    /// Number of lines to preview of each file, if any.
    pub preview: Option<usize>,
}

/// Results of a search by name.
#[derive(Debug, Default)]
pub struct Globbed {
    /// The matching files, the most recently changed first; folders if no file matches.
    pub hits: Vec<Hit>,
    /// Number of all matches, as far as the search got.
    pub total: usize,
    /// Whether the timeout expired before the search was complete.
    pub incomplete: bool,
    /// A near miss that may explain why nothing matches.
    pub miss: Option<Miss>,
    /// Folders that could not be read.
    pub unreadable: Unreadable,
}

/// A file or folder whose name matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// Its path.
    pub path: AbsPath,
    /// Whether it is a file, a folder or a link.
    pub kind: Kind,
    /// Time of its last change.
    pub modified: SystemTime,
    /// Preview, if [`Glob::preview`] asks for one and there is room.
    pub beginning: Option<Beginning>,
}

/// Preview of a file: its first lines, or why there are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// The first lines.
    Text(String),
    /// A binary file.
    Binary,
    /// A folder.
    Directory,
    /// A file that cannot be read.
    Unreadable,
}

/// NearMiss miss of a search by name without results, with the path that nearly matches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    /// The path matches if case is ignored.
    Case(String),
    /// The path matches, but a rule in an ignore file excludes it.
    Ignored {
        /// The path.
        path: String,
        /// The rule.
        rule: String,
        /// The ignore file with the rule.
        file: String,
    },
    /// The path matches, but its name or the name of one of its folders begins with a dot or is always skipped.
    LeftOut(String),
    /// The path matches if the glob is applied in subfolders.
    Deeper(String),
}

impl Operation for Glob {
    type Output = Globbed;

    fn claims(&self) -> Claims {
        Claims::none().read(Resource::Path(self.globs.root.clone()))
    }

    async fn run(self, cx: &Context) -> Result<Globbed, Fault> {
        let searching = cx.session().extension::<Searching>();
        let inside = cx.clone();
        drive(cx, searching.time, move |signal| {
            let mut filter = searching.filter(&self.filter);
            filter.depth = self.globs.depth();
            if self.globs.names_hidden() {
                filter.hidden = Hidden::Show;
            }
            let mut globbed = self.find(&filter, signal, &inside)?;
            if globbed.total == 0 && !signal.is_stopped() {
                globbed.miss = self.near_miss(&filter, signal, &inside);
            }
            Ok(globbed)
        })
        .await
    }
}

/// A match that may or may not be among the newest.
struct NameMatch {
    /// Its path relative to the root of the glob.
    below: PathBuf,
    kind: Kind,
    modified: SystemTime,
}

impl ordered::Weighed for NameMatch {
    fn weight(&self) -> usize {
        0
    }
}

/// Keeps the most recently changed matches, in bounded memory, and counts all.
struct Newest {
    hits: Vec<NameMatch>,
    total: usize,
    limit: usize,
}

impl Newest {
    fn new(limit: usize) -> Self {
        Self { hits: Vec::new(), total: 0, limit: limit.max(1) }
    }

    fn add(&mut self, hit: NameMatch) {
        self.total += 1;
        self.hits.push(hit);
        if self.hits.len() >= 4 * self.limit {
            self.cut();
        }
    }

    /// Drops all but the newest `limit` matches, without sorting them.
    fn cut(&mut self) {
        if self.hits.len() > self.limit {
            self.hits.select_nth_unstable_by(self.limit - 1, NameMatch::newest_first);
            self.hits.truncate(self.limit);
        }
    }

    /// The newest matches, sorted, and the number of all.
    fn take(mut self) -> (Vec<NameMatch>, usize) {
        self.cut();
        self.hits.sort_unstable_by(NameMatch::newest_first);
        (self.hits, self.total)
    }
}

impl NameMatch {
    fn newest_first(&self, other: &Self) -> Ordering {
        other.modified.cmp(&self.modified).then_with(|| self.below.cmp(&other.below))
    }
}

impl Glob {
    fn find(&self, filter: &Filter, signal: &Signal, cx: &Context) -> Result<Globbed, Fault> {
        let matcher = self.globs.matcher(Case::Sensitive)?;
        let rules = Rules::new(filter)?;
        let unreadable = UnreadableLog::default();
        let (mut hits, mut folders) = (Newest::new(self.limit), Newest::new(self.limit));
        let visit = |folder: &OpenFolder, below: &Path, entry: &Name| {
            if !matcher.is_match(below) {
                return None;
            }
            // Only matches are examined for their time: a stat costs more than a comparison of names.
            let modified = folder.stat(&entry.name).ok()?.modified;
            Some(NameMatch { below: below.to_owned(), kind: entry.kind, modified })
        };
        let complete = walk_all(&self.globs.root, &rules, &unreadable, signal, cx, &visit, |found| {
            for hit in found {
                if hit.kind == Kind::Directory { folders.add(hit) } else { hits.add(hit) }
            }
            ControlFlow::Continue(())
        })?;
        if self.globs.folders || hits.total == 0 {
            hits = folders;
        }
        let (hits, total) = hits.take();
        let root = self.globs.root.as_path();
        let hit = |NameMatch { below, kind, modified }| Hit {
            path: AbsPath::lexical(&root.join(below)),
            kind,
            modified,
            beginning: None,
        };
        let mut hits: Vec<Hit> = hits.into_iter().map(hit).collect();
        if let Some(lines) = self.preview {
            add_previews(&mut hits, lines, cx);
        }
        Ok(Globbed { hits, total, incomplete: !complete, miss: None, unreadable: unreadable.take() })
    }

    /// Looks for the nearest miss in everything that the filter leaves out, ignoring case and depth.
    fn near_miss(&self, filter: &Filter, signal: &Signal, cx: &Context) -> Option<Miss> {
        let exact = self.globs.matcher(Case::Sensitive).ok()?;
        let any_case = self.globs.matcher(Case::Insensitive).ok()?;
        let deeper = match &self.globs.names {
            NamePattern::Glob(names) => matcher(&format!("**/{names}"), Case::Sensitive).ok()?,
            NamePattern::Literal(_) => self.globs.matcher(Case::Sensitive).ok()?,
        };
        let unreadable = UnreadableLog::default();
        let everything = Filter {
            hidden: Hidden::Show,
            ignored: Ignored::Show,
            skipped: Vec::new(),
            depth: None,
            ..filter.clone()
        };
        let rules = Rules::new(&everything).ok()?;
        let examined = AtomicUsize::new(0);
        let visit = |_: &OpenFolder, below: &Path, entry: &Name| {
            if examined.fetch_add(1, Relaxed) >= MAX_NEAR {
                return Some(NearMiss(None));
            }
            let is_near = exact.is_match(below) || any_case.is_match(below) || deeper.is_match(below);
            (is_near && entry.kind != Kind::Directory).then(|| NearMiss(Some(below.to_owned())))
        };
        // The lower the rank, the better the explanation: excluded by the filter, other case, other depth.
        let mut best: Option<(u8, PathBuf)> = None;
        walk_all(&self.globs.root, &rules, &unreadable, signal, cx, &visit, |found| {
            for NearMiss(path) in found {
                let Some(path) = path else { return ControlFlow::Break(()) };
                let rank = if exact.is_match(&path) { 0 } else { 1 + u8::from(!any_case.is_match(&path)) };
                if best.as_ref().is_none_or(|(known, _)| rank < *known) {
                    best = Some((rank, path));
                }
            }
            if matches!(best, Some((0, _))) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })
        .ok()?;
        let (rank, path) = best?;
        let shown = cx.workspace().display(&AbsPath::lexical(&self.globs.root.as_path().join(&path)));
        Some(match rank {
            0 => match ignored_by(&self.globs.root, &path, filter, cx) {
                Some((rule, file)) => Miss::Ignored { path: shown, rule, file },
                None => Miss::LeftOut(shown),
            },
            1 => Miss::Case(shown),
            _ => Miss::Deeper(shown),
        })
    }
}

/// Adds previews to the first hits, up to [`MAX_PREVIEWS`].
fn add_previews(hits: &mut [Hit], lines: usize, cx: &Context) {
    let hidden = cx.hidden_files();
    let mut room = MAX_PREVIEWS;
    for hit in hits {
        let beginning = match hit.kind {
            Kind::Directory => Beginning::Directory,
            _ if hidden.iter().any(|hidden| hidden.hides(&hit.path)) => Beginning::Unreadable,
            _ => preview(&hit.path, lines, cx),
        };
        if let Beginning::Text(text) = &beginning {
            match room.checked_sub(text.len()) {
                Some(rest) => room = rest,
                None => return,
            }
        }
        hit.beginning = Some(beginning);
    }
}

fn preview(path: &AbsPath, lines: usize, cx: &Context) -> Beginning {
    let Ok(open) = cx.workspace().open_file(path) else { return Beginning::Unreadable };
    let mut bytes = Vec::new();
    if open.file.take(MAX_PREVIEW_READ).read_to_end(&mut bytes).is_err() {
        return Beginning::Unreadable;
    }
    // The limit may fall into the middle of a character, which would make the text look binary.
    if bytes.len() as u64 == MAX_PREVIEW_READ
        && let Some(end) = memchr::memrchr(b'\n', &bytes)
    {
        bytes.truncate(end + 1);
    }
    let Ok(source) = Source::new(bytes) else { return Beginning::Binary };
    let cut = |line: &str| match line.char_indices().nth(MAX_LINE_CHARS) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    };
    Beginning::Text(source.text().lines().take(lines).map(cut).collect::<Vec<_>>().join("\n"))
}

/// The path of a near miss; `None` once enough names were examined.
struct NearMiss(Option<PathBuf>);

impl ordered::Weighed for NearMiss {
    fn weight(&self) -> usize {
        self.0.as_ref().map_or(0, |path| path.as_os_str().len())
    }
}

/// The ignore rule that excludes a path, and the file with that rule.
fn ignored_by(root: &AbsPath, below: &Path, filter: &Filter, cx: &Context) -> Option<(String, String)> {
    let rules = Rules::new(filter).ok()?;
    let unreadable = UnreadableLog::default();
    let walk = Walk::new(&rules, &unreadable);
    walk.ignored_by(root, below, cx)
}

/// Walks everything below a folder and passes on the results of `visit`, in order. Returns whether the walk was
/// completed.
fn walk_all<F: ordered::Weighed>(
    root: &AbsPath,
    rules: &Rules,
    unreadable: &UnreadableLog,
    signal: &Signal,
    cx: &Context,
    visit: &(impl Fn(&OpenFolder, &Path, &Name) -> Option<F> + Sync),
    consume: impl FnMut(Vec<F>) -> ControlFlow<()> + Send,
) -> Result<bool, Fault> {
    let walk = Walk { all_kinds: true, batch: usize::MAX, ..Walk::new(rules, unreadable) };
    let first = walk.begin(root, cx)?;
    let worker = || {
        |step, publish: &Publish<'_, _, _>| {
            walk.step(step, publish, |folder, handle, entries| {
                signal.count(entries.len() as u64, 0);
                let mut below = folder.below.clone();
                let visit = |entry: &Name| {
                    below.push(&entry.name);
                    let found = visit(handle, &below, entry);
                    below.pop();
                    found
                };
                let found = entries.iter().filter_map(visit).collect();
                WorkResult { found, examined: entries.len(), resume_at: None }
            })
        }
    };
    Ok(ordered(vec![first], ordered::threads(), signal, worker, consume).is_none())
}

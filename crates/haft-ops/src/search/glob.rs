//! Finding files by their names.

use std::cmp::Ordering;
use std::ffi::OsString;
use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::SystemTime;

use globset::{GlobBuilder, GlobMatcher};
use haft_core::{AbsPath, Claims, Context, Fault, FaultKind, Operation, Resource};
use haft_sandbox::{Kind, Name, OpenFolder};

use super::ordered::{self, Done, Publish, ordered};
use super::rules::Rules;
use super::signal::Signal;
use super::walk::{Missed, Walk};
use super::{Case, Filter, Hidden, Ignored, Searching, Unreadable, drive};
use crate::{existing, existing_folder};
use haft_text::Source;

/// A longer pattern is not taken.
const MAX_PATTERN: usize = 4 << 10;
/// As much of a file is read to show how it begins, of a line as many characters, and of all files this much.
const MAX_BEGINNING: u64 = 64 << 10;
const MAX_LINE_CHARS: usize = 500;
const MAX_SHOWN: usize = 80_000;
/// So many names are looked at to find out why nothing fits.
const MAX_NEAR: usize = 20_000;

/// Finds files by their names.
#[derive(Clone, Debug)]
pub struct Glob {
    /// What to look for, and where.
    pub globs: Globs,
    /// Which files are looked at.
    pub filter: Filter,
    /// So many are told.
    pub limit: usize,
    /// With so many lines of each, if any.
    pub preview: Option<usize>,
}

/// A pattern of names, and the folder that it starts from.
#[derive(Clone, Debug)]
pub struct Globs {
    /// The folder: as much of the pattern as names one is part of it.
    root: AbsPath,
    /// The pattern as it was given.
    pattern: String,
    /// The rest of it.
    fits: Fits,
    /// Whether only folders are meant.
    folders: bool,
}

/// What a name must fit.
#[derive(Clone, Debug)]
enum Fits {
    Names(String),
    /// The one file that was named.
    One(OsString),
}

/// What was found.
#[derive(Debug, Default)]
pub struct Globbed {
    /// The files, those that were changed last first.
    pub hits: Vec<Hit>,
    /// How many there are in all, as far as it was looked.
    pub total: usize,
    /// Whether the time was up before everything was looked at.
    pub incomplete: bool,
    /// Why there may be none.
    pub miss: Option<Miss>,
    /// What could not be read.
    pub unreadable: Unreadable,
}

/// A file or folder whose name fits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hit {
    /// The file.
    pub path: AbsPath,
    /// What it is.
    pub kind: Kind,
    /// When it was last changed.
    pub modified: SystemTime,
    /// How it begins, where that is wanted.
    pub beginning: Option<Beginning>,
}

/// How a file begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Beginning {
    /// With these lines.
    Text(String),
    /// It is a binary file.
    Binary,
    /// It is a folder.
    Directory,
    /// It cannot be read.
    Unreadable,
}

/// Why nothing was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Miss {
    /// This would fit if capital and small letters did not differ.
    Case(String),
    /// This fits, but a rule in an ignore file leaves it out.
    Ignored {
        /// What fits.
        path: String,
        /// The rule.
        rule: String,
        /// The file that it is in.
        file: String,
    },
    /// This fits, but its name or that of a folder on the way begins with a dot, or is always left out.
    LeftOut(String),
    /// This would fit if the pattern looked further down.
    Deeper(String),
}

impl Globs {
    /// Takes a pattern that starts from a folder. As much of it as names a folder, that folder is gone to.
    pub fn new(pattern: &str, folder: &AbsPath, cx: &Context) -> Result<Self, Fault> {
        let invalid = |message: String| Fault::invalid(message).with("pattern", pattern);
        if pattern.trim().is_empty() {
            return Err(invalid("the pattern is empty".to_owned()).hint("`**/*` names all files"));
        }
        if pattern.len() > MAX_PATTERN {
            return Err(invalid(format!(
                "the pattern has {} bytes; at most {MAX_PATTERN} are taken",
                pattern.len()
            )));
        }
        if pattern.contains('\0') {
            return Err(invalid("the pattern contains a NUL character, which no name has".to_owned()));
        }
        let (base, rest) = match names_a_file(pattern, folder, cx) {
            true => (pattern, ""),
            false => split(pattern),
        };
        let named = match base.strip_prefix('/') {
            Some(below) if begins_at_folder(base, folder, cx) => below,
            _ => base,
        };
        let mut root = folder.clone();
        let mut fits = Fits::Names(rest.split('/').filter(|part| *part != ".").collect::<Vec<_>>().join("/"));
        // A name without wildcards that is not there is a pattern that nothing fits, if its folder is there.
        let nothing = rest.is_empty() && !named.is_empty() && is_missing(named, folder, cx);
        let (base, name) = named.rsplit_once('/').unwrap_or(("", named));
        if nothing && !name.is_empty() && (base.is_empty() || existing_folder(base, folder, cx).is_ok()) {
            fits = Fits::Names(globset::escape(name));
            if !base.is_empty() {
                root = existing_folder(base, folder, cx)?.path;
            }
        } else if !named.is_empty() {
            let (place, stat) = existing(named, folder, cx)?;
            root = match (stat.kind, place.path.parent(), place.path.file_name()) {
                (Kind::Directory, ..) => place.path,
                (_, Some(parent), Some(name)) if rest.is_empty() => {
                    fits = Fits::One(name.to_owned());
                    parent
                }
                _ => existing_folder(named, folder, cx)?.path,
            };
        }
        if rest.split('/').any(|part| part == "..") {
            return Err(invalid(format!("`{pattern}` goes up again after a wildcard"))
                .hint("`..` may only come before the first wildcard"));
        }
        let globs = Self { root, pattern: pattern.to_owned(), fits, folders: rest.ends_with('/') };
        globs.matcher(Case::Sensitive)?;
        Ok(globs)
    }

    /// The folder that it starts from.
    pub fn root(&self) -> &AbsPath {
        &self.root
    }

    fn matcher(&self, case: Case) -> Result<Matcher, Fault> {
        let names = match &self.fits {
            Fits::One(name) => return Ok(Matcher::One(name.clone())),
            Fits::Names(names) => names.trim_end_matches('/'),
        };
        // A folder stands for all that is in it.
        let names = if names.is_empty() { "**/*" } else { names };
        matcher(names, case).map_err(|error| {
            let pattern = &self.pattern;
            Fault::new(FaultKind::InvalidInput, format!("`{pattern}` is no valid pattern: {}", error.kind()))
                .hint("patterns look like `**/*.rs`, `src/*.{ts,tsx}` or `docs/[a-c]*.md`")
                .with("pattern", pattern)
        })
    }

    /// How deep what fits can be.
    fn depth(&self) -> Option<usize> {
        match &self.fits {
            Fits::One(_) => Some(1),
            Fits::Names(names) if names.trim_matches('/').is_empty() => None,
            Fits::Names(names) => (!names.contains("**") && !names.contains('{'))
                .then(|| names.trim_end_matches('/').split('/').count()),
        }
    }

    /// Whether names that begin with a dot are named.
    fn names_hidden(&self) -> bool {
        match &self.fits {
            Fits::One(_) => true,
            Fits::Names(names) => names.split(['/', '{', ',']).any(|part| part.starts_with('.')),
        }
    }
}

fn matcher(names: &str, case: Case) -> Result<Matcher, globset::Error> {
    let glob = GlobBuilder::new(names)
        .literal_separator(true)
        .empty_alternates(true)
        .backslash_escape(true)
        .case_insensitive(case == Case::Insensitive)
        .build();
    glob.map(|glob| Matcher::Glob(glob.compile_matcher()))
}

/// What a path below the folder is asked.
enum Matcher {
    Glob(GlobMatcher),
    One(OsString),
}

impl Matcher {
    fn is_match(&self, below: &Path) -> bool {
        match self {
            Self::Glob(glob) => glob.is_match(below),
            Self::One(name) => below.as_os_str() == name,
        }
    }
}

/// Whether a pattern is the name of a file in which brackets or backslashes stand for themselves.
fn names_a_file(pattern: &str, folder: &AbsPath, cx: &Context) -> bool {
    let found = || cx.workspace().resolve(folder, pattern).ok()?.stat;
    !pattern.contains(['*', '?']) && found().is_some_and(|stat| stat.kind != Kind::Directory)
}

/// Whether a path could be there, and is not.
fn is_missing(path: &str, folder: &AbsPath, cx: &Context) -> bool {
    cx.workspace().resolve(folder, path).is_ok_and(|place| place.stat.is_none())
}

/// As much of a pattern as names a folder, and the rest.
fn split(pattern: &str) -> (&str, &str) {
    let trimmed = pattern.strip_prefix("./").unwrap_or(pattern);
    let special = trimmed.find(['*', '?', '[', '{', '\\', '!']).unwrap_or(trimmed.len());
    if special == trimmed.len() {
        return (trimmed, "");
    }
    match trimmed[..special].rfind('/') {
        Some(0) => ("/", trimmed.trim_start_matches('/')),
        Some(end) => (&trimmed[..end], &trimmed[end + 1..]),
        None => ("", trimmed),
    }
}

/// Whether the slash that a pattern begins with stands for the folder that is searched, and not for the top of
/// all folders: if nothing else is said, or the folder has what is named first and the workspace has no such
/// path from the top.
fn begins_at_folder(base: &str, folder: &AbsPath, cx: &Context) -> bool {
    let path = Path::new(base);
    let first = path.components().find_map(|part| match part {
        Component::Normal(name) => Some(name),
        _ => None,
    });
    let Some(first) = first else { return true };
    cx.workspace().access(&AbsPath::lexical(path)).is_none()
        && cx.workspace().stat(&folder.child(first)).is_ok()
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
            let mut globbed = self.look(&filter, signal, &inside)?;
            if globbed.total == 0 && !signal.is_stopped() {
                globbed.miss = self.why_none(&filter, signal, &inside);
            }
            Ok(globbed)
        })
        .await
    }
}

/// What fits, until it is known whether it is told.
struct Fitting {
    below: PathBuf,
    kind: Kind,
    modified: SystemTime,
}

impl ordered::Weighed for Fitting {
    fn weight(&self) -> usize {
        0
    }
}

/// Those that were changed last, of all that fit.
struct Newest {
    hits: Vec<Fitting>,
    total: usize,
    limit: usize,
}

impl Newest {
    fn new(limit: usize) -> Self {
        Self { hits: Vec::new(), total: 0, limit: limit.max(1) }
    }

    fn add(&mut self, hit: Fitting) {
        self.total += 1;
        self.hits.push(hit);
        if self.hits.len() >= 4 * self.limit {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.hits.len() > self.limit {
            self.hits.select_nth_unstable_by(self.limit - 1, Fitting::newest_first);
            self.hits.truncate(self.limit);
        }
    }

    fn take(mut self) -> (Vec<Fitting>, usize) {
        self.cut();
        self.hits.sort_unstable_by(Fitting::newest_first);
        (self.hits, self.total)
    }
}

impl Fitting {
    fn newest_first(&self, other: &Self) -> Ordering {
        other.modified.cmp(&self.modified).then_with(|| self.below.cmp(&other.below))
    }
}

impl Glob {
    fn look(&self, filter: &Filter, signal: &Signal, cx: &Context) -> Result<Globbed, Fault> {
        let matcher = self.globs.matcher(Case::Sensitive)?;
        let rules = Rules::new(filter)?;
        let missed = Missed::default();
        let (mut hits, mut folders) = (Newest::new(self.limit), Newest::new(self.limit));
        let visit = |folder: &OpenFolder, below: &Path, entry: &Name| {
            if !matcher.is_match(below) {
                return None;
            }
            let modified = folder.stat(&entry.name).ok()?.modified;
            Some(Fitting { below: below.to_owned(), kind: entry.kind, modified })
        };
        let complete = walk_all(&self.globs.root, &rules, &missed, signal, cx, &visit, |found| {
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
        let hit = |Fitting { below, kind, modified }| Hit {
            path: AbsPath::lexical(&root.join(below)),
            kind,
            modified,
            beginning: None,
        };
        let mut hits: Vec<Hit> = hits.into_iter().map(hit).collect();
        if let Some(lines) = self.preview {
            begin(&mut hits, lines, cx);
        }
        Ok(Globbed { hits, total, incomplete: !complete, miss: None, unreadable: missed.take() })
    }

    /// Looks for what comes near, where nothing fits.
    fn why_none(&self, filter: &Filter, signal: &Signal, cx: &Context) -> Option<Miss> {
        let exact = self.globs.matcher(Case::Sensitive).ok()?;
        let any_case = self.globs.matcher(Case::Insensitive).ok()?;
        let deeper = match &self.globs.fits {
            Fits::Names(names) => matcher(&format!("**/{names}"), Case::Sensitive).ok()?,
            Fits::One(_) => self.globs.matcher(Case::Sensitive).ok()?,
        };
        let missed = Missed::default();
        let everything = Filter {
            hidden: Hidden::Show,
            ignored: Ignored::Show,
            skipped: Vec::new(),
            depth: None,
            ..filter.clone()
        };
        let rules = Rules::new(&everything).ok()?;
        let looked = AtomicUsize::new(0);
        let near = |_: &OpenFolder, below: &Path, entry: &Name| {
            if looked.fetch_add(1, Relaxed) >= MAX_NEAR {
                return Some(Near(None));
            }
            let fits = exact.is_match(below) || any_case.is_match(below) || deeper.is_match(below);
            (fits && entry.kind != Kind::Directory).then(|| Near(Some(below.to_owned())))
        };
        let mut best: Option<(u8, PathBuf)> = None;
        walk_all(&self.globs.root, &rules, &missed, signal, cx, &near, |found| {
            for Near(path) in found {
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

/// Reads how files begin, as many as there is room for.
fn begin(hits: &mut [Hit], lines: usize, cx: &Context) {
    let hidden = cx.hidden_files();
    let mut room = MAX_SHOWN;
    for hit in hits {
        let beginning = match hit.kind {
            Kind::Directory => Beginning::Directory,
            _ if hidden.iter().any(|hidden| hidden.hides(&hit.path)) => Beginning::Unreadable,
            _ => beginning(&hit.path, lines, cx),
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

fn beginning(path: &AbsPath, lines: usize, cx: &Context) -> Beginning {
    let Ok(open) = cx.workspace().open_file(path) else { return Beginning::Unreadable };
    let mut bytes = Vec::new();
    if open.file.take(MAX_BEGINNING).read_to_end(&mut bytes).is_err() {
        return Beginning::Unreadable;
    }
    // What was cut may be in the middle of a character.
    if bytes.len() as u64 == MAX_BEGINNING
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

/// A path that comes near; none once enough was looked at.
struct Near(Option<PathBuf>);

impl ordered::Weighed for Near {
    fn weight(&self) -> usize {
        self.0.as_ref().map_or(0, |path| path.as_os_str().len())
    }
}

/// The rule that leaves a path out, and its file.
fn ignored_by(root: &AbsPath, below: &Path, filter: &Filter, cx: &Context) -> Option<(String, String)> {
    let rules = Rules::new(filter).ok()?;
    let missed = Missed::default();
    let walk = Walk::new(&rules, &missed);
    walk.ignored_by(root, below, cx)
}

/// Walks everything below a folder and gathers what `visit` makes of it. Tells whether it got to the end.
fn walk_all<F: ordered::Weighed>(
    root: &AbsPath,
    rules: &Rules,
    missed: &Missed,
    signal: &Signal,
    cx: &Context,
    visit: &(impl Fn(&OpenFolder, &Path, &Name) -> Option<F> + Sync),
    consume: impl FnMut(Vec<F>) -> ControlFlow<()> + Send,
) -> Result<bool, Fault> {
    let walk = Walk { all_kinds: true, batch: usize::MAX, ..Walk::new(rules, missed) };
    let first = walk.begin(root, cx)?;
    let worker = || {
        |step, publish: &Publish<'_, _, _>| {
            walk.step(step, publish, |folder, handle, entries| {
                signal.count(entries.len() as u64, 0);
                let mut below = folder.below.clone();
                let look = |entry: &Name| {
                    below.push(&entry.name);
                    let found = visit(handle, &below, entry);
                    below.pop();
                    found
                };
                let found = entries.iter().filter_map(look).collect();
                Done { found, looked: entries.len(), rest: None }
            })
        }
    };
    Ok(ordered(vec![first], ordered::threads(), signal, worker, consume).is_none())
}

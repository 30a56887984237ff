//! Finding files by their names.

use std::io::Read as _;
use std::ops::ControlFlow;
use std::path::{Component, Path, PathBuf};
use std::time::SystemTime;

use globset::{GlobBuilder, GlobMatcher};
use haft::{AbsPath, Claims, Context, Fault, FaultKind, Operation, Resource};
use haft_sandbox::{Kind, Name, names};

use super::ordered::{self, Publish, ordered};
use super::rules::Rules;
use super::signal::{Signal, Why};
use super::walk::{Folder, Missed, Walk};
use super::{Filter, Hidden, Ignored, Searching, Unreadable, drive};
use crate::ops::existing_folder;
use crate::text::Source;

/// A longer pattern is not taken.
const MAX_PATTERN: usize = 4 << 10;
/// As much of a file is read to show how it begins, of a line as many characters, and of all files this much.
const MAX_BEGINNING: u64 = 64 << 10;
const MAX_LINE_CHARS: usize = 500;
const MAX_SHOWN: usize = 80_000;

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
    /// The rest of the pattern.
    rest: String,
    /// Whether only folders are meant.
    folders: bool,
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
        let (base, rest) = split(pattern);
        let mut root = folder.clone();
        let mut rest = rest.to_owned();
        if !base.is_empty() {
            let from_top = base.trim_start_matches('/');
            let named = match base.starts_with('/') {
                // A pattern may begin with a slash to say that it begins at the folder.
                true if !is_within(base, cx) => from_top,
                _ => base,
            };
            if !named.is_empty() {
                match cx
                    .workspace()
                    .resolve(folder, named)
                    .ok()
                    .and_then(|place| place.stat.map(|stat| (place, stat)))
                {
                    Some((place, stat)) if stat.kind != Kind::Directory && rest.is_empty() => {
                        let name = place.path.file_name().map(names::show).unwrap_or_default();
                        root = place.path.parent().unwrap_or_else(|| place.path.clone());
                        rest = globset::escape(&name);
                    }
                    _ => root = existing_folder(named, folder, cx)?.path,
                }
            }
        }
        let folders = rest.ends_with('/');
        let rest = rest.trim_end_matches('/');
        // A folder stands for all that is in it.
        let rest = if rest.is_empty() { "**/*" } else { rest };
        let globs = Self { root, pattern: pattern.to_owned(), rest: rest.to_owned(), folders };
        globs.matcher(false)?;
        Ok(globs)
    }

    /// The folder that it starts from.
    pub fn root(&self) -> &AbsPath {
        &self.root
    }

    fn matcher(&self, any_case: bool) -> Result<GlobMatcher, Fault> {
        let glob = GlobBuilder::new(&self.rest)
            .literal_separator(true)
            .empty_alternates(true)
            .backslash_escape(true)
            .case_insensitive(any_case)
            .build();
        glob.map(|glob| glob.compile_matcher()).map_err(|error| {
            let pattern = &self.pattern;
            Fault::new(FaultKind::InvalidInput, format!("`{pattern}` is no valid pattern: {}", error.kind()))
                .hint("patterns look like `**/*.rs`, `src/*.{ts,tsx}` or `docs/[a-c]*.md`")
                .with("pattern", pattern)
        })
    }

    /// How deep what fits can be.
    fn depth(&self) -> Option<usize> {
        (!self.rest.contains("**") && !self.rest.contains('{')).then(|| self.rest.split('/').count())
    }

    /// Whether names that begin with a dot are named.
    fn names_hidden(&self) -> bool {
        self.rest.split(['/', '{', ',']).any(|part| part.starts_with('.') && part != "." && part != "..")
    }
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

/// Whether a path from the top is one of the workspace, or may be asked for.
fn is_within(base: &str, cx: &Context) -> bool {
    let first = Path::new(base).components().find(|part| matches!(part, Component::Normal(_)));
    let root = cx.workspace().root().as_path();
    Path::new(base).starts_with(root)
        || cx.workspace().resolve(cx.workspace().root(), base).is_ok()
        || first.is_some_and(|first| {
            let beside = cx.workspace().root().child(first.as_os_str());
            cx.workspace().stat(&beside).is_err()
        })
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
struct Fits {
    below: PathBuf,
    kind: Kind,
    modified: SystemTime,
}

impl ordered::Found for Fits {
    fn weight(&self) -> usize {
        0
    }
}

impl Glob {
    fn look(&self, filter: &Filter, signal: &Signal, cx: &Context) -> Result<Globbed, Fault> {
        let matcher = self.globs.matcher(false)?;
        let rules = Rules::new(filter)?;
        let missed = Missed::default();
        let (mut hits, mut folders) = (Vec::new(), Vec::new());
        let visit = |folder: &Folder, below: &Path, entry: &Name| {
            if !matcher.is_match(below) {
                return None;
            }
            let modified = folder.handle.stat(&entry.name).ok()?.modified;
            Some(Fits { below: below.to_owned(), kind: entry.kind, modified })
        };
        walk_all(&self.globs.root, &rules, &missed, signal, cx, &visit, |found| {
            for hit in found {
                if hit.kind == Kind::Directory { folders.push(hit) } else { hits.push(hit) }
            }
            ControlFlow::Continue(())
        })?;
        if self.globs.folders || hits.is_empty() {
            hits = folders;
        }
        let total = hits.len();
        let newest_first = |one: &Fits, other: &Fits| {
            other.modified.cmp(&one.modified).then_with(|| one.below.cmp(&other.below))
        };
        if total > self.limit && self.limit > 0 {
            hits.select_nth_unstable_by(self.limit - 1, newest_first);
            hits.truncate(self.limit);
        }
        hits.sort_unstable_by(newest_first);
        let root = self.globs.root.as_path();
        let hit = |Fits { below, kind, modified }| Hit {
            path: AbsPath::lexical(&root.join(below)),
            kind,
            modified,
            beginning: None,
        };
        let mut hits: Vec<Hit> = hits.into_iter().map(hit).collect();
        if let Some(lines) = self.preview {
            begin(&mut hits, lines, cx);
        }
        let incomplete = signal.why() == Some(Why::Time);
        Ok(Globbed { hits, total, incomplete, miss: None, unreadable: missed.take() })
    }

    /// Looks for what comes near, where nothing fits.
    fn why_none(&self, filter: &Filter, signal: &Signal, cx: &Context) -> Option<Miss> {
        let exact = self.globs.matcher(false).ok()?;
        let any_case = self.globs.matcher(true).ok()?;
        let deeper = GlobBuilder::new(&format!("**/{}", self.globs.rest)).literal_separator(true).build();
        let deeper = deeper.ok()?.compile_matcher();
        let missed = Missed::default();
        let everything = Filter {
            hidden: Hidden::Show,
            ignored: Ignored::Show,
            skipped: Vec::new(),
            depth: None,
            ..filter.clone()
        };
        let rules = Rules::new(&everything).ok()?;
        let near = |_: &Folder, below: &Path, entry: &Name| {
            let fits = exact.is_match(below) || any_case.is_match(below) || deeper.is_match(below);
            (fits && entry.kind != Kind::Directory).then(|| Near(below.to_owned()))
        };
        let mut best: Option<(u8, PathBuf)> = None;
        walk_all(&self.globs.root, &rules, &missed, signal, cx, &near, |found| {
            for Near(path) in found {
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
    let mut room = MAX_SHOWN;
    for hit in hits {
        let beginning = match hit.kind {
            Kind::Directory => Beginning::Directory,
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

/// A path that comes near.
struct Near(PathBuf);

impl ordered::Found for Near {
    fn weight(&self) -> usize {
        self.0.as_os_str().len()
    }
}

/// The rule that leaves a path out, and its file.
fn ignored_by(root: &AbsPath, below: &Path, filter: &Filter, cx: &Context) -> Option<(String, String)> {
    let rules = Rules::new(filter).ok()?;
    let missed = Missed::default();
    let walk = Walk::new(&rules, &missed);
    walk.ignored_by(root, below, cx)
}

/// Walks everything below a folder and gathers what `visit` makes of it.
fn walk_all<F: ordered::Found>(
    root: &AbsPath,
    rules: &Rules,
    missed: &Missed,
    signal: &Signal,
    cx: &Context,
    visit: &(impl Fn(&Folder, &Path, &Name) -> Option<F> + Sync),
    consume: impl FnMut(Vec<F>) -> ControlFlow<()> + Send,
) -> Result<(), Fault> {
    let walk = Walk { all_kinds: true, batch: usize::MAX, ..Walk::new(rules, missed) };
    let first = walk.begin(root, cx)?;
    let worker = || {
        |step, publish: &Publish<'_, _, _>| {
            walk.step(step, publish, |folder, entries| {
                signal.count(entries.len() as u64, 0);
                let mut below = folder.below.clone();
                let look = |entry: &Name| {
                    below.push(&entry.name);
                    let found = visit(folder, &below, entry);
                    below.pop();
                    found
                };
                entries.iter().filter_map(look).collect()
            })
        }
    };
    ordered(vec![first], signal, worker, consume);
    Ok(())
}

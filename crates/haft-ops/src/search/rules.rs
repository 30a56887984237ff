//! Which files a search covers: by ignore files, globs, file types, and names that begin with a dot. The rules and their
//! precedence are ripgrep's, whose crates parse them. Knows nothing of the walk that applies them.

use std::ffi::OsStr;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use haft_core::{Fault, FaultKind, suggest};
use haft_sandbox::{Kind, Name, OpenFolder, names};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ignore::overrides::{Override, OverrideBuilder};
use ignore::types::{Types, TypesBuilder};

/// Names of ignore files, in order of precedence. The last is git's.
const IGNORE_FILES: [&str; 3] = [".rgignore", ".ignore", ".gitignore"];
/// Index of the first rules that only count within one repository: `.gitignore`, then git's `exclude`.
const GIT: usize = 2;
/// Bytes of an ignore file that are read.
const MAX_IGNORE_FILE: u64 = 1 << 20;

/// Filter that decides which files a search covers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Filter {
    /// Treatment of names that begin with a dot.
    pub hidden: Hidden,
    /// Treatment of files that ignore files name.
    pub ignored: Ignored,
    /// Names of folders to leave out.
    pub skipped: Vec<String>,
    /// Globs of which a file must match one; those that begin with `!` exclude files. A glob without a slash matches
    /// files in any folder; one with a slash is relative to the root of the workspace or to the searched folder.
    pub globs: Vec<String>,
    /// File types to search, by ripgrep's names; empty for all.
    pub types: Vec<String>,
    /// File name extensions to search, in lower case and without the dot; empty for all.
    pub extensions: Vec<String>,
    /// Maximum depth; a file in the searched folder itself has depth 1.
    pub depth: Option<usize>,
}

/// Treatment of names that begin with a dot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Hidden {
    /// Leave them out, with everything below them.
    #[default]
    Skip,
    /// Include them, except for the folder `.git`.
    Show,
}

/// Treatment of files that ignore files name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Ignored {
    /// Leave them out.
    #[default]
    Skip,
    /// Include them.
    Show,
}

/// A [`Filter`] with its globs and types compiled.
pub(super) struct Rules {
    filter: Filter,
    includes: Override,
    excludes: Override,
    types: Types,
    /// How many files and folders ignore files have left out.
    ignored: AtomicU64,
}

/// The ignore rules of a folder, linked to those of the folders above it.
pub(super) struct Level {
    above: Option<Arc<Level>>,
    files: [Option<Gitignore>; 3],
    /// `.git/info/exclude`.
    exclude: Option<Gitignore>,
    /// Whether the folder is the root of a repository: git's rules from folders above do not apply below it.
    repository: bool,
}

impl Rules {
    pub(super) fn new(filter: &Filter) -> Result<Self, Fault> {
        let (excludes, includes): (Vec<&String>, Vec<&String>) =
            filter.globs.iter().partition(|glob| glob.starts_with('!'));
        let (includes, excludes) = (overrides(&includes)?, overrides(&excludes)?);
        let types = types(&filter.types)?;
        Ok(Self { filter: filter.clone(), includes, excludes, types, ignored: AtomicU64::new(0) })
    }

    /// Number of files and folders that ignore files have left out so far.
    pub(super) fn ignored(&self) -> u64 {
        self.ignored.load(Ordering::Relaxed)
    }

    /// Whether files at this depth are within the maximum depth.
    pub(super) fn reaches(&self, depth: usize) -> bool {
        self.filter.depth.is_none_or(|most| depth <= most)
    }

    /// Reads the ignore files of a folder. Returns the level above where the folder has none.
    pub(super) fn level(
        &self,
        folder: &OpenFolder,
        entries: &[Name],
        below: &Path,
        above: Option<&Arc<Level>>,
    ) -> Option<Arc<Level>> {
        if self.filter.ignored == Ignored::Show {
            return None;
        }
        let mut level =
            Level { above: above.cloned(), files: [None, None, None], exclude: None, repository: false };
        let mut is_needed = false;
        for entry in entries {
            let Some(name) = entry.name.to_str().filter(|name| name.starts_with('.')) else { continue };
            if name == ".git" {
                (level.repository, is_needed) = (true, true);
                level.exclude = folder
                    .folder(OsStr::new(".git"))
                    .and_then(|git| git.folder(OsStr::new("info")))
                    .ok()
                    .and_then(|info| read_rules(&info, "exclude", below, below));
            } else if let Some(at) = IGNORE_FILES.iter().position(|file| *file == name)
                && entry.kind == Kind::File
            {
                level.files[at] = read_rules(folder, name, below, below);
                is_needed |= level.files[at].is_some();
            }
        }
        if is_needed { Some(Arc::new(level)) } else { above.cloned() }
    }

    fn has_other_extension(&self, path: &Path) -> bool {
        let extension = path.extension().map(|extension| extension.to_string_lossy().to_lowercase());
        !self.filter.extensions.is_empty()
            && extension.is_none_or(|extension| !self.filter.extensions.contains(&extension))
    }

    /// Whether the filter excludes a file or folder. `path` is relative to the topmost folder whose ignore files apply,
    /// `folder` to the searched one.
    pub(super) fn leaves_out(
        &self,
        path: &Path,
        folder: &Path,
        name: &OsStr,
        is_folder: bool,
        level: Option<&Level>,
    ) -> bool {
        if !is_folder && self.has_other_extension(path) {
            return true;
        }
        if !self.filter.globs.is_empty() {
            let below = folder.join(name);
            if [path, &below].iter().any(|path| self.excludes.matched(path, is_folder).is_ignore()) {
                return true;
            }
            match [path, &below].map(|path| self.includes.matched(path, is_folder)) {
                [Match::Whitelist(_), _] | [_, Match::Whitelist(_)] => return false,
                [Match::Ignore(_), _] => return true,
                _ => {}
            }
        }
        // A rule or type that includes a name explicitly also includes it if it begins with a dot, as in ripgrep.
        let mut wanted = false;
        match level.map_or(Match::None, |level| level.matched(path, is_folder)) {
            Match::Ignore(_) => {
                self.ignored.fetch_add(1, Ordering::Relaxed);
                return true;
            }
            Match::Whitelist(_) => wanted = true,
            Match::None => {}
        }
        match self.types.matched(path, is_folder) {
            Match::Ignore(_) => return true,
            Match::Whitelist(_) => wanted = true,
            Match::None => {}
        }
        if is_folder && self.filter.skipped.iter().any(|skipped| name == skipped.as_str()) {
            return true;
        }
        let hidden = name.as_encoded_bytes().first() == Some(&b'.');
        match self.filter.hidden {
            Hidden::Skip => hidden && !wanted,
            Hidden::Show => name == ".git",
        }
    }
}

impl Level {
    /// The rule that decides about a path: of each kind of ignore file the nearest one, then the kind with precedence.
    fn matched(&self, path: &Path, is_folder: bool) -> Match<&ignore::gitignore::Glob> {
        let mut found = [Match::None, Match::None, Match::None, Match::None];
        let mut repository = false;
        let mut level = Some(self);
        while let Some(here) = level {
            for (at, rules) in here.files.iter().chain([&here.exclude]).enumerate() {
                if let (Some(rules), Match::None) = (rules, &found[at])
                    && !(at >= GIT && repository)
                {
                    found[at] = rules.matched(path, is_folder);
                }
            }
            repository |= here.repository;
            level = here.above.as_deref();
        }
        found.into_iter().find(|found| !found.is_none()).unwrap_or(Match::None)
    }

    /// The rule that excludes a file or folder, and the ignore file with that rule.
    pub(super) fn rule(&self, path: &Path, is_folder: bool) -> Option<(String, String)> {
        match self.matched(path, is_folder) {
            Match::Ignore(glob) => {
                let from = glob.from().map_or_else(|| ".gitignore".to_owned(), names::show);
                Some((glob.original().to_owned(), from))
            }
            _ => None,
        }
    }
}

fn read_rules(folder: &OpenFolder, name: &str, root: &Path, shown: &Path) -> Option<Gitignore> {
    let open = folder.file(OsStr::new(name)).ok()?;
    let mut bytes = Vec::new();
    open.file.take(MAX_IGNORE_FILE).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let from: PathBuf = shown.join(name);
    let mut builder = GitignoreBuilder::new(root);
    for line in text.trim_start_matches('\u{feff}').lines() {
        // A malformed line does not invalidate the others, as in git.
        let _ = builder.add_line(Some(from.clone()), line);
    }
    builder.build().ok().filter(|rules| !rules.is_empty())
}

fn types(wanted: &[String]) -> Result<Types, Fault> {
    let mut builder = TypesBuilder::new();
    if wanted.is_empty() {
        return Ok(Types::empty());
    }
    builder.add_defaults();
    for name in wanted {
        builder.select(name);
    }
    builder.build().map_err(|_| {
        let all: Vec<String> = builder.definitions().iter().map(|known| known.name().to_owned()).collect();
        let unknown = wanted.iter().find(|name| !all.contains(name)).unwrap_or(&wanted[0]);
        let near = suggest::nearest(unknown, all.iter().map(String::as_str), 3);
        let fault = Fault::new(FaultKind::InvalidInput, format!("`{unknown}` is no file type that is known"));
        match near.is_empty() {
            true => fault.hint("types are named like ripgrep's: rust, py, js, ts, go, java, c, cpp, md, json …; or use a glob such as `*.rs`"),
            false => fault.hint(format!("did you mean {}? Or use a glob such as `*.rs`", suggest::or_list(&near))),
        }
    })
}

fn overrides(globs: &[&String]) -> Result<Override, Fault> {
    let mut builder = OverrideBuilder::new("");
    for glob in globs {
        builder.add(glob).map_err(|error| bad_glob(glob, &error))?;
    }
    builder.build().map_err(|error| bad_glob(globs.first().map_or("", |glob| glob.as_str()), &error))
}

fn bad_glob(glob: &str, error: &ignore::Error) -> Fault {
    let error = match error {
        ignore::Error::Glob { err, .. } => err.clone(),
        other => other.to_string(),
    };
    Fault::new(FaultKind::InvalidInput, format!("`{glob}` is no valid pattern of files: {error}"))
        .hint("patterns look like `*.rs`, `src/**` or `*.{ts,tsx}`")
}

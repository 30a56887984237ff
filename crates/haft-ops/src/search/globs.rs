//! Globs: a pattern of names, split into the folder from which it starts and the part that is compared with paths.
//! Looks at the workspace only to tell a folder or a file name from a wildcard; never walks.

use std::ffi::OsString;
use std::path::{Component, Path};

use globset::{GlobBuilder, GlobMatcher};
use haft_core::{AbsPath, Context, Fault, FaultKind};
use haft_sandbox::Kind;

use super::Case;
use crate::{existing, existing_folder};

/// Maximum length of a glob in bytes.
const MAX_PATTERN: usize = 4 << 10;

/// A glob and the folder from which it starts.
#[derive(Clone, Debug)]
pub struct Globs {
    /// The folder, including the part of the glob before its first wildcard.
    pub(super) root: AbsPath,
    /// The whole glob as given, for messages.
    pattern: String,
    /// The remaining part of the glob, relative to `root`.
    pub(super) names: NamePattern,
    /// Whether the glob ends with a slash and so means folders only.
    pub(super) folders: bool,
}

/// The part of a glob that paths below its root are compared with.
#[derive(Clone, Debug)]
pub(super) enum NamePattern {
    /// A glob; empty for everything below the root.
    Glob(String),
    /// The name of one existing file, in which special characters stand for themselves.
    Literal(OsString),
}

impl Globs {
    /// Parses a glob relative to `folder`. The part before the first wildcard becomes part of its root.
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
        let mut names =
            NamePattern::Glob(rest.split('/').filter(|part| *part != ".").collect::<Vec<_>>().join("/"));
        // A missing name without wildcards is a pattern that matches nothing, if its folder exists.
        let is_missing = rest.is_empty() && !named.is_empty() && is_missing(named, folder, cx);
        let (base, name) = named.rsplit_once('/').unwrap_or(("", named));
        if is_missing && !name.is_empty() && (base.is_empty() || existing_folder(base, folder, cx).is_ok()) {
            names = NamePattern::Glob(globset::escape(name));
            if !base.is_empty() {
                root = existing_folder(base, folder, cx)?.path;
            }
        } else if !named.is_empty() {
            let (place, stat) = existing(named, folder, cx)?;
            root = match (stat.kind, place.path.parent(), place.path.file_name()) {
                (Kind::Directory, ..) => place.path,
                (_, Some(parent), Some(name)) if rest.is_empty() => {
                    names = NamePattern::Literal(name.to_owned());
                    parent
                }
                _ => existing_folder(named, folder, cx)?.path,
            };
        }
        if rest.split('/').any(|part| part == "..") {
            return Err(invalid(format!("`{pattern}` goes up again after a wildcard"))
                .hint("`..` may only come before the first wildcard"));
        }
        let globs = Self { root, pattern: pattern.to_owned(), names, folders: rest.ends_with('/') };
        globs.matcher(Case::Sensitive)?;
        Ok(globs)
    }

    /// The folder from which the search starts.
    pub fn root(&self) -> &AbsPath {
        &self.root
    }

    /// Compiles the glob.
    pub(super) fn matcher(&self, case: Case) -> Result<NameMatcher, Fault> {
        let names = match &self.names {
            NamePattern::Literal(name) => return Ok(NameMatcher::Literal(name.clone())),
            NamePattern::Glob(names) => names.trim_end_matches('/'),
        };
        // A folder without a wildcard means everything in it.
        let names = if names.is_empty() { "**/*" } else { names };
        matcher(names, case).map_err(|error| {
            let pattern = &self.pattern;
            Fault::new(FaultKind::InvalidInput, format!("`{pattern}` is no valid pattern: {}", error.kind()))
                .hint("patterns look like `**/*.rs`, `src/*.{ts,tsx}` or `docs/[a-c]*.md`")
                .with("pattern", pattern)
        })
    }

    /// The greatest depth at which a path can match; none if there is no limit.
    pub(super) fn depth(&self) -> Option<usize> {
        match &self.names {
            NamePattern::Literal(_) => Some(1),
            NamePattern::Glob(names) if names.trim_matches('/').is_empty() => None,
            NamePattern::Glob(names) => (!names.contains("**") && !names.contains('{'))
                .then(|| names.trim_end_matches('/').split('/').count()),
        }
    }

    /// Whether the glob itself names something that begins with a dot.
    pub(super) fn names_hidden(&self) -> bool {
        match &self.names {
            NamePattern::Literal(_) => true,
            NamePattern::Glob(names) => names.split(['/', '{', ',']).any(|part| part.starts_with('.')),
        }
    }
}

/// Compiles a glob in which `*` does not match a slash.
pub(super) fn matcher(names: &str, case: Case) -> Result<NameMatcher, globset::Error> {
    let glob = GlobBuilder::new(names)
        .literal_separator(true)
        .empty_alternates(true)
        .backslash_escape(true)
        .case_insensitive(case == Case::Insensitive)
        .build();
    glob.map(|glob| NameMatcher::Glob(glob.compile_matcher()))
}

/// A compiled [`NamePattern`].
pub(super) enum NameMatcher {
    Glob(GlobMatcher),
    Literal(OsString),
}

impl NameMatcher {
    /// Whether a path relative to the root of the glob matches.
    pub(super) fn is_match(&self, below: &Path) -> bool {
        match self {
            Self::Glob(glob) => glob.is_match(below),
            Self::Literal(name) => below.as_os_str() == name,
        }
    }
}

/// Whether a pattern is the name of an existing file, such as `[id].tsx`, in which brackets or backslashes stand for
/// themselves.
fn names_a_file(pattern: &str, folder: &AbsPath, cx: &Context) -> bool {
    let found = || cx.workspace().resolve(folder, pattern).ok()?.stat;
    !pattern.contains(['*', '?']) && found().is_some_and(|stat| stat.kind != Kind::Directory)
}

/// Whether a path is valid and nothing exists there.
fn is_missing(path: &str, folder: &AbsPath, cx: &Context) -> bool {
    cx.workspace().resolve(folder, path).is_ok_and(|place| place.stat.is_none())
}

/// Splits a glob before the first path component with a wildcard.
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

/// Whether the leading slash of a glob means the searched folder rather than the root of the file system: if it is all
/// there is before the first wildcard, or if the searched folder has an entry of the first name while the absolute
/// path is not in the workspace. Models often write `/src/*.rs` for a path in the workspace.
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

//! Path patterns of rules. A pattern without a slash matches at any depth, as in `.gitignore`; others are relative to
//! the folders of the workspace, to the root (`/etc/**`, `//etc/**`) or to the home (`~/notes`). A pattern that matches
//! a folder matches everything in it. Reads no files.

use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use haft_sandbox::triggers;

use super::ToolRule;

/// The patterns of many rules, matched in one pass.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    set: GlobSet,
    /// For each glob of the set, the index of its rule.
    rules: Vec<usize>,
    written: Vec<(ToolRule, Shape)>,
}

/// Properties of a pattern that are known without matching it.
#[derive(Debug, Clone)]
struct Shape {
    /// Whether it names a single path: no wildcard, and not at any depth.
    is_literal: bool,
    /// Whether it is an absolute path, or one below the home, with no wildcard but a final `/**`.
    is_absolute: bool,
    /// Whether it names a file whose change makes other programs run code.
    names_code: bool,
    /// The longest prefixes without wildcards; everything that the pattern matches is at or below one of them.
    prefixes: Vec<PathBuf>,
}

/// A rule whose pattern matched.
#[derive(Debug, Clone, Copy)]
pub(super) struct Match<'a> {
    pub(super) rule: &'a ToolRule,
    pub(super) names_code: bool,
}

/// Checks the syntax of a pattern.
pub(super) fn check(pattern: &str) -> Result<(), String> {
    if pattern.split('/').any(|part| part == "..") {
        return Err("`..` has no meaning in a pattern".to_owned());
    }
    glob(pattern).map(drop).map_err(|error| error.kind().to_string())
}

pub(super) fn glob(pattern: &str) -> Result<globset::Glob, globset::Error> {
    GlobBuilder::new(pattern).literal_separator(true).backslash_escape(true).build()
}

impl Patterns {
    pub(super) fn new(rules: Vec<(ToolRule, String)>, folders: &[PathBuf], home: Option<&Path>) -> Self {
        let mut set = GlobSetBuilder::new();
        let mut patterns = Self::default();
        for (rule, pattern) in rules {
            let mut prefixes = Vec::new();
            for whole in absolute(&pattern, folders, home) {
                prefixes.push(PathBuf::from(literal_start(&whole)));
                let inside = format!("{}/**", whole.trim_end_matches('/'));
                for text in [whole.trim_end_matches('/'), &inside] {
                    // `check` accepted the pattern when the rule was parsed, so this does not fail.
                    if let Ok(glob) = glob(text) {
                        set.add(glob);
                        patterns.rules.push(patterns.written.len());
                    }
                }
            }
            let shape = Shape {
                is_literal: !pattern.contains(['*', '?', '[', '{'])
                    && pattern.trim_end_matches('/').contains('/'),
                is_absolute: pattern.starts_with(['/', '~'])
                    && !pattern.trim_end_matches("/**").contains(['*', '?', '[', '{']),
                names_code: pattern.split('/').any(|name| triggers::is_asked(name.as_ref())),
                prefixes,
            };
            patterns.written.push((rule, shape));
        }
        patterns.set = set.build().unwrap_or_default();
        patterns
    }

    pub(super) fn is_empty(&self) -> bool {
        self.written.is_empty()
    }

    /// The absolute paths that patterns name: whole folders, or single files.
    pub(super) fn absolute(&self) -> Vec<PathBuf> {
        let named = self.written.iter().filter(|(_, shape)| shape.is_absolute);
        named.flat_map(|(_, shape)| shape.prefixes.iter().cloned()).collect()
    }

    /// The rule that matches a path; preferably one that names the file that makes other programs run code.
    pub(super) fn matches(&self, path: &Path) -> Option<Match<'_>> {
        if self.is_empty() {
            return None;
        }
        let found = self.set.matches(path).into_iter().map(|glob| &self.written[self.rules[glob]]);
        let found = found.max_by_key(|(rule, shape)| (shape.names_code, std::cmp::Reverse(rule)))?;
        Some(Match { rule: &found.0, names_code: found.1.names_code })
    }

    /// A rule that matches something in a folder. For a pattern without wildcards its prefix decides; otherwise
    /// `has_match` searches the folder, and runs only if some prefix makes a match possible.
    pub(super) fn within(&self, folder: &Path, has_match: impl Fn() -> bool) -> Option<&ToolRule> {
        let may_match = |shape: &Shape| {
            shape.prefixes.iter().any(|start| match shape.is_literal {
                true => start.starts_with(folder),
                false => start.starts_with(folder) || folder.starts_with(start),
            })
        };
        let mut candidates = self.written.iter().filter(|(_, shape)| may_match(shape)).peekable();
        candidates.peek()?;
        let all: Vec<&(ToolRule, Shape)> = candidates.collect();
        let certain = all.iter().find(|(_, shape)| shape.is_literal && !shape.prefixes.is_empty());
        match certain {
            Some((rule, _)) => Some(rule),
            None => has_match().then(|| &all[0].0),
        }
    }
}

/// The pattern as absolute ones, one for each folder that it may be relative to.
pub(super) fn absolute(pattern: &str, folders: &[PathBuf], home: Option<&Path>) -> Vec<String> {
    let below = |folder: &Path, rest: &str| format!("{}/{rest}", escaped(folder));
    if let Some(rest) = pattern.strip_prefix("~/") {
        return home.map(|home| below(home, &plain(rest))).into_iter().collect();
    }
    if pattern.starts_with('/') {
        return vec![format!("/{}", plain(pattern))];
    }
    // `.` is the folder itself, and not a name at any depth.
    let anywhere = !pattern.trim_end_matches('/').contains('/') && pattern != ".";
    let rest = plain(pattern);
    let anchored =
        |folder: &PathBuf| if anywhere { below(folder, &format!("**/{rest}")) } else { below(folder, &rest) };
    folders.iter().map(anchored).collect()
}

/// A pattern without the components that mean nothing: paths have neither `.` nor `//` in them.
fn plain(pattern: &str) -> String {
    let parts: Vec<&str> = pattern.split('/').filter(|part| !matches!(*part, "" | ".")).collect();
    parts.join("/")
}

fn escaped(folder: &Path) -> String {
    globset::escape(folder.to_string_lossy().trim_end_matches('/'))
}

/// The path up to the first component with a wildcard.
fn literal_start(pattern: &str) -> String {
    let plain = |part: &&str| !part.contains(['*', '?', '[', '{', '\\']);
    let parts: Vec<&str> = pattern.split('/').take_while(plain).collect();
    let start = parts.join("/");
    if start.is_empty() { "/".to_owned() } else { start }
}

#[cfg(test)]
mod tests {
    use haft_core::{Category, Spec};

    use super::*;
    use crate::KnownTools;

    #[derive(schemars::JsonSchema)]
    struct Input {}

    fn rule(pattern: &str) -> ToolRule {
        let spec = Spec::of::<Input>("Read", "Reads a file").category(Category::File).read_only();
        ToolRule::on_path("Read", pattern, &KnownTools::none().with(&spec)).unwrap()
    }

    fn matches(pattern: &str, path: &str) -> bool {
        let patterns = Patterns::new(
            vec![(rule(pattern), pattern.to_owned())],
            &["/ws".into(), "/also".into()],
            Some(Path::new("/people/me")),
        );
        patterns.matches(Path::new(path)).is_some()
    }

    #[test]
    fn patterns_are_relative_to_their_base() {
        let yes = [
            (".env", "/ws/.env"),
            (".env", "/ws/a/b/.env"),
            (".env", "/also/.env"),
            ("**/.env", "/ws/.env"),
            ("./.env", "/ws/.env"),
            ("src/**", "/ws/src/a/b.rs"),
            ("src", "/ws/src/a"),
            ("src/", "/ws/src/a"),
            ("src/*.rs", "/ws/src/a.rs"),
            ("/etc/**", "/etc/ssh/x"),
            ("//etc/passwd", "/etc/passwd"),
            ("~/notes", "/people/me/notes/a"),
            ("*.{key,pem}", "/ws/a/b.pem"),
            ("secrets", "/ws/a/secrets/b/c"),
            (".", "/ws/a/b"),
            ("./.", "/ws/a/b"),
            ("src/./a", "/ws/src/a"),
            ("src//a", "/ws/src/a"),
            ("~/./notes", "/people/me/notes/a"),
        ];
        for (pattern, path) in yes {
            assert!(matches(pattern, path), "{pattern} {path}");
        }
        let no = [
            (".env", "/elsewhere/.env"),
            ("./.env", "/ws/a/.env"),
            ("src/**", "/ws/other/src/a"),
            ("src/*.rs", "/ws/src/a/b.rs"),
            ("src", "/ws/srcs"),
            ("~/notes", "/ws/notes"),
            ("/etc/**", "/ws/etc/x"),
            (".", "/elsewhere/a"),
            ("src//a", "/ws/a"),
        ];
        for (pattern, path) in no {
            assert!(!matches(pattern, path), "{pattern} {path}");
        }
    }

    #[test]
    fn a_folder_with_a_star_in_its_name_is_no_pattern() {
        let patterns = Patterns::new(vec![(rule("a"), "a".into())], &["/w*".into()], None);
        assert!(
            patterns.matches(Path::new("/w*/a")).is_some() && patterns.matches(Path::new("/ws/a")).is_none()
        );
    }
}

//! Resolving paths as the model wrote them, and faults for missing ones that suggest similar names. Every function checks
//! access to the workspace. Knows nothing of the content of files.

use std::ffi::OsStr;
use std::path::Path;

use haft_core::{AbsPath, Context, Fault, FaultKind, suggest};
use haft_sandbox::{FolderAccess, Kind, ResolvedPath, Stat, names};

/// Maximum number of names that are compared with a misspelt one.
const MAX_COMPARED: usize = 10_000;
/// Number of missing paths in one call that get a suggestion.
const MAX_SUGGESTED: usize = 5;

/// Resolves a path to an existing file, folder or other entry. A relative path starts from `base`.
pub fn existing(path: &str, base: &AbsPath, cx: &Context) -> Result<(ResolvedPath, Stat), Fault> {
    found(cx.reach(base, path, FolderAccess::Read)?, path, base, cx)
}

/// Resolves a path to an existing file for writing. A relative path starts from `base`.
pub fn changeable(path: &str, base: &AbsPath, cx: &Context) -> Result<AbsPath, Fault> {
    found(cx.reach(base, path, FolderAccess::Write)?, path, base, cx).map(|(place, _)| place.path)
}

/// A resolved path that exists, or the fault that it is missing.
fn found(
    place: ResolvedPath,
    path: &str,
    base: &AbsPath,
    cx: &Context,
) -> Result<(ResolvedPath, Stat), Fault> {
    match place.stat {
        Some(stat) => Ok((place, stat)),
        // Suggestions would reveal names in a folder outside of the workspace.
        None if cx.session_workspace().access(&place.path).is_none() => Err(not_there(path)),
        None => Err(missing(path, &place, base, cx)),
    }
}

/// Resolves a path for writing; the file and its parent folders may be missing. A relative path starts from `base`. A new
/// file whose name is in quotes, or is an address, is hardly meant.
pub fn writable(path: &str, base: &AbsPath, cx: &Context) -> Result<AbsPath, Fault> {
    let place = cx.reach(base, path, FolderAccess::Write)?;
    let is_quoted = path.starts_with(['"', '\'', '`', '“', '<']) || path.starts_with("file://");
    match undecorated(path).filter(|_| is_quoted && place.stat.is_none()) {
        Some(plain) => Err(Fault::invalid(format!("`{path}` is no name for a new file"))
            .hint(format!("did you mean `{plain}`?"))
            .at(path)
            .with("similar", [plain])),
        None => Ok(place.path),
    }
}

/// An entry of a folder: if it is a link, the link itself and not its target.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its path.
    pub path: AbsPath,
    /// The path as the caller gave it, for messages.
    pub named: String,
}

impl Entry {
    /// Resolves a path without following a link in its last component; the entry may be missing.
    pub fn find(path: &str, base: &AbsPath, cx: &Context) -> Result<Self, Fault> {
        let found = cx.entry(base, path)?.path;
        Ok(Self { path: found, named: path.to_owned() })
    }

    /// The fault that the entry is missing, with similar names.
    pub fn missing(&self, cx: &Context) -> Fault {
        let place = ResolvedPath { path: self.path.clone(), stat: None };
        missing(&self.named, &place, &cx.cwd(), cx)
    }
}

/// Resolves several paths to existing entries. Only the first few missing ones get suggestions, because each costs reading
/// a folder.
pub fn existing_all(paths: &[String], base: &AbsPath, cx: &Context) -> Vec<Result<AbsPath, Fault>> {
    let mut missed = 0;
    let place_of = |path: &String| {
        if cx.is_cancelled() {
            return Err(cx.cancelled_fault());
        }
        let place = cx.reach(base, path, FolderAccess::Read)?;
        if place.stat.is_some() {
            return Ok(place.path);
        }
        missed += 1;
        if missed <= MAX_SUGGESTED { Err(missing(path, &place, base, cx)) } else { Err(not_there(path)) }
    };
    paths.iter().map(place_of).collect()
}

/// Resolves a path to an existing folder. A relative path starts from `base`, and an empty one is `base` itself.
pub fn existing_folder(path: &str, base: &AbsPath, cx: &Context) -> Result<ResolvedPath, Fault> {
    let path = if path.is_empty() { "." } else { path };
    let (place, stat) = existing(path, base, cx)?;
    let fault = |hint: &str| {
        Fault::new(FaultKind::WrongKind, format!("`{path}` is a {}, not a folder", stat.kind))
            .hint(hint)
            .at(path)
    };
    match stat.kind {
        Kind::Directory => Ok(place),
        Kind::File => Err(fault("name the folder it is in, or read it as a file")),
        _ => Err(fault("name the folder it is in")),
    }
}

/// The fault for a missing path: which part of it is missing, and similar names.
fn missing(path: &str, place: &ResolvedPath, base: &AbsPath, cx: &Context) -> Fault {
    if let Some(target) = dangling(path, place) {
        let target = written_from(target, base);
        return Fault::new(
            FaultKind::NotFound,
            format!("`{path}` is a link to `{target}`, which does not exist"),
        )
        .at(path)
        .with("target", target);
    }
    let fault = not_there(path);
    if let Some(plain) = undecorated(path).filter(|plain| is_there(plain, base, cx)) {
        return fault.hint(format!("did you mean `{plain}`?")).with("similar", [plain]);
    }
    let Some((folder, wanted)) = nearest_folder(place, cx) else { return fault };
    let Ok(entries) = cx.workspace().names(&folder) else { return fault };
    let names: Vec<String> =
        entries.iter().take(MAX_COMPARED).map(|entry| names::show(&entry.name)).collect();
    let mut near = suggest::nearest(&wanted, names.iter().map(String::as_str), 3);
    // A name that only ends alike is another one.
    near.retain(|name| !suggest::nearest(stem(&wanted), [stem(name)], 1).is_empty());
    let shown = written_from(&folder, base);
    let inside = |name: &str| written_from(&folder.child(OsStr::new(name)), base);
    let near: Vec<String> = near.into_iter().map(inside).collect();
    if !near.is_empty() {
        let list: Vec<&str> = near.iter().map(String::as_str).collect();
        let hint = format!("did you mean {}?", suggest::or_list(&list));
        return fault.hint(hint).with("similar", near);
    }
    match names.len() {
        0 => fault.hint(format!("the folder `{shown}` is empty")),
        1 => fault.hint(format!("the folder `{shown}` has 1 entry, `{}`", names[0])),
        count => fault.hint(format!("the folder `{shown}` has {count} entries, none of a similar name")),
    }
}

fn is_there(path: &str, base: &AbsPath, cx: &Context) -> bool {
    cx.workspace().resolve(base, path).is_ok_and(|place| place.stat.is_some())
}

/// A path without what models put around one: blanks, quotes, `@`, `file://` and the number of a line. `None` if it has
/// nothing of that.
fn undecorated(path: &str) -> Option<String> {
    let mut plain = path.trim();
    for (open, close) in [('"', '"'), ('\'', '\''), ('`', '`'), ('<', '>'), ('“', '”'), ('‘', '’')] {
        if let Some(inner) = plain.strip_prefix(open).and_then(|rest| rest.strip_suffix(close)) {
            plain = inner.trim();
        }
    }
    plain = plain.strip_prefix('@').unwrap_or(plain);
    if let Some(rest) = plain.strip_prefix("file://") {
        plain = rest.strip_prefix("localhost").unwrap_or(rest);
    }
    // `src/main.rs:12`, `src/main.rs:12:5`
    for _ in 0..2 {
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|c| c.is_ascii_digit());
        plain = plain.rsplit_once(':').filter(|(_, end)| is_number(end)).map_or(plain, |(start, _)| start);
    }
    (plain != path && !plain.is_empty()).then(|| plain.to_owned())
}

/// A name without its extension.
fn stem(name: &str) -> &str {
    match name.rfind('.') {
        Some(dot) if dot > 0 => &name[..dot],
        _ => name,
    }
}

fn not_there(path: &str) -> Fault {
    Fault::new(FaultKind::NotFound, format!("`{path}` does not exist")).at(path)
}

/// The target of a path that is a dangling link. Resolving has followed the link, so the last component differs. An
/// escaped name (`\x…`) also differs once it is decoded.
fn dangling<'a>(path: &str, place: &'a ResolvedPath) -> Option<&'a AbsPath> {
    let written = Path::new(path).file_name()?;
    (place.path.file_name()? != written && !path.contains("\\x")).then_some(&place.path)
}

/// A path as the model would write it: relative to `base` if it is below, otherwise absolute.
fn written_from(path: &AbsPath, base: &AbsPath) -> String {
    match path.as_path().strip_prefix(base) {
        Ok(below) if below.as_os_str().is_empty() => ".".to_owned(),
        Ok(below) => names::show(below),
        Err(_) => names::show(path.as_path()),
    }
}

/// The deepest existing folder of a missing path, and the name that it lacks.
fn nearest_folder(place: &ResolvedPath, cx: &Context) -> Option<(AbsPath, String)> {
    let mut missing = place.path.as_path();
    loop {
        let parent = missing.parent()?;
        let wanted = names::show(missing.file_name()?);
        let found = cx.workspace().resolve(cx.workspace().root(), parent.to_str()?).ok()?;
        match found.stat {
            Some(stat) if stat.kind == Kind::Directory => return Some((found.path, wanted)),
            _ => missing = parent,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_in_what_models_put_around_it() {
        for path in [
            "`src/a b.rs`",
            "\"src/a b.rs\"",
            "'src/a b.rs'",
            "@src/a b.rs",
            "`@src/a b.rs`",
            " src/a b.rs\n",
            "<src/a b.rs>",
            "src/a b.rs:12",
            "src/a b.rs:12:5",
            "file://src/a b.rs",
            "“src/a b.rs”",
        ] {
            assert_eq!(undecorated(path).as_deref(), Some("src/a b.rs"), "{path}");
        }
        assert_eq!(undecorated("file:///ws/a.rs").as_deref(), Some("/ws/a.rs"));
        assert_eq!(undecorated("file://localhost/ws/a.rs").as_deref(), Some("/ws/a.rs"));
        for path in ["src/a.rs", "./a", "it's", "a:b", "\"", "@"] {
            assert_eq!(undecorated(path), None, "{path}");
        }
    }
}

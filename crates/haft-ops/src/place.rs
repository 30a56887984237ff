//! From a path as the model wrote it to a place that exists, or a fault that says what is there instead.

use std::ffi::OsStr;
use std::path::Path;

use haft_core::{AbsPath, Context, Fault, FaultKind, suggest};
use haft_sandbox::{FolderAccess, Kind, ResolvedPath, Stat, names};

/// More names than this are not compared when a path is misspelt.
const MAX_COMPARED: usize = 10_000;
/// For more missing paths than this, nothing is suggested.
const MAX_SUGGESTED: usize = 5;

/// A place that exists, of whatever kind. A relative path starts from `base`.
pub fn existing(path: &str, base: &AbsPath, cx: &Context) -> Result<(ResolvedPath, Stat), Fault> {
    found(cx.reach(base, path, FolderAccess::Read)?, path, base, cx)
}

/// A file that exists and is to be changed.
pub fn changeable(path: &str, base: &AbsPath, cx: &Context) -> Result<AbsPath, Fault> {
    found(cx.reach(base, path, FolderAccess::Write)?, path, base, cx).map(|(place, _)| place.path)
}

fn found(
    place: ResolvedPath,
    path: &str,
    base: &AbsPath,
    cx: &Context,
) -> Result<(ResolvedPath, Stat), Fault> {
    match place.stat {
        Some(stat) => Ok((place, stat)),
        // What else is in a folder outside is nobody's business.
        None if cx.session_workspace().access(&place.path).is_none() => Err(not_there(path)),
        None => Err(missing(path, &place, base, cx)),
    }
}

/// A file that is to be written: it may be missing, and so may the folders on the way.
pub fn writable(path: &str, base: &AbsPath, cx: &Context) -> Result<AbsPath, Fault> {
    Ok(cx.reach(base, path, FolderAccess::Write)?.path)
}

/// A name in a folder, and not what a link of that name leads to.
#[derive(Clone, Debug)]
pub struct Entry {
    /// The place.
    pub path: AbsPath,
    /// The place as it was asked for, for messages.
    pub named: String,
}

impl Entry {
    /// The entry that a path names; it may be missing.
    pub fn find(path: &str, base: &AbsPath, cx: &Context) -> Result<Self, Fault> {
        let found = cx.entry(base, path)?.path;
        Ok(Self { path: found, named: path.to_owned() })
    }

    /// Says that it is missing, and what is there that is spelt alike.
    pub fn missing(&self, cx: &Context) -> Fault {
        let place = ResolvedPath { path: self.path.clone(), stat: None };
        missing(&self.named, &place, &cx.cwd(), cx)
    }
}

/// The places of several paths, or why one of them is none. What is spelt alike is looked for only for the
/// first few that are missing: it costs a look through a folder each.
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

/// A folder that exists; an empty path is `base` itself.
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

/// Says which part of the path is missing and what is there that is spelt alike.
fn missing(path: &str, place: &ResolvedPath, base: &AbsPath, cx: &Context) -> Fault {
    if let Some(target) = dangling(path, place) {
        let target = spelt(target, base);
        return Fault::new(
            FaultKind::NotFound,
            format!("`{path}` is a link to `{target}`, which does not exist"),
        )
        .at(path)
        .with("target", target);
    }
    let fault = not_there(path);
    let Some((folder, wanted)) = nearest_folder(place, cx) else { return fault };
    let Ok(entries) = cx.workspace().names(&folder) else { return fault };
    let names: Vec<String> =
        entries.iter().take(MAX_COMPARED).map(|entry| names::show(&entry.name)).collect();
    let mut near = suggest::nearest(&wanted, names.iter().map(String::as_str), 3);
    // A name that only ends alike is another one.
    near.retain(|name| !suggest::nearest(stem(&wanted), [stem(name)], 1).is_empty());
    let shown = spelt(&folder, base);
    let inside = |name: &str| spelt(&folder.child(OsStr::new(name)), base);
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

/// Where the last part of a path leads, if it is a link and nothing is there.
fn dangling<'a>(path: &str, place: &'a ResolvedPath) -> Option<&'a AbsPath> {
    let asked = Path::new(path).file_name()?;
    (place.path.file_name()? != asked && !path.contains("\\x")).then_some(&place.path)
}

/// A place as the model would write it: from `base` on if it is below, and whole otherwise.
fn spelt(path: &AbsPath, base: &AbsPath) -> String {
    match path.as_path().strip_prefix(base) {
        Ok(below) if below.as_os_str().is_empty() => ".".to_owned(),
        Ok(below) => names::show(below),
        Err(_) => names::show(path.as_path()),
    }
}

/// The deepest folder on the way that exists, and the name that is not in it.
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

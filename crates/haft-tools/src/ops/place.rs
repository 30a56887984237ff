//! From a path as the model wrote it to a place that exists, or a fault that says what is there instead.

use haft::{Context, Fault, FaultKind, suggest};
use haft_sandbox::{Kind, Place, Stat, names};

/// More names than this are not compared when a path is misspelt.
const MAX_COMPARED: usize = 10_000;

/// A place that exists, of whatever kind.
pub fn existing(path: &str, cx: &Context) -> Result<(Place, Stat), Fault> {
    let place = cx.workspace().resolve(&cx.cwd(), path)?;
    match place.stat {
        Some(stat) => Ok((place, stat)),
        None => Err(missing(path, &place, cx)),
    }
}

/// A folder that exists.
pub fn existing_folder(path: &str, cx: &Context) -> Result<Place, Fault> {
    let (place, stat) = existing(path, cx)?;
    if stat.kind == Kind::Directory {
        Ok(place)
    } else {
        Err(Fault::new(FaultKind::WrongKind, format!("`{path}` is a file, not a folder"))
            .hint("name the folder it is in, or read it as a file")
            .with("path", path))
    }
}

/// Says which part of the path is missing and what is there that is spelt alike.
fn missing(path: &str, place: &Place, cx: &Context) -> Fault {
    let fault = Fault::new(FaultKind::NotFound, format!("`{path}` does not exist")).with("path", path);
    let Some((folder, wanted)) = nearest_folder(place, cx) else { return fault };
    let Ok(entries) = cx.workspace().list(&folder) else { return fault };
    let names: Vec<String> =
        entries.iter().take(MAX_COMPARED).map(|entry| names::show(&entry.name)).collect();
    let near = suggest::nearest(&wanted, names.iter().map(String::as_str), 3);
    let shown = cx.workspace().display(&folder);
    let inside = |name: &str| if shown == "." { name.to_owned() } else { format!("{shown}/{name}") };
    let near: Vec<String> = near.into_iter().map(inside).collect();
    if !near.is_empty() {
        let list: Vec<&str> = near.iter().map(String::as_str).collect();
        let hint = format!("did you mean {}?", suggest::or_list(&list));
        return fault.hint(hint).with("similar", near);
    }
    match names.len() {
        0 => fault.hint(format!("the folder `{shown}` is empty")),
        count => fault.hint(format!("the folder `{shown}` has {count} entries, none of a similar name")),
    }
}

/// The deepest folder on the way that exists, and the name that is not in it.
fn nearest_folder(place: &Place, cx: &Context) -> Option<(haft::AbsPath, String)> {
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

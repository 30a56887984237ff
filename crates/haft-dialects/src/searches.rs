//! Shared by the search tools of all dialects: parsing of globs, and notes about searches that did not cover everything.

use haft_core::{AbsPath, Context};
use haft_sandbox::{Kind, names};

use haft_ops::{Globbed, GrepResult, Hit, Miss, Stopped};
use haft_text::count_of;

/// Splits a text into globs, at spaces and at commas outside of braces.
pub(super) fn globs(text: &str) -> Vec<String> {
    let mut depth = 0_usize;
    let mut globs = vec![String::new()];
    for char in text.chars() {
        match char {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        match depth == 0 && (char.is_whitespace() || char == ',') {
            true => globs.push(String::new()),
            false => globs.last_mut().into_iter().for_each(|glob| glob.push(char)),
        }
    }
    globs.retain(|glob| !glob.is_empty());
    globs
}

/// The message for a search without matches.
pub(super) fn no_match(found: &GrepResult, skipped: u64) -> String {
    match found.stopped {
        Some(Stopped::Time) => "nothing found so far".to_owned(),
        _ if skipped > 0 => {
            format!("nothing comes after the first {skipped} entries: there are no more than that")
        }
        _ => {
            let nothing = no_match_at_all(found);
            match found.ignored {
                0 => nothing,
                1 => format!("{nothing}; 1 entry that ignore files name was not searched"),
                ignored => format!("{nothing}; {ignored} entries that ignore files name were not searched"),
            }
        }
    }
}

fn no_match_at_all(found: &GrepResult) -> String {
    match (found.searched.saturating_sub(found.binary), found.binary) {
            (0, 0) if found.unreadable.count > 0 => "no file could be searched".to_owned(),
            (0, 0) => {
                "no file was searched: there is none, or all are left out by the patterns, by ignore files or by a dot before their names"
                    .to_owned()
            }
            (0, 1) => "no text was searched: the only file is a binary file".to_owned(),
            (0, binary) => format!("no text was searched: all {binary} files are binary files"),
            (searched, 0) => format!("no match in {}", count_of(searched, "file")),
            (searched, binary) => format!(
                "no match in {}; {} left out",
                count_of(searched, "file"),
                if binary == 1 {
                    "1 binary file was".to_owned()
                } else {
                    format!("{binary} binary files were")
                }
            ),
        }
}

/// Notes about a search in files. `offset` names the parameter to continue with.
pub(super) fn grep_notes(found: &GrepResult, offset: &str) -> Vec<String> {
    let mut notes = Vec::new();
    match (found.stopped, found.next) {
        (Some(Stopped::PageFull), Some(next)) => {
            notes.push(format!("there is more; go on with `{offset}`: {next}"));
        }
        (Some(Stopped::Time), Some(next)) => notes.push(format!(
            "the time was up after {}: this is not all; go on with `{offset}`: {next}",
            count_of(found.searched, "file")
        )),
        (Some(Stopped::Time), None) => {
            notes.push("the time was up before the file was searched to its end".to_owned());
        }
        _ => {}
    }
    notes.extend(found.unreadable.note());
    notes
}

/// Notes about a search for names.
pub(super) fn glob_notes(globbed: &Globbed) -> Vec<String> {
    let mut notes = Vec::new();
    if globbed.incomplete {
        notes.push("the time was up: this is not all; search a smaller folder".to_owned());
    }
    notes.extend(globbed.miss.as_ref().map(|miss| match miss {
        Miss::Case(path) => format!("`{path}` fits but for capital letters"),
        Miss::Ignored { path, rule, file } => {
            format!("`{path}` fits, but is left out by the rule `{rule}` in `{file}`")
        }
        Miss::LeftOut(path) => format!(
            "`{path}` fits, but names like that are left out unless the pattern or the path spells them"
        ),
        Miss::Deeper(path) => format!("`{path}` would fit with `**/` before the pattern"),
    }));
    notes.extend(globbed.unreadable.note());
    notes
}

/// A matching file or folder, as a line of a list.
pub(super) fn display_hit(hit: &Hit, cx: &Context) -> String {
    let slash = if hit.kind == Kind::Directory { "/" } else { "" };
    display_path(&hit.path, cx) + slash
}

/// A path as a line of a list. Escaped, so that a file name with a line break cannot forge a line.
pub(super) fn display_path(path: &AbsPath, cx: &Context) -> String {
    names::show_on_a_line(spelt(path, cx))
}

/// A path as the model writes it: relative to the current folder if it is below, and absolute otherwise.
pub(super) fn spelt(path: &AbsPath, cx: &Context) -> String {
    let cwd = cx.cwd();
    match path.as_path().strip_prefix(&cwd) {
        Ok(below) if below.as_os_str().is_empty() => ".".to_owned(),
        Ok(below) => names::show(below),
        Err(_) => names::show(path.as_path()),
    }
}

/// One line for people about a search.
pub(super) fn describe(pattern: &str, path: Option<&str>) -> String {
    match path {
        Some(path) if path != "." => format!("{pattern} in {path}"),
        _ => pattern.to_owned(),
    }
}

/// A count of matches, in words.
pub(super) fn matches(count: u64) -> String {
    if count == 1 { "1 match".to_owned() } else { format!("{count} matches") }
}

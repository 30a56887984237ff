//! Parses patches in the two formats that models write: `*** Begin Patch`, and unified diffs. Line numbers and counts in
//! hunk headers are not trusted, because models miscount.

use super::{Change, FinalNewline, Hunk, HunkLine, PatchProblem};

const BEGIN: &str = "*** Begin Patch";
const END: &str = "*** End Patch";
const UPDATE: &str = "*** Update File:";
const ADD: &str = "*** Add File:";
const DELETE: &str = "*** Delete File:";
const MOVE: &str = "*** Move to:";
const END_OF_FILE: &str = "*** End of File";

type Parsed<E> = Result<Vec<Change>, PatchProblem<E>>;

/// Parses a patch in either format.
pub(super) fn parse<E>(text: &str) -> Parsed<E> {
    let text = text.replace("\r\n", "\n");
    let lines: Vec<&str> = text.lines().collect();
    let changes = match lines.iter().position(|line| line.trim() == BEGIN) {
        Some(begin) => begin_patch(&lines, begin + 1)?,
        None => unified(&lines)?,
    };
    merge_by_file(changes)
}

/// Merges several updates of one file into one change. Any other combination for one file is an error.
fn merge_by_file<E>(changes: Vec<Change>) -> Parsed<E> {
    let mut merged: Vec<Change> = Vec::new();
    for change in changes {
        let Some(earlier) = merged.iter_mut().find(|earlier| earlier.path() == change.path()) else {
            merged.push(change);
            continue;
        };
        match (earlier, change) {
            (
                Change::Update { hunks, to, final_newline, .. },
                Change::Update { hunks: more, to: later, final_newline: last, .. },
            ) if to.is_none() || later.is_none() => {
                hunks.extend(more);
                *to = to.take().or(later);
                *final_newline = last.or(*final_newline);
            }
            (earlier, _) => return Err(PatchProblem::Twice { path: earlier.path().to_owned() }),
        }
    }
    if merged.is_empty() { Err(PatchProblem::Nothing) } else { Ok(merged) }
}

fn syntax<E, T>(line: usize, message: impl Into<String>) -> Result<T, PatchProblem<E>> {
    Err(PatchProblem::Syntax { line: line + 1, message: message.into() })
}

/// Parses the `*** Begin Patch` format.
fn begin_patch<E>(lines: &[&str], begin: usize) -> Parsed<E> {
    let mut changes = Vec::new();
    let mut at = begin;
    loop {
        let Some(line) = lines.get(at).map(|line| line.trim_end()) else {
            return syntax(
                lines.len().saturating_sub(1),
                format!("the patch has no `{END}` and may be cut off"),
            );
        };
        at += 1;
        if line.trim() == END {
            return Ok(changes);
        }
        let path = |mark: &str| line.strip_prefix(mark).map(|path| path.trim().to_owned());
        if let Some(path) = path(ADD) {
            let body = section(lines, at);
            let mut text = String::new();
            for (offset, line) in body.iter().enumerate() {
                let Some(line) = line.strip_prefix('+') else {
                    return syntax(
                        at + offset,
                        format!("a line of the new file `{path}` does not begin with `+`"),
                    );
                };
                text.push_str(line);
                text.push('\n');
            }
            at += body.len();
            changes.push(Change::Add { path, text });
        } else if let Some(path) = path(DELETE) {
            changes.push(Change::Delete { path });
        } else if let Some(path) = path(UPDATE) {
            let to = lines.get(at).and_then(|line| line.strip_prefix(MOVE)).map(|to| to.trim().to_owned());
            at += usize::from(to.is_some());
            let body = section(lines, at);
            let hunks = begin_patch_hunks(body, at, &path)?;
            if hunks.is_empty() && to.is_none() {
                return syntax(at - 1, format!("nothing is changed in `{path}`"));
            }
            at += body.len();
            changes.push(Change::Update { path, to, hunks, final_newline: None });
        } else if !line.trim().is_empty() {
            return syntax(
                at - 1,
                format!("`{line}` names no file; a part begins with `{UPDATE}`, `{ADD}` or `{DELETE}`"),
            );
        }
    }
}

/// The lines up to the next file header or the end of the patch.
fn section<'a, 'b>(lines: &'a [&'b str], from: usize) -> &'a [&'b str] {
    let ends = |line: &&str| {
        line.trim_end() == END || [UPDATE, ADD, DELETE].iter().any(|mark| line.starts_with(mark))
    };
    let rest = &lines[from..];
    &rest[..rest.iter().position(ends).unwrap_or(rest.len())]
}

fn begin_patch_hunks<E>(lines: &[&str], from: usize, path: &str) -> Result<Vec<Hunk>, PatchProblem<E>> {
    let mut hunks = Vec::new();
    let mut hunk = Hunk::default();
    for (at, line) in lines.iter().enumerate() {
        if let Some(context) = line.strip_prefix("@@") {
            if !hunk.lines.is_empty() || hunk.at_end {
                hunks.push(std::mem::take(&mut hunk));
            }
            let context = context.strip_prefix(' ').unwrap_or(context);
            let context = context.strip_suffix(" @@").unwrap_or(context);
            match start_line(line) {
                Some(start) => hunk.start = Some(start),
                None if context.trim().is_empty() => {}
                None => hunk.context.push(context.to_owned()),
            }
        } else if line.trim_end() == END_OF_FILE {
            hunk.at_end = true;
        } else if let Some(line) = hunk_line(line) {
            hunk.lines.push(line);
        } else if !line.starts_with('\\') {
            return syntax(from + at, format!("a line for `{path}` begins with neither ` `, `-` nor `+`"));
        }
    }
    if !hunk.lines.is_empty() {
        hunks.push(hunk);
    }
    // An empty line before the next file header separates the parts of the patch, and is no context line.
    if let Some(last) = hunks.last_mut()
        && lines.last().is_some_and(|line| line.is_empty())
        && last.lines.len() > 1
    {
        last.lines.pop();
    }
    Ok(hunks)
}

fn hunk_line(line: &str) -> Option<HunkLine> {
    let mut chars = line.chars();
    match chars.next() {
        Some(' ') => Some(HunkLine::Context(chars.as_str().to_owned())),
        Some('-') => Some(HunkLine::Delete(chars.as_str().to_owned())),
        Some('+') => Some(HunkLine::Insert(chars.as_str().to_owned())),
        // An empty context line may lack its leading blank: editors and models strip it.
        None => Some(HunkLine::Context(String::new())),
        Some(_) => None,
    }
}

/// The start line of the old side in `@@ -12,3 +12,4 @@`.
fn start_line(line: &str) -> Option<usize> {
    let rest = line.strip_prefix("@@ -")?;
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    rest[digits..].contains('+').then(|| rest[..digits].parse().ok()).flatten()
}

/// Parses a unified diff, with git's extended headers for renames.
fn unified<E>(lines: &[&str]) -> Parsed<E> {
    let mut changes = Vec::new();
    let mut at = 0;
    let mut renamed: Option<String> = None;
    while at < lines.len() {
        let line = lines[at];
        if let Some(from) = line.strip_prefix("rename from ") {
            renamed = Some(from.to_owned());
        } else if let Some(to) = line.strip_prefix("rename to ") {
            if let Some(path) = renamed.take() {
                changes.push(Change::Update {
                    path,
                    to: Some(to.to_owned()),
                    hunks: Vec::new(),
                    final_newline: None,
                });
            }
        } else if is_header(lines, at) {
            let (old, new) = (name(lines[at], "a/"), name(lines[at + 1], "b/"));
            at += 2;
            let end = (at..lines.len()).find(|at| ends_file(lines, *at)).unwrap_or(lines.len());
            let (hunks, final_newline) = unified_hunks(&lines[at..end], at)?;
            at = end;
            changes.push(match (old.as_str(), new.as_str()) {
                ("/dev/null", _) => Change::Add { path: new, text: text_of(&hunks, final_newline) },
                (_, "/dev/null") => Change::Delete { path: old },
                _ if hunks.is_empty() => {
                    return syntax(at.saturating_sub(1), format!("nothing is changed in `{old}`"));
                }
                _ => {
                    let moved = changes.iter().any(
                        |change| matches!(change, Change::Update { path, to: Some(_), .. } if *path == old),
                    );
                    let to = (old != new && !moved).then_some(new);
                    Change::Update { path: old, to, hunks, final_newline }
                }
            });
            continue;
        } else if line.starts_with("@@") {
            return syntax(at, "a hunk comes before the name of its file");
        }
        at += 1;
    }
    Ok(changes)
}

fn is_header(lines: &[&str], at: usize) -> bool {
    lines[at].starts_with("--- ") && lines.get(at + 1).is_some_and(|line| line.starts_with("+++ "))
}

/// Whether the hunks of a file end here. A deleted line may look like a header, so the line behind it must fit as well.
fn ends_file(lines: &[&str], at: usize) -> bool {
    let headed = is_header(lines, at) && lines.get(at + 2).is_none_or(|line| line.starts_with("@@"));
    headed || lines[at].starts_with("diff --git ")
}

/// The file name of a `---` or `+++` line, without git's `a/` or `b/`.
fn name(line: &str, side: &str) -> String {
    let name = line[4..].split('\t').next().unwrap_or_default().trim();
    name.strip_prefix(side).unwrap_or(name).to_owned()
}

type Hunks = (Vec<Hunk>, Option<FinalNewline>);

fn unified_hunks<E>(lines: &[&str], from: usize) -> Result<Hunks, PatchProblem<E>> {
    let mut hunks: Vec<Hunk> = Vec::new();
    let mut final_newline = None;
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with("@@") {
            hunks.push(Hunk { start: start_line(line), ..Hunk::default() });
            continue;
        }
        let last = at + 1 == lines.len() || lines[at + 1].starts_with("@@");
        let Some(hunk) = hunks.last_mut() else { continue };
        if line.starts_with('\\') {
            final_newline = match hunk.lines.last() {
                Some(HunkLine::Delete(_)) => Some(FinalNewline::Present),
                _ => Some(FinalNewline::Absent),
            };
        } else if line.is_empty() && last {
            // An empty line behind the hunk.
        } else if let Some(line) = hunk_line(line) {
            hunk.lines.push(line);
        } else {
            return syntax(from + at, "a line of a hunk begins with neither ` `, `-` nor `+`");
        }
    }
    hunks.retain(|hunk| !hunk.lines.is_empty());
    Ok((hunks, final_newline))
}

/// Content of a new file.
fn text_of(hunks: &[Hunk], final_newline: Option<FinalNewline>) -> String {
    let mut text = String::new();
    for line in hunks.iter().flat_map(|hunk| &hunk.lines) {
        if let HunkLine::Insert(line) = line {
            text.push_str(line);
            text.push('\n');
        }
    }
    if final_newline == Some(FinalNewline::Absent) {
        text.pop();
    }
    text
}

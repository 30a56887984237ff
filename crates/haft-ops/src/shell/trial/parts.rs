//! The changes of a trial as a person approves them: each file by itself as long as they are few, by directory otherwise. A
//! repository's own files are one part, since half of what git did is a damaged repository.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use haft_core::{AbsPath, Context};
use haft_sandbox::sandbox::trial::{Change, ChangeKind, Listing};
use haft_text::{DiffLimits, Side, unified};

use super::warnings;

/// Most changes that are parts of their own.
const MAX_SINGLE: usize = 100;
/// Largest file of which a diff is shown, and most bytes of one diff and of all together.
const MAX_CONTENT: u64 = 1 << 20;
const MAX_DIFF: usize = 64 << 10;
const MAX_DIFFS: usize = 512 << 10;
/// Name of a repository's folder.
const GIT: &str = ".git";

/// One part.
struct Part {
    /// The changes, by their index in the listing.
    changes: Vec<usize>,
    text: String,
}

/// All parts, and what is never cut.
pub(super) struct Parts {
    /// Deletions, modes and warnings.
    pub(super) summary: String,
    parts: Vec<Part>,
}

impl Parts {
    pub(super) fn of(listing: &Listing, cx: &Context) -> Self {
        let mut groups: BTreeMap<(usize, PathBuf), Vec<usize>> = BTreeMap::new();
        let single =
            listing.changes.iter().filter(|change| repository(&change.path).is_none()).count() <= MAX_SINGLE;
        for (number, change) in listing.changes.iter().enumerate() {
            let key = match repository(&change.path) {
                Some(git) => (usize::MAX, git.to_owned()),
                None if single => (number, change.path.clone()),
                None => (0, change.path.parent().unwrap_or(&change.path).to_owned()),
            };
            groups.entry(key).or_default().push(number);
        }
        let mut room = MAX_DIFFS;
        let part = |((_, path), changes): ((usize, PathBuf), Vec<usize>)| {
            let mut text = String::new();
            if repository(&path).is_some() {
                let shown = shown(&path, cx);
                let _ = writeln!(text, "# changed {shown}: {} files of git's own", changes.len());
            } else {
                for number in &changes {
                    let change = &listing.changes[*number];
                    let _ = writeln!(text, "# {}", line(change, cx));
                    let diff = diff(listing, change, room.min(MAX_DIFF), cx);
                    room = room.saturating_sub(diff.len());
                    text.push_str(&diff);
                }
            }
            Part { changes, text }
        };
        let parts = groups.into_iter().map(part).collect();
        Self { summary: summary(listing, cx), parts }
    }

    pub(super) fn diff(&self) -> String {
        self.parts.iter().map(|part| part.text.as_str()).collect()
    }

    pub(super) fn texts(&self) -> Vec<String> {
        self.parts.iter().map(|part| part.text.clone()).collect()
    }

    /// The changes of chosen parts.
    pub(super) fn changes(&self, chosen: &[usize]) -> Vec<usize> {
        let chosen = chosen.iter().filter_map(|number| self.parts.get(*number));
        chosen.flat_map(|part| part.changes.iter().copied()).collect()
    }
}

/// The repository's folder that a path is in.
fn repository(path: &Path) -> Option<&Path> {
    path.ancestors().find(|above| above.ends_with(GIT))
}

pub(super) fn shown(path: &Path, cx: &Context) -> String {
    cx.session_workspace().display(&AbsPath::lexical(path))
}

/// Deletions and modes, which nothing may hide, and what to look at twice.
fn summary(listing: &Listing, cx: &Context) -> String {
    let mut text = String::new();
    let of_files = || listing.changes.iter().filter(|change| repository(&change.path).is_none());
    for change in of_files().filter(|change| change.kind == ChangeKind::Deleted) {
        let _ = writeln!(text, "{}", line(change, cx));
    }
    for change in of_files().filter(|change| change.kind != ChangeKind::Deleted) {
        if let Some(mode) = mode(change) {
            let _ = writeln!(text, "mode {} {mode}", shown(&change.path, cx));
        }
    }
    for change in &listing.changes {
        for warning in warnings::of(change, cx) {
            let _ = writeln!(text, "WARNING {}: {warning}", shown(&change.path, cx));
        }
        if let Some(conflict) = change.conflict {
            let _ = writeln!(text, "CONFLICT {}: {conflict}", shown(&change.path, cx));
        }
    }
    for path in &listing.refused {
        let _ = writeln!(text, "never kept: {}, which commands must not change", shown(path, cx));
    }
    for path in &listing.shared {
        let _ = writeln!(
            text,
            "written through: {}, a build folder; what changed there counts already",
            shown(path, cx)
        );
    }
    text
}

/// The old and new mode of a file that was there.
fn mode(change: &Change) -> Option<String> {
    let (before, after) = (change.before?, change.after?);
    let differs = before.mode != after.mode && !after.is_link() && before.is_dir() == after.is_dir();
    differs.then(|| format!("{:o} → {:o}", before.mode, after.mode))
}

/// A change in one line.
pub(super) fn line(change: &Change, cx: &Context) -> String {
    let path = shown(&change.path, cx);
    let is_dir = change.after.or(change.before).is_some_and(|side| side.is_dir());
    let slash = if is_dir { "/" } else { "" };
    let files = match change.files {
        0 => String::new(),
        1 => " (1 file)".to_owned(),
        files => format!(" ({files} files)"),
    };
    match (change.kind, &change.moved_from, &change.target) {
        (ChangeKind::Deleted, ..) => format!("deleted {path}{slash}{files}"),
        (ChangeKind::Created, Some(from), _) => format!("created {path}, the content of {}", shown(from, cx)),
        (ChangeKind::Created, _, Some(target)) => format!("created {path} → {}", target.display()),
        (ChangeKind::Created, ..) => format!("created {path}{slash}"),
        (ChangeKind::Changed, _, Some(target)) => format!("changed {path} → {}", target.display()),
        (ChangeKind::Changed, ..) => format!("changed {path}{slash}{files}"),
        (ChangeKind::Attributes, ..) => match mode(change) {
            Some(mode) => format!("mode {path}{slash} {mode}"),
            None => format!("attributes {path}{slash}"),
        },
        (ChangeKind::Touched, ..) => format!("touched {path}"),
    }
}

/// The diff of a file; nothing for what is no file, or too large.
fn diff(listing: &Listing, change: &Change, max: usize, cx: &Context) -> String {
    let has_content = matches!(change.kind, ChangeKind::Changed | ChangeKind::Created | ChangeKind::Deleted);
    if !has_content || change.moved_from.is_some() || max == 0 {
        return String::new();
    }
    let name = shown(&change.path, cx);
    let content = |side: Option<haft_sandbox::sandbox::trial::Side>,
                   read: &dyn Fn() -> std::io::Result<Option<Vec<u8>>>| {
        match side {
            None => Some((false, Vec::new())),
            Some(side) if side.is_file() => read().ok().flatten().map(|bytes| (true, bytes)),
            Some(_) => Some((false, Vec::new())),
        }
    };
    let before = content(change.before, &|| listing.before(change, MAX_CONTENT));
    let after = content(change.after, &|| listing.after(change, MAX_CONTENT));
    let (Some((was, before)), Some((is, after))) = (before, after) else {
        return "(too large to be shown)\n".to_owned();
    };
    let nothing = "/dev/null";
    let side = |exists: bool| if exists { name.as_str() } else { nothing };
    let limits = DiffLimits { bytes: max, ..DiffLimits::default() };
    unified(Side { name: side(was), bytes: &before }, Side { name: side(is), bytes: &after }, limits).text
}

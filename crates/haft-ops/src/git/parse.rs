//! Parsing the machine-readable output of git. Names, authors and messages in it are untrusted, so control characters
//! that could act on a terminal are escaped here. Knows nothing of how git is started.

use std::ffi::OsStr;
use std::fmt::Write as _;
use std::os::unix::ffi::OsStrExt as _;

use haft_sandbox::names;

/// Format of a commit for `git log -z`: [`FIELDS`] fields, separated by NUL.
pub(super) const COMMIT: &str = "%H%x00%h%x00%an%x00%ae%x00%aI%x00%D%x00%P%x00%s%x00%b";
const FIELDS: usize = 9;
/// Format of a branch for `git for-each-ref`: a line of fields, separated by NUL.
pub(super) const BRANCH: &str = "%(HEAD)%00%(refname:short)%00%(objectname)%00%(upstream:short)%00\
    %(committerdate:iso8601-strict)%00%(subject)";

/// State of a git working tree: branch, upstream and changed files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WorkingTree {
    /// The branch; none with a detached `HEAD`.
    pub branch: Option<String>,
    /// The commit that `HEAD` points to; none before the first commit.
    pub commit: Option<String>,
    /// The upstream branch.
    pub upstream: Option<String>,
    /// Number of commits that the upstream branch lacks.
    pub ahead: u64,
    /// Number of commits that only the upstream branch has.
    pub behind: u64,
    /// Files that differ from `HEAD`, and untracked files.
    pub entries: Vec<StatusEntry>,
}

/// A file that differs from `HEAD`, or an untracked file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusEntry {
    /// Its path from the repository's root.
    pub path: String,
    /// Its former path, if it was renamed or copied.
    pub from: Option<String>,
    /// Staged change: `M`, `A`, `D`, `R`, `C`, `T`, `U`, or `.` for none.
    pub staged: char,
    /// Unstaged change: one of the letters of `staged`, or `?` for an untracked file.
    pub unstaged: char,
}

/// A git commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Commit {
    /// Its hash.
    pub hash: String,
    /// Its abbreviated hash.
    pub short: String,
    /// Name of the author.
    pub author: String,
    /// Email address of the author.
    pub email: String,
    /// Author date, as an ISO 8601 timestamp.
    pub date: String,
    /// Branches and tags that point to it.
    pub refs: Vec<String>,
    /// Hashes of its parents.
    pub parents: Vec<String>,
    /// The first line of its message.
    pub subject: String,
    /// The message without its first line.
    pub body: String,
}

/// Number of changed lines of one file in a diff; none for a binary file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileCount {
    /// Its path from the repository's root.
    pub path: String,
    /// Its former path, if it was renamed.
    pub from: Option<String>,
    /// Number of added lines.
    pub added: Option<u64>,
    /// Number of removed lines.
    pub removed: Option<u64>,
}

/// A git branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Branch {
    /// Its name.
    pub name: String,
    /// Whether it is checked out.
    pub current: bool,
    /// The commit it points to.
    pub commit: String,
    /// Its upstream branch.
    pub upstream: Option<String>,
    /// Date of that commit.
    pub date: String,
    /// The first line of that commit's message.
    pub subject: String,
}

/// Multi-line text with control characters escaped, so that it cannot act on a terminal.
pub(super) fn escaped(bytes: &[u8]) -> String {
    let text = names::show(OsStr::from_bytes(bytes));
    let is_odd = |c: char| c.is_control() && !"\n\t\r".contains(c);
    if !text.contains(is_odd) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_odd(c) {
            let _ = write!(out, "\\x{:02x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    out
}

/// Text on one line, with control characters and line ends escaped.
fn line(bytes: &[u8]) -> String {
    names::show_on_a_line(OsStr::from_bytes(bytes))
}

/// Parses `git status --porcelain=v2 --branch -z`.
pub(super) fn status(printed: &[u8]) -> WorkingTree {
    let mut found = WorkingTree::default();
    let mut records = printed.split(|byte| *byte == 0).filter(|record| !record.is_empty());
    while let Some(record) = records.next() {
        let mut words = record.splitn(2, |byte| *byte == b' ');
        let (kind, rest) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        // Number of words before the path, by the kind of record.
        let before = match kind {
            b"#" => {
                head(&mut found, &line(rest));
                continue;
            }
            b"1" => 7,
            b"2" => 8,
            b"u" => 9,
            b"?" => {
                let path = line(rest);
                found.entries.push(StatusEntry { path, from: None, staged: '.', unstaged: '?' });
                continue;
            }
            _ => continue,
        };
        let path = rest.splitn(before + 1, |byte| *byte == b' ').nth(before).unwrap_or_default();
        let code = |at: usize| rest.get(at).map_or('.', |byte| char::from(*byte));
        let from = if kind == b"2" { records.next().map(line) } else { None };
        found.entries.push(StatusEntry { path: line(path), from, staged: code(0), unstaged: code(1) });
    }
    found
}

/// Parses a `# branch.…` header of `git status`.
fn head(found: &mut WorkingTree, header: &str) {
    let Some((key, value)) = header.split_once(' ') else { return };
    match key {
        "branch.oid" if value != "(initial)" => found.commit = Some(value.to_owned()),
        "branch.head" if value != "(detached)" => found.branch = Some(value.to_owned()),
        "branch.upstream" => found.upstream = Some(value.to_owned()),
        "branch.ab" => {
            let mut counts = value.split(' ').map(|count| count[1..].parse().unwrap_or(0));
            found.ahead = counts.next().unwrap_or(0);
            found.behind = counts.next().unwrap_or(0);
        }
        _ => {}
    }
}

/// Parses `git log -z` in the format [`COMMIT`].
pub(super) fn commits(printed: &[u8]) -> Vec<Commit> {
    let fields: Vec<&[u8]> = printed.split(|byte| *byte == 0).collect();
    let list = |bytes: &[u8], between: &str| -> Vec<String> {
        line(bytes).split(between).filter(|item| !item.is_empty()).map(str::to_owned).collect()
    };
    fields
        .chunks_exact(FIELDS)
        .map(|field| Commit {
            hash: line(field[0]),
            short: line(field[1]),
            author: line(field[2]),
            email: line(field[3]),
            date: line(field[4]),
            refs: list(field[5], ", "),
            parents: list(field[6], " "),
            subject: line(field[7]),
            body: escaped(field[8]).trim_end().to_owned(),
        })
        .collect()
}

/// Parses `--numstat -z`. Both paths of a renamed file follow as records of their own.
pub(super) fn counts(printed: &[u8]) -> Vec<FileCount> {
    let mut found = Vec::new();
    let mut records = printed.split(|byte| *byte == 0);
    while let Some(record) = records.next() {
        let mut columns = record.splitn(3, |byte| *byte == b'\t');
        let (Some(added), Some(removed), Some(path)) = (columns.next(), columns.next(), columns.next())
        else {
            continue;
        };
        let (from, path) = match path.is_empty() {
            true => (records.next().map(line), records.next().unwrap_or_default()),
            false => (None, path),
        };
        // `git show` may print a newline before the first file.
        let count = |bytes: &[u8]| line(bytes.trim_ascii()).parse().ok();
        found.push(FileCount { path: line(path), from, added: count(added), removed: count(removed) });
    }
    found
}

/// Parses `git for-each-ref` in the format [`BRANCH`].
pub(super) fn branches(printed: &[u8]) -> Vec<Branch> {
    let lines = printed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .filter_map(|record| {
            let fields: Vec<&[u8]> = record.split(|byte| *byte == 0).collect();
            let [head, name, commit, upstream, date, subject] = fields[..] else { return None };
            Some(Branch {
                name: line(name),
                current: head == b"*",
                commit: line(commit),
                upstream: Some(line(upstream)).filter(|upstream| !upstream.is_empty()),
                date: line(date),
                subject: line(subject),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_renamed_file_has_two_paths() {
        let printed = b"# branch.oid (initial)\0# branch.head main\0# branch.ab +2 -1\0\
            2 R. N... 100644 100644 100644 aaa bbb R100 new name\0old\nname\0? a\x1bb\0\
            u UU N... 1 2 3 4 a b c both\0";
        let found = status(printed);
        assert_eq!(
            (found.branch.as_deref(), found.commit, found.ahead, found.behind),
            (Some("main"), None, 2, 1)
        );
        let shown: Vec<_> =
            found.entries.iter().map(|e| (&*e.path, e.from.as_deref(), e.staged, e.unstaged)).collect();
        let renamed = ("new name", Some("old\\x0aname"), 'R', '.');
        assert_eq!(shown, [renamed, ("a\\x1bb", None, '.', '?'), ("both", None, 'U', 'U')]);
    }

    #[test]
    fn counts_of_renamed_and_binary_files() {
        let found = counts(b"1\t2\ta.txt\0-\t-\tpicture\x000\t0\t\0old\0new\0");
        assert_eq!(
            found[0],
            FileCount { path: "a.txt".into(), from: None, added: Some(1), removed: Some(2) }
        );
        assert_eq!(found[1].added, None);
        assert_eq!((&*found[2].path, found[2].from.as_deref()), ("new", Some("old")));
        assert_eq!(found.len(), 3);
    }

    #[test]
    fn control_characters_of_authors_and_messages_are_escaped() {
        let printed = b"h\0s\0\x1b[31mEve\0e@x\0d\0HEAD -> main, tag: v1\0p1 p2\0sub\0one\n\x07two\n\0";
        let found = commits(printed);
        assert_eq!((&*found[0].author, &*found[0].body), ("\\x1b[31mEve", "one\n\\x07two"));
        assert_eq!((found[0].refs.len(), found[0].parents.len(), found.len()), (2, 2, 1));
    }
}

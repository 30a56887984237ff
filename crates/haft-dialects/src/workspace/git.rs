//! Shared by the git tools: the repository, and the form of commits and files.

use haft_core::{AbsPath, Context, Fault};
use schemars::JsonSchema;
use serde::Serialize;

use haft_ops::{self as ops, Commit, FileCount, Repository, StatusEntry, WorkingTree};

/// The longest reply of a git tool.
pub(super) const MAX_RESULT_CHARS: usize = 100_000;

/// A commit.
#[derive(Serialize, JsonSchema)]
pub(super) struct CommitInfo {
    /// Its hash
    hash: String,
    /// The beginning of the hash, enough to name it
    short: String,
    /// Who wrote it
    author: String,
    /// The author's address
    email: String,
    /// When it was written, as an ISO 8601 timestamp
    date: String,
    /// Branches and tags that point to it
    #[serde(skip_serializing_if = "Vec::is_empty")]
    refs: Vec<String>,
    /// The hashes of the commits before it
    parents: Vec<String>,
    /// The first line of its message
    subject: String,
    /// The rest of its message
    #[serde(skip_serializing_if = "String::is_empty")]
    body: String,
}

impl From<Commit> for CommitInfo {
    fn from(commit: Commit) -> Self {
        let Commit { hash, short, author, email, date, refs, parents, subject, body } = commit;
        Self { hash, short, author, email, date, refs, parents, subject, body }
    }
}

/// A file that was changed.
#[derive(Serialize, JsonSchema)]
pub(super) struct FileInfo {
    /// Its path relative to the workspace root
    path: String,
    /// Its path before, relative to the workspace root, where it was renamed
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// Lines that were added; null where it is no text
    added: Option<u64>,
    /// Lines that were removed; null where it is no text
    removed: Option<u64>,
}

impl From<FileCount> for FileInfo {
    fn from(file: FileCount) -> Self {
        let FileCount { path, from, added, removed } = file;
        Self { path, from, added, removed }
    }
}

/// How the files of a repository stand.
#[derive(Serialize, JsonSchema)]
pub(super) struct StatusInfo {
    /// The branch that is checked out; null where it is a commit
    branch: Option<String>,
    /// The commit that is checked out; null before the first one
    commit: Option<String>,
    /// The branch that it follows
    #[serde(skip_serializing_if = "Option::is_none")]
    upstream: Option<String>,
    /// How many commits the branch is ahead of the one that it follows
    #[serde(skip_serializing_if = "Option::is_none")]
    ahead: Option<u64>,
    /// How many commits the branch is behind the one that it follows
    #[serde(skip_serializing_if = "Option::is_none")]
    behind: Option<u64>,
    /// Whether nothing has changed since the last commit
    clean: bool,
    /// The files that have
    entries: Vec<EntryInfo>,
}

/// A file that has changed since the last commit.
#[derive(Serialize, JsonSchema)]
struct EntryInfo {
    /// Its path relative to the workspace root
    path: String,
    /// Its path before, relative to the workspace root, where it was renamed or copied
    #[serde(skip_serializing_if = "Option::is_none")]
    from: Option<String>,
    /// What is staged: `M` changed, `A` added, `D` deleted, `R` renamed, `C` copied, `T` of another kind, `U` in conflict, `.` nothing
    staged: char,
    /// What is not staged: the same, or `?` for a file that git does not know
    unstaged: char,
}

impl From<WorkingTree> for StatusInfo {
    fn from(standing: WorkingTree) -> Self {
        let WorkingTree { branch, commit, upstream, ahead, behind, entries } = standing;
        let follows = upstream.is_some();
        let entry = |StatusEntry { path, from, staged, unstaged }| EntryInfo { path, from, staged, unstaged };
        Self {
            branch,
            commit,
            upstream,
            ahead: follows.then_some(ahead),
            behind: follows.then_some(behind),
            clean: entries.is_empty(),
            entries: entries.into_iter().map(entry).collect(),
        }
    }
}

/// The repository of a folder, by default of the workspace.
pub(super) fn repository(folder: Option<&str>, cx: &Context) -> Result<Repository, Fault> {
    let named = folder.unwrap_or(".");
    let dir = ops::existing_folder(named, cx.workspace().root(), cx)?.path;
    Ok(Repository { dir, named: named.to_owned() })
}

/// Resolves paths for git. They need not exist any more.
pub(super) fn paths(paths: &[String], cx: &Context) -> Result<Vec<AbsPath>, Fault> {
    let root = cx.workspace().root();
    let find = |path: &String| match path.as_str() {
        "." | "./" => Ok(root.clone()),
        path => ops::Entry::find(path, root, cx).map(|entry| entry.path),
    };
    paths.iter().map(find).collect()
}

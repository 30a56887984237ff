//! Git operations: status, diff, log, show, add, commit, branch, push. Git runs in the session's sandbox: programs that a
//! repository makes it run, such as filters and hooks, are confined like any command, and an operation that only reads
//! runs without write access. How git is started is in `call`, how its output is parsed in `parse`.

mod call;
mod parse;
mod push;

use std::ffi::OsString;
use std::path::Path;

use haft_core::{AbsPath, Claims, CommandLine, Context, Fault, FaultKind, Operation, Resource};
use haft_sandbox::names;

use super::shell::May;

pub use parse::{Branch, Commit, FileCount, StatusEntry, WorkingTree};
pub use push::{GitPush, PushPlan, PushStatus, Pushed};

/// A folder in a git repository.
#[derive(Clone, Debug)]
pub struct Repository {
    /// The working directory for git.
    pub dir: AbsPath,
    /// The path as the caller gave it, for messages.
    pub named: String,
}

/// The root of a repository as seen from the workspace, for the conversion of paths.
enum Top {
    /// In the workspace: this prefix makes a path of the repository one of the workspace.
    Below(String),
    /// Above the workspace: paths of the workspace have this prefix in the repository, whose root is the folder.
    Above(String, AbsPath),
}

impl Top {
    /// A path of the repository as a path of the workspace.
    fn shown(&self, path: &str) -> String {
        match self {
            Self::Below(prefix) => format!("{prefix}{path}"),
            Self::Above(prefix, top) => {
                path.strip_prefix(prefix).map_or_else(|| format!("{top}/{path}"), str::to_owned)
            }
        }
    }

    /// The prefix of paths in a diff.
    fn prefix(&self) -> &str {
        match self {
            Self::Below(prefix) => prefix,
            Self::Above(..) => "",
        }
    }
}

/// A path as a prefix of longer ones.
fn as_prefix(path: &Path) -> String {
    path.iter().map(|name| format!("{}/", names::show(name))).collect()
}

/// The name of a commit, branch or tag, checked so that git cannot take it for an option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision(String);

impl Revision {
    /// Checks a name: not empty, no leading `-`, no control characters.
    pub fn new(name: &str) -> Result<Self, Fault> {
        let wrong = if name.trim().is_empty() {
            "is empty"
        } else if name.starts_with('-') {
            "begins with `-`, like an option"
        } else if name.contains(char::is_control) {
            "contains a control character"
        } else {
            return Ok(Self(name.to_owned()));
        };
        let shown = names::show_on_a_line(name);
        Err(Fault::invalid(format!("`{shown}` is no name of a commit or branch: it {wrong}"))
            .hint("give a hash, a branch, a tag, or a form such as `HEAD~2`"))
    }
}

/// Reports the branch and the staged, unstaged and untracked changes of a working tree (`git status`).
#[derive(Clone, Debug)]
pub struct GitStatus(pub Repository);

/// Compares commits, the index and the working tree (`git diff`).
#[derive(Clone, Debug)]
pub struct GitDiff {
    /// The repository.
    pub repository: Repository,
    /// The two sides of the comparison.
    pub between: Between,
    /// Only these files; empty for all.
    pub paths: Vec<AbsPath>,
    /// Number of context lines around a change.
    pub around: u32,
}

/// The two sides of a diff.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Between {
    /// The index and the working tree.
    Unstaged,
    /// `HEAD` and the index.
    Staged,
    /// A commit and the working tree.
    Since(Revision),
    /// Two commits.
    Commits(Revision, Revision),
}

/// A diff, with the number of changed lines per file.
#[derive(Clone, Debug)]
pub struct GitDiffed {
    /// Lines added and removed, per file.
    pub files: Vec<FileCount>,
    /// The unified diff.
    pub text: String,
}

/// Lists commits, the latest first (`git log`).
#[derive(Clone, Debug)]
pub struct GitLog {
    /// The repository.
    pub repository: Repository,
    /// The revision to start from, or a range such as `main..topic`; `HEAD` if there is none.
    pub revision: Option<Revision>,
    /// Only commits that change these files; empty for all.
    pub paths: Vec<AbsPath>,
    /// Maximum number of commits.
    pub limit: usize,
    /// Number of commits to skip.
    pub skip: usize,
    /// Only commits whose author contains this text.
    pub author: Option<String>,
    /// Only commits whose message contains this text.
    pub message: Option<String>,
    /// Only commits after this date.
    pub since: Option<String>,
    /// Only commits before this date.
    pub until: Option<String>,
}

/// Shows one commit and its diff (`git show`).
#[derive(Clone, Debug)]
pub struct GitShow {
    /// The repository.
    pub repository: Repository,
    /// The commit.
    pub revision: Revision,
    /// Only these files; empty for all.
    pub paths: Vec<AbsPath>,
}

/// Stages changes, deletions included (`git add --all`).
#[derive(Clone, Debug)]
pub struct GitAdd {
    /// The repository.
    pub repository: Repository,
    /// Files and folders to stage.
    pub paths: Vec<AbsPath>,
}

/// Commits the staged changes (`git commit`).
#[derive(Clone, Debug)]
pub struct GitCommit {
    /// The repository.
    pub repository: Repository,
    /// The commit message.
    pub message: String,
    /// Whether changes of tracked files are staged first.
    pub all: bool,
    /// Whether the commit replaces the last one.
    pub amend: bool,
}

/// Lists, creates, switches or deletes branches. The result is the list of branches afterwards.
#[derive(Clone, Debug)]
pub struct GitBranch {
    /// The repository.
    pub repository: Repository,
    /// The action.
    pub action: BranchAction,
}

/// An action on branches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchAction {
    /// Only list the branches.
    List,
    /// Create a branch, at a commit or at `HEAD`.
    Create(Revision, Option<Revision>),
    /// Switch to a branch.
    Switch(Revision),
    /// Delete a branch; with force also an unmerged one.
    Delete(Revision, Force),
}

/// Whether to delete a branch that is not merged, with the commits that only it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// Delete it.
    Yes,
    /// Refuse to delete it.
    No,
}

impl Operation for GitStatus {
    type Output = WorkingTree;

    fn unavailable(_cx: &Context) -> Option<Fault> {
        crate::without_sandbox()
    }

    fn claims(&self) -> Claims {
        reads(&self.0)
    }

    async fn run(self, cx: &Context) -> Result<WorkingTree, Fault> {
        self.0.status(cx).await
    }
}

impl Operation for GitDiff {
    type Output = GitDiffed;

    fn unavailable(_cx: &Context) -> Option<Fault> {
        crate::without_sandbox()
    }

    fn claims(&self) -> Claims {
        reads(&self.repository)
    }

    async fn run(self, cx: &Context) -> Result<GitDiffed, Fault> {
        let mut args: Vec<OsString> = Vec::new();
        match &self.between {
            Between::Unstaged => {}
            Between::Staged => args.push("--cached".into()),
            Between::Since(revision) => args.push(revision.0.clone().into()),
            Between::Commits(from, to) => args.extend([from, to].map(|revision| OsString::from(&revision.0))),
        }
        self.repository.diff("diff", &args, self.around, &self.paths, cx).await
    }
}

impl Operation for GitLog {
    type Output = Vec<Commit>;

    fn unavailable(_cx: &Context) -> Option<Fault> {
        crate::without_sandbox()
    }

    fn claims(&self) -> Claims {
        reads(&self.repository)
    }

    async fn run(self, cx: &Context) -> Result<Vec<Commit>, Fault> {
        let mut args: Vec<OsString> = vec![
            "log".into(),
            "-z".into(),
            format!("--format=tformat:{}", parse::COMMIT).into(),
            format!("--max-count={}", self.limit).into(),
            format!("--skip={}", self.skip).into(),
            "--no-show-signature".into(),
        ];
        let mut only = |option: &str, value: &Option<String>| {
            args.extend(value.iter().map(|value| OsString::from(format!("--{option}={value}"))));
        };
        only("author", &self.author);
        only("grep", &self.message);
        only("since", &self.since);
        only("until", &self.until);
        args.extend(["--fixed-strings", "--regexp-ignore-case"].map(OsString::from));
        args.extend(self.revision.map(|revision| OsString::from(revision.0)));
        args.push("--".into());
        args.extend(self.paths.iter().map(|path| path.as_path().into()));
        match self.repository.git(May::Read, args, cx).await {
            Ok(printed) => Ok(parse::commits(&printed)),
            // A repository without any commit has an empty history.
            Err(fault) if fault.message().contains("does not have any commits yet") => Ok(Vec::new()),
            Err(fault) => Err(fault),
        }
    }
}

impl Operation for GitShow {
    type Output = (Commit, GitDiffed);

    fn unavailable(_cx: &Context) -> Option<Fault> {
        crate::without_sandbox()
    }

    fn claims(&self) -> Claims {
        reads(&self.repository)
    }

    async fn run(self, cx: &Context) -> Result<(Commit, GitDiffed), Fault> {
        let commit = self.repository.commit(&self.revision, cx).await?;
        let args = ["--format=".into(), "--no-show-signature".into(), self.revision.0.clone().into()];
        let diff = self.repository.diff("show", &args, 3, &self.paths, cx).await?;
        Ok((commit, diff))
    }
}

impl Operation for GitAdd {
    type Output = WorkingTree;

    fn unavailable(_cx: &Context) -> Option<Fault> {
        crate::without_sandbox()
    }

    fn claims(&self) -> Claims {
        writes(&self.repository)
    }

    async fn run(self, cx: &Context) -> Result<WorkingTree, Fault> {
        let mut args: Vec<OsString> = ["add", "--all", "--"].map(Into::into).into();
        args.extend(self.paths.iter().map(|path| path.as_path().into()));
        self.repository.git(May::Write, args, cx).await?;
        self.repository.status(cx).await
    }
}

impl Operation for GitCommit {
    type Output = (Commit, Vec<FileCount>);

    fn unavailable(_cx: &Context) -> Option<Fault> {
        crate::without_sandbox()
    }

    fn claims(&self) -> Claims {
        match self.amend {
            true => loses(&self.repository, &["commit", "--amend"]),
            false => writes(&self.repository),
        }
    }

    async fn run(self, cx: &Context) -> Result<(Commit, Vec<FileCount>), Fault> {
        let mut args: Vec<OsString> =
            vec!["commit".into(), "--quiet".into(), "-m".into(), self.message.into()];
        if self.all {
            args.push("--all".into());
        }
        if self.amend {
            args.push("--amend".into());
        }
        self.repository.git(May::Write, args, cx).await?;
        let head = Revision("HEAD".to_owned());
        let commit = self.repository.commit(&head, cx).await?;
        let args = ["show", "--format=", "--numstat", "-z", "--no-renames", "HEAD"].map(OsString::from);
        let files = parse::counts(&self.repository.git(May::Read, args.into(), cx).await?);
        Ok((commit, self.repository.placed(files, cx)))
    }
}

impl Operation for GitBranch {
    type Output = Vec<Branch>;

    fn unavailable(_cx: &Context) -> Option<Fault> {
        crate::without_sandbox()
    }

    fn claims(&self) -> Claims {
        match &self.action {
            BranchAction::List => reads(&self.repository),
            BranchAction::Delete(name, Force::Yes) => loses(&self.repository, &["branch", "-D", &name.0]),
            _ => writes(&self.repository),
        }
    }

    async fn run(self, cx: &Context) -> Result<Vec<Branch>, Fault> {
        let args: Vec<OsString> = match &self.action {
            BranchAction::List => Vec::new(),
            BranchAction::Create(name, from) => {
                let from = from.iter().map(|from| from.0.as_str());
                ["branch", "--no-track", &name.0].into_iter().chain(from).map(Into::into).collect()
            }
            BranchAction::Switch(name) => ["switch", "--quiet", "--no-guess", &name.0].map(Into::into).into(),
            BranchAction::Delete(name, force) => {
                let option = if *force == Force::Yes { "-D" } else { "-d" };
                ["branch", option, &name.0].map(Into::into).into()
            }
        };
        if !args.is_empty() {
            self.repository.git(May::Write, args, cx).await?;
        }
        let format = format!("--format={}", parse::BRANCH);
        let args = ["for-each-ref".into(), format.into(), "refs/heads".into()];
        Ok(parse::branches(&self.repository.git(May::Read, args.into(), cx).await?))
    }
}

fn reads(repository: &Repository) -> Claims {
    Claims::none().read(Resource::Path(repository.dir.clone()))
}

fn writes(repository: &Repository) -> Claims {
    Claims::none().write(Resource::Path(repository.dir.clone()))
}

/// Claims for an action that can lose commits. It also claims its command line, so that rules about commands apply and
/// approval for edits is not enough.
fn loses(repository: &Repository, words: &[&str]) -> Claims {
    let line = format!("git {}", words.join(" "));
    writes(repository).write(Resource::Command(CommandLine::new(line)))
}

impl Repository {
    async fn status(&self, cx: &Context) -> Result<WorkingTree, Fault> {
        let args =
            ["status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all"].map(OsString::from);
        let mut tree = parse::status(&self.git(May::Read, args.into(), cx).await?);
        let top = self.top(cx);
        for entry in &mut tree.entries {
            entry.path = top.shown(&entry.path);
            entry.from = entry.from.take().map(|from| top.shown(&from));
        }
        Ok(tree)
    }

    /// Converts the paths of files to paths of the workspace.
    fn placed(&self, mut files: Vec<FileCount>, cx: &Context) -> Vec<FileCount> {
        let top = self.top(cx);
        for file in &mut files {
            file.path = top.shown(&file.path);
            file.from = file.from.take().map(|from| top.shown(&from));
        }
        files
    }

    /// The root of the repository as seen from the workspace.
    fn top(&self, cx: &Context) -> Top {
        let root = cx.workspace().root().as_path();
        let mut folders = self.dir.as_path().ancestors();
        let top = folders.find(|folder| haft_sandbox::user::exists(&folder.join(".git"))).unwrap_or(root);
        match (top.strip_prefix(root), root.strip_prefix(top)) {
            (Err(_), Ok(above)) => Top::Above(as_prefix(above), AbsPath::lexical(top)),
            (below, _) => Top::Below(as_prefix(below.unwrap_or(Path::new("")))),
        }
    }

    async fn commit(&self, revision: &Revision, cx: &Context) -> Result<Commit, Fault> {
        let format = format!("--format=tformat:{}", parse::COMMIT);
        let args = ["log", "-z", "--max-count=1", "--no-show-signature", &format, &revision.0, "--"];
        let found = parse::commits(&self.git(May::Read, args.map(OsString::from).into(), cx).await?);
        found.into_iter().next().ok_or_else(|| {
            Fault::new(FaultKind::NotFound, format!("`{}` is no commit", names::show_on_a_line(&revision.0)))
        })
    }

    /// Runs `git diff` or `git show` twice: for the counts per file, and for the text.
    async fn diff(
        &self,
        command: &str,
        sides: &[OsString],
        around: u32,
        paths: &[AbsPath],
        cx: &Context,
    ) -> Result<GitDiffed, Fault> {
        let top = self.top(cx);
        let [before, after] = [("src", "a"), ("dst", "b")]
            .map(|(side, mark)| format!("--{side}-prefix={mark}/{}", top.prefix()));
        // External diff programs and text conversions would make the output unpredictable, and run programs.
        let with = |form: &[&str]| -> Vec<OsString> {
            let mut args = vec![command.into(), "--no-ext-diff".into(), "--no-textconv".into()];
            args.extend(form.iter().map(OsString::from));
            args.extend(sides.iter().cloned());
            args.push("--".into());
            args.extend(paths.iter().map(|path| path.as_path().into()));
            args
        };
        let files = parse::counts(&self.git(May::Read, with(&["--numstat", "-z"]), cx).await?);
        let lines = format!("--unified={around}");
        let text = self.git(May::Read, with(&["--patch", &lines, &before, &after]), cx).await?;
        Ok(GitDiffed { files: self.placed(files, cx), text: parse::escaped(&text) })
    }
}

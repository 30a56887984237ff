//! What git knows of a repository, and a few changes of it. Git runs in the session's sandbox: what a repository makes
//! it run, such as filters and hooks, is confined like any command, and where nothing is to be changed nothing can be.

mod call;
mod parse;

use std::ffi::OsString;
use std::path::Path;

use haft_core::{AbsPath, Claims, CommandLine, Context, Fault, FaultKind, Operation, Resource};
use haft_sandbox::names;

use super::shell::May;

pub use parse::{Branch, Commit, FileCount, StatusEntry, WorkingTree};

/// A folder in a repository.
#[derive(Clone, Debug)]
pub struct Repository {
    /// The folder that git is run in.
    pub dir: AbsPath,
    /// As it was asked for.
    pub named: String,
}

/// Where a repository's own paths start, seen from the workspace.
enum Top {
    /// In the workspace, with this before its paths.
    Below(String),
    /// Above the workspace, whose paths have this before them; the folder itself comes before all others.
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

    /// What comes before the paths in a diff.
    fn prefix(&self) -> &str {
        match self {
            Self::Below(prefix) => prefix,
            Self::Above(..) => "",
        }
    }
}

/// A path as the beginning of longer ones.
fn as_prefix(path: &Path) -> String {
    path.iter().map(|name| format!("{}/", names::show(name))).collect()
}

/// A commit, a branch or a tag, by a name that is no option.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Revision(String);

impl Revision {
    /// A name that git can be given.
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

/// What is changed and what is staged.
#[derive(Clone, Debug)]
pub struct GitStatus(pub Repository);

/// What differs.
#[derive(Clone, Debug)]
pub struct GitDiff {
    /// Where.
    pub repository: Repository,
    /// What is compared.
    pub between: Between,
    /// Only these files, if any are named.
    pub paths: Vec<AbsPath>,
    /// How many lines around a change are shown.
    pub around: u32,
}

/// What is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Between {
    /// What is staged, and the files.
    Unstaged,
    /// The last commit, and what is staged.
    Staged,
    /// A commit, and the files.
    Since(Revision),
    /// Two commits.
    Commits(Revision, Revision),
}

/// What differs, file by file and as text.
#[derive(Clone, Debug)]
pub struct GitDiffed {
    /// Lines added and removed.
    pub files: Vec<FileCount>,
    /// A unified diff.
    pub text: String,
}

/// Commits, the latest first.
#[derive(Clone, Debug)]
pub struct GitLog {
    /// Where.
    pub repository: Repository,
    /// From where on back, or two with `..` between them.
    pub revision: Option<Revision>,
    /// Only those that touch these files, if any are named.
    pub paths: Vec<AbsPath>,
    /// So many at most.
    pub limit: usize,
    /// So many are passed over.
    pub skip: usize,
    /// Only of authors that this is a part of.
    pub author: Option<String>,
    /// Only with this text in their message.
    pub message: Option<String>,
    /// Only after this date.
    pub since: Option<String>,
    /// Only before this date.
    pub until: Option<String>,
}

/// One commit with what it changed.
#[derive(Clone, Debug)]
pub struct GitShow {
    /// Where.
    pub repository: Repository,
    /// Which.
    pub revision: Revision,
    /// Only these files, if any are named.
    pub paths: Vec<AbsPath>,
}

/// Stages changes.
#[derive(Clone, Debug)]
pub struct GitAdd {
    /// Where.
    pub repository: Repository,
    /// What.
    pub paths: Vec<AbsPath>,
}

/// Commits what is staged.
#[derive(Clone, Debug)]
pub struct GitCommit {
    /// Where.
    pub repository: Repository,
    /// The message.
    pub message: String,
    /// Whether changes of files that git knows are staged first.
    pub all: bool,
    /// Whether the last commit is replaced.
    pub amend: bool,
}

/// Lists or changes branches.
#[derive(Clone, Debug)]
pub struct GitBranch {
    /// Where.
    pub repository: Repository,
    /// What to do.
    pub action: BranchAction,
}

/// What can be done with branches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BranchAction {
    /// Nothing.
    List,
    /// Makes one, at a commit or where the work is.
    Create(Revision, Option<Revision>),
    /// Goes to one.
    Switch(Revision),
    /// Removes one; by force also one that is not merged.
    Delete(Revision, Force),
}

/// Whether something is done although it loses something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Force {
    /// It is.
    Yes,
    /// It is not.
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

/// What takes something away is no mere change of files: the command itself is claimed, too.
fn loses(repository: &Repository, words: &[&str]) -> Claims {
    let line = format!("git {}", words.join(" "));
    writes(repository).write(Resource::Command(CommandLine::new(line)))
}

impl Repository {
    async fn status(&self, cx: &Context) -> Result<WorkingTree, Fault> {
        let args =
            ["status", "--porcelain=v2", "--branch", "-z", "--untracked-files=all"].map(OsString::from);
        let mut tree = parse::standing(&self.git(May::Read, args.into(), cx).await?);
        let top = self.top(cx);
        for entry in &mut tree.entries {
            entry.path = top.shown(&entry.path);
            entry.from = entry.from.take().map(|from| top.shown(&from));
        }
        Ok(tree)
    }

    /// Files with their paths as the workspace has them.
    fn placed(&self, mut files: Vec<FileCount>, cx: &Context) -> Vec<FileCount> {
        let top = self.top(cx);
        for file in &mut files {
            file.path = top.shown(&file.path);
            file.from = file.from.take().map(|from| top.shown(&from));
        }
        files
    }

    /// Where the repository's own paths start, seen from the workspace.
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

    /// What differs, counted and as text.
    async fn diff(
        &self,
        command: &str,
        what: &[OsString],
        around: u32,
        paths: &[AbsPath],
        cx: &Context,
    ) -> Result<GitDiffed, Fault> {
        let top = self.top(cx);
        let [before, after] = [("src", "a"), ("dst", "b")]
            .map(|(side, mark)| format!("--{side}-prefix={mark}/{}", top.prefix()));
        let with = |form: &[&str]| -> Vec<OsString> {
            let mut args = vec![command.into(), "--no-ext-diff".into(), "--no-textconv".into()];
            args.extend(form.iter().map(OsString::from));
            args.extend(what.iter().cloned());
            args.push("--".into());
            args.extend(paths.iter().map(|path| path.as_path().into()));
            args
        };
        let files = parse::counts(&self.git(May::Read, with(&["--numstat", "-z"]), cx).await?);
        let lines = format!("--unified={around}");
        let text = self.git(May::Read, with(&["--patch", &lines, &before, &after]), cx).await?;
        Ok(GitDiffed { files: self.placed(files, cx), text: parse::harmless(&text) })
    }
}

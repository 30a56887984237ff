//! Pushing a branch to a remote (`git push`): the only git operation with network access, for one command. What would be
//! pushed is found out before anybody is asked. Credentials are hidden from the sandbox, so a remote that wants some is
//! answered with how the user can push. Hooks of the repository do not run: they would run with network access.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_core::{Claims, CommandLine, Context, Fault, FaultKind, Operation, Preview, Resource, suggest};
use haft_sandbox::sandbox::Network;
use haft_sandbox::{Exit, names, user};

use super::{Commit, Force, Repository, Revision, parse, writes};
use crate::shell::May;

/// Timeout of a push.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Most commits that a question and a reply list.
const MAX_COMMITS: usize = 50;
/// Most commits that the reason of a question names.
const MAX_NAMED: usize = 3;
/// What a push must not change in a repository on this machine: git would run programs by it.
const KEPT: [&str; 3] = ["config", "hooks", "info"];
/// Messages by which git and ssh report that they lack credentials.
const NO_CREDENTIALS: [&str; 9] = [
    "could not read Username",
    "could not read Password",
    "Authentication failed",
    "terminal prompts disabled",
    "Permission denied (publickey",
    "Permission denied, please try again",
    "Host key verification failed",
    "Could not read from remote repository",
    "The requested URL returned error: 403",
];

/// Pushes a branch to the branch of the same name of a remote.
#[derive(Clone, Debug)]
pub struct GitPush {
    repository: Repository,
    remote: Option<Revision>,
    branch: Option<Revision>,
    force: Force,
    /// Whether the branch follows that of the remote from then on.
    follow: bool,
    plan: Option<PushPlan>,
}

/// What a push would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushPlan {
    /// The name of the remote.
    pub remote: String,
    /// Its addresses, without passwords.
    pub urls: Vec<String>,
    /// The branch.
    pub branch: String,
    /// The commits that the remote is not known to have, the latest first; not more than a limit.
    pub commits: Vec<Commit>,
    /// Whether there are more commits than listed.
    pub more: bool,
    /// Whether commits of the remote may be replaced.
    pub forced: bool,
    /// Addresses that are folders of this machine.
    folders: Vec<PathBuf>,
}

/// The result of a push.
#[derive(Clone, Debug)]
pub struct Pushed {
    /// What was pushed.
    pub plan: PushPlan,
    /// What became of the branch of the remote.
    pub status: PushStatus,
    /// Remarks for the model.
    pub notes: Vec<String>,
}

/// What became of a branch of a remote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PushStatus {
    /// It has the new commits.
    Updated,
    /// It is new.
    Created,
    /// Commits of it were replaced.
    Forced,
    /// It had everything already.
    UpToDate,
}

impl GitPush {
    /// A push of a branch, by default the one that is checked out, to a remote, by default the one that it follows.
    pub fn new(
        repository: Repository,
        remote: Option<&str>,
        branch: Option<&str>,
        force: Force,
        follow: bool,
    ) -> Result<Self, Fault> {
        let revision = |name: Option<&str>| name.map(Revision::new).transpose();
        let (remote, branch) = (revision(remote)?, revision(branch)?);
        if let Some(address) = remote.as_ref().filter(|remote| remote.0.contains(['/', ':', '\\'])) {
            return Err(Fault::invalid(format!("`{}` is no name of a remote", address.0)).hint(
                "give the name of a remote, such as `origin`; the user adds others with `git remote add`",
            ));
        }
        Ok(Self { repository, remote, branch, force, follow, plan: None })
    }

    /// What the push would do; known after `check`.
    pub fn plan(&self) -> Option<&PushPlan> {
        self.plan.as_ref()
    }
}

impl PushPlan {
    /// What the push would do, in one sentence.
    pub fn in_words(&self) -> String {
        let Self { remote, branch, commits, more, forced, .. } = self;
        let count = match (commits.len(), more) {
            (count, true) => format!("more than {count} commits"),
            (0, false) => "no commits that it lacks, as far as is known here".to_owned(),
            (1, false) => "1 commit".to_owned(),
            (count, false) => format!("{count} commits"),
        };
        let named: Vec<String> = commits
            .iter()
            .take(MAX_NAMED)
            .map(|commit| format!("{} {}", commit.short, commit.subject))
            .collect();
        let named = if named.is_empty() { String::new() } else { format!(" ({})", named.join("; ")) };
        let force = if *forced { ", replacing what is there" } else { "" };
        format!(
            "`{branch}` would be pushed to `{remote}`, {}: {count}{named}{force}",
            self.urls.join(" and ")
        )
    }

    fn listed(&self) -> String {
        let mut text = format!("git push {} {}\n", self.remote, self.branch);
        self.urls.iter().for_each(|url| text.push_str(&format!("to {url}\n")));
        for commit in &self.commits {
            text.push_str(&format!("{} {} ({})\n", commit.short, commit.subject, commit.author));
        }
        if self.more {
            text.push_str("and more\n");
        }
        text
    }
}

impl Operation for GitPush {
    type Output = Pushed;

    fn unavailable(_cx: &Context) -> Option<Fault> {
        crate::without_sandbox()
    }

    fn claims(&self) -> Claims {
        let force = (self.force == Force::Yes).then_some("--force-with-lease");
        let names = [&self.remote, &self.branch].into_iter().flatten().map(|name| name.0.as_str());
        let words: Vec<&str> = ["git", "push"].into_iter().chain(force).chain(names).collect();
        writes(&self.repository).write(Resource::Command(CommandLine::new(words.join(" "))))
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        let branch = self.repository.branch_to_push(self.branch.as_ref(), cx).await?;
        let remote = self.repository.remote_for(self.remote.as_ref(), &branch, cx).await?;
        let addresses = self.repository.lines(["remote", "get-url", "--push", "--all", &remote], cx).await?;
        let (commits, more) = self.repository.unpushed(&remote, &branch, cx).await?;
        let folder = |address: &String| local_folder(address, self.repository.dir.as_path());
        let plan = PushPlan {
            folders: addresses.iter().filter_map(folder).collect(),
            urls: addresses.iter().map(|address| without_password(address)).collect(),
            remote,
            branch,
            commits,
            more,
            forced: self.force == Force::Yes,
        };
        let preview = Preview::new(plan.listed());
        self.plan = Some(plan);
        Ok(Some(preview))
    }

    async fn run(self, cx: &Context) -> Result<Pushed, Fault> {
        let Some(plan) = self.plan else {
            return Err(Fault::new(FaultKind::Internal, "a push was not checked before it ran"));
        };
        let branch = format!("refs/heads/{0}:refs/heads/{0}", plan.branch);
        let mut args: Vec<OsString> =
            ["-c", "core.hooksPath=/dev/null", "-c", "protocol.ext.allow=never"].map(Into::into).into();
        args.extend(["push", "--porcelain"].map(OsString::from));
        args.extend(plan.forced.then(|| OsString::from("--force-with-lease")));
        args.extend(self.follow.then(|| OsString::from("--set-upstream")));
        args.extend([plan.remote.clone().into(), branch.into()]);
        let program = self.repository.program(May::Write, args, cx)?;
        let mut program = program
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ASKPASS", "")
            .env("SSH_ASKPASS", "")
            .env("GIT_SSH_COMMAND", "ssh -oBatchMode=yes");
        let is_local = plan.folders.len() == plan.urls.len();
        program.network = (!is_local).then_some(Network::On);
        program.also = plan.folders.clone();
        let kept = |folder: &PathBuf| KEPT.map(|name| folder.join(name));
        program.except = plan.folders.iter().flat_map(kept).filter(|path| user::exists(path)).collect();
        let ran = program.run(None, TIMEOUT, cx).await?;
        let printed = format!("{}\n{}", ran.err.text(), ran.out.text());
        match ran.exit {
            Exit::Code(0) => {}
            Exit::Cancelled => return Err(ran.cancelled(cx)),
            Exit::TimedOut => {
                let message = format!("`git push` was ended after {} seconds", TIMEOUT.as_secs());
                return Err(Fault::new(FaultKind::Timeout, message).with("output", printed));
            }
            _ => return Err(self.repository.push_failed(&plan, &printed)),
        }
        let flag =
            ran.out.text().lines().find_map(|line| line.split_once('\t').map(|(flag, _)| flag.to_owned()));
        let status = match flag.as_deref() {
            Some("=") => PushStatus::UpToDate,
            Some("*") => PushStatus::Created,
            Some("+") => PushStatus::Forced,
            _ => PushStatus::Updated,
        };
        let mut notes = Vec::new();
        if self.repository.has_hook("pre-push", cx).await {
            notes.push(
                "the repository's hook `pre-push` did not run: hooks get no network; run its checks with other calls"
                    .to_owned(),
            );
        }
        Ok(Pushed { plan, status, notes })
    }
}

impl Repository {
    /// The lines that git prints.
    async fn lines<const N: usize>(&self, args: [&str; N], cx: &Context) -> Result<Vec<String>, Fault> {
        let printed = self.git(May::Read, args.map(OsString::from).into(), cx).await?;
        let printed = String::from_utf8_lossy(&printed).into_owned();
        Ok(printed.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
    }

    /// The value of a setting, if it is set.
    async fn setting(&self, name: &str, cx: &Context) -> Option<String> {
        self.lines(["config", "--get", name], cx).await.ok()?.into_iter().next()
    }

    /// The branch that is meant, which must exist.
    async fn branch_to_push(&self, named: Option<&Revision>, cx: &Context) -> Result<String, Fault> {
        let branch = match named {
            Some(name) => name.0.clone(),
            None => {
                // Fails where a commit is checked out, and outside of a repository, which the next call tells.
                let head = self.lines(["symbolic-ref", "--quiet", "HEAD"], cx).await.unwrap_or_default();
                let branch =
                    head.first().and_then(|head| head.strip_prefix("refs/heads/")).map(str::to_owned);
                self.lines(["rev-parse", "--git-dir"], cx).await?;
                branch.ok_or_else(|| {
                    Fault::failed("no branch is checked out, but a commit")
                        .hint("name the branch with `branch`")
                })?
            }
        };
        let all = self.lines(["for-each-ref", "--format=%(refname:short)", "refs/heads"], cx).await?;
        if all.contains(&branch) {
            return Ok(branch);
        }
        if all.is_empty() {
            return Err(Fault::failed("the repository has no commit yet, so there is nothing to push")
                .hint("make one with git_add and git_commit"));
        }
        let near = suggest::nearest(&branch, all.iter().map(String::as_str), 3);
        let hint = match near.is_empty() {
            true => "git_branch lists the branches".to_owned(),
            false => format!("did you mean {}?", suggest::or_list(&near)),
        };
        let message = format!("there is no branch `{}`", names::show_on_a_line(&branch));
        Err(Fault::new(FaultKind::NotFound, message).hint(hint))
    }

    /// The remote that is meant: by name, or the one that the settings of the branch say, or the only one, or `origin`.
    async fn remote_for(
        &self,
        named: Option<&Revision>,
        branch: &str,
        cx: &Context,
    ) -> Result<String, Fault> {
        let all = self.lines(["remote"], cx).await?;
        let mut wanted = named.map(|name| name.0.clone());
        for setting in [
            format!("branch.{branch}.pushRemote"),
            "remote.pushDefault".to_owned(),
            format!("branch.{branch}.remote"),
        ] {
            if wanted.is_none() {
                wanted = self.setting(&setting, cx).await;
            }
        }
        let usual = || match all.as_slice() {
            [only] => Some(only.clone()),
            several => several.iter().find(|remote| *remote == "origin").cloned(),
        };
        match wanted.or_else(usual) {
            Some(remote) if all.contains(&remote) => Ok(remote),
            None if all.is_empty() => Err(Fault::new(FaultKind::NotFound, "the repository has no remote")
                .hint("have the user add one with `git remote add origin URL`")),
            None => Err(Fault::invalid("which remote is meant is not certain")
                .hint(format!("name one with `remote`: {}", all.join(", ")))),
            Some(remote) => {
                let list: Vec<&str> = all.iter().map(String::as_str).collect();
                let hint = match list.is_empty() {
                    true => "have the user add one with `git remote add`".to_owned(),
                    false => format!("there is {}", suggest::or_list(&list)),
                };
                let message = format!("there is no remote `{}`", names::show_on_a_line(&remote));
                Err(Fault::new(FaultKind::NotFound, message).hint(hint))
            }
        }
    }

    /// The commits that a remote is not known to have, and whether there are more than listed.
    async fn unpushed(&self, remote: &str, branch: &str, cx: &Context) -> Result<(Vec<Commit>, bool), Fault> {
        let format = format!("--format=tformat:{}", parse::COMMIT);
        let (count, not) = (format!("--max-count={}", MAX_COMMITS + 1), format!("--remotes={remote}"));
        let branch = format!("refs/heads/{branch}");
        let args = ["log", "-z", "--no-show-signature", &format, &count, &branch, "--not", &not, "--"];
        let printed = self.git(May::Read, args.map(OsString::from).into(), cx).await?;
        let mut commits = parse::commits(&printed);
        let more = commits.len() > MAX_COMMITS;
        commits.truncate(MAX_COMMITS);
        Ok((commits, more))
    }

    async fn has_hook(&self, name: &str, cx: &Context) -> bool {
        let path = format!("hooks/{name}");
        // Reading switches hooks off, so their folder is asked for without that.
        let args = ["rev-parse", "--git-path", &path].map(OsString::from);
        let Ok(mut program) = self.program(May::Write, args.into(), cx) else { return false };
        program.may = May::Read;
        let Ok(ran) = program.run(None, Duration::from_secs(30), cx).await else { return false };
        let printed = String::from_utf8_lossy(&ran.out.bytes()).trim().to_owned();
        ran.exit == Exit::Code(0) && !printed.is_empty() && user::exists(&self.dir.as_path().join(printed))
    }

    /// The fault for a push that failed, by what git printed.
    fn push_failed(&self, plan: &PushPlan, printed: &str) -> Fault {
        let PushPlan { remote, branch, urls, folders, .. } = plan;
        let has = |words: &str| printed.contains(words);
        let by_hand =
            format!("nothing was pushed; ask the user to run `git push {remote} {branch}` in a terminal");
        let is_local = folders.len() == urls.len();
        let fault = if has("[rejected]") || has("non-fast-forward") || has("fetch first") || has("stale info")
        {
            Fault::new(FaultKind::Conflict, format!("`{branch}` of `{remote}` has commits that the branch here lacks"))
                .hint("nothing was pushed; have the user fetch and merge them, or, if they may be lost, use `force`")
        } else if has("[remote rejected]") {
            Fault::failed(format!("`{remote}` refuses the push")).hint("what it says is in `output`")
        } else if has("does not appear to be a git repository") || has("not found") && !is_local {
            Fault::new(FaultKind::NotFound, format!("`{remote}` ({}) is no repository", urls.join(" and ")))
                .hint("have the user look at the address with `git remote -v`")
        } else if has("Could not resolve host") || has("Connection refused") || has("Network is unreachable")
        {
            Fault::failed(format!("`{remote}` ({}) cannot be reached", urls.join(" and "))).hint(by_hand)
        } else if !is_local && NO_CREDENTIALS.iter().any(|words| has(words)) {
            Fault::new(
                FaultKind::AccessDenied,
                format!(
                    "`{remote}` ({}) wants credentials, which the sandbox hides from commands",
                    urls.join(" and ")
                ),
            )
            .hint(by_hand)
        } else {
            return self.failed(printed);
        };
        fault.with("output", printed.trim().chars().take(2000).collect::<String>())
    }
}

/// The folder that an address means, if it is a repository on this machine.
fn local_folder(address: &str, dir: &Path) -> Option<PathBuf> {
    let path = match address.strip_prefix("file://") {
        Some(path) => path.strip_prefix("localhost").unwrap_or(path),
        None if address.contains("://") || address.contains("::") => return None,
        // `host:path` is an address of ssh, unless a slash comes first.
        None if address.split('/').next().is_some_and(|first| first.contains(':')) => return None,
        None => address,
    };
    let path = dir.join(path);
    let is_repository =
        |path: &PathBuf| user::exists(&path.join("objects")) && user::exists(&path.join("HEAD"));
    [path.clone(), path.join(".git")].into_iter().find(is_repository)
}

/// An address without the password or token in it.
fn without_password(address: &str) -> String {
    let Some((scheme, rest)) = address.split_once("://") else { return address.to_owned() };
    let (authority, path) =
        rest.split_once('/').map_or((rest, None), |(authority, path)| (authority, Some(path)));
    let authority = match authority.rsplit_once('@') {
        Some((user, host)) => match user.split_once(':') {
            Some((user, _)) => format!("{user}:***@{host}"),
            None => format!("{user}@{host}"),
        },
        None => authority.to_owned(),
    };
    match path {
        Some(path) => format!("{scheme}://{authority}/{path}"),
        None => format!("{scheme}://{authority}"),
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, clippy::unwrap_used)] // makes the folders that it looks at
mod tests {
    use super::*;

    #[test]
    fn a_password_is_no_part_of_a_shown_address() {
        for (address, shown) in [
            ("https://me:secret@example.com/a/b.git", "https://me:***@example.com/a/b.git"),
            ("https://example.com/a@b", "https://example.com/a@b"),
            ("ssh://git@example.com", "ssh://git@example.com"),
            ("git@example.com:a/b.git", "git@example.com:a/b.git"),
            ("../b.git", "../b.git"),
        ] {
            assert_eq!(without_password(address), shown);
        }
    }

    #[test]
    fn only_repositories_on_this_machine_are_local() {
        let folder = tempfile::tempdir().unwrap();
        let bare = folder.path().join("b.git");
        for name in ["objects", "HEAD"] {
            std::fs::create_dir_all(bare.join(name)).unwrap();
        }
        assert_eq!(local_folder("b.git", folder.path()), Some(bare.clone()));
        assert_eq!(local_folder(&format!("file://{}", bare.display()), Path::new("/")), Some(bare));
        for address in
            ["https://example.com/b.git", "git@example.com:b.git", "ext::sh -c x", "missing.git", "/etc"]
        {
            assert_eq!(local_folder(address, folder.path()), None, "{address}");
        }
    }
}

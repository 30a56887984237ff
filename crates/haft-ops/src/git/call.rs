//! Starting git with its configurable helper programs switched off, and mapping its error messages to faults with a hint.
//! Knows nothing of what a command means.

use std::ffi::OsString;
use std::time::Duration;

use haft_core::{Context, Fault, FaultKind};
use haft_sandbox::Exit;

use super::Repository;
use crate::shell::{May, Program, find_program};

/// Timeout of one git command.
const TIMEOUT: Duration = Duration::from_secs(120);
/// Characters of git's output that a fault quotes.
const MAX_OUTPUT: usize = 2000;

/// Error messages by which git reports an unknown revision.
const UNKNOWN: [&str; 5] =
    ["unknown revision", "bad revision", "not a valid object name", "invalid reference", "not found"];

impl Repository {
    /// Runs git and returns its standard output.
    pub(super) async fn git(&self, may: May, args: Vec<OsString>, cx: &Context) -> Result<Vec<u8>, Fault> {
        let ran = self.program(may, args, cx)?.run(None, TIMEOUT, cx).await?;
        match ran.exit {
            Exit::Code(0) => Ok(ran.out.bytes()),
            Exit::Cancelled => Err(cx.cancelled_fault()),
            Exit::TimedOut => Err(Fault::new(
                FaultKind::Timeout,
                format!("`git` was ended after {} seconds", TIMEOUT.as_secs()),
            )
            .hint("name fewer paths")),
            _ => Err(self.failed(&format!("{}\n{}", ran.err.text(), ran.out.text()))),
        }
    }

    /// Git with arguments, as it is run in the sandbox.
    pub(super) fn program(&self, may: May, args: Vec<OsString>, cx: &Context) -> Result<Program, Fault> {
        let git = find_program("git", cx).ok_or_else(|| {
            Fault::new(
                FaultKind::NotFound,
                "`git` is not installed, or not in the `PATH` that haft was given",
            )
            .hint("have the user install it, such as with `apt install git` or `brew install git`")
        })?;
        let settings = ["core.fsmonitor=false", "core.pager=cat", "color.ui=false", "core.quotePath=false"];
        let mut program = Program::new(git, self.dir.clone()).args(["--no-pager", "--literal-pathspecs"]);
        program = match may {
            May::Read => program.args(["--no-optional-locks", "-c", "core.hooksPath=/dev/null"]),
            // Hooks run, as they do for a commit at a terminal. Background maintenance does not: the sandbox would
            // end it together with git.
            May::Write => program.args(["-c", "gc.auto=0", "-c", "maintenance.auto=false"]),
        };
        for setting in settings {
            program = program.args(["-c", setting]);
        }
        let mut program = program.args(args).env("GIT_CONFIG_NOSYSTEM", "1").env("LC_ALL", "C.UTF-8");
        program.may = may;
        Ok(program)
    }

    /// The fault for a failed git command, by the error message that it printed.
    pub(super) fn failed(&self, output: &str) -> Fault {
        // Git's hints are commands for a person at a terminal, not calls of a tool.
        let output: Vec<&str> = output.lines().filter(|line| !line.starts_with("hint:")).collect();
        let output: String = output.join("\n").trim().chars().take(MAX_OUTPUT).collect();
        let has = |words: &str| output.contains(words);
        let first = output.lines().next().unwrap_or("it does not say why");
        let first = first.trim_start_matches("fatal: ").trim_start_matches("error: ");
        // Outside of a repository, `git diff` takes its words for two files and explains itself.
        if has("not a git repository") || has("Not a git repository") || has("usage: git diff --no-index") {
            return Fault::new(FaultKind::NotFound, format!("`{}` is in no git repository", self.named))
                .hint("name a folder of one with `repository`, or have one made with `git init`")
                .at(&self.named);
        }
        let (kind, hint) = if UNKNOWN.iter().any(|words| has(words)) {
            (FaultKind::NotFound, "look for the name with git_log or git_branch")
        } else if has("did not match any file") {
            let path = first.split('\'').nth(1).unwrap_or(first);
            return Fault::new(FaultKind::NotFound, format!("git says: {first}"))
                .hint("git_status tells which files there are")
                .at(path)
                .with("output", &output);
        } else if has("nothing to commit") || has("no changes added") || has("nothing added to commit") {
            return Fault::failed("nothing is staged, so there is nothing to commit")
                .hint("stage changes first with git_add, or commit those of known files with `all`");
        } else if has("Please tell me who you are") || has("empty ident") {
            return Fault::failed("git does not know who commits")
                .hint("have the user set `user.name` and `user.email` with `git config --global`");
        } else if has("gpg failed") || has("failed to sign") {
            (FaultKind::Failed, "keys cannot be reached from the sandbox; have the user make signed commits")
        } else if has("Read-only file system") || has("Permission denied") {
            (
                FaultKind::AccessDenied,
                "the sandbox lets nothing outside of the workspace be changed, nor git's own settings",
            )
        } else if has("not fully merged") {
            (FaultKind::Failed, "merge it first, or delete it with `force` and lose what only it has")
        } else if has("would be overwritten") {
            (FaultKind::Conflict, "commit the changes first")
        } else if has("already exists") {
            (FaultKind::Exists, "switch to it, or choose another name")
        } else if has("dubious ownership") {
            (
                FaultKind::AccessDenied,
                "have the user say whose it is with `git config --global --add safe.directory`",
            )
        } else {
            (FaultKind::Failed, "what git printed is in `output`")
        };
        Fault::new(kind, format!("git says: {first}")).hint(hint).with("output", &output)
    }
}

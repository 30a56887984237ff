//! Running a program with its arguments in the session's sandbox. No shell reads them, so nothing in them has a
//! meaning of its own.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haft_core::{AbsPath, Context, Fault};
use haft_sandbox::sandbox::{Layer, Limits, Network, Output, Policy, Sandbox, Task, Visibility};

use super::blocked::blocked;
use super::{Attended, Moved, Ran, SandboxOptions, attend, enter, set_aside, unusable};

/// What a program may do to the files of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum May {
    /// Read them.
    Read,
    /// Change them.
    Write,
}

/// What a program sees besides the workspace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Surroundings {
    /// What commands see.
    #[default]
    All,
    /// What is needed to run programs.
    System,
}

/// A program to be run.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its path, or a name to be found in the `PATH` of the sandbox.
    pub program: OsString,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The folder it starts in.
    pub dir: AbsPath,
    /// Variables added to those that commands have.
    pub env: Vec<(OsString, OsString)>,
    /// What it may do to the files of the workspace.
    pub may: May,
    /// What else it sees.
    pub surroundings: Surroundings,
    /// Whether it reaches the network, where that is not as it is set.
    pub network: Option<Network>,
    /// Folders that it cannot do without where it sees only the system: where its interpreter is.
    pub needs: Vec<PathBuf>,
    /// Folders outside of the workspace that it may write to.
    pub also: Vec<PathBuf>,
    /// How much it may use where nothing is set.
    pub limits: Limits,
}

/// A sandbox that waits for its program.
#[derive(Debug)]
pub struct ReadySandbox(Sandbox);

impl ReadySandbox {
    /// Layers of these that do not stand, and why.
    pub fn lacks(&self, wanted: &[Layer]) -> Vec<(Layer, String)> {
        let report = self.0.report();
        let why = |layer: &Layer| report.missing.iter().find(|(missing, _)| missing == layer);
        let lacking = wanted.iter().filter(|layer| !report.has(**layer));
        lacking
            .map(|layer| {
                let why = why(layer).map_or("the setting `sandbox.layers` leaves it out", |(_, why)| why);
                (*layer, why.to_owned())
            })
            .collect()
    }
}

impl Program {
    /// A program that may change the workspace, as commands may.
    pub fn new(program: impl Into<OsString>, dir: AbsPath) -> Self {
        Self {
            program: program.into(),
            args: Vec::new(),
            dir,
            env: Vec::new(),
            may: May::Write,
            surroundings: Surroundings::All,
            network: None,
            needs: Vec::new(),
            also: Vec::new(),
            limits: Limits::default(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds a variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The command as somebody would type it.
    pub fn shown(&self) -> String {
        let program = Path::new(&self.program).file_name().unwrap_or(&self.program);
        let words = std::iter::once(program).chain(self.args.iter().map(OsString::as_os_str));
        words.map(quoted).collect::<Vec<_>>().join(" ")
    }

    /// Makes its sandbox, so that it is known which layers will stand.
    pub async fn hold(&self, cx: &Context) -> Result<ReadySandbox, Fault> {
        let policy = cx.session().extension::<SandboxOptions>().ruled(self.policy(cx), cx).await?;
        enter(&policy, Output::Apart, cx).await.map(ReadySandbox)
    }

    /// Runs it. The error output comes apart.
    pub async fn run(
        &self,
        held: Option<ReadySandbox>,
        timeout: Duration,
        cx: &Context,
    ) -> Result<Ran, Fault> {
        let start = Instant::now();
        let ReadySandbox(sandbox) = match held {
            Some(held) => held,
            None => self.hold(cx).await?,
        };
        let (report, policy) = (sandbox.report().clone(), self.policy(cx));
        let sandbox_options = cx.session().extension::<SandboxOptions>();
        let mut env = sandbox_options.env(cx).await;
        env.retain(|(name, _)| !self.env.iter().any(|(other, _)| other == name));
        env.extend(self.env.iter().cloned());
        let task = Task {
            program: self.program.clone(),
            args: self.args.clone(),
            dir: self.dir.as_path().to_owned(),
            env,
            input: Vec::new(),
            reports_dir: false,
        };
        let running = sandbox.run(task).await.map_err(unusable)?;
        let Attended { ended, mut out, mut err, asked } =
            cx.cooperative(attend(running, timeout, cx)).await?;
        let notes = set_aside(&ended, cx);
        let (exit, left, hit, took) = (ended.exit, ended.left, ended.hit, start.elapsed());
        let blocked = blocked(exit, &[out.end(), err.end()], &policy, &report);
        Ok(Ran {
            exit,
            out,
            err,
            took,
            left,
            moved: Moved::No,
            report,
            hit,
            meaning: None,
            blocked,
            asked,
            notes,
        })
    }

    fn policy(&self, cx: &Context) -> Policy {
        let sandbox_options = cx.session().extension::<SandboxOptions>();
        let mut policy = sandbox_options.policy_to(self.may, cx);
        policy.write.extend(self.also.iter().filter(|path| haft_sandbox::user::exists(path)).cloned());
        policy.network = self.network.unwrap_or(policy.network);
        let (limits, own) = (&mut policy.limits, self.limits);
        limits.memory = limits.memory.or(own.memory);
        limits.total_memory = limits.total_memory.or(own.total_memory);
        limits.total_cpu = limits.total_cpu.or(own.total_cpu);
        limits.cpu = limits.cpu.or(own.cpu);
        limits.processes = limits.processes.or(own.processes);
        limits.files = limits.files.or(own.files);
        limits.file_size = limits.file_size.or(own.file_size);
        if self.surroundings == Surroundings::System {
            policy.sees = Visibility::Listed;
            policy.read.extend(self.needs.iter().cloned());
        }
        policy
    }
}

/// Where a program is, by `PATH`. Folders of the workspace do not count: what lies there was written by
/// somebody else than whoever installed programs.
pub fn find(name: &str, cx: &Context) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = cx.session_workspace().folders();
    let is_ours = |dir: &Path| folders.iter().any(|folder| dir.starts_with(&folder.path));
    std::env::split_paths(&path)
        .filter(|dir| dir.is_absolute() && !is_ours(dir))
        .map(|dir| dir.join(name))
        .find(|path| haft_sandbox::user::exists(path))
}

/// A word as a shell would have to be given it.
fn quoted(word: &OsStr) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,@+%^".contains(c);
    let word = haft_sandbox::names::show(word);
    match !word.is_empty() && word.chars().all(plain) {
        true => word,
        false => format!("'{}'", word.replace('\'', r"'\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_quoted_where_a_shell_would_want_it() {
        let words = ["plain-1.2/x", "", "a b", "it's", "$(x)"];
        let shown: Vec<String> = words.iter().map(|word| quoted(word.as_ref())).collect();
        assert_eq!(shown, ["plain-1.2/x", "''", "'a b'", r"'it'\''s'", "'$(x)'"]);
    }
}

//! Runs a program with arguments in a sandbox of the session, without a shell: no character of an argument needs quoting.
//! Git, project tools and code use it. Knows nothing of those programs.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use haft_core::{AbsPath, Context, Fault};
use haft_sandbox::sandbox::{Layer, Limits, Network, Output, Policy, Slot, Task, Visibility};

use super::blocked::blocked;
use super::run::{Finished, set_aside_notes, start_fault, take_slot, wait_for_end};
use super::{Moved, Ran, SandboxOptions, recorded};

/// Access of a program to the files of the workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum May {
    /// Read only.
    Read,
    /// Read and write.
    Write,
}

/// Files outside the workspace that a program sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Surroundings {
    /// All that shell commands see.
    #[default]
    All,
    /// Only the system folders that programs need to run.
    System,
}

/// A program to run in the sandbox.
#[derive(Clone, Debug)]
pub struct Program {
    /// Path of the program, or a name to look up in the `PATH` of the sandbox.
    pub program: OsString,
    /// Arguments.
    pub args: Vec<OsString>,
    /// Working directory.
    pub dir: AbsPath,
    /// Environment variables in addition to those of shell commands.
    pub env: Vec<(OsString, OsString)>,
    /// Access to the files of the workspace.
    pub may: May,
    /// Files that it sees outside the workspace.
    pub surroundings: Surroundings,
    /// Network access. Default: as the settings say.
    pub network: Option<Network>,
    /// Folders that it needs besides the system folders, such as that of its interpreter; used with
    /// [`Surroundings::System`].
    pub needs: Vec<PathBuf>,
    /// Folders outside the workspace that it may write to.
    pub also: Vec<PathBuf>,
    /// Files and folders in these that it may only read.
    pub except: Vec<PathBuf>,
    /// Default resource limits, where the settings have none.
    pub limits: Limits,
}

/// A slot in the sandbox that has no program yet.
#[derive(Debug)]
pub struct ReadySandbox(Slot);

impl ReadySandbox {
    /// The layers among `wanted` that are not active, each with the reason.
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
    /// A program with write access to the workspace, like a shell command.
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
            except: Vec::new(),
            limits: Limits::default(),
        }
    }

    /// Adds arguments.
    #[must_use]
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<OsString>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Adds an environment variable.
    #[must_use]
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// The command line as a user would type it in a shell.
    pub fn shown(&self) -> String {
        let program = Path::new(&self.program).file_name().unwrap_or(&self.program);
        let words = std::iter::once(program).chain(self.args.iter().map(OsString::as_os_str));
        words.map(quoted).collect::<Vec<_>>().join(" ")
    }

    /// Sets up a sandbox for the program, so that the caller can check its layers before it runs anything.
    pub async fn hold(&self, cx: &Context) -> Result<ReadySandbox, Fault> {
        let policy = cx.session().extension::<SandboxOptions>().with_rules(self.policy(cx), cx).await?;
        take_slot(&policy, Output::Apart, cx).await.map(ReadySandbox)
    }

    /// Runs the program, in the sandbox `held` if there is one. Standard error comes apart.
    pub async fn run(
        &self,
        held: Option<ReadySandbox>,
        timeout: Duration,
        cx: &Context,
    ) -> Result<Ran, Fault> {
        let start = Instant::now();
        let ReadySandbox(slot) = match held {
            Some(held) => held,
            None => self.hold(cx).await?,
        };
        let (report, policy) = (slot.report().clone(), self.policy(cx));
        let sandbox_options = cx.session().extension::<SandboxOptions>();
        let mut env = sandbox_options.env(cx).await;
        env.retain(|(name, _)| !self.env.iter().any(|(other, _)| other == name));
        env.extend(self.env.iter().cloned());
        let record = recorded::options(&policy, cx);
        let recording = record.as_ref().map(|options| options.store.clone());
        let task = Task {
            program: self.program.clone(),
            args: self.args.clone(),
            dir: self.dir.as_path().to_owned(),
            env,
            input: Vec::new(),
            reports_dir: false,
            record,
            view: None,
        };
        let running = slot.run(task).await.map_err(start_fault)?;
        let (Finished { end, mut out, mut err, prompt }, changes, mut notes) = cx
            .cooperative(async {
                let mut finished = wait_for_end(running, timeout, cx).await?;
                let (changes, notes) = recorded::adopt(&mut finished.end, recording, &self.shown(), cx).await;
                Ok::<_, Fault>((finished, changes, notes))
            })
            .await?;
        notes.extend(set_aside_notes(&end, cx));
        let (exit, left, hit, took) = (end.exit, end.left, end.hit, start.elapsed());
        let blocked = blocked(exit, &[out.end(), err.end()], &policy, &report);
        Ok(Ran {
            exit,
            out,
            err,
            took,
            limit: timeout,
            left,
            moved: Moved::No,
            report,
            hit,
            meaning: None,
            blocked,
            trial: None,
            changes,
            prompt,
            notes,
        })
    }

    /// Policy of the sandbox. The user's limits take precedence over those of the program.
    fn policy(&self, cx: &Context) -> Policy {
        let sandbox_options = cx.session().extension::<SandboxOptions>();
        let mut policy = sandbox_options.policy_with(self.may, cx);
        policy.write.extend(self.also.iter().filter(|path| haft_sandbox::user::exists(path)).cloned());
        policy.guarded.extend(self.except.iter().cloned());
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

/// Finds a program by `PATH`, except in folders of the workspace: its content is not trusted, and a planted program would
/// take the place of an installed one.
pub fn find(name: &str, cx: &Context) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = cx.session_workspace().folders();
    let is_in_workspace = |dir: &Path| folders.iter().any(|folder| dir.starts_with(&folder.path));
    std::env::split_paths(&path)
        .filter(|dir| dir.is_absolute() && !is_in_workspace(dir))
        .map(|dir| dir.join(name))
        .find(|path| haft_sandbox::user::exists(path))
}

/// Quotes a word for a shell, where it needs quotes.
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
    fn quotes_words_with_special_characters() {
        let words = ["plain-1.2/x", "", "a b", "it's", "$(x)"];
        let shown: Vec<String> = words.iter().map(|word| quoted(word.as_ref())).collect();
        assert_eq!(shown, ["plain-1.2/x", "''", "'a b'", r"'it'\''s'", "'$(x)'"]);
    }
}

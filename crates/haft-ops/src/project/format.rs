//! Formatting the files of a project with its own formatter: first a run that lists unformatted files, then, if they are
//! to be formatted, one that writes them. Knows nothing of the formatters (`plan`).

use std::time::Duration;

use haft_core::{AbsPath, Claims, Context, Fault, FaultKind, Operation, Preview, Resource};
use haft_sandbox::Exit;

use super::plan::{self, Invocation};
use super::read::{Problem, parse_output};
use super::{Project, confines, notes_on, require_writable};
use crate::shell::{May, Program, ReadySandbox};

/// Timeout of one run of a formatter.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Formats files of a project, or checks their format.
#[derive(Debug)]
pub struct Format {
    project: Project,
    /// Lists unformatted files; none if the formatter cannot do that.
    list: Option<Invocation>,
    /// Formats the files in place.
    write: Program,
    formatting: Formatting,
    /// The sandbox of the first run, prepared by `check`.
    sandbox: Option<ReadySandbox>,
}

/// Whether to check the format of files or to format them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formatting {
    /// List unformatted files, and change nothing.
    Check,
    /// Format them.
    Write,
}

/// Result of formatting, or of a check of the format.
#[derive(Clone, Debug)]
pub struct Formatted {
    /// The project's build system.
    pub project: &'static str,
    /// The command line of the formatter.
    pub command: String,
    /// Files that were formatted, or would be; none if the formatter does not list them.
    pub files: Option<Vec<String>>,
    /// Errors that prevented files from being formatted.
    pub problems: Vec<Problem>,
    /// Exit status of the last run.
    pub exit: Exit,
    /// Duration of all runs.
    pub took: Duration,
    /// Output of the last run.
    pub log: String,
    /// Notes on the run, such as missing layers of the sandbox.
    pub notes: Vec<String>,
}

impl Format {
    /// Prepares to format some paths of a project, or without paths the whole project of `folder`.
    pub fn new(
        folder: &AbsPath,
        paths: Vec<AbsPath>,
        formatting: Formatting,
        cx: &Context,
    ) -> Result<Self, Fault> {
        let project = Project::find(paths.first().unwrap_or(folder), cx)?;
        if formatting == Formatting::Write {
            require_writable(&project, cx)?;
        }
        let paths: Vec<AbsPath> = paths.into_iter().filter(|path| *path != project.root).collect();
        let (mut list, write) = plan::format(&project, &paths, cx)?;
        match (&mut list, formatting) {
            (Some(list), _) => list.program.may = May::Read,
            (None, Formatting::Check) => {
                return Err(Fault::invalid("a makefile has no way to only look whether files are formatted")
                    .hint("leave out the check, or run what is meant as a command"));
            }
            (None, Formatting::Write) => {}
        }
        Ok(Self { project, list, write, formatting, sandbox: None })
    }

    /// Whether this is a check by a program that the sandbox confines to the workspace. Known after `check`.
    pub fn is_harmless(&self, cx: &Context) -> bool {
        self.formatting == Formatting::Check && confines(self.sandbox.as_ref(), cx)
    }
}

impl Operation for Format {
    type Output = Formatted;

    fn unavailable(_cx: &Context) -> Option<Fault> {
        crate::without_sandbox()
    }

    fn claims(&self) -> Claims {
        let root = Resource::Path(self.project.root.clone());
        match self.formatting {
            Formatting::Check => Claims::none().read(root),
            Formatting::Write => Claims::none().write(root),
        }
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        let first = self.list.as_ref().map_or(&self.write, |list| &list.program);
        self.sandbox = Some(first.hold(cx).await?);
        Ok(None)
    }

    async fn run(mut self, cx: &Context) -> Result<Formatted, Fault> {
        let mut done = Formatted {
            project: self.project.kind.name(),
            command: self.write.shown(),
            files: None,
            problems: Vec::new(),
            exit: Exit::Code(0),
            took: Duration::ZERO,
            log: String::new(),
            notes: Vec::new(),
        };
        if let Some(list) = &self.list {
            let ran = list.program.run(self.sandbox.take(), TIMEOUT, cx).await?;
            let (out, err) = (ran.out.text(), ran.err.text());
            let found = parse_output(list.format, &out, &err);
            let mut files: Vec<String> =
                found.files.iter().map(|file| self.project.shown(file, cx)).collect();
            files.sort();
            files.dedup();
            (done.problems, done.exit, done.took, done.log) = (found.problems, ran.exit, ran.took, found.log);
            done.notes = notes_on(&ran, &done.log, cx);
            // It failed without a list: what went wrong is more useful than a second attempt.
            let has_failed = files.is_empty() && ran.exit != Exit::Code(0);
            done.files = Some(files);
            if self.formatting == Formatting::Check {
                done.command = list.program.shown();
            }
            if self.formatting == Formatting::Check
                || has_failed
                || done.files.as_ref().is_some_and(Vec::is_empty)
            {
                return finished(done, &self.project, cx);
            }
        }
        let ran = self.write.run(self.sandbox.take(), TIMEOUT, cx).await?;
        done.exit = ran.exit;
        done.took += ran.took;
        done.log = format!("{}{}", ran.out.text(), ran.err.text());
        done.notes = notes_on(&ran, &done.log, cx);
        finished(done, &self.project, cx)
    }
}

/// Turns a timeout or a cancellation into a fault, and paths into those of the workspace.
fn finished(mut done: Formatted, project: &Project, cx: &Context) -> Result<Formatted, Fault> {
    match done.exit {
        Exit::Cancelled => return Err(cx.cancelled_fault().with("output", done.log)),
        Exit::TimedOut => {
            let message = format!("`{}` was ended after {} s", done.command, TIMEOUT.as_secs());
            return Err(Fault::new(FaultKind::Timeout, message)
                .hint("name fewer paths")
                .with("output", done.log));
        }
        _ => {}
    }
    for problem in &mut done.problems {
        problem.file = problem.file.as_deref().map(|file| project.shown(file, cx));
    }
    Ok(done)
}

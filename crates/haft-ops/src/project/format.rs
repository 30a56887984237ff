//! Formatting the files of a project with its own formatter.

use std::time::Duration;

use haft_core::{AbsPath, Claims, Context, Fault, FaultKind, Operation, Preview, Resource};
use haft_sandbox::Exit;

use super::plan::{self, Plan};
use super::read::{Problem, understood};
use super::{Project, confines, explained, require_writable};
use crate::shell::{May, Program, ReadySandbox};

/// How long a formatter may take.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Formats files.
#[derive(Debug)]
pub struct Format {
    project: Project,
    list: Option<Plan>,
    mend: Program,
    formatting: Formatting,
    held: Option<ReadySandbox>,
}

/// What is done with files that are not formatted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formatting {
    /// They are told.
    Check,
    /// They are formatted.
    Write,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Formatted {
    /// What the project is made with.
    pub project: &'static str,
    /// What was run, as somebody would type it.
    pub command: String,
    /// Files that were formatted, or would be; nothing where that cannot be told.
    pub files: Option<Vec<String>>,
    /// What kept files from being formatted.
    pub problems: Vec<Problem>,
    /// How the program ended.
    pub exit: Exit,
    /// How long it took.
    pub took: Duration,
    /// What it printed.
    pub log: String,
    /// What else there is to know.
    pub notes: Vec<String>,
}

impl Format {
    /// What is to be formatted: some paths of a project, or all of the one that a folder belongs to.
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
        let (mut list, mend) = plan::format(&project, &paths, cx)?;
        match (&mut list, formatting) {
            (Some(list), _) => list.program.may = May::Read,
            (None, Formatting::Check) => {
                return Err(Fault::invalid("a makefile has no way to only look whether files are formatted")
                    .hint("leave out the check, or run what is meant as a command"));
            }
            (None, Formatting::Write) => {}
        }
        Ok(Self { project, list, mend, formatting, held: None })
    }

    /// Whether files are only looked at, by a program that is kept to the workspace.
    pub fn is_harmless(&self, cx: &Context) -> bool {
        self.formatting == Formatting::Check && confines(self.held.as_ref(), cx)
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
        let first = self.list.as_ref().map_or(&self.mend, |list| &list.program);
        self.held = Some(first.hold(cx).await?);
        Ok(None)
    }

    async fn run(mut self, cx: &Context) -> Result<Formatted, Fault> {
        let mut done = Formatted {
            project: self.project.kind.name(),
            command: self.mend.shown(),
            files: None,
            problems: Vec::new(),
            exit: Exit::Code(0),
            took: Duration::ZERO,
            log: String::new(),
            notes: Vec::new(),
        };
        if let Some(list) = &self.list {
            let ran = list.program.run(self.held.take(), TIMEOUT, cx).await?;
            let (out, err) = (ran.out.text(), ran.err.text());
            let found = understood(list.form, &out, &err);
            let mut files: Vec<String> =
                found.files.iter().map(|file| self.project.shown(file, cx)).collect();
            files.sort();
            files.dedup();
            (done.problems, done.exit, done.took, done.log) = (found.problems, ran.exit, ran.took, found.log);
            done.notes = explained(&ran, &done.log, cx);
            let is_wrong = files.is_empty() && ran.exit != Exit::Code(0);
            done.files = Some(files);
            if self.formatting == Formatting::Check {
                done.command = list.program.shown();
            }
            if self.formatting == Formatting::Check
                || is_wrong
                || done.files.as_ref().is_some_and(Vec::is_empty)
            {
                return finished(done, &self.project, cx);
            }
        }
        let ran = self.mend.run(self.held.take(), TIMEOUT, cx).await?;
        done.exit = ran.exit;
        done.took += ran.took;
        done.log = format!("{}{}", ran.out.text(), ran.err.text());
        done.notes = explained(&ran, &done.log, cx);
        finished(done, &self.project, cx)
    }
}

fn finished(mut done: Formatted, project: &Project, cx: &Context) -> Result<Formatted, Fault> {
    match done.exit {
        Exit::Cancelled => return Err(cx.cancelled_fault().with("output", done.log)),
        Exit::TimedOut => {
            let told = format!("`{}` was ended after {} s", done.command, TIMEOUT.as_secs());
            return Err(Fault::new(FaultKind::Timeout, told)
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

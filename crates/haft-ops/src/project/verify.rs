//! Running the tests or the linter of a project, and reporting problems with file and line. Knows nothing of the programs
//! (`plan`) or their output (`read`).

use std::time::Duration;

use haft_core::{AbsPath, Claims, Context, Fault, FaultKind, Mode, Operation, Preview, Resource};
use haft_sandbox::Exit;

use super::plan::{self, Invocation};
use super::read::{Counts, Problem, parse_output};
use super::{Project, confines, notes_on, require_writable};
use crate::shell::{May, ReadySandbox};

/// Runs the tests or the linter of a project.
#[derive(Debug)]
pub struct Verify {
    /// The project.
    project: Project,
    /// Files and folders to restrict the run to; empty for the whole project.
    paths: Vec<AbsPath>,
    /// Timeout of the run.
    timeout: Duration,
    plan: Invocation,
    work: Work,
    /// The sandbox, prepared by `check`.
    sandbox: Option<ReadySandbox>,
}

/// Whether to run tests or the linter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// The tests, or those whose name matches a filter.
    Tests(Option<String>),
    /// The linter.
    Lint,
    /// The linter, which fixes what it can.
    Mend,
}

/// Result of running tests or a linter.
#[derive(Clone, Debug)]
pub struct Verified {
    /// The project's build system.
    pub project: &'static str,
    /// The command line that was run.
    pub command: String,
    /// Failed tests and problems, errors before warnings.
    pub problems: Vec<Problem>,
    /// Number of problems in files outside of the requested paths.
    pub elsewhere: usize,
    /// Number of passed, failed and skipped tests, if the output has them.
    pub counts: Option<Counts>,
    /// Exit status of the program.
    pub exit: Exit,
    /// Duration of the run.
    pub took: Duration,
    /// Output of the run.
    pub log: String,
    /// Notes on the run, such as missing layers of the sandbox.
    pub notes: Vec<String>,
}

impl Verify {
    /// Prepares a run for the project of `paths`, or of `folder` if there are no paths.
    pub fn new(
        folder: &AbsPath,
        paths: Vec<AbsPath>,
        work: Work,
        timeout: Duration,
        cx: &Context,
    ) -> Result<Self, Fault> {
        let project = Project::find(paths.first().unwrap_or(folder), cx)?;
        if let Some(other) = paths.iter().find(|path| !path.is_within(&project.root)) {
            return Err(Fault::invalid(format!(
                "`{}` belongs to another project than `{}`",
                cx.workspace().display(other),
                cx.workspace().display(&paths[0]),
            ))
            .hint("make a call for each project"));
        }
        let only_reads = work == Work::Lint && cx.session().mode() == Mode::Plan;
        if !only_reads {
            require_writable(&project, cx)?;
        }
        let whole = |path: &AbsPath| *path == project.root;
        let selected: Vec<AbsPath> = paths.iter().filter(|path| !whole(path)).cloned().collect();
        let mut plan = match &work {
            Work::Tests(filter) => {
                let filter = filter.as_deref();
                if let Some(filter) =
                    filter.filter(|name| name.starts_with('-') || name.contains(char::is_control))
                {
                    return Err(Fault::invalid(format!(
                        "`{}` is no part of a test's name",
                        filter.escape_debug()
                    ))
                    .hint("give the name of a test, or a part of one"));
                }
                plan::tests(&project, &selected, filter, cx)?
            }
            Work::Lint => plan::lint(&project, &selected, false, cx)?,
            Work::Mend => plan::lint(&project, &selected, true, cx)?,
        };
        if only_reads {
            plan.program.may = May::Read;
            // Its cache cannot be in the project then.
            plan.program = plan.program.env("CARGO_TARGET_DIR", "/tmp/cargo-target");
        }
        Ok(Self { project, paths: selected, timeout, plan, work, sandbox: None })
    }

    /// Whether the sandbox confines the run to the workspace, so that a dialect can let it run without approval. Known
    /// after `check`.
    pub fn is_confined(&self, cx: &Context) -> bool {
        confines(self.sandbox.as_ref(), cx)
    }
}

impl Operation for Verify {
    type Output = Verified;

    fn unavailable(_cx: &Context) -> Option<Fault> {
        crate::without_sandbox()
    }

    fn claims(&self) -> Claims {
        let root = Resource::Path(self.project.root.clone());
        match self.plan.program.may {
            May::Read => Claims::none().read(root),
            May::Write => Claims::none().write(root),
        }
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        self.sandbox = Some(self.plan.program.hold(cx).await?);
        Ok(None)
    }

    async fn run(mut self, cx: &Context) -> Result<Verified, Fault> {
        let mut plan = self.plan;
        let mut ran = plan.program.run(self.sandbox.take(), self.timeout, cx).await?;
        if let Some(fallback) = plan.fallback.take()
            && ran.exit == Exit::Code(1)
            && ran.err.text().contains("No module named pytest")
        {
            if wants_pytest(&self.project, cx) {
                return Err(super::missing("pytest"));
            }
            plan = *fallback;
            ran = plan.program.run(None, self.timeout, cx).await?;
        }
        if ran.exit == Exit::Cancelled {
            return Err(ran.cancelled(cx));
        }
        let (out, err) = (ran.out.text(), ran.err.text());
        if err.contains("no such command: `clippy`") || err.contains("'cargo-clippy' is not installed") {
            return Err(Fault::new(FaultKind::NotFound, "`cargo clippy` is not installed")
                .hint("have the user get it: run `rustup component add clippy`"));
        }
        let mut elsewhere = 0;
        let mut found = parse_output(plan.format, &out, &err);
        let (project, selected) = (&self.project, &self.paths);
        for problem in &mut found.problems {
            problem.file = problem.file.as_deref().map(|file| project.shown(file, cx));
        }
        if !matches!(self.work, Work::Tests(_)) && !selected.is_empty() {
            // Some programs only check whole projects, so the report is filtered here.
            let wanted: Vec<String> = selected.iter().map(|path| cx.workspace().display(path)).collect();
            let is_wanted = |file: &str| {
                wanted.iter().any(|path| {
                    file == path || file.strip_prefix(&**path).is_some_and(|rest| rest.starts_with('/'))
                })
            };
            let all = found.problems.len();
            found.problems.retain(|problem| problem.file.as_deref().is_none_or(is_wanted));
            elsewhere = all - found.problems.len();
        }
        let mut notes = notes_on(&ran, &found.log, cx);
        if ran.exit == Exit::TimedOut {
            notes.push(format!(
                "it was ended after {} s; `timeout` gives it more time",
                self.timeout.as_secs()
            ));
        }
        Ok(Verified {
            project: self.project.kind.name(),
            command: plan.program.shown(),
            problems: found.problems,
            elsewhere,
            counts: found.counts.filter(|_| matches!(self.work, Work::Tests(_))),
            exit: ran.exit,
            took: ran.took,
            log: found.log,
            notes,
        })
    }
}

/// Whether the files of a project mention pytest, so that `unittest` would be the wrong fallback.
fn wants_pytest(project: &Project, cx: &Context) -> bool {
    let files = ["pyproject.toml", "setup.cfg", "requirements.txt", "requirements-dev.txt", "tox.ini"];
    project.has("pytest.ini", cx)
        || project.has("conftest.py", cx)
        || files.iter().any(|name| project.text(name, cx).is_some_and(|text| text.contains("pytest")))
}

//! Running the tests or the linter of a project.

use std::time::Duration;

use haft_core::{AbsPath, Claims, Context, Fault, FaultKind, Operation, Preview, Resource};
use haft_sandbox::Exit;

use super::plan::{self, Plan};
use super::read::{Counts, Problem, understood};
use super::{Project, confines, explained, require_writable};
use crate::shell::ReadySandbox;

/// Runs what tells whether a project is as it should be.
#[derive(Debug)]
pub struct Verify {
    /// The project.
    project: Project,
    /// What only matters of it, if anything is named.
    paths: Vec<AbsPath>,
    /// How long it may take.
    timeout: Duration,
    plan: Plan,
    work: Work,
    held: Option<ReadySandbox>,
}

/// What is run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Work {
    /// Tests, or those of a name.
    Tests(Option<String>),
    /// The linter.
    Lint,
    /// The linter, which mends what it can.
    Mend,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Verified {
    /// What the project is made with.
    pub project: &'static str,
    /// What was run, as somebody would type it.
    pub command: String,
    /// What is wrong, the worst first.
    pub problems: Vec<Problem>,
    /// How many problems there are in files that were not named.
    pub elsewhere: usize,
    /// How many tests did what, where that can be told.
    pub counts: Option<Counts>,
    /// How the program ended.
    pub exit: Exit,
    /// How long it took.
    pub took: Duration,
    /// What it printed.
    pub log: String,
    /// What else there is to know.
    pub notes: Vec<String>,
}

impl Verify {
    /// What is to be run for the project that some paths belong to, or a folder if none is named.
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
        require_writable(&project, cx)?;
        let whole = |path: &AbsPath| *path == project.root;
        let named: Vec<AbsPath> = paths.iter().filter(|path| !whole(path)).cloned().collect();
        let plan = match &work {
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
                plan::tests(&project, &named, filter, cx)?
            }
            Work::Lint => plan::lint(&project, &named, false, cx)?,
            Work::Mend => plan::lint(&project, &named, true, cx)?,
        };
        Ok(Self { project, paths: named, timeout, plan, work, held: None })
    }

    /// Whether it is kept to the workspace, and so can do no more than code that nobody is asked about.
    pub fn is_confined(&self, cx: &Context) -> bool {
        confines(self.held.as_ref(), cx)
    }
}

impl Operation for Verify {
    type Output = Verified;

    fn unavailable(_cx: &Context) -> Option<Fault> {
        crate::without_sandbox()
    }

    fn claims(&self) -> Claims {
        Claims::none().write(Resource::Path(self.project.root.clone()))
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        self.held = Some(self.plan.program.hold(cx).await?);
        Ok(None)
    }

    async fn run(mut self, cx: &Context) -> Result<Verified, Fault> {
        let mut plan = self.plan;
        let mut ran = plan.program.run(self.held.take(), self.timeout, cx).await?;
        if let Some(otherwise) = plan.otherwise.take()
            && ran.exit == Exit::Code(1)
            && ran.err.text().contains("No module named pytest")
        {
            if wants_pytest(&self.project, cx) {
                return Err(super::missing("pytest"));
            }
            plan = *otherwise;
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
        let mut found = understood(plan.form, &out, &err);
        let (project, named) = (&self.project, &self.paths);
        for problem in &mut found.problems {
            problem.file = problem.file.as_deref().map(|file| project.shown(file, cx));
        }
        if !matches!(self.work, Work::Tests(_)) && !named.is_empty() {
            // Some programs know only whole projects.
            let wanted: Vec<String> = named.iter().map(|path| cx.workspace().display(path)).collect();
            let is_wanted = |file: &str| {
                wanted.iter().any(|path| {
                    file == path || file.strip_prefix(&**path).is_some_and(|rest| rest.starts_with('/'))
                })
            };
            let all = found.problems.len();
            found.problems.retain(|problem| problem.file.as_deref().is_none_or(is_wanted));
            elsewhere = all - found.problems.len();
        }
        let mut notes = explained(&ran, &found.log, cx);
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

/// Whether a project says that its tests need pytest.
fn wants_pytest(project: &Project, cx: &Context) -> bool {
    let named = ["pyproject.toml", "setup.cfg", "requirements.txt", "requirements-dev.txt", "tox.ini"];
    project.has("pytest.ini", cx)
        || project.has("conftest.py", cx)
        || named.iter().any(|name| project.text(name, cx).is_some_and(|text| text.contains("pytest")))
}

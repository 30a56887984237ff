//! The operation that runs a shell command in the sandbox. Every call returns: when the command ends, at its timeout, or
//! when the call is cancelled. It ends all processes that the command started, and returns the output up to then. `command`
//! classifies a command, `run` starts it and waits for it, `background` keeps those that run on.

mod background;
mod blocked;
mod claims;
mod command;
mod in_place;
mod not_found;
mod printed;
mod profile;
mod program;
mod prompt;
mod recorded;
mod run;
mod sandbox_options;
mod trial;
mod words;

use std::time::{Duration, Instant};

use haft_core::trials::{RunManner, TrialOffer};
use haft_core::{AbsPath, Claims, Context, Fault, Operation, Preview};
use haft_sandbox::sandbox::{CommandEnd, LimitHit, Network, Output, Policy, Report};
use haft_sandbox::{Exit, names};

pub use background::{Kill, Look, Looked, TaskListed, TaskState, Tasks};
pub use blocked::Blocked;
pub use command::Command;
pub use in_place::Foreseen;
pub use printed::Printed;
pub use program::{May, Program, ReadySandbox, Surroundings, find as find_program};
pub use recorded::{ChangeKind, CommandChanges, FileChange};
pub use sandbox_options::{EffectsCount, Profile, SandboxOptions};
pub use trial::{KeptChanges, TrialResult};
pub use words::in_words;

use run::{Finished, Started, begin, set_aside_notes, wait_for_end};

use super::patch::Planned;

/// Runs a shell command, and waits for it or leaves it in the background.
pub struct Shell {
    /// The command, and the folder that it starts in.
    pub command: Command,
    /// Timeout; without one, the command runs in the background.
    pub timeout: Option<Duration>,
    /// Whether standard output and standard error come joined or apart.
    pub output: Output,
    /// Whether later commands start in the folder in which this one ends.
    pub moves: bool,
    /// The edits of a `sed -i` that haft makes itself instead of running it.
    plan: Option<Vec<Planned>>,
    /// Whether the call itself asks to be tried.
    wish: TrialWish,
}

/// Whether a call asks to be tried: to run on a view of the workspace, whose changes count when they are approved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TrialWish {
    /// It does not.
    #[default]
    None,
    /// It does.
    Try,
}

/// Result of a shell command.
#[derive(Debug)]
pub enum Outcome {
    /// The command has ended.
    Ran(Box<Ran>),
    /// The command runs in the background, under this id.
    Started(String),
}

/// Result of a command that has ended.
#[derive(Debug)]
pub struct Ran {
    /// Exit status.
    pub exit: Exit,
    /// Standard output; both streams if they are joined.
    pub out: Printed,
    /// Standard error, if the streams are apart.
    pub err: Printed,
    /// Duration of the run.
    pub took: Duration,
    /// How long it was allowed to take.
    pub limit: Duration,
    /// Names of processes that the command had left running; the sandbox ended them.
    pub left: Vec<String>,
    /// Whether later commands start in another folder.
    pub moved: Moved,
    /// The limit that ended the command, if the supervisor knows it.
    pub hit: Option<LimitHit>,
    /// Active and missing layers of the sandbox.
    pub report: Report,
    /// Meaning of an exit code that is an answer and not an error, such as 1 of `grep`.
    pub meaning: Option<&'static str>,
    /// What the sandbox most likely refused the command.
    pub blocked: Vec<Blocked>,
    /// What the command changed in the workspace.
    pub changes: CommandChanges,
    /// What became of a command that was tried, or whose changes were asked about afterwards.
    pub trial: Option<TrialResult>,
    /// Prompt that the command waited at; it gets no answer, because its input is closed.
    pub prompt: Option<String>,
    /// Remarks for the model.
    pub notes: Vec<String>,
}

impl Ran {
    /// Whether the command succeeded: exit code 0, or a code that is an answer.
    pub fn succeeded(&self) -> bool {
        let is_kept = self.trial.as_ref().is_none_or(|trial| trial.kept != KeptChanges::None);
        (self.exit == Exit::Code(0) || self.meaning.is_some()) && is_kept
    }

    /// The fault of a call that was cancelled while this ran, with what it had printed.
    pub(crate) fn cancelled(&self, cx: &Context) -> Fault {
        let printed = format!("{}{}", self.out.text(), self.err.text());
        match printed.is_empty() {
            true => cx.cancelled_fault(),
            false => cx.cancelled_fault().with("output", printed),
        }
    }

    /// Exit status in words; `None` after exit code 0.
    pub fn in_words(&self) -> Option<String> {
        let words = in_words(self.exit)?;
        Some(match (&self.meaning, &self.prompt) {
            (Some(meaning), _) => format!("{words}: {meaning}, which is no error"),
            (None, Some(prompt)) if self.exit == Exit::TimedOut => {
                format!("it was ended: it waited for an answer to `{prompt}`, and nobody can give one")
            }
            _ if self.exit == Exit::TimedOut => {
                format!("the command was stopped after {} (timeout)", words::seconds(self.limit))
            }
            _ => words,
        })
    }
}

/// Folder in which the next command starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// The folder in which this command started.
    No,
    /// Another folder of the workspace, in which this command ended.
    To(AbsPath),
    /// The folder in which this command started, because it ended in this one, outside the workspace.
    Back(String),
}

impl Operation for Shell {
    type Output = Outcome;

    fn unavailable(_cx: &Context) -> Option<Fault> {
        crate::without_sandbox()
    }

    fn claims(&self) -> Claims {
        self.command.claims.clone()
    }

    async fn check(&mut self, cx: &Context) -> Result<Option<Preview>, Fault> {
        self.command.require_folder(cx)?;
        let Some(edit) = &self.command.edit else { return Ok(None) };
        self.plan = edit.plan(cx)?;
        let diff: String = self.plan.iter().flatten().map(Planned::diff).collect();
        Ok(self.plan.is_some().then(|| Preview::new(diff)))
    }

    fn can_be_given_network(&self, cx: &Context) -> bool {
        let network = cx.session().extension::<SandboxOptions>().network;
        network == Network::Off && !self.command.free && self.plan.is_none()
    }

    fn trial(&self, cx: &Context) -> Option<TrialOffer> {
        self.trial_offer(cx)
    }

    fn trial_obstacle(&self, cx: &Context) -> Option<String> {
        self.obstacle(cx)
    }

    async fn run(self, cx: &Context) -> Result<Outcome, Fault> {
        match self {
            Self { plan: Some(plan), .. } => {
                let start = Instant::now();
                let notes = in_place::make(plan, cx).await?;
                Ok(Outcome::Ran(Box::new(Ran::without_process(start.elapsed(), notes))))
            }
            Self { timeout: Some(timeout), .. } => {
                let ran = match cx.run_manner() {
                    RunManner::Trial => self.try_it(timeout, cx).await?,
                    RunManner::Reviewed => self.run_reviewed(timeout, cx).await?,
                    _ => self.wait(timeout, cx).await?,
                };
                Ok(Outcome::Ran(Box::new(ran)))
            }
            Self { timeout: None, .. } => background::start(&self.command, cx).await.map(Outcome::Started),
        }
    }
}

impl Ran {
    /// Result of an edit that haft made itself: no process and no output.
    fn without_process(took: Duration, notes: Vec<String>) -> Self {
        Self {
            exit: Exit::Code(0),
            out: Printed::default(),
            err: Printed::default(),
            took,
            limit: took,
            left: Vec::new(),
            moved: Moved::No,
            report: Report::default(),
            hit: None,
            meaning: None,
            blocked: Vec::new(),
            changes: CommandChanges::default(),
            trial: None,
            prompt: None,
            notes,
        }
    }
}

impl Shell {
    /// A run of a command.
    pub fn new(command: Command, timeout: Option<Duration>, output: Output, moves: bool) -> Self {
        Self { command, timeout, output, moves, plan: None, wish: TrialWish::None }
    }

    /// Sets whether the call itself asks to be tried.
    #[must_use]
    pub fn wishing(mut self, wish: TrialWish) -> Self {
        self.wish = wish;
        self
    }

    async fn wait(&self, timeout: Duration, cx: &Context) -> Result<Ran, Fault> {
        let start = Instant::now();
        let Started { running, policy, recording, mut notes } = begin(&self.command, self.output, cx).await?;
        let report = running.report().clone();
        let (finished, changes, more) = cx
            .cooperative(async {
                let mut finished = wait_for_end(running, timeout, cx).await?;
                let (changes, notes) =
                    recorded::adopt(&mut finished.end, recording, &self.command.text, cx).await;
                Ok::<_, Fault>((finished, changes, notes))
            })
            .await?;
        notes.extend(more);
        let whole = Whole { finished, policy, report, changes, trial: None, notes, start, limit: timeout };
        Ok(self.conclude(whole, cx).await)
    }

    /// The result of a command that has ended, with explanations of how.
    async fn conclude(&self, whole: Whole, cx: &Context) -> Ran {
        let Whole { finished, policy, report, changes, trial, mut notes, start, limit } = whole;
        let Finished { end, mut out, mut err, prompt } = finished;
        notes.extend(set_aside_notes(&end, cx));
        notes.extend(cx.session().extension::<Tasks>().unreported_ends());
        let moved = match (self.moves, &end.dir) {
            (true, Some(dir)) => move_to(&self.command.dir, dir, cx),
            _ => Moved::No,
        };
        let exit = end.exit;
        let meaning = self.command.meaning(exit, !(out.is_empty() && err.is_empty()));
        let guarded = cx.session().extension::<SandboxOptions>().guarded_name_in(&self.command);
        // The layers make a guarded name read-only, which programs report in misleading words: a note explains it instead.
        let blocked = match (meaning, guarded) {
            (Some(_), _) => Vec::new(),
            (None, Some(name)) if exit != Exit::Code(0) && !self.command.is_read_only() => {
                notes.push(format!(
                    "commands cannot make or change `{name}`: other programs run something by it, so it is the user's"
                ));
                Vec::new()
            }
            (None, _) => blocked::blocked(exit, &[out.end(), err.end()], &policy, &report),
        };
        let (took, CommandEnd { left, hit, .. }) = (start.elapsed(), end);
        notes.extend(not_found::explain(exit, &self.command, cx).await);
        Ran {
            exit,
            out,
            err,
            took,
            limit,
            left,
            moved,
            report,
            hit,
            meaning,
            blocked,
            changes,
            trial,
            prompt,
            notes,
        }
    }
}

/// All that is known of a command when it has ended.
struct Whole {
    finished: Finished,
    policy: Policy,
    report: Report,
    changes: CommandChanges,
    trial: Option<TrialResult>,
    notes: Vec<String>,
    start: Instant,
    limit: Duration,
}

/// Moves the session to the folder in which a command ended, if that is a folder of the workspace.
fn move_to(from: &AbsPath, dir: &std::path::Path, cx: &Context) -> Moved {
    if dir == from.as_path() {
        return Moved::No;
    }
    let found =
        dir.to_str().and_then(|dir| cx.session_workspace().resolve(cx.session_workspace().root(), dir).ok());
    match found.filter(|place| place.stat.is_some()) {
        Some(place) => {
            cx.session().set_cwd(place.path.clone());
            Moved::To(place.path)
        }
        None => Moved::Back(names::show_on_a_line(dir)),
    }
}

//! Running shell commands, in a sandbox. A command always comes back: when it ends, when its time is up, or when
//! nobody waits for it any more; nothing that it started is left behind, and what it printed until then is told.

mod asked;
mod background;
mod blocked;
mod in_place;
mod printed;
mod profile;
mod program;
mod reach;
mod sandbox_options;
mod words;

use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_core::{AbsPath, Access, Claims, Context, Fault, FaultKind, Operation, Preview, Resource};
use haft_sandbox::Exit;
use haft_sandbox::sandbox::{
    CommandEnd, LimitHit, Network, Output, Policy, Report, RunEvent, Running, Sandbox, Stream, Task,
};

pub use background::{Kill, Look, Looked, TaskListed, TaskState, Tasks};
pub use blocked::Blocked;
pub use in_place::Foreseen;
pub use printed::Printed;
pub use program::{May, Program, ReadySandbox, Surroundings, find as find_program};
pub use sandbox_options::{Profile, SandboxOptions};
pub use words::in_words;

use in_place::Edit;
use sandbox_options::Cages;

use super::patch::Planned;
use haft_shell::{self as shell, Interactive, ParsedCommand};

/// A longer command cannot be given to a program.
const LONGEST: usize = 120_000;
/// How long a command that was asked to end may take.
const GRACE: Duration = Duration::from_secs(2);

/// Runs a command.
pub struct Shell {
    /// What is to be run, and where.
    pub command: Command,
    /// How long it may take; if nothing is said, it runs in the background.
    pub timeout: Option<Duration>,
    /// How its output comes.
    pub output: Output,
    /// Whether later commands start from the folder in which this one ends.
    pub moves: bool,
    /// What it makes of a file, where it is known and to be shown.
    plan: Option<Vec<Planned>>,
}

/// A command.
#[derive(Clone, Debug)]
pub struct Command {
    text: String,
    dir: AbsPath,
    /// Whether that is the root, because the folder it was to start in is gone.
    is_back: bool,
    free: bool,
    judged: Judged,
    understood: Arc<ParsedCommand>,
    claims: Claims,
    edit: Option<Edit>,
}

/// What is to be thought of a command, by its text alone.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Judged {
    /// It changes nothing. It is run so that it could not.
    ReadOnly,
    /// It may change something.
    Unknown,
    /// It can do harm that cannot be undone, and why.
    Harmful(String),
}

impl Command {
    /// A command that starts in a folder; a free one runs without layers, and somebody must agree to that. What would
    /// do harm beyond all measure is refused.
    pub fn new(text: &str, dir: AbsPath, free: bool, cx: &Context) -> Result<Self, Fault> {
        if text.trim().is_empty() {
            return Err(Fault::invalid("the command is empty").hint("say what to run"));
        }
        if text.contains('\0') {
            return Err(Fault::invalid("the command contains a NUL character, which no shell takes"));
        }
        if text.len() > LONGEST {
            return Err(Fault::new(
                FaultKind::TooLarge,
                format!("the command has {} bytes: at most {LONGEST} can be run", text.len()),
            )
            .hint("write it to a script in the workspace and run that"));
        }
        // The folder that the last command ended in may be gone.
        let (dir, is_back) = match cx.workspace().stat(&dir) {
            Ok(_) => (dir, false),
            Err(_) => (cx.workspace().root().clone(), true),
        };
        let understood = Arc::new(shell::parse(text));
        let harms = shell::sensitive(&understood);
        if let Some(found) = harms.iter().find(|found| found.catastrophic) {
            return Err(Fault::new(FaultKind::Denied, format!("this is never run: {}", found.reason))
                .hint("ask the user to do it, if it is really meant")
                .with("command", text));
        }
        let judged = match harms.first() {
            Some(found) => Judged::Harmful(found.reason.clone()),
            None if shell::read_only(&understood).proven() => Judged::ReadOnly,
            None => Judged::Unknown,
        };
        let is_read_only = judged == Judged::ReadOnly && !free;
        let touches = shell::accesses(&understood, dir.as_path());
        let claims = reach::claims(text, &understood, &touches, is_read_only, free, cx);
        let edit = shell::in_place(&understood).and_then(|sed| Edit::of(sed, &dir, cx));
        if let Some(place) = guarded(&claims, cx) {
            let shown = cx.workspace().display(place);
            return Err(Fault::new(
                FaultKind::Denied,
                format!("`{shown}` is haft's own: no command changes it"),
            )
            .hint("ask the user to change it")
            .with("command", text));
        }
        Ok(Self { text: text.to_owned(), dir, is_back, free, judged, understood, claims, edit })
    }

    /// What it reads outside of the workspace, which was asked about.
    fn reads_outside(&self, cx: &Context) -> Vec<std::path::PathBuf> {
        let paths = self.claims.iter().filter_map(|(_, resource)| match resource {
            Resource::Path(path) if cx.session_workspace().access(path).is_none() => {
                Some(path.as_path().to_owned())
            }
            _ => None,
        });
        paths.collect()
    }

    /// What bash is told.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Whether it runs without layers.
    pub fn is_free(&self) -> bool {
        self.free
    }

    /// Whether it is known to change nothing.
    pub fn is_read_only(&self) -> bool {
        self.judged == Judged::ReadOnly && !self.free
    }

    /// Why it can do harm that cannot be undone.
    pub fn harm(&self) -> Option<&str> {
        match &self.judged {
            Judged::Harmful(reason) => Some(reason),
            _ => None,
        }
    }

    /// What in it waits for somebody to type, and what to run instead.
    pub fn waits(&self) -> Option<Interactive> {
        shell::interactive(&self.understood).into_iter().next()
    }

    /// Refuses it if it waits for somebody to type: nobody does.
    pub fn require_unattended(self) -> Result<Self, Fault> {
        match self.waits() {
            None => Ok(self),
            Some(found) => Err(Fault::new(
                FaultKind::InvalidInput,
                format!("`{}` waits for somebody to type, and nobody can", found.what),
            )
            .hint(found.instead)
            .with("command", &self.text)),
        }
    }

    /// Checks that it makes of a file what somebody was shown.
    pub fn require_foreseen(&self, foreseen: &Foreseen, cx: &Context) -> Result<(), Fault> {
        match &self.edit {
            Some(edit) => edit.require_foreseen(foreseen, &self.dir, cx),
            None => Err(in_place::not_foreseen(&foreseen.file)),
        }
    }

    /// What an exit code of it means, where that is an answer and not an error.
    pub fn meaning(&self, exit: Exit, printed: bool) -> Option<&'static str> {
        match exit {
            Exit::Code(code) => shell::exit_code_meaning(&self.understood, code, printed),
            _ => None,
        }
    }
}

/// What came of it.
#[derive(Debug)]
pub enum Outcome {
    /// It has ended.
    Ran(Box<Ran>),
    /// It was started, and this is by what it is asked for.
    Started(String),
}

/// What came of a command.
#[derive(Debug)]
pub struct Ran {
    /// How it ended.
    pub exit: Exit,
    /// What it printed; all of it where the streams are joined.
    pub out: Printed,
    /// What it printed as errors.
    pub err: Printed,
    /// How long it took.
    pub took: Duration,
    /// What it had started and was still running when it ended, and was ended with it.
    pub left: Vec<String>,
    /// The folder that it ended in, where that is another one.
    pub moved: Moved,
    /// Which limit it met, as far as that can be told.
    pub hit: Option<LimitHit>,
    /// The layers around it.
    pub report: Report,
    /// What its exit code means, where that is an answer and not an error.
    pub meaning: Option<&'static str>,
    /// What its sandbox refused it.
    pub blocked: Vec<Blocked>,
    /// What it asked for last, if nobody could answer that.
    pub asked: Option<String>,
    /// What else there is to know.
    pub notes: Vec<String>,
}

impl Ran {
    /// Whether it did what it was to do.
    pub fn succeeded(&self) -> bool {
        self.exit == Exit::Code(0) || self.meaning.is_some()
    }

    /// The fault of a call that was cancelled while this ran, with what it had printed.
    pub(crate) fn cancelled(&self, cx: &Context) -> Fault {
        let printed = format!("{}{}", self.out.text(), self.err.text());
        match printed.is_empty() {
            true => cx.cancelled_fault(),
            false => cx.cancelled_fault().with("output", printed),
        }
    }

    /// How it ended, in words; nothing if it simply succeeded.
    pub fn in_words(&self) -> Option<String> {
        let words = in_words(self.exit)?;
        Some(match (&self.meaning, &self.asked) {
            (Some(meaning), _) => format!("{words}: {meaning}, which is no error"),
            (None, Some(asked)) if self.exit == Exit::TimedOut => {
                format!("it was ended: it waited for an answer to `{asked}`, and nobody can give one")
            }
            _ => words,
        })
    }
}

/// Where the next command starts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moved {
    /// Where this one did.
    No,
    /// In another folder.
    To(AbsPath),
    /// Where this one did, because the folder that it went to is not one of the workspace.
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
        let Some(edit) = &self.command.edit else { return Ok(None) };
        self.plan = edit.plan(cx)?;
        let diff: String = self.plan.iter().flatten().map(Planned::diff).collect();
        Ok(self.plan.is_some().then(|| Preview::new(diff)))
    }

    fn can_be_given_network(&self, cx: &Context) -> bool {
        let network = cx.session().extension::<SandboxOptions>().network;
        network == Network::Off && !self.command.free && self.plan.is_none()
    }

    async fn run(self, cx: &Context) -> Result<Outcome, Fault> {
        match self {
            Self { plan: Some(plan), .. } => {
                let start = Instant::now();
                let notes = in_place::make(plan, cx).await?;
                Ok(Outcome::Ran(Box::new(Ran::quietly(start.elapsed(), notes))))
            }
            Self { timeout: Some(timeout), .. } => Ok(Outcome::Ran(Box::new(self.wait(timeout, cx).await?))),
            Self { timeout: None, .. } => background::start(&self.command, cx).await.map(Outcome::Started),
        }
    }
}

impl Ran {
    /// Without a word, and without a process.
    fn quietly(took: Duration, notes: Vec<String>) -> Self {
        Self {
            exit: Exit::Code(0),
            out: Printed::default(),
            err: Printed::default(),
            took,
            left: Vec::new(),
            moved: Moved::No,
            report: Report::default(),
            hit: None,
            meaning: None,
            blocked: Vec::new(),
            asked: None,
            notes,
        }
    }
}

impl Shell {
    /// To run a command.
    pub fn new(command: Command, timeout: Option<Duration>, output: Output, moves: bool) -> Self {
        Self { command, timeout, output, moves, plan: None }
    }

    async fn wait(self, timeout: Duration, cx: &Context) -> Result<Ran, Fault> {
        let start = Instant::now();
        let (running, policy) = begin(&self.command, self.output, cx).await?;
        let report = running.report().clone();
        let Attended { ended, mut out, mut err, asked } =
            cx.cooperative(attend(running, timeout, cx)).await?;
        let mut notes = set_aside(&ended, cx);
        if self.command.is_back {
            cx.session().set_cwd(self.command.dir.clone());
            notes.push(
                "the folder that commands were in is gone: this one started in the root of the workspace"
                    .to_owned(),
            );
        }
        notes.extend(cx.session().extension::<Tasks>().news());
        if !cx.may_use_network() {
            again(policy.clone(), self.output, cx);
        }
        let moved = match (self.moves, &ended.dir) {
            (true, Some(dir)) => moved(&self.command.dir, dir, cx),
            _ => Moved::No,
        };
        let exit = ended.exit;
        let meaning = self.command.meaning(exit, !(out.is_empty() && err.is_empty()));
        let guarded = cx.session().extension::<SandboxOptions>().guarded_in(&self.command);
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
        let (took, CommandEnd { left, hit, .. }) = (start.elapsed(), ended);
        Ok(Ran { exit, out, err, took, left, moved, report, hit, meaning, blocked, asked, notes })
    }
}

/// A place among what would be changed that is haft's own.
fn guarded<'a>(claims: &'a Claims, cx: &Context) -> Option<&'a AbsPath> {
    claims.iter().find_map(|(access, resource)| match resource {
        Resource::Path(path) if access == Access::Write && cx.workspace().guards(path) => Some(path),
        _ => None,
    })
}

fn broken(error: std::io::Error) -> Fault {
    Fault::failed(error.to_string())
}

/// A command that was waited for.
struct Attended {
    ended: CommandEnd,
    out: Printed,
    err: Printed,
    /// What it asked last, unless it succeeded.
    asked: Option<String>,
}

/// Waits for a command until it ends, its time is up or nobody wants it any more, and takes what it prints.
async fn attend(mut running: Running, timeout: Duration, cx: &Context) -> Result<Attended, Fault> {
    let (mut out, mut err) = (Printed::default(), Printed::default());
    let mut take = |stream: Stream, bytes: &[u8]| {
        cx.output(&String::from_utf8_lossy(bytes));
        let printed = if stream == Stream::Out { &mut out } else { &mut err };
        printed.add(bytes, || cx.keep_output());
        // A question has no line end.
        if bytes.ends_with(b"\n") { None } else { asked::question(printed.end()) }
    };
    let time_over = tokio::time::sleep(timeout);
    tokio::pin!(time_over);
    let mut asked = None;
    let ended = loop {
        tokio::select! {
            happened = running.next() => match happened.map_err(broken)? {
                RunEvent::Output(stream, bytes) => asked = take(stream, bytes),
                RunEvent::Ended(ended) => break Ok(ended),
            },
            () = &mut time_over => break Err(Exit::TimedOut),
            () = tokio::time::sleep(asked::QUIET), if asked.is_some() => break Err(Exit::TimedOut),
            () = cx.cancelled() => break Err(Exit::Cancelled),
        }
    };
    let ended = match ended {
        Ok(ended) => ended,
        // What was left then, was left because everything was being ended.
        Err(exit) => CommandEnd { exit, left: Vec::new(), ..end(&mut running, &mut take).await? },
    };
    let asked = asked.filter(|_| ended.exit != Exit::Code(0));
    // What has no name any more is over already.
    let left = ended.left.into_iter().filter(|name| !name.is_empty()).collect();
    let ended = CommandEnd { left, ..ended };
    Ok(Attended { ended, out, err, asked })
}

/// Starts a command in its sandbox.
async fn begin(command: &Command, output: Output, cx: &Context) -> Result<(Running, Policy), Fault> {
    let sandbox_options = cx.session().extension::<SandboxOptions>();
    let mut policy = sandbox_options.policy(command, cx);
    if cx.may_use_network() {
        policy.network = Network::On;
    }
    let policy = sandbox_options.ruled(policy, cx).await?;
    let sandbox = enter(&policy, output, cx).await?;
    sandbox_options.require_held(&sandbox, command.free, cx)?;
    let task = Task {
        program: "/bin/bash".into(),
        args: ["--noprofile", "--norc", "-c", "--", &command.text].map(Into::into).into(),
        dir: command.dir.as_path().to_owned(),
        env: sandbox_options.env(cx).await,
        input: Vec::new(),
        reports_dir: true,
    };
    Ok((sandbox.run(task).await.map_err(unusable)?, policy))
}

/// A sandbox of this kind, with all the layers that must stand.
async fn enter(policy: &Policy, output: Output, cx: &Context) -> Result<Sandbox, Fault> {
    let sandboxes = cx.session().extension::<Cages>();
    let sandbox_options = cx.session().extension::<SandboxOptions>();
    let sandbox = sandboxes.ready(&sandbox_options).take(policy, output).await.map_err(unusable)?;
    if let Some((layer, why)) =
        sandbox.report().missing.iter().find(|(layer, _)| sandbox_options.required.contains(layer))
    {
        return Err(Fault::new(
            FaultKind::Disabled,
            format!("commands are to run behind {}, which cannot be had here: {why}", layer.made_of()),
        )
        .hint(
            "`haft doctor` tells which layers are active here; the setting `sandbox.require` says which must",
        ));
    }
    Ok(sandbox)
}

fn unusable(error: std::io::Error) -> Fault {
    Fault::failed(format!("the command cannot be started: {error}"))
}

/// Makes a sandbox ready for the next command of this kind.
fn again(policy: Policy, output: Output, cx: &Context) {
    let sandboxes = cx.session().extension::<Cages>();
    let sandbox_options = cx.session().extension::<SandboxOptions>();
    let sandboxes = Arc::downgrade(&sandboxes);
    tokio::spawn(async move {
        if let Some(sandboxes) = sandboxes.upgrade() {
            sandboxes.ready(&sandbox_options).prepare(&policy, output).await;
        }
    });
}

/// What was made under names that others would run something by, in words.
fn set_aside(ended: &CommandEnd, cx: &Context) -> Vec<String> {
    let shown = |path: &std::path::Path| {
        let root = cx.session_workspace().root().as_path();
        path.strip_prefix(root).unwrap_or(path).display().to_string()
    };
    let told = |path: &std::path::PathBuf| {
        format!(
            "what the command made was renamed to `{}`: by its name other programs would run something",
            shown(path)
        )
    };
    ended.set_aside.iter().map(told).collect()
}

/// Takes what a command prints until it ends.
async fn follow<T>(
    running: &mut Running,
    take: &mut impl FnMut(Stream, &[u8]) -> T,
) -> Result<CommandEnd, Fault> {
    loop {
        match running.next().await.map_err(broken)? {
            RunEvent::Output(stream, bytes) => drop(take(stream, bytes)),
            RunEvent::Ended(ended) => return Ok(ended),
        }
    }
}

/// Ends a command: first politely, then not.
async fn end<T>(
    running: &mut Running,
    take: &mut impl FnMut(Stream, &[u8]) -> T,
) -> Result<CommandEnd, Fault> {
    running.terminate().await;
    match tokio::time::timeout(GRACE, follow(running, take)).await {
        Ok(ended) => ended,
        Err(_) => {
            running.kill();
            follow(running, take).await
        }
    }
}

/// Where the next command starts: only folders of the workspace are gone to.
fn moved(from: &AbsPath, dir: &std::path::Path, cx: &Context) -> Moved {
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
        None => Moved::Back(dir.display().to_string()),
    }
}

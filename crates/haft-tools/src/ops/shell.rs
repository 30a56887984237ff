//! Running shell commands, in a cage. A command always comes back: when it ends, when its time is up, or when
//! nobody waits for it any more; nothing that it started is left behind, and what it printed until then is told.

mod background;
mod caging;
mod printed;

use std::sync::Arc;
use std::time::{Duration, Instant};

use haft::{AbsPath, Claims, Context, Fault, FaultKind, Operation, Resource};
use haft_sandbox::Exit;
use haft_sandbox::cage::{Ended, Happened, Hit, Output, Report, Running, Stream, Task};

pub use background::{Kill, Look, Looked, TaskState};
pub use caging::Caging;
pub use printed::Printed;

use caging::Cages;

use crate::shell;

/// How long a command that was asked to end may take.
const GRACE: Duration = Duration::from_secs(2);

/// Runs a command.
#[derive(Clone, Debug)]
pub struct Shell {
    /// What is to be run, and where.
    pub command: Command,
    /// How long it may take; if nothing is said, it runs in the background.
    pub timeout: Option<Duration>,
    /// How its output comes.
    pub output: Output,
    /// Whether later commands start from the folder in which this one ends.
    pub moves: bool,
}

/// A command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// What bash is told.
    pub text: String,
    /// The folder it starts in.
    pub dir: AbsPath,
    /// Whether it runs without walls. Somebody must have agreed to that.
    pub free: bool,
    /// What is to be thought of it.
    judged: Judged,
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
    /// A command that can be run here: nobody is there to answer it.
    pub fn new(text: &str, dir: AbsPath, free: bool) -> Result<Self, Fault> {
        if text.trim().is_empty() {
            return Err(Fault::invalid("the command is empty").hint("say what to run"));
        }
        if text.contains('\0') {
            return Err(Fault::invalid("the command contains a NUL character, which no shell takes"));
        }
        let understood = shell::parse(text);
        if let Some(found) = shell::interactive(&understood).first() {
            return Err(Fault::new(
                FaultKind::InvalidInput,
                format!("`{}` waits for somebody to type, and nobody can", found.what),
            )
            .hint(found.instead)
            .with("command", text));
        }
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
        Ok(Self { text: text.to_owned(), dir, free, judged })
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
    pub hit: Option<Hit>,
    /// The walls around it.
    pub report: Report,
    /// What else there is to know.
    pub notes: Vec<String>,
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

    fn possible(_cx: &Context) -> bool {
        haft_sandbox::cage::is_armed()
    }

    fn claims(&self) -> Claims {
        match self.command.is_read_only() {
            true => Claims::none().read(Resource::Everything),
            false => Claims::none().write(Resource::Everything),
        }
    }

    async fn run(self, cx: &Context) -> Result<Outcome, Fault> {
        match self.timeout {
            Some(timeout) => Ok(Outcome::Ran(Box::new(self.wait(timeout, cx).await?))),
            None => background::start(&self.command, cx).await.map(Outcome::Started),
        }
    }
}

impl Shell {
    async fn wait(self, timeout: Duration, cx: &Context) -> Result<Ran, Fault> {
        let start = Instant::now();
        let mut running = begin(&self.command, self.output, cx).await?;
        let report = running.report().clone();
        let (mut out, mut err) = (Printed::default(), Printed::default());
        let mut take = |stream: Stream, bytes: &[u8]| {
            cx.output(&String::from_utf8_lossy(bytes));
            if stream == Stream::Out { out.add(bytes) } else { err.add(bytes) }
        };
        let time_over = tokio::time::sleep(timeout);
        let ended = {
            let following = follow(&mut running, &mut take);
            tokio::select! {
                ended = following => Ok(ended?),
                () = time_over => Err(Exit::TimedOut),
                () = cx.cancelled() => Err(Exit::Cancelled),
            }
        };
        let (exit, ended) = match ended {
            Ok(ended) => (ended.exit, ended),
            // What was left then, was left because everything was being ended.
            Err(exit) => (exit, Ended { left: Vec::new(), ..end(&mut running, &mut take).await? }),
        };
        let mut notes = set_aside(&ended, cx);
        if exit != Exit::Code(0)
            && let Some(name) = cx.session().extension::<Caging>().guarded_in(&self.command)
        {
            notes.push(format!(
                "commands cannot make or change `{name}`: other programs run something by it, so it is the user's"
            ));
        }
        again(&self.command, self.output, cx);
        let moved = match (self.moves, &ended.dir) {
            (true, Some(dir)) => moved(&self.command.dir, dir, cx),
            _ => Moved::No,
        };
        let Ended { left, hit, .. } = ended;
        Ok(Ran { exit, out, err, took: start.elapsed(), left, moved, hit, report, notes })
    }
}

/// Starts a command in its cage.
async fn begin(command: &Command, output: Output, cx: &Context) -> Result<Running, Fault> {
    let cages = cx.session().extension::<Cages>();
    let caging = cx.session().extension::<Caging>();
    let unusable = |error: std::io::Error| Fault::failed(format!("the command cannot be started: {error}"));
    let policy = caging.policy(command, cx);
    let cage = cages.ready(&caging).take(&policy, output).await.map_err(unusable)?;
    if let Some((wall, why)) = cage.report().missing.iter().find(|(wall, _)| caging.required.contains(wall)) {
        return Err(Fault::new(
            FaultKind::Disabled,
            format!("commands are to run behind {}, which cannot be had here: {why}", wall.made_of()),
        )
        .hint("`haft doctor` tells which walls stand here; the setting `sandbox.require` says which must"));
    }
    let task = Task {
        program: "/bin/bash".into(),
        args: ["--noprofile", "--norc", "-c", &command.text].map(Into::into).into(),
        dir: command.dir.as_path().to_owned(),
        env: caging.env(cx),
        tells_dir: true,
    };
    cage.run(task).await.map_err(unusable)
}

/// Makes a cage ready for the next command of this kind.
fn again(command: &Command, output: Output, cx: &Context) {
    let cages = cx.session().extension::<Cages>();
    let caging = cx.session().extension::<Caging>();
    let policy = caging.policy(command, cx);
    let cages = Arc::downgrade(&cages);
    tokio::spawn(async move {
        if let Some(cages) = cages.upgrade() {
            cages.ready(&caging).prepare(&policy, output).await;
        }
    });
}

/// What was made under names that others would run something by, in words.
fn set_aside(ended: &Ended, cx: &Context) -> Vec<String> {
    let shown = |path: &std::path::Path| {
        let root = cx.session().workspace().root().as_path();
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
async fn follow(running: &mut Running, take: &mut impl FnMut(Stream, &[u8])) -> Result<Ended, Fault> {
    loop {
        match running.next().await.map_err(|error| Fault::failed(error.to_string()))? {
            Happened::Output(stream, bytes) => take(stream, bytes),
            Happened::Ended(ended) => return Ok(ended),
        }
    }
}

/// Ends a command: first politely, then not.
async fn end(running: &mut Running, take: &mut impl FnMut(Stream, &[u8])) -> Result<Ended, Fault> {
    running.ask_to_end().await;
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
    let found = dir
        .to_str()
        .and_then(|dir| cx.session().workspace().resolve(cx.session().workspace().root(), dir).ok());
    match found.filter(|place| place.stat.is_some()) {
        Some(place) => {
            cx.session().set_cwd(place.path.clone());
            Moved::To(place.path)
        }
        None => Moved::Back(dir.display().to_string()),
    }
}

/// How a command ended, in words; nothing if it succeeded.
pub fn in_words(exit: Exit) -> Option<String> {
    Some(match exit {
        Exit::Code(0) => return None,
        Exit::Code(code @ 126) => format!("exit code {code}: it was found but cannot be executed"),
        Exit::Code(code @ 127) => format!("exit code {code}: a program was not found"),
        Exit::Code(code @ 129..=192) => {
            format!("exit code {code}: a program was ended by {}", signal_name(code - 128))
        }
        Exit::Code(code) => format!("exit code {code}"),
        Exit::Signal(signal) => format!("ended by {}", signal_name(signal)),
        Exit::TimedOut => "its time was up".to_owned(),
        Exit::Cancelled => "it was cancelled".to_owned(),
    })
}

fn signal_name(signal: i32) -> String {
    let name = match signal {
        1 => "SIGHUP",
        2 => "SIGINT",
        3 => "SIGQUIT",
        4 => "SIGILL (an illegal instruction)",
        6 => "SIGABRT (it aborted)",
        7 => "SIGBUS (a memory error)",
        8 => "SIGFPE (an arithmetic error)",
        9 => "SIGKILL (killed, perhaps for want of memory)",
        11 => "SIGSEGV (a memory error)",
        13 => "SIGPIPE (nobody reads its output)",
        15 => "SIGTERM",
        24 => "SIGXCPU (it used up its processor time)",
        25 => "SIGXFSZ (a file became too large)",
        31 => "SIGSYS (a forbidden system call)",
        _ => return format!("signal {signal}"),
    };
    name.to_owned()
}

//! Shared by the shell tools of all dialects: approval, bans, notes about the outcome.

use haft_core::permissions::Approval;
use haft_core::{Context, Fault, FaultKind, visible};
use haft_sandbox::Exit;
use haft_sandbox::sandbox::{Layer, LimitHit};
use serde_json::{Value, json};

use haft_ops::{Blocked, Command, CommandChanges, FileChange, Moved, Outcome, Ran};
use haft_shell as shell;

/// Whether a command needs approval.
pub(super) fn approval(command: &Command, cx: &Context) -> Approval {
    match (command.harm(), command.is_free()) {
        (_, true) => Approval::NeededRegardless("the command would run without the sandbox".to_owned()),
        (Some(harm), false) => Approval::NeededAlways(harm.to_owned()),
        (None, false) if command.is_read_only() => Approval::NotNeeded,
        (None, false) => Approval::Needed(command.effects(cx)),
    }
}

/// The hint for a command that needs more than the sandbox allows, in dialects without a parameter for it.
pub(super) const ASK: &str = "if it is needed, ask the user to run it";

/// The part of a command that waits for input, if any.
pub(super) fn waits_for_input(command: &str) -> Option<shell::Interactive> {
    shell::interactive(&shell::parse(command)).into_iter().find(|found| !found.endless)
}

/// Refuses a command line that contains a banned command, at any position, or that may: what a shell is fed and cannot
/// be read could be one.
pub(super) fn require_allowed(command: &str) -> Result<(), Fault> {
    let understood = shell::parse(command);
    let fault = match (shell::banned(&understood).first(), shell::unread(&understood)) {
        (Some(banned), _) => Fault::new(
            FaultKind::Denied,
            format!("`{}` is not allowed here ({})", banned.word, banned.category.name()),
        )
        .hint("do it another way, or ask the user to run it"),
        (None, Some(doubt)) => {
            Fault::new(FaultKind::Denied, format!("{doubt}, and some programs are not allowed here"))
                .hint("write the commands out, with literal words and without a shell in between")
        }
        (None, None) => match shell::uncertain_program(&understood) {
            Some(word) => Fault::new(
                FaultKind::Denied,
                format!("which program `{}` is, is not certain, and some are not allowed here", word.raw()),
            )
            .hint("write the name of the program out"),
            None => return Ok(()),
        },
    };
    Err(fault.with("command", command))
}

/// The outcome of a command in the foreground.
pub(super) fn finished(outcome: Outcome) -> Result<Ran, Fault> {
    match outcome {
        Outcome::Ran(ran) => Ok(*ran),
        Outcome::Started(id) => Err(Fault::new(FaultKind::Internal, format!("`{id}` was not waited for"))),
    }
}

/// One line for people about a command.
pub(super) fn describe(command: &str, description: Option<&str>) -> String {
    match description {
        Some(description) => format!("{command} ({description})"),
        None => command.to_owned(),
    }
}

/// Notes about a command's outcome. `more` is the hint for one that needs more than the sandbox allows.
pub(super) fn notes(ran: &Ran, more: &str, cx: &Context) -> Vec<String> {
    let mut notes = Vec::new();
    match &ran.moved {
        Moved::To(folder) => {
            notes.push(format!("the next command starts in `{}`", cx.workspace().display(folder)))
        }
        Moved::Back(folder) => notes.push(format!(
            "`{}` is not a folder of the workspace: the next command starts where this one did",
            visible(folder)
        )),
        Moved::No => {}
    }
    if !ran.left.is_empty() {
        let left = ran.left.iter().map(|name| format!("`{}`", visible(name))).collect::<Vec<_>>().join(", ");
        notes.push(format!("still running when the command ended, and ended with it: {left}"));
    }
    for (stream, printed) in [("printed", &ran.out), ("printed as errors", &ran.err)] {
        if let Some((path, bytes)) = printed.whole() {
            let path = path.display();
            notes.push(match bytes == printed.total {
                true => format!("all {bytes} bytes that it {stream} are in `{path}`"),
                false => {
                    format!("the first {bytes} of {} bytes that it {stream} are in `{path}`", printed.total)
                }
            });
        }
    }
    for blocked in &ran.blocked {
        notes.push(match blocked {
            Blocked::Files => format!(
                "the sandbox lets commands change only the workspace and temporary files, not `.git/hooks` and its \
                 like, which may be why this failed; {more}"
            ),
            Blocked::Network => format!(
                "the sandbox gives commands no network, which may be why this failed; the user can allow it with \
                 the setting `sandbox.network`; {more}"
            ),
        });
    }
    if let (Some(prompt), false) = (&ran.prompt, ran.exit == Exit::TimedOut) {
        notes.push(format!(
            "it asked `{prompt}` and got no answer: nobody can type; look for an option such as `-y`"
        ));
    }
    if ran.exit == Exit::TimedOut && ran.prompt.is_none() {
        notes.push(
            "everything that the command had started was ended with it; `timeout` gives it more time"
                .to_owned(),
        );
    }
    notes.extend(ran.hit.map(|hit| describe_quota(hit).to_owned()));
    notes.extend(ran.notes.iter().cloned());
    // A missing quota is not worth a note: most machines grant ordinary users none.
    for (layer, why) in ran.report.missing.iter().filter(|(layer, _)| *layer != Layer::Quota) {
        notes.push(format!("it ran without {}, which cannot be had here: {why}", layer.made_of()));
    }
    notes
}

fn describe_quota(hit: LimitHit) -> &'static str {
    match hit {
        LimitHit::Memory => "it needed more memory than it may have, and something in it was ended",
        LimitHit::Processes => "it tried to start more processes than it may have",
        LimitHit::Cpu => "it used up the processor time that it may have",
        LimitHit::FileSize => "it tried to write a larger file than it may",
    }
}

/// The exit code as shells report it: 128 plus the signal's number after a signal.
pub(super) fn exit_code(exit: Exit) -> i32 {
    match exit {
        Exit::Code(code) => code,
        Exit::Signal(signal) => 128 + signal,
        // The exit code of the program `timeout`.
        Exit::TimedOut => 124,
        Exit::Cancelled => 130,
    }
}

/// A duration in milliseconds.
pub(super) fn milliseconds(took: std::time::Duration) -> u64 {
    u64::try_from(took.as_millis()).unwrap_or(u64::MAX)
}

/// The structured value of a command's outcome.
pub(super) fn structured(ran: &Ran) -> Value {
    let (code, signal) = match ran.exit {
        Exit::Code(code) => (Some(code), None),
        Exit::Signal(signal) => (None, Some(signal)),
        Exit::TimedOut | Exit::Cancelled => (None, None),
    };
    let layers: Vec<&str> = ran.report.active.iter().map(|layer| layer.name()).collect();
    let missing: Vec<&str> = ran.report.missing.iter().map(|(layer, _)| layer.name()).collect();
    let blocked: Vec<&str> = ran.blocked.iter().map(|blocked| blocked.name()).collect();
    let mut value = json!({
        "exit_code": code,
        "signal": signal,
        "timed_out": ran.exit == Exit::TimedOut,
        "duration_ms": milliseconds(ran.took),
        "bytes_printed": ran.out.total + ran.err.total,
        "bytes_dropped": ran.out.dropped() + ran.err.dropped(),
        "still_running": ran.left,
        "is_error": !ran.succeeded(),
        "met_limit": ran.hit.map(LimitHit::name),
        "sandbox": {"layers": layers, "missing": missing, "blocked": blocked},
        "changes": changes(&ran.changes),
    });
    if let Some(trial) = &ran.trial {
        let files: Vec<Value> = trial.files.iter().map(file_change).collect();
        value["trial"] = json!({"kept": trial.kept.name(), "total": trial.total, "files": files});
    }
    value
}

/// The structured value of a file that a command changed.
fn file_change(file: &FileChange) -> Value {
    let mut value = json!({"path": file.path, "change": file.kind.name()});
    if let Some(from) = &file.from {
        value["from"] = json!(from);
    }
    value
}

/// The structured value of what a command changed; null if it changed nothing.
fn changes(changes: &CommandChanges) -> Value {
    if changes.total == 0 {
        return Value::Null;
    }
    let files: Vec<Value> = changes.files.iter().map(file_change).collect();
    json!({"number": changes.number, "total": changes.total, "files": files})
}

//! Starts a command in the sandbox of the session and waits for its end, with a timeout, cancellation and a heuristic for
//! prompts that get no answer. Knows nothing of the command's meaning.

use std::path::{Path, PathBuf};
use std::time::Duration;

use haft_core::{Context, Fault, FaultKind};
use haft_sandbox::Exit;
use haft_sandbox::sandbox::{
    CommandEnd, Network, Output, Policy, RunEvent, Running, Slot, Stream, Task, recorder, trial,
};

use super::sandbox_options::SessionSandbox;
use super::{Command, Printed, SandboxOptions, prompt, recorded};

/// Note about a sandbox that was lost.
const RENEWED: &str = "the sandbox of this session was lost and has been made anew: /tmp is empty, and commands that ran in \
                       the background have ended";
/// Time between the request to terminate and the kill.
const GRACE: Duration = Duration::from_secs(2);

/// A process that has ended, with its output.
pub(super) struct Finished {
    pub(super) end: CommandEnd,
    pub(super) out: Printed,
    pub(super) err: Printed,
    /// Prompt at the end of the output, unless the process succeeded.
    pub(super) prompt: Option<String>,
}

/// Collects the output of a process until it ends, its timeout is reached or the call is cancelled. A process that stays
/// silent after a prompt is terminated before its timeout.
pub(super) async fn wait_for_end(
    mut running: Running,
    timeout: Duration,
    cx: &Context,
) -> Result<Finished, Fault> {
    let (mut out, mut err) = (Printed::default(), Printed::default());
    let mut take = |stream: Stream, bytes: &[u8]| {
        cx.output(&String::from_utf8_lossy(bytes));
        let printed = if stream == Stream::Out { &mut out } else { &mut err };
        printed.add(bytes, || cx.keep_output());
        // A prompt leaves the cursor behind it: it has no line end.
        if bytes.ends_with(b"\n") { None } else { prompt::prompt_in(printed.end()) }
    };
    let deadline = tokio::time::sleep(timeout);
    tokio::pin!(deadline);
    let mut waiting_at = None;
    let ended = loop {
        tokio::select! {
            event = running.next() => match event.map_err(event_fault)? {
                RunEvent::Output(stream, bytes) => waiting_at = take(stream, bytes),
                RunEvent::Ended(ended) => break Ok(*ended),
            },
            () = &mut deadline => break Err(Exit::TimedOut),
            () = tokio::time::sleep(prompt::QUIET), if waiting_at.is_some() => break Err(Exit::TimedOut),
            () = cx.cancelled() => break Err(Exit::Cancelled),
        }
    };
    let ended = match ended {
        Ok(ended) => ended,
        // Processes that run on after a forced end say nothing about the command: they were about to be ended as well.
        Err(exit) => CommandEnd { exit, left: Vec::new(), ..terminate(&mut running, &mut take).await? },
    };
    let prompt = waiting_at.filter(|_| ended.exit != Exit::Code(0));
    // A process whose name can no longer be read has ended by itself.
    let left = ended.left.into_iter().filter(|name| !name.is_empty()).collect();
    let end = CommandEnd { left, ..ended };
    Ok(Finished { end, out, err, prompt })
}

/// A command that has started.
pub(super) struct Started {
    pub(super) running: Running,
    pub(super) policy: Policy,
    /// Where its changes are recorded.
    pub(super) recording: Option<PathBuf>,
    /// Remarks about its sandbox for the model.
    pub(super) notes: Vec<String>,
}

/// The policy of a command, with the session's rules and what a person allowed.
pub(super) async fn policy(command: &Command, cx: &Context) -> Result<Policy, Fault> {
    let sandbox_options = cx.session().extension::<SandboxOptions>();
    let mut policy = sandbox_options.policy(command, cx);
    if cx.may_use_network() {
        policy.network = Network::On;
    }
    sandbox_options.with_rules(policy, cx).await
}

/// Starts a command in the session's sandbox, with its policy.
pub(super) async fn begin(command: &Command, output: Output, cx: &Context) -> Result<Started, Fault> {
    let policy = policy(command, cx).await?;
    let record = recorded::options(&policy, cx);
    start(command, output, policy, Watched { record, view: None }, cx).await
}

/// How what a command changes is known afterwards.
pub(super) struct Watched {
    /// It is recorded.
    pub(super) record: Option<recorder::Options>,
    /// It happens in a view of its own.
    pub(super) view: Option<trial::Mounts>,
}

pub(super) async fn start(
    command: &Command,
    output: Output,
    policy: Policy,
    Watched { record, view }: Watched,
    cx: &Context,
) -> Result<Started, Fault> {
    let sandbox_options = cx.session().extension::<SandboxOptions>();
    let slot = take_slot(&policy, output, cx).await?;
    sandbox_options.require_enforced(&slot, command.free, cx)?;
    let notes = slot.is_renewed().then(|| RENEWED.to_owned()).into_iter().collect();
    let recording = record.as_ref().map(|options| options.store.clone());
    let task = Task {
        program: "/bin/bash".into(),
        args: ["--noprofile", "--norc", "-c", "--", &command.text].map(Into::into).into(),
        dir: command.dir.as_path().to_owned(),
        env: sandbox_options.env(cx).await,
        input: Vec::new(),
        reports_dir: true,
        record,
        view,
    };
    Ok(Started { running: slot.run(task).await.map_err(start_fault)?, policy, recording, notes })
}

/// A slot in the session's sandbox. Fails if the sandbox lacks a layer that the settings require.
pub(super) async fn take_slot(policy: &Policy, output: Output, cx: &Context) -> Result<Slot, Fault> {
    let session = cx.session().extension::<SessionSandbox>();
    let sandbox_options = cx.session().extension::<SandboxOptions>();
    let slot = session.sandbox(&sandbox_options).slot(policy, output).await.map_err(start_fault)?;
    if let Some((layer, why)) =
        slot.report().missing.iter().find(|(layer, _)| sandbox_options.required.contains(layer))
    {
        return Err(Fault::new(
            FaultKind::Disabled,
            format!("commands are to run behind {}, which cannot be had here: {why}", layer.made_of()),
        )
        .hint(
            "`haft doctor` tells which layers are active here; the setting `sandbox.require` says which must",
        ));
    }
    Ok(slot)
}

/// Fault about a sandbox or a command that could not be started.
pub(super) fn start_fault(error: std::io::Error) -> Fault {
    Fault::failed(format!("the command cannot be started: {error}"))
}

/// Fault about a lost connection to a running command.
fn event_fault(error: std::io::Error) -> Fault {
    Fault::failed(error.to_string())
}

/// Notes about files that the sandbox renamed because other programs would run something by their names.
pub(super) fn set_aside_notes(end: &CommandEnd, cx: &Context) -> Vec<String> {
    let shown = |path: &Path| {
        let root = cx.session_workspace().root().as_path();
        path.strip_prefix(root).unwrap_or(path).display().to_string()
    };
    let note = |path: &PathBuf| {
        format!(
            "what the command made was renamed to `{}`: by its name other programs would run something",
            shown(path)
        )
    };
    end.set_aside.iter().map(note).collect()
}

/// Collects the output of a process until it ends.
async fn follow<T>(
    running: &mut Running,
    take: &mut impl FnMut(Stream, &[u8]) -> T,
) -> Result<CommandEnd, Fault> {
    loop {
        match running.next().await.map_err(event_fault)? {
            RunEvent::Output(stream, bytes) => drop(take(stream, bytes)),
            RunEvent::Ended(ended) => return Ok(*ended),
        }
    }
}

/// Terminates a process, and kills it after [`GRACE`].
async fn terminate<T>(
    running: &mut Running,
    take: &mut impl FnMut(Stream, &[u8]) -> T,
) -> Result<CommandEnd, Fault> {
    running.terminate();
    match tokio::time::timeout(GRACE, follow(running, take)).await {
        Ok(ended) => ended,
        Err(_) => {
            running.kill();
            follow(running, take).await
        }
    }
}

//! A process of a slot that becomes a command: it sets up the view that the command's policy describes, drops every right
//! that the policy does not grant, and starts the command's program.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;

use rustix::fs::MemfdFlags;
use rustix::io::FdFlags;
use rustix::pipe::PipeFlags;

use super::super::layer_error::LayerError;
use super::super::policy::{Layer, Layers, Limits, Network, Policy, Report};
use super::super::trial::Mounts;
use super::super::wire::{Frame, Parts};
use super::super::{RECORDER, layers, os, recorder};
use super::Made;

/// Exit code of a command that could not be started, as shells have it.
const NOT_STARTED: i32 = 127;

/// A command with the files that it gets.
pub(super) struct Command {
    program: Vec<u8>,
    args: Vec<Vec<u8>>,
    dir: Vec<u8>,
    env: Vec<Vec<u8>>,
    pub(super) dir_report: Option<DirReport>,
    is_recorded: bool,
    /// The memory that it may use, if the slot has to see to that.
    pub(super) max_memory: Option<u64>,
    view: Mounts,
    streams: [OwnedFd; 3],
}

impl Command {
    pub(super) fn parse(mut task: Parts, files: Vec<OwnedFd>) -> io::Result<Self> {
        let streams = files.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
        let (program, args) = (task.bytes()?, task.list()?);
        let (dir, env) = (task.bytes()?, task.list()?);
        let dir_report = if task.number()? == 1 { Some(DirReport::new()?) } else { None };
        let is_recorded = task.number()? == 1;
        let max_memory = Some(task.number()?).filter(|max| *max != u64::MAX);
        let view = Mounts::parse(&mut task)?;
        Ok(Self { program, args, dir, env, dir_report, is_recorded, max_memory, view, streams })
    }
}

/// Becomes the command, in a sandbox of its policy. What prevents that goes into the pipe, which otherwise closes when the
/// program starts.
pub(super) fn become_it(
    command: Command,
    policy: &Policy,
    made: &Made,
    control: &UnixStream,
    failure: OwnedFd,
) -> ! {
    let ready = enter(&command, policy, made).and_then(|()| Ok(prepare(&command)?));
    let ready = ready.and_then(|program| {
        // Last: from here on, the changing calls of this process wait for haft.
        if command.is_recorded {
            offer_recorder(control)?;
        }
        Ok(program)
    });
    let mut program = match ready {
        Ok(program) => program,
        Err(error) => {
            let _ = File::from(failure).write_all(io::Error::from(error).to_string().as_bytes());
            std::process::exit(NOT_STARTED);
        }
    };
    let [input, output, errors] = command.streams;
    let message_to = errors.try_clone();
    let error = program.stdin(input).stdout(output).stderr(errors).exec();
    if let Ok(message_to) = message_to {
        let name = String::from_utf8_lossy(&command.program);
        let _ = writeln!(File::from(message_to), "`{name}` cannot be started: {error}");
    }
    std::process::exit(NOT_STARTED);
}

/// Sends haft a listener for the changing calls of this process, or the reason why there is none.
fn offer_recorder(control: &UnixStream) -> io::Result<()> {
    match recorder::install() {
        Ok(listener) => Frame::of([RECORDER]).send_with(control, &[listener.as_fd()]),
        Err(error) => Frame::of([RECORDER, &error.to_string()]).send(control),
    }
}

/// Enters the sandbox of a policy. A layer that worked when the supervisor tried it must work here too.
fn enter(command: &Command, policy: &Policy, made: &Made) -> Result<(), LayerError> {
    // Commands must not get hold of haft's terminal.
    rustix::process::setsid()?;
    // When memory runs out, the kernel should kill a command first, and not its slot.
    let _ = std::fs::write("/proc/self/oom_score_adj", "500");
    let mut report = Report::default();
    if let (Network::Off, Some(network)) = (policy.network, &made.network) {
        layers::enter_network(network.as_fd())?;
        report.active.push(Layer::Network);
    }
    if made.base.layers == Layers::All {
        layers::copy_mounts().and_then(|()| layers::make_view(policy, &command.view)).map_err(|error| {
            io::Error::new(error.kind(), format!("the sandbox could not be made: {error}"))
        })?;
        report.active.push(Layer::View);
    } else if !command.view.is_empty() {
        return Err(io::Error::other("a command can only be tried in a mount namespace of its own").into());
    }
    std::env::set_current_dir(os(&command.dir)).map_err(|error| {
        let shown = String::from_utf8_lossy(&command.dir);
        io::Error::new(error.kind(), format!("the folder `{shown}` cannot be entered: {error}"))
    })?;
    match made.base.layers {
        Layers::None => set_resource_limits(policy)?,
        Layers::All | Layers::Few => finish_layers(policy, &mut report)?,
    }
    match report.missing.into_iter().find(|(layer, _)| made.report.has(*layer)) {
        Some((_, why)) => Err(io::Error::other(why).into()),
        None => Ok(()),
    }
}

fn prepare(command: &Command) -> io::Result<std::process::Command> {
    let mut program = std::process::Command::new(os(&command.program));
    program.args(command.args.iter().map(|arg| os(arg))).env_clear();
    for variable in &command.env {
        let at = variable.iter().position(|byte| *byte == b'=').unwrap_or(variable.len());
        program.env(os(&variable[..at]), os(variable.get(at + 1..).unwrap_or_default()));
    }
    if let Some(report) = &command.dir_report {
        program.env("BASH_ENV", report.pass_on()?);
    }
    Ok(program)
}

fn unless_left_out(
    policy: &Policy,
    layer: Layer,
    make: impl FnOnce() -> Result<(), LayerError>,
) -> Result<(), LayerError> {
    match policy.without.contains(&layer) {
        true => Err(LayerError::Unsupported(super::LEFT_OUT.to_owned())),
        false => make(),
    }
}

/// Sets up the layers that need no namespaces, and the resource limits. The order matters: without capabilities, or behind
/// the seccomp filter, the earlier steps would fail.
pub(super) fn finish_layers(policy: &Policy, report: &mut Report) -> Result<(), LayerError> {
    set_resource_limits(policy)?;
    rustix::thread::set_no_new_privs(true)?;
    layers::drop_capabilities()?;
    let (has_view, has_network) = (report.has(Layer::View), report.has(Layer::Network));
    let paths = || layers::restrict_paths(policy, has_view, has_network);
    report.note(Layer::Paths, unless_left_out(policy, Layer::Paths, paths))?;
    let calls = || layers::restrict_calls(policy, has_view, has_network);
    report.note(Layer::Calls, unless_left_out(policy, Layer::Calls, calls))
}

fn set_resource_limits(policy: &Policy) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Limits { memory, cpu, processes, files, file_size, total_memory: _, total_cpu: _ } = policy.limits;
    // The kernel counts all processes of a user: in a user namespace only those in it, elsewhere also those that have
    // nothing to do with haft.
    let others = if policy.layers == Layers::All { 0 } else { own_processes() };
    let processes = processes.map(|max| max.saturating_add(others));
    let wanted = [
        (Resource::As, memory),
        (Resource::Cpu, cpu),
        (Resource::Nproc, processes),
        (Resource::Nofile, files),
        (Resource::Fsize, file_size),
        (Resource::Core, Some(0)),
    ];
    for (resource, limit) in wanted {
        let Some(limit) = limit else { continue };
        let soft = getrlimit(resource).maximum.map_or(limit, |hard| hard.min(limit));
        // A program that uses up its time gets SIGXCPU one second before SIGKILL.
        let hard = if resource == Resource::Cpu { soft.saturating_add(1) } else { soft };
        setrlimit(resource, Rlimit { current: Some(soft), maximum: Some(hard) })?;
    }
    Ok(())
}

/// How many processes and threads this user has.
fn own_processes() -> u64 {
    let own = rustix::process::getuid().as_raw();
    let is_own = |found: &std::fs::Metadata| std::os::unix::fs::MetadataExt::uid(found) == own;
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let processes = entries.filter(|entry| {
        entry.file_name().as_encoded_bytes().iter().all(u8::is_ascii_digit)
            && entry.metadata().is_ok_and(|found| is_own(&found))
    });
    let threads = |process: std::fs::DirEntry| {
        std::fs::read_dir(process.path().join("task")).map_or(1, |threads| threads.count() as u64)
    };
    processes.map(threads).sum()
}

/// Lowest descriptor that is passed to bash: scripts use the lower ones.
const MIN_PASSED_FD: i32 = 230;

/// The pipe on which a bash reports its working directory when it exits.
pub(super) struct DirReport {
    read: OwnedFd,
    write: OwnedFd,
}

impl DirReport {
    fn new() -> io::Result<Self> {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        Ok(Self { read, write })
    }

    /// The end that the slot reads.
    pub(super) fn into_reader(self) -> OwnedFd {
        self.read
    }

    /// Passes the other end to a bash, with a start-up script that uses it. Returns the script's name, for `BASH_ENV`.
    fn pass_on(&self) -> io::Result<String> {
        let script = rustix::fs::memfd_create("haft", MemfdFlags::CLOEXEC)?;
        let (write, passed) = (inheritable(&self.write)?, inheritable(&script)?);
        // A trap reports the directory however bash exits. It is in a file in memory, which bash closes at once, so that the
        // command itself stays as it was approved.
        let text = format!("unset BASH_ENV; exec {passed}<&-; trap 'pwd -P >&{write} 2>/dev/null' EXIT\n");
        rustix::io::write(&script, text.as_bytes())?;
        Ok(format!("/proc/self/fd/{passed}"))
    }
}

/// Duplicates a descriptor so that the command inherits it. Returns its number.
fn inheritable(fd: &OwnedFd) -> io::Result<i32> {
    use std::os::fd::IntoRawFd as _;
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.and_then(|limit| i32::try_from(limit).ok()).unwrap_or(i32::MAX);
    // Below a low limit, leave room for both descriptors and for some that are in use.
    let fd = rustix::io::fcntl_dupfd_cloexec(fd, MIN_PASSED_FD.min(limit.saturating_sub(8)))?;
    rustix::io::fcntl_setfd(&fd, FdFlags::empty())?;
    Ok(fd.into_raw_fd())
}

/// Reads the line that a pipe holds, without waiting for one.
pub(super) fn read_line(pipe: OwnedFd) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let read = rustix::io::read(&pipe, &mut bytes).unwrap_or(0);
    bytes.truncate(read);
    bytes.pop_if(|byte| *byte == b'\n');
    bytes
}

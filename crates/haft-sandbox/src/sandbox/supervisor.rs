//! The launcher, haft's own program, and the supervisors that it forks. A supervisor makes a session's sandbox and lives in it as
//! long as the session does. Nothing here returns to what the program otherwise does.
//!
//! With a process namespace it is two processes: the outer one, which made the namespaces, and the inner one, which is
//! process 1 in them, so that the kernel kills every other process there when it exits. The inner one makes what all commands
//! of the session share, and starts a *slot* (`supervisor/slot.rs`) whenever haft asks for one. It keeps its rights in the
//! namespaces; commands drop theirs (`supervisor/command.rs`). When the socket to haft closes, because the session is over or
//! haft is dead, the supervisor ends everything.

mod command;
mod memory;
mod slot;
mod tree;

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, pidfd_open};

use super::layer_error::LayerError;
use super::layers::{self, Users};
use super::policy::{Layer, Layers, Policy, Report};
use super::wire::{Build, Frame, Parts};
use super::{LEFT_OUT, MAP_USERS, SLOT};

/// What is the same for all commands of a sandbox, whatever their policies.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Base {
    /// Which layers to set up.
    pub(super) layers: Layers,
    /// Layers to leave out although the kernel supports them.
    pub(super) without: Vec<Layer>,
}

impl Base {
    pub(super) fn frame(&self) -> Frame {
        let without = self.without.iter().map(|layer| layer.name().as_bytes().to_vec());
        Build::default().bytes(self.layers.name()).list(without).frame()
    }

    fn parse(frame: Frame) -> io::Result<Self> {
        let mut parts = Parts::of(frame);
        let layers = Layers::named(&parts.bytes()?);
        Ok(Self { layers, without: parts.list()?.iter().filter_map(|name| Layer::named(name)).collect() })
    }

    fn wants(&self, layer: Layer) -> Result<(), LayerError> {
        match self.without.contains(&layer) {
            true => Err(LayerError::Unsupported(LEFT_OUT.to_owned())),
            false => Ok(()),
        }
    }
}

/// What a supervisor has made for the commands of its session.
struct Made {
    base: Base,
    /// The layers that every command must have: they worked when they were tried.
    report: Report,
    /// A network namespace for the commands that may not use the machine's network.
    network: Option<OwnedFd>,
}

/// Runs the launcher, which forks a supervisor whenever haft asks for one, and exits when the socket to haft closes.
pub(super) fn main() -> ! {
    close_inherited();
    // Ctrl-C at haft's terminal is for haft.
    let _ = rustix::process::setsid();
    std::process::exit(if launch_all().is_ok() { 0 } else { 125 });
}

fn launch_all() -> io::Result<()> {
    let control = take_control()?;
    // The kernel reaps supervisors: nothing waits for them.
    reap_children(libc::SIG_IGN);
    while let Ok((_, files)) = Frame::receive_with(&control) {
        let Some(socket) = files.into_iter().next() else { continue };
        if fork()?.is_none() {
            drop(control);
            reap_children(libc::SIG_DFL);
            // A session of its own, not only a process group: when haft dies, a group would be orphaned, and the kernel would
            // send SIGHUP to all of it because of slots that are stopped to be killed.
            let _ = rustix::process::setsid();
            // Failures have been reported over the socket.
            std::process::exit(if supervise(socket.into()).is_ok() { 0 } else { 125 });
        }
    }
    Ok(())
}

/// Sets what happens when a child of this process ends: it waits to be reaped, or the kernel reaps it.
fn reap_children(how: libc::sighandler_t) {
    #[allow(unsafe_code)]
    // SAFETY: neither of the two values is a function.
    unsafe {
        libc::signal(libc::SIGCHLD, how);
    }
}

/// Closes every inherited descriptor but the standard ones: neither a command nor the supervisor may hold what was open when
/// haft was started.
fn close_inherited() {
    #[allow(unsafe_code)]
    // SAFETY: this process has opened nothing yet.
    let is_closed = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) == 0 };
    if is_closed {
        return;
    }
    // Before Linux 5.9 there is no `close_range`.
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<i32> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for fd in open.into_iter().filter(|fd| *fd > 2) {
        #[allow(unsafe_code)]
        // SAFETY: as above; the descriptor of the listing itself is closed already.
        unsafe {
            libc::close(fd);
        }
    }
}

/// Takes the socket to haft from standard input, so that no other process holds it: haft learns by its end that the sandbox
/// is gone.
fn take_control() -> io::Result<UnixStream> {
    let control = io::stdin().as_fd().try_clone_to_owned()?;
    rustix::stdio::dup2_stdin(std::fs::File::open("/dev/null")?)?;
    Ok(control.into())
}

/// Sets up a sandbox and serves haft, or reports why that failed.
fn supervise(control: UnixStream) -> io::Result<()> {
    let base = Base::parse(Frame::receive(&control)?)?;
    reported(&control, has_one_thread())?;
    if base.layers != Layers::All {
        let made = reported(&control, without_namespaces(base))?;
        return serve(control, &made);
    }
    if reported(&control, layers::enter_namespaces())? == Users::All {
        let own = rustix::process::getpid().as_raw_nonzero().get();
        Build::default().bytes(MAP_USERS).number(own.unsigned_abs().into()).frame().send(&control)?;
        // Haft answers once the maps are written.
        Frame::receive(&control)?;
    }
    let Some(inner) = fork()? else {
        rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
        let made = reported(&control, within_namespaces(base))?;
        return serve(control, &made);
    };
    drop(control);
    tree::wait_for(inner).map(drop)
}

/// Checks that no thread was started before [`arm`](super::arm) was called: a process with threads cannot enter a user
/// namespace, and a right that one thread drops the others still have.
fn has_one_thread() -> Result<(), LayerError> {
    match std::fs::read_dir("/proc/self/task")?.count() {
        1 => Ok(()),
        _ => Err(io::Error::other(
            "`sandbox::arm()` was called after threads were started: call it first in a plain `fn main()`, and start the \
             async runtime after it instead of with `#[tokio::main]`",
        )
        .into()),
    }
}

/// Forks. Returns `None` in the child.
fn fork() -> io::Result<Option<Pid>> {
    #[allow(unsafe_code)]
    // SAFETY: the supervisor and its slots have one thread each, so no lock is held by another one in the copy.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Passes on the outcome of a step; a failure is sent to haft first.
fn reported<T>(control: &UnixStream, outcome: Result<T, LayerError>) -> io::Result<T> {
    outcome.map_err(|error| {
        let _ = error.frame().send(control);
        error.into()
    })
}

fn within_namespaces(base: Base) -> Result<Made, LayerError> {
    layers::probe_view()?;
    layers::make_session_root()?;
    let mut made = tried(base)?;
    made.report.active.splice(0..0, [Layer::Processes, Layer::View]);
    // Commands run as the same user, and the supervisor has more rights than they.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(made)
}

fn without_namespaces(base: Base) -> Result<Made, LayerError> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    match base.layers {
        Layers::None => Ok(Made { base, report: Report::default(), network: None }),
        Layers::All | Layers::Few => tried(base),
    }
}

/// Tries the layers that each command sets up for itself, in a process that exits afterwards. Nothing that a command or a
/// project controls is involved, so this alone decides which layers the kernel lacks: a layer that works here and fails for a
/// command is refused there.
fn tried(base: Base) -> Result<Made, LayerError> {
    let (ours, theirs) = UnixStream::pair()?;
    let Some(child) = fork()? else {
        let mut report = Report::default();
        let mut network = None;
        let mut try_all = || {
            if base.layers == Layers::All {
                let own = base.wants(Layer::Network).and_then(|()| layers::own_network());
                report.note(Layer::Network, own.map(|own| network = Some(own)))?;
            }
            let policy = Policy { layers: base.layers, without: base.without.clone(), ..Policy::default() };
            command::finish_layers(&policy, &mut report)
        };
        let frame = try_all().map_or_else(|error| error.frame(), |()| report.frame());
        let files: Vec<_> = network.iter().map(|network| network.as_fd()).collect();
        let sent = frame.send_with(&theirs, &files);
        std::process::exit(if sent.is_ok() { 0 } else { 1 });
    };
    drop(theirs);
    let (frame, files) = Frame::receive_with(&ours)?;
    tree::wait_for(child)?;
    let mut parts = Parts::of(LayerError::parse(frame)?);
    parts.bytes()?;
    let report = Report::parse(&mut parts)?;
    Ok(Made { base, report, network: files.into_iter().next() })
}

/// Starts slots when haft asks for them, and ends what a slot that was killed has left, until the socket to haft closes.
fn serve(control: UnixStream, made: &Made) -> io::Result<()> {
    made.report.frame().send(&control)?;
    let mut slots: Vec<(Pid, OwnedFd)> = Vec::new();
    loop {
        let ended = {
            let slot_ends = slots.iter().map(|(_, end)| PollFd::new(end, PollFlags::IN));
            let mut events: Vec<PollFd<'_>> =
                std::iter::once(PollFd::new(&control, PollFlags::IN)).chain(slot_ends).collect();
            wait_for_event(&mut events, None)?;
            let is_ready = |event: &PollFd<'_>| !event.revents().is_empty();
            let ended = events.iter().skip(1).position(is_ready);
            if ended.is_none() && !events.first().is_some_and(is_ready) {
                continue;
            }
            ended
        };
        if let Some(at) = ended {
            let (pid, _) = slots.swap_remove(at);
            tree::wait_for(pid)?;
            let others: Vec<i32> = slots.iter().map(|(pid, _)| pid.as_raw_nonzero().get()).collect();
            tree::kill_strays(&others);
            continue;
        }
        let files = match Frame::receive_with(&control) {
            Ok((frame, files)) if frame == Frame::of([SLOT]) => files,
            _ => break,
        };
        match fork()? {
            Some(pid) => slots.push((pid, pidfd_open(pid, PidfdFlags::empty())?)),
            None => {
                drop((control, slots));
                let served = slot::main(files, made);
                std::process::exit(if served.is_ok() { 0 } else { 1 });
            }
        }
    }
    // With a process namespace, the kernel kills all others in it when this process exits.
    if made.base.layers != Layers::All {
        tree::kill_all();
    }
    Ok(())
}

fn wait_for_event(events: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> io::Result<()> {
    loop {
        match poll(events, timeout) {
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done.map(drop)?),
        }
    }
}

/// The status of a child that has ended.
fn reap(pid: Pid) -> Option<rustix::process::WaitStatus> {
    match rustix::process::waitpid(Some(pid), WaitOptions::NOHANG) {
        Ok(Some((_, status))) => Some(status),
        _ => None,
    }
}

//! A slot: the process in the sandbox that runs commands, one after the other. It is in a control group of its own and adopts
//! what its command leaves behind, so it can tell and end exactly the processes of that command.

use std::fs::File;
use std::io::{self, Read as _, Write as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

use rustix::event::{PollFd, PollFlags};
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};

use super::super::layer_error::LayerError;
use super::super::policy::Policy;
use super::super::wire::{Build, Frame, Parts};
use super::super::{KILL, READY, STARTED, TERMINATE};
use super::command::{self, Command};
use super::memory::MemoryWatch;
use super::{Made, tree};

/// Serves haft over the first of these files; the others are the entrances of the slot's control group.
pub(super) fn main(files: Vec<OwnedFd>, made: &Made) -> io::Result<()> {
    let mut files = files.into_iter();
    let control = files.next().map(UnixStream::from).ok_or(io::ErrorKind::InvalidData)?;
    let supervisor = rustix::process::getppid().ok_or(io::ErrorKind::NotFound)?;
    let supervisor = pidfd_open(supervisor, PidfdFlags::empty())?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // The number 0 stands for the process that writes it.
    let joined = files.try_for_each(|group| File::from(group).write_all(b"0"));
    let why_not = joined.err().map_or(String::new(), |error| error.to_string());
    let own = pidfd_open(rustix::process::getpid(), PidfdFlags::empty())?;
    Frame::of([READY, &why_not]).send_with(&control, &[own.as_fd()])?;
    drop(own);
    while let Ok((frame, files)) = Frame::receive_with(&control) {
        let (policy, task) = parse(frame)?;
        match run(&control, &supervisor, policy, task, files, made) {
            Ok(()) => {}
            Err(error) => LayerError::from(error).frame().send(&control)?,
        }
    }
    Ok(())
}

/// A command as haft sends it: its policy, then the rest.
fn parse(frame: Frame) -> io::Result<(Policy, Parts)> {
    let mut parts = Parts::of(frame);
    Ok((Policy::parse(&mut parts)?, parts))
}

/// Runs one command, and reports that it has started and how it ended. An error means that it has not started.
fn run(
    control: &UnixStream,
    supervisor: &OwnedFd,
    policy: Policy,
    task: Parts,
    files: Vec<OwnedFd>,
    made: &Made,
) -> io::Result<()> {
    let (failure, report_failure) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC)?;
    let spent = tree::cpu_time_of_children();
    let mut command = Command::parse(task, files)?;
    let Some(pid) = super::fork()? else {
        drop(failure);
        command::become_it(command, &policy, made, control, report_failure);
    };
    drop(report_failure);
    let dir = command.dir_report.take().map(command::DirReport::into_reader);
    let watch = command.max_memory.map(MemoryWatch::new);
    drop(command);
    // The pipe closes when the command's own program starts.
    let mut why = Vec::new();
    File::from(failure).read_to_end(&mut why)?;
    if !why.is_empty() {
        tree::wait_for(pid)?;
        return Err(io::Error::other(String::from_utf8_lossy(&why).into_owned()));
    }
    Frame::of([STARTED]).send(control)?;
    let (status, is_over) = wait(control, supervisor, pid, watch)?;
    let (kind, value) = match (status.code(), status.signal()) {
        (Some(code), _) => ("code", u64::try_from(code).unwrap_or(0)),
        (None, signal) => ("signal", u64::try_from(signal.unwrap_or(9)).unwrap_or(9)),
    };
    let left = if tree::is_alone() { Vec::new() } else { tree::command_lines(&tree::descendants(&[])) };
    let is_settled = tree::kill_all();
    let ended = Build::default()
        .bytes(kind)
        .number(value)
        .list(left.into_iter())
        .bytes(dir.map(command::read_line).unwrap_or_default())
        .number(tree::cpu_time_of_children().saturating_sub(spent))
        .number(is_over.into());
    ended.frame().send(control)?;
    if !is_settled {
        // The supervisor gets what could not be killed.
        std::process::exit(1);
    }
    Ok(())
}

/// Waits for the command itself, and does meanwhile what haft asks for. Returns how it ended, and whether that was for the
/// memory that it used.
fn wait(
    control: &UnixStream,
    supervisor: &OwnedFd,
    pid: Pid,
    watch: Option<MemoryWatch>,
) -> io::Result<(ExitStatus, bool)> {
    let end = pidfd_open(pid, PidfdFlags::empty())?;
    let killed = ExitStatus::from_raw(libc::SIGKILL);
    loop {
        let mut events = [
            PollFd::new(&end, PollFlags::IN),
            PollFd::new(control, PollFlags::IN),
            PollFd::new(supervisor, PollFlags::IN),
        ];
        super::wait_for_event(&mut events, watch.as_ref().map(|_| &MemoryWatch::INTERVAL))?;
        let [has_ended, has_message, is_alone] = events.map(|event| !event.revents().is_empty());
        if has_ended {
            return Ok((tree::wait_for(pid)?, false));
        }
        if is_alone {
            // Without a process namespace, nobody else would end what runs here.
            tree::kill_all();
            std::process::exit(1);
        }
        if watch.as_ref().is_some_and(MemoryWatch::is_over) {
            tree::kill_all();
            return Ok((killed, true));
        }
        if !has_message {
            continue;
        }
        match Frame::receive(control) {
            Ok(frame) if frame == Frame::of([TERMINATE]) => tree::signal_all(Signal::TERM),
            Ok(frame) if frame == Frame::of([KILL]) => {
                tree::kill_all();
                return Ok((killed, false));
            }
            // Haft is gone, or does not want to know how the command ends.
            _ => {
                tree::kill_all();
                std::process::exit(0);
            }
        }
    }
}

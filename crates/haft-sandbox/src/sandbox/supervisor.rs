//! The supervisor: haft's own program inside the sandbox. Nothing here returns to what the program otherwise does.
//! With a process namespace it runs as two processes: the outer one, which made the namespace, and the inner one, which is
//! process 1 in it, so that the kernel kills every other process there when it exits. Its standard input is the control
//! socket to haft; when that closes, because haft is done or dead, the supervisor ends everything.

use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::fs::MemfdFlags;
use rustix::io::FdFlags;
use rustix::pipe::PipeFlags;
use rustix::process::{Pid, Signal, WaitOptions};

use super::layer_error::LayerError;
use super::layers::Users;
use super::policy::{Layer, Layers, Limits, Policy, Report};
use super::wire::{Build, Frame, Parts};
use super::{BYE, MAP_USERS, os};

/// Exit code of a command that could not be started, as shells have it.
const NOT_STARTED: u64 = 127;
/// Exit code of the inner process when the control socket closed without a [`BYE`]: haft died.
const HAFT_DIED: i32 = 3;

/// Runs the supervisor and exits.
pub(super) fn main() -> ! {
    close_inherited();
    if let Err(error) = outer() {
        let _ = writeln!(io::stderr(), ": {error}");
        std::process::exit(125);
    }
    std::process::exit(0);
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

fn control_socket() -> io::Result<UnixStream> {
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

/// Sets up the sandbox and serves a command in it, or reports to haft why that failed.
fn outer() -> io::Result<()> {
    // When the machine runs out of memory, the kernel should kill a command first.
    let _ = std::fs::write("/proc/self/oom_score_adj", "500");
    let control = control_socket()?;
    let joined = Frame::receive(&control)? == Frame::of(["joined"]);
    let policy = Policy::parse(Frame::receive(&control)?)?;
    if joined {
        // From here on both streams are one, for the supervisor and for all it starts.
        rustix::stdio::dup2_stderr(io::stdout())?;
    }
    reported(&control, has_one_thread())?;
    if policy.layers != Layers::All {
        let report = reported(&control, without_namespaces(&policy))?;
        return serve(&control, &report, Scope::Descendants);
    }
    if reported(&control, super::layers::enter_namespaces(&policy))? == Users::All {
        Frame::of([MAP_USERS]).send(&control)?;
        // Haft answers once the maps are written.
        Frame::receive(&control)?;
    }
    let haft = rustix::process::getppid();
    let (guard_requests, to_outer) = UnixStream::pair()?;
    let Some(inner_pid) = fork()? else {
        drop(guard_requests);
        return inner(&control, to_outer, &policy);
    };
    drop((control, to_outer));
    let reserved = serve_guard_request(&guard_requests, &policy);
    let exit = reap_until(inner_pid)?;
    // Normally haft releases the reserved names, which does not take unmounting. The parent is checked too: the kernel
    // closes the files of a process that is being killed a moment before its children get another parent.
    if exit.code() == Some(HAFT_DIED) || rustix::process::getppid() != haft {
        reserved.iter().for_each(|path| super::layers::release(path));
    }
    Ok(())
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

/// Forks. Returns `None` in the child, which is process 1 of the new namespace.
fn fork() -> io::Result<Option<Pid>> {
    #[allow(unsafe_code)]
    // SAFETY: the supervisor has one thread here, so no lock is held by another one in the copy.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Guards paths for the inner process when a command is about to start, and returns the names that it reserved. The inner
/// process has dropped the right to mount by then, and commands inherit from it; the outer one has not.
fn serve_guard_request(requests: &UnixStream, policy: &Policy) -> Vec<PathBuf> {
    let Ok(Frame(paths)) = Frame::receive(requests) else { return Vec::new() };
    let mut reserved = Vec::new();
    let guard = |path: PathBuf| -> io::Result<()> {
        let is_new = super::guards::reserve(&path)?;
        super::layers::guard(&path, &policy.write).map_err(|error| {
            io::Error::new(error.kind(), format!("`{}` could not be guarded: {error}", path.display()))
        })?;
        reserved.extend(is_new.then_some(path));
        Ok(())
    };
    let outcome = paths.iter().map(|path| os(path).into()).try_for_each(guard);
    let message = outcome.err().map_or(String::new(), |error| error.to_string());
    let _ = Frame::of([message]).send(requests);
    reserved
}

fn inner(control: &UnixStream, to_outer: UnixStream, policy: &Policy) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let report = reported(control, within_namespaces(policy))?;
    serve(control, &report, Scope::Namespace(to_outer))
}

/// Passes on the outcome of a step; a failure is sent to haft first.
fn reported<T>(control: &UnixStream, outcome: Result<T, LayerError>) -> io::Result<T> {
    outcome.map_err(|error| {
        let _ = error.frame().send(control);
        error.into()
    })
}

fn within_namespaces(policy: &Policy) -> Result<Report, LayerError> {
    let mut report = Report::default();
    report.note(Layer::Processes, Ok(()))?;
    super::layers::probe_view()?;
    super::layers::make_view(policy)?;
    report.note(Layer::View, Ok(()))?;
    if policy.network == super::Network::Off {
        let outcome = unless_left_out(policy, Layer::Network, super::layers::network_is_empty);
        report.note(Layer::Network, outcome)?;
    }
    finish_layers(policy, &mut report)?;
    Ok(report)
}

fn without_namespaces(policy: &Policy) -> Result<Report, LayerError> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut report = Report::default();
    match policy.layers {
        Layers::None => set_resource_limits(policy)?,
        Layers::All | Layers::Few => finish_layers(policy, &mut report)?,
    }
    Ok(report)
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
fn finish_layers(policy: &Policy, report: &mut Report) -> Result<(), LayerError> {
    set_resource_limits(policy)?;
    rustix::thread::set_no_new_privs(true)?;
    super::layers::drop_capabilities()?;
    let (has_view, has_network) = (report.has(Layer::View), report.has(Layer::Network));
    let paths = || super::layers::restrict_paths(policy, has_view, has_network);
    report.note(Layer::Paths, unless_left_out(policy, Layer::Paths, paths))?;
    let calls = || super::layers::restrict_calls(policy, has_network);
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

/// Which processes end with the supervisor.
enum Scope {
    /// Every process in the namespace, killed by the kernel. The socket leads to the outer process, which guards paths.
    Namespace(UnixStream),
    /// All descendants, which the supervisor searches in `/proc`.
    Descendants,
}

/// Waits for a command, runs it, and reports how it ended.
fn serve(control: &UnixStream, report: &Report, scope: Scope) -> io::Result<()> {
    // Commands must not get hold of haft's terminal.
    let _ = rustix::process::setsid();
    report.frame().send(control)?;
    let Ok(task) = Frame::receive(control) else { return Ok(()) };
    let mut task = Parts::of(task);
    let guarded = task.list()?;
    let is_namespace = matches!(scope, Scope::Namespace(_));
    let (child, dir_pipe) = match request_guards(guarded, scope).and_then(|()| start(task)) {
        Ok(started) => started,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            let frame = Build::default()
                .bytes("code")
                .number(NOT_STARTED)
                .list(std::iter::empty())
                .bytes("")
                .number(0);
            frame.frame().send(control)?;
            return wait_for_end(control, None, is_namespace);
        }
    };
    let group = pid_of(&child)?;
    let control_copy = control.try_clone()?;
    std::thread::Builder::new().name("control".to_owned()).spawn(move || {
        let _ = wait_for_end(&control_copy, Some(group), is_namespace);
    })?;
    let Ok(status) = reap_until(group) else {
        // The control thread has reaped the command while it was ending everything, and is about to exit.
        loop {
            std::thread::park();
        }
    };
    let (kind, value) = match (status.code(), status.signal()) {
        (Some(code), _) => ("code", u64::try_from(code).unwrap_or(0)),
        (None, signal) => ("signal", u64::try_from(signal.unwrap_or(9)).unwrap_or(9)),
    };
    let left_running = if is_alone() { Vec::new() } else { command_lines(&descendants()) };
    let dir = dir_pipe.map(read_line).unwrap_or_default();
    // A failure to send means that haft is gone. The control thread is ending everything then, and returning would cut it
    // short.
    let ended = Build::default().bytes(kind).number(value).list(left_running.into_iter()).bytes(dir);
    let _ = ended.number(cpu_time_of_children()).frame().send(control);
    // Processes that still run end with the supervisor, when haft closes the control socket.
    loop {
        std::thread::park();
    }
}

/// Asks the outer process to guard paths that appeared, or must not appear, since the sandbox was made.
fn request_guards(paths: Vec<Vec<u8>>, scope: Scope) -> io::Result<()> {
    let Scope::Namespace(to_outer) = scope else { return Ok(()) };
    if paths.is_empty() {
        return Ok(());
    }
    Frame(paths).send(&to_outer)?;
    match Parts::of(Frame::receive(&to_outer)?).bytes()? {
        message if message.is_empty() => Ok(()),
        message => Err(io::Error::other(String::from_utf8_lossy(&message).into_owned())),
    }
}

fn pid_of(child: &Child) -> io::Result<Pid> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("a process that has just been started has no number"))
}

/// Lowest descriptor that is passed to bash: scripts use the lower ones.
const MIN_PASSED_FD: i32 = 230;

/// Descriptors by which a bash reports its working directory when it exits.
struct DirReport {
    /// The start-up script, as `BASH_ENV`.
    script: OwnedFd,
    /// The pipe's read end.
    read: OwnedFd,
    /// The pipe's write end, held until the command has inherited it.
    _write: OwnedFd,
}

impl DirReport {
    fn new() -> io::Result<Self> {
        let (read, write) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let script = rustix::fs::memfd_create("haft", MemfdFlags::CLOEXEC)?;
        let (write, script) = (inheritable(&write)?, inheritable(&script)?);
        // A trap reports the directory however bash exits. It is in a file in memory, which bash closes at once, so that the
        // command itself stays as it was approved.
        let text = format!(
            "unset BASH_ENV; exec {}<&-; trap 'pwd -P >&{} 2>/dev/null' EXIT\n",
            script.as_raw_fd(),
            write.as_raw_fd()
        );
        rustix::io::write(&script, text.as_bytes())?;
        Ok(Self { script, read, _write: write })
    }
}

/// Duplicates a descriptor so that a command inherits it.
fn inheritable(fd: &OwnedFd) -> io::Result<OwnedFd> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.and_then(|limit| i32::try_from(limit).ok()).unwrap_or(i32::MAX);
    // Below a low limit, leave room for both descriptors and for some that are in use.
    let fd = rustix::io::fcntl_dupfd_cloexec(fd, MIN_PASSED_FD.min(limit.saturating_sub(8)))?;
    rustix::io::fcntl_setfd(&fd, FdFlags::empty())?;
    Ok(fd)
}

/// Reads the line that a pipe holds, without waiting for one.
fn read_line(pipe: OwnedFd) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let read = rustix::io::read(&pipe, &mut bytes).unwrap_or(0);
    bytes.truncate(read);
    bytes.pop_if(|byte| *byte == b'\n');
    bytes
}

/// Starts a command, and returns the pipe on which it reports its working directory.
fn start(mut task: Parts) -> io::Result<(Child, Option<OwnedFd>)> {
    let program = task.bytes()?;
    let args = task.list()?;
    let dir = task.bytes()?;
    let env = task.list()?;
    let mut command = Command::new(os(&program));
    command.args(args.iter().map(|arg| os(arg))).current_dir(os(&dir)).env_clear();
    for variable in &env {
        let at = variable.iter().position(|byte| *byte == b'=').unwrap_or(variable.len());
        command.env(os(&variable[..at]), os(variable.get(at + 1..).unwrap_or_default()));
    }
    let dir_report = if task.number()? == 1 { Some(DirReport::new()?) } else { None };
    if let Some(report) = &dir_report {
        command.env("BASH_ENV", format!("/proc/self/fd/{}", report.script.as_raw_fd()));
    }
    command.stdin(input(&task.bytes()?)?).process_group(0);
    let child = command.spawn().map_err(|error| {
        let name = String::from_utf8_lossy(&program);
        io::Error::new(error.kind(), format!("`{name}` cannot be started: {error}"))
    })?;
    Ok((child, dir_report.map(|report| report.read)))
}

/// Standard input of a command: a file in memory, or nothing.
fn input(bytes: &[u8]) -> io::Result<Stdio> {
    if bytes.is_empty() {
        return Ok(Stdio::null());
    }
    let mut file = std::fs::File::from(rustix::fs::memfd_create("input", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    io::Seek::rewind(&mut file)?;
    Ok(file.into())
}

/// Listens on the control socket: sends SIGTERM to all processes when haft asks for that, and ends everything when the socket
/// closes.
fn wait_for_end(control: &UnixStream, group: Option<Pid>, is_namespace: bool) -> io::Result<()> {
    let mut got_bye = false;
    while let Ok(message) = Frame::receive(control) {
        if message == Frame::of([BYE]) {
            got_bye = true;
            continue;
        }
        match group {
            _ if is_namespace => signal_namespace(Signal::TERM),
            Some(group) => {
                let _ = rustix::process::kill_process_group(group, Signal::TERM);
                descendants().into_iter().for_each(|pid| signal(pid, Signal::TERM));
            }
            None => {}
        }
    }
    if !is_namespace {
        // They may start others meanwhile. None escapes: this process is the subreaper of all, so each orphan becomes its
        // child. SIGSTOP first, so that fewer are started.
        for _ in 0..1000 {
            if is_alone() {
                break;
            }
            let remaining = descendants();
            remaining.iter().for_each(|pid| signal(*pid, Signal::STOP));
            remaining.iter().for_each(|pid| signal(*pid, Signal::KILL));
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    std::process::exit(if got_bye { 0 } else { HAFT_DIED });
}

/// Signals every other process in the namespace.
fn signal_namespace(signal: Signal) {
    #[allow(unsafe_code)]
    // SAFETY: the call takes numbers only. From process 1 of a namespace it reaches no process outside.
    unsafe {
        libc::kill(-1, signal.as_raw());
    }
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Milliseconds of processor time that all ended descendants took.
fn cpu_time_of_children() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    #[allow(unsafe_code)]
    // SAFETY: the pointer is valid for the call, and all zeroes are a valid value if it fails.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let times = [usage.ru_utime, usage.ru_stime];
    times.iter().map(|time| time.tv_sec.unsigned_abs() * 1000 + time.tv_usec.unsigned_abs() / 1000).sum()
}

/// Waits for a child, and reaps the orphans that this process inherits meanwhile.
fn reap_until(awaited: Pid) -> io::Result<ExitStatus> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == awaited => return Ok(ExitStatus::from_raw(status.as_raw())),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Whether no process is left below this one; orphans become its children. Reaps those that have ended.
fn is_alone() -> bool {
    loop {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Ok(Some(_)) | Err(rustix::io::Errno::INTR) => {}
            Ok(None) => return false,
            Err(_) => return true,
        }
    }
}

/// All processes below this one.
fn descendants() -> Vec<i32> {
    let mut parents: Vec<(i32, i32)> = Vec::new();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let Ok(stat) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else { continue };
        // The program's name is in parentheses and may hold any bytes.
        let Some(mut fields) = stat.rsplit(") ").next().map(str::split_whitespace) else { continue };
        let is_zombie = fields.next() == Some("Z");
        if let Some(parent) = fields.next().and_then(|field| field.parse().ok())
            && !is_zombie
        {
            parents.push((pid, parent));
        }
    }
    let own = rustix::process::getpid().as_raw_nonzero().get();
    let mut found = vec![own];
    let mut at = 0;
    while let Some(parent) = found.get(at).copied() {
        found.extend(parents.iter().filter(|(_, of)| *of == parent).map(|(pid, _)| *pid));
        at += 1;
    }
    found.remove(0);
    found
}

/// The beginnings of the command lines of the first few processes.
fn command_lines(pids: &[i32]) -> Vec<Vec<u8>> {
    let name = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).filter(|word| !word.is_empty()).collect();
        words.join(&b' ').into_iter().take(200).collect()
    };
    pids.iter().take(10).map(name).collect()
}

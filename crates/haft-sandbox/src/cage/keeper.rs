//! The inside of a cage: haft's own program, started as a keeper. Nothing here returns to what the program
//! otherwise does. It runs as two processes where there is a process namespace: one that made the namespace,
//! and the first one in it, whose end is the end of all others. It is told what to do on its standard input,
//! a socket; when that closes, because haft has what it wants or is dead, everything ends.

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

use super::layer::LayerError;
use super::policy::{Layer, Layers, Limits, Policy, Report};
use super::walls::Users;
use super::wire::{Build, Frame, Parts};
use super::{BYE, MAP, os};

/// What could not be started.
const NOT_STARTED: u64 = 127;
/// How the first process of a namespace ends where haft is gone without a word.
const LEFT_ALONE: i32 = 3;

/// Never returns.
pub(super) fn main() -> ! {
    close_others();
    if let Err(error) = outer() {
        let _ = writeln!(io::stderr(), ": {error}");
        std::process::exit(125);
    }
    std::process::exit(0);
}

/// Sees to it that no command gets what was open when haft itself was started, nor finds it in the keeper.
fn close_others() {
    #[allow(unsafe_code)]
    // SAFETY: this process has opened nothing yet.
    let is_done = unsafe { libc::syscall(libc::SYS_close_range, 3, libc::c_uint::MAX, 0) == 0 };
    if is_done {
        return;
    }
    let open = std::fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let open: Vec<i32> = open.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for fd in open.into_iter().filter(|fd| *fd > 2) {
        #[allow(unsafe_code)]
        // SAFETY: as above; the list itself is closed already.
        unsafe {
            libc::close(fd);
        }
    }
}

fn control() -> io::Result<UnixStream> {
    Ok(io::stdin().as_fd().try_clone_to_owned()?.into())
}

/// Makes the sandbox and serves a command in it, or tells haft why it could not be made.
fn outer() -> io::Result<()> {
    // Should the machine run out of memory, let it be a command that is ended.
    let _ = std::fs::write("/proc/self/oom_score_adj", "500");
    let control = control()?;
    let joined = Frame::receive(&control)? == Frame::of(["joined"]);
    let policy = Policy::parse(Frame::receive(&control)?)?;
    if joined {
        // From here on both streams are one, for the keeper and for all it starts.
        rustix::stdio::dup2_stderr(io::stdout())?;
    }
    told(&control, has_one_thread())?;
    if policy.walls != Layers::All {
        let report = told(&control, without_namespaces(&policy))?;
        return serve(&control, &report, Scope::Descendants);
    }
    if told(&control, super::walls::enter_namespaces(&policy))? == Users::All {
        Frame::of([MAP]).send(&control)?;
        Frame::receive(&control)?;
    }
    let haft = rustix::process::getppid();
    let (asked, asks) = UnixStream::pair()?;
    let Some(first) = fork()? else {
        drop(asked);
        return inner(&control, asks, &policy);
    };
    drop((control, asks));
    let guarded = guard_when_asked(&asked, &policy);
    let ended = reap_until(first)?;
    // Otherwise haft does it, without having to take the view apart. One that is being ended by force has closed its files
    // for a moment before it has lost its children.
    if ended.code() == Some(LEFT_ALONE) || rustix::process::getppid() != haft {
        guarded.iter().for_each(|path| super::walls::give_back(path));
    }
    Ok(())
}

/// Checks that nothing was started before [`arm`](super::arm) was called: a process with threads can leave no namespace, and
/// what it gives up its other threads still have.
fn has_one_thread() -> Result<(), LayerError> {
    match std::fs::read_dir("/proc/self/task")?.count() {
        1 => Ok(()),
        _ => Err(io::Error::other(
            "`cage::arm()` was called after threads were started: call it first in a plain `fn main()`, and start the \
             async runtime after it instead of with `#[tokio::main]`",
        )
        .into()),
    }
}

/// Goes on as two processes. `None` in the new one, which is the first of its namespace.
fn fork() -> io::Result<Option<Pid>> {
    #[allow(unsafe_code)]
    // SAFETY: the keeper has one thread here, so nothing is missing or held by another one in the copy.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        pid => Ok(Pid::from_raw(pid)),
    }
}

/// Guards what is to be guarded when a command is about to start: what the command will be in has no right to do that
/// any more.
fn guard_when_asked(asked: &UnixStream, policy: &Policy) -> Vec<PathBuf> {
    let Ok(Frame(paths)) = Frame::receive(asked) else { return Vec::new() };
    let mut taken = Vec::new();
    let guard = |path: PathBuf| -> io::Result<()> {
        let is_taken = super::guards::take(&path)?;
        super::walls::guard(&path, &policy.write).map_err(|error| {
            io::Error::new(error.kind(), format!("`{}` could not be guarded: {error}", path.display()))
        })?;
        taken.extend(is_taken.then_some(path));
        Ok(())
    };
    let done = paths.iter().map(|path| os(path).into()).try_for_each(guard);
    let told = done.err().map_or(String::new(), |error| error.to_string());
    let _ = Frame::of([told]).send(asked);
    taken
}

fn inner(control: &UnixStream, asks: UnixStream, policy: &Policy) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL))?;
    let report = told(control, within_namespaces(policy))?;
    serve(control, &report, Scope::Namespace(asks))
}

/// Tells haft why a layer could not be made.
fn told<T>(control: &UnixStream, made: Result<T, LayerError>) -> io::Result<T> {
    made.map_err(|error| {
        let _ = error.frame().send(control);
        error.into()
    })
}

fn within_namespaces(policy: &Policy) -> Result<Report, LayerError> {
    let mut report = Report::default();
    report.note(Layer::Processes, Ok(()))?;
    super::walls::probe_view()?;
    super::walls::make_view(policy)?;
    report.note(Layer::View, Ok(()))?;
    if policy.network == super::Network::Off {
        let made = unless_left_out(policy, Layer::Network, super::walls::network_is_empty);
        report.note(Layer::Network, made)?;
    }
    finish_walls(policy, &mut report)?;
    Ok(report)
}

fn without_namespaces(policy: &Policy) -> Result<Report, LayerError> {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let mut report = Report::default();
    match policy.walls {
        Layers::None => limit(policy)?,
        Layers::All | Layers::Few => finish_walls(policy, &mut report)?,
    }
    Ok(report)
}

fn unless_left_out(
    policy: &Policy,
    wall: Layer,
    make: impl FnOnce() -> Result<(), LayerError>,
) -> Result<(), LayerError> {
    match policy.without.contains(&wall) {
        true => Err(LayerError::Unsupported(super::LEFT_OUT.to_owned())),
        false => make(),
    }
}

/// The layers that need no namespaces, and what may be used.
fn finish_walls(policy: &Policy, report: &mut Report) -> Result<(), LayerError> {
    limit(policy)?;
    rustix::thread::set_no_new_privs(true)?;
    super::walls::drop_capabilities()?;
    let (has_view, has_network) = (report.has(Layer::View), report.has(Layer::Network));
    let paths = || super::walls::restrict_paths(policy, has_view, has_network);
    report.note(Layer::Paths, unless_left_out(policy, Layer::Paths, paths))?;
    let calls = || super::walls::restrict_calls(policy, has_network);
    report.note(Layer::Calls, unless_left_out(policy, Layer::Calls, calls))
}

fn limit(policy: &Policy) -> io::Result<()> {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let Limits { memory, cpu, processes, files, file_size, total_memory: _, total_cpu: _ } = policy.limits;
    // The kernel counts all processes of a user: in a namespace of users only those in it, otherwise also those
    // that have nothing to do with haft.
    let others = if policy.walls == Layers::All { 0 } else { own_processes() };
    let processes = processes.map(|most| most.saturating_add(others));
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
        let most = getrlimit(resource).maximum.map_or(limit, |most| most.min(limit));
        // A program that uses up its time is told so a second before it is ended.
        let last = if resource == Resource::Cpu { most.saturating_add(1) } else { most };
        setrlimit(resource, Rlimit { current: Some(most), maximum: Some(last) })?;
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

/// What ends with the keeper.
enum Scope {
    /// Everything in the namespace, by the kernel. Who made it can be asked.
    Namespace(UnixStream),
    /// All descendants, which are looked for.
    Descendants,
}

/// Waits for a command, runs it, and tells how it ended.
fn serve(control: &UnixStream, report: &Report, scope: Scope) -> io::Result<()> {
    // No terminal is theirs to take.
    let _ = rustix::process::setsid();
    report.frame().send(control)?;
    let Ok(task) = Frame::receive(control) else { return Ok(()) };
    let mut task = Parts::of(task);
    let guarded = task.list()?;
    let is_namespace = matches!(scope, Scope::Namespace(_));
    let (child, told) = match guard(guarded, scope).and_then(|()| start(task)) {
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
    let listening = control.try_clone()?;
    std::thread::Builder::new().name("control".to_owned()).spawn(move || {
        let _ = wait_for_end(&listening, Some(group), is_namespace);
    })?;
    let Ok(status) = reap_until(group) else {
        // Whoever ends everything has met it first.
        loop {
            std::thread::park();
        }
    };
    let (kind, value) = match (status.code(), status.signal()) {
        (Some(code), _) => ("code", u64::try_from(code).unwrap_or(0)),
        (None, signal) => ("signal", u64::try_from(signal.unwrap_or(9)).unwrap_or(9)),
    };
    let left = if is_alone() { Vec::new() } else { names(&descendants()) };
    let dir = told.map(read_all).unwrap_or_default();
    // Nobody listens any more where haft is gone; then the others are being ended, which must not be cut short.
    let ended = Build::default().bytes(kind).number(value).list(left.into_iter()).bytes(dir);
    let _ = ended.number(spent()).frame().send(control);
    // What is still there is ended with the keeper, when haft closes the control.
    loop {
        std::thread::park();
    }
}

/// Has guarded what came to be, or must not, since the cage was made.
fn guard(paths: Vec<Vec<u8>>, scope: Scope) -> io::Result<()> {
    let Scope::Namespace(asks) = scope else { return Ok(()) };
    if paths.is_empty() {
        return Ok(());
    }
    Frame(paths).send(&asks)?;
    match Parts::of(Frame::receive(&asks)?).bytes()? {
        told if told.is_empty() => Ok(()),
        told => Err(io::Error::other(String::from_utf8_lossy(&told).into_owned())),
    }
}

fn pid_of(child: &Child) -> io::Result<Pid> {
    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("a process that has just been started has no number"))
}

/// Where the descriptors for telling begin: scripts use the lower ones.
const OUT_OF_THE_WAY: i32 = 230;

/// What a bash that tells its folder is given: a file to begin with, and a pipe to tell it by.
struct Telling {
    begin: OwnedFd,
    told: OwnedFd,
    /// Held until the command has it.
    _tell: OwnedFd,
}

impl Telling {
    fn new() -> io::Result<Self> {
        let (told, tell) = rustix::pipe::pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
        let begin = rustix::fs::memfd_create("haft", MemfdFlags::CLOEXEC)?;
        let (tell, begin) = (for_command(&tell)?, for_command(&begin)?);
        // Bash tells where it is when it ends, whatever it was told to do. It reads this from a file in memory, so
        // that the command itself stays as it was approved, and lets go of that file.
        let text = format!(
            "unset BASH_ENV; exec {}<&-; trap 'pwd -P >&{} 2>/dev/null' EXIT\n",
            begin.as_raw_fd(),
            tell.as_raw_fd()
        );
        rustix::io::write(&begin, text.as_bytes())?;
        Ok(Self { begin, told, _tell: tell })
    }
}

/// The same descriptor for a command to have: not closed when that is started.
fn for_command(fd: &OwnedFd) -> io::Result<OwnedFd> {
    let most = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let last = most.and_then(|most| i32::try_from(most).ok()).unwrap_or(i32::MAX);
    // Two are wanted, and some may be taken.
    let fd = rustix::io::fcntl_dupfd_cloexec(fd, OUT_OF_THE_WAY.min(last.saturating_sub(8)))?;
    rustix::io::fcntl_setfd(&fd, FdFlags::empty())?;
    Ok(fd)
}

/// Everything that is in a pipe.
fn read_all(pipe: OwnedFd) -> Vec<u8> {
    let mut bytes = vec![0; 4096];
    let read = rustix::io::read(&pipe, &mut bytes).unwrap_or(0);
    bytes.truncate(read);
    bytes.pop_if(|byte| *byte == b'\n');
    bytes
}

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
    let telling = if task.number()? == 1 { Some(Telling::new()?) } else { None };
    if let Some(telling) = &telling {
        command.env("BASH_ENV", format!("/proc/self/fd/{}", telling.begin.as_raw_fd()));
    }
    command.stdin(input(&task.bytes()?)?).process_group(0);
    let child = command.spawn().map_err(|error| {
        let name = String::from_utf8_lossy(&program);
        io::Error::new(error.kind(), format!("`{name}` cannot be started: {error}"))
    })?;
    Ok((child, telling.map(|telling| telling.told)))
}

/// What a command reads: a file in memory, or nothing.
fn input(bytes: &[u8]) -> io::Result<Stdio> {
    if bytes.is_empty() {
        return Ok(Stdio::null());
    }
    let mut file = std::fs::File::from(rustix::fs::memfd_create("input", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    io::Seek::rewind(&mut file)?;
    Ok(file.into())
}

/// Waits until the control closes, asks to end what is running when told so, and ends everything.
fn wait_for_end(control: &UnixStream, group: Option<Pid>, is_namespace: bool) -> io::Result<()> {
    let mut is_told = false;
    while let Ok(asked) = Frame::receive(control) {
        if asked == Frame::of([BYE]) {
            is_told = true;
            continue;
        }
        match group {
            _ if is_namespace => all_others(Signal::TERM),
            Some(group) => {
                let _ = rustix::process::kill_process_group(group, Signal::TERM);
                descendants().into_iter().for_each(|pid| signal(pid, Signal::TERM));
            }
            None => {}
        }
    }
    if !is_namespace {
        // They may start others while they are being ended; none gets away, because each comes back here.
        for _ in 0..1000 {
            if is_alone() {
                break;
            }
            let left = descendants();
            left.iter().for_each(|pid| signal(*pid, Signal::STOP));
            left.iter().for_each(|pid| signal(*pid, Signal::KILL));
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
    }
    std::process::exit(if is_told { 0 } else { LEFT_ALONE });
}

/// Tells everybody else in the namespace.
fn all_others(signal: Signal) {
    #[allow(unsafe_code)]
    // SAFETY: a call that takes numbers. The first process of a namespace reaches nobody outside of it.
    unsafe {
        libc::kill(-1, signal.as_raw());
    }
}

fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Milliseconds of processor time that everything which has ended took.
fn spent() -> u64 {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    #[allow(unsafe_code)]
    // SAFETY: it is given room for what it writes, and zeroes are a value of it.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_CHILDREN, usage.as_mut_ptr());
        usage.assume_init()
    };
    let times = [usage.ru_utime, usage.ru_stime];
    times.iter().map(|time| time.tv_sec.unsigned_abs() * 1000 + time.tv_usec.unsigned_abs() / 1000).sum()
}

/// Waits for the command, and for all that have lost their parents meanwhile.
fn reap_until(wanted: Pid) -> io::Result<ExitStatus> {
    loop {
        match rustix::process::wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if pid == wanted => return Ok(ExitStatus::from_raw(status.as_raw())),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
}

/// Whether nothing that was started is left. Whoever loses its parent becomes a child of the keeper.
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
        // The name of the program is in parentheses and may hold anything.
        let Some(mut fields) = stat.rsplit(") ").next().map(str::split_whitespace) else { continue };
        let is_dead = fields.next() == Some("Z");
        if let Some(parent) = fields.next().and_then(|field| field.parse().ok())
            && !is_dead
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

fn names(pids: &[i32]) -> Vec<Vec<u8>> {
    let name = |pid: &i32| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = line.split(|byte| *byte == 0).filter(|word| !word.is_empty()).collect();
        words.join(&b' ').into_iter().take(200).collect()
    };
    pids.iter().take(10).map(name).collect()
}

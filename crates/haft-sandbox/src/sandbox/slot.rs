//! haft's side of a sandbox: the connection to its supervisor and to the slots in it, which run commands.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::io::Interest;
use tokio::net::UnixStream;

use super::cgroups::{Account, Cgroup, Quota};
use super::cleanup::has_exited;
use super::launcher::launch;
use super::layer_error::LayerError;
use super::policy::{Layer, Layers, Policy, Report};
use super::supervisor::Base;
use super::wire::{Frame, Parts, receive_files, send_files};
use super::{LEFT_OUT, MAP_USERS, READY, SLOT};

/// Most slots that wait for another command.
const MAX_IDLE: usize = 8;
/// How long a slot waits for another command.
const IDLE_TIME: Duration = Duration::from_secs(30);

/// A socket to a process in the sandbox, and what has been received of its next message.
#[derive(Debug)]
pub(super) struct Socket {
    stream: UnixStream,
    bytes: Vec<u8>,
    files: Vec<OwnedFd>,
}

impl Socket {
    /// A socket, and its other end for the process.
    fn pair() -> io::Result<(Self, OwnedFd)> {
        let (ours, theirs) = std::os::unix::net::UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        Ok((
            Self { stream: UnixStream::from_std(ours)?, bytes: Vec::new(), files: Vec::new() },
            theirs.into(),
        ))
    }

    pub(super) async fn send(&self, frame: &Frame, files: &[BorrowedFd<'_>]) -> io::Result<()> {
        let bytes = frame.encoded();
        let mut sent = 0;
        while sent < bytes.len() {
            // The files go with the first byte.
            let files = if sent == 0 { files } else { &[] };
            let send = || send_files(&self.stream, &bytes[sent..], files);
            sent += self.stream.async_io(Interest::WRITABLE, send).await?;
        }
        Ok(())
    }

    /// Whether the other end is gone.
    fn is_closed(&self) -> bool {
        let flags = rustix::net::RecvFlags::PEEK | rustix::net::RecvFlags::DONTWAIT;
        !matches!(
            rustix::net::recv(&self.stream, &mut [0; 1], flags),
            Ok((_, 1..)) | Err(rustix::io::Errno::AGAIN)
        )
    }

    /// Sends a short frame without waiting.
    pub(super) fn send_now(&self, frame: &Frame) {
        let _ = send_files(&self.stream, &frame.encoded(), &[]);
    }

    /// Receives a frame with the files beside it. Cancel-safe: a future that is dropped loses nothing.
    pub(super) async fn receive(&mut self) -> io::Result<(Frame, Vec<OwnedFd>)> {
        loop {
            if let Some((length, rest)) = self.bytes.split_first_chunk::<4>() {
                let length = Frame::length(*length)?;
                if let Some(body) = rest.get(..length) {
                    let frame = Frame::decoded(body)?;
                    self.bytes.drain(..length + 4);
                    return Ok((frame, std::mem::take(&mut self.files)));
                }
            }
            let mut more = [0; 1024];
            let Self { stream, files, .. } = &mut *self;
            let read =
                stream.async_io(Interest::READABLE, || receive_files(&*stream, &mut more, files)).await?;
            if read == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.bytes.extend_from_slice(&more[..read]);
        }
    }
}

/// A running supervisor. Dropping it ends every process in its sandbox.
#[derive(Debug)]
pub(super) struct Supervisor {
    control: tokio::sync::Mutex<Socket>,
    /// The layers that its commands have, apart from the quota.
    report: Report,
    /// Layers in force, or those that need no namespaces where the kernel has none.
    layers: Layers,
    idle: Mutex<Idle>,
}

impl Supervisor {
    /// Starts a supervisor. Where the kernel has no namespaces, it sets up the layers that need none.
    pub(super) async fn start(base: &Base) -> io::Result<Self> {
        // One call makes both namespaces, so a policy without one of these layers gets neither.
        let is_without = [Layer::Processes, Layer::View].iter().any(|layer| base.without.contains(layer));
        let attempt = match base.layers == Layers::All && is_without {
            true => Err(LayerError::Unsupported(LEFT_OUT.to_owned())),
            false => Self::set_up(base).await,
        };
        match attempt {
            // Fall back only where the kernel lacks the feature: a command or a project could provoke any other failure.
            Err(LayerError::Unsupported(why)) if base.layers == Layers::All => {
                let few = Base { layers: Layers::Few, ..base.clone() };
                let mut supervisor = Self::set_up(&few).await?;
                let missing = [Layer::Processes, Layer::View, Layer::Network];
                supervisor.report.missing.extend(missing.map(|layer| (layer, why.clone())));
                Ok(supervisor)
            }
            attempt => Ok(attempt?),
        }
    }

    async fn set_up(base: &Base) -> Result<Self, LayerError> {
        let (mut control, theirs) = Socket::pair()?;
        launch(&theirs)?;
        drop(theirs);
        let handshake = async {
            control.send(&base.frame(), &[]).await?;
            let message = LayerError::parse(control.receive().await?.0)?;
            let mut parts = Parts::of(message);
            if parts.bytes()? == MAP_USERS.as_bytes() {
                map_all_users(parts.number()?)
                    .map_err(|error| LayerError::probed("a user namespace", error))?;
                control.send(&Frame::of([MAP_USERS]), &[]).await?;
                parts = Parts::of(LayerError::parse(control.receive().await?.0)?);
                parts.bytes()?;
            }
            Ok::<_, LayerError>(Report::parse(&mut parts)?)
        };
        let report = handshake.await.map_err(|error| match error {
            LayerError::Failed(error) => {
                let message = format!("the sandbox could not be made, so nothing was run: {error}");
                io::Error::new(error.kind(), message).into()
            }
            unsupported => unsupported,
        })?;
        Ok(Self {
            control: tokio::sync::Mutex::new(control),
            report,
            layers: base.layers,
            idle: Mutex::default(),
        })
    }

    pub(super) fn is_alive(&self) -> bool {
        // Whoever holds the lock is talking to it, and notices when it is gone.
        self.control.try_lock().map_or(true, |control| !control.is_closed())
    }

    /// Layers of its commands: those of a policy, or fewer.
    pub(super) fn layers(&self) -> Layers {
        self.layers
    }

    /// The layers in force for commands in a slot.
    pub(super) fn report(&self, policy: &Policy, slot: &SlotProcess) -> Report {
        let mut report = self.report.clone();
        if policy.network == super::Network::On {
            report.active.retain(|layer| *layer != Layer::Network);
            report.missing.retain(|(layer, _)| *layer != Layer::Network);
        }
        match &slot.no_quota {
            None => report.active.push(Layer::Quota),
            Some(why) => report.missing.push((Layer::Quota, why.clone())),
        }
        report
    }

    /// A slot for a command with this policy: one that waits, or a new one.
    pub(super) async fn slot(&self, account: &Arc<Account>, policy: &Policy) -> io::Result<SlotProcess> {
        let quota = policy.without.contains(&Layer::Quota).then_some(None);
        let quota = quota.unwrap_or_else(|| Some(policy.limits.quota()));
        loop {
            let idle = {
                let slots = &mut self.idle.lock().slots;
                slots.iter().rposition(|slot| slot.quota == quota).map(|at| slots.swap_remove(at))
            };
            match idle {
                Some(slot) if has_exited(&slot.process) => {}
                Some(slot) => return Ok(slot),
                None => return self.start_slot(account, quota).await,
            }
        }
    }

    async fn start_slot(&self, account: &Arc<Account>, quota: Option<Quota>) -> io::Result<SlotProcess> {
        let cgroup = match quota {
            None => Err(io::Error::other(LEFT_OUT)),
            Some(quota) => make_cgroup(account.clone(), quota).await,
        };
        let entered = cgroup.and_then(|cgroup| Ok((cgroup.entrances()?, cgroup)));
        let (entrances, cgroup, no_quota) = match entered {
            Ok((entrances, cgroup)) => (entrances, Some(cgroup), None),
            Err(error) => (Vec::new(), None, Some(error.to_string())),
        };
        let (mut socket, theirs) = Socket::pair()?;
        let files: Vec<BorrowedFd<'_>> =
            std::iter::once(theirs.as_fd()).chain(entrances.iter().map(|file| file.as_fd())).collect();
        self.control.lock().await.send(&Frame::of([SLOT]), &files).await?;
        drop(theirs);
        let (frame, mut files) = socket.receive().await?;
        let mut parts = Parts::of(LayerError::parse(frame)?);
        if parts.bytes()? != READY.as_bytes() {
            return Err(io::ErrorKind::InvalidData.into());
        }
        let why = String::from_utf8_lossy(&parts.bytes()?).into_owned();
        let process = files.pop().ok_or(io::ErrorKind::InvalidData)?;
        // Whether control groups can be used depends on the machine alone, so no command can provoke this failure.
        let no_quota = no_quota.or_else(|| (!why.is_empty()).then_some(why));
        let cgroup = cgroup.filter(|_| no_quota.is_none());
        Ok(SlotProcess { socket, process, cgroup, quota, no_quota })
    }

    /// Keeps a slot for another command, for a while.
    pub(super) fn put_back(self: &Arc<Self>, slot: SlotProcess) {
        let mut idle = self.idle.lock();
        if idle.slots.len() < MAX_IDLE {
            idle.slots.push(slot);
        }
        idle.since = Some(Instant::now());
        if idle.has_timer {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        idle.has_timer = true;
        runtime.spawn(end_when_idle(Arc::downgrade(self)));
    }
}

/// Slots that wait for another command.
#[derive(Debug, Default)]
struct Idle {
    slots: Vec<SlotProcess>,
    /// When the last of them came.
    since: Option<Instant>,
    /// Whether a task is going to end them.
    has_timer: bool,
}

/// Ends the slots of a supervisor once no command has come for a while.
async fn end_when_idle(supervisor: Weak<Supervisor>) {
    let mut remaining = IDLE_TIME;
    loop {
        tokio::time::sleep(remaining).await;
        let Some(supervisor) = supervisor.upgrade() else { return };
        let mut idle = supervisor.idle.lock();
        let elapsed = idle.since.map_or(IDLE_TIME, |since| since.elapsed());
        remaining = IDLE_TIME.saturating_sub(elapsed);
        if remaining.is_zero() {
            *idle = Idle::default();
            return;
        }
    }
}

/// A slot: a process in the sandbox that runs one command at a time. Dropping it ends its command and everything that this
/// has started.
#[derive(Debug)]
pub(super) struct SlotProcess {
    pub(super) socket: Socket,
    /// A descriptor of the process.
    pub(super) process: OwnedFd,
    pub(super) cgroup: Option<Cgroup>,
    quota: Option<Quota>,
    /// Why it has no quota.
    no_quota: Option<String>,
}

impl SlotProcess {
    /// Kills the process, if it does not do what it should. The supervisor kills what it leaves.
    pub(super) fn kill(&self) {
        let _ = rustix::process::pidfd_send_signal(&self.process, rustix::process::Signal::KILL);
    }
}

/// Makes a control group for a slot, on the blocking pool.
async fn make_cgroup(account: Arc<Account>, quota: Quota) -> io::Result<Cgroup> {
    tokio::task::spawn_blocking(move || account.leaf(quota)).await.map_err(io::Error::other)?
}

/// Maps all users into the supervisor's user namespace, so that root there owns the files of every user as far as the other
/// layers let it: with only itself mapped, it could not touch another user's files. Only a process outside of the
/// namespace may write these maps.
fn map_all_users(supervisor: u64) -> io::Result<()> {
    for map in ["uid_map", "gid_map"] {
        std::fs::write(format!("/proc/{supervisor}/{map}"), "0 0 4294967295")?;
    }
    Ok(())
}

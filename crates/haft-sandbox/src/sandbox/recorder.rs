//! Recording what a command changes in the workspace, so that it can be undone. A seccomp filter makes every changing call
//! wait; a thread of haft keeps the old side, by hard link or copy, and lets the call go on. When the command has ended, what
//! is different is listed by comparing files, not by replaying calls. It is a record and no protection: a hostile program can
//! evade it, which at most makes a change that cannot be undone.

mod calls;
mod content;
mod effects;
mod filter;
mod keep;
mod links;
mod model;
mod notify;
mod old;
mod order;
mod place;
mod resolve;
mod settle;
mod watch;

use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};
use std::{fs, io};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

pub use effects::{Effect, Effects, New, Old, OldContent};
pub use filter::install;

use effects::Held;

use model::Model;
use notify::{Answer, Listener};
use watch::Watch;

/// How long processes that are being killed may take until their last call is done.
const LAST_CALLS: Duration = Duration::from_millis(20);

/// Name of the log in a recorder's store.
const LOG: &str = "log";

/// Why a command's changes cannot be recorded.
#[derive(Debug, thiserror::Error)]
pub enum RecorderError {
    /// Another program listens already.
    #[error(
        "another program already receives the system calls of this process (such as haft in a container)"
    )]
    Busy,
    /// The kernel is too old.
    #[error("the kernel cannot hand system calls to another process: Linux 5.5 or later is needed")]
    Kernel,
    /// The numbers of system calls are not known for this kind of processor.
    #[error("recording is not supported on this kind of processor")]
    Architecture,
    /// The kernel refused for another reason.
    #[error("the kernel refused to hand over system calls: {0}")]
    Failed(#[source] io::Error),
}

/// Tells whether a directory holds what programs build or download, and can build again.
pub type IsBuildFolder = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

/// Tells whether a path must not be created.
pub type Deny = Arc<dyn Fn(&Path) -> bool + Send + Sync>;

/// How much is copied where neither a hard link nor shared blocks can keep the old content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepLimits {
    /// Largest file, in bytes.
    pub file: u64,
    /// All files of a command together, in bytes.
    pub total: u64,
}

impl Default for KeepLimits {
    fn default() -> Self {
        Self { file: 64 << 20, total: 512 << 20 }
    }
}

/// What to record, and where to keep it.
#[derive(Clone)]
pub struct Options {
    /// The folders whose changes count, as canonical paths.
    pub roots: Vec<PathBuf>,
    /// A folder for this command alone, which must not have a log yet. Old content is free to keep if it is on the same mount as the workspace.
    pub store: PathBuf,
    /// How much is copied.
    pub limits: KeepLimits,
    /// Which directories are build folders: changes in them are counted, not kept.
    pub is_build_folder: IsBuildFolder,
    /// Which paths must not be created: the call fails with `EACCES`.
    pub deny: Option<Deny>,
}

impl Options {
    /// Options with the usual limits and build folders.
    pub fn new(roots: Vec<PathBuf>, store: PathBuf) -> Self {
        let is_build_folder: IsBuildFolder = Arc::new(is_build_folder);
        Self { roots, store, limits: KeepLimits::default(), is_build_folder, deny: None }
    }
}

impl std::fmt::Debug for Options {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { roots, store, limits, .. } = self;
        f.debug_struct("Options").field("roots", roots).field("store", store).field("limits", limits).finish()
    }
}

/// Whether a directory is a build folder by itself, whatever a project says: it is tagged as a cache, or has a name that
/// only such folders have.
pub fn is_build_folder(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default();
    let is_named = ["node_modules", "__pycache__", ".gradle", ".mypy_cache", ".pytest_cache"]
        .iter()
        .any(|known| name == *known);
    is_named
        || path.join("CACHEDIR.TAG").symlink_metadata().is_ok()
        || path.join("pyvenv.cfg").symlink_metadata().is_ok()
}

/// A thread that keeps the old side of what a command changes.
#[derive(Debug)]
pub struct Recorder {
    options: Options,
    /// Dropping it stops the thread's recording.
    stop: Option<OwnedFd>,
    done: Receiver<(Model, Option<OwnedFd>)>,
}

impl Recorder {
    /// Starts serving a listener that [`install`] returned. Until then, the command's changing calls wait.
    pub fn start(listener: OwnedFd, options: Options) -> io::Result<Self> {
        let listener = Listener::new(listener);
        let (stopped, stop) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
        let (send, done) = channel();
        let (ready, is_ready) = channel();
        let own = options.clone();
        std::thread::Builder::new().name("haft-recorder".to_owned()).spawn(move || {
            // Made in the thread: what it holds is not shared.
            match Watch::new(own) {
                Ok(watch) => {
                    let _ = ready.send(Ok(()));
                    serve(&listener, watch, &stopped, &send);
                }
                Err(error) => {
                    let _ = ready.send(Err(error));
                    pass_on(&listener);
                }
            }
        })?;
        match is_ready.recv() {
            Ok(result) => result?,
            Err(_) => return Err(io::Error::other("the recorder's thread has died")),
        }
        Ok(Self { options, stop: Some(stop), done })
    }

    /// Stops recording and compares. To be called when all processes of the command have ended; those that have not can go
    /// on, unrecorded. Blocks while it reads files.
    pub fn finish(mut self) -> io::Result<Effects> {
        drop(self.stop.take());
        let (model, lock) =
            self.done.recv().map_err(|_| io::Error::other("the recorder's thread has died"))?;
        let mut effects = settle::settle(&model, &self.options.store, &self.options.is_build_folder)?;
        effects.held = Held(lock.map(Arc::new));
        Ok(effects)
    }
}

/// What a recorder whose process died had kept in its store; `None` while that process lives, or if there is no store.
pub fn recover(store: &Path, is_build_folder: &IsBuildFolder) -> io::Result<Option<Effects>> {
    let Some(lock) = keep::lock_left(store)? else { return Ok(None) };
    let log = match fs::read(store.join(LOG)) {
        // It died before the first change: what it had kept for that one is as it was.
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        log => log?,
    };
    let mut effects = settle::settle(&Model::read(&log), store, is_build_folder)?;
    effects.held = Held(Some(Arc::new(lock)));
    Ok(Some(effects))
}

/// Opens a file of a recorder's store for reading, even one whose mode forbids it.
pub fn open_kept(path: &Path) -> io::Result<fs::File> {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
    match fs::File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            // Its mode is recorded; one that is still in use elsewhere is left alone.
            if fs::symlink_metadata(path)?.nlink() == 1 {
                fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
            }
            fs::File::open(path)
        }
        opened => opened,
    }
}

/// Serves notifications until every process of the command has ended or recording is stopped.
fn serve(listener: &Listener, mut watch: Watch, stopped: &OwnedFd, done: &Sender<(Model, Option<OwnedFd>)>) {
    let mut last = None;
    loop {
        let mut ready = [
            PollFd::from_borrowed_fd(listener.fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(stopped.as_fd(), PollFlags::IN),
        ];
        // Once it is stopped, only the listener counts.
        let counted = if last.is_some() { &mut ready[..1] } else { &mut ready[..] };
        let timeout = last.map(|last: Instant| {
            let left = last.saturating_duration_since(Instant::now());
            Timespec { tv_sec: 0, tv_nsec: left.subsec_nanos().into() }
        });
        match poll(counted, timeout.as_ref()) {
            Ok(0) => break,
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => break,
        }
        let [event, stop] = ready.map(|ready| ready.revents());
        if event.contains(PollFlags::IN) {
            match listener.receive() {
                Ok(Some(call)) => {
                    let answer = watch.handle(&call, || listener.still_waits(&call));
                    if listener.answer(&call, answer).is_err() {
                        // Never leave a call waiting.
                        let _ = listener.answer(&call, Answer::Fail(libc::ENOSYS));
                    }
                    watch.after_answer();
                }
                Ok(None) => {}
                Err(_) => break,
            }
        } else if event.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
            let _ = done.send(watch.into_parts());
            return;
        } else if !stop.is_empty() {
            last = Some(Instant::now() + LAST_CALLS);
        }
    }
    let _ = done.send(watch.into_parts());
    // Without a listener the calls of processes that still run would fail.
    pass_on(listener);
}

/// Lets all calls go on until the last process has ended.
fn pass_on(listener: &Listener) {
    loop {
        let mut ready = [PollFd::from_borrowed_fd(listener.fd(), PollFlags::IN)];
        match poll(&mut ready, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        }
        if !ready[0].revents().contains(PollFlags::IN) {
            return;
        }
        match listener.receive() {
            Ok(Some(call)) => drop(listener.answer(&call, Answer::Continue)),
            Ok(None) => {}
            Err(_) => return,
        }
    }
}

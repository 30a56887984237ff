//! Starting supervisors. Haft starts its own program once more, as the *launcher*, which forks a supervisor for each sandbox. So
//! supervisors share their memory: programs that were started one by one would each have a megabyte of their own.

use std::io;
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use parking_lot::Mutex;

use super::wire::Frame;
use super::{SUPERVISOR, is_armed};

/// The launcher of this process. It ends when this process does: its socket closes.
static LAUNCHER: Mutex<Option<Launcher>> = Mutex::new(None);

struct Launcher {
    child: Child,
    control: UnixStream,
}

/// Starts a supervisor that serves the other end of this socket.
pub(super) fn launch(theirs: &OwnedFd) -> io::Result<()> {
    if !is_armed() {
        return Err(io::Error::other("no sandbox can be had: `haft_sandbox::sandbox::arm` was not called"));
    }
    let mut launcher = LAUNCHER.lock();
    if let Some(running) = &mut *launcher
        && matches!(running.child.try_wait(), Ok(None))
        && running.send(theirs).is_ok()
    {
        return Ok(());
    }
    launcher.insert(Launcher::start()?).send(theirs)
}

impl Launcher {
    fn start() -> io::Result<Self> {
        let (control, theirs) = UnixStream::pair()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg0(SUPERVISOR).env_clear().current_dir("/").stdin(Stdio::from(OwnedFd::from(theirs)));
        let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?;
        Ok(Self { child, control })
    }

    fn send(&self, theirs: &OwnedFd) -> io::Result<()> {
        Frame::of([SUPERVISOR]).send_with(&self.control, &[theirs.as_fd()])
    }
}

//! Notifications of system calls that wait, and what can be learned of the task that made one. It knows nothing of what the
//! calls mean.

use std::cell::OnceCell;
use std::ffi::OsString;
use std::io;
use std::os::fd::{AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::rc::Rc;

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;

/// Longest path that the kernel takes, with its final zero.
const PATH_MAX: usize = 4096;

/// Asks the kernel to wake the waiting task on this processor, which is faster. Linux 6.6.
const SYNC_WAKE_UP: u64 = 1;

/// One waiting call.
#[derive(Clone, Copy, Debug)]
pub(super) struct Notification {
    id: u64,
    /// The task that waits.
    pub(super) pid: u32,
    pub(super) call: i64,
    pub(super) args: [u64; 6],
}

/// How a waiting call ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    /// It goes on as if nothing had been.
    Continue,
    /// It fails with this error.
    Fail(i32),
}

/// The end of a filter at which its notifications arrive.
#[derive(Debug)]
pub(super) struct Listener(OwnedFd);

impl Listener {
    #[allow(unsafe_code)]
    pub(super) fn new(fd: OwnedFd) -> Self {
        // SAFETY: the descriptor is open; this request takes a number and no pointer. Older kernels refuse it.
        unsafe { libc::ioctl(fd.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SET_FLAGS, SYNC_WAKE_UP) };
        Self(fd)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        std::os::fd::AsFd::as_fd(&self.0)
    }

    /// Takes the next notification; `None` if its task has died meanwhile.
    #[allow(unsafe_code)]
    pub(super) fn receive(&self) -> io::Result<Option<Notification>> {
        // SAFETY: all zeroes are a valid value, and the kernel wants them.
        let mut raw: libc::seccomp_notif = unsafe { std::mem::zeroed() };
        // SAFETY: the descriptor is open, and the pointer is valid for the call.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, &raw mut raw) };
        if result == 0 {
            let libc::seccomp_notif { id, pid, data, .. } = raw;
            return Ok(Some(Notification { id, pid, call: data.nr.into(), args: data.args }));
        }
        match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINTR | libc::EAGAIN)) => {
                Ok(None)
            }
            error => Err(error),
        }
    }

    /// Ends the wait of a call. That its task has died meanwhile is no error.
    #[allow(unsafe_code)]
    pub(super) fn answer(&self, notification: &Notification, answer: Answer) -> io::Result<()> {
        let (error, flags) = match answer {
            Answer::Continue => (0, libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32),
            Answer::Fail(error) => (-error, 0),
        };
        let mut raw = libc::seccomp_notif_resp { id: notification.id, val: 0, error, flags };
        // SAFETY: the descriptor is open, and the pointer is valid for the call.
        let result = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut raw) };
        if result == 0 {
            return Ok(());
        }
        match io::Error::last_os_error() {
            error if matches!(error.raw_os_error(), Some(libc::ENOENT | libc::EINPROGRESS)) => Ok(()),
            error => Err(error),
        }
    }

    /// Whether the task still waits, so that what was read of its process number is its own.
    #[allow(unsafe_code)]
    pub(super) fn still_waits(&self, notification: &Notification) -> bool {
        let mut id = notification.id;
        // SAFETY: the descriptor is open, and the pointer is valid for the call.
        let result =
            unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw mut id) };
        result == 0
    }
}

impl Notification {
    /// An argument that is a descriptor or `AT_FDCWD`.
    pub(super) fn descriptor(&self, index: usize) -> i32 {
        self.args[index] as u32 as i32
    }

    /// An argument that is a set of flags.
    pub(super) fn flags(&self, index: usize) -> i32 {
        self.args[index] as u32 as i32
    }

    /// The text that an argument points to.
    #[allow(unsafe_code)]
    pub(super) fn text(&self, index: usize) -> io::Result<OsString> {
        let address = usize::try_from(self.args[index]).unwrap_or(0);
        if address == 0 {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let mut buffer = vec![0; PATH_MAX];
        let mut length = 0;
        while length < PATH_MAX {
            // One page at a time, since the next may not be there; most names end in the first few bytes.
            let page_end = 4096 - (address.wrapping_add(length)) % 4096;
            let wanted = page_end.min(PATH_MAX - length);
            let local = libc::iovec { iov_base: buffer[length..].as_mut_ptr().cast(), iov_len: wanted };
            let remote = libc::iovec {
                iov_base: (address.wrapping_add(length)) as *mut libc::c_void,
                iov_len: wanted,
            };
            let pid = libc::pid_t::try_from(self.pid).unwrap_or(0);
            // SAFETY: `local` is `wanted` bytes of `buffer`; the kernel checks the other process's addresses.
            let read = unsafe { libc::process_vm_readv(pid, &raw const local, 1, &raw const remote, 1, 0) };
            let Ok(read @ 1..) = usize::try_from(read) else { return Err(io::Error::last_os_error()) };
            if let Some(end) = buffer[length..length + read].iter().position(|byte| *byte == 0) {
                buffer.truncate(length + end);
                return Ok(OsString::from_vec(buffer));
            }
            length += read;
        }
        Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG))
    }
}

/// The task that made a call. What is opened of it stays open for the call's other paths.
#[derive(Debug)]
pub(super) struct Task<'a> {
    pub(super) call: &'a Notification,
    directory: OnceCell<Rc<OwnedFd>>,
}

impl<'a> Task<'a> {
    pub(super) fn new(call: &'a Notification) -> Self {
        Self { call, directory: OnceCell::new() }
    }

    /// Opens what a descriptor of the task refers to, or its working directory for `AT_FDCWD`.
    pub(super) fn open(&self, descriptor: i32) -> Result<Rc<OwnedFd>, Errno> {
        if descriptor != libc::AT_FDCWD {
            return self.open_own(&format!("fd/{descriptor}"));
        }
        if let Some(directory) = self.directory.get() {
            return Ok(directory.clone());
        }
        let directory = self.open_own("cwd")?;
        Ok(self.directory.get_or_init(|| directory).clone())
    }

    /// Opens the root directory of the task.
    pub(super) fn open_root(&self) -> Result<Rc<OwnedFd>, Errno> {
        self.open_own("root")
    }

    fn open_own(&self, name: &str) -> Result<Rc<OwnedFd>, Errno> {
        let path = format!("/proc/{}/{name}", self.call.pid);
        rustix::fs::openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).map(Rc::new)
    }
}

//! Why a layer of the sandbox could not be set up: the kernel lacks it, so the sandbox may do without, or it failed, so
//! nothing may run.

use std::io;

use super::wire::{Frame, Parts};

/// First part of a message by which a supervisor reports that it could not make the sandbox.
const FAILED: &[u8] = b"failed";
const UNSUPPORTED: &[u8] = b"unsupported";

/// Why a layer could not be set up.
///
/// Only [`Unsupported`](LayerError::Unsupported) may take a layer away, since it does not depend on anything that a command,
/// a project or a policy supplies. Any of those could provoke another failure, so nothing may run after one.
#[derive(Debug)]
pub(super) enum LayerError {
    /// The kernel does not have it, or does not allow it to this user.
    Unsupported(String),
    /// It should have worked.
    Failed(io::Error),
}

impl LayerError {
    /// Classifies the failure of a probe: a call that succeeds on every kernel which has and allows the feature.
    pub(super) fn probed(what: &str, error: impl Into<io::Error>) -> Self {
        let error = error.into();
        match error.raw_os_error() {
            Some(
                libc::EPERM
                | libc::EACCES
                | libc::ENOSYS
                | libc::EINVAL
                | libc::ENOSPC
                | libc::EUSERS
                | libc::EOPNOTSUPP
                | libc::ENODEV,
            ) => Self::Unsupported(format!("{what}: {error}")),
            _ => Self::Failed(error),
        }
    }

    /// The error as a supervisor sends it.
    pub(super) fn frame(&self) -> Frame {
        match self {
            Self::Unsupported(why) => Frame::of([FAILED, UNSUPPORTED, why.as_bytes()]),
            Self::Failed(error) => Frame::of([FAILED, b"", error.to_string().as_bytes()]),
        }
    }

    /// The error that a frame carries, or the frame itself where it carries none.
    pub(super) fn parse(frame: Frame) -> Result<Frame, Self> {
        if frame.0.first().is_none_or(|first| first != FAILED) {
            return Ok(frame);
        }
        let mut parts = Parts::of(frame);
        let _ = parts.bytes();
        let (kind, why) = (parts.bytes().unwrap_or_default(), parts.bytes().unwrap_or_default());
        let why = String::from_utf8_lossy(&why).into_owned();
        Err(if kind == UNSUPPORTED { Self::Unsupported(why) } else { io::Error::other(why).into() })
    }
}

impl From<io::Error> for LayerError {
    fn from(error: io::Error) -> Self {
        Self::Failed(error)
    }
}

impl From<rustix::io::Errno> for LayerError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::Failed(error.into())
    }
}

impl From<LayerError> for io::Error {
    fn from(error: LayerError) -> Self {
        match error {
            LayerError::Unsupported(why) => Self::new(io::ErrorKind::Unsupported, why),
            LayerError::Failed(error) => error,
        }
    }
}

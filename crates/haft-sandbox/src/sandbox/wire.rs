//! The protocol between haft, a supervisor and its slots: length-prefixed frames, each a list of byte strings, with open
//! files beside them. It knows nothing of what the strings mean.

use std::io::{self, IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// Longer frames are refused.
const MAX_FRAME: usize = 16 << 20;
/// Most files beside one frame.
const MAX_FILES: usize = 8;

/// A list of byte strings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Frame(pub(super) Vec<Vec<u8>>);

impl Frame {
    pub(super) fn of(parts: impl IntoIterator<Item = impl Into<Vec<u8>>>) -> Self {
        Self(parts.into_iter().map(Into::into).collect())
    }

    /// The frame as bytes, its length first.
    pub(super) fn encoded(&self) -> Vec<u8> {
        let length: usize = self.0.iter().map(|part| part.len() + 4).sum();
        let mut bytes = Vec::with_capacity(length + 4);
        bytes.extend(number(length));
        for part in &self.0 {
            bytes.extend(number(part.len()));
            bytes.extend(part);
        }
        bytes
    }

    /// Decodes a length prefix.
    pub(super) fn length(head: [u8; 4]) -> io::Result<usize> {
        let length = u32::from_le_bytes(head) as usize;
        if length > MAX_FRAME { Err(io::ErrorKind::InvalidData.into()) } else { Ok(length) }
    }

    /// Decodes a frame without its length prefix.
    pub(super) fn decoded(mut bytes: &[u8]) -> io::Result<Self> {
        let mut parts = Vec::new();
        while let Some((head, rest)) = bytes.split_first_chunk::<4>() {
            let length = Self::length(*head)?;
            let (part, rest) = rest.split_at_checked(length).ok_or(io::ErrorKind::InvalidData)?;
            parts.push(part.to_vec());
            bytes = rest;
        }
        if bytes.is_empty() { Ok(Self(parts)) } else { Err(io::ErrorKind::InvalidData.into()) }
    }

    pub(super) fn send(&self, mut to: impl Write) -> io::Result<()> {
        to.write_all(&self.encoded())
    }

    /// Sends a frame with open files, over a blocking socket.
    pub(super) fn send_with(
        &self,
        to: &std::os::unix::net::UnixStream,
        files: &[BorrowedFd<'_>],
    ) -> io::Result<()> {
        let bytes = self.encoded();
        let sent = send_files(to, &bytes, files)?;
        let mut to = to;
        to.write_all(&bytes[sent..])
    }

    /// Receives a frame with the files beside it, over a blocking socket.
    pub(super) fn receive_with(from: &std::os::unix::net::UnixStream) -> io::Result<(Self, Vec<OwnedFd>)> {
        let (mut head, mut files, mut filled) = ([0; 4], Vec::new(), 0);
        while filled < head.len() {
            match receive_files(from, &mut head[filled..], &mut files)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                read => filled += read,
            }
        }
        let mut bytes = vec![0; Self::length(head)?];
        let mut from = from;
        from.read_exact(&mut bytes)?;
        Ok((Self::decoded(&bytes)?, files))
    }

    pub(super) fn receive(mut from: impl Read) -> io::Result<Self> {
        let mut head = [0; 4];
        from.read_exact(&mut head)?;
        let mut bytes = vec![0; Self::length(head)?];
        from.read_exact(&mut bytes)?;
        Self::decoded(&bytes)
    }
}

/// Sends the beginning of some bytes, and files with its first byte. Returns how many bytes were sent.
pub(super) fn send_files(to: impl AsFd, bytes: &[u8], files: &[BorrowedFd<'_>]) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    if !files.is_empty() && !control.push(SendAncillaryMessage::ScmRights(files)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    retry(|| sendmsg(&to, &[IoSlice::new(bytes)], &mut control, SendFlags::NOSIGNAL))
}

/// Receives some bytes, and adds the files beside them. Returns how many bytes were received.
pub(super) fn receive_files(
    from: impl AsFd,
    bytes: &mut [u8],
    files: &mut Vec<OwnedFd>,
) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FILES))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let read = retry(|| {
        recvmsg(&from, &mut [IoSliceMut::new(bytes)], &mut control, RecvFlags::CMSG_CLOEXEC)
            .map(|message| message.bytes)
    })?;
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(sent) = message {
            files.extend(sent);
        }
    }
    Ok(read)
}

fn retry<T>(mut call: impl FnMut() -> rustix::io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(rustix::io::Errno::INTR) => {}
            done => return Ok(done?),
        }
    }
}

fn number(length: usize) -> [u8; 4] {
    u32::try_from(length).unwrap_or(u32::MAX).to_le_bytes()
}

/// Reads the parts of a frame in order.
pub(super) struct Parts(std::vec::IntoIter<Vec<u8>>);

impl Parts {
    pub(super) fn of(frame: Frame) -> Self {
        Self(frame.0.into_iter())
    }

    pub(super) fn bytes(&mut self) -> io::Result<Vec<u8>> {
        self.0.next().ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    pub(super) fn number(&mut self) -> io::Result<u64> {
        let bytes = self.bytes()?.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// A list, preceded by its length.
    pub(super) fn list(&mut self) -> io::Result<Vec<Vec<u8>>> {
        (0..self.number()?).map(|_| self.bytes()).collect()
    }
}

/// Builds a frame part by part.
#[derive(Default)]
pub(super) struct Build(Frame);

impl Build {
    pub(super) fn bytes(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.0.0.push(bytes.into());
        self
    }

    pub(super) fn number(self, number: u64) -> Self {
        self.bytes(number.to_le_bytes())
    }

    pub(super) fn list(self, list: impl ExactSizeIterator<Item = Vec<u8>>) -> Self {
        let counted = self.number(list.len() as u64);
        list.fold(counted, Self::bytes)
    }

    pub(super) fn frame(self) -> Frame {
        self.0
    }
}

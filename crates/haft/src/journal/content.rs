//! Bytes to be written, in pieces: a small change of a large file needs no second copy of it.

use std::io::{self, Read};
use std::sync::OnceLock;

use bytes::{Buf, Bytes};
use haft_sandbox::Hash;

/// The content of a file, in pieces. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Content {
    pieces: Vec<Bytes>,
    len: u64,
    hash: OnceLock<Hash>,
}

impl Content {
    /// These pieces, one after another.
    pub fn of(pieces: impl IntoIterator<Item = Bytes>) -> Self {
        let pieces: Vec<Bytes> = pieces.into_iter().collect();
        let len = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self { pieces, len, hash: OnceLock::new() }
    }

    /// How many bytes there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The hash of all of it, found out once.
    pub fn hash(&self) -> Hash {
        *self.hash.get_or_init(|| Hash::of_pieces(self.pieces.iter().map(|piece| &**piece)))
    }

    /// All of it in one piece; copied unless it is one already.
    pub fn whole(&self) -> Bytes {
        match &*self.pieces {
            [] => Bytes::new(),
            [only] => only.clone(),
            pieces => pieces.concat().into(),
        }
    }

    /// Reads it from the beginning.
    pub fn reader(&self) -> impl Read + use<> {
        Pieces(self.pieces.clone().into_iter())
    }
}

impl From<Vec<u8>> for Content {
    fn from(bytes: Vec<u8>) -> Self {
        Self::of([bytes.into()])
    }
}

impl From<Bytes> for Content {
    fn from(bytes: Bytes) -> Self {
        Self::of([bytes])
    }
}

struct Pieces(std::vec::IntoIter<Bytes>);

impl Read for Pieces {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.as_mut_slice().first_mut() {
                None => return Ok(0),
                Some(piece) if piece.is_empty() => drop(self.0.next()),
                Some(piece) => {
                    let count = piece.len().min(buffer.len());
                    piece.copy_to_slice(&mut buffer[..count]);
                    return Ok(count);
                }
            }
        }
    }
}

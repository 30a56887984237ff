//! Bytes to be written, in pieces: a small change of a large file needs no second copy of it.

use std::io::{self, BufRead, Read};
use std::ops::Range;
use std::sync::OnceLock;

use bytes::{Buf, Bytes};
use haft_sandbox::Hash;

/// Less is copied into one piece: that takes less time than to write several.
const IN_ONE: u64 = 64 << 10;

/// The content of a file, in pieces. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Content {
    pieces: Vec<Bytes>,
    len: u64,
    hash: OnceLock<Hash>,
    splices: Vec<Splice>,
}

/// Some bytes of other content, and those that come in their place.
#[derive(Clone, Debug)]
pub(super) struct Splice {
    pub(super) at: u64,
    pub(super) gone: Bytes,
    pub(super) new: Bytes,
}

impl Content {
    /// These pieces, one after another.
    pub fn of(pieces: impl IntoIterator<Item = Bytes>) -> Self {
        let pieces: Vec<Bytes> = pieces.into_iter().collect();
        let len = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self { pieces, len, hash: OnceLock::new(), splices: Vec::new() }
    }

    /// Other content with some of its bytes replaced, in order: what stays is shared, and only what goes and
    /// comes is recorded where the other content is recorded already, or is too large to be.
    pub fn spliced(before: &Bytes, splices: Vec<(Range<usize>, Bytes)>) -> Self {
        let mut pieces = Vec::with_capacity(2 * splices.len() + 1);
        let mut at = 0;
        let mut told = Vec::with_capacity(splices.len());
        for (range, new) in splices {
            pieces.extend([before.slice(at..range.start), new.clone()]);
            at = range.end;
            told.push(Splice { at: range.start as u64, gone: before.slice(range), new });
        }
        pieces.push(before.slice(at..));
        pieces.retain(|piece| !piece.is_empty());
        let content = Self::of(pieces);
        let content = if content.len <= IN_ONE { Self::of([content.whole()]) } else { content };
        Self { splices: told, ..content }
    }

    /// What was replaced in the other content, if it was made of one.
    pub(super) fn splices(&self) -> &[Splice] {
        &self.splices
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
    pub fn reader(&self) -> impl BufRead + use<> {
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
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

impl BufRead for Pieces {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.0.as_slice().first().is_some_and(Bytes::is_empty) {
            self.0.next();
        }
        Ok(self.0.as_slice().first().map_or(&[], |piece| &**piece))
    }

    fn consume(&mut self, count: usize) {
        if let Some(piece) = self.0.as_mut_slice().first_mut() {
            piece.advance(count);
        }
    }
}

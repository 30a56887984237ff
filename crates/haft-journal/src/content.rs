//! New content of a file, in shared pieces: a small change of a large file needs no second copy of it.

use std::io::{self, BufRead, Read};
use std::ops::Range;
use std::sync::OnceLock;

use bytes::{Buf, Bytes};
use haft_sandbox::Hash;

/// Content up to this size is copied into one piece, which is faster than writing several.
const MAX_COPIED: u64 = 64 << 10;

/// The content of a file, in pieces. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Content {
    pieces: Vec<Bytes>,
    len: u64,
    hash: OnceLock<Hash>,
    splices: Vec<Splice>,
}

/// A range of the base content, and the bytes that replace it.
#[derive(Clone, Debug)]
pub(super) struct Splice {
    pub(super) at: u64,
    pub(super) removed: Bytes,
    pub(super) new: Bytes,
}

impl Content {
    /// Content made of these pieces, in order.
    pub fn of(pieces: impl IntoIterator<Item = Bytes>) -> Self {
        let pieces: Vec<Bytes> = pieces.into_iter().collect();
        let len = pieces.iter().map(|piece| piece.len() as u64).sum();
        Self { pieces, len, hash: OnceLock::new(), splices: Vec::new() }
    }

    /// The content `before` with some ranges replaced, in order. Unchanged bytes are shared, and the journal stores only the
    /// difference if `before` is stored already, or is too large to be.
    pub fn spliced(before: &Bytes, splices: Vec<(Range<usize>, Bytes)>) -> Self {
        let mut pieces = Vec::with_capacity(2 * splices.len() + 1);
        let mut at = 0;
        let mut recorded = Vec::with_capacity(splices.len());
        for (range, new) in splices {
            pieces.extend([before.slice(at..range.start), new.clone()]);
            at = range.end;
            recorded.push(Splice { at: range.start as u64, removed: before.slice(range), new });
        }
        pieces.push(before.slice(at..));
        pieces.retain(|piece| !piece.is_empty());
        let content = Self::of(pieces);
        let content = if content.len <= MAX_COPIED { Self::of([content.whole()]) } else { content };
        Self { splices: recorded, ..content }
    }

    /// The replaced ranges, if it was made by [`Content::spliced`].
    pub(super) fn splices(&self) -> &[Splice] {
        &self.splices
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Its hash, computed once.
    pub fn hash(&self) -> Hash {
        *self.hash.get_or_init(|| Hash::of_pieces(self.pieces.iter().map(|piece| &**piece)))
    }

    /// The whole content in one piece; copied unless it is one already.
    pub fn whole(&self) -> Bytes {
        match &*self.pieces {
            [] => Bytes::new(),
            [only] => only.clone(),
            pieces => pieces.concat().into(),
        }
    }

    /// A reader from the beginning.
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

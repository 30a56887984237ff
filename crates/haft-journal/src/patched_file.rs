//! A reader that applies a delta to a file as a stream, so that a large file is restored without being held in memory.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;

use haft_sandbox::{Hash, Hasher};

use super::record::Part;

/// A reader of a file with some parts replaced. It verifies the hash of the result: the last read fails if that is wrong.
pub(super) struct PatchedFile {
    file: File,
    /// The pieces still to be read, in reverse order.
    pieces: Vec<Piece>,
    hasher: Hasher,
    expected: Hash,
}

enum Piece {
    /// A range of the file.
    Same(u64, u64),
    /// Replacement bytes, and how many of them were read.
    New(Vec<u8>, usize),
}

impl PatchedFile {
    /// `replacements` are the bytes of each part.
    pub(super) fn new(file: File, parts: &[Part], replacements: Vec<Vec<u8>>, expected: Hash) -> Self {
        let mut pieces = Vec::with_capacity(2 * parts.len() + 1);
        let mut at = 0;
        for (part, new) in parts.iter().zip(replacements) {
            pieces.extend([Piece::Same(at, part.at), Piece::New(new, 0)]);
            at = part.at.saturating_add(part.removed);
        }
        pieces.push(Piece::Same(at, u64::MAX));
        pieces.reverse();
        Self { file, pieces, hasher: Hasher::default(), expected }
    }

    fn next(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(piece) = self.pieces.last_mut() {
            let read = match piece {
                Piece::Same(at, end) => {
                    let max = usize::try_from(end.saturating_sub(*at)).unwrap_or(usize::MAX);
                    let max = max.min(buffer.len());
                    let read = self.file.read_at(&mut buffer[..max], *at)?;
                    *at += read as u64;
                    read
                }
                Piece::New(bytes, at) => {
                    let read = (&bytes[*at..]).read(buffer)?;
                    *at += read;
                    read
                }
            };
            if read > 0 {
                return Ok(read);
            }
            self.pieces.pop();
        }
        Ok(0)
    }
}

impl Read for PatchedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Fill the buffer with several pieces: hashing a large buffer is faster.
        let mut filled = 0;
        while filled < buffer.len() {
            match self.next(&mut buffer[filled..]) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        self.hasher.update(&buffer[..filled]);
        if filled == 0 && !buffer.is_empty() && self.hasher.hash() != self.expected {
            let why = "what the journal kept does not lead back to the content it recorded";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(filled)
    }
}

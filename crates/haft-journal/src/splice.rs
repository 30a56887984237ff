//! Reading a file with some of its parts replaced: a large file is brought back from the one that took its
//! place, and never held in memory.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt as _;

use haft_sandbox::{Hash, Hasher};

use super::record::Part;

/// A file with some of its parts replaced. That the result is what it should be shows at its end: then the
/// last read fails if it is not.
pub(super) struct Spliced {
    file: File,
    /// What is still to be read, the last first.
    pieces: Vec<Piece>,
    hasher: Hasher,
    wanted: Hash,
}

enum Piece {
    /// Of the file, from here to there.
    Same(u64, u64),
    /// In place of something, from here on.
    New(Vec<u8>, usize),
}

impl Spliced {
    /// `news` are the bytes of each part.
    pub(super) fn new(file: File, parts: &[Part], news: Vec<Vec<u8>>, wanted: Hash) -> Self {
        let mut pieces = Vec::with_capacity(2 * parts.len() + 1);
        let mut at = 0;
        for (part, new) in parts.iter().zip(news) {
            pieces.extend([Piece::Same(at, part.at), Piece::New(new, 0)]);
            at = part.at.saturating_add(part.gone);
        }
        pieces.push(Piece::Same(at, u64::MAX));
        pieces.reverse();
        Self { file, pieces, hasher: Hasher::default(), wanted }
    }

    fn next(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(piece) = self.pieces.last_mut() {
            let read = match piece {
                Piece::Same(at, end) => {
                    let most = usize::try_from(end.saturating_sub(*at)).unwrap_or(usize::MAX);
                    let most = most.min(buffer.len());
                    let read = self.file.read_at(&mut buffer[..most], *at)?;
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

impl Read for Spliced {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // Pieces are gathered: hashing many at once is faster.
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
        if filled == 0 && !buffer.is_empty() && self.hasher.hash() != self.wanted {
            let why = "what the journal kept does not lead back to the content it recorded";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        Ok(filled)
    }
}

//! Hashes of content.

use std::fmt;
use std::io::{self, Read};

/// The BLAKE3 hash of some content.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hash([u8; 32]);

impl Hash {
    /// The hash of these bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self::of_pieces([bytes])
    }

    /// The hash of these pieces, one after another.
    pub fn of_pieces<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hasher = blake3::Hasher::new();
        for piece in pieces {
            hasher.update(piece);
        }
        Self(*hasher.finalize().as_bytes())
    }

    /// The hash of everything that can be read.
    pub fn of_reader(mut reader: impl Read) -> io::Result<Self> {
        let mut hasher = blake3::Hasher::new();
        let mut buffer = vec![0; 1 << 17];
        loop {
            match reader.read(&mut buffer) {
                Ok(0) => return Ok(Self(*hasher.finalize().as_bytes())),
                Ok(read) => {
                    hasher.update(&buffer[..read]);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
        }
    }

    /// The hash as bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Parses 64 hexadecimal digits.
    pub fn parse(text: &str) -> Option<Self> {
        let digits = text.as_bytes();
        if digits.len() != 64 {
            return None;
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            let digit = |digit: u8| char::from(digit).to_digit(16);
            *byte = u8::try_from(digit(pair[0])? * 16 + digit(pair[1])?).ok()?;
        }
        Some(Self(bytes))
    }
}

/// Computes a hash incrementally.
#[derive(Clone, Debug, Default)]
pub struct Hasher(blake3::Hasher);

impl Hasher {
    /// Adds a piece.
    pub fn update(&mut self, piece: &[u8]) {
        self.0.update(piece);
    }

    /// The hash of all pieces so far.
    pub fn hash(&self) -> Hash {
        Hash(*self.0.finalize().as_bytes())
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digit = |half: u8| char::from_digit(half.into(), 16).map_or(0, |digit| digit as u8);
        let mut digits = [0; 64];
        for (pair, byte) in digits.chunks_exact_mut(2).zip(self.0) {
            (pair[0], pair[1]) = (digit(byte >> 4), digit(byte & 15));
        }
        f.write_str(std::str::from_utf8(&digits).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hash({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hash_is_parsed_from_its_text() {
        let hash = Hash::of(b"text");
        assert_eq!(Hash::parse(&hash.to_string()), Some(hash));
        assert_eq!(Hash::of_reader(&b"text"[..]).unwrap(), hash);
        assert_eq!(Hash::parse("00"), None);
        assert_eq!(Hash::parse(&"é".repeat(32)), None);
    }

    #[test]
    fn pieces_have_the_hash_of_the_whole() {
        let text = "some text, longer than one block of the hash ".repeat(100);
        let whole = Hash::of(text.as_bytes());
        for size in [1, 7, 64, 1024, text.len()] {
            assert_eq!(Hash::of_pieces(text.as_bytes().chunks(size)), whole, "{size}");
        }
        assert_eq!(Hash::of_pieces([&b""[..], text.as_bytes(), b""]), whole);
        assert_eq!(Hash::of_pieces([]), Hash::of(b""));
        assert_ne!(Hash::of_pieces([&b"b"[..], b"a"]), Hash::of(b"ab"));
    }
}

//! Changes to bytes as splices: ranges of the original file with their replacements. Offsets always refer to the
//! original file, also for changes made one after another; bytes outside of all splices stay untouched.

use std::ops::Range;

use bytes::Bytes;
use haft_journal::Content;

/// A range of bytes and its replacement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    /// The range to replace, in the original file.
    pub range: Range<usize>,
    /// The replacement.
    pub bytes: Vec<u8>,
}

/// Splices in order that do not overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Splices(Vec<Splice>);

impl Splices {
    /// The splices, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Splice> {
        self.0.iter()
    }

    /// The content after the change, as consecutive pieces.
    pub fn pieces<'a>(&'a self, before: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        let mut at = 0;
        let pairs = self.0.iter().flat_map(move |splice| {
            let kept = &before[at..splice.range.start];
            at = splice.range.end;
            [kept, splice.bytes.as_slice()]
        });
        let rest = self.0.last().map_or(0, |splice| splice.range.end);
        pairs.chain([&before[rest..]]).filter(|piece| !piece.is_empty())
    }

    /// The content after the change, which shares unchanged bytes with the original.
    pub fn content(&self, before: &Bytes) -> Content {
        let splices = self.0.iter().map(|splice| (splice.range.clone(), splice.bytes.clone().into()));
        Content::spliced(before, splices.collect())
    }

    /// Length of the content after the change.
    pub fn len_after(&self, before: usize) -> usize {
        self.0.iter().fold(before, |len, splice| (len + splice.bytes.len()) - splice.range.len())
    }

    /// The content after the change, in one piece.
    pub fn apply(&self, before: &[u8]) -> Vec<u8> {
        let mut after = Vec::with_capacity(self.len_after(before.len()));
        self.pieces(before).for_each(|piece| after.extend_from_slice(piece));
        after
    }

    /// Composes these splices of a file of `before` bytes with later ones. `later` is in order, and its offsets refer to
    /// the content after these splices.
    pub fn then(&mut self, before: usize, later: Vec<Splice>) {
        let earlier = std::mem::take(self);
        let mut builder = SpliceBuilder::default();
        let mut pieces = earlier.into_pieces(before);
        let mut piece = pieces.next();
        // Offset of the rest of the current piece, in the content after the earlier splices.
        let mut at = 0;
        for splice in later {
            while let Some(current) = piece.take() {
                let (kept, rest) = current.split(splice.range.start - at);
                at += kept.len();
                builder.add(kept);
                piece = if rest.len() > 0 { Some(rest) } else { pieces.next() };
                if at == splice.range.start {
                    break;
                }
            }
            while at < splice.range.end
                && let Some(current) = piece.take()
            {
                let (dropped, rest) = current.split(splice.range.end - at);
                at += dropped.len();
                piece = if rest.len() > 0 { Some(rest) } else { pieces.next() };
            }
            builder.add(Piece::New(splice.bytes));
        }
        piece.into_iter().chain(pieces).for_each(|piece| builder.add(piece));
        builder.add(Piece::Kept(before..before));
        *self = Self(builder.splices);
    }

    fn into_pieces(self, before: usize) -> impl Iterator<Item = Piece> {
        let rest = self.0.last().map_or(0, |splice| splice.range.end)..before;
        let mut at = 0;
        let pairs = self.0.into_iter().flat_map(move |splice| {
            let kept = at..splice.range.start;
            at = splice.range.end;
            [Piece::Kept(kept), Piece::New(splice.bytes)]
        });
        pairs.chain([Piece::Kept(rest)]).filter(|piece| piece.len() > 0)
    }
}

/// A part of the changed file.
enum Piece {
    Kept(Range<usize>),
    New(Vec<u8>),
}

impl Piece {
    fn len(&self) -> usize {
        match self {
            Self::Kept(range) => range.len(),
            Self::New(bytes) => bytes.len(),
        }
    }

    fn split(self, at: usize) -> (Self, Self) {
        match self {
            Self::Kept(range) => {
                let middle = (range.start + at).min(range.end);
                (Self::Kept(range.start..middle), Self::Kept(middle..range.end))
            }
            Self::New(mut bytes) => {
                let rest = bytes.split_off(at.min(bytes.len()));
                (Self::New(bytes), Self::New(rest))
            }
        }
    }
}

/// Builds splices from consecutive pieces of the changed file.
#[derive(Default)]
struct SpliceBuilder {
    splices: Vec<Splice>,
    kept_to: usize,
    new: Vec<u8>,
}

impl SpliceBuilder {
    fn add(&mut self, piece: Piece) {
        match piece {
            Piece::New(bytes) if self.new.is_empty() => self.new = bytes,
            Piece::New(bytes) => self.new.extend_from_slice(&bytes),
            Piece::Kept(range) => {
                if !self.new.is_empty() || range.start > self.kept_to {
                    let bytes = std::mem::take(&mut self.new);
                    self.splices.push(Splice { range: self.kept_to..range.start, bytes });
                }
                self.kept_to = range.end;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Splices of a file of so many bytes.
    fn splices(len: usize, seeds: &[(usize, usize, Vec<u8>)]) -> Vec<Splice> {
        let mut at = 0;
        let mut made = Vec::new();
        for (skip, cut, bytes) in seeds {
            let start = (at + skip).min(len);
            at = (start + cut).min(len);
            made.push(Splice { range: start..at, bytes: bytes.clone() });
        }
        made
    }

    fn naive(before: &[u8], splices: &[Splice]) -> Vec<u8> {
        let mut after = before.to_vec();
        for splice in splices.iter().rev() {
            after.splice(splice.range.clone(), splice.bytes.iter().copied());
        }
        after
    }

    type Seeds = Vec<(usize, usize, Vec<u8>)>;

    fn seeds() -> impl Strategy<Value = Vec<Seeds>> {
        let bytes = proptest::collection::vec(b'a'..=b'z', 0..6);
        let one = proptest::collection::vec((0_usize..8, 0_usize..6, bytes), 0..5);
        proptest::collection::vec(one, 0..5)
    }

    proptest! {
        #[test]
        fn splices_on_splices_are_one_change(rounds in seeds(), len in 0_usize..40) {
            let before: Vec<u8> = (0..len).map(|n| b'0' + (n % 10) as u8).collect();
            let (mut all, mut after) = (Splices::default(), before.clone());
            for round in rounds {
                let later = splices(after.len(), &round);
                after = naive(&after, &later);
                all.then(before.len(), later);
                prop_assert_eq!(&all.apply(&before), &after);
                prop_assert_eq!(all.len_after(before.len()), after.len());
                prop_assert!(all.0.windows(2).all(|pair| pair[0].range.end <= pair[1].range.start));
            }
        }
    }
}

//! A logarithmic histogram, like HdrHistogram: 32 buckets per doubling, so that the relative error is at most 1/32
//! however large a value is, and histograms merge exactly.

use serde::{Deserialize, Serialize};

/// The number of buckets per doubling, as a power of two.
const BITS: u32 = 5;
const PER_DOUBLING: u64 = 1 << BITS;
const BUCKETS: usize = ((64 - BITS as usize) + 1) << BITS;

/// The dense form, for recording: a count for every bucket, so that adding never allocates.
#[derive(Debug)]
pub(super) struct Buckets(Box<[u64]>);

/// The sparse form, for saving and merging: the buckets that are not empty, in ascending order.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Histogram(Vec<(u16, u64)>);

impl Default for Buckets {
    fn default() -> Self {
        Self(vec![0; BUCKETS].into_boxed_slice())
    }
}

impl Buckets {
    pub(super) fn add(&mut self, value: u64) {
        self.0[usize::from(bucket(value))] += 1;
    }

    pub(super) fn histogram(&self) -> Histogram {
        let filled = (0u16..).zip(self.0.iter().copied());
        Histogram(filled.filter(|(_, count)| *count > 0).collect())
    }

    pub(super) fn clear(&mut self) {
        self.0.fill(0);
    }
}

impl Histogram {
    pub(super) fn merge(&mut self, other: &Histogram) {
        let mut merged = Vec::with_capacity(self.0.len().max(other.0.len()));
        let (mut mine, mut theirs) = (self.0.as_slice(), other.0.as_slice());
        while let ([a, rest_a @ ..], [b, rest_b @ ..]) = (mine, theirs) {
            if a.0 == b.0 {
                merged.push((a.0, a.1.saturating_add(b.1)));
                (mine, theirs) = (rest_a, rest_b);
            } else if a.0 < b.0 {
                merged.push(*a);
                mine = rest_a;
            } else {
                merged.push(*b);
                theirs = rest_b;
            }
        }
        merged.extend_from_slice(mine);
        merged.extend_from_slice(theirs);
        self.0 = merged;
    }

    /// Approximates the value of this rank, counted from 1, by the middle of its bucket.
    pub(super) fn value_at(&self, rank: u64) -> u64 {
        let mut seen: u64 = 0;
        for (bucket, count) in &self.0 {
            seen = seen.saturating_add(*count);
            if seen >= rank {
                return middle(*bucket);
            }
        }
        self.0.last().map_or(0, |(bucket, _)| middle(*bucket))
    }

    /// Whether this is a valid histogram of that many values.
    pub(super) fn is_sound(&self, values: u64) -> bool {
        let rising = self.0.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let known = self.0.last().is_none_or(|(bucket, _)| usize::from(*bucket) < BUCKETS);
        let sum = self.0.iter().fold(0u64, |sum, (_, count)| sum.saturating_add(*count));
        rising && known && sum == values
    }
}

/// The bucket of a value: a small value has its own; for others, the exponent and the leading bits make the number.
fn bucket(value: u64) -> u16 {
    let Some(shift) = value.checked_ilog2().and_then(|top| top.checked_sub(BITS)) else {
        return value as u16;
    };
    ((u64::from(shift) << BITS) + (value >> shift)) as u16
}

fn middle(bucket: u16) -> u64 {
    let bucket = u64::from(bucket);
    if bucket < 2 * PER_DOUBLING {
        return bucket;
    }
    let shift = (bucket >> BITS) - 1;
    let low = (bucket - (shift << BITS)) << shift;
    low + (1 << shift) / 2
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_middle_of_a_bucket_is_near_its_values(bits in 0..64u32, value: u64) {
            let value = value >> bits;
            let bucket = bucket(value);
            prop_assert!(usize::from(bucket) < BUCKETS);
            prop_assert!(middle(bucket).abs_diff(value) as f64 <= value as f64 * 0.016);
        }

        #[test]
        fn buckets_rise_with_their_values(a: u64, b: u64) {
            prop_assert!(bucket(a.min(b)) <= bucket(a.max(b)));
        }
    }

    #[test]
    fn the_largest_value_has_the_last_bucket() {
        assert_eq!(usize::from(bucket(u64::MAX)), BUCKETS - 1);
        assert_eq!(bucket(31) + 1, bucket(32));
        assert_eq!(bucket(63) + 1, bucket(64));
    }
}

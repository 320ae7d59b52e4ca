//! A histogram of nanoseconds or counts that one thread writes and any may read, in fixed memory. It must not lock or
//! allocate.

use std::array;
use std::sync::atomic::{AtomicU64, Ordering};

/// Buckets of an octave: a value is known to within an eighth.
const PER_OCTAVE: u64 = 8;
/// log2 of it.
const PER_OCTAVE_BITS: u32 = PER_OCTAVE.ilog2();
/// Octaves above the exact values; the last bucket takes all above 2^40 (18 minutes in nanoseconds).
const OCTAVES: usize = 38;
/// All buckets.
const BUCKETS: usize = PER_OCTAVE as usize * (1 + OCTAVES);

/// Counts of values in buckets that widen with the value. Written by one thread.
#[derive(Debug)]
pub struct Histogram {
    // Relaxed throughout: each is a count of its own, and a reader takes them as of about now.
    buckets: [AtomicU64; BUCKETS],
    sum: AtomicU64,
    max: AtomicU64,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: array::from_fn(|_| AtomicU64::new(0)),
            sum: AtomicU64::new(0),
            max: AtomicU64::new(0),
        }
    }
}

/// A histogram's content at one moment.
#[derive(Clone, Debug)]
pub struct HistogramSnapshot {
    counts: Vec<u64>,
    /// Values counted.
    pub count: u64,
    /// Their sum, wrapping.
    pub sum: u64,
    /// The largest.
    pub max: u64,
}

impl Histogram {
    /// Counts `value` `times` times. Only one thread may call it.
    #[inline]
    pub fn record(&self, value: u64, times: u64) {
        let add = |place: &AtomicU64, by: u64| {
            // One writer: a plain store does, and costs no locked instruction.
            place.store(place.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
        };
        if let Some(bucket) = self.buckets.get(bucket_of(value)) {
            add(bucket, times);
        }
        add(&self.sum, value.wrapping_mul(times));
        if value > self.max.load(Ordering::Relaxed) {
            self.max.store(value, Ordering::Relaxed);
        }
    }

    /// What was counted so far.
    #[must_use]
    pub fn snapshot(&self) -> HistogramSnapshot {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        HistogramSnapshot {
            count: counts.iter().sum(),
            counts,
            sum: self.sum.load(Ordering::Relaxed),
            max: self.max.load(Ordering::Relaxed),
        }
    }
}

impl HistogramSnapshot {
    /// The value that `per_mille` of 1000 values do not exceed, to within an eighth; 0 where there are none.
    #[must_use]
    pub fn quantile(&self, per_mille: u64) -> u64 {
        let wanted = (self.count * per_mille.min(1000)).div_ceil(1000).max(1);
        let mut seen = 0;
        for (upper, count) in self.buckets() {
            seen += count;
            if seen >= wanted {
                return upper.min(self.max);
            }
        }
        self.max
    }

    /// Each bucket's highest value and count, lowest first. For a Prometheus histogram.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter().enumerate().map(|(bucket, count)| (upper_of(bucket), *count))
    }
}

fn bucket_of(value: u64) -> usize {
    if value < PER_OCTAVE {
        return value as usize;
    }
    let octave = value.ilog2() - PER_OCTAVE_BITS;
    let within = (value >> octave) - PER_OCTAVE;
    ((u64::from(octave) + 1) * PER_OCTAVE + within).min(BUCKETS as u64 - 1) as usize
}

/// The highest value of a bucket.
fn upper_of(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < PER_OCTAVE {
        return bucket;
    }
    if bucket == BUCKETS as u64 - 1 {
        return u64::MAX;
    }
    let octave = bucket / PER_OCTAVE - 1;
    ((PER_OCTAVE + bucket % PER_OCTAVE + 1) << octave) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_within_its_bucket() {
        let mut below = None;
        for bucket in 0..BUCKETS {
            let upper = upper_of(bucket);
            assert_eq!(bucket_of(upper), bucket, "highest value of bucket {bucket}");
            if let Some(below) = below {
                assert_eq!(bucket_of(below + 1), bucket, "lowest value of bucket {bucket}");
            }
            below = Some(upper);
        }
        assert_eq!(below, Some(u64::MAX));
    }

    #[test]
    fn quantiles_are_within_an_eighth() {
        let histogram = Histogram::default();
        for value in 1..=10_000 {
            histogram.record(value, 1);
        }
        let snapshot = histogram.snapshot();
        assert_eq!((snapshot.count, snapshot.max, snapshot.sum), (10_000, 10_000, 50_005_000));
        for (per_mille, exact) in [(500, 5_000), (990, 9_900), (999, 9_990), (1000, 10_000)] {
            let quantile = snapshot.quantile(per_mille);
            assert!((exact..=exact + exact / 8).contains(&quantile), "{per_mille}: {quantile} for {exact}");
        }
        assert_eq!(Histogram::default().snapshot().quantile(500), 0);
    }
}

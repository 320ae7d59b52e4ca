//! A record as it is read back. It must not know how it was written.

use crate::point::{ARGUMENTS_MAX, PointInfo};

/// One thing that was recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The time stamp counter.
    pub ticks: u64,
    /// Number of its writer, in the file.
    pub source: u64,
    /// What it says.
    pub entry: Entry,
}

/// What a record says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A point was passed.
    Passed {
        /// Place of the point in the file's dictionary.
        point: usize,
        /// Values of its arguments; those that it does not have are 0.
        arguments: [u64; ARGUMENTS_MAX],
    },
    /// So many records are missing here: the buffer was full, or the disk.
    Lost(u64),
}

impl Record {
    /// The first and the last sequence that it is about, by the names of the arguments: `sequence` is the last one, `first` the
    /// first, or `frames` how many there are; one without these. Sequences begin with 1.
    #[must_use]
    pub fn sequences(&self, points: &[PointInfo]) -> Option<(u64, u64)> {
        let Entry::Passed { point, arguments } = &self.entry else { return None };
        let info = points.get(*point)?;
        let value = |name| info.place_of(name).and_then(|place| arguments.get(place)).copied();
        let last = value("sequence")?;
        let first = match (value("first"), value("frames")) {
            (Some(first), _) => first,
            (None, Some(frames)) => last.checked_sub(frames.checked_sub(1)?)?,
            (None, None) => last,
        };
        (0 < first && first <= last && last < u64::MAX).then_some((first, last))
    }
}

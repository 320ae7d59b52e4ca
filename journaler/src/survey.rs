//! What is in a journal's folder: the segments in their order with their headers. Never writes.

use std::io::ErrorKind;

use protocol::Sequence;

use crate::error::{Context, Corruption, Evidence, JournalError, Result};
use crate::format::{BLOCK_BYTES, JOURNAL_FORMAT_VERSION, SegmentHeader, SegmentHeaderRead};
use crate::scan::Segment;
use crate::storage::{Access, SharedStorage};

/// Folder of the segments in the data directory.
pub const JOURNAL_FOLDER: &str = "journal";

/// Shortest segment: the header, one block of frames, one mark.
pub(crate) const SEGMENT_BLOCKS_MIN: u64 = 3;

const PREFIX: &str = "segment-";
const TEMPORARY: &str = ".tmp";

/// Path of a segment in the data directory.
pub(crate) fn segment_path(number: u64) -> String {
    format!("{JOURNAL_FOLDER}/{PREFIX}{number:010}")
}

/// Path of a segment that is still being prepared.
pub(crate) fn temporary_path(number: u64) -> String {
    format!("{}{TEMPORARY}", segment_path(number))
}

/// A segment as found.
#[derive(Debug)]
pub(crate) struct Surveyed {
    pub(crate) number: u64,
    pub(crate) path: String,
    pub(crate) length: u64,
    pub(crate) header: SegmentHeaderRead,
}

impl Surveyed {
    pub(crate) fn valid(&self) -> Option<&SegmentHeader> {
        match &self.header {
            SegmentHeaderRead::Valid(header, _) => Some(header),
            SegmentHeaderRead::Unused | SegmentHeaderRead::Version(_) | SegmentHeaderRead::Bad => None,
        }
    }

    /// What its batches' checksums start from; 0 if the header isn't valid.
    pub(crate) fn seed(&self) -> u32 {
        match &self.header {
            SegmentHeaderRead::Valid(_, seed) => *seed,
            SegmentHeaderRead::Unused | SegmentHeaderRead::Version(_) | SegmentHeaderRead::Bad => 0,
        }
    }
}

/// All segments of a journal, oldest first, numbers without gap.
#[derive(Debug)]
pub(crate) struct Survey {
    pub(crate) segments: Vec<Surveyed>,
    /// Files that a preparation left unfinished.
    pub(crate) temporaries: Vec<String>,
}

impl Survey {
    /// Lists the segments and reads their headers.
    ///
    /// # Errors
    /// For what can't be a torn tail whatever the batches say: a missing segment, an impossible length, another
    /// version, another cluster than `cluster_id` (`None` takes the one of the first header).
    pub(crate) fn read(storage: &SharedStorage, cluster_id: Option<u128>) -> Result<Self> {
        let (mut numbers, mut temporaries) = list(storage)?;
        loop {
            let surveyed = Self::headers(storage, &numbers, temporaries, cluster_id);
            let is_gone = match &surveyed {
                Err(JournalError::MissingSegment { .. }) => true,
                Err(JournalError::Io { source, .. }) => source.kind() == ErrorKind::NotFound,
                _ => false,
            };
            if !is_gone {
                return surveyed;
            }
            // The writer prunes from the oldest on and truncates from the newest on, also while others look. Only where both
            // ends stayed is one missing.
            let ends = (numbers.first().copied(), numbers.last().copied());
            (numbers, temporaries) = list(storage)?;
            if (numbers.first().copied(), numbers.last().copied()) == ends {
                return surveyed;
            }
        }
    }

    fn headers(
        storage: &SharedStorage,
        numbers: &[u64],
        temporaries: Vec<String>,
        cluster_id: Option<u128>,
    ) -> Result<Self> {
        let mut segments: Vec<Surveyed> = Vec::with_capacity(numbers.len());
        let mut expected_cluster = cluster_id;
        for &number in numbers {
            let path = segment_path(number);
            if let Some(last) = segments.last().filter(|last| last.number + 1 != number) {
                return Err(JournalError::MissingSegment { file: segment_path(last.number + 1), next: path });
            }
            let segment = Segment::open(storage, path.clone(), Access::Read)?;
            let length = segment.length;
            if !length.is_multiple_of(BLOCK_BYTES as u64) || length < SEGMENT_BLOCKS_MIN * BLOCK_BYTES as u64
            {
                return Err(JournalError::SegmentLength { file: path, length });
            }
            let header = segment.header()?;
            match &header {
                SegmentHeaderRead::Version(found) => {
                    let supported = JOURNAL_FORMAT_VERSION;
                    return Err(JournalError::WrongVersion { file: path, found: *found, supported });
                }
                SegmentHeaderRead::Valid(valid, _) => {
                    let expected = *expected_cluster.get_or_insert(valid.cluster_id);
                    if valid.cluster_id != expected {
                        let found = valid.cluster_id;
                        return Err(JournalError::ForeignCluster { file: path, found, expected });
                    }
                    check_order(&segments, number, valid, &path)?;
                }
                SegmentHeaderRead::Unused | SegmentHeaderRead::Bad => {}
            }
            segments.push(Surveyed { number, path, length, header });
        }
        Ok(Self { segments, temporaries })
    }

    /// Cluster id in the headers, if there is a valid one.
    pub(crate) fn cluster_id(&self) -> Option<u128> {
        self.segments.iter().find_map(|found| found.valid()).map(|header| header.cluster_id)
    }

    /// First sequence of the oldest segment, if that was begun.
    pub(crate) fn first_sequence(&self) -> Option<Sequence> {
        self.segments.first().and_then(Surveyed::valid).map(|header| header.first_sequence)
    }

    /// Place of the last segment that was begun: its header is not blank.
    pub(crate) fn last_begun(&self) -> Option<usize> {
        self.segments.iter().rposition(|segment| segment.header != SegmentHeaderRead::Unused)
    }
}

/// A header must name its own segment and not start before the one that stands before it.
fn check_order(before: &[Surveyed], number: u64, header: &SegmentHeader, path: &str) -> Result<()> {
    let earlier = before.iter().rev().find_map(Surveyed::valid).map(|header| header.first_sequence);
    if header.number == number && earlier.is_none_or(|earlier| earlier <= header.first_sequence) {
        return Ok(());
    }
    Err(Corruption {
        file: path.to_owned(),
        offset: 0,
        sequence: earlier.unwrap_or(header.first_sequence),
        reason: "the header belongs to another place in the log",
        evidence: Evidence::Known { sequence: Sequence(header.first_sequence.0.saturating_sub(1)) },
    }
    .into())
}

fn segment_number(path: &str) -> Option<u64> {
    let number = path.strip_prefix(JOURNAL_FOLDER)?.strip_prefix('/')?.strip_prefix(PREFIX)?.parse().ok()?;
    (segment_path(number) == path).then_some(number)
}

/// Whether a path is a segment's.
pub(crate) fn is_segment(path: &str) -> bool {
    segment_number(path).is_some()
}

fn list(storage: &SharedStorage) -> Result<(Vec<u64>, Vec<String>)> {
    let names = match storage.list(JOURNAL_FOLDER) {
        Ok(names) => names,
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error).context("list", JOURNAL_FOLDER),
    };
    let mut numbers = Vec::new();
    let mut temporaries = Vec::new();
    for name in names {
        let path = format!("{JOURNAL_FOLDER}/{name}");
        if let Some(number) = segment_number(&path) {
            numbers.push(number);
        } else if name.starts_with(PREFIX) && name.ends_with(TEMPORARY) {
            temporaries.push(path);
        }
    }
    numbers.sort_unstable();
    Ok((numbers, temporaries))
}

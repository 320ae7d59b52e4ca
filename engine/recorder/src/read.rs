//! A file read back, as far as it can be. It must not trust a byte: what is damaged is told and passed over.

use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use crate::clock::{ClockMap, Reading};
use crate::file::{self, BLOCK_HEADER, Before, FILE_BYTES_MAX, FORMAT_VERSION, Kind, MAGIC};
use crate::point::{POINTS_MAX, PointInfo};
use crate::record::{Entry, Record};
use crate::varint;

/// What a file holds.
#[derive(Clone, Debug)]
pub struct Contents {
    /// Tells the files of one start of a recorder: nanoseconds since 1970 (UTC) at it.
    pub run: u64,
    /// The points, by their place.
    pub points: Vec<PointInfo>,
    /// Numbers and names of the writers.
    pub sources: Vec<(u64, String)>,
    /// Turns ticks into time.
    pub clock: ClockMap,
    /// Records in order of time.
    pub records: Vec<Record>,
    /// What could not be read.
    pub problems: Vec<Problem>,
}

/// A part of a file that could not be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Problem {
    /// Bytes from here to there are no whole block.
    Damaged {
        /// First byte.
        from: usize,
        /// The byte behind the last.
        to: usize,
    },
    /// The file ends within a block: its writer was killed, or is writing it.
    CutShort {
        /// Where that block begins.
        from: usize,
    },
}

impl fmt::Display for Problem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Damaged { from, to } => {
                write!(formatter, "bytes {from} to {to} are damaged and passed over")
            }
            Self::CutShort { from } => write!(formatter, "it ends within the block at byte {from}"),
        }
    }
}

/// Why a file can't be read at all.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// The system's.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It does not begin as a file of a recorder.
    #[error("no file of a flight recorder, or its head is damaged")]
    NoHead,
    /// Written by another version.
    #[error("format {found} of a flight recorder; this program reads {FORMAT_VERSION}")]
    Version {
        /// Its version.
        found: u32,
    },
    /// Longer than any that is written.
    #[error("{length} bytes are more than a file of a flight recorder has")]
    TooLong {
        /// Its length.
        length: u64,
    },
}

impl Contents {
    /// Reads a file.
    ///
    /// # Errors
    /// [`ReadError`], where nothing of it can be read.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let length = fs::metadata(path)?.len();
        if length > FILE_BYTES_MAX {
            return Err(ReadError::TooLong { length });
        }
        Self::parse(&fs::read(path)?)
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn parse(bytes: &[u8]) -> Result<Self, ReadError> {
        let Some((Kind::Head, payload, length)) = file::split_block(bytes) else {
            return Err(ReadError::NoHead);
        };
        let (run, points) = head(payload)?;
        let mut reader = Reader { points, ..Reader::default() };
        let mut at = length;
        while at < bytes.len() {
            match file::split_block(&bytes[at..]) {
                Some((kind, payload, length)) => {
                    if reader.block(kind, payload).is_none() {
                        reader.problems.push(Problem::Damaged { from: at, to: at + length });
                    }
                    at += length;
                }
                None => at = reader.pass_over(bytes, at),
            }
        }
        let Reader { points, sources, readings, ticks_per_second, mut records, problems } = reader;
        // Stable, so that the records of one writer stay in their order.
        records.sort_by_key(|record| record.ticks);
        let clock = ClockMap::new(readings, ticks_per_second);
        Ok(Self { run, points, sources, clock, records, problems })
    }

    /// Name of a writer.
    #[must_use]
    pub fn source(&self, number: u64) -> &str {
        self.sources.iter().find(|(other, _)| *other == number).map_or("?", |(_, name)| name)
    }

    /// The text of a record, without its time.
    #[must_use]
    pub fn render(&self, record: &Record) -> String {
        match &record.entry {
            Entry::Lost(count) => format!("{count} records are lost"),
            Entry::Passed { point, arguments } => {
                self.points.get(*point).map_or_else(String::new, |info| info.render(arguments))
            }
        }
    }

    /// Name of a record's point; `None` where records are lost.
    #[must_use]
    pub fn point(&self, record: &Record) -> Option<&PointInfo> {
        match &record.entry {
            Entry::Lost(_) => None,
            Entry::Passed { point, .. } => self.points.get(*point),
        }
    }
}

fn head(mut payload: &[u8]) -> Result<(u64, Vec<PointInfo>), ReadError> {
    let bytes = &mut payload;
    let (version, rest) = bytes.split_first_chunk::<4>().ok_or(ReadError::NoHead)?;
    let found = u32::from_le_bytes(*version);
    if found != FORMAT_VERSION {
        return Err(ReadError::Version { found });
    }
    *bytes = rest;
    let mut take = || {
        let run = file::take_u64(bytes)?;
        let count = varint::take(bytes)?;
        let mut points = Vec::new();
        for _ in 0..count {
            let (name, text) = (file::take_text(bytes)?, file::take_text(bytes)?);
            points.push(PointInfo::parse(name, &text)?);
        }
        (points.len() <= POINTS_MAX).then_some((run, points))
    };
    take().ok_or(ReadError::NoHead)
}

#[derive(Default)]
struct Reader {
    points: Vec<PointInfo>,
    sources: Vec<(u64, String)>,
    readings: Vec<Reading>,
    ticks_per_second: u64,
    records: Vec<Record>,
    problems: Vec<Problem>,
}

impl Reader {
    /// Takes a block in whose checksum is right; `None` where it makes no sense all the same.
    fn block(&mut self, kind: Kind, mut payload: &[u8]) -> Option<()> {
        let bytes = &mut payload;
        match kind {
            Kind::Head => None,
            Kind::Source => {
                self.sources.push((varint::take(bytes)?, file::take_text(bytes)?));
                Some(())
            }
            Kind::Clock => {
                let (ticks, monotonic_ns) = (file::take_u64(bytes)?, file::take_u64(bytes)?);
                let (wall_ns, rate) = (file::take_u64(bytes)?, file::take_u64(bytes)?);
                self.readings.push(Reading { ticks, monotonic_ns, wall_ns });
                self.ticks_per_second = rate;
                Some(())
            }
            Kind::Records => self.records(bytes),
        }
    }

    fn records(&mut self, bytes: &mut &[u8]) -> Option<()> {
        let (source, started, lost) = (varint::take(bytes)?, varint::take(bytes)?, varint::take(bytes)?);
        let mut before = Before::default();
        before.reset(started);
        while !bytes.is_empty() {
            let count = |point: usize| self.points.get(point).map(PointInfo::count);
            let (point, ticks, arguments) = before.take(bytes, count)?;
            self.records.push(Record { ticks, source, entry: Entry::Passed { point, arguments } });
        }
        if lost > 0 {
            self.records.push(Record { ticks: before.ticks, source, entry: Entry::Lost(lost) });
        }
        Some(())
    }

    /// Looks for the next whole block behind a place at which there is none; gives where it is.
    fn pass_over(&mut self, bytes: &[u8], from: usize) -> usize {
        let mut at = from + 1;
        while let Some(found) =
            bytes.get(at..).and_then(|rest| rest.windows(MAGIC.len()).position(|four| *four == MAGIC))
        {
            at += found;
            if file::split_block(&bytes[at..]).is_some() {
                self.problems.push(Problem::Damaged { from, to: at });
                return at;
            }
            at += 1;
        }
        let is_cut = is_cut_short(&bytes[from..]);
        let to = bytes.len();
        self.problems.push(if is_cut { Problem::CutShort { from } } else { Problem::Damaged { from, to } });
        to
    }
}

/// Whether these bytes begin as a block that is longer than they are.
fn is_cut_short(bytes: &[u8]) -> bool {
    let magic = &bytes[..bytes.len().min(MAGIC.len())];
    if !MAGIC.starts_with(magic) {
        return false;
    }
    match bytes.get(8..12).and_then(|length| <[u8; 4]>::try_from(length).ok()) {
        Some(length) => bytes.len() < BLOCK_HEADER + u32::from_le_bytes(length) as usize,
        None => true,
    }
}

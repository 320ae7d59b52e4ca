//! Reading the journal's frames in order, from the writer's own process while it appends, or from any other.
//!
//! A reader never looks behind the sequence that it is told, and checks each batch (checksum, chain, numbers) before it
//! gives a frame out.

use std::io::ErrorKind;
use std::ops::Range;

use protocol::{Sequence, Term};

use crate::error::{Corruption, Evidence, JournalError, Result};
use crate::format::{BLOCK_BYTES, BatchKind, SegmentHeaderRead};
use crate::frames;
use crate::scan::{Found, Position, Segment, next_offset};
use crate::storage::{Access, SharedStorage};
use crate::survey::{Survey, Surveyed, segment_path};

/// A journal opened for reading. Takes no lock.
#[derive(Debug)]
pub struct JournalReader {
    storage: SharedStorage,
    survey: Survey,
}

impl JournalReader {
    /// Looks at which segments there are; later ones are found while reading.
    ///
    /// # Errors
    /// `MissingSegment`, `SegmentLength`, `WrongVersion`, `ForeignCluster` (segments of two clusters), `Corrupt` if the
    /// headers contradict each other, `Io`.
    pub fn open(storage: SharedStorage) -> Result<Self> {
        let survey = Survey::read(&storage, None)?;
        Ok(Self { storage, survey })
    }

    /// Cluster id of the journal; `None` while nothing was ever written.
    pub fn cluster_id(&self) -> Option<u128> {
        self.survey.cluster_id()
    }

    /// Sequence of the oldest frame that is kept. 1 in an empty journal.
    pub fn first_sequence(&self) -> Sequence {
        self.survey.first_sequence().unwrap_or(Sequence(1))
    }

    /// A cursor that gives frames from `sequence` on; 0 is taken as 1.
    ///
    /// # Errors
    /// `Pruned` if that frame is no longer kept, `Io`.
    pub fn frames_from(&self, sequence: Sequence) -> Result<Cursor> {
        let from = sequence.max(Sequence(1));
        let number = segment_of(&self.survey, from)?;
        Ok(Cursor {
            storage: self.storage.clone(),
            from,
            next: from,
            next_number: number,
            segment: None,
            position: None,
            offset: 0,
            seed: 0,
            settled: Sequence(0),
            rest: 0..0,
        })
    }
}

/// Number of the segment that the frame `from` is in, or will be in.
fn segment_of(survey: &Survey, from: Sequence) -> Result<u64> {
    let first = survey.first_sequence().unwrap_or(Sequence(1));
    let begins_before = |found: &&Surveyed| found.valid().is_some_and(|header| header.first_sequence <= from);
    match survey.segments.iter().rfind(begins_before) {
        Some(found) => Ok(found.number),
        None if from < first => Err(JournalError::Pruned { wanted: from, first }),
        None => Ok(survey.segments.first().map_or(1, |found| found.number)),
    }
}

/// A place in the journal between two frames.
#[derive(Debug)]
pub struct Cursor {
    storage: SharedStorage,
    /// Frames before this one are read past.
    from: Sequence,
    /// The frame that `rest` starts with, or the first of the next batch.
    next: Sequence,
    /// The segment to open when there is none.
    next_number: u64,
    segment: Option<Segment>,
    /// What the next batch must fit to; `None` before the first segment was opened.
    position: Option<Position>,
    offset: u64,
    seed: u32,
    /// Frames up to here were in the file when the segment's window was filled.
    settled: Sequence,
    /// Slots of the batch that were not given yet, as a range of its payload.
    rest: Range<usize>,
}

impl Cursor {
    /// Sequence of the frame that comes next.
    pub fn next_sequence(&self) -> Sequence {
        self.next.max(self.from)
    }

    /// Term of the batch that was read last; 0 before the first.
    pub fn term(&self) -> Term {
        self.position.as_ref().map_or(Term(0), |position| position.term)
    }

    /// The next frame, without its padding, if its sequence is not above `up_to`, which must be journaled: a live
    /// reader passes the writer's mark. `None` means that `up_to` is reached; a later call can go on with a higher one.
    ///
    /// # Errors
    /// `Corrupt` if a frame up to `up_to` can't be read, `Pruned` if its segment was removed meanwhile, `Io`.
    #[inline]
    pub fn next_frame(&mut self, up_to: Sequence) -> Result<Option<(Sequence, &[u8])>> {
        if self.next_sequence() > up_to {
            return Ok(None);
        }
        let (sequence, range) = loop {
            match self.step() {
                Some((sequence, range)) if sequence >= self.from => break (sequence, range),
                Some(_) => {}
                None => self.load(up_to)?,
            }
        };
        let payload = self.segment.as_ref().map_or(&[][..], Segment::payload);
        Ok(Some((sequence, payload.get(range).unwrap_or_default())))
    }

    /// Steps over the next frame of the batch that was read.
    #[inline]
    fn step(&mut self) -> Option<(Sequence, Range<usize>)> {
        let slots = self.segment.as_ref()?.payload().get(self.rest.clone())?;
        let length = frames::length(slots)?;
        let start = self.rest.start;
        self.rest.start += frames::padded(length);
        let sequence = self.next;
        self.next = Sequence(sequence.0 + 1);
        Some((sequence, start..start + length))
    }

    /// Reads the next batch or mark; `up_to` is a sequence that must be there.
    #[cold]
    fn load(&mut self, up_to: Sequence) -> Result<()> {
        if self.segment.is_none() {
            self.open_segment(up_to)?;
        }
        let (Some(segment), Some(position)) = (self.segment.as_mut(), self.position.as_mut()) else {
            return Ok(());
        };
        if position.next_sequence > self.settled {
            segment.forget();
            self.settled = up_to;
        }
        let sequence = position.next_sequence;
        match segment.batch(self.offset, self.seed, position)? {
            Found::Batch(header) => {
                self.offset = next_offset(self.offset, &header);
                let wanted = header.kind == BatchKind::Frames && header.last_sequence() >= self.from;
                self.rest = 0..if wanted { header.payload_bytes } else { 0 };
                self.next = if wanted { header.first_sequence } else { position.next_sequence };
                if header.kind == BatchKind::SegmentEnd {
                    self.segment = None;
                    self.next_number += 1;
                }
                Ok(())
            }
            Found::Nothing(reason) => {
                let evidence = Evidence::Known { sequence: up_to };
                let (file, offset) = (segment.name.clone(), self.offset);
                Err(Corruption { file, offset, sequence, reason, evidence }.into())
            }
        }
    }

    fn open_segment(&mut self, up_to: Sequence) -> Result<()> {
        let path = segment_path(self.next_number);
        let segment = match Segment::open(&self.storage, path.clone(), Access::Read) {
            Ok(segment) => segment,
            Err(JournalError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                return if self.look_again()? { self.open_segment(up_to) } else { Err(self.gone(path)?) };
            }
            Err(error) => return Err(error),
        };
        let sequence = self.position.as_ref().map_or(self.from, |position| position.next_sequence);
        let corrupt = |reason| {
            let evidence = Evidence::Known { sequence: up_to };
            Corruption { file: path.clone(), offset: 0, sequence, reason, evidence }
        };
        let SegmentHeaderRead::Valid(header, seed) = segment.header()? else {
            return Err(corrupt("the segment's header is damaged").into());
        };
        let begins = Position::of_segment(&header);
        if begins.next_sequence > self.from && self.look_again()? {
            return self.open_segment(up_to);
        }
        if self.position.as_ref().is_some_and(|position| *position != begins) {
            return Err(corrupt("the segment does not go on where the one before it ends").into());
        }
        self.next = begins.next_sequence;
        self.position = Some(begins);
        self.segment = Some(segment);
        self.offset = BLOCK_BYTES as u64;
        self.seed = seed;
        self.settled = up_to;
        Ok(())
    }

    /// Before anything was read: looks for the first segment once more, since entries that were not committed may have been
    /// taken back and written anew after the reader was opened. True if it is another one.
    fn look_again(&mut self) -> Result<bool> {
        if self.position.is_some() {
            return Ok(false);
        }
        let number = segment_of(&Survey::read(&self.storage, None)?, self.from)?;
        let is_other = number != self.next_number;
        self.next_number = number;
        Ok(is_other)
    }

    /// Why a segment that should be there is not.
    fn gone(&self, path: String) -> Result<JournalError> {
        let survey = Survey::read(&self.storage, None)?;
        let wanted = self.next_sequence();
        Ok(match survey.segments.first() {
            Some(first) if first.number > self.next_number => {
                JournalError::Pruned { wanted, first: survey.first_sequence().unwrap_or(wanted) }
            }
            _ => JournalError::MissingSegment { file: path, next: format!("sequence {wanted}") },
        })
    }
}

//! Reading the journal's entries by index, beside the writer. Each is checked (checksum, chain, numbers) before it is
//! given out.
//!
//! A reader has file handles of its own and takes nothing over from one call to the next but its place: the writer may have
//! taken entries back in between. What is then at the place does not chain to what was before it, and is looked for anew.

use protocol::{Sequence, Term};

use crate::error::{JournalError, Result};
use crate::format::{
    self, BATCH_HEADER_BYTES, BLOCK_BYTES, BatchHeader, BatchKind, EntryKind, SegmentHeader,
    SegmentHeaderRead,
};
use crate::scan::{Found, Position, Segment, next_offset};
use crate::storage::{Access, SharedStorage};
use crate::summary::LogEnd;
use crate::survey::{Survey, Surveyed, segment_path};

/// A place is remembered every so many bytes of a segment, to start a look backward from.
const REMEMBERED_EVERY: u64 = 1 << 20;

/// An entry of the journal as a Raft log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number, from 1.
    pub index: u64,
    /// Its leader's term.
    pub term: Term,
    /// What the payload is.
    pub kind: EntryKind,
    /// Sequence of its first frame; of the next frame to come if it has none.
    pub first_sequence: Sequence,
    /// Number of frames.
    pub count: u64,
    /// The frames in their padded slots, or a membership's bytes.
    pub payload: Vec<u8>,
}

/// Reads entries by index. Takes no lock; a clone has a place of its own.
#[derive(Debug)]
pub struct EntryReader {
    storage: SharedStorage,
    place: Option<Place>,
}

impl Clone for EntryReader {
    fn clone(&self) -> Self {
        Self { storage: self.storage.clone(), place: None }
    }
}

impl EntryReader {
    /// A reader of the journal in `storage`.
    ///
    /// # Errors
    /// `MissingSegment`, `SegmentLength`, `WrongVersion`, `ForeignCluster` (segments of two clusters), `Corrupt` if the
    /// headers contradict each other, `Io`.
    pub fn open(storage: SharedStorage) -> Result<Self> {
        Survey::read(&storage, None)?;
        Ok(Self { storage, place: None })
    }

    /// Entries `from..to`, at least one, as many as have `bytes_max` bytes of payload together and are written. Entry `from`
    /// must have been written; none of an empty range.
    ///
    /// # Errors
    /// `EntryPruned`; `EntryPastEnd`; `Corrupt` if there is something else in its place; as [`EntryReader::open`].
    pub fn read(&mut self, from: u64, to: u64, bytes_max: usize) -> Result<Vec<Entry>> {
        if from >= to {
            return Ok(Vec::new());
        }
        if let Some(mut place) = self.place.take()
            && place.go_back_to(from)
            && let Ok(entries) = place.read(&self.storage, from, to, bytes_max)
        {
            self.place = Some(place);
            return Ok(entries);
        }
        let mut place = match find(&self.storage, |header| header.first_index <= from)? {
            Searched::Place(place) => *place,
            Searched::Before(first) => {
                return Err(JournalError::EntryPruned { wanted: from, first: first.index + 1 });
            }
            Searched::Nothing => return Err(JournalError::EntryPastEnd { wanted: from, last: 0 }),
        };
        let entries = place.read(&self.storage, from, to, bytes_max)?;
        self.place = Some(place);
        Ok(entries)
    }

    /// Term of entry `index`, and the sequence of the last frame up to it. What the oldest entry follows can be asked for
    /// too.
    ///
    /// # Errors
    /// As [`EntryReader::read`].
    pub fn summary_of(&mut self, index: u64) -> Result<(Term, Sequence)> {
        match find(&self.storage, |header| header.first_index <= index)? {
            Searched::Place(mut place) => {
                place.skip_to(&self.storage, index)?;
                let header = place.expect_entry(&self.storage, index)?;
                Ok((header.term, header.last_sequence()))
            }
            Searched::Before(before) if before.index == index => Ok((before.term, before.sequence)),
            Searched::Before(before) => {
                Err(JournalError::EntryPruned { wanted: index, first: before.index + 1 })
            }
            Searched::Nothing if index == 0 => Ok((Term(0), Sequence(0))),
            Searched::Nothing => Err(JournalError::EntryPastEnd { wanted: index, last: 0 }),
        }
    }

    /// The last entry of frames that are all at or before `sequence`, or what the oldest kept entry follows. Entries without
    /// frames behind it are not counted: a frame that was applied is committed, and they may not be.
    ///
    /// # Errors
    /// `Pruned` if that entry is older than what the oldest kept one follows; else as [`EntryReader::read`].
    pub fn entry_at(&mut self, sequence: Sequence) -> Result<LogEnd> {
        let mut wanted = sequence;
        loop {
            let mut place = match find(&self.storage, |header| header.first_sequence <= wanted)? {
                Searched::Place(place) => place,
                Searched::Before(before) if before.sequence <= wanted => return Ok(before),
                Searched::Before(before) => {
                    let first = Sequence(before.sequence.0 + 1);
                    return Err(JournalError::Pruned { wanted: sequence, first });
                }
                Searched::Nothing => return Ok(LogEnd::default()),
            };
            match place.last_frames(&self.storage, wanted)? {
                Some(last) => return Ok(last),
                // It has none yet: the last one is in a segment before it.
                None => wanted = place.begins.sequence,
            }
        }
    }
}

/// What a search for a segment found.
enum Searched {
    /// The start of the last one that will do.
    Place(Box<Place>),
    /// None: all come later. What the oldest follows.
    Before(LogEnd),
    /// None was begun.
    Nothing,
}

fn find(storage: &SharedStorage, will_do: impl Fn(&SegmentHeader) -> bool) -> Result<Searched> {
    let survey = Survey::read(storage, None)?;
    let begun = || survey.segments.iter().filter_map(|found| found.valid().map(|header| (found, header)));
    match (begun().filter(|(_, header)| will_do(header)).last(), begun().next()) {
        (Some((found, header)), _) => Ok(Searched::Place(Box::new(Place::start(storage, found, header)?))),
        (None, Some((_, oldest))) => Ok(Searched::Before(LogEnd::before(oldest))),
        (None, None) => Ok(Searched::Nothing),
    }
}

enum Step {
    /// An entry, whose payload the segment has.
    Entry(BatchHeader),
    Mark,
    /// Nothing that goes on here.
    End {
        reason: &'static str,
        /// Whether nothing is written here at all.
        is_blank: bool,
    },
}

/// A place between two batches of a segment.
#[derive(Debug)]
struct Place {
    segment: Segment,
    number: u64,
    seed: u32,
    /// What the segment follows.
    begins: LogEnd,
    offset: u64,
    /// What the batch at `offset` must follow.
    position: Position,
    /// The place before the batch that was read last.
    entry_start: (u64, Position),
    /// Places further up in the segment, in order, the first one at its start.
    remembered: Vec<(u64, Position)>,
}

impl Place {
    fn start(storage: &SharedStorage, found: &Surveyed, header: &SegmentHeader) -> Result<Self> {
        let segment = Segment::open(storage, found.path.clone(), Access::Read)?;
        Ok(Self::at_start(segment, found.number, header, found.seed()))
    }

    fn at_start(segment: Segment, number: u64, header: &SegmentHeader, seed: u32) -> Self {
        let (offset, position) = (BLOCK_BYTES as u64, Position::of_segment(header));
        let here = (offset, position.clone());
        Self {
            segment,
            number,
            seed,
            begins: LogEnd::before(header),
            offset,
            position,
            entry_start: here.clone(),
            remembered: vec![here],
        }
    }

    /// Makes ready to read entry `from` and what follows, from the nearest known place before it; `false` if there is none
    /// in this segment. Whatever was read before is forgotten.
    fn go_back_to(&mut self, from: u64) -> bool {
        self.segment.forget();
        if self.position.index < from {
            return true;
        }
        match self.remembered.iter().rfind(|(_, position)| position.index < from) {
            Some((offset, position)) => {
                (self.offset, self.position) = (*offset, position.clone());
                true
            }
            None => false,
        }
    }

    fn read(&mut self, storage: &SharedStorage, from: u64, to: u64, bytes_max: usize) -> Result<Vec<Entry>> {
        self.segment.set_window(format::batch_bytes(bytes_max));
        self.skip_to(storage, from)?;
        let mut entries = Vec::new();
        let mut bytes = 0;
        for index in from..to {
            let header = match self.expect_entry(storage, index) {
                Err(JournalError::EntryPastEnd { .. } | JournalError::Corrupt(_)) if index > from => break,
                read => read?,
            };
            let Some(kind) = header.kind.entry() else { break };
            bytes += header.payload_bytes;
            if index > from && bytes > bytes_max {
                (self.offset, self.position) = self.entry_start.clone();
                break;
            }
            let payload = self.segment.payload().to_vec();
            let BatchHeader { index, term, first_sequence, count, .. } = header;
            entries.push(Entry { index, term, kind, first_sequence, count, payload });
        }
        Ok(entries)
    }

    /// Goes on to before entry `index`.
    fn skip_to(&mut self, storage: &SharedStorage, index: u64) -> Result<()> {
        while self.position.index + 1 < index {
            match self.step(storage)? {
                Step::Entry(_) | Step::Mark => {}
                Step::End { reason, is_blank } => return Err(self.no_entry(index, reason, is_blank)),
            }
        }
        Ok(())
    }

    /// The last entry of frames that are all at or before `sequence`, if there is one from here on.
    fn last_frames(&mut self, storage: &SharedStorage, sequence: Sequence) -> Result<Option<LogEnd>> {
        let mut last: Option<LogEnd> = None;
        loop {
            match self.step(storage)? {
                Step::Entry(header) if header.count > 0 && header.last_sequence() > sequence => {
                    return Ok(last);
                }
                Step::Entry(BatchHeader { index, term, count: 1.., .. }) => {
                    last = Some(LogEnd { index, sequence: self.position.last_sequence(), term });
                }
                Step::Entry(_) | Step::Mark => {}
                Step::End { reason, is_blank: false } if self.position.last_sequence() < sequence => {
                    return Err(self.corrupt(reason));
                }
                Step::End { .. } => return Ok(last),
            }
        }
    }

    /// Goes on behind the next entry, which is `index`.
    fn expect_entry(&mut self, storage: &SharedStorage, index: u64) -> Result<BatchHeader> {
        loop {
            match self.step(storage)? {
                Step::Entry(header) => return Ok(header),
                Step::Mark => {}
                Step::End { reason, is_blank } => return Err(self.no_entry(index, reason, is_blank)),
            }
        }
    }

    fn no_entry(&self, index: u64, reason: &'static str, is_blank: bool) -> JournalError {
        match is_blank {
            true => JournalError::EntryPastEnd { wanted: index, last: self.position.index },
            false => self.corrupt(reason),
        }
    }

    fn corrupt(&self, reason: &'static str) -> JournalError {
        self.segment.unreadable(self.offset, self.position.next_sequence, reason)
    }

    /// Reads what stands here and moves behind it, into the next segment if it is the end of this one.
    fn step(&mut self, storage: &SharedStorage) -> Result<Step> {
        if self.remembered.last().is_none_or(|(offset, _)| offset + REMEMBERED_EVERY <= self.offset) {
            self.remembered.push((self.offset, self.position.clone()));
        }
        let before = self.position.clone();
        match self.segment.batch(self.offset, self.seed, &mut self.position)? {
            Found::Batch(header) if header.kind == BatchKind::SegmentEnd => self.enter_next(storage),
            Found::Batch(header) => {
                self.entry_start = (self.offset, before);
                self.offset = next_offset(self.offset, &header);
                Ok(if header.kind.is_entry() { Step::Entry(header) } else { Step::Mark })
            }
            Found::Nothing(reason) => {
                let is_blank = format::is_zero(self.segment.bytes(self.offset, BATCH_HEADER_BYTES)?);
                Ok(Step::End { reason, is_blank })
            }
        }
    }

    /// Enters the next segment, or stays before the end of this one until the next is begun.
    fn enter_next(&mut self, storage: &SharedStorage) -> Result<Step> {
        let number = self.number + 1;
        let mut segment = match Segment::open(storage, segment_path(number), Access::Read) {
            Err(JournalError::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Step::End { reason: "the next segment is not there", is_blank: true });
            }
            opened => opened?,
        };
        match segment.header()? {
            SegmentHeaderRead::Unused => {
                Ok(Step::End { reason: "the next segment is not begun", is_blank: true })
            }
            SegmentHeaderRead::Valid(header, seed) if Position::of_segment(&header) == self.position => {
                segment.set_window(self.segment.window_bytes());
                *self = Self::at_start(segment, number, &header, seed);
                Ok(Step::Mark)
            }
            _ => {
                let reason = "the segment does not go on where the one before it ends";
                Ok(Step::End { reason, is_blank: false })
            }
        }
    }
}

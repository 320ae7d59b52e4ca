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
use crate::places::{Places, Remembered};
use crate::scan::{Found, Position, Segment, next_offset};
use crate::storage::{Access, SharedStorage};
use crate::summary::LogEnd;
use crate::survey::{Survey, segment_path};

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
    places: Places,
    place: Option<Place>,
}

impl Clone for EntryReader {
    fn clone(&self) -> Self {
        Self::beside(self.storage.clone(), self.places.clone())
    }
}

impl EntryReader {
    /// A reader of the journal in `storage`; beside a writer, [`Journal::entry_reader`](crate::Journal::entry_reader) gives
    /// one that finds its way faster.
    ///
    /// # Errors
    /// `MissingSegment`, `SegmentLength`, `WrongVersion`, `ForeignCluster` (segments of two clusters), `Corrupt` if the
    /// headers contradict each other, `Io`.
    pub fn open(storage: SharedStorage) -> Result<Self> {
        Survey::read(&storage, None)?;
        Ok(Self::beside(storage, Places::default()))
    }

    pub(crate) fn beside(storage: SharedStorage, places: Places) -> Self {
        Self { storage, places, place: None }
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
        self.with_place(from, |place, files| place.read(files, from, to, bytes_max))
    }

    /// Term of entry `index`, and the sequence of the last frame up to it. What the oldest entry follows can be asked for
    /// too.
    ///
    /// # Errors
    /// As [`EntryReader::read`].
    pub fn summary_of(&mut self, index: u64) -> Result<(Term, Sequence)> {
        let known = self.with_place(index, |place, files| {
            place.skip_to(files, index)?;
            let header = place.expect_entry(files, index)?;
            Ok((header.term, header.last_sequence()))
        });
        match known {
            Err(JournalError::EntryPruned { first, .. }) if first == index + 1 => self.before_first(index),
            known => known,
        }
    }

    /// The last entry of frames that are all at or before `sequence`, or what the oldest kept entry follows. Entries without
    /// frames behind it are not counted: a frame that was applied is committed, and they may not be.
    ///
    /// # Errors
    /// `Pruned` if that entry is older than what the oldest kept one follows; else as [`EntryReader::read`].
    pub fn entry_at(&mut self, sequence: Sequence) -> Result<LogEnd> {
        if let Some(found) = self.entry_near(sequence) {
            return Ok(found);
        }
        let mut wanted = sequence;
        loop {
            let (place, oldest) = find(&self.storage, |header| header.first_sequence <= wanted)?;
            let Some(mut place) = place else {
                let first = Sequence(oldest.sequence.0 + 1);
                return if oldest.sequence <= wanted {
                    Ok(oldest)
                } else {
                    Err(JournalError::Pruned { wanted: sequence, first })
                };
            };
            let begins = place.position.last_sequence();
            match place.last_frames(&self.files(), wanted)? {
                Some(last) => return Ok(last),
                // It has none yet: the last one is in a segment before it.
                None => wanted = begins,
            }
        }
    }

    /// [`EntryReader::entry_at`] from a remembered place, if there is one near enough.
    fn entry_near(&self, sequence: Sequence) -> Option<LogEnd> {
        let mut wanted = sequence;
        // Between a place and the frame there may be no end of an entry; the place before has one.
        for _ in 0..2 {
            let remembered = self.places.before_frame(wanted)?;
            let begins = remembered.position.last_sequence();
            let mut place = Place::at(&self.storage, remembered).ok()??;
            if let Some(last) = place.last_frames(&self.files(), sequence).ok()? {
                return Some(last);
            }
            wanted = begins;
        }
        None
    }

    /// What the oldest entry follows, if that is `index`.
    fn before_first(&self, index: u64) -> Result<(Term, Sequence)> {
        let (_, oldest) = find(&self.storage, |_| false)?;
        if oldest.index == index {
            Ok((oldest.term, oldest.sequence))
        } else {
            Err(JournalError::EntryPruned { wanted: index, first: oldest.index + 1 })
        }
    }

    fn files(&self) -> Files {
        Files { storage: self.storage.clone(), places: self.places.clone() }
    }

    /// Works from a place before entry `index`: the one that is kept, else a remembered one, else the start of its segment.
    /// What the first two do not find is looked for from there.
    fn with_place<T>(
        &mut self,
        index: u64,
        mut work: impl FnMut(&mut Place, &Files) -> Result<T>,
    ) -> Result<T> {
        let files = self.files();
        let remembered = self.places.before_entry(index);
        let nearest = remembered.as_ref().map_or(0, |remembered| remembered.position.index);
        if let Some(mut place) = self.place.take()
            && (nearest..index).contains(&place.position.index)
        {
            place.segment.forget();
            if let Ok(found) = work(&mut place, &files) {
                self.place = Some(place);
                return Ok(found);
            }
        }
        let is_remembered = remembered.is_some();
        if let Some(remembered) = remembered
            && let Ok(Some(mut place)) = Place::at(&self.storage, remembered)
            && let Ok(found) = work(&mut place, &files)
        {
            self.place = Some(place);
            return Ok(found);
        }
        let (place, oldest) = find(&self.storage, |header| header.first_index <= index)?;
        let Some(mut place) = place else {
            // Nothing was ever written, or what is wanted comes before the oldest.
            return Err(if index > oldest.index {
                JournalError::EntryPastEnd { wanted: index, last: oldest.index }
            } else {
                JournalError::EntryPruned { wanted: index, first: oldest.index + 1 }
            });
        };
        let found = work(&mut place, &files)?;
        if is_remembered {
            // What was remembered is not so any more.
            self.places.clear();
        }
        self.place = Some(place);
        Ok(found)
    }
}

/// Where a place goes on.
struct Files {
    storage: SharedStorage,
    places: Places,
}

/// The start of the last segment that will do, if there is one; and what the oldest one follows.
fn find(
    storage: &SharedStorage,
    will_do: impl Fn(&SegmentHeader) -> bool,
) -> Result<(Option<Place>, LogEnd)> {
    let survey = Survey::read(storage, None)?;
    let begun = || survey.segments.iter().filter_map(|found| found.valid().map(|header| (found, header)));
    let oldest = begun().next().map(|(_, oldest)| LogEnd::before(oldest)).unwrap_or_default();
    let place = match begun().filter(|(_, header)| will_do(header)).last() {
        None => None,
        Some((found, header)) => {
            let segment = Segment::open(storage, found.path.clone(), Access::Read)?;
            Some(Place::at_start(segment, found.number, header, found.seed()))
        }
    };
    Ok((place, oldest))
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
    offset: u64,
    /// What the batch at `offset` must follow.
    position: Position,
    /// The place before the batch that was read last.
    entry_start: (u64, Position),
}

impl Place {
    fn at_start(segment: Segment, number: u64, header: &SegmentHeader, seed: u32) -> Self {
        let (offset, position) = (BLOCK_BYTES as u64, Position::of_segment(header));
        Self { segment, number, seed, offset, entry_start: (offset, position.clone()), position }
    }

    /// A remembered place; `None` if its segment is none any more.
    fn at(storage: &SharedStorage, remembered: Remembered) -> Result<Option<Self>> {
        let Remembered { number, offset, position } = remembered;
        let segment = Segment::open(storage, segment_path(number), Access::Read)?;
        let SegmentHeaderRead::Valid(_, seed) = segment.header()? else { return Ok(None) };
        Ok(Some(Self { segment, number, seed, offset, entry_start: (offset, position.clone()), position }))
    }

    fn read(&mut self, files: &Files, from: u64, to: u64, bytes_max: usize) -> Result<Vec<Entry>> {
        self.segment.set_window(format::batch_bytes(bytes_max));
        self.skip_to(files, from)?;
        let mut entries = Vec::new();
        let mut bytes = 0;
        for index in from..to {
            let header = match self.expect_entry(files, index) {
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
    fn skip_to(&mut self, files: &Files, index: u64) -> Result<()> {
        while self.position.index + 1 < index {
            match self.step(files)? {
                Step::Entry(_) | Step::Mark => {}
                Step::End { reason, is_blank } => return Err(self.no_entry(index, reason, is_blank)),
            }
        }
        Ok(())
    }

    /// The last entry of frames that are all at or before `sequence`, if there is one from here on.
    fn last_frames(&mut self, files: &Files, sequence: Sequence) -> Result<Option<LogEnd>> {
        let mut last: Option<LogEnd> = None;
        loop {
            match self.step(files)? {
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
    fn expect_entry(&mut self, files: &Files, index: u64) -> Result<BatchHeader> {
        loop {
            match self.step(files)? {
                Step::Entry(header) if header.index == index => return Ok(header),
                Step::Entry(_) => return Err(self.corrupt("another entry stands here")),
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
    fn step(&mut self, files: &Files) -> Result<Step> {
        files.places.remember(self.number, self.offset, &self.position);
        let before = self.position.clone();
        match self.segment.batch(self.offset, self.seed, &mut self.position)? {
            Found::Batch(header) if header.kind == BatchKind::SegmentEnd => self.enter_next(files),
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
    fn enter_next(&mut self, files: &Files) -> Result<Step> {
        let number = self.number + 1;
        let mut segment = match Segment::open(&files.storage, segment_path(number), Access::Read) {
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

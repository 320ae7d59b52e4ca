//! Taking entries back from the end of the journal: what a Raft log must do with those that a new leader doesn't have.
//!
//! Whenever the power goes, what is found is a journal that ends somewhere between the old end and the new one. So later
//! segments are removed one by one, the last one first, and the writes in the segment where the new end is are zeroed one
//! by one, the last one first; entries of one write may go together, as they came.

use std::io::ErrorKind;
use std::sync::Arc;

use super::{Current, Durability, Journal, prepare};
use crate::error::{Context, JournalError, Result};
use crate::format::{BLOCK_BYTES, SegmentHeader, SegmentHeaderRead};
use crate::recovery;
use crate::scan::{Found, Position, Segment, next_offset};
use crate::storage::{Access, StorageFile};
use crate::survey::segment_path;

/// A segment that was begun.
struct Begun {
    number: u64,
    header: SegmentHeader,
    seed: u32,
}

/// Where the journal will end.
struct Cut {
    begun: Begun,
    length: u64,
    offset: u64,
    position: Position,
    /// Where each write behind the cut starts, in order.
    writes: Vec<u64>,
    /// Behind the last of them.
    end: u64,
}

impl Journal {
    /// Removes every entry with an index above `index`; durable before it returns, at every level. Readers that were
    /// opened before find no removed entry afterwards.
    ///
    /// # Errors
    /// `EntryPruned` if what should stay is not kept; else as [`Journal::write`].
    ///
    /// # Panics
    /// If a committed entry would be removed.
    pub fn truncate_after(&mut self, index: u64) -> Result<()> {
        if index >= self.position.index {
            return Ok(());
        }
        assert!(
            index >= self.committed_index,
            "entries up to {} are committed and can't be truncated after {index}",
            self.committed_index
        );
        self.check_nothing_pushed()?;
        self.attempt(|journal| journal.truncate(index))
    }

    fn truncate(&mut self, index: u64) -> Result<()> {
        let cut = match self.find_cut_near(index)? {
            Some(cut) => cut,
            None => self.find_cut(index)?,
        };
        self.segments.places().forget_behind(index);
        let Begun { number, header, seed } = cut.begun;
        self.segments.forget_from(number);
        if number < self.last_number {
            self.remove_behind(number)?;
        }
        let path = segment_path(number);
        let file = match self.current.take() {
            Some(current) => current.file,
            None => self.reopen(&path)?,
        };
        let mut end = cut.end;
        for start in cut.writes.iter().rev() {
            recovery::zero_range(&*file, &path, *start, end)?;
            end = *start;
        }
        self.current = Some(Current {
            file,
            path,
            number,
            first_sequence: header.first_sequence,
            first_index: header.first_index,
            length: cut.length,
            offset: cut.offset,
            seed,
        });
        self.last_number = number;
        self.durable_sequence = self.durable_sequence.min(cut.position.last_sequence());
        self.position = cut.position;
        self.marked = false;
        self.idle_since = None;
        self.preparer.request(number + 1)
    }

    /// Removes the segments behind `number`.
    fn remove_behind(&mut self, number: u64) -> Result<()> {
        self.preparer.discard()?;
        for number in (number + 1..=self.last_number).rev() {
            let path = segment_path(number);
            let file = self.storage.open(&path, Access::ReadWrite).context("open", &path)?;
            let used = match self.current.take() {
                Some(current) => current.offset,
                None => file.length().context("measure", &path)?,
            };
            prepare::remove(&self.storage, &path)?;
            // For those that have it open.
            recovery::zero_range(&*file, &path, 0, used)?;
        }
        Ok(())
    }

    fn reopen(&self, path: &str) -> Result<Arc<dyn StorageFile>> {
        let file: Arc<dyn StorageFile> =
            Arc::from(self.storage.open(path, Access::ReadWrite).context("open", path)?);
        if self.options.durability == Durability::Memory {
            self.segments.begin_unsynced(Arc::clone(&file));
        }
        Ok(file)
    }

    /// Finds the end of entry `index` from a remembered place; `None` if there is none in that segment.
    fn find_cut_near(&self, index: u64) -> Result<Option<Cut>> {
        let Some(place) = self.segments.places().before_entry(index + 1) else { return Ok(None) };
        let Ok(mut segment) = Segment::open(&self.storage, segment_path(place.number), Access::Read) else {
            return Ok(None);
        };
        let SegmentHeaderRead::Valid(header, seed) = segment.header()? else { return Ok(None) };
        let begun = Begun { number: place.number, header, seed };
        cut_in(&mut segment, begun, place.offset, place.position, index).map(std::result::Result::ok)
    }

    /// Finds the end of entry `index`, in the segment that entry `index + 1` is in.
    fn find_cut(&self, index: u64) -> Result<Cut> {
        let mut number = self.last_number;
        loop {
            let path = segment_path(number);
            let mut segment = match Segment::open(&self.storage, path, Access::Read) {
                Err(JournalError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => {
                    return Err(JournalError::EntryPruned { wanted: index + 1, first: self.first_index() });
                }
                opened => opened?,
            };
            let SegmentHeaderRead::Valid(header, seed) = segment.header()? else {
                return Err(segment.unreadable(
                    0,
                    self.position.next_sequence,
                    "the segment's header is damaged",
                ));
            };
            if header.first_index <= index + 1 {
                let position = Position::of_segment(&header);
                let begun = Begun { number, header, seed };
                return match cut_in(&mut segment, begun, BLOCK_BYTES as u64, position, index)? {
                    Ok(cut) => Ok(cut),
                    Err(offset) => Err(segment.unreadable(
                        offset,
                        self.position.next_sequence,
                        "an entry that was written can't be read",
                    )),
                };
            }
            number -= 1;
        }
    }

    fn first_index(&self) -> u64 {
        let oldest = self.segments.closed().first().map(|segment| segment.first_index);
        oldest.or(self.current.as_ref().map(|current| current.first_index)).unwrap_or(1)
    }
}

/// Reads on from `position` at `offset` to the end of the segment. `Err` has the offset of that if entry `index + 1` did not
/// come.
fn cut_in(
    segment: &mut Segment,
    begun: Begun,
    mut offset: u64,
    mut position: Position,
    index: u64,
) -> Result<std::result::Result<Cut, u64>> {
    let (mut writes, mut write_index, mut at_cut) = (Vec::new(), 0, None);
    while offset < segment.length {
        let before = position.clone();
        let Found::Batch(batch) = segment.batch(offset, begun.seed, &mut position)? else { break };
        if batch.index > index {
            at_cut.get_or_insert((offset, before));
            if !batch.kind.is_entry() || batch.write_index != write_index {
                writes.push(offset);
            }
            write_index = if batch.kind.is_entry() { batch.write_index } else { 0 };
        }
        offset = next_offset(offset, &batch);
    }
    Ok(match at_cut {
        Some((cut, position)) => {
            Ok(Cut { begun, length: segment.length, offset: cut, position, writes, end: offset })
        }
        None => Err(offset),
    })
}

//! The journal's writer: appends batches of frames, or the entries of a Raft log, and tells up to where they are durable.
//!
//! It never decodes a frame, never retries, and reads what it has written only to find where to truncate. After an error
//! the process must end.

mod behind;
mod buffer;
mod entries;
mod open;
mod options;
mod prepare;
mod truncate;

use std::sync::Arc;
use std::time::Duration;

use protocol::planted::{Bug, is_on};
use protocol::{Sequence, Term};

pub use entries::NewEntry;
pub use open::Recovery;
pub(crate) use open::take_lock;
pub use options::{
    Durability, IDLE_MARK_AFTER_DEFAULT, JournalOptions, Preparation, SEGMENT_BYTES_DEFAULT,
    SEGMENT_BYTES_MAX,
};

use crate::error::{Context, JournalError, Result};
use crate::format::{self, BLOCK_BYTES, BatchHeader, BatchKind};
use crate::frames;
use crate::scan::Position;
use crate::segments::{ClosedSegment, Segments};
use crate::storage::{LockGuard, SharedStorage, StorageFile};
use buffer::WriteBuffer;
use prepare::Preparer;

/// Whether there is room to go on taking orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpaceState {
    /// There is.
    Ok,
    /// The reserve is being used: take only what makes the books smaller.
    Low,
}

/// The segment that is being written.
#[derive(Debug)]
struct Current {
    file: Arc<dyn StorageFile>,
    path: String,
    number: u64,
    first_sequence: Sequence,
    first_index: u64,
    length: u64,
    offset: u64,
    seed: u32,
}

impl Current {
    fn write(&mut self, bytes: &[u8], durable: bool) -> Result<()> {
        let written = if durable {
            self.file.write_durable(bytes, self.offset)
        } else {
            self.file.write_all_at(bytes, self.offset)
        };
        written.context("write", &self.path)?;
        self.offset += bytes.len() as u64;
        Ok(())
    }
}

/// The one writer of a data directory's journal. Holds the directory's lock while it lives.
#[derive(Debug)]
pub struct Journal {
    storage: SharedStorage,
    options: JournalOptions,
    segments: Segments,
    preparer: Preparer,
    current: Option<Current>,
    last_number: u64,
    position: Position,
    /// Everything up to here would survive a power cut.
    durable_sequence: Sequence,
    /// What the next batch or mark says is committed. Only rises.
    committed_index: u64,
    /// Whether a mark already says what `durable_sequence` and `committed_index` say.
    marked: bool,
    idle_since: Option<Duration>,
    buffer: WriteBuffer,
    failed: bool,
    _lock: LockGuard,
}

impl Journal {
    /// Sequence of the last frame that is journaled at the configured level; 0 in a fresh journal.
    pub fn journaled_sequence(&self) -> Sequence {
        self.position.last_sequence()
    }

    /// Sequence of the last frame that would survive a power cut. At `disk` it is the journaled one.
    pub fn durable_sequence(&self) -> Sequence {
        self.durable_sequence
    }

    /// Index of the last entry.
    pub fn index(&self) -> u64 {
        self.position.index
    }

    /// Term of the last entry.
    pub fn term(&self) -> Term {
        self.position.term
    }

    /// BLAKE3 chain over all entries so far.
    pub fn chain(&self) -> [u8; 32] {
        self.position.chain
    }

    /// Handle for pruning, archiving and copying from other threads.
    pub fn segments(&self) -> Segments {
        self.segments.clone()
    }

    /// Longest payload of one batch, in bytes.
    pub fn batch_bytes_max(&self) -> usize {
        self.buffer.payload_bytes_max()
    }

    /// Gathers the slots of whole frames for the next batch; `false` if they don't fit, then [`Journal::write`] first.
    /// Frames of up to 1 KiB always fit into an empty batch.
    pub fn push(&mut self, slots: &[u8]) -> bool {
        self.buffer.push(slots)
    }

    /// Writes what was pushed as one batch, makes it durable at the configured level, and gives the new journaled
    /// sequence. Without anything pushed it does nothing.
    ///
    /// # Errors
    /// `InvalidFrames` if the slots are not whole frames, `NoSpace` if the disk is full to the last prepared segment,
    /// `Io` otherwise. The process must end then.
    pub fn write(&mut self, term: Term) -> Result<Sequence> {
        let count = frames::count(self.buffer.payload()).map_err(JournalError::InvalidFrames)?;
        if count > 0 {
            self.attempt(|journal| journal.write_pushed(count, term))?;
        }
        Ok(self.journaled_sequence())
    }

    /// Appends whole frames, given as their padded slots: [`Journal::push`] and [`Journal::write`] in one, cut into
    /// several batches on frame borders where one batch can't take them.
    ///
    /// # Errors
    /// As [`Journal::write`]; `InvalidFrames` also if `count` is not the number of frames.
    pub fn append(&mut self, slots: &[u8], count: u64, term: Term) -> Result<Sequence> {
        if frames::count(slots).map_err(JournalError::InvalidFrames)? != count {
            return Err(JournalError::InvalidFrames("their number is not the one told"));
        }
        self.check_nothing_pushed()?;
        let mut rest = slots;
        while !rest.is_empty() {
            let fitting = fitting_frames(rest, self.buffer.payload_bytes_max());
            let Some((batch, later)) = rest.split_at_checked(fitting).filter(|_| fitting > 0) else {
                return Err(JournalError::InvalidFrames("a frame is longer than a batch"));
            };
            self.push(batch);
            self.write(term)?;
            rest = later;
        }
        Ok(self.journaled_sequence())
    }

    /// To be called with the time (of any monotonic clock) whenever there is nothing to append. Once that has been so
    /// for the configured time, makes all durable and writes a mark that says so. True if it did.
    ///
    /// # Errors
    /// As [`Journal::write`].
    pub fn idle(&mut self, now: Duration) -> Result<bool> {
        if self.marked {
            return Ok(false);
        }
        let since = *self.idle_since.get_or_insert(now);
        if now.saturating_sub(since) < self.options.idle_mark_after {
            return Ok(false);
        }
        self.attempt(|journal| journal.mark(BatchKind::Idle))?;
        Ok(true)
    }

    /// Stops in good order: makes all durable and writes a mark that says so.
    ///
    /// # Errors
    /// As [`Journal::write`].
    pub fn close(mut self) -> Result<()> {
        self.attempt(|journal| {
            journal.mark(BatchKind::CleanStop)?;
            journal.preparer.poll()
        })
    }

    /// Whether there is room to go on taking orders. Asks the file system, so call it a few times a second at most. A
    /// preparation that had found no space is tried again when there is some.
    ///
    /// # Errors
    /// As [`Journal::write`].
    pub fn space(&mut self) -> Result<SpaceState> {
        self.attempt(|journal| {
            journal.preparer.poll()?;
            let free = journal.storage.free_space().context("measure", crate::survey::JOURNAL_FOLDER)?;
            let enough = free >= journal.options.reserve_bytes.saturating_add(journal.options.segment_bytes);
            if !journal.preparer.covered() && enough {
                journal.preparer.request(journal.last_number + 1)?;
            }
            let low = journal.preparer.is_starved() || free < journal.options.reserve_bytes;
            Ok(if low { SpaceState::Low } else { SpaceState::Ok })
        })
    }

    /// Runs a step that writes, unless an earlier one failed: a sync that failed may have lost bytes for good.
    fn attempt<T>(&mut self, step: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        if self.failed {
            return Err(JournalError::Failed);
        }
        let outcome = step(self);
        self.failed = outcome.is_err();
        outcome
    }

    fn check_nothing_pushed(&self) -> Result<()> {
        match self.buffer.payload().is_empty() {
            true => Ok(()),
            false => Err(JournalError::InvalidFrames("frames were pushed and not written")),
        }
    }

    fn write_pushed(&mut self, count: u64, term: Term) -> Result<()> {
        let begun = self.make_room(self.buffer.payload().len())?;
        let mut position = self.position.clone();
        self.seal(BatchKind::Frames, term, count, &mut position);
        self.flush(position, begun)
    }

    /// Sees to it that the current segment takes a batch with a payload of `payload_bytes` and the end mark behind it.
    /// True if the segment is begun with it.
    fn make_room(&mut self, payload_bytes: usize) -> Result<bool> {
        self.preparer.poll()?;
        let bytes = (format::batch_bytes(payload_bytes) + BLOCK_BYTES) as u64;
        if self.current.as_ref().is_some_and(|current| current.offset + bytes > current.length) {
            self.close_segment()?;
        }
        let begun = self.current.is_none();
        if begun {
            self.begin_segment()?;
        }
        Ok(begun)
    }

    /// Completes the batch that was pushed. It follows `position`, which moves behind it; what is written follows the
    /// journal's own.
    fn seal(&mut self, kind: BatchKind, term: Term, count: u64, position: &mut Position) {
        assert!(term >= position.term, "terms never go back");
        let mut header = self.header(kind, position);
        header.term = term;
        header.index += 1;
        header.count = count;
        header.write_index = self.position.index + 1;
        header.committed_index = self.committed_index.min(header.index);
        header.payload_bytes = self.buffer.payload().len();
        let seed = self.current.as_ref().map_or(0, |current| current.seed);
        let chain = self.buffer.seal(&header, seed);
        position.advance(&header, chain);
    }

    /// The header of a mark at `position`.
    fn header(&self, kind: BatchKind, position: &Position) -> BatchHeader {
        BatchHeader {
            kind,
            term: position.term,
            index: position.index,
            first_sequence: position.next_sequence,
            count: 0,
            durable_sequence: self.durable_sequence,
            write_index: position.index,
            committed_index: self.committed_index.min(position.index),
            payload_bytes: 0,
            chain: position.chain,
        }
    }

    /// Writes the complete batches at the end of the current segment, with the segment's header if they are its first.
    fn flush(&mut self, behind: Position, begun: bool) -> Result<()> {
        let durable = self.options.durability == Durability::Disk;
        let Some(current) = self.current.as_mut() else { return Err(JournalError::Failed) };
        let offset = if begun { BLOCK_BYTES as u64 } else { current.offset };
        current.write(self.buffer.sealed(begun), durable && !is_on(Bug::AckBeforeFsync))?;
        self.segments.places().remember(current.number, offset, &self.position);
        self.buffer.clear();
        self.position = behind;
        self.marked = false;
        self.idle_since = None;
        if durable {
            self.durable_sequence = self.journaled_sequence();
        }
        if begun {
            self.preparer.request(self.last_number + 1)?;
        }
        Ok(())
    }

    /// Makes all that is written durable, then writes a mark of `kind` that says so.
    fn mark(&mut self, kind: BatchKind) -> Result<()> {
        if self.options.durability == Durability::Memory && kind != BatchKind::SegmentEnd {
            self.sync_written()?;
        }
        let Some(current) = self.current.as_ref() else {
            self.marked = true;
            return Ok(());
        };
        // The last block of a segment is the end mark's, which then does for every kind.
        if kind != BatchKind::SegmentEnd && current.offset + 2 * BLOCK_BYTES as u64 > current.length {
            self.close_segment()?;
            self.marked = true;
            return self.preparer.wait_for_syncs();
        }
        // Whoever waits for the mark of a segment's end waits at `disk` only.
        let durable = kind != BatchKind::SegmentEnd || self.options.durability == Durability::Disk;
        let header = self.header(kind, &self.position);
        let Some(current) = self.current.as_mut() else { return Err(JournalError::Failed) };
        current.write(self.buffer.encode_mark(&header, current.seed), durable)?;
        self.marked = true;
        Ok(())
    }

    fn close_segment(&mut self) -> Result<()> {
        self.mark(BatchKind::SegmentEnd)?;
        let Some(current) = self.current.take() else { return Ok(()) };
        if self.options.durability == Durability::Memory {
            self.preparer.sync(Arc::clone(&current.file), &current.path)?;
        }
        self.segments.push(ClosedSegment {
            number: current.number,
            path: current.path,
            first_sequence: current.first_sequence,
            last_sequence: self.position.last_sequence(),
            first_index: current.first_index,
            last_index: self.position.index,
        });
        Ok(())
    }

    fn begin_segment(&mut self) -> Result<()> {
        let number = self.last_number + 1;
        let prepared = self.preparer.take(number)?;
        let header = self.position.segment_header(self.options.cluster_id, number);
        let seed = self.buffer.segment_header(&header);
        self.last_number = number;
        if self.options.durability == Durability::Memory {
            self.segments.begin_unsynced(Arc::clone(&prepared.file));
        }
        self.current = Some(Current {
            file: prepared.file,
            path: prepared.path,
            number,
            first_sequence: self.position.next_sequence,
            first_index: self.position.index + 1,
            length: prepared.length,
            offset: 0,
            seed,
        });
        Ok(())
    }
}

/// Bytes of the whole frames at the start of `slots` that fit into `room`. `slots` was counted before.
fn fitting_frames(slots: &[u8], room: usize) -> usize {
    let mut fitting = 0;
    while let Some(padded) = slots.get(fitting..).and_then(frames::padded_length) {
        if fitting + padded > room {
            break;
        }
        fitting += padded;
    }
    fitting
}

//! The journal's writer: appends batches of frames and tells up to where they are durable.
//!
//! It never reads what it has written, never decodes a frame and never retries. After an error the process must end.

mod buffer;
mod open;
mod options;
mod prepare;

use std::sync::Arc;
use std::time::Duration;

use protocol::{Sequence, Term};

pub use open::Recovery;
pub(crate) use open::take_lock;
pub use options::{
    Durability, IDLE_MARK_AFTER_DEFAULT, JournalOptions, Preparation, SEGMENT_BYTES_DEFAULT,
    SEGMENT_BYTES_MAX,
};

use crate::error::{Context, JournalError, Result};
use crate::format::{BLOCK_BYTES, BatchHeader, BatchKind};
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
    length: u64,
    offset: u64,
    seed: u32,
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
    /// Whether a mark already says what `durable_sequence` says.
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

    /// Index of the last batch.
    pub fn index(&self) -> u64 {
        self.position.index
    }

    /// Term of the last batch.
    pub fn term(&self) -> Term {
        self.position.term
    }

    /// BLAKE3 chain over all batches so far.
    pub fn chain(&self) -> [u8; 32] {
        self.position.chain
    }

    /// Handle for pruning, archiving and copying from other threads.
    pub fn segments(&self) -> Segments {
        self.segments.clone()
    }

    /// Most bytes of slots that one batch takes.
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
            self.attempt(|journal| journal.write_frames(count, term))?;
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
        let mut rest = slots;
        while !rest.is_empty() {
            let fitting = fitting_frames(rest, self.buffer.room());
            let Some((batch, later)) = rest.split_at_checked(fitting).filter(|_| fitting > 0) else {
                return Err(JournalError::InvalidFrames("frames were pushed and not written"));
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

    fn write_frames(&mut self, count: u64, term: Term) -> Result<()> {
        self.preparer.poll()?;
        let bytes = self.buffer.batch_bytes() as u64;
        let mark = BLOCK_BYTES as u64;
        if let Some(current) = self.current.as_ref()
            && current.offset + bytes + mark > current.length
        {
            self.close_segment()?;
        }
        let header = BatchHeader {
            kind: BatchKind::Frames,
            term,
            index: self.position.index + 1,
            first_sequence: self.position.next_sequence,
            count,
            durable_sequence: self.durable_sequence,
            payload_bytes: self.buffer.payload().len(),
            chain: self.position.chain,
        };
        assert!(term >= self.position.term, "terms never go back");
        let begun = self.current.is_none();
        if begun {
            self.begin_segment()?;
        }
        self.put(&header, begun)?;
        self.buffer.clear();
        self.marked = false;
        self.idle_since = None;
        if self.options.durability == Durability::Disk {
            self.durable_sequence = self.journaled_sequence();
        }
        if begun {
            self.preparer.request(self.last_number + 1)?;
        }
        Ok(())
    }

    /// Writes one batch at the end of the current segment, with the segment's header if it is the first.
    fn put(&mut self, header: &BatchHeader, begun: bool) -> Result<()> {
        let Some(current) = self.current.as_mut() else { return Err(JournalError::Failed) };
        let (bytes, chain) = match header.kind {
            BatchKind::Frames => self.buffer.encode(header, current.seed, begun),
            BatchKind::Idle | BatchKind::SegmentEnd | BatchKind::CleanStop => {
                self.buffer.encode_mark(header, current.seed)
            }
        };
        let durable = match header.kind {
            BatchKind::Frames | BatchKind::SegmentEnd => self.options.durability == Durability::Disk,
            BatchKind::Idle | BatchKind::CleanStop => true,
        };
        let written = if durable {
            current.file.write_durable(bytes, current.offset)
        } else {
            current.file.write_all_at(bytes, current.offset)
        };
        written.context("write", &current.path)?;
        current.offset += bytes.len() as u64;
        self.position.advance(header, chain);
        Ok(())
    }

    /// Makes all that is written durable, then writes a mark of `kind` that says so.
    fn mark(&mut self, kind: BatchKind) -> Result<()> {
        let Some(current) = self.current.as_ref() else {
            self.marked = true;
            return self.preparer.wait_for_syncs();
        };
        if self.options.durability == Durability::Memory && kind != BatchKind::SegmentEnd {
            current.file.sync_data().context("sync", &current.path)?;
            self.preparer.wait_for_syncs()?;
            self.durable_sequence = self.position.last_sequence();
        }
        // The last block of a segment is the end mark's, which then does for every kind.
        if kind != BatchKind::SegmentEnd && current.offset + 2 * BLOCK_BYTES as u64 > current.length {
            self.close_segment()?;
            self.marked = true;
            return self.preparer.wait_for_syncs();
        }
        let header = BatchHeader {
            kind,
            term: self.position.term,
            index: self.position.index,
            first_sequence: self.position.next_sequence,
            count: 0,
            durable_sequence: self.durable_sequence,
            payload_bytes: 0,
            chain: self.position.chain,
        };
        self.put(&header, false)?;
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

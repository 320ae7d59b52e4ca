//! Writing the journal as a Raft log: entries of three kinds, several in one write, and what is known of commitment.

use std::sync::Arc;

use protocol::{Sequence, Term};

use super::{Durability, Journal};
use crate::entry_reader::EntryReader;
use crate::error::{Context, JournalError, Result};
use crate::format::{self, BLOCK_BYTES, EntryKind};
use crate::frames;

/// An entry to be written.
#[derive(Clone, Copy, Debug)]
pub struct NewEntry<'a> {
    /// Not below the entry's before.
    pub term: Term,
    /// What the payload is.
    pub kind: EntryKind,
    /// Whole frames in their padded slots; nothing of a blank; any bytes of a membership.
    pub payload: &'a [u8],
}

impl Journal {
    /// Writes each entry as a batch of its own. Those that fit go together in one write, durable once at the level `disk`.
    /// Gives the new journaled sequence.
    ///
    /// # Errors
    /// `InvalidFrames` and `EntryLength`, then nothing was written; else as [`Journal::write`].
    pub fn append_entries(&mut self, entries: &[NewEntry<'_>]) -> Result<Sequence> {
        self.check_nothing_pushed()?;
        for entry in entries {
            self.check_entry(entry)?;
        }
        self.attempt(|journal| {
            let mut rest = entries;
            while !rest.is_empty() {
                let written = journal.write_together(rest)?;
                rest = rest.get(written..).unwrap_or_default();
            }
            Ok(())
        })?;
        Ok(self.journaled_sequence())
    }

    /// Tells that the entries up to `index` are committed, which later batches and marks then say. One that does not rise
    /// is passed over.
    pub fn set_committed(&mut self, index: u64) {
        if index > self.committed_index {
            self.committed_index = index;
            self.segments.set_committed(index);
            // An idle mark is due that says it.
            self.marked = false;
            self.idle_since = None;
        }
    }

    /// Highest index that is known to be committed; 0 if none is.
    pub fn committed_index(&self) -> u64 {
        self.committed_index
    }

    /// A reader of the entries for other threads. It knows what this writer remembers of where they are.
    pub fn entry_reader(&self) -> EntryReader {
        EntryReader::beside(Arc::clone(&self.storage), self.segments.places().clone())
    }

    /// Makes all that is written durable. At the level `disk` it is so already.
    ///
    /// # Errors
    /// As [`Journal::write`].
    pub fn sync(&mut self) -> Result<()> {
        if self.options.durability == Durability::Disk {
            return Ok(());
        }
        self.attempt(Self::sync_written)
    }

    pub(super) fn sync_written(&mut self) -> Result<()> {
        if let Some(current) = &self.current {
            Arc::clone(&current.file).sync_data().context("sync", &current.path)?;
        }
        self.preparer.wait_for_syncs()?;
        self.durable_sequence = self.position.last_sequence();
        Ok(())
    }

    fn check_entry(&self, entry: &NewEntry<'_>) -> Result<()> {
        let bytes_max = if entry.kind == EntryKind::Blank { 0 } else { self.buffer.payload_bytes_max() };
        let bytes = entry.payload.len();
        if bytes > bytes_max {
            return Err(JournalError::EntryLength { bytes, bytes_max });
        }
        if entry.kind == EntryKind::Frames
            && frames::count(entry.payload).map_err(JournalError::InvalidFrames)? == 0
        {
            return Err(JournalError::InvalidFrames("an entry of frames has none"));
        }
        Ok(())
    }

    /// Writes the first of `entries` and those that fit behind it, and gives their number.
    fn write_together(&mut self, entries: &[NewEntry<'_>]) -> Result<usize> {
        let begun = self.make_room(entries.first().map_or(0, |entry| entry.payload.len()))?;
        // The segment keeps a block for its end mark.
        let reserved = if begun { 2 * BLOCK_BYTES } else { BLOCK_BYTES } as u64;
        let room = self.current.as_ref().map_or(0, |current| current.length - current.offset - reserved);
        let mut position = self.position.clone();
        let mut written = 0;
        for entry in entries {
            let bytes = self.buffer.sealed_bytes() + format::batch_bytes(entry.payload.len());
            if bytes as u64 > room || !self.buffer.push(entry.payload) {
                break;
            }
            let count = match entry.kind {
                EntryKind::Frames => frames::count(entry.payload).map_err(JournalError::InvalidFrames)?,
                EntryKind::Blank | EntryKind::Membership => 0,
            };
            self.seal(entry.kind.into(), entry.term, count, &mut position);
            written += 1;
        }
        assert!(written > 0, "room was made for the first entry");
        self.flush(position, begun)?;
        Ok(written)
    }
}

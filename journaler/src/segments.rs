//! The list of a live journal's segments, shared between the writer and the threads that prune, archive and copy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::Sequence;

use crate::error::{Context, Result};
use crate::places::Places;
use crate::storage::{SharedStorage, StorageFile};
use crate::survey::JOURNAL_FOLDER;

/// Segments that [`Segments::sync`] syncs at most. The journal hands each one that it closes to a thread that syncs it, and
/// waits where that is more than a few behind: what is older than so many is durable.
const UNSYNCED_MAX: usize = 32;

/// A segment that no more is written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClosedSegment {
    /// Its number.
    pub number: u64,
    /// File, relative to the data directory.
    pub path: String,
    /// Sequence of its first frame.
    pub first_sequence: Sequence,
    /// Sequence of its last frame; one less than the first if it has none.
    pub last_sequence: Sequence,
    /// Index of its first entry.
    pub first_index: u64,
    /// Index of its last entry.
    pub last_index: u64,
}

/// Handle on a live journal's closed segments. Cheap to clone; its calls never hold up an append.
#[derive(Clone, Debug)]
pub struct Segments {
    storage: SharedStorage,
    closed: Arc<Mutex<Vec<ClosedSegment>>>,
    /// What is above may still be taken back. A later look sees a higher one, so no order with other memory is needed.
    committed_index: Arc<AtomicU64>,
    places: Places,
    /// At level `memory`: the segment that is written, and those before it that [`Segments::sync`] has not covered.
    unsynced: Arc<Mutex<Vec<Arc<dyn StorageFile>>>>,
}

impl Segments {
    pub(crate) fn new(
        storage: SharedStorage,
        closed: Vec<ClosedSegment>,
        committed_index: u64,
        places: Places,
    ) -> Self {
        Self {
            storage,
            closed: Arc::new(Mutex::new(closed)),
            committed_index: Arc::new(AtomicU64::new(committed_index)),
            places,
            unsynced: Arc::default(),
        }
    }

    /// Where entries are, as far as is remembered.
    pub(crate) fn places(&self) -> &Places {
        &self.places
    }

    /// The storage that the segments are on.
    pub fn storage(&self) -> &SharedStorage {
        &self.storage
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ClosedSegment>> {
        // The list is whole between any two statements that hold it.
        self.closed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The closed segments, oldest first.
    pub fn closed(&self) -> Vec<ClosedSegment> {
        self.lock().clone()
    }

    /// The closed segments all of whose entries are committed, oldest first: those that stay as they are.
    pub fn settled(&self) -> Vec<ClosedSegment> {
        let mut closed = self.closed();
        closed.retain(|segment| self.is_settled(segment));
        closed
    }

    fn is_settled(&self, segment: &ClosedSegment) -> bool {
        segment.last_index <= self.committed_index.load(Ordering::Relaxed)
    }

    pub(crate) fn set_committed(&self, index: u64) {
        self.committed_index.store(index, Ordering::Relaxed);
    }

    /// Forgets the segments from `number` on, which are taken back or written again.
    pub(crate) fn forget_from(&self, number: u64) {
        self.lock().retain(|segment| segment.number < number);
    }

    pub(crate) fn push(&self, segment: ClosedSegment) {
        self.lock().push(segment);
    }

    fn lock_unsynced(&self) -> MutexGuard<'_, Vec<Arc<dyn StorageFile>>> {
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells that a segment is begun whose batches nobody waits for to be durable.
    pub(crate) fn begin_unsynced(&self, file: Arc<dyn StorageFile>) {
        let mut unsynced = self.lock_unsynced();
        if unsynced.len() == UNSYNCED_MAX {
            unsynced.remove(0);
        }
        unsynced.push(file);
    }

    /// At level `memory`, where the journal itself syncs only when it is idle: makes durable all that was journaled before
    /// the call. At `disk` it is so already. Waits for the disk: for a low-priority thread.
    ///
    /// # Errors
    /// `Io`, which is fatal.
    pub fn sync(&self) -> Result<()> {
        let files = self.lock_unsynced().clone();
        for file in &files {
            file.sync_data().context("sync", JOURNAL_FOLDER)?;
        }
        // The last of them may be written still.
        self.lock_unsynced().drain(..files.len().saturating_sub(1));
        Ok(())
    }

    /// Removes the segments all of whose frames are older than `keep_from`, oldest first, and gives what was removed.
    /// `keep_from` is the least of what the oldest kept snapshot, the report log's durable mark and the archive's mark
    /// still need. The newest closed segment always stays: the position where the next one starts is known from it. So does
    /// one with an entry that may not be committed.
    ///
    /// # Errors
    /// The storage's.
    pub fn prune(&self, keep_from: Sequence) -> Result<Vec<ClosedSegment>> {
        let mut removed = Vec::new();
        loop {
            let oldest = {
                let closed = self.lock();
                match closed.first() {
                    Some(oldest)
                        if closed.len() > 1
                            && oldest.last_sequence < keep_from
                            && self.is_settled(oldest) =>
                    {
                        oldest.clone()
                    }
                    _ => return Ok(removed),
                }
            };
            self.storage.remove(&oldest.path).context("remove", &oldest.path)?;
            // One by one, so that a power cut can't take a later name and leave an earlier one.
            self.storage.sync_dir(JOURNAL_FOLDER).context("sync", JOURNAL_FOLDER)?;
            self.lock().retain(|segment| segment.number != oldest.number);
            self.places.forget_up_to(oldest.number);
            removed.push(oldest);
        }
    }
}

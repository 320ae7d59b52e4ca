//! Places in the journal's segments, remembered so that an entry is found without reading its segment from the start. Shared
//! by the writer and its readers; a hint only, since what is read from a place is checked against it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use protocol::Sequence;

use crate::scan::Position;

/// A segment has a place every so many bytes.
const EVERY_BYTES: u64 = 256 << 10;

/// A place between two batches.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    /// The segment's number.
    pub(crate) number: u64,
    pub(crate) offset: u64,
    /// What the batch at `offset` follows.
    pub(crate) position: Position,
}

/// Some places of a journal. Clones are the same.
#[derive(Clone, Debug, Default)]
pub(crate) struct Places {
    /// In the order of the log.
    shared: Arc<Mutex<Vec<Remembered>>>,
}

impl Places {
    fn lock(&self) -> MutexGuard<'_, Vec<Remembered>> {
        // The list is whole between any two statements that hold it.
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Remembers a place, unless there is one close before it.
    pub(crate) fn remember(&self, number: u64, offset: u64, position: &Position) {
        let mut places = self.lock();
        let at = places.partition_point(|place| (place.number, place.offset) <= (number, offset));
        let is_close = at
            .checked_sub(1)
            .and_then(|before| places.get(before))
            .is_some_and(|place| place.number == number && place.offset + EVERY_BYTES > offset);
        if !is_close {
            places.insert(at, Remembered { number, offset, position: position.clone() });
        }
    }

    /// The nearest place before entry `index`.
    pub(crate) fn before_entry(&self, index: u64) -> Option<Remembered> {
        let places = self.lock();
        let at = places.partition_point(|place| place.position.index < index);
        // A reader may have remembered what was taken back meanwhile, so the order is not certain.
        places.get(at.checked_sub(1)?).filter(|place| place.position.index < index).cloned()
    }

    /// The nearest place before the frame `sequence`.
    pub(crate) fn before_frame(&self, sequence: Sequence) -> Option<Remembered> {
        let places = self.lock();
        let at = places.partition_point(|place| place.position.next_sequence <= sequence);
        places.get(at.checked_sub(1)?).filter(|place| place.position.next_sequence <= sequence).cloned()
    }

    /// Forgets what is behind entry `index`, which is taken back.
    pub(crate) fn forget_behind(&self, index: u64) {
        self.lock().retain(|place| place.position.index <= index);
    }

    /// Forgets a segment that is removed, and those before it.
    pub(crate) fn forget_up_to(&self, number: u64) {
        self.lock().retain(|place| place.number > number);
    }

    /// Forgets all.
    pub(crate) fn clear(&self) {
        self.lock().clear();
    }
}

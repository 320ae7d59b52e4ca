//! Progress marks: how far a stage has come, for those who watch it. It must not be used to hand over memory between
//! stages: the rings' own cursors do that.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

/// A number that only rises, written by one thread and read by any; alone on its cache line. What it counts (frames,
/// batches, bytes) its owner says. Share it in an `Arc`.
#[derive(Default)]
pub struct Mark(CachePadded<AtomicU64>);

impl Mark {
    /// A mark at `value`.
    pub fn new(value: u64) -> Self {
        Self(CachePadded::new(AtomicU64::new(value)))
    }

    /// Moves the mark to `to`; the same value again is allowed. Only one thread may call this.
    ///
    /// # Panics
    /// When `to` is lower than the mark: progress that is taken back is a broken invariant.
    #[inline]
    pub fn advance(&self, to: u64) {
        // Relaxed: only this thread writes, so it reads its own last store.
        let from = self.0.load(Ordering::Relaxed);
        assert!(to >= from, "a mark moved back from {from} to {to}");
        // Pairs with the load in `get`: who sees this value also sees all that was written before it.
        self.0.store(to, Ordering::Release);
    }

    /// The mark. What its writer wrote before it advanced to this value can be seen from here on.
    #[inline]
    pub fn get(&self) -> u64 {
        // Pairs with the store in `advance`.
        self.0.load(Ordering::Acquire)
    }
}

impl fmt::Debug for Mark {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Mark").field(&self.get()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rises_and_stays() {
        let mark = Mark::new(3);
        mark.advance(3);
        mark.advance(9);
        assert_eq!(mark.get(), 9);
        assert_eq!(format!("{mark:?}"), "Mark(9)");
    }

    #[test]
    #[should_panic(expected = "moved back from 9 to 8")]
    fn never_moves_back() {
        let mark = Mark::new(9);
        mark.advance(8);
    }

    #[test]
    fn is_alone_on_its_line() {
        assert!(std::mem::align_of::<Mark>() >= 64);
    }
}

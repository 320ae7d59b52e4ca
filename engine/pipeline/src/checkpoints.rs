//! The running hashes that the members of a cluster compare: the own ones, as the logic makes them, and the newest that a
//! majority agrees on. Whoever reads them must not hold up the logic.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use crossbeam_utils::atomic::AtomicCell;
use protocol::{Checkpoint, Sequence};

/// Checkpoints that are kept. One comes with every tick, so that they reach back a minute where nothing else ticks.
const KEPT: usize = 64;

/// One checkpoint, written by the logic only. A sequence of 0 says that there is none, or that it is being written.
#[derive(Debug, Default)]
struct Place {
    sequence: AtomicU64,
    running_hash: AtomicU64,
}

impl Place {
    fn write(&self, checkpoint: Checkpoint) {
        self.sequence.store(0, Ordering::Relaxed);
        // Pairs with the fence in `read`: who sees the new hash sees at least the zero at its second look.
        fence(Ordering::Release);
        self.running_hash.store(checkpoint.running_hash, Ordering::Relaxed);
        // Pairs with the first load in `read`: who sees the sequence sees its hash.
        self.sequence.store(checkpoint.sequence.0, Ordering::Release);
    }

    /// `None` also where it is being written at this moment. A place never gets the same sequence twice.
    fn read(&self) -> Option<Checkpoint> {
        let sequence = self.sequence.load(Ordering::Acquire);
        let running_hash = self.running_hash.load(Ordering::Relaxed);
        fence(Ordering::Acquire);
        let same = self.sequence.load(Ordering::Relaxed) == sequence;
        (same && sequence > 0).then_some(Checkpoint { sequence: Sequence(sequence), running_hash })
    }
}

/// An engine's own last checkpoints. Clones are the same.
#[derive(Clone, Debug)]
pub struct Checkpoints {
    places: Arc<[Place; KEPT]>,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Self { places: Arc::new(std::array::from_fn(|_| Place::default())) }
    }
}

impl Checkpoints {
    /// The last 64, oldest first. Fewer after a start, and one fewer while the next is being written.
    #[must_use]
    pub fn recent(&self) -> Vec<Checkpoint> {
        let mut recent: Vec<Checkpoint> = self.places.iter().filter_map(Place::read).collect();
        recent.sort_unstable_by_key(|checkpoint| checkpoint.sequence);
        recent
    }

    /// The own running hash at `sequence`, if that is one of the last.
    #[must_use]
    pub fn hash_at(&self, sequence: Sequence) -> Option<u64> {
        self.recent().into_iter().find(|own| own.sequence == sequence).map(|own| own.running_hash)
    }

    /// Only the logic calls this; `count` is how many came before.
    pub(crate) fn push(&self, count: u64, checkpoint: Checkpoint) {
        let place = usize::try_from(count % KEPT as u64).unwrap_or_default();
        if let Some(place) = self.places.get(place) {
            place.write(checkpoint);
        }
    }
}

/// The newest checkpoint that a majority of the members agrees on: what the ticks of a leader carry. Clones are the same.
#[derive(Clone, Debug, Default)]
pub struct ConfirmedCheckpoint(Arc<AtomicCell<Option<Checkpoint>>>);

impl ConfirmedCheckpoint {
    /// Tells of a checkpoint that a majority agreed on. One that is older than the last is not taken.
    pub fn set(&self, checkpoint: Checkpoint) {
        let newer = |last: Option<Checkpoint>| {
            last.is_none_or(|last| last.sequence < checkpoint.sequence).then_some(Some(checkpoint))
        };
        // An error says that there is a newer one.
        let _ = self.0.fetch_update(newer);
    }

    /// The newest one.
    #[must_use]
    pub fn get(&self) -> Option<Checkpoint> {
        self.0.load()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn checkpoint(sequence: u64) -> Checkpoint {
        Checkpoint { sequence: Sequence(sequence), running_hash: sequence.wrapping_mul(0x9e37_79b9) }
    }

    #[test]
    fn the_last_ones_are_kept_in_order() {
        let checkpoints = Checkpoints::default();
        assert_eq!(checkpoints.recent(), []);
        for count in 0..200 {
            checkpoints.push(count, checkpoint(10 * (count + 1)));
        }
        let expected: Vec<_> = (137..=200).map(|count| checkpoint(10 * count)).collect();
        assert_eq!(checkpoints.recent(), expected);
        assert_eq!(checkpoints.hash_at(Sequence(1_500)), Some(checkpoint(1_500).running_hash));
        assert_eq!(checkpoints.hash_at(Sequence(1_501)), None);
        assert_eq!(checkpoints.hash_at(Sequence(10)), None);
    }

    #[test]
    fn readers_never_see_a_mixed_one() {
        const LAST: u64 = 200_000;
        let checkpoints = Checkpoints::default();
        thread::scope(|scope| {
            scope.spawn(|| (0..LAST).for_each(|count| checkpoints.push(count, checkpoint(count + 1))));
            loop {
                let recent = checkpoints.recent();
                assert!(recent.iter().all(|seen| *seen == checkpoint(seen.sequence.0)));
                if recent.last().is_some_and(|last| last.sequence.0 == LAST) {
                    break;
                }
            }
        });
    }

    #[test]
    fn what_is_confirmed_only_rises() {
        let confirmed = ConfirmedCheckpoint::default();
        assert_eq!(confirmed.get(), None);
        for (told, newest) in [(5, 5), (3, 5), (9, 9), (9, 9)] {
            confirmed.clone().set(checkpoint(told));
            assert_eq!(confirmed.get(), Some(checkpoint(newest)));
        }
    }
}

//! What all members of a run share with those who look from outside. It must not tell one member of another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use journaler::Durability;
use journaler::storage::fake::FakeStorage;
use protocol::Sequence;

use crate::disk;
use crate::post::Post;
use crate::trace::{Trace, lock};
use crate::truth::Truth;

/// Of so many entries that are fed, one is looked for on the disks.
const CHECK_ONE_IN: u64 = 3;

/// What all members of a run share.
#[derive(Clone)]
pub(crate) struct Ground {
    pub(crate) post: Arc<Mutex<Post>>,
    pub(crate) truth: Arc<Mutex<Truth>>,
    pub(crate) trace: Trace,
    pub(crate) durability: Durability,
    /// Every member's disk, for those who look from outside.
    pub(crate) disks: Arc<Mutex<BTreeMap<u64, FakeStorage>>>,
    /// Those of whom a majority must have what is fed; empty where that can't be told.
    pub(crate) voters: Arc<Mutex<BTreeSet<u64>>>,
    /// A member has lost what it once acknowledged: what others hold is all that there is.
    pub(crate) lost: Arc<AtomicBool>,
    pub(crate) pushes: Arc<AtomicU64>,
}

impl Ground {
    /// Whatever reaches a member's logic is with a majority: durable, or received where that is the level.
    pub(crate) fn check_majority(&self, by: u64, sequence: Sequence) {
        let voters = lock(&self.voters);
        if voters.is_empty()
            || self.lost.load(Ordering::Relaxed)
            || !self.pushes.fetch_add(1, Ordering::Relaxed).is_multiple_of(CHECK_ONE_IN)
        {
            return;
        }
        let truth = lock(&self.truth);
        let Some(frame) = truth.frame(sequence) else { return };
        let durable = self.durability == Durability::Disk;
        let disks = lock(&self.disks);
        let have =
            |id: &&u64| disks.get(*id).is_some_and(|disk| disk::has_frame(disk, durable, sequence, frame));
        let holders: Vec<u64> = voters.iter().filter(have).copied().collect();
        if holders.len() <= voters.len() / 2 {
            self.trace.violated(format!(
                "member {by} applies frame {sequence}, which only {holders:?} of {voters:?} have"
            ));
        }
        if !holders.contains(&by) && voters.contains(&by) {
            self.trace.violated(format!(
                "member {by} applies frame {sequence}, which it has not itself: {holders:?} have it"
            ));
        }
    }
}

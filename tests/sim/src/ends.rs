//! The ends at which the consensus and the engine of a member meet, as the server's own adapters, and watched.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pipeline::EngineView;
use protocol::{Checkpoint, Sequence};
use replicator::{Feed, Hooks, SnapshotFolder, Verdict};
use snapshots::SnapshotStore;

use crate::ground::Ground;
use crate::trace::lock;

/// The engine's feed, watched.
pub(crate) struct Fed {
    pub(crate) member: u64,
    pub(crate) feed: pipeline::Feed,
    pub(crate) ground: Ground,
}

impl Feed for Fed {
    fn push(&mut self, frames: &[u8]) -> usize {
        let first = self.feed.fed().next();
        let taken = self.feed.push(frames);
        if taken > 0 {
            lock(&self.ground.truth).fed(self.member, first, &frames[..taken]);
            self.ground.check_majority(self.member, first);
        }
        taken
    }

    fn fed(&self) -> Sequence {
        self.feed.fed()
    }
}

pub(crate) struct Folder(pub(crate) SnapshotStore);

impl SnapshotFolder for Folder {
    fn newest_first(&self) -> Vec<Sequence> {
        let mut all = self.0.list().unwrap_or_default();
        all.reverse();
        all
    }
    fn path(&self, sequence: Sequence) -> String {
        snapshots::snapshot_path(sequence)
    }
}

pub(crate) fn keep_first(kept: &Mutex<Option<String>>, line: &str) {
    lock(kept).get_or_insert_with(|| line.to_owned());
}

pub(crate) fn hooks(
    view: &EngineView,
    checkpoints: &pipeline::Checkpoints,
    confirmed: pipeline::ConfirmedCheckpoint,
    restart: &Arc<AtomicBool>,
    fatal: &Arc<Mutex<Option<String>>>,
) -> Hooks {
    let (own, at, divergent) = (checkpoints.clone(), view.clone(), view.clone());
    let (restart, fatal) = (Arc::clone(restart), Arc::clone(fatal));
    Hooks {
        checkpoints: Box::new(move || own.recent()),
        commit_took: Box::new(|_| ()),
        confirmed: Box::new(move |checkpoint| confirmed.set(checkpoint)),
        sequence: Box::new(move || at.marks().applied_sequence()),
        diverged: Box::new(move |verdict| match verdict {
            Verdict::Contradicted { sequence, majority_hash, .. } => divergent
                .diverged(Checkpoint { sequence: *sequence, running_hash: *majority_hash }, "the majority"),
            Verdict::NoMajority { sequence, .. } => {
                divergent.diverged(Checkpoint { sequence: *sequence, running_hash: 0 }, "everybody");
            }
        }),
        fatal: Box::new(move |line| keep_first(&fatal, line)),
        restart: Box::new(move || restart.store(true, Ordering::Relaxed)),
        secret: Vec::new(),
        told_secret: Box::new(|_| ()),
    }
}

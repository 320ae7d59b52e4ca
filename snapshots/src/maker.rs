//! Makes snapshots by replay, off the hot path: loads the last one, feeds it the journal up to a checkpoint that the log
//! holds, compares the running hash and writes the next one. So every snapshot is a recovery test that passed.
//!
//! Knows no clock and no thread; [`crate::SnapshotThread`] drives it in a server, a simulator calls it directly. While it
//! works it holds a second exchange, as large as the engine's own; between two runs it holds nothing.

use exchange::Exchange;
use journaler::{JournalReader, Skips};
use protocol::Sequence;

use crate::error::{Context, Result, SnapshotError};
use crate::file::SNAPSHOT_FOLDER;
use crate::format::SnapshotHeader;
use crate::records;
use crate::replay::{self, Breathe, LoggedCheckpoint, Mute, Step};
use crate::store::{Refused, SNAPSHOTS_KEPT_MIN, SnapshotStore};

/// How far the log is safe. A snapshot is past neither mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Last frame that is durable in the journal (in a cluster: committed).
    pub journaled: Sequence,
    /// Last frame all of whose reports are durable in the report log.
    pub reported: Sequence,
}

impl Marks {
    /// The last frame that a snapshot may include.
    #[must_use]
    pub fn allowed(&self) -> Sequence {
        self.journaled.min(self.reported)
    }
}

/// A snapshot that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// What it says of itself.
    pub header: SnapshotHeader,
    /// The snapshot that it was made from; `None`: from an empty exchange.
    pub from: Option<Sequence>,
    /// Frames replayed.
    pub replayed: u64,
    /// Snapshots found bad meanwhile and set aside.
    pub refused: Vec<Refused>,
    /// Snapshots removed because enough newer ones are there.
    pub pruned: Vec<Sequence>,
}

/// How snapshots are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MakerOptions {
    /// The newest so many are kept; at least [`SNAPSHOTS_KEPT_MIN`].
    pub keep: usize,
    /// Free bytes on the file system that a snapshot leaves: the journal's and the report log's.
    pub reserve_bytes: u64,
}

impl Default for MakerOptions {
    fn default() -> Self {
        Self { keep: SNAPSHOTS_KEPT_MIN, reserve_bytes: 0 }
    }
}

/// Makes the next snapshot of a data directory.
#[derive(Debug)]
pub struct SnapshotMaker {
    store: SnapshotStore,
    options: MakerOptions,
}

impl SnapshotMaker {
    /// Makes snapshots in `store`.
    #[must_use]
    pub fn new(store: SnapshotStore, options: MakerOptions) -> Self {
        Self { store, options }
    }

    /// The snapshots.
    #[must_use]
    pub fn store(&self) -> &SnapshotStore {
        &self.store
    }

    /// Makes a snapshot at the newest checkpoint that the log vouches for, within `marks`; `None` where there is none
    /// newer than the last snapshot. Bad snapshots met on the way are set aside, and old ones pruned.
    ///
    /// # Errors
    /// `Diverged`: the process must stop. `NoSpace`. `Journal`, `NothingToStartFrom`, `Io`. `Stopped` when `breathe` says
    /// so.
    pub fn run_once(&mut self, marks: Marks, breathe: &mut Breathe<'_>) -> Result<Option<Made>> {
        let allowed = marks.allowed();
        let journal = JournalReader::open(self.store.storage().clone())?;
        let newest = self.store.list()?.last().copied().unwrap_or_default();
        let Some(checkpoint) = replay::newest_checkpoint(&journal, newest, allowed)? else { return Ok(None) };
        // Where not even the reserve is free, the replay is saved.
        self.check_space(0)?;
        let (mut exchange, refused) = self.start_from(&journal, allowed)?;
        let skips = Skips::load(self.store.storage(), self.store.cluster_id())?;
        let start = exchange.sequence();
        let mut cursor = journal.frames_from(start.next())?;
        while replay::slice(&mut exchange, &mut cursor, &skips, checkpoint.sequence, &mut Mute)? {
            if breathe(Step::Replayed(exchange.sequence())).is_break() {
                return Err(SnapshotError::Stopped);
            }
        }
        check(&exchange, checkpoint)?;
        self.check_space(records::bytes_about(&exchange))?;
        let header = self.store.write(&exchange, cursor.term(), breathe)?;
        let pruned = self.store.prune(self.options.keep)?;
        Ok(Some(Made {
            header,
            from: (start > Sequence(0)).then_some(start),
            replayed: checkpoint.sequence.0 - start.0,
            refused,
            pruned,
        }))
    }

    fn check_space(&self, needed: u64) -> Result<()> {
        let free = self.store.storage().free_space().context("measure the free space of", SNAPSHOT_FOLDER)?;
        let reserve = self.options.reserve_bytes;
        if free < needed.saturating_add(reserve) {
            return Err(SnapshotError::NoSpace { needed, free, reserve });
        }
        Ok(())
    }

    fn start_from(&self, journal: &JournalReader, allowed: Sequence) -> Result<(Exchange, Vec<Refused>)> {
        let newest = self.store.load_newest(allowed)?;
        // One past the marks is not bad, only early.
        let bad =
            newest.refused.into_iter().filter(|refused| refused.sequence <= allowed).collect::<Vec<_>>();
        for refused in &bad {
            tracing::warn!(file = %refused.file, reason = %refused.reason, "snapshot refused and set aside");
            self.store.set_aside(refused.sequence)?;
        }
        Ok((replay::start(newest.loaded, journal, &bad)?, bad))
    }
}

/// The log's word against the replay's.
fn check(exchange: &Exchange, logged: LoggedCheckpoint) -> Result<()> {
    let own = exchange.checkpoint();
    let agrees = own.is_some_and(|own| {
        (own.sequence, own.running_hash) == (logged.sequence, logged.running_hash)
            && exchange.running_hash() == logged.running_hash
    });
    if agrees {
        return Ok(());
    }
    Err(SnapshotError::Diverged {
        sequence: logged.sequence,
        expected: logged.running_hash,
        found: exchange.running_hash(),
    })
}

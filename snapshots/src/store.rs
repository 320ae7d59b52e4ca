//! The snapshots of a data directory: list, write, load, verify, prune.

use exchange::Exchange;
use journaler::storage::SharedStorage;
use protocol::{Sequence, Term};

use crate::error::{Context, Result};
use crate::file::{self, SNAPSHOT_FOLDER, SnapshotReader, SnapshotWriter};
use crate::format::SnapshotHeader;
use crate::records;
use crate::replay::Breathe;

/// Fewest snapshots that a prune leaves: one to start from, and one for when that turns out bad.
pub const SNAPSHOTS_KEPT_MIN: usize = 2;

/// A snapshot that is there and is not used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The file, relative to the data directory.
    pub file: String,
    /// The sequence in its name.
    pub sequence: Sequence,
    /// Why, with the offset where there is one.
    pub reason: String,
}

/// The newest usable snapshot, and why newer ones were not used.
#[derive(Debug)]
pub struct Newest {
    /// State and header; `None` where no snapshot is usable.
    pub loaded: Option<(Exchange, SnapshotHeader)>,
    /// Newer snapshots that were not used, newest first.
    pub refused: Vec<Refused>,
}

/// The snapshots in the folder [`SNAPSHOT_FOLDER`] of a data directory.
#[derive(Clone, Debug)]
pub struct SnapshotStore {
    storage: SharedStorage,
    cluster_id: u128,
}

impl SnapshotStore {
    /// The snapshots of a data directory, to read. Makes nothing.
    #[must_use]
    pub fn new(storage: SharedStorage, cluster_id: u128) -> Self {
        Self { storage, cluster_id }
    }

    /// The snapshots of a data directory, to write as well: makes the folder durable and removes what a writer left
    /// unfinished. For the process that holds the directory's lock.
    ///
    /// # Errors
    /// `Io`.
    pub fn open(storage: SharedStorage, cluster_id: u128) -> Result<Self> {
        storage.create_dir(SNAPSHOT_FOLDER).context("create", SNAPSHOT_FOLDER)?;
        storage.sync_dir("").context("sync", "the data directory")?;
        for temporary in file::list(&storage)?.temporaries {
            storage.remove(&temporary).context("remove", &temporary)?;
        }
        Ok(Self { storage, cluster_id })
    }

    /// The storage that the snapshots are on.
    #[must_use]
    pub fn storage(&self) -> &SharedStorage {
        &self.storage
    }

    /// The cluster whose snapshots these are.
    #[must_use]
    pub fn cluster_id(&self) -> u128 {
        self.cluster_id
    }

    /// Sequences of the finished snapshots, oldest first. They are not looked into.
    ///
    /// # Errors
    /// `Io`.
    pub fn list(&self) -> Result<Vec<Sequence>> {
        Ok(file::list(&self.storage)?.snapshots)
    }

    /// Reads what a snapshot says of itself; only the header is checked.
    ///
    /// # Errors
    /// `Io`, `Corrupt`, `WrongVersion`, `ForeignCluster`.
    pub fn header(&self, sequence: Sequence) -> Result<SnapshotHeader> {
        Ok(*SnapshotReader::open(&self.storage, self.cluster_id, sequence)?.header())
    }

    /// Writes the state as the snapshot of its sequence, durable when this returns. `breathe` is called after each chunk
    /// and may wait or stop the work.
    ///
    /// # Errors
    /// `Io`, after which the process must not go on writing; `Stopped`, which leaves nothing behind.
    pub fn write(
        &self,
        exchange: &Exchange,
        term: Term,
        breathe: &mut Breathe<'_>,
    ) -> Result<SnapshotHeader> {
        let writer = SnapshotWriter::create(&self.storage, self.cluster_id, exchange.sequence())?;
        records::write(exchange, term, writer, breathe)
    }

    /// Loads a snapshot with every check: checksums, structure, the import's own rules, and the recomputed hashes
    /// against the header's.
    ///
    /// # Errors
    /// `Io`, `Corrupt`, `WrongVersion`, `WrongRulebook`, `ForeignCluster`.
    pub fn load(&self, sequence: Sequence) -> Result<(Exchange, SnapshotHeader)> {
        let reader = SnapshotReader::open(&self.storage, self.cluster_id, sequence)?;
        records::read(reader)
    }

    /// Loads the newest snapshot that verifies and is not past `at_most`, trying older ones where a newer is bad.
    ///
    /// # Errors
    /// `Io` when the folder can't be listed. What is wrong with a snapshot, a read error included, is told in
    /// [`Newest::refused`].
    pub fn load_newest(&self, at_most: Sequence) -> Result<Newest> {
        let mut refused = Vec::new();
        for sequence in self.list()?.into_iter().rev() {
            let outcome = if sequence > at_most {
                Err(format!("it is past sequence {at_most}, up to which the report log is known to be whole"))
            } else {
                self.load(sequence).map_err(|error| error.to_string())
            };
            match outcome {
                Ok(loaded) => return Ok(Newest { loaded: Some(loaded), refused }),
                Err(reason) => {
                    refused.push(Refused { file: file::snapshot_path(sequence), sequence, reason });
                }
            }
        }
        Ok(Newest { loaded: None, refused })
    }

    /// Takes a bad snapshot out of the list. The file stays as evidence until the snapshots that are newer than it are
    /// enough.
    ///
    /// # Errors
    /// `Io`.
    pub fn set_aside(&self, sequence: Sequence) -> Result<()> {
        let path = file::snapshot_path(sequence);
        self.storage.rename(&path, &file::refused_path(sequence)).context("rename", &path)?;
        self.storage.sync_dir(SNAPSHOT_FOLDER).context("sync", SNAPSHOT_FOLDER)
    }

    /// Removes all but the newest `keep` snapshots, oldest first, and what was set aside before the oldest kept one.
    /// Gives the sequences removed. `keep` below [`SNAPSHOTS_KEPT_MIN`] counts as that.
    ///
    /// # Errors
    /// `Io`.
    pub fn prune(&self, keep: usize) -> Result<Vec<Sequence>> {
        let listing = file::list(&self.storage)?;
        let excess = listing.snapshots.len().saturating_sub(keep.max(SNAPSHOTS_KEPT_MIN));
        let (removed, kept) = listing.snapshots.split_at(excess);
        for sequence in removed {
            let path = file::snapshot_path(*sequence);
            self.storage.remove(&path).context("remove", &path)?;
        }
        let oldest = kept.first().copied().unwrap_or_default();
        for sequence in listing.refused.iter().filter(|refused| **refused < oldest) {
            let path = file::refused_path(*sequence);
            self.storage.remove(&path).context("remove", &path)?;
        }
        self.storage.sync_dir(SNAPSHOT_FOLDER).context("sync", SNAPSHOT_FOLDER)?;
        Ok(removed.to_vec())
    }

    /// The oldest frame that a start from any kept snapshot still needs: the one after the oldest snapshot's. While
    /// there are fewer than [`SNAPSHOTS_KEPT_MIN`] that is the log's first, since a start must work without the newest.
    ///
    /// # Errors
    /// `Io`.
    pub fn journal_needed_from(&self) -> Result<Sequence> {
        let snapshots = self.list()?;
        Ok(match snapshots.first() {
            Some(oldest) if snapshots.len() >= SNAPSHOTS_KEPT_MIN => oldest.next(),
            _ => Sequence(1),
        })
    }
}

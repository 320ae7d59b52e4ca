//! What can go wrong with snapshots and recovery. Callers branch on the variants; the text is for the operator.

use std::io;

use journaler::JournalError;
use protocol::{ReportNumber, Sequence, SessionId, TradingDay};

use crate::Refused;

/// Error of snapshots, recovery and backups.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// The operating system refused an operation. For a writer this is fatal: nothing is retried.
    #[error("{operation} {file}: {source}")]
    Io {
        /// What was being done.
        operation: &'static str,
        /// File or folder, relative to the data directory.
        file: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The file is not what was written.
    #[error("{file}: offset {offset}: {reason}")]
    Corrupt {
        /// Snapshot file, relative to the data directory.
        file: String,
        /// Start of the header, chunk or mark that is wrong, in bytes.
        offset: u64,
        /// What is wrong with it.
        reason: String,
    },
    /// The file was written by a version of the format that this program doesn't know.
    #[error("{file}: snapshot format version {found}, this program reads {supported}")]
    WrongVersion {
        /// Snapshot file.
        file: String,
        /// Version in its header.
        found: u32,
        /// Version of this program.
        supported: u32,
    },
    /// The file holds the state of newer rules than this program's.
    #[error("{file}: made under rulebook version {found}, this program knows those up to {supported}")]
    WrongRulebook {
        /// Snapshot file.
        file: String,
        /// Version in its header.
        found: u32,
        /// Version of this program.
        supported: u32,
    },
    /// The snapshot belongs to another cluster.
    #[error(
        "{file}: belongs to cluster {found:032x}, this server is in {expected:032x}: wrong data directory?"
    )]
    ForeignCluster {
        /// Snapshot file.
        file: String,
        /// Cluster id in its header.
        found: u128,
        /// Cluster id of this server.
        expected: u128,
    },
    /// The journal could not be read.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Replay does not give what the log says it gave before. The process must stop and keep its evidence.
    #[error(
        "replay diverges at sequence {sequence}: running hash {found:016x}, the log says {expected:016x}; stop, keep \
         the data directory, compare with another member"
    )]
    Diverged {
        /// The checkpoint's sequence.
        sequence: Sequence,
        /// Hash in the log.
        expected: u64,
        /// Hash of the replay.
        found: u64,
    },
    /// The journal switches to newer rules than this program's. The process must stop.
    #[error(transparent)]
    UnknownRulebook(#[from] exchange::UnknownRulebook),
    /// A log position is claimed that the replay did not find there.
    #[error("replay expected sequence {expected} next, the journal gave {found}")]
    Gap {
        /// What had to come.
        expected: Sequence,
        /// What came.
        found: Sequence,
    },
    /// Neither a snapshot nor the journal's beginning is there to start from.
    #[error(
        "nothing to start from: the journal starts at sequence {journal_first} and no usable snapshot reaches it{}; \
         restore a backup",
        Because(.refused)
    )]
    NothingToStartFrom {
        /// Oldest frame in the journal.
        journal_first: Sequence,
        /// Snapshots that are there and can't be used.
        refused: Vec<Refused>,
    },
    /// The work was told to stop before its end. Nothing was left behind.
    #[error("stopped before the end")]
    Stopped,
    /// A thread could not be started.
    #[error("start the snapshot thread: {0}")]
    Thread(io::Error),
    /// A backup must go into an empty folder.
    #[error("{0} is not empty: a backup is never mixed with other files")]
    BackupNotEmpty(String),
    /// The snapshot would take what the journal needs to go on. Nothing was written; it can be made when there is room.
    #[error(
        "no room for a snapshot of about {needed} bytes: {free} are free, {reserve} of them kept for the journal"
    )]
    NoSpace {
        /// What the snapshot takes, about.
        needed: u64,
        /// Free bytes on the file system.
        free: u64,
        /// Free bytes that must stay.
        reserve: u64,
    },
    /// The server made so many snapshots and pruned so much of the journal meanwhile that what was copied does not fit
    /// together. Do it again.
    #[error(
        "the copy is of no use: its newest snapshot is at {newest}, its journal starts at {journal_first}; the server \
         pruned faster than was copied, do it again into another folder"
    )]
    BackupOutrun {
        /// Newest snapshot in the copy; 0 for none.
        newest: Sequence,
        /// Oldest frame in the copy.
        journal_first: Sequence,
    },
    /// The journal does not reach the newest snapshot, though a snapshot is made of journaled frames only.
    #[error(
        "the journal ends with sequence {journal_last}, before the newest snapshot at {newest}: the journal is damaged \
         (at durability `memory` a power cut can leave this); restore an earlier backup"
    )]
    JournalTooShort {
        /// Newest snapshot.
        newest: Sequence,
        /// Newest frame in the journal; 0 for none.
        journal_last: Sequence,
    },
    /// A report that must be in the report log is not there, or another stands in its place.
    #[error("report {number} of session {session} on trading day {day} is not in the report log")]
    ReportMissing {
        /// Whose report.
        session: SessionId,
        /// Of which day.
        day: TradingDay,
        /// Its number.
        number: ReportNumber,
    },
    /// Records could not be archived.
    #[error("archive records: {0}")]
    Archive(rkyv::rancor::Error),
}

impl SnapshotError {
    /// Whether all that is wrong is a full disk: the snapshot can be made later, and nobody needs to stop.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        match self {
            Self::NoSpace { .. } => true,
            Self::Io { source, .. } => source.kind() == io::ErrorKind::StorageFull,
            _ => false,
        }
    }
}

/// Result with a [`SnapshotError`].
pub type Result<T> = std::result::Result<T, SnapshotError>;

/// The snapshots that were refused, for the end of a message.
struct Because<'a>(&'a [Refused]);

impl std::fmt::Display for Because<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|refused| write!(f, " ({}: {})", refused.file, refused.reason))
    }
}

/// Adds what was being done to an operating system's error.
pub(crate) trait Context<T> {
    fn context(self, operation: &'static str, file: &str) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, operation: &'static str, file: &str) -> Result<T> {
        self.map_err(|source| SnapshotError::Io { operation, file: file.to_owned(), source })
    }
}

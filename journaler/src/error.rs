//! What can go wrong with a journal or a report log. Callers branch on the variants; the text is for the operator.

use std::fmt;
use std::io;
use std::path::PathBuf;

use protocol::Sequence;

use crate::skips::{FrameHash, SKIPS_FILE};

/// Error of the journal, its reader and its tools.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
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
    /// Another process owns the data directory.
    #[error("data directory {} is in use by {}", .directory.display(), Holder(*.holder))]
    Locked {
        /// The directory.
        directory: PathBuf,
        /// Process id from the lock file, if it holds one.
        holder: Option<u32>,
    },
    /// Bytes that were written whole are not what they were.
    #[error("{0}")]
    Corrupt(Box<Corruption>),
    /// The journal belongs to another cluster.
    #[error(
        "{file}: belongs to cluster {found:032x}, this server is in {expected:032x}: wrong data directory?"
    )]
    ForeignCluster {
        /// Segment file.
        file: String,
        /// Cluster id in its header.
        found: u128,
        /// Cluster id of the configuration, or of the segment before.
        expected: u128,
    },
    /// The one header that was written is damaged, and the caller doesn't know the cluster id either.
    #[error(
        "{file}: offset 0: the segment's header is damaged, and nothing else says which cluster the journal belongs \
         to; restore a backup"
    )]
    UnknownCluster {
        /// Segment file.
        file: String,
    },
    /// A segment, a report file or a file of two slots was written by a version of the format that this program doesn't know.
    #[error("{file}: format version {found}, this program reads {supported}")]
    WrongVersion {
        /// The file.
        file: String,
        /// Version in its header.
        found: u32,
        /// Version of this program.
        supported: u32,
    },
    /// A segment between two others, or the first one of a log, is not there.
    #[error("{file}: missing, though {next} follows it; {}", REPAIR)]
    MissingSegment {
        /// The file that should be there.
        file: String,
        /// The segment that shows it.
        next: String,
    },
    /// A segment's file is shorter than a segment can be, or not whole blocks.
    #[error(
        "{file}: {length} bytes is no segment's length: cut short by the file system or a copy; {}",
        REPAIR
    )]
    SegmentLength {
        /// Segment file.
        file: String,
        /// Its length in bytes.
        length: u64,
    },
    /// The disk has no room for the next segment.
    #[error("{file}: no space for the next segment: {source}")]
    NoSpace {
        /// The file that could not be prepared.
        file: String,
        /// The operating system's answer.
        source: io::Error,
    },
    /// An earlier write failed, so nothing more may be written.
    #[error("the journal failed before: the process must end")]
    Failed,
    /// Slots handed in are not whole frames. A bug of the caller.
    #[error("not a sequence of whole frames: {0}")]
    InvalidFrames(&'static str),
    /// An option is out of its range.
    #[error("journal option: {0}")]
    Option(String),
    /// The wanted sequence is older than what is kept.
    #[error("sequence {wanted} was pruned: the journal starts at {first}")]
    Pruned {
        /// What was asked for.
        wanted: Sequence,
        /// Oldest frame that is kept.
        first: Sequence,
    },
    /// The wanted sequence is not in the journal yet.
    #[error("sequence {wanted} is past the journal's end at {last}")]
    PastEnd {
        /// What was asked for.
        wanted: Sequence,
        /// Newest frame.
        last: Sequence,
    },
    /// An entry's payload is longer than a batch can be, or its kind has none.
    #[error("an entry of {bytes} bytes can't be written: at most {bytes_max}")]
    EntryLength {
        /// Its payload in bytes.
        bytes: usize,
        /// The longest payload of its kind.
        bytes_max: usize,
    },
    /// The wanted entry is older than what is kept.
    #[error("entry {wanted} was pruned: the journal starts at entry {first}")]
    EntryPruned {
        /// Index that was asked for.
        wanted: u64,
        /// Oldest index that is kept.
        first: u64,
    },
    /// The wanted entry is not in the journal.
    #[error("entry {wanted} is past the journal's end at entry {last}")]
    EntryPastEnd {
        /// Index that was asked for.
        wanted: u64,
        /// Newest index.
        last: u64,
    },
    /// A journal is to be begun in a folder that has one.
    #[error("{}: there is a journal already; a new one needs a folder without segments", .directory.display())]
    NotEmpty {
        /// The folder.
        directory: PathBuf,
    },
    /// A file of two slots has no valid one.
    #[error("{file}: offset 0: neither slot is valid")]
    DamagedMark {
        /// The file.
        file: String,
    },
    /// The archive's command failed or its copy is not the segment.
    #[error("archive of {file}: {reason}")]
    Archive {
        /// Segment file.
        file: String,
        /// What was wrong.
        reason: String,
    },
    /// The file of skips is not what was written.
    #[error(
        "{}: offset {offset}: {reason}; restore it from a backup, or from another member's data directory",
        SKIPS_FILE
    )]
    Skips {
        /// Where in it, in bytes.
        offset: u64,
        /// What was wrong.
        reason: &'static str,
    },
    /// A skip was recorded for other bytes than the log has at its sequence. Nothing of that frame was applied.
    #[error(
        "the skip of sequence {sequence} is for a frame with BLAKE3 {recorded}, but the log has {} there: if that is the log          of this venue, take the skip back with `ringpit journal skip --sequence {sequence} --withdraw`",
        Found(*.found)
    )]
    SkipOfAnotherFrame {
        /// The sequence.
        sequence: Sequence,
        /// What was to be skipped.
        recorded: FrameHash,
        /// What is there; `None` if it is no frame.
        found: Option<FrameHash>,
    },
    /// A skip was recorded for a frame that the log does not have any more.
    #[error(
        "a skip is recorded for sequence {sequence}, but the journal ends with {last}, so that another frame would come to          its place: take the skip back with `ringpit journal skip --sequence {sequence} --withdraw`"
    )]
    SkipPastEnd {
        /// The sequence.
        sequence: Sequence,
        /// Last frame of the journal.
        last: Sequence,
    },
    /// A report file is not what it should be.
    #[error("{file}: offset {offset}: {reason}")]
    Report {
        /// The report file.
        file: String,
        /// Where in it, in bytes.
        offset: u64,
        /// What was wrong.
        reason: &'static str,
    },
}

/// Result with a [`JournalError`].
pub type Result<T> = std::result::Result<T, JournalError>;

/// Both ways out of damage, for the end of a message.
pub(crate) const REPAIR: &str = "restore a backup, or see what `ringpit journal cut` would lose and do it with \
    `ringpit journal cut --yes`";

/// Damage that something later shows to have been whole once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Corruption {
    /// Segment file, relative to the data directory.
    pub file: String,
    /// Where the bad batch or header starts, in bytes.
    pub offset: u64,
    /// First frame that can't be read.
    pub sequence: Sequence,
    /// What is wrong with the bytes.
    pub reason: &'static str,
    /// What shows that it is no torn tail.
    pub evidence: Evidence,
}

/// Why a bad batch is corruption and no torn tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// A later mark or batch was written when this one was already durable.
    Durable {
        /// Segment of the witness.
        file: String,
        /// Offset of the witness in bytes.
        offset: u64,
        /// The sequence that it calls durable.
        sequence: Sequence,
    },
    /// Later batches follow it, though none says that it was durable. At the level `memory` a power cut can do this.
    Followed {
        /// Segment of the follower.
        file: String,
        /// Offset of the follower in bytes.
        offset: u64,
    },
    /// The caller knows that this sequence was journaled.
    Known {
        /// A sequence at or behind the damage that was journaled.
        sequence: Sequence,
    },
}

impl fmt::Display for Corruption {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { file, offset, sequence, reason, evidence } = self;
        write!(f, "{file}: offset {offset}: sequence {sequence}: {reason}; ")?;
        match evidence {
            Evidence::Durable { file, offset, sequence } => {
                write!(
                    f,
                    "not a torn tail, since {file} offset {offset} says that {sequence} was durable; "
                )?;
            }
            Evidence::Followed { file, offset } => write!(
                f,
                "not a torn tail, since a later batch stands at {file} offset {offset} (at durability `memory` a power \
                 cut can leave this); "
            )?,
            Evidence::Known { sequence } => write!(f, "not a torn tail, since {sequence} was journaled; ")?,
        }
        f.write_str(REPAIR)
    }
}

impl From<Corruption> for JournalError {
    fn from(corruption: Corruption) -> Self {
        Self::Corrupt(Box::new(corruption))
    }
}

struct Holder(Option<u32>);

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(process) => write!(f, "process {process}"),
            None => f.write_str("another process"),
        }
    }
}

struct Found(Option<FrameHash>);

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(hash) => write!(f, "{hash}"),
            None => f.write_str("no frame"),
        }
    }
}

/// Adds what was being done to an operating system's error.
pub(crate) trait Context<T> {
    fn context(self, operation: &'static str, file: &str) -> Result<T>;
}

impl<T> Context<T> for io::Result<T> {
    fn context(self, operation: &'static str, file: &str) -> Result<T> {
        self.map_err(|source| JournalError::Io { operation, file: file.to_owned(), source })
    }
}

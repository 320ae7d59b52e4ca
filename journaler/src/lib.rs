//! The journal: frames made durable in batches, found again after a crash, and read back; and the report log.
//!
//! This crate knows frames as opaque slots whose first two bytes are their length, never what is in them. It has no
//! clock: whoever calls it passes the time. It never retries a failed write or fsync.
//!
//! # What a server uses
//! ```text
//! let storage: SharedStorage = Arc::new(RealStorage::create("data")?);
//! let (mut journal, recovery) = Journal::open(storage.clone(), JournalOptions::new(cluster_id))?;
//! while journal.push(slots_of_whole_frames) { .. }       // gather what the ring has; false: full, write first
//! let journaled: Sequence = journal.write(term)?;         // one write, durable at the configured level
//! journal.append(slots, count, term)?;                    // push and write in one
//! journal.idle(now)?; journal.space()?; journal.close()?;
//!
//! let reader = JournalReader::open(storage.clone())?;
//! let mut cursor = reader.frames_from(Sequence(1))?;
//! while let Some((sequence, frame)) = cursor.next_frame(up_to)? { .. }   // frame without its padding
//!
//! // The same journal as a Raft log, an index being one more than the library's:
//! journal.append_entries(&[NewEntry { term, kind, payload }])?;
//! journal.set_committed(index); journal.truncate_after(index)?; Journal::create_behind(.., log_end)?;
//! let mut reader = journal.entry_reader();                 // Send; a clone for each thread
//! reader.read(from, to, bytes_max)?; reader.summary_of(index)?; reader.entry_at(sequence)?;
//!
//! journal.segments().prune(keep_from)?;                   // from any thread
//! Archiver::open(journal.segments(), options)?.run_once()?; // a closed segment to the operator's command
//! backup(&storage, &copy, Some(cluster_id), Some(up_to))?; // online
//! verify(&storage, Some(cluster_id), progress)?; dump(..)?; plan_cut(..)?; cut(&storage, .., &plan)?;
//!
//! let (mut file, last) = TwoSlotFile::open(&storage, "", "member")?; // a few bytes, durable and never half-written
//! file.write(bytes)?;
//!
//! let skips = Skips::load(&storage, cluster_id)?;          // what must not be applied
//! match skips.of(sequence, frame)? { None => apply, Some(skip) => pass over it }
//! SkipFile::open(storage, cluster_id)?.record(skip)?;      // locks the directory
//!
//! let reports = ReportLog::open(storage.clone(), ReportLogOptions::default())?;
//! let mut writer = reports.writer();                      // one
//! writer.write(session, day, first_number, bytes)?;
//! let reader = reports.reader();                          // many, Send + Sync + Clone
//! reader.read(session, day, from_number, max, &mut buffer)?;
//! reports.sync(sequence)?; reports.durable_mark();        // from a low-priority thread
//! ```

#![forbid(unsafe_code)]

mod archive;
mod backup;
mod entry_reader;
mod error;
mod format;
mod frames;
mod inspect;
mod journal;
mod places;
mod priority;
mod reader;
mod recovery;
mod reports;
mod scan;
mod segments;
mod skips;
pub mod storage;
mod summary;
mod survey;
mod twoslot;
mod walk;

pub use archive::{ARCHIVE_TIMEOUT_DEFAULT, ArchiveOptions, Archiver, ReadBack, archived_sequence};
pub use backup::{BackupReport, backup};
pub use entry_reader::{Entry, EntryReader};
pub use error::{Corruption, Evidence, JournalError, Result};
pub use format::{
    BATCH_HEADER_BYTES, BATCH_PAYLOAD_BYTES_MAX, BLOCK_BYTES, BatchHeader, BatchKind, EntryKind,
    JOURNAL_FORMAT_VERSION,
};
pub use frames::{Frames, count as count_frames};
pub use inspect::{CutPlan, DumpedBatch, JournalStat, Progress, SegmentStat, cut, dump, plan_cut, verify};
pub use journal::{
    Durability, IDLE_MARK_AFTER_DEFAULT, Journal, JournalOptions, NewEntry, Preparation, Recovery,
    SEGMENT_BYTES_DEFAULT, SEGMENT_BYTES_MAX, SpaceState,
};
pub use priority::{NICE_LOWEST, at_low_priority};
pub use reader::{Cursor, JournalReader};
pub use recovery::TornTail;
pub use reports::{
    EARLY_SYNC_INTERVAL, OPEN_FILES_DEFAULT, REPORT_RECORD_BYTES, REPORTS_FOLDER, REPORTS_READ_MAX,
    ReportLog, ReportLogOptions, ReportReader, ReportWriter,
};
pub use segments::{ClosedSegment, Segments};
pub use skips::{FrameHash, SKIP_WHO_BYTES_MAX, SKIP_WHY_BYTES_MAX, SKIPS_FILE, Skip, SkipFile, Skips};
pub use storage::{RealStorage, SharedStorage, Storage, StorageFile};
pub use summary::{LogEnd, LogSummary};
pub use survey::JOURNAL_FOLDER;
pub use twoslot::{TWO_SLOT_BYTES_MAX, TwoSlotFile};

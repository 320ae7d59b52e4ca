//! Snapshots: the exchange's state in files, made by replay off the hot path, and the way back from them.
//!
//! This crate never sees the running engine. It makes every snapshot from the journal on a thread of low priority, checks
//! it against hashes that the log holds, and never writes one past what the journal and the report log hold durably.
//! It deletes nothing but old snapshots; what the journal may forget it only says
//! ([`SnapshotStore::journal_needed_from`]).
//!
//! # What a server uses
//! ```text
//! let store = SnapshotStore::open(storage.clone(), cluster_id)?;
//! let reader = JournalReader::open(storage.clone())?;
//! let recovered = recover(&store, &reader, Marks { journaled, reported }, &mut observer)?;
//!
//! let maker = SnapshotMaker::new(store.clone(), MakerOptions { keep: 2, reserve_bytes });
//! let thread = SnapshotThread::spawn(maker, SnapshotSchedule::default(), marks, |event| match event {
//!     MakerEvent::Made(_) => prune the journal up to store.journal_needed_from() and the other marks,
//!     MakerEvent::Postponed(error) => say so: the disk is full,
//!     MakerEvent::Failed(error) => say why and stop the process,
//! })?;
//! thread.make()?;                                          // on demand
//!
//! back_up(&store, &target, Some(journaled))?;              // online; `None` from another process
//! check(&target, cluster_id, &mut |progress| ..)?;         // what a start from the copy would give
//! ```

#![forbid(unsafe_code)]

mod backup;
mod error;
mod file;
mod format;
mod maker;
mod records;
mod recovery;
mod replay;
mod store;
mod thread;

pub use backup::{Backup, Checked, back_up, check};
pub use error::{Result, SnapshotError};
pub use file::{SNAPSHOT_FOLDER, snapshot_path};
pub use format::{SNAPSHOT_FORMAT_VERSION, SnapshotHeader};
pub use maker::{Made, MakerOptions, Marks, SnapshotMaker};
pub use recovery::{Progress, Recovered, RecoveryObserver, recover};
pub use replay::{Breathe, Step, apply_frame};
pub use store::{Newest, Refused, SNAPSHOTS_KEPT_MIN, SnapshotStore};
pub use thread::{MakerEvent, Pacer, RequestError, SnapshotSchedule, SnapshotThread};

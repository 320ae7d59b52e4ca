//! Opening a journal for writing: lock, find the end, cut a torn tail, get the next segment ready.

use std::sync::Arc;

use protocol::Sequence;

use super::buffer::WriteBuffer;
use super::prepare::{self, Prepared, Preparer};
use super::{Current, Durability, Journal, JournalOptions};
use crate::error::{Context, JournalError, Result};
use crate::format::BatchKind;
use crate::places::Places;
use crate::recovery::{self, Ending, TornTail};
use crate::scan::Position;
use crate::segments::{ClosedSegment, Segments};
use crate::storage::{Access, Lock, LockGuard, SharedStorage};
use crate::summary::LogSummary;
use crate::survey::{JOURNAL_FOLDER, Survey, Surveyed};

/// The lock file in the data directory.
const LOCK_FILE: &str = "lock";

/// What opening a journal found and did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recovery {
    /// Oldest frame that is kept; one more than `last_sequence` if there is none.
    pub first_sequence: Sequence,
    /// Last frame of the journal; 0 if there is none.
    pub last_sequence: Sequence,
    /// Whether the last thing written was the mark of a clean stop, or nothing was written at all.
    pub clean_stop: bool,
    /// Torn tails that were cut. Their frames were never acknowledged, unless the disk lied about an fsync or the
    /// level was `memory`.
    pub cut: Vec<TornTail>,
    /// Half-prepared files that were removed.
    pub removed: Vec<String>,
    /// The journal as a Raft log; `None` unless the options ask for it.
    pub log: Option<LogSummary>,
}

/// Takes the data directory's lock.
pub(crate) fn take_lock(storage: &SharedStorage) -> Result<LockGuard> {
    match storage.lock(LOCK_FILE).context("lock", LOCK_FILE)? {
        Lock::Held(guard) => Ok(guard),
        Lock::Taken { holder } => Err(JournalError::Locked { directory: storage.locate(""), holder }),
    }
}

/// Takes the lock and sees to it that there is a folder for the segments.
pub(super) fn take_folder(storage: &SharedStorage) -> Result<LockGuard> {
    let lock = take_lock(storage)?;
    storage.create_dir(JOURNAL_FOLDER).context("create", JOURNAL_FOLDER)?;
    storage.sync_dir("").context("sync", "data directory")?;
    Ok(lock)
}

impl Journal {
    /// Opens the journal of a data directory for writing, making it if there is none, and locks the directory.
    ///
    /// # Errors
    /// `Locked` if another process has the directory; `Corrupt`, `MissingSegment`, `SegmentLength`, `ForeignCluster`
    /// and `WrongVersion` for what must not be written to; `Io` for the rest. Nothing but a torn tail is ever cut.
    pub fn open(storage: SharedStorage, options: JournalOptions) -> Result<(Self, Recovery)> {
        options.check()?;
        let lock = take_folder(&storage)?;
        Self::open_locked(storage, options, lock)
    }

    pub(super) fn open_locked(
        storage: SharedStorage,
        options: JournalOptions,
        lock: LockGuard,
    ) -> Result<(Self, Recovery)> {
        let survey = Survey::read(&storage, Some(options.cluster_id))?;
        let ending = recovery::find_end(&storage, &survey, options.cluster_id)?;
        for temporary in &survey.temporaries {
            storage.remove(temporary).context("remove", temporary)?;
        }
        // After a kill the page cache shows what the disk may not have yet: make true what was just read.
        storage.sync_dir(JOURNAL_FOLDER).context("sync", JOURNAL_FOLDER)?;
        for found in &survey.segments {
            let file = storage.open(&found.path, Access::ReadWrite).context("open", &found.path)?;
            file.sync_data().context("sync", &found.path)?;
        }
        for torn in &ending.torn {
            recovery::zero(&storage, torn)?;
            let TornTail { file, offset, bytes, sequence } = torn;
            tracing::warn!(
                file, offset, bytes, %sequence,
                "cut a torn tail; it was not acknowledged, unless the disk lied about an fsync or the level was memory"
            );
        }
        let places = Places::default();
        let log = options.summarize.then(|| LogSummary::read(&storage, &survey, &places)).transpose()?;
        let recovery = Recovery {
            first_sequence: survey.first_sequence().unwrap_or(ending.position.next_sequence),
            last_sequence: ending.position.last_sequence(),
            clean_stop: ending.torn.is_empty()
                && matches!(ending.last_kind, Some(BatchKind::CleanStop) | None),
            cut: ending.torn.clone(),
            removed: survey.temporaries.clone(),
            log,
        };
        let mut journal = Self::resume(storage, options, lock, &survey, &ending, places)?;
        if let Some(log) = &recovery.log {
            journal.committed_index = log.committed_index;
            journal.segments.set_committed(log.committed_index);
        }
        Ok((journal, recovery))
    }

    fn resume(
        storage: SharedStorage,
        options: JournalOptions,
        lock: LockGuard,
        survey: &Survey,
        ending: &Ending,
        places: Places,
    ) -> Result<Self> {
        let begun = begun_segments(survey);
        let closed = closed_segments(survey, ending, begun);
        let ready = prepared_segments(&storage, survey, begun, options.segment_bytes)?;
        let current = match ending
            .current
            .and_then(|(place, offset, seed)| survey.segments.get(place).map(|found| (found, offset, seed)))
        {
            None => None,
            Some((found, offset, seed)) => Some(Current {
                file: Arc::from(storage.open(&found.path, Access::ReadWrite).context("open", &found.path)?),
                path: found.path.clone(),
                number: found.number,
                first_sequence: begin_of(found, ending).next_sequence,
                first_index: begin_of(found, ending).index + 1,
                length: found.length,
                offset,
                seed,
            }),
        };
        // Alone, what is journaled is never taken back.
        let segments = Segments::new(Arc::clone(&storage), closed, u64::MAX, places);
        if let Some(Current { file, .. }) = &current
            && options.durability == Durability::Memory
        {
            segments.begin_unsynced(Arc::clone(file));
        }
        let last_number =
            begun.checked_sub(1).and_then(|place| survey.segments.get(place)).map_or(0, |found| found.number);
        let mut preparer =
            Preparer::new(Arc::clone(&storage), options.segment_bytes, options.preparation, ready)?;
        preparer.request(last_number + 1)?;
        Ok(Self {
            segments,
            preparer,
            current,
            last_number,
            durable_sequence: ending.position.last_sequence(),
            position: ending.position.clone(),
            committed_index: ending.committed_index,
            marked: ending.last_kind.is_none_or(|kind| !kind.is_entry()),
            idle_since: None,
            buffer: WriteBuffer::new(options.segment_bytes),
            failed: false,
            storage,
            options,
            _lock: lock,
        })
    }
}

/// How many segments hold something: those behind are prepared ones. A header that was torn has just been cut.
fn begun_segments(survey: &Survey) -> usize {
    survey.segments.iter().rposition(|found| found.valid().is_some()).map_or(0, |place| place + 1)
}

fn begin_of(found: &Surveyed, ending: &Ending) -> Position {
    found.valid().map_or_else(|| ending.position.clone(), Position::of_segment)
}

fn closed_segments(survey: &Survey, ending: &Ending, begun: usize) -> Vec<ClosedSegment> {
    let open = ending.current.map(|(place, ..)| place);
    let mut closed = Vec::new();
    for (place, found) in survey.segments.iter().take(begun).enumerate() {
        let Some(begin) = found.valid().map(Position::of_segment).filter(|_| Some(place) != open) else {
            continue;
        };
        let next = survey.segments.get(place + 1).map(|next| begin_of(next, ending));
        let end = next.unwrap_or_else(|| ending.position.clone());
        closed.push(ClosedSegment {
            number: found.number,
            path: found.path.clone(),
            first_sequence: begin.next_sequence,
            last_sequence: end.last_sequence(),
            first_index: begin.index + 1,
            last_index: end.index,
        });
    }
    closed
}

/// Takes over the segments that were prepared and not begun; those of another length are removed, the last one first so
/// that a power cut leaves no gap.
fn prepared_segments(
    storage: &SharedStorage,
    survey: &Survey,
    begun: usize,
    segment_bytes: u64,
) -> Result<Vec<Prepared>> {
    let unbegun = survey.segments.get(begun..).unwrap_or_default();
    let keep = unbegun.iter().take_while(|found| found.length == segment_bytes).count();
    for found in unbegun.iter().skip(keep).rev() {
        prepare::remove(storage, &found.path)?;
    }
    unbegun.iter().take(keep).map(|found| prepare::reopen(storage, found.number, found.length)).collect()
}

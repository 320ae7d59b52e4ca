//! Opening a journal for writing: lock, find the end, cut a torn tail, get the next segment ready.

use std::sync::Arc;

use protocol::Sequence;

use super::buffer::WriteBuffer;
use super::prepare::{self, Prepared, Preparer};
use super::{Current, Durability, Journal, JournalOptions};
use crate::error::{Context, JournalError, Result};
use crate::format::BatchKind;
use crate::recovery::{self, Ending, TornTail};
use crate::segments::{ClosedSegment, Segments};
use crate::storage::{Access, Lock, LockGuard, SharedStorage};
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
}

/// Takes the data directory's lock.
pub(crate) fn take_lock(storage: &SharedStorage) -> Result<LockGuard> {
    match storage.lock(LOCK_FILE).context("lock", LOCK_FILE)? {
        Lock::Held(guard) => Ok(guard),
        Lock::Taken { holder } => Err(JournalError::Locked { directory: storage.locate(""), holder }),
    }
}

impl Journal {
    /// Opens the journal of a data directory for writing, making it if there is none, and locks the directory.
    ///
    /// # Errors
    /// `Locked` if another process has the directory; `Corrupt`, `MissingSegment`, `SegmentLength`, `ForeignCluster`
    /// and `WrongVersion` for what must not be written to; `Io` for the rest. Nothing but a torn tail is ever cut.
    pub fn open(storage: SharedStorage, options: JournalOptions) -> Result<(Self, Recovery)> {
        options.check()?;
        let lock = take_lock(&storage)?;
        storage.create_dir(JOURNAL_FOLDER).context("create", JOURNAL_FOLDER)?;
        storage.sync_dir("").context("sync", "data directory")?;
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
        let recovery = Recovery {
            first_sequence: survey.first_sequence().unwrap_or(ending.position.next_sequence),
            last_sequence: ending.position.last_sequence(),
            clean_stop: ending.torn.is_empty()
                && matches!(ending.last_kind, Some(BatchKind::CleanStop) | None),
            cut: ending.torn.clone(),
            removed: survey.temporaries.clone(),
        };
        let journal = Self::resume(storage, options, lock, &survey, &ending)?;
        Ok((journal, recovery))
    }

    fn resume(
        storage: SharedStorage,
        options: JournalOptions,
        lock: LockGuard,
        survey: &Survey,
        ending: &Ending,
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
                first_sequence: begins_with(found).unwrap_or(ending.position.next_sequence),
                length: found.length,
                offset,
                seed,
            }),
        };
        let segments = Segments::new(Arc::clone(&storage), closed);
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
            marked: ending.last_kind.is_none_or(|kind| kind != BatchKind::Frames),
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

fn begins_with(found: &Surveyed) -> Option<Sequence> {
    found.valid().map(|header| header.first_sequence)
}

fn closed_segments(survey: &Survey, ending: &Ending, begun: usize) -> Vec<ClosedSegment> {
    let open = ending.current.map(|(place, ..)| place);
    let mut closed = Vec::new();
    for (place, found) in survey.segments.iter().take(begun).enumerate() {
        let Some(first) = begins_with(found).filter(|_| Some(place) != open) else { continue };
        let next =
            survey.segments.get(place + 1).and_then(begins_with).unwrap_or(ending.position.next_sequence);
        closed.push(ClosedSegment {
            number: found.number,
            path: found.path.clone(),
            first_sequence: first,
            last_sequence: Sequence(next.0.saturating_sub(1)),
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
        storage.remove(&found.path).context("remove", &found.path)?;
        storage.sync_dir(JOURNAL_FOLDER).context("sync", JOURNAL_FOLDER)?;
    }
    unbegun.iter().take(keep).map(|found| prepare::reopen(storage, found.number, found.length)).collect()
}

//! The way back after a stop: newest usable snapshot, then the journal to its end. Writes nothing itself; the caller
//! rewrites the end of the report log with what the replay emits.

use exchange::{EventSink, Exchange};
use journaler::{JournalReader, Skip, Skips};
use protocol::{Output, Sequence, Term};

use crate::error::Result;
use crate::maker::Marks;
use crate::replay::{self, Mute};
use crate::store::{Refused, SnapshotStore};

/// How far a recovery has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Frames replayed.
    pub done: u64,
    /// Frames to replay altogether.
    pub total: u64,
}

/// Follows a recovery. The calls come in this order: progress, [`at_mark`](Self::at_mark) once, then progress and
/// outputs.
pub trait RecoveryObserver {
    /// So much of the replay is done. Called every few thousand frames.
    fn progress(&mut self, progress: Progress);

    /// The state at the report log's mark: everything up to it is in the report log, everything after it comes to
    /// [`output`](Self::output). If the journal ends before the mark (a power cut at level `memory`), the state at the
    /// journal's end: what the report log has beyond it never happened.
    fn at_mark(&mut self, exchange: &Exchange);

    /// Something that was emitted for a frame after the mark.
    fn output(&mut self, output: &Output);
}

/// The state after the last journaled frame.
#[derive(Debug)]
pub struct Recovered {
    /// The state.
    pub exchange: Exchange,
    /// The snapshot that it was made from; `None`: from an empty exchange.
    pub from_snapshot: Option<Sequence>,
    /// Frames replayed behind it.
    pub replayed: u64,
    /// Term of the last frame; 0 in an empty log.
    pub term: Term,
    /// Newer snapshots that could not be used, newest first.
    pub refused: Vec<Refused>,
    /// Frames of the replay that were passed over, since their operators had them skipped.
    pub skipped: Vec<Skip>,
}

/// Brings back the state at `marks.journaled`, the journal's end, from the newest snapshot that is usable and not past
/// either mark.
///
/// # Errors
/// `Journal` (the file of skips included), `Diverged` where a tick contradicts the replay, `NothingToStartFrom` where no usable snapshot reaches the
/// journal's first frame, `Io` when the snapshots can't be listed.
pub fn recover(
    store: &SnapshotStore,
    journal: &JournalReader,
    marks: Marks,
    observer: &mut impl RecoveryObserver,
) -> Result<Recovered> {
    let skips = Skips::load(store.storage(), store.cluster_id())?;
    let newest = store.load_newest(marks.allowed())?;
    let header = newest.loaded.as_ref().map(|(_, header)| *header);
    let mut exchange = replay::start(newest.loaded, journal, &newest.refused)?;
    let start = exchange.sequence();
    let total = marks.journaled.0.saturating_sub(start.0);
    let progress = |exchange: &Exchange| Progress { done: exchange.sequence().0 - start.0, total };
    let mut cursor = journal.frames_from(start.next())?;
    observer.progress(progress(&exchange));
    while replay::slice(&mut exchange, &mut cursor, &skips, marks.allowed(), &mut Mute)? {
        observer.progress(progress(&exchange));
    }
    observer.at_mark(&exchange);
    while replay::slice(&mut exchange, &mut cursor, &skips, marks.journaled, &mut Telling(observer))? {
        observer.progress(progress(&exchange));
    }
    let end = exchange.sequence();
    Ok(Recovered {
        exchange,
        from_snapshot: header.map(|header| header.sequence),
        replayed: total,
        term: cursor.term().max(header.map_or(Term(0), |header| header.term)),
        refused: newest.refused,
        skipped: skips.iter().filter(|skip| (start.next()..=end).contains(&skip.sequence)).cloned().collect(),
    })
}

/// Hands on what is emitted.
struct Telling<'a, O>(&'a mut O);

impl<O: RecoveryObserver> EventSink for Telling<'_, O> {
    #[inline]
    fn emit(&mut self, output: Output) {
        self.0.output(&output);
    }
}

//! From a data directory to the last state: lock, journal, snapshot, replay, and the end of the report log written
//! again. It must not start anything.

use std::fmt;
use std::sync::Arc;

use exchange::Exchange;
use journaler::{
    Journal, JournalError, JournalOptions, JournalReader, Recovery, ReportLog, ReportReader, Segments,
    SharedStorage, Skip, Skips,
};
use protocol::planted::{Bug, is_on};
use protocol::{Output, ReportNumber, Sequence, SessionId, TradingDay};
use snapshots::{Progress, RecoveryObserver, Refused, SnapshotError, SnapshotStore};

use crate::config::EngineConfig;
use crate::output::{Muted, ReportBatch};

/// Events of the replay that are gathered before their reports are written.
const REPLAY_EVENTS: usize = 16 * 1024;

/// Why a data directory could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The journal or the report log.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The snapshots, or a replay that contradicts the log.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

/// What opening a data directory found and did.
#[derive(Clone, Debug)]
pub struct Found {
    /// The journal: its ends, what was cut, whether the last stop was clean.
    pub journal: journaler::Recovery,
    /// The snapshot that the state was made from; `None`: from an empty exchange.
    pub from_snapshot: Option<Sequence>,
    /// Frames replayed behind it.
    pub replayed: u64,
    /// Newer snapshots that could not be used, newest first.
    pub refused: Vec<Refused>,
    /// Frames that the replay passed over, since their operators had them skipped.
    pub skipped: Vec<Skip>,
}

/// An open data directory with its last state: all that an engine starts from. The journal holds the directory's lock.
pub struct Opened {
    pub(crate) exchange: Exchange,
    /// What the engine must not apply.
    pub(crate) skips: Arc<Skips>,
    /// `None` for a member, whose consensus has it.
    pub(crate) journal: Option<Journal>,
    pub(crate) segments: Segments,
    /// Most bytes of frames that the journal takes as one batch.
    pub(crate) batch_bytes_max: usize,
    /// Last frame that is durable in the journal.
    pub(crate) durable: Sequence,
    pub(crate) report_log: ReportLog,
    pub(crate) reports: ReportBatch,
    pub(crate) store: SnapshotStore,
    found: Found,
}

impl Opened {
    /// The state after the last journaled frame; for a member, after the last one that is known to be committed.
    #[must_use]
    pub fn exchange(&self) -> &Exchange {
        &self.exchange
    }

    /// The report log, whole up to that state.
    #[must_use]
    pub fn report_reader(&self) -> ReportReader {
        self.report_log.reader()
    }

    /// What was found.
    #[must_use]
    pub fn found(&self) -> &Found {
        &self.found
    }
}

impl fmt::Debug for Opened {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Opened").field("found", &self.found).finish_non_exhaustive()
    }
}

/// Opens a data directory, with the state after the last journaled frame.
pub(crate) fn open(
    storage: SharedStorage,
    config: &EngineConfig,
    progress: &mut dyn FnMut(Progress),
) -> Result<Opened, OpenError> {
    let (journal, found) = Journal::open(storage.clone(), config.journal.clone())?;
    let store = SnapshotStore::open(storage.clone(), config.journal.cluster_id)?;
    let end = journal.journaled_sequence();
    // A member's log may still get the frame from its leader.
    Skips::load(&storage, config.journal.cluster_id)?.check_end(end)?;
    recover(storage, config, (journal, found), store, end, progress)
}

/// Opens a member's data directory, with the state after the last frame that the journal, or a snapshot that is newer,
/// shows to be committed.
pub(crate) fn open_member(
    storage: SharedStorage,
    config: &EngineConfig,
    progress: &mut dyn FnMut(Progress),
) -> Result<(Opened, Journal), OpenError> {
    let options = JournalOptions { summarize: true, ..config.journal.clone() };
    let (journal, found) = Journal::open(storage.clone(), options)?;
    let store = SnapshotStore::open(storage.clone(), config.journal.cluster_id)?;
    let newest = store.list()?.last().copied().unwrap_or_default();
    let committed = found.log.as_ref().map_or(Sequence(0), |log| log.committed_sequence);
    let committed = if is_on(Bug::ApplyBeyondCommit) { journal.journaled_sequence() } else { committed };
    let end = committed.max(newest);
    let mut opened = recover(storage, config, (journal, found), store, end, progress)?;
    let Some(journal) = opened.journal.take() else { unreachable!("it was just put there") };
    Ok((opened, journal))
}

/// Brings back the state after frame `end`.
fn recover(
    storage: SharedStorage,
    config: &EngineConfig,
    (journal, found): (Journal, Recovery),
    store: SnapshotStore,
    end: Sequence,
    progress: &mut dyn FnMut(Progress),
) -> Result<Opened, OpenError> {
    let skips = Arc::new(Skips::load(&storage, config.journal.cluster_id)?);
    let report_log = ReportLog::open(storage.clone(), &config.report_log)?;
    let reader = JournalReader::open(storage)?;
    let marks = snapshots::Marks { journaled: end, reported: report_log.durable_mark() };
    let reports = ReportBatch::new(report_log.writer(), TradingDay(0));
    let mut rewrite = Rewrite { reports, events: 0, frame: Vec::new(), outcome: Ok(()), progress };
    let recovered = snapshots::recover(&store, &reader, marks, &mut rewrite)?;
    let reports = rewrite.finish()?;
    let exchange = recovered.exchange;
    assert_eq!(exchange.sequence(), end, "recovery ends where it was told to");
    assert_eq!(exchange.trading_day(), reports.day(), "the report log is in the same trading day");
    let found = Found {
        journal: found,
        from_snapshot: recovered.from_snapshot,
        replayed: recovered.replayed,
        refused: recovered.refused,
        skipped: recovered.skipped,
    };
    Ok(Opened {
        exchange,
        skips,
        segments: journal.segments(),
        batch_bytes_max: journal.batch_bytes_max(),
        durable: journal.durable_sequence(),
        journal: Some(journal),
        report_log,
        reports,
        store,
        found,
    })
}

/// Writes the end of the report log again while a recovery replays it.
struct Rewrite<'a> {
    reports: ReportBatch,
    /// Events taken since the last write.
    events: usize,
    /// Events of the last frame, until it is applied whole: a breach in it must leave no report.
    frame: Vec<Output>,
    /// The first error; the rest of the replay then goes nowhere.
    outcome: Result<(), JournalError>,
    progress: &'a mut dyn FnMut(Progress),
}

impl Rewrite<'_> {
    fn finish(mut self) -> Result<ReportBatch, JournalError> {
        std::mem::replace(&mut self.outcome, Ok(()))?;
        self.take_frame()?;
        self.reports.flush(&mut Muted)?;
        Ok(self.reports)
    }

    /// Takes the events of a frame that was applied whole.
    fn take_frame(&mut self) -> Result<(), JournalError> {
        self.events += self.frame.len();
        for output in self.frame.drain(..) {
            self.reports.take(&output, &mut Muted)?;
        }
        if self.events >= REPLAY_EVENTS {
            self.events = 0;
            self.reports.flush(&mut Muted)?;
        }
        Ok(())
    }
}

impl RecoveryObserver for Rewrite<'_> {
    fn progress(&mut self, progress: Progress) {
        (self.progress)(progress);
    }

    /// Tells the report log which reports it has: those that the state has numbered so far, and all of the day before.
    fn at_mark(&mut self, exchange: &Exchange) {
        self.reports.enter(exchange.trading_day());
        let users = exchange.users().map(|user| user.session);
        for session in users.chain([SessionId::SYSTEM]) {
            let last = exchange.session(session).map_or(ReportNumber(0), |view| view.last_report);
            if last > ReportNumber(0) {
                self.reports.restore(session, last);
            }
        }
        self.outcome = self.reports.restore_day_before();
    }

    fn output(&mut self, output: &Output) {
        if self.frame.last().is_some_and(|last| last.sequence != output.sequence) {
            self.outcome = self.take_frame();
        }
        if self.outcome.is_ok() {
            self.frame.push(*output);
        }
    }
}

//! What an engine needs done beside its pipeline, at low priority: the report log's fsync and the removal of
//! what nobody needs any more; the making of snapshots; the archive. It must not touch a ring.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use journaler::{Archiver, EARLY_SYNC_INTERVAL, JournalError, NICE_LOWEST, Segments, at_low_priority};
use protocol::Sequence;
use ring::Mark;
use snapshots::{
    Made, MakerEvent, MakerOptions, RequestError, SnapshotError, SnapshotMaker, SnapshotStore, SnapshotThread,
};

use crate::config::EngineConfig;
use crate::control::Course;
use crate::engine::{STOP_LOOK_EVERY, StartError};
use crate::member::Retention;
use crate::view::EngineView;

/// How long a stop waits for an archive command that is running. Its segment is archived again after the next start.
const ARCHIVE_PATIENCE: Duration = Duration::from_secs(2);

/// The housekeeping itself; whoever has it decides when.
pub(crate) struct House {
    view: EngineView,
    segments: Segments,
    store: SnapshotStore,
    /// Who prunes the journal, where the engine doesn't.
    retention: Option<Retention>,
    /// Last sequence that the archive has, where there is one.
    archived: Option<Arc<Mark>>,
}

/// Why housekeeping failed: fatal, since it writes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HouseError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    #[error("a thread can't be started: {0}")]
    Thread(#[source] io::Error),
}

impl House {
    pub(crate) fn new(
        view: EngineView,
        segments: Segments,
        store: SnapshotStore,
        retention: Option<Retention>,
    ) -> Self {
        Self { view, segments, store, retention, archived: None }
    }

    /// Makes durable what was written so far, and removes the journal's segments that no start needs any more, or tells
    /// the one who does.
    pub(crate) fn keep(&self) -> Result<(), HouseError> {
        let log = &self.view.report_log;
        self.sync_journal()?;
        sync_reports(&self.view)?;
        let archived = self.archived.as_ref().map_or(Sequence(u64::MAX), |mark| Sequence(mark.get()).next());
        let needed = self.store.journal_needed_from()?.min(log.durable_mark().next()).min(archived);
        if let Some(retention) = &self.retention {
            retention(needed);
            return Ok(());
        }
        for segment in self.segments.prune(needed)? {
            tracing::info!(file = segment.path, last = segment.last_sequence.0, "journal segment pruned");
        }
        Ok(())
    }

    /// At level `memory`: makes the journal durable up to where it is now. The journal itself does so only when it is idle,
    /// and everything that must stay behind what is durable would wait for that. At `disk` there is nothing to do.
    fn sync_journal(&self) -> Result<(), JournalError> {
        let journaled = self.view.marks().journaled_sequence();
        if self.view.journal().durable_sequence() >= journaled {
            return Ok(());
        }
        self.segments.sync()?;
        self.view.journal().set_durable(journaled);
        Ok(())
    }

    /// How far a snapshot may go: not past what is committed, since a member's journal goes on behind that, and another
    /// start may have reported more.
    fn marks(view: &EngineView) -> snapshots::Marks {
        snapshots::Marks {
            journaled: view.journal().durable_sequence().min(view.marks().committed_sequence()),
            reported: view.report_log.durable_mark(),
        }
    }

    /// Makes a snapshot on the calling thread, if the log holds a newer checkpoint than the last one's.
    pub(crate) fn make_snapshot(&self, options: MakerOptions) -> Result<Option<Made>, HouseError> {
        self.keep()?;
        let mut maker = SnapshotMaker::new(self.store.clone(), options);
        let made = maker.run_once(Self::marks(&self.view), &mut |_| std::ops::ControlFlow::Continue(()))?;
        made.iter().for_each(|made| assert_committed(&self.view, made));
        Ok(made)
    }
}

/// What is in a snapshot can't be taken back.
fn assert_committed(view: &EngineView, made: &Made) {
    let (snapshot, committed) = (made.header.sequence, view.marks().committed_sequence());
    assert!(snapshot <= committed, "a snapshot at {snapshot}, only {committed} is committed");
}

/// Makes the report log durable, and says so of no frame that a power cut could still take from the journal (at level
/// `memory`): another one may then come in its place, with other reports.
fn sync_reports(view: &EngineView) -> Result<(), JournalError> {
    let durable = view.journal().durable_sequence();
    view.report_log.sync(view.marks().reported_sequence().min(durable))
}

/// Why a snapshot that was asked for was not made.
#[derive(Debug, thiserror::Error)]
pub enum MakeSnapshotError {
    /// The report log, behind which a snapshot must stay, could not be made durable; the engine ends.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The snapshot thread did not make one.
    #[error(transparent)]
    Request(#[from] RequestError),
}

/// The threads. Dropping them stops and joins them.
#[derive(Debug)]
pub(crate) struct Background {
    view: EngineView,
    // Declared first: it must be gone before the data directory's lock is.
    snapshots: SnapshotThread,
    housekeeping: Thread,
    archive: Option<Thread>,
}

impl Background {
    pub(crate) fn spawn(mut house: House, config: &EngineConfig) -> Result<Self, StartError> {
        let view = house.view.clone();
        let maker = SnapshotMaker::new(house.store.clone(), config.maker());
        let (marks, teller) = (view.clone(), view.clone());
        let snapshots = SnapshotThread::spawn(
            maker,
            config.snapshots,
            move || House::marks(&marks),
            move |event| tell(&teller, event),
        )?;
        let archive = match &config.archive {
            None => None,
            Some(options) => {
                let archiver = Archiver::open(house.segments.clone(), options.clone())?;
                let archived = Arc::new(Mark::new(archiver.archived_sequence().0));
                house.archived = Some(Arc::clone(&archived));
                let (view, interval) = (view.clone(), config.housekeeping_interval);
                let work = move |stop: &Receiver<()>| archive(archiver, &archived, &view, interval, stop);
                Some(Thread::spawn("archive", work).map_err(StartError::Thread)?)
            }
        };
        let interval = config.housekeeping_interval;
        let work = move |stop: &Receiver<()>| housekeeping(&house, interval, stop);
        let housekeeping = Thread::spawn("housekeeping", work).map_err(StartError::Thread)?;
        Ok(Self { view, snapshots, housekeeping, archive })
    }

    /// Makes a snapshot now and waits for it.
    pub(crate) fn make_snapshot(&self) -> Result<Option<Made>, MakeSnapshotError> {
        sync_reports(&self.view)
            .inspect_err(|error| self.view.control.fail(&format_args!("report log: {error}")))?;
        Ok(self.snapshots.make()?)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.housekeeping.stop(None);
        if let Some(archive) = &mut self.archive {
            archive.stop(Some(ARCHIVE_PATIENCE));
        }
    }
}

/// A thread that is told to stop by the end of its channel. What it does it does at low priority, and waits at a normal one.
#[derive(Debug)]
struct Thread {
    stop: Option<SyncSender<()>>,
    handle: Option<JoinHandle<()>>,
}

impl Thread {
    fn spawn(name: &str, work: impl FnOnce(&Receiver<()>) + Send + 'static) -> io::Result<Self> {
        let (stop, stopped) = mpsc::sync_channel(0);
        let handle = thread::Builder::new().name(name.to_owned()).spawn(move || work(&stopped))?;
        Ok(Self { stop: Some(stop), handle: Some(handle) })
    }

    /// Stops and joins the thread; leaves it behind where it isn't done within `patience`.
    fn stop(&mut self, patience: Option<Duration>) {
        self.stop = None;
        let Some(handle) = self.handle.take() else { return };
        let asked = Instant::now();
        while let Some(patience) = patience
            && !handle.is_finished()
        {
            if asked.elapsed() > patience {
                return;
            }
            thread::sleep(STOP_LOOK_EVERY);
        }
        // A panic of the thread was reported by the panic hook.
        let _ = handle.join();
    }
}

/// Waits for the next round; `false` when there is none because the engine stops.
fn next_round(interval: Duration, stop: &Receiver<()>) -> bool {
    stop.recv_timeout(interval) == Err(RecvTimeoutError::Timeout)
}

/// Waits for the next round of housekeeping, and meanwhile sees to it that it has little to sync.
fn wait_and_sync_early(house: &House, interval: Duration, stop: &Receiver<()>) -> Result<bool, JournalError> {
    let begun = Instant::now();
    loop {
        let left = interval.saturating_sub(begun.elapsed());
        if !next_round(left.min(EARLY_SYNC_INTERVAL), stop) {
            return Ok(false);
        }
        if house.view.control.is_at_least(Course::Abandoned) || begun.elapsed() >= interval {
            return Ok(true);
        }
        house.view.report_log.sync_early()?;
    }
}

fn housekeeping(house: &House, interval: Duration, stop: &Receiver<()>) {
    loop {
        let goes_on = match wait_and_sync_early(house, interval, stop) {
            Ok(goes_on) => goes_on,
            Err(error) => {
                house.view.control.fail(&format_args!("report log: {error}"));
                return;
            }
        };
        // An engine that was abandoned leaves its data as a kill would.
        if house.view.control.is_at_least(Course::Abandoned) {
            return;
        }
        let kept = at_low_priority("housekeeping", NICE_LOWEST, || house.keep());
        if let Err(error) = kept.map_err(HouseError::Thread).flatten() {
            house.view.control.fail(&format_args!("housekeeping: {error}"));
            return;
        }
        if !goes_on {
            return;
        }
    }
}

fn archive(
    mut archiver: Archiver,
    archived: &Mark,
    view: &EngineView,
    interval: Duration,
    stop: &Receiver<()>,
) {
    while next_round(interval, stop) {
        loop {
            let tried = at_low_priority("archive", NICE_LOWEST, || archiver.run_once());
            match tried.map_err(HouseError::Thread).and_then(|outcome| Ok(outcome?)) {
                Ok(Some(segment)) => {
                    archived.advance(segment.last_sequence.0);
                    tracing::info!(
                        file = segment.path,
                        last = segment.last_sequence.0,
                        "journal segment archived"
                    );
                }
                Ok(None) => break,
                // The operator's command or copy: the segment stays, and is tried again in the next round.
                Err(HouseError::Journal(error @ JournalError::Archive { .. })) => {
                    tracing::error!(%error, "archive failed");
                    break;
                }
                Err(error) => {
                    view.control.fail(&format_args!("archive: {error}"));
                    return;
                }
            }
            if view.control.is_at_least(Course::Stopping) {
                return;
            }
        }
    }
}

fn tell(view: &EngineView, event: MakerEvent) {
    match event {
        MakerEvent::Made(made) => {
            assert_committed(view, &made);
            tracing::info!(sequence = made.header.sequence.0, replayed = made.replayed, "snapshot made");
        }
        MakerEvent::Postponed(error) => tracing::warn!(%error, "snapshot postponed"),
        MakerEvent::Failed(error) => view.control.fail(&format_args!("snapshot: {error}")),
    }
}

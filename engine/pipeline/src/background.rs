//! What an engine needs done beside its pipeline, by threads of low priority: the report log's fsync and the removal of
//! what nobody needs any more; and the making of snapshots. It must not touch a ring.

use std::sync::mpsc::{self, RecvTimeoutError, SyncSender};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use journaler::{JournalError, Segments};
use snapshots::{
    Made, MakerEvent, MakerOptions, RequestError, SnapshotError, SnapshotMaker, SnapshotSchedule,
    SnapshotStore, SnapshotThread,
};

use crate::engine::StartError;
use crate::view::EngineView;

/// Lowest priority of a normal thread on Linux.
const NICE: i32 = 19;

/// The housekeeping itself; whoever has it decides when.
#[derive(Debug)]
pub(crate) struct House {
    view: EngineView,
    segments: Segments,
    store: SnapshotStore,
}

/// Why housekeeping failed: fatal, since it writes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HouseError {
    #[error(transparent)]
    Journal(#[from] JournalError),
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
}

impl House {
    pub(crate) fn new(view: EngineView, segments: Segments, store: SnapshotStore) -> Self {
        Self { view, segments, store }
    }

    /// Makes the reports written so far durable, and removes the journal's segments that no start needs any more.
    pub(crate) fn keep(&self) -> Result<(), HouseError> {
        let log = &self.view.report_log;
        sync_reports(&self.view)?;
        let needed = self.store.journal_needed_from()?.min(log.durable_mark().next());
        for segment in self.segments.prune(needed)? {
            tracing::info!(file = segment.path, last = segment.last_sequence.0, "journal segment pruned");
        }
        Ok(())
    }

    /// How far a snapshot may go.
    fn marks(view: &EngineView) -> snapshots::Marks {
        snapshots::Marks {
            journaled: view.journal().durable_sequence(),
            reported: view.report_log.durable_mark(),
        }
    }

    /// Makes a snapshot on the calling thread, if the log holds a newer checkpoint than the last one's.
    pub(crate) fn make_snapshot(&self, options: MakerOptions) -> Result<Option<Made>, HouseError> {
        self.keep()?;
        let mut maker = SnapshotMaker::new(self.store.clone(), options);
        Ok(maker.run_once(Self::marks(&self.view), &mut |_| std::ops::ControlFlow::Continue(()))?)
    }
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

/// The two threads. Dropping them stops and joins them.
#[derive(Debug)]
pub(crate) struct Background {
    view: EngineView,
    // Declared first: it must be gone before the data directory's lock is.
    snapshots: SnapshotThread,
    stop: Option<SyncSender<()>>,
    housekeeping: Option<JoinHandle<()>>,
}

impl Background {
    pub(crate) fn spawn(
        house: House,
        interval: Duration,
        schedule: SnapshotSchedule,
        options: MakerOptions,
    ) -> Result<Self, StartError> {
        let maker = SnapshotMaker::new(house.store.clone(), options);
        let (view, marks, teller) = (house.view.clone(), house.view.clone(), house.view.clone());
        let snapshots = SnapshotThread::spawn(
            maker,
            schedule,
            move || House::marks(&marks),
            move |event| match event {
                MakerEvent::Made(made) => {
                    tracing::info!(
                        sequence = made.header.sequence.0,
                        replayed = made.replayed,
                        "snapshot made"
                    );
                }
                MakerEvent::Postponed(error) => tracing::warn!(%error, "snapshot postponed"),
                MakerEvent::Failed(error) => teller.control.fail(&format_args!("snapshot: {error}")),
            },
        )?;
        let (stop, stopped) = mpsc::sync_channel(1);
        let housekeeping = thread::Builder::new()
            .name("housekeeping".to_owned())
            .spawn(move || {
                // On Linux the call is about the calling thread; without it the work is done all the same.
                if let Err(error) = rustix::process::setpriority_process(None, NICE) {
                    tracing::warn!(%error, "the housekeeping thread keeps its priority");
                }
                loop {
                    let last = match stopped.recv_timeout(interval) {
                        Err(RecvTimeoutError::Timeout) => false,
                        Ok(()) | Err(RecvTimeoutError::Disconnected) => true,
                    };
                    if let Err(error) = house.keep() {
                        house.view.control.fail(&format_args!("housekeeping: {error}"));
                        return;
                    }
                    if last {
                        return;
                    }
                }
            })
            .map_err(StartError::Thread)?;
        Ok(Self { view, snapshots, stop: Some(stop), housekeeping: Some(housekeeping) })
    }

    /// Makes a snapshot now and waits for it.
    pub(crate) fn make_snapshot(&self) -> Result<Option<Made>, MakeSnapshotError> {
        sync_reports(&self.view)?;
        Ok(self.snapshots.make()?)
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.housekeeping.take() {
            // A panic of the thread was reported by the panic hook.
            let _ = thread.join();
        }
    }
}

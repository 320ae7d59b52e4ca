//! The thread that makes snapshots in a server, at low priority: when one is due, how fast it may work, how it is asked and
//! stopped. The work itself is [`SnapshotMaker`]'s.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SyncSender};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use journaler::{NICE_LOWEST, at_low_priority};
use protocol::Sequence;

use crate::error::{Result, SnapshotError};
use crate::maker::{Made, Marks, SnapshotMaker};
use crate::replay::Step;

/// How often the thread looks whether a snapshot is due.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Requests that may wait for the thread; one more is told that it is busy.
const REQUESTS_MAX: usize = 8;

/// When a snapshot is due, and how fast it is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotSchedule {
    /// A snapshot is due when this many frames came since the last one.
    pub every_frames: u64,
    /// A snapshot is due when this long passed since the last one and any frame came.
    pub every: Duration,
    /// The work pauses after this many frames replayed or records written.
    pub pace_units: u64,
    /// How long it pauses; zero for never.
    pub pace_pause: Duration,
}

impl Default for SnapshotSchedule {
    fn default() -> Self {
        Self {
            every_frames: 10_000_000,
            every: Duration::from_secs(300),
            pace_units: 16_384,
            pace_pause: Duration::from_millis(1),
        }
    }
}

impl SnapshotSchedule {
    /// Whether a snapshot is due `elapsed` after the last one, which was at `last`.
    #[must_use]
    pub fn is_due(&self, last: Sequence, marks: Marks, elapsed: Duration) -> bool {
        let frames = marks.allowed().0.saturating_sub(last.0);
        frames >= self.every_frames.max(1) || (frames > 0 && elapsed >= self.every)
    }
}

/// Pauses after every so much work.
#[derive(Debug)]
pub struct Pacer {
    units: u64,
    done: u64,
    last: Option<Sequence>,
}

impl Pacer {
    /// A pause is due after each `units` frames or records.
    #[must_use]
    pub fn new(units: u64) -> Self {
        Self { units: units.max(1), done: 0, last: None }
    }

    /// Counts a step; true when a pause is due.
    pub fn step(&mut self, step: Step) -> bool {
        self.done += match step {
            Step::Replayed(sequence) => {
                // The first step of a replay tells where it is, not how far it came.
                let last = self.last.replace(sequence);
                last.map_or(0, |last| sequence.0.saturating_sub(last.0))
            }
            Step::Written(records) => records,
        };
        if self.done < self.units {
            return false;
        }
        self.done = 0;
        true
    }
}

/// What the thread tells its server.
#[derive(Debug)]
pub enum MakerEvent {
    /// A snapshot was made; older journal segments may now be prunable.
    Made(Made),
    /// There is no room for a snapshot; the thread tries again when the next one is due.
    Postponed(SnapshotError),
    /// Making one failed; the thread has ended. On `Diverged` and on any error of the disk the process must stop.
    Failed(SnapshotError),
}

/// Why an asked-for snapshot was not made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// Too many requests wait already.
    #[error("the snapshot thread is busy")]
    Busy,
    /// The thread has ended.
    #[error("the snapshot thread has stopped")]
    Stopped,
    /// There is no room on the disk.
    #[error("{0}")]
    NoSpace(String),
    /// It failed; the server stops.
    #[error("{0}")]
    Failed(String),
}

type Answer = std::result::Result<Option<Made>, RequestError>;

/// The running thread. Dropping it stops and joins it.
#[derive(Debug)]
pub struct SnapshotThread {
    requests: Option<SyncSender<SyncSender<Answer>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl SnapshotThread {
    /// Starts the thread, which works at the lowest priority. `marks` is asked before each snapshot; `tell` hears what happened, on
    /// the thread itself.
    ///
    /// # Errors
    /// `Thread` when the system starts no thread; `Io` when the snapshots can't be listed.
    pub fn spawn(
        maker: SnapshotMaker,
        schedule: SnapshotSchedule,
        marks: impl Fn() -> Marks + Send + 'static,
        tell: impl FnMut(MakerEvent) + Send + 'static,
    ) -> Result<Self> {
        let (requests, inbox) = mpsc::sync_channel(REQUESTS_MAX);
        let stop = Arc::new(AtomicBool::new(false));
        let last = maker.store().list()?.last().copied().unwrap_or_default();
        let mut worker =
            Worker { maker, schedule, marks, tell, inbox, stop: stop.clone(), last, since: Instant::now() };
        let thread = std::thread::Builder::new()
            .name("snapshots".to_owned())
            .spawn(move || worker.run())
            .map_err(SnapshotError::Thread)?;
        Ok(Self { requests: Some(requests), stop, thread: Some(thread) })
    }

    /// Makes a snapshot now and waits for it. `None`: no checkpoint newer than the last snapshot is in the log yet.
    ///
    /// # Errors
    /// [`RequestError`] says why none was made.
    pub fn make(&self) -> Answer {
        let (answer, wait) = mpsc::sync_channel(1);
        let requests = self.requests.as_ref().ok_or(RequestError::Stopped)?;
        requests.try_send(answer).map_err(|error| match error {
            mpsc::TrySendError::Full(_) => RequestError::Busy,
            mpsc::TrySendError::Disconnected(_) => RequestError::Stopped,
        })?;
        wait.recv().unwrap_or(Err(RequestError::Stopped))
    }

    /// Stops the thread, in the middle of a snapshot too, and waits for its end. What it was writing is removed.
    pub fn stop(mut self) {
        self.end();
    }

    fn end(&mut self) {
        // Pairs with the worker's load; the join below orders everything else.
        self.stop.store(true, Ordering::Relaxed);
        self.requests = None;
        if let Some(thread) = self.thread.take() {
            // A panic of the worker was reported by the panic hook.
            let _ = thread.join();
        }
    }
}

impl Drop for SnapshotThread {
    fn drop(&mut self) {
        self.end();
    }
}

fn answer(outcome: &Result<Option<Made>>) -> Answer {
    match outcome {
        Ok(made) => Ok(made.clone()),
        Err(SnapshotError::Stopped) => Err(RequestError::Stopped),
        Err(error) if error.is_no_space() => Err(RequestError::NoSpace(error.to_string())),
        Err(error) => Err(RequestError::Failed(error.to_string())),
    }
}

struct Worker<M, T> {
    maker: SnapshotMaker,
    schedule: SnapshotSchedule,
    marks: M,
    tell: T,
    inbox: Receiver<SyncSender<Answer>>,
    stop: Arc<AtomicBool>,
    /// Sequence of the newest snapshot.
    last: Sequence,
    /// When the last one was begun.
    since: Instant,
}

impl<M: Fn() -> Marks + Send, T: FnMut(MakerEvent) + Send> Worker<M, T> {
    fn run(&mut self) {
        loop {
            let request = match self.inbox.recv_timeout(LOOK_EVERY) {
                Ok(request) => Some(request),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            if request.is_none() && !self.schedule.is_due(self.last, (self.marks)(), self.since.elapsed()) {
                continue;
            }
            let outcome = at_low_priority("snapshot", NICE_LOWEST, || self.make());
            let outcome = outcome.unwrap_or_else(|error| Err(SnapshotError::Thread(error)));
            if let Some(request) = request {
                // One that no longer waits needs no answer.
                let _ = request.send(answer(&outcome));
            }
            match outcome {
                Ok(Some(made)) => (self.tell)(MakerEvent::Made(made)),
                Ok(None) => {}
                Err(error) if error.is_no_space() => (self.tell)(MakerEvent::Postponed(error)),
                Err(SnapshotError::Stopped) => return,
                Err(error) => return (self.tell)(MakerEvent::Failed(error)),
            }
        }
    }

    fn make(&mut self) -> Result<Option<Made>> {
        let mut pacer = Pacer::new(self.schedule.pace_units);
        let (stop, pause) = (self.stop.clone(), self.schedule.pace_pause);
        self.since = Instant::now();
        let made = self.maker.run_once((self.marks)(), &mut |step| {
            if pacer.step(step) && !pause.is_zero() {
                std::thread::sleep(pause);
            }
            // Pairs with the store in `end`.
            if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        if let Some(made) = &made {
            self.last = made.header.sequence;
        }
        Ok(made)
    }
}

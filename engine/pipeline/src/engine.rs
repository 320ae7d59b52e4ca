//! The engine as its owner sees it: open, start, stop. It must not do a stage's work.

use std::fmt;
use std::io;
use std::sync::{Arc, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use exchange::Exchange;
use journaler::{Journal, JournalError, SharedStorage};
use protocol::Egress;
use ring::{Ingress, PublishError, RingError};
use snapshots::{Made, Progress, SnapshotError};

use crate::background::{Background, MakeSnapshotError};
use crate::config::EngineConfig;
use crate::control::Course;
use crate::member::{MemberParts, MemberPorts};
use crate::recovery::{self, OpenError, Opened};
use crate::stages::FinalState;
use crate::stepper::EngineStepper;
use crate::view::EngineView;
use crate::wiring::{Wired, wire, wire_member};

/// How often a stop looks whether the threads have ended.
pub(crate) const STOP_LOOK_EVERY: Duration = Duration::from_millis(1);

/// Makes engines.
#[derive(Clone, Copy, Debug)]
pub struct Engine;

/// Why an engine did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// A ring's size.
    #[error(transparent)]
    Ring(#[from] RingError),
    /// A tick interval of zero, or of more than a second.
    #[error("a tick interval of {0:?}: above zero and at most a second")]
    TickInterval(Duration),
    /// The directory was opened for the other kind of engine: alone, or a member of a cluster.
    #[error("a data directory that was opened for {0} can't be started otherwise")]
    OpenedFor(&'static str),
    /// The first frame did not fit.
    #[error("the first frame: {0}")]
    Publish(#[from] PublishError),
    /// A thread could not be made, or not be pinned.
    #[error("starting a thread: {0}")]
    Thread(#[source] io::Error),
    /// The snapshot thread.
    #[error(transparent)]
    Snapshot(#[from] SnapshotError),
    /// The archive's mark.
    #[error(transparent)]
    Archive(#[from] JournalError),
}

impl Engine {
    /// Opens a data directory: takes its lock, reads the journal, brings back the last state and the end of the report
    /// log. `progress` hears how far it is, in frames.
    ///
    /// # Errors
    /// [`OpenError`] says what is in the way; nothing but a torn tail is ever cut.
    pub fn open(
        storage: SharedStorage,
        config: &EngineConfig,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<Opened, OpenError> {
        recovery::open(storage, config, progress)
    }

    /// Opens a member's data directory: as [`open`](Self::open), but the state is brought only up to what is known to be
    /// committed, as the journal tells, or a snapshot that is newer. The rest of the journal is not applied: the consensus,
    /// which gets the journal, will tell what becomes of it. The journal holds the directory's lock, and must outlive the
    /// engine. What it is as a Raft log is in [`Found::journal`](crate::Found).
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_member(
        storage: SharedStorage,
        config: &EngineConfig,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<(Opened, Journal), OpenError> {
        recovery::open_member(storage, config, progress)
    }

    /// Starts the engine's threads. The first frame is a start; then it takes what the ingress gives. `egress` is called
    /// on the thread of the reports stage.
    ///
    /// # Errors
    /// [`StartError`]; then no thread is left.
    pub fn start(
        config: &EngineConfig,
        opened: Opened,
        egress: Box<dyn Egress>,
    ) -> Result<EngineHandle, StartError> {
        start_threads(config, wire(config, opened, egress)?)
    }

    /// An engine without threads, for a simulation: the same stages and rings, stepped by the caller.
    ///
    /// # Errors
    /// As [`Engine::start`].
    pub fn stepped(
        config: &EngineConfig,
        opened: Opened,
        egress: Box<dyn Egress>,
    ) -> Result<EngineStepper, StartError> {
        Ok(EngineStepper::new(wire(config, opened, egress)?, config.maker()))
    }

    /// Starts the threads of an engine that is a member of a cluster. Its ingress is the front ring's: what is published
    /// there is proposed while this member leads, and dropped while it doesn't. The business logic sees what the
    /// consensus feeds. To stop, drop the gateways' publishers and call [`EngineHandle::stop`], which waits for
    /// the consensus: it drops the feed once the proposals have ended and all that is committed was fed.
    ///
    /// # Errors
    /// [`StartError`]; then no thread is left.
    pub fn start_member(
        config: &EngineConfig,
        opened: Opened,
        egress: Box<dyn Egress>,
        parts: MemberParts,
    ) -> Result<(EngineHandle, MemberPorts), StartError> {
        let (wired, ports) = wire_member(config, opened, egress, parts)?;
        Ok((start_threads(config, wired)?, ports))
    }

    /// A member without threads, for a simulation.
    ///
    /// # Errors
    /// As [`Engine::start_member`].
    pub fn stepped_member(
        config: &EngineConfig,
        opened: Opened,
        egress: Box<dyn Egress>,
        parts: MemberParts,
    ) -> Result<(EngineStepper, MemberPorts), StartError> {
        let (wired, ports) = wire_member(config, opened, egress, parts)?;
        Ok((EngineStepper::new(wired, config.maker()), ports))
    }
}

fn start_threads(config: &EngineConfig, wired: Wired) -> Result<EngineHandle, StartError> {
    let Wired { ingress, runners, view, house, last } = wired;
    // Made before the threads, so that an early return abandons those that run.
    let mut handle =
        EngineHandle { ingress: Some(ingress), threads: Vec::new(), background: None, view, last };
    for runner in runners {
        handle.threads.push(runner.spawn().map_err(StartError::Thread)?);
    }
    let background = Background::spawn(house, config)?;
    handle.background = Some(Arc::new(background));
    Ok(handle)
}

/// A running engine. Dropping it abandons the engine: its threads end where they are and the journal is not closed, as
/// after a kill. [`stop`](Self::stop) is the good way.
pub struct EngineHandle {
    ingress: Option<Ingress>,
    threads: Vec<JoinHandle<()>>,
    background: Option<Arc<Background>>,
    view: EngineView,
    last: FinalState,
}

/// How an engine ended.
#[derive(Debug)]
pub struct Stopped {
    /// The last state; `None` where the logic did not come to its end in good order.
    pub exchange: Option<Exchange>,
    /// Whether everything published was processed and the journal closed. Not so where publishers were left after the
    /// time given, or the engine had failed.
    pub drained: bool,
    /// The error that ended the engine, if one did.
    pub fault: Option<String>,
}

impl EngineHandle {
    /// A publisher of frames, on a member into the front ring: one for each thread that publishes. All must be dropped for
    /// the engine to drain.
    #[must_use]
    pub fn ingress(&self) -> Ingress {
        let Some(ingress) = &self.ingress else { unreachable!("only the end takes it") };
        ingress.clone()
    }

    /// Progress, counts, depth and reports, to look at from any thread.
    #[must_use]
    pub fn view(&self) -> EngineView {
        self.view.clone()
    }

    /// Asks for snapshots, from any thread.
    #[must_use]
    pub fn snapshots(&self) -> SnapshotRequests {
        SnapshotRequests(self.background.clone())
    }

    /// Stops in good order: waits at most `patience` until all publishers are gone and everything published is processed
    /// and reported, closes the journal, and makes the report log durable. After that time the stages stop as soon as
    /// they find nothing to do; what was journaled and not processed comes back at the next start.
    #[must_use = "it says whether all went well"]
    pub fn stop(mut self, patience: Duration) -> Stopped {
        self.view.control.raise(Course::Stopping);
        self.ingress = None;
        let asked = Instant::now();
        let mut drained = true;
        while !self.threads.iter().all(JoinHandle::is_finished) {
            if asked.elapsed() >= patience {
                drained = false;
                self.view.control.raise(Course::Leaving);
                break;
            }
            thread::sleep(STOP_LOOK_EVERY);
        }
        let joined = self.join();
        let exchange = self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        let fault = self.view.fault();
        Stopped { exchange, drained: drained && joined && fault.is_none(), fault }
    }

    /// Whether the threads ended without a panic.
    fn join(&mut self) -> bool {
        // All of them, whatever became of the others.
        let panicked = self.threads.drain(..).map(JoinHandle::join).filter(Result::is_err).count();
        // Behind the stages, so that the last reports are made durable.
        self.background = None;
        panicked == 0
    }
}

impl fmt::Debug for EngineHandle {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("EngineHandle").field("view", &self.view).finish_non_exhaustive()
    }
}

impl Drop for EngineHandle {
    fn drop(&mut self) {
        self.view.control.raise(Course::Abandoned);
        self.ingress = None;
        self.join();
    }
}

const _: () = {
    const fn for_any_thread<T: Send + Sync>() {}
    for_any_thread::<SnapshotRequests>();
    for_any_thread::<EngineView>();
};

/// Asks a running engine for snapshots.
#[derive(Clone, Debug)]
pub struct SnapshotRequests(Option<Arc<Background>>);

impl SnapshotRequests {
    /// Makes a snapshot now and waits for it. `None`: the log holds no checkpoint newer than the last snapshot yet; one
    /// comes with every tick. Keep no clone of this when the engine stops.
    ///
    /// # Errors
    /// [`MakeSnapshotError`].
    pub fn make(&self) -> Result<Option<Made>, MakeSnapshotError> {
        match &self.0 {
            Some(background) => background.make_snapshot(),
            None => Ok(None),
        }
    }
}

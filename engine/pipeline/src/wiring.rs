//! Rings, stages and threads put together.
//!
//! ```text
//!  alone
//!  gateways                +--> JournalStage ---- marks.journaled ---+
//!  Ticker --> input ring --+--> Sequencer ------- marks.committed ---+--> Logic --> output ring --+--> Reports --> report log, Egress
//!  (Start)                 +--> Unmarshal ------- decoded cells -----+      |                     +--> Depth ----> DepthView
//!     ^                                                                     |                     +--> MetricsStage --> EventMetrics
//!     +-------------------------- LogicState (checkpoint, deadline) --------+
//!
//!  member
//!  gateways                                     [consensus]
//!  Ticker --> front ring --> Proposer (Start) --> proposals     +--> Committed, as both -- marks ---+
//!     ^                                           feed --> input ring                               +--> Logic --> as alone
//!     |                                            ^            +--> Unmarshal -------- cells ------+      |
//!     |                                            +---------------------------- room again ---------------+
//!     +--------------------------------------------------------- LogicState (deadline), ConfirmedCheckpoint
//!
//!  wake-ups: Ingress -> {journal, replicate, unmarshal} -> logic -> {reports, depth, metrics} -> logic (room again)
//!  background threads, of low priority: housekeeping (report log's fsync, pruning), snapshots (replay)
//! ```
//!
//! Which stages share a thread is the plan's; in a member the journal's place is the proposer's, and that of replicate is
//! `Committed`'s. This file must hold no stage's work.

use std::sync::Arc;

use journaler::Segments;
use protocol::{Body, Command, Egress, Output, Sequence};
use recorder::{Writer, stages as points};
use replicator::Sequencer;
use ring::{
    FramePoller, Ingress, InputRing, Runner, Stage, Waiter, WakeSet, Waker, Work, frame_ring, input_ring,
    output_ring,
};
use snapshots::SnapshotStore;

use crate::background::House;
use crate::checkpoints::ConfirmedCheckpoint;
use crate::config::{EngineConfig, TICK_INTERVAL_MAX};
use crate::control::{Control, Course};
use crate::engine::StartError;
use crate::evidence::Evidence;
use crate::marks::Shared;
use crate::member::{Feed, JournalGauges, MakingRoom, MemberParts, MemberPorts, Room};
use crate::output::{Depth, DepthView, EventMetrics, MetricsStage, Reports};
use crate::recovery::Opened;
use crate::stages::{
    Committed, FinalState, JournalStage, Logic, Proposer, Ticker, Ticks, Unmarshal, own_frame,
};
use crate::threads::{StageName, ThreadSpec};
use crate::view::EngineView;

/// An engine put together, before anything runs.
pub(crate) struct Wired {
    pub(crate) ingress: Ingress,
    pub(crate) runners: Vec<Runner>,
    pub(crate) view: EngineView,
    pub(crate) house: House,
    pub(crate) last: FinalState,
}

/// One thread to be: its stages, and how it is woken.
struct Seat {
    spec: ThreadSpec,
    waiter: Waiter,
    waker: Waker,
}

/// Wakers of the threads that have `stages`, but for the thread `but`, which is awake when it asks.
fn wakers(seats: &[Seat], stages: &[StageName], but: Option<usize>) -> WakeSet {
    let woken = |(index, seat): &(usize, &Seat)| {
        Some(*index) != but && seat.spec.stages.iter().any(|stage| stages.contains(stage))
    };
    WakeSet::new(seats.iter().enumerate().filter(woken).map(|(_, seat)| seat.waker.clone()))
}

/// The stages whose threads have something new when `stage` did work.
fn readers_of(stage: StageName, kind: Kind) -> &'static [StageName] {
    match stage {
        // The ring's own publishing end wakes its readers, and the consensus is no stage.
        StageName::Ticker => &[],
        StageName::Journal if kind == Kind::Member => &[],
        StageName::Journal | StageName::Replicate | StageName::Unmarshal => &[StageName::Logic],
        StageName::Logic => &[StageName::Reports, StageName::Depth, StageName::Metrics],
        // They make room in the output ring.
        StageName::Reports | StageName::Depth | StageName::Metrics => &[StageName::Logic],
    }
}

/// Ends a stage of another crate with the engine, and records the frames that it lets through.
struct Ending<S> {
    stage: S,
    control: Arc<Control>,
    committed: Sequence,
    recorder: Writer,
}

impl<S: Stage> Stage for Ending<S> {
    fn name(&self) -> &'static str {
        self.stage.name()
    }

    fn do_work(&mut self) -> Work {
        if self.control.is_at_least(Course::Abandoned) {
            return Work::Finished;
        }
        match self.stage.do_work() {
            Work::Idle if self.control.is_at_least(Course::Leaving) => Work::Finished,
            Work::Done(frames) => {
                self.committed.0 += frames as u64;
                self.recorder.record(points::COMMITTED, [frames as u64, self.committed.0]);
                Work::Done(frames)
            }
            work => work,
        }
    }
}

/// Whether the engine is the only one, or one of a cluster's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Alone,
    Member,
}

/// What both kinds have: all from the input ring on, but for the two stages that see to it that its frames are safe.
struct Core {
    kind: Kind,
    seats: Vec<Seat>,
    base: Sequence,
    /// Publishes into the input ring.
    ingress: Ingress,
    journal: FramePoller,
    replicate: FramePoller,
    stages: Vec<(StageName, Box<dyn Stage>)>,
    room: Arc<Room>,
    segments: Segments,
    store: SnapshotStore,
    view: EngineView,
    last: FinalState,
}

impl Core {
    fn build(
        config: &EngineConfig,
        opened: Opened,
        egress: Box<dyn Egress>,
        kind: Kind,
    ) -> Result<Self, StartError> {
        if config.tick_interval.is_zero() || config.tick_interval > TICK_INTERVAL_MAX {
            return Err(StartError::TickInterval(config.tick_interval));
        }
        let Opened { exchange, skips, segments, durable, report_log, reports, store, .. } = opened;
        let base = exchange.sequence();
        let seats: Vec<Seat> = config.threads.threads().iter().map(|spec| seat(spec, config)).collect();
        let raw_readers: &[StageName] = match kind {
            Kind::Alone => &[StageName::Journal, StageName::Replicate, StageName::Unmarshal],
            Kind::Member => &[StageName::Replicate, StageName::Unmarshal],
        };
        let InputRing { ingress, journal, replicate, unmarshal, logic } =
            input_ring::<Command>(config.input_slots, wakers(&seats, raw_readers, None))?;
        let (output, [reports_end, depth_end, metrics_end]) = output_ring::<Output, 3>(config.output_slots)?;

        let shared = Arc::new(Shared::at(base, config.recorder.clone()));
        shared.journal.reset_durable(durable);
        let control = Arc::new(Control::new(config.fatal.clone()));
        let events = Arc::new(EventMetrics::default());
        let depth = DepthView::of(&exchange, wakers(&seats, &[StageName::Depth], None));
        let evidence = Arc::new(Evidence::new(segments.storage().clone(), kind == Kind::Member));
        let (last, room) = (FinalState::default(), Arc::new(Room::default()));
        let view = EngineView {
            shared: Arc::clone(&shared),
            control: Arc::clone(&control),
            events: Arc::clone(&events),
            depth: depth.clone(),
            report_log,
            evidence: Arc::clone(&evidence),
            skips: Arc::clone(&skips),
        };

        let parts = || (Arc::clone(&shared), Arc::clone(&control));
        let (s, c) = parts();
        let unmarshal = Unmarshal::new(unmarshal, base, Arc::clone(&skips), s, c);
        let (s, c) = parts();
        let logic = Logic::new(logic, (exchange, skips), output, s, c, evidence, Arc::clone(&last));
        let logic: Box<dyn Stage> = match kind {
            Kind::Alone => Box::new(logic),
            Kind::Member => Box::new(MakingRoom { stage: logic, room: Arc::clone(&room) }),
        };
        let (s, c) = parts();
        let reports = Reports::new(reports_end, reports, egress, s, c);
        let (s, c) = parts();
        let depth = Depth::new(depth_end, depth, s, c);
        let metrics = MetricsStage::new(metrics_end, events, config.clock.clone(), control);
        let stages: Vec<(StageName, Box<dyn Stage>)> = vec![
            (StageName::Unmarshal, Box::new(unmarshal)),
            (StageName::Logic, logic),
            (StageName::Reports, Box::new(reports)),
            (StageName::Depth, Box::new(depth)),
            (StageName::Metrics, Box::new(metrics)),
        ];
        Ok(Self { kind, seats, base, ingress, journal, replicate, stages, room, segments, store, view, last })
    }

    fn parts(&self) -> (Arc<Shared>, Arc<Control>) {
        (Arc::clone(&self.view.shared), Arc::clone(&self.view.control))
    }
}

/// Builds a server alone. The first frame of its ring is a start, so that all connections of before are lost.
pub(crate) fn wire(
    config: &EngineConfig,
    mut opened: Opened,
    egress: Box<dyn Egress>,
) -> Result<Wired, StartError> {
    let journal = opened.journal.take().ok_or(StartError::OpenedFor("a member of a cluster"))?;
    let mut core = Core::build(config, opened, egress, Kind::Alone)?;
    let clock = || config.clock.clone();
    core.ingress.try_publish(own_frame(Body::Start, config.clock.now()).as_bytes())?;
    let (shared, control) = core.parts();
    let sequencer = Sequencer::new(core.replicate, core.base, shared.marks.committed_mark());
    let term = sequencer.term_mark();
    let (s, c) = (Arc::clone(&shared), Arc::clone(&control));
    let journal = JournalStage::new(core.journal, journal, term, clock(), s, c);
    let (committed, recorder) = (core.base, shared.recorder.writer("replicate"));
    let (s, c) = (shared, Arc::clone(&control));
    let ticker = Ticker::new(core.ingress.clone(), Ticks::Alone, clock(), config.tick_interval, s, c);
    core.stages.extend::<[(StageName, Box<dyn Stage>); 3]>([
        (StageName::Journal, Box::new(journal)),
        (StageName::Ticker, Box::new(ticker)),
        (StageName::Replicate, Box::new(Ending { stage: sequencer, control, committed, recorder })),
    ]);
    let house = House::new(core.view.clone(), core.segments, core.store, None);
    let runners = runners(core.seats, core.stages, core.kind);
    Ok(Wired { ingress: core.ingress, runners, view: core.view, house, last: core.last })
}

/// Builds a member of a cluster.
pub(crate) fn wire_member(
    config: &EngineConfig,
    opened: Opened,
    egress: Box<dyn Egress>,
    parts: MemberParts,
) -> Result<(Wired, MemberPorts), StartError> {
    if opened.journal.is_some() {
        return Err(StartError::OpenedFor("a server alone"));
    }
    let MemberParts { lead, retention } = parts;
    let entry_bytes_max = opened.batch_bytes_max;
    let mut core = Core::build(config, opened, egress, Kind::Member)?;
    let lead_changed = wakers(&core.seats, &[StageName::Journal], None);
    let (front, frames) = frame_ring(config.input_slots, lead_changed.clone())?;
    let (sender, proposals) = replicator::proposals(lead_changed.clone());
    let confirmed = ConfirmedCheckpoint::default();
    let clock = || config.clock.clone();
    let (shared, control) = core.parts();
    let ticks = Ticks::Member { lead: lead.clone(), confirmed: confirmed.clone() };
    let proposer = Proposer::new(frames, lead, sender, entry_bytes_max, clock(), Arc::clone(&control));
    let (s, c) = (Arc::clone(&shared), Arc::clone(&control));
    let ticker = Ticker::new(front.clone(), ticks, clock(), config.tick_interval, s, c);
    let ports = MemberPorts {
        feed: Feed::new(core.ingress, core.base, core.room),
        proposals,
        lead_changed,
        confirmed,
        checkpoints: shared.checkpoints.clone(),
        journal: JournalGauges::new(Arc::clone(&shared)),
    };
    let committed = Committed::new(core.journal, core.replicate, core.base, shared, control);
    core.stages.extend::<[(StageName, Box<dyn Stage>); 3]>([
        (StageName::Journal, Box::new(proposer)),
        (StageName::Ticker, Box::new(ticker)),
        (StageName::Replicate, Box::new(committed)),
    ]);
    let house = House::new(core.view.clone(), core.segments, core.store, Some(retention));
    let runners = runners(core.seats, core.stages, core.kind);
    Ok((Wired { ingress: front, runners, view: core.view, house, last: core.last }, ports))
}

fn seat(spec: &ThreadSpec, config: &EngineConfig) -> Seat {
    let waiter = Waiter::new(config.wait);
    let waker = waiter.waker();
    Seat { spec: spec.clone(), waiter, waker }
}

/// Puts each stage on its thread, in the order of the plan.
fn runners(seats: Vec<Seat>, stages: Vec<(StageName, Box<dyn Stage>)>, kind: Kind) -> Vec<Runner> {
    let mut wakes = Vec::new();
    for (index, seat) in seats.iter().enumerate() {
        for stage in &seat.spec.stages {
            wakes.push((*stage, wakers(&seats, readers_of(*stage, kind), Some(index))));
        }
    }
    let mut stages: Vec<_> = stages.into_iter().map(|(name, stage)| (name, Some(stage))).collect();
    let mut runners = Vec::new();
    for seat in seats {
        let mut runner = Runner::new(thread_name(&seat.spec, kind), seat.waiter);
        if let Some(core) = seat.spec.core {
            runner = runner.pin_to(core);
        }
        for name in &seat.spec.stages {
            let stage =
                stages.iter_mut().find(|(other, _)| other == name).and_then(|(_, stage)| stage.take());
            let wake = wakes.iter().find(|(other, _)| other == name).map(|(_, wake)| wake.clone());
            // A checked plan names each stage once.
            if let Some(stage) = stage {
                runner.add(stage, wake.unwrap_or_default());
            }
        }
        runners.push(runner);
    }
    runners
}

/// The name of a thread's weightiest stage: the system shows 15 characters. A member has another thread that journals.
fn thread_name(spec: &ThreadSpec, kind: Kind) -> &'static str {
    let weighty = [StageName::Logic, StageName::Journal, StageName::Reports];
    let name = weighty.into_iter().find(|stage| spec.stages.contains(stage));
    match (name.or(spec.stages.first().copied()), kind) {
        (Some(StageName::Journal), Kind::Member) => "proposer",
        (name, _) => name.map_or("idle", StageName::name),
    }
}

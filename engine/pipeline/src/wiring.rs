//! Rings, stages and threads put together.
//!
//! ```text
//!  gateways                +--> JournalStage ---- marks.journaled ---+
//!  Ticker --> input ring --+--> Sequencer ------- marks.committed ---+--> Logic --> output ring --+--> Reports --> report log, Egress
//!  (Start)                 +--> Unmarshal ------- decoded cells -----+      |                     +--> Depth ----> DepthView
//!     ^                                                                     |                     +--> MetricsStage --> EventMetrics
//!     +-------------------------- LogicState (checkpoint, deadline) --------+
//!
//!  wake-ups: Ingress -> {journal, replicate, unmarshal} -> logic -> {reports, depth, metrics} -> logic (room again)
//!  background threads, of low priority: housekeeping (report log's fsync, pruning), snapshots (replay)
//! ```
//!
//! Which stages share a thread is the plan's; this file must hold no stage's work.

use std::sync::Arc;

use protocol::{Body, Command, Egress, Output};
use replicator::Sequencer;
use ring::{Ingress, Runner, Stage, Waiter, WakeSet, Waker, Work, input_ring, output_ring};

use crate::background::House;
use crate::config::{EngineConfig, TICK_INTERVAL_MAX};
use crate::control::{Control, Course};
use crate::engine::StartError;
use crate::marks::Shared;
use crate::output::{Depth, DepthView, EventMetrics, MetricsStage, Reports};
use crate::recovery::Opened;
use crate::stages::{FinalState, JournalStage, Logic, Ticker, Unmarshal};
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
fn readers_of(stage: StageName) -> &'static [StageName] {
    match stage {
        // The ring's own publishing end wakes its readers.
        StageName::Ticker => &[],
        StageName::Journal | StageName::Replicate | StageName::Unmarshal => &[StageName::Logic],
        StageName::Logic => &[StageName::Reports, StageName::Depth, StageName::Metrics],
        // They make room in the output ring.
        StageName::Reports | StageName::Depth | StageName::Metrics => &[StageName::Logic],
    }
}

/// Ends a stage of another crate with the engine.
struct Ending<S> {
    stage: S,
    control: Arc<Control>,
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
            work => work,
        }
    }
}

/// Builds the engine. The first frame of its ring is a start, so that all connections of before are lost.
pub(crate) fn wire(
    config: &EngineConfig,
    opened: Opened,
    egress: Box<dyn Egress>,
) -> Result<Wired, StartError> {
    if config.tick_interval.is_zero() || config.tick_interval > TICK_INTERVAL_MAX {
        return Err(StartError::TickInterval(config.tick_interval));
    }
    let Opened { exchange, journal, report_log, reports, store, .. } = opened;
    let base = exchange.sequence();
    let seats: Vec<Seat> = config.threads.threads().iter().map(|spec| seat(spec, config)).collect();
    let raw_readers = [StageName::Journal, StageName::Replicate, StageName::Unmarshal];
    let mut input = input_ring::<Command>(config.input_slots, wakers(&seats, &raw_readers, None))?;
    let (output, [reports_end, depth_end, metrics_end]) = output_ring::<Output, 3>(config.output_slots)?;

    let shared = Arc::new(Shared::at(base));
    let control = Arc::new(Control::new(config.fatal.clone()));
    let events = Arc::new(EventMetrics::default());
    let depth = DepthView::of(&exchange, wakers(&seats, &[StageName::Depth], None));
    let last = FinalState::default();
    let view = EngineView {
        shared: Arc::clone(&shared),
        control: Arc::clone(&control),
        events: Arc::clone(&events),
        depth: depth.clone(),
        report_log,
    };
    let house = House::new(view.clone(), journal.segments(), store);

    let clock = || config.clock.clone();
    let parts = || (Arc::clone(&shared), Arc::clone(&control));
    Ticker::publish_own(&mut input.ingress, Body::Start, config.clock.now())?;
    let sequencer = Sequencer::new(input.replicate, base, shared.marks.committed_mark());
    let term = sequencer.term_mark();
    let (s, c) = parts();
    let ticker = Ticker::new(input.ingress.clone(), clock(), config.tick_interval, s, c);
    let (s, c) = parts();
    let journal = JournalStage::new(input.journal, journal, term, clock(), s, c);
    let (s, c) = parts();
    let unmarshal = Unmarshal::new(input.unmarshal, base, s, c);
    let (s, c) = parts();
    let logic = Logic::new(input.logic, exchange, output, s, c, Arc::clone(&last));
    let (s, c) = parts();
    let reports = Reports::new(reports_end, reports, egress, s, c);
    let (s, c) = parts();
    let depth = Depth::new(depth_end, depth, s, c);
    let metrics = MetricsStage::new(metrics_end, events, clock(), Arc::clone(&control));
    let stages: Vec<(StageName, Box<dyn Stage>)> = vec![
        (StageName::Journal, Box::new(journal)),
        (StageName::Ticker, Box::new(ticker)),
        (StageName::Replicate, Box::new(Ending { stage: sequencer, control })),
        (StageName::Unmarshal, Box::new(unmarshal)),
        (StageName::Logic, Box::new(logic)),
        (StageName::Reports, Box::new(reports)),
        (StageName::Depth, Box::new(depth)),
        (StageName::Metrics, Box::new(metrics)),
    ];
    Ok(Wired { ingress: input.ingress, runners: runners(seats, stages), view, house, last })
}

fn seat(spec: &ThreadSpec, config: &EngineConfig) -> Seat {
    let waiter = Waiter::new(config.wait);
    let waker = waiter.waker();
    Seat { spec: spec.clone(), waiter, waker }
}

/// Puts each stage on its thread, in the order of the plan.
fn runners(seats: Vec<Seat>, stages: Vec<(StageName, Box<dyn Stage>)>) -> Vec<Runner> {
    let mut wakes = Vec::new();
    for (index, seat) in seats.iter().enumerate() {
        for stage in &seat.spec.stages {
            wakes.push((*stage, wakers(&seats, readers_of(*stage), Some(index))));
        }
    }
    let mut stages: Vec<_> = stages.into_iter().map(|(name, stage)| (name, Some(stage))).collect();
    let mut runners = Vec::new();
    for seat in seats {
        let mut runner = Runner::new(thread_name(&seat.spec), seat.waiter);
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

/// The name of a thread's weightiest stage: the system shows 15 characters.
fn thread_name(spec: &ThreadSpec) -> &'static str {
    let weighty = [StageName::Logic, StageName::Journal, StageName::Reports];
    let name = weighty.into_iter().find(|stage| spec.stages.contains(stage));
    name.or(spec.stages.first().copied()).map_or("idle", StageName::name)
}

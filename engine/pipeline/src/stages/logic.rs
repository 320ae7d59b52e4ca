//! The business logic stage: applies commands to the exchange and hands its events to the output ring. It must not see
//! a frame that is not journaled, committed and decoded, wait for anything, or take a command while events of the one
//! before have no room.

use std::sync::{Arc, Mutex, PoisonError};

use exchange::{EventSink, Exchange};
use protocol::{Checkpoint, Command, Event, Output, Sequence};
use ring::{DecodedBatch, LogicPoller, OutputPublisher, Polled, Stage, Work};

use crate::checkpoints::Checkpoints;
use crate::control::{Control, Course};
use crate::evidence::{Contradiction, Evidence};
use crate::marks::{Gauges, LogicState, Shared};

/// Most commands of one step: as many as unmarshal decodes in one, so that on one thread they are still in the cache.
const STEP_COMMANDS_MAX: usize = 1024;
/// How many commands ahead of the one being applied the exchange is told what to fetch.
const LOOK_AHEAD: usize = 4;
/// Events that are handed to the ring at once; also what may be staged beyond the events of one command.
const CHUNK_EVENTS: usize = 256;
/// Events that the staging keeps room for after a command that emitted more.
const STAGED_EVENTS_KEPT: usize = 16 * 1024;

/// Where the stage leaves the exchange when it has finished.
pub(crate) type FinalState = Arc<Mutex<Option<Exchange>>>;

/// Events on their way into the output ring. What the ring has no room for stays here: at most what one command emits
/// and a chunk, since no command is taken meanwhile.
struct Outbox {
    ring: OutputPublisher<Output>,
    staged: Vec<Output>,
    /// How many of the staged are in the ring.
    sent: usize,
    /// Number of staged events at which they are next offered to the ring.
    offer_at: usize,
    checkpoints: Checkpoints,
    /// How many checkpoints there were.
    checkpoint_count: u64,
}

impl Outbox {
    fn new(ring: OutputPublisher<Output>, checkpoints: Checkpoints, last: Option<Checkpoint>) -> Self {
        let staged = Vec::with_capacity(2 * CHUNK_EVENTS);
        let mut outbox =
            Self { ring, staged, sent: 0, offer_at: CHUNK_EVENTS, checkpoints, checkpoint_count: 0 };
        last.into_iter().for_each(|checkpoint| outbox.keep(checkpoint));
        outbox
    }

    fn keep(&mut self, checkpoint: Checkpoint) {
        self.checkpoints.push(self.checkpoint_count, checkpoint);
        self.checkpoint_count += 1;
    }

    /// Hands over what the ring has room for, and says how many events those were.
    fn offer(&mut self) -> usize {
        let waiting = self.staged.get(self.sent..).unwrap_or_default();
        let taken = self.ring.publish_some(waiting);
        self.sent += taken;
        if self.sent == self.staged.len() {
            self.staged.clear();
            self.staged.shrink_to(STAGED_EVENTS_KEPT);
            self.sent = 0;
        }
        self.offer_at = self.staged.len() + CHUNK_EVENTS;
        taken
    }

    fn is_empty(&self) -> bool {
        self.staged.is_empty()
    }
}

impl EventSink for Outbox {
    #[inline]
    fn emit(&mut self, output: Output) {
        if let Event::Checkpoint(checkpoint) = output.event {
            self.keep(checkpoint);
        }
        self.staged.push(output);
        if self.staged.len() >= self.offer_at {
            self.offer();
        }
    }
}

pub(crate) struct Logic {
    poller: LogicPoller<Command>,
    exchange: Option<Exchange>,
    outbox: Outbox,
    /// Last frame applied.
    applied: Sequence,
    told: LogicState,
    shared: Arc<Shared>,
    control: Arc<Control>,
    evidence: Arc<Evidence>,
    last: FinalState,
}

impl Logic {
    /// A stage that goes on from where `exchange` is. `last` gets the exchange back at the end.
    pub(crate) fn new(
        poller: LogicPoller<Command>,
        exchange: Exchange,
        ring: OutputPublisher<Output>,
        shared: Arc<Shared>,
        control: Arc<Control>,
        evidence: Arc<Evidence>,
        last: FinalState,
    ) -> Self {
        let told = LogicState {
            checkpoint: exchange.checkpoint(),
            deadline: exchange.next_deadline(),
            gauges: Gauges::of(&exchange),
        };
        shared.logic.store(told);
        let applied = exchange.sequence();
        let outbox = Outbox::new(ring, shared.checkpoints.clone(), exchange.checkpoint());
        Self { poller, exchange: Some(exchange), outbox, applied, told, shared, control, evidence, last }
    }

    fn finish(&mut self) -> Work {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = self.exchange.take();
        Work::Finished
    }

    /// Tells the ticker when the exchange has something new for it.
    fn tell(told: &mut LogicState, exchange: &Exchange, shared: &Shared) {
        let (checkpoint, deadline) = (exchange.checkpoint(), exchange.next_deadline());
        if (told.checkpoint, told.deadline) != (checkpoint, deadline) {
            *told = LogicState { checkpoint, deadline, gauges: Gauges::of(exchange) };
            shared.logic.store(*told);
        }
    }
}

/// Applies the commands of a batch until the output ring is full, the rules of one are unknown, or the engine is ended;
/// says how many.
fn apply(
    exchange: &mut Exchange,
    outbox: &mut Outbox,
    batch: &DecodedBatch<'_, Command>,
    control: &Control,
) -> usize {
    for index in 0..batch.len() {
        if control.is_at_least(Course::Abandoned) {
            return index;
        }
        if let Some(ahead) = batch.get(index + LOOK_AHEAD) {
            exchange.prefetch(ahead);
        }
        let Some(command) = batch.get(index) else { return index };
        exchange.apply(command, outbox);
        if exchange.unknown_rulebook().is_some() {
            return index;
        }
        // An offer that found the ring full leaves more than a chunk behind.
        if outbox.staged.len() >= CHUNK_EVENTS {
            outbox.offer();
            if !outbox.is_empty() {
                return index + 1;
            }
        }
    }
    batch.len()
}

impl Stage for Logic {
    fn name(&self) -> &'static str {
        "logic"
    }

    fn do_work(&mut self) -> Work {
        if self.control.is_at_least(Course::Abandoned) {
            return self.finish();
        }
        if !self.outbox.is_empty() {
            let sent = self.outbox.offer();
            if !self.outbox.is_empty() {
                return if sent > 0 { Work::Done(sent) } else { Work::Idle };
            }
            self.shared.marks.advance_published(self.applied);
        }
        let Self { poller, exchange, outbox, applied, told, shared, control, evidence, .. } = self;
        let Some(exchange) = exchange.as_mut() else { return Work::Finished };
        let polled = poller.poll(STEP_COMMANDS_MAX, |batch| {
            // Promise 1: nothing reaches the logic that is not durable and committed.
            let offered = applied.0 + batch.len() as u64;
            let marks = &shared.marks;
            let safe = marks.journaled_sequence().min(marks.committed_sequence());
            assert!(
                offered <= safe.0,
                "the logic was offered {offered}, only {safe} is journaled and committed"
            );
            let taken = apply(exchange, outbox, batch, control);
            applied.0 += taken as u64;
            assert_eq!(*applied, exchange.sequence(), "the exchange counts other frames than the ring");
            taken
        });
        if let Some(unknown) = exchange.unknown_rulebook() {
            control.fail(&unknown);
            return self.finish();
        }
        match polled {
            Polled::Work(commands) => {
                shared.marks.advance_applied(*applied);
                if let Some(divergence) = exchange.divergence() {
                    let contradiction = Contradiction {
                        sequence: divergence.sequence,
                        own: Some(divergence.computed_hash),
                        expected: divergence.logged_hash,
                        by: "the log",
                    };
                    evidence.end(control, &shared.checkpoints, &contradiction);
                    return self.finish();
                }
                Self::tell(told, exchange, shared);
                outbox.offer();
                if outbox.is_empty() {
                    shared.marks.advance_published(*applied);
                }
                Work::Done(commands)
            }
            Polled::Idle if control.is_at_least(Course::Leaving) => self.finish(),
            Polled::Idle => Work::Idle,
            Polled::Shutdown => self.finish(),
        }
    }
}

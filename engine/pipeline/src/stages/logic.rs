//! The business logic stage: applies commands to the exchange and hands its events to the output ring. It must not see
//! a frame that is not journaled, committed and decoded, wait for anything, take a command while events of the one before
//! have no room, or let an event out before its command is applied whole: a breach in the middle leaves no trace of it.

use std::sync::{Arc, Mutex, PoisonError};

use exchange::{EventSink, Exchange};
use journaler::{Skip, Skips};
use protocol::{Checkpoint, Command, Event, Output, Sequence, in_work};
use recorder::{Writer, stages as points};
use ring::{DecodedBatch, LogicPoller, OutputPublisher, Polled, Stage, Work};

use crate::checkpoints::Checkpoints;
use crate::control::{Control, Course};
use crate::evidence::{Contradiction, Evidence};
use crate::marks::{Gauges, LogicState, Shared};

/// Most commands of one step: as many as unmarshal decodes in one, so that on one thread they are still in the cache.
const STEP_COMMANDS_MAX: usize = 1024;
/// How many commands ahead of the one being applied the exchange is told what to fetch.
const LOOK_AHEAD: usize = 4;
/// Events from which on they are published, between two commands: few enough to be in the cache when they are read.
const CHUNK_EVENTS: usize = 256;
/// Events that the overflow keeps room for after a command that filled the ring.
const OVERFLOW_EVENTS_KEPT: usize = 16 * 1024;

/// Where the stage leaves the exchange when it has finished.
pub(crate) type FinalState = Arc<Mutex<Option<Exchange>>>;

/// Events on their way out. They are written straight into the output ring, whose readers see them when the command is
/// applied whole. What the ring has no room for waits here: at most what one command emits, since no command is taken
/// meanwhile.
struct Outbox {
    ring: OutputPublisher<Output>,
    /// How many events are in the ring that its readers don't see yet.
    hidden: usize,
    overflow: Vec<Output>,
    /// How many of the overflow are in the ring.
    sent: usize,
    checkpoints: Checkpoints,
    /// How many checkpoints there were.
    checkpoint_count: u64,
}

impl Outbox {
    fn new(ring: OutputPublisher<Output>, checkpoints: Checkpoints, last: Option<Checkpoint>) -> Self {
        let mut outbox =
            Self { ring, hidden: 0, overflow: Vec::new(), sent: 0, checkpoints, checkpoint_count: 0 };
        last.into_iter().for_each(|checkpoint| outbox.keep(checkpoint));
        outbox
    }

    fn keep(&mut self, checkpoint: Checkpoint) {
        self.checkpoints.push(self.checkpoint_count, checkpoint);
        self.checkpoint_count += 1;
    }

    /// Shows the ring's readers all that is in it, adds what there is room for, and says how many events of the overflow
    /// that was. Only between two commands.
    fn offer(&mut self) -> usize {
        self.ring.flush();
        self.hidden = 0;
        if self.overflow.is_empty() {
            return 0;
        }
        let taken = self.ring.publish_some(self.overflow.get(self.sent..).unwrap_or_default());
        self.sent += taken;
        if self.sent == self.overflow.len() {
            self.overflow.clear();
            self.overflow.shrink_to(OVERFLOW_EVENTS_KEPT);
            self.sent = 0;
        }
        taken
    }

    /// Whether no event waits for room in the ring.
    fn is_empty(&self) -> bool {
        self.overflow.is_empty()
    }
}

impl EventSink for Outbox {
    #[inline]
    fn emit(&mut self, output: Output) {
        if let Event::Checkpoint(checkpoint) = output.event {
            self.keep(checkpoint);
        }
        if self.overflow.is_empty() && self.ring.push(output).is_ok() {
            self.hidden += 1;
        } else {
            self.overflow.push(output);
        }
    }
}

pub(crate) struct Logic {
    poller: LogicPoller<Command>,
    exchange: Option<Exchange>,
    outbox: Outbox,
    /// Last frame applied.
    applied: Sequence,
    /// What must not be applied. That these are the frames that were meant, unmarshal has checked.
    skips: Arc<Skips>,
    told: LogicState,
    recorder: Writer,
    shared: Arc<Shared>,
    control: Arc<Control>,
    evidence: Arc<Evidence>,
    last: FinalState,
}

impl Logic {
    /// A stage that goes on from where `exchange` is. `last` gets the exchange back at the end.
    pub(crate) fn new(
        poller: LogicPoller<Command>,
        (exchange, skips): (Exchange, Arc<Skips>),
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
        let recorder = shared.recorder.writer("logic");
        let outbox = Outbox::new(ring, shared.checkpoints.clone(), exchange.checkpoint());
        Self {
            poller,
            exchange: Some(exchange),
            outbox,
            applied,
            skips,
            told,
            recorder,
            shared,
            control,
            evidence,
            last,
        }
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
    skips: &Skips,
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
        let sequence = exchange.sequence().next();
        match skips.at(sequence) {
            None => in_work::applying(sequence, command, || exchange.apply(command, outbox)),
            Some(skip) => pass_over(exchange, command, skip, outbox),
        }
        if exchange.unknown_rulebook().is_some() {
            return index;
        }
        // What an offer that found the ring full leaves behind ends the batch.
        if outbox.hidden >= CHUNK_EVENTS || !outbox.is_empty() {
            outbox.offer();
            if !outbox.is_empty() {
                return index + 1;
            }
        }
    }
    batch.len()
}

#[cold]
fn pass_over(exchange: &mut Exchange, command: &Command, skip: &Skip, outbox: &mut Outbox) {
    let Skip { sequence, frame_hash, who, why, .. } = skip;
    tracing::warn!(sequence = sequence.0, who, why, "frame passed over, as its operators ordered");
    exchange.skip(command, frame_hash.0, outbox);
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
        let Self {
            poller, exchange, outbox, applied, skips, told, recorder, shared, control, evidence, ..
        } = self;
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
            let taken = apply(exchange, outbox, batch, skips, control);
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
                recorder.record(points::APPLIED, [commands as u64, applied.0]);
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

#[cfg(test)]
mod tests {
    use protocol::{Timestamp, TradingDay};
    use ring::{Polled, output_ring};

    use super::*;

    #[test]
    fn nothing_of_a_command_leaves_before_it_is_applied_whole() {
        const SLOTS: usize = 16 * CHUNK_EVENTS;
        // More than the ring has room for, so that some wait.
        const EVENTS: usize = SLOTS + 3 * CHUNK_EVENTS;
        let (ring, [mut reader]) = output_ring::<Output, 1>(SLOTS).unwrap();
        let mut outbox = Outbox::new(ring, Checkpoints::default(), None);
        let (sequence, log_time) = (Sequence(1), Timestamp(1));
        for day in 0..EVENTS {
            let event = Event::DayStarted(TradingDay(day as u32));
            outbox.emit(Output { sequence, log_time, event });
            assert_eq!(reader.poll(usize::MAX, |_, _| ()), Polled::Idle, "event {day} has left");
        }
        let mut days = Vec::new();
        let mut read = |days: &mut Vec<u32>| {
            reader.poll(usize::MAX, |output, _| match output.event {
                Event::DayStarted(day) => days.push(day.0),
                event => panic!("{event:?}"),
            })
        };
        assert_eq!(outbox.offer(), 0, "the ring is full");
        assert_eq!(read(&mut days), Polled::Work(SLOTS));
        assert_eq!(outbox.offer(), EVENTS - SLOTS);
        assert!(outbox.is_empty());
        assert_eq!(read(&mut days), Polled::Work(EVENTS - SLOTS));
        assert!(days.iter().copied().eq(0..EVENTS as u32), "each event once, in order");
    }
}

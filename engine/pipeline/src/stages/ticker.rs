//! The ticker: publishes the frames by which log time moves. It must not wait: on a full ring it tries again at the
//! next step.

use std::sync::Arc;
use std::time::Duration;

use protocol::{Body, Checkpoint, Tick, Timestamp};
use recorder::{Writer, stages as points};
use replicator::Lead;
use ring::{Ingress, PublishError, Stage, Work};

use super::own_frame;
use crate::checkpoints::ConfirmedCheckpoint;
use crate::clock::Clock;
use crate::control::{Control, Course};
use crate::marks::{LogicState, Shared};

/// When ticks are published, and which running hash they carry.
pub(crate) enum Ticks {
    /// By a server alone: always; that at the last tick that the logic has applied.
    Alone,
    /// By a member: while what it publishes is proposed; the newest that a majority agrees on.
    Member { lead: Lead, confirmed: ConfirmedCheckpoint },
}

/// Publishes a tick when the exchange's next deadline is due, and at least once an interval.
pub(crate) struct Ticker {
    ingress: Ingress,
    ticks: Ticks,
    clock: Clock,
    interval: Duration,
    last: Timestamp,
    /// The deadline that the last tick was for. The exchange shows it until that tick is applied. Where the tick is dropped
    /// with its term, the start of the next one moves log time past the deadline.
    served: Option<Timestamp>,
    recorder: Writer,
    shared: Arc<Shared>,
    control: Arc<Control>,
}

impl Ticker {
    pub(crate) fn new(
        ingress: Ingress,
        ticks: Ticks,
        clock: Clock,
        interval: Duration,
        shared: Arc<Shared>,
        control: Arc<Control>,
    ) -> Self {
        let last = clock.now();
        let recorder = shared.recorder.writer("ticker");
        Self { ingress, ticks, clock, interval, last, served: None, recorder, shared, control }
    }

    /// What a tick would carry; `None` if none may be published.
    fn checkpoint(&self, logic: &LogicState) -> Option<Option<Checkpoint>> {
        match &self.ticks {
            Ticks::Alone => Some(logic.checkpoint),
            Ticks::Member { lead, confirmed } => lead.open_term().map(|_| confirmed.get()),
        }
    }
}

impl Stage for Ticker {
    fn name(&self) -> &'static str {
        "ticker"
    }

    fn do_work(&mut self) -> Work {
        if self.control.is_at_least(Course::Stopping) {
            return Work::Finished;
        }
        let now = self.clock.now();
        let logic = self.shared.logic.load();
        let Some(checkpoint) = self.checkpoint(&logic) else { return Work::Idle };
        let due = logic.deadline.filter(|deadline| *deadline <= now && self.served != Some(*deadline));
        let since_last = Duration::from_nanos(now.0.saturating_sub(self.last.0));
        if due.is_none() && since_last < self.interval {
            return Work::Idle;
        }
        let (checkpoint_sequence, checkpoint_hash) =
            checkpoint.map(|at| (at.sequence, at.running_hash)).unwrap_or_default();
        let tick = Body::Tick(Tick { checkpoint_sequence, checkpoint_hash });
        let began = self.recorder.ticks();
        match self.ingress.try_publish(own_frame(tick, now).as_bytes()) {
            Ok(()) => {
                let claim = self.ingress.claimed();
                self.recorder.record_at(began, points::TICKED, [1, claim.slots, claim.last]);
                self.last = now;
                self.served = logic.deadline.filter(|deadline| *deadline <= now);
                Work::Done(1)
            }
            Err(PublishError::Full(_)) => Work::Idle,
            Err(error) => unreachable!("a tick is one slot: {error}"),
        }
    }
}

//! The ticker: publishes the frames by which log time moves. It must not wait: on a full ring it tries again at the
//! next step.

use std::sync::Arc;
use std::time::Duration;

use protocol::{Body, Command, SessionId, Tick, Timestamp};
use ring::{Ingress, PublishError, Stage, Work};

use crate::clock::Clock;
use crate::control::{Control, Course};
use crate::marks::Shared;

/// Publishes a tick when the exchange's next deadline is due, and at least once an interval. Each carries the running
/// hash at the last tick that the logic has applied.
pub(crate) struct Ticker {
    ingress: Ingress,
    clock: Clock,
    interval: Duration,
    last: Timestamp,
    /// The deadline that the last tick was for. The exchange shows it until that tick is applied.
    served: Option<Timestamp>,
    shared: Arc<Shared>,
    control: Arc<Control>,
}

impl Ticker {
    pub(crate) fn new(
        ingress: Ingress,
        clock: Clock,
        interval: Duration,
        shared: Arc<Shared>,
        control: Arc<Control>,
    ) -> Self {
        let last = clock.now();
        Self { ingress, clock, interval, last, served: None, shared, control }
    }

    /// A frame of the server's own.
    pub(crate) fn publish_own(
        ingress: &mut Ingress,
        body: Body,
        timestamp: Timestamp,
    ) -> Result<(), PublishError> {
        let command = Command { session: SessionId::SYSTEM, timestamp, body, ..Command::default() };
        let Some(frame) = command.encode() else { unreachable!("starts and ticks have a frame") };
        ingress.try_publish(frame.as_bytes())
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
        let due = logic.deadline.filter(|deadline| *deadline <= now && self.served != Some(*deadline));
        let since_last = Duration::from_nanos(now.0.saturating_sub(self.last.0));
        if due.is_none() && since_last < self.interval {
            return Work::Idle;
        }
        let (checkpoint_sequence, checkpoint_hash) =
            logic.checkpoint.map(|at| (at.sequence, at.running_hash)).unwrap_or_default();
        let tick = Body::Tick(Tick { checkpoint_sequence, checkpoint_hash });
        match Self::publish_own(&mut self.ingress, tick, now) {
            Ok(()) => {
                self.last = now;
                self.served = logic.deadline.filter(|deadline| *deadline <= now);
                Work::Done(1)
            }
            Err(PublishError::Full(_)) => Work::Idle,
            Err(error) => unreachable!("a tick is one slot: {error}"),
        }
    }
}

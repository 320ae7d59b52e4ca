//! The metrics stage: counts what comes out of the engine, and logs margin calls, which no session is told of. It must not
//! take part in anything else.

use std::array;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use protocol::{Event, MarginCall, Output, RejectReason, Sequence, Timestamp};
use ring::{OutputPoller, Polled, Stage, Work};

use super::STEP_EVENTS_MAX;
use crate::clock::Clock;
use crate::control::{Control, Course};
use crate::histogram::Histogram;

/// Names of the kinds of events, by number.
const KINDS: [&str; 33] = [
    "named",
    "accepted",
    "rejected",
    "executed",
    "canceled",
    "replaced",
    "restated",
    "expired",
    "order_status",
    "mass_canceled",
    "admin_done",
    "added",
    "reduced",
    "trade",
    "phase_changed",
    "instrument_defined",
    "user_defined",
    "logged_in",
    "login_refused",
    "connection_ended",
    "day_started",
    "triggered",
    "mass_quoted",
    "settled",
    "trade_revised",
    "balance",
    "position",
    "instrument_state",
    "configured",
    "indicative",
    "margin_call",
    "skipped",
    "participant_set",
];
/// The kind without a place in `KINDS`: checkpoints are the engine's own.
const CHECKPOINT: usize = KINDS.len();

/// Margin calls of one frame that are logged one by one: a mark price may call a million accounts.
const CALLS_LOGGED_MAX: u32 = 100;

/// Room for every byte that a reject reason can have.
const REASONS: usize = 128;
const _: () = {
    let mut place = 0;
    while place < RejectReason::ALL.len() {
        assert!((RejectReason::ALL[place] as usize) < REASONS);
        place += 1;
    }
};

fn kind(event: &Event) -> usize {
    match event {
        Event::Named(_) => 0,
        Event::Accepted(_) => 1,
        Event::Rejected(_) => 2,
        Event::Executed(_) => 3,
        Event::Canceled(_) => 4,
        Event::Replaced(_) => 5,
        Event::Restated(_) => 6,
        Event::Expired(_) => 7,
        Event::OrderStatus(_) => 8,
        Event::MassCanceled(_) => 9,
        Event::AdminDone(_) => 10,
        Event::Added(_) => 11,
        Event::Reduced(_) => 12,
        Event::Trade(_) => 13,
        Event::PhaseChanged(..) => 14,
        Event::InstrumentDefined(_) => 15,
        Event::UserDefined(_) => 16,
        Event::LoggedIn(_) => 17,
        Event::LoginRefused(_) => 18,
        Event::ConnectionEnded(..) => 19,
        Event::DayStarted(_) => 20,
        Event::Triggered(_) => 21,
        Event::MassQuoted(_) => 22,
        Event::Settled(_) => 23,
        Event::TradeRevised(_) => 24,
        Event::Balance(_) => 25,
        Event::Position(_) => 26,
        Event::InstrumentState(_) => 27,
        Event::Configured(_) => 28,
        Event::Indicative(_) => 29,
        Event::MarginCall(_) => 30,
        Event::Skipped(_) => 31,
        Event::ParticipantSet(..) => 32,
        Event::Checkpoint(_) => CHECKPOINT,
    }
}

/// Counts of what came out of the engine since it started. Written by the metrics stage.
#[derive(Debug)]
pub struct EventMetrics {
    // Relaxed throughout: each is a number of its own, and a reader takes them as of about now.
    kinds: [AtomicU64; CHECKPOINT + 1],
    reasons: [AtomicU64; REASONS],
    log_time: AtomicU64,
    /// Nanoseconds from the gateway's stamp of a frame to the sight of its first event behind the output ring.
    pub latency_ns: Histogram,
}

impl Default for EventMetrics {
    fn default() -> Self {
        Self {
            kinds: array::from_fn(|_| AtomicU64::new(0)),
            reasons: array::from_fn(|_| AtomicU64::new(0)),
            log_time: AtomicU64::new(0),
            latency_ns: Histogram::default(),
        }
    }
}

impl EventMetrics {
    /// Events by kind.
    pub fn events(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        KINDS.iter().zip(&self.kinds).map(|(name, count)| (*name, count.load(Ordering::Relaxed)))
    }

    /// Rejects by reason.
    pub fn rejects(&self) -> impl Iterator<Item = (RejectReason, u64)> + '_ {
        RejectReason::ALL.iter().map(|reason| {
            let count = self.reasons.get(usize::from(reason.to_byte()));
            (*reason, count.map_or(0, |count| count.load(Ordering::Relaxed)))
        })
    }

    /// Log time of the last event.
    #[must_use]
    pub fn log_time(&self) -> Timestamp {
        Timestamp(self.log_time.load(Ordering::Relaxed))
    }

    /// Adds what a step counted, and clears it.
    fn add(&self, counts: &mut Counts) {
        let totals = self.kinds.iter().zip(&mut counts.kinds);
        let reasons = self.reasons.iter().zip(&mut counts.reasons);
        for (total, count) in totals.chain(reasons).filter(|(_, count)| **count > 0) {
            // One writer: a plain store does.
            total.store(total.load(Ordering::Relaxed) + u64::from(*count), Ordering::Relaxed);
            *count = 0;
        }
    }
}

/// What one step saw.
struct Counts {
    kinds: [u32; CHECKPOINT + 1],
    reasons: [u32; REASONS],
}

/// Keeps [`EventMetrics`].
pub(crate) struct MetricsStage {
    poller: OutputPoller<Output>,
    metrics: Arc<EventMetrics>,
    counts: Counts,
    calls: CallLog,
    /// The last frame seen.
    sequence: Sequence,
    clock: Clock,
    control: Arc<Control>,
}

/// The margin calls of a frame, as they go into the log.
#[derive(Debug, Default)]
struct CallLog {
    sequence: Sequence,
    calls: u32,
}

impl CallLog {
    fn take(&mut self, sequence: Sequence, call: &MarginCall) {
        if sequence != self.sequence {
            *self = Self { sequence, calls: 0 };
        }
        self.calls += 1;
        if self.calls <= CALLS_LOGGED_MAX {
            tracing::warn!(
                account = call.account.0,
                currency = %call.currency,
                equity = %call.equity,
                maintenance = %call.maintenance,
                "an account is below its maintenance margin"
            );
        } else if self.calls == CALLS_LOGGED_MAX + 1 {
            tracing::warn!(
                "more accounts are below their maintenance margin: `ringpit ctl account` shows each"
            );
        }
    }
}

impl MetricsStage {
    pub(crate) fn new(
        poller: OutputPoller<Output>,
        metrics: Arc<EventMetrics>,
        clock: Clock,
        control: Arc<Control>,
    ) -> Self {
        let counts = Counts { kinds: [0; CHECKPOINT + 1], reasons: [0; REASONS] };
        Self { poller, metrics, counts, calls: CallLog::default(), sequence: Sequence(0), clock, control }
    }
}

impl Stage for MetricsStage {
    fn name(&self) -> &'static str {
        "metrics"
    }

    fn do_work(&mut self) -> Work {
        if self.control.is_at_least(Course::Abandoned) {
            return Work::Finished;
        }
        let Self { poller, metrics, counts, calls, sequence, clock, .. } = self;
        // One reading a step: what a step takes is too short to matter.
        let mut now = None;
        let polled = poller.poll(STEP_EVENTS_MAX, |output, last| {
            if let Some(count) = counts.kinds.get_mut(kind(&output.event)) {
                *count += 1;
            }
            if let Event::Rejected(rejected) = &output.event
                && let Some(count) = counts.reasons.get_mut(usize::from(rejected.reason.to_byte()))
            {
                *count += 1;
            }
            if let Event::MarginCall(call) = &output.event {
                calls.take(output.sequence, call);
            }
            if output.sequence != *sequence {
                *sequence = output.sequence;
                let now = now.get_or_insert_with(|| clock.now());
                metrics.latency_ns.record(now.0.saturating_sub(output.log_time.0), 1);
            }
            if last {
                metrics.log_time.store(output.log_time.0, Ordering::Relaxed);
            }
        });
        match polled {
            Polled::Work(events) => {
                metrics.add(counts);
                Work::Done(events)
            }
            Polled::Idle => Work::Idle,
            Polled::Shutdown => Work::Finished,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::ManualClock;
    use crate::control::Fatal;
    use protocol::{
        FrameKind, InstrumentId, Phase, Recipient, Rejected, ReportNumber, RequestId, SessionId, TradingDay,
    };
    use ring::output_ring;
    use std::time::Duration;

    fn output(sequence: u64, event: Event) -> Output {
        Output { sequence: Sequence(sequence), log_time: Timestamp(1_000), event }
    }

    #[test]
    fn counts_kinds_reasons_and_the_latency_of_each_frame_once() {
        let rejected = Event::Rejected(Rejected {
            to: Recipient { session: SessionId(1), number: ReportNumber(1) },
            request_id: RequestId(1),
            client_order_id: None,
            highest_request_id: RequestId(1),
            instrument: InstrumentId(1),
            request_kind: Some(FrameKind::NewOrder),
            reason: RejectReason::PriceNotOnTick,
        });
        let (mut ring, [poller]) = output_ring::<Output, 1>(64).unwrap();
        let metrics = Arc::new(EventMetrics::default());
        let time = ManualClock::at(Timestamp(1_000));
        let control = Arc::new(Control::new(Fatal::new(|_| ())));
        let mut stage = MetricsStage::new(poller, Arc::clone(&metrics), time.clock(), control);
        ring.try_publish(output(1, rejected)).unwrap();
        ring.try_publish(output(1, Event::PhaseChanged(InstrumentId(1), Phase::Halted))).unwrap();
        ring.try_publish(output(2, Event::DayStarted(TradingDay(2)))).unwrap();
        time.advance(Duration::from_nanos(5));
        assert_eq!(stage.do_work(), Work::Done(3));
        ring.try_publish(output(3, rejected)).unwrap();
        assert_eq!(stage.do_work(), Work::Done(1));
        let events: Vec<_> = metrics.events().filter(|(_, count)| *count > 0).collect();
        assert_eq!(events, [("rejected", 2), ("phase_changed", 1), ("day_started", 1)]);
        let rejects: Vec<_> = metrics.rejects().filter(|(_, count)| *count > 0).collect();
        assert_eq!(rejects, [(RejectReason::PriceNotOnTick, 2)]);
        let latency = metrics.latency_ns.snapshot();
        assert_eq!((latency.count, latency.max, latency.sum), (3, 5, 15));
        assert_eq!(metrics.log_time(), Timestamp(1_000));
        drop(ring);
        assert_eq!(stage.do_work(), Work::Finished);
    }
}

//! How far each stage has come, on the one number line of the log, and what the stages tell each other beside the rings.
//! It must not order memory between stages: the rings' cursors do that.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::atomic::AtomicCell;
use exchange::Exchange;
use protocol::{Checkpoint, Sequence, Timestamp, TradingDay};
use recorder::Recorder;
use ring::Mark;

use crate::checkpoints::Checkpoints;
use crate::histogram::Histogram;

/// Progress of an engine's stages, each the sequence of the last frame that is through.
#[derive(Debug)]
pub struct Marks {
    journaled: Mark,
    // Written by the replicate stage, which is of another crate.
    committed: Arc<Mark>,
    unmarshaled: Mark,
    applied: Mark,
    published: Mark,
    reported: Mark,
}

impl Marks {
    /// All at `base`: what recovery ended with.
    pub(crate) fn at(base: Sequence) -> Self {
        let mark = || Mark::new(base.0);
        Self {
            journaled: mark(),
            committed: Arc::new(mark()),
            unmarshaled: mark(),
            applied: mark(),
            published: mark(),
            reported: mark(),
        }
    }

    /// Durable at the configured level; on a member: and committed.
    #[must_use]
    pub fn journaled_sequence(&self) -> Sequence {
        Sequence(self.journaled.get())
    }

    /// Committed: a quorum has it; for a server alone, it was taken in.
    #[must_use]
    pub fn committed_sequence(&self) -> Sequence {
        Sequence(self.committed.get())
    }

    /// Decoded.
    #[must_use]
    pub fn unmarshaled_sequence(&self) -> Sequence {
        Sequence(self.unmarshaled.get())
    }

    /// Applied by the business logic.
    #[must_use]
    pub fn applied_sequence(&self) -> Sequence {
        Sequence(self.applied.get())
    }

    /// All of its events are in the output ring.
    #[must_use]
    pub fn published_sequence(&self) -> Sequence {
        Sequence(self.published.get())
    }

    /// All of its reports are in the report log, and the gateways know.
    #[must_use]
    pub fn reported_sequence(&self) -> Sequence {
        Sequence(self.reported.get())
    }

    pub(crate) fn advance_journaled(&self, to: Sequence) {
        self.journaled.advance(to.0);
    }

    pub(crate) fn advance_committed(&self, to: Sequence) {
        self.committed.advance(to.0);
    }

    pub(crate) fn committed_mark(&self) -> Arc<Mark> {
        Arc::clone(&self.committed)
    }

    pub(crate) fn advance_unmarshaled(&self, to: Sequence) {
        self.unmarshaled.advance(to.0);
    }

    pub(crate) fn advance_applied(&self, to: Sequence) {
        self.applied.advance(to.0);
    }

    pub(crate) fn advance_published(&self, to: Sequence) {
        self.published.advance(to.0);
    }

    pub(crate) fn advance_reported(&self, to: Sequence) {
        self.reported.advance(to.0);
    }
}

/// What the logic tells the ticker and the metrics after a batch, taken and given as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LogicState {
    /// The last tick's running hash.
    pub(crate) checkpoint: Option<Checkpoint>,
    /// When the exchange wants a frame with a later stamp at the latest.
    pub(crate) deadline: Option<Timestamp>,
    /// As of the last change of the two above, so at most one tick old.
    pub(crate) gauges: Gauges,
}

/// What the exchange holds, as of the last tick.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Orders that rest.
    pub open_orders: u64,
    /// Users.
    pub sessions: u64,
    /// Instruments.
    pub instruments: u64,
    /// Price levels with orders.
    pub levels: u64,
    /// Text client order ids used today.
    pub cl_ord_ids: u64,
    /// Trading day.
    pub trading_day: TradingDay,
    /// Version of the rules in force.
    pub rulebook_version: u32,
    /// Log time.
    pub log_time: Timestamp,
}

impl Gauges {
    pub(crate) fn of(exchange: &Exchange) -> Self {
        let counts = exchange.counts();
        Self {
            open_orders: exchange.open_orders(),
            sessions: counts.sessions.into(),
            instruments: counts.instruments.into(),
            levels: counts.levels.into(),
            cl_ord_ids: counts.cl_ord_ids.into(),
            trading_day: exchange.trading_day(),
            rulebook_version: exchange.rulebook_version(),
            log_time: exchange.log_time(),
        }
    }
}

/// What the journal stage measures.
#[derive(Debug, Default)]
pub struct JournalMetrics {
    /// Nanoseconds from the write of a batch until it was durable at the configured level.
    pub append_ns: Histogram,
    /// Frames of a batch.
    pub batch_frames: Histogram,
    /// Whether the disk's reserve is being used: take only what makes the books smaller.
    space_low: AtomicBool,
    /// Everything up to here would survive a power cut, whatever the level.
    durable: AtomicU64,
}

impl JournalMetrics {
    /// Whether the disk's reserve is being used: gateways then refuse what could make the books grow.
    #[must_use]
    pub fn is_space_low(&self) -> bool {
        // Relaxed: a flag by itself, and a moment late is no harm with the reserve behind it.
        self.space_low.load(Ordering::Relaxed)
    }

    pub(crate) fn set_space_low(&self, low: bool) {
        self.space_low.store(low, Ordering::Relaxed);
    }

    /// Everything up to here would survive a power cut. At the level `disk` it is the journaled sequence.
    #[must_use]
    pub fn durable_sequence(&self) -> Sequence {
        // Pairs with the store in `set_durable`: background threads read from the journal up to here.
        Sequence(self.durable.load(Ordering::Acquire))
    }

    /// Says anew what is durable, by the thread that writes the journal: less where it removed a tail.
    pub(crate) fn reset_durable(&self, to: Sequence) {
        self.durable.store(to.0, Ordering::Release);
    }

    pub(crate) fn set_durable(&self, to: Sequence) {
        // A maximum, since at level `memory` the journal stage and the housekeeping both find out.
        self.durable.fetch_max(to.0, Ordering::Release);
    }
}

/// What the stages of one engine share beside the rings.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) marks: Marks,
    pub(crate) journal: JournalMetrics,
    pub(crate) checkpoints: Checkpoints,
    // A sequence lock inside: the logic never waits for a reader.
    pub(crate) logic: AtomicCell<LogicState>,
    /// Makes each stage its writer.
    pub(crate) recorder: Recorder,
}

impl Shared {
    pub(crate) fn at(base: Sequence, recorder: Recorder) -> Self {
        Self {
            marks: Marks::at(base),
            journal: JournalMetrics::default(),
            checkpoints: Checkpoints::default(),
            logic: AtomicCell::new(LogicState::default()),
            recorder,
        }
    }
}

//! What an engine is started with. Values, already checked where they come from a file.

use std::thread;
use std::time::Duration;

use journaler::{ArchiveOptions, JournalOptions, ReportLogOptions};
use recorder::Recorder;
use ring::WaitStrategy;
use snapshots::{MakerOptions, SNAPSHOTS_KEPT_MIN, SnapshotSchedule};

use crate::clock::Clock;
use crate::control::Fatal;
use crate::threads::{ThreadPlan, wait_for_cores};

/// An engine's settings.
#[derive(Clone, Debug)]
pub struct EngineConfig {
    /// Slots of 64 bytes in the input ring: a power of two. A full ring is back pressure on the gateways. It takes 260 bytes
    /// a slot and should stay in the second-level cache; it must hold what comes while one batch becomes durable.
    pub input_slots: usize,
    /// Events in the output ring: a power of two. A full ring is back pressure on the logic.
    pub output_slots: usize,
    /// Which stages share a thread.
    pub threads: ThreadPlan,
    /// How a thread without work waits.
    pub wait: WaitStrategy,
    /// Longest time between two ticks. Log time, timers and checkpoints move by them: at most a second.
    pub tick_interval: Duration,
    /// The journal, with the durability level and the cluster's id.
    pub journal: JournalOptions,
    /// The report log.
    pub report_log: ReportLogOptions,
    /// How often the report log is made durable and what nobody needs any more is removed. What a start must replay,
    /// and how old a snapshot must be, follow from it.
    pub housekeeping_interval: Duration,
    /// When snapshots are made, and how fast.
    pub snapshots: SnapshotSchedule,
    /// Snapshots that are kept, at least two.
    pub snapshots_kept: usize,
    /// Where closed segments are copied to before they may be removed.
    pub archive: Option<ArchiveOptions>,
    /// What each stage records its batches with.
    pub recorder: Recorder,
    /// The time.
    pub clock: Clock,
    /// What ends the process.
    pub fatal: Fatal,
}

/// Longest allowed [`EngineConfig::tick_interval`].
pub(crate) const TICK_INTERVAL_MAX: Duration = Duration::from_secs(1);

impl EngineConfig {
    /// The defaults for this machine and the cluster of this id: durable on disk, the machine's time, an error ends
    /// the process.
    #[must_use]
    pub fn new(cluster_id: u128) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        Self {
            input_slots: 1 << 13,
            output_slots: 1 << 13,
            threads: ThreadPlan::for_cores(cores),
            wait: wait_for_cores(cores),
            tick_interval: TICK_INTERVAL_MAX,
            journal: JournalOptions::new(cluster_id),
            report_log: ReportLogOptions::default(),
            housekeeping_interval: Duration::from_secs(2),
            snapshots: SnapshotSchedule::default(),
            snapshots_kept: SNAPSHOTS_KEPT_MIN,
            archive: None,
            recorder: Recorder::off(),
            clock: Clock::system(),
            fatal: Fatal::exit(),
        }
    }

    /// Snapshots leave the journal's reserve alone.
    pub(crate) fn maker(&self) -> MakerOptions {
        MakerOptions { keep: self.snapshots_kept, reserve_bytes: self.journal.reserve_bytes }
    }
}

//! One look at a running server, taken at once and shown in three ways: `/status`, `/metrics` and the log's line of
//! statistics.

use pipeline::HistogramSnapshot;
use replicator::ClusterStatus;
use serde::Serialize;

/// What a running server says of itself. Times in nanoseconds and sequences as numbers, for scripts.
#[derive(Clone, Debug, Serialize)]
pub struct Stats {
    /// `starting`, `in no cluster yet`, `recovering`, `serving`, `stopping`.
    pub phase: &'static str,
    /// Whether new orders are taken.
    pub ready: bool,
    /// Why not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<&'static str>,
    /// Version of the program.
    pub version: &'static str,
    /// Newest version of the rules that the program knows.
    pub rulebook_known: u32,
    /// Process id.
    pub process: u32,
    /// Seconds since the process started.
    pub uptime_seconds: u64,
    /// From a proposal of this leader's until it was committed and given to its engine.
    #[serde(serialize_with = "quantiles", skip_serializing_if = "is_empty")]
    pub commit_ns: HistogramSnapshot,
    /// The cluster, on a member of one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<ClusterStatus>,
    /// What the engine adds, once there is one.
    #[serde(flatten)]
    pub engine: Option<EngineStats>,
}

/// The part that comes from the engine and the gateway.
#[derive(Clone, Debug, Serialize)]
pub struct EngineStats {
    /// `disk` or `memory`; of a member `quorum` or `memory`.
    pub durability: &'static str,
    /// Frames journaled at that level.
    pub journaled_sequence: u64,
    /// Frames that would survive a power cut.
    pub durable_sequence: u64,
    /// Frames committed.
    pub committed_sequence: u64,
    /// Frames applied by the business logic.
    pub applied_sequence: u64,
    /// Frames whose events are out.
    pub published_sequence: u64,
    /// Frames whose reports are in the report log.
    pub reported_sequence: u64,
    /// Frames whose reports would survive a power cut.
    pub reports_durable_sequence: u64,
    /// Frame of the newest snapshot; 0 where there is none.
    pub snapshot_sequence: u64,
    /// Log time since that frame, in seconds; absent where there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot_age_seconds: Option<u64>,
    /// Slots of the input ring, and those in use.
    pub input_ring_slots: u64,
    /// See `input_ring_slots`.
    pub input_ring_used: u64,
    /// Resting orders.
    pub open_orders: u64,
    /// Price levels with orders.
    pub levels: u64,
    /// Users.
    pub sessions: u64,
    /// Instruments.
    pub instruments: u64,
    /// Trading day.
    pub trading_day: u32,
    /// Version of the rules in force.
    pub rulebook: u32,
    /// TCP connections of clients.
    pub connections: u64,
    /// Connections that are logged in.
    pub logged_in: u64,
    /// Connections turned away for a limit, since the start.
    pub connections_turned_away: u64,
    /// Logins that failed, since the start.
    pub logins_failed: u64,
    /// Messages that the gateway refused, since the start.
    pub messages_refused: u64,
    /// Connections dropped because the client did not read, since the start.
    pub slow_readers: u64,
    /// Free bytes on the data directory's file system; absent where the system does not say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_free_bytes: Option<u64>,
    /// Whether the disk's reserve is in use, so that only cancels are taken.
    pub disk_space_low: bool,
    /// Frames that operators had skipped, by sequence.
    pub skips: serde_json::Value,
    /// Events by kind since the start.
    #[serde(serialize_with = "pairs")]
    pub events: Vec<(&'static str, u64)>,
    /// Rejects by reason since the start.
    #[serde(serialize_with = "pairs")]
    pub rejects: Vec<(&'static str, u64)>,
    /// Frames of a journal batch.
    #[serde(serialize_with = "quantiles")]
    pub batch_frames: HistogramSnapshot,
    /// From the write of a batch until it was durable at the configured level.
    #[serde(serialize_with = "quantiles")]
    pub append_ns: HistogramSnapshot,
    /// From the gateway's stamp of a frame to the sight of its first event.
    #[serde(serialize_with = "quantiles")]
    pub latency_ns: HistogramSnapshot,
}

impl EngineStats {
    /// Events of a kind.
    #[must_use]
    pub fn events_of(&self, kind: &str) -> u64 {
        self.events.iter().find(|(name, _)| *name == kind).map_or(0, |(_, count)| *count)
    }
}

fn pairs<S: serde::Serializer>(pairs: &[(&'static str, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().filter(|(_, count)| *count > 0).copied())
}

fn is_empty(histogram: &HistogramSnapshot) -> bool {
    histogram.count == 0
}

fn quantiles<S: serde::Serializer>(histogram: &HistogramSnapshot, serializer: S) -> Result<S::Ok, S::Error> {
    let quantile = |per_mille| histogram.quantile(per_mille);
    serializer.collect_map([
        ("count", histogram.count),
        ("p50", quantile(500)),
        ("p99", quantile(990)),
        ("p999", quantile(999)),
        ("max", histogram.max),
    ])
}

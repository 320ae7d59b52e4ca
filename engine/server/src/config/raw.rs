//! The configuration as it is written: names and units of the file, nothing checked beyond types. `deploy/ringpit.toml`
//! says what each key means; the defaults here are what it shows.

use std::net::SocketAddr;
use std::path::PathBuf;

use replicator::Member;
use serde::Deserialize;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawConfig {
    pub data: PathBuf,
    pub journal: RawJournal,
    pub snapshots: RawSnapshots,
    pub engine: RawEngine,
    pub capacities: RawCapacities,
    pub gateway: RawGateway,
    pub http: RawHttp,
    pub log: RawLog,
    pub recorder: RawRecorder,
    pub instruments: RawInstruments,
    pub users: RawUsers,
    pub cluster: Option<RawCluster>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawJournal {
    pub durability: Durability,
    pub segment_mib: u64,
    pub reserve_mib: u64,
    pub archive_command: Option<String>,
    pub archive_folder: Option<PathBuf>,
    pub archive_read_command: Option<String>,
}

/// What a frame must have reached before it takes effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Durability {
    /// The page cache: a process that dies loses nothing, a machine that does may.
    Memory,
    /// The disk.
    Disk,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawSnapshots {
    pub every_frames: u64,
    pub every_seconds: u64,
    pub keep: usize,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawEngine {
    pub input_slots: usize,
    pub output_slots: usize,
    pub threads: Option<Vec<String>>,
    pub wait: Wait,
}

/// How engine threads wait for work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Wait {
    /// Spin, for as long as suits the number of CPUs, then sleep until woken.
    Park,
    /// Spin for ever: one core a thread.
    Spin,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawCapacities {
    pub orders: u32,
    pub levels: u32,
    pub cl_ord_ids: u32,
    pub sessions: u32,
    pub instruments: u32,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawGateway {
    pub listen: SocketAddr,
    pub allow_remote: bool,
    pub connections_max: usize,
    pub connections_per_address_max: usize,
    pub login_deadline_seconds: u64,
    pub messages_per_second: u32,
    pub slow_reader_seconds: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawHttp {
    pub listen: SocketAddr,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawLog {
    pub format: LogFormat,
    pub level: String,
    pub stats_seconds: u64,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawRecorder {
    pub enabled: bool,
    pub max_mib: u64,
}

/// Form of the log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawInstruments {
    pub file: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct RawUsers {
    pub demonstration: bool,
    pub operator: Option<String>,
    pub operator_password_file: Option<PathBuf>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawCluster {
    pub member: u64,
    #[serde(default = "cluster_listen")]
    pub listen: SocketAddr,
    pub address: Option<String>,
    pub client_address: Option<String>,
    #[serde(default)]
    pub zone: String,
    #[serde(default)]
    pub durability: ClusterDurability,
    #[serde(default = "heartbeat_ms")]
    pub heartbeat_ms: u64,
    #[serde(default = "election_ms")]
    pub election_ms: [u64; 2],
    #[serde(default)]
    pub allow_clear_text: bool,
    #[serde(default)]
    pub members: Vec<Member>,
    pub tls: Option<RawTls>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct RawTls {
    pub ca: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What a frame must have reached on a majority of members before it takes effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ClusterDurability {
    /// Their memory: what was answered survives all but the loss of power by a majority.
    Memory,
    /// Their disks.
    #[default]
    Quorum,
}

fn cluster_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 7301))
}

fn heartbeat_ms() -> u64 {
    30
}

fn election_ms() -> [u64; 2] {
    [150, 250]
}

impl Default for RawConfig {
    fn default() -> Self {
        Self {
            data: PathBuf::from("data"),
            journal: RawJournal::default(),
            snapshots: RawSnapshots::default(),
            engine: RawEngine::default(),
            capacities: RawCapacities::default(),
            gateway: RawGateway::default(),
            http: RawHttp::default(),
            log: RawLog::default(),
            recorder: RawRecorder::default(),
            instruments: RawInstruments::default(),
            users: RawUsers::default(),
            cluster: None,
        }
    }
}

impl Default for RawJournal {
    fn default() -> Self {
        Self {
            durability: Durability::Disk,
            segment_mib: 64,
            reserve_mib: 256,
            archive_command: None,
            archive_folder: None,
            archive_read_command: None,
        }
    }
}

impl Default for RawSnapshots {
    fn default() -> Self {
        Self { every_frames: 10_000_000, every_seconds: 900, keep: 2 }
    }
}

impl Default for RawEngine {
    fn default() -> Self {
        Self { input_slots: 8_192, output_slots: 8_192, threads: None, wait: Wait::Park }
    }
}

impl Default for RawCapacities {
    fn default() -> Self {
        let protocol::Capacities { orders, levels, cl_ord_ids, sessions, instruments } = Default::default();
        Self { orders, levels, cl_ord_ids, sessions, instruments }
    }
}

impl Default for RawGateway {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 4410)),
            allow_remote: false,
            connections_max: 1_024,
            connections_per_address_max: 256,
            login_deadline_seconds: 10,
            messages_per_second: 2_000_000,
            slow_reader_seconds: 15,
        }
    }
}

impl Default for RawHttp {
    fn default() -> Self {
        Self { listen: SocketAddr::from(([127, 0, 0, 1], 4480)) }
    }
}

impl Default for RawLog {
    fn default() -> Self {
        Self { format: LogFormat::Text, level: "info".to_owned(), stats_seconds: 60 }
    }
}

impl Default for RawRecorder {
    fn default() -> Self {
        Self { enabled: true, max_mib: 64 }
    }
}

impl Default for RawUsers {
    fn default() -> Self {
        Self { demonstration: true, operator: None, operator_password_file: None }
    }
}

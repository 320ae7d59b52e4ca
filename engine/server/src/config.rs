//! The configuration in the form that the server uses. It is read as [`raw`] text, completed with the embedded defaults,
//! and checked; what is unsafe or impossible is refused with the key's name. No other part reads the file.

mod check;
mod cluster;
mod raw;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use journaler::ReadBack;
use pipeline::ThreadPlan;
use protocol::{Capacities, UserName};
use ring::WaitStrategy;

pub use cluster::ClusterConfig;
pub(crate) use cluster::host_and_port;
pub use raw::{ClusterDurability, Durability, LogFormat};

/// A checked configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// The data directory, as given: relative to the file's folder, or to the working directory without a file.
    pub data: PathBuf,
    /// Journal.
    pub journal: JournalConfig,
    /// Snapshots.
    pub snapshots: SnapshotConfig,
    /// Rings and threads of the engine.
    pub engine: EngineConfig,
    /// What goes into the log as the venue's capacities.
    pub capacities: Capacities,
    /// Order entry.
    pub gateway: GatewayConfig,
    /// Address of health, metrics and administration. Always on loopback.
    pub http: SocketAddr,
    /// Logging.
    pub log: LogConfig,
    /// Flight recorder; `None` where there is none.
    pub recorder: Option<RecorderConfig>,
    /// File of instruments; `None` for the demonstration ones.
    pub instruments: Option<PathBuf>,
    /// Users made at the first start.
    pub users: UserConfig,
    /// Membership of a cluster; `None` for a server alone.
    pub cluster: Option<ClusterConfig>,
}

/// See `[journal]`.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalConfig {
    /// What a frame must have reached before it takes effect.
    pub durability: Durability,
    /// Length of a segment.
    pub segment_bytes: u64,
    /// Free space below which new orders are refused.
    pub reserve_bytes: u64,
    /// How closed segments are archived.
    pub archive: Option<Archive>,
}

/// How closed segments are archived before they may be pruned.
#[derive(Clone, Debug, PartialEq)]
pub struct Archive {
    /// Run by `sh -c` for each closed segment.
    pub command: String,
    /// Where its copy is read back from.
    pub read_back: ReadBack,
}

/// See `[snapshots]`.
#[derive(Clone, Debug, PartialEq)]
pub struct SnapshotConfig {
    /// Frames after which the next one is made.
    pub every_frames: u64,
    /// Time after which the next one is made, if anything happened.
    pub every: Duration,
    /// How many are kept.
    pub keep: usize,
}

/// See `[engine]`.
#[derive(Clone, Debug, PartialEq)]
pub struct EngineConfig {
    /// Slots of 64 bytes of the input ring.
    pub input_slots: usize,
    /// Events of the output ring.
    pub output_slots: usize,
    /// Which stages share a thread, and where it runs.
    pub threads: ThreadPlan,
    /// How threads wait.
    pub wait: WaitStrategy,
}

/// See `[gateway]`.
#[derive(Clone, Debug, PartialEq)]
pub struct GatewayConfig {
    /// Where clients connect.
    pub listen: SocketAddr,
    /// Whether an address other than loopback is meant, though passwords then cross the network in the clear.
    pub allow_remote: bool,
    /// Connections at a time.
    pub connections_max: usize,
    /// Connections at a time from one address.
    pub connections_per_address_max: usize,
    /// How long a connection may take to log in.
    pub login_deadline: Duration,
    /// Messages a second that a session may send.
    pub messages_per_second: u32,
    /// How long a client may take no bytes while there are some for it.
    pub slow_reader: Duration,
}

/// See `[log]`.
#[derive(Clone, Debug, PartialEq)]
pub struct LogConfig {
    /// Form of the lines.
    pub format: LogFormat,
    /// Filter in the form of RUST_LOG, which comes first where it is set.
    pub level: String,
    /// Time between two lines of statistics; `None` for none.
    pub stats_every: Option<Duration>,
}

/// See `[recorder]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecorderConfig {
    /// Bytes that its files may take.
    pub bytes_max: u64,
}

/// See `[users]`.
#[derive(Clone, Debug, PartialEq)]
pub struct UserConfig {
    /// Whether the demonstration users are made.
    pub demonstration: bool,
    /// The first operator and the file with its password.
    pub operator: Option<(UserName, PathBuf)>,
}

/// What the command line says over the file.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// Data directory, relative to the working directory.
    pub data: Option<PathBuf>,
    /// Address of order entry.
    pub listen: Option<SocketAddr>,
    /// Address of health, metrics and administration.
    pub http: Option<SocketAddr>,
}

/// Why there is no usable configuration.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("{file}: can't be read: {error}")]
    Read {
        /// The file.
        file: String,
        /// What the system said.
        error: std::io::Error,
    },
    /// It is not TOML, or has a key or a type that the server does not know.
    #[error("{file}:{line}: {problem}")]
    Text {
        /// The file.
        file: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong.
        problem: String,
    },
    /// A value is refused.
    #[error("{file}: {key}: {problem}")]
    Value {
        /// The file, or what stands for it.
        file: String,
        /// The key with its section.
        key: &'static str,
        /// What is wrong and what would be right.
        problem: String,
    },
}

/// Name used in messages where no file was given.
const EMBEDDED: &str = "the embedded configuration";

impl Config {
    /// What a frame must have reached before it takes effect, in the word that clients and operators are told.
    #[must_use]
    pub fn durability_name(&self) -> &'static str {
        match (&self.cluster, self.journal.durability) {
            (_, Durability::Memory) => "memory",
            (None, Durability::Disk) => "disk",
            (Some(_), Durability::Disk) => "quorum",
        }
    }

    /// Reads and checks a file, or takes the embedded defaults where none is given.
    ///
    /// # Errors
    /// [`ConfigError`] names the file, the key and what is wrong.
    pub fn load(file: Option<&Path>, overrides: &Overrides) -> Result<Self, ConfigError> {
        let Some(path) = file else {
            return check::check(raw::RawConfig::default(), EMBEDDED, Path::new(""), overrides);
        };
        let name = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|error| ConfigError::Read { file: name.clone(), error })?;
        Self::from_text(&text, &name, path.parent().unwrap_or(Path::new("")), overrides)
    }

    /// Checks the text of a file called `name` in `folder`.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn from_text(
        text: &str,
        name: &str,
        folder: &Path,
        overrides: &Overrides,
    ) -> Result<Self, ConfigError> {
        let raw: raw::RawConfig = toml::from_str(text).map_err(|error| {
            let (line, problem) = toml_problem(text, &error);
            ConfigError::Text { file: name.to_owned(), line, problem }
        })?;
        check::check(raw, name, folder, overrides)
    }
}

/// The line of a TOML error, from 1, and what is wrong there, on one line.
pub(crate) fn toml_problem(text: &str, error: &toml::de::Error) -> (usize, String) {
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let line = 1 + text.as_bytes().iter().take(start).filter(|byte| **byte == b'\n').count();
    (line, error.message().trim_end().replace('\n', ", "))
}

#[cfg(test)]
mod tests;

//! From the raw form to the checked one. Each refusal names the key, the value and what would do.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use journaler::ReadBack;
use pipeline::ThreadPlan;
use protocol::{Capacities, UserName};
use ring::WaitStrategy;

use super::cluster;
use super::raw::{
    ClusterDurability, Durability, RawCapacities, RawConfig, RawEngine, RawGateway, RawJournal, RawLog,
    RawRecorder, RawSnapshots, RawUsers, Wait,
};
use super::{
    Archive, Config, ConfigError, EngineConfig, GatewayConfig, JournalConfig, LogConfig, Overrides,
    RecorderConfig, SnapshotConfig, UserConfig,
};

const MIB: u64 = 1 << 20;
const SEGMENT_MIB: RangeInclusive<u64> = 1..=4096;
const RESERVE_MIB: RangeInclusive<u64> = 1..=1 << 20;
const EVERY_FRAMES: RangeInclusive<u64> = 1_000..=1 << 40;
const EVERY_SECONDS: RangeInclusive<u64> = 1..=86_400;
const KEEP: RangeInclusive<usize> = 2..=1_000;
const INPUT_SLOTS: RangeInclusive<usize> = 1 << 10..=1 << 22;
const OUTPUT_SLOTS: RangeInclusive<usize> = 1 << 10..=1 << 22;
const CONNECTIONS: RangeInclusive<usize> = 1..=65_536;
const LOGIN_SECONDS: RangeInclusive<u64> = 1..=60;
const MESSAGES: RangeInclusive<u32> = 1..=100_000_000;
const SLOW_SECONDS: RangeInclusive<u64> = 1..=300;
const RECORDER_MIB: RangeInclusive<u64> = 16..=65_536;
const STATS_SECONDS: RangeInclusive<u64> = 0..=86_400;

/// What a refused value is: its key and the problem.
pub(super) type Refusal = (&'static str, String);

/// Checks a raw configuration. `folder` is what relative paths of the file are relative to.
pub(super) fn check(
    raw: RawConfig,
    file: &str,
    folder: &Path,
    overrides: &Overrides,
) -> Result<Config, ConfigError> {
    checked(raw, folder, overrides).map_err(|(key, problem)| ConfigError::Value {
        file: file.to_owned(),
        key,
        problem,
    })
}

fn checked(raw: RawConfig, folder: &Path, overrides: &Overrides) -> Result<Config, Refusal> {
    let data = match &overrides.data {
        Some(data) => data.clone(),
        None => folder.join(non_empty("data", raw.data)?),
    };
    let http = overrides.http.unwrap_or(raw.http.listen);
    if !http.ip().is_loopback() {
        let problem = format!("{http} is not on loopback; administration and metrics have no login");
        return Err(("http.listen", problem));
    }
    let users = users(raw.users, folder)?;
    let gateway = gateway(raw.gateway, overrides.listen)?;
    if users.demonstration && !gateway.listen.ip().is_loopback() {
        let problem = format!(
            "the demonstration users are for loopback only, and gateway.listen is {}; set it to false and name an operator",
            gateway.listen
        );
        return Err(("users.demonstration", problem));
    }
    let mut journal = journal(raw.journal, folder)?;
    let cluster = raw.cluster.map(|raw| cluster::check(raw, folder, gateway.listen, journal.durability));
    let cluster = cluster.transpose()?;
    ports([
        ("gateway.listen", Some(gateway.listen)),
        ("http.listen", Some(http)),
        ("cluster.listen", cluster.as_ref().map(|cluster| cluster.listen)),
    ])?;
    if let Some(cluster) = &cluster {
        // Each member keeps what a majority must have as its own journal keeps it.
        journal.durability = match cluster.durability {
            ClusterDurability::Memory => Durability::Memory,
            ClusterDurability::Quorum => Durability::Disk,
        };
    }
    Ok(Config {
        data,
        journal,
        snapshots: snapshots(&raw.snapshots)?,
        engine: engine(raw.engine)?,
        capacities: capacities(&raw.capacities)?,
        gateway,
        http,
        log: log(raw.log)?,
        recorder: recorder(&raw.recorder)?,
        instruments: raw.instruments.file.map(|file| folder.join(file)),
        users,
        cluster,
    })
}

fn recorder(raw: &RawRecorder) -> Result<Option<RecorderConfig>, Refusal> {
    within("recorder.max_mib", raw.max_mib, &RECORDER_MIB)?;
    Ok(raw.enabled.then_some(RecorderConfig { bytes_max: raw.max_mib * MIB }))
}

/// No two parts may listen at one place: the second one to start would end the server.
fn ports(parts: [(&'static str, Option<SocketAddr>); 3]) -> Result<(), Refusal> {
    let listening = parts.into_iter().filter_map(|(key, address)| Some((key, address?)));
    let mut before: Vec<(&str, SocketAddr)> = Vec::new();
    for (key, address) in listening.filter(|(_, address)| address.port() != 0) {
        let meets = |other: &SocketAddr| {
            let (one, two) = (address.ip(), other.ip());
            address.port() == other.port() && (one == two || one.is_unspecified() || two.is_unspecified())
        };
        if let Some((other, _)) = before.iter().find(|(_, other)| meets(other)) {
            return Err((key, format!("{address} is taken by {other}; give it a port of its own")));
        }
        before.push((key, address));
    }
    Ok(())
}

fn journal(raw: RawJournal, folder: &Path) -> Result<JournalConfig, Refusal> {
    within("journal.segment_mib", raw.segment_mib, &SEGMENT_MIB)?;
    within("journal.reserve_mib", raw.reserve_mib, &RESERVE_MIB)?;
    if raw.reserve_mib < 2 * raw.segment_mib {
        let problem = format!(
            "{} is less than two segments of {} MiB, which cancels need while the disk is full",
            raw.reserve_mib, raw.segment_mib
        );
        return Err(("journal.reserve_mib", problem));
    }
    Ok(JournalConfig {
        durability: raw.durability,
        segment_bytes: raw.segment_mib * MIB,
        reserve_bytes: raw.reserve_mib * MIB,
        archive: archive(raw.archive_command, raw.archive_folder, raw.archive_read_command, folder)?,
    })
}

fn archive(
    command: Option<String>,
    copies: Option<PathBuf>,
    read_command: Option<String>,
    folder: &Path,
) -> Result<Option<Archive>, Refusal> {
    let Some(command) = command else {
        if copies.is_some() || read_command.is_some() {
            return Err((
                "journal.archive_command",
                "must be given where a copy is to be read back".to_owned(),
            ));
        }
        return Ok(None);
    };
    if command.trim().is_empty() {
        return Err(("journal.archive_command", "is empty; give a command, or leave the key out".to_owned()));
    }
    let read_back = match (copies, read_command) {
        (Some(copies), None) => ReadBack::Folder(folder.join(non_empty("journal.archive_folder", copies)?)),
        (None, Some(command)) => ReadBack::Command(command),
        _ => {
            let problem = "give either journal.archive_folder, where the command leaves its copy, or \
                           journal.archive_read_command, which prints it: a copy that is not read back may not be one";
            return Err(("journal.archive_command", problem.to_owned()));
        }
    };
    Ok(Some(Archive { command, read_back }))
}

fn snapshots(raw: &RawSnapshots) -> Result<SnapshotConfig, Refusal> {
    within("snapshots.every_frames", raw.every_frames, &EVERY_FRAMES)?;
    within("snapshots.every_seconds", raw.every_seconds, &EVERY_SECONDS)?;
    within("snapshots.keep", raw.keep, &KEEP)?;
    Ok(SnapshotConfig {
        every_frames: raw.every_frames,
        every: Duration::from_secs(raw.every_seconds),
        keep: raw.keep,
    })
}

fn engine(raw: RawEngine) -> Result<EngineConfig, Refusal> {
    slots("engine.input_slots", raw.input_slots, &INPUT_SLOTS)?;
    slots("engine.output_slots", raw.output_slots, &OUTPUT_SLOTS)?;
    // Without an answer of the system's, the least that there can be.
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = match &raw.threads {
        None => ThreadPlan::for_cores(cpus),
        Some(threads) => ThreadPlan::parse(threads.iter().map(String::as_str))
            .map_err(|error| ("engine.threads", error.to_string()))?,
    };
    if let Some(core) = threads.threads().iter().filter_map(|thread| thread.core).find(|core| *core >= cpus) {
        let problem = format!("there is no CPU {core}; this machine has 0 to {}", cpus - 1);
        return Err(("engine.threads", problem));
    }
    let wait = match raw.wait {
        Wait::Park => pipeline::wait_for_cores(cpus),
        Wait::Spin => WaitStrategy::BusySpin,
    };
    Ok(EngineConfig { input_slots: raw.input_slots, output_slots: raw.output_slots, threads, wait })
}

fn capacities(raw: &RawCapacities) -> Result<Capacities, Refusal> {
    let RawCapacities { orders, levels, cl_ord_ids, sessions, instruments } = *raw;
    for (key, value) in [
        ("capacities.orders", orders),
        ("capacities.levels", levels),
        ("capacities.sessions", sessions),
        ("capacities.instruments", instruments),
    ] {
        if value == 0 {
            return Err((key, "0 would let nothing happen; give at least 1".to_owned()));
        }
    }
    Ok(Capacities { orders, levels, cl_ord_ids, sessions, instruments })
}

fn gateway(raw: RawGateway, listen: Option<SocketAddr>) -> Result<GatewayConfig, Refusal> {
    let listen = listen.unwrap_or(raw.listen);
    if !listen.ip().is_loopback() && !raw.allow_remote {
        let problem = format!(
            "{listen} is not on loopback and there is no TLS, so passwords would cross the network in the clear; \
             listen on loopback, or set gateway.allow_remote = true if the network is trusted"
        );
        return Err(("gateway.listen", problem));
    }
    within("gateway.connections_max", raw.connections_max, &CONNECTIONS)?;
    within("gateway.connections_per_address_max", raw.connections_per_address_max, &CONNECTIONS)?;
    within("gateway.login_deadline_seconds", raw.login_deadline_seconds, &LOGIN_SECONDS)?;
    within("gateway.messages_per_second", raw.messages_per_second, &MESSAGES)?;
    within("gateway.slow_reader_seconds", raw.slow_reader_seconds, &SLOW_SECONDS)?;
    Ok(GatewayConfig {
        listen,
        allow_remote: raw.allow_remote,
        connections_max: raw.connections_max,
        connections_per_address_max: raw.connections_per_address_max,
        login_deadline: Duration::from_secs(raw.login_deadline_seconds),
        messages_per_second: raw.messages_per_second,
        slow_reader: Duration::from_secs(raw.slow_reader_seconds),
    })
}

fn log(raw: RawLog) -> Result<LogConfig, Refusal> {
    within("log.stats_seconds", raw.stats_seconds, &STATS_SECONDS)?;
    if let Err(error) = crate::logging::filter(&raw.level) {
        let problem =
            format!("`{}` is no filter such as \"info\" or \"info,gateway=debug\": {error}", raw.level);
        return Err(("log.level", problem));
    }
    Ok(LogConfig {
        format: raw.format,
        level: raw.level,
        stats_every: (raw.stats_seconds > 0).then(|| Duration::from_secs(raw.stats_seconds)),
    })
}

fn users(raw: RawUsers, folder: &Path) -> Result<UserConfig, Refusal> {
    let operator = match (raw.operator, raw.operator_password_file) {
        (None, None) => None,
        (Some(_), None) => {
            return Err(("users.operator_password_file", "must be given with users.operator".to_owned()));
        }
        (None, Some(_)) => {
            return Err(("users.operator", "must be given with users.operator_password_file".to_owned()));
        }
        (Some(name), Some(file)) => {
            let name = UserName::new(&name).ok_or_else(|| {
                ("users.operator", format!("`{name}` is not 1 to 6 printable characters without spaces"))
            })?;
            Some((name, folder.join(non_empty("users.operator_password_file", file)?)))
        }
    };
    if raw.demonstration && operator.is_some() {
        let problem = "the demonstration users and users.operator exclude each other; set one of them";
        return Err(("users.demonstration", problem.to_owned()));
    }
    Ok(UserConfig { demonstration: raw.demonstration, operator })
}

pub(super) fn within<T: PartialOrd + std::fmt::Display>(
    key: &'static str,
    value: T,
    range: &RangeInclusive<T>,
) -> Result<(), Refusal> {
    if range.contains(&value) {
        return Ok(());
    }
    Err((key, format!("{value} is outside {} to {}", range.start(), range.end())))
}

fn slots(key: &'static str, value: usize, range: &RangeInclusive<usize>) -> Result<(), Refusal> {
    within(key, value, range)?;
    if value.is_power_of_two() { Ok(()) } else { Err((key, format!("{value} is not a power of two"))) }
}

pub(super) fn non_empty(key: &'static str, path: PathBuf) -> Result<PathBuf, Refusal> {
    if path.as_os_str().is_empty() { Err((key, "is empty".to_owned())) } else { Ok(path) }
}

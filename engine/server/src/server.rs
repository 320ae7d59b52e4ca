//! One server, from an unlocked data directory to the last frame: open, start, serve until asked to stop, drain.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use gateway::{Admission, Alone, Gateway, GatewayHandle, GatewayParts, Hub};
use journaler::{JournalError, RealStorage, SharedStorage};
use pipeline::{Engine, EngineConfig, EngineHandle, EngineView, OpenError, Opened};
use protocol::{SessionId, TradingDay};
use snapshots::SnapshotStore;

use crate::config::{Config, Durability, JournalConfig};
use crate::error::CommandError;
use crate::http::HttpServer;
use crate::oversight::{Oversight, Phase, Running};
use crate::passwords::Passwords;
use crate::progress::{Meter, Without};
use crate::provision::{Plan, Wanted};
use crate::ready::{READY_FILE, Ready};
use crate::reserve::{Change, Reserve};
use crate::signals::Asked;
use crate::system::System;
use crate::{assembly, files, identity, say, space};

/// How often a server looks whether its engine is well and its disk has space.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long a process that was killed may take to let go of the data directory.
const LOCK_PATIENCE: Duration = Duration::from_secs(2);

/// A server that takes orders.
pub struct Server {
    config: Config,
    data: PathBuf,
    engine: EngineHandle,
    oversight: Arc<Oversight>,
    storage: SharedStorage,
    reserve: Arc<Reserve>,
    // Dropped last of all: it tells of the stop until the end.
    http: HttpServer,
    ready: Ready,
    ready_files: Vec<PathBuf>,
}

impl Server {
    /// Brings back the last state and starts everything. When this returns, orders are taken and the ready files say so;
    /// `oversight` shows each phase on the way.
    ///
    /// # Errors
    /// One line that says what is in the way.
    pub fn start(
        config: Config,
        oversight: Arc<Oversight>,
        ready_file: Option<&Path>,
    ) -> Result<Self, CommandError> {
        // Whoever waits for this file must not find an earlier server's.
        if let Some(file) = ready_file {
            remove(file)?;
        }
        space::check_new(&config.data, &config.journal)?;
        let (storage, data) = open_directory(&config.data)?;
        let http = HttpServer::start(config.http, Arc::clone(&oversight))
            .map_err(|error| no_http(&config, &data, &error))?;
        oversight.enter(Phase::Recovering);
        let cluster_id = identity::cluster_id(&data, &storage)?;
        let engine_config = assembly::engine(&config, cluster_id);
        let explain = |error: CommandError| match error {
            CommandError::Failed(line) => CommandError::failed(space::explain(&line, &data, &config.journal)),
            other => other,
        };
        let opened = recover(&storage, &engine_config).map_err(explain)?;
        let (recovered, day) = (opened.exchange().sequence(), opened.exchange().trading_day());
        // From here on the directory is ours: what an earlier process left must not be taken for this one's.
        let ready_files = ready_files(&data, ready_file)?;
        oversight
            .write_token(&data)
            .map_err(|error| CommandError::failed(format!("{}: {error}", data.display())))?;
        let (engine, hub, passwords) =
            start_engine(&config, &engine_config, &data, opened).map_err(explain)?;
        let JournalConfig { reserve_bytes, segment_bytes, .. } = config.journal;
        let reserve = Reserve::new(&data, reserve_bytes, segment_bytes).map(Arc::new);
        let reserve =
            reserve.map_err(|error| CommandError::failed(format!("{}: {error}", data.display())))?;
        look_after(&reserve, &storage)?;
        warn_if_low(&reserve, &storage, &data);
        let gateway = start_gateway(&config, &engine, hub, &oversight, &reserve)?;
        let ready = Ready {
            process: std::process::id(),
            native: gateway.local_addr(),
            http: http.address(),
            data: data.clone(),
            durability: durability(&config).to_owned(),
            recovered_sequence: recovered.0,
        };
        oversight.show(Running {
            view: engine.view(),
            gateway,
            snapshots: engine.snapshots(),
            ingress: engine.ingress(),
            store: SnapshotStore::new(Arc::clone(&storage), cluster_id),
            storage: Arc::clone(&storage),
            reserve: Arc::clone(&reserve),
            durability: durability(&config),
        });
        oversight.enter(Phase::Serving);
        let server = Self { config, data, engine, oversight, storage, reserve, http, ready, ready_files };
        server.tell_ready(passwords.as_ref(), day)?;
        Ok(server)
    }

    /// Serves until asked to stop, or until the engine can't go on.
    ///
    /// # Errors
    /// The engine failed, or did not drain in time.
    pub fn serve(self, asked: &Receiver<Asked>) -> Result<(), CommandError> {
        let view = self.engine.view();
        let mut told = Instant::now();
        loop {
            match asked.recv_timeout(LOOK_EVERY) {
                Ok(Asked::Stop(signal)) => {
                    tracing::info!(signal, "asked to stop");
                    return self.stop();
                }
                Err(RecvTimeoutError::Disconnected) => return self.stop(),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if let Some(fault) = view.fault() {
                return Err(CommandError::failed(space::explain(
                    &format!("fatal: {fault}"),
                    &self.data,
                    &self.config.journal,
                )));
            }
            look_after(&self.reserve, &self.storage)?;
            if self.config.log.stats_every.is_some_and(|every| told.elapsed() >= every) {
                told = Instant::now();
                self.tell_stats();
            }
        }
    }

    /// Drains: no new frames, all that was taken in is processed and reported, the journal is closed.
    fn stop(self) -> Result<(), CommandError> {
        self.oversight.enter(Phase::Stopping);
        self.ready_files.iter().try_for_each(|file| remove(file))?;
        if let Some(gateway) = self.oversight.let_go() {
            gateway.stop();
        }
        let stopped = self.engine.stop(assembly::STOP_PATIENCE);
        drop(self.http);
        if let Some(fault) = stopped.fault {
            return Err(CommandError::failed(format!("fatal: {fault}")));
        }
        if !stopped.drained {
            return Err(CommandError::failed(
                "the engine did not drain in time; the next start recovers what was journaled",
            ));
        }
        tracing::info!(data = %self.data.display(), "stopped");
        Ok(())
    }

    fn tell_ready(&self, passwords: Option<&Passwords>, day: TradingDay) -> Result<(), CommandError> {
        let Ready { native, http, durability, .. } = &self.ready;
        tracing::info!(%native, %http, durability, %day, sequence = self.ready.recovered_sequence, "taking orders");
        say!(
            "ringpit {} takes orders at {native} (durability {durability}, trading day {day})",
            env!("CARGO_PKG_VERSION")
        );
        say!("health and metrics at http://{http}, data in {}", self.data.display());
        for (name, password) in passwords.iter().flat_map(|passwords| passwords.iter()) {
            say!("demonstration user {name} with password {password}");
        }
        for file in &self.ready_files {
            self.ready
                .write(file)
                .map_err(|error| CommandError::failed(format!("{}: {error}", file.display())))?;
        }
        Ok(())
    }

    fn tell_stats(&self) {
        let stats = self.oversight.stats();
        let Some(engine) = stats.engine else { return };
        tracing::info!(
            sequence = engine.applied_sequence,
            open_orders = engine.open_orders,
            trades = engine.events_of("trade"),
            connections = engine.connections,
            batch_frames_p50 = engine.batch_frames.quantile(500),
            append_us_p99 = engine.append_ns.quantile(990) / 1000,
            latency_us_p50 = engine.latency_ns.quantile(500) / 1000,
            latency_us_p99 = engine.latency_ns.quantile(990) / 1000,
            snapshot = engine.snapshot_sequence,
            "statistics"
        );
    }
}

/// Why the HTTP port can't be had; where that is because a server runs on the same directory, that is said.
fn no_http(config: &Config, data: &Path, error: &std::io::Error) -> CommandError {
    let other = Ready::of_data(data).ok().flatten().filter(|ready| ready.http == config.http);
    match other {
        Some(Ready { process, .. }) if error.kind() == std::io::ErrorKind::AddrInUse => {
            CommandError::failed(format!(
                "data directory {} is in use by process {process}, which has http://{}",
                data.display(),
                config.http
            ))
        }
        _ => CommandError::failed(format!(
            "http.listen: {}: {error}; give another with --http ADDRESS, port 0 for any free one",
            config.http
        )),
    }
}

/// Where this server says that it is ready; what an earlier one wrote there is removed.
fn ready_files(data: &Path, extra: Option<&Path>) -> Result<Vec<PathBuf>, CommandError> {
    let mut all = vec![data.join(READY_FILE)];
    all.extend(extra.map(Path::to_path_buf));
    all.iter().try_for_each(|file| remove(file))?;
    Ok(all)
}

fn remove(file: &Path) -> Result<(), CommandError> {
    files::remove_if_there(file).map_err(|error| CommandError::failed(format!("{}: {error}", file.display())))
}

/// The data directory, made if it is missing, and its absolute name.
fn open_directory(data: &Path) -> Result<(SharedStorage, PathBuf), CommandError> {
    let failed = |error: std::io::Error| CommandError::failed(format!("{}: {error}", data.display()));
    let storage = RealStorage::create(data).map_err(failed)?;
    Ok((Arc::new(storage), std::path::absolute(data).map_err(failed)?))
}

/// Opens the data directory. One that is in use is tried again for a moment: after a kill its process may still be on its
/// way out.
fn open(storage: &SharedStorage, config: &EngineConfig, meter: &mut Meter) -> Result<Opened, OpenError> {
    let started = Instant::now();
    loop {
        match Engine::open(Arc::clone(storage), config, &mut |at| meter.at(at.done, at.total)) {
            Err(OpenError::Journal(JournalError::Locked { .. })) if started.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(LOOK_EVERY);
            }
            opened => return opened,
        }
    }
}

fn recover(storage: &SharedStorage, config: &EngineConfig) -> Result<Opened, CommandError> {
    let mut meter = Meter::new("recovering", Without::Log);
    let opened =
        open(storage, config, &mut meter).map_err(|error| CommandError::failed(error.to_string()))?;
    let (found, rate) = (opened.found(), meter.finish());
    for refused in &found.refused {
        tracing::warn!(file = refused.file, reason = refused.reason, "snapshot not used");
    }
    tracing::info!(
        sequence = opened.exchange().sequence().0,
        snapshot = found.from_snapshot.map_or(0, |sequence| sequence.0),
        replayed = found.replayed,
        seconds = rate.seconds,
        clean_stop = found.journal.clean_stop,
        "recovered"
    );
    Ok(opened)
}

/// Starts the engine and brings the log to what the configuration wants.
fn start_engine(
    config: &Config,
    engine_config: &EngineConfig,
    data: &Path,
    opened: Opened,
) -> Result<(EngineHandle, Hub, Option<Passwords>), CommandError> {
    let exchange = opened.exchange();
    let known = assembly::known(exchange);
    let (wanted, passwords) = assembly::wanted(config, data, &known)?;
    let day = exchange.trading_day();
    let last_report = exchange.session(SessionId::SYSTEM).map(|view| view.last_report).unwrap_or_default();
    let (hub, egress) = Hub::new(&assembly::seed(exchange));
    let engine = Engine::start(engine_config, opened, Box::new(egress))
        .map_err(|error| CommandError::failed(error.to_string()))?;
    let clock = engine_config.clock.clone();
    let mut system = System::new(engine.ingress(), engine.view(), clock, day, last_report);
    provision(&mut system, &Plan::new(&wanted, &known))?;
    finish_retirement(data, &wanted)?;
    Ok((engine, hub, passwords))
}

/// Publishes a plan, and tells what could not be had.
fn provision(system: &mut System, plan: &Plan) -> Result<(), CommandError> {
    for conflict in &plan.conflicts {
        tracing::error!("{conflict}");
    }
    if plan.commands.is_empty() {
        return Ok(());
    }
    let refusals = system.run(&plan.commands).map_err(|error| CommandError::failed(error.to_string()))?;
    for refusal in &refusals {
        tracing::error!(reason = %refusal.reason, command = ?refusal.body, "the configuration asks for what the log refuses");
    }
    tracing::info!(commands = plan.commands.len(), refused = refusals.len(), "configuration published");
    Ok(())
}

/// Once the demonstration users are disabled in the log, their passwords go.
fn finish_retirement(data: &Path, wanted: &Wanted) -> Result<(), CommandError> {
    if wanted.disabled.is_empty() {
        return Ok(());
    }
    let names: Vec<String> = wanted.disabled.iter().map(ToString::to_string).collect();
    tracing::warn!(users = names.join(" "), "demonstration users of an earlier start are disabled");
    assembly::forget_demonstration(data)
}

/// Keeps the reserve as the disk's free space asks for, and tells what that does.
fn look_after(reserve: &Reserve, storage: &SharedStorage) -> Result<(), CommandError> {
    let changed = storage.free_space().and_then(|free| Ok((free, reserve.look(free)?)));
    match changed
        .map_err(|error| CommandError::failed(format!("fatal: the reserve of disk space: {error}")))?
    {
        (_, None) => {}
        (free, Some(Change::GivenUp)) => {
            tracing::error!(
                free,
                "the disk is nearly full: the reserve is given up, and only cancels are taken"
            );
        }
        (free, Some(Change::Held)) => tracing::info!(free, "the reserve of disk space is held"),
        (free, Some(Change::Spent)) => {
            tracing::error!(free, "the disk is full: nothing is taken until space is freed");
        }
        (free, Some(Change::Eased)) => tracing::warn!(free, "the disk has space for cancels again"),
    }
    Ok(())
}

/// Tells at the start that the disk is too full for orders: [`look_after`] tells only of changes.
fn warn_if_low(reserve: &Reserve, storage: &SharedStorage, data: &Path) {
    if reserve.is_held() {
        return;
    }
    let taken = if reserve.is_spent() { "nothing is" } else { "only cancels are" };
    let (free, needed) = (storage.free_space().unwrap_or_default(), reserve.held_from());
    tracing::warn!(data = %data.display(), free, needed, "the disk is nearly full: {taken} taken until more is free");
}

fn start_gateway(
    config: &Config,
    engine: &EngineHandle,
    hub: Hub,
    oversight: &Arc<Oversight>,
    reserve: &Arc<Reserve>,
) -> Result<GatewayHandle, CommandError> {
    let depth = engine.view();
    let parts = GatewayParts {
        ingress: engine.ingress(),
        reports: engine.view().report_reader(),
        hub,
        depth: Arc::new(move |instrument, levels| depth.depth().snapshot(instrument, levels)),
        admission: admission(engine.view(), Arc::clone(oversight), Arc::clone(reserve)),
        leadership: Arc::new(Alone),
    };
    Gateway::start(assembly::gateway(config), parts).map_err(|error| CommandError::failed(error.to_string()))
}

fn admission(view: EngineView, oversight: Arc<Oversight>, reserve: Arc<Reserve>) -> gateway::AdmissionSource {
    Arc::new(move || {
        if oversight.phase() >= Phase::Stopping {
            Admission::Stopping
        } else if reserve.is_spent() {
            Admission::Nothing
        } else if view.journal().is_space_low() || !reserve.is_held() {
            Admission::CancelsOnly
        } else {
            Admission::Open
        }
    })
}

fn durability(config: &Config) -> &'static str {
    match config.journal.durability {
        Durability::Memory => "memory",
        Durability::Disk => "disk",
    }
}

//! From an unlocked data directory to a running engine and gateway: of a server alone, or of a member of a cluster.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use gateway::{
    Admission, Alone, Gateway, GatewayError, GatewayHandle, GatewayParts, Hub, Leadership, ResumeKeys,
};
use journaler::{JournalError, SharedStorage};
use pipeline::{Engine, EngineConfig, EngineHandle, EngineView, OpenError, Opened};
use protocol::{ConnectionId, Sequence, SessionId, TradingDay};
use rand::RngExt;
use recorder::Recorder;

use super::directory;
use crate::config::{ClusterConfig, Config};
use crate::error::CommandError;
use crate::member::{self, Log, MemberSide, Seat};
use crate::oversight::{Oversight, Phase};
use crate::passwords::Passwords;
use crate::progress::{Meter, Rate, Without};
use crate::provision::Plan;
use crate::ready::Ready;
use crate::reserve::Reserve;
use crate::signals::Asked;
use crate::system::System;
use crate::{assembly, identity, text};

/// How long a process that was killed may take to let go of the data directory.
pub(super) const LOCK_PATIENCE: Duration = Duration::from_secs(2);
pub(super) const LOCK_LOOK_EVERY: Duration = Duration::from_millis(50);

/// What a server is started on.
#[derive(Clone, Copy)]
pub(super) struct Site<'a> {
    pub(super) config: &'a Config,
    /// The data directory, absolute.
    pub(super) data: &'a Path,
    pub(super) storage: &'a SharedStorage,
    pub(super) oversight: &'a Arc<Oversight>,
    pub(super) recorder: &'a Recorder,
    /// Where health and administration are.
    pub(super) http: SocketAddr,
    /// Where the ready file goes besides the data directory.
    pub(super) ready_file: Option<&'a Path>,
}

/// What there is before the gateway.
pub(super) struct Started {
    pub(super) engine: EngineHandle,
    pub(super) hub: Hub,
    pub(super) leadership: Arc<dyn Leadership>,
    pub(super) resume: ResumeKeys,
    pub(super) member: Option<MemberSide>,
    pub(super) cluster_id: u128,
    /// Last frame of the recovered state, and its trading day.
    pub(super) recovered: Sequence,
    pub(super) day: TradingDay,
    pub(super) ready_files: Vec<PathBuf>,
    /// Of the demonstration users, to be told.
    pub(super) passwords: Option<Passwords>,
}

impl Site<'_> {
    /// From here on the directory is ours: what an earlier process left must not be taken for this one's.
    fn take_over(&self) -> Result<Vec<PathBuf>, CommandError> {
        let ready_files = directory::ready_files(self.data, self.ready_file)?;
        self.oversight
            .write_token(self.data)
            .map_err(|error| CommandError::failed(format!("{}: {error}", self.data.display())))?;
        Ok(ready_files)
    }

    /// What the ready files say.
    pub(super) fn ready(&self, native: SocketAddr, recovered: Sequence) -> Ready {
        Ready {
            process: std::process::id(),
            native,
            http: self.http,
            data: self.data.to_path_buf(),
            durability: self.config.durability_name().to_owned(),
            recovered_sequence: recovered.0,
            member: self.config.cluster.as_ref().map(|cluster| cluster.member.clone()),
        }
    }
}

/// Starts a server alone.
pub(super) fn alone(site: &Site<'_>) -> Result<Started, CommandError> {
    let Site { config, data, storage, oversight, recorder, .. } = *site;
    member::refuse_members_directory(data)?;
    oversight.enter(Phase::Recovering);
    let cluster_id = identity::cluster_id(data, storage)?;
    let engine_config = EngineConfig { recorder: recorder.clone(), ..assembly::engine(config, cluster_id) };
    let (opened, rate) = recover(|meter| {
        Engine::open(Arc::clone(storage), &engine_config, &mut |at| meter.at(at.done, at.total))
    })?;
    tell_recovered(&opened, rate);
    let (recovered, day) = (opened.exchange().sequence(), opened.exchange().trading_day());
    let ready_files = site.take_over()?;
    let (engine, hub, passwords) = start_engine(config, &engine_config, data, opened)?;
    Ok(Started {
        engine,
        hub,
        leadership: Arc::new(Alone),
        resume: ResumeKeys::new(rand::rng().random()),
        member: None,
        cluster_id,
        recovered,
        day,
        ready_files,
        passwords,
    })
}

/// Starts a member of a cluster; where it is in none yet, waits until it is.
pub(super) fn member(
    site: &Site<'_>,
    cluster: &ClusterConfig,
    asked: &Sender<Asked>,
) -> Result<Started, CommandError> {
    let Site { config, data, storage, oversight, recorder, .. } = *site;
    let failed = |error: &dyn std::fmt::Display| CommandError::failed(format!("{}: {error}", data.display()));
    let blank = || {
        let ready_files = site.take_over()?;
        directory::write_ready(&site.ready(config.gateway.listen, Sequence(0)), &ready_files)
    };
    let mut entered = member::enter(config, cluster, (data, storage), oversight, blank)?;
    oversight.enter(Phase::Recovering);
    let cluster_id = entered.prepared.cluster();
    let engine_config = EngineConfig { recorder: recorder.clone(), ..assembly::engine(config, cluster_id) };
    let ((opened, journal), rate) = recover(|meter| {
        let progress = &mut |at: snapshots::Progress| meter.at(at.done, at.total);
        Engine::open_member(Arc::clone(storage), &engine_config, progress)
    })?;
    tell_recovered(&opened, rate);
    let recovery = &opened.found().journal;
    let lost = entered.prepared.judge(&journal, recovery, engine_config.journal.durability, &boot_id());
    if let Some(lost) = lost.map_err(|error| failed(&error))? {
        tracing::warn!(
            "this member may lack what it once acknowledged ({lost}): it has no vote until it has caught up"
        );
    }
    let summary = recovery.log.clone().ok_or_else(|| failed(&"the journal has no summary"))?;
    let ready_files = site.take_over()?;
    let exchange = opened.exchange();
    let (recovered, day) = (exchange.sequence(), exchange.trading_day());
    let (capacities, rulebook) = (exchange.capacities(), exchange.rulebook_version());
    // Far from the numbers of the other members' connections, and of this one's before: they are in the same log.
    let (hub, egress) = Hub::new(&assembly::seed(exchange, ConnectionId(rand::rng().random())));
    let resume = ResumeKeys::new(rand::rng().random());
    let seat = Seat::new(resume.clone());
    let (engine, ports) = Engine::start_member(&engine_config, opened, Box::new(egress), seat.parts())
        .map_err(|error| CommandError::failed(error.to_string()))?;
    let start = member::Start {
        config,
        cluster,
        engine_config: &engine_config,
        data,
        storage,
        engine: &engine,
        capacities,
        rulebook,
        hub: &hub,
        asked: asked.clone(),
    };
    let member = MemberSide::start(&start, entered, Log { journal, summary }, &seat, ports, oversight)?;
    let leadership = seat.leadership(cluster);
    let member = Some(member);
    let passwords = None;
    Ok(Started {
        engine,
        hub,
        leadership,
        resume,
        member,
        cluster_id,
        recovered,
        day,
        ready_files,
        passwords,
    })
}

/// What the kernel calls the time since the machine was started; empty where it does not say.
fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// Opens the data directory. One that is in use is tried again for a moment: after a kill its process may still be on its
/// way out.
fn recover<T>(mut open: impl FnMut(&mut Meter) -> Result<T, OpenError>) -> Result<(T, Rate), CommandError> {
    let mut meter = Meter::new("recovering", Without::Log);
    let started = Instant::now();
    loop {
        match open(&mut meter) {
            Err(OpenError::Journal(JournalError::Locked { .. })) if started.elapsed() < LOCK_PATIENCE => {
                std::thread::sleep(LOCK_LOOK_EVERY);
            }
            opened => {
                let rate = meter.finish();
                return opened
                    .map(|opened| (opened, rate))
                    .map_err(|error| CommandError::failed(error.to_string()));
            }
        }
    }
}

fn tell_recovered(opened: &Opened, rate: Rate) {
    let found = opened.found();
    for refused in &found.refused {
        tracing::warn!(file = refused.file, reason = refused.reason, "snapshot not used");
    }
    for skip in &found.skipped {
        tracing::warn!("{}", text::skip_line(skip));
    }
    tracing::info!(
        sequence = opened.exchange().sequence().0,
        snapshot = found.from_snapshot.map_or(0, |sequence| sequence.0),
        replayed = found.replayed,
        seconds = rate.seconds,
        clean_stop = found.journal.clean_stop,
        "recovered"
    );
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
    let (hub, egress) = Hub::new(&assembly::seed(exchange, ConnectionId(0)));
    let engine = Engine::start(engine_config, opened, Box::new(egress))
        .map_err(|error| CommandError::failed(error.to_string()))?;
    let clock = engine_config.clock.clone();
    let mut system = System::new(engine.ingress(), engine.view(), clock, day, last_report);
    provision(&mut system, &Plan::new(&wanted, &known))?;
    assembly::finish_retirement(data, &wanted)?;
    Ok((engine, hub, passwords))
}

/// Publishes a plan, and tells what could not be had.
fn provision(system: &mut System, plan: &Plan) -> Result<(), CommandError> {
    plan.tell_conflicts();
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

/// Opens order entry.
pub(super) fn gateway(
    site: &Site<'_>,
    engine: &EngineHandle,
    hub: Hub,
    (leadership, resume): (Arc<dyn Leadership>, ResumeKeys),
    reserve: &Arc<Reserve>,
) -> Result<GatewayHandle, CommandError> {
    let depth = engine.view();
    let parts = GatewayParts {
        ingress: engine.ingress(),
        reports: engine.view().report_reader(),
        hub,
        depth: Arc::new(move |instrument, levels| depth.depth().snapshot(instrument, levels)),
        admission: admission(engine.view(), Arc::clone(site.oversight), Arc::clone(reserve)),
        leadership,
        resume,
        recorder: site.recorder.writer("gateway"),
    };
    Gateway::start(assembly::gateway(site.config), parts).map_err(|error| match error {
        GatewayError::Listen(address, error) => CommandError::failed(format!(
            "gateway.listen: {address}: {error}; give another with --listen ADDRESS, port 0 for any free one"
        )),
        error => CommandError::failed(error.to_string()),
    })
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

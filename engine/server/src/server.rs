//! One server, from an unlocked data directory to the last frame: open, start, serve until asked to stop, drain. As a member
//! of a cluster it hands leadership over before it stops.

mod directory;
mod recording;
mod start;
mod upkeep;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use journaler::SharedStorage;
use pipeline::EngineHandle;
use protocol::TradingDay;
use recorder::Recording;
use snapshots::SnapshotStore;

pub(crate) use self::recording::FOLDER as RECORDER_FOLDER;

use self::directory::remove;
use self::start::{Site, Started};
use self::upkeep::look_after;
use crate::config::{Config, JournalConfig};
use crate::error::CommandError;
use crate::http::HttpServer;
use crate::member::MemberSide;
use crate::oversight::{Oversight, Phase, Running};
use crate::passwords::Passwords;
use crate::ready::Ready;
use crate::reserve::Reserve;
use crate::signals::Asked;
use crate::{assembly, say, space};

/// How often a server looks whether its engine is well and its disk has space.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A server that takes orders, or a member that would if it led.
pub struct Server {
    config: Config,
    data: PathBuf,
    engine: EngineHandle,
    member: Option<MemberSide>,
    oversight: Arc<Oversight>,
    storage: SharedStorage,
    reserve: Arc<Reserve>,
    recording: Option<Recording>,
    // Dropped last of all: it tells of the stop until the end.
    http: HttpServer,
    ready: Ready,
    ready_files: Vec<PathBuf>,
}

/// How a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// It was asked to stop.
    Stopped,
    /// The cluster has sent it a snapshot, from which it must be started again.
    ForRestart,
}

impl Server {
    /// Brings back the last state and starts everything. When this returns, orders are taken and the ready files say so; a
    /// member takes them once it leads. `oversight` shows each phase on the way. `asked` is the other end of what
    /// [`serve`](Self::serve) waits for.
    ///
    /// # Errors
    /// One line that says what is in the way.
    pub fn start(
        config: Config,
        oversight: Arc<Oversight>,
        ready_file: Option<&Path>,
        asked: &Sender<Asked>,
    ) -> Result<Self, CommandError> {
        // Whoever waits for this file must not find an earlier server's.
        if let Some(file) = ready_file {
            remove(file)?;
        }
        space::check_new(&config.data, &config.journal)?;
        let (storage, data) = directory::open(&config.data)?;
        let http = directory::http(&config, &data, &oversight)?;
        let (recorder, recording) = recording::start(&config, &data, &storage)?;
        let site = Site {
            config: &config,
            data: &data,
            storage: &storage,
            oversight: &oversight,
            recorder: &recorder,
            http: http.address(),
            ready_file,
        };
        let started = match &config.cluster {
            None => start::alone(&site),
            Some(cluster) => start::member(&site, cluster, asked),
        };
        let started = started.map_err(|error| match error {
            CommandError::Failed(line) => CommandError::failed(space::explain(&line, &data, &config.journal)),
            other => other,
        })?;
        let Started {
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
        } = started;
        let JournalConfig { reserve_bytes, segment_bytes, .. } = config.journal;
        let reserve = Reserve::new(&data, reserve_bytes, segment_bytes).map(Arc::new);
        let reserve =
            reserve.map_err(|error| CommandError::failed(format!("{}: {error}", data.display())))?;
        look_after(&reserve, &storage)?;
        upkeep::warn_if_low(&reserve, &storage, &data);
        let gateway = start::gateway(&site, &engine, hub, (leadership, resume), &reserve)?;
        let ready = site.ready(gateway.local_addr(), recovered);
        oversight.show(Running {
            view: engine.view(),
            gateway,
            snapshots: engine.snapshots(),
            ingress: engine.ingress(),
            store: SnapshotStore::new(Arc::clone(&storage), cluster_id),
            storage: Arc::clone(&storage),
            reserve: Arc::clone(&reserve),
            durability: config.durability_name(),
        });
        oversight.enter(Phase::Serving);
        let server = Self {
            config,
            data,
            engine,
            member,
            oversight,
            storage,
            reserve,
            recording,
            http,
            ready,
            ready_files,
        };
        server.tell_ready(passwords.as_ref(), day)?;
        Ok(server)
    }

    /// Serves until asked to stop, or until the engine can't go on.
    ///
    /// # Errors
    /// The engine failed, or did not drain in time.
    pub fn serve(self, asked: &Receiver<Asked>) -> Result<Ended, CommandError> {
        let view = self.engine.view();
        let mut told = Instant::now();
        loop {
            match asked.recv_timeout(LOOK_EVERY) {
                Ok(Asked::Stop(signal)) => {
                    tracing::info!(signal, "asked to stop");
                    return self.stop().map(|()| Ended::Stopped);
                }
                Ok(Asked::Restart) => {
                    tracing::info!("a snapshot of the cluster has arrived: starting again from it");
                    return self.stop().map(|()| Ended::ForRestart);
                }
                Err(RecvTimeoutError::Disconnected) => return self.stop().map(|()| Ended::Stopped),
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
        // While clients are still connected, so that they are told where to go on.
        if let Some(member) = &self.member {
            member.hand_over();
        }
        self.oversight.enter(Phase::Stopping);
        self.ready_files.iter().try_for_each(|file| remove(file))?;
        if let Some(gateway) = self.oversight.let_go() {
            gateway.stop();
        }
        // The engine drains once the consensus feeds it no more.
        if let Some(member) = self.member {
            member.stop();
        }
        let stopped = self.engine.stop(assembly::STOP_PATIENCE);
        // Behind the last stage, so that its last records are written.
        drop(self.recording);
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
        let Ready { native, http, durability, member, .. } = &self.ready;
        let (version, sequence) = (env!("CARGO_PKG_VERSION"), self.ready.recovered_sequence);
        match member {
            None => {
                tracing::info!(%native, %http, durability, %day, sequence, "taking orders");
                say!(
                    "ringpit {version} takes orders at {native} (durability {durability}, trading day {day})"
                );
            }
            Some(member) => {
                let (id, members) = (member.id, &member.address);
                tracing::info!(member = id.0, %native, members, %http, durability, %day, sequence, "running");
                say!(
                    "ringpit {version} is member {id}, for members at {members}, for clients at {native} while it leads"
                );
            }
        }
        say!("health and metrics at http://{http}, data in {}", self.data.display());
        for (name, password) in passwords.iter().flat_map(|passwords| passwords.iter()) {
            say!("demonstration user {name} with password {password}");
        }
        directory::write_ready(&self.ready, &self.ready_files)
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

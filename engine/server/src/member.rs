//! A member of a cluster: from its data directory into the cluster, and the consensus among the other parts of the process.
//! Everything that a server alone does not need is here; how members agree is the replicator's.

mod adapters;
mod entry;
mod port;
mod provisioner;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::sync::mpsc::Sender;
use std::time::Duration;

use gateway::{Leadership, ResumeKeys};
use journaler::{Journal, LogSummary, SharedStorage};
use pipeline::{EngineConfig, EngineHandle, EngineView, MemberParts, MemberPorts};
use protocol::{Capacities, Checkpoint, Sequence};
use rand::RngExt;
use replicator::{
    Cluster, ClusterOptions, Hooks, Lead, MemberStatus, TakeSecret, Verdict, Versions, WriterHome,
};
use snapshots::SnapshotStore;

use self::adapters::{Folder, Leads};
use self::port::MembersPort;
use self::provisioner::Provisioner;
use crate::assembly;
use crate::config::{ClusterConfig, Config};
use crate::error::CommandError;
use crate::membership::Membership;
use crate::oversight::Oversight;
use crate::signals::Asked;

pub use entry::{Entered, adopt, enter, refuse_members_directory};

/// What this binary understands, as the members tell each other.
#[must_use]
pub fn versions() -> Versions {
    Versions {
        binary: env!("CARGO_PKG_VERSION").to_owned(),
        journal: journaler::JOURNAL_FORMAT_VERSION,
        rulebook: exchange::RULEBOOK_VERSION,
    }
}

/// The parts of a member that the engine is started with.
pub struct Seat {
    lead: Lead,
    needed_from: Arc<AtomicU64>,
    resume: ResumeKeys,
}

impl Seat {
    /// A member that nobody knows yet. Its gateway has `resume` too: what clients got from one member lets them in at others.
    #[must_use]
    pub fn new(resume: ResumeKeys) -> Self {
        Self { lead: Lead::new(), needed_from: Arc::new(AtomicU64::new(0)), resume }
    }

    /// What the engine needs.
    #[must_use]
    pub fn parts(&self) -> MemberParts {
        let needed_from = Arc::clone(&self.needed_from);
        MemberParts {
            lead: self.lead.clone(),
            retention: Box::new(move |sequence| replicator::raise(&needed_from, sequence)),
        }
    }

    /// What the gateway asks.
    #[must_use]
    pub fn leadership(&self, cluster: &ClusterConfig) -> Arc<dyn Leadership> {
        Arc::new(Leads { lead: self.lead.clone(), own: cluster.member.id })
    }
}

/// A running member. It must be stopped; dropped, it leaves its threads to the end of the process.
pub struct MemberSide {
    cluster: Cluster,
    port: MembersPort,
    provisioner: Provisioner,
}

/// A member's open log.
pub struct Log {
    /// The journal, which the consensus writes.
    pub journal: Journal,
    /// What is in it.
    pub summary: LogSummary,
}

/// What a member is started from.
pub struct Start<'a> {
    /// The checked configuration.
    pub config: &'a Config,
    /// Its part for the cluster.
    pub cluster: &'a ClusterConfig,
    /// The engine's part.
    pub engine_config: &'a EngineConfig,
    /// The data directory.
    pub data: &'a Path,
    /// Its storage.
    pub storage: &'a SharedStorage,
    /// The running engine.
    pub engine: &'a EngineHandle,
    /// Of the state that the engine was started with.
    pub capacities: Capacities,
    /// Version of the rulebook of that state.
    pub rulebook: u32,
    /// What the gateway knows.
    pub hub: &'a gateway::Hub,
    /// Where a snapshot that arrived asks for a new start.
    pub asked: Sender<Asked>,
}

impl MemberSide {
    /// Starts the consensus, opens the port to the other members, and watches over leadership.
    ///
    /// # Errors
    /// One line that says what is in the way.
    pub fn start(
        start: &Start<'_>,
        entered: Entered,
        log: Log,
        seat: &Seat,
        ports: MemberPorts,
        oversight: &Arc<Oversight>,
    ) -> Result<Self, CommandError> {
        let failed = |error: &dyn std::fmt::Display| CommandError::failed(error.to_string());
        let view = start.engine.view();
        let MemberPorts { feed, proposals, lead_changed, confirmed, checkpoints, journal } = ports;
        let store = SnapshotStore::new(Arc::clone(start.storage), start.engine_config.journal.cluster_id);
        let applied = feed.fed();
        let options = ClusterOptions {
            member: start.cluster.member.clone(),
            timing: timing(start.cluster),
            durability: start.engine_config.journal.durability,
            versions: versions(),
            transport: Arc::new(entered.transport.clone()),
            storage: Arc::clone(start.storage),
            prepared: entered.prepared,
            journal: log.journal,
            summary: log.summary,
            applied,
            feed: Box::new(feed),
            proposals,
            monitor: Box::new(journal),
            snapshots: Arc::new(Folder(store)),
            lead: seat.lead.clone(),
            needed_from: Arc::clone(&seat.needed_from),
            hooks: Hooks {
                checkpoints: Box::new(move || checkpoints.recent()),
                commit_took: commit_took(Arc::clone(oversight)),
                confirmed: Box::new(move |checkpoint| confirmed.set(checkpoint)),
                sequence: sequence(view.clone()),
                diverged: Box::new(move |verdict| diverged(&view, verdict)),
                fatal: fatal(start.config, start.data),
                restart: restart(start.asked.clone()),
                secret: seat.resume.own().to_vec(),
                told_secret: told_secret(seat.resume.clone()),
            },
            seed: rand::rng().random(),
            writer: WriterHome::Thread,
        };
        let cluster = Cluster::spawn(options).map_err(|error| failed(&error))?;
        oversight.show_membership(Membership::Member(cluster.clone()));
        let port = MembersPort::open(entered.listener, entered.transport, &cluster)
            .map_err(|error| failed(&format!("cluster.listen: {}: {error}", start.cluster.listen)))?;
        port::watch_leadership(&cluster, lead_changed, Arc::clone(oversight));
        let provisioner = Provisioner::start(start, seat.lead.clone(), cluster.clone())
            .map_err(|error| failed(&format!("a thread can't be started: {error}")))?;
        Ok(Self { cluster, port, provisioner })
    }

    /// Makes another member the leader, if this one is and another can.
    pub fn hand_over(&self) {
        let status = self.cluster.status();
        let able = |other: &MemberStatus| other.voter && other.reachable && other.member.id != status.member;
        if self.cluster.lead().term().is_none() || !status.members.iter().any(able) {
            return;
        }
        let Some(runtime) = self.cluster.runtime() else { return };
        match runtime.block_on(self.cluster.hand_over(None)) {
            Ok(done) => tracing::info!("{done}"),
            Err(why) => tracing::warn!(why, "leadership is not handed over; the others elect a leader"),
        }
    }

    /// Leaves in good order: nothing is proposed any more, and the journal is closed.
    pub fn stop(self) {
        self.provisioner.stop();
        self.port.close();
        if let Some(runtime) = self.cluster.runtime() {
            runtime.block_on(self.cluster.stop());
        }
        self.cluster.join();
    }
}

fn timing(cluster: &ClusterConfig) -> replicator::Timing {
    replicator::Timing {
        heartbeat: cluster.heartbeat,
        election_min: *cluster.election.start(),
        election_max: *cluster.election.end(),
    }
}

fn commit_took(oversight: Arc<Oversight>) -> Box<dyn Fn(Duration) + Send + Sync> {
    Box::new(move |took| {
        oversight.commit_ns.record(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), 1);
    })
}

fn sequence(view: EngineView) -> Box<dyn Fn() -> Sequence + Send + Sync> {
    Box::new(move || view.marks().applied_sequence())
}

/// The other members contradict this one: it ends, and keeps what shows it.
fn diverged(view: &EngineView, verdict: &Verdict) {
    match verdict {
        Verdict::Contradicted { sequence, majority_hash, told, .. } => {
            let expected = Checkpoint { sequence: *sequence, running_hash: *majority_hash };
            view.diverged(expected, &format!("a majority of the members ({})", words(told)));
        }
        Verdict::NoMajority { sequence, told } => {
            let expected = Checkpoint { sequence: *sequence, running_hash: 0 };
            view.diverged(
                expected,
                &format!("no majority of the members, which all differ ({})", words(told)),
            );
        }
    }
}

fn words(told: &[(u64, u64)]) -> String {
    let all: Vec<String> =
        told.iter().map(|(member, hash)| format!("member {member}: {hash:016x}")).collect();
    all.join(", ")
}

fn fatal(config: &Config, data: &Path) -> Box<dyn Fn(&str) + Send + Sync> {
    let (data, journal) = (data.to_path_buf(), config.journal.clone());
    Box::new(move |line| assembly::end_with(&crate::space::explain(line, &data, &journal)))
}

fn told_secret(resume: ResumeKeys) -> TakeSecret {
    Box::new(move |key| resume.learn(key))
}

fn restart(asked: Sender<Asked>) -> Box<dyn Fn() + Send + Sync> {
    Box::new(move || {
        // Without a receiver the process is ending already.
        let _ = asked.send(Asked::Restart);
    })
}

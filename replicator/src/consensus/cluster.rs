//! A member's consensus as its process sees it: started with its parts, asked, told, stopped.

use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use journaler::{Durability, Journal, LogSummary, SharedStorage};
use openraft::{Config, Raft, SnapshotPolicy};
use protocol::Sequence;
use protocol::planted::{Bug, is_on};
use tokio::sync::{mpsc as channel, watch};

use super::admin;
use super::disk::{DiskWatch, Watched};
use super::machine::{Applied, Feed, Machine};
use super::memory::Memory;
use super::node::{Node, Parts, lock};
use super::peers::{Confirmations, Identity, Network, Peers};
use super::prepare::Prepared;
use super::serve;
use super::snapshot::SnapshotFolder;
use super::status::{ClusterStatus, Versions};
use super::store::{Jobs, LogStore};
use super::types::{Runtime, StoredMembership};
use super::writer::{Job, JournalMonitor, WriteError, Writer};
use super::{Hooks, Timing};
use crate::lead::{Lead, LeadState, ProposalReceiver};
use crate::member::{Member, MemberId};
use crate::proto;
use crate::transport::{Envelope, Transport};

/// Most entries of one message: a follower makes them durable together.
const MESSAGE_ENTRIES_MAX: u64 = 64;

/// What a member's consensus is made of.
pub struct ClusterOptions {
    /// This member.
    pub member: Member,
    /// How fast a lost leader is missed.
    pub timing: Timing,
    /// `Disk` is `quorum`.
    pub durability: Durability,
    /// What this binary understands.
    pub versions: Versions,
    /// Where the members' messages go.
    pub transport: Arc<dyn Transport>,
    /// The data directory.
    pub storage: SharedStorage,
    /// From the data directory.
    pub prepared: Prepared,
    /// The log.
    pub journal: Journal,
    /// What is in it.
    pub summary: LogSummary,
    /// The last frame of the state that the feed goes on from, at most the last committed one.
    pub applied: Sequence,
    /// Where committed frames go.
    pub feed: Box<dyn Feed>,
    /// What the leader's ring gives.
    pub proposals: ProposalReceiver,
    /// What is told of writing.
    pub monitor: Box<dyn JournalMonitor>,
    /// The snapshots.
    pub snapshots: Arc<dyn SnapshotFolder>,
    /// Who leads: the same as the proposer and the gateways look at.
    pub lead: Lead,
    /// Frames before this one are not needed by snapshots and reports; the housekeeping raises it.
    pub needed_from: Arc<AtomicU64>,
    /// The rest of the process.
    pub hooks: Hooks,
    /// Seed of the library's random numbers.
    pub seed: u64,
    /// Where the journal is written.
    pub writer: WriterHome,
}

/// Where the journal is written.
pub enum WriterHome {
    /// On a thread of its own.
    Thread,
    /// In a task that takes as long as this says: for a simulation.
    Task(Box<dyn FnMut() -> Duration + Send>),
}

/// Why a consensus did not start.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// The timing.
    #[error("cluster timing: {0}")]
    Timing(String),
    /// The log.
    #[error("the member's log: {0}")]
    Journal(#[from] journaler::JournalError),
    /// A thread or a runtime.
    #[error("starting the consensus: {0}")]
    Io(#[from] io::Error),
    /// The library.
    #[error("the consensus did not start: {0}")]
    Library(String),
}

/// A running consensus. Clones are the same.
#[derive(Clone)]
pub struct Cluster {
    node: Arc<Node>,
    durability: &'static str,
    thread: Arc<Mutex<Option<Home>>>,
}

struct Home {
    runtime: tokio::runtime::Handle,
    stop: channel::Sender<()>,
    thread: JoinHandle<()>,
}

/// An answer to come.
pub type BoxFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

impl Cluster {
    /// Starts the consensus on a thread of its own.
    ///
    /// # Errors
    /// [`ClusterError`]; then nothing is left running.
    pub fn spawn(options: ClusterOptions) -> Result<Self, ClusterError> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, mut stopped) = channel::channel::<()>(1);
        let (started, start) = mpsc::sync_channel(1);
        let seed = options.seed;
        let thread = thread::Builder::new().name("consensus".into()).spawn(move || {
            runtime.block_on(Runtime::scope(seed, async move {
                let cluster = Self::start(options).await;
                // The receiver waits for this one message.
                let _ = started.send(cluster);
                stopped.recv().await;
            }));
            runtime.shutdown_timeout(Duration::from_millis(200));
        })?;
        let cluster = start.recv().map_err(io::Error::other)??;
        *lock(&cluster.thread) = Some(Home { runtime: handle, stop, thread });
        Ok(cluster)
    }

    /// Starts the consensus on the calling task's runtime: for a simulation. Call it within [`seeded`].
    ///
    /// # Errors
    /// [`ClusterError`].
    pub async fn start(options: ClusterOptions) -> Result<Self, ClusterError> {
        options.timing.check().map_err(ClusterError::Timing)?;
        let config = config(&options.timing)?;
        let record = options.prepared.record.record().clone();
        let identity = Identity {
            member: options.member.id,
            cluster: record.cluster,
            incarnation: record.incarnation,
            versions: options.versions.to_proto(),
        };
        let reader = options.journal.entry_reader();
        let last_sequence = options.journal.journaled_sequence();
        let written = watch::Sender::new(0);
        let watch = written.subscribe();
        let low = Arc::new(AtomicBool::new(false));
        let monitor = Box::new(Watched { monitor: options.monitor, low: Arc::clone(&low) });
        let writer = Writer::new(options.journal, options.prepared.record, monitor, written);
        let hooks = Arc::new(options.hooks);
        let fatal = Arc::clone(&hooks);
        let jobs = place_writer(writer, options.writer, move |line| (fatal.fatal)(line))?;
        let store = LogStore::new(&options.summary, last_sequence, record.vote, reader, jobs, watch);

        let (applied_id, _) = store.clone().entry_at(options.applied)?;
        let applied =
            Applied { id: applied_id, membership: known_membership(&record, &options.summary, applied_id)? };
        let machine = Machine::new(options.feed, store.clone(), Arc::clone(&options.snapshots), applied);
        let applied = machine.applied();

        let network = Arc::new(Network {
            identity,
            transport: options.transport,
            storage: options.storage,
            folder: options.snapshots,
            confirmations: Confirmations::default(),
            lead: options.lead,
            lease: options.timing.lease(),
            heartbeat_deadline: options.timing.status_deadline(),
            addresses: Mutex::default(),
            transfers: Arc::default(),
        });
        let raft =
            Raft::new(options.member.id.0, config, Peers(Arc::clone(&network)), store.clone(), machine)
                .await
                .map_err(|error| ClusterError::Library(error.to_string()))?;
        let memory = Memory::new(record.forgetful, record.vote_forgotten, record.floor);
        if record.forgetful {
            tracing::warn!(
                "this member lost a part of what it once acknowledged: it does not vote until that is mended"
            );
        }
        if let Some(founding) = &record.founding
            && store.last().is_none()
            && !record.forgetful
        {
            let members: std::collections::BTreeMap<u64, Member> =
                founding.nodes().map(|(id, member)| (*id, member.clone())).collect();
            // Every founder begins with the same entry, so whoever is first does no harm to the others.
            if let Err(error) = raft.initialize(members).await {
                tracing::debug!(%error, "another founder was first");
            }
        }
        let node = Node::new(Parts {
            raft,
            store,
            network,
            memory,
            timing: options.timing,
            applied,
            hooks,
            needed_from: options.needed_from,
            disk: DiskWatch::new(low),
        });
        node.run(options.proposals);
        let durability = match options.durability {
            Durability::Disk => "quorum",
            Durability::Memory => "memory",
        };
        Ok(Self { node, durability, thread: Arc::default() })
    }

    /// Who leads.
    #[must_use]
    pub fn lead(&self) -> Lead {
        self.node.network.lead.clone()
    }

    /// Answers another member; on whatever runtime it is awaited.
    #[must_use]
    pub fn handle(&self, request: Envelope) -> BoxFuture<Envelope> {
        let node = Arc::clone(&self.node);
        Box::pin(async move { serve::answer(&node, request).await })
    }

    /// The runtime of the consensus, for the members' listener; `None` in a simulation.
    #[must_use]
    pub fn runtime(&self) -> Option<tokio::runtime::Handle> {
        lock(&self.thread).as_ref().map(|home| home.runtime.clone())
    }

    /// The cluster as this member sees it.
    #[must_use]
    pub fn status(&self) -> ClusterStatus {
        self.node.status(self.durability)
    }

    /// Adds a member that has no vote, or gives it new addresses.
    ///
    /// # Errors
    /// Why not, for people. So for all of these.
    pub async fn add(&self, member: &Member) -> Result<String, String> {
        self.node.wish(admin::add(member)).await
    }

    /// Gives a member a vote.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub async fn promote(&self, member: MemberId, force: bool) -> Result<String, String> {
        self.node.wish(proto::admin::Wish::Promote(admin::change(member, force))).await
    }

    /// Takes a member its vote.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub async fn demote(&self, member: MemberId, force: bool) -> Result<String, String> {
        self.node.wish(proto::admin::Wish::Demote(admin::change(member, force))).await
    }

    /// Removes a member.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub async fn remove(&self, member: MemberId, force: bool) -> Result<String, String> {
        self.node.wish(proto::admin::Wish::Remove(admin::change(member, force))).await
    }

    /// Hands leadership to a member, or to whoever is furthest.
    ///
    /// # Errors
    /// As [`add`](Self::add).
    pub async fn hand_over(&self, to: Option<MemberId>) -> Result<String, String> {
        let to = admin::change(to.unwrap_or_default(), false);
        self.node.wish(proto::admin::Wish::HandOver(to)).await
    }

    /// Stops in good order and closes the journal. A leader [hands over](Self::hand_over) before; else the others elect one.
    pub async fn stop(&self) {
        self.node.network.lead.set(&LeadState::default());
        lock(&self.node.tasks).abort_all();
        if let Err(error) = self.node.raft.shutdown().await {
            tracing::warn!(%error, "the consensus ended badly");
        }
        self.node.store.close().await;
    }

    /// Ends the thread, after [`stop`](Self::stop) or without it.
    pub fn join(&self) {
        let Some(home) = lock(&self.thread).take() else { return };
        drop(home.stop);
        // A panic was told by the panic hook.
        let _ = home.thread.join();
    }

    /// Ends all that goes on, as a crash would: for a simulation.
    pub fn kill(&self) {
        lock(&self.node.tasks).abort_all();
        self.node.network.lead.set(&LeadState::default());
    }
}

/// Runs a simulation's tasks with the library's random numbers from a seed.
pub fn seeded<F: Future>(seed: u64, future: F) -> impl Future<Output = F::Output> {
    Runtime::scope(seed, future)
}

fn config(timing: &Timing) -> Result<Arc<Config>, ClusterError> {
    let milliseconds = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    let config = Config {
        cluster_name: "ringpit".into(),
        heartbeat_interval: milliseconds(timing.heartbeat),
        // The library's lease of a leader is the longest timeout; the shortest is how long an answer to a vote may take.
        election_timeout_min: milliseconds(timing.word()) - 1,
        election_timeout_max: milliseconds(timing.word()),
        // It would wait for a timeout more behind the lease, and knows nothing of the leader's process.
        enable_elect: false,
        install_snapshot_timeout: milliseconds(Duration::from_secs(3600)),
        max_payload_entries: MESSAGE_ENTRIES_MAX,
        replication_lag_threshold: u64::MAX,
        snapshot_policy: SnapshotPolicy::Never,
        max_in_snapshot_log_to_keep: u64::MAX,
        enable_pre_vote: Some(true),
        // A leader that comes back without its unflushed tail must be elected anew, or it would write other entries in
        // the place of some that were acknowledged.
        enable_leader_restore: Some(is_on(Bug::LeaderRestored)),
        // A member that lost a part of its log says so, and neither votes nor is counted until it has caught up; so its
        // log going back is no reason for its leader to end. Late answers of its life before may tell of it twice.
        allow_log_reversion: Some(true),
        backoff: "10ms 10ms 10ms".into(),
        ..Config::default()
    };
    let config = config.validate().map_err(|error| ClusterError::Library(error.to_string()))?;
    let restored = is_on(Bug::LeaderRestored);
    assert_eq!(config.enable_leader_restore, Some(restored), "a leader is never restored at a start");
    Ok(Arc::new(config))
}

/// The newest membership known to be applied: from the log, or from the member's own file where the log no longer has it.
fn known_membership(
    record: &super::record::Record,
    summary: &LogSummary,
    applied: Option<super::types::LogId>,
) -> Result<StoredMembership, ClusterError> {
    let mut known = record.membership.clone().filter(|(id, _)| Some(*id) <= applied);
    for (index, term, bytes) in &summary.memberships {
        let id = super::types::log_id(term.0, index.saturating_sub(1));
        if Some(id) <= applied && known.as_ref().is_none_or(|(newest, _)| *newest < id) {
            let membership = super::types::decode_membership(bytes).map_err(ClusterError::Library)?;
            known = Some((id, membership));
        }
    }
    Ok(match known {
        Some((id, membership)) => StoredMembership::new(Some(id), membership),
        None => StoredMembership::default(),
    })
}

/// Puts the writer where it works, and gives the way to it.
fn place_writer(
    mut writer: Writer,
    home: WriterHome,
    fatal: impl Fn(&str) + Send + 'static,
) -> Result<Jobs, ClusterError> {
    let ended = || io::Error::other("the journal's writer has ended");
    match home {
        WriterHome::Thread => {
            let (sender, jobs) = mpsc::channel::<Job>();
            thread::Builder::new().name("journal".into()).spawn(move || {
                if let Err(error) = writer.run(&jobs) {
                    fatal(&error.to_string());
                }
            })?;
            let sender = Mutex::new(sender);
            Ok(Arc::new(move |job| {
                sender.lock().unwrap_or_else(PoisonError::into_inner).send(job).map_err(|_| ended())
            }))
        }
        WriterHome::Task(mut delay) => {
            let (sender, mut jobs) = channel::unbounded_channel::<Job>();
            tokio::spawn(async move {
                let mut waiting = VecDeque::new();
                while let Some(job) = jobs.recv().await {
                    waiting.push_back(job);
                    tokio::time::sleep(delay()).await;
                    while let Ok(job) = jobs.try_recv() {
                        waiting.push_back(job);
                    }
                    let worked: Result<bool, WriteError> = writer.work(&mut waiting);
                    match worked {
                        Ok(false) => {}
                        Ok(true) => return,
                        Err(error) => return fatal(&error.to_string()),
                    }
                }
            });
            Ok(Arc::new(move |job| sender.send(job).map_err(|_| ended())))
        }
    }
}

/// Raises what the journal need not keep.
pub fn raise(needed_from: &AtomicU64, sequence: Sequence) {
    needed_from.fetch_max(sequence.0, Ordering::AcqRel);
}

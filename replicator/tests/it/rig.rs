//! A cluster in memory. Each member has a disk, a cable that can be cut, and gathers what it is fed.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use journaler::storage::fake::FakeStorage;
use journaler::{Durability, Journal, JournalOptions, SharedStorage};
use protocol::{Sequence, Term};
use replicator::{
    Blank, CallFuture, Channel, Cluster, ClusterOptions, Envelope, Feed, Hooks, JournalMonitor, Lead, Member,
    MemberId, Proposal, ProposalSender, RebuildPlan, SnapshotFolder, Start, Timing, Transport,
    TransportError, Versions, WriterHome, plan_rebuild, prepare, proposals, rebuild, seeded,
};

/// One slot that says which it is.
pub(crate) fn frame(number: u64) -> Vec<u8> {
    let mut slot = vec![0; 64];
    slot[0] = 48;
    slot[40..48].copy_from_slice(&number.to_le_bytes());
    slot
}

fn numbers(frames: &[u8]) -> impl Iterator<Item = u64> + '_ {
    frames.chunks(64).map(|slot| u64::from_le_bytes(slot[40..48].try_into().expect("eight bytes")))
}

/// What a member was fed, which outlives the member.
#[derive(Clone, Default)]
pub(crate) struct Fed(Arc<Mutex<Vec<u64>>>);

impl Fed {
    pub(crate) fn numbers(&self) -> Vec<u64> {
        self.0.lock().unwrap().clone()
    }
}

struct Gatherer {
    fed: Fed,
}

impl Feed for Gatherer {
    fn push(&mut self, frames: &[u8]) -> usize {
        self.fed.0.lock().unwrap().extend(numbers(frames));
        frames.len()
    }

    fn fed(&self) -> Sequence {
        Sequence(self.fed.0.lock().unwrap().len() as u64)
    }
}

struct Quiet;

impl JournalMonitor for Quiet {
    fn appended(&mut self, _frames: u64, _took: Duration) {}
    fn space_low(&mut self, _low: bool) {}
    fn durable(&mut self, _sequence: Sequence) {}
}

/// The snapshots on a disk, named by their sequence.
struct Snapshots(SharedStorage);

impl SnapshotFolder for Snapshots {
    fn newest_first(&self) -> Vec<Sequence> {
        let names = self.0.list("snapshots").unwrap_or_default();
        let mut sequences: Vec<_> = names.iter().filter_map(|name| name.parse().ok().map(Sequence)).collect();
        sequences.sort_unstable_by(|a, b| b.cmp(a));
        sequences
    }

    fn path(&self, sequence: Sequence) -> String {
        format!("snapshots/{sequence}")
    }
}

enum Seat {
    Blank(Arc<Blank>),
    Member(Cluster),
}

#[derive(Default)]
struct Wires {
    seats: BTreeMap<u64, Seat>,
    /// Pairs (from, to) whose messages are lost.
    cut: BTreeSet<(u64, u64)>,
    /// Pairs (from, to) between which no connection can be made.
    refused: BTreeSet<(u64, u64)>,
    /// Where those are that are not where they began.
    moved: BTreeMap<u64, String>,
}

/// The network. Each member has its own end.
#[derive(Clone)]
struct Cable {
    from: u64,
    wires: Arc<Mutex<Wires>>,
}

struct Wire {
    from: u64,
    to: u64,
    address: String,
    wires: Arc<Mutex<Wires>>,
}

impl Transport for Cable {
    fn open(&self, target: &Member) -> Box<dyn Channel> {
        let address = target.address.clone();
        Box::new(Wire { from: self.from, to: target.id.0, address, wires: Arc::clone(&self.wires) })
    }
}

impl Channel for Wire {
    fn call(&mut self, request: Envelope) -> CallFuture<'_> {
        Box::pin(async move {
            tokio::time::sleep(Duration::from_micros(100)).await;
            let answer = {
                let wires = self.wires.lock().unwrap();
                let is_there = wires.moved.get(&self.to).unwrap_or(&member(self.to).address) == &self.address;
                if !wires.seats.contains_key(&self.to) || wires.refused.contains(&(self.from, self.to)) {
                    let reason = "nobody listens".into();
                    return Err(TransportError::Unreachable { address: self.address.clone(), reason });
                }
                if !is_there || wires.cut.contains(&(self.from, self.to)) {
                    None
                } else {
                    wires.seats.get(&self.to).map(|seat| match seat {
                        Seat::Blank(blank) => {
                            let blank = Arc::clone(blank);
                            Box::pin(async move { blank.handle(request).await })
                                as replicator::BoxFuture<Envelope>
                        }
                        Seat::Member(cluster) => cluster.handle(request),
                    })
                }
            };
            let Some(answer) = answer else {
                // As a packet that is lost: nothing comes, until the caller has waited enough.
                tokio::time::sleep(Duration::from_secs(3600)).await;
                return Err(TransportError::Lost { address: self.to.to_string(), reason: "cut".into() });
            };
            let answer = answer.await;
            tokio::time::sleep(Duration::from_micros(100)).await;
            if self.wires.lock().unwrap().cut.contains(&(self.to, self.from)) {
                tokio::time::sleep(Duration::from_secs(3600)).await;
            }
            Ok(answer)
        })
    }
}

/// A member's own things.
pub(crate) struct Place {
    pub(crate) disk: FakeStorage,
    pub(crate) fed: Fed,
    pub(crate) lead: Lead,
    pub(crate) needed_from: Arc<AtomicU64>,
    pub(crate) restarts: Arc<AtomicU64>,
    proposer: Option<ProposalSender>,
    pub(crate) boot: String,
    /// How long a write takes, in microseconds.
    pub(crate) write_takes: Arc<AtomicU64>,
}

pub(crate) struct Rig {
    wires: Arc<Mutex<Wires>>,
    pub(crate) places: BTreeMap<u64, Place>,
    pub(crate) durability: Durability,
    starts: u64,
}

pub(crate) fn member(id: u64) -> Member {
    Member {
        id: MemberId(id),
        address: format!("member-{id}:1"),
        client_address: format!("member-{id}:2"),
        zone: format!("zone-{id}"),
    }
}

fn versions() -> Versions {
    Versions { binary: "test".into(), journal: 1, rulebook: 1 }
}

fn journal_options() -> JournalOptions {
    JournalOptions { segment_bytes: 1 << 20, summarize: true, ..JournalOptions::new(0) }
}

/// Runs a test whose time only moves when everybody waits.
pub(crate) fn run<F: Future<Output = ()>>(seed: u64, test: F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    runtime.block_on(seeded(seed, test));
}

impl Rig {
    pub(crate) fn new() -> Self {
        Self { wires: Arc::default(), places: BTreeMap::new(), durability: Durability::Disk, starts: 0 }
    }

    /// Members 1 to `count`, founded and with a leader.
    pub(crate) async fn founded(count: u64) -> Self {
        let mut rig = Self::new();
        for id in 1..=count {
            rig.start(id).await;
        }
        let members: Vec<Member> = (1..=count).map(member).collect();
        rig.found(1, &members).await.expect("the members can found a cluster");
        for id in 1..=count {
            rig.start(id).await;
        }
        rig.leader().await;
        rig
    }

    pub(crate) async fn found(&self, by: u64, members: &[Member]) -> Result<String, String> {
        let blank = match self.wires.lock().unwrap().seats.get(&by) {
            Some(Seat::Blank(blank)) => Arc::clone(blank),
            _ => panic!("member {by} is not blank"),
        };
        let transport: Arc<dyn Transport> = Arc::new(Cable { from: by, wires: Arc::clone(&self.wires) });
        blank.found(members, false, &transport).await.map_err(|error| error.to_string())
    }

    /// Starts a member from its disk, whatever is on it.
    pub(crate) async fn start(&mut self, id: u64) {
        let place = self.places.entry(id).or_insert_with(|| Place {
            disk: FakeStorage::new(),
            fed: Fed::default(),
            lead: Lead::new(),
            needed_from: Arc::default(),
            restarts: Arc::default(),
            proposer: None,
            boot: "boot".into(),
            write_takes: Arc::new(AtomicU64::new(200)),
        });
        let storage: SharedStorage = place.disk.shared();
        let mut options = JournalOptions { durability: self.durability, ..journal_options() };
        let mut prepared =
            match prepare(&storage, MemberId(id), &options, id, false).expect("the directory is good") {
                Start::Blank => {
                    let blank = Arc::new(Blank::new(storage, member(id), versions()));
                    self.wires.lock().unwrap().seats.insert(id, Seat::Blank(blank));
                    return;
                }
                Start::Member(prepared) => prepared,
            };
        options.cluster_id = prepared.cluster();
        let (journal, recovery) = Journal::open(storage.clone(), options).expect("the journal is good");
        prepared
            .judge(&journal, &recovery, self.durability, &place.boot)
            .expect("the member's file can be written");
        let summary = recovery.log.expect("it was asked for");
        // The state is a snapshot's and what is committed behind it, as the engine would have it.
        let applied = summary.committed_sequence.max(prepared.installed().unwrap_or_default());
        let fed = Fed::default();
        fed.0.lock().unwrap().extend(place.fed.numbers().into_iter().chain(0..).take(applied.0 as usize));
        place.fed = fed;
        place.lead = Lead::new();
        let (sender, receiver) = proposals(ring::WakeSet::default());
        place.proposer = Some(sender);
        self.starts += 1;
        let restarts = Arc::clone(&place.restarts);
        let write_takes = Arc::clone(&place.write_takes);
        let cluster = Cluster::start(ClusterOptions {
            member: member(id),
            timing: Timing::default(),
            durability: self.durability,
            versions: versions(),
            transport: Arc::new(Cable { from: id, wires: Arc::clone(&self.wires) }),
            storage,
            prepared: *prepared,
            journal,
            summary,
            applied,
            feed: Box::new(Gatherer { fed: place.fed.clone() }),
            proposals: receiver,
            monitor: Box::new(Quiet),
            snapshots: Arc::new(Snapshots(place.disk.shared())),
            lead: place.lead.clone(),
            needed_from: Arc::clone(&place.needed_from),
            hooks: Hooks {
                checkpoints: Box::new(Vec::new),
                commit_took: Box::new(|_| ()),
                confirmed: Box::new(|_| ()),
                sequence: Box::new(Sequence::default),
                diverged: Box::new(|verdict| panic!("{verdict:?}")),
                fatal: Box::new(|line| println!("fatal: {line}")),
                restart: Box::new(move || {
                    restarts.fetch_add(1, Ordering::Relaxed);
                }),
                secret: Vec::new(),
                told_secret: Box::new(|_| ()),
            },
            seed: self.starts,
            writer: WriterHome::Task(Box::new(move || {
                Duration::from_micros(write_takes.load(Ordering::Relaxed))
            })),
        })
        .await
        .expect("the consensus starts");
        self.wires.lock().unwrap().seats.insert(id, Seat::Member(cluster));
    }

    /// Ends a member as a kill would. Its disk keeps what a page cache keeps.
    pub(crate) fn kill(&mut self, id: u64) {
        let seat = self.wires.lock().unwrap().seats.remove(&id);
        if let Some(Seat::Member(cluster)) = seat {
            cluster.kill();
        }
        let place = self.places.get_mut(&id).expect("a known member");
        // What is left of the old one can't reach the new one's disk.
        place.disk = place.disk.copy();
        place.proposer = None;
    }

    /// As [`kill`](Self::kill), with the machine's power: what was not synced is gone.
    pub(crate) fn power_cut(&mut self, id: u64) {
        self.kill(id);
        let place = self.places.get_mut(&id).expect("a known member");
        place.disk = place.disk.power_cut(|_| false);
        place.boot = format!("{}+", place.boot);
    }

    pub(crate) fn wipe(&mut self, id: u64) {
        self.kill(id);
        let place = self.places.get_mut(&id).expect("a known member");
        place.disk = FakeStorage::new();
        place.fed = Fed::default();
    }

    pub(crate) fn rebuild(&self, id: u64) -> RebuildPlan {
        let storage: SharedStorage = self.places[&id].disk.shared();
        let planned = plan_rebuild(&storage, &journal_options(), MemberId(id)).expect("a plan");
        let done = rebuild(&storage, &journal_options(), &member(id)).expect("a rebuild");
        assert_eq!(planned, done);
        done
    }

    /// From here on a member is at another address.
    pub(crate) fn moves(&self, id: u64, address: &str) {
        self.wires.lock().unwrap().moved.insert(id, address.to_owned());
    }

    pub(crate) fn cut(&self, from: u64, to: u64) {
        self.wires.lock().unwrap().cut.insert((from, to));
    }

    pub(crate) fn isolate(&self, id: u64) {
        for other in self.places.keys().filter(|other| **other != id) {
            self.cut(id, *other);
            self.cut(*other, id);
        }
    }

    pub(crate) fn heal(&self) {
        let mut wires = self.wires.lock().unwrap();
        wires.cut.clear();
        wires.refused.clear();
    }

    pub(crate) fn refuse(&self, from: u64, to: u64) {
        self.wires.lock().unwrap().refused.insert((from, to));
    }

    pub(crate) fn cluster(&self, id: u64) -> Cluster {
        match self.wires.lock().unwrap().seats.get(&id) {
            Some(Seat::Member(cluster)) => cluster.clone(),
            _ => panic!("member {id} is not running"),
        }
    }

    pub(crate) fn is_blank(&self, id: u64) -> bool {
        matches!(self.wires.lock().unwrap().seats.get(&id), Some(Seat::Blank(_)))
    }

    /// The confirmed leader, once there is one.
    pub(crate) async fn leader(&self) -> u64 {
        for _ in 0..20_000 {
            let confirmed: Vec<u64> = self
                .places
                .iter()
                .filter(|(_, place)| place.lead.is_confirmed())
                .map(|(id, _)| *id)
                .collect();
            assert!(confirmed.len() <= 1, "{confirmed:?} lead at once");
            if let [leader] = confirmed[..] {
                return leader;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!(
            "no leader after 20 s: {:?}",
            self.places.keys().map(|id| self.describe(*id)).collect::<Vec<_>>()
        );
    }

    fn describe(&self, id: u64) -> String {
        match self.wires.lock().unwrap().seats.get(&id) {
            Some(Seat::Member(cluster)) => format!("{:?}", cluster.status()),
            Some(Seat::Blank(_)) => format!("{id}: blank"),
            None => format!("{id}: down"),
        }
    }

    /// Proposes a frame at a member that leads; whether it was taken.
    pub(crate) fn propose(&self, id: u64, number: u64) -> bool {
        let place = &self.places[&id];
        let (Some(term), Some(proposer)) = (place.lead.term(), &place.proposer) else { return false };
        proposer.try_propose(Proposal { term: Term(term.0), frames: frame(number).into() }).is_ok()
    }

    /// Proposes a frame and waits until its leader has been fed it.
    pub(crate) async fn commit(&self, number: u64) -> u64 {
        for _ in 0..10_000 {
            let leader = self.leader().await;
            if self.propose(leader, number) {
                for _ in 0..1_000 {
                    if self.places[&leader].fed.numbers().contains(&number) {
                        return leader;
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("{number} was not committed");
    }

    /// Waits until a member was fed this frame.
    pub(crate) async fn fed(&self, id: u64, number: u64) {
        for _ in 0..20_000 {
            if self.places[&id].fed.numbers().contains(&number) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        panic!("member {id} was not fed {number}: {}", self.describe(id));
    }
}

//! A running member: its engine stepped, its consensus on a runtime of its own whose time the world moves, so that a member
//! can be killed between any two polls, stand still, or have another time than the others. It must not know what the others
//! do but by messages.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use journaler::storage::fake::FakeStorage;
use journaler::{Durability, JournalOptions, Preparation};
use oracle::random::Random;
use pipeline::{
    Engine, EngineConfig, EngineStepper, EngineView, Fatal, ManualClock, MemberParts, MemberPorts, ThreadPlan,
};
use protocol::{Checkpoint, Sequence, Timestamp};
use replicator::{
    Blank, Cluster, ClusterOptions, Envelope, Lead, Member, MemberId, Prepared, Start, Timing, Versions,
    WriterHome, prepare, seeded,
};
use ring::WaitStrategy;
use snapshots::SnapshotStore;
use tokio::runtime::Runtime;
use tokio::time::Instant;

use crate::edge::{Edge, Given, Notices, Parts, ToServer};
use crate::ends::{Fed, Folder, hooks, keep_first};
use crate::ground::Ground;
use crate::post::{AnswerTo, Cable, Post};
use crate::trace::{Trace, lock};
use crate::truth::Truth;

/// When the wall clocks begin.
const BIRTH: Timestamp = Timestamp(1_700_000_000_000_000_000);

/// What a start needs to know of its member.
pub(crate) struct Birth<'a> {
    pub(crate) id: u64,
    pub(crate) disk: &'a FakeStorage,
    /// The kernel's boot id.
    pub(crate) boot: u64,
    pub(crate) now: u64,
    /// Milliseconds by which the wall clock is ahead of the first member's first.
    pub(crate) clock_ahead: u64,
    pub(crate) seed: u64,
    /// Of the rings.
    pub(crate) slots: usize,
    /// How often any member was started.
    pub(crate) starts: u32,
    /// Longest time of a write, in milliseconds; changes while it runs.
    pub(crate) write_max: Arc<AtomicU64>,
}

/// The process of a member.
pub(crate) enum Process {
    Blank(BlankProcess),
    Member(Box<MemberProcess>),
}

/// A member in no cluster yet.
pub(crate) struct BlankProcess {
    runtime: Runtime,
    blank: Arc<Blank>,
    entered: Arc<AtomicBool>,
    epoch: Instant,
    born: u64,
    seed: u64,
}

/// A member of a cluster.
pub(crate) struct MemberProcess {
    // Dropped first: with it all tasks end between two polls.
    runtime: Runtime,
    pub(crate) cluster: Cluster,
    pub(crate) engine: EngineStepper,
    pub(crate) edge: Edge,
    pub(crate) lead: Lead,
    pub(crate) view: EngineView,
    checkpoints: pipeline::Checkpoints,
    clock: ManualClock,
    pub(crate) restart: Arc<AtomicBool>,
    pub(crate) fatal: Arc<Mutex<Option<String>>>,
    epoch: Instant,
    born: u64,
    random: Random,
    /// Steps of the engine in a millisecond.
    steps: u64,
    checked: Sequence,
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
    Versions { binary: "sim".into(), journal: 1, rulebook: 1 }
}

fn config(
    durability: Durability,
    cluster: u128,
    clock: &ManualClock,
    slots: usize,
    fatal: Fatal,
) -> EngineConfig {
    let mut config = EngineConfig::new(cluster);
    config.input_slots = slots;
    config.output_slots = 1 << 8;
    config.threads = ThreadPlan::single();
    config.wait = WaitStrategy::BusySpin;
    config.tick_interval = Duration::from_millis(200);
    config.journal = JournalOptions {
        segment_bytes: 64 * 1024,
        durability,
        reserve_bytes: 128 * 1024,
        preparation: Preparation::Inline,
        summarize: true,
        ..JournalOptions::new(cluster)
    };
    config.clock = clock.clock();
    config.fatal = fatal;
    config
}

/// A runtime whose time only the world moves. In which order it wakes those who wait for the same thing follows from the
/// seed, if tokio was built so that it can.
fn runtime(seed: u64) -> Runtime {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    builder.enable_time().start_paused(true);
    #[cfg(tokio_unstable)]
    builder.rng_seed(tokio::runtime::RngSeed::from_bytes(&seed.to_le_bytes()));
    #[cfg(not(tokio_unstable))]
    let _ = seed;
    match builder.build() {
        Ok(runtime) => runtime,
        Err(error) => panic!("no runtime: {error}"),
    }
}

impl Process {
    /// Starts a member from what is on its disk.
    ///
    /// # Errors
    /// Why it refuses to start, as its operator would read it.
    pub(crate) fn start(birth: &Birth<'_>, ground: &Ground) -> Result<Self, String> {
        let storage = birth.disk.shared();
        let options = JournalOptions { segment_bytes: 64 * 1024, ..JournalOptions::new(0) };
        let options = JournalOptions {
            durability: ground.durability,
            summarize: true,
            preparation: Preparation::Inline,
            ..options
        };
        let start = prepare(&storage, MemberId(birth.id), &options, birth.id, false);
        match start.map_err(|error| error.to_string())? {
            Start::Blank => Ok(Self::Blank(BlankProcess::start(birth))),
            Start::Member(prepared) => {
                MemberProcess::start(birth, ground, *prepared).map(|member| Self::Member(Box::new(member)))
            }
        }
    }

    /// Whether the process wants to end and start again.
    pub(crate) fn wants_restart(&self) -> bool {
        match self {
            Self::Blank(blank) => blank.entered.load(Ordering::Relaxed),
            Self::Member(member) => member.restart.load(Ordering::Relaxed),
        }
    }

    /// Answers another member's message.
    pub(crate) fn handle(
        &mut self,
        own: u64,
        from: u64,
        envelope: Envelope,
        answer: AnswerTo,
        post: &Arc<Mutex<Post>>,
    ) {
        let post = Arc::clone(post);
        match self {
            Self::Blank(blank) => {
                let seat = Arc::clone(&blank.blank);
                blank.seed += 1;
                blank.runtime.spawn(seeded(blank.seed, async move {
                    let answered = seat.handle(envelope).await;
                    lock(&post).answer(own, from, answered, answer);
                }));
            }
            Self::Member(member) => {
                let handled = member.cluster.handle(envelope);
                let seed = member.random.word();
                member.runtime.spawn(seeded(seed, async move {
                    let answered = handled.await;
                    lock(&post).answer(own, from, answered, answer);
                }));
            }
        }
    }
}

impl BlankProcess {
    fn start(birth: &Birth<'_>) -> Self {
        let runtime = runtime(birth.seed);
        let blank = Arc::new(Blank::new(birth.disk.shared(), member(birth.id), versions()));
        let entered = Arc::new(AtomicBool::new(false));
        let (seat, told) = (Arc::clone(&blank), Arc::clone(&entered));
        runtime.spawn(async move {
            seat.entered().await;
            told.store(true, Ordering::Relaxed);
        });
        let epoch = runtime.block_on(async { Instant::now() });
        Self { runtime, blank, entered, epoch, born: birth.now, seed: birth.seed }
    }

    /// Founds a cluster with others; goes on in the background.
    pub(crate) fn found(&self, own: u64, members: Vec<Member>, ground: &Ground) {
        let transport: Arc<dyn replicator::Transport> =
            Arc::new(Cable { from: own, post: Arc::clone(&ground.post) });
        let (blank, trace) = (Arc::clone(&self.blank), ground.trace.clone());
        self.runtime.spawn(seeded(self.seed, async move {
            if let Err(error) = blank.found(&members, false, &transport).await {
                trace.remark(|| format!("founding failed: {error}"));
            }
        }));
    }

    pub(crate) fn step(&mut self, now: u64) {
        let until = self.epoch + Duration::from_millis(now - self.born);
        self.runtime.block_on(async { tokio::time::sleep_until(until).await });
    }
}

impl MemberProcess {
    fn start(birth: &Birth<'_>, ground: &Ground, mut prepared: Prepared) -> Result<Self, String> {
        let text = |error: &dyn std::fmt::Display| error.to_string();
        let storage = birth.disk.shared();
        let wall = BIRTH.0 + (birth.now + birth.clock_ahead) * 1_000_000;
        let clock = ManualClock::at(Timestamp(wall));
        let fatal: Arc<Mutex<Option<String>>> = Arc::default();
        let hook = Arc::clone(&fatal);
        let config = config(
            ground.durability,
            prepared.cluster(),
            &clock,
            birth.slots,
            Fatal::new(move |line| keep_first(&hook, line)),
        );
        let (opened, journal) =
            Engine::open_member(storage.clone(), &config, &mut |_| ()).map_err(|error| text(&error))?;
        let summary = opened.found().journal.log.clone().unwrap_or_default();
        let boot = format!("boot-{}", birth.boot);
        let recovery = &opened.found().journal;
        prepared.judge(&journal, recovery, ground.durability, &boot).map_err(|error| text(&error))?;
        let exchange = opened.exchange();
        let (applied, day) = (exchange.sequence(), exchange.trading_day());
        lock(&ground.truth).hashed(birth.id, applied, exchange.running_hash(), "at its start");
        let notices = Notices::default();
        let runtime = runtime(birth.seed);
        // Its time is the runtime's.
        let (epoch, lead) = runtime.block_on(async { (Instant::now(), Lead::new()) });
        let needed_from: Arc<AtomicU64> = Arc::default();
        let raised = Arc::clone(&needed_from);
        let parts = MemberParts {
            lead: lead.clone(),
            retention: Box::new(move |from| replicator::raise(&raised, from)),
        };
        let (engine, ports) = Engine::stepped_member(&config, opened, Box::new(notices.clone()), parts)
            .map_err(|error| text(&error))?;
        let MemberPorts { feed, proposals, confirmed, checkpoints, journal: gauges, .. } = ports;
        let view = engine.view();
        let restart = Arc::new(AtomicBool::new(false));
        let hooks = hooks(&view, &checkpoints, confirmed, &restart, &fatal);
        let store =
            SnapshotStore::open(storage.clone(), config.journal.cluster_id).map_err(|error| text(&error))?;
        let (mut delays, write_max) = (Random::new(birth.seed ^ 0xd15c), Arc::clone(&birth.write_max));
        let options = ClusterOptions {
            member: member(birth.id),
            timing: Timing::default(),
            durability: ground.durability,
            versions: versions(),
            transport: Arc::new(Cable { from: birth.id, post: Arc::clone(&ground.post) }),
            storage,
            prepared,
            journal,
            summary,
            applied,
            feed: Box::new(Fed { member: birth.id, feed, ground: ground.clone() }),
            proposals,
            monitor: Box::new(gauges),
            snapshots: Arc::new(Folder(store)),
            lead: lead.clone(),
            needed_from,
            hooks,
            seed: birth.seed,
            writer: WriterHome::Task(Box::new(move || {
                Duration::from_millis(delays.below(write_max.load(Ordering::Relaxed) + 1))
            })),
        };
        let cluster =
            runtime.block_on(seeded(birth.seed, Cluster::start(options))).map_err(|error| text(&error))?;
        let edge = Edge::new(Parts {
            member: birth.id,
            lead: lead.clone(),
            ingress: engine.ingress(),
            view: view.clone(),
            clock: clock.clock(),
            notices,
            truth: Arc::clone(&ground.truth),
            first_number: birth.starts * 100_000,
            day,
        });
        let mut random = Random::new(birth.seed);
        let steps = 1 + random.below(3);
        let (born, checked) = (birth.now, Sequence(0));
        Ok(Self {
            runtime,
            cluster,
            engine,
            edge,
            lead,
            view,
            checkpoints,
            clock,
            restart,
            fatal,
            epoch,
            born,
            random,
            steps,
            checked,
        })
    }

    /// Lives on until `now`. After a pause its clocks jump first; what then comes first is chance.
    pub(crate) fn step(&mut self, now: u64, mut came: Vec<(u64, ToServer)>) -> (Vec<Given>, bool) {
        let until = self.epoch + Duration::from_millis(now - self.born);
        let seed = self.random.word();
        let engine_first = self.random.one_in(2);
        let Self { runtime, engine, edge, clock, lead, steps, .. } = self;
        runtime.block_on(seeded(seed, async {
            let mut given = Vec::new();
            let behind = until.saturating_duration_since(Instant::now());
            clock.advance(behind);
            if behind > Duration::from_millis(2) {
                let mut jump = pin!(tokio::time::advance(behind - Duration::from_millis(1)));
                // The clock has moved with the first poll; nobody else has run yet.
                let jumped = poll_fn(|context| Poll::Ready(jump.as_mut().poll(context))).await;
                if engine_first {
                    given.push(edge.step(std::mem::take(&mut came)));
                    engine.step();
                }
                if jumped.is_pending() {
                    jump.await;
                }
            }
            for _ in 0..*steps {
                given.push(edge.step(std::mem::take(&mut came)));
                engine.step();
                for _ in 0..4 {
                    tokio::task::yield_now().await;
                }
            }
            tokio::time::sleep_until(until).await;
            engine.step();
            given.push(edge.step(came));
            (given, lead.is_confirmed())
        }))
    }

    /// Whether it votes and has applied all that is committed.
    pub(crate) fn is_whole(&self, end: Sequence) -> bool {
        self.view.marks().applied_sequence() >= end && !self.cluster.status().forgetful
    }

    /// Moves the wall clock ahead.
    pub(crate) fn jump_clock(&self, by: Duration) {
        self.clock.advance(by);
    }

    /// Lets a wish of the operator's go its way.
    pub(crate) fn wish<F>(&mut self, wish: impl FnOnce(Cluster) -> F, trace: &Trace)
    where
        F: Future<Output = Result<String, String>> + Send + 'static,
    {
        let (future, trace) = (wish(self.cluster.clone()), trace.clone());
        let seed = self.random.word();
        self.runtime.spawn(seeded(seed, async move {
            let outcome = future.await;
            trace.remark(|| format!("wish: {outcome:?}"));
        }));
    }

    /// Its own running hashes against the truth.
    pub(crate) fn check_hashes(&mut self, id: u64, truth: &Truth) {
        for Checkpoint { sequence, running_hash } in self.checkpoints.recent() {
            if sequence > self.checked {
                truth.hashed(id, sequence, running_hash, "at a tick");
                self.checked = sequence;
            }
        }
    }

    /// Ends it and gives the state that its logic had.
    pub(crate) fn end(self) -> Option<exchange::Exchange> {
        drop(self.runtime);
        self.engine.abandon()
    }
}

//! The stages as they run in the server, each over the same mixed flow: half new orders, some of them immediate, cancels and
//! replaces. What is to be counted goes through [`measured`].

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use gateway::session::{Identity, Now, Session, Standing, Step};
use gateway::{Admission, DurabilityLevel, Inbound, Outbound, SessionLimits};
use journaler::{Durability, RealStorage, SharedStorage};
use pipeline::{Engine, EngineConfig, EngineStepper, Fatal, ManualClock, ThreadPlan};
use protocol::soupbin::{Login, Packet, write_packet};
use protocol::{
    AccountId, Body, CancelOrder, ClientOrderId, Command, ConnectionId, Credential, Egress, FrameWriter,
    InstrumentDefinition, InstrumentId, LoggedIn, LoginRequest, NewOrder, Notice, OrderFlags, OrderKey,
    OrderType, Price, Quantity, ReplaceOrder, ReportNumber, RequestId, Role, SessionId, Side, Symbol, Term,
    TimeInForce, Timestamp, TradingDay, UserDefinition, UserName,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use ring::Work;

/// Commands that are counted.
pub(crate) const COMMANDS: usize = 10_000;
/// Commands before those: the tables have grown then.
const WARM_UP: usize = 10_000;
/// Commands that come at once.
const BURST: usize = 250;
const START: Timestamp = Timestamp(1_700_000_000_000_000_000);
const SESSION: SessionId = SessionId(1);
const CONNECTION: ConnectionId = ConnectionId(1);

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// From bytes of the socket to frames.
    Gateway,
    /// Batches encoded, checksummed and chained; the system call is not counted.
    Journal,
    /// Frames decoded and checked.
    Unmarshal,
    /// Commands applied, events handed over.
    Logic,
    /// Events encoded, numbered and written.
    Reports,
    /// Price levels.
    Depth,
}

impl Stage {
    pub(crate) const ALL: [Self; 6] =
        [Self::Gateway, Self::Journal, Self::Unmarshal, Self::Logic, Self::Reports, Self::Depth];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Gateway => "gateway",
            Self::Journal => "journal",
            Self::Unmarshal => "unmarshal",
            Self::Logic => "logic",
            Self::Reports => "reports",
            Self::Depth => "depth",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|stage| stage.name() == name)
    }
}

/// Each stage on a thread of its own, to be stepped alone.
const THREADS: [&str; 8] =
    ["journal", "ticker", "replicate", "unmarshal", "logic", "reports", "depth", "metrics"];

/// Runs what callgrind counts: instructions in here, and in all that is called from here.
#[inline(never)]
fn measured<T>(work: impl FnOnce() -> T) -> T {
    black_box(work())
}

/// Runs a stage over the flow, and `planted` more instructions for each command.
pub(crate) fn run(stage: Stage, planted: u64) {
    match stage {
        Stage::Gateway => gateway(planted),
        _ => engine(stage, planted),
    }
}

/// Takes about so many instructions: five a round.
fn plant(instructions: u64) {
    measured(|| {
        let mut left = instructions / 5;
        while left > 0 {
            left = black_box(left - 1);
        }
    });
}

/// Nobody hears the notices.
struct Deaf;

impl Egress for Deaf {
    fn notify(&mut self, notice: Notice) {
        black_box(notice);
    }
}

fn engine(stage: Stage, planted: u64) {
    let folder = tempfile::tempdir().expect("a folder");
    let time = ManualClock::at(START);
    let mut config = EngineConfig::new(1);
    config.threads = ThreadPlan::parse(THREADS).expect("each stage once");
    config.journal.segment_bytes = 16 << 20;
    config.journal.reserve_bytes = 1 << 20;
    config.journal.durability = Durability::Memory;
    config.clock = time.clock();
    config.fatal = Fatal::new(|line| panic!("{line}"));
    let storage: SharedStorage = Arc::new(RealStorage::create(folder.path()).expect("the folder opens"));
    let opened = Engine::open(storage, &config, &mut |_| ()).expect("the data directory opens");
    let mut engine = Engine::stepped(&config, opened, Box::new(Deaf)).expect("the engine starts");
    let of_stage = THREADS.iter().position(|name| *name == stage.name()).expect("an engine's stage");
    let mut ingress = engine.ingress();
    let mut feed = |engine: &mut EngineStepper, frames: &[FrameWriter], counted: bool| {
        for frame in frames {
            ingress.try_publish(frame.as_bytes()).expect("a burst fits the ring");
        }
        while !settled(engine, of_stage, counted) {}
    };
    feed(&mut engine, &opening(), false);
    let mut flow = Flow::new();
    for nth in 0..(WARM_UP + COMMANDS) / BURST {
        let counted = nth >= WARM_UP / BURST;
        let burst: Vec<_> = (0..BURST).map(|_| flow.next()).collect();
        feed(&mut engine, &burst, counted);
        if counted && planted > 0 {
            plant(planted * BURST as u64);
        }
    }
    assert!(engine.view().marks().reported_sequence().0 >= (WARM_UP + COMMANDS) as u64, "all was reported");
}

/// Steps each stage once; whether none had work.
fn settled(engine: &mut EngineStepper, of_stage: usize, counted: bool) -> bool {
    let mut settled = true;
    for thread in 0..engine.threads() {
        let work = if counted && thread == of_stage {
            measured(|| engine.step_thread(thread))
        } else {
            engine.step_thread(thread)
        };
        settled &= work == Work::Idle;
    }
    settled
}

fn gateway(planted: u64) {
    let now = Now { monotonic: Duration::from_secs(1), unix: START };
    let standing =
        Standing { admission: Admission::Open, term: Some(Term(1)), confirmed: true, led_elsewhere: false };
    let mut session = Session::new(CONNECTION, SessionLimits::default(), DurabilityLevel::Disk, now);
    let (mut inbound, mut out) = (Inbound::default(), Outbound::default());
    log_in(&mut session, now, standing, &mut inbound, &mut out);
    let mut flow = Flow::new();
    for nth in 0..(WARM_UP + COMMANDS) / BURST {
        let mut bytes = Vec::new();
        (0..BURST).for_each(|_| {
            write_packet(&Packet::Unsequenced(flow.next().as_bytes()), &mut bytes);
        });
        let mut rest = &bytes[..];
        let mut frames = 0;
        let mut take = || {
            while !rest.is_empty() {
                let space = inbound.space();
                let length = space.len().min(rest.len());
                space[..length].copy_from_slice(&rest[..length]);
                inbound.received(length);
                rest = &rest[length..];
                session.heard(now);
                let step = session.receive(now, standing, &mut inbound, &mut out);
                assert!(matches!(step, Step::More | Step::Wait), "{step:?}");
                frames += inbound.frames().map(black_box).count();
                inbound.published(inbound.frames_waiting());
            }
        };
        if nth >= WARM_UP / BURST {
            measured(take);
            if planted > 0 {
                plant(planted * BURST as u64);
            }
        } else {
            take();
        }
        assert_eq!(frames, BURST, "all frames passed");
    }
}

fn log_in(session: &mut Session, now: Now, standing: Standing, inbound: &mut Inbound, out: &mut Outbound) {
    let login = Login { username: [b'u'; 6], password: [b' '; 10], session: [b' '; 10], next: 0 };
    let mut bytes = Vec::new();
    write_packet(&Packet::LoginRequest(login), &mut bytes);
    inbound.space()[..bytes.len()].copy_from_slice(&bytes);
    inbound.received(bytes.len());
    let step = session.receive(now, standing, inbound, out);
    assert!(matches!(step, Step::Verify(_)), "{step:?}");
    let (today, last_report) = (TradingDay(1), ReportNumber(0));
    session.verified(now, &Identity { session: SESSION, today, last_report }, out);
    session.control_published();
    let highest_request_id = RequestId(0);
    let verdict = LoggedIn {
        session: SESSION,
        connection: CONNECTION,
        trading_day: today,
        last_report,
        highest_request_id,
    };
    session.logged_in(now, &verdict, last_report, out);
    assert!(session.is_live());
    out.took(out.pending().len());
}

fn frame(session: SessionId, connection: ConnectionId, request_id: u64, body: Body) -> FrameWriter {
    let request_id = RequestId(request_id);
    let command = Command { session, connection, request_id, timestamp: START, body };
    command.encode().expect("a body with a frame")
}

/// The frames that set the venue up and log the user in.
fn opening() -> Vec<FrameWriter> {
    let instrument = InstrumentDefinition {
        instrument: InstrumentId(1),
        symbol: Symbol::new("TEST").expect("a symbol"),
        price_scale: 2,
        quantity_scale: 0,
        tick_size: Price(1),
        lot_size: Quantity(1),
        price_min: Price(1),
        price_max: Price(1_000_000),
        quantity_max: Quantity(1_000_000),
    };
    let user = UserDefinition {
        session: SESSION,
        name: UserName::new("user").expect("a name"),
        credential: Credential { scheme: 1, salt: [0; 16], hash: [0; 32] },
        role: Role::Trader,
        enabled: true,
        cancel_on_disconnect: false,
        grace_ms: 0,
    };
    let system = |body| frame(SessionId::SYSTEM, ConnectionId(0), 0, body);
    let login = Body::Login(LoginRequest { trading_day: None });
    vec![
        system(Body::PutInstrument(instrument)),
        system(Body::PutUser(user)),
        frame(SESSION, CONNECTION, 0, login),
    ]
}

/// The mixed flow, the same in every run.
struct Flow {
    random: StdRng,
    next_id: u64,
    resting: Vec<u64>,
}

impl Flow {
    fn new() -> Self {
        Self { random: StdRng::seed_from_u64(1), next_id: 0, resting: Vec::new() }
    }

    fn next(&mut self) -> FrameWriter {
        self.next_id += 1;
        let known = self.random.random_bool(0.5).then(|| self.earlier()).flatten();
        let body = match known {
            Some(order) if self.random.random_bool(0.2) => {
                self.resting.push(order);
                Body::ReplaceOrder(ReplaceOrder {
                    order: OrderKey::Id(ClientOrderId(order)),
                    side: None,
                    price: Some(self.price()),
                    quantity: Quantity(self.random.random_range(1..=150)),
                    stop_price: None,
                    display: None,
                    cl_ord_id: None,
                })
            }
            Some(order) => Body::CancelOrder(CancelOrder {
                order: OrderKey::Id(ClientOrderId(order)),
                side: None,
                cl_ord_id: None,
            }),
            None => self.new_order(),
        };
        frame(SESSION, CONNECTION, self.next_id, body)
    }

    /// One of the last orders, which may have traded since.
    fn earlier(&mut self) -> Option<u64> {
        let last = self.resting.len().checked_sub(1)?;
        let back = self.random.random_range(0..=last.min(50));
        Some(self.resting.swap_remove(last - back))
    }

    fn new_order(&mut self) -> Body {
        let immediate = self.random.random_bool(0.15);
        if !immediate {
            self.resting.push(self.next_id);
        }
        Body::NewOrder(NewOrder {
            instrument: InstrumentId(1),
            side: if self.random.random_bool(0.5) { Side::Buy } else { Side::Sell },
            order_type: OrderType::Limit,
            time_in_force: if immediate {
                TimeInForce::ImmediateOrCancel
            } else {
                TimeInForce::GoodTillCancel
            },
            flags: OrderFlags::default(),
            price: Some(self.price()),
            quantity: Quantity(self.random.random_range(1..=100)),
            account: AccountId(0),
            cl_ord_id: None,
            terms: protocol::Terms::default(),
        })
    }

    fn price(&mut self) -> Price {
        Price(self.random.random_range(9_990..=10_010))
    }
}

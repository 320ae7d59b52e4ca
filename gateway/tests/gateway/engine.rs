//! An engine in place of the real one: it takes frames from a real input ring, keeps sessions by the simplest rules, and
//! writes reports into a real report log. Each command of a live connection is answered by one report of its id.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use gateway::{
    Admission, Gateway, GatewayConfig, GatewayHandle, GatewayParts, Hub, HubEgress, HubSeed, Leadership,
    ResumeKeys, credentials,
};
use journaler::{RealStorage, ReportLog, ReportLogOptions, ReportWriter};
use protocol::{
    Body, Command, ConnectionId, DepthSnapshot, Egress, EndReason, InstrumentDefinition, InstrumentId,
    LoggedIn, LoginRefusal, LoginRefused, Notice, Price, Quantity, ReportNumber, RequestId, Role, Sequence,
    SessionId, Symbol, Term, TradingDay, UserDefinition, UserName,
};
use ring::{Polled, WaitStrategy, Waiter, WakeSet};
use tempfile::TempDir;

use crate::wire;

pub(crate) const FIRST_DAY: TradingDay = TradingDay(2);
/// The users `demo0` to `demo3` with the password `secret`, sessions 1 to 4; `off` is disabled.
pub(crate) const USERS: u32 = 4;

/// What a test tells the engine.
pub(crate) enum Order {
    /// A new day begins.
    EndDay,
    /// The operator ends a session's connection.
    Disconnect(SessionId),
    /// So many reports that nobody asked for.
    Reports(SessionId, u64),
    /// A term's first frame: no connection is live any more.
    Start,
    /// Stop.
    Stop,
}

/// What the engine saw, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Login(SessionId, ConnectionId),
    Command(SessionId, ConnectionId, RequestId),
    /// A command of a connection that was not the live one: nothing was done.
    Stale(SessionId, ConnectionId, RequestId),
    End(SessionId, ConnectionId, EndReason),
}

/// Leadership as a test wants it; at first, and if nobody wants otherwise, it is had and confirmed.
#[derive(Debug)]
pub(crate) struct FakeLead {
    state: Mutex<(Option<Term>, Option<String>)>,
    confirmed: AtomicBool,
}

impl Default for FakeLead {
    fn default() -> Self {
        Self { state: Mutex::new((Some(Term(5)), None)), confirmed: AtomicBool::new(true) }
    }
}

impl FakeLead {
    pub(crate) fn confirm(&self, confirmed: bool) {
        self.confirmed.store(confirmed, Ordering::SeqCst);
    }
}

impl Leadership for FakeLead {
    fn term(&self) -> Option<Term> {
        self.state.lock().expect("no panic").0
    }

    fn is_confirmed(&self) -> bool {
        self.term().is_some() && self.confirmed.load(Ordering::SeqCst)
    }

    fn leader(&self) -> Option<String> {
        self.state.lock().expect("no panic").1.clone()
    }
}

/// A gateway with an engine behind it.
pub(crate) struct Venue {
    pub(crate) gateway: Option<GatewayHandle>,
    pub(crate) seen: Receiver<Seen>,
    pub(crate) paused: Arc<AtomicBool>,
    pub(crate) admission: Arc<Mutex<Admission>>,
    pub(crate) lead: Arc<FakeLead>,
    orders: Sender<Order>,
    engine: Option<JoinHandle<()>>,
    _folder: TempDir,
}

struct Engine {
    egress: HubEgress,
    reports: ReportWriter,
    day: TradingDay,
    live: HashMap<SessionId, ConnectionId>,
    numbers: BTreeMap<SessionId, u64>,
    highest: HashMap<SessionId, RequestId>,
    seen: Sender<Seen>,
}

impl Venue {
    /// A venue whose input ring has `slots` slots.
    pub(crate) fn start(slots: usize, configure: impl FnOnce(&mut GatewayConfig)) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let storage = Arc::new(RealStorage::create(folder.path()).expect("storage"));
        let log = ReportLog::open(storage, &ReportLogOptions::default()).expect("a report log");
        let (hub, egress) = Hub::new(&seed());
        let mut waiter =
            Waiter::new(WaitStrategy::SpinThenPark { spins: 16, park: Duration::from_millis(5) });
        let ring = ring::input_ring::<Command>(slots, WakeSet::new([waiter.waker()])).expect("a ring");
        let (orders, ordered) = channel();
        let (see, seen) = channel();
        let paused = Arc::new(AtomicBool::new(false));
        let is_paused = Arc::clone(&paused);
        let mut engine = Engine {
            egress,
            reports: log.writer(),
            day: FIRST_DAY,
            live: HashMap::new(),
            numbers: BTreeMap::new(),
            highest: HashMap::new(),
            seen: see,
        };
        let (mut journal, mut replicate, mut unmarshal, mut logic) =
            (ring.journal, ring.replicate, ring.unmarshal, ring.logic);
        let work = move || {
            loop {
                while let Ok(order) = ordered.try_recv() {
                    if let Order::Stop = order {
                        return;
                    }
                    engine.order(&order);
                }
                if is_paused.load(Ordering::Acquire) {
                    std::thread::sleep(Duration::from_millis(1));
                    continue;
                }
                waiter.wait(|| {
                    let _ = journal.poll(usize::MAX, |_| Ok::<(), ()>(()));
                    let _ = replicate.poll(usize::MAX, |_| Ok::<(), ()>(()));
                    unmarshal.poll(usize::MAX, |frame, cell| *cell = Command::decode(frame));
                    let done = logic.poll(256, |batch| {
                        engine.batch(batch.iter());
                        batch.len()
                    });
                    matches!(done, Polled::Work(_))
                });
            }
        };
        let mut config = GatewayConfig::new("127.0.0.1:0".parse().expect("an address"));
        configure(&mut config);
        let admission = Arc::new(Mutex::new(Admission::Open));
        let admits = Arc::clone(&admission);
        let lead = Arc::new(FakeLead::default());
        let parts = GatewayParts {
            recorder: recorder::Writer::off(),
            resume: ResumeKeys::new([7; 32]),
            ingress: ring.ingress,
            reports: log.reader(),
            hub,
            depth: Arc::new(|instrument, _| (instrument.0 == 1).then(|| empty_book(instrument))),
            admission: Arc::new(move || *admits.lock().expect("no panic")),
            leadership: Arc::clone(&lead) as Arc<dyn Leadership>,
        };
        let gateway = Gateway::start(config, parts).expect("a gateway");
        let engine = std::thread::spawn(work);
        Self {
            gateway: Some(gateway),
            seen,
            paused,
            admission,
            lead,
            orders,
            engine: Some(engine),
            _folder: folder,
        }
    }

    pub(crate) fn order(&self, order: Order) {
        self.orders.send(order).expect("the engine runs");
    }

    /// Another term begins, in which this member leads, or another one that may be known.
    pub(crate) fn lead(&self, term: Option<u64>, leader: Option<&str>) {
        *self.lead.state.lock().expect("no panic") = (term.map(Term), leader.map(str::to_owned));
        self.gateway().leadership_changed();
    }

    pub(crate) fn gateway(&self) -> &GatewayHandle {
        self.gateway.as_ref().expect("not stopped")
    }

    pub(crate) fn pause(&self, paused: bool) {
        self.paused.store(paused, Ordering::Release);
    }

    /// Waits until the engine has seen something that fits, and gives it. (The time is a bound for a broken test only.)
    pub(crate) fn wait_for(&self, what: &str, mut fits: impl FnMut(&Seen) -> bool) -> Seen {
        loop {
            match self.seen.recv_timeout(Duration::from_secs(30)) {
                Ok(seen) if fits(&seen) => return seen,
                Ok(_) => {}
                Err(error) => panic!("{what}: {error}"),
            }
        }
    }
}

impl Drop for Venue {
    fn drop(&mut self) {
        self.pause(false);
        drop(self.gateway.take());
        let _ = self.orders.send(Order::Stop);
        if let Some(engine) = self.engine.take() {
            let result = engine.join();
            if !std::thread::panicking() {
                result.expect("the engine did not panic");
            }
        }
    }
}

impl Engine {
    fn batch<'a>(&mut self, commands: impl Iterator<Item = &'a Command>) {
        // As the real output stage does, reports are written once a session and batch.
        let mut reports: BTreeMap<SessionId, (u64, Vec<u8>)> = BTreeMap::new();
        for command in commands {
            let (session, connection) = (command.session, command.connection);
            match command.body {
                Body::Login(_) => {
                    self.flush(&mut reports);
                    self.login(session, connection);
                }
                Body::Logout => {
                    self.flush(&mut reports);
                    self.end(session, connection, EndReason::Logout);
                }
                Body::Disconnect(reason) => {
                    self.flush(&mut reports);
                    self.end(session, connection, reason);
                }
                _ if self.live.get(&session) == Some(&connection) => {
                    self.see(Seen::Command(session, connection, command.request_id));
                    self.highest.insert(session, command.request_id);
                    let number = self.numbers.entry(session).or_default();
                    *number += 1;
                    let first = (*number, Vec::new());
                    reports.entry(session).or_insert(first).1.extend(wire::report(session, *number));
                }
                _ => self.see(Seen::Stale(session, connection, command.request_id)),
            }
        }
        self.flush(&mut reports);
    }

    fn flush(&mut self, reports: &mut BTreeMap<SessionId, (u64, Vec<u8>)>) {
        for (session, (first, strides)) in std::mem::take(reports) {
            self.reports
                .write(session, self.day, ReportNumber(first), &strides)
                .expect("reports are written");
            let last = ReportNumber(self.numbers[&session]);
            self.egress.notify(Notice::Reports(session, self.day, last));
        }
    }

    fn login(&mut self, session: SessionId, connection: ConnectionId) {
        if self.live.contains_key(&session) {
            let reason = LoginRefusal::AlreadyLoggedIn;
            return self.egress.notify(Notice::LoginRefused(LoginRefused { session, connection, reason }));
        }
        self.live.insert(session, connection);
        self.see(Seen::Login(session, connection));
        self.egress.notify(Notice::LoggedIn(LoggedIn {
            session,
            connection,
            trading_day: self.day,
            last_report: ReportNumber(self.numbers.get(&session).copied().unwrap_or(0)),
            highest_request_id: self.highest.get(&session).copied().unwrap_or_default(),
        }));
    }

    fn end(&mut self, session: SessionId, connection: ConnectionId, reason: EndReason) {
        if self.live.get(&session) == Some(&connection) {
            self.live.remove(&session);
            self.see(Seen::End(session, connection, reason));
            self.egress.notify(Notice::ConnectionEnded(session, connection, reason));
        }
    }

    fn order(&mut self, order: &Order) {
        match order {
            Order::EndDay => {
                self.day.0 += 1;
                self.numbers.clear();
                self.egress.notify(Notice::DayStarted(self.day));
            }
            Order::Disconnect(session) => {
                if let Some(connection) = self.live.get(session).copied() {
                    self.end(*session, connection, EndReason::Operator);
                }
            }
            Order::Reports(session, count) => {
                let number = self.numbers.entry(*session).or_default();
                let first = *number + 1;
                *number += count;
                let strides = (first..=*number).flat_map(|number| wire::report(*session, number)).collect();
                self.flush(&mut BTreeMap::from([(*session, (first, strides))]));
            }
            Order::Start => self.live.clear(),
            Order::Stop => {}
        }
    }

    fn see(&self, seen: Seen) {
        let _ = self.seen.send(seen);
    }
}

fn empty_book(instrument: InstrumentId) -> DepthSnapshot {
    DepthSnapshot { instrument, sequence: Sequence(1), bids: Vec::new(), asks: Vec::new(), state: None }
}

fn seed() -> HubSeed {
    let credential = credentials::hash("secret", [9; 16]).expect("a password");
    let user = |session, name: &str, enabled| UserDefinition {
        session: SessionId(session),
        name: UserName::new(name).expect("a name"),
        credential,
        role: Role::Trader,
        enabled,
        cancel_on_disconnect: false,
        grace_ms: 0,
    };
    let mut users: Vec<_> = (0..USERS).map(|n| user(n + 1, &format!("demo{n}"), true)).collect();
    users.push(user(99, "off", false));
    let instrument = InstrumentDefinition {
        instrument: InstrumentId(1),
        symbol: Symbol::new("BTCUSD").expect("a symbol"),
        price_scale: 2,
        quantity_scale: 8,
        tick_size: Price(1),
        lot_size: Quantity(1),
        price_min: Price(1),
        price_max: Price(1_000_000),
        quantity_max: Quantity(1_000_000),
    };
    HubSeed { trading_day: FIRST_DAY, users, instruments: vec![instrument], ..HubSeed::default() }
}

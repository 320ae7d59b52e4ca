//! A small venue for tests: random commands over a few users and instruments, applied and kept as frames, with ticks that
//! carry checkpoints as a server's do.

use exchange::Exchange;
use journaler::storage::SharedStorage;
use journaler::{FrameHash, Journal, JournalOptions, Preparation, Skip, SkipFile};
use protocol::{
    AccountId, Body, CancelOrder, ClOrdId, ClientOrderId, Command, ConnectionId, Credential, EndReason,
    InstrumentDefinition, InstrumentId, LoginRequest, MassCancel, NewOrder, OrderFlags, OrderKey, OrderType,
    Output, Phase, Price, Quantity, ReplaceOrder, RequestId, Role, SLOT_LENGTH, Sequence, SessionId, Side,
    Symbol, Term, Tick, TimeInForce, Timestamp, UserDefinition, UserName,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub(crate) const CLUSTER_ID: u128 = 0x5eed_0000_0000_0000_0000_0000_0000_0001;

const START_NS: u64 = 1_700_000_000_000_000_000;

/// The seed of a randomised test: `RINGPIT_SEED`, or `default`. Printed, so that a failure can be repeated.
pub(crate) fn seed(default: u64) -> u64 {
    let seed = std::env::var("RINGPIT_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    println!("RINGPIT_SEED={seed}");
    seed
}

/// How large a venue is and what happens in it.
#[derive(Clone, Copy)]
pub(crate) struct Shape {
    pub(crate) users: u32,
    pub(crate) instruments: u32,
    /// Prices from 1; few make trades, many make levels.
    pub(crate) prices: i64,
    /// Frames between two ticks, on average.
    pub(crate) frames_per_tick: u32,
}

impl Default for Shape {
    fn default() -> Self {
        Self { users: 4, instruments: 3, prices: 40, frames_per_tick: 20 }
    }
}

pub(crate) struct Venue {
    pub(crate) exchange: Exchange,
    pub(crate) frames: Vec<Vec<u8>>,
    pub(crate) outputs: Vec<Output>,
    /// Frames that were passed over.
    pub(crate) skips: Vec<Skip>,
    /// Whether the next frame is to be passed over.
    pub(crate) skips_next: bool,
    shape: Shape,
    rng: StdRng,
    next_request: Vec<u64>,
    connected: Vec<bool>,
    now: u64,
}

impl Venue {
    pub(crate) fn new(shape: Shape, seed: u64) -> Self {
        let mut venue = Self {
            exchange: Exchange::new(),
            frames: Vec::new(),
            outputs: Vec::new(),
            skips: Vec::new(),
            skips_next: false,
            shape,
            rng: StdRng::seed_from_u64(seed),
            next_request: vec![1; shape.users as usize + 1],
            connected: vec![false; shape.users as usize + 1],
            now: START_NS,
        };
        venue.system(Body::Start);
        for session in 1..=shape.users {
            venue.system(Body::PutUser(user(session)));
        }
        for instrument in 1..=shape.instruments {
            venue.system(Body::PutInstrument(instrument_definition(instrument)));
        }
        for session in 1..=shape.users {
            venue.login(session);
        }
        venue
    }

    /// A venue after `frames` random frames, ended by two ticks, so that the first of them is a logged checkpoint.
    pub(crate) fn run(shape: Shape, seed: u64, frames: usize) -> Self {
        let mut venue = Self::new(shape, seed);
        for _ in 0..frames {
            venue.step();
        }
        venue.tick();
        venue.tick();
        venue
    }

    pub(crate) fn sequence(&self) -> Sequence {
        self.exchange.sequence()
    }

    /// One random frame.
    pub(crate) fn step(&mut self) {
        let session = self.rng.random_range(1..=self.shape.users);
        if self.rng.random_ratio(1, self.shape.frames_per_tick) {
            return self.tick();
        }
        match self.rng.random_range(0..1000) {
            0..2 => self.system(Body::EndOfDay),
            2..10 => {
                let phase = if self.rng.random_bool(0.3) { Phase::Halted } else { Phase::Continuous };
                let instrument = self.instrument();
                self.system(Body::SetPhase(instrument, phase));
            }
            10..20 => {
                self.connected[session as usize] = false;
                let connection = ConnectionId(session);
                self.send(SessionId(session), connection, 0, Body::Disconnect(EndReason::Closed));
            }
            20..60 => self.login(session),
            60..65 => {
                let side = self.rng.random_bool(0.5).then_some(Side::Buy);
                let body = MassCancel { session: SessionId(session), instrument: None, side };
                self.request(session, Body::MassCancel(body));
            }
            65..300 => {
                let order = self.some_order(session);
                self.request(session, Body::CancelOrder(CancelOrder { order, side: None, cl_ord_id: None }));
            }
            300..400 => {
                let order = self.some_order(session);
                let body = ReplaceOrder {
                    order,
                    side: None,
                    price: Some(self.price()),
                    quantity: self.quantity(),
                    stop_price: None,
                    display: None,
                    cl_ord_id: self.cl_ord_id(session),
                };
                self.request(session, Body::ReplaceOrder(body));
            }
            _ => {
                let body = self.new_order(session);
                self.request(session, Body::NewOrder(body));
            }
        }
    }

    /// One order that rests: buys stand below the middle of the prices, sells above.
    pub(crate) fn rest(&mut self) {
        let session = self.rng.random_range(1..=self.shape.users);
        let middle = self.shape.prices / 2;
        let side = if self.rng.random_bool(0.5) { Side::Buy } else { Side::Sell };
        let price = match side {
            Side::Buy => self.rng.random_range(1..=middle),
            Side::Sell => self.rng.random_range(middle + 1..=self.shape.prices),
        };
        let order = NewOrder {
            side,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::GoodTillCancel,
            flags: OrderFlags::default(),
            price: Some(Price(price)),
            cl_ord_id: None,
            ..self.new_order(session)
        };
        self.request(session, Body::NewOrder(order));
    }

    /// A tick that carries the checkpoint of the one before it.
    pub(crate) fn tick(&mut self) {
        let (sequence, hash) = self
            .exchange
            .checkpoint()
            .map_or((Sequence(0), 0), |checkpoint| (checkpoint.sequence, checkpoint.running_hash));
        self.system(Body::Tick(Tick { checkpoint_sequence: sequence, checkpoint_hash: hash }));
    }

    fn login(&mut self, session: u32) {
        self.connected[session as usize] = true;
        let body = Body::Login(LoginRequest { trading_day: None });
        self.send(SessionId(session), ConnectionId(session), 0, body);
    }

    fn request(&mut self, session: u32, body: Body) {
        let id = self.next_request[session as usize];
        self.next_request[session as usize] += self.rng.random_range(1..3);
        self.send(SessionId(session), ConnectionId(session), id, body);
    }

    pub(crate) fn system(&mut self, body: Body) {
        self.send(SessionId::SYSTEM, ConnectionId(0), 0, body);
    }

    fn send(&mut self, session: SessionId, connection: ConnectionId, request: u64, body: Body) {
        self.now += self.rng.random_range(0..50_000_000);
        let timestamp = Timestamp(self.now);
        let command = Command { session, connection, request_id: RequestId(request), timestamp, body };
        let frame = command.encode().expect("only malformed commands have no frame");
        self.frames.push(frame.as_bytes().to_vec());
        if !std::mem::take(&mut self.skips_next) {
            return self.exchange.apply(&command, &mut self.outputs);
        }
        let frame_hash = FrameHash::of(frame.as_bytes()).expect("a frame");
        self.exchange.skip(&command, frame_hash.0, &mut self.outputs);
        let (sequence, at) = (self.sequence(), Timestamp(self.now));
        self.skips.push(Skip { sequence, frame_hash, who: "W".to_owned(), why: "Y".to_owned(), at });
    }

    /// Records what was passed over.
    pub(crate) fn record_skips(&self, storage: &SharedStorage) {
        let mut file = SkipFile::open(storage.clone(), CLUSTER_ID).expect("open");
        self.skips.iter().for_each(|skip| file.record(skip.clone()).expect("recorded"));
    }

    /// A buy that rests, of a quantity that no other order has.
    pub(crate) fn order_of(&mut self, session: u32, quantity: u64) {
        let order = NewOrder {
            side: Side::Buy,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::GoodTillCancel,
            flags: OrderFlags::default(),
            price: Some(Price(1)),
            quantity: Quantity(quantity),
            cl_ord_id: None,
            ..self.new_order(session)
        };
        self.request(session, Body::NewOrder(order));
    }

    fn new_order(&mut self, session: u32) -> NewOrder {
        let is_market = self.rng.random_ratio(1, 20);
        let time_in_force = match self.rng.random_range(0..10) {
            0 => TimeInForce::ImmediateOrCancel,
            1 => TimeInForce::FillOrKill,
            2..5 => TimeInForce::Day,
            _ => TimeInForce::GoodTillCancel,
        };
        NewOrder {
            instrument: self.instrument(),
            side: if self.rng.random_bool(0.5) { Side::Buy } else { Side::Sell },
            order_type: if is_market { OrderType::Market } else { OrderType::Limit },
            time_in_force,
            flags: OrderFlags {
                post_only: !is_market && self.rng.random_ratio(1, 10),
                ..OrderFlags::default()
            },
            price: (!is_market).then(|| self.price()),
            quantity: self.quantity(),
            account: AccountId(self.rng.random_range(0..3)),
            cl_ord_id: self.cl_ord_id(session),
            terms: protocol::Terms::default(),
        }
    }

    fn instrument(&mut self) -> InstrumentId {
        InstrumentId(self.rng.random_range(1..=self.shape.instruments))
    }

    fn price(&mut self) -> Price {
        Price(self.rng.random_range(1..=self.shape.prices))
    }

    fn quantity(&mut self) -> Quantity {
        Quantity(self.rng.random_range(1..100))
    }

    fn cl_ord_id(&mut self, session: u32) -> Option<ClOrdId> {
        self.rng.random_ratio(1, 3).then(|| {
            let text = format!("order-{session}-{}", self.rng.random_range(0..1000));
            ClOrdId::new(text.as_bytes()).expect("printable")
        })
    }

    /// An order that the session may have.
    fn some_order(&mut self, session: u32) -> OrderKey {
        let next = self.next_request[session as usize];
        OrderKey::Id(ClientOrderId(self.rng.random_range(next.saturating_sub(60).max(1)..=next)))
    }
}

pub(crate) fn user(session: u32) -> UserDefinition {
    UserDefinition {
        session: SessionId(session),
        name: UserName::new(&format!("U{session}")).expect("a name"),
        credential: Credential { scheme: 1, salt: [session as u8; 16], hash: [7; 32] },
        role: if session == 1 { Role::Operator } else { Role::Trader },
        enabled: true,
        cancel_on_disconnect: session.is_multiple_of(2),
        grace_ms: if session.is_multiple_of(4) { 500 } else { 0 },
    }
}

pub(crate) fn instrument_definition(instrument: u32) -> InstrumentDefinition {
    InstrumentDefinition {
        instrument: InstrumentId(instrument),
        symbol: Symbol::new(&format!("I{instrument}")).expect("a symbol"),
        price_scale: 2,
        quantity_scale: 0,
        tick_size: Price(1),
        lot_size: Quantity(1),
        price_min: Price(1),
        price_max: Price(1_000_000_000),
        quantity_max: Quantity(1_000_000_000),
    }
}

/// Options for a journal of tiny segments, driven in one order of events.
pub(crate) fn journal_options(segment_bytes: u64) -> JournalOptions {
    JournalOptions {
        segment_bytes,
        reserve_bytes: 0,
        preparation: Preparation::Inline,
        ..JournalOptions::new(CLUSTER_ID)
    }
}

/// Appends frames, in batches of 1 to `batch` frames.
pub(crate) fn append(journal: &mut Journal, frames: &[Vec<u8>], batch: usize, rng: &mut StdRng) -> Sequence {
    let mut rest = frames;
    while !rest.is_empty() {
        let count = rng.random_range(1..=batch).min(rest.len());
        let (now, later) = rest.split_at(count);
        let mut slots = Vec::new();
        for frame in now {
            slots.extend_from_slice(frame);
            slots.resize(slots.len().next_multiple_of(SLOT_LENGTH), 0);
        }
        journal.append(&slots, count as u64, Term(1)).expect("append");
        rest = later;
    }
    journal.journaled_sequence()
}

/// A storage with a journal that holds `frames`, closed.
pub(crate) fn journal_of(storage: &SharedStorage, frames: &[Vec<u8>], segment_bytes: u64, seed: u64) {
    let (mut journal, _) = Journal::open(storage.clone(), journal_options(segment_bytes)).expect("open");
    append(&mut journal, frames, 50, &mut StdRng::seed_from_u64(seed));
    journal.close().expect("close");
}

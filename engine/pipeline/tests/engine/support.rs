//! A small venue to test engines with: three users, two instruments, seeded requests, an egress that records.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use exchange::Exchange;
use journaler::{Durability, JournalOptions, JournalReader, Preparation, ReportReader, SharedStorage};
use pipeline::{Engine, EngineConfig, EngineStepper, Fatal, ManualClock, ThreadPlan};
use protocol::{
    AccountId, Body, CancelOrder, ClOrdId, Command, ConnectionId, Credential, Egress, EndReason, FrameWriter,
    InstrumentDefinition, InstrumentId, LoginRequest, NewOrder, Notice, OrderFlags, OrderKey, OrderType,
    Price, Quantity, REPORT_STRIDE, ReplaceOrder, ReportNumber, RequestId, Role, Sequence, SessionId, Side,
    Symbol, TimeInForce, Timestamp, TradingDay, UserDefinition, UserName,
};
use ring::{Ingress, PublishError, WaitStrategy};

pub(crate) const CLUSTER: u128 = 7;
pub(crate) const START: Timestamp = Timestamp(1_700_000_000_000_000_000);
/// Sessions of the users; the last one cancels on disconnect, after [`GRACE_MS`].
pub(crate) const SESSIONS: [SessionId; 3] = [SessionId(1), SessionId(2), SessionId(3)];
pub(crate) const GRACE_MS: u32 = 500;
pub(crate) const INSTRUMENTS: [InstrumentId; 2] = [InstrumentId(1), InstrumentId(20)];

/// An engine's settings for a test: small rings and segments, one thread, no waiting.
pub(crate) fn config(clock: &ManualClock) -> EngineConfig {
    let mut config = EngineConfig::new(CLUSTER);
    config.input_slots = 1 << 10;
    config.output_slots = 1 << 10;
    config.threads = ThreadPlan::single();
    config.wait = WaitStrategy::BusySpin;
    config.journal = JournalOptions {
        segment_bytes: 256 * 1024,
        durability: Durability::Disk,
        reserve_bytes: 1 << 20,
        preparation: Preparation::Inline,
        ..JournalOptions::new(CLUSTER)
    };
    config.clock = clock.clock();
    config.fatal = Fatal::new(|_| ());
    config
}

/// The seed of a randomised test: `RINGPIT_SEED`, or the one given. Printed, so that a failure can be had again.
pub(crate) fn seed(default: u64) -> u64 {
    let seed = std::env::var("RINGPIT_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    println!("RINGPIT_SEED={seed}");
    seed
}

/// SplitMix64: seeded numbers, the same on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// Takes notices down.
#[derive(Clone, Default)]
pub(crate) struct Recorder(Arc<Mutex<Vec<Notice>>>);

impl Recorder {
    pub(crate) fn notices(&self) -> Vec<Notice> {
        self.0.lock().unwrap().clone()
    }

    /// The last report that each session was told of, by day: what a gateway may have sent.
    pub(crate) fn acknowledged(&self) -> BTreeMap<(SessionId, TradingDay), ReportNumber> {
        let mut last = BTreeMap::new();
        for notice in self.0.lock().unwrap().iter() {
            if let Notice::Reports(session, day, number) = notice {
                last.insert((*session, *day), *number);
            }
        }
        last
    }
}

impl Egress for Recorder {
    fn notify(&mut self, notice: Notice) {
        self.0.lock().unwrap().push(notice);
    }
}

pub(crate) fn frame(
    session: SessionId,
    connection: u32,
    request_id: u64,
    at: Timestamp,
    body: Body,
) -> FrameWriter {
    let command = Command {
        session,
        connection: ConnectionId(connection),
        request_id: RequestId(request_id),
        timestamp: at,
        body,
    };
    command.encode().expect("a body with a frame")
}

pub(crate) fn limit(instrument: InstrumentId, side: Side, price: i64, quantity: u64) -> NewOrder {
    NewOrder {
        instrument,
        side,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::GoodTillCancel,
        flags: OrderFlags::default(),
        price: Some(Price(price)),
        quantity: Quantity(quantity),
        account: AccountId(0),
        cl_ord_id: None,
        terms: protocol::Terms::default(),
    }
}

pub(crate) fn instrument(id: InstrumentId) -> InstrumentDefinition {
    InstrumentDefinition {
        instrument: id,
        symbol: Symbol::new(&format!("TEST{id}")).unwrap(),
        price_scale: 2,
        quantity_scale: 0,
        tick_size: Price(1),
        lot_size: Quantity(1),
        price_min: Price(1),
        price_max: Price(1_000_000),
        quantity_max: Quantity(1_000_000),
    }
}

pub(crate) fn user(session: SessionId) -> UserDefinition {
    UserDefinition {
        session,
        name: UserName::new(&format!("user{session}")).unwrap(),
        credential: Credential { scheme: 1, salt: [0; 16], hash: [0; 32] },
        role: Role::Trader,
        enabled: true,
        cancel_on_disconnect: session == SESSIONS[2],
        grace_ms: GRACE_MS,
    }
}

/// The frames that set the venue up.
pub(crate) fn definitions(at: Timestamp) -> Vec<FrameWriter> {
    let system = |body| frame(SessionId::SYSTEM, 0, 0, at, body);
    let instruments = INSTRUMENTS.into_iter().map(|id| system(Body::PutInstrument(instrument(id))));
    instruments.chain(SESSIONS.into_iter().map(|id| system(Body::PutUser(user(id))))).collect()
}

/// The frames that log everybody in; `round` makes the connections' numbers fresh after a start.
pub(crate) fn logins(round: u32, at: Timestamp) -> Vec<FrameWriter> {
    let login = |id: SessionId| {
        frame(id, connection(id, round), 0, at, Body::Login(LoginRequest { trading_day: None }))
    };
    SESSIONS.into_iter().map(login).collect()
}

pub(crate) fn connection(session: SessionId, round: u32) -> u32 {
    round * 10 + session.0
}

/// Seeded requests of all users, as frames in order.
pub(crate) struct Flow {
    pub(crate) random: Random,
    round: u32,
    next_id: [u64; SESSIONS.len()],
    at: Timestamp,
}

impl Flow {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: Random(seed), round: 1, next_id: [1; SESSIONS.len()], at: START }
    }

    /// Goes on after a restart; connections of before are gone, ids go on.
    pub(crate) fn next_round(&mut self) {
        self.round += 1;
    }

    /// The venue's definitions, where it is new, and everybody's login.
    pub(crate) fn opening(&mut self) -> Vec<FrameWriter> {
        let mut frames = if self.round == 1 { definitions(self.at) } else { Vec::new() };
        frames.extend(logins(self.round, self.at));
        frames
    }

    pub(crate) fn request(&mut self) -> FrameWriter {
        self.at.0 += self.random.below(2_000);
        let who = self.random.below(SESSIONS.len() as u64) as usize;
        let session = SESSIONS[who];
        let id = self.next_id[who];
        self.next_id[who] += 1 + self.random.below(2);
        let body = self.body(id);
        frame(session, connection(session, self.round), id, self.at, body)
    }

    fn body(&mut self, id: u64) -> Body {
        let earlier = OrderKey::Id(protocol::ClientOrderId(id.saturating_sub(1 + self.random.below(40))));
        match self.random.below(20) {
            0..=3 => Body::CancelOrder(CancelOrder { order: earlier, side: None, cl_ord_id: None }),
            4 | 5 => Body::ReplaceOrder(ReplaceOrder {
                order: earlier,
                side: None,
                price: Some(Price(995 + self.random.below(10) as i64)),
                quantity: Quantity(1 + self.random.below(300)),
                stop_price: None,
                display: None,
                cl_ord_id: None,
            }),
            6 if self.random.below(20) == 0 => Body::EndOfDay,
            kind => {
                let instrument = INSTRUMENTS[self.random.below(2) as usize];
                let side = if self.random.below(2) == 0 { Side::Buy } else { Side::Sell };
                let price = 995 + self.random.below(10) as i64;
                let mut order = limit(instrument, side, price, 1 + self.random.below(200));
                if kind < 10 {
                    order.cl_ord_id =
                        ClOrdId::new(format!("order-{}", self.random.below(5_000)).as_bytes()).ok();
                }
                if kind == 19 {
                    order.time_in_force = TimeInForce::ImmediateOrCancel;
                }
                Body::NewOrder(order)
            }
        }
    }
}

/// Ends the trading day; the server's own session may.
pub(crate) fn end_of_day(at: Timestamp) -> FrameWriter {
    frame(SessionId::SYSTEM, 0, 0, at, Body::EndOfDay)
}

pub(crate) fn disconnect(session: SessionId, round: u32, at: Timestamp) -> FrameWriter {
    frame(session, connection(session, round), 0, at, Body::Disconnect(EndReason::Closed))
}

/// Opens and starts a stepped engine.
pub(crate) fn stepped(storage: &SharedStorage, config: &EngineConfig) -> (EngineStepper, Recorder) {
    let opened = Engine::open(storage.clone(), config, &mut |_| ()).expect("the data directory opens");
    let recorder = Recorder::default();
    let engine = Engine::stepped(config, opened, Box::new(recorder.clone())).expect("the engine starts");
    (engine, recorder)
}

/// Steps that every test here gets by with.
pub(crate) const STEPS_MAX: usize = 100_000;

/// Publishes all frames, stepping where the ring is full, and then until nothing is left to do.
pub(crate) fn feed(engine: &mut EngineStepper, ingress: &mut Ingress, frames: &[FrameWriter]) {
    for frame in frames {
        publish(ingress, frame, || {
            engine.step();
        });
    }
    assert!(engine.settle(STEPS_MAX), "the engine never comes to rest");
}

/// Publishes one frame; `full` makes room.
pub(crate) fn publish(ingress: &mut Ingress, frame: &FrameWriter, mut full: impl FnMut()) {
    for _ in 0..STEPS_MAX {
        match ingress.try_publish(frame.as_bytes()) {
            Ok(()) => return,
            Err(PublishError::Full(_)) => full(),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the ring stays full");
}

/// What replaying the journal from its first frame to `end` gives, and every event on the way.
pub(crate) fn replayed(storage: &SharedStorage, end: Sequence) -> (Exchange, Vec<protocol::Output>) {
    let reader = JournalReader::open(storage.clone()).unwrap();
    let mut cursor = reader.frames_from(Sequence(1)).unwrap();
    let (mut exchange, mut outputs) = (Exchange::new(), Vec::new());
    while let Some((_, frame)) = cursor.next_frame(end).unwrap() {
        exchange.apply(&Command::decode(frame), &mut outputs);
    }
    (exchange, outputs)
}

/// All reports of a session and day that can be read.
pub(crate) fn reports(
    reader: &ReportReader,
    session: SessionId,
    day: TradingDay,
) -> Vec<[u8; REPORT_STRIDE]> {
    let mut bytes = Vec::new();
    let mut next = ReportNumber(1);
    loop {
        match reader.read(session, day, next, 1000, &mut bytes).expect("the report log reads") {
            0 => break,
            count => next.0 += count as u64,
        }
    }
    bytes.as_chunks::<REPORT_STRIDE>().0.to_vec()
}

/// Every report that gateways were told of, as they would have read it.
pub(crate) type Acknowledged = BTreeMap<(SessionId, TradingDay), Vec<[u8; REPORT_STRIDE]>>;

pub(crate) fn acknowledged(recorder: &Recorder, reader: &ReportReader) -> Acknowledged {
    recorder
        .acknowledged()
        .into_iter()
        .map(|((session, day), last)| {
            let mut all = reports(reader, session, day);
            all.truncate(last.0 as usize);
            ((session, day), all)
        })
        .collect()
}

/// Whether all that was acknowledged can still be had, byte for byte, from the current and the previous day.
pub(crate) fn still_there(
    before: &Acknowledged,
    reader: &ReportReader,
    day: TradingDay,
) -> Result<(), String> {
    for ((session, of_day), expected) in before {
        if of_day.0 + 1 < day.0 {
            continue;
        }
        let found = reports(reader, *session, *of_day);
        if !found.starts_with(expected) {
            let same = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
            return Err(format!(
                "session {session} day {of_day}: {} reports were acknowledged, {} are there, {same} the same",
                expected.len(),
                found.len(),
            ));
        }
    }
    Ok(())
}

pub(crate) fn milliseconds(count: u64) -> Duration {
    Duration::from_millis(count)
}

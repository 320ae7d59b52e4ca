//! Commands a second through the whole engine in one process: one publisher, the real exchange, journal and report log on
//! a real disk, nobody listening.
//!
//! `cargo run --release -p pipeline --example rate -- [disk|memory] [COMMANDS] [CLAIM] [FOLDER] [STAGES...]`: the level,
//! how many commands, how many frames a claim, where (a new folder in it; the system's temporary one by default), and
//! the threads as in the configuration.

use std::error::Error;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use journaler::{Durability, RealStorage};
use pipeline::{Clock, Engine, EngineConfig, EngineView, Muted, ThreadPlan};
use protocol::{
    AccountId, Body, CancelOrder, ClientOrderId, Command, ConnectionId, Credential, FrameWriter,
    InstrumentDefinition, InstrumentId, LoginRequest, NewOrder, OrderFlags, OrderKey, OrderType, Price,
    Quantity, RequestId, Role, SessionId, Side, Symbol, TimeInForce, Timestamp, UserDefinition, UserName,
};
use ring::{Ingress, PublishError};

const SESSIONS: u64 = 8;
const INSTRUMENTS: u64 = 32;

fn frame(session: u32, connection: u32, request_id: u64, at: Timestamp, body: Body) -> FrameWriter {
    let session = SessionId(session);
    let (connection, request_id) = (ConnectionId(connection), RequestId(request_id));
    let command = Command { session, connection, request_id, timestamp: at, body };
    match command.encode() {
        Some(frame) => frame,
        None => unreachable!("every body here has a frame"),
    }
}

fn definitions(at: Timestamp) -> Option<Vec<FrameWriter>> {
    let mut frames = Vec::new();
    for id in 1..=INSTRUMENTS as u32 {
        let definition = InstrumentDefinition {
            instrument: InstrumentId(id),
            symbol: Symbol::new(&format!("RATE{id}"))?,
            price_scale: 2,
            quantity_scale: 0,
            tick_size: Price(1),
            lot_size: Quantity(1),
            price_min: Price(1),
            price_max: Price(1_000_000),
            quantity_max: Quantity(1_000_000),
        };
        frames.push(frame(0, 0, 0, at, Body::PutInstrument(definition)));
    }
    for id in 1..=SESSIONS as u32 {
        let user = UserDefinition {
            session: SessionId(id),
            name: UserName::new(&format!("u{id}"))?,
            credential: Credential { scheme: 1, salt: [0; 16], hash: [0; 32] },
            role: Role::Trader,
            enabled: true,
            cancel_on_disconnect: false,
            grace_ms: 0,
        };
        frames.push(frame(0, 0, 0, at, Body::PutUser(user)));
        frames.push(frame(id, id, 0, at, Body::Login(LoginRequest { trading_day: None })));
    }
    Some(frames)
}

/// Of eight requests of a session: four rest away from the touch, three of them are canceled by three, one trades with
/// what is left.
fn request(number: u64, at: Timestamp) -> FrameWriter {
    let session = number % SESSIONS;
    let id = number / SESSIONS + 1;
    let instrument = InstrumentId((id / 8 % INSTRUMENTS) as u32 + 1);
    let new = |side, price, quantity| {
        Body::NewOrder(NewOrder {
            instrument,
            side,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::GoodTillCancel,
            flags: OrderFlags::default(),
            price: Some(Price(price)),
            quantity: Quantity(quantity),
            account: AccountId(0),
            cl_ord_id: None,
            stop_price: None,
            display_quantity: None,
            expire_time: None,
        })
    };
    let cancel = |id| {
        Body::CancelOrder(CancelOrder { order: OrderKey::Id(ClientOrderId(id)), side: None, cl_ord_id: None })
    };
    let body = match id % 8 {
        1..=3 => new(Side::Buy, price(id), 10),
        4 => new(Side::Buy, 10_000, 10),
        5..=7 => cancel(id - 4),
        _ => new(Side::Sell, 10_000, 10),
    };
    frame(session as u32 + 1, session as u32 + 1, id, at, body)
}

/// Makes the same frame as [`request`] from one of its kind, so that the publisher costs next to nothing.
fn fill(line: &mut [u8; 64], kinds: &[FrameWriter], number: u64, at: Timestamp) -> usize {
    let (session, id) = ((number % SESSIONS) as u32 + 1, number / SESSIONS + 1);
    let frame = kinds[(id % 8) as usize].as_bytes();
    line[..frame.len()].copy_from_slice(frame);
    line[4..8].copy_from_slice(&session.to_le_bytes());
    line[8..16].copy_from_slice(&id.to_le_bytes());
    line[16..24].copy_from_slice(&at.0.to_le_bytes());
    line[24..28].copy_from_slice(&session.to_le_bytes());
    if let 5..=7 = id % 8 {
        line[32..40].copy_from_slice(&(id - 4).to_le_bytes());
    } else {
        let instrument = (id / 8 % INSTRUMENTS) as u32 + 1;
        line[28..32].copy_from_slice(&instrument.to_le_bytes());
        if let 1..=3 = id % 8 {
            line[32..40].copy_from_slice(&price(id).to_le_bytes());
        }
    }
    frame.len()
}

/// Fifty prices below the touch.
fn price(id: u64) -> i64 {
    9_900 + (id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as i64 % 50
}

fn publish(ingress: &mut Ingress, frames: &[&[u8]]) -> Result<(), PublishError> {
    loop {
        match ingress.try_publish_many(frames) {
            Err(PublishError::Full(_)) => thread::sleep(Duration::from_micros(20)),
            published => return published,
        }
    }
}

fn report(view: &EngineView, commands: u64, published: Duration, processed: Duration) {
    let rate = |time: Duration| commands as f64 / time.as_secs_f64() / 1e6;
    println!("published {:.2} M/s, processed and reported {:.2} M/s", rate(published), rate(processed));
    let (append, frames) = (view.journal().append_ns.snapshot(), view.journal().batch_frames.snapshot());
    println!(
        "journal: {} batches, frames p50 {} max {}, append us p50 {} p99 {} max {}",
        append.count,
        frames.quantile(500),
        frames.max,
        append.quantile(500) / 1000,
        append.quantile(990) / 1000,
        append.max / 1000
    );
    let events: Vec<String> = view
        .events()
        .events()
        .filter(|(_, count)| *count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    println!("events: {}", events.join(", "));
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let text = |place: usize| arguments.get(place).map(String::as_str);
    let commands: u64 = text(1).map_or(Ok(5_000_000), str::parse)?;
    let claim: usize = text(2).map_or(Ok(64), str::parse)?;
    let folder = match text(3) {
        Some(folder) => tempfile::tempdir_in(folder)?,
        None => tempfile::tempdir()?,
    };
    let mut config = EngineConfig::new(1);
    config.journal.durability = if text(0) == Some("memory") { Durability::Memory } else { Durability::Disk };
    if arguments.len() > 4 {
        config.threads = ThreadPlan::parse(arguments.iter().skip(4).map(String::as_str))?;
    }
    let clock = Clock::system();
    let opened = Engine::open(Arc::new(RealStorage::create(folder.path())?), &config, &mut |_| ())?;
    let engine = Engine::start(&config, opened, Box::new(Muted))?;
    let (mut ingress, view) = (engine.ingress(), engine.view());
    for frame in definitions(clock.now()).ok_or("a name is too long")? {
        publish(&mut ingress, &[frame.as_bytes()])?;
    }
    println!("{:?}, {commands} commands, {claim} a claim", config.journal.durability);

    let started = Instant::now();
    // Those of ids 8 to 15: by remainder.
    let kinds: Vec<FrameWriter> = (7..15).map(|id| request(SESSIONS * id, clock.now())).collect();
    let mut lines: Vec<([u8; 64], usize)> = vec![([0; 64], 0); claim];
    let mut number = 0;
    while number < commands {
        let at = clock.now();
        for (line, length) in &mut lines {
            *length = fill(line, &kinds, number, at);
            number += 1;
        }
        let frames: Vec<&[u8]> = lines.iter().map(|(line, length)| &line[..*length]).collect();
        publish(&mut ingress, &frames)?;
    }
    let published = started.elapsed();
    while view.marks().reported_sequence().0 < number {
        thread::sleep(Duration::from_micros(100));
    }
    report(&view, number, published, started.elapsed());
    drop(ingress);
    let stopped = engine.stop(Duration::from_secs(30));
    println!(
        "drained {}, latency us p50 {} p99 {}",
        stopped.drained,
        view.events().latency_ns.snapshot().quantile(500) / 1000,
        view.events().latency_ns.snapshot().quantile(990) / 1000
    );
    Ok(())
}

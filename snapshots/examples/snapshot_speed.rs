//! Measures what a snapshot costs: `cargo run --release -p snapshots --example snapshot_speed -- ORDERS [FOLDER]`.
//!
//! Fills an exchange with ORDERS resting orders over 1,000 instruments and 1,000 sessions, writes it as a snapshot into
//! FOLDER (a temporary one unless given) and loads it again, each three times.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use exchange::Exchange;
use journaler::storage::{RealStorage, SharedStorage};
use protocol::{
    AccountId, Body, Command, ConnectionId, Credential, InstrumentDefinition, InstrumentId, LoginRequest,
    NewOrder, OrderFlags, OrderType, Output, Price, Quantity, RequestId, Role, SessionId, Side, Symbol, Term,
    TimeInForce, Timestamp, UserDefinition, UserName,
};
use snapshots::SnapshotStore;

const ROUNDS: usize = 3;
const SESSIONS: u32 = 1000;
const INSTRUMENTS: u32 = 1000;

/// Takes no outputs.
struct Mute;

impl exchange::EventSink for Mute {
    fn emit(&mut self, _output: Output) {}
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let orders: u32 = arguments.next().map_or(Ok(1_000_000), |text| text.replace('_', "").parse())?;
    let temporary = tempfile::tempdir()?;
    let folder = arguments.next().map_or_else(|| temporary.path().to_owned(), PathBuf::from);
    let before = resident_bytes();
    let exchange = filled(orders)?;
    println!("{} orders, {} MB resident", exchange.open_orders(), (resident_bytes() - before) >> 20);

    let storage: SharedStorage = Arc::new(RealStorage::create(folder)?);
    let store = SnapshotStore::open(storage.clone(), 1)?;
    let hash = timed("state hash", || exchange.state_hash());
    for _ in 0..ROUNDS {
        let header =
            timed("write and fsync", || store.write(&exchange, Term(1), &mut |_| ControlFlow::Continue(())))?;
        println!("  {} bytes, {} chunks", header.file_bytes, header.chunks);
    }
    drop(exchange);
    let newest = store.list()?.last().copied().unwrap_or_default();
    for _ in 0..ROUNDS {
        let (loaded, _) = timed("load and verify", || store.load(newest))?;
        assert_eq!(loaded.state_hash(), hash);
    }
    Ok(())
}

/// Prints how long the clock and the thread's own CPU time ran.
fn timed<T>(what: &str, work: impl FnOnce() -> T) -> T {
    let (clock, cpu) = (Instant::now(), cpu_seconds());
    let result = work();
    println!("{what}: {:.3} s, {:.3} s of CPU", clock.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    result
}

fn cpu_seconds() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

fn filled(orders: u32) -> Result<Exchange, Box<dyn Error>> {
    let mut exchange = Exchange::new();
    let mut apply = |session: u32, request: u64, body: Body| {
        let command = Command {
            session: SessionId(session),
            connection: ConnectionId(session),
            request_id: RequestId(request),
            timestamp: Timestamp(1),
            body,
        };
        exchange.apply(&command, &mut Mute);
    };
    for session in 1..=SESSIONS {
        apply(0, 0, Body::PutUser(user(session)?));
        apply(session, 0, Body::Login(LoginRequest { trading_day: None }));
    }
    for instrument in 1..=INSTRUMENTS {
        apply(0, 0, Body::PutInstrument(instrument_definition(instrument)?));
    }
    for number in 0..orders {
        let session = 1 + number.wrapping_mul(0x9e37_79b1) % SESSIONS;
        let instrument = 1 + number.wrapping_mul(0x85eb_ca6b) % INSTRUMENTS;
        let level = i64::from(number.wrapping_mul(0xc2b2_ae35) >> 24);
        let (side, price) =
            if number % 2 == 0 { (Side::Buy, 1000 - level) } else { (Side::Sell, 1001 + level) };
        let order = NewOrder {
            instrument: InstrumentId(instrument),
            side,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::GoodTillCancel,
            flags: OrderFlags::default(),
            price: Some(Price(price)),
            quantity: Quantity(u64::from(1 + number % 100)),
            account: AccountId(0),
            cl_ord_id: None,
            stop_price: None,
            display_quantity: None,
            expire_time: None,
        };
        apply(session, u64::from(number) + 1, Body::NewOrder(order));
    }
    Ok(exchange)
}

fn user(session: u32) -> Result<UserDefinition, Box<dyn Error>> {
    Ok(UserDefinition {
        session: SessionId(session),
        name: UserName::new(&format!("U{session}")).ok_or("a user's name")?,
        credential: Credential { scheme: 1, salt: [0; 16], hash: [0; 32] },
        role: Role::Trader,
        enabled: true,
        cancel_on_disconnect: false,
        grace_ms: 0,
    })
}

fn instrument_definition(instrument: u32) -> Result<InstrumentDefinition, Box<dyn Error>> {
    Ok(InstrumentDefinition {
        instrument: InstrumentId(instrument),
        symbol: Symbol::new(&format!("I{instrument}")).ok_or("a symbol")?,
        price_scale: 0,
        quantity_scale: 0,
        tick_size: Price(1),
        lot_size: Quantity(1),
        price_min: Price(1),
        price_max: Price(10_000),
        quantity_max: Quantity(1_000_000),
    })
}

//! What an order costs as instruments, resting orders and sessions become many: the same orders each time, and what it
//! takes to keep all of them and to start with them.

use std::error::Error;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use exchange::Exchange;
use journaler::storage::{RealStorage, SharedStorage};
use protocol::{
    AccountId, Body, CancelOrder, ClientOrderId, Command, ConnectionId, InstrumentId, NewOrder, OrderFlags,
    OrderKey, OrderType, Price, Quantity, RequestId, SessionId, Side, Term, TimeInForce, Timestamp,
};
use snapshots::SnapshotStore;

use crate::full::{Refusals, SESSIONS, filled, owner, resident_bytes};
use crate::plot::{Axis, Plot};
use crate::table::{Row, Table};

/// Commands looked ahead, as the logic stage does within a batch.
const LOOK_AHEAD: usize = 8;

/// How much is measured.
pub(crate) struct Extent {
    /// Orders that rest in all, where their number is not what is measured.
    pub(crate) orders: u32,
    /// Most orders, where it is.
    pub(crate) orders_max: u32,
    /// Commands of each point.
    pub(crate) commands: u32,
}

/// What stands in an exchange.
#[derive(Clone, Copy)]
struct Crowd {
    orders: u32,
    instruments: u32,
    sessions: u32,
}

/// Runs the rows `scale/*`, and draws them where a folder for plots is named.
pub(crate) fn run(
    table: &mut Table,
    folder: &Path,
    extent: &Extent,
    plots: Option<&Path>,
) -> Result<(), Box<dyn Error>> {
    // Both are kept until both are measured, so that what one takes is not memory that another has given back.
    let mut kept = Vec::new();
    for instruments in [1, 100_000] {
        let before = resident_bytes();
        let exchange = filled(extent.orders, instruments, SESSIONS)?;
        let resident = resident_bytes().saturating_sub(before) >> 20;
        table.push(start(&exchange, folder, instruments, resident)?);
        kept.push(exchange);
    }
    drop(kept);
    let mut plot = Plot::new(
        "What an order costs as a venue grows",
        Axis { label: "how many", from: 1.0, to: f64::from(extent.orders_max) },
        "ns a command",
    );
    let usual = Crowd { orders: extent.orders, instruments: 1, sessions: SESSIONS };
    let instruments = [1, 10, 100, 1_000, 10_000, 100_000].map(|instruments| Crowd { instruments, ..usual });
    plot.line(
        "instruments",
        curve(table, "instruments", &instruments, extent.commands, |crowd| crowd.instruments)?,
    );
    // With as many as a point needs, the orders that it cancels can't be more than there are.
    let orders: Vec<_> = [1, 1_000, 10_000, 100_000, 1_000_000, 10_000_000]
        .into_iter()
        .filter(|orders| *orders <= extent.orders_max)
        .map(|orders| Crowd { orders, ..usual })
        .collect();
    plot.line("resting orders", curve(table, "orders", &orders, extent.commands, |crowd| crowd.orders)?);
    let sessions = [1, 10, 100, 1_000, 10_000].map(|sessions| Crowd { sessions, ..usual });
    plot.line("sessions", curve(table, "sessions", &sessions, extent.commands, |crowd| crowd.sessions)?);
    match plots {
        Some(plots) => plot.write(&plots.join("scale.svg")),
        None => Ok(()),
    }
}

/// One curve: its rows, each against the first, and its points.
fn curve(
    table: &mut Table,
    name: &str,
    crowds: &[Crowd],
    commands: u32,
    x: impl Fn(&Crowd) -> u32,
) -> Result<Vec<(f64, f64)>, Box<dyn Error>> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for crowd in crowds {
        let mut exchange = filled(crowd.orders, crowd.instruments, crowd.sessions)?;
        let each = cost(&mut exchange, &flow(*crowd, commands));
        let first = points.first().map_or(each, |first| first.1);
        points.push((f64::from(x(crowd)), each));
        let Crowd { orders, instruments, sessions } = crowd;
        table.push(
            Row::new(format!("scale/{name}-{}", x(crowd)), each, "ns/command")
                .against("the first of its curve", first)
                .note(format!("{orders} orders rest, {instruments} instruments, {sessions} sessions")),
        );
    }
    Ok(points)
}

/// Nanoseconds a command.
fn cost(exchange: &mut Exchange, flow: &[Command]) -> f64 {
    let mut refusals = Refusals(0);
    let started = Instant::now();
    for (at, command) in flow.iter().enumerate() {
        if let Some(next) = flow.get(at + LOOK_AHEAD) {
            exchange.prefetch(next);
        }
        exchange.apply(command, &mut refusals);
    }
    let each = started.elapsed().as_nanos() as f64 / flow.len() as f64;
    assert_eq!(refusals.0, 0, "orders and cancels made here are good");
    each
}

/// A new order that rests and the cancel of another in turn, each in an instrument of its own: of one that was there at the
/// beginning, once each, and then of the flow's own.
fn flow(crowd: Crowd, commands: u32) -> Vec<Command> {
    let Crowd { orders, instruments, sessions } = crowd;
    // Numbers are told apart by the ids that they became: those of the flow follow those of `filled`.
    let id_of_new = |number: u32| u64::from(orders) + 2 * u64::from(number) + 1;
    (0..commands)
        .map(|at| {
            let number = at / 2;
            let (session, body) = if at % 2 == 0 {
                let order = NewOrder {
                    instrument: InstrumentId(1 + number.wrapping_mul(0x85eb_ca6b) % instruments),
                    side: Side::Buy,
                    order_type: OrderType::Limit,
                    time_in_force: TimeInForce::GoodTillCancel,
                    flags: OrderFlags::default(),
                    price: Some(Price(1000 - i64::from(number % 200))),
                    quantity: Quantity(7),
                    account: AccountId(0),
                    cl_ord_id: None,
                    terms: protocol::Terms::default(),
                };
                (owner(number, sessions), Body::NewOrder(order))
            } else {
                let (session, id) = if number < orders {
                    let old = spread(number, orders);
                    (owner(old, sessions), u64::from(old) + 1)
                } else {
                    let own = number - orders;
                    (owner(own, sessions), id_of_new(own))
                };
                let order = OrderKey::Id(ClientOrderId(id));
                (session, Body::CancelOrder(CancelOrder { order, side: None, cl_ord_id: None }))
            };
            Command {
                session: SessionId(session),
                connection: ConnectionId(session),
                request_id: RequestId(u64::from(orders) + u64::from(at) + 1),
                timestamp: Timestamp(2),
                body,
            }
        })
        .collect()
}

/// The numbers below `count` in another order, each once: its step shares no factor with it.
fn spread(number: u32, count: u32) -> u32 {
    let mut step = 0x9e37_79b1 % count.max(1);
    while step > 1 && gcd(step, count) != 1 {
        step += 1;
    }
    (u64::from(number) * u64::from(step.max(1)) % u64::from(count)) as u32
}

fn gcd(a: u32, b: u32) -> u32 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// What a start with the newest snapshot takes, checks included.
fn start(exchange: &Exchange, folder: &Path, instruments: u32, resident: u64) -> Result<Row, Box<dyn Error>> {
    let data = folder.join("scale");
    let storage: SharedStorage = Arc::new(RealStorage::create(&data)?);
    let store = SnapshotStore::open(storage, 1)?;
    let header = store.write(exchange, Term(1), &mut |_| ControlFlow::Continue(()))?;
    let loading = Instant::now();
    let (loaded, _) = store.load(header.sequence)?;
    let seconds = loading.elapsed().as_secs_f64();
    assert_eq!(loaded.state_hash(), exchange.state_hash());
    std::fs::remove_dir_all(&data)?;
    Ok(Row::new(format!("scale/start-{instruments}"), seconds, "s").note(format!(
        "load of a snapshot of {} bytes with all checks; the exchange takes {resident} MiB",
        header.file_bytes
    )))
}

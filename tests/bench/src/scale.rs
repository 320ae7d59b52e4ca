//! What an order costs as instruments become many: the same orders in one instrument and in a hundred thousand, with all of
//! them resting, and what it takes to keep them and to start with them.

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

use crate::full::{Mute, SESSIONS, filled, resident_bytes};
use crate::table::{Row, Table};

/// Instruments of the rows; the first is what the others are held against.
const INSTRUMENTS: [u32; 4] = [1, 1_000, 10_000, 100_000];
/// Commands looked ahead, as the logic stage does within a batch.
const LOOK_AHEAD: usize = 8;

/// Runs the rows `scale/*`: `orders` resting in all, `commands` measured.
pub(crate) fn run(
    table: &mut Table,
    folder: &Path,
    orders: u32,
    commands: u32,
) -> Result<(), Box<dyn Error>> {
    let mut one = None;
    // All are kept, so that what one takes is not memory that another has given back.
    let mut kept = Vec::new();
    for instruments in INSTRUMENTS {
        let before = resident_bytes();
        let mut exchange = filled(orders, instruments)?;
        let resident = (resident_bytes() - before) >> 20;
        let flow = flow(orders, commands, instruments);
        let started = Instant::now();
        for (at, command) in flow.iter().enumerate() {
            if let Some(next) = flow.get(at + LOOK_AHEAD) {
                exchange.prefetch(next);
            }
            exchange.apply(command, &mut Mute);
        }
        let each = started.elapsed().as_nanos() as f64 / flow.len() as f64;
        table.push(
            Row::new(format!("scale/instruments-{instruments}"), each, "ns/command")
                .against("one instrument", *one.get_or_insert(each))
                .note(format!("{orders} orders rest in all; the exchange takes {resident} MiB")),
        );
        table.push(start(&exchange, folder, instruments)?);
        kept.push(exchange);
    }
    Ok(())
}

/// A new order that rests and the cancel of an old one in turn, each in an instrument of its own.
fn flow(orders: u32, commands: u32, instruments: u32) -> Vec<Command> {
    (0..commands)
        .map(|at| {
            let number = at / 2;
            // The session and the number of an order that `filled` left there.
            let old = number.wrapping_mul(0x9e37_79b1) % orders;
            let session = 1 + old.wrapping_mul(0x9e37_79b1) % SESSIONS;
            let body = if at % 2 == 0 {
                Body::NewOrder(NewOrder {
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
                })
            } else {
                let order = OrderKey::Id(ClientOrderId(u64::from(old) + 1));
                Body::CancelOrder(CancelOrder { order, side: None, cl_ord_id: None })
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

/// What a start with the newest snapshot takes, checks included.
fn start(exchange: &Exchange, folder: &Path, instruments: u32) -> Result<Row, Box<dyn Error>> {
    let data = folder.join("scale");
    let storage: SharedStorage = Arc::new(RealStorage::create(&data)?);
    let store = SnapshotStore::open(storage, 1)?;
    let header = store.write(exchange, Term(1), &mut |_| ControlFlow::Continue(()))?;
    let loading = Instant::now();
    let (loaded, _) = store.load(header.sequence)?;
    let seconds = loading.elapsed().as_secs_f64();
    assert_eq!(loaded.state_hash(), exchange.state_hash());
    std::fs::remove_dir_all(&data)?;
    Ok(Row::new(format!("scale/start-{instruments}"), seconds, "s")
        .note(format!("load of a snapshot of {} bytes with all checks", header.file_bytes)))
}

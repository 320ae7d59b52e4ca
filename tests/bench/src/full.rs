//! Exchanges that are full of resting orders, for the rows that need one.

use std::error::Error;

use exchange::Exchange;
use protocol::{
    AccountId, Body, Capacities, Command, ConnectionId, Credential, Event, InstrumentDefinition,
    InstrumentId, LoginRequest, NewOrder, OrderFlags, OrderType, Output, Price, Quantity, RequestId, Role,
    SessionId, Side, Symbol, TimeInForce, Timestamp, UserDefinition, UserName,
};

/// Sessions of such an exchange where their number is not what is measured; they are numbered from 1.
pub(crate) const SESSIONS: u32 = 1000;

/// Orders that such an exchange has room for.
const ORDERS_MAX: u32 = 12_000_000;

/// Counts what is refused: a flow that is refused measures nothing.
pub(crate) struct Refusals(pub(crate) u64);

impl exchange::EventSink for Refusals {
    fn emit(&mut self, output: Output) {
        self.0 += u64::from(matches!(output.event, Event::Rejected(_)));
    }
}

/// Memory that the process has at present.
pub(crate) fn resident_bytes() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = statm.split_whitespace().nth(1).and_then(|text| text.parse::<u64>().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

/// The session of an order's number.
pub(crate) fn owner(number: u32, sessions: u32) -> u32 {
    1 + number.wrapping_mul(0x9e37_79b1) % sessions
}

/// An exchange with so many resting orders in so many instruments, of so many sessions.
pub(crate) fn filled(orders: u32, instruments: u32, sessions: u32) -> Result<Exchange, Box<dyn Error>> {
    let mut exchange = Exchange::new();
    let mut refusals = Refusals(0);
    let mut apply = |session: u32, request: u64, body: Body| {
        let command = Command {
            session: SessionId(session),
            connection: ConnectionId(session),
            request_id: RequestId(request),
            timestamp: Timestamp(1),
            body,
        };
        exchange.apply(&command, &mut refusals);
    };
    apply(
        0,
        0,
        Body::SetCapacities(Capacities {
            orders: ORDERS_MAX,
            levels: ORDERS_MAX,
            sessions: sessions + 1,
            ..Capacities::default()
        }),
    );
    for session in 1..=sessions {
        apply(0, 0, Body::PutUser(user(session)?));
        apply(session, 0, Body::Login(LoginRequest { trading_day: None }));
    }
    for instrument in 1..=instruments {
        apply(0, 0, Body::PutInstrument(instrument_definition(instrument)?));
    }
    for number in 0..orders {
        let session = owner(number, sessions);
        let instrument = 1 + number.wrapping_mul(0x85eb_ca6b) % instruments;
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
            terms: protocol::Terms::default(),
        };
        apply(session, u64::from(number) + 1, Body::NewOrder(order));
    }
    assert_eq!(refusals.0, 0, "what is put in is good");
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

//! The venue that flows are sent to, and their messages as its commands.

use exchange::Exchange;
use protocol::{
    Body, CancelOrder, Capacities, ClientOrderId, Command, ConnectionId, Credential, InstrumentDefinition,
    InstrumentId, LoginRequest, NewOrder, OrderFlags, OrderKey, OrderType, Price, Quantity, ReplaceOrder,
    RequestId, Role, SessionId, Symbol, TimeInForce, Timestamp, UserDefinition, UserName,
};

use crate::workload::Message;

/// The session that sends.
pub(crate) const SESSION: SessionId = SessionId(1);
/// Its connection.
pub(crate) const CONNECTION: ConnectionId = ConnectionId(1);
/// The instrument traded.
pub(crate) const INSTRUMENT: InstrumentId = InstrumentId(1);

/// An exchange with one instrument and one logged-in session.
#[must_use]
pub(crate) fn prepared() -> Exchange {
    let mut exchange = Exchange::new();
    for body in setup() {
        apply_system(&mut exchange, body);
    }
    exchange.apply(&login(), &mut Vec::new());
    exchange
}

/// The login of the session that sends.
#[must_use]
pub(crate) fn login() -> Command {
    Command {
        session: SESSION,
        connection: CONNECTION,
        body: Body::Login(LoginRequest { trading_day: None }),
        ..Command::default()
    }
}

/// What the system session puts into a new exchange.
#[must_use]
pub(crate) fn setup() -> [Body; 3] {
    let definition = InstrumentDefinition {
        instrument: INSTRUMENT,
        symbol: Symbol::new("BENCH").expect("a valid symbol"),
        price_scale: 2,
        quantity_scale: 0,
        tick_size: Price(1),
        lot_size: Quantity(1),
        price_min: Price(1),
        price_max: Price(1_000_000_000),
        quantity_max: Quantity(1_000_000_000),
    };
    let user = UserDefinition {
        session: SESSION,
        name: UserName::new("bench").expect("a valid name"),
        credential: Credential { scheme: 0, salt: [0; 16], hash: [0; 32] },
        role: Role::Trader,
        enabled: true,
        cancel_on_disconnect: false,
        grace_ms: 0,
    };
    [Body::SetCapacities(Capacities::default()), Body::PutInstrument(definition), Body::PutUser(user)]
}

/// Applies a command of the server's own.
pub(crate) fn apply_system(exchange: &mut Exchange, body: Body) {
    exchange.apply(&Command { body, ..Command::default() }, &mut Vec::new());
}

/// The command of the message at `place`. The place is the request id, which is how an order gets its name.
#[must_use]
pub(crate) fn command(message: &Message, place: u64) -> Command {
    let body = match *message {
        Message::New { side, price, quantity, immediate, .. } => Body::NewOrder(NewOrder {
            instrument: INSTRUMENT,
            side,
            order_type: OrderType::Limit,
            time_in_force: if immediate {
                TimeInForce::ImmediateOrCancel
            } else {
                TimeInForce::GoodTillCancel
            },
            flags: OrderFlags::default(),
            price: Some(price),
            quantity,
            account: protocol::AccountId(0),
            cl_ord_id: None,
            terms: protocol::Terms::default(),
        }),
        Message::Cancel { order } => {
            Body::CancelOrder(CancelOrder { order: key(order), side: None, cl_ord_id: None })
        }
        Message::Replace { order, price, quantity } => Body::ReplaceOrder(ReplaceOrder {
            order: key(order),
            side: None,
            price: Some(price),
            quantity,
            stop_price: None,
            display: None,
            cl_ord_id: None,
        }),
    };
    Command {
        session: SESSION,
        connection: CONNECTION,
        request_id: RequestId(place),
        timestamp: Timestamp(place),
        body,
    }
}

fn key(order: u64) -> OrderKey {
    OrderKey::Id(ClientOrderId(order))
}

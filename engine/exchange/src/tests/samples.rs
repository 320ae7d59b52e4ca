//! What tests of this crate begin with.

use protocol::{
    AccountId, Credential, InstrumentDefinition, InstrumentId, NewOrder, OrderFlags, OrderType, Price,
    Quantity, Role, SessionId, Side, Symbol, Terms, TimeInForce, UserDefinition, UserName,
};

/// Prices from 1 to 1,000, quantities to 1,000, ticks and lots of 1, without decimals.
pub(crate) fn instrument(id: u32) -> InstrumentDefinition {
    InstrumentDefinition {
        instrument: InstrumentId(id),
        symbol: Symbol::new(&format!("X{id}")).expect("a valid symbol"),
        price_scale: 0,
        quantity_scale: 0,
        tick_size: Price(1),
        lot_size: Quantity(1),
        price_min: Price(1),
        price_max: Price(1_000),
        quantity_max: Quantity(1_000),
    }
}

/// An enabled trader.
pub(crate) fn user(session: u32) -> UserDefinition {
    UserDefinition {
        session: SessionId(session),
        name: UserName::new(&format!("user{session}")).expect("a valid name"),
        credential: Credential { scheme: 1, salt: [0; 16], hash: [0; 32] },
        role: Role::Trader,
        enabled: true,
        cancel_on_disconnect: false,
        grace_ms: 0,
    }
}

/// A limit order, good till canceled.
pub(crate) fn limit(instrument: u32, account: u32, side: Side, quantity: u64, price: i64) -> NewOrder {
    NewOrder {
        instrument: InstrumentId(instrument),
        side,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::GoodTillCancel,
        flags: OrderFlags::default(),
        price: Some(Price(price)),
        quantity: Quantity(quantity),
        account: AccountId(account),
        cl_ord_id: None,
        terms: Terms::default(),
    }
}

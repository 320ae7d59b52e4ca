//! Short forms of the requests that most callers send; everything else is built from `protocol`'s types.

use protocol::{
    AccountId, Body, CancelOrder, ClientOrderId, InstrumentId, NewOrder, OrderFlags, OrderKey, OrderType,
    Price, Quantity, ReplaceOrder, Side, TimeInForce,
};

/// A good-till-cancel limit order without further options.
#[must_use]
pub fn limit(instrument: InstrumentId, side: Side, quantity: Quantity, price: Price) -> NewOrder {
    NewOrder {
        instrument,
        side,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::GoodTillCancel,
        flags: OrderFlags::default(),
        price: Some(price),
        quantity,
        account: AccountId(0),
        cl_ord_id: None,
        terms: protocol::Terms::default(),
    }
}

/// A market order: what finds no counterparty at once expires.
#[must_use]
pub fn market(instrument: InstrumentId, side: Side, quantity: Quantity) -> NewOrder {
    NewOrder {
        order_type: OrderType::Market,
        time_in_force: TimeInForce::ImmediateOrCancel,
        price: None,
        ..limit(instrument, side, quantity, Price(0))
    }
}

/// Cancels the order of that client order id.
#[must_use]
pub fn cancel(order: ClientOrderId) -> Body {
    Body::CancelOrder(CancelOrder { order: OrderKey::Id(order), side: None, cl_ord_id: None })
}

/// Gives the order of that client order id another price and total quantity (executions included).
#[must_use]
pub fn replace(order: ClientOrderId, quantity: Quantity, price: Price) -> Body {
    Body::ReplaceOrder(ReplaceOrder {
        order: OrderKey::Id(order),
        side: None,
        price: Some(price),
        quantity,
        stop_price: None,
        display: None,
        cl_ord_id: None,
    })
}

//! Short forms of the requests that callers send most. Orders begin with one of the functions that make one, and take the
//! terms that few orders have from those that change one:
//!
//! ```
//! use client::{all_or_none, child_of, hidden, iceberg, limit, one_cancels_other, quote, stop, trailing_stop};
//! use protocol::{AccountId, Body, ClientOrderId, InstrumentId, Price, Quantity, QuoteEntry, Side};
//!
//! let gold = InstrumentId(7);
//! // Shows 10 of 100 at a time; then one that nobody sees, and one that trades whole or not at all.
//! let sliced = iceberg(limit(gold, Side::Sell, Quantity(100), Price(2_050)), Quantity(10), None);
//! let unseen = hidden(limit(gold, Side::Buy, Quantity(5), Price(2_000)));
//! let whole = all_or_none(limit(gold, Side::Buy, Quantity(50), Price(2_010)));
//! // A bracket: once order 12 is filled, a stop and a target of which one cancels the other.
//! let entry = ClientOrderId(12);
//! let loss = one_cancels_other(child_of(stop(gold, Side::Sell, Quantity(5), Price(1_950)), entry), 1);
//! let target = one_cancels_other(child_of(limit(gold, Side::Sell, Quantity(5), Price(2_100)), entry), 1);
//! // Follows the last trade at a distance of 20.
//! let trail = trailing_stop(gold, Side::Sell, Quantity(5), 20);
//! // Two bids and one ask around 2,000, at most ten a side.
//! let bids = [QuoteEntry { ticks: -1, lots: 5 }, QuoteEntry { ticks: -2, lots: 9 }];
//! let asks = [QuoteEntry { ticks: 1, lots: 5 }];
//! let ladder = quote(gold, AccountId(3), Price(2_000), Some(&bids), Some(&asks)).expect("at most ten a side");
//! for order in [sliced, unseen, whole, loss, target, trail] {
//!     let _request = Body::NewOrder(order); // goes to `Client::submit`
//! }
//! let _request = Body::MassQuote(ladder);
//! ```
//!
//! Everything else is built from `protocol`'s types.

use protocol::{
    AccountId, Body, CancelOrder, ClientOrderId, InstrumentId, MassQuote, NewOrder, OrderFlags, OrderKey,
    OrderType, Peg, Price, Quantity, QuoteEntry, QuoteSide, ReplaceOrder, SelfTrade, Side, Terms,
    TimeInForce, Timestamp,
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
        terms: Terms::default(),
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

/// An order of the type without a price of its own, good till cancel: what is left of it rests.
#[must_use]
fn unpriced(order_type: OrderType, instrument: InstrumentId, side: Side, quantity: Quantity) -> NewOrder {
    NewOrder { order_type, price: None, ..limit(instrument, side, quantity, Price(0)) }
}

/// Trades at the best opposite price; what is left rests there.
#[must_use]
pub fn market_to_limit(instrument: InstrumentId, side: Side, quantity: Quantity) -> NewOrder {
    unpriced(OrderType::MarketToLimit, instrument, side, quantity)
}

/// A market order as far as the instrument's protection; what is left rests there.
#[must_use]
pub fn market_protected(instrument: InstrumentId, side: Side, quantity: Quantity) -> NewOrder {
    unpriced(OrderType::MarketProtected, instrument, side, quantity)
}

/// A market order that waits until the trigger reaches the stop price.
#[must_use]
pub fn stop(instrument: InstrumentId, side: Side, quantity: Quantity, stop_price: Price) -> NewOrder {
    let order = unpriced(OrderType::Market, instrument, side, quantity);
    NewOrder { terms: order.terms.with_stop_price(Some(stop_price)), ..order }
}

/// A limit order that waits until the trigger reaches the stop price.
#[must_use]
pub fn stop_limit(
    instrument: InstrumentId,
    side: Side,
    quantity: Quantity,
    stop_price: Price,
    price: Price,
) -> NewOrder {
    let order = limit(instrument, side, quantity, price);
    NewOrder { terms: order.terms.with_stop_price(Some(stop_price)), ..order }
}

/// A market order whose stop price follows the trigger at a distance in price units.
#[must_use]
pub fn trailing_stop(instrument: InstrumentId, side: Side, quantity: Quantity, distance: u64) -> NewOrder {
    let order = unpriced(OrderType::Market, instrument, side, quantity);
    NewOrder { terms: order.terms.with_trail(Some(distance)), ..order }
}

/// A hidden order that follows the book. With [`limit`] and [`Terms::with_peg`] it has a limit besides.
#[must_use]
pub fn pegged(instrument: InstrumentId, side: Side, quantity: Quantity, peg: Peg) -> NewOrder {
    let order = unpriced(OrderType::Pegged, instrument, side, quantity);
    NewOrder { terms: order.terms.with_peg(Some(peg)), ..order }
}

/// Shows `display` at a time; with `high` each refill is drawn between the two.
#[must_use]
pub fn iceberg(order: NewOrder, display: Quantity, high: Option<Quantity>) -> NewOrder {
    NewOrder { terms: order.terms.with_display(Some(display)).with_display_high(high), ..order }
}

/// Never shown.
#[must_use]
pub fn hidden(order: NewOrder) -> NewOrder {
    NewOrder { flags: OrderFlags { hidden: true, ..order.flags }, ..order }
}

/// Never takes: rejected where it would trade, or, sliding, moved one tick away.
#[must_use]
pub fn post_only(order: NewOrder, slide: bool) -> NewOrder {
    NewOrder { flags: OrderFlags { post_only: true, slide, ..order.flags }, ..order }
}

/// Only ever makes the account's position smaller.
#[must_use]
pub fn reduce_only(order: NewOrder) -> NewOrder {
    NewOrder { flags: OrderFlags { reduce_only: true, ..order.flags }, ..order }
}

/// Trades at least so much at a time.
#[must_use]
pub fn minimum(order: NewOrder, minimum: Quantity) -> NewOrder {
    NewOrder { terms: order.terms.with_minimum(Some(minimum)), ..order }
}

/// Trades whole or not at all, and waits for it.
#[must_use]
pub fn all_or_none(order: NewOrder) -> NewOrder {
    minimum(order, order.quantity)
}

/// Ends at that time.
#[must_use]
pub fn good_till(order: NewOrder, expire_time: Timestamp) -> NewOrder {
    NewOrder {
        time_in_force: TimeInForce::GoodTillDate,
        terms: order.terms.with_expire_time(Some(expire_time)),
        ..order
    }
}

/// One of a group: when one of them trades or ends, the others are canceled.
#[must_use]
pub fn one_cancels_other(order: NewOrder, group: u64) -> NewOrder {
    NewOrder { terms: order.terms.with_oco(Some(group)), ..order }
}

/// Waits until its parent is filled.
#[must_use]
pub fn child_of(order: NewOrder, parent: ClientOrderId) -> NewOrder {
    NewOrder { terms: order.terms.with_parent(Some(parent)), ..order }
}

/// Does not trade with orders of the same group.
#[must_use]
pub fn self_trade(order: NewOrder, self_trade: SelfTrade) -> NewOrder {
    NewOrder { terms: order.terms.with_self_trade(Some(self_trade)), ..order }
}

/// For that account.
#[must_use]
pub fn for_account(order: NewOrder, account: AccountId) -> NewOrder {
    NewOrder { account, ..order }
}

/// A ladder in the place of the session's quotes in an instrument: entries in ticks from the base price and in lots, best
/// first, and a side that is not given stays as it is. `None` where a side has more than ten. Entry n, bids first, has the
/// request's id plus n as its client order id.
#[must_use]
pub fn quote(
    instrument: InstrumentId,
    account: AccountId,
    base: Price,
    bids: Option<&[QuoteEntry]>,
    asks: Option<&[QuoteEntry]>,
) -> Option<MassQuote> {
    let side = |entries: Option<&[QuoteEntry]>| match entries {
        Some(entries) => QuoteSide::new(entries).map(Some),
        None => Some(None),
    };
    Some(MassQuote { instrument, account, base, bids: side(bids)?, asks: side(asks)? })
}

/// Cancels the order of that client order id.
#[must_use]
pub fn cancel(order: ClientOrderId) -> Body {
    Body::CancelOrder(CancelOrder { order: OrderKey::Id(order), side: None, cl_ord_id: None })
}

/// Gives the order of that client order id another price and total quantity (executions included).
#[must_use]
pub fn replace(order: ClientOrderId, quantity: Quantity, price: Price) -> Body {
    Body::ReplaceOrder(replacement(order, quantity, Some(price)))
}

/// The same as a value whose stop price, display quantity or text id can be set before it is sent. An order without a price
/// has none in its replace either.
#[must_use]
pub fn replacement(order: ClientOrderId, quantity: Quantity, price: Option<Price>) -> ReplaceOrder {
    ReplaceOrder {
        order: OrderKey::Id(order),
        side: None,
        price,
        quantity,
        stop_price: None,
        display: None,
        cl_ord_id: None,
    }
}

//! Reports and depth for people and for scripts, in the decimals of the instrument where it is known.

use protocol::{
    ClientOrderId, DepthSnapshot, Event, InstrumentDefinition, InstrumentId, Price, Quantity, Report,
};
use serde_json::{Value, json};

use crate::{decimal, say};

/// The order and the instrument that a report is about; instrument 0 where it is about none.
pub(super) fn subject(event: &Event) -> (Option<ClientOrderId>, InstrumentId) {
    match event {
        Event::Accepted(e) => (Some(ClientOrderId(e.request_id.0)), e.instrument),
        Event::Executed(e) => (Some(e.client_order_id), e.instrument),
        Event::Canceled(e) => (Some(e.client_order_id), e.instrument),
        Event::Replaced(e) => (Some(e.client_order_id), e.instrument),
        Event::Restated(e) => (Some(e.client_order_id), e.instrument),
        Event::Expired(e) => (Some(e.client_order_id), e.instrument),
        Event::OrderStatus(e) => (Some(e.client_order_id), e.instrument),
        Event::AdminDone(e) => (None, e.instrument),
        _ => (None, InstrumentId(0)),
    }
}

fn price(value: Price, definition: Option<&InstrumentDefinition>) -> String {
    definition.map_or_else(|| value.to_string(), |of| decimal::format(value.0.into(), of.price_scale))
}

fn unpriced(value: Option<Price>, definition: Option<&InstrumentDefinition>) -> String {
    value.map_or_else(|| "market".to_owned(), |value| price(value, definition))
}

fn quantity(value: Quantity, definition: Option<&InstrumentDefinition>) -> String {
    definition.map_or_else(|| value.to_string(), |of| decimal::format(value.0.into(), of.quantity_scale))
}

fn symbol(instrument: InstrumentId, definition: Option<&InstrumentDefinition>) -> String {
    definition.map_or_else(|| format!("instrument {instrument}"), |of| of.symbol.to_string())
}

/// One line.
pub(super) fn report(report: &Report, of: Option<&InstrumentDefinition>) -> String {
    let p = |value: Price| price(value, of);
    let q = |value: Quantity| quantity(value, of);
    match &report.output.event {
        Event::Accepted(e) => {
            let at = e.price.map_or_else(|| "market".to_owned(), |value| format!("@ {}", p(value)));
            let post_only = if e.flags.post_only { " post-only" } else { "" };
            let (id, name) = (e.request_id, symbol(e.instrument, of));
            format!("accepted {id}: {} {} {name} {at} {}{post_only}", e.side, q(e.quantity), e.time_in_force)
        }
        Event::Rejected(e) => format!("rejected request {}: {}", e.request_id, e.reason),
        Event::Executed(e) => format!(
            "executed {}: {} {} {} @ {}, {} left, {} done, trade {} ({})",
            e.client_order_id,
            e.side,
            q(e.last_quantity),
            symbol(e.instrument, of),
            p(e.last_price),
            q(e.leaves_quantity),
            q(e.cum_quantity),
            e.trade_id,
            e.liquidity
        ),
        Event::Canceled(e) => {
            format!(
                "canceled {}: {} taken out, {} done ({})",
                e.client_order_id,
                q(e.canceled_quantity),
                q(e.cum_quantity),
                e.reason
            )
        }
        Event::Replaced(e) => {
            let place = if e.kept_place { "keeps its place" } else { "new place" };
            let id = e.client_order_id;
            format!(
                "replaced {id}: {} {} @ {}, {} done, {place}",
                e.side,
                q(e.quantity),
                unpriced(e.price, of),
                q(e.cum_quantity)
            )
        }
        Event::Restated(e) => {
            let id = e.client_order_id;
            let (left, at) = (q(e.leaves_quantity), unpriced(e.price, of));
            format!("restated {id}: {} {left} @ {at} ({})", e.side, e.reason)
        }
        Event::Expired(e) => {
            format!(
                "expired {}: {} gone, {} done ({})",
                e.client_order_id,
                q(e.expired_quantity),
                q(e.cum_quantity),
                e.reason
            )
        }
        Event::OrderStatus(e) => format!(
            "status {}: {} {} {} @ {}, {} done ({})",
            e.client_order_id,
            e.side,
            q(e.leaves_quantity),
            symbol(e.instrument, of),
            unpriced(e.price, of),
            q(e.cum_quantity),
            e.status
        ),
        Event::MassCanceled(e) => format!("canceled all: {} orders", e.orders),
        Event::AdminDone(e) => format!("done: request {}", e.request_id),
        other => format!("{other:?}"),
    }
}

/// One object.
pub(super) fn report_json(report: &Report, of: Option<&InstrumentDefinition>) -> Value {
    let p = |value: Price| price(value, of);
    let q = |value: Quantity| quantity(value, of);
    let number = report.output.event.recipient().map_or(0, |to| to.number.0);
    let mut value = match &report.output.event {
        Event::Accepted(e) => json!({
            "kind": "accepted", "id": e.request_id.0, "request": e.request_id.0, "order": e.order_id.0,
            "side": e.side.name(), "quantity": q(e.quantity), "price": e.price.map(p),
            "time_in_force": e.time_in_force.name(), "post_only": e.flags.post_only,
        }),
        Event::Rejected(e) => {
            json!({ "kind": "rejected", "request": e.request_id.0, "reason": e.reason.name() })
        }
        Event::Executed(e) => json!({
            "kind": "executed", "id": e.client_order_id.0, "request": e.request_id.0, "order": e.order_id.0,
            "trade": e.trade_id.0, "side": e.side.name(), "quantity": q(e.last_quantity), "price": p(e.last_price),
            "leaves": q(e.leaves_quantity), "cum": q(e.cum_quantity), "liquidity": e.liquidity.name(),
        }),
        Event::Canceled(e) => json!({
            "kind": "canceled", "id": e.client_order_id.0, "request": e.request_id.0, "quantity": q(e.canceled_quantity),
            "cum": q(e.cum_quantity), "reason": e.reason.name(),
        }),
        Event::Replaced(e) => json!({
            "kind": "replaced", "id": e.client_order_id.0, "request": e.request_id.0, "side": e.side.name(),
            "quantity": q(e.quantity), "price": e.price.map(p), "cum": q(e.cum_quantity), "kept_place": e.kept_place,
        }),
        Event::Restated(e) => json!({
            "kind": "restated", "id": e.client_order_id.0, "side": e.side.name(), "price": e.price.map(p),
            "leaves": q(e.leaves_quantity), "cum": q(e.cum_quantity), "reason": e.reason.name(),
        }),
        Event::Expired(e) => json!({
            "kind": "expired", "id": e.client_order_id.0, "request": e.request_id.0, "quantity": q(e.expired_quantity),
            "cum": q(e.cum_quantity), "reason": e.reason.name(),
        }),
        Event::OrderStatus(e) => json!({
            "kind": "status", "id": e.client_order_id.0, "request": e.request_id.0, "side": e.side.name(),
            "price": e.price.map(p), "leaves": q(e.leaves_quantity), "cum": q(e.cum_quantity), "status": e.status.name(),
        }),
        Event::MassCanceled(e) => {
            json!({ "kind": "mass_canceled", "request": e.request_id.0, "orders": e.orders })
        }
        Event::AdminDone(e) => json!({ "kind": "admin_done", "request": e.request_id.0 }),
        _ => json!({ "kind": "other" }),
    };
    if let Value::Object(fields) = &mut value {
        fields.insert("report".to_owned(), json!(number));
        fields.insert("sequence".to_owned(), json!(report.output.sequence.0));
        if let Some(of) = of {
            fields.insert("symbol".to_owned(), json!(of.symbol.as_str()));
        }
    }
    value
}

/// The levels of both sides side by side.
pub(super) fn depth(depth: &DepthSnapshot, of: &InstrumentDefinition) {
    say!("{} at sequence {}", of.symbol, depth.sequence);
    say!(
        "{:>8} {:>20} {:>16} | {:<16} {:<20} {:<8}",
        "orders",
        "bid quantity",
        "bid",
        "ask",
        "ask quantity",
        "orders"
    );
    for row in 0..depth.bids.len().max(depth.asks.len()) {
        let cell = |level: Option<&protocol::DepthLevel>| match level {
            Some(level) => {
                (price(level.price, Some(of)), quantity(level.quantity, Some(of)), level.orders.to_string())
            }
            None => Default::default(),
        };
        let (bid, bid_quantity, bid_orders) = cell(depth.bids.get(row));
        let (ask, ask_quantity, ask_orders) = cell(depth.asks.get(row));
        say!("{bid_orders:>8} {bid_quantity:>20} {bid:>16} | {ask:<16} {ask_quantity:<20} {ask_orders:<8}");
    }
}

/// The same as one object.
pub(super) fn depth_json(depth: &DepthSnapshot, of: &InstrumentDefinition) -> Value {
    let side = |levels: &[protocol::DepthLevel]| -> Vec<Value> {
        levels
            .iter()
            .map(|level| {
                json!({
                    "price": price(level.price, Some(of)),
                    "quantity": quantity(level.quantity, Some(of)),
                    "orders": level.orders,
                })
            })
            .collect()
    };
    json!({
        "kind": "book", "symbol": of.symbol.as_str(), "sequence": depth.sequence.0,
        "bids": side(&depth.bids), "asks": side(&depth.asks),
    })
}

//! Reports as one JSON object each, for scripts. Amounts of money are whole numbers of the currency's smallest unit.

use protocol::{Event, InstrumentDefinition, Price, Quantity, RejectReason, Report};
use serde_json::{Value, json};

use super::{position, price, quantity};

/// One object.
pub(in crate::commands) fn report_json(report: &Report, of: Option<&InstrumentDefinition>) -> Value {
    let p = |value: Price| price(value, of);
    let q = |value: Quantity| quantity(value, of);
    let number = report.output.event.recipient().map_or(0, |to| to.number.0);
    let mut value = match &report.output.event {
        Event::Accepted(e) => json!({
            "kind": "accepted", "id": e.request_id.0, "request": e.request_id.0, "order": e.order_id.0,
            "side": e.side.name(), "quantity": q(e.quantity), "price": e.price.map(p),
            "type": e.order_type.name(), "time_in_force": e.time_in_force.name(), "account": e.account.0,
            "post_only": e.flags.post_only, "slide": e.flags.slide, "hidden": e.flags.hidden,
            "reduce_only": e.flags.reduce_only,
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
            "price": e.price.map(p), "stop": e.stop_price.map(p), "leaves": q(e.leaves_quantity),
            "cum": q(e.cum_quantity), "status": e.status.name(),
        }),
        Event::MassCanceled(e) => {
            json!({ "kind": "mass_canceled", "request": e.request_id.0, "orders": e.orders })
        }
        Event::AdminDone(e) => json!({ "kind": "admin_done", "request": e.request_id.0 }),
        other => more(other, of),
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

/// The reports of version 2 of the rulebook.
fn more(event: &Event, of: Option<&InstrumentDefinition>) -> Value {
    let p = |value: Price| price(value, of);
    let q = |value: Quantity| quantity(value, of);
    match event {
        Event::Triggered(e) => json!({
            "kind": "triggered", "id": e.client_order_id.0, "order": e.order_id.0, "side": e.side.name(),
            "stop": p(e.stop_price), "price": e.price.map(p), "leaves": q(e.leaves_quantity),
        }),
        Event::MassQuoted(e) => json!({
            "kind": "mass_quoted", "request": e.request_id.0, "bids": e.bids, "asks": e.asks,
            "bid_reason": e.bid_reason.map(RejectReason::name), "ask_reason": e.ask_reason.map(RejectReason::name),
        }),
        Event::Settled(e) => json!({
            "kind": "settled", "id": e.client_order_id.0, "trade": e.trade_id.0, "side": e.side.name(),
            "account": e.account.0, "fee": e.fee.to_string(), "position": position(e.position, of),
        }),
        Event::TradeRevised(e) => json!({
            "kind": if e.new_price.is_some() { "trade_corrected" } else { "trade_busted" },
            "id": e.client_order_id.0, "trade": e.trade_id.0, "side": e.side.name(), "account": e.account.0,
            "quantity": q(e.quantity), "old_price": p(e.old_price), "new_price": e.new_price.map(p),
        }),
        Event::Balance(e) => json!({
            "kind": "balance", "request": e.request_id.0, "account": e.account.0, "currency": e.currency.as_str(),
            "total": e.total.to_string(), "held": e.held.to_string(),
        }),
        Event::Position(e) => json!({
            "kind": "position", "request": e.request_id.0, "account": e.account.0, "instrument": e.instrument.0,
            "quantity": position(e.quantity, of), "cost": e.cost.to_string(),
            "open_buy": q(Quantity(e.open_buy)), "open_sell": q(Quantity(e.open_sell)),
        }),
        Event::InstrumentState(e) => json!({
            "kind": "instrument_state", "request": e.request_id.0, "instrument": e.instrument.0,
            "phase": e.phase.name(), "last_price": e.last_price.map(p), "reference_price": e.reference_price.map(p),
            "mark_price": e.mark_price.map(p), "open_interest": q(Quantity(e.open_interest)),
        }),
        _ => json!({ "kind": "other" }),
    }
}

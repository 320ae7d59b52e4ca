//! Depth for people and for scripts.

use protocol::{DepthLevel, DepthSnapshot, InstrumentDefinition, MarketState};
use serde_json::{Value, json};

use super::{price, quantity};
use crate::say;

/// The levels of both sides side by side.
pub(in crate::commands::trade) fn depth(depth: &DepthSnapshot, of: &InstrumentDefinition) {
    let state = depth.state.map_or_else(String::new, |state| state_line(&state, of));
    say!("{} at sequence {}{state}", of.symbol, depth.sequence);
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
        let cell = |level: Option<&DepthLevel>| match level {
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

/// Phase, and what an uncross would do.
fn state_line(state: &MarketState, of: &InstrumentDefinition) -> String {
    let Some(it) = state.indicative else { return format!(", {}", state.phase) };
    let surplus = it
        .surplus_side
        .map_or_else(String::new, |side| format!(", {} more to {side}", quantity(it.surplus, Some(of))));
    let at = it.price.map_or_else(String::new, |at| format!(" @ {}", price(at, Some(of))));
    format!(", {}: {}{at} would trade{surplus}", state.phase, quantity(it.quantity, Some(of)))
}

/// The same as one object.
pub(in crate::commands::trade) fn depth_json(depth: &DepthSnapshot, of: &InstrumentDefinition) -> Value {
    let side = |levels: &[DepthLevel]| -> Vec<Value> {
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
    let indicative = depth.state.and_then(|state| state.indicative).map(|it| {
        json!({
            "price": it.price.map(|at| price(at, Some(of))),
            "quantity": quantity(it.quantity, Some(of)),
            "surplus": quantity(it.surplus, Some(of)),
            "surplus_side": it.surplus_side.map(|side| side.to_string()),
        })
    });
    json!({
        "kind": "book", "symbol": of.symbol.as_str(), "sequence": depth.sequence.0,
        "phase": depth.state.map(|state| state.phase.to_string()), "indicative": indicative,
        "bids": side(&depth.bids), "asks": side(&depth.asks),
    })
}

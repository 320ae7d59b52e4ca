//! Depth for people and for scripts.

use protocol::{DepthLevel, DepthSnapshot, InstrumentDefinition};
use serde_json::{Value, json};

use super::{price, quantity};
use crate::say;

/// The levels of both sides side by side.
pub(in crate::commands::trade) fn depth(depth: &DepthSnapshot, of: &InstrumentDefinition) {
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
    json!({
        "kind": "book", "symbol": of.symbol.as_str(), "sequence": depth.sequence.0,
        "bids": side(&depth.bids), "asks": side(&depth.asks),
    })
}

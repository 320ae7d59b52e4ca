//! The lines that a trader types.

use client::{limit, market, replace};
use protocol::{
    Body, ClientOrderId, InstrumentDefinition, NewOrder, OrderFlags, Price, Quantity, Side, TimeInForce,
};

use crate::decimal;

pub(super) const HELP: &str = "\
buy QUANTITY SYMBOL @ PRICE [gtc|day|ioc|fok] [post-only]    limit order; sell likewise
buy QUANTITY SYMBOL market                                   market order: what finds no counterparty expires
replace ID QUANTITY @ PRICE                                  new total quantity, executions included, and price
cancel ID                                                    cancel one order
cancel all [SYMBOL] [buy|sell]                               cancel your orders
status ID                                                    what is left of an order
book SYMBOL                                                  the ten best levels of both sides
quit                                                         wait for what is pending and leave";

/// A line that was understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Order(Order<'a>),
    Replace { id: u64, quantity: &'a str, price: &'a str },
    Cancel(u64),
    CancelAll { symbol: Option<&'a str>, side: Option<Side> },
    Status(u64),
    Book(&'a str),
    Help,
    Quit,
}

/// A new order, its numbers still text: their scale is the instrument's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Order<'a> {
    pub(super) symbol: &'a str,
    side: Side,
    quantity: &'a str,
    /// `None` for a market order.
    price: Option<&'a str>,
    time_in_force: TimeInForce,
    post_only: bool,
}

/// Reads a line; `None` for an empty one or a `#` comment.
pub(super) fn parse(text: &str) -> Result<Option<Line<'_>>, String> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let line = match words[..] {
        [] => return Ok(None),
        [first, ..] if first.starts_with('#') => return Ok(None),
        ["quit" | "exit" | "q"] => Line::Quit,
        ["help" | "?"] => Line::Help,
        ["book", symbol] => Line::Book(symbol),
        ["status", id] => Line::Status(order_id(id)?),
        ["cancel", "all", ref scope @ ..] => cancel_all(scope)?,
        ["cancel", id] => Line::Cancel(order_id(id)?),
        ["replace", id, quantity, "@", price] => Line::Replace { id: order_id(id)?, quantity, price },
        [side @ ("buy" | "sell"), quantity, symbol, "market"] => {
            Line::Order(order(side, quantity, symbol, None, &["ioc"])?)
        }
        [side @ ("buy" | "sell"), quantity, symbol, "@", price, ref options @ ..] => {
            Line::Order(order(side, quantity, symbol, Some(price), options)?)
        }
        _ => return Err(format!("not understood: `{}`; `help` lists what can be typed", text.trim())),
    };
    Ok(Some(line))
}

fn order<'a>(
    side: &str,
    quantity: &'a str,
    symbol: &'a str,
    price: Option<&'a str>,
    options: &[&str],
) -> Result<Order<'a>, String> {
    let side = Side::from_name(side).ok_or("buy or sell")?;
    let mut order =
        Order { symbol, side, quantity, price, time_in_force: TimeInForce::GoodTillCancel, post_only: false };
    let mut timed = false;
    for option in options {
        match (*option, TimeInForce::from_name(option)) {
            ("post-only", _) if !order.post_only => order.post_only = true,
            (_, Some(time_in_force)) if !timed => {
                timed = true;
                order.time_in_force = time_in_force;
            }
            _ => {
                return Err(format!(
                    "`{option}` is none of gtc, day, ioc, fok, post-only, or is one too many"
                ));
            }
        }
    }
    Ok(order)
}

fn cancel_all<'a>(scope: &[&'a str]) -> Result<Line<'a>, String> {
    let side = |word: &str| Side::from_name(word);
    match scope {
        [] => Ok(Line::CancelAll { symbol: None, side: None }),
        [word] if side(word).is_some() => Ok(Line::CancelAll { symbol: None, side: side(word) }),
        [symbol] => Ok(Line::CancelAll { symbol: Some(symbol), side: None }),
        [symbol, word] if side(word).is_some() => {
            Ok(Line::CancelAll { symbol: Some(symbol), side: side(word) })
        }
        _ => Err("cancel all [SYMBOL] [buy|sell]".to_owned()),
    }
}

fn order_id(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is no order's number"))
}

/// The request of an order in the units of its instrument.
pub(super) fn order_body(order: &Order<'_>, definition: &InstrumentDefinition) -> Result<Body, String> {
    let quantity = quantity(order.quantity, definition)?;
    let new = match order.price {
        Some(text) => limit(definition.instrument, order.side, quantity, price(text, definition)?),
        None => market(definition.instrument, order.side, quantity),
    };
    Ok(Body::NewOrder(NewOrder {
        time_in_force: order.time_in_force,
        flags: OrderFlags { post_only: order.post_only, ..OrderFlags::default() },
        ..new
    }))
}

/// The request of a replace in the units of its instrument.
pub(super) fn replace_body(
    id: u64,
    quantity_text: &str,
    price_text: &str,
    definition: &InstrumentDefinition,
) -> Result<Body, String> {
    Ok(replace(ClientOrderId(id), quantity(quantity_text, definition)?, price(price_text, definition)?))
}

fn price(text: &str, definition: &InstrumentDefinition) -> Result<Price, String> {
    decimal::parse(text, definition.price_scale).map(Price).map_err(|error| format!("price: {error}"))
}

fn quantity(text: &str, definition: &InstrumentDefinition) -> Result<Quantity, String> {
    let quantity = decimal::parse_unsigned(text, definition.quantity_scale);
    quantity.map(Quantity).map_err(|error| format!("quantity: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order_line(
        side: Side,
        price: Option<&'static str>,
        time_in_force: TimeInForce,
        post_only: bool,
    ) -> Line<'static> {
        Line::Order(Order { symbol: "BTCUSD", side, quantity: "1.5", price, time_in_force, post_only })
    }

    #[test]
    fn lines_are_read() {
        let gtc = TimeInForce::GoodTillCancel;
        let cases = [
            ("buy 1.5 BTCUSD @ 100", order_line(Side::Buy, Some("100"), gtc, false)),
            (
                "  sell 1.5 BTCUSD @ 100.25 ioc ",
                order_line(Side::Sell, Some("100.25"), TimeInForce::ImmediateOrCancel, false),
            ),
            (
                "buy 1.5 BTCUSD @ 100 post-only day",
                order_line(Side::Buy, Some("100"), TimeInForce::Day, true),
            ),
            ("sell 1.5 BTCUSD market", order_line(Side::Sell, None, TimeInForce::ImmediateOrCancel, false)),
            ("replace 7 2 @ 99", Line::Replace { id: 7, quantity: "2", price: "99" }),
            ("cancel 7", Line::Cancel(7)),
            ("cancel all", Line::CancelAll { symbol: None, side: None }),
            ("cancel all sell", Line::CancelAll { symbol: None, side: Some(Side::Sell) }),
            ("cancel all BTCUSD", Line::CancelAll { symbol: Some("BTCUSD"), side: None }),
            ("cancel all BTCUSD buy", Line::CancelAll { symbol: Some("BTCUSD"), side: Some(Side::Buy) }),
            ("status 3", Line::Status(3)),
            ("book BTCUSD", Line::Book("BTCUSD")),
            ("help", Line::Help),
            ("quit", Line::Quit),
        ];
        for (text, line) in cases {
            assert_eq!(parse(text), Ok(Some(line)), "{text}");
        }
        for text in ["", "   ", "# a comment"] {
            assert_eq!(parse(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn what_is_not_a_line_is_an_error() {
        for text in [
            "buy",
            "buy 1 BTCUSD",
            "buy 1 BTCUSD 100",
            "buy 1 BTCUSD @ 100 ioc fok",
            "buy 1 BTCUSD @ 100 post-only post-only",
            "buy 1 BTCUSD @ 100 soon",
            "cancel",
            "cancel x",
            "cancel all BTCUSD up",
            "replace 1 2 3",
            "hello",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

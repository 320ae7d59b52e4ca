//! The lines that a trader types.

mod help;
mod options;
mod quoting;

use client::{limit, market, market_protected, market_to_limit, replacement};
use protocol::{
    AccountId, Body, ClientOrderId, InstrumentDefinition, NewOrder, OrderType, Price, Quantity, ReplaceOrder,
    Side,
};

pub(super) use help::{LINES, after};
use options::OrderOptions;
use quoting::Ladder;

use crate::decimal;

/// A line that was understood.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Line<'a> {
    Order(Order<'a>),
    Quote(Ladder<'a>),
    Replace(Replacement<'a>),
    Cancel(u64),
    CancelAll { symbol: Option<&'a str>, side: Option<Side> },
    Status(u64),
    Account(AccountId),
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
    order_type: OrderType,
    /// `None` for an order without a limit.
    price: Option<&'a str>,
    options: OrderOptions<'a>,
}

/// A replace, its numbers still text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Replacement<'a> {
    pub(super) id: u64,
    quantity: &'a str,
    price: Option<&'a str>,
    stop: Option<&'a str>,
    display: Option<&'a str>,
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
        ["account", number] => Line::Account(AccountId(account(number)?)),
        ["replace", id, quantity, ref terms @ ..] => Line::Replace(replacing(id, quantity, terms)?),
        ["quote", symbol, ref words @ ..] => Line::Quote(Ladder::read(symbol, words)?),
        [side @ ("buy" | "sell"), quantity, symbol, ref terms @ ..] => {
            Line::Order(order(side, quantity, symbol, terms)?)
        }
        _ => return Err(format!("not understood: `{}`; `help` lists what can be typed", text.trim())),
    };
    Ok(Some(line))
}

fn order<'a>(side: &str, quantity: &'a str, symbol: &'a str, terms: &[&'a str]) -> Result<Order<'a>, String> {
    let side = Side::from_name(side).ok_or("buy or sell")?;
    let (order_type, price, options) = match terms {
        ["@", price, options @ ..] => (OrderType::Limit, Some(*price), options),
        ["market", options @ ..] => (OrderType::Market, None, options),
        ["market-to-limit", options @ ..] => (OrderType::MarketToLimit, None, options),
        ["protected", options @ ..] => (OrderType::MarketProtected, None, options),
        ["pegged", options @ ..] => (OrderType::Pegged, None, options),
        _ => {
            return Err(format!(
                "{side} {quantity} {symbol}: behind it @ PRICE, market, market-to-limit, protected or pegged"
            ));
        }
    };
    Ok(Order { symbol, side, quantity, order_type, price, options: OrderOptions::read(options)? })
}

fn replacing<'a>(id: &str, quantity: &'a str, terms: &[&'a str]) -> Result<Replacement<'a>, String> {
    let mut replacement = Replacement { id: order_id(id)?, quantity, price: None, stop: None, display: None };
    let terms = match terms {
        ["@", price, behind @ ..] => {
            replacement.price = Some(*price);
            behind
        }
        all => all,
    };
    for term in terms {
        let place = match term.split_once('=') {
            Some(("stop", value)) => replacement.stop.replace(value),
            Some(("display", value)) => replacement.display.replace(value),
            _ => Some(*term),
        };
        if place.is_some() {
            return Err("replace ID QUANTITY [@ PRICE] [stop=PRICE] [display=QUANTITY]".to_owned());
        }
    }
    Ok(replacement)
}

fn account(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| format!("`{text}` is no account's number"))
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
    let (instrument, side) = (definition.instrument, order.side);
    let new = match (order.order_type, order.price) {
        (_, Some(text)) => limit(instrument, side, quantity, price(text, definition)?),
        (OrderType::MarketToLimit, None) => market_to_limit(instrument, side, quantity),
        (OrderType::MarketProtected, None) => market_protected(instrument, side, quantity),
        (order_type, None) => NewOrder { order_type, ..market(instrument, side, quantity) },
    };
    order.options.apply(new, definition).map(Body::NewOrder)
}

/// The request of a replace in the units of its instrument.
pub(super) fn replace_body(
    asked: &Replacement<'_>,
    definition: &InstrumentDefinition,
) -> Result<Body, String> {
    let limit = asked.price.map(|text| price(text, definition)).transpose()?;
    let total = quantity(asked.quantity, definition)?;
    Ok(Body::ReplaceOrder(ReplaceOrder {
        stop_price: asked.stop.map(|text| price(text, definition)).transpose()?,
        display: asked.display.map(|text| quantity(text, definition)).transpose()?,
        ..replacement(ClientOrderId(asked.id), total, limit)
    }))
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
        order_type: OrderType,
        price: Option<&'static str>,
        options: &[&'static str],
    ) -> Line<'static> {
        let options = OrderOptions::read(options).expect("options");
        Line::Order(Order { symbol: "BTCUSD", side, quantity: "1.5", order_type, price, options })
    }

    #[test]
    fn lines_are_read() {
        use OrderType::{Limit, Market, MarketProtected, MarketToLimit, Pegged};
        let replaced =
            |id, price, stop, display| Line::Replace(Replacement { id, quantity: "2", price, stop, display });
        let cases = [
            ("buy 1.5 BTCUSD @ 100", order_line(Side::Buy, Limit, Some("100"), &[])),
            ("  sell 1.5 BTCUSD @ 100.25 ioc ", order_line(Side::Sell, Limit, Some("100.25"), &["ioc"])),
            (
                "buy 1.5 BTCUSD @ 100 post-only day",
                order_line(Side::Buy, Limit, Some("100"), &["post-only", "day"]),
            ),
            ("sell 1.5 BTCUSD market", order_line(Side::Sell, Market, None, &[])),
            ("sell 1.5 BTCUSD market stop=9", order_line(Side::Sell, Market, None, &["stop=9"])),
            ("buy 1.5 BTCUSD market-to-limit", order_line(Side::Buy, MarketToLimit, None, &[])),
            ("buy 1.5 BTCUSD protected", order_line(Side::Buy, MarketProtected, None, &[])),
            ("buy 1.5 BTCUSD pegged peg=mid", order_line(Side::Buy, Pegged, None, &["peg=mid"])),
            ("replace 7 2 @ 99", replaced(7, Some("99"), None, None)),
            ("replace 7 2 @ 99 stop=98 display=1", replaced(7, Some("99"), Some("98"), Some("1"))),
            ("replace 7 2 stop=98", replaced(7, None, Some("98"), None)),
            ("account 4", Line::Account(AccountId(4))),
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
            "replace 1 2 @",
            "replace 1 2 @ 3 stop=1 stop=2",
            "quote BTCUSD",
            "account x",
            "buy 1 BTCUSD stop=1",
            "hello",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}

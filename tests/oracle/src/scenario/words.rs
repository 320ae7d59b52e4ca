//! The words of a step, and the values that single words are read as.

use std::collections::{BTreeMap, VecDeque};
use std::str::FromStr;

use protocol::{
    ClOrdId, Currency, OrderType, Peg, PegReference, Price, Quantity, SelfTrade, SelfTradeAction,
};

/// The words after a verb: plain ones, and options `name=value`.
pub(super) struct Words<'a> {
    plain: VecDeque<&'a str>,
    options: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        let (mut plain, mut options) = (VecDeque::new(), BTreeMap::new());
        for word in text.split_whitespace() {
            match word.split_once('=') {
                Some((name, value)) if !word.starts_with('"') => {
                    options.insert(name, value);
                }
                _ => plain.push_back(word),
            }
        }
        Self { plain, options }
    }

    /// The next plain word.
    pub(super) fn word(&mut self, what: &str) -> Result<&'a str, String> {
        self.plain.pop_front().ok_or_else(|| format!("{what} is missing"))
    }

    /// The next plain word, read as a value.
    pub(super) fn value<T: FromStr>(&mut self, what: &str) -> Result<T, String> {
        parse(self.word(what)?, what)
    }

    /// All plain words that are left.
    pub(super) fn rest(&mut self) -> Vec<&'a str> {
        self.plain.drain(..).collect()
    }

    pub(super) fn option(&mut self, name: &str) -> Option<&'a str> {
        self.options.remove(name)
    }

    pub(super) fn number<T: FromStr>(&mut self, name: &str) -> Result<Option<T>, String> {
        self.option(name).map(|value| parse(value, name)).transpose()
    }

    /// An option that is a number, zero where it is not there.
    pub(super) fn number_or_zero<T: FromStr + Default>(&mut self, name: &str) -> Result<T, String> {
        Ok(self.number(name)?.unwrap_or_default())
    }

    /// An option that is a duration of whole milliseconds, zero where it is not there.
    pub(super) fn milliseconds(&mut self, name: &str) -> Result<u32, String> {
        let time = self.option(name).map_or(Ok(0), nanoseconds)? / 1_000_000;
        time.try_into().map_err(|_| format!("{name} is too long"))
    }

    /// An option that is one of an enumeration's names.
    pub(super) fn named_option<T>(
        &mut self,
        name: &str,
        from_name: impl Fn(&str) -> Option<T>,
    ) -> Result<Option<T>, String> {
        self.option(name)
            .map(|value| from_name(value).ok_or_else(|| format!("{value:?} is no {name}")))
            .transpose()
    }

    /// Takes a plain word out, wherever it stands.
    pub(super) fn flag(&mut self, name: &str) -> bool {
        let found = self.plain.iter().position(|word| *word == name);
        found.is_some_and(|at| self.plain.remove(at).is_some())
    }

    /// Takes out the first plain word that is one of an enumeration's names.
    pub(super) fn named<T>(&mut self, from_name: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (at, value) =
            self.plain.iter().enumerate().find_map(|(at, word)| Some((at, from_name(word)?)))?;
        self.plain.remove(at);
        Some(value)
    }

    /// Nothing may be left.
    pub(super) fn done(self) -> Result<(), String> {
        match (self.plain.front(), self.options.keys().next()) {
            (None, None) => Ok(()),
            (Some(word), _) | (None, Some(word)) => Err(format!("{word:?} means nothing here")),
        }
    }
}

pub(super) fn parse<T: FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is no {what}"))
}

pub(super) fn text_id(text: &str) -> Result<ClOrdId, String> {
    ClOrdId::new(text.as_bytes()).map_err(|error| error.to_string())
}

pub(super) fn currency(text: &str) -> Result<Currency, String> {
    Currency::new(text).ok_or_else(|| format!("{text:?} is no currency's code"))
}

/// `10@100`, or `10@market` and the other types that have no price.
pub(super) fn quantity_and_price(text: &str) -> Result<(Quantity, OrderType, Option<Price>), String> {
    let (quantity, price) = text.split_once('@').ok_or_else(|| format!("{text:?} is no QUANTITY@PRICE"))?;
    let (order_type, price) = match OrderType::from_name(price) {
        Some(order_type) if order_type != OrderType::Limit => (order_type, None),
        _ => (OrderType::Limit, Some(Price(parse(price, "price")?))),
    };
    Ok((Quantity(parse(quantity, "quantity")?), order_type, price))
}

/// `midpoint`, or with an offset `midpoint+2`, `best_bid-1`.
pub(super) fn peg(text: &str) -> Result<Peg, String> {
    let at = text.find(['+', '-']).unwrap_or(text.len());
    let (name, offset) = text.split_at(at);
    let reference = PegReference::from_name(name).ok_or_else(|| format!("{name:?} is nothing to follow"))?;
    let offset = if offset.is_empty() { 0 } else { parse(offset, "offset")? };
    Ok(Peg { reference, offset })
}

/// `5:cancel_resting`: a group and what is done in it.
pub(super) fn self_trade(text: &str) -> Result<SelfTrade, String> {
    let (group, action) = text.split_once(':').ok_or_else(|| format!("{text:?} is no GROUP:ACTION"))?;
    let action = SelfTradeAction::from_name(action).ok_or_else(|| format!("{action:?} is no action"))?;
    Ok(SelfTrade { group: parse(group, "group")?, action })
}

/// `2s`, `500ms`, `1us`, `7ns`.
pub(super) fn nanoseconds(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: u64 = parse(digits, "duration")?;
    let unit: u64 = match &text[digits.len()..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        unit => return Err(format!("{unit:?} is no unit of time")),
    };
    number.checked_mul(unit).ok_or_else(|| format!("{text:?} is too long"))
}

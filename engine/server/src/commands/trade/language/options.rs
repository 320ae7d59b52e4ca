//! The words behind an order that say how it is to be done, and what they make of the order.

use jiff::Timestamp as Moment;
use protocol::{
    AccountId, ClOrdId, ClientOrderId, InstrumentDefinition, NewOrder, OrderType, Peg, PegReference,
    SelfTrade, SelfTradeAction, TimeInForce, Timestamp,
};

use super::{price, quantity};
use crate::decimal;

/// Words of an order, their numbers still text: their scale is the instrument's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::commands::trade) struct OrderOptions<'a> {
    time_in_force: Option<TimeInForce>,
    post_only: bool,
    slide: bool,
    hidden: bool,
    reduce_only: bool,
    all_or_none: bool,
    expires: Option<&'a str>,
    stop: Option<&'a str>,
    trail: Option<&'a str>,
    display: Option<&'a str>,
    minimum: Option<&'a str>,
    peg: Option<&'a str>,
    oco: Option<&'a str>,
    parent: Option<&'a str>,
    self_trade: Option<&'a str>,
    account: Option<&'a str>,
    text_id: Option<&'a str>,
}

impl<'a> OrderOptions<'a> {
    /// Reads the words; each at most once.
    pub(super) fn read(words: &[&'a str]) -> Result<Self, String> {
        let mut options = Self::default();
        for word in words {
            if !options.take(word) {
                return Err(format!(
                    "`{word}` is no option of an order, or is one too many; `help` lists them"
                ));
            }
        }
        Ok(options)
    }

    /// Whether the word is one that was not there before.
    fn take(&mut self, word: &'a str) -> bool {
        if let Some((name, value)) = word.split_once('=') {
            let place = match name {
                "gtd" => &mut self.expires,
                "stop" => &mut self.stop,
                "trail" => &mut self.trail,
                "display" => &mut self.display,
                "minimum" => &mut self.minimum,
                "peg" => &mut self.peg,
                "oco" => &mut self.oco,
                "parent" => &mut self.parent,
                "self-trade" => &mut self.self_trade,
                "account" => &mut self.account,
                "id" => &mut self.text_id,
                _ => return false,
            };
            return place.replace(value).is_none();
        }
        let flag = match word {
            "post-only" => &mut self.post_only,
            "slide" => &mut self.slide,
            "hidden" => &mut self.hidden,
            "reduce-only" => &mut self.reduce_only,
            "all-or-none" => &mut self.all_or_none,
            _ => {
                let named = TimeInForce::from_name(&word.replace('-', "_"));
                let named = named.filter(|named| *named != TimeInForce::GoodTillDate);
                return named.is_some_and(|named| self.time_in_force.replace(named).is_none());
            }
        };
        !std::mem::replace(flag, true)
    }

    /// The account, where one is given.
    pub(super) fn account(&self) -> Result<AccountId, String> {
        self.account.map_or(Ok(AccountId(0)), |text| number(text, "account").map(AccountId))
    }

    /// The order with them.
    pub(super) fn apply(&self, mut order: NewOrder, of: &InstrumentDefinition) -> Result<NewOrder, String> {
        order.time_in_force = self.time_in_force(&order)?;
        order.flags.post_only = self.post_only;
        order.flags.slide = self.slide;
        order.flags.hidden = self.hidden;
        order.flags.reduce_only = self.reduce_only;
        order.account = self.account()?;
        if let Some(text) = self.text_id {
            order.cl_ord_id = Some(ClOrdId::new(text.as_bytes()).map_err(|error| format!("id: {error}"))?);
        }
        let mut terms = order.terms.with_expire_time(self.expires.map(moment).transpose()?);
        if let Some(text) = self.stop {
            terms = terms.with_stop_price(Some(price(text, of)?));
        }
        if let Some(text) = self.trail {
            terms = terms.with_trail(Some(distance(text, of, "trail")?));
        }
        if let Some(text) = self.display {
            let (shown, high) = text.split_once("..").map_or((text, None), |(low, high)| (low, Some(high)));
            terms = terms.with_display(Some(quantity(shown, of)?));
            terms = terms.with_display_high(high.map(|text| quantity(text, of)).transpose()?);
        }
        terms = match (self.minimum, self.all_or_none) {
            (None, false) => terms,
            (Some(text), false) => terms.with_minimum(Some(quantity(text, of)?)),
            (None, true) => terms.with_minimum(Some(order.quantity)),
            (Some(_), true) => return Err("minimum and all-or-none: one of them".to_owned()),
        };
        terms = terms.with_peg(self.peg.map(|text| peg(text, of)).transpose()?);
        terms = terms.with_oco(self.oco.map(|text| number(text, "oco")).transpose()?);
        terms =
            terms.with_parent(self.parent.map(|text| number(text, "parent").map(ClientOrderId)).transpose()?);
        order.terms = terms.with_self_trade(self.self_trade.map(self_trade).transpose()?);
        Ok(order)
    }

    /// What is said, else what suits the kind of order: one that can't rest needs no end.
    fn time_in_force(&self, order: &NewOrder) -> Result<TimeInForce, String> {
        match (self.time_in_force, self.expires) {
            (Some(_), Some(_)) => Err("gtd=TIME and another time in force: one of them".to_owned()),
            (None, Some(_)) => Ok(TimeInForce::GoodTillDate),
            (Some(named), None) => Ok(named),
            (None, None) => Ok(match (order.order_type, self.stop.or(self.trail)) {
                (OrderType::Market, None) => TimeInForce::ImmediateOrCancel,
                _ => TimeInForce::GoodTillCancel,
            }),
        }
    }
}

/// What only makes sense where it is not negative.
fn distance(text: &str, of: &InstrumentDefinition, name: &str) -> Result<u64, String> {
    decimal::parse_unsigned(text, of.price_scale).map_err(|error| format!("{name}: {error}"))
}

fn number<T: std::str::FromStr>(text: &str, name: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{name}: `{text}` is no number of one"))
}

/// `REFERENCE` or `REFERENCE:OFFSET`.
fn peg(text: &str, of: &InstrumentDefinition) -> Result<Peg, String> {
    let (name, offset) = text.split_once(':').unwrap_or((text, "0"));
    let reference = match name {
        "bid" => PegReference::BestBid,
        "ask" => PegReference::BestAsk,
        "mid" | "midpoint" => PegReference::Midpoint,
        _ => return Err(format!("peg: `{name}` is none of bid, ask, mid")),
    };
    let offset = decimal::parse(offset, of.price_scale).map_err(|error| format!("peg: {error}"))?;
    Ok(Peg { reference, offset })
}

/// `GROUP:ACTION`.
fn self_trade(text: &str) -> Result<SelfTrade, String> {
    let (group, action) = text.split_once(':').ok_or("self-trade=GROUP:ACTION")?;
    let action = SelfTradeAction::from_name(&action.replace('-', "_")).ok_or_else(|| {
        format!("self-trade: `{action}` is none of cancel-resting, cancel-incoming, cancel-both, decrement")
    })?;
    Ok(SelfTrade { group: number(group, "self-trade")?, action })
}

/// A time in ISO 8601 with its zone (`2026-05-02T16:00:00Z`), or `+SECONDS` from now.
fn moment(text: &str) -> Result<Timestamp, String> {
    let wrong = || format!("gtd: `{text}` is neither a time like 2026-05-02T16:00:00Z nor +SECONDS");
    let at = match text.strip_prefix('+') {
        Some(seconds) => {
            let seconds: u32 = seconds.parse().map_err(|_| wrong())?;
            Moment::now().checked_add(std::time::Duration::from_secs(seconds.into())).map_err(|_| wrong())?
        }
        None => text.parse::<Moment>().map_err(|_| wrong())?,
    };
    u64::try_from(at.as_nanosecond()).map(Timestamp).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use client::{limit, market};
    use protocol::{InstrumentId, Price, Quantity, Side, Symbol};

    use super::*;

    fn definition() -> InstrumentDefinition {
        InstrumentDefinition {
            instrument: InstrumentId(1),
            symbol: Symbol::new("OIL").expect("a symbol"),
            price_scale: 2,
            quantity_scale: 1,
            tick_size: Price(5),
            lot_size: Quantity(10),
            price_min: Price(-1000),
            price_max: Price(1_000_000),
            quantity_max: Quantity(100_000),
        }
    }

    fn order(words: &str) -> Result<NewOrder, String> {
        let words: Vec<&str> = words.split_whitespace().collect();
        let order = limit(InstrumentId(1), Side::Buy, Quantity(50), Price(100));
        OrderOptions::read(&words)?.apply(order, &definition())
    }

    #[test]
    fn every_option_reaches_the_order() {
        let made =
            order("display=1..2 hidden reduce-only post-only slide account=4 id=abc day").expect("good");
        assert_eq!(made.time_in_force, TimeInForce::Day);
        assert!(made.flags.hidden && made.flags.reduce_only && made.flags.post_only && made.flags.slide);
        assert_eq!((made.account, made.cl_ord_id), (AccountId(4), ClOrdId::new(b"abc").ok()));
        assert_eq!(made.terms.display().zip(made.terms.display_high()), Some((Quantity(10), Quantity(20))));
        let made = order("stop=1.5 oco=3 parent=9 self-trade=7:cancel-both at-the-close").expect("good");
        assert_eq!((made.terms.stop_price(), made.terms.oco()), (Some(Price(150)), Some(3)));
        assert_eq!(made.terms.parent(), Some(ClientOrderId(9)));
        let group = SelfTrade { group: 7, action: SelfTradeAction::CancelBoth };
        assert_eq!((made.terms.self_trade(), made.time_in_force), (Some(group), TimeInForce::AtTheClose));
        let made = order("trail=0.25 peg=mid:0.05 all-or-none gtd=1970-01-01T00:00:02Z").expect("good");
        assert_eq!((made.terms.trail(), made.terms.minimum()), (Some(25), Some(Quantity(50))));
        assert_eq!(made.terms.peg(), Some(Peg { reference: PegReference::Midpoint, offset: 5 }));
        assert_eq!(made.terms.expire_time(), Some(Timestamp(2_000_000_000)));
        assert_eq!(made.time_in_force, TimeInForce::GoodTillDate);
    }

    #[test]
    fn a_market_order_rests_only_where_it_waits() {
        let market = market(InstrumentId(1), Side::Buy, Quantity(50));
        for (word, expected) in [
            (None, TimeInForce::ImmediateOrCancel),
            (Some("stop=1"), TimeInForce::GoodTillCancel),
            (Some("trail=1"), TimeInForce::GoodTillCancel),
            (Some("at-the-open"), TimeInForce::AtTheOpen),
        ] {
            let words: Vec<&str> = word.into_iter().collect();
            let options = OrderOptions::read(&words).expect("understood");
            let made = options.apply(market, &definition()).expect("good");
            assert_eq!(made.time_in_force, expected, "{word:?}");
        }
    }

    #[test]
    fn what_is_no_option_is_named() {
        for words in [
            "soon",
            "ioc fok",
            "hidden hidden",
            "gtd",
            "stop=x",
            "trail=-1",
            "peg=top",
            "peg=bid:x",
            "display=1..x",
            "minimum=1 all-or-none",
            "gtd=+5 day",
            "gtd=tomorrow",
            "self-trade=7",
            "self-trade=7:never",
            "oco=x",
            "parent=x",
            "account=-1",
            "id=",
            "color=red",
        ] {
            assert!(order(words).is_err(), "{words}");
        }
    }
}

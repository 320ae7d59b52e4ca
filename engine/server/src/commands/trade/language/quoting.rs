//! Lines of mass quotes: entries as quantity and price, and what they are in ticks and lots.

use client::quote;
use protocol::{AccountId, Body, InstrumentDefinition, Price, QUOTE_LEVELS_MAX, QuoteEntry};

use super::{price, quantity};

/// A ladder; a side that is not given stays as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::commands::trade) struct Ladder<'a> {
    pub(in crate::commands::trade) symbol: &'a str,
    account: AccountId,
    bids: Option<Vec<(&'a str, &'a str)>>,
    asks: Option<Vec<(&'a str, &'a str)>>,
}

impl<'a> Ladder<'a> {
    /// Reads `[account=N] [bids Q@P ...] [asks Q@P ...]`.
    pub(super) fn read(symbol: &'a str, words: &[&'a str]) -> Result<Self, String> {
        let mut ladder = Self { symbol, account: AccountId(0), bids: None, asks: None };
        for word in words {
            match *word {
                "bids" if ladder.bids.is_none() && ladder.asks.is_none() => ladder.bids = Some(Vec::new()),
                "asks" if ladder.asks.is_none() => ladder.asks = Some(Vec::new()),
                word => {
                    let side = ladder.asks.as_mut().or(ladder.bids.as_mut());
                    match (side, word.split_once('@'), word.strip_prefix("account=")) {
                        (Some(side), Some(entry), _) if side.len() < QUOTE_LEVELS_MAX => side.push(entry),
                        (None, _, Some(account)) => {
                            ladder.account = AccountId(account.parse().map_err(|_| "account=NUMBER")?);
                        }
                        _ => return Err(format!("`{word}`: {FORM}, at most {QUOTE_LEVELS_MAX} a side")),
                    }
                }
            }
        }
        if ladder.bids.is_none() && ladder.asks.is_none() {
            return Err(FORM.to_owned());
        }
        Ok(ladder)
    }

    /// The request in ticks from its best price and in lots.
    pub(in crate::commands::trade) fn body(&self, of: &InstrumentDefinition) -> Result<Body, String> {
        let best = self.bids.iter().chain(&self.asks).flatten().next();
        let base = best.map_or(Ok(Price(0)), |(_, text)| price(text, of))?;
        let side = |entries: &Option<Vec<(&str, &str)>>| -> Result<Option<Vec<QuoteEntry>>, String> {
            let entry = |(lots, at): &(&str, &str)| -> Result<QuoteEntry, String> {
                let (lots, at) = (quantity(lots, of)?.0, price(at, of)?.0);
                let (away, tick, lot) = (i128::from(at) - i128::from(base.0), of.tick_size.0, of.lot_size.0);
                if at % tick != 0 || !lots.is_multiple_of(lot) {
                    return Err("an entry is not on the instrument's tick and lot".to_owned());
                }
                let ticks = i32::try_from(away / i128::from(tick));
                let lots = u32::try_from(lots / lot);
                match (ticks, lots) {
                    (Ok(ticks), Ok(lots)) => Ok(QuoteEntry { ticks, lots }),
                    _ => Err("an entry is too large, or too far from the first one".to_owned()),
                }
            };
            entries.as_ref().map(|entries| entries.iter().map(entry).collect()).transpose()
        };
        let (bids, asks) = (side(&self.bids)?, side(&self.asks)?);
        quote(of.instrument, self.account, base, bids.as_deref(), asks.as_deref())
            .map(Body::MassQuote)
            .ok_or_else(|| FORM.to_owned())
    }
}

const FORM: &str = "quote SYMBOL [account=N] [bids QUANTITY@PRICE ...] [asks QUANTITY@PRICE ...]";

#[cfg(test)]
mod tests {
    use protocol::{InstrumentId, Quantity, QuoteSide, Symbol};

    use super::*;

    fn body(words: &str) -> Result<Body, String> {
        let definition = InstrumentDefinition {
            instrument: InstrumentId(1),
            symbol: Symbol::new("OIL").expect("a symbol"),
            price_scale: 2,
            quantity_scale: 1,
            tick_size: Price(5),
            lot_size: Quantity(10),
            price_min: Price(-1000),
            price_max: Price(1_000_000),
            quantity_max: Quantity(100_000),
        };
        let words: Vec<&str> = words.split_whitespace().collect();
        Ladder::read("OIL", &words)?.body(&definition)
    }

    #[test]
    fn a_ladder_is_in_ticks_from_its_first_price() {
        let Ok(Body::MassQuote(quote)) = body("account=3 bids 5@1.00 7@0.95 asks 1@1.10") else {
            panic!("a quote")
        };
        assert_eq!((quote.base, quote.account), (Price(100), AccountId(3)));
        let entry = |ticks, lots| QuoteEntry { ticks, lots };
        assert_eq!(quote.bids, QuoteSide::new(&[entry(0, 5), entry(-1, 7)]));
        assert_eq!(quote.asks, QuoteSide::new(&[entry(2, 1)]));
        let Ok(Body::MassQuote(quote)) = body("asks") else { panic!("withdraws its asks") };
        assert_eq!((quote.bids, quote.asks), (None, QuoteSide::new(&[])));
    }

    #[test]
    fn what_is_no_ladder_is_refused() {
        let many = format!("bids {}", "1@1 ".repeat(11));
        for words in
            ["", "5@1", "bids 5", "bids 5@1.01", "bids 0.5@1", "asks 1@2 bids 1@1", "account=x bids", &many]
        {
            assert!(body(words).is_err(), "{words}");
        }
    }
}

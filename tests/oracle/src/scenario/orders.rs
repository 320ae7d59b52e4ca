//! Steps that are about orders: new ones, cancels, replaces, quotes.

use protocol::{
    AccountId, CancelOrder, MassCancel, MassQuote, NewOrder, OrderFlags, OrderKey, Price, Quantity,
    QuoteEntry, QuoteSide, ReplaceOrder, SessionId, Side, Terms, TimeInForce,
};

use super::words::{Words, parse, peg, quantity_and_price, self_trade, text_id};
use super::world::World;

impl World {
    /// `new LABEL SIDE QUANTITY@PRICE ...`.
    pub(super) fn new_order(
        &mut self,
        session: SessionId,
        words: &mut Words<'_>,
        id: Option<u64>,
    ) -> Result<NewOrder, String> {
        let label = words.word("the order's label")?;
        let side = words.word("the side")?;
        let side = Side::from_name(side).ok_or_else(|| format!("{side:?} is no side"))?;
        let (quantity, order_type, price) = quantity_and_price(words.word("QUANTITY@PRICE")?)?;
        let instrument = self.instrument_option(words)?;
        // The parent is looked up before the label is given: an order is not its own parent.
        let terms = self.terms(session, words, quantity)?;
        self.label(session, label, id.unwrap_or(self.next_id(session)));
        Ok(NewOrder {
            instrument,
            side,
            order_type,
            time_in_force: words.named(TimeInForce::from_name).unwrap_or(TimeInForce::Day),
            flags: OrderFlags {
                post_only: words.flag("post-only"),
                slide: words.flag("slide"),
                hidden: words.flag("hidden"),
                reduce_only: words.flag("reduce-only"),
            },
            price,
            quantity,
            account: AccountId(words.number_or_zero("account")?),
            cl_ord_id: words.option("text").map(text_id).transpose()?,
            terms,
        })
    }

    fn terms(&self, session: SessionId, words: &mut Words<'_>, quantity: Quantity) -> Result<Terms, String> {
        let all_or_none = words.flag("all-or-none").then_some(quantity);
        let parent = match words.option("parent").map(|word| self.order(session, word)).transpose()? {
            Some(OrderKey::Text(_)) => return Err("a parent is named by its label or its number".into()),
            Some(OrderKey::Id(id)) => Some(id),
            None => None,
        };
        Ok(Terms::default()
            .with_stop_price(words.number("stop")?.map(Price))
            .with_trail(words.number("trail")?)
            .with_display(words.number("display")?.map(Quantity))
            .with_display_high(words.number("high")?.map(Quantity))
            .with_expire_time(words.option("expire").map(|time| self.moment(time)).transpose()?)
            .with_minimum(words.number("minimum")?.map(Quantity).or(all_or_none))
            .with_peg(words.option("peg").map(peg).transpose()?)
            .with_self_trade(words.option("stp").map(self_trade).transpose()?)
            .with_oco(words.number("oco")?)
            .with_parent(parent))
    }

    /// `cancel ORDER`.
    pub(super) fn cancel_order(
        &self,
        session: SessionId,
        words: &mut Words<'_>,
    ) -> Result<CancelOrder, String> {
        Ok(CancelOrder {
            order: self.order(session, words.word("the order")?)?,
            side: words.named(Side::from_name),
            cl_ord_id: words.option("text").map(text_id).transpose()?,
        })
    }

    /// `replace ORDER QUANTITY@PRICE`; an order without a price is replaced with `@market`.
    pub(super) fn replace_order(
        &self,
        session: SessionId,
        words: &mut Words<'_>,
    ) -> Result<ReplaceOrder, String> {
        let order = self.order(session, words.word("the order")?)?;
        let (quantity, _, price) = quantity_and_price(words.word("QUANTITY@PRICE")?)?;
        Ok(ReplaceOrder {
            order,
            side: words.named(Side::from_name),
            price,
            quantity,
            stop_price: words.number("stop")?.map(Price),
            display: words.number("display")?.map(Quantity),
            cl_ord_id: words.option("text").map(text_id).transpose()?,
        })
    }

    /// `mass-cancel [on=SYMBOL] [SIDE] [of=USER]`.
    pub(super) fn mass_cancel(
        &self,
        session: SessionId,
        words: &mut Words<'_>,
    ) -> Result<MassCancel, String> {
        Ok(MassCancel {
            session: words.option("of").map_or(Ok(session), |name| self.session(name))?,
            instrument: words.option("on").map(|symbol| self.instrument(symbol)).transpose()?,
            side: words.named(Side::from_name),
        })
    }

    /// `quote LABEL base=PRICE [bids LOTS@TICKS ...] [asks LOTS@TICKS ...]`; its entries are labelled `LABEL1`, `LABEL2`
    /// and so on, bids first.
    pub(super) fn mass_quote(
        &mut self,
        session: SessionId,
        words: &mut Words<'_>,
        id: Option<u64>,
    ) -> Result<MassQuote, String> {
        let label = words.word("the quote's label")?;
        let instrument = self.instrument_option(words)?;
        let (mut bids, mut asks) = (None, None);
        let mut side = None;
        for word in words.rest() {
            match (word, side) {
                ("bids", _) => (bids, side) = (Some(Vec::new()), Some(Side::Buy)),
                ("asks", _) => (asks, side) = (Some(Vec::new()), Some(Side::Sell)),
                (entry, Some(Side::Buy)) => bids.get_or_insert_default().push(quote_entry(entry)?),
                (entry, Some(Side::Sell)) => asks.get_or_insert_default().push(quote_entry(entry)?),
                (_, None) => return Err(format!("{word:?} means nothing here")),
            }
        }
        let ladder = |entries: Option<Vec<QuoteEntry>>| {
            entries.map(|entries| QuoteSide::new(&entries).ok_or("a side has too many entries")).transpose()
        };
        let quote = MassQuote {
            instrument,
            account: AccountId(words.number_or_zero("account")?),
            base: Price(words.number_or_zero("base")?),
            bids: ladder(bids)?,
            asks: ladder(asks)?,
        };
        let first = id.unwrap_or(self.next_id(session));
        if !label.starts_with('#') {
            for entry in 0..entries(&quote) {
                self.label(session, &format!("{label}{}", entry + 1), first.saturating_add(entry));
            }
        }
        Ok(quote)
    }
}

/// How many entries a quote has on both sides.
pub(super) fn entries(quote: &MassQuote) -> u64 {
    let count = |side: &Option<QuoteSide>| side.as_ref().map_or(0, |side| side.entries().len() as u64);
    count(&quote.bids) + count(&quote.asks)
}

fn quote_entry(text: &str) -> Result<QuoteEntry, String> {
    let (lots, ticks) = text.split_once('@').ok_or_else(|| format!("{text:?} is no LOTS@TICKS"))?;
    Ok(QuoteEntry { ticks: parse(ticks, "number of ticks")?, lots: parse(lots, "number of lots")? })
}

//! Mass quotes: rule 27.

use protocol::{
    CancelReason, ClientOrderId, Command, Event, Fees, MassQuote, MassQuoted, NewOrder, OrderFlags, OrderId,
    OrderType, Price, Quantity, QuoteSide, RejectReason, Side, Terms, TimeInForce,
};

use super::book::level_of;
use super::money::Supposed;
use super::order::Order;
use super::{Fault, Oracle};

/// A side of a mass quote that was looked at.
#[derive(Clone, Debug)]
struct Checked {
    side: Side,
    /// The old quotes of the side.
    old: Vec<OrderId>,
    /// The new ones, or why not.
    entries: Result<Vec<(NewOrder, Order)>, RejectReason>,
}

/// How many ids a mass quote uses.
pub(super) fn entries(quote: &MassQuote) -> u64 {
    [&quote.bids, &quote.asks].into_iter().flatten().map(|side| side.entries().len() as u64).sum()
}

impl Oracle {
    pub(super) fn mass_quote(&mut self, command: &Command, quote: &MassQuote) -> Result<(), RejectReason> {
        if self.rulebook < 2 {
            return Err(RejectReason::OptionNotOffered);
        }
        self.check_phase(quote.instrument)?;
        let weight = entries(quote).max(1) as u32;
        let fees = self.check_sender_of_order(command, quote.instrument, quote.account, weight)?;
        let meets = self.sides_meet(quote);
        let mut supposed = Supposed::default();
        let mut checked = Vec::new();
        let mut first_id = command.request_id.0;
        for (side, quotes) in [(Side::Buy, &quote.bids), (Side::Sell, &quote.asks)] {
            let Some(quotes) = quotes else { continue };
            let old = self.quotes_of(command, quote, side);
            let ids = first_id..=u64::MAX;
            first_id = first_id.saturating_add(quotes.entries().len() as u64);
            let entries = if meets {
                Err(RejectReason::QuoteInvalid)
            } else {
                self.check_side(command, quote, (side, quotes), (ids, fees), (&old, &supposed))
            };
            if let Ok(entries) = &entries {
                supposed.with.extend(entries.iter().map(|(_, order)| *order));
                supposed.without.extend(old.iter().copied());
            }
            checked.push(Checked { side, old, entries });
        }
        self.take_quotes(command, &checked);
        self.follow();
        self.report_quoted(command, quote, &checked);
        Ok(())
    }

    /// Old quotes of accepted sides leave, then the new ones enter.
    fn take_quotes(&mut self, command: &Command, checked: &[Checked]) {
        let cancels_refused = self.is_faulty(Fault::RefusedQuotesCanceled);
        for side in checked.iter().filter(|side| side.entries.is_ok() || cancels_refused) {
            for id in &side.old {
                self.cancel(*id, CancelReason::QuoteReplaced, command.request_id);
            }
        }
        for (new, order) in checked.iter().filter_map(|side| side.entries.as_ref().ok()).flatten() {
            let id = self.admit(*order);
            self.report_accepted(command, id, new);
            self.enter(id, protocol::RequestId(order.client_order_id.0));
        }
    }

    fn report_quoted(&mut self, command: &Command, quote: &MassQuote, checked: &[Checked]) {
        let of = |side| checked.iter().find(|checked| checked.side == side).map(|checked| &checked.entries);
        let taken = |side| of(side).and_then(|it| it.as_ref().ok()).map_or(0, |it| it.len() as u8);
        let refused = |side| of(side).and_then(|it| it.as_ref().err()).copied();
        self.report(command.session, |to| {
            Event::MassQuoted(MassQuoted {
                to,
                request_id: command.request_id,
                instrument: quote.instrument,
                account: quote.account,
                bids: taken(Side::Buy),
                asks: taken(Side::Sell),
                bid_reason: refused(Side::Buy),
                ask_reason: refused(Side::Sell),
            })
        });
    }

    /// The session's quotes of a side, oldest first.
    fn quotes_of(&self, command: &Command, quote: &MassQuote, side: Side) -> Vec<OrderId> {
        self.orders
            .values()
            .filter(|order| order.quote && order.session == command.session)
            .filter(|order| order.instrument == quote.instrument && order.side == side)
            .map(|order| order.order_id)
            .collect()
    }

    fn entry_prices(&self, quote: &MassQuote, side: &QuoteSide) -> Vec<i128> {
        let tick = i128::from(self.instruments[&quote.instrument].definition.tick_size.0);
        let price = |ticks: i32| i128::from(quote.base.0) + i128::from(ticks) * tick;
        side.entries().iter().map(|entry| price(entry.ticks)).collect()
    }

    fn sides_meet(&self, quote: &MassQuote) -> bool {
        let (Some(bids), Some(asks)) = (&quote.bids, &quote.asks) else { return false };
        let highest = self.entry_prices(quote, bids).into_iter().max();
        let lowest = self.entry_prices(quote, asks).into_iter().min();
        matches!((highest, lowest), (Some(bid), Some(ask)) if bid >= ask)
    }

    /// All that a side must be.
    fn check_side(
        &self,
        command: &Command,
        quote: &MassQuote,
        (side, quotes): (Side, &QuoteSide),
        (ids, fees): (std::ops::RangeInclusive<u64>, Option<Fees>),
        (old, accepted): (&[OrderId], &Supposed),
    ) -> Result<Vec<(NewOrder, Order)>, RejectReason> {
        let it = &self.instruments[&quote.instrument];
        let prices = self.entry_prices(quote, quotes);
        let worse = |pair: &[i128]| if side == Side::Buy { pair[1] < pair[0] } else { pair[1] > pair[0] };
        if !prices.windows(2).all(worse) {
            return Err(RejectReason::QuoteInvalid);
        }
        let mut entries = Vec::new();
        for ((entry, price), id) in quotes.entries().iter().zip(prices).zip(ids) {
            let quantity = u64::from(entry.lots).checked_mul(it.definition.lot_size.0);
            let quantity = quantity.ok_or(RejectReason::QuantityAboveMaximum)?;
            let within = i64::try_from(price);
            let new = NewOrder {
                instrument: quote.instrument,
                side,
                order_type: OrderType::Limit,
                time_in_force: TimeInForce::Day,
                flags: OrderFlags::default(),
                price: Some(Price(within.unwrap_or(i64::MAX))),
                quantity: Quantity(quantity),
                account: quote.account,
                cl_ord_id: None,
                terms: Terms::default(),
            };
            if within.is_err() {
                it.check_quantity(new.quantity)?;
                return Err(RejectReason::PriceOutsideLimits);
            }
            self.check_grid(&new)?;
            let mut order = self.draft(command.session, ClientOrderId(id), &new, fees);
            order.quote = true;
            self.check_notional(&order)?;
            entries.push((new, order));
        }
        let mut supposed = accepted.clone();
        supposed.without.extend(old.iter().copied());
        for (_, order) in &entries {
            self.check_risk(order, None, &supposed)?;
            supposed.with.push(*order);
        }
        self.check_quote_room(entries.len(), &supposed)?;
        Ok(entries)
    }

    /// Line 10 of rule 7 for a side: the last so many orders that are supposed to be there are its entries.
    fn check_quote_room(&self, entries: usize, supposed: &Supposed) -> Result<(), RejectReason> {
        let live = self.orders.len() - supposed.without.len() + supposed.with.len();
        if entries > 0 && live > self.capacities.orders as usize {
            return Err(RejectReason::OrdersFull);
        }
        let mut levels = self.levels_without(&supposed.without);
        let before = supposed.with.len() - entries;
        levels.extend(supposed.with[..before].iter().map(level_of));
        let known = levels.len();
        levels.extend(supposed.with[before..].iter().map(level_of));
        if levels.len() > known && levels.len() > self.capacities.levels as usize {
            return Err(RejectReason::LevelsFull);
        }
        Ok(())
    }
}

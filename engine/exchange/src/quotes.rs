//! Mass quotes: a session's whole ladder of quotes in an instrument in one request, each side taken whole or not at all.

use protocol::{
    Accepted, CancelReason, ClientOrderId, Event, MassQuote, MassQuoted, OrderFlags, OrderId, OrderType,
    Price, Quantity, QuoteEntry, QuoteSide, RejectReason, RequestId, Side, Terms, TimeInForce,
};

use crate::arena::{Handle, Order};
use crate::book;
use crate::exchange::{Exchange, Request};
use crate::extras::{Extra, Standing};
use crate::options;
use crate::outbox::{EventSink, Outbox};
use crate::risk::{Intent, Needs, Stage};
use crate::tracking::Tracked;

/// An entry of a quote; a price or quantity beyond what a number holds is beyond the limits too.
#[derive(Clone, Copy, Debug)]
struct Entry {
    id: RequestId,
    price: Result<Price, RejectReason>,
    quantity: Result<Quantity, RejectReason>,
}

/// A side of a request.
struct Ladder {
    side: Side,
    entries: Vec<Entry>,
    refusal: Option<RejectReason>,
}

/// Who quotes what.
#[derive(Clone, Copy)]
struct Quoting {
    session: u32,
    place: u32,
    /// Place of the account where quotes are tracked.
    account: Option<u32>,
}

/// The account and the room as they would be with what was accepted of the request so far in place.
#[derive(Clone, Copy)]
struct Desk {
    stage: Option<Stage>,
    orders: usize,
    levels: usize,
}

fn entries_of(quote: &MassQuote) -> u32 {
    let count = |side: &Option<QuoteSide>| side.map_or(0, |side| side.entries().len() as u32);
    count(&quote.bids) + count(&quote.asks)
}

impl Exchange {
    /// Uses up an id for each entry of a mass quote whose own id is used up already.
    pub(crate) fn use_quote_ids(&mut self, session: u32, quote: &MassQuote) -> Result<(), RejectReason> {
        let session = self.sessions.get_mut(session);
        let more = entries_of(quote).saturating_sub(1);
        let last = session.highest_request_id.0.checked_add(more.into());
        session.highest_request_id = RequestId(last.ok_or(RejectReason::IdNotRising)?);
        Ok(())
    }

    /// Replaces a session's quotes of the sides that are given.
    pub(crate) fn mass_quote<S: EventSink>(
        &mut self,
        request: &Request,
        quote: &MassQuote,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        let place = self.instruments.place(quote.instrument).ok_or(RejectReason::UnknownInstrument)?;
        self.check_trading(place, out)?;
        let account = self.check_account(request, quote.account, place, entries_of(quote).max(1))?;
        let quoting = Quoting { session: request.session, place, account };
        let mut ladders = self.ladders(request, place, quote);
        self.check_ladders(quoting, &mut ladders);
        for ladder in ladders.iter().filter(|ladder| ladder.refusal.is_none()) {
            for handle in self.quotes_of(quoting, ladder.side) {
                self.finish_canceled(handle, CancelReason::QuoteReplaced, request.id, out);
            }
        }
        for ladder in ladders.iter().filter(|ladder| ladder.refusal.is_none()) {
            for entry in &ladder.entries {
                if let (Ok(price), Ok(quantity)) = (entry.price, entry.quantity) {
                    let handle =
                        self.accept_quote(quoting, quote, ladder.side, (entry.id, price, quantity), out);
                    self.enter(handle, entry.id, out);
                }
            }
        }
        self.follow(out);
        let told = |side| {
            let ladder = ladders.iter().find(|ladder| ladder.side == side);
            let refusal = ladder.and_then(|ladder| ladder.refusal);
            (ladder.filter(|_| refusal.is_none()).map_or(0, |ladder| ladder.entries.len() as u8), refusal)
        };
        let ((bids, bid_reason), (asks, ask_reason)) = (told(Side::Buy), told(Side::Sell));
        out.emit(Event::MassQuoted(MassQuoted {
            to: self.sessions.report(request.session),
            request_id: request.id,
            instrument: quote.instrument,
            account: quote.account,
            bids,
            asks,
            bid_reason,
            ask_reason,
        }));
        Ok(())
    }

    /// The sides that are given, with ids, prices and quantities of their entries.
    fn ladders(&self, request: &Request, place: u32, quote: &MassQuote) -> Vec<Ladder> {
        let definition = &self.instruments.get(place).definition;
        let mut id = request.id.0;
        let mut entry = |entry: &QuoteEntry| {
            let price =
                i128::from(quote.base.0) + i128::from(entry.ticks) * i128::from(definition.tick_size.0);
            let quantity = u64::from(entry.lots).checked_mul(definition.lot_size.0).map(Quantity);
            let made = Entry {
                id: RequestId(id),
                price: i64::try_from(price).map(Price).map_err(|_| RejectReason::PriceOutsideLimits),
                quantity: quantity.ok_or(RejectReason::QuantityAboveMaximum),
            };
            id = id.saturating_add(1);
            made
        };
        let mut ladders = Vec::with_capacity(2);
        for (side, given) in [(Side::Buy, &quote.bids), (Side::Sell, &quote.asks)] {
            if let Some(given) = given {
                let entries = given.entries().iter().map(&mut entry).collect();
                ladders.push(Ladder { side, entries, refusal: None });
            }
        }
        ladders
    }

    /// Finds out which sides are refused, and why.
    fn check_ladders(&self, quoting: Quoting, ladders: &mut [Ladder]) {
        let best = |side| {
            let ladder = ladders.iter().find(|ladder| ladder.side == side)?;
            let prices = ladder.entries.iter().filter_map(|entry| entry.price.ok());
            prices.max_by_key(|price| book::key(side, *price))
        };
        let meet = best(Side::Buy).zip(best(Side::Sell)).is_some_and(|(bid, ask)| bid >= ask);
        let mut desk = Desk {
            stage: quoting.account.map(|account| self.stage(account, quoting.place)),
            orders: self.orders.arena.live() as usize,
            levels: self.levels as usize,
        };
        for ladder in ladders {
            let mut tried = desk;
            let found = if meet {
                Err(RejectReason::QuoteInvalid)
            } else {
                self.check_ladder(quoting, ladder, &mut tried)
            };
            match found {
                Ok(()) => desk = tried,
                Err(reason) => ladder.refusal = Some(reason),
            }
        }
    }

    /// Checks a side as so many new orders, with its old quotes out of the way. The desk has the entries in place then.
    fn check_ladder(&self, quoting: Quoting, ladder: &Ladder, desk: &mut Desk) -> Result<(), RejectReason> {
        let instrument = self.instruments.get(quoting.place);
        let prices = ladder.entries.iter().filter_map(|entry| entry.price.ok());
        let key = |price| book::key(ladder.side, price);
        if prices.clone().zip(prices.skip(1)).any(|(better, worse)| key(better) <= key(worse)) {
            return Err(RejectReason::QuoteInvalid);
        }
        for entry in &ladder.entries {
            instrument.check_quantity(entry.quantity?)?;
            instrument.check_price(entry.price?)?;
            options::check_notional(instrument, entry.quantity?, Some(entry.price?))?;
        }
        let old = self.quotes_of(quoting, ladder.side);
        if let (Some(stage), Some(account)) = (desk.stage.as_mut(), quoting.account) {
            for handle in &old {
                self.take_out(stage, *handle);
            }
            let intents = ladder.entries.iter().filter_map(|entry| {
                let (price, quantity) = (entry.price.ok()?, entry.quantity.ok()?);
                Some(Intent {
                    account,
                    place: quoting.place,
                    side: ladder.side,
                    quantity: quantity.0,
                    limit: Some(price),
                    worth: Some(price),
                    needs: Needs::Price(price),
                    reduce_only: false,
                    replaces: None,
                    keeps_place: false,
                })
            });
            self.check_quotes(stage, intents)?;
        }
        self.check_quote_room(quoting, ladder, &old, desk)
    }

    /// There is room for all entries, whether they would trade or not, with the old quotes of their side gone.
    fn check_quote_room(
        &self,
        quoting: Quoting,
        ladder: &Ladder,
        old: &[Handle],
        desk: &mut Desk,
    ) -> Result<(), RejectReason> {
        let book = &self.instruments.get(quoting.place).book;
        let is_new = |entry: &&Entry| {
            let level =
                entry.price.ok().and_then(|it| book.side(ladder.side).get(book::key(ladder.side, it)));
            level.is_none_or(|level| self.holds_only(level.head, old))
        };
        desk.orders = desk.orders - old.len() + ladder.entries.len();
        if !ladder.entries.is_empty() && desk.orders > self.capacities.orders as usize {
            return Err(RejectReason::OrdersFull);
        }
        let emptied = old.iter().filter(|handle| self.empties_level(**handle, old)).count();
        let new = ladder.entries.iter().filter(is_new).count();
        desk.levels = desk.levels - emptied + new;
        if new > 0 && desk.levels > self.capacities.levels as usize {
            return Err(RejectReason::LevelsFull);
        }
        Ok(())
    }

    /// Whether an order is the first of a level, and there are only old quotes on it.
    fn empties_level(&self, handle: Handle, old: &[Handle]) -> bool {
        let rests = self.orders.extra(handle).is_some_and(|it| it.standing == Standing::Displayed);
        rests && self.orders.arena.get(handle).prev.is_none() && self.holds_only(handle, old)
    }

    /// Whether an order and all behind it are old quotes.
    fn holds_only(&self, first: Handle, old: &[Handle]) -> bool {
        let mut handle = first;
        while handle.is_some() && old.contains(&handle) {
            handle = self.orders.arena.get(handle).next;
        }
        handle.is_none()
    }

    /// A session's quotes of a side, oldest first.
    fn quotes_of(&self, quoting: Quoting, side: Side) -> Vec<Handle> {
        let special = self.instruments.get(quoting.place).special.as_ref();
        special.map_or_else(Vec::new, |special| special.waiting.quotes(quoting.session, side).collect())
    }

    fn accept_quote<S: EventSink>(
        &mut self,
        quoting: Quoting,
        quote: &MassQuote,
        side: Side,
        (id, price, quantity): (RequestId, Price, Quantity),
        out: &mut Outbox<'_, S>,
    ) -> Handle {
        self.last_order_id += 1;
        let order_id = OrderId(self.last_order_id);
        let flags = OrderFlags::default();
        out.emit(Event::Accepted(Accepted {
            to: self.sessions.report(quoting.session),
            request_id: id,
            order_id,
            price: Some(price),
            quantity,
            instrument: quote.instrument,
            account: quote.account,
            side,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::Day,
            flags,
        }));
        let line = Order {
            price: Price(0),
            leaves: quantity.0,
            cum: 0,
            order_id,
            client_order_id: ClientOrderId(id.0),
            session: quoting.session,
            account: quote.account,
            instrument: quoting.place,
            next: Handle::NONE,
            prev: Handle::NONE,
            side,
            time_in_force: TimeInForce::Day,
            flag_bits: flags.to_byte(),
            special: true,
        };
        let extra = Extra {
            quote: true,
            tracked: quoting.account.map(Tracked::new),
            ..Extra::new(Terms::default(), OrderType::Limit, Some(price))
        };
        self.admit_special(line, extra, None)
    }
}

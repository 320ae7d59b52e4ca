//! Auctions: the one price at which a crossed book trades, the trades of an uncross, and what is told of both while orders
//! come in. Only the levels in which bids and asks overlap are looked at.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use protocol::{Event, Indicative, Liquidity, Price, Quantity, RequestId, Side};

use crate::arena::Handle;
use crate::book;
use crate::book::Level;
use crate::exchange::Exchange;
use crate::execution::Fill;
use crate::outbox::{EventSink, Outbox};
use crate::waiting::at;

/// A price with what is open there; sums of quantities don't fit 64 bits.
type Row = (Price, u128);

/// What is open at each price of a book that is in an auction, bids and asks, by the ladders' keys. It follows from the book,
/// and is kept so that telling what an uncross would do need not visit the orders.
#[derive(Debug, Default)]
pub(crate) struct Sums([BTreeMap<i64, u128>; 2]);

impl Sums {
    fn add(&mut self, side: Side, key: i64, open: u64) {
        *self.0[at(side)].entry(key).or_default() += u128::from(open);
    }

    fn take(&mut self, side: Side, key: i64, open: u64) {
        if let Entry::Occupied(mut sum) = self.0[at(side)].entry(key) {
            *sum.get_mut() -= u128::from(open);
            if *sum.get() == 0 {
                sum.remove();
            }
        }
    }

    /// As [`Exchange::rows`] has them.
    fn rows(&self, side: Side, limit: Price) -> Vec<Row> {
        let sums = self.0[at(side)].range(book::key(side, limit)..).rev();
        sums.map(|(key, open)| (book::price(side, *key), *open)).collect()
    }
}

/// What an uncross does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Uncross {
    pub(crate) price: Price,
    /// What is bid at the price or above.
    pub(crate) bid: u128,
    /// What is offered at the price or below.
    pub(crate) offered: u128,
}

impl Uncross {
    /// What trades.
    fn quantity(&self) -> u128 {
        self.bid.min(self.offered)
    }

    /// What is left of the larger side.
    fn surplus(&self) -> u128 {
        self.bid.abs_diff(self.offered)
    }

    /// Whether it trades more than another one, or as much with less left.
    fn is_better(&self, than: &Self) -> bool {
        (self.quantity(), than.surplus()) > (than.quantity(), self.surplus())
    }

    fn is_as_good(&self, as_: &Self) -> bool {
        (self.quantity(), self.surplus()) == (as_.quantity(), as_.surplus())
    }
}

/// The prices that are equally good.
struct Tied {
    lowest: Uncross,
    highest: Uncross,
    all_bid: bool,
    all_offered: bool,
}

impl Tied {
    fn alone(one: Uncross) -> Self {
        Self { lowest: one, highest: one, all_bid: one.bid > one.offered, all_offered: one.bid < one.offered }
    }

    /// Which side has more open says nothing.
    fn without_side(self) -> Self {
        Self { all_bid: false, all_offered: false, ..self }
    }

    fn join(&mut self, higher: Uncross) {
        self.highest = higher;
        self.all_bid &= higher.bid > higher.offered;
        self.all_offered &= higher.bid < higher.offered;
    }
}

/// Prices that market orders have: the highest for buys, the lowest for sells.
#[derive(Clone, Copy)]
struct Furthest {
    highest: Price,
    lowest: Price,
}

impl Furthest {
    /// Whether somebody named this price as a limit, rather than having it for want of one.
    fn is_limit(self, price: Price, is_bid: bool, is_offered: bool) -> bool {
        (price != self.highest || is_offered) && (price != self.lowest || is_bid)
    }
}

/// Finds the price of an uncross. `bids` and `asks` are the levels in which the two overlap, best first; `round_down` gives
/// the nearest price on tick that is not above.
fn decide(
    bids: &[Row],
    asks: &[Row],
    furthest: Furthest,
    reference: Option<Price>,
    round_down: impl Fn(Price) -> Option<Price>,
) -> Option<Uncross> {
    let limits =
        best_prices(bids, asks, |price, is_bid, is_offered| furthest.is_limit(price, is_bid, is_offered));
    let tied = limits.or_else(|| best_prices(bids, asks, |_, _, _| true).map(Tied::without_side))?;
    let (lowest, highest) = (tied.lowest, tied.highest);
    if lowest.price == highest.price || tied.all_offered {
        return Some(lowest);
    }
    if tied.all_bid {
        return Some(highest);
    }
    Some(match reference {
        None => lowest,
        Some(price) if price <= lowest.price => lowest,
        Some(price) if price > highest.price => highest,
        Some(price) => {
            let price = round_down(price).filter(|price| *price > lowest.price).unwrap_or(lowest.price);
            // Between two prices of orders as much trades as at either, and no order's price is looked at more than once.
            let bid = bids.iter().take_while(|row| row.0 >= price).map(|row| row.1).sum();
            let offered = asks.iter().take_while(|row| row.0 <= price).map(|row| row.1).sum();
            Uncross { price, bid, offered }
        }
    })
}

/// Of the prices of orders that may be taken (each with whether it is bid, whether it is offered) those at which most trades
/// and then least is left.
fn best_prices(bids: &[Row], asks: &[Row], may_be: impl Fn(Price, bool, bool) -> bool) -> Option<Tied> {
    let mut bid: u128 = bids.iter().map(|row| row.1).sum();
    let mut offered: u128 = 0;
    let (mut rising_bids, mut rising_asks) = (bids.iter().rev().peekable(), asks.iter().peekable());
    let mut tied: Option<Tied> = None;
    loop {
        let next = [rising_bids.peek(), rising_asks.peek()];
        let Some(price) = next.into_iter().flatten().map(|row| row.0).min() else { return tied };
        let ask_row = rising_asks.next_if(|row| row.0 == price);
        offered += ask_row.map_or(0, |row| row.1);
        let here = Uncross { price, bid, offered };
        let bid_row = rising_bids.next_if(|row| row.0 == price);
        bid -= bid_row.map_or(0, |row| row.1);
        if !may_be(price, bid_row.is_some(), ask_row.is_some()) {
            continue;
        }
        match &mut tied {
            Some(best) if here.is_as_good(&best.lowest) => best.join(here),
            Some(best) if !here.is_better(&best.lowest) => {}
            _ => tied = Some(Tied::alone(here)),
        }
    }
}

/// What is told of an uncross.
fn indicative(instrument: protocol::InstrumentId, uncross: Option<Uncross>) -> Indicative {
    let told = |quantity: u128| Quantity(u64::try_from(quantity).unwrap_or(u64::MAX));
    let Some(uncross) = uncross else {
        let nothing = Quantity(0);
        return Indicative {
            instrument,
            price: None,
            quantity: nothing,
            surplus: nothing,
            surplus_side: None,
        };
    };
    Indicative {
        instrument,
        price: Some(uncross.price),
        quantity: told(uncross.quantity()),
        surplus: told(uncross.surplus()),
        surplus_side: match uncross.bid.cmp(&uncross.offered) {
            std::cmp::Ordering::Less => Some(Side::Sell),
            std::cmp::Ordering::Equal => None,
            std::cmp::Ordering::Greater => Some(Side::Buy),
        },
    }
}

impl Exchange {
    /// The levels of a side, best first: the displayed and the hidden queue of each price.
    fn levels(&self, place: u32, side: Side) -> impl Iterator<Item = (i64, [Option<Level>; 2])> {
        let instrument = self.instruments.get(place);
        let mut displayed = instrument.book.side(side).iter().peekable();
        let hidden = instrument.special.iter().flat_map(move |special| special.hidden[at(side)].iter());
        let mut hidden = hidden.peekable();
        std::iter::from_fn(move || {
            let keys = [displayed.peek(), hidden.peek()];
            let key = keys.into_iter().flatten().map(|level| level.key).max()?;
            let is_here = |level: &Level| level.key == key;
            Some((key, [displayed.next_if(is_here), hidden.next_if(is_here)]))
        })
    }

    fn best_of(&self, place: u32, side: Side) -> Option<Price> {
        let instrument = self.instruments.get(place);
        let displayed = instrument.book.side(side).best_key();
        let hidden = instrument.special.as_ref().and_then(|special| special.hidden[at(side)].best_key());
        displayed.max(hidden).map(|key| book::price(side, key))
    }

    /// What is open at each price of a side up to a limit, best first.
    fn rows(&self, place: u32, side: Side, limit: Price) -> Vec<Row> {
        let worst = book::key(side, limit);
        self.levels(place, side)
            .take_while(|(key, _)| *key >= worst)
            .map(|(key, queues)| {
                let mut open: u128 = 0;
                for level in queues.into_iter().flatten() {
                    book::for_each_of_level(&self.orders.arena, level, |handle| {
                        open += u128::from(self.orders.open_quantity(handle));
                    });
                }
                (book::price(side, key), open)
            })
            .collect()
    }

    /// What an uncross would do now; `None` where bids and asks don't overlap.
    pub(crate) fn would_uncross(&self, place: u32) -> Option<Uncross> {
        let best_bid = self.best_of(place, Side::Buy)?;
        let best_ask = self.best_of(place, Side::Sell)?;
        if best_bid < best_ask {
            return None;
        }
        let instrument = self.instruments.get(place);
        let rows = |side, limit| {
            let sums = instrument.special.as_ref().and_then(|special| special.sums.as_ref());
            let rows = sums.map(|sums| sums.rows(side, limit));
            debug_assert!(rows.as_ref().is_none_or(|rows| *rows == self.rows(place, side, limit)));
            rows.unwrap_or_else(|| self.rows(place, side, limit))
        };
        let (bids, asks) = (rows(Side::Buy, best_ask), rows(Side::Sell, best_bid));
        let furthest =
            Furthest { highest: self.furthest(place, Side::Buy), lowest: self.furthest(place, Side::Sell) };
        let reference = instrument.reference_price().or(instrument.last_trade);
        decide(&bids, &asks, furthest, reference, |price| instrument.round_down(price.0.into()))
    }

    /// The first orders of a side, by price and time, that have so much open, with what of each is open.
    fn first_orders(&self, place: u32, side: Side, quantity: u128) -> Vec<(Handle, u64)> {
        let mut orders = Vec::new();
        let mut wanted = quantity;
        let queues = self.levels(place, side).flat_map(|(_, queues)| queues.into_iter().flatten());
        for level in queues {
            let mut handle = level.head;
            while handle.is_some() {
                if wanted == 0 {
                    return orders;
                }
                let open = self.orders.open_quantity(handle);
                wanted = wanted.saturating_sub(open.into());
                orders.push((handle, open));
                handle = self.orders.arena.get(handle).next;
            }
        }
        orders
    }

    /// Trades what overlaps at one price. Where nothing does, nothing happens.
    pub(crate) fn uncross<S: EventSink>(&mut self, place: u32, out: &mut Outbox<'_, S>) {
        let Some(uncross) = self.would_uncross(place) else { return };
        self.instruments.get_mut(place).special_mut().sums = None;
        let bids = self.first_orders(place, Side::Buy, uncross.quantity());
        let asks = self.first_orders(place, Side::Sell, uncross.quantity());
        let (mut bids, mut asks) = (bids.into_iter(), asks.into_iter());
        let (mut bid, mut ask) = (bids.next(), asks.next());
        let mut left = uncross.quantity();
        while let (Some((maker, bid_open)), Some((taker, ask_open))) = (bid, ask)
            && left > 0
        {
            let quantity = bid_open.min(ask_open).min(u64::try_from(left).unwrap_or(u64::MAX));
            let (price, request_id) = (uncross.price, RequestId(0));
            let fill = Fill { maker, taker, quantity, price, kind: Liquidity::Auction, request_id };
            self.execute(fill, out);
            left -= u128::from(quantity);
            bid = if bid_open == quantity { bids.next() } else { Some((maker, bid_open - quantity)) };
            ask = if ask_open == quantity { asks.next() } else { Some((taker, ask_open - quantity)) };
        }
        let instrument = self.instruments.get_mut(place);
        instrument.last_trade = Some(uncross.price);
        instrument.special_mut().reference = Some(uncross.price);
        self.note_mark(place);
    }

    /// An auction begins, or was read from records: sums up what is open.
    pub(crate) fn sum_up(&mut self, place: u32) {
        let mut sums = Sums::default();
        for side in [Side::Buy, Side::Sell] {
            for (price, open) in self.rows(place, side, book::price(side, i64::MIN)) {
                sums.0[at(side)].insert(book::key(side, price), open);
            }
        }
        self.instruments.get_mut(place).special_mut().sums = Some(Box::new(sums));
    }

    /// An order came into its queue.
    pub(crate) fn sum_in(&mut self, handle: Handle) {
        let open = self.orders.open_quantity(handle);
        let order = self.orders.arena.get(handle);
        let special = &mut self.instruments.get_mut(order.instrument).special;
        if let Some(sums) = special.as_mut().and_then(|special| special.sums.as_mut()) {
            sums.add(order.side, book::key(order.side, order.price), open);
        }
    }

    /// An order in its queue is about to lose so much of what is open of it.
    pub(crate) fn sum_out(&mut self, handle: Handle, open: u64) {
        let order = self.orders.arena.get(handle);
        let special = &mut self.instruments.get_mut(order.instrument).special;
        if let Some(sums) = special.as_mut().and_then(|special| special.sums.as_mut()) {
            sums.take(order.side, book::key(order.side, order.price), open);
        }
    }

    /// Something changed in an instrument that may change what its uncross would do.
    pub(crate) fn note_auction(&mut self, place: u32) {
        if self.instruments.get(place).phase.is_auction() && self.in_auction.last() != Some(&place) {
            self.in_auction.push(place);
        }
    }

    /// Tells what the uncross of each instrument that was touched in an auction would do now, where that is another thing
    /// than what was told last; lowest instrument first.
    #[inline]
    pub(crate) fn tell_indicatives<S: EventSink>(&mut self, out: &mut Outbox<'_, S>) {
        if !self.in_auction.is_empty() {
            self.tell_touched(out);
        }
    }

    #[cold]
    fn tell_touched<S: EventSink>(&mut self, out: &mut Outbox<'_, S>) {
        let mut places = std::mem::take(&mut self.in_auction);
        places.sort_unstable_by_key(|place| self.instruments.get(*place).definition.instrument);
        places.dedup();
        for place in places.drain(..) {
            let instrument = self.instruments.get(place);
            if !instrument.phase.is_auction() {
                continue;
            }
            let now = indicative(instrument.definition.instrument, self.would_uncross(place));
            let trades = now.price.is_some().then_some(now);
            let told = &mut self.instruments.get_mut(place).special_mut().told;
            if *told != trades {
                *told = trades;
                out.emit(Event::Indicative(now));
            }
        }
        self.in_auction = places;
    }
}

//! The special orders of one instrument, by what each is looked up for: all of them, stops by stop price, pegs, those that
//! wait for the closing auction or whose parent is done, and quotes. It decides nothing.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};

use protocol::{Price, Side};

use crate::arena::Handle;

/// Most orders of an instrument that follow its prices: all of them may have to be looked at within one command.
pub(crate) const FOLLOWING_MAX: u32 = 1_000;

/// Orders by order id.
pub(crate) type ById = BTreeMap<u64, Handle>;

/// Lists of an instrument's special orders.
#[derive(Debug, Default)]
pub(crate) struct Waiting {
    /// All special orders, in no order. Each one's extra says where it is.
    pub(crate) live: Vec<Handle>,
    /// Pegged orders, resting or not.
    pub(crate) pegs: ById,
    /// What waits for the closing auction.
    pub(crate) at_close: ById,
    /// Children whose parent is done.
    pub(crate) ready: ById,
    /// Stops that follow the trigger; they are in `stops` too.
    pub(crate) trails: ById,
    /// Orders that follow the instrument's prices, wherever they are: at most [`FOLLOWING_MAX`] come in.
    pub(crate) following: u32,
    /// Stops by side, by a key that is lower for those that trigger earlier, then by order id.
    stops: [BTreeMap<(i64, u64), Handle>; 2],
    /// Quotes by session's place, side and order id.
    quotes: BTreeMap<(u32, Side, u64), Handle>,
    /// Best displayed bid and ask when pegs were last looked at; `None`: they must be looked at. Only saves work.
    pub(crate) looked_at: Option<[Option<Price>; 2]>,
    /// What triggers buys and sells, when trails were last looked at. Only saves work.
    pub(crate) trailed_at: [Option<Price>; 2],
}

/// Sells trigger at high stop prices first, buys at low ones.
fn stop_key(side: Side, price: Price) -> i64 {
    match side {
        Side::Buy => price.0,
        Side::Sell => !price.0,
    }
}

/// Place of a side in a pair.
pub(crate) fn at(side: Side) -> usize {
    match side {
        Side::Buy => 0,
        Side::Sell => 1,
    }
}

impl Waiting {
    pub(crate) fn add_stop(&mut self, side: Side, price: Price, order_id: u64, handle: Handle) {
        self.stops[at(side)].insert((stop_key(side, price), order_id), handle);
    }

    pub(crate) fn remove_stop(&mut self, side: Side, price: Price, order_id: u64) {
        self.stops[at(side)].remove(&(stop_key(side, price), order_id));
    }

    /// Nothing in the instrument follows from what happens in its book.
    pub(crate) fn is_quiet(&self) -> bool {
        self.pegs.is_empty()
            && self.trails.is_empty()
            && self.ready.is_empty()
            && self.stops.iter().all(BTreeMap::is_empty)
    }

    /// The stop of a side that triggers first, with its order id.
    pub(crate) fn first_stop(&self, side: Side) -> Option<(u64, Handle)> {
        self.stops[at(side)].first_key_value().map(|((_, order_id), handle)| (*order_id, *handle))
    }

    pub(crate) fn add_quote(&mut self, session: u32, side: Side, order_id: u64, handle: Handle) {
        self.quotes.insert((session, side, order_id), handle);
    }

    pub(crate) fn remove_quote(&mut self, session: u32, side: Side, order_id: u64) {
        self.quotes.remove(&(session, side, order_id));
    }

    /// A session's quotes of a side, oldest first.
    pub(crate) fn quotes(&self, session: u32, side: Side) -> impl Iterator<Item = Handle> {
        self.quotes.range((session, side, 0)..=(session, side, u64::MAX)).map(|(_, handle)| *handle)
    }
}

/// The first order behind an order id.
pub(crate) fn next_after(orders: &ById, order_id: u64) -> Option<(u64, Handle)> {
    orders.range((Excluded(order_id), Unbounded)).next().map(|(id, handle)| (*id, *handle))
}

//! One instrument's order book: the levels of two sides, each level a first-in-first-out queue threaded through the order
//! arena. It keeps places and priority; who may trade what is decided elsewhere.

pub(crate) use ::book::{Level, Levels, key, price};
use protocol::{Price, Side};

use crate::arena::{Arena, Handle};

/// The resting orders of one instrument.
#[derive(Debug, Default)]
pub(crate) struct Book {
    bids: Levels,
    asks: Levels,
}

impl Book {
    #[inline]
    pub(crate) fn side(&self, side: Side) -> &Levels {
        match side {
            Side::Buy => &self.bids,
            Side::Sell => &self.asks,
        }
    }

    #[inline]
    pub(crate) fn side_mut(&mut self, side: Side) -> &mut Levels {
        match side {
            Side::Buy => &mut self.bids,
            Side::Sell => &mut self.asks,
        }
    }

    /// Whether bids and asks overlap. In continuous trading they never do.
    #[inline]
    pub(crate) fn is_crossed(&self) -> bool {
        match (self.bids.best_key(), self.asks.best_key()) {
            (Some(bid), Some(ask)) => bid >= price(Side::Sell, ask).0,
            _ => false,
        }
    }

    /// Whether an order of `side` with that limit would trade on entry; `None` is any price.
    #[inline]
    pub(crate) fn would_trade(&self, side: Side, limit: Option<Price>) -> bool {
        let opposite = side.opposite();
        let worst = limit.map_or(i64::MIN, |price| key(opposite, price));
        self.side(opposite).best_key().is_some_and(|best| best >= worst)
    }

    /// Whether `quantity` could be traded by an order of `side` with that limit. It looks at no more than it must.
    pub(crate) fn can_fill(&self, orders: &Arena, side: Side, limit: Option<Price>, quantity: u64) -> bool {
        let opposite = side.opposite();
        let worst = limit.map_or(i64::MIN, |price| key(opposite, price));
        let mut wanted = quantity;
        for level in self.side(opposite).iter().take_while(|level| level.key >= worst) {
            let mut handle = level.head;
            while handle.is_some() {
                let order = orders.get(handle);
                if order.leaves >= wanted {
                    return true;
                }
                wanted -= order.leaves;
                handle = order.next;
            }
        }
        false
    }

    /// Puts an order at the end of its level's queue. True: the level is new.
    #[inline(always)]
    pub(crate) fn append(&mut self, orders: &mut Arena, handle: Handle) -> bool {
        let side = orders.get(handle).side;
        append(self.side_mut(side), orders, handle)
    }

    /// Takes an order out of its level's queue. True: the level is gone.
    #[inline]
    pub(crate) fn unlink(&mut self, orders: &mut Arena, handle: Handle) -> bool {
        let side = orders.get(handle).side;
        unlink(self.side_mut(side), orders, handle)
    }

    /// Takes the first order of the best level out, as after its last fill. True: the level is gone.
    #[inline]
    pub(crate) fn pop_front(&mut self, orders: &mut Arena, side: Side) -> bool {
        self.side_mut(side).pop_front(&mut orders.orders)
    }

    /// Calls `f` for each order of a side, best price and oldest first.
    pub(crate) fn for_each(&self, orders: &Arena, side: Side, f: impl FnMut(Handle)) {
        for_each(self.side(side), orders, f);
    }
}

/// Calls `f` for each order of some levels, best price and oldest first.
pub(crate) fn for_each(levels: &Levels, orders: &Arena, f: impl FnMut(Handle)) {
    levels.for_each(&orders.orders, f);
}

/// Puts an order at the end of the queue at its price. True: the level is new.
#[inline(always)]
pub(crate) fn append(levels: &mut Levels, orders: &mut Arena, handle: Handle) -> bool {
    let order = orders.get(handle);
    let key = key(order.side, order.price);
    levels.append(&mut orders.orders, handle, key)
}

/// Takes an order out of the queue at its price. True: the level is gone.
#[inline]
pub(crate) fn unlink(levels: &mut Levels, orders: &mut Arena, handle: Handle) -> bool {
    let order = orders.get(handle);
    let key = key(order.side, order.price);
    levels.unlink(&mut orders.orders, handle, key)
}

/// Calls `f` for each order of a level, oldest first.
pub(crate) fn for_each_of_level(orders: &Arena, level: Level, f: impl FnMut(Handle)) {
    level.for_each(&orders.orders, f);
}

//! One instrument's order book: two ladders of levels, each level a first-in-first-out queue threaded through the order
//! arena. It keeps places and priority; who may trade what is decided elsewhere.

use protocol::{Price, Side};

use crate::arena::{Arena, Handle};
use crate::ladder::{Ladder, Level};

/// Queues that are walked side by side before they are visited one after the other.
const LEVELS_TOGETHER: usize = 16;
/// Orders of each that are fetched so, at most: all of them together stay in the nearest cache.
const ORDERS_FETCHED: usize = 32;

/// The ladder's key of a price: larger is better.
#[inline]
pub(crate) fn key(side: Side, price: Price) -> i64 {
    match side {
        Side::Buy => price.0,
        Side::Sell => !price.0,
    }
}

/// The price of a ladder's key.
#[inline]
pub(crate) fn price(side: Side, key: i64) -> Price {
    match side {
        Side::Buy => Price(key),
        Side::Sell => Price(!key),
    }
}

/// The resting orders of one instrument.
#[derive(Debug, Default)]
pub(crate) struct Book {
    bids: Ladder,
    asks: Ladder,
}

impl Book {
    #[inline]
    pub(crate) fn side(&self, side: Side) -> &Ladder {
        match side {
            Side::Buy => &self.bids,
            Side::Sell => &self.asks,
        }
    }

    #[inline]
    pub(crate) fn side_mut(&mut self, side: Side) -> &mut Ladder {
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
        let ladder = self.side_mut(side);
        let level = ladder.best_mut().expect("the order rests at the best level");
        let next = orders.get(level.head).next;
        if next.is_none() {
            ladder.pop_best();
            return true;
        }
        level.head = next;
        orders.get_mut(next).prev = Handle::NONE;
        false
    }

    /// Calls `f` for each order of a side, best price and oldest first.
    pub(crate) fn for_each(&self, orders: &Arena, side: Side, f: impl FnMut(Handle)) {
        for_each(self.side(side), orders, f);
    }
}

/// Calls `f` for each order of a ladder, best price and oldest first.
pub(crate) fn for_each(ladder: &Ladder, orders: &Arena, mut f: impl FnMut(Handle)) {
    let mut levels = ladder.iter();
    loop {
        let mut group: [Option<&Level>; LEVELS_TOGETHER] = [None; LEVELS_TOGETHER];
        let mut count = 0;
        for (place, level) in group.iter_mut().zip(&mut levels) {
            *place = Some(level);
            count += 1;
        }
        if count > 1 {
            fetch(orders, &group);
        }
        for level in group.iter().flatten() {
            for_each_of_level(orders, level, &mut f);
        }
        if count < LEVELS_TOGETHER {
            return;
        }
    }
}

/// Puts an order at the end of the queue at its price. True: the level is new.
#[inline(always)]
pub(crate) fn append(ladder: &mut Ladder, orders: &mut Arena, handle: Handle) -> bool {
    let order = orders.get(handle);
    let (level, is_new) = ladder.enter(key(order.side, order.price));
    let tail = level.tail;
    level.tail = handle;
    if tail.is_none() {
        level.head = handle;
    }
    let order = orders.get_mut(handle);
    order.prev = tail;
    order.next = Handle::NONE;
    if tail.is_some() {
        orders.get_mut(tail).next = handle;
    }
    is_new
}

/// Takes an order out of the queue at its price. True: the level is gone.
#[inline]
pub(crate) fn unlink(ladder: &mut Ladder, orders: &mut Arena, handle: Handle) -> bool {
    let order = orders.get(handle);
    let (prev, next, key) = (order.prev, order.next, key(order.side, order.price));
    if prev.is_some() {
        orders.get_mut(prev).next = next;
    }
    if next.is_some() {
        orders.get_mut(next).prev = prev;
    }
    if prev.is_some() && next.is_some() {
        return false;
    }
    let place = ladder.find(key).expect("a resting order has its level");
    if prev.is_none() && next.is_none() {
        ladder.remove(place);
        return true;
    }
    let level = ladder.at_mut(place);
    if prev.is_none() {
        level.head = next;
    } else {
        level.tail = prev;
    }
    false
}

/// Brings the first orders of some queues into the cache. A queue is a chain of misses, each waiting for the one before;
/// those of different queues wait together.
fn fetch(orders: &Arena, levels: &[Option<&Level>; LEVELS_TOGETHER]) {
    let mut at = levels.map(|level| level.map_or(Handle::NONE, |level| level.head));
    for _ in 0..ORDERS_FETCHED {
        let mut live = false;
        for handle in at.iter_mut().filter(|handle| handle.is_some()) {
            *handle = orders.get(*handle).next;
            live = true;
        }
        if !live {
            return;
        }
    }
}

/// Calls `f` for each order of a level, oldest first.
pub(crate) fn for_each_of_level(orders: &Arena, level: &Level, mut f: impl FnMut(Handle)) {
    let mut handle = level.head;
    while handle.is_some() {
        f(handle);
        handle = orders.get(handle).next;
    }
}

//! What an order has beyond its line in the arena: its terms, where it stands, and what of it is not shown. Only special
//! orders have one; a plain order is one cache line and nothing else.

use protocol::{OrderType, Price, Quantity, Terms};

use crate::arena::Handle;
use crate::tracking::Tracked;

/// For what an order waits outside the book.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// Its trigger has not reached the stop price.
    Stop,
    /// The closing auction has not begun.
    Close,
    /// Its parent is not done, or it was not yet its turn since.
    Parent,
    /// There is no price for it to follow, or pegs are not followed in the phase.
    Peg,
}

/// Where an order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// In no book: it comes in, or is between two places. Never so between two commands.
    Entering,
    /// In the book's displayed queues.
    Displayed,
    /// In the hidden queues.
    Hidden,
    /// Outside the book.
    Waiting(Wait),
}

/// What became of a parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fate {
    pub(crate) executed: u64,
    /// All of it was executed.
    pub(crate) filled: bool,
}

/// What few orders have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extra {
    pub(crate) terms: Terms,
    pub(crate) order_type: OrderType,
    pub(crate) standing: Standing,
    /// Limit price: as given, or what an order without one came to rest at for good. A peg's resting price is none.
    pub(crate) limit: Option<Price>,
    /// Open quantity behind the shown part of an iceberg that rests; zero of all others.
    pub(crate) reserve: u64,
    /// How often the shown part was refilled.
    pub(crate) refills: u32,
    /// Stop price as it is now, of a stop that has not triggered.
    pub(crate) stop_price: Option<Price>,
    /// Least quantity of an execution, until it was met at entry.
    pub(crate) minimum: Option<Quantity>,
    /// Its place among its instrument's special orders.
    pub(crate) listed_at: u32,
    /// Entered by a mass quote.
    pub(crate) quote: bool,
    /// Of a child that waits: what became of its parent, where that is done.
    pub(crate) fate: Option<Fate>,
    /// What follows it in its account.
    pub(crate) tracked: Option<Tracked>,
}

impl Extra {
    /// Whether the order's price follows the instrument's: it is pegged, or a trail that was not triggered.
    pub(crate) fn follows(&self) -> bool {
        self.terms.peg().is_some() || self.terms.trail().is_some() && self.stop_price.is_some()
    }

    /// Of an order that has none of it yet.
    pub(crate) fn new(terms: Terms, order_type: OrderType, limit: Option<Price>) -> Self {
        Self {
            terms,
            order_type,
            standing: Standing::Entering,
            limit,
            reserve: 0,
            refills: 0,
            stop_price: terms.stop_price(),
            minimum: terms.minimum(),
            listed_at: 0,
            quote: false,
            fate: None,
            tracked: None,
        }
    }

    /// Waits for its parent.
    pub(crate) fn is_child(&self) -> bool {
        self.standing == Standing::Waiting(Wait::Parent)
    }
}

/// All extras, found by the place in their orders' links.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    slots: Vec<Option<Extra>>,
    free: Vec<u32>,
}

impl Extras {
    pub(crate) fn insert(&mut self, extra: Extra) -> Handle {
        match self.free.pop() {
            Some(place) => {
                self.slots[place as usize] = Some(extra);
                Handle::new(place + 1)
            }
            None => {
                self.slots.push(Some(extra));
                Handle::new(self.slots.len() as u32)
            }
        }
    }

    pub(crate) fn remove(&mut self, place: Handle) {
        let Some(at) = place.raw().checked_sub(1) else { return };
        if let Some(slot) = self.slots.get_mut(at as usize) {
            debug_assert!(slot.is_some(), "an extra is removed once");
            *slot = None;
            self.free.push(at);
        }
    }

    #[inline]
    pub(crate) fn get(&self, place: Handle) -> Option<&Extra> {
        self.slots.get(place.raw().checked_sub(1)? as usize)?.as_ref()
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, place: Handle) -> Option<&mut Extra> {
        self.slots.get_mut(place.raw().checked_sub(1)? as usize)?.as_mut()
    }
}

//! What the core is asked and what it answers: requests and events of 32 bytes each.

use protocol::{ClientOrderId, Price, Side};

/// Most books of a core: their numbers are 24 bits in an event.
pub const BOOKS_MAX: u32 = 1 << 24;

/// What a core is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Request {
    /// A new limit order.
    New {
        /// Number of the book.
        book: u32,
        /// Its id, unlike that of any order that rests.
        order: ClientOrderId,
        /// Side.
        side: Side,
        /// Worst price, in ticks; any `i64`.
        price: Price,
        /// Quantity in lots, at least one.
        quantity: u32,
        /// What can't trade at once is canceled; otherwise it rests.
        immediate: bool,
    },
    /// Takes an order out of its book.
    Cancel {
        /// The order.
        order: ClientOrderId,
    },
    /// Gives a resting order another price or quantity. It keeps its place in the queue if the price is the same and the
    /// quantity not larger; otherwise it may trade, and goes to the end of the queue at its price.
    Modify {
        /// The order.
        order: ClientOrderId,
        /// Its new price, in ticks.
        price: Price,
        /// What is to be open of it, in lots, at least one.
        quantity: u32,
    },
}

/// What an event tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EventKind {
    /// An order was taken; its trades follow, and what is left rests or is canceled.
    Accepted = 1,
    /// The order that was accepted or replaced last traded with a resting one, which has something left.
    Traded,
    /// The same; nothing is left of the resting one.
    Filled,
    /// An order left the book at its owner's wish.
    Canceled,
    /// What an immediate order could not trade was canceled.
    Expired,
    /// An order has another price or quantity.
    Replaced,
    /// Refused: an order with this id rests.
    DuplicateId,
    /// Refused: no order with this id rests.
    UnknownId,
    /// Refused: there is no such book.
    UnknownBook,
    /// Refused: a quantity is at least one lot.
    ZeroQuantity,
    /// Refused: the core has as many orders as it may have.
    Full,
}

impl EventKind {
    const ALL: [Self; 11] = [
        Self::Accepted,
        Self::Traded,
        Self::Filled,
        Self::Canceled,
        Self::Expired,
        Self::Replaced,
        Self::DuplicateId,
        Self::UnknownId,
        Self::UnknownBook,
        Self::ZeroQuantity,
        Self::Full,
    ];
}

/// What happened to an order, in 32 bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Event {
    /// The order that the request was about; of a trade: the incoming one.
    pub order: ClientOrderId,
    /// Of a trade: the resting order. Otherwise zero.
    pub maker: ClientOrderId,
    /// Of a trade: its price, which is the resting order's. Otherwise the order's own, in ticks.
    pub price: Price,
    /// Lots: traded, canceled, or open in the order.
    pub quantity: u32,
    /// Number of the book, and above it the kind.
    what: u32,
}

const _: () = assert!(size_of::<Event>() == 32 && size_of::<Request>() == 32);

impl Event {
    /// An event about one order.
    #[inline]
    #[must_use]
    pub fn new(kind: EventKind, book: u32, order: ClientOrderId, price: Price, quantity: u32) -> Self {
        let what = (kind as u32) << 24 | book & (BOOKS_MAX - 1);
        Self { order, maker: ClientOrderId(0), price, quantity, what }
    }

    /// A trade of an incoming order with a resting one.
    #[inline]
    #[must_use]
    pub fn of_trade(
        kind: EventKind,
        book: u32,
        (taker, maker): (ClientOrderId, ClientOrderId),
        price: Price,
        quantity: u32,
    ) -> Self {
        Self { maker, ..Self::new(kind, book, taker, price, quantity) }
    }

    /// What happened; `None` only of [`Event::default`], which no core emits.
    #[must_use]
    pub fn kind(&self) -> Option<EventKind> {
        EventKind::ALL.get(((self.what >> 24) as usize).checked_sub(1)?).copied()
    }

    /// Number of the book.
    #[must_use]
    pub fn book(&self) -> u32 {
        self.what & (BOOKS_MAX - 1)
    }

    /// The event in four words, for digests.
    #[inline]
    #[must_use]
    pub fn words(&self) -> [u64; 4] {
        let last = u64::from(self.what) << 32 | u64::from(self.quantity);
        [self.order.0, self.maker.0, self.price.0 as u64, last]
    }
}

/// Where events go, in order.
pub trait Sink {
    /// Takes an event.
    fn emit(&mut self, event: Event);
}

impl Sink for Vec<Event> {
    fn emit(&mut self, event: Event) {
        self.push(event);
    }
}

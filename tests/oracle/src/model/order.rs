//! A live order: what it is, and where it stands.

use protocol::{
    AccountId, ClOrdId, ClientOrderId, Fees, InstrumentId, OrdStatus, OrderFlags, OrderId, OrderType, Price,
    SessionId, Side, Terms, TimeInForce, Timestamp,
};

use super::book::Place;

/// Where a live order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// On its way: it comes in within this command.
    Entering,
    /// In a queue; the place says whether it is shown.
    Resting(Place),
    /// Outside the book.
    Waiting(Why),
}

/// What an order waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Its trigger.
    Stop,
    /// A price to follow, or the end of a call.
    Peg,
    /// The closing auction.
    Close,
    /// The end of its parent.
    Parent,
}

/// What a child knows of its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// It lives.
    Lives(OrderId),
    /// It is done.
    Done {
        /// What it executed.
        executed: u64,
        /// Whether that was all of it.
        filled: bool,
    },
}

/// A live order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Order {
    /// The venue's id.
    pub order_id: OrderId,
    /// The owner.
    pub session: SessionId,
    /// The owner's id.
    pub client_order_id: ClientOrderId,
    /// Whatever account.
    pub account: AccountId,
    /// Its instrument.
    pub instrument: InstrumentId,
    /// Its side.
    pub side: Side,
    /// Its type.
    pub order_type: OrderType,
    /// How long it lives.
    pub time_in_force: TimeInForce,
    /// One-bit options.
    pub flags: OrderFlags,
    /// Terms as they were given, with the display quantity of the last replace that had one.
    pub terms: Terms,
    /// Its limit price, also one that it got (rules 15 and 18).
    pub limit: Option<Price>,
    /// The price that a peg (rule 23) or a call (rule 62) gave it.
    pub given: Option<Price>,
    /// Total quantity.
    pub total: u64,
    /// Executed so far.
    pub cum: u64,
    /// What of it is shown.
    pub shown: u64,
    /// Parts shown after the first one.
    pub refills: u64,
    /// The last stop price that a request gave.
    pub stop_given: Option<Price>,
    /// Stop price as it is now, until it is triggered.
    pub stop_price: Option<Price>,
    /// Least quantity of an execution, until it has traded at entry.
    pub minimum: Option<u64>,
    /// The order whose end it waits for.
    pub parent: Option<Parent>,
    /// Where it is.
    pub standing: Standing,
    /// Its current text id.
    pub text: Option<ClOrdId>,
    /// It is an entry of a mass quote.
    pub quote: bool,
    /// What it pays; `None` of an untracked order (rule 81).
    pub tracked: Option<Fees>,
}

impl Order {
    /// What is left, reserve included.
    #[must_use]
    pub fn open(&self) -> u64 {
        self.total - self.cum
    }

    /// The price that a status tells: the one at which it rests, else its limit.
    #[must_use]
    pub fn price(&self) -> Option<Price> {
        match self.standing {
            Standing::Resting(_) => self.given.or(self.limit),
            _ => self.limit,
        }
    }

    /// The price that a restatement tells: as the status, but for a peg's, which is its limit.
    #[must_use]
    pub fn told_price(&self) -> Option<Price> {
        if self.terms.peg().is_some() { self.limit } else { self.price() }
    }

    /// Whether it is in a queue and shown.
    #[must_use]
    pub fn is_displayed(&self) -> bool {
        matches!(self.standing, Standing::Resting(place) if !place.hidden)
    }

    /// Whether it waits outside the book.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        matches!(self.standing, Standing::Waiting(_))
    }

    /// Whether it is a child that no end of its parent has activated yet.
    #[must_use]
    pub fn is_child(&self) -> bool {
        self.parent.is_some()
    }

    /// Its state as FIX has it (rule 39).
    #[must_use]
    pub fn status(&self) -> OrdStatus {
        match self.cum {
            _ if self.is_waiting() => OrdStatus::Waiting,
            0 => OrdStatus::New,
            _ => OrdStatus::PartiallyFilled,
        }
    }

    /// When it expires by itself.
    #[must_use]
    pub fn expiry(&self) -> Option<Timestamp> {
        self.terms.expire_time()
    }

    /// A market order, of any type, that has no limit price yet (rule 18).
    #[must_use]
    pub(super) fn is_market(&self) -> bool {
        self.order_type == OrderType::Market || self.gets_limit()
    }

    /// An order that the book will give its limit (rule 18).
    #[must_use]
    pub(super) fn gets_limit(&self) -> bool {
        matches!(self.order_type, OrderType::MarketToLimit | OrderType::MarketProtected)
            && self.limit.is_none()
    }

    /// For an auction only.
    #[must_use]
    pub(super) fn is_for_auction(&self) -> bool {
        use TimeInForce::{AtTheClose, AtTheOpen, GoodForAuction};
        matches!(self.time_in_force, AtTheOpen | AtTheClose | GoodForAuction)
    }

    /// Whether it expires at the end of the day (rule 100). A child that is to trade at once waits on with its parent.
    #[must_use]
    pub(super) fn ends_with_day(&self) -> bool {
        self.time_in_force == TimeInForce::Day || self.is_for_auction()
    }

    /// Whether what is left of it may rest in continuous trading.
    #[must_use]
    pub(super) fn can_rest(&self) -> bool {
        let stays = !matches!(self.time_in_force, TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill);
        stays && self.order_type != OrderType::Market
    }

    /// Hidden where it rests (rules 22, 23, 25).
    #[must_use]
    pub(super) fn rests_hidden(&self) -> bool {
        self.flags.hidden || self.terms.peg().is_some() || self.minimum.is_some()
    }
}

//! What an incoming order would meet in an instrument, in which order, and what would become of each meeting. The sweep and
//! the dry run both go this way, so that what was promised before anything changed is what happens.

use protocol::{Allocation, Price, SelfTrade, SelfTradeAction, Side};

use crate::arena::{Arena, Handle};
use crate::book;
use crate::exchange::Exchange;
use crate::instruments::Instrument;
use crate::waiting::at;

/// An order that comes in, as far as others care.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Incoming {
    pub(crate) side: Side,
    /// `None` is any price.
    pub(crate) limit: Option<Price>,
    pub(crate) quantity: u64,
    pub(crate) self_trade: Option<SelfTrade>,
    /// Place of its session.
    pub(crate) session: u32,
}

/// A place in the order of makers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Stop {
    /// The displayed orders of a price.
    Level(Price),
    /// A hidden order.
    Hidden(Price, Handle),
}

impl Stop {
    fn price(self) -> Price {
        match self {
            Self::Level(price) | Self::Hidden(price, _) => price,
        }
    }
}

/// Goes through the makers: by price, displayed before hidden, hidden ones by time. It starts anew each time, so the book
/// may change meanwhile; only what was left behind alive has to be told.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Course {
    side: Side,
    worst: i64,
    /// Key of the last displayed level that was left behind.
    level_behind: Option<i64>,
    /// The last hidden order that was left behind.
    hidden_behind: Option<Handle>,
}

impl Course {
    /// Of an order of `side` with a limit.
    pub(crate) fn new(side: Side, limit: Option<Price>) -> Self {
        let side = side.opposite();
        let worst = limit.map_or(i64::MIN, |price| book::key(side, price));
        Self { side, worst, level_behind: None, hidden_behind: None }
    }

    /// Leaves a stop behind, with what is there.
    pub(crate) fn pass(&mut self, stop: Stop) {
        match stop {
            Stop::Level(price) => self.level_behind = Some(book::key(self.side, price)),
            Stop::Hidden(_, handle) => self.hidden_behind = Some(handle),
        }
    }

    /// The next stop, within the limit.
    pub(crate) fn next(&self, instrument: &Instrument, orders: &Arena) -> Option<Stop> {
        let shown = instrument.book.side(self.side);
        let level = match self.level_behind {
            None => shown.best_key(),
            Some(behind) => shown.next_worse(behind).map(|level| level.key),
        };
        let hidden = instrument.special.as_ref().and_then(|special| {
            let ladder = &special.hidden[at(self.side)];
            let level = match self.hidden_behind {
                None => ladder.best(),
                Some(behind) => {
                    let behind = orders.get(behind);
                    let key = book::key(self.side, behind.price);
                    if behind.next.is_some() {
                        return Some((key, behind.next));
                    }
                    ladder.next_worse(key)
                }
            };
            level.map(|level| (level.key, level.head))
        });
        let (key, stop) = match (level, hidden) {
            (Some(level), Some((key, handle))) if key > level => (key, Some(handle)),
            (Some(level), _) => (level, None),
            (None, Some((key, handle))) => (key, Some(handle)),
            (None, None) => return None,
        };
        let price = book::price(self.side, key);
        (key >= self.worst).then_some(match stop {
            Some(handle) => Stop::Hidden(price, handle),
            None => Stop::Level(price),
        })
    }
}

/// What a meeting comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meeting {
    Trade,
    /// The maker's minimum is more than what is offered.
    PassOver,
    /// Both are of one group.
    Conflict(SelfTradeAction),
}

/// What a sweep would come to.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DryRun {
    /// Sum of the trades.
    pub(crate) quantity: u64,
    /// Sum of price times quantity.
    pub(crate) cost: i128,
}

impl DryRun {
    fn add(&mut self, price: Price, quantity: u64) {
        self.quantity += quantity;
        self.cost += i128::from(price.0) * i128::from(quantity);
    }
}

impl Exchange {
    /// Self-trade prevention of a live order: its own, or its account's.
    pub(crate) fn self_trade_of(&self, handle: Handle) -> Option<SelfTrade> {
        let extra = self.orders.extra(handle)?;
        let account = || self.account_self_trade(extra.tracked?.account);
        extra.terms.self_trade().or_else(account)
    }

    /// What becomes of it where an incoming order of which so much is left meets a resting one.
    pub(crate) fn meeting(&self, incoming: &Incoming, left: u64, maker: Handle) -> Meeting {
        let Some(extra) = self.orders.extra(maker) else { return Meeting::Trade };
        let least = extra.minimum.map_or(0, |minimum| minimum.0).min(self.orders.open_quantity(maker));
        if left < least {
            return Meeting::PassOver;
        }
        let theirs = || self.group_owner(self.orders.arena.get(maker).session);
        match (incoming.self_trade, self.self_trade_of(maker)) {
            (Some(own), Some(other))
                if own.group == other.group && self.group_owner(incoming.session) == theirs() =>
            {
                Meeting::Conflict(own.action)
            }
            _ => Meeting::Trade,
        }
    }

    /// Price of the best order, displayed or hidden, that an order of `side` could meet.
    pub(crate) fn best_to_meet(&self, place: u32, side: Side) -> Option<Price> {
        let course = Course::new(side, None);
        course.next(self.instruments.get(place), &self.orders.arena).map(Stop::price)
    }

    /// What a sweep would come to, without making it.
    pub(crate) fn dry_run(&self, place: u32, incoming: &Incoming) -> DryRun {
        let instrument = self.instruments.get(place);
        let (lowest, highest) = self.trade_bounds(place);
        let mut course = Course::new(incoming.side, incoming.limit);
        let mut run = DryRun::default();
        while run.quantity < incoming.quantity
            && let Some(stop) = course.next(instrument, &self.orders.arena)
        {
            let wanted = incoming.quantity - run.quantity;
            match stop {
                Stop::Level(price) => {
                    let within = price >= lowest && price <= highest;
                    if !within || !self.dry_run_level(place, incoming, price, &mut run) {
                        return run;
                    }
                }
                Stop::Hidden(price, maker) => {
                    let meeting = self.meeting(incoming, wanted, maker);
                    if meeting != Meeting::PassOver && (price < lowest || price > highest) {
                        return run;
                    }
                    match meeting {
                        Meeting::PassOver | Meeting::Conflict(SelfTradeAction::CancelResting) => {}
                        Meeting::Conflict(_) => return run,
                        Meeting::Trade => run.add(price, wanted.min(self.orders.open_quantity(maker))),
                    }
                }
            }
            course.pass(stop);
        }
        run
    }

    /// What the displayed orders of a price would give; false: the sweep would end here.
    fn dry_run_level(&self, place: u32, incoming: &Incoming, price: Price, run: &mut DryRun) -> bool {
        let instrument = self.instruments.get(place);
        let side = incoming.side.opposite();
        let shown = instrument.book.side(side);
        let Some(level) = shown.get(book::key(side, price)) else { return false };
        let shares = instrument.allocation() != Allocation::PriceTime;
        let (mut given, mut reserves) = (0u64, 0u64);
        let mut wanted = incoming.quantity - run.quantity;
        let mut handle = level.head;
        while handle.is_some() && (wanted > 0 || shares) {
            let order = self.orders.arena.get(handle);
            match self.meeting(incoming, wanted, handle) {
                Meeting::Conflict(SelfTradeAction::CancelResting) => {}
                Meeting::Conflict(_) => {
                    // Where quantity is shared out, conflicts come before the first trade of the level.
                    run.add(price, if shares { 0 } else { given });
                    return false;
                }
                _ => {
                    let quantity = wanted.min(order.leaves);
                    given += quantity;
                    wanted -= quantity;
                    reserves = reserves.saturating_add(self.orders.open_quantity(handle) - order.leaves);
                }
            }
            handle = order.next;
        }
        run.add(price, given + wanted.min(reserves));
        true
    }
}

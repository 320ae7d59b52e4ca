//! An incoming order takes from the book of an instrument with a special part: by price and time or in shares, with
//! self-trade prevention and price bands. What is met in which order is `course`'s.

use protocol::{
    Allocation, BandAction, CancelReason, Liquidity, Price, RequestId, RestateReason, SelfTradeAction,
};

use crate::arena::Handle;
use crate::book;
use crate::course::{Course, Incoming, Meeting, Stop};
use crate::exchange::Exchange;
use crate::execution::Fill;
use crate::outbox::{EventSink, Outbox};

/// How a sweep ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Swept {
    /// Nothing is left of the order: filled, or canceled by self-trade prevention.
    Gone,
    /// Something is left, and nothing more to be met within its limit.
    Left,
    /// Something is left, and the next trade would be outside a price band.
    Band(BandAction),
}

impl Exchange {
    /// Trades an order that is in no book with what it meets within a limit.
    pub(crate) fn sweep_special<S: EventSink>(
        &mut self,
        taker: Handle,
        limit: Option<Price>,
        request_id: RequestId,
        out: &mut Outbox<'_, S>,
    ) -> Swept {
        let order = *self.orders.arena.get(taker);
        let (lowest, highest) = self.trade_bounds(order.instrument);
        let shares = self.instruments.get(order.instrument).allocation() != Allocation::PriceTime;
        let incoming = self.incoming_of(taker, limit);
        let mut course = Course::new(order.side, limit);
        loop {
            let instrument = self.instruments.get(order.instrument);
            let Some(stop) = course.next(instrument, &self.orders.arena) else { return Swept::Left };
            let left = self.orders.arena.get(taker).leaves;
            let (price, maker, kind) = match stop {
                Stop::Hidden(price, maker) => (price, maker, Liquidity::Hidden),
                Stop::Level(price) => {
                    let side = order.side.opposite();
                    let level = instrument.book.side(side).get(book::key(side, price));
                    (price, level.map_or(Handle::NONE, |level| level.head), Liquidity::Maker)
                }
            };
            let meeting = self.meeting(&incoming, left, maker);
            if meeting == Meeting::PassOver {
                course.pass(stop);
                continue;
            }
            if price < lowest || price > highest {
                return Swept::Band(self.at_band(order.instrument, out));
            }
            let gone = match (meeting, kind) {
                (_, Liquidity::Maker) if shares => self.share_out(taker, &incoming, price, request_id, out),
                (Meeting::Conflict(action), _) => {
                    self.prevent((taker, limit), maker, action, request_id, out)
                }
                _ => {
                    let quantity = left.min(self.orders.arena.get(maker).leaves);
                    self.execute(Fill { maker, taker, quantity, price, kind, request_id }, out);
                    quantity == left
                }
            };
            if gone {
                return Swept::Gone;
            }
        }
    }

    /// One round of shares among the displayed orders of a price; true: nothing is left of the taker.
    fn share_out<S: EventSink>(
        &mut self,
        taker: Handle,
        incoming: &Incoming,
        price: Price,
        request_id: RequestId,
        out: &mut Outbox<'_, S>,
    ) -> bool {
        for maker in self.queue(taker, price) {
            let left = self.orders.arena.get(taker).leaves;
            if let Meeting::Conflict(action) = self.meeting(incoming, left, maker)
                && self.prevent((taker, incoming.limit), maker, action, request_id, out)
            {
                return true;
            }
        }
        let queue = self.queue(taker, price);
        let shown: Vec<u64> = queue.iter().map(|maker| self.orders.arena.get(*maker).leaves).collect();
        let place = self.orders.arena.get(taker).instrument;
        let instrument = self.instruments.get(place);
        let least = instrument.special.as_ref().map_or(0, |special| special.rules.allocation_minimum.0);
        let top = instrument.allocation() == Allocation::ProRataTop;
        let lot = instrument.definition.lot_size.0;
        let left = self.orders.arena.get(taker).leaves;
        let shares = allocate(&shown, left, lot, least, top);
        for (maker, quantity) in queue.into_iter().zip(shares) {
            if quantity > 0 {
                let kind = Liquidity::Maker;
                self.execute(Fill { maker, taker, quantity, price, kind, request_id }, out);
            }
        }
        left <= shown.iter().fold(0u64, |sum, one| sum.saturating_add(*one))
    }

    /// The displayed orders of a price on the other side, oldest first.
    fn queue(&self, taker: Handle, price: Price) -> Vec<Handle> {
        let order = self.orders.arena.get(taker);
        let side = order.side.opposite();
        let ladder = self.instruments.get(order.instrument).book.side(side);
        let mut queue = Vec::new();
        if let Some(level) = ladder.get(book::key(side, price)) {
            book::for_each_of_level(&self.orders.arena, level, |handle| queue.push(handle));
        }
        queue
    }

    /// What is done instead of a trade within one group, the resting order first; true: the taker is gone.
    fn prevent<S: EventSink>(
        &mut self,
        (taker, limit): (Handle, Option<Price>),
        maker: Handle,
        action: SelfTradeAction,
        request_id: RequestId,
        out: &mut Outbox<'_, S>,
    ) -> bool {
        let (resting, incoming) = match action {
            SelfTradeAction::CancelResting => (true, false),
            SelfTradeAction::CancelIncoming => (false, true),
            SelfTradeAction::CancelBoth => (true, true),
            SelfTradeAction::Decrement => {
                let (theirs, ours) = (self.orders.open_quantity(maker), self.orders.open_quantity(taker));
                if theirs > ours {
                    self.decrement(maker, self.told_price(maker), ours, out);
                }
                (theirs <= ours, ours <= theirs)
            }
        };
        let lost = self.orders.open_quantity(maker);
        if resting {
            self.finish_canceled(maker, CancelReason::SelfTrade, RequestId(0), out);
        }
        if incoming {
            self.finish_canceled(taker, CancelReason::SelfTrade, request_id, out);
        } else if action == SelfTradeAction::Decrement {
            // A market-to-limit order has its limit from here on; a peg's price is not told.
            let is_pegged = self.orders.extra(taker).is_some_and(|extra| extra.terms.peg().is_some());
            let price = self.told_price(taker).or(limit.filter(|_| !is_pegged));
            self.decrement(taker, price, lost, out);
        }
        incoming
    }

    /// Takes quantity out of an order's total without a trade, and tells its owner.
    fn decrement<S: EventSink>(
        &mut self,
        handle: Handle,
        price: Option<Price>,
        quantity: u64,
        out: &mut Outbox<'_, S>,
    ) {
        let left = self.orders.open_quantity(handle) - quantity;
        self.restate(handle, (price, left), RestateReason::Decremented, out);
        self.shrink(handle, quantity, out);
    }
}

/// Shares of an incoming quantity among orders that show so much, in queue order.
fn allocate(shown: &[u64], incoming: u64, lot: u64, least: u64, top: bool) -> Vec<u64> {
    let total: u128 = shown.iter().map(|one| u128::from(*one)).sum();
    if u128::from(incoming) >= total {
        return shown.to_vec();
    }
    let first = if top { shown.first().map_or(0, |one| incoming.min(*one)) } else { 0 };
    let sharing = u128::from(incoming - first);
    let behind = if top { total - u128::from(shown.first().copied().unwrap_or(0)) } else { total };
    let mut left = incoming;
    let mut shares: Vec<u64> = Vec::with_capacity(shown.len());
    for (number, one) in shown.iter().enumerate() {
        let share = if top && number == 0 {
            first
        } else {
            let exact = (sharing * u128::from(*one)).checked_div(behind).unwrap_or(0) as u64;
            let share = exact / lot * lot;
            if share < least { 0 } else { share }
        };
        left -= share;
        shares.push(share);
    }
    for (share, one) in shares.iter_mut().zip(shown) {
        let more = left.min(one - *share);
        *share += more;
        left -= more;
    }
    shares
}

#[cfg(test)]
mod tests {
    use super::allocate;

    #[test]
    fn shares_are_in_proportion_and_the_rest_goes_by_time() {
        // shown, incoming, lot, least, top, shares
        type Case<'a> = (&'a [u64], u64, u64, u64, bool, &'a [u64]);
        let cases: [Case<'_>; 7] = [
            (&[10, 20, 30], 60, 1, 0, false, &[10, 20, 30]),
            (&[10, 20, 30], 30, 1, 0, false, &[5, 10, 15]),
            (&[10, 20, 30], 10, 1, 0, false, &[2, 3, 5]),
            (&[10, 20, 30], 10, 1, 4, false, &[5, 0, 5]),
            (&[10, 20, 30], 20, 10, 0, false, &[10, 0, 10]),
            (&[10, 20, 30], 35, 1, 0, true, &[10, 10, 15]),
            (&[10, 20, 30], 4, 1, 0, true, &[4, 0, 0]),
        ];
        for (shown, incoming, lot, least, top, shares) in cases {
            let found = allocate(shown, incoming, lot, least, top);
            assert_eq!(found.iter().sum::<u64>(), incoming.min(shown.iter().sum()), "{shown:?} {incoming}");
            assert_eq!(found, shares, "{shown:?} {incoming} {lot} {least} {top}");
        }
    }
}

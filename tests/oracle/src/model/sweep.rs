//! How an incoming order trades: what it meets, in which order, and the same as a dry run.

use std::collections::VecDeque;

use protocol::{
    CancelReason, ExpireReason, InstrumentId, Liquidity, OrderId, Phase, Price, RequestId, SelfTradeAction,
    Side,
};

use super::book::Place;
use super::order::Order;
use super::{Fault, Oracle};

/// What a dry run would trade.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct DryRun {
    /// So much.
    pub quantity: u64,
    /// Sum of quantity times price.
    pub notional: i128,
}

impl Oracle {
    /// Rule 70: the lowest and the highest price at which a trade may be made now.
    fn trade_bounds(&self, instrument: InstrumentId) -> (i128, i128) {
        let it = &self.instruments[&instrument];
        let around = |price: Option<Price>, band: u64| match price {
            Some(price) if band > 0 => {
                (i128::from(price.0) - i128::from(band), i128::from(price.0) + i128::from(band))
            }
            _ => (i128::MIN, i128::MAX),
        };
        if self.is_faulty(Fault::BandsForgotten) {
            return (i128::MIN, i128::MAX);
        }
        let by_reference = around(it.reference, it.rules.static_band);
        let by_last = around(it.last_trade, it.rules.dynamic_band);
        (by_reference.0.max(by_last.0), by_reference.1.min(by_last.1))
    }

    /// Rule 25: a resting minimum that so much does not reach.
    fn is_passed_over(&self, maker: &Order, offered: u64) -> bool {
        let offered = offered.min(maker.open());
        !self.is_faulty(Fault::MinimumForgotten)
            && maker.minimum.is_some_and(|minimum| offered < minimum && offered < maker.open())
    }

    /// Rule 12: an incoming order trades. True where the next trade would be outside a band. The order may be done then.
    pub(super) fn sweep(&mut self, taker: OrderId, request_id: RequestId) -> bool {
        let Order { instrument, side, .. } = *self.order(taker);
        let bounds = self.trade_bounds(instrument);
        while let Some(order) = self.orders.get(&taker).copied() {
            let limit = order.given.or(order.limit);
            let next = self
                .next_maker(instrument, side, limit, order.open())
                .map(|(place, maker)| (place, maker.order_id));
            let Some((place, maker)) = next else { return false };
            let price = i128::from(place.price().0);
            if price < bounds.0 || price > bounds.1 {
                return true;
            }
            if self.instruments[&instrument].is_pro_rata() && !place.hidden {
                self.share_level(taker, place, request_id);
            } else {
                self.meet(taker, maker, request_id);
            }
        }
        false
    }

    /// The first resting order that so much is not too little for.
    fn next_maker(
        &self,
        instrument: InstrumentId,
        side: Side,
        limit: Option<Price>,
        offered: u64,
    ) -> Option<(Place, &Order)> {
        let fits = |maker: &Order| !self.is_passed_over(maker, offered);
        let mut makers = self.counterparties(instrument, side, limit).filter(|(_, maker)| fits(maker));
        let first = makers.next()?;
        if !self.is_faulty(Fault::HiddenByTime) {
            return Some(first);
        }
        makers
            .take_while(|(place, _)| place.price() == first.0.price())
            .chain([first])
            .min_by_key(|(_, maker)| maker.order_id)
    }

    /// A trade of the two, or what self-trade prevention does instead.
    fn meet(&mut self, taker: OrderId, maker: OrderId, request_id: RequestId) {
        match self.conflict(self.order(taker), self.order(maker)) {
            Some(action) => self.prevent(taker, maker, action, request_id),
            None => {
                let quantity = self.order(taker).open().min(self.order(maker).open_in_queue());
                self.trade(taker, maker, quantity, request_id);
            }
        }
    }

    /// One trade with a resting order, at its price.
    pub(super) fn trade(&mut self, taker: OrderId, maker: OrderId, quantity: u64, request_id: RequestId) {
        let resting = *self.order(maker);
        let limit = self.order(taker).limit;
        let price = match limit {
            Some(limit) if self.is_faulty(Fault::TakerPrice) => limit,
            _ => resting.price().expect("an order that rests has a price"),
        };
        let liquidity = if resting.is_displayed() { Liquidity::Maker } else { Liquidity::Hidden };
        self.change(maker, |order| order.shown = order.shown.saturating_sub(quantity));
        self.execute(
            price,
            quantity,
            (taker, Liquidity::Taker, request_id),
            (maker, liquidity, super::UNASKED),
        );
        if self.is_faulty(Fault::PartialFillLosesPlace) && self.order(maker).open() > 0 {
            self.go_back(maker);
        }
        self.refill(maker, false);
        self.retire_filled(maker);
        self.retire_filled(taker);
    }

    pub(super) fn retire_filled(&mut self, id: OrderId) {
        if self.orders.get(&id).is_some_and(|order| order.open() == 0) {
            self.retire(id);
        }
    }

    /// Rule 17: what an order that entered now would trade. Nothing changes.
    pub(super) fn dry_run(&self, taker: &Order) -> DryRun {
        let mut sum = DryRun::default();
        let in_continuous = self.instruments[&taker.instrument].phase == Phase::Continuous;
        let Some(price) = self.entry_price(taker).filter(|_| in_continuous) else { return sum };
        let bounds = self.trade_bounds(taker.instrument);
        let makers: Vec<(Place, Order)> = self
            .counterparties(taker.instrument, taker.side, price.price())
            .map(|(place, maker)| (place, *maker))
            .collect();
        let same_queue =
            |a: &(Place, Order), b: &(Place, Order)| a.0.price() == b.0.price() && a.0.hidden == b.0.hidden;
        for queue in makers.chunk_by(same_queue) {
            let price = i128::from(queue[0].0.price().0);
            let makers = queue.iter().map(|(_, maker)| *maker).collect();
            let outside = price < bounds.0 || price > bounds.1;
            let shared = self.instruments[&taker.instrument].is_pro_rata() && !queue[0].0.hidden;
            if sum.quantity == taker.open()
                || !self.dry_run_queue(taker, makers, (price, outside, shared), &mut sum)
            {
                break;
            }
        }
        sum
    }

    /// One queue of a dry run; false where the sweep ends in it.
    fn dry_run_queue(
        &self,
        taker: &Order,
        mut makers: VecDeque<Order>,
        (price, outside, shared): (i128, bool, bool),
        sum: &mut DryRun,
    ) -> bool {
        if shared && !outside {
            // Rule 51: what self-trade prevention does comes before the level's trades.
            for maker in &makers {
                if self.conflict(taker, maker).is_some_and(|action| action != SelfTradeAction::CancelResting)
                {
                    return false;
                }
            }
        }
        while let Some(mut maker) = makers.pop_front() {
            let left = taker.open() - sum.quantity;
            if left == 0 {
                return false;
            }
            if self.is_passed_over(&maker, left) {
                continue;
            }
            if outside {
                return false;
            }
            match self.conflict(taker, &maker) {
                None => {}
                Some(SelfTradeAction::CancelResting) => continue,
                Some(_) => return false,
            }
            let quantity = left.min(maker.open_in_queue());
            sum.quantity += quantity;
            sum.notional += i128::from(quantity) * price;
            maker.cum += quantity;
            maker.shown = maker.shown.saturating_sub(quantity);
            if maker.is_displayed() && maker.open() > 0 && maker.shown == 0 {
                maker.shown = self.refill_size(&maker).min(maker.open());
                maker.refills += 1;
                makers.push_back(maker);
            }
        }
        true
    }

    /// Rule 70: the next trade would be outside a band.
    pub(super) fn stop_at_band(&mut self, id: OrderId, got_limit: bool, request_id: RequestId) {
        let order = *self.order(id);
        if self.instruments[&order.instrument].rules.band_action == protocol::BandAction::Reject {
            return self.expire(id, ExpireReason::PriceBand, request_id);
        }
        self.start_volatility_auction(order.instrument);
        if !order.can_rest() {
            return self.expire(id, ExpireReason::PriceBand, request_id);
        }
        self.rest_in_call(id, got_limit);
    }

    /// Takes a decrement or a cancel of a resting order, by the name of what it is.
    pub(super) fn cancel_for_self_trade(&mut self, id: OrderId, request_id: RequestId) {
        self.cancel(id, CancelReason::SelfTrade, request_id);
    }
}

impl Order {
    /// What of it can trade before it goes to the back of its queue: the shown part, or all of a hidden order.
    pub(super) fn open_in_queue(&self) -> u64 {
        if self.is_displayed() { self.shown } else { self.open() }
    }
}

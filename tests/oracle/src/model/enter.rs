//! How an order comes in: as what it trades, whether it rests, waits or ends.

use protocol::{
    CancelReason, ExpireReason, InstrumentId, OrderId, OrderType, PegReference, Phase, Price, RequestId,
    RestateReason, Side, StopTrigger, TimeInForce,
};

use super::order::{Order, Why};
use super::{Fault, Oracle};

impl Oracle {
    /// An order that is in no book comes in.
    pub(super) fn enter(&mut self, id: OrderId, request_id: RequestId) {
        let order = *self.order(id);
        let phase = self.instruments[&order.instrument].phase;
        if order.time_in_force == TimeInForce::AtTheClose && phase != Phase::ClosingAuction {
            return self.wait(id, Why::Close);
        }
        if phase.is_call() {
            return self.join_call(id);
        }
        let Some(price) = self.entry_price(&order) else {
            return match order.terms.peg() {
                Some(_) => self.wait(id, Why::Peg),
                None => self.expire(id, ExpireReason::NoLiquidity, request_id),
            };
        };
        match price {
            EntryPrice::Any => {}
            EntryPrice::Limit(limit) => self.change(id, |order| order.limit = Some(limit)),
            EntryPrice::Peg(price) => self.change(id, |order| order.given = Some(price)),
        }
        if self.decides_before_trading(id, request_id) {
            return;
        }
        let reached_band = self.sweep(id, request_id);
        if !self.orders.contains_key(&id) {
            return;
        }
        if reached_band {
            self.stop_at_band(id, order.gets_limit(), request_id);
        } else {
            self.settle_down(id, order.gets_limit(), request_id);
        }
    }

    /// Rules 17, 25 and 26: what a dry run decides. True where the order is done or rests.
    fn decides_before_trading(&mut self, id: OrderId, request_id: RequestId) -> bool {
        let order = *self.order(id);
        if order.time_in_force == TimeInForce::FillOrKill {
            if self.dry_run(&order).quantity < order.open() {
                self.expire(id, ExpireReason::FillOrKill, request_id);
                return true;
            }
        } else if let Some(minimum) = order.minimum {
            if self.dry_run(&order).quantity >= minimum.min(order.open()) {
                self.change(id, |order| order.minimum = None);
                return false;
            }
            if order.can_rest() {
                self.rest(id);
            } else {
                self.expire(id, ExpireReason::MinimumQuantity, request_id);
            }
            return true;
        }
        false
    }

    /// Rule 13: what is left rests or expires.
    fn settle_down(&mut self, id: OrderId, got_limit: bool, request_id: RequestId) {
        let order = *self.order(id);
        let rests_wrongly = self.is_faulty(Fault::ImmediateOrCancelRests)
            && order.time_in_force == TimeInForce::ImmediateOrCancel
            && order.limit.is_some();
        if order.can_rest() || rests_wrongly {
            self.rest_priced(id, got_limit);
        } else if order.order_type == OrderType::Market {
            self.expire(id, ExpireReason::NoLiquidity, request_id);
        } else {
            self.expire(id, ExpireReason::ImmediateOrCancel, request_id);
        }
    }

    /// Rule 18: a price that the book gave is told before the order rests at it.
    fn rest_priced(&mut self, id: OrderId, got_limit: bool) {
        if got_limit {
            self.report_restated(id, self.order(id).limit, RestateReason::Priced);
        }
        self.rest(id);
    }

    /// Rule 70: the order that reached a band is in the call that began.
    pub(super) fn rest_in_call(&mut self, id: OrderId, got_limit: bool) {
        if self.order(id).terms.peg().is_some() {
            self.wait(id, Why::Peg);
        } else {
            self.rest_priced(id, got_limit);
        }
    }

    /// Rule 62: in a call an order rests, or waits.
    pub(super) fn join_call(&mut self, id: OrderId) {
        let order = *self.order(id);
        if order.terms.peg().is_some() {
            return self.wait(id, Why::Peg);
        }
        if order.order_type == OrderType::Market {
            let price = self.furthest(order.instrument, order.side);
            self.change(id, |order| order.given = Some(price));
            self.report_restated(id, Some(price), RestateReason::Priced);
        }
        self.rest(id);
    }

    /// Rule 62: the furthest price that is on tick.
    pub(super) fn furthest(&self, instrument: InstrumentId, side: Side) -> Price {
        let it = &self.instruments[&instrument];
        match side {
            Side::Buy => it.down(it.definition.price_max.0.into()),
            Side::Sell => it.up(it.definition.price_min.0.into()),
        }
        .unwrap_or(match side {
            Side::Buy => it.definition.price_max,
            Side::Sell => it.definition.price_min,
        })
    }

    /// What bounds an order that enters continuous trading; `None` where there is nothing that could.
    pub(super) fn entry_price(&self, order: &Order) -> Option<EntryPrice> {
        if order.terms.peg().is_some() {
            return self.peg_price(order).map(EntryPrice::Peg);
        }
        if order.limit.is_some() {
            return order.limit.map(EntryPrice::Limit);
        }
        match order.order_type {
            OrderType::Market => Some(EntryPrice::Any),
            OrderType::MarketToLimit => {
                self.best_displayed(order.instrument, order.side.opposite()).map(EntryPrice::Limit)
            }
            OrderType::MarketProtected => self.protected_price(order).map(EntryPrice::Limit),
            OrderType::Limit | OrderType::Pegged => None,
        }
    }

    /// Rule 18: the best opposite displayed price, worse by the protection, within the limits and on tick.
    fn protected_price(&self, order: &Order) -> Option<Price> {
        let instrument = &self.instruments[&order.instrument];
        let best = self.best_displayed(order.instrument, order.side.opposite())?;
        let protection = i128::from(instrument.rules.protection);
        let (low, high) = instrument.limits();
        let price = match order.side {
            Side::Buy => instrument.down((i128::from(best.0) + protection).min(high)),
            Side::Sell => instrument.up((i128::from(best.0) - protection).max(low)),
        };
        Some(price.unwrap_or(best))
    }

    /// Rule 23: the price of a pegged order; `None` where it is parked.
    pub(super) fn peg_price(&self, order: &Order) -> Option<Price> {
        let peg = order.terms.peg()?;
        let instrument = &self.instruments[&order.instrument];
        let best = |side| self.best_displayed(order.instrument, side).map(|price| i128::from(price.0));
        // Twice the reference, so that a midpoint is whole.
        let twice = match peg.reference {
            PegReference::BestBid => best(Side::Buy)? * 2,
            PegReference::BestAsk => best(Side::Sell)? * 2,
            PegReference::Midpoint => best(Side::Buy)? + best(Side::Sell)?,
        };
        let offset = i128::from(peg.offset);
        let opposite = best(order.side.opposite());
        let held_away = !self.is_faulty(Fault::PegMeetsTouch);
        let mut price = match order.side {
            Side::Buy => {
                let price = instrument.down_wide((twice - 2 * offset).div_euclid(2));
                match opposite {
                    Some(ask) if price >= ask && held_away => instrument.down_wide(ask - 1),
                    _ => price,
                }
            }
            Side::Sell => {
                let price = instrument.up_wide(-(-(twice + 2 * offset)).div_euclid(2));
                match opposite {
                    Some(bid) if price <= bid && held_away => instrument.up_wide(bid + 1),
                    _ => price,
                }
            }
        };
        if let Some(limit) = order.limit {
            price = match order.side {
                Side::Buy => price.min(limit.0.into()),
                Side::Sell => price.max(limit.0.into()),
            };
        }
        instrument.within(price)
    }

    /// Rule 19: what moves the stops of one side.
    pub(super) fn trigger_price(&self, instrument: InstrumentId, side: Side) -> Option<Price> {
        let it = &self.instruments[&instrument];
        match it.rules.stop_trigger {
            StopTrigger::LastTrade => it.last_trade,
            StopTrigger::BestQuote => self.best_displayed(instrument, side.opposite()),
        }
    }

    /// Rule 19: whether the trigger has reached the stop price.
    pub(super) fn is_triggered(&self, order: &Order) -> bool {
        let trigger = self.trigger_price(order.instrument, order.side);
        let (Some(stop), Some(trigger)) = (order.stop_price, trigger) else { return false };
        match order.side {
            Side::Buy => trigger >= stop,
            Side::Sell => trigger <= stop,
        }
    }

    /// A stop waits, or triggers at once.
    pub(super) fn begin_stop(&mut self, id: OrderId, request_id: RequestId) {
        let order = *self.order(id);
        let phase = self.instruments[&order.instrument].phase;
        if phase == Phase::Continuous && self.is_triggered(&order) {
            self.trigger(id, request_id);
        } else {
            self.wait(id, Why::Stop);
        }
    }

    pub(super) fn trigger(&mut self, id: OrderId, request_id: RequestId) {
        self.take_out(id);
        if let Some(stop_price) = self.order(id).stop_price {
            self.report_triggered(id, stop_price);
        }
        self.change(id, |order| order.stop_price = None);
        self.enter_after_waiting(id, request_id);
    }

    /// Rule 84: a buy that waited without a hold needs the money now.
    pub(super) fn enter_after_waiting(&mut self, id: OrderId, request_id: RequestId) {
        if self.can_pay_late(id) {
            self.enter(id, request_id);
        } else {
            self.cancel(id, CancelReason::InsufficientFunds, request_id);
        }
    }
}

/// What bounds an incoming order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryPrice {
    /// Nothing.
    Any,
    /// Its limit, its own or one that the book gave it.
    Limit(Price),
    /// What the peg gives it.
    Peg(Price),
}

impl EntryPrice {
    /// The price, where there is one.
    pub(super) fn price(self) -> Option<Price> {
        match self {
            Self::Any => None,
            Self::Limit(price) | Self::Peg(price) => Some(price),
        }
    }
}

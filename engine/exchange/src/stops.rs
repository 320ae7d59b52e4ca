//! Stops: their triggers, stop prices that follow them, and how a triggered one comes in.

use protocol::{Event, Price, Quantity, RequestId, Side, StopTrigger, Triggered};

use crate::arena::Handle;
use crate::book;
use crate::exchange::Exchange;
use crate::outbox::{EventSink, Outbox};
use crate::waiting::{at, next_after};

/// The stop price of a trail: the distance away from its trigger, to the side from which it would be triggered.
pub(crate) fn trailed(side: Side, trigger: Price, distance: u64) -> Price {
    Price(match side {
        Side::Buy => trigger.0.saturating_add_unsigned(distance),
        Side::Sell => trigger.0.saturating_sub_unsigned(distance),
    })
}

impl Exchange {
    /// Best displayed bid and ask.
    pub(crate) fn best_prices(&self, place: u32) -> [Option<Price>; 2] {
        let book = &self.instruments.get(place).book;
        [Side::Buy, Side::Sell].map(|side| book.side(side).best_key().map(|key| book::price(side, key)))
    }

    /// What triggers stops of a side now.
    pub(crate) fn trigger(&self, place: u32, side: Side) -> Option<Price> {
        let instrument = self.instruments.get(place);
        let source = instrument.special.as_ref().map_or(StopTrigger::LastTrade, |it| it.rules.stop_trigger);
        match source {
            StopTrigger::LastTrade => instrument.last_trade,
            StopTrigger::BestQuote => self.best_prices(place)[at(side.opposite())],
        }
    }

    /// Lets stop prices follow their triggers.
    pub(crate) fn look_at_trails(&mut self, place: u32) {
        if !self.is_continuous(place) {
            return;
        }
        let triggers = [Side::Buy, Side::Sell].map(|side| self.trigger(place, side));
        let Some(special) = self.instruments.get_mut(place).special.as_mut() else { return };
        let waiting = &mut special.waiting;
        if waiting.trails.is_empty() || waiting.trailed_at == triggers {
            return;
        }
        waiting.trailed_at = triggers;
        let trails: Vec<(u64, Handle)> = waiting.trails.iter().map(|(id, handle)| (*id, *handle)).collect();
        for (id, handle) in trails {
            let side = self.orders.arena.get(handle).side;
            let Some(trigger) = triggers[at(side)] else { continue };
            let Some(extra) = self.orders.extra_mut(handle) else { continue };
            let (Some(before), Some(distance)) = (extra.stop_price, extra.terms.trail()) else { continue };
            let follows = trailed(side, trigger, distance);
            let after = match side {
                Side::Buy => before.min(follows),
                Side::Sell => before.max(follows),
            };
            if after != before {
                extra.stop_price = Some(after);
                let waiting = self.waiting_mut(place);
                waiting.remove_stop(side, before, id);
                waiting.add_stop(side, after, id, handle);
                self.retrack(handle);
            }
        }
    }

    /// Whether the trigger of a stop has reached its stop price.
    pub(crate) fn is_triggered(&self, handle: Handle) -> bool {
        let order = self.orders.arena.get(handle);
        let stop = self.orders.extra(handle).and_then(|extra| extra.stop_price);
        stop.is_some_and(|stop| self.triggers(order.instrument, order.side, stop))
    }

    /// Whether the trigger of a side has reached a stop price.
    pub(crate) fn triggers(&self, place: u32, side: Side, stop: Price) -> bool {
        self.trigger(place, side).is_some_and(|trigger| match side {
            Side::Buy => trigger >= stop,
            Side::Sell => trigger <= stop,
        })
    }

    /// The stop that enters next: of a side the first one, of both the lower order id.
    pub(crate) fn first_triggered(&self, place: u32) -> Option<Handle> {
        let waiting = &self.instruments.get(place).special.as_ref()?.waiting;
        let triggered = [Side::Buy, Side::Sell].map(|side| {
            let (id, handle) = waiting.first_stop(side)?;
            self.is_triggered(handle).then_some((id, handle))
        });
        triggered.into_iter().flatten().min_by_key(|(id, _)| *id).map(|(_, handle)| handle)
    }

    /// Lets the first triggered stop enter.
    pub(crate) fn trigger_stop<S: EventSink>(&mut self, place: u32, out: &mut Outbox<'_, S>) -> bool {
        if !self.is_continuous(place) {
            return false;
        }
        let Some(handle) = self.first_triggered(place).filter(|_| self.may_cascade(place)) else {
            return false;
        };
        self.withdraw(handle, out);
        self.enter(handle, RequestId(0), out);
        true
    }

    /// A stop is none any more, and its owner hears why.
    pub(crate) fn tell_trigger<S: EventSink>(&mut self, handle: Handle, out: &mut Outbox<'_, S>) {
        let Some(extra) = self.orders.extra_mut(handle) else { return };
        let follows = extra.follows();
        let Some(stop_price) = extra.stop_price.take() else { return };
        let price = extra.limit;
        let order = *self.orders.arena.get(handle);
        self.waiting_mut(order.instrument).following -= u32::from(follows);
        out.emit(Event::Triggered(Triggered {
            to: self.sessions.report(order.session),
            order_id: order.order_id,
            client_order_id: order.client_order_id,
            stop_price,
            price,
            leaves_quantity: Quantity(order.leaves),
            instrument: self.instruments.get(order.instrument).definition.instrument,
            account: order.account,
            side: order.side,
        }));
    }

    /// The first peg behind an order id.
    pub(crate) fn peg_after(&self, place: u32, order_id: u64) -> Option<(u64, Handle)> {
        next_after(&self.instruments.get(place).special.as_ref()?.waiting.pegs, order_id)
    }
}

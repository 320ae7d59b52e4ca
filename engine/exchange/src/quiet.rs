//! The short way of what comes most often to instruments with a special part: limit orders that come to rest without
//! trading, orders without terms that leave, and their replaces. Nothing may follow from any of it, so the instrument must
//! be quiet: in continuous trading, with no order that follows its book or waits for it. Whatever else comes goes the
//! general way, which has the same result.

use protocol::{
    Accepted, CancelReason, Canceled, ClientOrderId, Event, NewOrder, OrderId, OrderType, Phase, Price,
    Quantity, RejectReason, ReplaceOrder, Replaced, RequestId, Side, Terms, TimeInForce,
};

use crate::arena::{Handle, Order};
use crate::book;
use crate::exchange::{Exchange, Request};
use crate::extras::{Extra, Standing};
use crate::instruments::Instrument;
use crate::options;
use crate::outbox::{EventSink, Outbox};
use crate::risk::{Intent, Needs};
use crate::waiting::at;

/// Nothing follows from what comes to rest in an instrument or leaves it.
fn is_quiet(instrument: &Instrument) -> bool {
    instrument.phase == Phase::Continuous
        && instrument.special.as_ref().is_some_and(|special| special.waiting.is_quiet())
}

/// An order would meet something, displayed or hidden.
fn meets(instrument: &Instrument, side: Side, price: Price) -> bool {
    let opposite = side.opposite();
    let hidden = instrument.special.as_ref().and_then(|special| special.hidden[at(opposite)].best_key());
    instrument.book.would_trade(side, Some(price))
        || hidden.is_some_and(|best| best >= book::key(opposite, price))
}

/// Quantity and price are on the grid and within what the instrument's rules allow.
fn is_within(instrument: &Instrument, quantity: Quantity, price: Price) -> bool {
    instrument.check_quantity(quantity).is_ok()
        && instrument.check_price(price).is_ok()
        && options::check_notional(instrument, quantity, Some(price)).is_ok()
}

/// An order that is shown as a whole and that nothing else depends on.
fn is_simple(extra: &Extra) -> bool {
    extra.standing == Standing::Displayed && extra.terms.is_empty() && !extra.quote
}

impl Exchange {
    /// Takes in a new order of version 1 of the rules whose instrument or session is not plain.
    #[inline(never)]
    pub(crate) fn new_quiet<S: EventSink>(
        &mut self,
        request: &Request,
        place: u32,
        order: &NewOrder,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        self.check_trading(place, out)?;
        let Some(price) = self.rests_quietly(place, order) else {
            return self.new_special(request, order, out);
        };
        // The other checks have passed, so that it doesn't matter that these come first on the general way.
        let account = self.check_account(request, order.account, place, 1)?;
        let tracked = account.map(|account| self.tracked_resting(account, place, order, price));
        if let Some(tracked) = &tracked {
            let intent = Intent {
                account: tracked.account,
                place,
                side: order.side,
                quantity: order.quantity.0,
                limit: Some(price),
                worth: Some(price),
                needs: Needs::Price(price),
                reduce_only: false,
                replaces: None,
                keeps_place: false,
            };
            self.check_resting(&intent, tracked.hold)?;
        }
        self.last_order_id += 1;
        let order_id = OrderId(self.last_order_id);
        self.emit_name(request, out);
        out.emit_inline(Event::Accepted(Accepted {
            to: self.sessions.report(request.session),
            request_id: request.id,
            order_id,
            price: Some(price),
            quantity: order.quantity,
            instrument: order.instrument,
            account: order.account,
            side: order.side,
            order_type: OrderType::Limit,
            time_in_force: order.time_in_force,
            flags: order.flags,
        }));
        let line = Order {
            price,
            leaves: order.quantity.0,
            cum: 0,
            order_id,
            client_order_id: ClientOrderId(request.id.0),
            session: request.session,
            account: order.account,
            instrument: place,
            next: Handle::NONE,
            prev: Handle::NONE,
            side: order.side,
            time_in_force: order.time_in_force,
            flag_bits: order.flags.to_byte(),
            special: true,
        };
        if let Some(tracked) = &tracked {
            self.track_resting(tracked, &line);
        }
        let plain = Extra::new(Terms::default(), OrderType::Limit, Some(price));
        let handle = self.orders.admit(&mut self.sessions, line, request.name);
        self.orders.attach(handle, Extra { standing: Standing::Displayed, tracked, ..plain });
        self.list(handle);
        self.show(handle, out);
        Ok(())
    }

    /// The price at which a new order comes to rest without trading, where nothing is wrong with it and nothing follows.
    fn rests_quietly(&self, place: u32, order: &NewOrder) -> Option<Price> {
        let instrument = self.instruments.get(place);
        let price = order.price?;
        let rests = order.order_type == OrderType::Limit
            && matches!(order.time_in_force, TimeInForce::Day | TimeInForce::GoodTillCancel)
            && is_quiet(instrument)
            && is_within(instrument, order.quantity, price)
            && !meets(instrument, order.side, price)
            && self.orders.arena.live() < self.capacities.orders
            && self.check_level(place, order.side, price, false).is_ok();
        rests.then_some(price)
    }

    /// Replaces an order as version 1 of the rules knows it, where its instrument or its session is not plain.
    #[inline(never)]
    pub(crate) fn replace_quiet<S: EventSink>(
        &mut self,
        request: &Request,
        handle: Handle,
        replace: &ReplaceOrder,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        let order = *self.orders.arena.get(handle);
        self.check_trading(order.instrument, out)?;
        let Some((price, keeps_place)) = self.replaces_quietly(handle, &order, replace) else {
            return self.replace_special(request, handle, replace, out);
        };
        let left = replace.quantity.0 - order.cum;
        self.check_replacing(request, handle)?;
        if let Some(tracked) = self.tracked(handle) {
            self.check_risk(&Intent {
                account: tracked.account,
                place: order.instrument,
                side: order.side,
                quantity: replace.quantity.0,
                limit: Some(price),
                worth: Some(price),
                needs: Needs::Price(price),
                reduce_only: order.flags().reduce_only,
                replaces: Some(handle),
                keeps_place,
            })?;
        }
        self.emit_name(request, out);
        if let Some(name) = request.name {
            self.orders.rename(handle, name);
        }
        let instrument = self.instruments.get_mut(order.instrument);
        out.emit_inline(Event::Replaced(Replaced {
            to: self.sessions.report(request.session),
            request_id: request.id,
            order_id: order.order_id,
            client_order_id: order.client_order_id,
            price: replace.price,
            quantity: replace.quantity,
            cum_quantity: Quantity(order.cum),
            instrument: instrument.definition.instrument,
            account: order.account,
            side: order.side,
            kept_place: keeps_place,
        }));
        if keeps_place {
            self.shrink(handle, order.leaves - left, out);
            return Ok(());
        }
        self.levels -= u32::from(instrument.book.unlink(&mut self.orders.arena, handle));
        self.emit_reduced(handle, order.price, order.leaves, true, out);
        let line = self.orders.arena.get_mut(handle);
        (line.price, line.leaves) = (price, left);
        if let Some(extra) = self.orders.extra_mut(handle) {
            extra.limit = Some(price);
        }
        self.renew_fees(handle);
        self.show(handle, out);
        self.retrack(handle);
        Ok(())
    }

    /// The new price of a replaced order, and whether it keeps its place, where nothing is wrong with it, it doesn't trade and
    /// nothing follows.
    fn replaces_quietly(
        &self,
        handle: Handle,
        order: &Order,
        replace: &ReplaceOrder,
    ) -> Option<(Price, bool)> {
        let instrument = self.instruments.get(order.instrument);
        let (extra, price) = (self.orders.extra(handle)?, replace.price?);
        let left = replace.quantity.0.checked_sub(order.cum).filter(|left| *left > 0)?;
        let keeps_place = Some(price) == extra.limit && left <= order.leaves;
        let rests = is_quiet(instrument)
            && is_simple(extra)
            && extra.limit.is_some()
            && is_within(instrument, replace.quantity, price)
            // The level that it leaves may be the room, which the general way looks into.
            && (keeps_place
                || !meets(instrument, order.side, price) && self.levels < self.capacities.levels);
        rests.then_some((price, keeps_place))
    }

    /// Cancels a special order on the short way, if it can be.
    pub(crate) fn cancel_quietly<S: EventSink>(
        &mut self,
        handle: Handle,
        reason: CancelReason,
        request_id: RequestId,
        out: &mut Outbox<'_, S>,
    ) -> bool {
        let order = *self.orders.arena.get(handle);
        let instrument = self.instruments.get_mut(order.instrument);
        let is_simple = self.orders.extra(handle).is_some_and(is_simple);
        // An order of which nothing is shown any more is about to be filled.
        if !is_simple || !is_quiet(instrument) || self.groups.has_children() || order.leaves == 0 {
            return false;
        }
        self.levels -= u32::from(instrument.book.unlink(&mut self.orders.arena, handle));
        out.emit_inline(Event::Canceled(Canceled {
            to: self.sessions.report(order.session),
            request_id,
            order_id: order.order_id,
            client_order_id: order.client_order_id,
            resting_price: Some(order.price),
            canceled_quantity: Quantity(order.leaves),
            cum_quantity: Quantity(order.cum),
            instrument: instrument.definition.instrument,
            account: order.account,
            side: order.side,
            reason,
        }));
        self.untrack(handle);
        self.forget_special(handle);
        true
    }
}

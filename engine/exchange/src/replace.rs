//! Replaces on the general path: new terms for an order of any kind, in its place where it can keep it.

use protocol::{
    CancelReason, Event, OrderType, Price, Quantity, RejectReason, ReplaceOrder, Replaced, RequestId,
};

use crate::arena::{Handle, Order};
use crate::course::Incoming;
use crate::exchange::{Exchange, Request};
use crate::extras::{Extra, Standing, Wait};
use crate::options;
use crate::outbox::{EventSink, Outbox};
use crate::risk::{Intent, Needs};
use crate::waiting::at;

/// What a replaced order is to be.
struct Terms {
    price: Option<Price>,
    total: u64,
    stop_price: Option<Price>,
    display: Option<Quantity>,
    keeps_place: bool,
}

impl Exchange {
    /// Replaces an order where it, its instrument, its session or the request is not plain.
    #[inline(never)]
    pub(crate) fn replace_special<S: EventSink>(
        &mut self,
        request: &Request,
        handle: Handle,
        replace: &ReplaceOrder,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        let order = *self.orders.arena.get(handle);
        self.check_trading(order.instrument, out)?;
        let extra = self.orders.extra(handle).copied().unwrap_or_else(|| {
            let plain = Extra::new(protocol::Terms::default(), OrderType::Limit, Some(order.price));
            Extra { standing: Standing::Displayed, ..plain }
        });
        let conflict = extra.limit.is_some() != replace.price.is_some()
            || (replace.stop_price.is_some() && extra.stop_price.is_none())
            || (replace.display.is_some() && extra.terms.display().is_none())
            || extra.quote;
        if conflict {
            return Err(RejectReason::OptionsConflict);
        }
        self.check_replacing(request, handle)?;
        self.check_replaced_grid(&order, &extra, replace)?;
        let total = replace.quantity.0;
        if total < order.cum {
            return Err(RejectReason::TooLate);
        }
        if total == order.cum {
            self.finish_canceled(handle, CancelReason::ReplacedToExecuted, request.id, out);
            return Ok(());
        }
        let shows_more = replace.display.is_some_and(|display| Some(display) > extra.terms.display());
        let waits = matches!(extra.standing, Standing::Waiting(_));
        let same_price = replace.price == extra.limit;
        let no_more = total - order.cum <= self.orders.open_quantity(handle);
        let terms = Terms {
            price: replace.price,
            total,
            stop_price: replace.stop_price,
            display: replace.display,
            keeps_place: waits || (same_price && no_more && !shows_more),
        };
        self.check_replaced(handle, &order, &extra, &terms)?;
        self.emit_name(request, out);
        if let Some(name) = request.name {
            self.orders.rename(handle, name);
        }
        out.emit(Event::Replaced(Replaced {
            to: self.sessions.report(request.session),
            request_id: request.id,
            order_id: order.order_id,
            client_order_id: order.client_order_id,
            price: replace.price,
            quantity: replace.quantity,
            cum_quantity: Quantity(order.cum),
            instrument: self.instruments.get(order.instrument).definition.instrument,
            account: order.account,
            side: order.side,
            kept_place: terms.keeps_place,
        }));
        self.apply_replace(handle, &extra, &terms, request.id, out);
        Ok(())
    }

    fn check_replaced_grid(
        &self,
        order: &Order,
        extra: &Extra,
        replace: &ReplaceOrder,
    ) -> Result<(), RejectReason> {
        let instrument = self.instruments.get(order.instrument);
        instrument.check_quantity(replace.quantity)?;
        for price in [replace.price, replace.stop_price].into_iter().flatten() {
            instrument.check_price(price)?;
        }
        if let Some(display) = replace.display {
            let lot = instrument.definition.lot_size.0;
            let high = extra.terms.display_high();
            options::check_display(lot, replace.quantity, display, high)?;
        } else if let Some(display) = extra.terms.display() {
            options::check_parts(replace.quantity, display)?;
        }
        Ok(())
    }

    fn check_replaced(
        &self,
        handle: Handle,
        order: &Order,
        extra: &Extra,
        terms: &Terms,
    ) -> Result<(), RejectReason> {
        let place = order.instrument;
        let instrument = self.instruments.get(place);
        let opposite = self.best_prices(place)[at(order.side.opposite())];
        let worth = match extra.order_type {
            OrderType::Limit | OrderType::Pegged => terms.price,
            _ => terms.price.or(terms.stop_price).or(extra.terms.stop_price()).or(opposite),
        };
        options::check_notional(instrument, Quantity(terms.total), worth)?;
        let enters = !terms.keeps_place && self.is_continuous(place);
        let incoming = Incoming {
            side: order.side,
            limit: terms.price,
            quantity: terms.total - order.cum,
            self_trade: self.self_trade_of(handle),
            session: order.session,
        };
        if enters && order.flags().post_only {
            self.check_passive(place, order.side, terms.price)?;
        }
        if let Some(tracked) = extra.tracked {
            let needs = match (terms.price, extra.terms.peg()) {
                (Some(price), _) => Needs::Price(price),
                (None, Some(_)) => Needs::Highest,
                (None, None) => self
                    .auction_price(place, order.side, order.time_in_force)
                    .map_or(Needs::Nothing, Needs::Price),
            };
            self.check_risk(&Intent {
                account: tracked.account,
                place,
                side: order.side,
                quantity: terms.total,
                limit: terms.price,
                worth,
                needs,
                reduce_only: order.flags().reduce_only,
                replaces: Some(handle),
                keeps_place: terms.keeps_place,
            })?;
        }
        let Some(price) = terms.price.filter(|_| !terms.keeps_place && extra.terms.peg().is_none()) else {
            return Ok(());
        };
        // The level that it leaves may be the room.
        let alone = order.prev.is_none() && order.next.is_none();
        let levels = self.levels - u32::from(alone);
        let least = extra.minimum.map_or(1, |minimum| minimum.0.min(incoming.quantity));
        if levels < self.capacities.levels || (enters && self.dry_run(place, &incoming).quantity >= least) {
            return Ok(());
        }
        let hidden = order.flags().hidden || extra.minimum.is_some();
        let stays = alone && price == order.price && hidden == (extra.standing == Standing::Hidden);
        if stays { Err(RejectReason::LevelsFull) } else { self.check_level(place, order.side, price, hidden) }
    }

    fn apply_replace<S: EventSink>(
        &mut self,
        handle: Handle,
        extra: &Extra,
        terms: &Terms,
        request_id: RequestId,
        out: &mut Outbox<'_, S>,
    ) {
        let order = *self.orders.arena.get(handle);
        let place = order.instrument;
        self.touch(place);
        let left = terms.total - order.cum;
        let waits = match extra.standing {
            Standing::Waiting(wait) => Some(wait),
            _ => None,
        };
        if terms.keeps_place && waits.is_none() {
            let quantity = self.orders.open_quantity(handle) - left;
            self.shrink(handle, quantity, out);
        } else {
            if !order.special {
                let plain = Extra { limit: terms.price, ..*extra };
                self.orders.attach(handle, plain);
                self.list(handle);
            }
            self.withdraw(handle, out);
            self.orders.arena.get_mut(handle).leaves = left;
        }
        if let Some(kept) = self.orders.extra_mut(handle) {
            kept.limit = terms.price;
            kept.minimum = kept.minimum.map(|minimum| minimum.min(Quantity(left)));
            kept.stop_price = terms.stop_price.or(kept.stop_price);
            if terms.display.is_some() {
                kept.terms = kept.terms.with_display(terms.display);
            }
        }
        match waits {
            // It may be triggered by now.
            Some(Wait::Stop) => self.enter(handle, request_id, out),
            Some(wait) => {
                self.wait(handle, wait);
                self.forget_look(place);
            }
            None if !terms.keeps_place => {
                self.renew_fees(handle);
                self.enter(handle, request_id, out);
            }
            None => {}
        }
    }
}

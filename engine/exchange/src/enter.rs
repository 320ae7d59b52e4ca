//! An accepted order enters: it begins to wait, rests in a call, or trades with the book and then rests or ends. New orders come
//! this way, and so does whatever comes in again or later: replaced orders, triggered stops, pegs, children, at-the-close.

use protocol::{
    BandAction, CancelReason, Event, ExpireReason, OrderType, Phase, Price, Quantity, RequestId,
    RestateReason, Restated, TimeInForce,
};

use crate::arena::Handle;
use crate::book;
use crate::course::Incoming;
use crate::exchange::Exchange;
use crate::extras::{Standing, Wait};
use crate::options;
use crate::outbox::{EventSink, Outbox};
use crate::sweep::Swept;
use crate::waiting::at;

impl Exchange {
    /// Lets an order that is in no book enter. A request id of 0: nobody asked for it just now.
    pub(crate) fn enter<S: EventSink>(
        &mut self,
        handle: Handle,
        request_id: RequestId,
        out: &mut Outbox<'_, S>,
    ) {
        let order = *self.orders.arena.get(handle);
        let Some(extra) = self.orders.extra(handle).copied() else { return };
        let place = order.instrument;
        self.touch(place);
        let phase = self.instruments.get(place).phase;
        if extra.stop_price.is_some() {
            if !self.is_continuous(place) || !self.is_triggered(handle) {
                return self.wait(handle, Wait::Stop);
            }
            self.tell_trigger(handle, out);
        }
        if order.time_in_force == TimeInForce::AtTheClose && phase != Phase::ClosingAuction {
            return self.wait(handle, Wait::Close);
        }
        if self.is_call(place) {
            return self.enter_call(handle, extra.limit, out);
        }
        match extra.terms.peg() {
            Some(peg) => {
                let best = self.best_prices(place);
                match self.peg_price(place, order.side, peg, extra.limit, best) {
                    None => self.wait(handle, Wait::Peg),
                    price => self.enter_priced(handle, price, request_id, out),
                }
            }
            None => self.enter_unpegged(handle, request_id, out),
        }
    }

    /// An order that may have to find its limit, and be paid for, before it trades.
    fn enter_unpegged<S: EventSink>(
        &mut self,
        handle: Handle,
        request_id: RequestId,
        out: &mut Outbox<'_, S>,
    ) {
        let order = *self.orders.arena.get(handle);
        let Some(extra) = self.orders.extra(handle).copied() else { return };
        let place = order.instrument;
        let limit = match (extra.limit, extra.order_type) {
            (None, OrderType::MarketToLimit | OrderType::MarketProtected) => {
                let limit = self.derived_limit(place, extra.order_type, order.side);
                if limit.is_none() {
                    return self.finish_expired(handle, ExpireReason::NoLiquidity, request_id, out);
                }
                limit
            }
            (limit, _) => limit,
        };
        let terms = &extra.terms;
        let waited = terms.stop_price().is_some() || terms.trail().is_some() || terms.parent().is_some();
        if waited && extra.limit.is_none() && extra.tracked.is_some() {
            let (cost, quantity) = match limit {
                Some(limit) => (i128::from(limit.0) * i128::from(order.leaves), order.leaves),
                None => {
                    let run = self.dry_run(place, &self.incoming_of(handle, None));
                    (run.cost, run.quantity)
                }
            };
            if !self.can_pay(handle, cost, quantity) {
                return self.finish_canceled(handle, CancelReason::InsufficientFunds, request_id, out);
            }
        }
        self.enter_priced(handle, limit, request_id, out);
    }

    /// A live order that is in no book, as others meet it.
    pub(crate) fn incoming_of(&self, handle: Handle, limit: Option<Price>) -> Incoming {
        let order = self.orders.arena.get(handle);
        let self_trade = self.self_trade_of(handle);
        Incoming { side: order.side, limit, quantity: order.leaves, self_trade, session: order.session }
    }

    /// Trades an order within a limit, and then rests it there or ends it.
    pub(crate) fn enter_priced<S: EventSink>(
        &mut self,
        handle: Handle,
        limit: Option<Price>,
        request_id: RequestId,
        out: &mut Outbox<'_, S>,
    ) {
        let order = *self.orders.arena.get(handle);
        let Some(extra) = self.orders.extra(handle).copied() else { return };
        let kills = order.time_in_force == TimeInForce::FillOrKill;
        if kills || extra.minimum.is_some() {
            let met = self.dry_run(order.instrument, &self.incoming_of(handle, limit)).quantity;
            if kills && met < order.leaves {
                return self.finish_expired(handle, ExpireReason::FillOrKill, request_id, out);
            }
            if extra.minimum.is_some_and(|minimum| met < minimum.0.min(order.leaves)) {
                return match limit {
                    Some(price) if options::may_rest(order.time_in_force) => self.rest_at(handle, price, out),
                    _ => self.finish_expired(handle, ExpireReason::MinimumQuantity, request_id, out),
                };
            }
            if let Some(extra) = self.orders.extra_mut(handle) {
                extra.minimum = None;
            }
        }
        match self.sweep_special(handle, limit, request_id, out) {
            Swept::Gone => {}
            Swept::Band(BandAction::Auction) if self.is_call(order.instrument) => {
                let rests = options::may_rest(order.time_in_force);
                if rests && (limit.is_some() || extra.terms.peg().is_some()) {
                    return self.enter_call(handle, limit, out);
                }
                self.finish_expired(handle, ExpireReason::PriceBand, request_id, out);
            }
            Swept::Band(_) => self.finish_expired(handle, ExpireReason::PriceBand, request_id, out),
            Swept::Left => match (limit, order.time_in_force) {
                (None, _) => self.finish_expired(handle, ExpireReason::NoLiquidity, request_id, out),
                (Some(_), TimeInForce::ImmediateOrCancel) => {
                    self.finish_expired(handle, ExpireReason::ImmediateOrCancel, request_id, out);
                }
                (Some(_), TimeInForce::FillOrKill) => {
                    self.finish_expired(handle, ExpireReason::FillOrKill, request_id, out);
                }
                (Some(price), _) => self.rest_at(handle, price, out),
            },
        }
    }

    /// Rests an order in a call, where nothing trades yet.
    fn enter_call<S: EventSink>(&mut self, handle: Handle, limit: Option<Price>, out: &mut Outbox<'_, S>) {
        let order = *self.orders.arena.get(handle);
        if self.orders.extra(handle).is_some_and(|extra| extra.terms.peg().is_some()) {
            return self.wait(handle, Wait::Peg);
        }
        let price = limit.unwrap_or_else(|| self.furthest(order.instrument, order.side));
        self.rest_at(handle, price, out);
    }

    /// Puts an order into its queue, and says at which price where nobody could know.
    fn rest_at<S: EventSink>(&mut self, handle: Handle, price: Price, out: &mut Outbox<'_, S>) {
        let order = *self.orders.arena.get(handle);
        let Some(extra) = self.orders.extra(handle).copied() else { return };
        let pegged = extra.terms.peg().is_some();
        self.orders.arena.get_mut(handle).price = price;
        if extra.limit.is_none() && !pegged {
            self.restate(handle, (Some(price), order.leaves), RestateReason::Priced, out);
            if extra.order_type != OrderType::Market
                && let Some(extra) = self.orders.extra_mut(handle)
            {
                extra.limit = Some(price);
            }
        }
        if order.flags().hidden || pegged || extra.minimum.is_some() {
            self.hide(handle);
        } else {
            let shown = extra.terms.display().map_or(order.leaves, |display| display.0.min(order.leaves));
            self.orders.arena.get_mut(handle).leaves = shown;
            if let Some(extra) = self.orders.extra_mut(handle) {
                extra.reserve = order.leaves - shown;
            }
            self.show(handle, out);
        }
        self.retrack(handle);
    }

    /// Puts an order that is in no book at the end of its hidden queue.
    fn hide(&mut self, handle: Handle) {
        let order = *self.orders.arena.get(handle);
        let special = self.instruments.get_mut(order.instrument).special_mut();
        let ladder = &mut special.hidden[at(order.side)];
        self.levels += u32::from(book::append(ladder, &mut self.orders.arena, handle));
        if let Some(extra) = self.orders.extra_mut(handle) {
            extra.standing = Standing::Hidden;
        }
        self.sum_in(handle);
    }

    /// Tells an order's owner what it is like now, for a reason that nobody asked for.
    pub(crate) fn restate<S: EventSink>(
        &mut self,
        handle: Handle,
        (price, leaves): (Option<Price>, u64),
        reason: RestateReason,
        out: &mut Outbox<'_, S>,
    ) {
        let order = self.orders.arena.get(handle);
        out.emit(Event::Restated(Restated {
            to: self.sessions.report(order.session),
            order_id: order.order_id,
            client_order_id: order.client_order_id,
            price,
            leaves_quantity: Quantity(leaves),
            cum_quantity: Quantity(order.cum),
            instrument: self.instruments.get(order.instrument).definition.instrument,
            account: order.account,
            side: order.side,
            reason,
        }));
    }

    /// The price of an order as its status tells it: where it rests, else its limit.
    pub(crate) fn price_now(&self, handle: Handle) -> Option<Price> {
        let order = self.orders.arena.get(handle);
        match self.orders.extra(handle) {
            None => Some(order.price),
            Some(extra) => match extra.standing {
                Standing::Displayed | Standing::Hidden => Some(order.price),
                Standing::Entering | Standing::Waiting(_) => extra.limit,
            },
        }
    }

    /// The price of an order as its owner is told it unasked: that of a peg is its limit, wherever it rests.
    pub(crate) fn told_price(&self, handle: Handle) -> Option<Price> {
        match self.orders.extra(handle) {
            Some(extra) if extra.terms.peg().is_some() => extra.limit,
            _ => self.price_now(handle),
        }
    }

    /// Takes quantity out of what is open of an order that keeps its place: the reserve first.
    pub(crate) fn shrink<S: EventSink>(&mut self, handle: Handle, quantity: u64, out: &mut Outbox<'_, S>) {
        if self.is_in_book(handle) {
            self.sum_out(handle, quantity);
        }
        let mut shown = quantity;
        let mut displayed = !self.orders.arena.get(handle).special;
        if let Some(extra) = self.orders.extra_mut(handle) {
            let reserve = extra.reserve.min(quantity);
            extra.reserve -= reserve;
            shown -= reserve;
            displayed = extra.standing == Standing::Displayed;
        }
        let order = self.orders.arena.get_mut(handle);
        order.leaves -= shown;
        let price = order.price;
        if displayed && shown > 0 {
            self.emit_reduced(handle, price, shown, false, out);
        }
        self.retrack(handle);
    }
}

//! Orders that leave without a trade: canceled one by one or many at a time, or expired with the trading day; and the
//! question what state an order is in.
//!
//! Where many orders of a session leave at once, the oldest goes first: in the order of their order ids.

use protocol::{
    CancelOrder, CancelReason, Canceled, Event, ExpireReason, InstrumentId, MassCancel, MassCanceled,
    OrdStatus, OrderStatusReport, OrderStatusRequest, Quantity, RejectReason, RequestId, Side, TimeInForce,
};

use crate::arena::{Handle, Order};
use crate::exchange::{Exchange, Request};
use crate::extras::Standing;
use crate::options;
use crate::outbox::{EventSink, Outbox};

impl Exchange {
    #[inline(always)]
    pub(crate) fn cancel_order<S: EventSink>(
        &mut self,
        request: &Request,
        cancel: &CancelOrder,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        self.check_cancel_budget(request.session)?;
        let handle = self.orders.find(request.session, &cancel.order).ok_or(RejectReason::UnknownOrder)?;
        let side = self.orders.arena.get(handle).side;
        if cancel.side.is_some_and(|given| given != side) {
            return Err(RejectReason::SideMismatch);
        }
        self.cancel(handle, CancelReason::Requested, request.id, out);
        Ok(())
    }

    pub(crate) fn order_status<S: EventSink>(
        &mut self,
        request: &Request,
        status: &OrderStatusRequest,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        let handle = self.orders.find(request.session, &status.order).ok_or(RejectReason::UnknownOrder)?;
        let order = self.orders.arena.get(handle);
        let (price, leaves) = (self.price_now(handle), self.orders.open_quantity(handle));
        let extra = self.orders.extra(handle);
        let waits = extra.is_some_and(|extra| matches!(extra.standing, Standing::Waiting(_)));
        out.emit(Event::OrderStatus(OrderStatusReport {
            to: self.sessions.report(request.session),
            request_id: request.id,
            order_id: order.order_id,
            client_order_id: order.client_order_id,
            price,
            stop_price: extra.and_then(|extra| extra.stop_price),
            leaves_quantity: Quantity(leaves),
            cum_quantity: Quantity(order.cum),
            instrument: self.instruments.get(order.instrument).definition.instrument,
            account: order.account,
            side: order.side,
            status: match (waits, order.cum) {
                (true, _) => OrdStatus::Waiting,
                (false, 0) => OrdStatus::New,
                (false, _) => OrdStatus::PartiallyFilled,
            },
        }));
        Ok(())
    }

    /// Cancels a session's orders within a scope. Another session's are an operator's to cancel, and its owner then
    /// hears of it as of something that it did not ask for.
    pub(crate) fn mass_cancel<S: EventSink>(
        &mut self,
        request: &Request,
        cancel: &MassCancel,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        let sender = self.sessions.get(request.session);
        let own = cancel.session == sender.id;
        if !own && !sender.is_operator() {
            return Err(RejectReason::NotAuthorized);
        }
        self.check_cancel_budget(request.session)?;
        let session = self.sessions.place(cancel.session).ok_or(RejectReason::UnknownUser)?;
        let instrument = match cancel.instrument {
            None => None,
            Some(id) => Some(self.instruments.place(id).ok_or(RejectReason::UnknownInstrument)?),
        };
        let (reason, request_id) =
            if own { (CancelReason::MassCancel, request.id) } else { (CancelReason::Operator, RequestId(0)) };
        let orders = self.cancel_many(session, (instrument, cancel.side), reason, request_id, out);
        self.follow(out);
        out.emit(Event::MassCanceled(MassCanceled {
            to: self.sessions.report(request.session),
            request_id: request.id,
            orders,
        }));
        Ok(())
    }

    /// Cancels what a session has resting, after the loss of its connection.
    pub(crate) fn cancel_disconnected<S: EventSink>(&mut self, session: u32, out: &mut Outbox<'_, S>) {
        self.cancel_many(session, (None, None), CancelReason::Disconnected, RequestId(0), out);
    }

    fn cancel_many<S: EventSink>(
        &mut self,
        session: u32,
        (instrument, side): (Option<u32>, Option<Side>),
        reason: CancelReason,
        request_id: RequestId,
        out: &mut Outbox<'_, S>,
    ) -> u64 {
        let mut canceled = 0;
        let mut handle = self.sessions.get(session).oldest;
        while handle.is_some() {
            let younger = self.orders.arena.links(handle).younger;
            let order = self.orders.arena.get(handle);
            if instrument.is_none_or(|place| place == order.instrument)
                && side.is_none_or(|side| side == order.side)
            {
                self.cancel(handle, reason, request_id, out);
                canceled += 1;
            }
            handle = younger;
        }
        canceled
    }

    #[inline(always)]
    pub(crate) fn cancel<S: EventSink>(
        &mut self,
        handle: Handle,
        reason: CancelReason,
        request_id: RequestId,
        out: &mut Outbox<'_, S>,
    ) {
        if self.is_special(handle) {
            return self.finish_canceled(handle, reason, request_id, out);
        }
        let (order, instrument) = self.remove(handle);
        out.emit_inline(Event::Canceled(Canceled {
            to: self.sessions.report(order.session),
            request_id,
            order_id: order.order_id,
            client_order_id: order.client_order_id,
            resting_price: Some(order.price),
            canceled_quantity: Quantity(order.leaves),
            cum_quantity: Quantity(order.cum),
            instrument,
            account: order.account,
            side: order.side,
            reason,
        }));
    }

    /// Expires a session's Day orders, and those of auctions.
    pub(crate) fn expire_day_orders<S: EventSink>(&mut self, session: u32, out: &mut Outbox<'_, S>) {
        let mut handle = self.sessions.get(session).oldest;
        while handle.is_some() {
            let younger = self.orders.arena.links(handle).younger;
            let time_in_force = self.orders.arena.get(handle).time_in_force;
            if time_in_force == TimeInForce::Day || options::is_for_auction(time_in_force) {
                self.finish_expired(handle, ExpireReason::EndOfDay, RequestId(0), out);
            }
            handle = younger;
        }
    }

    /// Whether an order, or its instrument, has something that the plain path knows nothing of.
    #[inline(always)]
    fn is_special(&self, handle: Handle) -> bool {
        self.instruments.get(self.orders.arena.get(handle).instrument).special.is_some()
    }

    /// Takes a resting order out of everything.
    #[inline(always)]
    fn remove(&mut self, handle: Handle) -> (Order, InstrumentId) {
        let order = *self.orders.arena.get(handle);
        let instrument = self.instruments.get_mut(order.instrument);
        self.levels -= u32::from(instrument.book.unlink(&mut self.orders.arena, handle));
        self.orders.retire(&mut self.sessions, handle);
        (order, instrument.definition.instrument)
    }
}

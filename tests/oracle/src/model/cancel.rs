//! Cancels, mass cancels and questions about orders: rules 4 to 6, 32, 38, 39, 56.

use protocol::{
    CancelOrder, CancelReason, Command, Event, MassCancel, MassCanceled, OrderId, OrderKey,
    OrderStatusReport, OrderStatusRequest, RejectReason, SessionId,
};

use super::order::Order;
use super::{Oracle, UNASKED};

impl Oracle {
    /// Rule 4.
    pub(super) fn find(&self, session: SessionId, key: &OrderKey) -> Result<Order, RejectReason> {
        let id = match key {
            OrderKey::Id(id) => self.owned.get(&(session, *id)),
            OrderKey::Text(text) => self.current_texts.get(&(session, *text)),
        };
        id.map(|id| *self.order(*id)).ok_or(RejectReason::UnknownOrder)
    }

    pub(super) fn cancel_order(
        &mut self,
        command: &Command,
        cancel: &CancelOrder,
    ) -> Result<(), RejectReason> {
        self.throttle(command, 0, 1)?;
        let order = self.find(command.session, &cancel.order)?;
        if cancel.side.is_some_and(|side| side != order.side) {
            return Err(RejectReason::SideMismatch);
        }
        self.cancel(order.order_id, CancelReason::Requested, command.request_id);
        self.follow();
        Ok(())
    }

    /// Rule 38.
    pub(super) fn mass_cancel(&mut self, command: &Command, cancel: &MassCancel) -> Result<(), RejectReason> {
        let own = cancel.session == command.session;
        if !own && !self.is_operator(command.session) {
            return Err(RejectReason::NotAuthorized);
        }
        self.throttle(command, 0, 1)?;
        if !self.sessions.contains_key(&cancel.session) {
            return Err(RejectReason::UnknownUser);
        }
        if cancel.instrument.is_some_and(|id| !self.instruments.contains_key(&id)) {
            return Err(RejectReason::UnknownInstrument);
        }
        let meant: Vec<OrderId> = self
            .orders
            .values()
            .filter(|order| order.session == cancel.session)
            .filter(|order| cancel.instrument.is_none_or(|id| id == order.instrument))
            .filter(|order| cancel.side.is_none_or(|side| side == order.side))
            .map(|order| order.order_id)
            .collect();
        for id in &meant {
            if own {
                self.cancel(*id, CancelReason::MassCancel, command.request_id);
            } else {
                self.cancel(*id, CancelReason::Operator, UNASKED);
            }
        }
        self.follow();
        self.report(command.session, |to| {
            Event::MassCanceled(MassCanceled {
                to,
                request_id: command.request_id,
                orders: meant.len() as u64,
            })
        });
        Ok(())
    }

    /// Rule 39.
    pub(super) fn order_status(
        &mut self,
        command: &Command,
        status: &OrderStatusRequest,
    ) -> Result<(), RejectReason> {
        let order = self.find(command.session, &status.order)?;
        self.report(command.session, |to| {
            Event::OrderStatus(OrderStatusReport {
                to,
                request_id: command.request_id,
                order_id: order.order_id,
                client_order_id: order.client_order_id,
                price: order.price(),
                stop_price: order.stop_price,
                leaves_quantity: order.open().into(),
                cum_quantity: order.cum.into(),
                instrument: order.instrument,
                account: order.account,
                side: order.side,
                status: order.status(),
            })
        });
        Ok(())
    }

    /// A session's live orders, oldest first.
    pub(super) fn orders_of_session(&self, session: SessionId) -> Vec<OrderId> {
        let orders = self.orders.values().filter(|order| order.session == session);
        orders.map(|order| order.order_id).collect()
    }

    /// Rule 56.
    pub(super) fn cancel_disconnected(&mut self, session: SessionId) {
        for id in self.orders_of_session(session) {
            self.cancel(id, CancelReason::Disconnected, UNASKED);
        }
    }
}

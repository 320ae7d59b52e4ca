//! What the owners of orders hear, and how orders end.

use protocol::{
    Accepted, CancelReason, Canceled, Command, Event, ExpireReason, Expired, NewOrder, OrderId, Price,
    RequestId, RestateReason, Restated, Triggered,
};

use super::Oracle;
use super::order::{Order, Parent};

impl Oracle {
    pub(super) fn report_accepted(&mut self, command: &Command, id: OrderId, new: &NewOrder) {
        let order = *self.order(id);
        self.name_report(command.session, new.cl_ord_id);
        self.report(order.session, |to| {
            Event::Accepted(Accepted {
                to,
                request_id: RequestId(order.client_order_id.0),
                order_id: id,
                price: new.price,
                quantity: new.quantity,
                instrument: new.instrument,
                account: new.account,
                side: new.side,
                order_type: new.order_type,
                time_in_force: new.time_in_force,
                flags: new.flags,
            })
        });
    }

    pub(super) fn report_restated(&mut self, id: OrderId, price: Option<Price>, reason: RestateReason) {
        let order = *self.order(id);
        self.report(order.session, |to| {
            Event::Restated(Restated {
                to,
                order_id: id,
                client_order_id: order.client_order_id,
                price,
                leaves_quantity: order.open().into(),
                cum_quantity: order.cum.into(),
                instrument: order.instrument,
                account: order.account,
                side: order.side,
                reason,
            })
        });
    }

    pub(super) fn report_triggered(&mut self, id: OrderId, stop_price: Price) {
        let order = *self.order(id);
        self.report(order.session, |to| {
            Event::Triggered(Triggered {
                to,
                order_id: id,
                client_order_id: order.client_order_id,
                stop_price,
                price: order.limit,
                leaves_quantity: order.open().into(),
                instrument: order.instrument,
                account: order.account,
                side: order.side,
            })
        });
    }

    /// Takes an order out of the book for good. The price at which it was shown, where the report that follows says what
    /// leaves the depth; of an iceberg a `Reduced` does (rule 21).
    fn leave(&mut self, id: OrderId) -> Option<Price> {
        let order = *self.order(id);
        if order.terms.display().is_some() {
            self.withdraw(id);
            return None;
        }
        self.take_out(id);
        if order.is_displayed() { order.price() } else { None }
    }

    pub(super) fn cancel(&mut self, id: OrderId, reason: CancelReason, request_id: RequestId) {
        if !self.orders.contains_key(&id) {
            return;
        }
        let resting_price = self.leave(id);
        let order = *self.order(id);
        self.report(order.session, |to| {
            Event::Canceled(Canceled {
                to,
                request_id,
                order_id: id,
                client_order_id: order.client_order_id,
                resting_price,
                canceled_quantity: order.open().into(),
                cum_quantity: order.cum.into(),
                instrument: order.instrument,
                account: order.account,
                side: order.side,
                reason,
            })
        });
        if reason != CancelReason::Group {
            self.touch_group(&order);
        }
        self.retire(id);
    }

    pub(super) fn expire(&mut self, id: OrderId, reason: ExpireReason, request_id: RequestId) {
        let resting_price = self.leave(id);
        let order = *self.order(id);
        self.report(order.session, |to| {
            Event::Expired(Expired {
                to,
                request_id,
                order_id: id,
                client_order_id: order.client_order_id,
                resting_price,
                expired_quantity: order.open().into(),
                cum_quantity: order.cum.into(),
                instrument: order.instrument,
                account: order.account,
                side: order.side,
                reason,
            })
        });
        self.touch_group(&order);
        self.retire(id);
    }

    /// An order is done. Its children learn how (rule 45).
    pub(super) fn retire(&mut self, id: OrderId) {
        self.take_out(id);
        let Some(order) = self.orders.remove(&id) else { return };
        self.owned.remove(&(order.session, order.client_order_id));
        self.dated.remove(&id);
        self.reducing.remove(&id);
        if let Some(text) = order.text {
            self.current_texts.remove(&(order.session, text));
        }
        let end = Parent::Done { executed: order.cum, filled: order.open() == 0 };
        let from = (order.instrument, id)..=(order.instrument, OrderId(u64::MAX));
        for (_, child) in self.followed.range(from) {
            if let Some(child) = self.orders.get_mut(child)
                && child.parent == Some(Parent::Lives(id))
            {
                child.parent = Some(end);
            }
        }
    }

    /// Rule 44: the order traded or ended.
    pub(super) fn touch_group(&mut self, order: &Order) {
        if let Some(group) = order.terms.oco()
            && !order.is_child()
        {
            self.touched_groups.push((order.session, group, order.order_id));
        }
    }
}

//! Replaces: rules 33 to 37.

use protocol::{
    CancelReason, Command, Event, OrderType, Price, RejectReason, ReplaceOrder, Replaced, RequestId,
};

use super::check::{check_display, check_parts};
use super::money::Supposed;
use super::order::{Order, Standing, Why};
use super::{Fault, Oracle};

impl Oracle {
    pub(super) fn replace_order(
        &mut self,
        command: &Command,
        replace: &ReplaceOrder,
    ) -> Result<(), RejectReason> {
        let is_plain = replace.price.is_some() && replace.stop_price.is_none() && replace.display.is_none();
        if self.rulebook < 2 && !is_plain {
            return Err(RejectReason::OptionNotOffered);
        }
        let order = self.find(command.session, &replace.order)?;
        if replace.side.is_some_and(|side| side != order.side) {
            return Err(RejectReason::SideMismatch);
        }
        self.check_phase(order.instrument)?;
        self.check_fits(&order, replace)?;
        self.throttle(command, 1, 0)?;
        self.check_killed(order.tracked.map(|_| order.account))?;
        self.check_new_values(&order, replace)?;
        if replace.quantity.0 < order.cum {
            return Err(RejectReason::TooLate);
        }
        if replace.quantity.0 == order.cum {
            self.cancel(order.order_id, CancelReason::ReplacedToExecuted, command.request_id);
            self.follow();
            return Ok(());
        }
        let keeps = self.keeps_place(&order, replace);
        let changed = self.changed(&order, replace, keeps);
        self.check_changed(&order, &changed, keeps)?;
        self.name_report(command.session, replace.cl_ord_id);
        if let Some(text) = replace.cl_ord_id {
            self.name_order(order.order_id, text);
        }
        self.report_replaced(command, replace, &order, keeps);
        self.put_changed(&order, changed, keeps, command.request_id);
        self.follow();
        Ok(())
    }

    /// Options that the order has no place for.
    fn check_fits(&self, order: &Order, replace: &ReplaceOrder) -> Result<(), RejectReason> {
        let waits_for_trigger = matches!(order.standing, Standing::Waiting(Why::Stop | Why::Parent))
            && order.stop_price.is_some();
        let fits = order.limit.is_some() == replace.price.is_some()
            && (replace.stop_price.is_none() || waits_for_trigger)
            && (replace.display.is_none() || order.terms.display().is_some())
            && !order.quote;
        if fits { Ok(()) } else { Err(RejectReason::OptionsConflict) }
    }

    fn check_new_values(&self, order: &Order, replace: &ReplaceOrder) -> Result<(), RejectReason> {
        let it = &self.instruments[&order.instrument];
        it.check_quantity(replace.quantity)?;
        for price in [replace.price, replace.stop_price].into_iter().flatten() {
            it.check_price(price)?;
        }
        match (replace.display, order.terms.display()) {
            (None, Some(display)) => check_parts(replace.quantity, display),
            (display, _) => check_display(it, display, order.terms.display_high(), replace.quantity),
        }
    }

    /// Rule 35.
    fn keeps_place(&self, order: &Order, replace: &ReplaceOrder) -> bool {
        let larger = replace.quantity.0 > order.total && !self.is_faulty(Fault::LargerReplaceKeepsPlace);
        let shows_more = replace.display > order.terms.display() && replace.display.is_some();
        order.is_waiting() || replace.price == order.limit && !larger && !shows_more
    }

    /// The order with its new values.
    fn changed(&self, order: &Order, replace: &ReplaceOrder, keeps: bool) -> Order {
        let mut changed = *order;
        changed.limit = replace.price;
        changed.total = replace.quantity.0;
        changed.minimum = order.minimum.map(|minimum| minimum.min(changed.open()));
        if let Some(stop_price) = replace.stop_price {
            (changed.stop_price, changed.stop_given) = (Some(stop_price), Some(stop_price));
        }
        if replace.display.is_some() {
            changed.terms = changed.terms.with_display(replace.display);
        }
        if !keeps {
            changed.standing = Standing::Entering;
            changed.shown = 0;
            changed.tracked = order.tracked.map(|_| self.accounts.fees_of(order.instrument, order.account));
        }
        changed
    }

    /// What comes behind `too_late` in rule 33.
    fn check_changed(&self, order: &Order, changed: &Order, keeps: bool) -> Result<(), RejectReason> {
        self.check_notional(changed)?;
        if !keeps {
            let mut post_only = *changed;
            post_only.flags.slide = false;
            self.check_post_only(&mut post_only)?;
        }
        if order.tracked.is_some() {
            self.check_risk(changed, Some(order), &Supposed::default())?;
        }
        if keeps || changed.terms.peg().is_some() {
            return Ok(());
        }
        let gone = Supposed { with: Vec::new(), without: [order.order_id].into() };
        self.check_room(changed, &gone, false)
    }

    fn report_replaced(&mut self, command: &Command, replace: &ReplaceOrder, order: &Order, keeps: bool) {
        self.report(command.session, |to| {
            Event::Replaced(Replaced {
                to,
                request_id: command.request_id,
                order_id: order.order_id,
                client_order_id: order.client_order_id,
                price: replace.price,
                quantity: replace.quantity,
                cum_quantity: order.cum.into(),
                instrument: order.instrument,
                account: order.account,
                side: order.side,
                kept_place: keeps,
            })
        });
    }

    /// The order as it is from now on; it comes in again where it lost its place.
    fn put_changed(&mut self, before: &Order, changed: Order, keeps: bool, request_id: RequestId) {
        let id = before.order_id;
        if !keeps {
            self.withdraw(id);
        }
        let text = self.order(id).text;
        self.change(id, |order| *order = Order { text, ..changed });
        self.touched.insert(before.instrument);
        if !keeps {
            return self.enter(id, request_id);
        }
        if before.is_waiting() {
            if before.standing == Standing::Waiting(Why::Stop) {
                self.take_out(id);
                self.begin_stop(id, request_id);
            }
            return;
        }
        self.shrink_shown(id);
    }

    /// Where a market order rests in a call.
    pub(super) fn furthest_price(&self, order: &Order) -> Price {
        debug_assert_eq!(order.order_type, OrderType::Market);
        self.furthest(order.instrument, order.side)
    }
}

//! What follows from a command: rules 28, 30, 31, 44, 45.

use std::collections::BTreeSet;

use protocol::{CancelReason, InstrumentId, OrderId, Phase, RestateReason, Side};

use super::order::{Order, Parent, Standing, Why};
use super::{Fault, Oracle, UNASKED};

/// Stops and children that enter within one command.
const CASCADE_MAX: u32 = 10_000;

impl Oracle {
    /// Stops that the last command left over go on.
    pub(super) fn finish_cascade(&mut self) {
        self.touched.append(&mut self.unfinished);
        self.follow();
    }

    /// All that follows from what was done so far: the lowest instrument touched first, until none is left.
    pub(super) fn follow(&mut self) {
        self.follow_groups();
        while let Some(instrument) = self.touched.pop_first() {
            while self.step(instrument) {}
            self.touched.remove(&instrument);
        }
    }

    /// Rules 28 and 44.
    fn follow_groups(&mut self) {
        self.cancel_reduce_only();
        let mut done = BTreeSet::new();
        for (session, group, first) in std::mem::take(&mut self.touched_groups) {
            // Of several of a group the first one counts.
            if self.is_faulty(Fault::GroupLivesOn) || !done.insert((session, group)) {
                continue;
            }
            for id in self.members(session, group).into_iter().filter(|id| *id != first) {
                self.cancel(id, CancelReason::Group, UNASKED);
            }
        }
    }

    /// Rule 44: the live members of a group, by order id.
    pub(super) fn members(&self, session: protocol::SessionId, group: u64) -> Vec<OrderId> {
        self.orders
            .values()
            .filter(|order| order.session == session && order.terms.oco() == Some(group))
            .filter(|order| !order.is_child())
            .map(|order| order.order_id)
            .collect()
    }

    fn in_continuous(&self, instrument: InstrumentId) -> bool {
        self.instruments[&instrument].phase == Phase::Continuous
    }

    /// One round of rule 30; whether it did anything.
    fn step(&mut self, instrument: InstrumentId) -> bool {
        if !self.in_continuous(instrument) {
            return false;
        }
        let mut did = self.look_at_pegs(instrument);
        // After the step, not after each order: all of a look are one step.
        self.follow_groups();
        self.move_trails(instrument);
        did |= self.enter_first_stop(instrument);
        did |= self.look_at_children(instrument);
        did
    }

    pub(super) fn followed_in(&self, instrument: InstrumentId) -> Vec<Order> {
        self.followed
            .range((instrument, OrderId(0))..=(instrument, OrderId(u64::MAX)))
            .map(|(_, id)| *self.order(*id))
            .collect()
    }

    /// Rule 24.
    fn look_at_pegs(&mut self, instrument: InstrumentId) -> bool {
        let best = [Side::Buy, Side::Sell].map(|side| self.best_displayed(instrument, side));
        let Some(it) = self.instruments.get_mut(&instrument) else { return false };
        if it.looked_at == Some(best) {
            return false;
        }
        it.looked_at = Some(best);
        let mut did = false;
        for order in self.followed_in(instrument) {
            if order.terms.peg().is_some() && self.in_continuous(instrument) {
                did |= self.look_at_peg(order.order_id);
            }
        }
        did
    }

    fn look_at_peg(&mut self, id: OrderId) -> bool {
        let Some(order) = self.orders.get(&id).copied() else { return false };
        let price = self.peg_price(&order);
        match (order.standing, price) {
            (Standing::Resting(_), Some(price)) if order.given == Some(price) => return false,
            (Standing::Waiting(Why::Peg), None) | (Standing::Waiting(Why::Parent), _) => return false,
            _ => {}
        }
        self.take_out(id);
        self.enter(id, UNASKED);
        true
    }

    /// Rule 20.
    fn move_trails(&mut self, instrument: InstrumentId) {
        let moves_back = self.is_faulty(Fault::TrailMovesBack);
        for order in self.followed_in(instrument) {
            let trigger = self.trigger_price(instrument, order.side);
            let (Some(trail), Some(trigger), Standing::Waiting(Why::Stop)) =
                (order.terms.trail(), trigger, order.standing)
            else {
                continue;
            };
            let moved = super::instruments::trail(order.side, trigger, trail);
            let stop = match (order.stop_price, order.side) {
                (Some(stop), _) if moves_back && stop != moved => moved,
                (Some(stop), Side::Sell) => stop.max(moved),
                (Some(stop), Side::Buy) => stop.min(moved),
                (None, _) => moved,
            };
            self.change(order.order_id, |order| order.stop_price = Some(stop));
        }
    }

    /// Rule 30 (c).
    fn enter_first_stop(&mut self, instrument: InstrumentId) -> bool {
        if !self.in_continuous(instrument) {
            return false;
        }
        let by_age = self.is_faulty(Fault::StopsByAge);
        let triggered: Vec<Order> = self
            .followed_in(instrument)
            .into_iter()
            .filter(|order| order.standing == Standing::Waiting(Why::Stop) && self.is_triggered(order))
            .collect();
        // The lowest stop price of buys and the highest of sells.
        let key = |order: &Order| {
            let price = i128::from(order.stop_price.unwrap_or_default().0);
            let rank = if order.side == Side::Buy { price } else { -price };
            (if by_age { 0 } else { rank }, order.order_id)
        };
        let first_of =
            |side| triggered.iter().filter(|order| order.side == side).min_by_key(|order| key(order));
        let firsts = [first_of(Side::Buy), first_of(Side::Sell)];
        let Some(first) = firsts.into_iter().flatten().map(|order| order.order_id).min() else {
            return false;
        };
        if self.is_at_bound(instrument) {
            return false;
        }
        self.trigger(first, UNASKED);
        self.follow_groups();
        true
    }

    /// Whether no more stops and children may enter within this command; counts one if they may.
    fn is_at_bound(&mut self, instrument: InstrumentId) -> bool {
        if self.entered == CASCADE_MAX {
            self.unfinished.insert(instrument);
            return true;
        }
        self.entered += 1;
        false
    }

    /// Rule 30 (d): the children whose parent is done by now.
    fn look_at_children(&mut self, instrument: InstrumentId) -> bool {
        let mut did = false;
        for order in self.followed_in(instrument) {
            if !self.in_continuous(instrument) {
                break;
            }
            let Some(child) = self.orders.get(&order.order_id).copied() else { continue };
            if let Some(end) = self.end_of_parent(&order)
                && child.is_child()
            {
                if self.is_at_bound(instrument) {
                    break;
                }
                self.end_waiting(&child, end);
                did = true;
            }
        }
        self.follow_groups();
        did
    }

    /// What the parent executed, and whether that was all; `None` while it lives.
    fn end_of_parent(&self, child: &Order) -> Option<(u64, bool)> {
        match child.parent? {
            Parent::Done { executed, filled } => Some((executed, filled)),
            Parent::Lives(parent) => {
                let executed = self.orders.get(&parent)?.cum;
                (self.is_faulty(Fault::ChildOfPartialFill) && executed > 0).then_some((executed, true))
            }
        }
    }

    /// Rule 45: a child is activated or canceled.
    fn end_waiting(&mut self, child: &Order, (executed, filled): (u64, bool)) {
        let id = child.order_id;
        if !filled && executed == 0 {
            return self.cancel(id, CancelReason::Group, UNASKED);
        }
        self.take_out(id);
        self.change(id, |order| order.parent = None);
        if !filled && executed < child.total {
            self.change(id, |order| {
                order.total = executed;
                order.minimum = order.minimum.map(|minimum| minimum.min(executed));
            });
            self.report_restated(id, child.limit, RestateReason::Resized);
        }
        if child.stop_price.is_some() {
            self.wait(id, Why::Stop);
        } else {
            self.enter_after_waiting(id, UNASKED);
        }
    }
}

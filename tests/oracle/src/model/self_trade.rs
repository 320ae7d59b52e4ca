//! Self-trade prevention: rules 40 and 41.

use protocol::{OrderId, RequestId, RestateReason, SelfTrade, SelfTradeAction};

use super::order::Order;
use super::{Fault, Oracle, UNASKED};

impl Oracle {
    /// The group and the action of an order: its own, else its registered account's.
    fn self_trade_of(&self, order: &Order) -> Option<SelfTrade> {
        let of_account = || {
            let account = self.accounts.registered.get(&order.account)?;
            account.definition.self_trade.filter(|_| order.tracked.is_some())
        };
        order.terms.self_trade().or_else(of_account)
    }

    /// What is done instead of a trade of the two, if they are of one group.
    pub(super) fn conflict(&self, taker: &Order, maker: &Order) -> Option<SelfTradeAction> {
        let incoming = self.self_trade_of(taker)?;
        let resting = self.self_trade_of(maker)?;
        let participant = |order: &Order| self.sessions[&order.session].participant;
        let same_owner = match (participant(taker).0, participant(maker).0) {
            (0, 0) => taker.session == maker.session,
            (ours, theirs) => ours == theirs,
        };
        let action = if self.is_faulty(Fault::RestingAction) { resting.action } else { incoming.action };
        (same_owner && incoming.group == resting.group).then_some(action)
    }

    /// The resting order first, then the incoming one.
    pub(super) fn prevent(
        &mut self,
        taker: OrderId,
        maker: OrderId,
        action: SelfTradeAction,
        request_id: RequestId,
    ) {
        match action {
            SelfTradeAction::CancelResting => self.cancel_for_self_trade(maker, UNASKED),
            SelfTradeAction::CancelIncoming => self.cancel_for_self_trade(taker, request_id),
            SelfTradeAction::CancelBoth => {
                self.cancel_for_self_trade(maker, UNASKED);
                self.cancel_for_self_trade(taker, request_id);
            }
            SelfTradeAction::Decrement => {
                let by = self.order(taker).open().min(self.order(maker).open());
                self.decrement(maker, by, UNASKED);
                self.decrement(taker, by, request_id);
            }
        }
    }

    /// An order loses quantity without a trade; the last of it is told by its cancel.
    fn decrement(&mut self, id: OrderId, by: u64, request_id: RequestId) {
        let before = *self.order(id);
        if before.open() == by {
            return self.cancel_for_self_trade(id, request_id);
        }
        self.change(id, |order| order.total -= by);
        self.report_restated(id, before.told_price(), RestateReason::Decremented);
        self.shrink_shown(id);
    }

    /// An iceberg's reserve goes first; what the shown part loses is told.
    pub(super) fn shrink_shown(&mut self, id: OrderId) {
        let order = *self.order(id);
        let lost = order.shown.saturating_sub(order.open());
        self.change(id, |order| {
            order.shown -= lost;
            order.minimum = order.minimum.map(|minimum| minimum.min(order.open()));
        });
        self.reduced(&order, lost, false);
    }
}

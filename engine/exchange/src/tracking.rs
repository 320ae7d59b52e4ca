//! What follows a live order in its account: what it holds, what it adds to open quantities, and the fees that it will pay.
//! The account's sums are always those over its tracked orders as they are.

use protocol::{
    CancelReason, Fees, NewOrder, OrderType, ParticipantId, Price, RequestId, SelfTrade, Side, TimeInForce,
};

use crate::accounts::{Account, LastOrder, Position, ReducingKey, at};
use crate::arena::{Handle, Order};
use crate::exchange::Exchange;
use crate::outbox::{EventSink, Outbox};
use crate::risk::{Needs, notional};
use crate::settling::Settling;

/// What follows an order in its account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tracked {
    /// Place of the account.
    pub(crate) account: u32,
    /// What it pays: as they were when it came in, or was last replaced with a loss of its place.
    pub(crate) fees: Fees,
    /// What of it is counted as held, in units of the currency that its side holds.
    pub(crate) hold: i128,
    /// What of it is counted as open quantity.
    pub(crate) open: u64,
    /// What of it is counted as open notional.
    pub(crate) notional: u128,
}

impl Tracked {
    /// Of an order of which nothing is counted yet.
    pub(crate) fn new(account: u32) -> Self {
        Self { account, fees: Fees::default(), hold: 0, open: 0, notional: 0 }
    }

    /// What of it is counted.
    pub(crate) fn weight(&self) -> Weight {
        Weight { hold: self.hold, open: self.open, notional: self.notional }
    }
}

/// What of an order counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Weight {
    hold: i128,
    open: u64,
    notional: u128,
}

impl Weight {
    /// Of what is open of an order.
    fn of(settling: &Settling, fees: &Fees, side: Side, needs: Needs, open: u64) -> Self {
        Self { hold: settling.hold(fees, side, needs, open), open, notional: notional(open, needs.price()) }
    }
}

/// Counts an order with another weight than before in its account; gives the position there.
fn recount<'a>(
    account: &'a mut Account,
    settling: &Settling,
    order: &Order,
    before: Weight,
    after: Weight,
) -> &'a mut Position {
    if let Some(currency) = settling.held_by(order.side)
        && after.hold != before.hold
    {
        account.hold(currency, after.hold.saturating_sub(before.hold));
    }
    let position = account.position_mut(settling.instrument);
    let side = at(order.side);
    let moved = |sum: u64| sum.saturating_add(after.open).saturating_sub(before.open);
    position.open[side] = moved(position.open[side]);
    if order.flags().reduce_only {
        position.reducing[side] = moved(position.reducing[side]);
    }
    position.open_notional =
        position.open_notional.saturating_add(after.notional).saturating_sub(before.notional);
    position
}

/// Whose self-trade groups are meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum GroupOwner {
    Participant(ParticipantId),
    /// Place of a session without a participant.
    Session(u32),
}

impl Exchange {
    pub(crate) fn tracked(&self, handle: Handle) -> Option<Tracked> {
        self.orders.extra(handle)?.tracked
    }

    /// Whose numbers of self-trade groups a session uses.
    pub(crate) fn group_owner(&self, session: u32) -> GroupOwner {
        match self.sessions.get(session).controls.participant {
            ParticipantId(0) => GroupOwner::Session(session),
            participant => GroupOwner::Participant(participant),
        }
    }

    /// Self-trade prevention of an account.
    pub(crate) fn account_self_trade(&self, account: u32) -> Option<SelfTrade> {
        self.accounts.get(account).definition.self_trade
    }

    /// Counts an order that was just accepted, and remembers it as the account's last.
    pub(crate) fn track(&mut self, handle: Handle) {
        self.renew_fees(handle);
        self.count(handle);
        let Some(tracked) = self.tracked(handle) else { return };
        let Some(extra) = self.orders.extra(handle).filter(|extra| !extra.quote) else { return };
        let order = self.orders.arena.get(handle);
        let last_order =
            LastOrder { side: order.side, price: extra.limit, quantity: order.leaves, at: self.log_time };
        let instrument = self.instruments.get(order.instrument).definition.instrument;
        let account = self.accounts.get_mut(tracked.account);
        account.position_mut(instrument).last_order = Some(last_order);
    }

    /// What will follow an order with nothing but a limit that comes to rest as a whole.
    pub(crate) fn tracked_resting(
        &self,
        account: u32,
        place: u32,
        order: &NewOrder,
        price: Price,
    ) -> Tracked {
        let settling = self.settling(place);
        let group = self.accounts.get(account).definition.group;
        let fees = self.accounts.schedules.of(settling.instrument, group);
        let weight = Weight::of(&settling, &fees, order.side, Needs::Price(price), order.quantity.0);
        Tracked { account, fees, hold: weight.hold, open: weight.open, notional: weight.notional }
    }

    /// Counts such an order, and remembers it as the account's last.
    pub(crate) fn track_resting(&mut self, tracked: &Tracked, order: &Order) {
        let settling = self.settling(order.instrument);
        let (price, at) = (Some(order.price), self.log_time);
        let keeper = self.accounts.get_mut(tracked.account);
        let position = recount(keeper, &settling, order, Weight::default(), tracked.weight());
        position.open_orders = position.open_orders.saturating_add(1);
        position.last_order = Some(LastOrder { side: order.side, price, quantity: order.leaves, at });
        self.count_margin(tracked.account, order.instrument);
    }

    /// Counts a live order for the first time: an accepted one, or one of a snapshot, whose fees are set.
    pub(crate) fn count(&mut self, handle: Handle) {
        let Some(tracked) = self.tracked(handle) else { return };
        let Some((key, reduces)) = self.reducing_key(handle) else { return };
        let position = self.accounts.get_mut(tracked.account).position_mut(key.1);
        position.open_orders = position.open_orders.saturating_add(1);
        if reduces {
            self.accounts.reducing.insert(key, handle);
        }
        self.retrack(handle);
    }

    /// The order pays by today's schedule from here on. Its place in the queue is new, too.
    pub(crate) fn renew_fees(&mut self, handle: Handle) {
        let place = self.orders.arena.get(handle).instrument;
        let Some(extra) = self.orders.extra_mut(handle) else { return };
        let Some(tracked) = &mut extra.tracked else { return };
        let instrument = self.instruments.get(place).definition.instrument;
        let group = self.accounts.get(tracked.account).definition.group;
        tracked.fees = self.accounts.schedules.of(instrument, group);
    }

    /// Counts an order as it is now, after any change of its open quantity or price.
    pub(crate) fn retrack(&mut self, handle: Handle) {
        let Some(tracked) = self.orders.extra(handle).and_then(|extra| extra.tracked.as_ref()) else {
            return;
        };
        let before = tracked.weight();
        let after = self.weigh(handle, &tracked.fees);
        if before == after {
            return;
        }
        let account = tracked.account;
        let order = self.orders.arena.get(handle);
        let settling = self.settling(order.instrument);
        let place = order.instrument;
        recount(self.accounts.get_mut(account), &settling, order, before, after);
        self.count_margin(account, place);
        if let Some(tracked) = self.orders.extra_mut(handle).and_then(|extra| extra.tracked.as_mut()) {
            (tracked.hold, tracked.open, tracked.notional) = (after.hold, after.open, after.notional);
        }
    }

    /// Lets go of everything that an order holds, before it is forgotten.
    pub(crate) fn untrack(&mut self, handle: Handle) {
        let Some(extra) = self.orders.extra_mut(handle) else { return };
        let Some(tracked) = extra.tracked.take() else { return };
        let order = self.orders.arena.get(handle);
        let settling = self.settling(order.instrument);
        let keeper = self.accounts.get_mut(tracked.account);
        let position = recount(keeper, &settling, order, tracked.weight(), Weight::default());
        position.open_orders = position.open_orders.saturating_sub(1);
        if order.flags().reduce_only {
            let account = keeper.definition.account;
            let key = (account, settling.instrument, at(order.side), order.order_id.0);
            self.accounts.reducing.remove(&key);
        }
        let place = order.instrument;
        self.count_margin(tracked.account, place);
    }

    /// What of an order counts as it is now.
    pub(crate) fn weigh(&self, handle: Handle, fees: &Fees) -> Weight {
        let order = self.orders.arena.get(handle);
        let (open, needs) = (self.orders.open_quantity(handle), self.needs(handle));
        Weight::of(&self.settling(order.instrument), fees, order.side, needs, open)
    }

    /// What a live order needs of its account.
    fn needs(&self, handle: Handle) -> Needs {
        let order = self.orders.arena.get(handle);
        let Some(extra) = self.orders.extra(handle) else { return Needs::Price(order.price) };
        match extra.limit {
            Some(price) => Needs::Price(price),
            None if extra.terms.peg().is_some() => Needs::Highest,
            None if extra.order_type == OrderType::Market => self
                .auction_price(order.instrument, order.side, order.time_in_force)
                .map_or(Needs::Nothing, Needs::Price),
            None => Needs::Nothing,
        }
    }

    /// The limit that a market order for an auction amounts to: the instrument's furthest price.
    pub(crate) fn auction_price(&self, place: u32, side: Side, time_in_force: TimeInForce) -> Option<Price> {
        let definition = &self.instruments.get(place).definition;
        let furthest = if side == Side::Buy { definition.price_max } else { definition.price_min };
        let is_for_auction = matches!(
            time_in_force,
            TimeInForce::AtTheOpen | TimeInForce::AtTheClose | TimeInForce::GoodForAuction
        );
        is_for_auction.then_some(furthest)
    }

    fn reducing_key(&self, handle: Handle) -> Option<(ReducingKey, bool)> {
        let tracked = self.tracked(handle)?;
        let order = self.orders.arena.get(handle);
        let account = self.accounts.get(tracked.account).definition.account;
        let instrument = self.instruments.get(order.instrument).definition.instrument;
        Some(((account, instrument, at(order.side), order.order_id.0), order.flags().reduce_only))
    }

    /// Cancels the youngest reduce-only orders of positions that have become too small for them.
    pub(crate) fn cancel_reduce_only<S: EventSink>(&mut self, out: &mut Outbox<'_, S>) {
        while let Some((account, instrument)) = self.accounts.shrunk.pop_first() {
            let Some(place) = self.accounts.place(account) else { continue };
            for side in [Side::Buy, Side::Sell] {
                let first = (account, instrument, at(side), 0);
                let last = (account, instrument, at(side), u64::MAX);
                loop {
                    let position = self.accounts.get(place).position(instrument);
                    if position.reducing[at(side)] <= position.reducible(side) {
                        break;
                    }
                    let youngest = self.accounts.reducing.range(first..=last).next_back();
                    let Some(handle) = youngest.map(|(_, handle)| *handle) else { break };
                    self.finish_canceled(handle, CancelReason::ReduceOnly, RequestId(0), out);
                }
            }
        }
    }
}

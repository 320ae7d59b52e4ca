//! Limits, reduce-only and throttles: rules 28, 90, 91.

use protocol::{Command, InstrumentId, Limits, Price, RejectReason, Settlement, Side};

use super::accounts::LastOrder;
use super::money::Supposed;
use super::order::Order;
use super::{Fault, Oracle};

/// The bound of a position that always holds.
const MOST_POSITION: i128 = 1 << 62;
const MOST_PRODUCT: i128 = 1 << 80;

fn exceeds(value: u128, limit: u64) -> bool {
    limit > 0 && value > u128::from(limit)
}

impl Oracle {
    /// Line 9 of rule 7. `before` is the order that a replace changes; `others` supposes all but that order.
    pub(super) fn check_risk(
        &self,
        order: &Order,
        before: Option<&Order>,
        others: &Supposed,
    ) -> Result<(), RejectReason> {
        if order.tracked.is_none() {
            let fits = !order.flags.reduce_only;
            return if fits { Ok(()) } else { Err(RejectReason::ReduceOnlyWouldIncrease) };
        }
        let mut others = others.clone();
        others.without.extend(before.map(|before| before.order_id));
        self.check_limits(order, before, &others)?;
        self.check_reduce_only(order, &others)?;
        self.check_money(order, before, &others)
    }

    fn limits_of(&self, order: &Order) -> Limits {
        let Some(account) = self.accounts.registered.get(&order.account) else { return Limits::default() };
        let own = account.limits.get(&Some(order.instrument));
        own.or_else(|| account.limits.get(&None)).copied().unwrap_or_default()
    }

    fn check_limits(
        &self,
        order: &Order,
        before: Option<&Order>,
        others: &Supposed,
    ) -> Result<(), RejectReason> {
        let limits = self.limits_of(order);
        if exceeds(order.total.into(), limits.quantity) {
            return Err(RejectReason::LimitQuantity);
        }
        if self.order_notional(order).is_some_and(|notional| exceeds(notional, limits.notional)) {
            return Err(RejectReason::LimitNotional);
        }
        let mut all = others.clone();
        all.with.push(*order);
        let forgets = self.is_faulty(Fault::LimitsForgetWaiting);
        let open: Vec<Order> = self
            .orders_of_account(order.account, &all)
            .into_iter()
            .filter(|other| other.instrument == order.instrument && !(forgets && other.is_waiting()))
            .collect();
        if exceeds(open.len() as u128, limits.open_orders.into()) {
            return Err(RejectReason::LimitOpenOrders);
        }
        if exceeds(self.open_notional(&open), limits.open_notional) {
            return Err(RejectReason::LimitOpenNotional);
        }
        self.check_position(order, &all, &limits)?;
        self.check_collar(order, &limits)?;
        if before.is_none() && !order.quote && self.is_duplicate(order, &limits) {
            return Err(RejectReason::DuplicateOrder);
        }
        Ok(())
    }

    /// Rule 90: open quantities times prices, where there are prices.
    pub(super) fn open_notional(&self, orders: &[Order]) -> u128 {
        orders
            .iter()
            .filter_map(|order| Some((self.own_price(order)?, order.open())))
            .map(|(price, open)| u128::from(open) * u128::from(price.0.unsigned_abs()))
            .fold(0u128, u128::saturating_add)
    }

    fn check_position(&self, order: &Order, all: &Supposed, limits: &Limits) -> Result<(), RejectReason> {
        let position = self
            .accounts
            .registered
            .get(&order.account)
            .map_or(0, |it| it.position(order.instrument).quantity);
        let (buys, sells) = self.open_sides(order.account, order.instrument, all);
        let (net, one_way) = match order.side {
            Side::Buy => (position + buys, position + buys),
            Side::Sell => (position - sells, sells - position),
        };
        if exceeds(net.unsigned_abs(), limits.net_position) || one_way > self.most_position(order.instrument)
        {
            return Err(RejectReason::LimitNetPosition);
        }
        let gross = position.abs() + buys + sells;
        if exceeds(gross.unsigned_abs(), limits.gross_position) {
            return Err(RejectReason::LimitGrossPosition);
        }
        Ok(())
    }

    /// Rule 90: the bound that always holds, so that no sum can overflow.
    fn most_position(&self, instrument: InstrumentId) -> i128 {
        let it = &self.instruments[&instrument];
        let (low, high) = it.limits();
        let value = low.abs().max(high.abs()).max(1) * self.unit(instrument);
        let by_cash = match it.rules.settlement {
            Settlement::Cash => MOST_PRODUCT / self.base_unit(instrument),
            _ => MOST_POSITION,
        };
        MOST_POSITION.min(MOST_PRODUCT / value).min(by_cash)
    }

    fn check_collar(&self, order: &Order, limits: &Limits) -> Result<(), RejectReason> {
        let it = &self.instruments[&order.instrument];
        let from = it.reference.or(it.last_trade);
        match (order.limit, from) {
            (Some(limit), Some(from)) if exceeds(limit.0.abs_diff(from.0).into(), limits.collar) => {
                Err(RejectReason::PriceCollar)
            }
            _ => Ok(()),
        }
    }

    fn is_duplicate(&self, order: &Order, limits: &Limits) -> bool {
        let last =
            self.accounts.registered.get(&order.account).and_then(|it| it.last_orders.get(&order.instrument));
        last.is_some_and(|last| {
            let same = (last.side, last.limit, last.quantity) == (order.side, order.limit, order.total);
            let since = self.log_time.0 - last.at.0;
            same && u128::from(since) < u128::from(limits.duplicate_ms) * 1_000_000
        })
    }

    /// Rule 90: what the next order may be a duplicate of.
    pub(super) fn remember_order(&mut self, order: &Order) {
        if order.tracked.is_none() || order.quote {
            return;
        }
        let last =
            LastOrder { side: order.side, limit: order.limit, quantity: order.total, at: self.log_time };
        if let Some(account) = self.accounts.registered.get_mut(&order.account) {
            account.last_orders.insert(order.instrument, last);
        }
    }

    /// Rule 11: quantity times the absolute value of what stands for the price.
    pub(super) fn order_notional(&self, order: &Order) -> Option<u128> {
        let best = || {
            let opposite = || self.best_displayed(order.instrument, order.side.opposite());
            order.is_market().then(opposite).flatten()
        };
        let price: Price = order.limit.or(order.stop_given).or_else(best)?;
        Some(u128::from(order.total) * u128::from(price.0.unsigned_abs()))
    }

    /// How much of a side an account's position can take back.
    fn reducible(&self, order: &Order) -> i128 {
        let position = self
            .accounts
            .registered
            .get(&order.account)
            .map_or(0, |it| it.position(order.instrument).quantity);
        match order.side {
            Side::Buy => -position,
            Side::Sell => position,
        }
    }

    /// Rule 28, at entry.
    fn check_reduce_only(&self, order: &Order, others: &Supposed) -> Result<(), RejectReason> {
        if !order.flags.reduce_only {
            return Ok(());
        }
        let others: i128 = self
            .orders_of_account(order.account, others)
            .iter()
            .filter(|other| other.flags.reduce_only && other.side == order.side)
            .filter(|other| other.instrument == order.instrument)
            .map(|other| i128::from(other.open()))
            .sum();
        if self.reducible(order) < others + i128::from(order.open()) {
            return Err(RejectReason::ReduceOnlyWouldIncrease);
        }
        Ok(())
    }

    /// Rule 28, after a step: what is too much is canceled, the youngest first.
    pub(super) fn cancel_reduce_only(&mut self) {
        if self.is_faulty(Fault::ReduceOnlyStays) {
            return;
        }
        let mut sides: Vec<_> = self
            .reducing
            .iter()
            .map(|id| self.order(*id))
            .map(|order| (order.account, order.instrument, order.side))
            .collect();
        sides.sort_unstable();
        sides.dedup();
        for side in sides {
            loop {
                let orders: Vec<Order> = self
                    .reducing
                    .iter()
                    .map(|id| self.order(*id))
                    .filter(|order| (order.account, order.instrument, order.side) == side)
                    .copied()
                    .collect();
                let open: i128 = orders.iter().map(|order| i128::from(order.open())).sum();
                let Some(youngest) = orders.last() else { break };
                if open <= self.reducible(youngest).max(0) {
                    break;
                }
                self.cancel(youngest.order_id, protocol::CancelReason::ReduceOnly, super::UNASKED);
            }
        }
    }

    /// Rule 91: counts a request of so much weight, unless it is too much for this second.
    pub(super) fn throttle(
        &mut self,
        command: &Command,
        orders: u32,
        cancels: u32,
    ) -> Result<(), RejectReason> {
        let second = self.log_time.0 / 1_000_000_000;
        let counts_refused = self.is_faulty(Fault::ThrottleCountsRefused);
        let session = self.sessions.entry(command.session).or_default();
        if session.second != second {
            (session.second, session.orders, session.cancels) = (second, 0, 0);
        }
        let limit = session.throttle;
        let (orders, cancels) =
            (if limit.orders > 0 { orders } else { 0 }, if limit.cancels > 0 { cancels } else { 0 });
        let new = (session.orders.saturating_add(orders), session.cancels.saturating_add(cancels));
        let too_many = (orders > 0 && new.0 > limit.orders) || (cancels > 0 && new.1 > limit.cancels);
        if !too_many || counts_refused {
            (session.orders, session.cancels) = new;
        }
        if too_many { Err(RejectReason::Throttled) } else { Ok(()) }
    }
}

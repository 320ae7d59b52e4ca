//! Amounts: notionals, fees, what orders hold, equity and margin. Rules 82 to 88.

use std::collections::BTreeSet;

use protocol::{
    AccountId, Amount, Currency, Event, Fees, InstrumentId, Liquidity, MarginCall, OrderId, OrderType, Price,
    RejectReason, Settlement, Side,
};

use super::order::Order;
use super::{Fault, Oracle};

/// Orders that are looked at as if they were there, or as if they were not.
#[derive(Clone, Debug, Default)]
pub(super) struct Supposed {
    /// As if they were there: new ones, or in the place of the live ones with their ids.
    pub with: Vec<Order>,
    /// As if they were gone.
    pub without: BTreeSet<OrderId>,
}

impl Oracle {
    /// Live tracked orders of an account, as supposed.
    pub(super) fn orders_of_account(&self, account: AccountId, supposed: &Supposed) -> Vec<Order> {
        let replaced = |id: OrderId| supposed.with.iter().any(|order| order.order_id == id);
        let live = self
            .orders
            .values()
            .filter(|order| !supposed.without.contains(&order.order_id) && !replaced(order.order_id));
        live.chain(&supposed.with)
            .filter(|order| order.tracked.is_some() && order.account == account)
            .copied()
            .collect()
    }

    /// Units of the quote currency of a quantity times a price of one; 1 where nothing is settled.
    pub(super) fn unit(&self, instrument: InstrumentId) -> i128 {
        let it = &self.instruments[&instrument];
        let scale = it.rules.quote.and_then(|quote| self.accounts.currencies.get(&quote));
        match (it.rules.settlement, scale) {
            (Settlement::None, _) | (_, None) => 1,
            (_, Some(scale)) => {
                10i128.pow(u32::from(scale - it.definition.price_scale - it.definition.quantity_scale))
            }
        }
    }

    /// Units of the base currency of a quantity of one.
    pub(super) fn base_unit(&self, instrument: InstrumentId) -> i128 {
        let it = &self.instruments[&instrument];
        let scale = it.rules.base.and_then(|base| self.accounts.currencies.get(&base));
        scale.map_or(1, |scale| 10i128.pow(u32::from(scale - it.definition.quantity_scale)))
    }

    /// Quantity times price, in units of the quote currency.
    pub(super) fn notional(&self, instrument: InstrumentId, quantity: u64, price: Price) -> i128 {
        i128::from(quantity) * i128::from(price.0) * self.unit(instrument)
    }

    pub(super) fn lots(&self, instrument: InstrumentId, quantity: i128) -> i128 {
        quantity / i128::from(self.instruments[&instrument].definition.lot_size.0)
    }

    /// Rule 83: what a trade costs.
    pub(super) fn fee(&self, fees: &Fees, liquidity: Liquidity, notional: i128, lots: i128) -> i128 {
        let (ppm, per_lot) = match liquidity {
            Liquidity::Taker => (fees.taker_ppm, fees.taker_per_lot),
            _ => (fees.maker_ppm, fees.maker_per_lot),
        };
        let product = notional.abs() * i128::from(ppm);
        let up = i128::from(self.is_faulty(Fault::FeeRoundedUp) && product % 1_000_000 > 0);
        product / 1_000_000 + up + lots * i128::from(per_lot)
    }

    /// What a hold takes in for a fee: no rebate in millionths lowers it, and it is never below zero.
    fn held_fee(&self, fees: &Fees, liquidity: Liquidity, notional: i128, lots: i128) -> i128 {
        if self.is_faulty(Fault::HoldWithoutFee) {
            return 0;
        }
        let fees = Fees { maker_ppm: fees.maker_ppm.max(0), taker_ppm: fees.taker_ppm.max(0), ..*fees };
        let product = notional.abs();
        let (ppm, per_lot) = match liquidity {
            Liquidity::Taker => (fees.taker_ppm, fees.taker_per_lot),
            _ => (fees.maker_ppm, fees.maker_per_lot),
        };
        (product * i128::from(ppm) / 1_000_000 + lots * i128::from(per_lot)).max(0)
    }

    /// Rule 84: the price that an order holds at, but for a pegged order's highest price.
    pub(super) fn own_price(&self, order: &Order) -> Option<Price> {
        if order.limit.is_some() {
            return order.limit;
        }
        if order.order_type == OrderType::Market {
            let definition = &self.instruments[&order.instrument].definition;
            let furthest = if order.side == Side::Buy { definition.price_max } else { definition.price_min };
            return order.is_for_auction().then_some(furthest);
        }
        let gets_one = order.is_market() && !order.is_waiting() && !order.is_child();
        if gets_one { self.entry_price(order)?.price() } else { None }
    }

    /// Rule 84: what an order holds.
    pub(super) fn hold(&self, order: &Order) -> Option<(Currency, i128)> {
        let fees = order.tracked?;
        let it = &self.instruments[&order.instrument];
        if it.rules.settlement != Settlement::Cash {
            return None;
        }
        let lots = self.lots(order.instrument, order.open().into());
        match order.side {
            Side::Sell => Some((it.rules.base?, i128::from(order.open()) * self.base_unit(order.instrument))),
            Side::Buy => {
                let highest = order.terms.peg().map(|_| it.definition.price_max);
                let Some(price) = self.own_price(order).or(highest) else {
                    return Some((it.rules.quote?, 0));
                };
                let notional = self.notional(order.instrument, order.open(), price);
                let maker = self.held_fee(&fees, Liquidity::Maker, notional, lots);
                let taker = self.held_fee(&fees, Liquidity::Taker, notional, lots);
                Some((it.rules.quote?, notional + maker.max(taker)))
            }
        }
    }

    /// What the open orders of an account hold of a currency.
    pub(super) fn held(&self, account: AccountId, currency: Currency, supposed: &Supposed) -> i128 {
        self.orders_of_account(account, supposed)
            .iter()
            .filter_map(|order| self.hold(order))
            .filter(|(held, _)| *held == currency)
            .map(|(_, amount)| amount)
            .sum()
    }

    /// The margin instruments of a quote currency.
    fn margin_instruments(&self, currency: Currency) -> impl Iterator<Item = InstrumentId> {
        self.instruments
            .values()
            .filter(move |it| it.rules.settlement == Settlement::Margin && it.rules.quote == Some(currency))
            .map(|it| it.definition.instrument)
    }

    /// Open buys and sells of an account in an instrument, as supposed.
    pub(super) fn open_sides(
        &self,
        account: AccountId,
        instrument: InstrumentId,
        supposed: &Supposed,
    ) -> (i128, i128) {
        let orders = self.orders_of_account(account, supposed);
        let side = |side: Side| {
            orders
                .iter()
                .filter(|order| order.instrument == instrument && order.side == side)
                .map(|order| i128::from(order.open()))
                .sum()
        };
        (side(Side::Buy), side(Side::Sell))
    }

    /// Rule 86: the margin required.
    fn required(&self, account: AccountId, currency: Currency, supposed: &Supposed) -> i128 {
        let Some(known) = self.accounts.registered.get(&account) else { return 0 };
        self.margin_instruments(currency)
            .map(|instrument| {
                let (buys, sells) = self.open_sides(account, instrument, supposed);
                let position = known.position(instrument).quantity;
                let most = (position + buys).abs().max((position - sells).abs());
                let margin = self.instruments[&instrument].rules.initial_margin;
                self.lots(instrument, most) * i128::from(margin)
            })
            .sum()
    }

    /// Rule 86: total and what positions are worth.
    fn equity(&self, account: AccountId, currency: Currency) -> i128 {
        let Some(known) = self.accounts.registered.get(&account) else { return 0 };
        let gains: i128 = self
            .margin_instruments(currency)
            .map(|instrument| {
                let position = known.position(instrument);
                let mark = self.instruments[&instrument].mark_price().map_or(0, |price| i128::from(price.0));
                position.quantity * mark * self.unit(instrument) - position.cost
            })
            .sum();
        known.balance(currency) + gains
    }

    /// Rule 86: what is free of a currency.
    pub(super) fn free(&self, account: AccountId, currency: Currency, supposed: &Supposed) -> i128 {
        let total = self.accounts.registered.get(&account).map_or(0, |account| account.balance(currency));
        let spare = self.equity(account, currency) - self.required(account, currency, supposed);
        total.min(spare) - self.held(account, currency, supposed)
    }

    /// Rule 95: total or equity of some currency is below zero.
    pub(super) fn owes(&self, account: AccountId) -> bool {
        self.accounts.currencies.keys().any(|currency| {
            let total = self.accounts.registered.get(&account).map_or(0, |it| it.balance(*currency));
            total.min(self.equity(account, *currency)) < 0
        })
    }

    /// Rules 84 and 86: the account can pay for an order. `others` supposes all but the order itself; `before` is the order
    /// that a replace changes.
    pub(super) fn check_money(
        &self,
        order: &Order,
        before: Option<&Order>,
        others: &Supposed,
    ) -> Result<(), RejectReason> {
        let rules = &self.instruments[&order.instrument].rules;
        let mut as_is = others.clone();
        as_is.with.extend(before.copied());
        let mut then = others.clone();
        then.with.push(*order);
        match (rules.settlement, rules.quote) {
            (Settlement::Cash, Some(quote)) => {
                let (currency, needs) = match self.market_cost(order) {
                    Some(cost) => (quote, cost),
                    None => self.hold(order).unwrap_or((quote, 0)),
                };
                let holds = before.and_then(|before| self.hold(before)).map_or(0, |(_, amount)| amount);
                let more = needs - holds;
                let needs_some = more > 0 || before.is_none();
                if needs_some && self.free(order.account, currency, &as_is) < more {
                    return Err(RejectReason::InsufficientFunds);
                }
                Ok(())
            }
            (Settlement::Margin, Some(quote)) => {
                let required = self.required(order.account, quote, &then);
                let raised = required > self.required(order.account, quote, &as_is);
                let equity = self.equity(order.account, quote) - self.held(order.account, quote, &as_is);
                if raised && equity < required {
                    return Err(RejectReason::InsufficientMargin);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Rule 84: what a market order that buys at once costs.
    fn market_cost(&self, order: &Order) -> Option<i128> {
        let fees = order.tracked?;
        let enters = order.stop_price.is_none() && !order.is_child() && !order.is_for_auction();
        if order.order_type != OrderType::Market || order.side != Side::Buy || !enters {
            return None;
        }
        let run = self.dry_run(order);
        let notional = run.notional * self.unit(order.instrument);
        let lots = self.lots(order.instrument, run.quantity.into());
        Some(notional + self.held_fee(&fees, Liquidity::Taker, notional, lots))
    }

    /// Rule 84: a buy that waited without a hold can be paid now that it enters.
    pub(super) fn can_pay_late(&self, id: OrderId) -> bool {
        let order = self.order(id);
        let rules = &self.instruments[&order.instrument].rules;
        let (Settlement::Cash, Some(quote)) = (rules.settlement, rules.quote) else { return true };
        if order.tracked.is_none() || order.side == Side::Sell || !order.is_market() {
            return true;
        }
        let mut without = Supposed::default();
        without.without.insert(id);
        let cost = self.market_cost(order).or(self.hold(order).map(|(_, amount)| amount)).unwrap_or(0);
        let holds_already = order.is_for_auction();
        holds_already || cost <= self.free(order.account, quote, &without)
    }

    /// Rule 87: names an account whose equity is below its maintenance margin.
    pub(super) fn call_margin(&mut self, account: AccountId, currency: Currency) {
        let Some(known) = self.accounts.registered.get(&account) else { return };
        let maintenance: i128 = self
            .margin_instruments(currency)
            .map(|instrument| {
                let lots = self.lots(instrument, known.position(instrument).quantity.abs());
                lots * i128::from(self.instruments[&instrument].rules.maintenance_margin)
            })
            .sum();
        let equity = self.equity(account, currency);
        if equity < maintenance {
            self.events.push(Event::MarginCall(MarginCall {
                account,
                currency,
                equity: Amount::new(equity),
                maintenance: Amount::new(maintenance),
            }));
        }
    }

    /// Rule 87: the accounts with a position in an instrument.
    pub(super) fn call_margins_in(&mut self, instrument: InstrumentId) {
        let rules = self.instruments[&instrument].rules;
        let (Settlement::Margin, Some(currency)) = (rules.settlement, rules.quote) else { return };
        let accounts: Vec<AccountId> = self
            .accounts
            .registered
            .values()
            .filter(|account| account.position(instrument).quantity != 0)
            .map(|account| account.definition.account)
            .collect();
        for account in accounts {
            self.call_margin(account, currency);
        }
    }

    /// Rules 88 and 87, at the end of the day.
    pub(super) fn settle_margins(&mut self) {
        let mut calls = BTreeSet::new();
        let ids: Vec<AccountId> = self.accounts.registered.keys().copied().collect();
        let margin: Vec<(InstrumentId, Currency)> = self
            .instruments
            .values()
            .filter(|it| it.rules.settlement == Settlement::Margin)
            .filter_map(|it| Some((it.definition.instrument, it.rules.quote?)))
            .collect();
        for account in ids {
            for (instrument, currency) in &margin {
                let unit = self.unit(*instrument);
                let mark = self.instruments[instrument].mark_price();
                let Some(known) = self.accounts.registered.get_mut(&account) else { continue };
                let position = known.position(*instrument);
                if position.quantity == 0 {
                    continue;
                }
                calls.insert((account, *currency));
                let Some(mark) = mark else { continue };
                let worth = position.quantity * i128::from(mark.0) * unit;
                known.pay(*currency, worth - position.cost);
                known.positions.entry(*instrument).or_default().cost = worth;
            }
        }
        for (account, currency) in calls {
            self.call_margin(account, currency);
        }
    }
}

//! What must add up, checked over everything: for tests and debug builds. Money is neither made nor lost, positions are
//! somebody's against somebody else's, and what is counted of orders is what the orders are.

use std::collections::BTreeMap;

use protocol::{AccountId, Currency, InstrumentId, Settlement};

use crate::accounts::at;
use crate::exchange::Exchange;

/// Sums over the open orders of an account in an instrument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Open {
    quantities: [u64; 2],
    reducing: [u64; 2],
    notional: u128,
    orders: u32,
}

impl Exchange {
    /// Visits everything and adds it up.
    ///
    /// # Errors
    /// A line that names the first sum that is wrong.
    pub fn check_conservation(&self) -> Result<(), String> {
        self.check_money()?;
        self.check_positions()?;
        self.check_open()
    }

    /// Of each currency accounts and venue have what was deposited; what margin positions cost is still to be paid.
    fn check_money(&self) -> Result<(), String> {
        let mut sums: BTreeMap<Currency, i128> = BTreeMap::new();
        for account in self.accounts.iter() {
            for (currency, balance) in &account.balances {
                *sums.entry(*currency).or_default() += balance.total;
            }
            for (id, position) in &account.positions {
                let rules = self.instruments.place(*id).and_then(|place| self.rules(place));
                let rules = rules.filter(|rules| rules.settlement == Settlement::Margin);
                let Some(rules) = rules else { continue };
                if position.quantity == 0 && position.cost != 0 {
                    return Err(format!(
                        "account {}: a closed position of {id} costs",
                        account.definition.account
                    ));
                }
                if let Some(quote) = rules.quote {
                    *sums.entry(quote).or_default() -= position.cost;
                }
            }
        }
        for (currency, state) in &self.accounts.currencies {
            let sum = sums.remove(currency).unwrap_or_default() + state.fees;
            if sum != state.deposits {
                return Err(format!("{currency}: {sum} is there, {} was deposited", state.deposits));
            }
        }
        sums.first_key_value().map_or(Ok(()), |(currency, _)| Err(format!("{currency} is unknown")))
    }

    /// Positions of an instrument add up to what untracked orders took; so do costs, except of margin instruments, where
    /// money tells.
    fn check_positions(&self) -> Result<(), String> {
        let mut sums: BTreeMap<InstrumentId, (i128, i128, u128)> = BTreeMap::new();
        for account in self.accounts.iter() {
            for (id, position) in &account.positions {
                let sum = sums.entry(*id).or_default();
                sum.0 += i128::from(position.quantity);
                sum.1 += position.cost;
                sum.2 += u128::from(position.quantity.max(0).unsigned_abs());
            }
        }
        for (id, (quantity, cost, long)) in sums {
            let kept = self.accounts.sums_of(id);
            let settlement = self.instruments.place(id).and_then(|place| self.rules(place));
            let is_margin = settlement.is_some_and(|rules| rules.settlement == Settlement::Margin);
            if quantity + kept.untracked_quantity != 0 {
                return Err(format!("instrument {id}: positions add up to {quantity}"));
            }
            if !is_margin && cost + kept.untracked_cost != 0 {
                return Err(format!("instrument {id}: costs add up to {cost}"));
            }
            if long != kept.long {
                return Err(format!("instrument {id}: open interest is {long}, not {}", kept.long));
            }
        }
        Ok(())
    }

    /// What is counted as open and held is what the tracked orders come to.
    fn check_open(&self) -> Result<(), String> {
        let mut open: BTreeMap<(AccountId, InstrumentId), Open> = BTreeMap::new();
        let mut held: BTreeMap<(AccountId, Currency), i128> = BTreeMap::new();
        for place in 0..self.instruments.len() {
            let settling = self.settling(place);
            for handle in self.special_orders(place) {
                let Some(tracked) = self.tracked(handle) else { continue };
                let weight = self.weigh(handle, &tracked.fees);
                if weight != tracked.weight() {
                    return Err(format!(
                        "an order of instrument {} is counted otherwise",
                        settling.instrument
                    ));
                }
                let order = self.orders.arena.get(handle);
                let account = self.accounts.get(tracked.account).definition.account;
                let sum = open.entry((account, settling.instrument)).or_default();
                sum.quantities[at(order.side)] += tracked.open;
                if order.flags().reduce_only {
                    sum.reducing[at(order.side)] += tracked.open;
                }
                sum.notional += tracked.notional;
                sum.orders += 1;
                if let Some(currency) = settling.held_by(order.side) {
                    *held.entry((account, currency)).or_default() += tracked.hold;
                }
            }
        }
        for account in self.accounts.iter() {
            let id = account.definition.account;
            for (instrument, position) in &account.positions {
                let counted = Open {
                    quantities: position.open,
                    reducing: position.reducing,
                    notional: position.open_notional,
                    orders: position.open_orders,
                };
                let found = open.remove(&(id, *instrument)).unwrap_or_default();
                if counted != found {
                    return Err(format!("account {id}, instrument {instrument}: {counted:?}, not {found:?}"));
                }
            }
            for (currency, balance) in &account.balances {
                let found = held.remove(&(id, *currency)).unwrap_or_default();
                if balance.held != found {
                    return Err(format!("account {id} holds {} {currency}, not {found}", balance.held));
                }
            }
        }
        let missed = open.values().any(|sum| *sum != Open::default()) || held.values().any(|sum| *sum != 0);
        if missed { Err("an order is counted nowhere".into()) } else { Ok(()) }
    }
}

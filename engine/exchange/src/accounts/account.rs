//! One registered account: balances, positions, limits. Plain numbers with no rules of their own.

use std::collections::BTreeMap;

use protocol::{AccountDefinition, Currency, InstrumentId, Limits, Price, Side, Timestamp};

use super::margins::Margins;

/// What an account has of a currency, in its smallest unit. A bust or a correction takes the total below what is held, and so
/// does what margin positions lose; it may become negative by that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Balance {
    pub(crate) total: i128,
    /// Sum of what its open orders hold.
    pub(crate) held: i128,
}

/// The order that another one would be a duplicate of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LastOrder {
    pub(crate) side: Side,
    pub(crate) price: Option<Price>,
    pub(crate) quantity: u64,
    pub(crate) at: Timestamp,
}

/// What an account has and may come to have of an instrument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// Bought minus sold; with the open orders of either side within 2^62.
    pub(crate) quantity: i64,
    /// Sum of signed notionals, in units of the quote currency, or of price times quantity where nothing is settled. Zero
    /// where a margin instrument's quantity is.
    pub(crate) cost: i128,
    /// Open quantity of the account's tracked orders: buys, sells.
    pub(crate) open: [u64; 2],
    /// Open quantity of its reduce-only orders: buys, sells.
    pub(crate) reducing: [u64; 2],
    /// The same orders' open quantity times price, where they have one.
    pub(crate) open_notional: u128,
    pub(crate) open_orders: u32,
    pub(crate) last_order: Option<LastOrder>,
}

/// The place of a side in a pair.
#[inline]
pub(crate) fn at(side: Side) -> usize {
    match side {
        Side::Buy => 0,
        Side::Sell => 1,
    }
}

impl Position {
    /// Of an account that never had any.
    pub(crate) const NOTHING: Self = Self {
        quantity: 0,
        cost: 0,
        open: [0, 0],
        reducing: [0, 0],
        open_notional: 0,
        open_orders: 0,
        last_order: None,
    };

    /// Whether there is anything to report of it.
    pub(crate) fn is_empty(&self) -> bool {
        self.quantity == 0 && self.cost == 0 && self.open == [0, 0]
    }

    /// Quantity that orders of a side could take it to, or through zero.
    pub(crate) fn with_open(&self, side: Side) -> i128 {
        let open = i128::from(self.open[at(side)]);
        match side {
            Side::Buy => i128::from(self.quantity) + open,
            Side::Sell => i128::from(self.quantity) - open,
        }
    }

    /// How much reduce-only orders of a side may take from it.
    pub(crate) fn reducible(&self, side: Side) -> u64 {
        match side {
            Side::Buy if self.quantity < 0 => self.quantity.unsigned_abs(),
            Side::Sell if self.quantity > 0 => self.quantity.unsigned_abs(),
            _ => 0,
        }
    }
}

/// A registered account.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    pub(crate) definition: AccountDefinition,
    pub(crate) killed: bool,
    pub(crate) balances: BTreeMap<Currency, Balance>,
    pub(crate) positions: BTreeMap<InstrumentId, Position>,
    /// What those of them on margin come to.
    pub(crate) margins: Margins,
    /// For instruments that have none of their own.
    pub(crate) limits: Limits,
    /// By instrument; none of them is all zero.
    pub(crate) own_limits: BTreeMap<InstrumentId, Limits>,
}

impl Account {
    pub(crate) fn new(definition: AccountDefinition) -> Self {
        Self {
            definition,
            killed: false,
            balances: BTreeMap::new(),
            positions: BTreeMap::new(),
            margins: Margins::default(),
            limits: Limits::default(),
            own_limits: BTreeMap::new(),
        }
    }

    pub(crate) fn balance(&self, currency: Currency) -> Balance {
        self.balances.get(&currency).copied().unwrap_or_default()
    }

    pub(crate) fn position(&self, instrument: InstrumentId) -> Position {
        self.positions.get(&instrument).copied().unwrap_or_default()
    }

    /// Made where there is none: most often there is one.
    #[inline]
    pub(crate) fn position_mut(&mut self, instrument: InstrumentId) -> &mut Position {
        self.positions.entry(instrument).or_default()
    }

    pub(crate) fn limits_of(&self, instrument: InstrumentId) -> &Limits {
        self.own_limits.get(&instrument).unwrap_or(&self.limits)
    }

    /// Adds to a total.
    pub(crate) fn pay_in(&mut self, currency: Currency, amount: i128) {
        let balance = self.balances.entry(currency).or_default();
        balance.total = balance.total.saturating_add(amount);
    }

    /// Adds to what is held.
    pub(crate) fn hold(&mut self, currency: Currency, amount: i128) {
        let balance = self.balances.entry(currency).or_default();
        balance.held = balance.held.saturating_add(amount);
        debug_assert!(balance.held >= 0, "no more is let go than was held");
    }
}

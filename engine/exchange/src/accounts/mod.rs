//! Participants, accounts, currencies and what they add up to. It keeps numbers and indexes; what may be done with them is
//! decided in `risk`, what a trade does to them in `settle`, and what operators ask in `desk`.

mod account;
pub(crate) mod fees;
mod margins;

use std::collections::{BTreeMap, BTreeSet};

use protocol::{AccountDefinition, AccountId, Currency, InstrumentId, ParticipantId};

pub(crate) use self::account::{Account, LastOrder, Position, at};
use self::fees::Schedules;
pub(crate) use self::margins::{Margin, Marks, Missed};
use crate::arena::Handle;
use crate::directory::Directory;
use crate::trades::Trades;

/// Most accounts.
pub(crate) const ACCOUNTS_MAX: usize = 1_000_000;
/// Most currencies.
pub(crate) const CURRENCIES_MAX: usize = 1_000;
/// Most sets of limits, over all accounts.
pub(crate) const LIMIT_SETS_MAX: u32 = 1_000_000;
/// Most decimals of a currency: those of a price and a quantity together.
pub(crate) const CURRENCY_SCALE_MAX: u8 = 24;

/// A currency, and what accounts have of it in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CurrencyState {
    pub(crate) scale: u8,
    /// All deposits less all withdrawals.
    pub(crate) deposits: i128,
    /// What the venue took in fees less what it paid.
    pub(crate) fees: i128,
}

/// What all accounts have of an instrument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sums {
    /// All long positions.
    pub(crate) long: u128,
    /// What untracked orders have bought less sold in trades with tracked ones.
    pub(crate) untracked_quantity: i128,
    /// The signed notionals of that.
    pub(crate) untracked_cost: i128,
}

/// Place of a reduce-only order among all: account, instrument, side (0 buys, 1 sells), order id.
pub(crate) type ReducingKey = (AccountId, InstrumentId, usize, u64);

/// All accounts.
#[derive(Debug, Default)]
pub(crate) struct Accounts {
    pub(crate) currencies: BTreeMap<Currency, CurrencyState>,
    table: Vec<Account>,
    places: Directory,
    /// Those that have an account, and whether their kill switch is on.
    pub(crate) participants: BTreeMap<ParticipantId, bool>,
    pub(crate) schedules: Schedules,
    /// Sets of limits that are not all zero.
    pub(crate) limit_sets: u32,
    pub(crate) sums: BTreeMap<InstrumentId, Sums>,
    /// Who has a position that is not zero.
    holders: BTreeSet<(InstrumentId, AccountId)>,
    /// Live reduce-only orders.
    pub(crate) reducing: BTreeMap<ReducingKey, Handle>,
    /// Positions whose reduce-only orders may have become too many in this command; empty between commands.
    pub(crate) shrunk: BTreeSet<(AccountId, InstrumentId)>,
    pub(crate) trades: Trades,
    pub(crate) marks: Marks,
}

impl Accounts {
    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    #[inline]
    pub(crate) fn place(&self, id: AccountId) -> Option<u32> {
        self.places.get(id.0)
    }

    #[inline]
    pub(crate) fn get(&self, place: u32) -> &Account {
        &self.table[place as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, place: u32) -> &mut Account {
        &mut self.table[place as usize]
    }

    /// Places in the order of account numbers.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> {
        self.places.places()
    }

    /// In the order of their numbers.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Account> {
        self.places.places().map(|place| self.get(place))
    }

    /// Adds an account whose number is new.
    pub(crate) fn add(&mut self, definition: AccountDefinition) -> u32 {
        let place = self.table.len() as u32;
        self.places.insert(definition.account.0, place);
        self.participants.entry(definition.participant).or_insert(false);
        self.table.push(Account::new(definition));
        place
    }

    /// Whether the account's or its participant's kill switch is on.
    pub(crate) fn is_killed(&self, place: u32) -> bool {
        let account = self.get(place);
        account.killed || self.participants.get(&account.definition.participant) == Some(&true)
    }

    /// Moves a position, and what is kept over all positions with it. It stays within the range of its type: see
    /// [`Position::quantity`].
    pub(crate) fn shift_position(
        &mut self,
        place: u32,
        instrument: InstrumentId,
        quantity: i128,
        cost: i128,
    ) {
        let account = &mut self.table[place as usize];
        let position = account.position_mut(instrument);
        let before = position.quantity;
        let after = (i128::from(before) + quantity).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        debug_assert_eq!(i128::from(after), i128::from(before) + quantity, "positions are bounded at entry");
        position.quantity = after;
        position.cost = position.cost.saturating_add(cost);
        let key = (instrument, account.definition.account);
        if before == 0 && after != 0 {
            self.holders.insert(key);
        } else if before != 0 && after == 0 {
            self.holders.remove(&key);
        }
        let long = &mut self.sums.entry(instrument).or_default().long;
        let part = |quantity: i64| u128::from(quantity.max(0).unsigned_abs());
        *long = *long + part(after) - part(before);
    }

    /// Gives an account's position in an instrument its part of the margin.
    pub(crate) fn put_margin(&mut self, place: u32, id: InstrumentId, currency: Currency, part: Margin) {
        self.table[place as usize].margins.put(id, currency, part, &mut self.marks);
    }

    /// What an account must count anew before its margin in a currency is known.
    #[inline]
    pub(crate) fn missed(&self, place: u32, currency: Currency) -> Missed {
        self.table[place as usize].margins.missed(currency, &self.marks)
    }

    /// It has done so.
    pub(crate) fn catch_up(&mut self, place: u32, currency: Currency) {
        self.table[place as usize].margins.catch_up(currency, &mut self.marks);
    }

    /// Whose position in an instrument is not zero, lowest account first.
    pub(crate) fn holders(&self, instrument: InstrumentId) -> impl Iterator<Item = AccountId> {
        let range = (instrument, AccountId(0))..=(instrument, AccountId(u32::MAX));
        self.holders.range(range).map(|(_, account)| *account)
    }

    pub(crate) fn has_positions(&self, instrument: InstrumentId) -> bool {
        self.holders(instrument).next().is_some()
    }

    pub(crate) fn sums_of(&self, instrument: InstrumentId) -> Sums {
        self.sums.get(&instrument).copied().unwrap_or_default()
    }

    /// An instrument settles in another way from here on; no position and no order of it is there. What was before it is
    /// over.
    pub(crate) fn forget_costs(&mut self, instrument: InstrumentId) {
        debug_assert!(!self.has_positions(instrument), "costs are only forgotten without positions");
        for account in &mut self.table {
            if let Some(position) = account.positions.get_mut(&instrument) {
                position.cost = 0;
            }
        }
        self.sums.remove(&instrument);
        self.trades.forget_instrument(instrument);
    }
}

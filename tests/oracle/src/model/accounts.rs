//! Registered accounts, currencies and fee schedules: what they are, and what operators set of them.

use std::collections::BTreeMap;

use protocol::{
    AccountDefinition, AccountGroup, AccountId, Currency, Fees, InstrumentId, Limits, ParticipantId, Price,
    RejectReason, Side, Timestamp, Transfer,
};

use super::{Oracle, instruments};

/// Most accounts, sets of limits, and fee schedules.
const MOST: usize = 1_000_000;
/// Most currencies.
const MOST_CURRENCIES: usize = 1_000;
/// Most decimals of a currency.
const MOST_DECIMALS: u8 = 24;
/// The largest fee and rebate in millionths.
const MOST_PPM: i32 = 1_000_000;
/// The largest fee and rebate a lot.
const MOST_PER_LOT: i64 = 1_000_000_000_000;
/// The largest amount that is deposited or held.
const MOST_AMOUNT: i128 = 1 << 100;

/// What an account has in an instrument.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Bought minus sold.
    pub quantity: i128,
    /// Sum of the trades' signed notionals.
    pub cost: i128,
}

/// The last accepted order of an account in an instrument (rule 90).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LastOrder {
    pub side: Side,
    pub limit: Option<Price>,
    pub quantity: u64,
    pub at: Timestamp,
}

/// A registered account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    /// Whose it is.
    pub definition: AccountDefinition,
    /// Totals by currency.
    pub balances: BTreeMap<Currency, i128>,
    /// Positions by instrument.
    pub positions: BTreeMap<InstrumentId, Position>,
    /// Limits by instrument, and those for all others.
    pub limits: BTreeMap<Option<InstrumentId>, Limits>,
    pub(super) last_orders: BTreeMap<InstrumentId, LastOrder>,
}

impl Account {
    pub(super) fn balance(&self, currency: Currency) -> i128 {
        self.balances.get(&currency).copied().unwrap_or(0)
    }

    pub(super) fn pay(&mut self, currency: Currency, amount: i128) {
        *self.balances.entry(currency).or_default() += amount;
    }

    pub(super) fn position(&self, instrument: InstrumentId) -> Position {
        self.positions.get(&instrument).copied().unwrap_or_default()
    }
}

/// All accounts and what they share.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Accounts {
    pub registered: BTreeMap<AccountId, Account>,
    /// Decimals by currency.
    pub currencies: BTreeMap<Currency, u8>,
    pub fees: BTreeMap<(InstrumentId, AccountGroup), Fees>,
    /// The venue's own.
    pub venue: BTreeMap<Currency, i128>,
}

impl Accounts {
    /// Rule 83: the schedule in force for an account.
    pub(super) fn fees_of(&self, instrument: InstrumentId, account: AccountId) -> Fees {
        let group = self.registered.get(&account).map_or(AccountGroup(0), |it| it.definition.group);
        let own = self.fees.get(&(instrument, group));
        own.or_else(|| self.fees.get(&(instrument, AccountGroup(0)))).copied().unwrap_or_default()
    }

    pub(super) fn of_participant(&self, participant: ParticipantId) -> impl Iterator<Item = &Account> {
        self.registered.values().filter(move |account| account.definition.participant == participant)
    }
}

/// Whether an administrative request changed something.
pub(super) type Changed = Result<bool, RejectReason>;

impl Oracle {
    pub(super) fn put_currency(&mut self, currency: Currency, scale: u8) -> Changed {
        if scale > MOST_DECIMALS {
            return Err(RejectReason::DefinitionInvalid);
        }
        match self.accounts.currencies.get(&currency) {
            Some(known) if *known == scale => Ok(false),
            Some(_) => Err(RejectReason::AccountExists),
            None if self.accounts.currencies.len() >= MOST_CURRENCIES => Err(RejectReason::AccountsFull),
            None => {
                self.accounts.currencies.insert(currency, scale);
                Ok(true)
            }
        }
    }

    pub(super) fn put_account(&mut self, new: &AccountDefinition) -> Changed {
        if new.account.0 == 0 || new.participant.0 == 0 {
            return Err(RejectReason::DefinitionInvalid);
        }
        let full = self.accounts.registered.len() >= MOST;
        match self.accounts.registered.get_mut(&new.account) {
            Some(known) if known.definition.participant != new.participant => {
                Err(RejectReason::AccountExists)
            }
            Some(known) => {
                let changed = known.definition != *new;
                known.definition = *new;
                Ok(changed)
            }
            None if full => Err(RejectReason::AccountsFull),
            None => {
                let account = Account {
                    definition: *new,
                    balances: BTreeMap::new(),
                    positions: BTreeMap::new(),
                    limits: BTreeMap::new(),
                    last_orders: BTreeMap::new(),
                };
                self.accounts.registered.insert(new.account, account);
                Ok(true)
            }
        }
    }

    pub(super) fn set_limits(
        &mut self,
        account: AccountId,
        instrument: Option<InstrumentId>,
        limits: &Limits,
    ) -> Changed {
        let sets: usize = self.accounts.registered.values().map(|account| account.limits.len()).sum();
        let is_known = instrument.is_none_or(|id| self.instruments.contains_key(&id));
        let account = self.accounts.registered.get_mut(&account).ok_or(RejectReason::UnknownAccount)?;
        if !is_known {
            return Err(RejectReason::UnknownInstrument);
        }
        // Limits that are all zero are none.
        if *limits == Limits::default() {
            return Ok(account.limits.remove(&instrument).is_some());
        }
        if sets >= MOST && !account.limits.contains_key(&instrument) {
            return Err(RejectReason::AccountsFull);
        }
        Ok(account.limits.insert(instrument, *limits) != Some(*limits))
    }

    pub(super) fn set_fees(&mut self, instrument: InstrumentId, group: AccountGroup, fees: &Fees) -> Changed {
        if !self.instruments.contains_key(&instrument) {
            return Err(RejectReason::UnknownInstrument);
        }
        let ppm = -MOST_PPM..=MOST_PPM;
        let per_lot = -MOST_PER_LOT..=MOST_PER_LOT;
        let in_range = ppm.contains(&fees.maker_ppm)
            && ppm.contains(&fees.taker_ppm)
            && per_lot.contains(&fees.maker_per_lot)
            && per_lot.contains(&fees.taker_per_lot);
        if !in_range {
            return Err(RejectReason::DefinitionInvalid);
        }
        if self.accounts.fees.len() >= MOST && !self.accounts.fees.contains_key(&(instrument, group)) {
            return Err(RejectReason::AccountsFull);
        }
        Ok(self.accounts.fees.insert((instrument, group), *fees) != Some(*fees))
    }

    /// Rule 95.
    pub(super) fn transfer(&mut self, transfer: &Transfer) -> Changed {
        let account = self.accounts.registered.get(&transfer.account).ok_or(RejectReason::UnknownAccount)?;
        if !self.accounts.currencies.contains_key(&transfer.currency) {
            return Err(RejectReason::UnknownCurrency);
        }
        let amount = transfer.amount.get();
        let is_bounded = |amount: i128| (-MOST_AMOUNT..=MOST_AMOUNT).contains(&amount);
        let total = account.balance(transfer.currency).checked_add(amount);
        if amount == 0 || !is_bounded(amount) || !total.is_some_and(is_bounded) {
            return Err(RejectReason::AmountInvalid);
        }
        let free = self.free(transfer.account, transfer.currency, &Default::default());
        if amount < 0 && (-amount > free || self.owes(transfer.account)) {
            return Err(RejectReason::InsufficientFunds);
        }
        if let Some(account) = self.accounts.registered.get_mut(&transfer.account) {
            account.pay(transfer.currency, amount);
        }
        Ok(true)
    }

    /// Rule 82: whether rules name currencies that can settle the instrument.
    pub(super) fn can_settle(&self, it: &instruments::Instrument, rules: &protocol::InstrumentRules) -> bool {
        use protocol::Settlement;
        let scale = |currency: Option<Currency>| {
            currency.map(|code| self.accounts.currencies.get(&code).copied().ok_or(()))
        };
        let (Ok(base), Ok(quote)) = (scale(rules.base).transpose(), scale(rules.quote).transpose()) else {
            return false;
        };
        if rules.maintenance_margin > rules.initial_margin || rules.initial_margin > 1 << 56 {
            return false;
        }
        let quantity_scale = it.definition.quantity_scale;
        let notional_scale = it.definition.price_scale + quantity_scale;
        let quote_is_fine = quote.is_some_and(|scale| scale >= notional_scale);
        match rules.settlement {
            Settlement::None => true,
            Settlement::Margin => quote_is_fine,
            Settlement::Cash => {
                quote_is_fine
                    && rules.base != rules.quote
                    && base.is_some_and(|scale| scale >= quantity_scale)
                    && it.definition.price_min.0 > 0
            }
        }
    }
}

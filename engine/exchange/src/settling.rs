//! How one instrument settles: its currencies and the factors by which prices and quantities become their units. The
//! arithmetic of holds, notionals and margins, free of any account.

use protocol::{
    Currency, Fees, InstrumentDefinition, InstrumentId, InstrumentRules, Price, RejectReason, Settlement,
    Side,
};

use crate::accounts::fees::{self, Rate};
use crate::accounts::{Accounts, Margin, Position};
use crate::exchange::Exchange;
use crate::instruments::Instrument;
use crate::risk::Needs;

/// Largest margin per lot, in units of the quote currency.
const MARGIN_MAX: u64 = 1 << 56;
/// Largest quantity of a position with its open orders.
pub(crate) const POSITION_MAX: u64 = 1 << 62;
/// Largest value of a position with its open orders, at the instrument's largest price.
const VALUE_MAX: u128 = 1 << 80;

/// How an instrument settles.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settling {
    pub(crate) instrument: InstrumentId,
    pub(crate) settlement: Settlement,
    /// `None` unless it settles in cash.
    pub(crate) base: Option<Currency>,
    /// `None` where nothing is settled.
    pub(crate) quote: Option<Currency>,
    /// Units of the base currency in one of quantity.
    base_factor: i128,
    /// Units of the quote currency in one of price times one of quantity; 1 where nothing is settled.
    quote_factor: i128,
    lot: u64,
    price_max: Price,
    initial: u64,
    maintenance: u64,
    /// What position and open orders of one side may not exceed, so that no sum overflows.
    pub(crate) bound: u64,
}

/// A saturating product: of 128 bits it is a call, while the numbers that come are nearly always of 64.
#[inline]
pub(crate) fn times(one: i128, other: i128) -> i128 {
    match (i64::try_from(one), i64::try_from(other)) {
        (Ok(one), Ok(other)) => i128::from(one) * i128::from(other),
        _ => one.saturating_mul(other),
    }
}

impl Settling {
    /// Signed by the price.
    #[inline]
    pub(crate) fn notional(&self, price: Price, quantity: u64) -> i128 {
        // 64 bits by 64 bits always fit.
        self.in_quote(i128::from(price.0) * i128::from(quantity))
    }

    /// A sum of prices times quantities in units of the quote currency.
    #[inline]
    pub(crate) fn in_quote(&self, sum: i128) -> i128 {
        times(sum, self.quote_factor)
    }

    /// A quantity in units of the base currency.
    #[inline]
    pub(crate) fn in_base(&self, quantity: i128) -> i128 {
        times(quantity, self.base_factor)
    }

    #[inline]
    pub(crate) fn lots(&self, quantity: u64) -> u64 {
        if self.lot == 1 { quantity } else { quantity / self.lot }
    }

    /// What an order of that side holds, in cash.
    pub(crate) fn held_by(&self, side: Side) -> Option<Currency> {
        match (self.settlement, side) {
            (Settlement::Cash, Side::Buy) => self.quote,
            (Settlement::Cash, Side::Sell) => self.base,
            _ => None,
        }
    }

    /// How much of it.
    pub(crate) fn hold(&self, fees: &Fees, side: Side, needs: Needs, open: u64) -> i128 {
        if self.settlement != Settlement::Cash {
            return 0;
        }
        let price = match (side, needs) {
            (Side::Sell, _) => return self.in_base(open.into()),
            (Side::Buy, Needs::Price(price)) => price,
            (Side::Buy, Needs::Highest) => self.price_max,
            (Side::Buy, Needs::Sweep(..) | Needs::Nothing) => return 0,
        };
        let (notional, lots) = (self.notional(price, open), self.lots(open));
        notional.saturating_add(fees::at_most_of_both(fees, notional, lots))
    }

    /// What a sweep pays at most: the sum of its prices times quantities, with the taker's fee.
    pub(crate) fn sweep_cost(&self, fees: &Fees, sum: i128, quantity: u64) -> i128 {
        let notional = self.in_quote(sum);
        notional.saturating_add(fees::at_most(fees, Rate::Taker, notional, self.lots(quantity)))
    }

    /// Initial margin of a position with the open orders of its worse side.
    pub(crate) fn required(&self, position: &Position) -> i128 {
        let side = |side| position.with_open(side).saturating_abs();
        self.per_lot(self.initial, side(Side::Buy).max(side(Side::Sell)))
    }

    /// Maintenance margin of a position.
    pub(crate) fn maintained(&self, position: &Position) -> i128 {
        self.per_lot(self.maintenance, i128::from(position.quantity).saturating_abs())
    }

    fn per_lot(&self, margin: u64, quantity: i128) -> i128 {
        let lots = match i64::try_from(quantity) {
            Ok(quantity) if self.lot == 1 => i128::from(quantity),
            _ => quantity / i128::from(self.lot),
        };
        times(lots, margin.into())
    }

    /// What a position adds to its account's margin.
    pub(crate) fn margin(&self, position: &Position, mark: Option<Price>) -> Margin {
        Margin {
            unrealised: self.unrealised(position, mark),
            required: self.required(position),
            maintenance: self.maintained(position),
        }
    }

    /// What a position is worth at its mark price, less its cost. Where there is no mark there was no trade.
    pub(crate) fn unrealised(&self, position: &Position, mark: Option<Price>) -> i128 {
        self.value(position, mark).saturating_sub(position.cost)
    }

    pub(crate) fn value(&self, position: &Position, mark: Option<Price>) -> i128 {
        let Some(mark) = mark else { return 0 };
        self.in_quote(i128::from(position.quantity).saturating_mul(mark.0.into()))
    }
}

impl Exchange {
    /// How the instrument of a place settles.
    #[inline]
    pub(crate) fn settling(&self, place: u32) -> Settling {
        self.instruments.get(place).settling()
    }

    /// Gives an instrument other rules, by which it can settle.
    pub(crate) fn set_rules(&mut self, place: u32, rules: &InstrumentRules) {
        let instrument = self.instruments.get_mut(place);
        let settling = settling(&self.accounts, &instrument.definition, rules);
        let special = instrument.special_mut();
        (special.rules, special.settling) = (*rules, settling);
        if let Some(currency) = settling.quote {
            self.accounts.marks.forget(currency);
        }
    }

    /// After an import of currencies, which come behind the rules that name them.
    pub(crate) fn renew_settling(&mut self) {
        for place in 0..self.instruments.len() {
            if let Some(rules) = self.rules(place).copied() {
                self.set_rules(place, &rules);
            }
        }
        self.count_all_margins();
    }

    /// An instrument is about to have other rules: whether it can settle by them, and, where it settles in another way than
    /// until now, whether nothing is there that began in the old one. What its positions cost is forgotten then.
    pub(crate) fn change_settlement(
        &mut self,
        place: u32,
        rules: &InstrumentRules,
    ) -> Result<(), RejectReason> {
        let instrument = self.instruments.get(place);
        let id = instrument.definition.instrument;
        if !self.settles(&instrument.definition, rules) {
            return Err(RejectReason::DefinitionInvalid);
        }
        let way = |rules: &InstrumentRules| (rules.settlement, rules.base, rules.quote);
        if way(&instrument.rules()) == way(rules) {
            return Ok(());
        }
        if self.accounts.has_positions(id) || instrument.has_orders() {
            return Err(RejectReason::DefinitionInvalid);
        }
        self.accounts.forget_costs(id);
        Ok(())
    }

    /// Whether rules settle in a way that can work: see rule 82. The currencies that they name exist.
    pub(crate) fn settles(&self, definition: &InstrumentDefinition, rules: &InstrumentRules) -> bool {
        let scale = |currency: Option<Currency>| {
            let currency = self.accounts.currencies.get(&currency?)?;
            Some(currency.scale)
        };
        let exists = |currency: Option<Currency>| currency.is_none() || scale(currency).is_some();
        let (price_scale, quantity_scale) = (definition.price_scale, definition.quantity_scale);
        let quote_fits = scale(rules.quote).is_some_and(|scale| scale >= price_scale + quantity_scale);
        let works = match rules.settlement {
            Settlement::None => true,
            Settlement::Margin => quote_fits,
            Settlement::Cash => {
                quote_fits
                    && scale(rules.base).is_some_and(|scale| scale >= quantity_scale)
                    && rules.base != rules.quote
                    && definition.price_min.0 > 0
            }
        };
        works
            && exists(rules.base)
            && exists(rules.quote)
            && rules.maintenance_margin <= rules.initial_margin
            && rules.initial_margin <= MARGIN_MAX
    }
}

impl Settling {
    /// Of an instrument that settles nothing.
    pub(crate) fn none(definition: &InstrumentDefinition) -> Self {
        settling(&Accounts::default(), definition, &InstrumentRules::default())
    }
}

impl Instrument {
    #[inline]
    pub(crate) fn settling(&self) -> Settling {
        self.special.as_ref().map_or_else(|| Settling::none(&self.definition), |special| special.settling)
    }
}

fn settling(accounts: &Accounts, definition: &InstrumentDefinition, rules: &InstrumentRules) -> Settling {
    let settles = rules.settlement != Settlement::None;
    let quote = rules.quote.filter(|_| settles);
    let base = rules.base.filter(|_| rules.settlement == Settlement::Cash);
    let scale = |currency: Option<Currency>| {
        currency.and_then(|currency| accounts.currencies.get(&currency)).map(|currency| currency.scale)
    };
    let factor = |currency: Option<Currency>, taken: u8| {
        scale(currency).map_or(1, |scale| 10i128.pow(scale.saturating_sub(taken).into()))
    };
    let quote_factor = factor(quote, definition.price_scale + definition.quantity_scale);
    let base_factor = factor(base, definition.quantity_scale);
    let price = definition.price_min.0.unsigned_abs().max(definition.price_max.0.unsigned_abs()).max(1);
    let unit = quote_factor.unsigned_abs().saturating_mul(price.into()).max(base_factor.unsigned_abs());
    Settling {
        instrument: definition.instrument,
        settlement: rules.settlement,
        base,
        quote,
        base_factor,
        quote_factor,
        lot: definition.lot_size.0,
        price_max: definition.price_max,
        initial: rules.initial_margin,
        maintenance: rules.maintenance_margin,
        bound: POSITION_MAX.min(u64::try_from(VALUE_MAX / unit).unwrap_or(u64::MAX)),
    }
}

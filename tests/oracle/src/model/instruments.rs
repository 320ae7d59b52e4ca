//! Instruments: their grid, their rules, and the prices that are kept of them. Rules 9, 67, 102, 105.

use std::collections::BTreeMap;

use protocol::{
    Allocation, BandAction, CancelReason, Event, Indicative, InstrumentDefinition, InstrumentId,
    InstrumentRules, Phase, Price, PriceKind, Quantity, RejectReason, Side, TickRow, TickTable, Timestamp,
};

use super::accounts::Changed;
use super::phases::Scheduled;
use super::{Oracle, UNASKED};

/// An instrument and all that is kept of it but its orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Instrument {
    /// Its definition.
    pub definition: InstrumentDefinition,
    /// Its phase.
    pub phase: Phase,
    /// Its rules.
    pub rules: InstrumentRules,
    /// Its tick table.
    pub ticks: TickTable,
    /// Price of the last trade.
    pub last_trade: Option<Price>,
    /// Price of the last uncross, or what an operator set since.
    pub reference: Option<Price>,
    /// What an operator set.
    pub mark: Option<Price>,
    /// Changes of phase by their times.
    pub schedule: BTreeMap<Timestamp, Scheduled>,
    /// End of the volatility auction that is on, and what it was delayed to.
    pub volatility: Option<(Timestamp, Option<Timestamp>)>,
    /// The last indicative told in the auction that is on.
    pub indicative: Option<Indicative>,
    /// Best displayed bid and ask when pegged orders were last looked at in this phase.
    pub looked_at: Option<[Option<Price>; 2]>,
}

/// Rule 20: a stop price at a distance from the trigger.
pub(super) fn trail(side: Side, trigger: Price, distance: u64) -> Price {
    Price(match side {
        Side::Buy => trigger.0.saturating_add_unsigned(distance),
        Side::Sell => trigger.0.saturating_sub_unsigned(distance),
    })
}

impl Instrument {
    pub(super) fn new(definition: InstrumentDefinition) -> Self {
        Self {
            definition,
            phase: Phase::Continuous,
            rules: InstrumentRules::default(),
            ticks: TickTable::default(),
            last_trade: None,
            reference: None,
            mark: None,
            schedule: BTreeMap::new(),
            volatility: None,
            indicative: None,
            looked_at: None,
        }
    }

    pub(super) fn is_pro_rata(&self) -> bool {
        self.rules.allocation != Allocation::PriceTime
    }

    /// Rule 67.
    pub(super) fn mark_price(&self) -> Option<Price> {
        self.mark.or(self.last_trade)
    }

    /// The lowest and the highest price.
    pub(super) fn limits(&self) -> (i128, i128) {
        (self.definition.price_min.0.into(), self.definition.price_max.0.into())
    }

    /// The rows of the tick table with the one below the first: from where, up to where, tick.
    fn rows(&self) -> Vec<(i128, i128, i128)> {
        let rows: Vec<&TickRow> = self.ticks.rows().iter().collect();
        let mut all = vec![(i128::MIN, i128::from(self.definition.tick_size.0))];
        all.extend(rows.iter().map(|row| (i128::from(row.from.0), i128::from(row.tick.0))));
        let ends = all.iter().skip(1).map(|(from, _)| *from).chain([i128::MAX]);
        all.iter().zip(ends).map(|((from, tick), end)| (*from, end, *tick)).collect()
    }

    /// The nearest price on tick that is not above, whatever the limits.
    pub(super) fn down_wide(&self, price: i128) -> i128 {
        for (from, end, tick) in self.rows().into_iter().rev() {
            let highest = price.min(end.saturating_sub(1));
            let on_tick = highest.div_euclid(tick) * tick;
            if from <= highest && from <= on_tick {
                return on_tick;
            }
        }
        price
    }

    /// The nearest price on tick that is not below, whatever the limits.
    pub(super) fn up_wide(&self, price: i128) -> i128 {
        for (from, end, tick) in self.rows() {
            let lowest = price.max(from);
            let on_tick = -(-lowest).div_euclid(tick) * tick;
            if lowest < end && on_tick < end {
                return on_tick;
            }
        }
        price
    }

    /// A price if it is within the limits.
    pub(super) fn within(&self, price: i128) -> Option<Price> {
        let (low, high) = self.limits();
        (low..=high).contains(&price).then_some(Price(price as i64))
    }

    pub(super) fn down(&self, price: i128) -> Option<Price> {
        self.within(self.down_wide(price))
    }

    pub(super) fn up(&self, price: i128) -> Option<Price> {
        self.within(self.up_wide(price))
    }

    pub(super) fn check_price(&self, price: Price) -> Result<(), RejectReason> {
        if self.within(price.0.into()).is_none() {
            return Err(RejectReason::PriceOutsideLimits);
        }
        if self.down_wide(price.0.into()) != i128::from(price.0) {
            return Err(RejectReason::PriceNotOnTick);
        }
        Ok(())
    }

    pub(super) fn is_on_lot(&self, quantity: Quantity) -> bool {
        quantity.0.is_multiple_of(self.definition.lot_size.0)
    }

    pub(super) fn check_quantity(&self, wanted: Quantity) -> Result<(), RejectReason> {
        if wanted.0 == 0 {
            return Err(RejectReason::QuantityZero);
        }
        if wanted > self.definition.quantity_max {
            return Err(RejectReason::QuantityAboveMaximum);
        }
        if !self.is_on_lot(wanted) {
            return Err(RejectReason::QuantityNotOnLot);
        }
        if wanted < self.rules.quantity_min {
            return Err(RejectReason::QuantityBelowMinimum);
        }
        Ok(())
    }

    /// Rule 60: phases that may be set or scheduled.
    pub(super) fn check_phase(&self, phase: Phase) -> Result<(), RejectReason> {
        if self.phase == Phase::Delisted {
            return Err(RejectReason::InstrumentClosed);
        }
        if phase == Phase::Delisted {
            return Err(RejectReason::DefinitionInvalid);
        }
        Ok(())
    }
}

impl Oracle {
    pub(super) fn put_rules(&mut self, id: InstrumentId, rules: &InstrumentRules) -> Changed {
        let it = self.instruments.get(&id).ok_or(RejectReason::UnknownInstrument)?;
        let settles_otherwise = (it.rules.settlement, it.rules.base, it.rules.quote)
            != (rules.settlement, rules.base, rules.quote);
        let in_use = self.orders.values().any(|order| order.instrument == id)
            || self.accounts.registered.values().any(|account| account.position(id).quantity != 0);
        let no_time = rules.band_action == BandAction::Auction && rules.volatility_ms == 0;
        let far = [rules.static_band, rules.dynamic_band, rules.protection]
            .iter()
            .any(|distance| i64::try_from(*distance).is_err());
        if !self.can_settle(it, rules) || settles_otherwise && in_use || no_time || far {
            return Err(RejectReason::DefinitionInvalid);
        }
        let changed = it.rules != *rules;
        if settles_otherwise {
            for account in self.accounts.registered.values_mut() {
                account.positions.entry(id).and_modify(|position| position.cost = 0);
            }
            self.kept.retain(|_, kept| kept.instrument != id);
        }
        self.instruments.entry(id).and_modify(|it| it.rules = *rules);
        self.touched.insert(id);
        Ok(changed)
    }

    pub(super) fn put_tick_table(&mut self, id: InstrumentId, table: &TickTable) -> Changed {
        let it = self.instruments.get_mut(&id).ok_or(RejectReason::UnknownInstrument)?;
        let rise = table.rows().windows(2).all(|pair| pair[0].from < pair[1].from);
        let tick_size = it.definition.tick_size.0;
        let fit = table.rows().iter().all(|row| row.tick.0 > 0 && row.tick.0 % tick_size == 0);
        if !rise || !fit {
            return Err(RejectReason::DefinitionInvalid);
        }
        let changed = it.ticks != *table;
        it.ticks = *table;
        // Rules 24 and 30.
        it.looked_at = None;
        self.touched.insert(id);
        Ok(changed)
    }

    pub(super) fn set_price(&mut self, id: InstrumentId, kind: PriceKind, price: Price) -> Changed {
        let it = self.instruments.get_mut(&id).ok_or(RejectReason::UnknownInstrument)?;
        it.check_price(price)?;
        let place = match kind {
            PriceKind::Reference => &mut it.reference,
            PriceKind::Mark => &mut it.mark,
        };
        let changed = place.replace(price) != Some(price);
        if kind == PriceKind::Mark {
            self.call_margins_in(id);
        }
        Ok(changed)
    }

    /// Rule 105.
    pub(super) fn delist(&mut self, id: InstrumentId) -> Result<(), RejectReason> {
        let it = self.instruments.get(&id).ok_or(RejectReason::UnknownInstrument)?;
        if it.phase == Phase::Delisted {
            return Ok(());
        }
        if self.accounts.registered.values().any(|account| account.position(id).quantity != 0) {
            return Err(RejectReason::PositionsOpen);
        }
        for order in self.orders_of_instrument(id) {
            self.cancel(order, CancelReason::Delisted, UNASKED);
        }
        self.instruments.entry(id).and_modify(|it| {
            it.phase = Phase::Delisted;
            it.schedule.clear();
            it.volatility = None;
            it.indicative = None;
            it.looked_at = None;
        });
        self.kept.retain(|_, kept| kept.instrument != id);
        self.events.push(Event::PhaseChanged(id, Phase::Delisted));
        Ok(())
    }
}

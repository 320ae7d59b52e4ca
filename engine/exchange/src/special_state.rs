//! Export and import of what instruments have beyond their definitions.

use protocol::{
    Indicative, InstrumentId, InstrumentRules, Phase, Price, Quantity, Side, TICK_ROWS_MAX, TickRow,
    TickTable, Timestamp,
};

use crate::exchange::Exchange;
use crate::import::ImportError;
use crate::instruments::Instrument;
use crate::record::{ChangeRecord, SpecialRecord, ToldRecord};
use crate::schedule::{Change, SCHEDULE_MAX};
use crate::settings;

impl Instrument {
    /// The record of its special part, where it has one. Its orders have records of their own.
    pub(crate) fn special_record(&self) -> Option<SpecialRecord> {
        let special = self.special.as_ref()?;
        Some(SpecialRecord {
            instrument: self.definition.instrument.0,
            rules: special.rules.to_bytes(),
            ticks: special.ticks.rows().iter().map(|row| [row.from.0, row.tick.0]).collect(),
            reference: special.reference.map(|price| price.0),
            mark: special.mark.map(|price| price.0),
            changes: special.schedule.changes.values().map(change_record).collect(),
            volatility_end: special.schedule.volatility_end.as_ref().map(change_record),
            told: special.told.as_ref().and_then(told_record),
        })
    }
}

fn change_record(change: &Change) -> ChangeRecord {
    ChangeRecord { at: change.at.0, phase: change.phase.to_byte(), delayed: change.delayed }
}

fn told_record(told: &Indicative) -> Option<ToldRecord> {
    Some(ToldRecord {
        price: told.price?.0,
        quantity: told.quantity.0,
        surplus: told.surplus.0,
        surplus_side: told.surplus_side.map_or(0, Side::to_byte),
    })
}

fn change(record: &ChangeRecord) -> Result<Change, ImportError> {
    let phase = Phase::from_byte(record.phase).filter(|phase| *phase != Phase::Delisted);
    let phase = phase.ok_or(ImportError::Field("scheduled phase"))?;
    Ok(Change { at: Timestamp(record.at), phase, delayed: record.delayed })
}

fn told(instrument: InstrumentId, record: &ToldRecord) -> Result<Indicative, ImportError> {
    let surplus_side = match record.surplus_side {
        0 => None,
        byte => Some(Side::from_byte(byte).ok_or(ImportError::Field("surplus side"))?),
    };
    let (quantity, surplus) = (Quantity(record.quantity), Quantity(record.surplus));
    Ok(Indicative { instrument, price: Some(Price(record.price)), quantity, surplus, surplus_side })
}

fn tick_table(rows: &[[i64; 2]]) -> Option<TickTable> {
    let mut table = [TickRow::default(); TICK_ROWS_MAX];
    let used = table.get_mut(..rows.len())?;
    for (row, [from, tick]) in used.iter_mut().zip(rows) {
        *row = TickRow { from: Price(*from), tick: Price(*tick) };
    }
    TickTable::new(used)
}

impl Exchange {
    /// Takes in what an instrument has beyond its definition.
    pub(crate) fn import_special(&mut self, record: &SpecialRecord) -> Result<(), ImportError> {
        let id = InstrumentId(record.instrument);
        let place = self.instruments.place(id).ok_or(ImportError::Unknown("instrument"))?;
        let rules = InstrumentRules::from_bytes(&record.rules).map_err(|_| ImportError::Field("rules"))?;
        if !settings::rules_are_valid(&rules) {
            return Err(ImportError::Field("rules"));
        }
        let ticks = tick_table(&record.ticks).ok_or(ImportError::Field("tick table"))?;
        let instrument = self.instruments.get_mut(place);
        if !settings::ticks_are_valid(&ticks, instrument.definition.tick_size) {
            return Err(ImportError::Field("tick table"));
        }
        let is_sorted = record.changes.windows(2).all(|pair| pair[0].at < pair[1].at);
        if !is_sorted || record.changes.len() > SCHEDULE_MAX {
            return Err(ImportError::Field("schedule"));
        }
        let is_auction = instrument.phase.is_auction();
        let special = instrument.special_mut();
        special.rules = rules;
        special.ticks = ticks;
        special.reference = record.reference.map(Price);
        special.mark = record.mark.map(Price);
        for record in &record.changes {
            let change = change(record)?;
            special.schedule.changes.insert(change.at, change);
        }
        special.schedule.volatility_end = record.volatility_end.as_ref().map(change).transpose()?;
        special.told = record.told.as_ref().map(|record| told(id, record)).transpose()?;
        if special.told.is_some() && !is_auction {
            return Err(ImportError::Field("indicative price"));
        }
        self.arm(place);
        Ok(())
    }
}

//! The record of what an instrument has beyond its definition.

use protocol::StreamHash;
use rkyv::{Archive, Deserialize, Serialize};

/// Rules, tick table, prices and phases to come of an instrument that has any, or had an order that needed them.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct SpecialRecord {
    /// The instrument.
    pub instrument: u32,
    /// Its rules, as their request's body has them.
    pub rules: [u8; 108],
    /// Rows of its tick table: lowest price, tick size.
    pub ticks: Vec<[i64; 2]>,
    /// Reference price.
    pub reference: Option<i64>,
    /// Mark price that an operator set.
    pub mark: Option<i64>,
    /// Changes of phase to come, by time.
    pub changes: Vec<ChangeRecord>,
    /// End of the volatility auction that is on.
    pub volatility_end: Option<ChangeRecord>,
    /// What was told last of the uncross of the auction that is on.
    pub told: Option<ToldRecord>,
}

/// A change of phase to come.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct ChangeRecord {
    /// When, in Unix nanoseconds.
    pub at: u64,
    /// Byte of the phase.
    pub phase: u8,
    /// The time was drawn when the one scheduled had come.
    pub delayed: bool,
}

/// An indicative price and quantity.
#[derive(Clone, Debug, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct ToldRecord {
    /// Price.
    pub price: i64,
    /// What would trade.
    pub quantity: u64,
    /// What would be left on the larger side.
    pub surplus: u64,
    /// Byte of the larger side; 0 where both are equal.
    pub surplus_side: u8,
}

impl ChangeRecord {
    fn fold(&self, hash: &mut StreamHash) {
        hash.pair(self.at, u32::from_le_bytes([self.phase, self.delayed.into(), 0, 0]).into());
    }
}

impl SpecialRecord {
    pub(super) fn fold(&self, hash: &mut StreamHash) {
        hash.pair(7, self.instrument.into());
        hash.bytes(&self.rules);
        hash.pair(self.ticks.len() as u64, self.changes.len() as u64);
        for [from, tick] in &self.ticks {
            hash.pair(*from as u64, *tick as u64);
        }
        for price in [self.reference, self.mark] {
            hash.pair(price.is_some().into(), price.unwrap_or(0) as u64);
        }
        for change in &self.changes {
            change.fold(hash);
        }
        hash.pair(self.volatility_end.is_some().into(), self.told.is_some().into());
        if let Some(end) = &self.volatility_end {
            end.fold(hash);
        }
        if let Some(told) = &self.told {
            hash.pair(told.price as u64, told.quantity);
            hash.pair(told.surplus, told.surplus_side.into());
        }
    }
}

//! What trades cost: schedules by instrument and account group, and the arithmetic of one fee.

use std::collections::BTreeMap;

use protocol::{AccountGroup, Fees, InstrumentId};

use crate::settling::times;

/// Most schedules.
pub(crate) const SCHEDULES_MAX: usize = 1_000_000;
/// A fee is never more than the notional, nor is a rebate.
const PPM_MAX: i32 = 1_000_000;
/// Largest fee per lot either way, in units of the quote currency.
const PER_LOT_MAX: i64 = 1_000_000_000_000;

/// All schedules that were set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Schedules(BTreeMap<(InstrumentId, AccountGroup), Fees>);

impl Schedules {
    /// What orders of a group pay: by its own schedule, or by that of all groups without one.
    pub(crate) fn of(&self, instrument: InstrumentId, group: AccountGroup) -> Fees {
        let find = |group| self.0.get(&(instrument, group)).copied();
        find(group).or_else(|| find(AccountGroup(0))).unwrap_or_default()
    }

    pub(crate) fn get(&self, instrument: InstrumentId, group: AccountGroup) -> Option<&Fees> {
        self.0.get(&(instrument, group))
    }

    pub(crate) fn set(&mut self, instrument: InstrumentId, group: AccountGroup, fees: Fees) {
        self.0.insert((instrument, group), fees);
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// By instrument, then by group.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (InstrumentId, AccountGroup, &Fees)> {
        self.0.iter().map(|((instrument, group), fees)| (*instrument, *group, fees))
    }
}

/// Whether every rate is within what sums have room for.
pub(crate) fn is_valid(fees: &Fees) -> bool {
    let ppm = |rate: i32| rate.unsigned_abs() <= PPM_MAX as u32;
    let per_lot = |rate: i64| rate.unsigned_abs() <= PER_LOT_MAX as u64;
    ppm(fees.maker_ppm) && ppm(fees.taker_ppm) && per_lot(fees.maker_per_lot) && per_lot(fees.taker_per_lot)
}

/// Whose rates a side of a trade pays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rate {
    Maker,
    Taker,
}

fn parts(fees: &Fees, rate: Rate) -> (i32, i64) {
    match rate {
        Rate::Maker => (fees.maker_ppm, fees.maker_per_lot),
        Rate::Taker => (fees.taker_ppm, fees.taker_per_lot),
    }
}

fn sum(ppm: i32, per_lot: i64, notional: i128, lots: u64) -> i128 {
    let parts = times(notional.saturating_abs(), ppm.into());
    // A division of 128 bits is a call; one of 64 bits by a constant is a product.
    let share = match i64::try_from(parts) {
        Ok(parts) => i128::from(parts / i64::from(PPM_MAX)),
        Err(_) => parts / i128::from(PPM_MAX),
    };
    share.saturating_add(i128::from(per_lot) * i128::from(lots))
}

/// The fee of one trade, in units of the quote currency; negative where it is paid out. Parts of a unit are dropped.
pub(crate) fn of_trade(fees: &Fees, rate: Rate, notional: i128, lots: u64) -> i128 {
    let (ppm, per_lot) = parts(fees, rate);
    sum(ppm, per_lot, notional, lots)
}

/// The most that the fees of a notional can come to, however it is cut into trades: parts of a unit that are dropped from
/// a rebate would else be missing.
pub(crate) fn at_most(fees: &Fees, rate: Rate, notional: i128, lots: u64) -> i128 {
    let (ppm, per_lot) = parts(fees, rate);
    sum(ppm.max(0), per_lot, notional, lots).max(0)
}

/// The most that they can come to at either rate.
pub(crate) fn at_most_of_both(fees: &Fees, notional: i128, lots: u64) -> i128 {
    at_most(fees, Rate::Maker, notional, lots).max(at_most(fees, Rate::Taker, notional, lots))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FEES: Fees = Fees { maker_ppm: -100, taker_ppm: 250, maker_per_lot: 3, taker_per_lot: -1 };

    #[test]
    fn parts_of_a_unit_are_dropped_towards_zero() {
        assert_eq!(of_trade(&FEES, Rate::Taker, 7_999, 0), 1);
        assert_eq!(of_trade(&FEES, Rate::Taker, -7_999, 2), -1);
        assert_eq!(of_trade(&FEES, Rate::Maker, 19_999, 0), -1);
        assert_eq!(of_trade(&FEES, Rate::Maker, 19_999, 2), 5);
    }

    #[test]
    fn a_hold_covers_every_way_to_cut_the_notional() {
        for rate in [Rate::Maker, Rate::Taker] {
            for cut in 0..=20_000 {
                let pieces = of_trade(&FEES, rate, cut, 1) + of_trade(&FEES, rate, 20_000 - cut, 1);
                assert!(pieces <= at_most(&FEES, rate, 20_000, 2), "{rate:?} {cut}");
            }
        }
    }

    #[test]
    fn a_group_without_its_own_schedule_pays_that_of_all() {
        let mut schedules = Schedules::default();
        let (instrument, all, own) = (InstrumentId(1), AccountGroup(0), AccountGroup(2));
        assert_eq!(schedules.of(instrument, own), Fees::default());
        schedules.set(instrument, all, FEES);
        assert_eq!(schedules.of(instrument, own), FEES);
        schedules.set(instrument, own, Fees::default());
        assert_eq!(schedules.of(instrument, own), Fees::default());
        assert_eq!(schedules.of(InstrumentId(2), own), Fees::default());
    }

    #[test]
    fn rates_have_bounds() {
        assert!(is_valid(&Fees { maker_ppm: -1_000_000, taker_ppm: 1_000_000, ..FEES }));
        assert!(!is_valid(&Fees { maker_ppm: i32::MIN, ..FEES }));
        assert!(!is_valid(&Fees { taker_ppm: 1_000_001, ..FEES }));
        assert!(!is_valid(&Fees { maker_per_lot: i64::MIN, ..FEES }));
        assert!(!is_valid(&Fees { taker_per_lot: PER_LOT_MAX + 1, ..FEES }));
    }
}

//! What instruments have beyond their definitions, through records: everything comes back, and what can't be is refused.

use protocol::{BandAction, Body, InstrumentRules, Phase, Price, PriceKind, Quantity, TickRow, TickTable};

use super::floor::{Floor, X, buy, sell};
use crate::{Exchange, ImportError, Record, SpecialRecord};

/// An instrument with everything that its record can hold, in an auction that a band brought about.
fn rich() -> Floor {
    let mut floor = Floor::new();
    floor.operator(Body::SetSeed(77));
    floor.rules(InstrumentRules {
        quantity_min: Quantity(1),
        static_band: 20,
        band_action: BandAction::Auction,
        volatility_ms: 100,
        random_end_ms: 1_000,
        ..InstrumentRules::default()
    });
    let row = TickRow { from: Price(500), tick: Price(5) };
    floor.operator(Body::PutTickTable(X, TickTable::new(&[row]).expect("one row")));
    floor.reference(100);
    floor.operator(Body::SetPrice(X, PriceKind::Mark, Price(99)));
    floor.schedule(9_000, Phase::Closed);
    floor.schedule(9_500, Phase::PreOpen);
    floor.bob(sell(3, 130));
    floor.ann(buy(4, 131));
    floor
}

fn records(floor: &Floor) -> Vec<Record> {
    let mut records: Vec<Record> = Vec::new();
    floor.exchange.export(&mut |record| records.push(record));
    records
}

/// The state's hash, or why it is none, with a change to the special record.
fn changed(floor: &Floor, change: &dyn Fn(&mut SpecialRecord)) -> Result<u64, ImportError> {
    let mut records = records(floor);
    for record in &mut records {
        if let Record::Special(special) = record {
            change(special);
        }
    }
    Exchange::import(records).map(|exchange| exchange.state_hash())
}

#[test]
fn every_field_is_state() {
    let floor = rich();
    floor.check_records();
    let mut hashes = vec![floor.exchange.state_hash()];
    let mut check = |change: &dyn Fn(&mut SpecialRecord)| {
        hashes.push(changed(&floor, change).expect("a state"));
    };
    check(&|record| record.rules[88] = 9);
    check(&|record| record.ticks[0] = [500, 10]);
    check(&|record| record.ticks.clear());
    check(&|record| record.reference = None);
    check(&|record| record.mark = Some(98));
    check(&|record| record.changes[0].at += 1);
    check(&|record| record.changes[1].phase = Phase::Halted.to_byte());
    check(&|record| record.changes[1].delayed = true);
    check(&|record| record.changes.truncate(1));
    check(&|record| record.volatility_end = None);
    check(&|record| record.told = None);
    check(&|record| record.told.as_mut().expect("something was told").price = 1);
    check(&|record| record.told.as_mut().expect("something was told").quantity = 1);
    check(&|record| record.told.as_mut().expect("something was told").surplus = 0);
    check(&|record| record.told.as_mut().expect("something was told").surplus_side = 0);
    let all = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), all);
}

#[test]
fn what_can_not_be_is_refused() {
    let floor = rich();
    let refused = |change: &dyn Fn(&mut SpecialRecord)| changed(&floor, change).expect_err("no state");
    assert_eq!(refused(&|record| record.instrument = 2), ImportError::Unknown("instrument"));
    assert_eq!(refused(&|record| record.rules[96] = 9), ImportError::Field("rules"));
    assert_eq!(refused(&|record| record.rules[47] = 0x80), ImportError::Field("rules"));
    assert_eq!(refused(&|record| record.ticks.push([400, 5])), ImportError::Field("tick table"));
    assert_eq!(refused(&|record| record.ticks = vec![[500, 0]]), ImportError::Field("tick table"));
    assert_eq!(refused(&|record| record.ticks = vec![[500, 5]; 9]), ImportError::Field("tick table"));
    assert_eq!(refused(&|record| record.changes[0].at = 9_500_000_000), ImportError::Field("schedule"));
    assert_eq!(refused(&|record| record.changes[0].phase = 77), ImportError::Field("scheduled phase"));
    let delisted = Phase::Delisted.to_byte();
    assert_eq!(refused(&|record| record.changes[0].phase = delisted), ImportError::Field("scheduled phase"));
    let side = refused(&|record| record.told.as_mut().expect("something was told").surplus_side = 7);
    assert_eq!(side, ImportError::Field("surplus side"));
    let mut halted = rich();
    halted.phase(Phase::Halted);
    let told = records(&floor).into_iter().find_map(|record| match record {
        Record::Special(special) => special.told,
        _ => None,
    });
    let stale = changed(&halted, &|record| record.told.clone_from(&told)).expect_err("no state");
    assert_eq!(stale, ImportError::Field("indicative price"));
}

#[test]
fn a_restored_auction_goes_on_as_the_other() {
    let mut floor = rich();
    let mut restored = rich();
    restored.exchange = Exchange::import(records(&floor)).expect("a state");
    for floor in [&mut floor, &mut restored] {
        floor.bob(sell(1, 120));
        floor.ann(buy(2, 140));
        floor.tick(1_100);
        floor.tick(2_200);
        floor.ann(buy(2, 119));
        floor.tick(9_000);
    }
    assert_eq!(restored.exchange.running_hash(), floor.exchange.running_hash());
    assert_eq!(restored.exchange.state_hash(), floor.exchange.state_hash());
    assert_eq!(floor.exchange.open_orders(), 2);
}

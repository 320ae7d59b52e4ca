//! Records of accounts that were changed on their way are no state.

use protocol::{
    AccountGroup, AccountId, Body, Fees, InstrumentId, KillTarget, Limits, ParticipantId, SessionId, Side,
    Throttle,
};

use super::till::{ANN, BOB, Till, ZOE, limit};
use crate::record::accounts::TradeSideRecord;
use crate::{AccountsRecord, Exchange, ImportError, Record};

/// Everything there is of accounts.
fn till() -> Till {
    let mut till = Till::new();
    till.deposit(10, "EUR", 100_000);
    till.deposit(20, "BTC", 500_000);
    let fees = Fees { maker_ppm: 100, taker_ppm: 1_000, maker_per_lot: 1, taker_per_lot: 2 };
    till.admin(Body::SetFees(InstrumentId(1), AccountGroup(0), fees));
    for instrument in [None, Some(InstrumentId(1))] {
        let limits = Limits { quantity: 1_000, ..Limits::default() };
        till.admin(Body::SetLimits(AccountId(10), instrument, limits));
    }
    till.admin(Body::SetThrottle(SessionId(ZOE), Throttle { orders: 5, cancels: 5 }));
    till.order(ANN, limit(1, 10, Side::Buy, 100, 50));
    till.order(BOB, limit(1, 20, Side::Sell, 60, 50));
    till.order(ZOE, limit(3, 0, Side::Buy, 50, 100));
    till.order(ANN, limit(3, 10, Side::Sell, 20, 100));
    till.admin(Body::Kill(KillTarget::Participant(ParticipantId(2)), true));
    till
}

fn records(exchange: &Exchange) -> Vec<Record> {
    let mut records = Vec::new();
    exchange.export(&mut |record| records.push(record));
    records
}

/// Imports the records with one of accounts changed: the first that `change` says it has changed.
fn changed(change: impl Fn(&mut AccountsRecord) -> bool) -> Result<u64, ImportError> {
    let mut records = records(&till().exchange);
    let mut accounts = records.iter_mut().filter_map(|record| match record {
        Record::Accounts(record) => Some(record),
        _ => None,
    });
    assert!(accounts.any(|record| change(record)), "there is such a record");
    Exchange::import(records).map(|exchange| exchange.state_hash())
}

/// A change of the first record of a kind.
macro_rules! with {
    ($kind:ident, $field:ident $(. $more:ident)* = $value:expr) => {
        changed(|record| match record {
            AccountsRecord::$kind(record) => {
                record.$field $(. $more)* = $value;
                true
            }
            _ => false,
        })
    };
}

#[test]
fn what_is_imported_of_accounts_is_checked() {
    use ImportError::{Field, Order, Unknown};
    let state = till().exchange.state_hash();
    assert_eq!(changed(|_| true), Ok(state));
    assert_eq!(with!(Currency, scale = 25), Err(Field("currency")));
    assert_eq!(with!(Currency, code = [0; 8]), Err(Field("currency")));
    assert_eq!(with!(Currency, code = *b"EUR     "), Err(ImportError::Twice("currency")));
    assert_eq!(with!(Account, account = 0), Err(Field("account")));
    assert_eq!(with!(Account, account = 20), Err(Order("account")));
    assert_eq!(with!(Account, participant = 0), Err(Field("account")));
    assert_eq!(with!(Account, self_trade_action = 9), Err(Field("self-trade action")));
    assert_eq!(with!(Balance, currency = *b"USD     "), Err(Unknown("currency")));
    assert_eq!(with!(Position, instrument = 9), Err(Unknown("instrument")));
    assert_eq!(with!(Position, instrument = 3), Err(ImportError::Twice("position")));
    assert_eq!(with!(Position, quantity = i64::MIN), Err(Field("position")));
    assert_eq!(with!(Limits, bounds = [0; 6]), Err(Field("limits")));
    assert_eq!(with!(Limits, instrument = Some(1)), Err(ImportError::Twice("set of limits")));
    assert_eq!(with!(Limits, instrument = Some(9)), Err(Unknown("instrument")));
    assert_eq!(with!(Fees, instrument = 9), Err(Unknown("instrument")));
    assert_eq!(with!(Fees, rates.ppm = [0, 1_000_001]), Err(Field("fees")));
    assert_eq!(with!(Controls, session = 0), Err(Unknown("session")));
    assert_eq!(with!(Controls, session = 2), Err(ImportError::Twice("session's controls")));
    assert_eq!(with!(Controls, participant = 0), Err(Field("session's controls")));
    assert_eq!(with!(Joined, session = 9), Err(Unknown("session")));
    assert_eq!(with!(Joined, session = 2), Err(ImportError::Twice("session's participant")));
    assert_eq!(with!(Joined, trading_day = 0), Err(Field("session's participant")));
    assert_eq!(with!(Joined, trading_day = 9), Err(Field("session's participant")));
    assert_eq!(with!(Sums, instrument = 9), Err(Unknown("instrument")));
    assert_eq!(with!(Trade, trade_id = 9), Err(Order("trade")));
    assert_eq!(with!(Trade, instrument = 9), Err(Unknown("instrument")));
    let side_changed = |change: fn(&mut TradeSideRecord)| {
        changed(|record| match record {
            AccountsRecord::Trade(trade) => {
                change(&mut trade.sides[0]);
                true
            }
            _ => false,
        })
    };
    assert_eq!(side_changed(|side| side.session = 9), Err(Unknown("session")));
    assert_eq!(side_changed(|side| side.account = 9), Err(Unknown("account")));
    // What no rule can tell is another state.
    for other in [
        with!(Currency, deposits = 7),
        with!(Account, group = 7),
        with!(Balance, total = 7),
        with!(Position, cost = 7),
        with!(Position, last_order = None),
        with!(Limits, duplicate_ms = 7),
        with!(Fees, rates.per_lot = [7, 7]),
        with!(Controls, counts = [7, 7]),
        with!(Sums, cost = 7),
        with!(Trade, busted = true),
        with!(Head, killed = vec![]),
        with!(Head, venue_killed = true),
    ] {
        assert!(other.is_ok_and(|hash| hash != state), "{other:?}");
    }
}

#[test]
fn records_of_accounts_are_all_there_and_in_order() {
    let good = records(&till().exchange);
    let at = |found: fn(&AccountsRecord) -> bool| {
        let is_it = |record: &Record| matches!(record, Record::Accounts(record) if found(record));
        good.iter().position(is_it).expect("such a record")
    };
    let without = |place: usize| {
        let mut records = good.clone();
        records.remove(place);
        Exchange::import(records).map(|exchange| exchange.state_hash())
    };
    let head = at(|record| matches!(record, AccountsRecord::Head(_)));
    assert_eq!(without(head), Err(ImportError::Order("accounts")));
    assert_eq!(
        without(at(|record| matches!(record, AccountsRecord::Trade(_)))),
        Err(ImportError::Order("accounts"))
    );
    let account = at(|record| matches!(record, AccountsRecord::Account(_)));
    assert_eq!(without(account), Err(ImportError::Unknown("account")));
    let mut twice = good.clone();
    twice.insert(head, good[head].clone());
    assert_eq!(Exchange::import(twice).err(), Some(ImportError::Twice("head of accounts")));
}

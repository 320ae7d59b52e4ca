//! Accounts from the outside: what orders hold, what trades move, what operators set and take back. After each command
//! everything must add up, and the state must come back from its records.

use protocol::{
    AccountDefinition, AccountGroup, AccountId, Amount, Balance, Body, CancelReason, ClientOrderId, Command,
    ConnectionId, Event, Fees, InstrumentId, KillTarget, Limits, MassCancel, NewOrder, OrderFlags, OrderType,
    Output, ParticipantId, Price, PriceKind, Quantity, RejectReason, RequestId, SessionId, Side, Throttle,
    TimeInForce, Timestamp, TradeId,
};

use super::till::{
    ANN, BOB, SECOND, Till, ZOE, account, cancel, canceled, currency, limit, replace, settled, transfer,
};
use crate::Exchange;

/// One unit of notional is ten units of EUR (scale 4 against 1 + 2), one of quantity a thousand of BTC.
#[test]
fn cash_is_held_released_and_moved() {
    let mut till = Till::new();
    till.admin(Body::SetFees(
        InstrumentId(1),
        AccountGroup(0),
        Fees { maker_ppm: -100, taker_ppm: 1_000, maker_per_lot: 0, taker_per_lot: 2 },
    ));
    assert_eq!(till.refused_order(ANN, limit(1, 10, Side::Buy, 100, 50)), RejectReason::InsufficientFunds);
    till.deposit(10, "EUR", 100_000);
    till.deposit(20, "BTC", 500_000);
    // 100 at 50 is 5,000 of notional, 50,000 EUR; the larger fee is the taker's: 50, and 2 for each of 10 lots.
    let bid = till.order(ANN, limit(1, 10, Side::Buy, 100, 50));
    assert_eq!(till.balance(10, "EUR"), (100_000, 50_070));
    assert_eq!(till.position(10, 1), (0, 0, [100, 0]));
    assert_eq!(till.refused(ANN, replace(bid, 200, 50)), RejectReason::InsufficientFunds);
    till.replace(ANN, bid, 100, 40);
    assert_eq!(till.balance(10, "EUR"), (100_000, 40_060));
    till.replace(ANN, bid, 100, 50);

    let events = till.send(BOB, Body::NewOrder(limit(1, 20, Side::Sell, 60, 45)));
    let [buyer, seller] = settled(&events)[..] else { panic!("{events:?}") };
    assert_eq!((buyer.fee, buyer.position, buyer.side), (Amount::new(-3), 60, Side::Buy));
    assert_eq!((seller.fee, seller.position, seller.side), (Amount::new(30 + 12), -60, Side::Sell));
    assert_eq!(till.balance(10, "EUR"), (100_000 - 30_000 + 3, 20_028));
    assert_eq!(till.balance(10, "BTC"), (60_000, 0));
    assert_eq!(till.balance(20, "EUR"), (30_000 - 42, 0));
    assert_eq!(till.balance(20, "BTC"), (440_000, 0));
    assert_eq!(till.fees_taken(), 39);
    assert_eq!(till.position(20, 1), (-60, -30_000, [0, 0]));
    till.check_round_trip();
    till.cancel(ANN, bid);
    assert_eq!(till.balance(10, "EUR"), (70_003, 0));

    assert_eq!(till.refused_order(BOB, limit(1, 20, Side::Sell, 450, 45)), RejectReason::InsufficientFunds);
    till.order(BOB, limit(1, 20, Side::Sell, 440, 45));
    assert_eq!(till.balance(20, "BTC"), (440_000, 440_000));
    assert_eq!(till.refused(0, transfer(20, "BTC", -1)), RejectReason::InsufficientFunds);
    till.check_round_trip();
}

#[test]
fn a_market_buy_needs_what_its_sweep_costs() {
    let mut till = Till::new();
    till.deposit(20, "BTC", 100_000);
    till.order(BOB, limit(1, 20, Side::Sell, 20, 50));
    till.order(BOB, limit(1, 20, Side::Sell, 80, 60));
    let market = NewOrder {
        order_type: OrderType::Market,
        time_in_force: TimeInForce::ImmediateOrCancel,
        price: None,
        ..limit(1, 10, Side::Buy, 100, 0)
    };
    // 20 at 50 and 80 at 60: 5,800 of notional.
    till.deposit(10, "EUR", 57_999);
    assert_eq!(till.refused_order(ANN, market), RejectReason::InsufficientFunds);
    till.deposit(10, "EUR", 1);
    till.order(ANN, market);
    assert_eq!(till.balance(10, "EUR"), (0, 0));
    assert_eq!(till.balance(10, "BTC"), (100_000, 0));
}

#[test]
fn a_seller_pays_no_more_fees_than_it_receives() {
    let mut till = Till::new();
    let fees = Fees { taker_per_lot: 1_000_000, ..Fees::default() };
    till.admin(Body::SetFees(InstrumentId(1), AccountGroup(0), fees));
    till.deposit(10, "EUR", 1_000_000_000);
    till.deposit(20, "BTC", 100_000);
    till.order(ANN, limit(1, 10, Side::Buy, 10, 1));
    till.order(BOB, limit(1, 20, Side::Sell, 10, 1));
    assert_eq!((till.balance(20, "EUR"), till.fees_taken()), ((0, 0), 100));
}

#[test]
fn margin_bounds_positions_and_is_settled_at_the_mark() {
    let mut till = Till::new();
    till.deposit(10, "EUR", 1_000);
    till.deposit(20, "EUR", 5_000);
    // 100 a lot of 10: 100 of quantity need 1,000.
    assert_eq!(till.refused_order(ANN, limit(2, 10, Side::Buy, 110, 500)), RejectReason::InsufficientMargin);
    till.order(ANN, limit(2, 10, Side::Buy, 100, 500));
    assert_eq!(till.balance(10, "EUR"), (1_000, 0));
    assert_eq!(till.refused(0, transfer(10, "EUR", -1)), RejectReason::InsufficientFunds);
    // The worse side counts, not both.
    let ask = till.order(ANN, limit(2, 10, Side::Sell, 100, 600));
    till.cancel(ANN, ask);
    till.order(BOB, limit(2, 20, Side::Sell, 100, 500));
    assert_eq!(till.position(10, 2), (100, 500_000, [0, 0]));
    till.check_round_trip();

    // A mark of 499 costs the long side 1,000; it is called below 600 of maintenance.
    till.admin(Body::SetPrice(InstrumentId(2), PriceKind::Mark, Price(499)));
    let events = till.admin(Body::EndOfDay);
    let calls: Vec<_> = events.iter().filter(|event| matches!(event, Event::MarginCall(_))).collect();
    let [Event::MarginCall(call)] = calls[..] else { panic!("{events:?}") };
    assert_eq!(
        (call.account, call.equity, call.maintenance),
        (AccountId(10), Amount::ZERO, Amount::new(600))
    );
    assert_eq!(till.position(10, 2), (100, 499_000, [0, 0]));
    assert_eq!((till.balance(10, "EUR").0, till.balance(20, "EUR").0), (0, 6_000));

    // What lowers the requirement is taken without equity; a closed position is paid out.
    till.order(BOB, limit(2, 20, Side::Buy, 100, 510));
    till.order(ANN, limit(2, 10, Side::Sell, 100, 510));
    assert_eq!((till.position(10, 2), till.position(20, 2)), ((0, 0, [0, 0]), (0, 0, [0, 0])));
    assert_eq!((till.balance(10, "EUR").0, till.balance(20, "EUR").0), (11_000, -5_000));
    till.check_round_trip();
}

#[test]
fn positions_follow_without_settlement_and_against_the_untracked() {
    let mut till = Till::new();
    till.order(ZOE, limit(3, 10, Side::Buy, 50, 100));
    let events = till.send(ANN, Body::NewOrder(limit(3, 10, Side::Sell, 30, 100)));
    let [one] = settled(&events)[..] else { panic!("one side is tracked: {events:?}") };
    assert_eq!((one.position, one.fee), (-30, Amount::ZERO));
    assert_eq!(till.position(10, 3), (-30, -3_000, [0, 0]));
    assert_eq!(till.refused_order(ZOE, limit(1, 10, Side::Buy, 50, 100)), RejectReason::AccountRequired);
    till.check_round_trip();
}

#[test]
fn accounts_are_their_participants_own() {
    let mut till = Till::new();
    let order = |account| limit(3, account, Side::Buy, 50, 100);
    for unknown in [0, 11, 20] {
        assert_eq!(till.refused_order(ANN, order(unknown)), RejectReason::UnknownAccount);
    }
    let other = Body::PutAccount(account(10, 2));
    assert_eq!(till.refused(0, other), RejectReason::AccountExists);
    assert_eq!(till.refused(0, Body::PutAccount(account(0, 2))), RejectReason::DefinitionInvalid);
    assert_eq!(till.refused(0, Body::PutAccount(account(30, 0))), RejectReason::DefinitionInvalid);
    let again = till.admin(Body::PutAccount(account(10, 1)));
    assert!(matches!(again[..], [Event::AdminDone(_)]), "nothing changed: {again:?}");
    let changed =
        till.admin(Body::PutAccount(AccountDefinition { group: AccountGroup(4), ..account(10, 1) }));
    assert!(matches!(changed[..], [Event::Configured(e), Event::AdminDone(_)] if e.id == 10));
    assert_eq!(till.refused(0, Body::PutCurrency(currency("EUR"), 5)), RejectReason::AccountExists);
    assert_eq!(till.refused(0, Body::PutCurrency(currency("X"), 25)), RejectReason::DefinitionInvalid);
    assert_eq!(till.refused(0, transfer(99, "EUR", 1)), RejectReason::UnknownAccount);
    assert_eq!(till.refused(0, transfer(10, "USD", 1)), RejectReason::UnknownCurrency);
    for amount in [0, (1 << 100) + 1, i128::MIN] {
        assert_eq!(till.refused(0, transfer(10, "EUR", amount)), RejectReason::AmountInvalid);
    }
    assert_eq!(till.refused(0, transfer(10, "EUR", -1)), RejectReason::InsufficientFunds);
    till.deposit(10, "EUR", 1 << 100);
    assert_eq!(till.refused(0, transfer(10, "EUR", 1)), RejectReason::AmountInvalid);
    assert_eq!(till.refused(ANN, transfer(10, "EUR", 1)), RejectReason::NotAuthorized);
}

#[test]
fn limits_of_an_instrument_come_before_those_of_all() {
    let mut till = Till::new();
    let limits = |quantity| Limits { quantity, ..Limits::default() };
    till.admin(Body::SetLimits(AccountId(10), None, limits(50)));
    till.admin(Body::SetLimits(AccountId(10), Some(InstrumentId(3)), limits(70)));
    assert_eq!(till.refused_order(ANN, limit(3, 10, Side::Buy, 80, 100)), RejectReason::LimitQuantity);
    let bid = till.order(ANN, limit(3, 10, Side::Buy, 70, 100));
    assert_eq!(till.refused(ANN, replace(bid, 80, 100)), RejectReason::LimitQuantity);
    till.check_round_trip();
    till.admin(Body::SetLimits(AccountId(10), Some(InstrumentId(3)), Limits::default()));
    assert_eq!(till.refused_order(ANN, limit(3, 10, Side::Buy, 60, 100)), RejectReason::LimitQuantity);
    let unknown = Body::SetLimits(AccountId(10), Some(InstrumentId(9)), limits(1));
    assert_eq!(till.refused(0, unknown), RejectReason::UnknownInstrument);
    assert_eq!(till.refused(0, Body::SetLimits(AccountId(9), None, limits(1))), RejectReason::UnknownAccount);
}

#[test]
fn the_same_order_is_a_duplicate_for_a_while() {
    let mut till = Till::new();
    let limits = Limits { duplicate_ms: 10, ..Limits::default() };
    till.admin(Body::SetLimits(AccountId(10), None, limits));
    till.order(ANN, limit(3, 10, Side::Buy, 50, 100));
    till.wait(9_999_999);
    assert_eq!(till.refused_order(ANN, limit(3, 10, Side::Buy, 50, 100)), RejectReason::DuplicateOrder);
    till.check_round_trip();
    till.wait(1);
    till.order(ANN, limit(3, 10, Side::Buy, 50, 100));
}

#[test]
fn throttles_count_what_passes_them() {
    let mut till = Till::new();
    till.admin(Body::SetThrottle(SessionId(ZOE), Throttle { orders: 2, cancels: 1 }));
    let order = limit(3, 0, Side::Buy, 50, 100);
    let bid = till.order(ZOE, order);
    // It passes, and is refused for something else; so it counts.
    assert_eq!(
        till.refused_order(ZOE, NewOrder { quantity: Quantity(0), ..order }),
        RejectReason::QuantityZero
    );
    assert_eq!(till.refused_order(ZOE, order), RejectReason::Throttled);
    assert_eq!(till.refused(ZOE, replace(bid, 60, 100)), RejectReason::Throttled);
    assert_eq!(till.refused(ZOE, cancel(ClientOrderId(9_999))), RejectReason::UnknownOrder);
    assert_eq!(till.refused(ZOE, cancel(bid)), RejectReason::Throttled);
    let anothers = Body::MassCancel(MassCancel { session: SessionId(ANN), instrument: None, side: None });
    assert_eq!(till.refused(ZOE, anothers), RejectReason::NotAuthorized);
    let all = Body::MassCancel(MassCancel { session: SessionId(ZOE), instrument: None, side: None });
    assert_eq!(till.refused(ZOE, all), RejectReason::Throttled);
    till.check_round_trip();
    till.wait(SECOND);
    assert_eq!(canceled(&till.cancel(ZOE, bid), CancelReason::Requested), 1);
    assert_eq!(
        till.refused(0, Body::SetThrottle(SessionId(0), Throttle { orders: 1, cancels: 0 })),
        RejectReason::UnknownUser
    );
}

#[test]
fn kill_switches_cancel_and_refuse() {
    for (target, expected, untouched) in [
        (KillTarget::Account(AccountId(10)), 2, Some(BOB)),
        (KillTarget::Participant(ParticipantId(1)), 2, Some(BOB)),
        (KillTarget::Venue, 4, None),
    ] {
        let mut till = Till::new();
        let order = |account| limit(3, account, Side::Buy, 50, 100);
        for (session, account) in [(ANN, 10), (BOB, 20), (ANN, 10), (ZOE, 10)] {
            till.order(session, order(account));
        }
        let events = till.admin(Body::Kill(target, true));
        assert!(matches!(events[0], Event::Configured(_)), "{events:?}");
        assert_eq!(canceled(&events, CancelReason::KillSwitch), expected, "{target:?}");
        assert_eq!(till.refused_order(ANN, order(10)), RejectReason::Killed);
        if let Some(untouched) = untouched {
            till.order(untouched, order(20));
            till.order(ZOE, order(10));
        }
        till.check_round_trip();
        till.admin(Body::Kill(target, false));
        till.order(ANN, order(10));
    }
    let mut till = Till::new();
    for nobody in [KillTarget::Participant(ParticipantId(3)), KillTarget::Account(AccountId(3))] {
        assert_eq!(till.refused(0, Body::Kill(nobody, true)), RejectReason::UnknownAccount);
    }
}

#[test]
fn a_busted_trade_leaves_nothing_behind() {
    let mut till = Till::new();
    let fees = Fees { maker_ppm: 100, taker_ppm: 1_000, maker_per_lot: 1, taker_per_lot: 2 };
    till.admin(Body::SetFees(InstrumentId(1), AccountGroup(0), fees));
    till.deposit(10, "EUR", 100_000);
    till.deposit(20, "BTC", 500_000);
    till.order(ANN, limit(1, 10, Side::Buy, 100, 50));
    till.order(BOB, limit(1, 20, Side::Sell, 100, 50));
    let trade = till.exchange.kept_trades().next().expect("a trade").trade_id;

    assert_eq!(till.refused(0, Body::CorrectTrade(trade, Price(0))), RejectReason::PriceOutsideLimits);
    let events = till.admin(Body::CorrectTrade(trade, Price(40)));
    let [Event::TradeRevised(buyer), Event::TradeRevised(seller), Event::AdminDone(_)] = events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((buyer.to.session, buyer.new_price), (SessionId(ANN), Some(Price(40))));
    assert_eq!((seller.to.session, seller.old_price), (SessionId(BOB), Price(50)));
    assert_eq!(till.balance(10, "EUR").0, 100_000 - 40_000 - 15);
    assert_eq!(till.position(10, 1).1, 40_000);
    till.check_round_trip();

    till.admin(Body::BustTrade(trade));
    assert_eq!((till.balance(10, "EUR"), till.balance(20, "EUR")), ((100_000, 0), (0, 0)));
    assert_eq!((till.balance(10, "BTC"), till.balance(20, "BTC")), ((0, 0), (500_000, 0)));
    assert_eq!((till.position(10, 1), till.fees_taken()), ((0, 0, [0, 0]), 0));
    till.check_round_trip();
    for request in [Body::BustTrade(trade), Body::CorrectTrade(trade, Price(41)), Body::BustTrade(TradeId(9))]
    {
        assert_eq!(till.refused(0, request), RejectReason::UnknownTrade);
    }
}

#[test]
fn yesterdays_trades_are_final() {
    let mut till = Till::new();
    till.order(ANN, limit(3, 10, Side::Buy, 50, 100));
    till.order(BOB, limit(3, 20, Side::Sell, 50, 100));
    let trade = till.exchange.kept_trades().next().expect("a trade").trade_id;
    till.admin(Body::EndOfDay);
    assert_eq!(till.refused(0, Body::BustTrade(trade)), RejectReason::UnknownTrade);
}

#[test]
fn reduce_only_orders_never_exceed_the_position() {
    let mut till = Till::new();
    let reduce = |quantity, price| {
        let flags = OrderFlags { reduce_only: true, ..OrderFlags::default() };
        NewOrder { flags, ..limit(3, 10, Side::Sell, quantity, price) }
    };
    assert_eq!(till.refused_order(ANN, reduce(10, 200)), RejectReason::ReduceOnlyWouldIncrease);
    let untracked = NewOrder { account: AccountId(0), ..reduce(10, 200) };
    assert_eq!(till.refused_order(ZOE, untracked), RejectReason::ReduceOnlyWouldIncrease);
    till.order(ANN, limit(3, 10, Side::Buy, 100, 100));
    till.order(BOB, limit(3, 20, Side::Sell, 100, 100));
    let oldest = till.order(ANN, reduce(40, 200));
    till.order(ANN, reduce(30, 201));
    till.order(ANN, reduce(30, 202));
    assert_eq!(till.refused_order(ANN, reduce(10, 203)), RejectReason::ReduceOnlyWouldIncrease);
    assert_eq!(till.refused(ANN, replace(oldest, 50, 200)), RejectReason::ReduceOnlyWouldIncrease);
    till.check_round_trip();
    // The position falls to 60: one order of 30 and then nothing more fits beside 40.
    till.order(BOB, limit(3, 20, Side::Buy, 40, 150));
    let events = till.send(ANN, Body::NewOrder(limit(3, 10, Side::Sell, 40, 150)));
    assert_eq!(canceled(&events, CancelReason::ReduceOnly), 2);
    assert_eq!(till.position(10, 3), (60, 100 * 100 - 40 * 150, [0, 40]));
    // A bust of the first trade turns the position.
    let first = till.exchange.kept_trades().next().expect("a trade").trade_id;
    let events = till.admin(Body::BustTrade(first));
    assert_eq!(canceled(&events, CancelReason::ReduceOnly), 1);
    assert_eq!(till.position(10, 3), (-40, -6_000, [0, 0]));
}

#[test]
fn accounts_and_instruments_answer_questions() {
    let mut till = Till::new();
    till.deposit(10, "EUR", 100_000);
    till.order(ANN, limit(1, 10, Side::Buy, 10, 50));
    let question = Body::QueryAccount(AccountId(10));
    for asker in [0, ANN] {
        let events = till.send(asker, question);
        let [Event::Balance(balance), Event::Position(position), Event::AdminDone(_)] = events[..] else {
            panic!("{events:?}")
        };
        let Balance { account, total, held, .. } = balance;
        assert_eq!((account, total, held), (AccountId(10), Amount::new(100_000), Amount::new(5_000)));
        assert_eq!((position.instrument, position.open_buy), (InstrumentId(1), 10));
    }
    for asker in [BOB, ZOE] {
        assert_eq!(till.refused(asker, question), RejectReason::NotAuthorized);
    }
    assert_eq!(till.refused(ANN, Body::QueryAccount(AccountId(0))), RejectReason::NotAuthorized);
    assert_eq!(till.refused(0, Body::QueryAccount(AccountId(9))), RejectReason::UnknownAccount);
    assert!(matches!(till.admin(Body::QueryAccount(AccountId(0)))[..], [Event::AdminDone(_)]));
    till.deposit(20, "BTC", 10_000);
    till.order(BOB, limit(1, 20, Side::Sell, 10, 50));
    let events = till.admin(Body::QueryInstrument(InstrumentId(1)));
    let [Event::InstrumentState(state), Event::AdminDone(_)] = events[..] else { panic!("{events:?}") };
    assert_eq!(
        (state.open_interest, state.last_price, state.mark_price),
        (10, Some(Price(50)), Some(Price(50)))
    );
    assert_eq!(till.refused(ANN, Body::QueryInstrument(InstrumentId(1))), RejectReason::NotAuthorized);
    assert_eq!(till.refused(0, Body::QueryInstrument(InstrumentId(9))), RejectReason::UnknownInstrument);
}

#[test]
fn there_are_a_thousand_currencies_at_most() {
    let mut till = Till::new();
    for number in 2..1_000 {
        till.admin(Body::PutCurrency(currency(&format!("C{number}")), 2));
    }
    let one_more = Body::PutCurrency(currency("C1000"), 2);
    assert_eq!(till.refused(0, one_more), RejectReason::AccountsFull);
    till.admin(Body::PutCurrency(currency("C999"), 2));
    till.check_round_trip();
}

#[test]
fn the_older_rulebook_has_no_accounts() {
    let mut exchange = Exchange::new();
    let bodies = [
        Body::PutCurrency(currency("EUR"), 2),
        Body::PutAccount(account(1, 1)),
        Body::Kill(KillTarget::Venue, true),
        Body::QueryAccount(AccountId(0)),
        Body::QueryInstrument(InstrumentId(1)),
        Body::BustTrade(TradeId(1)),
    ];
    for body in bodies {
        let mut outputs: Vec<Output> = Vec::new();
        let command = Command {
            session: SessionId(0),
            connection: ConnectionId(0),
            request_id: RequestId(1),
            timestamp: Timestamp(1),
            body,
        };
        exchange.apply(&command, &mut outputs);
        let [output] = outputs[..] else { panic!("{outputs:?}") };
        assert!(matches!(output.event, Event::Rejected(e) if e.reason == RejectReason::OptionNotOffered));
    }
    assert_eq!(exchange.currencies().count(), 0);
}

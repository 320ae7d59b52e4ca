//! Accounts and the other kinds of orders: what stops, pegs, quotes and orders for auctions hold, and what becomes of them
//! when it is not there.

use protocol::{
    AccountDefinition, AccountGroup, AccountId, Body, CancelReason, Event, Fees, InstrumentId, KillTarget,
    Limits, MassQuote, NewOrder, OrderFlags, OrderType, ParticipantId, Peg, PegReference, Phase, Price,
    PriceKind, Quantity, QuoteEntry, QuoteSide, RejectReason, SelfTrade, SelfTradeAction, SessionId,
    Settlement, Side, Terms, TimeInForce,
};

use super::till::{ANN, BOB, Till, ZOE, account, canceled, currency, limit, settled};

fn market(instrument: u32, account: u32, side: Side, quantity: u64) -> NewOrder {
    NewOrder { order_type: OrderType::Market, price: None, ..limit(instrument, account, side, quantity, 0) }
}

fn quote(account: u32, bids: &[(i32, u32)], asks: &[(i32, u32)]) -> Body {
    let side = |entries: &[(i32, u32)]| {
        let entries: Vec<_> = entries.iter().map(|&(ticks, lots)| QuoteEntry { ticks, lots }).collect();
        QuoteSide::new(&entries)
    };
    Body::MassQuote(MassQuote {
        instrument: InstrumentId(1),
        account: AccountId(account),
        base: Price(50),
        bids: side(bids),
        asks: side(asks),
    })
}

fn quoted(events: &[Event]) -> (u8, u8, Option<RejectReason>, Option<RejectReason>) {
    match events.iter().find(|event| matches!(event, Event::MassQuoted(_))) {
        Some(Event::MassQuoted(e)) => (e.bids, e.asks, e.bid_reason, e.ask_reason),
        _ => panic!("no answer: {events:?}"),
    }
}

#[test]
fn a_stop_that_cannot_pay_when_it_triggers_is_canceled() {
    let mut till = Till::new();
    till.deposit(10, "EUR", 49_999);
    till.deposit(20, "BTC", 1_000_000);
    till.deposit(20, "EUR", 1_000_000);
    let stop = NewOrder {
        terms: Terms::default().with_stop_price(Some(Price(50))),
        ..market(1, 10, Side::Buy, 100)
    };
    till.order(ANN, stop);
    assert_eq!(till.balance(10, "EUR"), (49_999, 0), "it holds nothing while it waits");
    till.order(BOB, limit(1, 20, Side::Sell, 110, 50));
    let events = till.send(BOB, Body::NewOrder(limit(1, 20, Side::Buy, 10, 50)));
    assert!(events.iter().any(|event| matches!(event, Event::Triggered(_))), "{events:?}");
    assert_eq!(canceled(&events, CancelReason::InsufficientFunds), 1);
    till.deposit(10, "EUR", 1);
    let events = till.send(ANN, Body::NewOrder(stop));
    assert_eq!(settled(&events).len(), 2, "it triggers at once and can pay: {events:?}");
    assert_eq!(till.balance(10, "EUR"), (0, 0));
    till.check_round_trip();
}

#[test]
fn pegs_hold_for_the_worst_price_that_they_may_get() {
    let mut till = Till::new();
    till.deposit(10, "EUR", 2_000_000_000);
    let peg = Terms::default().with_peg(Some(Peg { reference: PegReference::BestBid, offset: 0 }));
    let free = NewOrder {
        order_type: OrderType::Pegged,
        price: None,
        terms: peg,
        ..limit(1, 10, Side::Buy, 100, 0)
    };
    let bid = till.order(ANN, free);
    assert_eq!(till.balance(10, "EUR").1, 100 * 100_000 * 10);
    till.cancel(ANN, bid);
    till.order(ANN, NewOrder { terms: peg, ..limit(1, 10, Side::Buy, 100, 60) });
    assert_eq!(till.balance(10, "EUR").1, 100 * 60 * 10);
    till.order(ANN, limit(1, 10, Side::Buy, 10, 55));
    assert_eq!(till.balance(10, "EUR").1, 110 * 600 - 10 * 50, "the peg is at 55 and holds for 60");
    till.check_round_trip();
}

#[test]
fn a_side_of_quotes_needs_funds_for_all_of_it() {
    let mut till = Till::new();
    till.deposit(10, "EUR", 10_000);
    till.deposit(10, "BTC", 20_000);
    // A lot at 50 is 5,000.
    let events = till.send(ANN, quote(10, &[(0, 1), (-1, 1), (-2, 1)], &[(1, 1), (2, 1)]));
    assert_eq!(quoted(&events), (0, 2, Some(RejectReason::InsufficientFunds), None));
    assert_eq!((till.balance(10, "EUR"), till.balance(10, "BTC")), ((10_000, 0), (20_000, 20_000)));
    till.skip_ids(20);
    // The old asks are out of the way of the new ones.
    let events = till.send(ANN, quote(10, &[(0, 1), (-1, 1)], &[(1, 2)]));
    assert_eq!(quoted(&events), (2, 1, None, None));
    assert_eq!(canceled(&events, CancelReason::QuoteReplaced), 2);
    assert_eq!((till.balance(10, "EUR"), till.balance(10, "BTC")), ((10_000, 9_900), (20_000, 20_000)));
    till.skip_ids(20);
    let limits = Limits { open_orders: 3, ..Limits::default() };
    till.admin(Body::SetLimits(AccountId(10), None, limits));
    let events = till.send(ANN, quote(10, &[(0, 1), (-1, 1)], &[(1, 1), (2, 1)]));
    assert_eq!(quoted(&events), (2, 0, None, Some(RejectReason::LimitOpenOrders)));
    till.check_round_trip();
}

#[test]
fn orders_for_an_auction_hold_at_its_worst_price_and_pay_as_makers() {
    let mut till = Till::new();
    let fees = Fees { maker_ppm: 1_000, taker_ppm: 9_000, maker_per_lot: 0, taker_per_lot: 0 };
    till.admin(Body::SetFees(InstrumentId(1), AccountGroup(0), fees));
    till.admin(Body::SetPhase(InstrumentId(1), Phase::OpeningAuction));
    till.deposit(10, "EUR", 2_000_000_000);
    till.deposit(20, "BTC", 100_000);
    let buy = NewOrder { time_in_force: TimeInForce::GoodForAuction, ..market(1, 10, Side::Buy, 100) };
    till.order(ANN, buy);
    // The taker's fee is the larger one: 0.9 %.
    assert_eq!(till.balance(10, "EUR").1, 100_000_000 + 900_000);
    till.order(BOB, limit(1, 20, Side::Sell, 100, 50));
    let events = till.admin(Body::SetPhase(InstrumentId(1), Phase::Continuous));
    let fees: Vec<i128> = settled(&events).iter().map(|settled| settled.fee.get()).collect();
    assert_eq!(fees.len(), 2, "{events:?}");
    assert_eq!(fees[0], fees[1], "both pay the maker's fee");
    assert_eq!(till.balance(10, "EUR").1, 0);
    till.check_round_trip();
}

#[test]
fn an_order_pays_by_the_schedule_of_its_place() {
    let mut till = Till::new();
    let schedule = |ppm| {
        let fees = Fees { maker_ppm: ppm, ..Fees::default() };
        Body::SetFees(InstrumentId(1), AccountGroup(7), fees)
    };
    let definition = AccountDefinition { group: AccountGroup(7), ..account(10, 1) };
    till.admin(Body::PutAccount(definition));
    till.admin(schedule(10_000));
    till.deposit(10, "EUR", 200_000);
    till.deposit(20, "BTC", 300_000);
    let bid = till.order(ANN, limit(1, 10, Side::Buy, 200, 50));
    assert_eq!(till.balance(10, "EUR").1, 101_000);
    till.admin(schedule(20_000));
    assert_eq!(till.balance(10, "EUR").1, 101_000, "a new schedule is for new orders");
    till.replace(ANN, bid, 100, 50);
    assert_eq!(till.balance(10, "EUR").1, 50_500, "the place is kept, so are the fees");
    till.replace(ANN, bid, 110, 50);
    assert_eq!(till.balance(10, "EUR").1, 56_100, "the place is lost, the fees are new");
    till.check_round_trip();
    till.order(BOB, limit(1, 20, Side::Sell, 110, 50));
    assert_eq!(till.fees_taken(), 1_100);
}

#[test]
fn orders_of_one_account_group_do_not_trade_with_each_other() {
    let mut till = Till::new();
    let self_trade = Some(SelfTrade { group: 5, action: SelfTradeAction::Decrement });
    till.admin(Body::PutAccount(AccountDefinition { self_trade, ..account(10, 1) }));
    till.deposit(10, "EUR", 200_000);
    till.deposit(10, "BTC", 200_000);
    till.order(ANN, limit(1, 10, Side::Buy, 100, 50));
    let events = till.send(ANN, Body::NewOrder(limit(1, 10, Side::Sell, 40, 50)));
    assert_eq!(canceled(&events, CancelReason::SelfTrade), 1, "{events:?}");
    assert_eq!((till.balance(10, "EUR").1, till.balance(10, "BTC").1), (30_000, 0));
    assert_eq!(till.position(10, 1).2, [60, 0]);
    till.check_round_trip();
}

#[test]
fn settlement_changes_only_where_nothing_depends_on_it() {
    let mut till = Till::new();
    let to_margin = |rules: &mut protocol::InstrumentRules| {
        rules.settlement = Settlement::Margin;
        rules.quote = Some(currency("EUR"));
    };
    let bid = till.order(ZOE, limit(3, 0, Side::Buy, 50, 100));
    let change = till.rules_body(3, to_margin);
    assert_eq!(till.refused(0, change), RejectReason::DefinitionInvalid, "an order is live");
    till.cancel(ZOE, bid);
    till.order(ANN, limit(3, 10, Side::Buy, 50, 100));
    till.order(BOB, limit(3, 20, Side::Sell, 50, 100));
    assert_eq!(till.refused(0, change), RejectReason::DefinitionInvalid, "there are positions");
    assert_eq!(till.refused(0, Body::Delist(InstrumentId(3))), RejectReason::PositionsOpen);
    till.order(ANN, limit(3, 10, Side::Sell, 50, 120));
    till.order(BOB, limit(3, 20, Side::Buy, 50, 120));
    assert_eq!(till.position(10, 3), (0, -1_000, [0, 0]));
    let trade = till.exchange.kept_trades().last().expect("a trade").trade_id;
    till.admin(change);
    assert_eq!(till.position(10, 3), (0, 0, [0, 0]));
    assert_eq!(till.refused(0, Body::BustTrade(trade)), RejectReason::UnknownTrade);
    for (quote, settlement) in [("USD", Settlement::Margin), ("EUR", Settlement::Cash)] {
        let change = till.rules_body(3, |rules| {
            rules.settlement = settlement;
            rules.quote = Some(currency(quote));
        });
        assert_eq!(till.refused(0, change), RejectReason::DefinitionInvalid, "{quote}");
    }
    let margins = till.rules_body(3, |rules| rules.maintenance_margin = 1);
    assert_eq!(till.refused(0, margins), RejectReason::DefinitionInvalid, "above the initial margin");
    till.check_round_trip();
}

#[test]
fn a_mark_price_calls_margins() {
    let mut till = Till::new();
    till.deposit(10, "EUR", 1_000);
    till.deposit(20, "EUR", 1_000);
    till.order(ANN, limit(2, 10, Side::Buy, 50, 500));
    till.order(BOB, limit(2, 20, Side::Sell, 50, 500));
    // 50 of quantity gain or lose 500 with each tick; 5 lots are called below 300.
    for (mark, called) in [(499, None), (498, Some(10)), (501, None), (502, Some(20))] {
        let events = till.admin(Body::SetPrice(InstrumentId(2), PriceKind::Mark, Price(mark)));
        let calls: Vec<u32> = events
            .iter()
            .filter_map(|event| match event {
                Event::MarginCall(call) => Some(call.account.0),
                _ => None,
            })
            .collect();
        assert_eq!(calls, Vec::from_iter(called), "{mark}");
    }
}

#[test]
fn tracked_orders_stay_so_whatever_becomes_of_their_user() {
    let mut till = Till::new();
    till.deposit(10, "EUR", 100_000);
    let bid = till.order(ANN, limit(1, 10, Side::Buy, 100, 50));
    till.admin(Body::SetParticipant(SessionId(ANN), ParticipantId(0)));
    assert_eq!(till.refused_order(ANN, limit(1, 10, Side::Buy, 10, 50)), RejectReason::AccountRequired);
    till.replace(ANN, bid, 50, 50);
    assert_eq!(till.balance(10, "EUR"), (100_000, 25_000));
    till.admin(Body::Kill(KillTarget::Account(AccountId(10)), true));
    assert_eq!(till.balance(10, "EUR"), (100_000, 0));
    till.check_round_trip();
}

#[test]
fn collars_are_measured_from_the_reference_price() {
    let mut till = Till::new();
    till.admin(Body::SetLimits(AccountId(10), None, Limits { collar: 10, ..Limits::default() }));
    till.order(ANN, limit(3, 10, Side::Buy, 10, 500));
    till.order(BOB, limit(3, 20, Side::Sell, 10, 500));
    assert_eq!(till.refused_order(ANN, limit(3, 10, Side::Buy, 10, 489)), RejectReason::PriceCollar);
    till.admin(Body::SetPrice(InstrumentId(3), PriceKind::Reference, Price(480)));
    till.order(ANN, limit(3, 10, Side::Buy, 10, 489));
    assert_eq!(till.refused_order(ANN, limit(3, 10, Side::Buy, 10, 491)), RejectReason::PriceCollar);
    let hidden = OrderFlags { hidden: true, ..OrderFlags::default() };
    let far = NewOrder { flags: hidden, quantity: Quantity(20), ..limit(3, 10, Side::Sell, 10, 469) };
    assert_eq!(till.refused_order(ANN, far), RejectReason::PriceCollar);
}

#[test]
fn anothers_quotes_are_in_the_way_of_an_accounts_own() {
    let mut till = Till::new();
    till.admin(Body::PutAccount(account(11, 1)));
    till.deposit(10, "EUR", 10_000);
    till.deposit(11, "EUR", 10_000);
    let events = till.send(ANN, quote(11, &[(0, 1)], &[]));
    assert_eq!(quoted(&events), (1, 0, None, None));
    // The session's quote of account 11 goes, and frees nothing for account 10.
    let events = till.send(ANN, quote(10, &[(0, 1), (-1, 2)], &[]));
    assert_eq!(quoted(&events), (0, 0, Some(RejectReason::InsufficientFunds), None));
    assert_eq!((till.balance(10, "EUR").1, till.balance(11, "EUR").1), (0, 5_000));
}

//! Phases, what may be entered in each, schedule and bands.

use protocol::{
    BandAction, Body, InstrumentRules, NewOrder, OrderFlags, OrderType, Peg, PegReference, Phase, Price,
    PriceKind, Quantity, Terms, TickRow, TickTable, TimeInForce, Timestamp,
};

use super::floor::{Floor, X, buy, sell};

fn market(order: NewOrder) -> NewOrder {
    NewOrder { order_type: OrderType::Market, price: None, ..order }
}

fn lasting(time_in_force: TimeInForce, order: NewOrder) -> NewOrder {
    NewOrder { time_in_force, ..order }
}

#[test]
fn each_phase_takes_what_is_for_it() {
    use Phase::{
        CancelOnly, Closed, ClosingAuction, Continuous, Halted, OpeningAuction, PreOpen, VolatilityAuction,
    };
    let limit = buy(1, 50);
    let stop = Terms::default().with_stop_price(Some(Price(900)));
    let minimum = Terms::default().with_minimum(Some(Quantity(1)));
    let calls = [PreOpen, OpeningAuction, VolatilityAuction, ClosingAuction];
    let opening = [PreOpen, OpeningAuction];
    let open = [PreOpen, OpeningAuction, VolatilityAuction, ClosingAuction, Continuous];
    let kinds: [(&str, NewOrder, &[Phase]); 13] = [
        ("limit", limit, &open),
        ("market", market(limit), &[Continuous]),
        ("stop", NewOrder { terms: stop, ..market(limit) }, &open),
        ("immediate", lasting(TimeInForce::ImmediateOrCancel, limit), &[Continuous]),
        ("fill or kill", lasting(TimeInForce::FillOrKill, limit), &[Continuous]),
        ("minimum", NewOrder { terms: minimum, ..limit }, &[Continuous]),
        ("to limit", NewOrder { order_type: OrderType::MarketToLimit, price: None, ..limit }, &[Continuous]),
        ("at the open", lasting(TimeInForce::AtTheOpen, limit), &opening),
        ("market at the open", lasting(TimeInForce::AtTheOpen, market(limit)), &opening),
        ("at the close", lasting(TimeInForce::AtTheClose, limit), &open),
        ("market at the close", lasting(TimeInForce::AtTheClose, market(limit)), &open),
        ("for auction", lasting(TimeInForce::GoodForAuction, limit), &calls),
        ("post-only", NewOrder { flags: OrderFlags { post_only: true, ..limit.flags }, ..limit }, &open),
    ];
    for phase in
        [Continuous, PreOpen, OpeningAuction, VolatilityAuction, ClosingAuction, Halted, CancelOnly, Closed]
    {
        for (name, order, phases) in kinds {
            let mut floor = Floor::new();
            floor.phase(phase);
            let lines = floor.ann(order);
            let expected = match phase {
                Halted => "rejected instrument_halted",
                CancelOnly => "rejected cancel_only",
                Closed => "rejected instrument_closed",
                _ if phases.contains(&phase) => "accepted #1",
                _ => "rejected not_in_this_phase",
            };
            assert_eq!(lines.first().map(String::as_str), Some(expected), "{name} in {phase}");
            floor.check_records();
        }
    }
}

#[test]
fn an_operator_may_not_set_every_phase() {
    let mut floor = Floor::new();
    assert_eq!(floor.phase(Phase::Delisted), ["rejected definition_invalid"]);
    assert_eq!(floor.phase(Phase::Continuous), Vec::<String>::new());
    floor.ann(buy(2, 50));
    floor.ann(buy(2, 60));
    floor.schedule(5_000, Phase::Halted);
    assert_eq!(
        floor.operator(Body::Delist(X)),
        ["canceled #1 2 delisted", "canceled #2 2 delisted", "phase delisted"]
    );
    assert_eq!(floor.next_deadline(), None);
    assert_eq!(floor.operator(Body::Delist(X)), Vec::<String>::new());
    assert_eq!(floor.phase(Phase::Continuous), ["rejected instrument_closed"]);
    assert_eq!(floor.schedule(6_000, Phase::Continuous), ["rejected instrument_closed"]);
    assert_eq!(floor.ann(buy(1, 1)), ["rejected instrument_closed"]);
    floor.check_records();
}

#[test]
fn orders_of_the_day_end_when_the_instrument_closes() {
    let mut floor = Floor::new();
    floor.ann(lasting(TimeInForce::Day, buy(1, 50)));
    floor.ann(buy(1, 51));
    floor.ann(lasting(TimeInForce::AtTheClose, sell(1, 70)));
    floor.ann(lasting(TimeInForce::Day, sell(1, 90)));
    assert_eq!(
        floor.phase(Phase::Closed),
        ["phase closed", "expired #1 1 end_of_day", "expired #3 1 end_of_day", "expired #4 1 end_of_day"]
    );
    floor.check_records();
    assert_eq!(floor.exchange.open_orders(), 1);
}

#[test]
fn scheduled_phases_come_in_time() {
    let mut floor = Floor::new();
    assert_eq!(floor.schedule(1_000, Phase::Halted), ["rejected schedule_past"]);
    assert_eq!(floor.schedule(3_000, Phase::Halted), ["configured SchedulePhase"]);
    assert_eq!(floor.schedule(3_000, Phase::Halted), Vec::<String>::new());
    assert_eq!(floor.schedule(3_000, Phase::PreOpen), ["configured SchedulePhase"]);
    assert_eq!(floor.schedule(2_000, Phase::CancelOnly), ["configured SchedulePhase"]);
    floor.check_records();
    assert_eq!(floor.next_deadline(), Some(2_000));
    assert_eq!(floor.tick(1_999), Vec::<String>::new());
    floor.now = 3_500;
    // Both are done before the order, in their order.
    assert_eq!(
        floor.ann(buy(1, 50)),
        ["phase cancel_only", "phase pre_open", "accepted #1", "added #1 1 at 50"]
    );
    assert_eq!(floor.next_deadline(), None);
    assert_eq!(floor.operator(Body::ClearSchedule(X)), Vec::<String>::new());
    floor.schedule(4_000, Phase::Continuous);
    assert_eq!(floor.operator(Body::ClearSchedule(X)), ["configured ClearSchedule"]);
    assert_eq!(floor.next_deadline(), None);
    for number in 0..64 {
        assert_eq!(floor.schedule(5_000 + number, Phase::Halted), ["configured SchedulePhase"]);
    }
    assert_eq!(floor.schedule(6_000, Phase::Halted), ["rejected schedule_full"]);
    assert_eq!(floor.schedule(5_001, Phase::Closed), ["configured SchedulePhase"]);
    floor.check_records();
}

#[test]
fn the_end_of_an_auction_is_drawn() {
    let mut ends = Vec::new();
    for seed in 0..100 {
        let mut floor = Floor::new();
        floor.operator(Body::SetSeed(seed));
        floor.rules(InstrumentRules { random_end_ms: 9, ..InstrumentRules::default() });
        floor.phase(Phase::OpeningAuction);
        floor.schedule(2_000, Phase::Continuous);
        let mut lines = floor.tick(2_000);
        floor.check_records();
        if lines.is_empty() {
            let end = floor.next_deadline().expect("it is put off");
            assert_eq!(floor.tick(end - 1), Vec::<String>::new());
            lines = floor.tick(end);
        }
        assert_eq!(lines, ["phase continuous"]);
        ends.push(floor.now - 2_000);
    }
    let mut different = ends.clone();
    different.sort_unstable();
    different.dedup();
    assert_eq!(different, (0..=9).collect::<Vec<u64>>(), "{ends:?}");
    // From a phase that is no auction nothing is put off, and what is put off comes in the same frame where it is due.
    let mut floor = Floor::new();
    floor.rules(InstrumentRules { random_end_ms: 9, ..InstrumentRules::default() });
    floor.phase(Phase::PreOpen);
    floor.schedule(2_000, Phase::OpeningAuction);
    floor.schedule(3_000, Phase::Continuous);
    assert_eq!(floor.tick(2_000), ["phase opening_auction"]);
    assert_eq!(floor.tick(3_009), ["phase continuous"]);
}

#[test]
fn an_order_expires_before_the_phase_of_its_time() {
    let mut floor = Floor::new();
    let terms = Terms::default().with_expire_time(Some(Timestamp(2_000_000_000)));
    floor.ann(NewOrder { terms, ..lasting(TimeInForce::GoodTillDate, buy(3, 50)) });
    floor.schedule(2_000, Phase::Halted);
    floor.check_records();
    assert_eq!(floor.next_deadline(), Some(2_000));
    assert_eq!(floor.tick(2_000), ["expired #1 3 expired", "phase halted"]);
    floor.check_records();
}

#[test]
fn bands_end_a_sweep() {
    let mut floor = Floor::new();
    let rules = InstrumentRules { static_band: 10, dynamic_band: 3, ..InstrumentRules::default() };
    floor.rules(rules);
    floor.reference(100);
    for price in [105, 106, 109, 112] {
        floor.bob(sell(1, price));
    }
    // Without a last trade only the static band counts.
    let lines = floor.ann(buy(2, 105));
    assert_eq!(lines, ["accepted #5", "trade #1 #5 1 at 105", "added #5 1 at 105"]);
    // The last trade is the one before the order, not one of its own.
    let lines = floor.ann(buy(3, 112));
    assert_eq!(lines, ["accepted #6", "trade #2 #6 1 at 106", "expired #6 2 price_band"]);
    assert_eq!(floor.exchange.open_orders(), 3);
    floor.check_records();
}

#[test]
fn a_band_brings_a_volatility_auction_about() {
    let mut floor = Floor::new();
    floor.rules(InstrumentRules {
        static_band: 10,
        band_action: BandAction::Auction,
        volatility_ms: 500,
        ..InstrumentRules::default()
    });
    floor.reference(100);
    floor.bob(sell(2, 108));
    floor.bob(sell(2, 111));
    assert_eq!(
        floor.ann(buy(5, 112)),
        [
            "accepted #3",
            "trade #1 #3 2 at 108",
            "phase volatility_auction",
            "added #3 3 at 112",
            "indicative 2 of 112, 1 left to buy"
        ]
    );
    floor.check_records();
    assert_eq!(floor.next_deadline(), Some(1_500));
    let view = floor.exchange.instrument(X).expect("the instrument");
    assert_eq!(
        view.volatility_end.map(|end| (end.at.0, end.phase)),
        Some((1_500_000_000, Phase::Continuous))
    );
    assert_eq!(view.indicative.and_then(|told| told.price), Some(Price(112)));
    assert_eq!((view.last_price, view.reference_price), (Some(Price(108)), Some(Price(100))));
    floor.now = 1_500;
    assert_eq!(
        floor.bob(sell(1, 200)),
        [
            "trade #3 #2 2 at 112",
            "reduced #3 2",
            "reduced #2 2 gone",
            "phase continuous",
            "accepted #4",
            "added #4 1 at 200"
        ]
    );
    floor.check_records();
    // Who changes the phase ends the timer.
    floor.reference(50);
    floor.bob(sell(1, 112));
    assert_eq!(floor.next_deadline(), Some(2_000));
    floor.phase(Phase::Halted);
    assert_eq!(floor.next_deadline(), None);
}

#[test]
fn settings_are_checked() {
    let mut floor = Floor::new();
    let rules = InstrumentRules { quantity_min: Quantity(5), ..InstrumentRules::default() };
    assert_eq!(floor.rules(InstrumentRules::default()), Vec::<String>::new(), "they are so already");
    assert_eq!(floor.rules(rules), ["configured PutRules"]);
    assert_eq!(floor.rules(rules), Vec::<String>::new());
    assert_eq!(floor.ann(buy(4, 50)), ["rejected quantity_below_minimum"]);
    let endless = InstrumentRules { band_action: BandAction::Auction, ..rules };
    assert_eq!(floor.rules(endless), ["rejected definition_invalid"]);
    for wide in [
        InstrumentRules { static_band: u64::MAX, ..rules },
        InstrumentRules { dynamic_band: 1 << 63, ..rules },
        InstrumentRules { protection: 1 << 63, ..rules },
    ] {
        assert_eq!(floor.rules(wide), ["rejected definition_invalid"]);
    }
    let mut table = |rows: &[(i64, i64)]| {
        let rows: Vec<TickRow> =
            rows.iter().map(|(from, tick)| TickRow { from: Price(*from), tick: Price(*tick) }).collect();
        floor.operator(Body::PutTickTable(X, TickTable::new(&rows).expect("few rows")))
    };
    assert_eq!(table(&[(100, 5), (100, 10)]), ["rejected definition_invalid"]);
    assert_eq!(table(&[(100, 0)]), ["rejected definition_invalid"]);
    assert_eq!(table(&[(100, 5), (200, 10)]), ["configured PutTickTable"]);
    assert_eq!(table(&[(100, 5), (200, 10)]), Vec::<String>::new());
    assert_eq!(floor.ann(buy(5, 99)), ["accepted #1", "added #1 5 at 99"]);
    assert_eq!(floor.ann(buy(5, 103)), ["rejected price_not_on_tick"]);
    assert_eq!(floor.ann(sell(5, 195)), ["accepted #2", "added #2 5 at 195"]);
    assert_eq!(floor.ann(sell(5, 205)), ["rejected price_not_on_tick"]);
    assert_eq!(floor.reference(103), ["rejected price_not_on_tick"]);
    assert_eq!(floor.reference(1_001), ["rejected price_outside_limits"]);
    assert_eq!(floor.reference(105), ["configured SetPrice"]);
    let mark = Body::SetPrice(X, PriceKind::Mark, Price(105));
    assert_eq!(floor.operator(mark), ["configured SetPrice"]);
    assert_eq!(floor.operator(mark), Vec::<String>::new());
    assert_eq!(floor.operator(Body::SetSeed(7)), ["configured SetSeed"]);
    assert_eq!(floor.operator(Body::SetSeed(7)), Vec::<String>::new());
    floor.check_records();
}

#[test]
fn pegged_orders_wait_through_calls() {
    let mut floor = Floor::new();
    floor.ann(buy(1, 90));
    floor.bob(sell(1, 110));
    let peg = |offset| Some(Peg { reference: PegReference::BestBid, offset });
    let pegged = |order: NewOrder, offset| NewOrder {
        order_type: OrderType::Pegged,
        price: None,
        terms: Terms::default().with_peg(peg(offset)),
        ..order
    };
    floor.ann(pegged(buy(2, 1), 0));
    floor.bob(pegged(sell(3, 1), 5));
    let standing = |floor: &Floor| {
        let mut standing = Vec::new();
        floor.exchange.for_each_order(|order| {
            if order.order_type == OrderType::Pegged {
                standing.push((order.order_id.0, order.price.map(|price| price.0)));
            }
        });
        standing
    };
    assert_eq!(standing(&floor), [(3, Some(90)), (4, Some(95))]);
    // From a halt into a call they leave, and one that comes in waits at once.
    floor.phase(Phase::Halted);
    assert_eq!(standing(&floor), [(3, Some(90)), (4, Some(95))]);
    assert_eq!(floor.phase(Phase::PreOpen), ["phase pre_open"]);
    assert_eq!(floor.ann(pegged(buy(1, 1), 1)), ["accepted #5"]);
    assert_eq!(standing(&floor), [(3, None), (4, None), (5, None)]);
    floor.check_records();
    // One that waits takes no part in the uncross.
    floor.bob(sell(1, 90));
    assert_eq!(
        floor.phase(Phase::Continuous),
        ["trade #1 #6 1 at 90", "reduced #1 1 gone", "reduced #6 1 gone", "phase continuous"]
    );
    assert_eq!(standing(&floor), [(3, None), (4, None), (5, None)], "there is no bid to follow");
    floor.ann(buy(1, 80));
    assert_eq!(standing(&floor), [(3, Some(80)), (5, Some(79)), (4, Some(85))]);
    floor.check_records();
}

#[test]
fn a_breached_instrument_changes_its_phase_no_more() {
    let mut floor = Floor::new();
    floor.schedule(2_000, Phase::PreOpen);
    floor.exchange.instruments.get_mut(0).stopped = true;
    floor.exchange.instruments.get_mut(0).phase = Phase::Halted;
    assert_eq!(floor.tick(2_000), Vec::<String>::new());
    assert_eq!(floor.phase(Phase::PreOpen), ["rejected instrument_stopped"]);
    assert_eq!(floor.phase(Phase::Halted), Vec::<String>::new());
}

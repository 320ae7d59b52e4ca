//! The price of an uncross against trying every price, what it trades, and what is told of it.

use protocol::{NewOrder, OrderFlags, OrderType, Phase, Quantity, Side, Terms, TimeInForce};

use super::floor::{Floor, buy, limit, sell};

#[test]
fn a_call_rests_and_its_end_trades_at_one_price() {
    let mut floor = Floor::new();
    floor.phase(Phase::PreOpen);
    assert_eq!(floor.ann(buy(10, 105)), ["accepted #1", "added #1 10 at 105"]);
    assert_eq!(floor.bob(sell(4, 100)), ["accepted #2", "added #2 4 at 100"]);
    floor.ann(buy(5, 103));
    floor.bob(sell(8, 102));
    assert_eq!(
        floor.phase(Phase::OpeningAuction),
        ["phase opening_auction", "indicative 12 of 103, 3 left to buy"]
    );
    assert_eq!(floor.bob(sell(1, 200)), ["accepted #5", "added #5 1 at 200"], "nothing changes");
    assert_eq!(
        floor.ann_cancels(floor.last_id() - 3),
        ["canceled #3 5 requested", "indicative 10 of 102, 2 left to sell"]
    );
    floor.check_records();
    assert_eq!(
        floor.phase(Phase::Continuous),
        [
            "trade #1 #2 4 at 102",
            "reduced #1 4",
            "reduced #2 4 gone",
            "trade #1 #4 6 at 102",
            "reduced #1 6 gone",
            "reduced #4 6",
            "phase continuous"
        ]
    );
    floor.check_records();
    // The uncross price is the last one and the reference.
    floor.phase(Phase::PreOpen);
    floor.phase(Phase::Continuous);
    assert_eq!(floor.exchange.open_orders(), 2);
}

#[test]
fn what_is_for_an_auction_ends_with_it() {
    let mut floor = Floor::new();
    let lasting = |time_in_force, order| NewOrder { time_in_force, ..order };
    floor.ann(lasting(TimeInForce::AtTheClose, buy(1, 10)));
    floor.phase(Phase::PreOpen);
    floor.ann(lasting(TimeInForce::AtTheOpen, buy(2, 11)));
    floor.ann(lasting(TimeInForce::GoodForAuction, buy(3, 12)));
    let market = NewOrder { order_type: OrderType::Market, price: None, ..sell(4, 1) };
    assert_eq!(
        floor.bob(lasting(TimeInForce::AtTheOpen, market)),
        ["accepted #4", "restated #4 1 priced", "added #4 4 at 1"]
    );
    floor.ann(buy(5, 13));
    floor.phase(Phase::OpeningAuction);
    floor.check_records();
    assert_eq!(floor.phase(Phase::Halted), ["phase halted"], "a halt ends no auction");
    assert_eq!(
        floor.phase(Phase::Continuous),
        [
            "trade #5 #4 4 at 13",
            "reduced #5 4",
            "reduced #4 4 gone",
            "expired #2 2 auction_end",
            "expired #3 3 auction_end",
            "phase continuous"
        ]
    );
    assert_eq!(floor.phase(Phase::ClosingAuction), ["phase closing_auction", "added #1 1 at 10"]);
    floor.bob(lasting(TimeInForce::AtTheClose, sell(1, 10)));
    floor.check_records();
    assert_eq!(
        floor.phase(Phase::Closed),
        [
            "trade #5 #6 1 at 13",
            "reduced #5 1 gone",
            "reduced #6 1 gone",
            "expired #1 1 auction_end",
            "phase closed"
        ]
    );
}

#[test]
fn hidden_orders_and_reserves_trade_too() {
    let mut floor = Floor::new();
    floor.phase(Phase::OpeningAuction);
    let hidden = |order: NewOrder| NewOrder { flags: OrderFlags { hidden: true, ..order.flags }, ..order };
    let iceberg = |order| NewOrder { terms: Terms::default().with_display(Some(Quantity(2))), ..order };
    assert_eq!(floor.ann(hidden(buy(3, 100))), ["accepted #1"]);
    assert_eq!(floor.ann(iceberg(buy(9, 100))), ["accepted #2", "added #2 2 at 100"]);
    assert_eq!(floor.ann(buy(1, 100)), ["accepted #3", "added #3 1 at 100"]);
    assert_eq!(
        floor.bob(sell(5, 100)),
        ["accepted #4", "added #4 5 at 100", "indicative 5 of 100, 8 left to buy"]
    );
    assert_eq!(floor.bob(hidden(sell(6, 99))), ["accepted #5", "indicative 11 of 100, 2 left to buy"]);
    floor.check_records();
    // The iceberg has its place with all of its quantity, and the hidden order comes last.
    let lines = floor.phase(Phase::Continuous);
    let trades: Vec<&String> = lines.iter().filter(|line| line.starts_with("trade")).collect();
    assert_eq!(
        trades,
        ["trade #2 #5 6 at 100", "trade #2 #4 3 at 100", "trade #3 #4 1 at 100", "trade #1 #4 1 at 100"]
    );
    floor.check_records();
}

/// The price by trying every one: (price, executed).
fn tried(bids: &[(u64, i64)], asks: &[(u64, i64)], reference: Option<i64>) -> Option<(i64, u64)> {
    let best_bid = bids.iter().map(|order| order.1).max()?;
    let best_ask = asks.iter().map(|order| order.1).min()?;
    let at = |price: i64| {
        let bid: u64 = bids.iter().filter(|order| order.1 >= price).map(|order| order.0).sum();
        let offered: u64 = asks.iter().filter(|order| order.1 <= price).map(|order| order.0).sum();
        (bid, offered)
    };
    let mut prices: Vec<i64> = bids.iter().chain(asks).map(|order| order.1).collect();
    prices.sort_unstable();
    prices.dedup();
    prices.retain(|price| (best_ask..=best_bid).contains(price));
    let rank = |price: &i64| {
        let (bid, offered) = at(*price);
        (bid.min(offered), std::cmp::Reverse(bid.abs_diff(offered)))
    };
    let best = prices.iter().map(rank).max()?;
    prices.retain(|price| rank(price) == best);
    let (lowest, highest) = (*prices.first()?, *prices.last()?);
    let price = if prices.iter().all(|price| at(*price).0 > at(*price).1) {
        highest
    } else if prices.iter().all(|price| at(*price).0 < at(*price).1) {
        lowest
    } else {
        reference.map_or(lowest, |price| price.clamp(lowest, highest))
    };
    Some((price, best.0))
}

#[test]
fn the_price_agrees_with_trying_every_price() {
    let mut random: u64 = 5;
    let mut next = move |below: u64| {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (random >> 33) % below
    };
    let mut crossed = 0;
    for _ in 0..400 {
        let mut floor = Floor::new();
        let reference = (next(3) > 0).then(|| 95 + next(12) as i64);
        if let Some(price) = reference {
            floor.reference(price);
        }
        floor.phase(Phase::OpeningAuction);
        let (mut bids, mut asks) = (Vec::new(), Vec::new());
        for _ in 0..next(14) {
            let (quantity, price) = (1 + next(6), 96 + next(9) as i64);
            let side = if next(2) == 0 { Side::Buy } else { Side::Sell };
            let mut order = limit(side, quantity, price);
            order.flags.hidden = next(4) == 0;
            floor.ann(order);
            if side == Side::Buy { bids.push((quantity, price)) } else { asks.push((quantity, price)) }
        }
        let lines = floor.phase(Phase::Continuous);
        let expected = tried(&bids, &asks, reference);
        crossed += u32::from(expected.is_some());
        let trades: Vec<Vec<&str>> = lines
            .iter()
            .filter(|line| line.starts_with("trade"))
            .map(|line| line.split(' ').collect())
            .collect();
        let executed: u64 = trades.iter().map(|words| words[3].parse::<u64>().expect("a number")).sum();
        assert_eq!(executed, expected.map_or(0, |(_, executed)| executed), "{bids:?} {asks:?}");
        for words in &trades {
            assert_eq!(
                words[5].parse().ok(),
                expected.map(|(price, _)| price),
                "{bids:?} {asks:?} {reference:?}"
            );
        }
        // Nothing that could trade is left.
        let depth = floor.exchange.depth(super::floor::X, 1).expect("the book");
        let best = |levels: &[protocol::DepthLevel]| levels.first().map(|level| level.price);
        if let (Some(bid), Some(ask)) = (best(&depth.bids), best(&depth.asks)) {
            assert!(bid < ask, "{bids:?} {asks:?}");
        }
    }
    assert!(crossed > 200, "{crossed}");
}

#[test]
fn a_hundred_thousand_orders_uncross_at_once() {
    let mut floor = Floor::new();
    floor.phase(Phase::PreOpen);
    for number in 0..100_000_u64 {
        let price = 400 + (number / 2 % 200) as i64;
        floor.ann(if number % 2 == 0 { buy(1, price) } else { sell(1, price) });
    }
    let lines = floor.phase(Phase::Continuous);
    let trades = lines.iter().filter(|line| line.starts_with("trade")).count();
    assert_eq!(trades, 25_000);
    assert_eq!(floor.exchange.open_orders(), 100_000 - 2 * 25_000);
}

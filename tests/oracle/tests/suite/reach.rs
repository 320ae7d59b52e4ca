//! What random streams come to: every reason, kind of order and phase that there is, sometimes.

use std::collections::BTreeMap;

use exchange::Exchange;
use oracle::stream::{Generator, Theme};
use protocol::{
    CancelReason, Event, ExpireReason, Liquidity, LoginRefusal, OrdStatus, OrderType, Output, Phase,
    RejectReason, RestateReason, TimeInForce,
};

/// Streams of each theme, and commands of each.
const STREAMS: u64 = 8;
const COMMANDS: usize = 2_500;

/// How often each thing was seen, by the enumeration that it is of and its name.
type Seen = BTreeMap<(&'static str, &'static str), u64>;

fn see(seen: &mut Seen, event: &Event) {
    let mut count = |of, name| *seen.entry((of, name)).or_default() += 1;
    match event {
        Event::Accepted(e) => {
            count("order type", e.order_type.name());
            count("time in force", e.time_in_force.name());
        }
        Event::Rejected(e) => count("reject", e.reason.name()),
        Event::Executed(e) => count("liquidity", e.liquidity.name()),
        Event::Canceled(e) => count("cancel", e.reason.name()),
        Event::Expired(e) => count("expiry", e.reason.name()),
        Event::Restated(e) => count("restatement", e.reason.name()),
        Event::OrderStatus(e) => count("status", e.status.name()),
        Event::PhaseChanged(_, phase) => count("phase", phase.name()),
        Event::LoginRefused(e) => count("login refusal", e.reason.name()),
        Event::MassQuoted(e) => {
            for reason in [e.bid_reason, e.ask_reason].into_iter().flatten() {
                count("quote refusal", reason.name());
            }
            count("event", "quoted");
        }
        Event::Triggered(_) => count("event", "triggered"),
        Event::Settled(_) => count("event", "settled"),
        Event::TradeRevised(e) => {
            count("event", if e.new_price.is_some() { "corrected" } else { "busted" });
        }
        Event::Balance(_) => count("event", "balance"),
        Event::Position(_) => count("event", "position"),
        Event::InstrumentState(_) => count("event", "instrument"),
        Event::Configured(_) => count("event", "configured"),
        Event::Indicative(_) => count("event", "indicative"),
        Event::MarginCall(_) => count("event", "margin call"),
        _ => {}
    }
}

#[test]
fn streams_reach_every_reason() {
    let mut seen = Seen::new();
    for theme in Theme::ALL {
        for seed in 1..=STREAMS {
            let mut generator = Generator::of(seed, theme);
            let mut exchange = Exchange::new();
            let mut outputs: Vec<Output> = Vec::new();
            for _ in 0..COMMANDS {
                outputs.clear();
                exchange.apply(&generator.command(), &mut outputs);
                outputs.iter().for_each(|output| see(&mut seen, &output.event));
            }
        }
    }
    for ((of, name), number) in &seen {
        println!("{number:9} {of} {name}");
    }
    // A breach and a skip can't be made by commands: tests in the engine's own crate and in skips.rs make them. A million
    // accounts and a thousand pegs are more than a stream has.
    let elsewhere = [RejectReason::InstrumentStopped, RejectReason::Skipped, RejectReason::FollowingFull];
    let rejects = RejectReason::ALL.iter().filter(|reason| !elsewhere.contains(reason)).map(|it| it.name());
    let wanted = rejects
        .filter(|name| *name != RejectReason::AccountsFull.name())
        .map(|name| ("reject", name))
        .chain(CancelReason::ALL.iter().map(|it| ("cancel", it.name())))
        .chain(ExpireReason::ALL.iter().map(|it| ("expiry", it.name())))
        .chain(RestateReason::ALL.iter().map(|it| ("restatement", it.name())))
        .chain(OrderType::ALL.iter().map(|it| ("order type", it.name())))
        .chain(TimeInForce::ALL.iter().map(|it| ("time in force", it.name())))
        .chain(Liquidity::ALL.iter().map(|it| ("liquidity", it.name())))
        .chain(OrdStatus::ALL.iter().map(|it| ("status", it.name())))
        .chain(Phase::ALL.iter().map(|it| ("phase", it.name())))
        .chain(LoginRefusal::ALL.iter().map(|it| ("login refusal", it.name())))
        .chain(
            ["quoted", "triggered", "settled", "corrected", "busted", "balance", "position", "instrument"]
                .map(|name| ("event", name)),
        )
        .chain(["configured", "indicative", "margin call"].map(|name| ("event", name)));
    // A reason that only sides of mass quotes are refused for is no reject.
    let missing: Vec<_> = wanted
        .filter(|key| !seen.contains_key(key) && !seen.contains_key(&("quote refusal", key.1)))
        .collect();
    assert!(missing.is_empty(), "never {missing:?}");
}

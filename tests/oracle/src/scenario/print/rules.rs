//! Requests of version 2 of the rulebook in the words of the language: what operators set, and what they ask.

use std::fmt::Display;

use protocol::{
    AccountDefinition, Amount, Body, Fees, InstrumentRules, KillTarget, Limits, TickTable, Transfer,
};

use super::{option, self_trade};

/// The step of a body of these kinds.
pub(super) fn text(body: &Body) -> String {
    match body {
        Body::PutRules(instrument, rules) => format!("rules #{instrument}{}", rules_text(rules)),
        Body::PutTickTable(instrument, table) => format!("ticks #{instrument}{}", rows(table)),
        Body::SchedulePhase(instrument, at, phase) => format!("schedule #{instrument} {at} {phase}"),
        Body::ClearSchedule(instrument) => format!("schedule #{instrument} clear"),
        Body::SetPrice(instrument, kind, price) => format!("price #{instrument} {kind} {price}"),
        Body::Delist(instrument) => format!("delist #{instrument}"),
        Body::SetFees(instrument, group, fees) => {
            format!("fees #{instrument} group={group}{}", fees_text(fees))
        }
        Body::SetSeed(seed) => format!("seed {seed}"),
        Body::QueryInstrument(instrument) => format!("instrument-query #{instrument}"),
        Body::PutCurrency(currency, scale) => format!("currency {currency} {scale}"),
        Body::PutAccount(account) => account_text(account),
        Body::SetParticipant(session, participant) => format!("participant #{session} {participant}"),
        Body::SetThrottle(session, throttle) => {
            format!("throttle #{session} orders={} cancels={}", throttle.orders, throttle.cancels)
        }
        Body::SetLimits(account, instrument, limits) => format!(
            "limits {account}{}{}",
            option("on", instrument.map(|id| format!("#{id}"))),
            limits_text(limits)
        ),
        Body::Transfer(transfer) => transfer_text(transfer),
        Body::Kill(target, on) => format!("kill {} {}", target_text(*target), if *on { "on" } else { "off" }),
        Body::BustTrade(trade) => format!("bust {trade}"),
        Body::CorrectTrade(trade, price) => format!("correct {trade} {price}"),
        Body::QueryAccount(account) => format!("account-query {account}"),
        other => format!("{other:?}"),
    }
}

/// An option that is left out where it has the value that it has by itself.
fn unless<T: Display + PartialEq>(name: &str, value: T, usual: T) -> String {
    option(name, Some(value).filter(|value| *value != usual))
}

fn milliseconds(name: &str, value: u32) -> String {
    option(name, (value != 0).then(|| format!("{value}ms")))
}

fn rules_text(rules: &InstrumentRules) -> String {
    let none = InstrumentRules::default();
    [
        unless("allocation", rules.allocation, none.allocation),
        unless("allocation-minimum", rules.allocation_minimum.0, 0),
        unless("trigger", rules.stop_trigger, none.stop_trigger),
        unless("quantity-min", rules.quantity_min.0, 0),
        unless("notional-min", rules.notional_min, 0),
        unless("notional-max", rules.notional_max, 0),
        unless("protection", rules.protection, 0),
        unless("static-band", rules.static_band, 0),
        unless("dynamic-band", rules.dynamic_band, 0),
        unless("band-action", rules.band_action, none.band_action),
        milliseconds("volatility", rules.volatility_ms),
        milliseconds("random-end", rules.random_end_ms),
        unless("settlement", rules.settlement, none.settlement),
        option("base", rules.base),
        option("quote", rules.quote),
        unless("initial-margin", rules.initial_margin, 0),
        unless("maintenance-margin", rules.maintenance_margin, 0),
    ]
    .concat()
}

fn rows(table: &TickTable) -> String {
    table.rows().iter().map(|row| format!(" {}:{}", row.from, row.tick)).collect()
}

fn fees_text(fees: &Fees) -> String {
    [
        unless("maker", fees.maker_ppm, 0),
        unless("taker", fees.taker_ppm, 0),
        unless("maker-lot", fees.maker_per_lot, 0),
        unless("taker-lot", fees.taker_per_lot, 0),
    ]
    .concat()
}

fn account_text(account: &AccountDefinition) -> String {
    format!(
        "account {} participant={} group={}{}",
        account.account,
        account.participant,
        account.group,
        option("stp", account.self_trade.map(self_trade))
    )
}

fn limits_text(limits: &Limits) -> String {
    [
        unless("quantity", limits.quantity, 0),
        unless("notional", limits.notional, 0),
        unless("open-notional", limits.open_notional, 0),
        unless("net", limits.net_position, 0),
        unless("gross", limits.gross_position, 0),
        unless("collar", limits.collar, 0),
        unless("orders", limits.open_orders, 0),
        milliseconds("duplicate", limits.duplicate_ms),
    ]
    .concat()
}

fn transfer_text(transfer: &Transfer) -> String {
    let verb = if transfer.amount < Amount::ZERO { "withdraw" } else { "deposit" };
    format!("{verb} {} {} {}", transfer.account, transfer.amount.get().unsigned_abs(), transfer.currency)
}

fn target_text(target: KillTarget) -> String {
    match target {
        KillTarget::Venue => "venue".to_string(),
        KillTarget::Participant(id) => format!("participant {id}"),
        KillTarget::Account(id) => format!("account {id}"),
    }
}

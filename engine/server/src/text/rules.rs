//! The commands of version 2 of the rulebook as fields: rules, accounts, money, quotes, and the terms of orders.

use protocol::{Body, InstrumentRules, KillTarget, Limits, MassQuote, QuoteSide, Terms};
use serde_json::json;

use super::Fields;

impl Fields {
    /// The terms that an order has.
    pub(super) fn terms(self, terms: &Terms) -> Self {
        self.maybe("stop_price", terms.stop_price().map(|price| price.0))
            .maybe("trail", terms.trail())
            .maybe("display_quantity", terms.display().map(|quantity| quantity.0))
            .maybe("display_high", terms.display_high().map(|quantity| quantity.0))
            .maybe("expire_time", terms.expire_time().map(|time| time.0))
            .maybe("minimum_quantity", terms.minimum().map(|quantity| quantity.0))
            .maybe("peg", terms.peg().map(|peg| peg.reference.to_string()))
            .maybe("peg_offset", terms.peg().map(|peg| peg.offset))
            .maybe("self_trade", terms.self_trade().map(|it| it.action.to_string()))
            .maybe("self_trade_group", terms.self_trade().map(|it| it.group))
            .maybe("oco", terms.oco())
            .maybe("parent", terms.parent().map(|id| id.0))
    }

    fn rules(self, rules: &InstrumentRules) -> Self {
        self.text("allocation", rules.allocation)
            .put("allocation_minimum", rules.allocation_minimum.0)
            .text("stop_trigger", rules.stop_trigger)
            .put("quantity_min", rules.quantity_min.0)
            .put("notional_min", rules.notional_min)
            .put("notional_max", rules.notional_max)
            .put("protection", rules.protection)
            .put("static_band", rules.static_band)
            .put("dynamic_band", rules.dynamic_band)
            .text("band_action", rules.band_action)
            .put("volatility_ms", rules.volatility_ms)
            .put("random_end_ms", rules.random_end_ms)
            .text("settlement", rules.settlement)
            .maybe("base", rules.base.map(|currency| currency.to_string()))
            .maybe("quote", rules.quote.map(|currency| currency.to_string()))
            .put("initial_margin", rules.initial_margin)
            .put("maintenance_margin", rules.maintenance_margin)
    }

    fn limits(self, limits: &Limits) -> Self {
        self.put("quantity", limits.quantity)
            .put("notional", limits.notional)
            .put("open_notional", limits.open_notional)
            .put("net_position", limits.net_position)
            .put("gross_position", limits.gross_position)
            .put("collar", limits.collar)
            .put("open_orders", limits.open_orders)
            .put("duplicate_ms", limits.duplicate_ms)
    }

    fn quote(self, quote: &MassQuote) -> Self {
        let side = |side: Option<QuoteSide>| {
            let entries = |side: QuoteSide| -> Vec<_> {
                side.entries().iter().map(|entry| json!([entry.ticks, entry.lots])).collect()
            };
            side.map(entries)
        };
        self.put("instrument", quote.instrument.0)
            .put("account", quote.account.0)
            .put("base", quote.base.0)
            .maybe("bids", side(quote.bids))
            .maybe("asks", side(quote.asks))
    }
}

/// Kind of the command and its fields.
pub(super) fn describe(body: &Body, fields: Fields) -> (&'static str, Fields) {
    match body {
        Body::MassQuote(quote) => ("mass_quote", fields.quote(quote)),
        Body::PutRules(instrument, rules) => {
            ("put_rules", fields.put("instrument", instrument.0).rules(rules))
        }
        Body::PutTickTable(instrument, table) => {
            let rows: Vec<_> = table.rows().iter().map(|row| json!([row.from.0, row.tick.0])).collect();
            ("put_tick_table", fields.put("instrument", instrument.0).put("rows", rows))
        }
        Body::SchedulePhase(instrument, at, phase) => (
            "schedule_phase",
            fields.put("instrument", instrument.0).text("at", super::time(*at)).text("phase", phase),
        ),
        Body::ClearSchedule(instrument) => ("clear_schedule", fields.put("instrument", instrument.0)),
        Body::SetPrice(instrument, kind, price) => (
            "set_price",
            fields.put("instrument", instrument.0).text("price_kind", kind).put("price", price.0),
        ),
        Body::Delist(instrument) => ("delist", fields.put("instrument", instrument.0)),
        Body::SetFees(instrument, group, fees) => (
            "set_fees",
            fields
                .put("instrument", instrument.0)
                .put("group", group.0)
                .put("maker_ppm", fees.maker_ppm)
                .put("taker_ppm", fees.taker_ppm)
                .put("maker_per_lot", fees.maker_per_lot)
                .put("taker_per_lot", fees.taker_per_lot),
        ),
        Body::SetLimits(account, instrument, limits) => (
            "set_limits",
            fields
                .put("account", account.0)
                .maybe("instrument", instrument.map(|instrument| instrument.0))
                .limits(limits),
        ),
        Body::QueryInstrument(instrument) => ("query_instrument", fields.put("instrument", instrument.0)),
        other => describe_account(other, fields),
    }
}

fn describe_account(body: &Body, fields: Fields) -> (&'static str, Fields) {
    match body {
        Body::SetSeed(seed) => ("set_seed", fields.put("seed", *seed)),
        Body::PutCurrency(currency, scale) => {
            ("put_currency", fields.text("currency", currency).put("scale", *scale))
        }
        Body::PutAccount(account) => (
            "put_account",
            fields
                .put("account", account.account.0)
                .put("participant", account.participant.0)
                .put("group", account.group.0)
                .maybe("self_trade", account.self_trade.map(|it| it.action.to_string()))
                .maybe("self_trade_group", account.self_trade.map(|it| it.group)),
        ),
        Body::SetParticipant(session, participant) => {
            ("set_participant", fields.put("of_session", session.0).put("participant", participant.0))
        }
        Body::SetThrottle(session, throttle) => (
            "set_throttle",
            fields
                .put("of_session", session.0)
                .put("orders", throttle.orders)
                .put("cancels", throttle.cancels),
        ),
        Body::Transfer(transfer) => (
            "transfer",
            fields
                .put("account", transfer.account.0)
                .text("currency", transfer.currency)
                .text("amount", transfer.amount),
        ),
        Body::Kill(target, on) => {
            let fields = match target {
                KillTarget::Venue => fields.text("scope", "venue"),
                KillTarget::Participant(id) => fields.text("scope", "participant").put("participant", id.0),
                KillTarget::Account(id) => fields.text("scope", "account").put("account", id.0),
            };
            ("kill", fields.put("on", *on))
        }
        Body::BustTrade(trade) => ("bust_trade", fields.put("trade", trade.0)),
        Body::CorrectTrade(trade, price) => {
            ("correct_trade", fields.put("trade", trade.0).put("price", price.0))
        }
        Body::QueryAccount(account) => ("query_account", fields.put("account", account.0)),
        _ => ("unknown", fields),
    }
}

//! Reports of version 2 of the rulebook in the words of the scenario language.

use protocol::{Event, RejectReason, RequestId};

use super::Facts;
use crate::scenario::world::World;

/// What a report of these kinds says; `None` for another event.
pub(super) fn facts(world: &World, event: &Event) -> Option<Facts> {
    let report = |session, kind| Facts::new(world.name_of(session), kind);
    Some(match event {
        Event::Triggered(e) => report(e.to.session, "triggered")
            .order(world, e.to.session, e.client_order_id)
            .amount(e.leaves_quantity, e.price)
            .word(e.side)
            .option("stop", e.stop_price)
            .option("account", e.account)
            .on(world, e.instrument)
            .report(e.to, RequestId(0)),
        Event::MassQuoted(e) => report(e.to.session, "quoted")
            .option("bids", e.bids)
            .option("asks", e.asks)
            .maybe("bid-reason", e.bid_reason.map(RejectReason::name))
            .maybe("ask-reason", e.ask_reason.map(RejectReason::name))
            .option("account", e.account)
            .on(world, e.instrument)
            .report(e.to, e.request_id),
        Event::Settled(e) => report(e.to.session, "settled")
            .order(world, e.to.session, e.client_order_id)
            .word(e.side)
            .option("fee", e.fee)
            .option("position", e.position)
            .option("trade", e.trade_id)
            .option("account", e.account)
            .on(world, e.instrument)
            .report(e.to, RequestId(0)),
        Event::TradeRevised(e) => {
            let kind = if e.new_price.is_some() { "corrected" } else { "busted" };
            report(e.to.session, kind)
                .order(world, e.to.session, e.client_order_id)
                .amount(e.quantity, Some(e.new_price.unwrap_or(e.old_price)))
                .word(e.side)
                .option("from", e.old_price)
                .option("trade", e.trade_id)
                .option("account", e.account)
                .on(world, e.instrument)
                .report(e.to, RequestId(0))
        }
        Event::Balance(e) => report(e.to.session, "balance")
            .word(e.currency)
            .option("total", e.total)
            .option("held", e.held)
            .option("account", e.account)
            .report(e.to, e.request_id),
        Event::Position(e) => report(e.to.session, "position")
            .word(e.quantity)
            .option("cost", e.cost)
            .option("open-buy", e.open_buy)
            .option("open-sell", e.open_sell)
            .option("account", e.account)
            .on(world, e.instrument)
            .report(e.to, e.request_id),
        Event::InstrumentState(e) => report(e.to.session, "instrument")
            .word(world.symbol_of(e.instrument))
            .word(e.phase)
            .maybe("last", e.last_price)
            .maybe("reference", e.reference_price)
            .maybe("mark", e.mark_price)
            .option("open-interest", e.open_interest)
            .report(e.to, e.request_id),
        _ => return None,
    })
}

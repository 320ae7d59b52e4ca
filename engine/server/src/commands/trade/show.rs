//! Reports and depth for people and for scripts, in the decimals of the instrument where it is known.

mod depth;
mod json;

use protocol::{
    Accepted, ClientOrderId, Event, InstrumentDefinition, InstrumentId, OrderStatusReport, OrderType,
    PegReference, Price, Quantity, RejectReason, Report, Terms,
};

pub(super) use depth::{depth, depth_json};
pub(in crate::commands) use json::report_json;

use crate::{decimal, text};

/// The order and the instrument that a report is about; instrument 0 where it is about none.
pub(in crate::commands) fn subject(event: &Event) -> (Option<ClientOrderId>, InstrumentId) {
    match event {
        Event::Accepted(e) => (Some(ClientOrderId(e.request_id.0)), e.instrument),
        Event::Executed(e) => (Some(e.client_order_id), e.instrument),
        Event::Canceled(e) => (Some(e.client_order_id), e.instrument),
        Event::Replaced(e) => (Some(e.client_order_id), e.instrument),
        Event::Restated(e) => (Some(e.client_order_id), e.instrument),
        Event::Expired(e) => (Some(e.client_order_id), e.instrument),
        Event::OrderStatus(e) => (Some(e.client_order_id), e.instrument),
        Event::AdminDone(e) => (None, e.instrument),
        Event::Triggered(e) => (Some(e.client_order_id), e.instrument),
        Event::Settled(e) => (Some(e.client_order_id), e.instrument),
        Event::TradeRevised(e) => (Some(e.client_order_id), e.instrument),
        Event::MassQuoted(e) => (None, e.instrument),
        Event::Position(e) => (None, e.instrument),
        Event::InstrumentState(e) => (None, e.instrument),
        _ => (None, InstrumentId(0)),
    }
}

fn price(value: Price, definition: Option<&InstrumentDefinition>) -> String {
    definition.map_or_else(|| value.to_string(), |of| decimal::format(value.0.into(), of.price_scale))
}

fn unpriced(value: Option<Price>, definition: Option<&InstrumentDefinition>) -> String {
    value.map_or_else(|| "market".to_owned(), |value| price(value, definition))
}

fn quantity(value: Quantity, definition: Option<&InstrumentDefinition>) -> String {
    definition.map_or_else(|| value.to_string(), |of| decimal::format(value.0.into(), of.quantity_scale))
}

/// A position, which may be short.
fn position(value: i64, definition: Option<&InstrumentDefinition>) -> String {
    definition.map_or_else(|| value.to_string(), |of| decimal::format(value.into(), of.quantity_scale))
}

fn symbol(instrument: InstrumentId, definition: Option<&InstrumentDefinition>) -> String {
    definition.map_or_else(|| format!("instrument {instrument}"), |of| of.symbol.to_string())
}

/// One line.
pub(in crate::commands) fn report(report: &Report, of: Option<&InstrumentDefinition>) -> String {
    let p = |value: Price| price(value, of);
    let q = |value: Quantity| quantity(value, of);
    match &report.output.event {
        Event::Accepted(e) => accepted(e, of),
        Event::Rejected(e) => format!("rejected request {}: {}", e.request_id, e.reason),
        Event::Executed(e) => format!(
            "executed {}: {} {} {} @ {}, {} left, {} done, trade {} ({})",
            e.client_order_id,
            e.side,
            q(e.last_quantity),
            symbol(e.instrument, of),
            p(e.last_price),
            q(e.leaves_quantity),
            q(e.cum_quantity),
            e.trade_id,
            e.liquidity
        ),
        Event::Canceled(e) => {
            format!(
                "canceled {}: {} taken out, {} done ({})",
                e.client_order_id,
                q(e.canceled_quantity),
                q(e.cum_quantity),
                e.reason
            )
        }
        Event::Replaced(e) => {
            let place = if e.kept_place { "keeps its place" } else { "new place" };
            let id = e.client_order_id;
            format!(
                "replaced {id}: {} {} @ {}, {} done, {place}",
                e.side,
                q(e.quantity),
                unpriced(e.price, of),
                q(e.cum_quantity)
            )
        }
        Event::Restated(e) => {
            let id = e.client_order_id;
            let (left, at) = (q(e.leaves_quantity), unpriced(e.price, of));
            format!("restated {id}: {} {left} @ {at} ({})", e.side, e.reason)
        }
        Event::Expired(e) => {
            format!(
                "expired {}: {} gone, {} done ({})",
                e.client_order_id,
                q(e.expired_quantity),
                q(e.cum_quantity),
                e.reason
            )
        }
        Event::OrderStatus(e) => status(e, of),
        Event::MassCanceled(e) => format!("canceled all: {} orders", e.orders),
        Event::AdminDone(e) => format!("done: request {}", e.request_id),
        other => more(other, of),
    }
}

fn accepted(e: &Accepted, of: Option<&InstrumentDefinition>) -> String {
    let at = e
        .price
        .map_or_else(|| e.order_type.name().replace('_', "-"), |value| format!("@ {}", price(value, of)));
    let mut line = format!(
        "accepted {}: {} {} {} {at} {}",
        e.request_id,
        e.side,
        quantity(e.quantity, of),
        symbol(e.instrument, of),
        e.time_in_force.name().replace('_', "-")
    );
    if e.order_type == OrderType::Pegged && e.price.is_some() {
        line.push_str(" pegged");
    }
    let flags = [
        (e.flags.post_only, " post-only"),
        (e.flags.slide, " slide"),
        (e.flags.hidden, " hidden"),
        (e.flags.reduce_only, " reduce-only"),
    ];
    flags.iter().filter(|(is_set, _)| *is_set).for_each(|(_, name)| line.push_str(name));
    if e.account.0 != 0 {
        line.push_str(&format!(" account {}", e.account));
    }
    line
}

/// What an order has beyond what its acceptance says, as it is written in a line of `trade`.
pub(super) fn terms(terms: &Terms, of: Option<&InstrumentDefinition>) -> String {
    let away = |distance: u64| price(Price(i64::try_from(distance).unwrap_or(i64::MAX)), of);
    let reference = |reference| match reference {
        PegReference::BestBid => "bid",
        PegReference::BestAsk => "ask",
        PegReference::Midpoint => "mid",
    };
    let shown = terms.display().map(|low| match terms.display_high() {
        Some(high) => format!("display={}..{}", quantity(low, of), quantity(high, of)),
        None => format!("display={}", quantity(low, of)),
    });
    let all = [
        terms.stop_price().map(|value| format!("stop={}", price(value, of))),
        terms.trail().map(|distance| format!("trail={}", away(distance))),
        shown,
        terms.minimum().map(|value| format!("minimum={}", quantity(value, of))),
        terms.peg().map(|it| format!("peg={}:{}", reference(it.reference), price(Price(it.offset), of))),
        terms.expire_time().map(|at| format!("gtd={}", text::time(at))),
        terms.oco().map(|group| format!("oco={group}")),
        terms.parent().map(|id| format!("parent={id}")),
        terms
            .self_trade()
            .map(|it| format!("self-trade={}:{}", it.group, it.action.name().replace('_', "-"))),
    ];
    all.into_iter().flatten().map(|term| format!(" {term}")).collect()
}

fn status(e: &OrderStatusReport, of: Option<&InstrumentDefinition>) -> String {
    let stop = e.stop_price.map_or_else(String::new, |value| format!(", stop {}", price(value, of)));
    format!(
        "status {}: {} {} {} @ {}{stop}, {} done ({})",
        e.client_order_id,
        e.side,
        quantity(e.leaves_quantity, of),
        symbol(e.instrument, of),
        unpriced(e.price, of),
        quantity(e.cum_quantity, of),
        e.status
    )
}

/// The reports of version 2 of the rulebook.
fn more(event: &Event, of: Option<&InstrumentDefinition>) -> String {
    let p = |value: Price| price(value, of);
    let q = |value: Quantity| quantity(value, of);
    match event {
        Event::Triggered(e) => {
            let (id, at) = (e.client_order_id, unpriced(e.price, of));
            format!("triggered {id}: {} {} @ {at}, stop {}", e.side, q(e.leaves_quantity), p(e.stop_price))
        }
        Event::MassQuoted(e) => {
            let side = |count: u8, refused: Option<RejectReason>| match refused {
                Some(reason) => format!("refused ({reason})"),
                None => count.to_string(),
            };
            let (bids, asks) = (side(e.bids, e.bid_reason), side(e.asks, e.ask_reason));
            format!("quoted {}: bids {bids}, asks {asks}", e.request_id)
        }
        Event::Settled(e) => format!(
            "settled {}: trade {}, account {}, fee {}, position {} {}",
            e.client_order_id,
            e.trade_id,
            e.account,
            e.fee,
            position(e.position, of),
            symbol(e.instrument, of)
        ),
        Event::TradeRevised(e) => {
            let (id, trade, old) = (e.client_order_id, e.trade_id, p(e.old_price));
            let now = e.new_price.map_or_else(|| "taken back".to_owned(), |new| format!("now @ {}", p(new)));
            format!("trade {trade} of {id}: {} {} @ {old} {now}", e.side, q(e.quantity))
        }
        Event::Balance(e) => {
            format!("balance of account {}: {} {}, {} held", e.account, e.total, e.currency, e.held)
        }
        Event::Position(e) => format!(
            "position of account {}: {} {}, cost {}, open buys {}, open sells {}",
            e.account,
            position(e.quantity, of),
            symbol(e.instrument, of),
            e.cost,
            q(Quantity(e.open_buy)),
            q(Quantity(e.open_sell))
        ),
        Event::InstrumentState(e) => {
            let at = |price: Option<Price>| price.map_or_else(|| "none".to_owned(), p);
            format!(
                "{}: {}, last {}, reference {}, mark {}, open interest {}",
                symbol(e.instrument, of),
                e.phase,
                at(e.last_price),
                at(e.reference_price),
                at(e.mark_price),
                q(Quantity(e.open_interest))
            )
        }
        other => format!("{other:?}"),
    }
}

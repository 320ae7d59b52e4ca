//! Which version of the rulebook a request needs. While an older one is in force, it is refused and does nothing else.

use protocol::{Body, NewOrder, OrderType, Phase, ReplaceOrder, TimeInForce};

/// Of a new order.
#[inline(always)]
pub(crate) fn of_order(order: &NewOrder) -> u32 {
    let known = matches!(order.order_type, OrderType::Market | OrderType::Limit)
        && matches!(
            order.time_in_force,
            TimeInForce::Day
                | TimeInForce::GoodTillCancel
                | TimeInForce::ImmediateOrCancel
                | TimeInForce::FillOrKill
        );
    if known && order.terms.is_empty() && order.flags.is_plain() { 1 } else { 2 }
}

/// Of a replace.
#[inline]
pub(crate) fn of_replace(replace: &ReplaceOrder) -> u32 {
    let known = replace.price.is_some() && replace.stop_price.is_none() && replace.display.is_none();
    if known { 1 } else { 2 }
}

/// Of an administrative request.
pub(crate) fn of_request(body: &Body) -> u32 {
    match body {
        Body::EndOfDay
        | Body::SetCapacities(_)
        | Body::SetRulebook(_)
        | Body::PutInstrument(_)
        | Body::SetPhase(_, Phase::Continuous | Phase::Halted)
        | Body::PutUser(_)
        | Body::DisconnectUser(_) => 1,
        _ => 2,
    }
}

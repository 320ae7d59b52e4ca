//! What a new order's options may be, together and by themselves, whatever the book looks like.

use protocol::{NewOrder, OrderType, Price, Quantity, RejectReason, TimeInForce, Timestamp};

use crate::instruments::Instrument;
use crate::pegs;

/// Whether what is left of an order after its entry can rest.
pub(crate) fn may_rest(time_in_force: TimeInForce) -> bool {
    !matches!(time_in_force, TimeInForce::ImmediateOrCancel | TimeInForce::FillOrKill)
}

/// Whether an order is for auctions only.
pub(crate) fn is_for_auction(time_in_force: TimeInForce) -> bool {
    matches!(time_in_force, TimeInForce::AtTheOpen | TimeInForce::AtTheClose | TimeInForce::GoodForAuction)
}

/// The options don't contradict each other.
pub(crate) fn check_conflicts(instrument: &Instrument, order: &NewOrder) -> Result<(), RejectReason> {
    let terms = &order.terms;
    let kind = order.order_type;
    let derived = matches!(kind, OrderType::MarketToLimit | OrderType::MarketProtected);
    let market = derived || kind == OrderType::Market;
    let rests = may_rest(order.time_in_force);
    let auction = is_for_auction(order.time_in_force);
    let stop = terms.stop_price().is_some() || terms.trail().is_some();
    let (display, minimum) = (terms.display().is_some(), terms.minimum().is_some());
    let (peg, parent) = (terms.peg().is_some(), terms.parent().is_some());
    let flags = order.flags;
    let gtd = order.time_in_force == TimeInForce::GoodTillDate;
    let protection = instrument.special.as_ref().map_or(0, |special| special.rules.protection);
    let conflict = order.price.is_some() != (kind == OrderType::Limit)
        || (flags.post_only && (market || !rests || parent))
        || (flags.slide && !flags.post_only)
        || (market && (display || flags.hidden || peg || minimum))
        || (derived && auction)
        || (kind == OrderType::MarketProtected && protection == 0)
        || (flags.hidden && display)
        || (kind == OrderType::Pegged && !peg)
        || (peg && (stop || display || flags.post_only || auction || !rests))
        || (stop && (!rests || auction || flags.post_only || minimum || derived))
        || (display && !rests)
        || (terms.display_high().is_some() && !display)
        || (terms.expire_time().is_some() != gtd)
        || (minimum && (order.time_in_force == TimeInForce::FillOrKill || auction))
        || (parent && auction);
    if conflict { Err(RejectReason::OptionsConflict) } else { Ok(()) }
}

/// Quantities and prices are on the grid and within the instrument's bounds.
pub(crate) fn check_grid(
    instrument: &Instrument,
    order: &NewOrder,
    log_time: Timestamp,
) -> Result<(), RejectReason> {
    let terms = &order.terms;
    let lot = instrument.definition.lot_size.0;
    let tick = instrument.definition.tick_size;
    instrument.check_quantity(order.quantity)?;
    for price in [order.price, terms.stop_price()].into_iter().flatten() {
        instrument.check_price(price)?;
    }
    if let Some(display) = terms.display() {
        check_display(lot, order.quantity, display, terms.display_high())?;
    }
    if terms.minimum().is_some_and(|it| it.0 == 0 || it.0 % lot != 0 || it > order.quantity) {
        return Err(RejectReason::MinimumInvalid);
    }
    if terms.peg().is_some_and(|peg| !pegs::is_valid(peg, tick)) {
        return Err(RejectReason::PegInvalid);
    }
    if terms.trail().is_some_and(|trail| trail == 0 || trail % tick.0.unsigned_abs() != 0) {
        return Err(RejectReason::TrailInvalid);
    }
    if terms.expire_time().is_some_and(|time| time <= log_time) {
        return Err(RejectReason::ExpireTimePast);
    }
    Ok(())
}

/// Display quantities are on the lot and less than the whole.
pub(crate) fn check_display(
    lot: u64,
    quantity: Quantity,
    display: Quantity,
    high: Option<Quantity>,
) -> Result<(), RejectReason> {
    let low_good = display.0 > 0 && display.0.is_multiple_of(lot) && display < quantity;
    let high_good = high.is_none_or(|high| high >= display && high.0.is_multiple_of(lot) && high <= quantity);
    if low_good && high_good { check_parts(quantity, display) } else { Err(RejectReason::DisplayInvalid) }
}

/// Most parts that an iceberg is shown in: each is a trade that one incoming order may have to make.
const PARTS_MAX: u64 = 1_000;

/// An iceberg is not shown in more parts than that.
pub(crate) fn check_parts(quantity: Quantity, display: Quantity) -> Result<(), RejectReason> {
    if display.0.saturating_mul(PARTS_MAX) >= quantity.0 { Ok(()) } else { Err(RejectReason::DisplayInvalid) }
}

/// Quantity times price is within the instrument's bounds; a price of `None` is not checked.
pub(crate) fn check_notional(
    instrument: &Instrument,
    quantity: Quantity,
    price: Option<Price>,
) -> Result<(), RejectReason> {
    let (Some(special), Some(price)) = (instrument.special.as_ref(), price) else { return Ok(()) };
    let notional = u128::from(quantity.0) * u128::from(price.0.unsigned_abs());
    let bound = |bound: u64| (bound != 0).then_some(u128::from(bound));
    if bound(special.rules.notional_min).is_some_and(|least| notional < least) {
        return Err(RejectReason::NotionalBelowMinimum);
    }
    if bound(special.rules.notional_max).is_some_and(|most| notional > most) {
        return Err(RejectReason::NotionalAboveMaximum);
    }
    Ok(())
}

//! What the limits of an account allow: rule 90 as arithmetic on numbers that are given.

use protocol::{Limits, Price, RejectReason, Side, Timestamp};

use crate::accounts::{LastOrder, Position, at};

const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

/// An order as limits see it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limited {
    pub(crate) side: Side,
    /// Its total quantity.
    pub(crate) quantity: u64,
    /// What of it would be open.
    pub(crate) open: u64,
    /// Its limit price.
    pub(crate) limit: Option<Price>,
    /// Total quantity times the price that stands for it, where it has one.
    pub(crate) notional: Option<u128>,
    /// What it would add to the notional of open orders.
    pub(crate) open_notional: u128,
    /// Whether it may be a duplicate; replaces and quotes are none.
    pub(crate) is_new: bool,
}

/// Where the order would stand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surroundings<'a> {
    /// The position with its open orders, the order and what it replaces left out.
    pub(crate) position: &'a Position,
    /// What a collar is measured from.
    pub(crate) reference: Option<Price>,
    /// What position and open orders of one side may not exceed, whatever the limits.
    pub(crate) bound: u64,
    pub(crate) now: Timestamp,
}

/// The first limit that the order would exceed is the reason of its reject. A zero is no limit.
pub(crate) fn check(limits: &Limits, order: &Limited, around: &Surroundings<'_>) -> Result<(), RejectReason> {
    let exceeds = |limit: u64, value: u128| limit != 0 && value > limit.into();
    if exceeds(limits.quantity, order.quantity.into()) {
        return Err(RejectReason::LimitQuantity);
    }
    if order.notional.is_some_and(|notional| exceeds(limits.notional, notional)) {
        return Err(RejectReason::LimitNotional);
    }
    let position = around.position;
    if limits.open_orders != 0 && position.open_orders >= limits.open_orders {
        return Err(RejectReason::LimitOpenOrders);
    }
    if exceeds(limits.open_notional, position.open_notional.saturating_add(order.open_notional)) {
        return Err(RejectReason::LimitOpenNotional);
    }
    let open = i128::from(order.open);
    let net = position.with_open(order.side) + if order.side == Side::Buy { open } else { -open };
    if exceeds(limits.net_position, net.unsigned_abs()) || towards(order.side, net) > around.bound.into() {
        return Err(RejectReason::LimitNetPosition);
    }
    if exceeds(limits.gross_position, gross(position) + u128::from(order.open)) {
        return Err(RejectReason::LimitGrossPosition);
    }
    if let (Some(limit), Some(reference)) = (order.limit, around.reference)
        && exceeds(limits.collar, limit.0.abs_diff(reference.0).into())
    {
        return Err(RejectReason::PriceCollar);
    }
    let repeats = |last: LastOrder| is_duplicate(order, &last, limits.duplicate_ms, around.now);
    if order.is_new && position.last_order.is_some_and(repeats) {
        return Err(RejectReason::DuplicateOrder);
    }
    Ok(())
}

/// How far a net position is on the side that an order takes it to.
fn towards(side: Side, net: i128) -> i128 {
    if side == Side::Buy { net } else { -net }
}

/// Long and short together, open orders on their sides.
fn gross(position: &Position) -> u128 {
    u128::from(position.quantity.unsigned_abs())
        + u128::from(position.open[at(Side::Buy)])
        + u128::from(position.open[at(Side::Sell)])
}

fn is_duplicate(order: &Limited, last: &LastOrder, window_ms: u32, now: Timestamp) -> bool {
    let window = u64::from(window_ms) * NANOSECONDS_PER_MILLISECOND;
    last.side == order.side
        && last.price == order.limit
        && last.quantity == order.quantity
        && now.0.saturating_sub(last.at.0) < window
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUND: u64 = 1 << 62;

    fn order(side: Side, quantity: u64, price: i64) -> Limited {
        let notional = u128::from(quantity) * u128::from(price.unsigned_abs());
        Limited {
            side,
            quantity,
            open: quantity,
            limit: Some(Price(price)),
            notional: Some(notional),
            open_notional: notional,
            is_new: true,
        }
    }

    fn around(position: &Position) -> Surroundings<'_> {
        Surroundings { position, reference: Some(Price(100)), bound: BOUND, now: Timestamp(5_000_000) }
    }

    /// Long 10, open buys 5 and sells 3 in three orders of notional 800 in all.
    fn position() -> Position {
        let last_order =
            LastOrder { side: Side::Buy, price: Some(Price(100)), quantity: 5, at: Timestamp(2_000_000) };
        Position {
            quantity: 10,
            open: [5, 3],
            open_notional: 800,
            open_orders: 3,
            last_order: Some(last_order),
            ..Position::default()
        }
    }

    /// A limit one below what the order comes to refuses it for that reason; the exact one does not.
    fn check_limit(reason: RejectReason, at_most: u64, limited: &Limited, set: fn(&mut Limits, u64)) {
        for (limit, expected) in [(at_most, Ok(())), (at_most - 1, Err(reason)), (0, Ok(()))] {
            let mut limits = Limits::default();
            set(&mut limits, limit);
            assert_eq!(check(&limits, limited, &around(&position())), expected, "{reason} {limit}");
        }
    }

    #[test]
    fn each_limit_allows_up_to_its_value() {
        use RejectReason as R;
        let buy = order(Side::Buy, 4, 90);
        let sell = order(Side::Sell, 20, 130);
        check_limit(R::LimitQuantity, 4, &buy, |limits, value| limits.quantity = value);
        check_limit(R::LimitNotional, 360, &buy, |limits, value| limits.notional = value);
        check_limit(R::LimitOpenOrders, 4, &buy, |limits, value| limits.open_orders = value as u32);
        check_limit(R::LimitOpenNotional, 1_160, &buy, |limits, value| limits.open_notional = value);
        check_limit(R::LimitNetPosition, 19, &buy, |limits, value| limits.net_position = value);
        check_limit(R::LimitNetPosition, 13, &sell, |limits, value| limits.net_position = value);
        check_limit(R::LimitGrossPosition, 22, &buy, |limits, value| limits.gross_position = value);
        check_limit(R::PriceCollar, 30, &sell, |limits, value| limits.collar = value);
    }

    #[test]
    fn a_duplicate_is_one_for_its_time_only() {
        let limits = Limits { duplicate_ms: 3, ..Limits::default() };
        let same = order(Side::Buy, 5, 100);
        let held = position();
        let mut around = around(&held);
        assert_eq!(check(&limits, &same, &around), Ok(()), "three milliseconds are over");
        around.now = Timestamp(4_999_999);
        assert_eq!(check(&limits, &same, &around), Err(RejectReason::DuplicateOrder));
        assert_eq!(check(&limits, &Limited { is_new: false, ..same }, &around), Ok(()));
        for other in [order(Side::Sell, 5, 100), order(Side::Buy, 6, 100), order(Side::Buy, 5, 99)] {
            assert_eq!(check(&limits, &other, &around), Ok(()));
        }
    }

    #[test]
    fn positions_are_bounded_without_limits() {
        let limits = Limits::default();
        let held = position();
        let mut around = Surroundings { bound: 20, ..around(&held) };
        assert_eq!(check(&limits, &order(Side::Buy, 5, 1), &around), Ok(()));
        let too_long = check(&limits, &order(Side::Buy, 6, 1), &around);
        assert_eq!(too_long, Err(RejectReason::LimitNetPosition));
        assert_eq!(check(&limits, &order(Side::Sell, 27, 1), &around), Ok(()));
        let too_short = check(&limits, &order(Side::Sell, 28, 1), &around);
        assert_eq!(too_short, Err(RejectReason::LimitNetPosition));
        around.bound = 0;
        assert_eq!(check(&limits, &order(Side::Sell, 7, 1), &around), Ok(()), "it comes nearer to zero");
    }
}

//! How a row of a feed becomes a request. A feed tells what a venue did; what its traders asked for is read out of it:
//!
//! - `created` is a new limit order, good till canceled. Where the very next row deletes it at the same time with its whole
//!   volume, the venue did not let it rest: it was post-only, and is sent so.
//! - `changed` with less volume is an execution (its price is the execution's, not the order's). The match is for the
//!   venue to make, so the order is replaced by itself: its limit and its total quantity, which changes nothing.
//! - `changed` otherwise is an amendment: the new price, and the total quantity moved by the difference in volume.
//! - `deleted` is a cancel. Where the feed has filled the order (volume 0), the venue most often has, too, and rejects it.
//! - An id that was never created is named by its text, which the venue does not know either.

use std::collections::HashMap;

use client::{cancel, limit, replace};
use protocol::{
    Body, CancelOrder, ClOrdId, ClientOrderId, InstrumentId, NewOrder, OrderFlags, OrderKey, Price, Quantity,
    RejectReason, ReplaceOrder, RequestId,
};

use super::feed::{Action, Row};

/// An order as the plan knows it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub(super) client_order_id: ClientOrderId,
    /// The row that created it.
    pub(super) row: usize,
    price: Price,
    total: Quantity,
    /// What the feed says is left of it.
    volume: Quantity,
    post_only: bool,
}

/// Requests of a feed, row by row.
#[derive(Debug)]
pub(super) struct Plan {
    orders: HashMap<u64, Order>,
    by_client_order_id: HashMap<ClientOrderId, u64>,
    instrument: InstrumentId,
    first: Option<RequestId>,
    rows: usize,
}

impl Plan {
    pub(super) fn new(instrument: InstrumentId) -> Self {
        Self { orders: HashMap::new(), by_client_order_id: HashMap::new(), instrument, first: None, rows: 0 }
    }

    /// The request of a row; `next` is the row after it.
    pub(super) fn request(&self, row: &Row, next: Option<&Row>) -> Body {
        let order = self.orders.get(&row.id);
        match (row.action, order) {
            (Action::Created, _) => Body::NewOrder(NewOrder {
                flags: OrderFlags { post_only: is_post_only(row, next), ..OrderFlags::default() },
                ..limit(self.instrument, row.side, row.volume, row.price)
            }),
            (Action::Changed, Some(order)) => {
                let (price, total) = order.amended(row);
                replace(order.client_order_id, total, price)
            }
            (Action::Deleted, Some(order)) => cancel(order.client_order_id),
            (Action::Changed, None) => Body::ReplaceOrder(ReplaceOrder {
                order: unknown(row.id),
                side: None,
                price: Some(row.price),
                quantity: row.volume,
                stop_price: None,
                display: None,
                cl_ord_id: None,
            }),
            (Action::Deleted, None) => {
                Body::CancelOrder(CancelOrder { order: unknown(row.id), side: None, cl_ord_id: None })
            }
        }
    }

    /// The request of the row was sent as `id`; `next` as in [`request`](Self::request).
    pub(super) fn sent(&mut self, row: &Row, next: Option<&Row>, id: RequestId) {
        self.first.get_or_insert(id);
        let at = self.rows;
        self.rows += 1;
        match (row.action, self.orders.get_mut(&row.id)) {
            (Action::Created, _) => {
                let client_order_id = ClientOrderId(id.0);
                let order = Order {
                    client_order_id,
                    row: at,
                    price: row.price,
                    total: row.volume,
                    volume: row.volume,
                    post_only: is_post_only(row, next),
                };
                self.orders.insert(row.id, order);
                self.by_client_order_id.insert(client_order_id, row.id);
            }
            (Action::Changed, Some(order)) => {
                (order.price, order.total) = order.amended(row);
                order.volume = row.volume;
            }
            _ => {}
        }
    }

    /// The row whose request has that id. Each row is one request, and ids have no gaps.
    pub(super) fn row_of(&self, id: RequestId) -> Option<usize> {
        let at = usize::try_from(id.0.checked_sub(self.first?.0)?).ok()?;
        (at < self.rows).then_some(at)
    }

    /// Whether a request is older than the first of the plan.
    pub(super) fn is_before(&self, id: RequestId) -> bool {
        self.first.is_none_or(|first| id < first)
    }

    /// The order of a feed's id.
    pub(super) fn order(&self, id: u64) -> Option<&Order> {
        self.orders.get(&id)
    }

    /// The feed's id of an order.
    pub(super) fn feed_id(&self, id: ClientOrderId) -> Option<u64> {
        self.by_client_order_id.get(&id).copied()
    }

    /// Whether a venue that works may reject the row for that reason.
    pub(super) fn may_be_rejected(&self, row: &Row, reason: RejectReason) -> bool {
        use RejectReason as R;
        match row.action {
            Action::Created => match reason {
                R::QuantityZero => row.volume == Quantity(0),
                R::PostOnlyWouldTrade => self.order(row.id).is_some_and(|order| order.post_only),
                R::PriceOutsideLimits | R::QuantityAboveMaximum | R::PriceNotOnTick | R::QuantityNotOnLot => {
                    true
                }
                _ => false,
            },
            // Filled already, rejected when it was new, or never known.
            Action::Changed => matches!(
                reason,
                R::UnknownOrder
                    | R::TooLate
                    | R::QuantityZero
                    | R::PostOnlyWouldTrade
                    | R::PriceOutsideLimits
                    | R::QuantityAboveMaximum
            ),
            Action::Deleted => reason == R::UnknownOrder,
        }
    }
}

impl Order {
    /// Price and total quantity after a `changed` row.
    fn amended(&self, row: &Row) -> (Price, Quantity) {
        match row.volume.0.checked_sub(self.volume.0) {
            Some(more) => (row.price, Quantity(self.total.0.saturating_add(more))),
            None => (self.price, self.total),
        }
    }
}

fn is_post_only(row: &Row, next: Option<&Row>) -> bool {
    next.is_some_and(|next| {
        next.id == row.id
            && next.action == Action::Deleted
            && next.time_ms == row.time_ms
            && next.volume == row.volume
            && row.volume != Quantity(0)
    })
}

/// A text of at most 20 digits is always a client order id.
fn unknown(id: u64) -> OrderKey {
    match ClOrdId::new(id.to_string().as_bytes()) {
        Ok(text) => OrderKey::Text(text),
        Err(_) => OrderKey::Id(ClientOrderId(u64::MAX)),
    }
}

#[cfg(test)]
mod tests {
    use protocol::Side;

    use super::*;

    fn row(id: u64, action: Action, price: i64, volume: u64) -> Row {
        Row { id, time_ms: 5, price: Price(price), volume: Quantity(volume), action, side: Side::Buy }
    }

    fn requests(rows: &[Row]) -> Vec<Body> {
        let mut plan = Plan::new(InstrumentId(1));
        let mut bodies = Vec::new();
        for (at, row) in rows.iter().enumerate() {
            let next = rows.get(at + 1);
            bodies.push(plan.request(row, next));
            plan.sent(row, next, RequestId(101 + at as u64));
        }
        bodies
    }

    #[test]
    fn rows_become_requests() {
        let bodies = requests(&[
            row(1, Action::Created, 100, 10),
            row(1, Action::Changed, 99, 4),
            row(1, Action::Changed, 98, 7),
            row(1, Action::Deleted, 98, 7),
            row(2, Action::Deleted, 98, 7),
        ]);
        let id = ClientOrderId(101);
        assert_eq!(bodies[0], Body::NewOrder(limit(InstrumentId(1), Side::Buy, Quantity(10), Price(100))));
        assert_eq!(bodies[1], replace(id, Quantity(10), Price(100)), "an execution changes nothing");
        assert_eq!(bodies[2], replace(id, Quantity(13), Price(98)), "3 more at another price");
        assert_eq!(bodies[3], cancel(id));
        let text = ClOrdId::new(b"2").expect("an id");
        let unknown = CancelOrder { order: OrderKey::Text(text), side: None, cl_ord_id: None };
        assert_eq!(bodies[4], Body::CancelOrder(unknown));
    }

    #[test]
    fn created_and_deleted_at_once_was_post_only() {
        let flags = |rows: &[Row]| match requests(rows)[0] {
            Body::NewOrder(order) => order.flags.post_only,
            other => panic!("{other:?}"),
        };
        let created = row(1, Action::Created, 100, 10);
        assert!(flags(&[created, row(1, Action::Deleted, 100, 10)]));
        assert!(!flags(&[created, row(1, Action::Deleted, 100, 0)]), "filled");
        assert!(!flags(&[created, Row { time_ms: 6, ..row(1, Action::Deleted, 100, 10) }]), "later");
        assert!(!flags(&[created, row(2, Action::Deleted, 100, 10)]), "another one");
        assert!(!flags(&[created]));
    }
}

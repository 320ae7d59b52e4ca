//! The orders of one session and their book, rebuilt from its reports alone. Every report is held against what the reports
//! before it said.

use std::collections::{BTreeMap, HashMap};

use protocol::{
    BookHash, ClientOrderId, Event, Executed, InstrumentId, Liquidity, Price, Quantity, Recipient, Replaced,
    SessionId, Side, TradeId,
};

/// A live order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Order {
    pub(super) side: Side,
    pub(super) price: Price,
    pub(super) leaves: Quantity,
    session: SessionId,
    instrument: InstrumentId,
    /// Rises with the time at which it came to its place.
    place: u64,
}

/// A trade between two of the session's own orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct OwnTrade {
    pub(super) maker: ClientOrderId,
    pub(super) taker: ClientOrderId,
    pub(super) taker_side: Side,
    pub(super) price: Price,
    pub(super) quantity: Quantity,
}

/// Where an order rests: instrument, side, the price so that the best is first, place.
type Position = (InstrumentId, Side, i128, u64);

/// Orders, their book, and their trades.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    orders: HashMap<ClientOrderId, Order>,
    book: BTreeMap<Position, ClientOrderId>,
    places: u64,
    trades: Vec<OwnTrade>,
    /// The first execution of a trade whose other side has not come yet.
    half: Option<(TradeId, Executed)>,
    inconsistent: u64,
}

/// The order that a report is about, where it is one that changes an order.
pub(super) fn subject(event: &Event) -> Option<ClientOrderId> {
    match event {
        Event::Accepted(e) => Some(ClientOrderId(e.request_id.0)),
        Event::Executed(e) => Some(e.client_order_id),
        Event::Canceled(e) => Some(e.client_order_id),
        Event::Expired(e) => Some(e.client_order_id),
        Event::Replaced(e) => Some(e.client_order_id),
        Event::Restated(e) => Some(e.client_order_id),
        _ => None,
    }
}

impl Ledger {
    /// Takes in a report. Those of orders that were there before the first report must be kept from it.
    pub(super) fn report(&mut self, event: &Event) {
        let consistent = match event {
            Event::Accepted(e) => {
                let price = e.price.unwrap_or_default();
                self.rest(ClientOrderId(e.request_id.0), e.to, e.instrument, e.side, price, e.quantity)
            }
            Event::Executed(e) => self.executed(e),
            Event::Canceled(e) => self.gone(e.client_order_id, e.canceled_quantity),
            Event::Expired(e) => self.gone(e.client_order_id, e.expired_quantity),
            Event::Replaced(e) => self.replaced(e),
            Event::Restated(e) => {
                self.orders.get(&e.client_order_id).is_some_and(|order| order.leaves == e.leaves_quantity)
            }
            _ => true,
        };
        self.inconsistent += u64::from(!consistent);
    }

    fn rest(
        &mut self,
        id: ClientOrderId,
        to: Recipient,
        instrument: InstrumentId,
        side: Side,
        price: Price,
        leaves: Quantity,
    ) -> bool {
        self.places += 1;
        let order = Order { side, price, leaves, session: to.session, instrument, place: self.places };
        self.book.insert(order.position(), id);
        self.orders.insert(id, order).is_none()
    }

    fn executed(&mut self, e: &Executed) -> bool {
        let Some(order) = self.orders.get_mut(&e.client_order_id) else { return false };
        let expected = order.leaves.0.checked_sub(e.last_quantity.0);
        order.leaves = e.leaves_quantity;
        if e.leaves_quantity == Quantity(0) {
            self.remove(e.client_order_id);
        }
        self.pair(e);
        expected == Some(e.leaves_quantity.0) && e.last_quantity != Quantity(0)
    }

    /// Makes a trade of two executions. The other side may be another session's, which is not seen here.
    fn pair(&mut self, e: &Executed) {
        let Some((_, first)) = self.half.take().filter(|(trade, _)| *trade == e.trade_id) else {
            self.half = Some((e.trade_id, *e));
            return;
        };
        let (maker, taker) = match e.liquidity {
            Liquidity::Taker => (&first, e),
            Liquidity::Maker | Liquidity::Hidden | Liquidity::Auction => (e, &first),
        };
        self.trades.push(OwnTrade {
            maker: maker.client_order_id,
            taker: taker.client_order_id,
            taker_side: taker.side,
            price: e.last_price,
            quantity: e.last_quantity,
        });
    }

    fn gone(&mut self, id: ClientOrderId, quantity: Quantity) -> bool {
        self.remove(id).is_some_and(|order| order.leaves == quantity)
    }

    fn replaced(&mut self, e: &Replaced) -> bool {
        let Some(leaves) = e.quantity.0.checked_sub(e.cum_quantity.0) else { return false };
        let Some(order) = self.orders.get_mut(&e.client_order_id) else { return false };
        if e.kept_place {
            let kept = Some(order.price) == e.price && leaves <= order.leaves.0;
            order.leaves = Quantity(leaves);
            return kept;
        }
        self.remove(e.client_order_id);
        self.rest(
            e.client_order_id,
            e.to,
            e.instrument,
            e.side,
            e.price.unwrap_or_default(),
            Quantity(leaves),
        )
    }

    fn remove(&mut self, id: ClientOrderId) -> Option<Order> {
        let order = self.orders.remove(&id)?;
        self.book.remove(&order.position());
        Some(order)
    }

    /// A live order.
    pub(super) fn order(&self, id: ClientOrderId) -> Option<&Order> {
        self.orders.get(&id)
    }

    /// All live orders.
    pub(super) fn orders(&self) -> impl Iterator<Item = (ClientOrderId, &Order)> {
        self.book.values().filter_map(|id| Some((*id, self.orders.get(id)?)))
    }

    /// How many orders are live.
    pub(super) fn resting(&self) -> usize {
        self.orders.len()
    }

    /// Trades between two of the session's orders, in order.
    pub(super) fn trades(&self) -> &[OwnTrade] {
        &self.trades
    }

    /// Reports that contradicted the ones before them.
    pub(super) fn inconsistent(&self) -> u64 {
        self.inconsistent
    }

    /// The hash that the engine has of the same orders, if there are no others.
    pub(super) fn book_hash(&self) -> u64 {
        let mut hash = BookHash::default();
        for (id, order) in self.orders() {
            hash.order(order.instrument, order.side, order.price, order.leaves, order.session, id);
        }
        hash.value()
    }
}

impl Order {
    fn position(&self) -> Position {
        let price = i128::from(self.price.0);
        (self.instrument, self.side, if self.side == Side::Buy { -price } else { price }, self.place)
    }
}

#[cfg(test)]
mod tests {
    use protocol::{
        Accepted, AccountId, OrderFlags, OrderId, OrderType, ReportNumber, RequestId, TimeInForce,
    };

    use super::*;

    const TO: Recipient = Recipient { session: SessionId(1), number: ReportNumber(1) };

    fn accepted(id: u64, side: Side, price: i64, quantity: u64) -> Event {
        Event::Accepted(Accepted {
            to: TO,
            request_id: RequestId(id),
            order_id: OrderId(id),
            price: Some(Price(price)),
            quantity: Quantity(quantity),
            instrument: InstrumentId(1),
            account: AccountId(0),
            side,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::GoodTillCancel,
            flags: OrderFlags::default(),
        })
    }

    fn executed(id: u64, side: Side, quantity: u64, leaves: u64, liquidity: Liquidity) -> Event {
        Event::Executed(Executed {
            to: TO,
            request_id: RequestId(0),
            order_id: OrderId(id),
            client_order_id: ClientOrderId(id),
            trade_id: TradeId(1),
            last_price: Price(100),
            last_quantity: Quantity(quantity),
            leaves_quantity: Quantity(leaves),
            cum_quantity: Quantity(quantity),
            instrument: InstrumentId(1),
            account: AccountId(0),
            side,
            liquidity,
        })
    }

    fn replaced(id: u64, price: i64, quantity: u64, kept_place: bool) -> Event {
        Event::Replaced(Replaced {
            to: TO,
            request_id: RequestId(9),
            order_id: OrderId(id),
            client_order_id: ClientOrderId(id),
            price: Some(Price(price)),
            quantity: Quantity(quantity),
            cum_quantity: Quantity(0),
            instrument: InstrumentId(1),
            account: AccountId(0),
            side: Side::Sell,
            kept_place,
        })
    }

    fn book(ledger: &Ledger) -> Vec<(u64, i64, u64)> {
        ledger.orders().map(|(id, order)| (id.0, order.price.0, order.leaves.0)).collect()
    }

    #[test]
    fn a_book_is_rebuilt_in_queue_order() {
        let mut ledger = Ledger::default();
        for event in [
            accepted(1, Side::Sell, 100, 5),
            accepted(2, Side::Sell, 100, 5),
            accepted(3, Side::Sell, 99, 1),
            replaced(1, 100, 4, true),
            replaced(3, 100, 2, false),
        ] {
            ledger.report(&event);
        }
        assert_eq!(book(&ledger), [(1, 100, 4), (2, 100, 5), (3, 100, 2)]);
        let hash = ledger.book_hash();
        ledger.report(&accepted(4, Side::Buy, 100, 3));
        ledger.report(&executed(4, Side::Buy, 3, 0, Liquidity::Taker));
        ledger.report(&executed(1, Side::Sell, 3, 1, Liquidity::Maker));
        assert_eq!(book(&ledger), [(1, 100, 1), (2, 100, 5), (3, 100, 2)]);
        assert_ne!(ledger.book_hash(), hash);
        let trade = ledger.trades()[0];
        assert_eq!((trade.maker.0, trade.taker.0, trade.quantity.0), (1, 4, 3));
        assert_eq!(ledger.inconsistent(), 0);
    }

    #[test]
    fn contradictions_are_counted() {
        let mut ledger = Ledger::default();
        ledger.report(&executed(1, Side::Sell, 1, 0, Liquidity::Maker));
        ledger.report(&accepted(1, Side::Sell, 100, 5));
        ledger.report(&executed(1, Side::Sell, 2, 4, Liquidity::Maker));
        ledger.report(&replaced(1, 100, 9, true));
        assert_eq!(ledger.inconsistent(), 3);
    }
}

//! The slow, obvious form of the matching core: ordered maps of queues, and no thought for speed. The fast one emits the
//! same events.

use std::collections::{BTreeMap, VecDeque};

use book::{Event, EventKind, Request, Sink, key, price};
use protocol::{ClientOrderId, Price, Side};

/// A resting order: its id and what is open of it.
type Resting = (ClientOrderId, u32);

/// Books of ordered maps.
pub struct PlainCore {
    books: Vec<[BTreeMap<i64, VecDeque<Resting>>; 2]>,
    /// Book, side and key of each order that rests.
    places: BTreeMap<u64, (u32, Side, i64)>,
    capacity: u32,
}

fn at(side: Side) -> usize {
    usize::from(side == Side::Sell)
}

impl PlainCore {
    /// So many empty books for so many resting orders in all.
    #[must_use]
    pub fn new(books: u32, capacity: u32) -> Self {
        Self { books: (0..books).map(|_| Default::default()).collect(), places: BTreeMap::new(), capacity }
    }

    /// Orders that rest.
    #[must_use]
    pub fn resting(&self) -> u32 {
        self.places.len() as u32
    }

    /// Ids of the orders of a side, best price and oldest first.
    #[must_use]
    pub fn queue(&self, book: u32, side: Side) -> Vec<ClientOrderId> {
        let levels = self.books[book as usize][at(side)].values().rev();
        levels.flat_map(|level| level.iter().map(|(id, _)| *id)).collect()
    }

    /// Applies a request.
    pub fn apply(&mut self, request: &Request, sink: &mut impl Sink) {
        match *request {
            Request::New { book, order, side, price, quantity, immediate } => {
                let refusal = if quantity == 0 {
                    Some(EventKind::ZeroQuantity)
                } else if book as usize >= self.books.len() {
                    Some(EventKind::UnknownBook)
                } else if !immediate && self.resting() >= self.capacity {
                    Some(EventKind::Full)
                } else if self.places.contains_key(&order.0) {
                    Some(EventKind::DuplicateId)
                } else {
                    None
                };
                sink.emit(Event::new(refusal.unwrap_or(EventKind::Accepted), book, order, price, quantity));
                if refusal.is_some() {
                    return;
                }
                let left = self.trade(book, order, side, price, quantity, sink);
                if left > 0 && immediate {
                    sink.emit(Event::new(EventKind::Expired, book, order, price, left));
                } else if left > 0 {
                    self.rest(book, order, side, price, left);
                }
            }
            Request::Cancel { order } => match self.take(order) {
                None => sink.emit(Event::new(EventKind::UnknownId, 0, order, Price(0), 0)),
                Some((book, side, key, left)) => {
                    sink.emit(Event::new(EventKind::Canceled, book, order, price(side, key), left));
                }
            },
            Request::Modify { order, price, quantity } => self.modify(order, price, quantity, sink),
        }
    }

    fn modify(&mut self, order: ClientOrderId, price: Price, quantity: u32, sink: &mut impl Sink) {
        let Some(&(book, side, old)) = self.places.get(&order.0) else {
            return sink.emit(Event::new(EventKind::UnknownId, 0, order, price, quantity));
        };
        if quantity == 0 {
            return sink.emit(Event::new(EventKind::ZeroQuantity, book, order, price, quantity));
        }
        sink.emit(Event::new(EventKind::Replaced, book, order, price, quantity));
        let level = self.books[book as usize][at(side)].get_mut(&old).expect("its level");
        let open = &mut level.iter_mut().find(|resting| resting.0 == order).expect("the order").1;
        if old == key(side, price) && quantity <= *open {
            *open = quantity;
            return;
        }
        self.take(order);
        let left = self.trade(book, order, side, price, quantity, sink);
        if left > 0 {
            self.rest(book, order, side, price, left);
        }
    }

    fn rest(&mut self, book: u32, order: ClientOrderId, side: Side, price: Price, quantity: u32) {
        let key = key(side, price);
        self.books[book as usize][at(side)].entry(key).or_default().push_back((order, quantity));
        self.places.insert(order.0, (book, side, key));
    }

    fn take(&mut self, order: ClientOrderId) -> Option<(u32, Side, i64, u32)> {
        let (book, side, key) = self.places.remove(&order.0)?;
        let levels = &mut self.books[book as usize][at(side)];
        let level = levels.get_mut(&key).expect("its level");
        let place = level.iter().position(|resting| resting.0 == order).expect("the order");
        let (_, left) = level.remove(place).expect("the order");
        if level.is_empty() {
            levels.remove(&key);
        }
        Some((book, side, key, left))
    }

    /// What is left of an order that trades with the other side.
    fn trade(
        &mut self,
        book: u32,
        order: ClientOrderId,
        side: Side,
        limit: Price,
        mut left: u32,
        sink: &mut impl Sink,
    ) -> u32 {
        let other = side.opposite();
        while left > 0 {
            let Some(mut best) = self.books[book as usize][at(other)].last_entry() else { break };
            let traded_at = price(other, *best.key());
            let within = match side {
                Side::Buy => traded_at <= limit,
                Side::Sell => traded_at >= limit,
            };
            if !within {
                break;
            }
            let (maker, open) = *best.get().front().expect("no level is empty");
            let quantity = left.min(open);
            left -= quantity;
            let kind = if quantity == open { EventKind::Filled } else { EventKind::Traded };
            sink.emit(Event::of_trade(kind, book, (order, maker), traded_at, quantity));
            if quantity < open {
                best.get_mut()[0].1 -= quantity;
                continue;
            }
            best.get_mut().pop_front();
            if best.get().is_empty() {
                best.remove();
            }
            self.places.remove(&maker.0);
        }
        left
    }
}

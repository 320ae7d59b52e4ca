//! The matching core: limit orders in price-time priority over one arena and one index, for one or many books.

use protocol::{ClientOrderId, Price, Side};

use crate::arena::{Arena, Handle, Node};
use crate::event::{BOOKS_MAX, Event, EventKind, Request, Sink};
use crate::index::{Index, KeyHash};
use crate::levels::{Levels, key, price};

/// A resting order.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C, align(32))]
struct Order {
    id: ClientOrderId,
    /// Key of its level.
    key: i64,
    next: Handle,
    prev: Handle,
    /// What is open of it. Never zero.
    leaves: u32,
    /// Place of its side: twice the number of its book, and one more for asks.
    side: u32,
}

const _: () = assert!(size_of::<Order>() == 32, "two resting orders are one cache line");

impl Node for Order {
    #[inline(always)]
    fn next(&self) -> Handle {
        self.next
    }

    #[inline(always)]
    fn prev(&self) -> Handle {
        self.prev
    }

    #[inline(always)]
    fn set_next(&mut self, next: Handle) {
        self.next = next;
    }

    #[inline(always)]
    fn set_prev(&mut self, prev: Handle) {
        self.prev = prev;
    }
}

/// Books that match. It is total: every request is answered by events, whatever its numbers are.
#[derive(Debug)]
pub struct Core {
    /// Two of each book: bids, asks.
    sides: Vec<Levels>,
    orders: Arena<Order>,
    index: Index,
    capacity: u32,
}

/// Requests that are looked at ahead, together.
const LOOK_AHEAD: usize = 16;
/// Orders from which on that pays: with less, the core lies in the second-level cache.
const LOOK_AHEAD_FROM: u32 = 1 << 16;

/// What is known ahead of a request.
#[derive(Clone, Copy, Default)]
struct Step {
    handle: Handle,
    next: Handle,
    prev: Handle,
    side: usize,
    key: i64,
    place: usize,
}

/// An order on its way in.
#[derive(Clone, Copy)]
struct Incoming {
    id: ClientOrderId,
    key: i64,
    leaves: u32,
    side: u32,
}

fn side_of(side: u32) -> Side {
    if side & 1 == 0 { Side::Buy } else { Side::Sell }
}

impl Core {
    /// A core with that many empty books, numbered from zero, at most [`BOOKS_MAX`], that takes at most `capacity` resting orders.
    #[must_use]
    pub fn new(books: u32, capacity: u32) -> Self {
        let mut sides = Vec::new();
        sides.resize_with(books.min(BOOKS_MAX) as usize * 2, Levels::default);
        Self {
            sides,
            orders: Arena::with_room(capacity.min(u32::MAX - 1) as usize),
            index: Index::default(),
            capacity: capacity.min(u32::MAX - 1),
        }
    }

    /// Orders that rest.
    #[must_use]
    pub fn resting(&self) -> u32 {
        self.orders.live()
    }

    /// One side of a book.
    #[must_use]
    pub fn side(&self, book: u32, side: Side) -> Option<&Levels> {
        self.sides.get(book as usize * 2 + usize::from(side == Side::Sell))
    }

    /// Ids of the orders of a side of a book, best price and oldest first; none of a book that there isn't.
    #[must_use]
    pub fn queue(&self, book: u32, side: Side) -> Vec<ClientOrderId> {
        let mut queue = Vec::new();
        if let Some(levels) = self.side(book, side) {
            levels.for_each(&self.orders, |handle| queue.push(self.orders.get(handle).id));
        }
        queue
    }

    /// Applies a request.
    #[inline]
    pub fn apply(&mut self, request: &Request, sink: &mut impl Sink) {
        match *request {
            Request::New { book, order, side, price, quantity, immediate } => {
                self.new_order(book, order, side, price, quantity, immediate, sink);
            }
            Request::Cancel { order } => self.cancel(order, sink),
            Request::Modify { order, price, quantity } => self.modify(order, price, quantity, sink),
        }
    }

    /// Applies requests, one behind the other. Where the core is too large for the second-level cache it looks ahead, so
    /// that what requests touch is fetched for some of them together.
    pub fn apply_all(&mut self, requests: &[Request], sink: &mut impl Sink) {
        for group in requests.chunks(LOOK_AHEAD) {
            if self.orders.live() >= LOOK_AHEAD_FROM {
                self.look_ahead(group);
            }
            for request in group {
                self.apply(request, sink);
            }
        }
    }

    /// Reads what a group of requests is going to touch, in steps: what one step reads says where the next one reads. The
    /// reads of a step wait for memory together.
    #[inline(never)]
    fn look_ahead(&self, group: &[Request]) {
        let mut steps = [Step::default(); LOOK_AHEAD];
        for (step, request) in steps.iter_mut().zip(group) {
            let (Request::New { order, .. } | Request::Cancel { order } | Request::Modify { order, .. }) =
                request;
            step.handle = self.index.touch(KeyHash::of_id(order.0));
        }
        for (step, request) in steps.iter_mut().zip(group) {
            if let Request::New { book, side, price, .. } = *request {
                step.handle = Handle::NONE;
                step.side = (book.wrapping_mul(2) | u32::from(side == Side::Sell)) as usize;
                step.key = key(side, price);
            } else {
                let order = self.orders.get(step.handle);
                step.side = order.side as usize;
                step.key = order.key;
                step.next = order.next;
                step.prev = order.prev;
            }
        }
        let mut read = 0;
        for step in &mut steps[..group.len()] {
            let Some(levels) = self.sides.get(step.side) else { continue };
            step.place = levels.place(step.key);
            read ^= self.orders.get(step.next).leaves ^ self.orders.get(step.prev).leaves;
            read ^= u32::from(self.sides[step.side ^ 1].reaches(!step.key));
        }
        for step in &mut steps[..group.len()] {
            let Some(levels) = self.sides.get(step.side) else { continue };
            step.prev = levels.touch(step.place);
        }
        for step in &steps[..group.len()] {
            read ^= self.orders.get(step.prev).leaves;
        }
        std::hint::black_box(read);
    }

    #[inline(always)]
    #[expect(clippy::too_many_arguments)]
    fn new_order(
        &mut self,
        book: u32,
        id: ClientOrderId,
        side: Side,
        price: Price,
        quantity: u32,
        immediate: bool,
        sink: &mut impl Sink,
    ) {
        let hash = KeyHash::of_id(id.0);
        let side_place = book.wrapping_mul(2) | u32::from(side == Side::Sell);
        let refusal = if quantity == 0 {
            Some(EventKind::ZeroQuantity)
        } else if book as usize >= self.sides.len() / 2 {
            Some(EventKind::UnknownBook)
        } else if self.orders.live() >= self.capacity && !immediate {
            Some(EventKind::Full)
        } else {
            None
        };
        if let Some(kind) = refusal {
            return sink.emit(Event::new(kind, book, id, price, quantity));
        }
        let Err(at) = self.index.locate(hash, |handle| self.orders.get(handle).id == id) else {
            return sink.emit(Event::new(EventKind::DuplicateId, book, id, price, quantity));
        };
        let mut vacancy = Some(at);
        sink.emit(Event::new(EventKind::Accepted, book, id, price, quantity));
        let mut incoming = Incoming { id, key: key(side, price), leaves: quantity, side: side_place };
        if self.sides[side_place as usize ^ 1].reaches(!incoming.key) {
            self.trade(&mut incoming, sink);
            if incoming.leaves == 0 {
                return;
            }
            vacancy = None;
        }
        if immediate {
            return sink.emit(Event::new(EventKind::Expired, book, id, price, incoming.leaves));
        }
        let handle = self.orders.allocate();
        let order = self.orders.get_mut(handle);
        order.id = id;
        order.key = incoming.key;
        order.leaves = incoming.leaves;
        order.side = side_place;
        match vacancy {
            Some(at) => self.index.fill(at, hash, handle),
            None => self.index.insert(hash, handle),
        }
        self.sides[side_place as usize].append(&mut self.orders, handle, incoming.key);
    }

    #[inline(always)]
    fn cancel(&mut self, id: ClientOrderId, sink: &mut impl Sink) {
        let orders = &self.orders;
        let Some(handle) = self.index.take(KeyHash::of_id(id.0), |handle| orders.get(handle).id == id) else {
            return sink.emit(Event::new(EventKind::UnknownId, 0, id, Price(0), 0));
        };
        let Order { key, leaves, side, .. } = *self.orders.get(handle);
        self.sides[side as usize].unlink(&mut self.orders, handle, key);
        self.orders.release(handle);
        sink.emit(Event::new(EventKind::Canceled, side / 2, id, price(side_of(side), key), leaves));
    }

    #[inline(always)]
    fn modify(&mut self, id: ClientOrderId, to: Price, quantity: u32, sink: &mut impl Sink) {
        let hash = KeyHash::of_id(id.0);
        let found = self.index.find(hash, |handle| self.orders.get(handle).id == id);
        let Some(handle) = found else {
            return sink.emit(Event::new(EventKind::UnknownId, 0, id, to, quantity));
        };
        let Order { key: old, leaves, side, .. } = *self.orders.get(handle);
        let book = side / 2;
        if quantity == 0 {
            return sink.emit(Event::new(EventKind::ZeroQuantity, book, id, to, quantity));
        }
        sink.emit(Event::new(EventKind::Replaced, book, id, to, quantity));
        let key = key(side_of(side), to);
        if key == old && quantity <= leaves {
            self.orders.get_mut(handle).leaves = quantity;
            return;
        }
        self.sides[side as usize].unlink(&mut self.orders, handle, old);
        let mut incoming = Incoming { id, key, leaves: quantity, side };
        if self.sides[side as usize ^ 1].reaches(!key) {
            self.trade(&mut incoming, sink);
            if incoming.leaves == 0 {
                self.index.remove(hash, handle);
                self.orders.release(handle);
                return;
            }
        }
        let order = self.orders.get_mut(handle);
        order.key = key;
        order.leaves = incoming.leaves;
        self.sides[side as usize].append(&mut self.orders, handle, key);
    }

    /// Trades an order with what rests on the other side within its limit.
    #[inline(never)]
    fn trade(&mut self, incoming: &mut Incoming, sink: &mut impl Sink) {
        let opposite = &mut self.sides[incoming.side as usize ^ 1];
        let maker_side = side_of(incoming.side ^ 1);
        while incoming.leaves > 0 && opposite.reaches(!incoming.key) {
            let handle: Handle = opposite.front().expect("a level has an order");
            let maker = self.orders.get_mut(handle);
            let Order { id, key: maker_key, leaves, .. } = *maker;
            let quantity = leaves.min(incoming.leaves);
            incoming.leaves -= quantity;
            let kind = if quantity == leaves { EventKind::Filled } else { EventKind::Traded };
            let price = price(maker_side, maker_key);
            sink.emit(Event::of_trade(kind, incoming.side / 2, (incoming.id, id), price, quantity));
            if quantity < leaves {
                maker.leaves = leaves - quantity;
                return;
            }
            opposite.pop_front(&mut self.orders);
            self.index.remove(KeyHash::of_id(id.0), handle);
            self.orders.release(handle);
        }
    }
}

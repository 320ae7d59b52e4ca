//! Flows of the core beside the five scenarios: mostly moves in one small book, and more books than a cache holds.

use book::{Core, Event, EventKind, Request};
use protocol::{ClientOrderId, Price, Side};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::Flow;
use crate::workload::Message;

/// A scenario's message as a request to book 0.
pub(super) fn request(message: &Message) -> Request {
    match *message {
        Message::New { order, side, price, quantity, immediate } => Request::New {
            book: 0,
            order: ClientOrderId(order),
            side,
            price,
            quantity: quantity.0 as u32,
            immediate,
        },
        Message::Cancel { order } => Request::Cancel { order: ClientOrderId(order) },
        Message::Replace { order, price, quantity } => {
            Request::Modify { order: ClientOrderId(order), price, quantity: quantity.0 as u32 }
        }
    }
}

/// Makes requests whose mix depends on what rests, by running a core beside.
struct Maker {
    random: StdRng,
    core: Core,
    events: Vec<Event>,
    requests: Vec<Request>,
    /// Orders that rest, with book and side.
    resting: Vec<(ClientOrderId, u32, Side)>,
    /// Place in `resting` of each order ever made.
    places: Vec<usize>,
    books: u32,
    accounts: u64,
}

impl Maker {
    fn new(books: u32, accounts: u64, seed: u64) -> Self {
        Self {
            random: StdRng::seed_from_u64(seed),
            core: Core::new(books, super::CAPACITY),
            events: Vec::new(),
            requests: Vec::new(),
            resting: Vec::new(),
            places: Vec::new(),
            books,
            accounts,
        }
    }

    /// Price on the own side of a mid, from 1 to `reach` ticks away; an immediate order reaches across as far as `-reach`.
    fn price(&mut self, side: Side, reach: i64) -> Price {
        let distance = if reach > 0 { self.random.random_range(1..=reach) } else { reach };
        Price(if side == Side::Buy { 50_000 - distance } else { 50_000 + distance })
    }

    fn new_order(&mut self, reach: i64, immediate: bool) {
        // The account is part of the id, as of a venue whose ids name their session.
        let account = self.random.random_range(0..self.accounts);
        let order = ClientOrderId(account << 32 | self.places.len() as u64);
        let side = if self.random.random_bool(0.5) { Side::Buy } else { Side::Sell };
        let book = self.random.random_range(0..self.books);
        let price = self.price(side, reach);
        let quantity = self.random.random_range(1..=100);
        self.places.push(usize::MAX);
        self.push(Request::New { book, order, side, price, quantity, immediate });
        if !immediate {
            self.places[order.0 as u32 as usize] = self.resting.len();
            self.resting.push((order, book, side));
        }
    }

    fn cancel(&mut self) {
        if !self.resting.is_empty() {
            let (order, ..) = self.resting[self.random.random_range(0..self.resting.len())];
            self.push(Request::Cancel { order });
        }
    }

    fn modify(&mut self, reach: i64) {
        if !self.resting.is_empty() {
            let (order, _, side) = self.resting[self.random.random_range(0..self.resting.len())];
            let price = self.price(side, reach);
            let quantity = self.random.random_range(1..=100);
            self.push(Request::Modify { order, price, quantity });
        }
    }

    fn push(&mut self, request: Request) {
        self.core.apply(&request, &mut self.events);
        self.requests.push(request);
        for event in std::mem::take(&mut self.events) {
            match event.kind() {
                Some(EventKind::Canceled) => self.forget(event.order),
                Some(EventKind::Filled) => self.forget(event.maker),
                _ => {}
            }
        }
    }

    fn forget(&mut self, order: ClientOrderId) {
        let place = self.places[order.0 as u32 as usize];
        self.resting.swap_remove(place);
        if let Some((moved, ..)) = self.resting.get(place) {
            self.places[moved.0 as u32 as usize] = place;
        }
    }
}

/// Of a hundred messages 9 are orders that rest, 3 immediate ones, 6 cancels and 82 moves to another price, over about 1,000
/// resting orders in about 750 levels.
pub(super) fn moves(orders: u64, seed: u64) -> Flow {
    /// Ticks on each side: 1,000 orders over them leave about a third of them empty.
    const REACH: i64 = 530;
    let mut maker = Maker::new(1, 1_000, seed);
    for _ in 0..1_000 {
        maker.new_order(REACH, false);
    }
    let before = std::mem::take(&mut maker.requests);
    while maker.requests.len() < orders as usize * 2 {
        // The number of orders is held where it is by what comes and goes.
        let more = u32::from(maker.resting.len() < 1_000);
        match maker.random.random_range(0..100) {
            die if die < 8 + more * 2 => maker.new_order(REACH, false),
            die if die < 12 => maker.new_order(-REACH, true),
            die if die < 18 => maker.cancel(),
            _ => maker.modify(REACH),
        }
    }
    Flow { name: "moves".to_owned(), books: 1, before, requests: maker.requests }
}

/// A million orders rest in 10,000 books of about 100 each; then 45% orders that rest, 8% immediate ones, 40% cancels and 7%
/// moves, each of any order that rests, so that nothing of it is in a cache.
pub(super) fn many_books(orders: u64, seed: u64) -> Flow {
    const REACH: i64 = 40;
    let mut maker = Maker::new(10_000, 1_000, seed);
    for _ in 0..1_000_000 {
        maker.new_order(REACH, false);
    }
    let before = std::mem::take(&mut maker.requests);
    for _ in 0..orders * 2 {
        match maker.random.random_range(0..100) {
            die if die < 45 => maker.new_order(REACH, false),
            die if die < 53 => maker.new_order(-4, true),
            die if die < 93 => maker.cancel(),
            _ => maker.modify(REACH),
        }
    }
    Flow { name: "many-books".to_owned(), books: 10_000, before, requests: maker.requests }
}

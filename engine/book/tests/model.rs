//! The core against the slow, obvious one of the oracle, on random streams: every event and every queue is the same.
//! `RINGPIT_SEED` takes another seed than those of the cases.

use book::{Core, Event, Request};
use oracle::plain::PlainCore;
use oracle::random::Random;
use protocol::{ClientOrderId, Price, Side};

/// How a stream looks.
struct Flow {
    name: &'static str,
    books: u32,
    capacity: u32,
    /// Ids are below it, so that some are used twice and some are unknown.
    ids: u64,
    /// Draws a price.
    price: fn(&mut Random, step: u64) -> i64,
    /// Of ten requests, so many are new orders.
    news: u64,
    quantity_max: u64,
}

fn narrow(random: &mut Random, _: u64) -> i64 {
    random.range(-6, 6)
}

/// A touch that moves through hundreds of thousands of prices, and orders around it.
fn drifting(random: &mut Random, step: u64) -> i64 {
    let mid = (step as i64 % 60_000 - 30_000) * 7;
    mid + random.range(-300, 300)
}

/// Few prices of the whole range, its ends among them.
fn everywhere(random: &mut Random, _: u64) -> i64 {
    let ends = [i64::MIN, i64::MIN + 1, -1, 0, 1, i64::MAX - 1, i64::MAX];
    if random.one_in(2) { *random.pick(&ends) } else { random.word() as i64 }
}

/// Clusters far from each other, in turn.
fn two_ends(random: &mut Random, step: u64) -> i64 {
    let end = if (step / 700).is_multiple_of(2) { -1_000_000_000_000 } else { 5_000_000_000_000 };
    end + random.range(-900, 900)
}

/// Thousands of levels, many of them far from the touch.
fn wide(random: &mut Random, _: u64) -> i64 {
    if random.one_in(4) { random.range(-40_000, 40_000) } else { random.range(-700, 700) }
}

const FLOWS: [Flow; 7] = [
    Flow { name: "narrow", books: 1, capacity: 900, ids: 3_000, price: narrow, news: 5, quantity_max: 9 },
    Flow {
        name: "drifting",
        books: 2,
        capacity: 9_000,
        ids: 1 << 40,
        price: drifting,
        news: 6,
        quantity_max: 40,
    },
    Flow {
        name: "everywhere",
        books: 1,
        capacity: 500,
        ids: 900,
        price: everywhere,
        news: 6,
        quantity_max: 5,
    },
    Flow {
        name: "two ends",
        books: 1,
        capacity: 9_000,
        ids: 20_000,
        price: two_ends,
        news: 6,
        quantity_max: 60,
    },
    Flow { name: "wide", books: 1, capacity: 20_000, ids: 60_000, price: wide, news: 7, quantity_max: 100 },
    Flow {
        name: "many books",
        books: 300,
        capacity: 20_000,
        ids: 60_000,
        price: narrow,
        news: 7,
        quantity_max: 3,
    },
    Flow {
        name: "huge lots",
        books: 3,
        capacity: 50,
        ids: 99,
        price: narrow,
        news: 8,
        quantity_max: u32::MAX as u64,
    },
];

/// An id that was used not long ago, or else any.
fn some_id(random: &mut Random, flow: &Flow, recent: &[u64]) -> ClientOrderId {
    let any = recent.is_empty() || random.one_in(10);
    ClientOrderId(if any { random.below(flow.ids) } else { *random.pick(recent) })
}

fn request(random: &mut Random, flow: &Flow, recent: &[u64], step: u64) -> Request {
    let price = Price((flow.price)(random, step));
    // Zero now and then.
    let quantity = random.below(flow.quantity_max + 1) as u32;
    let kind = random.below(10);
    if kind < flow.news {
        // One more book than there is.
        let book = if random.one_in(50) { flow.books } else { random.below(u64::from(flow.books)) as u32 };
        let side = if random.one_in(2) { Side::Buy } else { Side::Sell };
        let order = ClientOrderId(random.below(flow.ids));
        Request::New { book, order, side, price, quantity, immediate: random.one_in(6) }
    } else if kind < flow.news + (10 - flow.news) * 2 / 3 {
        Request::Cancel { order: some_id(random, flow, recent) }
    } else {
        Request::Modify { order: some_id(random, flow, recent), price, quantity }
    }
}

fn check(flow: &Flow, seed: u64, steps: u64) {
    println!("{}, seed {seed}", flow.name);
    let mut random = Random::new(seed);
    let mut core = Core::new(flow.books, flow.capacity);
    let mut plain = PlainCore::new(flow.books, flow.capacity);
    let mut recent = Vec::new();
    let (mut fast, mut slow): (Vec<Event>, Vec<Event>) = (Vec::new(), Vec::new());
    for step in 0..steps {
        // Now and then everything leaves, so that books are empty again.
        let request = if step % 9_000 > 8_000 && !recent.is_empty() {
            Request::Cancel {
                order: ClientOrderId(recent.swap_remove(random.below(recent.len() as u64) as usize)),
            }
        } else {
            request(&mut random, flow, &recent, step)
        };
        core.apply(&request, &mut fast);
        plain.apply(&request, &mut slow);
        assert_eq!(fast, slow, "{}, seed {seed}, step {step}: {request:?}", flow.name);
        assert!(!fast.is_empty(), "every request is answered");
        assert_eq!(core.resting(), plain.resting());
        if let Request::New { order, .. } = request {
            recent.push(order.0);
            if recent.len() > 3_000 {
                recent.swap_remove(random.below(3_000) as usize);
            }
        }
        fast.clear();
        slow.clear();
        if step % 1_009 == 0 {
            compare_books(flow, &core, &plain);
        }
    }
    compare_books(flow, &core, &plain);
}

fn compare_books(flow: &Flow, core: &Core, plain: &PlainCore) {
    for book in 0..flow.books {
        for side in [Side::Buy, Side::Sell] {
            assert_eq!(core.queue(book, side), plain.queue(book, side), "{}: book {book}", flow.name);
        }
    }
}

#[test]
fn the_core_emits_what_the_slow_one_emits() {
    let seed = std::env::var("RINGPIT_SEED").map_or(1, |seed| seed.parse().expect("a number"));
    for flow in &FLOWS {
        for seed in seed..seed + 2 {
            check(flow, seed, 60_000);
        }
    }
}

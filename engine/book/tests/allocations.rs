//! Once a core has seen as many orders and levels at once as a flow brings, the flow allocates nothing.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use book::{Core, Event, Request, Sink};
use oracle::random::Random;
use protocol::{ClientOrderId, Price, Side};

/// The system's allocator, which counts what the thread asks for.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above; the place came from the system's allocator.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

struct Count(u64);

impl Sink for Count {
    fn emit(&mut self, _: Event) {
        self.0 += 1;
    }
}

/// A day: a touch that moves by tens of thousands of ticks, orders around it and far away, most of them canceled.
fn day(seed: u64) -> Vec<Request> {
    let mut random = Random::new(seed);
    let mut requests = Vec::new();
    for order in 1..=60_000_u64 {
        let mid = 100_000 - order as i64 / 2;
        let side = if random.one_in(2) { Side::Buy } else { Side::Sell };
        let away = if random.one_in(20) { random.range(0, 1 << 40) } else { random.range(-2, 400) };
        let price = Price(if side == Side::Buy { mid - away } else { mid + away });
        let quantity = random.below(100) as u32 + 1;
        let immediate = random.one_in(7);
        let (order, earlier) = (ClientOrderId(order), ClientOrderId(random.below(order) + 1));
        requests.push(Request::New { book: 0, order, side, price, quantity, immediate });
        match random.below(4) {
            0 => requests.push(Request::Cancel { order }),
            1 => requests.push(Request::Cancel { order: earlier }),
            2 => requests.push(Request::Modify { order: earlier, price, quantity: quantity + 1 }),
            _ => {}
        }
    }
    requests.extend((1..=60_000).map(|order| Request::Cancel { order: ClientOrderId(order) }));
    requests
}

#[test]
fn a_day_like_the_one_before_allocates_nothing() {
    let mut core = Core::new(1, 100_000);
    let mut count = Count(0);
    let before = ALLOCATIONS.get();
    let requests = day(5);
    core.apply_all(&requests, &mut count);
    assert!(ALLOCATIONS.get() > before, "allocations are counted");
    assert_eq!(core.resting(), 0);
    let warm = ALLOCATIONS.get();
    core.apply_all(&requests, &mut count);
    assert_eq!(ALLOCATIONS.get() - warm, 0, "of {} events", count.0);
}

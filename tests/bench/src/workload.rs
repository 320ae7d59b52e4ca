//! The order flows that the core is measured on, made from a seed: the same messages on every machine.
//!
//! Shape: half of the messages are new orders, 15% of those immediate-or-cancel; of the ones that rest, one in five is
//! modified (repriced or made larger, so that it loses its place) and 95% are canceled, nearly all of them one or two
//! messages after they came. Prices lie on the order's own side of a moving mid, at a distance with a power-law tail and
//! a hump eight ticks out; quantities are 1 to 100.

use protocol::{Price, Quantity, Side, StreamHash};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

/// How far the mid moves over a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    /// Not at all: a deep book in few levels.
    FixedMid,
    /// Up and down by a percent or so.
    NormalDay,
    /// By a quarter.
    Swing25,
    /// By two fifths.
    Swing40,
    /// Down by three fifths: thousands of sparse levels are left behind.
    Crash60,
}

impl Scenario {
    /// All of them, in the order of the tables.
    pub(crate) const ALL: [Self; 5] =
        [Self::FixedMid, Self::NormalDay, Self::Swing25, Self::Swing40, Self::Crash60];

    /// Name of the row.
    #[must_use]
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::FixedMid => "fixed-mid",
            Self::NormalDay => "normal-day",
            Self::Swing25 => "swing-25",
            Self::Swing40 => "swing-40",
            Self::Crash60 => "crash-60",
        }
    }

    /// Where the mid is meant to end, as a fraction of its start, and its volatility over the whole flow.
    fn path(self) -> (f64, f64) {
        match self {
            Self::FixedMid => (1.0, 0.0),
            Self::NormalDay => (1.0, 0.01),
            Self::Swing25 => (1.25, 0.01),
            Self::Swing40 => (0.60, 0.01),
            Self::Crash60 => (0.40, 0.01),
        }
    }
}

/// One message. An order is named by the place of its own message in the flow, from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// A limit order.
    New {
        /// Its name.
        order: u64,
        /// Its side.
        side: Side,
        /// Its price.
        price: Price,
        /// Its quantity.
        quantity: Quantity,
        /// Immediate-or-cancel, else good-till-cancel.
        immediate: bool,
    },
    /// Cancel.
    Cancel {
        /// The name of the order.
        order: u64,
    },
    /// Another price, or more quantity.
    Replace {
        /// The name of the order.
        order: u64,
        /// Its new price.
        price: Price,
        /// Its new total quantity.
        quantity: Quantity,
    },
}

const MID_START: f64 = 60_000.0;
const TAIL_EXPONENT: f64 = 2.23;
const DISTANCE_MAX: i64 = 30;

/// Makes the flow of a scenario with about two messages per new order.
#[must_use]
pub(crate) fn generate(scenario: Scenario, orders: u64, seed: u64) -> Vec<Message> {
    let mut random = StdRng::seed_from_u64(seed ^ scenario as u64);
    let mut messages = Vec::with_capacity(orders as usize * 5 / 2);
    // Cancels and replaces that wait for their place, by the index of the message they come before.
    let mut waiting = std::collections::BinaryHeap::new();
    let (end, volatility) = scenario.path();
    let mut deviation = 0.0_f64;
    for nth in 1..=orders {
        let order = messages.len() as u64 + 1;
        let progress = nth as f64 / orders as f64;
        if volatility > 0.0 {
            deviation += normal(&mut random) * volatility / (orders as f64).sqrt();
        }
        let mid = (MID_START * end.powf(progress) * deviation.exp()).max(1_000.0) as i64;
        let side = if random.random_bool(0.5) { Side::Buy } else { Side::Sell };
        let immediate = random.random_bool(0.15);
        let quantity = Quantity(random.random_range(1..=100));
        let price = place(&mut random, mid, side, immediate);
        messages.push(Message::New { order, side, price, quantity, immediate });
        if !immediate {
            plan(&mut random, &mut waiting, messages.len(), order, (mid, side, quantity));
        }
        while waiting.peek().is_some_and(|next: &Waiting| next.at <= messages.len()) {
            messages.extend(waiting.pop().map(|next| next.message));
        }
    }
    while let Some(next) = waiting.pop() {
        messages.push(next.message);
    }
    messages
}

/// Digest of a flow, printed so that two runs can be seen to have had the same input.
#[must_use]
pub(crate) fn digest(messages: &[Message]) -> u64 {
    let mut hash = StreamHash::default();
    for message in messages {
        match *message {
            Message::New { order, side, price, quantity, immediate } => {
                hash.pair(order, u64::from(side.to_byte()) << 8 | u64::from(immediate));
                hash.pair(price.0 as u64, quantity.0);
            }
            Message::Cancel { order } => hash.word(order),
            Message::Replace { order, price, quantity } => {
                hash.pair(order, price.0 as u64);
                hash.word(quantity.0);
            }
        }
    }
    hash.value()
}

/// Plans what becomes of a resting order.
fn plan(
    random: &mut StdRng,
    waiting: &mut std::collections::BinaryHeap<Waiting>,
    now: usize,
    order: u64,
    (mid, side, quantity): (i64, Side, Quantity),
) {
    let modified = random.random_bool(0.20);
    let canceled = random.random_bool(0.95);
    let soon = random.random_bool(0.99);
    let delay = if soon { random.random_range(0..2) } else { random.random_range(2..100_000) };
    if modified {
        let price = place(random, mid, side, false);
        let quantity = Quantity(quantity.0 + random.random_range(1..=50));
        waiting.push(Waiting {
            at: now + delay / 2,
            tie: order * 2,
            message: Message::Replace { order, price, quantity },
        });
    }
    if canceled {
        waiting.push(Waiting { at: now + delay, tie: order * 2 + 1, message: Message::Cancel { order } });
    }
}

/// A price on the order's own side of the mid; an immediate order reaches across it.
fn place(random: &mut StdRng, mid: i64, side: Side, immediate: bool) -> Price {
    let distance = if random.random_bool(0.25) {
        (8.0 + 2.0 * normal(random)).round() as i64
    } else {
        let uniform: f64 = random.random_range(1e-6..1.0);
        uniform.powf(-1.0 / (TAIL_EXPONENT - 1.0)) as i64
    };
    let distance = distance.clamp(1, DISTANCE_MAX);
    let distance = if immediate { -distance.min(4) } else { distance };
    Price(match side {
        Side::Buy => mid - distance,
        Side::Sell => mid + distance,
    })
}

/// A normally distributed number, by Box and Muller.
fn normal(random: &mut StdRng) -> f64 {
    let radius: f64 = random.random_range(f64::MIN_POSITIVE..1.0);
    let angle: f64 = random.random_range(0.0..std::f64::consts::TAU);
    (-2.0 * radius.ln()).sqrt() * angle.cos()
}

/// A message that waits for its place; the heap gives the earliest first.
#[derive(PartialEq, Eq)]
struct Waiting {
    at: usize,
    tie: u64,
    message: Message,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (other.at, other.tie).cmp(&(self.at, self.tie))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

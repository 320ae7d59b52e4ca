//! The matching core alone (`core/*`): in process, and with every event handed over the product's output ring to another
//! thread, which digests it. The digest of each run is held against that of the oracle's slow core.

mod flows;
mod hand_over;
mod paced;
mod real;

use std::time::Instant;

use book::{Core, Event, Request, Sink};
use oracle::plain::PlainCore;
use protocol::Side;

use crate::table::{Row, Table};
use crate::workload::{Scenario, digest, generate};

/// Runs of each row on the same core, whose memory the first one warms; the best is the figure, since whatever else the
/// machine does only adds.
const RUNS: usize = 5;
/// Most resting orders of the cores measured.
const CAPACITY: u32 = 1 << 22;

/// The digest of events, in their order: a multiplication each, so that it costs the reader less than the hand-over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest {
    hash: u64,
    /// Events digested.
    pub(crate) events: u64,
}

impl Digest {
    #[inline(always)]
    fn add(&mut self, event: &Event) {
        let [order, maker, price, last] = event.words();
        let word = order ^ maker.rotate_left(17) ^ price.rotate_left(34) ^ last.rotate_left(51);
        self.hash = (self.hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        self.events += 1;
    }
}

impl Sink for Digest {
    #[inline(always)]
    fn emit(&mut self, event: Event) {
        self.add(&event);
    }
}

/// A flow to measure.
pub(crate) struct Flow {
    name: String,
    books: u32,
    /// Requests before those that are measured.
    before: Vec<Request>,
    requests: Vec<Request>,
}

impl Flow {
    /// A core that has had what comes before.
    fn prepared(&self) -> Core {
        let mut core = Core::new(self.books, CAPACITY);
        core.apply_all(&self.before, &mut Digest::default());
        core
    }

    /// What the slow core makes of it.
    fn expected(&self) -> Digest {
        let mut plain = PlainCore::new(self.books, CAPACITY);
        for request in &self.before {
            plain.apply(request, &mut Digest::default());
        }
        let mut digest = Digest::default();
        for request in &self.requests {
            plain.apply(request, &mut digest);
        }
        digest
    }

    /// Takes what rests out again, and applies what comes before: the core is as it was, and its memory is warm.
    fn reset(&self, core: &mut Core) {
        for book in 0..self.books {
            for side in [Side::Buy, Side::Sell] {
                for order in core.queue(book, side) {
                    core.apply(&Request::Cancel { order }, &mut Digest::default());
                }
            }
        }
        core.apply_all(&self.before, &mut Digest::default());
    }

    /// Requests a second in process, the best of some runs.
    fn in_process(&self, core: &mut Core, expected: Digest) -> f64 {
        let rates = (0..RUNS).map(|_| {
            let mut digest = Digest::default();
            let started = Instant::now();
            core.apply_all(&self.requests, &mut digest);
            let seconds = started.elapsed().as_secs_f64();
            assert_eq!(digest, expected, "{}: the slow core emits the same", self.name);
            self.reset(core);
            self.requests.len() as f64 / seconds
        });
        rates.fold(0.0, f64::max)
    }

    fn push_rows(
        &self,
        table: &mut Table,
        (in_process, handed): (Option<f64>, Option<f64>),
        note: &str,
    ) -> (f64, f64) {
        let expected = self.expected();
        let mut core = self.prepared();
        let alone = self.in_process(&mut core, expected);
        let row = Row::new(format!("core/{}-in-process", self.name), alone, "messages/s");
        table.push(goal(row, in_process).note(format!(
            "{} messages, {} events, digest {:016x} as the oracle's{note}",
            self.requests.len(),
            expected.events,
            expected.hash
        )));
        let run = (0..RUNS)
            .map(|_| hand_over::measure(self, &mut core, expected))
            .max_by(|one, other| one.rate.total_cmp(&other.rate))
            .expect("there are runs");
        table.push(
            goal(Row::new(format!("core/{}", self.name), run.rate, "messages/s"), handed).note(run.note()),
        );
        (alone, run.rate)
    }
}

fn goal(row: Row, goal: Option<f64>) -> Row {
    match goal {
        Some(goal) => row.against(format!("{} M/s aimed at", goal / 1e6), goal),
        None => row,
    }
}

/// Runs the rows with `orders` new orders in each scenario.
pub(crate) fn run(table: &mut Table, orders: u64, seed: u64) {
    let mut worst = (f64::INFINITY, f64::INFINITY);
    let mut paced = None;
    for scenario in Scenario::ALL {
        let messages = generate(scenario, orders, seed);
        let note = format!(", input digest {:016x}", digest(&messages));
        let requests = messages.iter().map(flows::request).collect();
        let flow = Flow { name: scenario.name().to_owned(), books: 1, before: Vec::new(), requests };
        let rates = flow.push_rows(table, (None, None), &note);
        worst = (worst.0.min(rates.0), worst.1.min(rates.1));
        paced.get_or_insert(flow);
    }
    let row = Row::new("core/worst-in-process", worst.0, "messages/s");
    table.push(
        row.against("75 M/s aimed at", 75e6).note(format!("worst of the five, each the best of {RUNS} runs")),
    );
    let row = Row::new("core/worst", worst.1, "messages/s");
    table.push(row.against("60 M/s aimed at", 60e6).note("every event digested by another thread"));
    flows::moves(orders, seed).push_rows(table, (Some(50e6), None), ", 1,000 accounts");
    flows::many_books(orders, seed).push_rows(
        table,
        (Some(16e6), None),
        ", 10,000 instruments, 1 M orders rest",
    );
    for flow in real::flows() {
        flow.push_rows(table, (None, None), "");
    }
    if let Some(flow) = paced {
        paced::run(table, &flow);
    }
}

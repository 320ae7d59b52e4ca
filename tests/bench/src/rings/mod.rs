//! Rings and queues: which of the differences that the literature tells of are real on this machine. Every row checks what
//! arrived, and is bounded in time.

mod actors;
mod disruptors;
mod harness;
mod ours;
mod queues;
mod spsc;

use std::time::Duration;

use self::actors::{Circle, Placement, over_mutex, over_rings};
use self::harness::{Entry, Idle, Setup, measure};
use self::ours::Write;
use crate::table::{Row, Table};

/// Slots of every ring but in the rows about sizes.
const SLOTS: usize = 1 << 14;
/// How long each row sends.
const TIME: Duration = Duration::from_millis(250);
/// The row that the others of the ladder are held against.
const SLOWEST: &str = "rings/mutex-condvar";
/// The one row of a quick run.
const QUICK: &str = "rings/output-ring-push";

/// Runs all rows, or one.
pub(crate) fn run(table: &mut Table, quick: bool) {
    if quick {
        let setup = ours::output::<8, 1>(SLOTS, Write::Push, SLOTS, false, Idle::Spin);
        table.push(Row::new(QUICK, measure(setup, TIME), "messages/s").note("64-byte entries"));
        return;
    }
    ladder(table);
    shapes(table);
    sizes(table);
    waits(table);
    crowds(table);
    circles(table);
}

fn row(table: &mut Table, name: &str, setup: Setup, note: &str) {
    let rate = measure(setup, TIME);
    let row = Row::new(format!("rings/{name}"), rate, "messages/s").note(note);
    table.push(match table.value(SLOWEST) {
        Some(slowest) => row.against("mutex and condvar", slowest),
        None => row,
    });
}

/// One producer, one consumer, both spinning (the mutex's block), entries of 8 bytes and 16 Ki slots.
fn ladder(table: &mut Table) {
    row(table, "mutex-condvar", queues::mutex_condvar::<1>(SLOTS, false), "blocks");
    row(table, "mutex-condvar-batching", queues::mutex_condvar::<1>(SLOTS, true), "takes all at once");
    row(table, "std-sync-channel", queues::sync_channel::<1>(SLOTS), "");
    row(table, "crossbeam-bounded", queues::crossbeam::<1>(SLOTS, 1), "");
    for (name, setup) in spsc::steps::<1>(SLOTS) {
        row(table, &format!("spsc-{name}"), setup, "with the steps before it");
    }
    row(table, "rtrb", queues::rtrb::<1>(SLOTS, false), "");
    row(table, "rtrb-batching", queues::rtrb::<1>(SLOTS, true), "chunks of up to 64 in, all out");
    row(table, "disruptor-1p1c", disruptors::one_to_one::<1>(SLOTS, false), "one a claim, one a release");
    row(table, "disruptor-1p1c-batching", disruptors::one_to_one::<1>(SLOTS, true), "16 a claim, all out");
    for (name, write, limit, note) in [
        ("each", Write::Each, 1, "one a release"),
        ("each-batching", Write::Each, SLOTS, "all out"),
        ("push", Write::Push, 1, "64 a flush, one a release"),
        ("push-batching", Write::Push, SLOTS, "64 a flush, all out"),
    ] {
        let setup = ours::output::<1, 1>(SLOTS, write, limit, false, Idle::Spin);
        row(table, &format!("output-ring-{name}"), setup, note);
    }
    row(table, "front-ring-each", ours::front(SLOTS, 1, 1), "frames of 64 bytes");
    row(table, "front-ring-batching", ours::front(SLOTS, 1, 16), "frames of 64 bytes, 16 a claim");
}

/// The Disruptor's shapes, all batching, entries of 8 bytes.
fn shapes(table: &mut Table) {
    for (threads, one) in [("one-thread", true), ("thread-each", false)] {
        let named = |shape: &str| format!("{shape}-{threads}");
        let note =
            if one { "all consumers on one thread" } else { "more threads than two cores; they yield" };
        row(table, &named("disruptor-1p3c-pipeline"), disruptors::pipeline::<1>(SLOTS, one), note);
        row(table, &named("disruptor-diamond"), disruptors::fan_in::<1>(SLOTS, 2, one), note);
        row(table, &named("disruptor-1p-3c-1c"), disruptors::fan_in::<1>(SLOTS, 3, one), note);
        let idle = if one { Idle::Spin } else { Idle::Yield };
        let output = ours::output::<1, 3>(SLOTS, Write::Push, SLOTS, one, idle);
        row(table, &named("output-ring-1p3c"), output, note);
    }
    let note = "frames of 64 bytes; consumers on one thread";
    row(table, "input-ring-1p-3c-1c", ours::input(SLOTS, 1), note);
    row(table, "input-ring-3p-3c-1c", ours::input(SLOTS, 3), note);
    row(table, "front-ring-3p1c", ours::front(SLOTS, 3, 16), "frames of 64 bytes; they yield");
    row(table, "disruptor-3p1c", disruptors::many_to_one::<1>(SLOTS, 3), "they yield");
    let mut crossbeam = queues::crossbeam::<1>(SLOTS, 3);
    crossbeam.idle = Idle::Yield;
    row(table, "crossbeam-3p1c", crossbeam, "they yield");
}

/// Slots and entries, batching.
fn sizes(table: &mut Table) {
    fn of<const W: usize>(table: &mut Table, slots: usize)
    where
        Entry<W>: Default,
    {
        let (bytes, name) = (8 * W, if slots < 1 << 20 { "Ki" } else { "Mi" });
        let short = if slots < 1 << 20 { slots >> 10 } else { slots >> 20 };
        let note = format!("{} KiB", (slots * bytes) >> 10);
        let output = ours::output::<W, 1>(slots, Write::Push, slots, false, Idle::Spin);
        row(table, &format!("output-ring-{short}{name}-of-{bytes}"), output, &note);
        let disruptor = disruptors::one_to_one::<W>(slots, true);
        row(table, &format!("disruptor-{short}{name}-of-{bytes}"), disruptor, &note);
    }
    for slots in [1 << 10, 1 << 14, 1 << 17, 1 << 21] {
        of::<1>(table, slots);
        of::<8>(table, slots);
        of::<16>(table, slots);
    }
}

const WAITS: [Idle; 7] = [
    Idle::Spin,
    Idle::Hint,
    Idle::Yield,
    Idle::Sleep(Duration::from_micros(50)),
    Idle::Park(0),
    Idle::Park(64),
    Idle::Park(20_000),
];

/// What a way to wait costs in messages a second, and in the time to wake up.
fn waits(table: &mut Table) {
    for idle in WAITS {
        let setup = ours::output::<8, 1>(SLOTS, Write::Push, SLOTS, false, idle);
        row(table, &format!("wait-{}", idle.name()), setup, "output ring, entries of 64 bytes");
    }
    for idle in WAITS {
        let trips = ours::ping_pong(idle, TIME);
        let (p50, p99) = (trips.value_at_quantile(0.5) as f64, trips.value_at_quantile(0.99) as f64);
        let note = format!("there and back over two output rings, p99 {:.2} us", p99 / 1e3);
        table.push(Row::new(format!("rings/round-trip-{}-p50", idle.name()), p50 / 1e3, "us").note(note));
    }
}

/// More threads than cores: pairs over output rings of their own, by the way that they wait.
fn crowds(table: &mut Table) {
    for pairs in [1, 2, 4] {
        for idle in [Idle::Spin, Idle::Yield, Idle::Park(64)] {
            let each = std::thread::scope(|scope| {
                let pair = || measure(ours::output::<8, 1>(SLOTS, Write::Push, SLOTS, false, idle), TIME);
                let pairs: Vec<_> = (0..pairs).map(|_| scope.spawn(pair)).collect();
                pairs.into_iter().map(|pair| pair.join().expect("no panic")).sum::<f64>()
            });
            let note = format!("{} threads, sum of all pairs", 2 * pairs);
            table.push(
                Row::new(format!("rings/{pairs}-pairs-{}", idle.name()), each, "messages/s").note(note),
            );
        }
    }
}

/// The actor ring on 1 to 4 threads, with agents that do next to nothing and ones that have some work.
fn circles(table: &mut Table) {
    for (work, hops) in [(0, 100_000), (32, 10_000)] {
        let circle = Circle { agents: 1_000, messages: 1_000, hops, work };
        let shorter = Circle { hops: 5_000, ..circle };
        let kinds: [(&str, &dyn Fn(u32) -> f64); 3] = [
            ("rings-blocks", &|threads| over_rings(circle, threads, Placement::Blocks)),
            ("rings-in-turn", &|threads| over_rings(circle, threads, Placement::InTurn)),
            ("mutex", &|threads| over_mutex(shorter, threads)),
        ];
        for (name, kind) in kinds {
            let mut alone = None;
            for threads in 1..=4 {
                let rate = kind(threads);
                let row = Row::new(format!("rings/actors-{name}-work-{work}-{threads}"), rate, "hops/s");
                let note = format!("{} agents, {} messages", circle.agents, circle.messages);
                table.push(row.against("one thread", *alone.get_or_insert(rate)).note(note));
            }
        }
    }
}

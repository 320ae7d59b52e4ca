//! Full rings: back pressure, never growth, never a stuck thread.

use journaler::storage::fake::FakeStorage;
use pipeline::{EngineStepper, ManualClock, ThreadPlan};
use protocol::{Body, SessionId, Side};
use ring::{Ingress, PublishError};

use crate::support::*;

/// An engine of one stage a thread, so that each can be held up.
fn engine(time: &ManualClock, input: usize, output: usize) -> (EngineStepper, Recorder) {
    let mut config = config(time);
    config.input_slots = input;
    config.output_slots = output;
    config.threads =
        ThreadPlan::parse(["journal", "ticker", "replicate+unmarshal", "logic", "reports", "depth+metrics"])
            .unwrap();
    stepped(&FakeStorage::new().shared(), &config)
}

/// Threads of [`engine`].
const TICKER: usize = 1;
const REPORTS: usize = 4;

fn order(session: SessionId, id: u64, side: Side, quantity: u64) -> protocol::FrameWriter {
    let order = Body::NewOrder(limit(INSTRUMENTS[0], side, 1_000, quantity));
    frame(session, connection(session, 1), id, START, order)
}

/// Steps all threads but one until nothing moves.
fn step_all_but(engine: &mut EngineStepper, held: usize) {
    for _ in 0..1_000 {
        (0..engine.threads()).filter(|thread| *thread != held).for_each(|thread| {
            engine.step_thread(thread);
        });
    }
}

fn open(engine: &mut EngineStepper) -> Ingress {
    let mut ingress = engine.ingress();
    feed(engine, &mut ingress, &Flow::new(0).opening());
    ingress
}

#[test]
fn a_stage_that_takes_nothing_stops_the_publishers_and_nothing_grows() {
    let time = ManualClock::at(START);
    let (input, output) = (128, 64);
    let (mut engine, recorder) = engine(&time, input, output);
    let mut ingress = open(&mut engine);
    let view = engine.view();
    let before = view.marks().applied_sequence();
    // Each order is accepted and added: two events.
    let (mut published, mut id) = (0, 0);
    loop {
        match ingress.try_publish(order(SESSIONS[0], id + 1, Side::Buy, 1).as_bytes()) {
            Ok(()) => {
                id += 1;
                published += 1;
            }
            Err(PublishError::Full(_)) => {
                let moved = view.marks().applied_sequence();
                step_all_but(&mut engine, REPORTS);
                if view.marks().applied_sequence() == moved {
                    break;
                }
            }
            Err(error) => panic!("{error}"),
        }
        assert!(published < 10_000, "nothing stops the publisher");
    }
    let applied = view.marks().applied_sequence().0 - before.0;
    // What is applied is in the output ring, or staged: at most a chunk of 256 events and one command's.
    assert!(2 * applied <= output as u64 + 256 + 2, "{applied} orders applied");
    assert!(published - applied <= input as u64);
    assert_eq!(view.marks().reported_sequence(), before);
    assert_eq!(
        view.marks().journaled_sequence().0 - before.0,
        published,
        "the journal does not wait for output"
    );
    // The stage comes back, and all are answered.
    assert!(engine.settle(STEPS_MAX));
    let last = recorder.acknowledged()[&(SESSIONS[0], protocol::TradingDay(1))];
    assert_eq!(last.0, published);
    drop(ingress);
    assert!(engine.stop(STEPS_MAX).is_some());
}

#[test]
fn one_command_may_emit_more_than_the_output_ring_holds() {
    const MAKERS: u64 = 20_000;
    let time = ManualClock::at(START);
    let (mut engine, recorder) = engine(&time, 1024, 1024);
    let mut ingress = open(&mut engine);
    let makers: Vec<_> = (1..=MAKERS).map(|id| order(SESSIONS[0], id, Side::Sell, 1)).collect();
    feed(&mut engine, &mut ingress, &makers);
    let taker = order(SESSIONS[1], 1, Side::Buy, MAKERS);
    let behind = order(SESSIONS[1], 2, Side::Buy, 1);
    feed(&mut engine, &mut ingress, &[taker, behind]);
    let view = engine.view();
    let counts: std::collections::HashMap<_, _> = view.events().events().collect();
    assert_eq!((counts["trade"], counts["executed"]), (MAKERS, 2 * MAKERS));
    let day = protocol::TradingDay(1);
    assert_eq!(recorder.acknowledged()[&(SESSIONS[1], day)].0, 2 + MAKERS);
    assert_eq!(recorder.acknowledged()[&(SESSIONS[0], day)].0, 2 * MAKERS);
    assert_eq!(reports(&view.report_reader(), SESSIONS[1], day).len() as u64, 2 + MAKERS);
    let depth = view.depth().snapshot(INSTRUMENTS[0], 10).unwrap();
    assert_eq!((depth.asks.len(), depth.bids.len()), (0, 1));
    drop(ingress);
    assert!(engine.stop(STEPS_MAX).is_some());
}

#[test]
fn depth_never_shows_the_middle_of_a_command() {
    const MAKERS: u64 = 3_000;
    let time = ManualClock::at(START);
    let (mut engine, _) = engine(&time, 1024, 64);
    let mut ingress = open(&mut engine);
    let makers: Vec<_> = (1..=MAKERS).map(|id| order(SESSIONS[0], id, Side::Sell, 1)).collect();
    feed(&mut engine, &mut ingress, &makers);
    let view = engine.view();
    let asks = || {
        let depth = view.depth().snapshot(INSTRUMENTS[0], 1).unwrap();
        depth.asks.first().map_or(0, |level| level.quantity.0)
    };
    ingress.try_publish(order(SESSIONS[1], 1, Side::Buy, MAKERS - 7).as_bytes()).unwrap();
    let mut seen = vec![asks()];
    for _ in 0..10_000 {
        engine.step();
        if seen.last() != Some(&asks()) {
            seen.push(asks());
        }
    }
    assert_eq!(seen, [MAKERS, 7]);
}

#[test]
fn a_tick_waits_for_room_and_holds_up_nobody() {
    let time = ManualClock::at(START);
    let (mut engine, _) = engine(&time, 64, 64);
    let mut ingress = open(&mut engine);
    let mut id = 0;
    while ingress.try_publish(order(SESSIONS[0], id + 1, Side::Buy, 1).as_bytes()).is_ok() {
        id += 1;
    }
    time.advance(milliseconds(1_000));
    let before = engine.view().marks().applied_sequence();
    assert_eq!(engine.step_thread(TICKER), ring::Work::Idle, "no room for a tick");
    assert!(engine.settle(STEPS_MAX));
    assert_eq!(engine.view().marks().applied_sequence().0, before.0 + id + 1, "the orders and one tick");
}

#[test]
fn a_disk_that_fills_up_is_told_before_anything_is_lost_and_so_is_room_again() {
    let (disk, time) = (FakeStorage::new(), ManualClock::at(START));
    let config = config(&time);
    let (mut engine, recorder) = stepped(&disk.shared(), &config);
    let mut ingress = open(&mut engine);
    let view = engine.view();
    assert!(!view.journal().is_space_low());
    let used = |disk: &FakeStorage| (1 << 40) - disk.shared().free_space().unwrap();
    disk.set_capacity(1 << 40);
    disk.set_capacity(used(&disk) + config.journal.reserve_bytes - 1);
    time.advance(milliseconds(250));
    engine.settle(STEPS_MAX);
    assert!(view.journal().is_space_low(), "the reserve is touched");
    // What still comes (cancels, in a server) is journaled and answered.
    feed(&mut engine, &mut ingress, &[order(SESSIONS[0], 1, Side::Buy, 1)]);
    assert_eq!(recorder.acknowledged()[&(SESSIONS[0], protocol::TradingDay(1))].0, 1);
    disk.set_capacity(1 << 40);
    time.advance(milliseconds(250));
    engine.settle(STEPS_MAX);
    assert!(!view.journal().is_space_low());
    assert_eq!(view.fault(), None);
}

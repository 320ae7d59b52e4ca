//! Random states through a file and back.

use std::ops::ControlFlow;

use exchange::Exchange;
use journaler::storage::fake::FakeStorage;
use protocol::{Command, Output, Term};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use snapshots::{SnapshotError, SnapshotStore, Step};

use crate::venue::{CLUSTER_ID, Shape, Venue, seed};

fn store() -> SnapshotStore {
    SnapshotStore::open(FakeStorage::new().shared(), CLUSTER_ID).expect("open")
}

/// Writes the state, loads it, and lets both go on with `later`.
fn check_round_trip(exchange: &mut Exchange, later: &[Vec<u8>]) {
    let store = store();
    let written = store.write(exchange, Term(3), &mut |_| ControlFlow::Continue(())).expect("write");
    let (mut loaded, header) = store.load(exchange.sequence()).expect("load");
    assert_eq!(header, written);
    assert_eq!(header.term, Term(3));
    assert_eq!(header.state_hash, exchange.state_hash());
    let state = |exchange: &Exchange| {
        (
            exchange.sequence(),
            exchange.log_time(),
            exchange.trading_day(),
            exchange.running_hash(),
            exchange.checkpoint(),
            exchange.next_deadline(),
            exchange.state_hash(),
            exchange.book_hash(),
            exchange.open_orders(),
        )
    };
    assert_eq!(state(&loaded), state(exchange));
    let (mut outputs, mut outputs_loaded) = (Vec::<Output>::new(), Vec::<Output>::new());
    for frame in later {
        let command = Command::decode(frame);
        exchange.apply(&command, &mut outputs);
        loaded.apply(&command, &mut outputs_loaded);
    }
    assert_eq!(outputs_loaded, outputs);
    assert_eq!(state(&loaded), state(exchange));
}

#[test]
fn an_empty_exchange_goes_through_a_file() {
    check_round_trip(&mut Exchange::new(), &Venue::run(Shape::default(), 1, 200).frames);
}

#[test]
fn random_states_go_through_a_file_and_go_on_alike() {
    let mut rng = StdRng::seed_from_u64(seed(11));
    for _ in 0..40 {
        let shape = Shape {
            users: rng.random_range(1..12),
            instruments: rng.random_range(1..8),
            prices: rng.random_range(2..200),
            frames_per_tick: 30,
        };
        let venue = Venue::run(shape, rng.random(), rng.random_range(0..2000));
        let at = rng.random_range(0..=venue.frames.len());
        let mut exchange = Exchange::new();
        for frame in &venue.frames[..at] {
            exchange.apply(&Command::decode(frame), &mut Vec::<Output>::new());
        }
        check_round_trip(&mut exchange, &venue.frames[at..]);
    }
}

#[test]
fn states_of_many_chunks_go_through_a_file() {
    let shape = Shape { users: 9, instruments: 50, prices: 2000, frames_per_tick: 500 };
    let mut venue = Venue::new(shape, seed(12));
    for _ in 0..40_000 {
        venue.rest();
    }
    assert_eq!(venue.exchange.open_orders(), 40_000);
    let store = store();
    let header = store.write(&venue.exchange, Term(1), &mut |_| ControlFlow::Continue(())).expect("write");
    assert!(header.chunks > 2, "{header:?}");
    check_round_trip(&mut venue.exchange, &[]);
}

#[test]
fn a_stopped_write_leaves_nothing() {
    let venue = Venue::run(Shape::default(), 5, 300);
    let storage = FakeStorage::new();
    let store = SnapshotStore::open(storage.shared(), CLUSTER_ID).expect("open");
    let stopped = store.write(&venue.exchange, Term(1), &mut |step| {
        assert!(matches!(step, Step::Written(_)));
        ControlFlow::Break(())
    });
    assert!(matches!(stopped, Err(SnapshotError::Stopped)), "{stopped:?}");
    assert_eq!(store.storage().list("snapshots").expect("list"), Vec::<String>::new());
}

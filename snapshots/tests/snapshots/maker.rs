//! Making snapshots by replay.

use std::ops::ControlFlow;

use journaler::storage::fake::FakeStorage;
use protocol::{Body, Sequence, Tick};
use snapshots::{Made, MakerOptions, Marks, SnapshotError, SnapshotMaker, SnapshotStore, Step};

use crate::venue::{CLUSTER_ID, Shape, Venue, journal_of};

const SEGMENT_BYTES: u64 = 64 << 10;

fn on_disk(venue: &Venue) -> (FakeStorage, SnapshotMaker) {
    let storage = FakeStorage::new();
    journal_of(&storage.shared(), &venue.frames, SEGMENT_BYTES, 1);
    let store = SnapshotStore::open(storage.shared(), CLUSTER_ID).expect("open");
    (storage, SnapshotMaker::new(store, MakerOptions::default()))
}

fn both(sequence: Sequence) -> Marks {
    Marks { journaled: sequence, reported: sequence }
}

fn make(maker: &mut SnapshotMaker, marks: Marks) -> Option<Made> {
    maker.run_once(marks, &mut |_| ControlFlow::Continue(())).expect("run_once")
}

#[test]
fn snapshots_follow_each_other_and_two_are_kept() {
    let venue = Venue::run(Shape::default(), 31, 3000);
    let (_storage, mut maker) = on_disk(&venue);
    let mut made = Vec::new();
    for end in [500, 1200, 1201, 2500, 3002] {
        if let Some(snapshot) = make(&mut maker, both(Sequence(end))) {
            assert!(snapshot.header.sequence < Sequence(end));
            assert_eq!(snapshot.from, made.last().copied());
            assert_eq!(snapshot.replayed, snapshot.header.sequence.0 - snapshot.from.unwrap_or_default().0);
            made.push(snapshot.header.sequence);
        }
    }
    assert_eq!(made.len(), 4, "between 1200 and 1201 there is no new checkpoint: {made:?}");
    assert_eq!(maker.store().list().expect("list"), made[2..]);
    assert_eq!(maker.store().journal_needed_from().expect("list"), made[2].next());
    for sequence in &made[2..] {
        maker.store().load(*sequence).expect("both verify");
    }
}

#[test]
fn neither_mark_is_passed() {
    let venue = Venue::run(Shape::default(), 32, 1000);
    let (_storage, mut maker) = on_disk(&venue);
    let all = venue.sequence();
    assert_eq!(make(&mut maker, Marks { journaled: all, reported: Sequence(0) }), None);
    let marks = Marks { journaled: all, reported: Sequence(400) };
    assert!(make(&mut maker, marks).expect("made").header.sequence < Sequence(400));
    let marks = Marks { journaled: Sequence(600), reported: all };
    assert!(make(&mut maker, marks).expect("made").header.sequence < Sequence(600));
}

#[test]
fn the_whole_journal_is_needed_until_two_snapshots_are_there() {
    let venue = Venue::run(Shape::default(), 33, 1000);
    let (_storage, mut maker) = on_disk(&venue);
    assert_eq!(maker.store().journal_needed_from().expect("list"), Sequence(1));
    make(&mut maker, both(Sequence(500))).expect("made");
    assert_eq!(maker.store().journal_needed_from().expect("list"), Sequence(1));
    make(&mut maker, both(Sequence(900))).expect("made");
    assert!(maker.store().journal_needed_from().expect("list") > Sequence(1));
}

#[test]
fn a_bad_newest_snapshot_is_set_aside_and_the_older_one_used() {
    let venue = Venue::run(Shape::default(), 34, 2000);
    let (storage, mut maker) = on_disk(&venue);
    let first = make(&mut maker, both(Sequence(500))).expect("made").header.sequence;
    let second = make(&mut maker, both(Sequence(1000))).expect("made").header.sequence;
    let path = format!("snapshots/snapshot-{:020}", second.0);
    storage.flip_bit(&path, 1000, 3);
    let third = make(&mut maker, both(venue.sequence())).expect("made");
    assert_eq!(third.from, Some(first));
    assert_eq!(third.refused.len(), 1);
    assert_eq!(third.refused[0].file, path);
    assert!(third.refused[0].reason.contains("offset"), "{:?}", third.refused);
    assert_eq!(maker.store().list().expect("list"), [first, third.header.sequence]);
    assert!(storage.shared().list("snapshots").expect("list").iter().any(|name| name.ends_with(".refused")));
}

#[test]
fn a_log_that_says_another_hash_is_a_divergence() {
    let mut venue = Venue::run(Shape::default(), 35, 500);
    let checkpoint = venue.exchange.checkpoint().expect("ticked");
    venue.system(Body::Tick(Tick {
        checkpoint_sequence: checkpoint.sequence,
        checkpoint_hash: checkpoint.running_hash ^ 1,
    }));
    let (_storage, mut maker) = on_disk(&venue);
    let outcome = maker.run_once(both(venue.sequence()), &mut |_| ControlFlow::Continue(()));
    match outcome {
        Err(SnapshotError::Diverged { sequence, expected, found }) => {
            assert_eq!(sequence, checkpoint.sequence);
            assert_eq!((expected, found), (checkpoint.running_hash ^ 1, checkpoint.running_hash));
        }
        outcome => panic!("{outcome:?}"),
    }
    assert_eq!(maker.store().list().expect("list"), []);
}

#[test]
fn an_earlier_wrong_hash_is_a_divergence_too() {
    let mut venue = Venue::run(Shape::default(), 36, 500);
    let checkpoint = venue.exchange.checkpoint().expect("ticked");
    venue.system(Body::Tick(Tick {
        checkpoint_sequence: checkpoint.sequence,
        checkpoint_hash: checkpoint.running_hash ^ 1,
    }));
    venue.tick();
    venue.tick();
    let (_storage, mut maker) = on_disk(&venue);
    let outcome = maker.run_once(both(venue.sequence()), &mut |_| ControlFlow::Continue(()));
    assert!(matches!(outcome, Err(SnapshotError::Diverged { .. })), "{outcome:?}");
}

#[test]
fn work_stops_when_told_and_leaves_nothing() {
    let venue = Venue::run(Shape::default(), 37, 10_000);
    let (storage, mut maker) = on_disk(&venue);
    for wanted in [Step::Replayed(Sequence(0)), Step::Written(0)] {
        let outcome = maker.run_once(both(venue.sequence()), &mut |step| {
            if std::mem::discriminant(&step) == std::mem::discriminant(&wanted) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        });
        assert!(matches!(outcome, Err(SnapshotError::Stopped)), "{outcome:?}");
        assert_eq!(storage.shared().list("snapshots").expect("list"), Vec::<String>::new());
    }
}

#[test]
fn a_full_disk_makes_no_snapshot_and_leaves_the_reserve() {
    let venue = Venue::run(Shape::default(), 38, 1000);
    let storage = FakeStorage::new();
    journal_of(&storage.shared(), &venue.frames, SEGMENT_BYTES, 1);
    let store = SnapshotStore::open(storage.shared(), CLUSTER_ID).expect("open");
    let reserve_bytes = 1 << 20;
    let mut maker = SnapshotMaker::new(store, MakerOptions { reserve_bytes, ..MakerOptions::default() });
    let mut outcomes = Vec::new();
    for capacity in (0..4 << 20).step_by(64 << 10) {
        storage.set_capacity(capacity);
        let free = storage.shared().free_space().expect("space");
        match maker.run_once(both(venue.sequence()), &mut |_| ControlFlow::Continue(())) {
            Ok(made) => {
                outcomes.push(made.is_some());
                assert!(storage.shared().free_space().expect("space") >= reserve_bytes);
                break;
            }
            Err(error) => {
                assert!(error.is_no_space(), "{error}");
                assert!(free < 2 * reserve_bytes, "{free}: {error}");
                assert_eq!(storage.shared().list("snapshots").expect("list"), Vec::<String>::new());
                outcomes.push(false);
            }
        }
    }
    assert_eq!(outcomes.last(), Some(&true));
}

//! The thread on real files.

use std::ops::ControlFlow;
use std::sync::mpsc;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use journaler::storage::fake::FakeStorage;
use journaler::storage::{RealStorage, SharedStorage};
use protocol::Sequence;
use snapshots::{
    MakerEvent, MakerOptions, Marks, Pacer, RequestError, SnapshotMaker, SnapshotSchedule, SnapshotStore,
    SnapshotThread, Step,
};

use crate::venue::{CLUSTER_ID, Shape, Venue, journal_of};

fn on_disk(venue: &Venue) -> (tempfile::TempDir, SnapshotStore) {
    let folder = tempfile::tempdir().expect("a folder");
    let storage: SharedStorage = Arc::new(RealStorage::create(folder.path()).expect("create"));
    journal_of(&storage, &venue.frames, 256 << 10, 1);
    (folder, SnapshotStore::open(storage, CLUSTER_ID).expect("open"))
}

/// A schedule by which nothing is ever due.
fn on_demand() -> SnapshotSchedule {
    SnapshotSchedule { every_frames: u64::MAX, every: Duration::MAX, ..SnapshotSchedule::default() }
}

#[test]
fn snapshots_are_made_on_demand_within_the_marks() {
    let venue = Venue::run(Shape::default(), 61, 2000);
    let (_folder, store) = on_disk(&venue);
    let marks = Arc::new(Mutex::new(Marks { journaled: venue.sequence(), reported: Sequence(500) }));
    let (tell, told) = mpsc::channel();
    let asked = marks.clone();
    let thread = SnapshotThread::spawn(
        SnapshotMaker::new(store.clone(), MakerOptions::default()),
        on_demand(),
        move || *asked.lock().expect("lock"),
        move |event| tell.send(event).expect("the test listens"),
    )
    .expect("spawn");
    let first = thread.make().expect("no error").expect("made");
    assert!(first.header.sequence < Sequence(500));
    assert_eq!(thread.make(), Ok(None));
    marks.lock().expect("lock").reported = venue.sequence();
    let second = thread.make().expect("no error").expect("made");
    assert_eq!(second.from, Some(first.header.sequence));
    thread.stop();
    let told = told.iter().collect::<Vec<_>>();
    assert!(matches!(&told[..], [MakerEvent::Made(a), MakerEvent::Made(b)] if (a, b) == (&first, &second)));
    assert_eq!(store.list().expect("list"), [first.header.sequence, second.header.sequence]);
    let (exchange, header) = store.load(second.header.sequence).expect("load");
    assert_eq!(exchange.state_hash(), header.state_hash);
}

#[test]
fn a_snapshot_that_is_due_is_made_unasked() {
    let venue = Venue::run(Shape::default(), 62, 500);
    let (_folder, store) = on_disk(&venue);
    let marks = Marks { journaled: venue.sequence(), reported: venue.sequence() };
    let (tell, told) = mpsc::channel();
    let schedule = SnapshotSchedule { every_frames: 100, ..SnapshotSchedule::default() };
    let thread = SnapshotThread::spawn(
        SnapshotMaker::new(store, MakerOptions::default()),
        schedule,
        move || marks,
        move |event| tell.send(event).expect("the test listens"),
    )
    .expect("spawn");
    let event = told.recv().expect("an event");
    assert!(matches!(event, MakerEvent::Made(_)), "{event:?}");
    drop(thread);
}

#[test]
fn a_failure_is_told_and_ends_the_thread() {
    let venue = Venue::run(Shape::default(), 63, 500);
    let (_folder, store) = on_disk(&venue);
    let segment = store.storage().list("journal").expect("list").remove(0);
    let path = format!("journal/{segment}");
    let file = store.storage().open(&path, journaler::storage::Access::ReadWrite).expect("open");
    file.write_all_at(&[0xff; 64], 8192).expect("write");
    let marks = Marks { journaled: venue.sequence(), reported: venue.sequence() };
    let (tell, told) = mpsc::channel();
    let thread = SnapshotThread::spawn(
        SnapshotMaker::new(store, MakerOptions::default()),
        on_demand(),
        move || marks,
        move |event| tell.send(event).expect("the test listens"),
    )
    .expect("spawn");
    assert!(matches!(thread.make(), Err(RequestError::Failed(_))));
    assert!(matches!(told.recv(), Ok(MakerEvent::Failed(_))));
    assert!(told.recv().is_err(), "the thread has ended");
    assert_eq!(thread.make(), Err(RequestError::Stopped));
}

#[test]
fn a_full_disk_postpones_and_does_not_end_the_thread() {
    let venue = Venue::run(Shape::default(), 65, 500);
    let storage = FakeStorage::new();
    journal_of(&storage.shared(), &venue.frames, 64 << 10, 1);
    let store = SnapshotStore::open(storage.shared(), CLUSTER_ID).expect("open");
    let marks = Marks { journaled: venue.sequence(), reported: venue.sequence() };
    let (tell, told) = mpsc::channel();
    let thread = SnapshotThread::spawn(
        SnapshotMaker::new(store, MakerOptions::default()),
        on_demand(),
        move || marks,
        move |event| tell.send(event).expect("the test listens"),
    )
    .expect("spawn");
    storage.set_capacity(0);
    assert!(matches!(thread.make(), Err(RequestError::NoSpace(_))));
    storage.set_capacity(u64::MAX);
    assert!(matches!(thread.make(), Ok(Some(_))));
    thread.stop();
    let told = told.iter().collect::<Vec<_>>();
    assert!(matches!(&told[..], [MakerEvent::Postponed(_), MakerEvent::Made(_)]), "{told:?}");
}

#[test]
fn when_a_snapshot_is_due() {
    let schedule = SnapshotSchedule {
        every_frames: 1000,
        every: Duration::from_secs(60),
        ..SnapshotSchedule::default()
    };
    let due = |last: u64, allowed: u64, seconds: u64| {
        let marks = Marks { journaled: Sequence(allowed), reported: Sequence(allowed + 7) };
        schedule.is_due(Sequence(last), marks, Duration::from_secs(seconds))
    };
    assert!(due(0, 1000, 0));
    assert!(!due(0, 999, 59));
    assert!(due(0, 1, 60));
    assert!(!due(5, 5, 1_000_000), "nothing came");
    assert!(!due(9, 5, 1_000_000));
}

#[test]
fn the_pace_counts_frames_and_records() {
    let mut pacer = Pacer::new(100);
    let steps =
        [Step::Replayed(Sequence(5000)), Step::Replayed(Sequence(5099)), Step::Written(1), Step::Written(99)];
    assert_eq!(steps.map(|step| pacer.step(step)), [false, false, true, false]);
    assert!(pacer.step(Step::Written(1)));
}

#[test]
fn real_files_are_read_and_damage_is_named() {
    let venue = Venue::run(Shape::default(), 64, 500);
    let (folder, store) = on_disk(&venue);
    let header =
        store.write(&venue.exchange, protocol::Term(1), &mut |_| ControlFlow::Continue(())).expect("write");
    let path = folder.path().join(format!("snapshots/snapshot-{:020}", header.sequence.0));
    let mut bytes = std::fs::read(&path).expect("read");
    assert_eq!(bytes.len() as u64, header.file_bytes);
    store.load(header.sequence).expect("load");
    bytes[700] ^= 0x10;
    std::fs::write(&path, bytes).expect("write");
    let error = store.load(header.sequence).expect_err("damaged").to_string();
    assert!(
        error.starts_with(&format!("snapshots/snapshot-{:020}: offset 192: ", header.sequence.0)),
        "{error}"
    );
}

//! Starting from snapshots.

use std::ops::ControlFlow;

use exchange::Exchange;
use journaler::storage::SharedStorage;
use journaler::storage::fake::FakeStorage;
use journaler::{Journal, JournalReader};
use protocol::{Output, Sequence};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use snapshots::{
    MakerOptions, Marks, Progress, Recovered, RecoveryObserver, SnapshotError, SnapshotMaker, SnapshotStore,
    recover,
};

use crate::venue::{CLUSTER_ID, Shape, Venue, journal_of, journal_options, seed};

const SEGMENT_BYTES: u64 = 64 << 10;

/// Keeps what it is told.
#[derive(Default)]
pub(crate) struct Witness {
    pub(crate) outputs: Vec<Output>,
    pub(crate) mark: Option<Sequence>,
    pub(crate) progress: Vec<Progress>,
}

impl RecoveryObserver for Witness {
    fn progress(&mut self, progress: Progress) {
        self.progress.push(progress);
    }

    fn at_mark(&mut self, exchange: &Exchange) {
        assert_eq!(self.mark.replace(exchange.sequence()), None);
        assert!(self.outputs.is_empty());
    }

    fn output(&mut self, output: &Output) {
        self.outputs.push(*output);
    }
}

pub(crate) fn recover_at(storage: &SharedStorage, marks: Marks) -> (Recovered, Witness) {
    let store = SnapshotStore::open(storage.clone(), CLUSTER_ID).expect("open");
    let journal = JournalReader::open(storage.clone()).expect("open");
    let mut witness = Witness::default();
    let recovered = recover(&store, &journal, marks, &mut witness).expect("recover");
    (recovered, witness)
}

/// A snapshot of the first `end` frames; `None` where they hold no checkpoint newer than the last snapshot.
pub(crate) fn try_make(storage: &SharedStorage, keep: usize, end: u64) -> Option<Sequence> {
    let store = SnapshotStore::open(storage.clone(), CLUSTER_ID).expect("open");
    let marks = Marks { journaled: Sequence(end), reported: Sequence(end) };
    let made = SnapshotMaker::new(store, MakerOptions { keep, ..MakerOptions::default() })
        .run_once(marks, &mut |_| ControlFlow::Continue(()));
    made.expect("run_once").map(|made| made.header.sequence)
}

pub(crate) fn make(storage: &SharedStorage, keep: usize, end: u64) -> Sequence {
    try_make(storage, keep, end).expect("a new checkpoint")
}

pub(crate) fn check_recovered(recovered: &Recovered, witness: &Witness, venue: &Venue, marks: Marks) {
    assert_eq!(recovered.exchange.sequence(), venue.sequence());
    assert_eq!(recovered.exchange.running_hash(), venue.exchange.running_hash());
    assert_eq!(recovered.exchange.state_hash(), venue.exchange.state_hash());
    let after_mark = venue.outputs.iter().filter(|output| output.sequence > marks.reported);
    assert!(witness.outputs.iter().eq(after_mark), "the outputs after the mark are the same");
    assert_eq!(witness.mark, Some(marks.allowed()));
    assert!(recovered.from_snapshot.is_none_or(|from| from <= marks.allowed()));
    assert!(witness.progress.is_sorted_by_key(|progress| progress.done));
    let last = witness.progress.last().expect("progress");
    assert_eq!((last.done, last.total), (recovered.replayed, recovered.replayed));
}

#[test]
fn a_start_from_any_snapshot_is_a_start_from_the_beginning() {
    let mut rng = StdRng::seed_from_u64(seed(41));
    let venue = Venue::run(Shape::default(), rng.random(), 6000);
    let storage = FakeStorage::new().shared();
    journal_of(&storage, &venue.frames, SEGMENT_BYTES, rng.random());
    let end = venue.sequence();
    let (recovered, witness) = recover_at(&storage, Marks { journaled: end, reported: Sequence(0) });
    assert_eq!(recovered.from_snapshot, None);
    check_recovered(&recovered, &witness, &venue, Marks { journaled: end, reported: Sequence(0) });
    let mut at = 0;
    let mut snapshots = 0;
    while snapshots < 25 {
        at += rng.random_range(50..200);
        let Some(snapshot) = try_make(&storage, usize::MAX, at) else { continue };
        snapshots += 1;
        let reported = Sequence(rng.random_range(snapshot.0..=end.0));
        let marks = Marks { journaled: end, reported };
        let (recovered, witness) = recover_at(&storage, marks);
        assert_eq!(recovered.from_snapshot, Some(snapshot));
        assert_eq!(recovered.refused, []);
        check_recovered(&recovered, &witness, &venue, marks);
    }
}

#[test]
fn a_snapshot_past_the_report_mark_is_not_used() {
    let venue = Venue::run(Shape::default(), 42, 2000);
    let storage = FakeStorage::new().shared();
    journal_of(&storage, &venue.frames, SEGMENT_BYTES, 1);
    let (first, second) = (make(&storage, 2, 700), make(&storage, 2, 1500));
    let marks = Marks { journaled: venue.sequence(), reported: Sequence(second.0 - 1) };
    let (recovered, witness) = recover_at(&storage, marks);
    assert_eq!(recovered.from_snapshot, Some(first));
    assert_eq!(recovered.refused.len(), 1);
    assert!(recovered.refused[0].reason.contains("report log"), "{:?}", recovered.refused);
    check_recovered(&recovered, &witness, &venue, marks);
}

#[test]
fn a_bad_newest_snapshot_falls_back_to_the_older_and_then_to_the_journal() {
    let venue = Venue::run(Shape::default(), 43, 2000);
    let storage = FakeStorage::new();
    journal_of(&storage.shared(), &venue.frames, SEGMENT_BYTES, 1);
    let (first, second) = (make(&storage.shared(), 2, 700), make(&storage.shared(), 2, 1500));
    let marks = Marks { journaled: venue.sequence(), reported: venue.sequence() };
    for (bad, expected) in [(second, Some(first)), (first, None)] {
        storage.flip_bit(&format!("snapshots/snapshot-{:020}", bad.0), 300, 0);
        let (recovered, witness) = recover_at(&storage.shared(), marks);
        assert_eq!(recovered.from_snapshot, expected);
        assert_eq!(recovered.refused.last().expect("refused").sequence, bad);
        check_recovered(&recovered, &witness, &venue, marks);
    }
}

#[test]
fn with_the_journal_pruned_and_no_good_snapshot_the_start_is_refused_with_the_reasons() {
    let venue = Venue::run(Shape::default(), 44, 4000);
    let storage = FakeStorage::new();
    journal_of(&storage.shared(), &venue.frames, 16 << 10, 1);
    let snapshots = [make(&storage.shared(), 2, 2000), make(&storage.shared(), 2, 3000)];
    let (journal, _) = Journal::open(storage.shared(), journal_options(16 << 10)).expect("open");
    let store = SnapshotStore::new(storage.shared(), CLUSTER_ID);
    let removed = journal.segments().prune(store.journal_needed_from().expect("list")).expect("prune");
    assert!(!removed.is_empty());
    drop(journal);
    let marks = Marks { journaled: venue.sequence(), reported: venue.sequence() };
    let (recovered, witness) = recover_at(&storage.shared(), marks);
    assert_eq!(recovered.from_snapshot, Some(snapshots[1]));
    check_recovered(&recovered, &witness, &venue, marks);

    for snapshot in snapshots {
        storage.flip_bit(&format!("snapshots/snapshot-{:020}", snapshot.0), 300, 0);
    }
    let reader = JournalReader::open(storage.shared()).expect("open");
    let error = recover(&store, &reader, marks, &mut Witness::default()).expect_err("nothing to start from");
    let SnapshotError::NothingToStartFrom { journal_first, refused } = &error else { panic!("{error}") };
    assert!(*journal_first > Sequence(1));
    assert_eq!(refused.len(), 2);
    for snapshot in snapshots {
        assert!(error.to_string().contains(&format!("{:020}", snapshot.0)), "{error}");
    }
}

#[test]
fn a_report_mark_past_the_journal_tells_where_the_journal_ends() {
    let venue = Venue::run(Shape::default(), 45, 500);
    let storage = FakeStorage::new().shared();
    journal_of(&storage, &venue.frames, SEGMENT_BYTES, 1);
    let marks = Marks { journaled: venue.sequence(), reported: Sequence(venue.sequence().0 + 100) };
    let (recovered, witness) = recover_at(&storage, marks);
    check_recovered(&recovered, &witness, &venue, marks);
}

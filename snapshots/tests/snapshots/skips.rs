//! Frames that operators had skipped: every way back passes over them, a snapshot holds what they left, and one that is
//! ordered for another frame is refused.

use std::sync::Arc;

use journaler::storage::SharedStorage;
use journaler::storage::fake::FakeStorage;
use journaler::{JournalError, JournalReader, RealStorage, Skip, SkipFile};
use protocol::{Event, RejectReason, Sequence};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use snapshots::{Marks, SnapshotError, SnapshotStore, back_up, check, recover};

use crate::recovery::{Witness, check_recovered, recover_at, try_make};
use crate::venue::{CLUSTER_ID, Shape, Venue, journal_of, seed};

const SEGMENT_BYTES: u64 = 64 << 10;

/// A venue of which one frame in fifty or so was passed over.
fn venue(rng: &mut StdRng, frames: usize) -> Venue {
    let mut venue = Venue::new(Shape::default(), rng.random());
    for _ in 0..frames {
        venue.skips_next = rng.random_ratio(1, 50);
        venue.step();
    }
    venue.tick();
    venue.tick();
    venue
}

fn data_directory(venue: &Venue, rng: &mut StdRng) -> SharedStorage {
    let storage = FakeStorage::new().shared();
    journal_of(&storage, &venue.frames, SEGMENT_BYTES, rng.random());
    venue.record_skips(&storage);
    storage
}

fn attempt(storage: &SharedStorage, end: Sequence) -> Result<(), SnapshotError> {
    let store = SnapshotStore::new(storage.clone(), CLUSTER_ID);
    let journal = JournalReader::open(storage.clone()).expect("open");
    let marks = Marks { journaled: end, reported: Sequence(0) };
    recover(&store, &journal, marks, &mut Witness::default()).map(|_| ())
}

#[test]
fn every_way_back_passes_over_the_same_frames() {
    let mut rng = StdRng::seed_from_u64(seed(91));
    let venue = venue(&mut rng, 4_000);
    assert!(venue.skips.len() > 40, "{} skips", venue.skips.len());
    let answered = |output: &&protocol::Output| matches!(output.event, Event::Rejected(rejected) if rejected.reason == RejectReason::Skipped);
    assert!(venue.outputs.iter().filter(answered).count() > 20, "their senders are answered");
    let storage = data_directory(&venue, &mut rng);
    let end = venue.sequence();
    let mut made = Vec::new();
    for part in [0, 1, 2, 3, 4] {
        // Without a snapshot first, then behind later and later ones.
        let snapshot = Sequence(end.0 * part / 5);
        made.extend((part > 0).then(|| try_make(&storage, 10, snapshot.0)).flatten());
        let marks = Marks { journaled: end, reported: Sequence(rng.random_range(snapshot.0..=end.0)) };
        let (recovered, witness) = recover_at(&storage, marks);
        check_recovered(&recovered, &witness, &venue, marks);
        let from = recovered.from_snapshot.unwrap_or_default();
        let behind: Vec<&Skip> = venue.skips.iter().filter(|skip| skip.sequence > from).collect();
        assert_eq!(recovered.skipped.iter().collect::<Vec<_>>(), behind);
    }
    assert_eq!(made.len(), 4, "{made:?}");
}

#[test]
fn without_the_file_the_log_contradicts_the_replay() {
    let mut rng = StdRng::seed_from_u64(seed(92));
    let venue = venue(&mut rng, 1_000);
    let storage = data_directory(&venue, &mut rng);
    attempt(&storage, venue.sequence()).expect("it is followed");
    storage.remove(journaler::SKIPS_FILE).expect("removed");
    let error = attempt(&storage, venue.sequence()).expect_err("another history");
    assert!(matches!(error, SnapshotError::Diverged { .. }), "{error}");
}

#[test]
fn a_skip_of_another_frame_is_refused() {
    let mut rng = StdRng::seed_from_u64(seed(93));
    let venue = venue(&mut rng, 500);
    let storage = data_directory(&venue, &mut rng);
    let taken = venue.skips[0].sequence;
    let free = (1..).map(Sequence).find(|sequence| venue.skips.iter().all(|skip| skip.sequence != *sequence));
    let wrong = Skip { sequence: free.expect("one"), ..venue.skips[0].clone() };
    SkipFile::open(storage.clone(), CLUSTER_ID).expect("open").record(wrong.clone()).expect("recorded");
    let error = attempt(&storage, venue.sequence()).expect_err("not that frame");
    let SnapshotError::Journal(JournalError::SkipOfAnotherFrame { sequence, .. }) = error else {
        panic!("{error}")
    };
    assert_eq!(sequence, wrong.sequence);
    assert!(wrong.sequence < taken, "it is refused before anything else");
}

#[test]
fn a_backup_has_the_skips_and_so_has_its_restoration() {
    let mut rng = StdRng::seed_from_u64(seed(94));
    let venue = venue(&mut rng, 1_000);
    let data = data_directory(&venue, &mut rng);
    let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
    let [copy, restored] = folders
        .each_ref()
        .map(|folder| -> SharedStorage { Arc::new(RealStorage::create(folder.path()).expect("create")) });
    back_up(&SnapshotStore::new(data, CLUSTER_ID), &copy, None).expect("back up");
    back_up(&SnapshotStore::new(copy, CLUSTER_ID), &restored, None).expect("restore");
    let checked = check(&restored, CLUSTER_ID, &mut |_| {}).expect("the copy is good");
    assert_eq!(checked.recovered.exchange.state_hash(), venue.exchange.state_hash());
    assert_eq!(checked.recovered.skipped, venue.skips);
}

/// A breach after the state has changed ends the replay at that frame, each time; a skip of it lets the log go on.
#[cfg(debug_assertions)]
#[test]
fn a_poisonous_frame_ends_the_replay_until_it_is_skipped() {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    const POISON: u64 = 7_777;
    let mut rng = StdRng::seed_from_u64(seed(95));
    let mut venue = Venue::run(Shape::default(), rng.random(), 300);
    venue.skips_next = true;
    venue.order_of(1, POISON);
    let poison = venue.sequence();
    for _ in 0..300 {
        venue.step();
    }
    venue.tick();
    venue.tick();
    let storage = FakeStorage::new().shared();
    journal_of(&storage, &venue.frames, SEGMENT_BYTES, rng.random());
    protocol::planted::plant_poison(POISON);
    for _ in 0..2 {
        let ended = catch_unwind(AssertUnwindSafe(|| attempt(&storage, venue.sequence())));
        assert!(ended.is_err(), "it ends at the poison");
        let in_work = protocol::in_work::current().expect("it is known which frame");
        assert_eq!(in_work.sequence, poison);
        assert!(in_work.instrument.is_some());
    }
    venue.record_skips(&storage);
    let marks = Marks { journaled: venue.sequence(), reported: Sequence(0) };
    let (recovered, witness) = recover_at(&storage, marks);
    check_recovered(&recovered, &witness, &venue, marks);
    let made = try_make(&storage, 2, venue.sequence().0).expect("the second engine passes over it too");
    assert!(made > poison);
}

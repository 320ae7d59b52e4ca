//! Damage: every single bit, bad segments, the operator's cut, failing disks.

use journaler::storage::fake::{Call, FakeStorage, Fault};
use journaler::{
    Evidence, Journal, JournalError, JournalOptions, JournalReader, SpaceState, backup, cut, dump, plan_cut,
    verify,
};
use protocol::Sequence;

use crate::support::{CLUSTER, append, check_frames, fake, options};

const SEGMENT: u64 = 4 * 4096;

/// Two segments, the first closed, the second stopped in good order; one prepared.
fn small() -> FakeStorage {
    let (fake, storage) = fake();
    let (mut journal, _) = Journal::open(storage.clone(), options(SEGMENT)).unwrap();
    for count in [6, 4, 5] {
        append(&mut journal, count).unwrap();
    }
    journal.close().unwrap();
    assert_eq!(storage.list("journal").unwrap().len(), 3);
    fake
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Detected,
    Harmless,
}

/// Opens and reads a journal of 15 frames with damage in `path`.
fn open_damaged(damaged: &FakeStorage, path: &str, offset: u64) -> Result<Outcome, String> {
    let storage = damaged.shared();
    let opened = Journal::open(storage.clone(), options(SEGMENT));
    let outcome = opened.and_then(|(_, recovery)| {
        assert_eq!(recovery.last_sequence, Sequence(15), "frames are missing without an error");
        check_frames(storage, 1, 15)
    });
    match outcome {
        Ok(15) => Ok(Outcome::Harmless),
        Err(JournalError::Corrupt(found)) if found.file == path && found.offset <= offset => {
            Ok(Outcome::Detected)
        }
        other => Err(format!("{other:?}")),
    }
}

#[test]
fn every_single_bit_of_a_closed_journal_is_detected_or_harmless() {
    let original = small();
    let (mut detected, mut harmless) = (0_u64, 0_u64);
    for path in ["journal/segment-0000000001", "journal/segment-0000000002", "journal/segment-0000000003"] {
        // The prepared segment is all zeros: one bit in each sector's every 16th byte is as good as any.
        let step = if path.ends_with('3') { 16 } else { 1 };
        for offset in (0..SEGMENT).step_by(step) {
            for bit in 0..8 {
                let damaged = original.copy();
                damaged.flip_bit(path, offset, bit);
                match open_damaged(&damaged, path, offset) {
                    Ok(Outcome::Detected) => detected += 1,
                    Ok(Outcome::Harmless) => harmless += 1,
                    Err(what) => panic!("bit {bit} of byte {offset} of {path}: {what}"),
                }
            }
        }
    }
    println!("single bits: {detected} detected, {harmless} harmless, 0 silent");
    assert!(detected > 8 * 4096 && harmless > 0);
}

#[test]
fn cutting_at_any_bad_checksum_is_noticed() {
    // What a recovery would do that takes every bad batch for a torn tail: the same check must see the loss.
    let damaged = small().copy();
    damaged.flip_bit("journal/segment-0000000002", 4096 + 200, 3);
    let storage = damaged.shared();
    let Err(JournalError::Corrupt(found)) = Journal::open(storage.clone(), options(SEGMENT)) else {
        panic!()
    };
    assert_eq!(
        (found.file.as_str(), found.offset, found.sequence),
        ("journal/segment-0000000002", 4096, Sequence(11))
    );
    assert!(matches!(found.evidence, Evidence::Durable { sequence: Sequence(15), .. }));
    let plan = plan_cut(&storage, Some(CLUSTER)).unwrap().unwrap();
    cut(&storage, Some(CLUSTER), &plan).unwrap();
    let lost = std::panic::catch_unwind(|| open_damaged(&damaged, "journal/segment-0000000002", 4096));
    assert!(lost.is_err(), "the check did not miss the frames that were cut");
}

#[test]
fn a_cut_loses_what_its_plan_says_and_no_more() {
    let damaged = small();
    damaged.flip_bit("journal/segment-0000000001", 2 * 4096 + 300, 0);
    let storage = damaged.shared();
    // The tail is whole, so the journal opens; the reader and verify meet the damage.
    let Err(JournalError::Corrupt(found)) = verify(&storage, Some(CLUSTER), &mut |_| {}) else { panic!() };
    assert_eq!((found.offset, found.sequence), (2 * 4096, Sequence(7)));
    assert!(matches!(check_frames(storage.clone(), 1, 15), Err(JournalError::Corrupt(_))));
    let plan = plan_cut(&storage, Some(CLUSTER)).unwrap().unwrap();
    assert_eq!((plan.first_lost, plan.last_lost), (Some(Sequence(7)), Some(Sequence(15))));
    assert_eq!((plan.batches_lost, plan.segments_removed.len()), (1, 2));
    {
        let (_journal, _) = Journal::open(storage.clone(), options(SEGMENT)).unwrap();
        assert!(matches!(cut(&storage, Some(CLUSTER), &plan), Err(JournalError::Locked { .. })));
    }
    // Opening prepared nothing new, so the plan still holds.
    cut(&storage, Some(CLUSTER), &plan_cut(&storage, Some(CLUSTER)).unwrap().unwrap()).unwrap();
    assert_eq!(plan_cut(&storage, Some(CLUSTER)).unwrap(), None);
    let (mut journal, recovery) = Journal::open(storage.clone(), options(SEGMENT)).unwrap();
    assert_eq!(recovery.last_sequence, Sequence(6));
    append(&mut journal, 9).unwrap();
    check_frames(storage, 1, 15).unwrap();
}

#[test]
fn a_damaged_first_header_is_no_empty_journal_to_any_tool() {
    let (fake, storage) = fake();
    let (mut journal, _) = Journal::open(storage.clone(), options(1 << 16)).unwrap();
    for count in [6, 4, 5] {
        append(&mut journal, count).unwrap();
    }
    journal.close().unwrap();
    fake.flip_bit("journal/segment-0000000001", 10, 0);
    let id = Some(CLUSTER);
    assert!(matches!(Journal::open(storage.clone(), options(1 << 16)), Err(JournalError::Corrupt(_))));
    assert!(matches!(verify(&storage, id, &mut |_| {}), Err(JournalError::Corrupt(_))));
    assert!(matches!(verify(&storage, None, &mut |_| {}), Err(JournalError::UnknownCluster { .. })));
    let shown = dump(&storage, id, Sequence(1), Sequence(15), &mut |_| panic!("nothing can be shown"));
    assert!(matches!(shown, Err(JournalError::Corrupt(_))));
    let (_, target) = self::fake();
    assert!(matches!(backup(&storage, &target, id, None), Err(JournalError::Corrupt(_))));
    let plan = plan_cut(&storage, id).unwrap().unwrap();
    assert_eq!((plan.offset, plan.first_lost, plan.last_lost), (0, Some(Sequence(1)), Some(Sequence(15))));
    assert_eq!(plan.batches_lost, 3);
    cut(&storage, id, &plan).unwrap();
    assert_eq!(plan_cut(&storage, id).unwrap(), None);
    assert_eq!(Journal::open(storage, options(1 << 16)).unwrap().1.last_sequence, Sequence(0));
}

#[test]
fn verify_and_dump_tell_what_is_there() {
    let storage = small().shared();
    let mut progress = Vec::new();
    let stat = verify(&storage, Some(CLUSTER), &mut |step| progress.push(step)).unwrap();
    assert_eq!(stat.cluster_id, Some(CLUSTER));
    assert_eq!((stat.first_sequence, stat.last_sequence, stat.index), (Sequence(1), Sequence(15), 3));
    assert!(stat.clean_stop && stat.torn.is_empty());
    assert_eq!((stat.segments.len(), stat.prepared), (2, 1));
    assert_eq!(progress.last().map(|last| last.bytes_done), Some(3 * SEGMENT));
    let mut shown = Vec::new();
    dump(&storage, Some(CLUSTER), Sequence(8), Sequence(11), &mut |batch| {
        shown.extend(batch.frames.map(|(sequence, _)| sequence.0));
    })
    .unwrap();
    assert_eq!(shown, (7..=15).collect::<Vec<_>>());
}

#[test]
fn what_no_torn_tail_can_explain_is_refused_by_name() {
    let remove = |number: u32| {
        let fake = small();
        fake.shared().remove(&format!("journal/segment-000000000{number}")).unwrap();
        Journal::open(fake.shared(), options(SEGMENT)).map(|(_, recovery)| recovery.last_sequence)
    };
    assert!(matches!(remove(2), Err(JournalError::MissingSegment { file, .. }) if file.ends_with("2")));
    // The prepared one may go: nothing was in it.
    assert_eq!(remove(3).unwrap(), Sequence(15));

    let fake = small();
    let foreign = JournalOptions { cluster_id: 7, ..options(SEGMENT) };
    let refused = Journal::open(fake.shared(), foreign);
    assert!(matches!(refused, Err(JournalError::ForeignCluster { expected: 7, found: CLUSTER, .. })));

    let storage = fake.shared();
    storage.remove("journal/segment-0000000003").unwrap();
    storage.create("journal/segment-0000000003").unwrap();
    let refused = Journal::open(storage.clone(), options(SEGMENT));
    assert!(matches!(refused, Err(JournalError::SegmentLength { length: 0, .. })));
    // The operator's cut takes it away and loses nothing.
    let plan = plan_cut(&storage, Some(CLUSTER)).unwrap().unwrap();
    assert_eq!((plan.batches_lost, plan.last_lost), (0, None));
    cut(&storage, Some(CLUSTER), &plan).unwrap();
    assert_eq!(Journal::open(storage, options(SEGMENT)).unwrap().1.last_sequence, Sequence(15));
}

#[test]
fn leftovers_of_a_preparation_are_removed() {
    let storage = small().shared();
    storage.create("journal/segment-0000000004.tmp").unwrap();
    let (_, recovery) = Journal::open(storage.clone(), options(SEGMENT)).unwrap();
    assert_eq!(recovery.removed, ["journal/segment-0000000004.tmp"]);
    assert!(!storage.list("journal").unwrap().contains(&"segment-0000000004.tmp".to_owned()));
    // Prepared for another length: made anew, and nothing of the log is touched.
    let (mut journal, recovery) =
        Journal::open(storage.clone(), options(2 * SEGMENT)).unwrap_or_else(|_| panic!());
    assert_eq!(recovery.last_sequence, Sequence(15));
    append(&mut journal, 100).unwrap();
    check_frames(storage, 1, 115).unwrap();
}

#[test]
fn a_failed_write_or_sync_ends_the_journal() {
    for (call, errno) in [(Call::Write, 5), (Call::SyncData, 5), (Call::Write, 28)] {
        let (fake, storage) = fake();
        let (mut journal, _) = Journal::open(storage.clone(), options(1 << 16)).unwrap();
        append(&mut journal, 5).unwrap();
        fake.inject(Fault { call, path: "segment".to_owned(), after: 0, errno });
        let error = append(&mut journal, 5).unwrap_err();
        assert!(
            matches!(&error, JournalError::Io { file, .. } if file.ends_with("segment-0000000001")),
            "{error}"
        );
        // The disk works again, but what the failed sync lost can't be known.
        assert!(matches!(append(&mut journal, 5), Err(JournalError::Failed)));
        assert!(matches!(journal.close(), Err(JournalError::Failed)));
        let (_, recovery) = Journal::open(storage, options(1 << 16)).unwrap();
        assert!(recovery.last_sequence >= Sequence(5));
    }
}

#[test]
fn a_full_disk_is_foreseen_and_loses_nothing() {
    let (fake, storage) = fake();
    fake.set_capacity(5 * SEGMENT);
    let low = JournalOptions { reserve_bytes: SEGMENT, ..options(SEGMENT) };
    let (mut journal, _) = Journal::open(storage.clone(), low.clone()).unwrap();
    let (mut told, mut after_told) = (false, 0);
    let error = loop {
        let state = match journal.space() {
            Ok(state) => state,
            Err(error) => break error,
        };
        assert!(!told || state == SpaceState::Low, "the space doesn't come back by itself");
        told = state == SpaceState::Low;
        match append(&mut journal, 3) {
            Ok(_) => after_told += u64::from(told),
            Err(error) => break error,
        }
    };
    assert!(matches!(error, JournalError::NoSpace { .. }), "{error}");
    // The rest of the current segment and a whole prepared one.
    assert!(after_told >= 3, "only {after_told} batches were possible after the warning");
    let last = journal.journaled_sequence();
    drop(journal);
    check_frames(storage.clone(), 1, last.0).unwrap();
    fake.set_capacity(100 * SEGMENT);
    let (mut journal, recovery) = Journal::open(storage, low).unwrap();
    assert_eq!(recovery.last_sequence, last);
    assert_eq!(journal.space().unwrap(), SpaceState::Ok);
    append(&mut journal, 3).unwrap();
}

#[test]
fn a_read_error_is_an_error_and_not_an_end() {
    let fake = small();
    fake.inject(Fault { call: Call::Read, path: "segment-0000000002".to_owned(), after: 1, errno: 5 });
    let refused = Journal::open(fake.shared(), options(SEGMENT));
    assert!(matches!(refused, Err(JournalError::Io { operation: "read", .. })));
    assert!(JournalReader::open(fake.shared()).is_ok());
}

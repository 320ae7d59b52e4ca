//! Appending, closing, opening again and reading.

use std::time::Duration;

use journaler::{Durability, Journal, JournalError, JournalOptions, JournalReader};
use protocol::{Sequence, Term};
use rand::RngExt;

use crate::support::{TERM, append, check_frames, fake, frames, options, seeded};

#[test]
fn what_is_appended_is_read_back_over_segments_and_restarts() {
    let (_, mut random) = seeded(1);
    let (_, storage) = fake();
    let mut last = 0;
    for round in 0..20 {
        let (mut journal, recovery) = Journal::open(storage.clone(), options(64 << 10)).unwrap();
        assert_eq!(recovery.last_sequence, Sequence(last));
        assert!(recovery.cut.is_empty());
        for _ in 0..20 {
            let count = random.random_range(1..60);
            let journaled = append(&mut journal, count).unwrap();
            last += count;
            assert_eq!(journaled, Sequence(last));
            assert_eq!(journal.durable_sequence(), journaled);
        }
        if round % 2 == 0 {
            journal.close().unwrap();
        }
    }
    assert_eq!(check_frames(storage.clone(), 1, last).unwrap(), last);
    assert!(storage.list("journal").unwrap().len() > 10);
    let from = random.random_range(1..last);
    check_frames(storage, from, last).unwrap();
}

#[test]
fn a_reader_follows_the_writer_frame_by_frame() {
    let (_, storage) = fake();
    let (mut journal, _) = Journal::open(storage.clone(), options(32 << 10)).unwrap();
    let mut cursor = None;
    let mut read = 0;
    for count in (1..40).cycle().take(200) {
        let journaled = append(&mut journal, count).unwrap();
        let cursor = cursor.get_or_insert_with(|| {
            JournalReader::open(storage.clone()).unwrap().frames_from(Sequence(0)).unwrap()
        });
        // Half of them now, so that batches are left in the middle.
        let up_to = Sequence(read + (journaled.0 - read) / 2);
        while let Some((sequence, _)) = cursor.next_frame(up_to).unwrap() {
            read += 1;
            assert_eq!(sequence, Sequence(read));
        }
        assert_eq!(read, up_to.0);
        assert_eq!(cursor.next_sequence(), Sequence(read + 1));
    }
}

#[test]
fn a_gather_larger_than_a_batch_is_cut_on_frame_borders() {
    let (_, storage) = fake();
    let (mut journal, _) = Journal::open(storage.clone(), options(3 * 4096)).unwrap();
    let slots = frames(1, 500);
    assert!(slots.len() > 5 * journal.batch_bytes_max());
    assert_eq!(journal.append(&slots, 500, TERM).unwrap(), Sequence(500));
    assert!(journal.index() > 5);
    check_frames(storage, 1, 500).unwrap();
}

#[test]
fn slots_that_are_not_whole_frames_are_refused_and_nothing_is_written() {
    let (_, storage) = fake();
    let (mut journal, _) = Journal::open(storage, options(64 << 10)).unwrap();
    let whole = frames(1, 3);
    let mut lying = whole.clone();
    lying[..2].copy_from_slice(&2000_u16.to_le_bytes());
    for (slots, count) in
        [(&whole[..whole.len() - 64], 3), (&whole[..], 2), (&lying[..], 3), (&whole[32..], 3)]
    {
        assert!(matches!(journal.append(slots, count, TERM), Err(JournalError::InvalidFrames(_))));
    }
    assert_eq!(journal.append(&whole, 3, TERM).unwrap(), Sequence(3));
}

#[test]
fn terms_and_indexes_go_on_over_a_restart() {
    let (_, storage) = fake();
    let (mut journal, _) = Journal::open(storage.clone(), options(64 << 10)).unwrap();
    for term in [1, 1, 4] {
        let first = journal.journaled_sequence().0 + 1;
        journal.append(&frames(first, 2), 2, Term(term)).unwrap();
    }
    let chain = journal.chain();
    journal.close().unwrap();
    let (journal, recovery) = Journal::open(storage, options(64 << 10)).unwrap();
    assert!(recovery.clean_stop);
    assert_eq!((journal.term(), journal.index(), journal.chain()), (Term(4), 3, chain));
}

#[test]
fn an_idle_mark_comes_once_after_the_configured_time() {
    for durability in [Durability::Disk, Durability::Memory] {
        let (_, storage) = fake();
        let (mut journal, _) =
            Journal::open(storage, JournalOptions { durability, ..options(64 << 10) }).unwrap();
        assert!(!journal.idle(Duration::from_secs(9)).unwrap(), "nothing to mark");
        append(&mut journal, 3).unwrap();
        let durable_before = if durability == Durability::Disk { 3 } else { 0 };
        assert_eq!(journal.durable_sequence(), Sequence(durable_before));
        assert!(!journal.idle(Duration::from_millis(10_000)).unwrap());
        assert!(!journal.idle(Duration::from_millis(10_099)).unwrap());
        assert!(journal.idle(Duration::from_millis(10_100)).unwrap());
        assert_eq!(journal.durable_sequence(), Sequence(3));
        assert!(!journal.idle(Duration::from_millis(20_000)).unwrap());
    }
}

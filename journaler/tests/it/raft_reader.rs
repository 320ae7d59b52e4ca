//! A Raft log on real files: its reader in another thread, pruning, and what may be taken back.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use journaler::{
    EntryKind, EntryReader, Journal, JournalError, JournalOptions, JournalReader, LogEnd, NewEntry,
    Preparation, RealStorage, SharedStorage,
};
use protocol::{Sequence, Term};
use rand::RngExt;

use crate::raft_log::{Model, append, check_entries, raft_options};
use crate::support::{fake, frames, seeded};

const SEGMENT: u64 = 64 << 10;

#[test]
fn a_reader_in_another_thread_sees_what_is_committed_while_the_rest_is_taken_back() {
    let (_, mut random) = seeded(61);
    let folder = tempfile::tempdir().unwrap();
    let storage: SharedStorage = Arc::new(RealStorage::create(folder.path().join("data")).unwrap());
    let options = JournalOptions { preparation: Preparation::Thread, ..raft_options(SEGMENT) };
    let (mut journal, _) = Journal::open(storage.clone(), options.clone()).unwrap();
    let model = Mutex::new(Model::new());
    let (committed, done) = (AtomicU64::new(0), AtomicBool::new(false));
    let reader = journal.entry_reader();
    std::thread::scope(|scope| {
        let follower = scope.spawn(|| {
            let mut reader = reader.clone();
            let mut next = 1;
            while next <= committed.load(Ordering::Acquire) || !done.load(Ordering::Acquire) {
                let up_to = committed.load(Ordering::Acquire);
                for entry in reader.read(next, up_to + 1, 20_000).unwrap() {
                    let model = model.lock().unwrap();
                    let written = &model.entries[next as usize - 1];
                    assert_eq!((entry.index, entry.term, entry.kind), (next, written.term, written.kind));
                    assert!(entry.payload == written.payload, "entry {next}");
                    next += 1;
                }
            }
            next - 1
        });
        for _ in 0..400 {
            let entries = model.lock().unwrap().next(&mut random, 4);
            append(&mut journal, &entries).unwrap();
            let mut model = model.lock().unwrap();
            model.entries.extend(entries);
            let index = random.random_range(model.committed_index..=model.last_index());
            if random.random_range(0..3) == 0 {
                journal.truncate_after(index).unwrap();
                model.truncate_after(index);
            } else {
                model.committed_index = index;
                journal.set_committed(index);
                committed.store(index, Ordering::Release);
            }
        }
        done.store(true, Ordering::Release);
        assert_eq!(follower.join().unwrap(), committed.load(Ordering::Acquire));
    });
    drop(journal);
    let (journal, recovery) = Journal::open(storage.clone(), options).unwrap();
    let model = model.into_inner().unwrap();
    assert_eq!((journal.index(), recovery.cut.len()), (model.last_index(), 0));
    check_entries(&mut EntryReader::open(storage).unwrap(), &model, &mut random).unwrap();
}

/// A log of `entries` entries of five frames each.
fn filled(storage: &SharedStorage, entries: u64) -> Journal {
    let (mut journal, _) = Journal::open(storage.clone(), raft_options(SEGMENT)).unwrap();
    for number in 0..entries {
        let payload = frames(5 * number + 1, 5);
        let entry = NewEntry { term: Term(1 + number / 40), kind: EntryKind::Frames, payload: &payload };
        journal.append_entries(&[entry]).unwrap();
    }
    journal
}

#[test]
fn what_is_not_committed_is_neither_pruned_nor_settled_and_a_start_says_what_was_pruned() {
    let (_, storage) = fake();
    let mut journal = filled(&storage, 100);
    let segments = journal.segments();
    assert!(segments.closed().len() >= 6);
    assert!(segments.settled().is_empty() && segments.prune(Sequence(501)).unwrap().is_empty());
    let second = segments.closed()[1].clone();
    // One less than the second segment's last: only the first one is settled.
    journal.set_committed(second.last_index - 1);
    assert_eq!(segments.settled().len(), 1);
    let pruned = segments.prune(Sequence(501)).unwrap();
    assert_eq!(pruned.iter().map(|segment| segment.number).collect::<Vec<_>>(), [1]);
    journal.close().unwrap();
    let (journal, recovery) = Journal::open(storage.clone(), raft_options(SEGMENT)).unwrap();
    let log = recovery.log.unwrap();
    let before = LogEnd {
        index: second.first_index - 1,
        sequence: Sequence(second.first_sequence.0 - 1),
        term: Term(1 + (second.first_index - 2) / 40),
    };
    assert_eq!((log.before, log.first_index, log.last_index), (before, second.first_index, 100));
    assert_eq!(
        (log.committed_index, log.committed_sequence.0),
        (second.last_index - 1, 5 * (second.last_index - 1))
    );
    assert_eq!(journal.segments().settled().len(), 0, "what is settled is known after a start");
    let mut reader = EntryReader::open(storage).unwrap();
    assert_eq!(reader.summary_of(before.index).unwrap(), (before.term, before.sequence));
    assert_eq!(reader.entry_at(before.sequence).unwrap(), before);
    let pruned = reader.read(before.index, 101, 0);
    assert!(matches!(pruned, Err(JournalError::EntryPruned { first, .. }) if first == second.first_index));
    assert!(matches!(reader.summary_of(before.index - 1), Err(JournalError::EntryPruned { .. })));
    assert!(matches!(reader.entry_at(Sequence(before.sequence.0 - 1)), Err(JournalError::Pruned { .. })));
}

#[test]
fn a_reader_of_frames_finds_its_segment_after_a_truncation() {
    let (_, storage) = fake();
    let mut journal = filled(&storage, 60);
    let last = journal.segments().closed().last().unwrap().clone();
    let reader = JournalReader::open(storage.clone()).unwrap();
    // The last segment goes, and another one of its number begins later.
    journal.truncate_after(last.first_index - 5).unwrap();
    let from = 5 * (last.first_index - 5) + 1;
    while journal.segments().closed().last().is_none_or(|closed| closed.number < last.number) {
        let first = journal.journaled_sequence().0 + 1;
        let payload = frames(first, 20);
        let entry = NewEntry { term: Term(9), kind: EntryKind::Frames, payload: &payload };
        journal.append_entries(&[entry, NewEntry { kind: EntryKind::Blank, payload: &[], ..entry }]).unwrap();
    }
    let anew = journal.segments().closed().last().unwrap().clone();
    assert!(anew.number == last.number && anew.first_sequence > last.first_sequence);
    for sequence in [from, last.first_sequence.0, anew.first_sequence.0, anew.last_sequence.0] {
        let mut cursor = reader.frames_from(Sequence(sequence)).unwrap();
        let (found, _) = cursor.next_frame(Sequence(sequence)).unwrap().unwrap();
        assert_eq!(found, Sequence(sequence));
    }
}

#[test]
fn a_journal_behind_a_snapshot_needs_an_empty_folder_and_lasts() {
    let (_, storage) = fake();
    let behind = LogEnd { index: 9, sequence: Sequence(120), term: Term(4) };
    // An open journal that nothing was written to has prepared a segment.
    drop(Journal::open(storage.clone(), raft_options(SEGMENT)).unwrap());
    drop(Journal::create_behind(storage.clone(), raft_options(SEGMENT), behind).unwrap());
    let again = Journal::create_behind(storage.clone(), raft_options(SEGMENT), behind);
    assert!(matches!(again, Err(JournalError::NotEmpty { .. })));
    let (journal, recovery) = Journal::open(storage.clone(), raft_options(SEGMENT)).unwrap();
    let log = recovery.log.unwrap();
    assert_eq!((log.before, log.first_index, log.last_index), (behind, 10, 9));
    assert_eq!((log.committed_index, log.committed_sequence), (9, Sequence(120)));
    assert_eq!((journal.committed_index(), journal.term(), journal.index()), (9, Term(4), 9));
    assert_eq!((recovery.first_sequence, recovery.last_sequence), (Sequence(121), Sequence(120)));
    let reader = JournalReader::open(storage).unwrap();
    assert!(matches!(reader.frames_from(Sequence(120)), Err(JournalError::Pruned { .. })));
}

#[test]
fn an_entry_that_is_none_is_refused_and_nothing_is_written() {
    let (_, storage) = fake();
    let (mut journal, _) = Journal::open(storage, raft_options(SEGMENT)).unwrap();
    let whole = frames(1, 2);
    let long = vec![0; journal.batch_bytes_max() + 1];
    for (kind, payload) in [
        (EntryKind::Frames, &[][..]),
        (EntryKind::Frames, &whole[..whole.len() - 32]),
        (EntryKind::Blank, &whole[..]),
        (EntryKind::Membership, &long[..]),
    ] {
        let good = NewEntry { term: Term(1), kind: EntryKind::Frames, payload: &whole };
        let error = journal.append_entries(&[good, NewEntry { kind, payload, ..good }]).unwrap_err();
        assert!(
            matches!(error, JournalError::InvalidFrames(_) | JournalError::EntryLength { .. }),
            "{error}"
        );
    }
    assert_eq!(journal.index(), 0);
    let longest = NewEntry { term: Term(0), kind: EntryKind::Membership, payload: &long[1..] };
    journal.append_entries(&[longest, longest]).unwrap();
    assert_eq!((journal.index(), journal.term()), (2, Term(0)));
}

#[test]
#[should_panic(expected = "entries up to 7 are committed")]
fn a_committed_entry_is_never_taken_back() {
    let (_, storage) = fake();
    let mut journal = filled(&storage, 10);
    journal.set_committed(7);
    drop(journal.truncate_after(6));
}

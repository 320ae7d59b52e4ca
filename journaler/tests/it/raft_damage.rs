//! Damage in a Raft log: every bit of the new kinds, and what tells a torn write of several entries from damage.

use journaler::storage::fake::FakeStorage;
use journaler::{EntryKind, EntryReader, Journal, JournalError};
use protocol::Term;
use rand::SeedableRng;
use rand::rngs::StdRng;

use crate::raft_log::{Model, Written, append, check_entries, raft_options};
use crate::support::{fake, frames};

const BLOCK: u64 = 4096;
const SEGMENT: u64 = 8 * BLOCK;
const FIRST: &str = "journal/segment-0000000001";

fn entry(kind: EntryKind, term: u64, first: u64, count: u64) -> Written {
    let payload = match kind {
        EntryKind::Frames => frames(first, count),
        EntryKind::Blank => Vec::new(),
        EntryKind::Membership => b"three members".repeat(5),
    };
    Written { term: Term(term), kind, count, payload }
}

/// A membership, a blank and frames in the segment's first write, one block each.
fn first_write() -> Vec<Written> {
    vec![
        entry(EntryKind::Membership, 0, 1, 0),
        entry(EntryKind::Blank, 1, 1, 0),
        entry(EntryKind::Frames, 1, 1, 9),
    ]
}

/// A second write: frames and a blank.
fn second_write() -> Vec<Written> {
    vec![entry(EntryKind::Frames, 1, 10, 4), entry(EntryKind::Blank, 2, 14, 0)]
}

fn log(writes: &[Vec<Written>], close: bool) -> (FakeStorage, Model) {
    let (fake, storage) = fake();
    let (mut journal, _) = Journal::open(storage, raft_options(SEGMENT)).unwrap();
    let mut model = Model::new();
    for write in writes {
        append(&mut journal, write).unwrap();
        model.entries.extend(write.iter().cloned());
    }
    if close {
        journal.close().unwrap();
    }
    (fake, model)
}

/// The index that the log ends at, if it opens, and that it says what it cut; every entry is read.
fn opened(damaged: &FakeStorage, model: &Model) -> Result<u64, Box<journaler::Corruption>> {
    match Journal::open(damaged.shared(), raft_options(SEGMENT)) {
        Err(JournalError::Corrupt(corruption)) => Err(corruption),
        Err(error) => panic!("{error}"),
        Ok((journal, recovery)) => {
            let mut kept = model.clone();
            kept.truncate_after(journal.index());
            assert!(!recovery.cut.is_empty() || journal.index() == model.last_index(), "a cut is told");
            let mut reader = EntryReader::open(damaged.shared()).unwrap();
            check_entries(&mut reader, &kept, &mut StdRng::seed_from_u64(1)).unwrap();
            Ok(journal.index())
        }
    }
}

#[test]
fn what_was_written_together_is_torn_together_and_what_was_not_is_evidence() {
    // Which block is damaged, 0 being the segment's header, and where the log ends then.
    let check = |writes: &[Vec<Written>], close: bool, block: u64, ends_at: Option<u64>| {
        let (fake, model) = log(writes, close);
        fake.flip_bit(FIRST, block * BLOCK + 70, 2);
        match (opened(&fake, &model), ends_at) {
            (Ok(index), Some(ends_at)) => assert_eq!(index, ends_at, "block {block}"),
            (Err(corruption), None) => assert_eq!(corruption.offset, block * BLOCK),
            (found, expected) => panic!("block {block}: {found:?} instead of {expected:?}"),
        }
    };
    let one = [first_write()];
    for (block, ends_at) in [(0, 0), (1, 0), (2, 1), (3, 2)] {
        check(&one, false, block, Some(ends_at));
        check(&one, true, block, None);
    }
    let two = [first_write(), second_write()];
    for block in 0..4 {
        check(&two, false, block, None);
    }
    for (block, ends_at) in [(4, 3), (5, 4)] {
        check(&two, false, block, Some(ends_at));
    }
    let three = [first_write(), second_write(), vec![entry(EntryKind::Blank, 3, 14, 0)]];
    check(&three, false, 4, None);
    check(&three, false, 5, None);
    check(&three, false, 6, Some(5));
}

#[test]
fn every_bit_of_a_log_is_detected_or_harmless() {
    let (original, model) = log(&[first_write(), second_write()], true);
    let (mut detected, mut harmless) = (0_u64, 0_u64);
    for offset in (0..SEGMENT).filter(|offset| offset % BLOCK < 256 || offset % 61 == 0) {
        for bit in 0..8 {
            let damaged = original.copy();
            damaged.flip_bit(FIRST, offset, bit);
            match opened(&damaged, &model) {
                Err(corruption) => {
                    assert!(corruption.file == FIRST && corruption.offset <= offset, "{corruption}");
                    detected += 1;
                }
                Ok(index) => {
                    assert_eq!(index, model.last_index(), "bit {bit} of byte {offset}: entries are missing");
                    harmless += 1;
                }
            }
        }
    }
    println!("single bits of a log: {detected} detected, {harmless} harmless, 0 silent");
    assert!(detected > 5 * 128 * 8 && harmless > 0);
}

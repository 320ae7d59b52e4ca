//! What the tests share: frames that say which sequence they have, options for tiny segments, reading all back.

use std::sync::Arc;

use journaler::storage::fake::FakeStorage;
use journaler::{Journal, JournalError, JournalOptions, JournalReader, Preparation, SharedStorage};
use protocol::{HEADER_LENGTH, SLOT_LENGTH, Sequence, Term};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

pub(crate) const CLUSTER: u128 = 0x1234_5678_9abc_def0_0fed_cba9_8765_4321;
pub(crate) const TERM: Term = Term(1);

pub(crate) fn options(segment_bytes: u64) -> JournalOptions {
    JournalOptions {
        segment_bytes,
        reserve_bytes: 0,
        preparation: Preparation::Inline,
        ..JournalOptions::new(CLUSTER)
    }
}

/// A seed from `RINGPIT_SEED` or `default`, printed.
pub(crate) fn seeded(default: u64) -> (u64, StdRng) {
    let seed = std::env::var("RINGPIT_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(default);
    println!("RINGPIT_SEED={seed}");
    (seed, StdRng::seed_from_u64(seed))
}

/// The slots of a frame of `length` bytes whose content follows from its sequence.
pub(crate) fn frame(sequence: u64, length: usize) -> Vec<u8> {
    assert!((HEADER_LENGTH..=1024).contains(&length));
    let mut random = StdRng::seed_from_u64(sequence);
    let mut bytes = vec![0; length.next_multiple_of(SLOT_LENGTH)];
    random.fill(&mut bytes[..length]);
    bytes[..2].copy_from_slice(&(length as u16).to_le_bytes());
    bytes[8..16].copy_from_slice(&sequence.to_le_bytes());
    bytes
}

/// A frame's length as a function of its sequence, of all sizes.
pub(crate) fn length_of(sequence: u64) -> usize {
    match sequence % 7 {
        0 => HEADER_LENGTH + (sequence * 37 % 900) as usize,
        1 => 64,
        _ => 56,
    }
}

/// The slots of frames `first..first + count`.
pub(crate) fn frames(first: u64, count: u64) -> Vec<u8> {
    (first..first + count).flat_map(|sequence| frame(sequence, length_of(sequence))).collect()
}

pub(crate) fn append(journal: &mut Journal, count: u64) -> Result<Sequence, JournalError> {
    let first = journal.journaled_sequence().0 + 1;
    journal.append(&frames(first, count), count, TERM)
}

/// Reads frames `from..=to`, checking each against what was written, and gives how many there were.
pub(crate) fn check_frames(storage: SharedStorage, from: u64, to: u64) -> Result<u64, JournalError> {
    let reader = JournalReader::open(storage)?;
    let mut cursor = reader.frames_from(Sequence(from))?;
    let mut expected = from;
    while let Some((sequence, bytes)) = cursor.next_frame(Sequence(to))? {
        assert_eq!(sequence, Sequence(expected));
        let length = length_of(expected);
        assert_eq!(bytes, &frame(expected, length)[..length], "frame {expected}");
        expected += 1;
    }
    assert_eq!(expected, to.max(from - 1) + 1);
    Ok(expected - from)
}

pub(crate) fn fake() -> (FakeStorage, SharedStorage) {
    let fake = FakeStorage::new();
    let shared: SharedStorage = Arc::new(fake.clone());
    (fake, shared)
}

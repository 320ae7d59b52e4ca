//! The file of two slots: what was written last is found, whatever a power cut tears.

use journaler::storage::Access;
use journaler::storage::fake::{CrashStates, FakeStorage, Lie};
use journaler::{JournalError, SharedStorage, TWO_SLOT_BYTES_MAX, TwoSlotFile};
use rand::RngExt;

use crate::support::{fake, seeded};

const PATH: &str = "member";

fn open(storage: &SharedStorage) -> Result<(TwoSlotFile, Option<Vec<u8>>), JournalError> {
    TwoSlotFile::open(storage, "", PATH)
}

/// What is written by the `number`-th write, longer and shorter ones in turn.
fn content(number: u64) -> Vec<u8> {
    let length = [3, 700, 0, TWO_SLOT_BYTES_MAX][number as usize % 4];
    (0..length as u64).map(|place| (number * 31 + place) as u8).collect()
}

#[test]
fn what_was_written_last_is_found() {
    let (_, storage) = fake();
    assert_eq!(open(&storage).unwrap().1, None);
    for number in 0..12 {
        let (mut file, before) = open(&storage).unwrap();
        assert_eq!(before, (number > 0).then(|| content(10 * number)));
        for write in 1..=10 {
            file.write(&content(10 * number + write)).unwrap();
        }
        assert!(matches!(file.write(&[1; TWO_SLOT_BYTES_MAX + 1]), Err(JournalError::Option(_))));
    }
}

/// Writes from two processes one after the other; gives the power cuts after which an acknowledged write is not found.
fn lost(seed: u64, lie: Option<Lie>) -> (u64, Vec<String>) {
    let storage = FakeStorage::new();
    storage.record();
    if let Some(lie) = lie {
        storage.lie(lie);
    }
    for number in 1..10 {
        let (mut file, _) = open(&storage.shared()).unwrap();
        file.write(&content(number)).unwrap();
        storage.note(number);
    }
    let (mut states, mut wrong) = (0, Vec::new());
    for state in CrashStates::new(&storage, 512, seed) {
        states += 1;
        let acknowledged = state.noted.unwrap_or(0);
        let found = open(&state.storage.shared()).map(|(_, found)| found);
        let as_of = |number: u64| (number > 0).then(|| content(number));
        match found {
            Ok(found) if found == as_of(acknowledged) || found == as_of(acknowledged + 1) => {}
            other => wrong.push(format!("{acknowledged} was acknowledged, {other:?} is found")),
        }
    }
    (states, wrong)
}

#[test]
fn no_power_cut_loses_or_mixes_what_was_written() {
    let (seed, _) = seeded(41);
    let (states, wrong) = lost(seed, None);
    assert!(wrong.is_empty(), "{} wrong states, first: {}", wrong.len(), wrong[0]);
    println!("two slots: {states} crash states, 0 wrong");
    for lie in [Lie::SyncData, Lie::SyncDir] {
        let (states, wrong) = lost(seed, Some(lie));
        println!("two slots, {lie:?} lies: {} of {states} states are noticed", wrong.len());
        assert!(!wrong.is_empty());
    }
}

#[test]
fn a_name_that_a_killed_process_left_is_made_durable() {
    let storage = FakeStorage::new();
    // It was killed between making the file and syncing the folder.
    storage.shared().create(PATH).unwrap();
    let (mut file, _) = open(&storage.shared()).unwrap();
    file.write(b"vote").unwrap();
    let (_, found) = open(&storage.power_cut(|_| false).shared()).unwrap();
    assert_eq!(found.as_deref(), Some(&b"vote"[..]));
}

#[test]
fn damage_leaves_the_older_slot_or_is_told() {
    let (_, mut random) = seeded(42);
    let (storage, shared) = fake();
    let (mut file, _) = open(&shared).unwrap();
    // The first one goes to both slots.
    for number in 1..4 {
        file.write(&content(number)).unwrap();
    }
    for _ in 0..500 {
        let damaged = storage.copy();
        damaged.flip_bit(PATH, random.random_range(0..8192), random.random_range(0..8));
        assert_eq!(open(&damaged.shared()).unwrap().1, Some(content(2)), "the newer slot is damaged");
        damaged.flip_bit(PATH, random.random_range(8192..16384), random.random_range(0..8));
        let error = open(&damaged.shared()).unwrap_err();
        assert!(matches!(&error, JournalError::DamagedMark { file } if file == PATH), "{error}");
    }
}

#[test]
fn another_version_is_refused_by_name() {
    let (_, storage) = fake();
    let (mut file, _) = open(&storage).unwrap();
    file.write(b"anything").unwrap();
    let raw = storage.open(PATH, Access::ReadWrite).unwrap();
    for offset in [0, 8192] {
        let mut slot = vec![0; 8192];
        raw.read_at(&mut slot, offset).unwrap();
        slot[12] = 2;
        let crc = crc32c::crc32c(&slot[12..]);
        slot[8..12].copy_from_slice(&crc.to_le_bytes());
        raw.write_all_at(&slot, offset).unwrap();
    }
    let error = open(&storage).unwrap_err();
    assert!(matches!(error, JournalError::WrongVersion { found: 2, supported: 1, .. }), "{error}");
}

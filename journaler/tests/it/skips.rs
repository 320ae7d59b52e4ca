//! The file of skips: what was recorded is found whatever a power cut tears, damage is told, and a skip is for one frame of
//! one log.

use journaler::storage::Access;
use journaler::storage::fake::{CrashStates, FakeStorage, Lie};
use journaler::{
    FrameHash, Journal, JournalError, SKIP_WHO_BYTES_MAX, SKIP_WHY_BYTES_MAX, SKIPS_FILE, SharedStorage,
    Skip, SkipFile, Skips,
};
use protocol::{Sequence, Timestamp};
use rand::RngExt;

use crate::support::{CLUSTER, fake, frame, options, seeded};

const BLOCK: u64 = 512;

fn skip(sequence: u64) -> Skip {
    Skip {
        sequence: Sequence(sequence),
        frame_hash: FrameHash::of(&frame(sequence, 56)).expect("a frame"),
        who: format!("operator {sequence}"),
        why: "it stops the engine".repeat(1 + sequence as usize % 18),
        at: Timestamp(1_700_000_000_000_000_000 + sequence),
    }
}

fn recorded(storage: &SharedStorage, sequences: &[u64]) {
    for sequence in sequences {
        // Each from a process of its own.
        let mut file = SkipFile::open(storage.clone(), CLUSTER).expect("nobody has the directory");
        file.record(skip(*sequence)).expect("recorded");
    }
}

fn found(storage: &SharedStorage) -> Result<Vec<u64>, JournalError> {
    let skips = Skips::load(storage, CLUSTER)?;
    for found in skips.iter() {
        assert_eq!(*found, skip(found.sequence.0));
    }
    Ok(skips.iter().map(|skip| skip.sequence.0).collect())
}

#[test]
fn what_was_recorded_is_found_in_the_order_of_the_log() {
    let (_, storage) = fake();
    assert!(Skips::load(&storage, CLUSTER).expect("no file is no error").is_empty());
    recorded(&storage, &[9, 4, 30, 5]);
    assert_eq!(found(&storage).expect("read"), [4, 5, 9, 30]);
    let mut file = SkipFile::open(storage.clone(), CLUSTER).expect("open");
    file.withdraw(Skip { who: "another".to_owned(), ..skip(9) }).expect("withdrawn");
    assert_eq!(file.skips().iter().map(|skip| skip.sequence.0).collect::<Vec<_>>(), [4, 5, 30]);
    drop(file);
    assert_eq!(found(&storage).expect("read"), [4, 5, 30]);
    recorded(&storage, &[9]);
    assert_eq!(found(&storage).expect("read"), [4, 5, 9, 30]);
}

#[test]
fn what_makes_no_sense_is_not_recorded() {
    let (_, storage) = fake();
    recorded(&storage, &[4]);
    let mut file = SkipFile::open(storage.clone(), CLUSTER).expect("open");
    let with = |who: &str, why: &str| Skip { who: who.to_owned(), why: why.to_owned(), ..skip(5) };
    for wrong in [
        skip(4),
        with("", "why"),
        with("who", "  "),
        with("who", "two\nlines"),
        with(&"w".repeat(SKIP_WHO_BYTES_MAX + 1), "why"),
        with("who", &"w".repeat(SKIP_WHY_BYTES_MAX + 1)),
    ] {
        assert!(matches!(file.record(wrong.clone()), Err(JournalError::Option(_))), "{wrong:?}");
    }
    assert!(matches!(file.withdraw(skip(5)), Err(JournalError::Option(_))), "nothing to withdraw");
    file.record(with(&"w".repeat(SKIP_WHO_BYTES_MAX), &"ä".repeat(SKIP_WHY_BYTES_MAX / 2)))
        .expect("recorded");
    drop(file);
    let skips = Skips::load(&storage, CLUSTER).expect("read");
    assert_eq!(skips.at(Sequence(5)).map(|skip| skip.why.chars().count()), Some(SKIP_WHY_BYTES_MAX / 2));
}

#[test]
fn a_skip_is_for_one_frame_of_one_log() {
    let (_, storage) = fake();
    recorded(&storage, &[7]);
    let skips = Skips::load(&storage, CLUSTER).expect("read");
    // With its padding and without it.
    for bytes in [&frame(7, 56)[..], &frame(7, 56)[..56]] {
        assert_eq!(skips.of(Sequence(7), bytes).expect("that frame"), Some(&skip(7)));
        assert_eq!(skips.of(Sequence(8), bytes).expect("no skip"), None);
    }
    for bytes in [&frame(8, 56)[..], &frame(7, 64)[..], &[]] {
        let error = skips.of(Sequence(7), bytes).expect_err("another frame");
        assert!(error.to_string().contains("--withdraw"), "{error}");
    }
    assert!(skips.check_end(Sequence(7)).is_ok());
    assert!(matches!(skips.check_end(Sequence(6)), Err(JournalError::SkipPastEnd { .. })));
    let foreign = Skips::load(&storage, CLUSTER + 1).expect_err("another log's");
    assert!(matches!(&foreign, JournalError::ForeignCluster { file, .. } if file == SKIPS_FILE), "{foreign}");
}

#[test]
fn no_server_runs_meanwhile() {
    let (_, storage) = fake();
    let (journal, _) = Journal::open(storage.clone(), options(64 << 10)).expect("a server");
    assert!(matches!(SkipFile::open(storage.clone(), CLUSTER), Err(JournalError::Locked { .. })));
    drop(journal);
    let file = SkipFile::open(storage.clone(), CLUSTER).expect("open");
    assert!(matches!(Journal::open(storage.clone(), options(64 << 10)), Err(JournalError::Locked { .. })));
    drop(file);
}

/// Records from several processes; gives the power cuts after which a record is lost that was acknowledged, or one is
/// found that was never made.
fn wrong_after_cuts(seed: u64, lie: Option<Lie>) -> (u64, Vec<String>) {
    let storage = FakeStorage::new();
    storage.record();
    if let Some(lie) = lie {
        storage.lie(lie);
    }
    for sequence in 1..8 {
        recorded(&storage.shared(), &[sequence]);
        storage.note(sequence);
    }
    let (mut states, mut wrong) = (0, Vec::new());
    for state in CrashStates::new(&storage, 512, seed) {
        states += 1;
        let acknowledged = state.noted.unwrap_or(0);
        let disk = state.storage.shared();
        match found(&disk) {
            Ok(all) if all.len() as u64 == acknowledged || all.len() as u64 == acknowledged + 1 => {
                // The next one comes behind it, whatever was torn.
                recorded(&disk, &[100]);
                assert_eq!(found(&disk).expect("read"), [&all[..], &[100]].concat());
            }
            other => wrong.push(format!("{acknowledged} were acknowledged, {other:?} is found")),
        }
    }
    (states, wrong)
}

#[test]
fn no_power_cut_loses_what_was_recorded() {
    let (seed, _) = seeded(43);
    let (states, wrong) = wrong_after_cuts(seed, None);
    assert!(wrong.is_empty(), "{} wrong states, first: {}", wrong.len(), wrong[0]);
    println!("skips: {states} crash states, 0 wrong");
    for lie in [Lie::SyncData, Lie::SyncDir] {
        let (states, wrong) = wrong_after_cuts(seed, Some(lie));
        println!("skips, {lie:?} lies: {} of {states} states are noticed", wrong.len());
        assert!(!wrong.is_empty());
    }
}

#[test]
fn a_cut_end_was_never_acknowledged_and_anything_else_is_damage() {
    let (_, mut random) = seeded(44);
    let (whole, storage) = fake();
    recorded(&storage, &[1, 2, 3]);
    let mut bytes = vec![0; 4 * BLOCK as usize];
    storage.open(SKIPS_FILE, Access::Read).expect("there").read_at(&mut bytes, 0).expect("read");
    for length in 0..=bytes.len() {
        let (_, cut) = fake();
        cut.create(SKIPS_FILE).expect("new").write_all_at(&bytes[..length], 0).expect("written");
        let there = (length as u64 / BLOCK).saturating_sub(1);
        assert_eq!(found(&cut).expect("read"), (1..=there).collect::<Vec<_>>(), "{length} bytes");
    }
    for _ in 0..500 {
        let damaged = whole.copy();
        let offset = random.random_range(0..4 * BLOCK);
        damaged.flip_bit(SKIPS_FILE, offset, random.random_range(0..8));
        let error = Skips::load(&damaged.shared(), CLUSTER).expect_err("damage");
        let block = offset / BLOCK * BLOCK;
        assert!(
            matches!(&error, JournalError::Skips { offset, .. } if *offset == block),
            "offset {offset}: {error}"
        );
    }
}

#[test]
fn another_version_is_refused_by_name() {
    let (_, storage) = fake();
    recorded(&storage, &[1]);
    let file = storage.open(SKIPS_FILE, Access::ReadWrite).expect("there");
    let mut block = [0; BLOCK as usize];
    file.read_at(&mut block, 0).expect("read");
    block[12] = 2;
    let crc = crc32c::crc32c(&block[12..]);
    block[8..12].copy_from_slice(&crc.to_le_bytes());
    file.write_all_at(&block, 0).expect("written");
    let error = Skips::load(&storage, CLUSTER).expect_err("another version");
    assert!(matches!(error, JournalError::WrongVersion { found: 2, supported: 1, .. }), "{error}");
}

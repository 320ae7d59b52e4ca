//! Every power cut of recorded runs on the fake disk: nothing acknowledged is lost and nothing wrong is read, and the
//! same check notices when the disk, or the recovery, breaks a promise.

use std::time::Duration;

use journaler::storage::fake::{CrashState, CrashStates, FakeStorage, Lie};
use journaler::{Durability, Journal, JournalError, JournalOptions, JournalReader, Recovery, SharedStorage};
use protocol::Sequence;
use rand::RngExt;
use rand::rngs::StdRng;

use crate::support::{append, frame, length_of, options, seeded};

/// Subsets of survivors tried after each operation.
const CHOICES_MAX: usize = 1024;
/// Tiny segments, so that a short run goes over many.
const SEGMENT_BYTES: u64 = 8 * 4096;
/// Runs are added until this many states were tried; each run gives thousands.
const STATES_MIN: u64 = 60_000;
const FRAMES_MAX: u64 = 5000;

/// What must hold after a power cut, and what was written.
struct Run {
    storage: FakeStorage,
    durability: Durability,
    written: Vec<Vec<u8>>,
    /// Oldest sequence that pruning must have left.
    kept_from: u64,
}

fn run_options(durability: Durability) -> JournalOptions {
    JournalOptions { durability, ..options(SEGMENT_BYTES) }
}

/// Appends, idles, prunes, stops and starts again, noting what was acknowledged (at `memory`: what is durable).
fn run(random: &mut StdRng, steps: u32, durability: Durability, lie: Option<Lie>) -> Run {
    let storage = FakeStorage::new();
    storage.record();
    if let Some(lie) = lie {
        storage.lie(lie);
    }
    let mut kept_from = 1;
    let mut now = Duration::ZERO;
    let (mut journal, _) = Journal::open(storage.shared(), run_options(durability)).unwrap();
    for _ in 0..steps {
        match random.random_range(0..20) {
            0..14 => {
                let many = random.random_range(0..4) == 0;
                append(&mut journal, random.random_range(1..if many { 60 } else { 24 })).unwrap();
            }
            14..17 => {
                for _ in 0..2 {
                    now += Duration::from_millis(100);
                    journal.idle(now).unwrap();
                }
            }
            17 => {
                let keep = journal.journaled_sequence().0.saturating_sub(60).max(1);
                kept_from = kept_from.max(keep);
                journal.segments().prune(Sequence(keep)).unwrap();
            }
            end => {
                if end == 18 {
                    journal.close().unwrap();
                } else {
                    drop(journal);
                }
                journal = Journal::open(storage.shared(), run_options(durability)).unwrap().0;
            }
        }
        storage.note(journal.durable_sequence().0);
    }
    let last = journal.journaled_sequence().0;
    assert!(last < FRAMES_MAX);
    Run { storage, durability, written: written(last), kept_from }
}

fn written(last: u64) -> Vec<Vec<u8>> {
    (1..=last).map(|sequence| frame(sequence, length_of(sequence))[..length_of(sequence)].to_vec()).collect()
}

type Recover = fn(SharedStorage, JournalOptions) -> Result<(Journal, Recovery), JournalError>;

/// Opens the disk that a power cut left and checks all that it says; what is wrong is told in words.
fn check(run: &Run, state: &CrashState, recover: Recover) -> Result<(), String> {
    let shared = state.storage.shared();
    let (mut journal, recovery) = match recover(shared.clone(), run_options(run.durability)) {
        Ok(opened) => opened,
        // At `memory` a power cut may leave holes; refusing them is right.
        Err(JournalError::Corrupt(_)) if run.durability == Durability::Memory => return Ok(()),
        Err(error) => return Err(format!("refused: {error}")),
    };
    let acknowledged = state.noted.unwrap_or(0);
    if recovery.last_sequence.0 < acknowledged {
        return Err(format!(
            "{acknowledged} was acknowledged, the journal ends at {}",
            recovery.last_sequence
        ));
    }
    if recovery.first_sequence.0 > run.kept_from.max(1) {
        return Err(format!(
            "{} must be kept, the journal starts at {}",
            run.kept_from, recovery.first_sequence
        ));
    }
    read_all(run, &shared, recovery.first_sequence.0, recovery.last_sequence.0)?;
    if (state.operation + state.choice).is_multiple_of(8) {
        // The cut must leave a place where appending goes on.
        let last = recovery.last_sequence.0;
        append(&mut journal, 3).map_err(|error| error.to_string())?;
        drop(journal);
        let (_, again) =
            Journal::open(shared.clone(), run_options(run.durability)).map_err(|error| error.to_string())?;
        if again.last_sequence.0 != last + 3 || !again.cut.is_empty() {
            return Err(format!("appended 3 behind {last}, then found {again:?}"));
        }
        read_all(run, &shared, recovery.first_sequence.0, last)?;
    }
    Ok(())
}

fn read_all(run: &Run, storage: &SharedStorage, first: u64, last: u64) -> Result<(), String> {
    let text = |error: JournalError| error.to_string();
    let mut cursor = JournalReader::open(storage.clone())
        .and_then(|reader| reader.frames_from(Sequence(first)))
        .map_err(text)?;
    for expected in first..=last {
        let Some((sequence, bytes)) = cursor.next_frame(Sequence(last)).map_err(text)? else {
            return Err(format!("{expected} is not read"));
        };
        if sequence.0 != expected || run.written.get(expected as usize - 1).map(Vec::as_slice) != Some(bytes)
        {
            return Err(format!("{expected} is read as something else"));
        }
    }
    Ok(())
}

fn enumerate(run: &Run, seed: u64, recover: Recover) -> (u64, Vec<String>) {
    let mut states = 0;
    let mut wrong = Vec::new();
    for state in CrashStates::new(&run.storage, CHOICES_MAX, seed) {
        states += 1;
        if let Err(reason) = check(run, &state, recover) {
            wrong.push(format!(
                "after operation {} ({}), choice {}: {reason}",
                state.operation, state.description, state.choice
            ));
        }
    }
    (states, wrong)
}

#[test]
fn no_power_cut_loses_what_was_acknowledged_at_level_disk() {
    let (seed, mut random) = seeded(4);
    let mut states = 0;
    while states < STATES_MIN {
        let run = run(&mut random, 120, Durability::Disk, None);
        let (more, wrong) = enumerate(&run, seed, Journal::open);
        assert!(wrong.is_empty(), "{} wrong states, first: {}", wrong.len(), wrong[0]);
        states += more;
    }
    println!("journal at disk: {states} crash states, 0 acknowledged records lost, 0 wrong");
}

#[test]
fn a_power_cut_at_level_memory_loses_nothing_durable_or_is_refused() {
    let (seed, mut random) = seeded(5);
    let run = run(&mut random, 40, Durability::Memory, None);
    let (states, wrong) = enumerate(&run, seed, Journal::open);
    assert!(wrong.is_empty(), "{} wrong states, first: {}", wrong.len(), wrong[0]);
    println!("journal at memory: {states} crash states, 0 durable records lost, 0 wrong");
}

#[test]
fn an_acknowledgement_before_the_fsync_is_noticed() {
    let (seed, mut random) = seeded(6);
    let run = run(&mut random, 10, Durability::Disk, Some(Lie::SyncData));
    let (states, wrong) = enumerate(&run, seed, Journal::open);
    println!("without fsync: {} of {states} states are noticed, first: {}", wrong.len(), wrong[0]);
    assert!(wrong.iter().any(|reason| reason.contains("was acknowledged")));
}

#[test]
fn a_missing_fsync_of_the_folder_is_noticed() {
    let (seed, mut random) = seeded(7);
    let run = run(&mut random, 10, Durability::Disk, Some(Lie::SyncDir));
    let (states, wrong) = enumerate(&run, seed, Journal::open);
    println!("without fsync of folders: {} of {states} states are noticed, first: {}", wrong.len(), wrong[0]);
    assert!(wrong.iter().any(|reason| reason.contains("was acknowledged")));
}

//! Power cuts at every moment of appending, making snapshots, pruning them and pruning the journal behind them.

use std::collections::HashMap;
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use journaler::storage::fake::{CrashState, CrashStates, FakeStorage};
use journaler::storage::{Access, Lock, SharedStorage, Storage, StorageFile};
use journaler::{Journal, JournalReader};
use protocol::Sequence;
use rand::SeedableRng;
use rand::rngs::StdRng;
use snapshots::{MakerOptions, Marks, SnapshotMaker, SnapshotStore, recover};

use crate::recovery::Witness;
use crate::venue::{CLUSTER_ID, Shape, Venue, append, journal_options, seed};

const SEGMENT_BYTES: u64 = 16 << 10;
const STATES_MIN: u64 = 40_000;
const CHOICES_MAX: usize = 512;
/// Snapshots are made so often in a run.
const ROUNDS: usize = 42;
const FRAMES_PER_ROUND: usize = 24;

/// Promises that a disk is made to break for one folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    SnapshotNotSynced,
    FolderNotSynced,
}

/// A disk that forgets some syncs of the snapshots: what a program without them would do.
#[derive(Debug)]
struct Forgetful {
    disk: FakeStorage,
    fault: Fault,
}

#[derive(Debug)]
struct ForgetfulFile {
    file: Box<dyn StorageFile>,
    forgets: bool,
}

impl Forgetful {
    fn file(&self, path: &str, file: Box<dyn StorageFile>) -> Box<dyn StorageFile> {
        let forgets = self.fault == Fault::SnapshotNotSynced && path.starts_with("snapshots/");
        Box::new(ForgetfulFile { file, forgets })
    }
}

impl Storage for Forgetful {
    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        Ok(self.file(path, self.disk.create(path)?))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn StorageFile>> {
        Ok(self.file(path, self.disk.open(path, access)?))
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.disk.create_dir(path)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        let forgets = self.fault == Fault::FolderNotSynced && path == "snapshots";
        if forgets { Ok(()) } else { self.disk.sync_dir(path) }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.disk.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.disk.remove(path)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.disk.remove_dir(path)
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        self.disk.list(path)
    }

    fn free_space(&self) -> io::Result<u64> {
        self.disk.free_space()
    }

    fn lock(&self, path: &str) -> io::Result<Lock> {
        self.disk.lock(path)
    }

    fn locate(&self, path: &str) -> PathBuf {
        self.disk.locate(path)
    }
}

impl StorageFile for ForgetfulFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.file.read_at(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.forgets { Ok(()) } else { self.file.sync_data() }
    }

    fn allocate_zeroed(&self, length: u64) -> io::Result<()> {
        self.file.allocate_zeroed(length)
    }

    fn length(&self) -> io::Result<u64> {
        self.file.length()
    }
}

/// What was promised before the cut, as one number for [`FakeStorage::note`]: the newest snapshot made, and the last
/// frame acknowledged.
fn promise(snapshot: Sequence, journaled: Sequence) -> u64 {
    snapshot.0 << 32 | journaled.0
}

/// Appends, makes snapshots and prunes, some rounds of it, on a disk that records it all.
fn run(venue: &Venue, fault: Fault, seed: u64) -> FakeStorage {
    let disk = FakeStorage::new();
    let storage: SharedStorage = Arc::new(Forgetful { disk: disk.clone(), fault });
    let mut rng = StdRng::seed_from_u64(seed);
    let (mut journal, _) = Journal::open(storage.clone(), journal_options(SEGMENT_BYTES)).expect("open");
    let store = SnapshotStore::open(storage, CLUSTER_ID).expect("open");
    let mut maker = SnapshotMaker::new(store.clone(), MakerOptions::default());
    disk.record();
    let mut snapshot = Sequence(0);
    for frames in venue.frames.chunks(FRAMES_PER_ROUND) {
        let journaled = append(&mut journal, frames, FRAMES_PER_ROUND, &mut rng);
        disk.note(promise(snapshot, journaled));
        let marks = Marks { journaled, reported: journaled };
        let made = maker.run_once(marks, &mut |_| ControlFlow::Continue(())).expect("run_once");
        if let Some(made) = made {
            snapshot = made.header.sequence;
            disk.note(promise(snapshot, journaled));
            journal.segments().prune(store.journal_needed_from().expect("list")).expect("prune");
        }
    }
    disk
}

/// What a start makes of a disk: the first promise that is found broken.
fn check(state: &CrashState, hashes: &HashMap<Sequence, u64>) -> Result<(), String> {
    let storage = state.storage.shared();
    let noted = state.noted.unwrap_or_default();
    let (snapshot, acknowledged) = (Sequence(noted >> 32), Sequence(noted & u64::from(u32::MAX)));
    let (journal, found) =
        Journal::open(storage.clone(), journal_options(SEGMENT_BYTES)).map_err(|error| error.to_string())?;
    drop(journal);
    let journaled = found.last_sequence;
    if journaled < acknowledged {
        return Err(format!("frames up to {acknowledged} were acknowledged, {journaled} are left"));
    }
    let store = SnapshotStore::open(storage.clone(), CLUSTER_ID).map_err(|error| error.to_string())?;
    let reader = JournalReader::open(storage).map_err(|error| error.to_string())?;
    let marks = Marks { journaled, reported: journaled };
    let recovered =
        recover(&store, &reader, marks, &mut Witness::default()).map_err(|error| error.to_string())?;
    if let Some(refused) = recovered.refused.first() {
        return Err(format!("a finished snapshot is bad: {refused:?}"));
    }
    if recovered.from_snapshot.unwrap_or_default() < snapshot {
        return Err(format!("snapshot {snapshot} was made, {:?} is used", recovered.from_snapshot));
    }
    if hashes.get(&journaled) != Some(&recovered.exchange.state_hash()) {
        return Err(format!("another state at {journaled}"));
    }
    Ok(())
}

/// Goes through the power cuts until one breaks a promise: how many held, and what broke.
fn enumerate(fault: Fault, seed: u64) -> (u64, Option<String>) {
    let shape = Shape { users: 2, instruments: 2, prices: 10, frames_per_tick: 8 };
    let venue = Venue::run(shape, seed, ROUNDS * FRAMES_PER_ROUND);
    let mut hashes = HashMap::from([(Sequence(0), exchange::Exchange::new().state_hash())]);
    let mut exchange = exchange::Exchange::new();
    for frame in &venue.frames {
        exchange.apply(&protocol::Command::decode(frame), &mut Vec::<protocol::Output>::new());
        hashes.insert(exchange.sequence(), exchange.state_hash());
    }
    let disk = run(&venue, fault, seed);
    let mut held = 0;
    for state in CrashStates::new(&disk, CHOICES_MAX, seed) {
        if let Err(broken) = check(&state, &hashes) {
            let CrashState { operation, description, choice, .. } = state;
            return (
                held,
                Some(format!("after operation {operation} ({description}), choice {choice}: {broken}")),
            );
        }
        held += 1;
    }
    (held, None)
}

#[test]
fn no_power_cut_breaks_a_promise() {
    let (held, broken) = enumerate(Fault::None, seed(51));
    println!("{held} crash states");
    assert_eq!(broken, None);
    assert!(held >= STATES_MIN, "{held}");
}

#[test]
fn a_snapshot_renamed_before_it_is_synced_is_noticed() {
    let (_, broken) = enumerate(Fault::SnapshotNotSynced, seed(52));
    let broken = broken.expect("the planted fault is found");
    assert!(broken.contains("snapshot"), "{broken}");
}

#[test]
fn a_folder_that_is_not_synced_is_noticed() {
    let (_, broken) = enumerate(Fault::FolderNotSynced, seed(53));
    let broken = broken.expect("the planted fault is found");
    assert!(broken.contains("was made"), "{broken}");
}

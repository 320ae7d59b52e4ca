//! Every power cut of recorded runs of a Raft log on the fake disk: appends of several entries, truncations, pruning,
//! restarts. What is found is the log as it was, with or without the step that was under way; and the same check notices
//! when a truncation forgets to wait for the disk.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use journaler::storage::fake::{CrashState, CrashStates, FakeStorage};
use journaler::storage::{Access, Lock};
use journaler::{
    Durability, EntryReader, Journal, JournalError, JournalOptions, LogEnd, Recovery, SharedStorage, Storage,
    StorageFile, cut, plan_cut,
};
use protocol::{Sequence, Term};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::raft_log::{Model, Written, append, check_entries, raft_options};
use crate::support::{CLUSTER, seeded};

/// Subsets of survivors tried after each operation.
const CHOICES_MAX: usize = 128;
/// Tiny segments, so that a short run goes over many.
const SEGMENT_BYTES: u64 = 8 * 4096;
/// Runs are added until this many states were tried.
const STATES_MIN: u64 = 20_000;

/// What a truncation forgets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Forgets {
    Nothing,
    SyncDir,
    SyncData,
}

/// What the log was when a number was noted, and what was done next.
#[derive(Clone)]
struct Moment {
    log: Model,
    /// Entries up to here survive a power cut.
    durable_index: u64,
    /// Oldest entry that pruning must have left.
    kept_from: u64,
    next: Next,
}

#[derive(Clone)]
enum Next {
    Append(Vec<Written>),
    TruncateAfter(u64),
    Other,
}

struct Run {
    storage: FakeStorage,
    options: JournalOptions,
    moments: Vec<Moment>,
}

/// A disk that says yes to a sync and does nothing while `forgetting`.
#[derive(Clone, Debug)]
struct Forgetful {
    inner: SharedStorage,
    forgets: Forgets,
    forgetting: Arc<AtomicBool>,
}

impl Forgetful {
    fn is_forgotten(&self, what: Forgets) -> bool {
        self.forgets == what && self.forgetting.load(Ordering::Relaxed)
    }

    fn file(&self, inner: Box<dyn StorageFile>) -> Box<dyn StorageFile> {
        Box::new(ForgetfulFile { inner, storage: self.clone() })
    }
}

#[derive(Debug)]
struct ForgetfulFile {
    inner: Box<dyn StorageFile>,
    storage: Forgetful,
}

impl StorageFile for ForgetfulFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.inner.write_all_at(bytes, offset)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        self.inner.read_at(buffer, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.storage.is_forgotten(Forgets::SyncData) { Ok(()) } else { self.inner.sync_data() }
    }

    fn allocate_zeroed(&self, length: u64) -> io::Result<()> {
        self.inner.allocate_zeroed(length)
    }

    fn length(&self) -> io::Result<u64> {
        self.inner.length()
    }
}

impl Storage for Forgetful {
    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        self.inner.list(path)
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        Ok(self.file(self.inner.create(path)?))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn StorageFile>> {
        Ok(self.file(self.inner.open(path, access)?))
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.inner.create_dir(path)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        if self.is_forgotten(Forgets::SyncDir) { Ok(()) } else { self.inner.sync_dir(path) }
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.inner.remove_dir(path)
    }

    fn free_space(&self) -> io::Result<u64> {
        self.inner.free_space()
    }

    fn lock(&self, path: &str) -> io::Result<Lock> {
        self.inner.lock(path)
    }

    fn locate(&self, path: &str) -> PathBuf {
        self.inner.locate(path)
    }
}

/// What a run does to its journal, one step after the other.
struct Player {
    storage: Forgetful,
    options: JournalOptions,
    journal: Option<Journal>,
    moment: Moment,
    now: Duration,
}

impl Player {
    fn step(&mut self, random: &mut StdRng) {
        let log = &mut self.moment.log;
        let journal = self.journal.as_mut().expect("it is open");
        match &self.moment.next {
            Next::Append(entries) => {
                append(journal, entries).unwrap();
                log.entries.extend(entries.iter().cloned());
            }
            Next::TruncateAfter(index) => {
                self.storage.forgetting.store(true, Ordering::Relaxed);
                journal.truncate_after(*index).unwrap();
                self.storage.forgetting.store(false, Ordering::Relaxed);
                log.truncate_after(*index);
                self.moment.durable_index = self.moment.durable_index.min(*index);
            }
            Next::Other => match random.random_range(0..6) {
                0 | 1 => {
                    log.committed_index = random.random_range(log.committed_index..=log.last_index());
                    journal.set_committed(log.committed_index);
                }
                2 => {
                    for _ in 0..2 {
                        self.now += Duration::from_millis(100);
                        journal.idle(self.now).unwrap();
                    }
                }
                3 => {
                    let keep = log.sequence_at(log.last_index()).saturating_sub(30).max(1);
                    let needed =
                        (log.before.index..=log.last_index()).find(|index| log.sequence_at(*index) >= keep);
                    let needed = needed.unwrap_or(log.last_index()).min(log.committed_index + 1);
                    self.moment.kept_from = self.moment.kept_from.max(needed);
                    journal.segments().prune(Sequence(keep)).unwrap();
                }
                4 => journal.sync().unwrap(),
                _ => {
                    let journal = self.journal.take().expect("it is open");
                    if random.random() {
                        journal.close().unwrap();
                    } else {
                        drop(journal);
                    }
                    let storage: SharedStorage = Arc::new(self.storage.clone());
                    let (journal, recovery) = Journal::open(storage, self.options.clone()).unwrap();
                    assert_eq!(journal.index(), log.last_index(), "{recovery:?}");
                    self.journal.insert(journal).set_committed(log.committed_index);
                }
            },
        }
        let journal = self.journal.as_ref().expect("it is open");
        if journal.durable_sequence() == journal.journaled_sequence() && self.is_synced(journal) {
            self.moment.durable_index = self.moment.log.last_index();
        }
    }

    /// At `memory` a log that ends with a blank looks durable when its frames are.
    fn is_synced(&self, journal: &Journal) -> bool {
        let log = &self.moment.log;
        let ends_with_frames = log.entries.last().is_some_and(|entry| entry.count > 0);
        self.options.durability == Durability::Disk
            || (ends_with_frames && journal.index() == log.last_index())
    }
}

fn run(random: &mut StdRng, steps: u32, durability: Durability, forgets: Forgets) -> Run {
    let fake = FakeStorage::new();
    fake.record();
    let storage = Forgetful { inner: fake.shared(), forgets, forgetting: Arc::default() };
    let options = JournalOptions { durability, ..raft_options(SEGMENT_BYTES) };
    let shared: SharedStorage = Arc::new(storage.clone());
    let (log, journal) = if random.random() {
        (Model::new(), Journal::open(shared, options.clone()).unwrap().0)
    } else {
        let before = LogEnd { index: 40, sequence: Sequence(700), term: Term(3) };
        (Model::behind(before), Journal::create_behind(shared, options.clone(), before).unwrap())
    };
    let (durable_index, kept_from) = (log.before.index, log.before.index + 1);
    let moment = Moment { log, durable_index, kept_from, next: Next::Other };
    let mut player = Player { storage, options, journal: Some(journal), moment, now: Duration::ZERO };
    let mut moments = Vec::new();
    for number in 0..steps {
        let log = &player.moment.log;
        player.moment.next = match random.random_range(0..10) {
            0..5 => Next::Append(log.next(random, [1, 1, 2, 5][number as usize % 4])),
            5 | 6 => Next::TruncateAfter(random.random_range(log.committed_index..=log.last_index())),
            _ => Next::Other,
        };
        fake.note(moments.len() as u64);
        moments.push(player.moment.clone());
        player.step(random);
    }
    Run { storage: fake, options: player.options, moments }
}

fn open(storage: &SharedStorage, options: &JournalOptions) -> Result<(Journal, Recovery), JournalError> {
    Journal::open(storage.clone(), options.clone())
}

/// Opens the disk that a power cut left and checks all that it says; what is wrong is told in words.
fn check(run: &Run, state: &CrashState, refused: &mut u64) -> Result<(), String> {
    let shared = state.storage.shared();
    let Some(moment) = state.noted.map(|noted| &run.moments[noted as usize]) else {
        // Before the first step there is an empty journal, or none yet.
        let opened =
            Journal::open(shared, run.options.clone()).map(|(journal, _)| journal.journaled_sequence());
        return opened.map(drop).map_err(|error| error.to_string());
    };
    let (mut journal, recovery) = match open(&shared, &run.options) {
        // At `memory` a power cut may leave holes; who knows that it was one cuts there.
        Err(error @ JournalError::Corrupt(_)) if run.options.durability == Durability::Memory => {
            *refused += 1;
            let planned = plan_cut(&shared, Some(CLUSTER)).map_err(|error| error.to_string())?;
            let plan = planned.ok_or_else(|| format!("no cut is planned for: {error}"))?;
            cut(&shared, Some(CLUSTER), &plan).map_err(|error| error.to_string())?;
            open(&shared, &run.options).map_err(|error| format!("refused after a cut: {error}"))?
        }
        opened => opened.map_err(|error| format!("refused: {error}"))?,
    };
    let found = recovery.log.ok_or("nothing was summarized")?;
    let mut allowed = moment.log.clone();
    let mut least = moment.durable_index;
    match &moment.next {
        Next::Append(entries) => allowed.entries.extend(entries.iter().cloned()),
        Next::TruncateAfter(index) => least = least.min(*index),
        Next::Other => {}
    }
    if found.last_index < least || found.last_index > allowed.last_index() {
        return Err(format!("entry {least} is durable, the log ends at {}", found.last_index));
    }
    // A step may have pruned.
    let kept_from =
        run.moments.get(state.noted.unwrap_or(0) as usize + 1).map_or(u64::MAX, |next| next.kept_from);
    if found.first_index > kept_from.max(moment.kept_from) {
        return Err(format!("{} must be kept, the log starts at {}", moment.kept_from, found.first_index));
    }
    allowed.truncate_after(found.last_index);
    let mut random = StdRng::seed_from_u64(state.choice as u64);
    read_all(&shared, &allowed, found.before, &mut random)?;
    if (state.operation + state.choice).is_multiple_of(8) {
        go_on(&shared, &mut journal, allowed, found.before, &mut random)?;
    }
    Ok(())
}

/// The log without what was pruned, against what is read.
fn read_all(shared: &SharedStorage, log: &Model, before: LogEnd, random: &mut StdRng) -> Result<(), String> {
    let mut kept = log.clone();
    if before.index < kept.before.index {
        return Err(format!("the log starts behind {before:?}"));
    }
    let mut pruned = kept.entries.drain(..(before.index - kept.before.index) as usize);
    let term = pruned.next_back().map_or(log.before.term, |entry| entry.term);
    drop(pruned);
    if (before.term, before.sequence.0) != (term, log.sequence_at(before.index)) {
        return Err(format!("{before:?} is not what the log follows"));
    }
    kept.before = before;
    let mut reader = EntryReader::open(shared.clone()).map_err(|error| error.to_string())?;
    check_entries(&mut reader, &kept, random)
}

/// The cut must leave a log that can be truncated and appended to.
fn go_on(
    shared: &SharedStorage,
    journal: &mut Journal,
    mut log: Model,
    before: LogEnd,
    random: &mut StdRng,
) -> Result<(), String> {
    let text = |error: JournalError| error.to_string();
    let index = random.random_range(journal.committed_index().max(before.index)..=log.last_index());
    journal.truncate_after(index).map_err(text)?;
    log.truncate_after(index);
    let entries = log.next(random, 3);
    append(journal, &entries).map_err(text)?;
    log.entries.extend(entries);
    read_all(shared, &log, before, random)
}

fn enumerate(run: &Run, seed: u64) -> (u64, u64, Vec<String>) {
    let (mut states, mut refused) = (0, 0);
    let mut wrong = Vec::new();
    for state in CrashStates::new(&run.storage, CHOICES_MAX, seed) {
        states += 1;
        if let Err(reason) = check(run, &state, &mut refused) {
            wrong.push(format!(
                "after operation {} ({}), step {:?}, choice {}: {reason}",
                state.operation, state.description, state.noted, state.choice
            ));
        }
    }
    (states, refused, wrong)
}

#[test]
fn no_power_cut_breaks_a_log_at_level_disk() {
    let (seed, mut random) = seeded(51);
    let (mut states, mut runs) = (0, 0);
    while states < STATES_MIN {
        let run = run(&mut random, 60, Durability::Disk, Forgets::Nothing);
        let (more, _, wrong) = enumerate(&run, seed);
        assert!(wrong.is_empty(), "run {runs}: {} wrong states, first: {}", wrong.len(), wrong[0]);
        states += more;
        runs += 1;
    }
    println!("raft log at disk: {states} crash states of {runs} runs, 0 durable entries lost, 0 wrong");
}

#[test]
fn a_power_cut_at_level_memory_loses_nothing_durable_of_a_log() {
    let (seed, mut random) = seeded(52);
    let (mut states, mut refused) = (0, 0);
    for _ in 0..4 {
        let run = run(&mut random, 20, Durability::Memory, Forgets::Nothing);
        let (more, more_refused, wrong) = enumerate(&run, seed);
        assert!(wrong.is_empty(), "{} wrong states, first: {}", wrong.len(), wrong[0]);
        (states, refused) = (states + more, refused + more_refused);
    }
    assert!(refused > 0);
    println!("raft log at memory: {states} crash states, {refused} refused and cut, 0 wrong");
}

#[test]
fn a_truncation_that_does_not_wait_for_the_disk_is_noticed() {
    let (seed, mut random) = seeded(53);
    for forgets in [Forgets::SyncDir, Forgets::SyncData] {
        let run = run(&mut random, 30, Durability::Disk, forgets);
        let (states, _, wrong) = enumerate(&run, seed);
        let first = wrong.first().expect("a log that is not the one that was written");
        println!("truncation without {forgets:?}: {} of {states} states are noticed: {first}", wrong.len());
    }
}

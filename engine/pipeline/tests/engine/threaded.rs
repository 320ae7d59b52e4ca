//! Engines with threads, on real files.

use std::sync::Arc;
use std::thread;
use std::time::Duration;

use journaler::{ArchiveOptions, Durability, JournalError, ReadBack, RealStorage, SharedStorage};
use pipeline::{Clock, Engine, EngineConfig, EngineHandle, Fatal, OpenError, Opened, ThreadPlan};
use protocol::{Body, FrameWriter, Sequence, Side, TradingDay};
use ring::WaitStrategy;

use crate::support::*;

/// Long past what any stop here takes; no verdict hangs on it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) fn real_config(plan: ThreadPlan, durability: Durability) -> EngineConfig {
    let mut config = EngineConfig::new(CLUSTER);
    config.input_slots = 256;
    config.output_slots = 256;
    config.threads = plan;
    config.wait = WaitStrategy::default();
    config.journal.segment_bytes = 1 << 20;
    config.journal.reserve_bytes = 1 << 20;
    config.journal.durability = durability;
    config.housekeeping_interval = Duration::from_millis(20);
    config.clock = Clock::system();
    config.fatal = Fatal::new(|_| ());
    config
}

/// Opens the directory. A child that another test forks holds the lock's file too, until it has become its program.
pub(crate) fn unlocked<T>(mut open: impl FnMut() -> Result<T, OpenError>) -> T {
    for _ in 0..1_000 {
        match open() {
            Err(OpenError::Journal(JournalError::Locked { .. })) => thread::sleep(Duration::from_millis(5)),
            opened => return opened.expect("the data directory opens"),
        }
    }
    panic!("the directory stays locked");
}

fn open(storage: &SharedStorage, config: &EngineConfig) -> Opened {
    unlocked(|| Engine::open(Arc::clone(storage), config, &mut |_| ()))
}

fn start(storage: &SharedStorage, config: &EngineConfig) -> (EngineHandle, Recorder) {
    let opened = open(storage, config);
    let recorder = Recorder::default();
    let engine = Engine::start(config, opened, Box::new(recorder.clone())).expect("the engine starts");
    (engine, recorder)
}

fn publish_all(engine: &EngineHandle, frames: &[FrameWriter]) {
    let mut ingress = engine.ingress();
    for frame in frames {
        publish(&mut ingress, frame, || thread::sleep(Duration::from_micros(50)));
    }
}

pub(crate) fn orders(
    session: protocol::SessionId,
    round: u32,
    ids: std::ops::Range<u64>,
) -> Vec<FrameWriter> {
    let order = |id: u64| {
        let side = if id.is_multiple_of(2) { Side::Buy } else { Side::Sell };
        let price = 990 + (id.wrapping_mul(0x9e37_79b9) % 20) as i64;
        let order = Body::NewOrder(limit(INSTRUMENTS[0], side, price, 1 + id % 9));
        frame(session, connection(session, round), id, START, order)
    };
    ids.map(order).collect()
}

/// The layout for many cores, each of the eight stages pinned to one of its own; here to those that there are.
fn each_stage_on_a_core() -> ThreadPlan {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let stages = ["journal", "ticker", "replicate", "unmarshal", "logic", "reports", "depth", "metrics"];
    let threads: Vec<String> =
        (0..).zip(stages).map(|(nth, stage)| format!("{stage}@{}", nth % cores)).collect();
    ThreadPlan::parse(threads.iter().map(String::as_str)).unwrap()
}

#[test]
fn every_plan_of_threads_answers_everybody_and_comes_back_the_same() {
    const ORDERS: u64 = 2_000;
    let park = WaitStrategy::default();
    for (plan, durability, wait) in [
        (ThreadPlan::single(), Durability::Memory, park),
        (ThreadPlan::for_cores(1), Durability::Disk, park),
        (ThreadPlan::for_cores(2), Durability::Memory, park),
        (ThreadPlan::for_cores(8), Durability::Disk, park),
        (each_stage_on_a_core(), Durability::Disk, WaitStrategy::BusySpin),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let storage: SharedStorage = Arc::new(RealStorage::create(folder.path()).unwrap());
        let config = EngineConfig { wait, ..real_config(plan, durability) };
        let (engine, recorder) = start(&storage, &config);
        publish_all(&engine, &Flow::new(0).opening());
        thread::scope(|scope| {
            for session in SESSIONS {
                let engine_ingress = engine.ingress();
                scope.spawn(move || {
                    let mut ingress = engine_ingress;
                    for frame in orders(session, 1, 1..ORDERS + 1) {
                        publish(&mut ingress, &frame, || thread::sleep(Duration::from_micros(50)));
                    }
                });
            }
        });
        let view = engine.view();
        let stopped = engine.stop(PATIENCE);
        assert_eq!((stopped.drained, &stopped.fault), (true, &None));
        let exchange = stopped.exchange.expect("the last state");
        assert!(exchange.sequence() >= Sequence(SESSIONS.len() as u64 * ORDERS));
        let accepted = view.events().events().find(|(name, _)| *name == "accepted");
        assert_eq!(accepted, Some(("accepted", SESSIONS.len() as u64 * ORDERS)));
        assert_eq!(view.marks().reported_sequence(), exchange.sequence());
        assert_eq!(view.reports_durable_sequence(), exchange.sequence());
        let told = acknowledged(&recorder, &view.report_reader());

        let opened = open(&storage, &config);
        assert!(opened.found().journal.clean_stop);
        assert_eq!(opened.exchange().state_hash(), exchange.state_hash());
        assert_eq!(opened.exchange().running_hash(), exchange.running_hash());
        assert_eq!(still_there(&told, &opened.report_reader(), TradingDay(1)), Ok(()));
        let (replayed, _) = replayed(&storage, exchange.sequence());
        assert_eq!(replayed.running_hash(), exchange.running_hash());
    }
}

#[test]
fn an_engine_that_is_killed_loses_nothing_that_it_told() {
    let folder = tempfile::tempdir().unwrap();
    let storage: SharedStorage = Arc::new(RealStorage::create(folder.path()).unwrap());
    let config = real_config(ThreadPlan::for_cores(2), Durability::Disk);
    let mut next = 1;
    for round in 1..=5 {
        let (engine, recorder) = start(&storage, &config);
        let opening = if round == 1 { definitions(START) } else { Vec::new() };
        publish_all(&engine, &opening);
        publish_all(&engine, &logins(round, START));
        publish_all(&engine, &orders(SESSIONS[0], round, next..next + 1_500));
        next += 1_500;
        // In the middle of the work: whatever the stages have in hand is lost with them.
        drop(engine);
        let opened = open(&storage, &config);
        assert!(!opened.found().journal.clean_stop);
        let told = recorder.acknowledged();
        for ((session, day), last) in told {
            let there = reports(&opened.report_reader(), session, day).len() as u64;
            assert!(there >= last.0, "{last} reports of session {session} were told, {there} are there");
        }
        let (replayed, outputs) = replayed(&storage, opened.exchange().sequence());
        assert_eq!(replayed.state_hash(), opened.exchange().state_hash());
        let reported = outputs
            .iter()
            .filter(|output| output.event.recipient().is_some_and(|to| to.session == SESSIONS[0]));
        let there = reports(&opened.report_reader(), SESSIONS[0], TradingDay(1));
        assert_eq!(there.len(), reported.count());
    }
}

#[test]
fn publishers_that_never_go_do_not_keep_a_stop_from_ending() {
    let folder = tempfile::tempdir().unwrap();
    let storage: SharedStorage = Arc::new(RealStorage::create(folder.path()).unwrap());
    let config = real_config(ThreadPlan::for_cores(2), Durability::Memory);
    let (engine, _) = start(&storage, &config);
    let forgotten = engine.ingress();
    let stopped = engine.stop(Duration::from_millis(1));
    assert!(!stopped.drained);
    drop(forgotten);
    let (engine, _) = start(&storage, &config);
    assert!(engine.stop(PATIENCE).drained);
}

#[test]
fn snapshots_are_made_on_demand() {
    let folder = tempfile::tempdir().unwrap();
    let storage: SharedStorage = Arc::new(RealStorage::create(folder.path()).unwrap());
    let mut config = real_config(ThreadPlan::for_cores(2), Durability::Disk);
    config.tick_interval = Duration::from_millis(1);
    let (engine, _) = start(&storage, &config);
    publish_all(&engine, &Flow::new(0).opening());
    publish_all(&engine, &orders(SESSIONS[0], 1, 1..500));
    let made = (0..10_000).find_map(|_| {
        thread::sleep(Duration::from_millis(1));
        engine.snapshots().make().expect("no error")
    });
    let made = made.expect("a checkpoint comes with every tick");
    assert!(engine.stop(PATIENCE).drained);
    let opened = open(&storage, &config);
    assert_eq!(opened.found().from_snapshot, Some(made.header.sequence));
}

#[test]
fn a_segment_stays_until_the_archive_has_it() {
    let (folder, copies) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let storage: SharedStorage = Arc::new(RealStorage::create(folder.path()).unwrap());
    let mut config = real_config(ThreadPlan::for_cores(2), Durability::Memory);
    config.tick_interval = Duration::from_millis(1);
    config.journal.segment_bytes = 64 * 1024;
    config.archive = Some(ArchiveOptions {
        command: "test -e \"$RINGPIT_COPY.no\" || cp \"$RINGPIT_SEGMENT\" \"$RINGPIT_COPY\"".to_owned(),
        read_back: ReadBack::Folder(copies.path().to_path_buf()),
        timeout: PATIENCE,
    });
    // The second segment can't be archived.
    std::fs::write(copies.path().join("segment-0000000002.no"), "").unwrap();
    let (engine, _) = start(&storage, &config);
    publish_all(&engine, &Flow::new(0).opening());
    for round in 0..3 {
        publish_all(&engine, &orders(SESSIONS[0], 1, 1 + 3_000 * round..1 + 3_000 * (round + 1)));
        (0..10_000).find(|_| {
            thread::sleep(Duration::from_millis(1));
            engine.snapshots().make().expect("no error").is_some()
        });
    }
    let names = || {
        let mut names = storage.list("journal").unwrap();
        names.retain(|name| name.starts_with("segment-"));
        names
    };
    let first_gone = (0..10_000).any(|_| {
        thread::sleep(Duration::from_millis(1));
        !names().contains(&"segment-0000000001".to_owned())
    });
    assert!(first_gone, "what is archived and not needed is removed");
    assert!(engine.stop(PATIENCE).drained);
    assert!(names().contains(&"segment-0000000002".to_owned()), "{:?}", names());
    assert!(copies.path().join("segment-0000000001").exists());
}

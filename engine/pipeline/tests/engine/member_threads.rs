//! Members with threads, on real files: the stand-in for the consensus has a thread of its own, as the real one has.

use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use journaler::{Durability, RealStorage, SharedStorage};
use pipeline::{Engine, EngineConfig, EngineHandle, MemberPorts, ThreadPlan};
use protocol::{Body, Command, Sequence};
use replicator::Lead;
use ring::PublishError;

use crate::cluster::*;
use crate::support::*;
use crate::threaded::{PATIENCE, orders, real_config, unlocked};

/// Starts a member; its consensus takes what it gets, until all is done. `Some` changes the leadership at random times,
/// `None` leads in term 1.
fn start(
    storage: &SharedStorage,
    config: &EngineConfig,
    changes: Option<Random>,
) -> (EngineHandle, Recorder, JoinHandle<Consensus>) {
    let (opened, journal) = unlocked(|| Engine::open_member(Arc::clone(storage), config, &mut |_| ()));
    let (lead, recorder) = (Lead::new(), Recorder::default());
    let (parts, _) = parts(&lead);
    let (engine, ports) =
        Engine::start_member(config, opened, Box::new(recorder.clone()), parts).expect("the engine starts");
    let MemberPorts { feed, proposals, lead_changed, journal: gauges, .. } = ports;
    let mut consensus = Consensus::new(lead, journal, feed, proposals, lead_changed);
    consensus.catch_up(storage);
    let work = move || {
        let consensus_thread = thread::current();
        consensus.feed.as_mut().expect("a feed").on_room(move || consensus_thread.unpark());
        run(&mut consensus, &gauges, changes);
        consensus
    };
    (engine, recorder, thread::spawn(work))
}

fn run(consensus: &mut Consensus, gauges: &pipeline::JournalGauges, mut changes: Option<Random>) {
    let mut term = 1;
    consensus.lead_in(Some(term));
    let mut next_change = Instant::now();
    loop {
        let more = consensus.journal();
        gauges.set_durable(consensus.journal.as_ref().expect("a journal").durable_sequence());
        let refused = consensus.refused;
        consensus.feed(usize::MAX);
        if consensus.refused > refused {
            if consensus.feed.as_ref().is_some_and(|feed| feed.is_over()) {
                return;
            }
            // Nothing but the wake-up ends this.
            let asked = Instant::now();
            thread::park_timeout(PATIENCE);
            assert!(asked.elapsed() < PATIENCE, "a wake-up was lost");
            continue;
        }
        if !more && consensus.waiting.is_empty() {
            consensus.feed = None;
            return;
        }
        if let Some(random) = &mut changes
            && Instant::now() >= next_change
        {
            let leads = consensus.lead.term().is_some();
            term += u64::from(random.below(2) == 0 || !leads);
            consensus.lead_in((!leads || random.below(2) == 0).then_some(term));
            next_change = Instant::now() + Duration::from_micros(random.below(20_000));
        }
        thread::sleep(Duration::from_micros(20));
    }
}

/// Stops engine and consensus in good order, and gives the engine's end.
fn stop(engine: EngineHandle, consensus: JoinHandle<Consensus>) -> pipeline::Stopped {
    let stopped = engine.stop(PATIENCE);
    let mut consensus = consensus.join().expect("the consensus ends well");
    consensus.journal.take().expect("the journal").close().expect("the journal closes");
    stopped
}

#[test]
fn every_plan_of_threads_answers_everybody() {
    const ORDERS: u64 = 1_500;
    for (plan, durability) in [
        (ThreadPlan::single(), Durability::Memory),
        (ThreadPlan::for_cores(1), Durability::Disk),
        (ThreadPlan::for_cores(2), Durability::Memory),
        (ThreadPlan::for_cores(8), Durability::Disk),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let storage: SharedStorage = Arc::new(RealStorage::create(folder.path()).unwrap());
        let config = real_config(plan, durability);
        let (engine, recorder, consensus) = start(&storage, &config, None);
        let view = engine.view();
        // What comes before the start is dropped.
        let begun = Instant::now();
        while view.marks().applied_sequence() == Sequence(0) {
            assert!(begun.elapsed() < PATIENCE, "no start");
            thread::sleep(Duration::from_micros(50));
        }
        let mut ingress = engine.ingress();
        for frame in Flow::new(0).opening() {
            publish(&mut ingress, &frame, || thread::sleep(Duration::from_micros(50)));
        }
        drop(ingress);
        thread::scope(|scope| {
            for session in SESSIONS {
                let mut ingress = engine.ingress();
                scope.spawn(move || {
                    for frame in orders(session, 1, 1..ORDERS + 1) {
                        publish(&mut ingress, &frame, || thread::sleep(Duration::from_micros(50)));
                    }
                });
            }
        });
        let stopped = stop(engine, consensus);
        assert_eq!((stopped.drained, &stopped.fault), (true, &None));
        let exchange = stopped.exchange.expect("the last state");
        let accepted = view.events().events().find(|(name, _)| *name == "accepted");
        assert_eq!(accepted, Some(("accepted", SESSIONS.len() as u64 * ORDERS)));
        assert_eq!(view.reports_durable_sequence(), exchange.sequence());
        let told = acknowledged(&recorder, &view.report_reader());
        assert_eq!(replayed(&storage, exchange.sequence()).0.state_hash(), exchange.state_hash());
        // The directory is a server's alone as well.
        let opened = unlocked(|| Engine::open(Arc::clone(&storage), &config, &mut |_| ()));
        assert!(opened.found().journal.clean_stop);
        assert_eq!(opened.exchange().running_hash(), exchange.running_hash());
        assert_eq!(still_there(&told, &opened.report_reader(), exchange.trading_day()), Ok(()));
    }
}

#[test]
fn leadership_may_change_at_any_time() {
    let mut random = Random(seed(31));
    let folder = tempfile::tempdir().unwrap();
    let storage: SharedStorage = Arc::new(RealStorage::create(folder.path()).unwrap());
    let config = real_config(ThreadPlan::for_cores(8), Durability::Memory);
    let changes = Random(random.next());
    let (engine, _, consensus) = start(&storage, &config, Some(changes));
    thread::scope(|scope| {
        for session in SESSIONS {
            let mut ingress = engine.ingress();
            scope.spawn(move || {
                for frame in orders(session, 1, 1..8_001) {
                    while let Err(PublishError::Full(_)) = ingress.try_publish(frame.as_bytes()) {
                        thread::sleep(Duration::from_micros(50));
                    }
                    if frame.as_bytes()[8] % 16 == 0 {
                        thread::sleep(Duration::from_micros(100));
                    }
                }
            });
        }
    });
    let stopped = stop(engine, consensus);
    assert_eq!((stopped.drained, &stopped.fault), (true, &None));
    let exchange = stopped.exchange.expect("the last state");
    assert_eq!(replayed(&storage, exchange.sequence()).0.running_hash(), exchange.running_hash());
    let log = logged(&storage, exchange.sequence());
    check_terms(&storage, &log);
    // Each once, in the order of its publisher; and some were dropped, some not.
    for session in SESSIONS {
        let ids: Vec<u64> = log
            .iter()
            .filter(|command| command.session == session)
            .map(|command| command.request_id.0)
            .collect();
        assert!(ids.windows(2).all(|pair| pair[0] < pair[1]), "session {session}");
        assert!(!ids.is_empty() && ids.len() < 8_000, "session {session}: {} of 8000", ids.len());
    }
}

/// In each term the first frame is a start.
fn check_terms(storage: &SharedStorage, log: &[Command]) {
    let reader = journaler::JournalReader::open(storage.clone()).unwrap();
    let mut cursor = reader.frames_from(Sequence(1)).unwrap();
    let (mut term, mut terms) = (protocol::Term(0), 0);
    for command in log {
        cursor.next_frame(Sequence(log.len() as u64)).unwrap().expect("a frame");
        if cursor.term() > term {
            assert_eq!(command.body, Body::Start, "the first frame of term {}", cursor.term().0);
            term = cursor.term();
            terms += 1;
        }
    }
    assert!(terms > 3, "{terms} terms");
}

#[test]
fn a_member_that_is_killed_comes_back_with_what_was_committed() {
    let folder = tempfile::tempdir().unwrap();
    let storage: SharedStorage = Arc::new(RealStorage::create(folder.path()).unwrap());
    let config = real_config(ThreadPlan::for_cores(2), Durability::Disk);
    let (mut next, mut journaled, mut told) = (1, Sequence(0), Acknowledged::new());
    for round in 1..=4 {
        let (engine, recorder, consensus) = start(&storage, &config, None);
        let view = engine.view();
        // What was journaled is committed, by this stand-in's word.
        let begun = Instant::now();
        while view.marks().reported_sequence() <= journaled {
            assert!(begun.elapsed() < PATIENCE, "no start");
            thread::sleep(Duration::from_micros(50));
        }
        assert_eq!(still_there(&told, &view.report_reader(), view.gauges().trading_day), Ok(()));
        let mut ingress = engine.ingress();
        let mut frames = if round == 1 { definitions(START) } else { Vec::new() };
        frames.extend(logins(round, START));
        frames.extend(orders(SESSIONS[0], round, next..next + 1_000));
        next += 1_000;
        for frame in &frames {
            publish(&mut ingress, frame, || thread::sleep(Duration::from_micros(50)));
        }
        // In the middle of the work.
        drop((ingress, engine));
        let consensus = consensus.join().expect("the consensus ends well");
        told = acknowledged(&recorder, &view.report_reader());
        // The engine's own mark may be behind: it was killed with the last of it in its ring.
        let committed = consensus.feed.as_ref().expect("a feed").fed();
        drop(consensus);
        let (opened, journal) = unlocked(|| Engine::open_member(Arc::clone(&storage), &config, &mut |_| ()));
        let known = opened.found().journal.log.as_ref().expect("a summary").committed_sequence;
        assert_eq!(opened.exchange().sequence(), known);
        assert!(known <= committed && view.marks().committed_sequence() <= committed);
        assert_eq!(opened.exchange().state_hash(), replayed(&storage, known).0.state_hash());
        journaled = journal.journaled_sequence();
        assert!(journaled >= view.marks().committed_sequence());
    }
}

//! What an engine does with what it is given: reports, notices, depth, ticks, timers, restarts, snapshots.

use exchange::Exchange;
use journaler::JournalReader;
use journaler::storage::fake::FakeStorage;
use pipeline::{Engine, EngineView, ManualClock};
use protocol::{
    Body, Command, EndReason, Event, Notice, RejectReason, Report, ReportNumber, Sequence, SessionId, Side,
    Tick, TradingDay,
};

use crate::support::*;

/// The depth view shows the exchange's books.
fn check_depth(view: &EngineView, exchange: &Exchange) {
    for instrument in INSTRUMENTS {
        let shown = view.depth().snapshot(instrument, usize::MAX).expect("a known instrument");
        let mut real = exchange.depth(instrument, usize::MAX).expect("a known instrument");
        // The view stands at the last frame that emitted something or was seen to emit nothing.
        assert!(shown.sequence <= real.sequence);
        real.sequence = shown.sequence;
        assert_eq!(shown, real, "depth of instrument {instrument}");
    }
}

/// The report log holds each report that the exchange numbered, in order.
fn check_reports(view: &EngineView, outputs: &[protocol::Output]) {
    let (mut day, mut named) = (TradingDay(1), None);
    let mut expected: std::collections::BTreeMap<_, Vec<_>> = Default::default();
    for output in outputs {
        if let Event::DayStarted(next) = output.event {
            day = next;
        } else if let Event::Named(name) = output.event {
            named = Some(name.cl_ord_id);
        } else if let Some(to) = output.event.recipient() {
            let report = Report { output: *output, cl_ord_id: named.take() };
            expected.entry((to.session, day)).or_default().push(report);
        }
    }
    assert!(expected.values().flatten().any(|report| report.cl_ord_id.is_some()));
    for ((session, of_day), expected) in expected.iter().filter(|((_, of_day), _)| of_day.0 + 1 >= day.0) {
        let found = reports(&view.report_reader(), *session, *of_day);
        let found: Vec<_> = found.iter().map(|bytes| Report::decode(bytes).expect("a report")).collect();
        assert_eq!(&found, expected, "reports of session {session}, day {of_day}");
    }
}

#[test]
fn reports_notices_and_depth_follow_the_commands() {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let (mut engine, recorder) = stepped(&disk, &config(&time));
    let (mut ingress, view) = (engine.ingress(), engine.view());
    let mut flow = Flow::new(seed(1));
    feed(&mut engine, &mut ingress, &flow.opening());
    for day in 0..4 {
        let requests: Vec<_> = (0..1_500).map(|_| flow.request()).collect();
        feed(&mut engine, &mut ingress, &requests);
        if day < 3 {
            feed(&mut engine, &mut ingress, &[end_of_day(START)]);
        }
    }
    let marks = view.marks();
    let end = marks.journaled_sequence();
    assert!(end.0 > 6_000);
    for mark in [marks.committed_sequence(), marks.applied_sequence(), marks.reported_sequence()] {
        assert_eq!(mark, end);
    }
    let (replayed, outputs) = replayed(&disk, end);
    check_depth(&view, &replayed);
    check_reports(&view, &outputs);
    let days: Vec<_> =
        recorder.notices().into_iter().filter(|n| matches!(n, Notice::DayStarted(_))).collect();
    assert_eq!(days, [2, 3, 4].map(|day| Notice::DayStarted(TradingDay(day))));
    let counted: u64 = view.events().events().map(|(_, count)| count).sum();
    let checkpoints = outputs.iter().filter(|output| matches!(output.event, Event::Checkpoint(_))).count();
    assert_eq!(counted, (outputs.len() - checkpoints) as u64);
    drop(ingress);
    let last = engine.stop(STEPS_MAX).expect("a clean stop");
    assert_eq!(last.state_hash(), replayed.state_hash());
}

#[test]
fn each_session_is_told_once_a_batch_and_never_of_what_can_not_be_read() {
    struct Reading(std::sync::Arc<std::sync::Mutex<Option<EngineView>>>, Recorder);
    impl protocol::Egress for Reading {
        fn notify(&mut self, notice: Notice) {
            if let Notice::Reports(session, day, number) = notice {
                let view = self.0.lock().unwrap();
                let readable = view.as_ref().map(|view| view.report_reader().available(session, day));
                assert_eq!(readable, Some(number));
            }
            self.1.notify(notice);
        }
    }
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let (config, slot, recorder) = (config(&time), std::sync::Arc::default(), Recorder::default());
    let opened = pipeline::Engine::open(disk, &config, &mut |_| ()).unwrap();
    let egress = Reading(std::sync::Arc::clone(&slot), recorder.clone());
    let mut engine = pipeline::Engine::stepped(&config, opened, Box::new(egress)).unwrap();
    *slot.lock().unwrap() = Some(engine.view());
    let mut ingress = engine.ingress();
    let mut flow = Flow::new(seed(2));
    feed(&mut engine, &mut ingress, &flow.opening());
    let before = recorder.notices().len();
    let orders: Vec<_> = (1..=50)
        .map(|id| {
            let order = Body::NewOrder(limit(INSTRUMENTS[0], Side::Buy, 900, 1));
            frame(SESSIONS[0], connection(SESSIONS[0], 1), id, START, order)
        })
        .collect();
    feed(&mut engine, &mut ingress, &orders);
    assert_eq!(recorder.notices()[before..], [Notice::Reports(SESSIONS[0], TradingDay(1), ReportNumber(50))]);
}

#[test]
fn ticks_come_once_a_second_and_carry_the_last_checkpoint() {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let (mut engine, _) = stepped(&disk, &config(&time));
    engine.settle(STEPS_MAX);
    let start = engine.view().marks().applied_sequence();
    assert_eq!(start, Sequence(1), "the start");
    for _ in 0..40 {
        time.advance(milliseconds(100));
        engine.settle(STEPS_MAX);
    }
    assert_eq!(engine.view().marks().applied_sequence(), Sequence(5));
    let reader = journaler::JournalReader::open(disk).unwrap();
    let mut cursor = reader.frames_from(Sequence(1)).unwrap();
    let mut carried = Vec::new();
    while let Some((_, frame)) = cursor.next_frame(Sequence(5)).unwrap() {
        match protocol::Command::decode(frame).body {
            Body::Tick(tick) => carried.push(tick.checkpoint_sequence.0),
            body => assert_eq!(body, Body::Start),
        }
    }
    assert_eq!(carried, [0, 2, 3, 4]);
}

#[test]
fn the_grace_of_cancel_on_disconnect_ends_by_a_tick_of_its_own() {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let (mut engine, _) = stepped(&disk, &config(&time));
    let (mut ingress, view) = (engine.ingress(), engine.view());
    let mut flow = Flow::new(0);
    feed(&mut engine, &mut ingress, &flow.opening());
    let [_, _, session] = SESSIONS;
    let order = Body::NewOrder(limit(INSTRUMENTS[0], Side::Buy, 900, 1));
    let frames = [frame(session, connection(session, 1), 1, START, order), disconnect(session, 1, START)];
    feed(&mut engine, &mut ingress, &frames);
    let orders = || view.depth().snapshot(INSTRUMENTS[0], 1).unwrap().bids.len();
    time.advance(milliseconds(u64::from(GRACE_MS) - 1));
    engine.settle(STEPS_MAX);
    assert_eq!(orders(), 1, "within the grace period");
    let before = view.marks().applied_sequence();
    time.advance(milliseconds(1));
    engine.settle(STEPS_MAX);
    assert_eq!(orders(), 0, "the grace period is over");
    assert_eq!(view.marks().applied_sequence(), before.next(), "one tick");
}

#[test]
fn a_start_ends_every_connection_and_what_still_comes_on_them_is_refused() {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let (mut engine, _) = stepped(&disk, &config(&time));
    let mut ingress = engine.ingress();
    let mut flow = Flow::new(0);
    feed(&mut engine, &mut ingress, &flow.opening());
    drop((ingress, engine));
    let (mut engine, recorder) = stepped(&disk, &config(&time));
    let mut ingress = engine.ingress();
    let order = Body::NewOrder(limit(INSTRUMENTS[0], Side::Buy, 900, 1));
    feed(&mut engine, &mut ingress, &[frame(SESSIONS[0], connection(SESSIONS[0], 1), 1, START, order)]);
    let ended: Vec<_> = recorder
        .notices()
        .into_iter()
        .filter_map(|notice| match notice {
            Notice::ConnectionEnded(session, _, reason) => Some((session, reason)),
            _ => None,
        })
        .collect();
    assert_eq!(ended, SESSIONS.map(|session| (session, EndReason::Server)));
    let found = reports(&engine.view().report_reader(), SESSIONS[0], TradingDay(1));
    let Event::Rejected(rejected) = Report::decode(found.last().unwrap()).unwrap().output.event else {
        panic!("a reject is due");
    };
    assert_eq!(rejected.reason, RejectReason::NotLoggedIn);
}

#[test]
fn a_checkpoint_of_another_history_ends_the_engine() {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let (mut engine, recorder) = stepped(&disk, &config(&time));
    let mut ingress = engine.ingress();
    time.advance(milliseconds(1_000));
    feed(&mut engine, &mut ingress, &[]);
    let tick = |hash| Body::Tick(Tick { checkpoint_sequence: Sequence(2), checkpoint_hash: hash });
    let (_, outputs) = replayed(&disk, engine.view().marks().journaled_sequence());
    let hash = outputs.iter().find_map(|output| match output.event {
        Event::Checkpoint(checkpoint) => Some(checkpoint.running_hash),
        _ => None,
    });
    let at = time.clock().now();
    feed(&mut engine, &mut ingress, &[frame(SessionId::SYSTEM, 0, 0, at, tick(hash.unwrap()))]);
    assert_eq!(engine.view().fault(), None);
    let wrong = Body::Tick(Tick { checkpoint_sequence: Sequence(3), checkpoint_hash: 1 });
    let mut frames = vec![frame(SessionId::SYSTEM, 0, 0, at, wrong)];
    frames.extend(definitions(at));
    for frame in &frames {
        ingress.try_publish(frame.as_bytes()).unwrap();
    }
    engine.settle(STEPS_MAX);
    let fault = engine.view().fault().expect("a fault");
    assert!(fault.contains("sequence 3"), "{fault}");
    assert_eq!(recorder.notices(), [], "nothing of a state that can't be trusted goes out");
}

#[test]
fn a_switch_to_unknown_rules_ends_the_engine_and_each_start_behind_it() {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let settings = config(&time);
    let (mut engine, recorder) = stepped(&disk, &settings);
    let mut ingress = engine.ingress();
    feed(&mut engine, &mut ingress, &definitions(START));
    let before = engine.view().marks().applied_sequence();
    let told = recorder.notices();

    let system = |body| frame(SessionId::SYSTEM, 0, 0, START, body);
    let switch = Body::SetRulebook(exchange::RULEBOOK_VERSION + 1);
    // All in one batch: what comes before the switch is applied, it and what comes behind it is not.
    for body in [Body::EndOfDay, switch, Body::EndOfDay] {
        ingress.try_publish(system(body).as_bytes()).unwrap();
    }
    engine.settle(STEPS_MAX);
    let fault = engine.view().fault().expect("a fault");
    let at = Sequence(before.0 + 2);
    assert!(fault.contains("version 3") && fault.contains(&format!("sequence {at}:")), "{fault}");
    assert_eq!(recorder.notices(), told, "nothing of that batch is told any more");
    let left = engine.abandon().expect("the state");
    assert_eq!((left.sequence(), left.trading_day()), (Sequence(before.0 + 1), TradingDay(2)));

    for _ in 0..2 {
        let error = Engine::open(disk.clone(), &settings, &mut |_| ()).expect_err("refused");
        assert_eq!(error.to_string(), fault, "a start says the same");
    }
    let reader = JournalReader::open(disk.clone()).unwrap();
    let mut cursor = reader.frames_from(at).unwrap();
    let frames = std::iter::from_fn(|| cursor.next_frame(at.next()).unwrap().map(|(_, f)| f.to_vec()));
    let kept: Vec<_> = frames.map(|frame| Command::decode(&frame).body).collect();
    assert_eq!(kept, [switch, Body::EndOfDay], "the journal is whole for the newer program");
}

#[test]
fn where_batches_are_cut_changes_nothing() {
    let mut flow = Flow::new(seed(3));
    let mut frames = flow.opening();
    frames.extend((0..4_000).map(|_| flow.request()));
    let mut seen = Vec::new();
    for cut in [1, 7, 100, 900] {
        let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
        let (mut engine, _) = stepped(&disk, &config(&time));
        let mut ingress = engine.ingress();
        for batch in frames.chunks(cut) {
            feed(&mut engine, &mut ingress, batch);
        }
        drop(ingress);
        let view = engine.view();
        let exchange = engine.stop(STEPS_MAX).expect("a clean stop");
        let all: Vec<_> = SESSIONS
            .iter()
            .flat_map(|session| reports(&view.report_reader(), *session, exchange.trading_day()))
            .collect();
        seen.push((exchange.running_hash(), exchange.state_hash(), exchange.book_hash(), all));
    }
    assert!(seen.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn snapshots_shorten_the_journal_and_bring_back_the_same_state() {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let mut flow = Flow::new(seed(4));
    let mut made = Vec::new();
    for round in 0..4 {
        let (mut engine, recorder) = stepped(&disk, &config(&time));
        let mut ingress = engine.ingress();
        feed(&mut engine, &mut ingress, &flow.opening());
        for _ in 0..4 {
            let requests: Vec<_> = (0..1_000).map(|_| flow.request()).collect();
            feed(&mut engine, &mut ingress, &requests);
            time.advance(milliseconds(1_000));
            engine.settle(STEPS_MAX);
        }
        made.extend(engine.make_snapshot().expect("a snapshot").map(|made| made.header.sequence));
        engine.keep_house().expect("housekeeping");
        let told = acknowledged(&recorder, &engine.view().report_reader());
        drop(ingress);
        let state = if round % 2 == 0 { engine.stop(STEPS_MAX) } else { engine.abandon() };
        let state = state.expect("the last state");
        let opened = pipeline::Engine::open(disk.clone(), &config(&time), &mut |_| ()).unwrap();
        assert_eq!(opened.exchange().state_hash(), state.state_hash());
        assert_eq!(opened.exchange().running_hash(), state.running_hash());
        assert_eq!(opened.found().from_snapshot, made.last().copied());
        assert_eq!(still_there(&told, &opened.report_reader(), state.trading_day()), Ok(()));
        flow.next_round();
    }
    assert_eq!(made.len(), 4);
    let reader = journaler::JournalReader::open(disk).unwrap();
    assert!(reader.first_sequence() > Sequence(1), "old segments are gone");
}

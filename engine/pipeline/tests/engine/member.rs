//! An engine as a member of a cluster: what is proposed, what is dropped, what is fed, and what a restart makes of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use exchange::Exchange;
use journaler::storage::Access;
use journaler::storage::fake::{Call, FakeStorage, Fault};
use journaler::{EntryReader, Journal, JournalReader, SharedStorage};
use pipeline::{Engine, EngineConfig, ManualClock, StartError, ThreadPlan};
use protocol::{
    Body, Checkpoint, Command, FrameWriter, REPORT_STRIDE, Sequence, SessionId, Side, Term, Tick, TradingDay,
};
use replicator::Lead;
use ring::{PublishError, Work};

use crate::cluster::*;
use crate::support::*;

/// A fresh member that leads in term 1.
fn leader(storage: &SharedStorage, config: &EngineConfig) -> Member {
    let mut member = Member::open(storage, config);
    member.consensus.lead_in(Some(1));
    member.settle();
    member
}

fn fed(member: &Member) -> Sequence {
    member.consensus.feed.as_ref().expect("a feed").fed()
}

/// An order that is told apart by its id.
fn order(id: u64) -> FrameWriter {
    let body = Body::NewOrder(limit(INSTRUMENTS[0], Side::Buy, 900, 1));
    frame(SESSIONS[0], connection(SESSIONS[0], 1), id, START, body)
}

/// A log as text: `S` for a start, `T` for a tick, else the request's id.
fn text(commands: &[Command]) -> String {
    let name = |command: &Command| match command.body {
        Body::Start => "S".to_owned(),
        Body::Tick(_) => "T".to_owned(),
        _ => command.request_id.to_string(),
    };
    commands.iter().map(name).collect::<Vec<_>>().join(" ")
}

fn flow_frames(seed: u64, requests: usize) -> Vec<FrameWriter> {
    let mut flow = Flow::new(seed);
    let mut frames = flow.opening();
    frames.extend((0..requests).map(|_| flow.request()));
    frames
}

/// Everything that can be told apart of an outcome.
type Outcome = (Sequence, u64, u64, u64, Vec<Vec<[u8; REPORT_STRIDE]>>);

fn outcome(exchange: &Exchange, view: &pipeline::EngineView) -> Outcome {
    let days = (1..=exchange.trading_day().0).map(TradingDay);
    let all =
        days.flat_map(|day| SESSIONS.map(|session| reports(&view.report_reader(), session, day))).collect();
    (exchange.sequence(), exchange.running_hash(), exchange.state_hash(), exchange.book_hash(), all)
}

fn alone(frames: &[FrameWriter]) -> Outcome {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let (mut engine, _) = stepped(&disk, &config(&time));
    let mut ingress = engine.ingress();
    feed(&mut engine, &mut ingress, frames);
    drop(ingress);
    let view = engine.view();
    let exchange = engine.stop(STEPS_MAX).expect("a clean stop");
    outcome(&exchange, &view)
}

#[test]
fn a_member_gives_the_outputs_of_a_server_alone() {
    let frames = flow_frames(seed(21), 4_000);
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let mut member = leader(&disk, &config(&time));
    member.publish_all(&frames);
    let view = member.engine.view();
    let (marks, end) = (view.marks(), fed(&member));
    assert_eq!(end, Sequence(1 + frames.len() as u64), "a start and the frames");
    for mark in [marks.journaled_sequence(), marks.committed_sequence(), marks.reported_sequence()] {
        assert_eq!(mark, end);
    }
    let exchange = member.stop().expect("a clean stop");
    assert_eq!(outcome(&exchange, &view), alone(&frames));
    assert_eq!(view.fault(), None);
    assert_eq!(logged(&disk, end)[0].body, Body::Start);
}

#[test]
fn only_what_was_published_under_a_leadership_is_proposed_in_it() {
    // `L1`, `L-`: leads in term 1, does not lead; `12`: publishes order 12; `.`: all is brought to rest.
    for (steps, log) in [
        (". 1 2 .", ""),
        ("L1 . 1 2 . 3 .", "S 1 2 3"),
        ("1 2 L1 .", "S"),
        ("1 . L1 2 . 3 .", "S 3"),
        ("L1 . 1 2 L- .", "S"),
        ("L1 . 1 . 2 L- . 3 L2 4 . 5 .", "S 1 S 5"),
        ("L1 . 1 . 2 3 L2 . 4 .", "S 1 S 4"),
        ("L1 . 1 . L- . L1 . 2 .", "S 1 S 2"),
        ("L1 . L- L1 . 1 .", "S 1"),
        ("L7 . 1 . L- L9 2 . 3 .", "S 1 S 3"),
    ] {
        let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
        let mut member = Member::open(&disk, &config(&time));
        for step in steps.split(' ') {
            match step.split_at(1) {
                (".", "") => member.settle(),
                ("L", term) => member.consensus.lead_in(term.parse().ok()),
                _ => member.ingress.try_publish(order(step.parse().unwrap()).as_bytes()).unwrap(),
            }
        }
        assert_eq!(text(&logged(&disk, fed(&member))), log, "{steps}");
        assert_eq!(member.ingress.free_slots(), member.ingress.capacity(), "{steps}: nothing stays behind");
    }
}

#[test]
fn each_term_begins_with_a_start_of_its_own_time_under_that_term() {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let mut member = Member::open(&disk, &config(&time));
    for term in [3, 4, 9] {
        time.advance(milliseconds(10));
        member.consensus.lead_in(Some(term));
        member.engine.step();
        let proposal = member.consensus.proposal().unwrap().expect("a start");
        assert_eq!(proposal.term, Term(term));
        let start = Command::decode(&proposal.frames);
        let expected = frame(SessionId::SYSTEM, 0, 0, time.clock().now(), Body::Start);
        assert_eq!((start.body, &proposal.frames[..]), (Body::Start, &padded(&expected)[..]));
        assert_eq!(member.consensus.proposal().map(|none| none.is_none()), Ok(true), "and nothing else");
    }
}

#[test]
fn entries_are_what_is_waiting_and_no_longer_than_a_batch() {
    // Bytes of the journal's segments, frames waiting, and the entries that they make.
    for (segment_bytes, waiting, expected) in [
        (256 * 1024, 1, vec![1, 1]),
        (256 * 1024, 5_000, vec![1, 2048, 2048, 904]),
        (64 * 1024, 2_000, vec![1, 894, 894, 212]),
    ] {
        let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
        let mut config = config(&time);
        config.input_slots = 1 << 13;
        config.journal.segment_bytes = segment_bytes;
        let mut member = leader(&disk, &config);
        // A disconnect is the shortest frame that a gateway publishes: one slot.
        for _ in 0..waiting {
            let frame = disconnect(SESSIONS[0], 1, START);
            assert_eq!(padded(&frame).len(), 64);
            member.ingress.try_publish(frame.as_bytes()).unwrap();
        }
        member.settle();
        assert_eq!(member.consensus.entries, expected);
    }
}

#[test]
fn an_entry_ends_behind_its_tick() {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let mut member = leader(&disk, &config(&time));
    let before = member.consensus.entries.len();
    let tick = Tick { checkpoint_sequence: Sequence(0), checkpoint_hash: 0 };
    let tick = Command {
        session: SessionId::SYSTEM,
        timestamp: START,
        body: Body::Tick(tick),
        ..Command::default()
    };
    let tick = tick.encode().expect("a tick has a frame");
    for ticks in [false, false, true, false, true, true, false] {
        let frame = if ticks { tick.clone() } else { disconnect(SESSIONS[0], 1, START) };
        member.ingress.try_publish(frame.as_bytes()).unwrap();
    }
    member.settle();
    assert_eq!(member.consensus.entries[before..], [3, 2, 1, 1]);
}

#[test]
fn a_consensus_that_takes_nothing_stops_the_publishers_and_nothing_is_lost() {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let mut config = config(&time);
    config.input_slots = 128;
    let mut member = leader(&disk, &config);
    let before = fed(&member);
    let mut published = 0;
    loop {
        match member.ingress.try_publish(order(published + 1).as_bytes()) {
            Ok(()) => published += 1,
            Err(PublishError::Full(_)) if member.engine.settle(STEPS_MAX) => {
                if member.ingress.free_slots() < 2 {
                    break;
                }
            }
            Err(error) => panic!("{error}"),
        }
        assert!(published < 10_000, "nothing stops the publishers");
    }
    assert_eq!(fed(&member), before);
    member.settle();
    assert_eq!(fed(&member).0, before.0 + published);
    let ids: Vec<u64> = logged(&disk, fed(&member))[1..].iter().map(|command| command.request_id.0).collect();
    assert_eq!(ids, (1..=published).collect::<Vec<_>>(), "all, once, in order");
    member.publish_all(&[order(published + 1)]);
    assert_eq!(fed(&member).0, before.0 + published + 1, "and it goes on");
}

#[test]
fn a_consensus_that_ends_first_leaves_nobody_waiting() {
    for in_flight in [0, 5, 100] {
        let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
        let mut member = leader(&disk, &config(&time));
        for id in 1..=in_flight {
            member.ingress.try_publish(order(id).as_bytes()).unwrap();
            member.engine.step();
        }
        let Member { mut engine, consensus, mut ingress, .. } = member;
        drop(consensus);
        ingress.try_publish(order(in_flight + 1).as_bytes()).unwrap();
        assert!(engine.settle(STEPS_MAX));
        assert_eq!(ingress.free_slots(), ingress.capacity(), "what nobody takes is dropped");
        drop(ingress);
        assert_eq!(engine.view().fault(), None);
        assert!(engine.stop(STEPS_MAX).is_some(), "{in_flight} in flight");
    }
}

#[test]
fn how_frames_are_fed_changes_nothing() {
    let frames = flow_frames(seed(22), 3_000);
    let expected = alone(&frames);
    let mut refused = 0;
    for (input_slots, most) in [(64, 1), (64, 100), (1024, 7), (1024, 5_000)] {
        let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
        let mut config = config(&time);
        config.input_slots = input_slots;
        config.threads = ThreadPlan::parse([
            "journal+ticker",
            "replicate",
            "unmarshal",
            "logic",
            "reports",
            "depth+metrics",
        ])
        .unwrap();
        let mut random = Random(seed(23) ^ most);
        let mut member = leader(&disk, &config);
        let mut next = 0;
        while next < frames.len() || !member.consensus.waiting.is_empty() {
            while next < frames.len() && random.below(4) > 0 {
                match member.ingress.try_publish(frames[next].as_bytes()) {
                    Ok(()) => next += 1,
                    Err(_) => break,
                }
            }
            for _ in 0..random.below(8) {
                let thread = random.below(member.engine.threads() as u64) as usize;
                member.engine.step_thread(thread);
            }
            member.consensus.journal();
            if random.below(4) == 0 {
                member.consensus.feed(1 + random.below(most) as usize);
            }
        }
        member.settle();
        refused += member.consensus.refused;
        let view = member.engine.view();
        let exchange = member.stop().expect("a clean stop");
        assert_eq!(outcome(&exchange, &view), expected, "{input_slots} slots, at most {most} frames");
    }
    assert!(refused > 10, "the input ring was full at times: {refused}");
}

#[test]
fn room_is_told_of_where_it_was_missing() {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let mut config = config(&time);
    config.input_slots = 64;
    let mut member = Member::open(&disk, &config);
    let told = Arc::new(AtomicU64::new(0));
    let (count, calls) = (Arc::clone(&told), || told.load(Ordering::Relaxed));
    let feed = member.consensus.feed.as_mut().unwrap();
    feed.on_room(move || {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let frames: Vec<u8> = (1..=100).flat_map(|id| padded(&order(id))).collect();
    let first = feed.push(&frames[..frames.len() / 4]);
    assert_eq!(first, frames.len() / 4);
    assert!(member.engine.settle(STEPS_MAX));
    assert_eq!(calls(), 0, "nobody asked");
    let feed = member.consensus.feed.as_mut().unwrap();
    let second = first + feed.push(&frames[first..]);
    assert!(second < frames.len() && frames.len() - second < 64 * 64, "full");
    assert_eq!(feed.push(&frames[second..]), 0);
    assert!(member.engine.settle(STEPS_MAX));
    assert_eq!(calls(), 1, "once for all that was asked");
    let feed = member.consensus.feed.as_mut().unwrap();
    assert_eq!(feed.push(&frames[second..]), frames.len() - second);
    assert_eq!(feed.fed(), Sequence(100));
    assert_eq!(feed.push(&[]), 0);
    // When the logic has ended there is none any more, and that is told too.
    assert!(feed.push(&frames) < frames.len());
    assert!(!feed.is_over());
    drop(member.engine);
    assert_eq!(calls(), 2);
    assert!(member.consensus.feed.unwrap().is_over());
}

#[test]
#[should_panic(expected = "not whole frames")]
fn half_a_frame_is_not_fed() {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let mut member = Member::open(&disk, &config(&time));
    member.consensus.feed.as_mut().unwrap().push(&padded(&order(1))[..60]);
}

#[test]
fn a_restart_applies_nothing_that_is_not_known_to_be_committed() {
    let frames = flow_frames(seed(24), 1_000);
    // Whether the journal is told of the second third's commit, whether the last third is an uncommitted tail, whether
    // the member stops in good order; and how much of it a start then applies.
    for (tells, tail, clean, thirds) in [
        (true, true, false, 2),
        (false, true, false, 1),
        (true, false, true, 3),
        (true, true, true, 3),
        (false, false, false, 1),
    ] {
        let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
        let mut member = leader(&disk, &config(&time));
        let mut ends = vec![Sequence(0)];
        for (third, frames) in frames.chunks(frames.len().div_ceil(3)).enumerate() {
            member.consensus.tells = third == 0 || tells;
            if third == 2 && tail {
                let slots: Vec<u8> = frames.iter().flat_map(padded).collect();
                member.consensus.append(&slots, Term(1));
                ends.push(member.consensus.journal.as_ref().unwrap().journaled_sequence());
                if clean {
                    member.consensus.waiting = slots;
                }
            } else {
                member.publish_all(frames);
                ends.push(fed(&member));
            }
        }
        let told = acknowledged(&member.recorder, &member.engine.view().report_reader());
        if clean {
            assert!(member.stop().is_some());
        } else {
            drop((member.engine, member.consensus, member.ingress));
        }

        let mut member = Member::open(&disk, &config(&time));
        let view = member.engine.view();
        let case = format!("tells {tells}, tail {tail}, clean {clean}");
        assert_eq!(fed(&member), ends[thirds], "{case}");
        for mark in [view.marks().committed_sequence(), view.marks().applied_sequence()] {
            assert_eq!(mark, ends[thirds]);
        }
        // The rest turns out to be committed: the reports of before are there again, and all is as if nothing had been.
        member.consensus.catch_up(&disk);
        member.settle();
        assert_eq!(fed(&member), ends[3], "{case}");
        let exchange = member.stop().expect("a clean stop");
        assert_eq!(still_there(&told, &view.report_reader(), exchange.trading_day()), Ok(()));
        assert_eq!(outcome(&exchange, &view), alone(&frames), "{case}");
    }
}

#[test]
fn snapshots_stay_within_what_is_committed_and_the_consensus_is_told_what_they_need() {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let mut config = config(&time);
    config.journal.segment_bytes = 64 * 1024;
    let mut flow = Flow::new(seed(25));
    let mut member = leader(&disk, &config);
    member.publish_all(&flow.opening());
    // Requests, and two ticks of which the second carries the first one's checkpoint.
    let mut go_on = |member: &mut Member| {
        let requests: Vec<_> = (0..600).map(|_| flow.request()).collect();
        member.publish_all(&requests);
        for _ in 0..2 {
            time.advance(milliseconds(1_000));
            member.settle();
            member.confirmed.set(*member.checkpoints.recent().last().expect("a tick came"));
        }
        fed(member)
    };
    let mut made = Vec::new();
    for _ in 0..3 {
        go_on(&mut member);
        let snapshot = member.engine.make_snapshot().expect("no error").expect("a confirmed checkpoint");
        made.push(snapshot.header.sequence);
    }
    assert!(made.windows(2).all(|pair| pair[0] < pair[1]));
    let needed = *member.needed.lock().unwrap().last().expect("told");
    assert_eq!(needed, made[0].next(), "before the third one was made");
    member.engine.keep_house().expect("housekeeping");
    let needed = *member.needed.lock().unwrap().last().expect("told");
    assert_eq!(needed, made[1].next(), "what the older of the two that are kept still needs");
    let first = JournalReader::open(disk.clone()).unwrap().first_sequence();
    assert_eq!(first, Sequence(1), "the engine prunes nothing");

    // A restart that does not know how much of it is committed, though it is durable and reported.
    let committed = go_on(&mut member);
    member.consensus.tells = false;
    let end = go_on(&mut member);
    member.engine.keep_house().expect("housekeeping");
    drop((member.engine, member.consensus, member.ingress));
    let mut member = Member::open(&disk, &config);
    let view = member.engine.view();
    assert_eq!((fed(&member), view.journal().durable_sequence()), (committed, end));
    assert_eq!(view.reports_durable_sequence(), end);
    let snapshot = member.engine.make_snapshot().expect("no error").expect("a confirmed checkpoint");
    assert!(*made.last().unwrap() < snapshot.header.sequence && snapshot.header.sequence < committed);

    // A snapshot shows what is committed too.
    member.consensus.catch_up(&disk);
    member.settle();
    member.engine.keep_house().expect("housekeeping");
    let snapshot = member.engine.make_snapshot().expect("no error").expect("a confirmed checkpoint");
    assert!(snapshot.header.sequence > committed);
    drop((member.engine, member.consensus, member.ingress));
    let member = Member::open(&disk, &config);
    assert_eq!(fed(&member), snapshot.header.sequence);
}

/// Copies a folder of a data directory, with what is in it.
fn copy(from: &SharedStorage, to: &SharedStorage, folder: &str) {
    to.create_dir(folder).unwrap();
    for name in from.list(folder).unwrap() {
        let path = format!("{folder}/{name}");
        match from.open(&path, Access::Read) {
            Err(_) => copy(from, to, &path),
            Ok(file) => {
                let mut bytes = vec![0; 1 << 24];
                let length = file.read_at(&mut bytes, 0).unwrap();
                assert!(length < bytes.len(), "{path} is longer than is copied");
                to.create(&path).unwrap().write_all_at(&bytes[..length], 0).unwrap();
            }
        }
    }
}

#[test]
fn a_member_that_starts_from_anothers_snapshot_goes_on_with_its_entries() {
    let frames = flow_frames(seed(26), 2_000);
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let config = config(&time);
    let mut member = leader(&disk, &config);
    let (before, behind) = frames.split_at(900);
    member.publish_all(before);
    for _ in 0..2 {
        time.advance(milliseconds(1_000));
        member.settle();
        member.confirmed.set(*member.checkpoints.recent().last().expect("a tick came"));
    }
    member.publish_all(behind);
    member.engine.keep_house().expect("housekeeping");
    let snapshot = member.engine.make_snapshot().expect("no error").expect("a confirmed checkpoint");
    let snapshot = snapshot.header.sequence;
    assert!(snapshot < fed(&member));
    member.engine.keep_house().expect("housekeeping");
    let told = acknowledged(&member.recorder, &member.engine.view().report_reader());

    let other = FakeStorage::new().shared();
    copy(&disk, &other, "snapshots");
    copy(&disk, &other, "reports");
    let at = EntryReader::open(disk.clone()).unwrap().entry_at(snapshot).unwrap();
    assert_eq!(at.sequence, snapshot, "a snapshot is at an entry's end");
    drop(Journal::create_behind(other.clone(), config.journal.clone(), at).unwrap());
    let mut joined = Member::open(&other, &config);
    assert_eq!(fed(&joined), snapshot);
    let end = member.consensus.journal.as_ref().unwrap().index() + 1;
    let entries = EntryReader::open(disk.clone()).unwrap().read(at.index + 1, end, 1 << 24).unwrap();
    for entry in &entries {
        joined.consensus.append(&entry.payload, entry.term);
        joined.consensus.waiting.extend_from_slice(&entry.payload);
    }
    joined.settle();
    let (theirs, view) = (member.stop().expect("a clean stop"), joined.engine.view());
    let exchange = joined.stop().expect("a clean stop");
    assert_eq!(exchange.sequence(), theirs.sequence());
    assert_eq!(
        (exchange.running_hash(), exchange.state_hash()),
        (theirs.running_hash(), theirs.state_hash())
    );
    assert_eq!(still_there(&told, &view.report_reader(), exchange.trading_day()), Ok(()));
    // And it starts again by itself.
    let joined = Member::open(&other, &config);
    assert_eq!(fed(&joined), exchange.sequence());
}

#[test]
fn ticks_come_from_a_leader_only_and_carry_only_what_is_confirmed() {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let mut member = Member::open(&disk, &config(&time));
    let second = |member: &mut Member| {
        time.advance(milliseconds(1_000));
        member.settle();
    };
    second(&mut member);
    second(&mut member);
    assert_eq!(fed(&member), Sequence(0), "nobody leads");
    member.consensus.lead_in(Some(1));
    member.settle();
    assert_eq!(fed(&member), Sequence(2), "a start, and at once a tick");
    second(&mut member);
    second(&mut member);
    let own = member.checkpoints.recent();
    assert_eq!(own.iter().map(|own| own.sequence.0).collect::<Vec<_>>(), [2, 3, 4]);
    member.confirmed.set(own[1]);
    second(&mut member);
    second(&mut member);
    member.confirmed.set(own[2]);
    member.confirmed.set(own[0]);
    second(&mut member);
    member.consensus.lead_in(None);
    second(&mut member);
    let log = logged(&disk, fed(&member));
    let carried: Vec<_> = log
        .iter()
        .filter_map(|command| match command.body {
            Body::Tick(tick) => Some((tick.checkpoint_sequence.0, tick.checkpoint_hash)),
            _ => None,
        })
        .collect();
    let hash = |place: usize| (own[place].sequence.0, own[place].running_hash);
    assert_eq!(carried, [(0, 0), (0, 0), (0, 0), hash(1), hash(1), hash(2)]);
    assert_eq!(text(&log), "S T T T T T T");
    assert_eq!(member.engine.view().fault(), None);
}

#[test]
fn a_timer_whose_tick_was_dropped_with_its_term_is_served_by_the_next_start() {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let mut member = leader(&disk, &config(&time));
    member.publish_all(&Flow::new(0).opening());
    let [_, _, session] = SESSIONS;
    let body = Body::NewOrder(limit(INSTRUMENTS[0], Side::Buy, 900, 1));
    let order = frame(session, connection(session, 1), 1, START, body);
    member.publish_all(&[order, disconnect(session, 1, START)]);
    let view = member.engine.view();
    let orders = || view.depth().snapshot(INSTRUMENTS[0], 1).unwrap().bids.len();
    // The tick for the deadline is proposed, and lost with the term.
    time.advance(milliseconds(u64::from(GRACE_MS)));
    member.engine.step();
    member.engine.step();
    let lost = member.consensus.proposal().unwrap().expect("a tick");
    assert!(matches!(Command::decode(&lost.frames).body, Body::Tick(_)));
    member.engine.settle(STEPS_MAX);
    assert_eq!(orders(), 1);
    member.consensus.lead_in(Some(2));
    member.settle();
    assert_eq!(orders(), 0, "no second passed");
}

/// The evidence as it lies in the data directory.
fn evidence(disk: &FakeStorage, sequence: u64) -> serde_json::Value {
    let file = disk.shared().open(&format!("divergence-{sequence}.json"), Access::Read);
    let file = file.expect("the evidence");
    let mut bytes = vec![0; 1 << 16];
    let length = file.read_at(&mut bytes, 0).unwrap();
    serde_json::from_slice(&bytes[..length]).expect("JSON")
}

#[test]
fn a_member_that_is_contradicted_stops_and_keeps_the_evidence() {
    for by_log in [true, false] {
        let (fake, time) = (FakeStorage::new(), ManualClock::at(START));
        let disk = fake.shared();
        let mut member = leader(&disk, &config(&time));
        member.publish_all(&Flow::new(0).opening());
        for _ in 0..100 {
            time.advance(milliseconds(1_000));
            member.settle();
        }
        let own = member.checkpoints.recent();
        assert_eq!(own.len(), 64);
        let last = *own.last().unwrap();
        let told = member.recorder.notices();
        let view = member.engine.view();
        // Everything behind it waits in the input ring.
        let wrong = Tick { checkpoint_sequence: last.sequence, checkpoint_hash: 0xbad };
        let tick = frame(SessionId::SYSTEM, 0, 0, time.clock().now(), Body::Tick(wrong));
        let orders: Vec<u8> = (1..=10).flat_map(|id| padded(&order(id))).collect();
        let feed = member.consensus.feed.as_mut().unwrap();
        if by_log {
            feed.push(&padded(&tick));
        }
        feed.push(&orders);
        if !by_log {
            view.diverged(Checkpoint { running_hash: 0xbad, ..last }, "members 2 and 3");
        }
        let applied = view.marks().applied_sequence();
        member.engine.settle(STEPS_MAX);
        let fault = view.fault().expect("a fault");
        let place = format!("sequence {}", last.sequence);
        for part in [&place, "0000000000000bad", "divergence-", "join again"] {
            assert!(fault.contains(part), "{fault}");
        }
        assert!(!fault.contains('\n'), "{fault}");
        assert_eq!(fault.contains("members 2 and 3"), !by_log);
        assert_eq!(member.recorder.notices(), told, "nothing more is told");
        if !by_log {
            assert_eq!(view.marks().applied_sequence(), applied, "nothing more is applied");
        }
        let found = evidence(&fake, last.sequence.0);
        assert_eq!(found["sequence"], last.sequence.0);
        assert_eq!(found["own_hash"], format!("{:016x}", last.running_hash));
        assert_eq!(found["expected_hash"], "0000000000000bad");
        assert_eq!(found["contradicted_by"], if by_log { "the log" } else { "members 2 and 3" });
        let kept = found["checkpoints"].as_array().unwrap();
        assert_eq!(kept.len(), 64);
        assert!(kept.iter().any(|kept| kept["running_hash"] == found["own_hash"]));
        // A second verdict on the same sequence, as after a restart: what was found first stays.
        drop((member.engine, member.consensus, member.ingress));
        let member = Member::open(&disk, &config(&time));
        member.engine.view().diverged(Checkpoint { running_hash: 5, ..last }, "members 2 and 3");
        assert!(member.engine.view().fault().is_some());
        assert_eq!(evidence(&fake, last.sequence.0), found);
    }
}

#[test]
fn evidence_that_can_not_be_written_does_not_keep_the_engine_going() {
    let (disk, time) = (FakeStorage::new(), ManualClock::at(START));
    let mut member = leader(&disk.shared(), &config(&time));
    disk.inject(Fault { call: Call::Create, path: "divergence".to_owned(), after: 0, errno: 28 });
    let expected = Checkpoint { sequence: Sequence(77), running_hash: 1 };
    member.engine.view().diverged(expected, "members 2 and 3");
    let fault = member.engine.view().fault().expect("a fault");
    assert!(fault.contains("could not be written") && fault.contains("no longer known"), "{fault}");
    assert_eq!(member.engine.step(), Work::Finished);
}

#[test]
fn what_was_opened_for_one_kind_is_not_started_as_the_other() {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let config = config(&time);
    let egress = || Box::new(Recorder::default());
    let (opened, journal) = Engine::open_member(disk.clone(), &config, &mut |_| ()).unwrap();
    let refused = Engine::stepped(&config, opened, egress()).err();
    assert!(matches!(refused, Some(StartError::OpenedFor("a member of a cluster"))));
    drop(journal);
    let opened = Engine::open(disk, &config, &mut |_| ()).unwrap();
    let refused = Engine::stepped_member(&config, opened, egress(), parts(&Lead::new()).0).err();
    assert!(matches!(refused, Some(StartError::OpenedFor("a server alone"))));
}

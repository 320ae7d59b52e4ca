//! Frames that operators had skipped: an engine passes over them at its start and while it runs, alone and as a member, and
//! refuses one that was ordered for another frame.

use exchange::Exchange;
use journaler::storage::fake::FakeStorage;
use journaler::{FrameHash, JournalReader, SharedStorage, Skip, SkipFile, Skips};
use pipeline::{Engine, ManualClock, OpenError};
use protocol::{Event, Output, RejectReason, Report, Sequence, SessionId};

use crate::cluster::*;
use crate::support::*;

/// The frame of a journal and its hash.
fn frame_at(storage: &SharedStorage, sequence: Sequence) -> (protocol::Command, FrameHash) {
    let reader = JournalReader::open(storage.clone()).unwrap();
    let mut cursor = reader.frames_from(sequence).unwrap();
    let (_, frame) = cursor.next_frame(sequence).unwrap().expect("it is journaled");
    (protocol::Command::decode(frame), FrameHash::of(frame).expect("a frame"))
}

fn record(storage: &SharedStorage, sequence: Sequence, frame_hash: FrameHash) {
    let skip = Skip { sequence, frame_hash, who: "W".to_owned(), why: "Y".to_owned(), at: START };
    SkipFile::open(storage.clone(), CLUSTER).unwrap().record(skip).unwrap();
}

/// What the journal gives when the skips in its directory are followed.
fn followed(storage: &SharedStorage, end: Sequence) -> (Exchange, Vec<Output>) {
    let skips = Skips::load(storage, CLUSTER).unwrap();
    let reader = JournalReader::open(storage.clone()).unwrap();
    let mut cursor = reader.frames_from(Sequence(1)).unwrap();
    let (mut exchange, mut outputs) = (Exchange::new(), Vec::new());
    while let Some((_, frame)) = cursor.next_frame(end).unwrap() {
        snapshots::apply_frame(&mut exchange, &skips, frame, &mut outputs).unwrap();
    }
    (exchange, outputs)
}

/// Frames of which the last ones are requests of users.
fn frames(seed: u64, requests: usize) -> Vec<protocol::FrameWriter> {
    let mut flow = Flow::new(seed);
    let mut frames = flow.opening();
    frames.extend((0..requests).map(|_| flow.request()));
    frames
}

/// The answer to the frame of `sequence`, read from the report log.
fn answer(
    storage: &SharedStorage,
    view: &pipeline::EngineView,
    exchange: &Exchange,
    sequence: Sequence,
) -> Event {
    let (command, _) = frame_at(storage, sequence);
    let day = exchange.trading_day();
    let all = reports(&view.report_reader(), command.session, day);
    let reports = all.iter().map(|bytes| Report::decode(bytes).expect("a report").output);
    let answers: Vec<_> = reports.filter(|output| output.sequence == sequence).collect();
    assert_eq!(answers.len(), 1, "{answers:?}");
    answers[0].event
}

#[track_caller]
fn is_skipped(event: Event) {
    assert!(matches!(event, Event::Rejected(e) if e.reason == RejectReason::Skipped), "{event:?}");
}

#[test]
fn a_server_alone_passes_over_it_at_each_start_and_goes_on() {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let config = config(&time);
    let (mut engine, _) = stepped(&disk, &config);
    let mut ingress = engine.ingress();
    feed(&mut engine, &mut ingress, &frames(seed(61), 800));
    let end = engine.view().marks().journaled_sequence();
    // As a kill leaves it: the report log's mark is at 0, and the last frames have no say in a checkpoint.
    drop((ingress, engine));
    let poison = Sequence(end.0 - 5);
    let plain = replayed(&disk, end).0;
    record(&disk, poison, frame_at(&disk, poison).1);
    for round in 0..3 {
        let opened = Engine::open(disk.clone(), &config, &mut |_| ()).expect("it opens");
        let exchange = opened.exchange();
        let expected = followed(&disk, exchange.sequence()).0;
        assert_ne!(exchange.running_hash(), plain.running_hash());
        assert_eq!(exchange.state_hash(), expected.state_hash());
        assert_eq!(opened.found().skipped.len(), 1);
        let egress = Box::new(Recorder::default());
        let mut engine = Engine::stepped(&config, opened, egress).expect("it starts");
        let (mut ingress, view) = (engine.ingress(), engine.view());
        is_skipped(answer(&disk, &view, &expected, poison));
        feed(&mut engine, &mut ingress, &logins(10 + round, START));
        drop(ingress);
        let last = engine.stop(STEPS_MAX).expect("a clean stop");
        assert_eq!(last.state_hash(), followed(&disk, last.sequence()).0.state_hash());
    }
}

/// A member that was killed with `open` frames of which it did not know that they are committed.
fn member_with_open_frames(open: usize) -> (SharedStorage, ManualClock, Sequence) {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let mut member = Member::open(&disk, &config(&time));
    member.consensus.lead_in(Some(1));
    member.settle();
    let frames = frames(seed(62), 600);
    let (known, unknown) = frames.split_at(frames.len() - open);
    member.publish_all(known);
    member.consensus.tells = false;
    member.publish_all(unknown);
    let end = member.consensus.feed.as_ref().expect("a feed").fed();
    (disk, time, end)
}

#[test]
fn a_member_passes_over_what_its_leader_commits() {
    let (disk, time, end) = member_with_open_frames(40);
    let poison = Sequence(end.0 - 20);
    record(&disk, poison, frame_at(&disk, poison).1);
    let mut member = Member::open(&disk, &config(&time));
    let view = member.engine.view();
    assert!(view.marks().applied_sequence() < poison, "it comes while the engine runs");
    assert_eq!(view.skips().iter().count(), 1);
    member.consensus.catch_up(&disk);
    member.settle();
    assert_eq!(view.fault(), None);
    let (expected, outputs) = followed(&disk, end);
    is_skipped(answer(&disk, &view, &expected, poison));
    assert!(outputs.iter().any(|output| matches!(output.event, Event::Skipped(_))));
    let last = member.stop().expect("a clean stop");
    assert_eq!((last.sequence(), last.state_hash()), (end, expected.state_hash()));
}

#[test]
fn another_frame_in_its_place_ends_the_engine_before_it_is_applied() {
    let (disk, time, end) = member_with_open_frames(40);
    let poison = Sequence(end.0 - 20);
    record(&disk, poison, frame_at(&disk, Sequence(poison.0 + 1)).1);
    let mut member = Member::open(&disk, &config(&time));
    let view = member.engine.view();
    member.consensus.catch_up(&disk);
    for _ in 0..1_000 {
        member.engine.step();
        member.consensus.feed(usize::MAX);
    }
    let fault = view.fault().expect("the engine has ended");
    assert!(fault.contains(&format!("skip of sequence {poison} is for a frame")), "{fault}");
    assert!(!fault.contains('\n'));
    assert!(view.marks().applied_sequence() < poison);
    // A start that would have to apply it is refused with the same line.
    drop(member);
    let opened = Engine::open(disk.clone(), &config(&time), &mut |_| ());
    assert_eq!(opened.expect_err("refused").to_string(), fault);
}

#[test]
fn a_frame_that_a_server_alone_does_not_have_any_more_is_refused() {
    let (disk, time) = (FakeStorage::new().shared(), ManualClock::at(START));
    let (mut engine, _) = stepped(&disk, &config(&time));
    let mut ingress = engine.ingress();
    feed(&mut engine, &mut ingress, &definitions(START));
    let end = engine.view().marks().journaled_sequence();
    drop((ingress, engine));
    record(&disk, end.next(), frame_at(&disk, end).1);
    let refused = Engine::open(disk.clone(), &config(&time), &mut |_| ()).expect_err("refused");
    assert!(matches!(refused, OpenError::Journal(_)));
    assert!(refused.to_string().contains(&format!("the journal ends with {end}")), "{refused}");
    // A member's log may still get it.
    let member = FakeStorage::new().shared();
    record(&member, Sequence(5), FrameHash([1; 32]));
    assert!(Engine::open_member(member, &config(&time), &mut |_| ()).is_ok());
    assert_eq!(frame_at(&disk, end).0.session, SessionId::SYSTEM);
}

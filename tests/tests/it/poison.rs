//! A command that ends the engine after it has changed its state: the process says which one and what helps, again at each
//! start, until its operators have it skipped; then the venue goes on, alone and as a cluster, and every replay agrees. The
//! poison is an order of one quantity, which a build with debug assertions takes from the environment.

use client::{Outcome, Start, limit};
use protocol::{Body, Event, InstrumentId, Price, Quantity, RejectReason, Side};
use serde_json::Value;

use crate::harness::{Venue, WHOLE_HISTORY, wait_for};
use crate::tool::Done;
use crate::trio::Trio;

const ACME: InstrumentId = InstrumentId(4);
const POISON: u64 = 77_777;
/// What is the same for the same frames, however the state came about.
const STATE: [&str; 4] = ["sequence", "running_hash", "state_hash", "book_hash"];

fn order(quantity: u64) -> Body {
    Body::NewOrder(limit(ACME, Side::Buy, Quantity(quantity), Price(100)))
}

/// The last line of a process that ended in the middle of a command, from where it says so, and the sequence in it.
#[track_caller]
fn last_words(log: &str) -> (String, u64) {
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("internal error")).collect();
    let [line] = lines[..] else { panic!("not one line:\n{log}") };
    assert_eq!(log.lines().last(), Some(line), "nothing comes behind it");
    let (_, words) = line.split_once("in the middle of the command at sequence ").expect("the place");
    let digits: String = words.chars().take_while(char::is_ascii_digit).collect();
    assert!(words.contains(&format!("`ringpit journal skip --sequence {digits}`")), "{line}");
    (words.to_owned(), digits.parse().expect("a sequence"))
}

fn skip(venue: &Venue, sequence: u64, more: &[&str]) -> Done {
    let sequence = sequence.to_string();
    let who = ["journal", "skip", "--sequence", &sequence, "--who", "alice", "--why", "ticket 12", "--json"];
    venue.tool(&[&who, more].concat())
}

#[track_caller]
fn same_state(one: &Value, other: &Value) {
    for name in STATE {
        assert!(!one[name].is_null(), "{name} is not there: {one}");
        assert_eq!(one[name], other[name], "{name}");
    }
}

#[test]
fn a_server_alone_ends_at_it_until_it_is_skipped() {
    let mut venue = Venue::new(WHOLE_HISTORY);
    venue.poison = Some(POISON);
    let server = venue.start();
    let mut trader = server.login("demo");
    let good = [trader.done(order(5)), trader.done(order(6))];
    let running = skip(&venue, 3, &[]);
    assert!(running.failed(1).contains("stop it first"), "{}", running.err);
    let outcome = trader.try_ask(order(POISON));
    assert!(matches!(outcome, None | Some(Outcome::Unknown)), "nothing is acknowledged: {outcome:?}");
    assert_eq!(server.ends(), None, "a signal ends it");
    let (words, poison) = last_words(&venue.log());
    assert!(words.contains("(instrument 4)"), "{words}");
    for _ in 0..2 {
        let done = venue.refuses_to_start();
        assert_eq!(
            (done.code, last_words(&done.err)),
            (None, (words.clone(), poison)),
            "the same at each start"
        );
    }
    let replay = venue.tool(&["replay"]);
    assert_eq!((replay.code, last_words(&replay.err).1), (None, poison));

    // What was processed, what is not there, and what is only asked for.
    for processed in [1, poison - 1] {
        assert!(
            skip(&venue, processed, &["--yes"]).failed(1).contains("was processed already"),
            "{processed}"
        );
    }
    assert!(skip(&venue, poison + 1_000, &["--yes"]).failed(1).contains("not in the journal"));
    let asked = skip(&venue, poison, &[]).succeeded();
    for part in
        ["new_order instrument 4", "quantity 77777", "sent by user demo", "`skipped`", "--yes does it"]
    {
        assert!(asked.out.contains(part), "{part:?} is not in {}", asked.out);
    }
    assert_eq!(asked.json()["recorded"], false);
    assert_eq!(last_words(&venue.refuses_to_start().err).1, poison);
    let recorded = skip(&venue, poison, &["--yes"]).succeeded().json();
    assert_eq!(
        (recorded["recorded"].as_bool(), &recorded["frame_hash"]),
        (Some(true), &asked.json()["frame_hash"])
    );
    assert!(skip(&venue, poison, &["--yes"]).failed(1).contains("is skipped, as alice ordered"));

    goes_on_with_what_was_skipped(venue, poison, good.map(|id| id.0).to_vec());
}

/// The venue after the skip: its sender is answered, orders work, and whoever replays it comes to the same state.
fn goes_on_with_what_was_skipped(mut venue: Venue, poison: u64, ids: Vec<u64>) {
    let server = venue.start();
    assert!(venue.log().contains(&format!("frame {poison} is skipped, as alice ordered")), "{}", venue.log());
    assert_eq!(server.status()["skips"][0]["sequence"], poison);
    let status = venue.tool(&["status"]).succeeded();
    assert!(status.out.contains(&format!("frame {poison}, as alice ordered at")), "{}", status.out);
    let password = server.password("demo");
    let mut trader = server.login_as("demo", &password, Start::DayStart);
    let reports = trader.reports_until(ids.len() as u64 + 1);
    let Event::Rejected(rejected) = reports[ids.len()].output.event else { panic!("{reports:?}") };
    assert_eq!((rejected.reason, rejected.request_id.0), (RejectReason::Skipped, ids[ids.len() - 1] + 1));
    assert!(rejected.highest_request_id == rejected.request_id, "its id is used up");
    trader.done(order(7));
    drop(trader);
    server.terminate();

    let replayed = venue.ask(&["replay"]);
    assert_eq!(replayed["skipped"][0]["sequence"], poison);
    let verified = venue.tool(&["journal", "verify", "--json"]).succeeded();
    assert!(verified.out.contains(&format!("frame {poison} is skipped")), "{}", verified.out);
    assert_eq!(verified.json()["skips"][0]["why"], "ticket 12");
    assert!(skip(&venue, poison, &["--withdraw", "--yes"]).failed(1).contains("was processed already"));
    // A program without the defect leaves it out as well.
    venue.poison = None;
    same_state(&replayed, &venue.ask(&["replay"]));
    let copy = venue.path("copy").display().to_string();
    venue.tool(&["backup", "--to", &copy]).succeeded();
    let restored = venue.path("restored");
    let mut restore = crate::harness::ringpit();
    restore.args(["restore", "--json", "--from", &copy, "--to"]).arg(&restored);
    same_state(&replayed, &crate::tool::Job::spawn(restore).finish().succeeded().json());
    // Without the file it is another history, which the next checkpoint in the log contradicts, if there is one yet.
    std::fs::remove_file(restored.join("skips")).expect("the copy has it");
    let other = Venue::on(restored, WHOLE_HISTORY);
    let replay = other.tool(&["replay", "--json"]);
    let is_told = if replay.code == Some(0) {
        replay.json()["running_hash"] != replayed["running_hash"]
    } else {
        replay.failed(1).contains("diverges")
    };
    assert!(is_told, "{}", replay.out);
    let server = venue.start();
    server.terminate();
}

#[test]
fn a_cluster_goes_on_once_each_member_skips_it() {
    let mut trio = Trio::new("quorum", 3, WHOLE_HISTORY);
    trio.poison = Some(POISON);
    trio.found();
    trio.trade("demo", "buy 5 ACME @ 1.00");
    let unanswered = trio.trading("demo", &format!("buy {POISON} ACME @ 1.00"));
    // The leader and whoever leads after it end there; the last one has no quorum to learn that it is committed.
    let ended = wait_for("a quorum of members to end", || {
        let ended: Vec<usize> = trio.ids().filter(|id| !trio.seat_mut(*id).runs()).collect();
        (ended.len() >= 2).then_some(ended)
    });
    drop(unanswered);
    let (_, poison) = last_words(&trio.seat(ended[0]).log());
    for id in trio.ids() {
        if ended.contains(&id) {
            assert_eq!(last_words(&trio.seat(id).log()).1, poison, "all end at the same");
        }
        trio.seat_mut(id).kill();
    }
    // First those that ended at it, which have it for certain.
    let mut hashes = Vec::new();
    for id in &ended {
        let asked = skip_at(&trio, *id, poison, &[]).succeeded().json();
        assert!(asked["committed"].is_boolean(), "{asked}");
        hashes.push(asked["frame_hash"].clone());
        skip_at(&trio, *id, poison, &["--yes"]).succeeded();
    }
    assert!(hashes.iter().all(|hash| hash.is_string() && *hash == hashes[0]), "{hashes:?}");
    for id in &ended {
        trio.start(*id);
    }
    trio.leader();
    trio.trade("demo", "buy 6 ACME @ 1.00").succeeded();
    // The last one has to have it before it can skip it.
    for id in trio.ids().filter(|id| !ended.contains(id)) {
        trio.begin(id);
        assert_eq!(trio.seat_mut(id).ends(), None, "it ends at it too");
        assert!(trio.seat(id).log().contains(&format!("at sequence {poison} ")));
        skip_at(&trio, id, poison, &["--yes"]).succeeded();
        trio.start(id);
    }
    trio.settled();
    trio.terminate();
    trio.poison = None;
    let replay = |id: usize, to: &[&str]| {
        trio.command(id, &[&["replay", "--json"], to].concat()).finish().succeeded().json()
    };
    // The last one to stop may have written a tick more.
    let whole: Vec<Value> = trio.ids().map(|id| replay(id, &[])).collect();
    let ends = whole.iter().map(|state| state["sequence"].as_u64().expect("a number"));
    let end = ends.min().expect("three members").to_string();
    let states: Vec<Value> = trio.ids().map(|id| replay(id, &["--to", &end])).collect();
    for state in &states {
        assert_eq!(state["skipped"][0]["sequence"], poison);
        same_state(&states[0], state);
    }
}

fn skip_at(trio: &Trio, id: usize, sequence: u64, more: &[&str]) -> Done {
    let sequence = sequence.to_string();
    let who = ["journal", "skip", "--sequence", &sequence, "--who", "alice", "--why", "ticket 12", "--json"];
    trio.command(id, &[&who, more].concat()).finish()
}

#[test]
fn a_skip_of_another_log_is_refused_and_one_that_was_not_followed_can_be_taken_back() {
    let mut venue = Venue::new(WHOLE_HISTORY);
    venue.poison = Some(POISON);
    let server = venue.start();
    let mut trader = server.login("demo");
    trader.done(order(5));
    trader.try_ask(order(POISON));
    server.ends();
    let (_, poison) = last_words(&venue.log());
    let own = venue.data().join("skips");
    skip(&venue, poison, &["--yes"]).succeeded();
    let kept = std::fs::read(&own).expect("the file");
    // The record of another log: its header says so.
    let mut other = Venue::new(WHOLE_HISTORY);
    other.start().terminate();
    std::fs::copy(&own, other.data().join("skips")).expect("copied");
    assert!(other.refuses_to_start().failed(1).contains("belongs to cluster"));
    // Taken back before any start, it is not followed, and can be ordered again.
    let asked = skip(&venue, poison, &["--withdraw"]).succeeded();
    assert_eq!(asked.json()["recorded"], false);
    assert!(
        asked.out.contains("would be withdrawn") && asked.out.contains("nothing is recorded"),
        "{}",
        asked.out
    );
    let withdrawn = skip(&venue, poison, &["--withdraw", "--yes"]).succeeded();
    assert!(withdrawn.out.contains("withdrawn: the next start applies"), "{}", withdrawn.out);
    assert_eq!(last_words(&venue.refuses_to_start().err).1, poison);
    skip(&venue, poison, &["--yes"]).succeeded();
    let server = venue.start();
    server.terminate();
    let mut damaged = kept;
    damaged[600] ^= 1;
    std::fs::write(&own, damaged).expect("written");
    assert!(venue.refuses_to_start().failed(1).contains("skips: offset 512"));
}

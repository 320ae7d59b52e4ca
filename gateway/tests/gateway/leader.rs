//! A member of a cluster: who leads is let in and answered, who doesn't names the leader, and who no longer does adds
//! nothing to what is in the log.

use std::time::{Duration, Instant};

use gateway::{SessionLimits, ThrottleLimits};
use protocol::soupbin::Packet;
use protocol::{RequestId, SessionId};

use crate::engine::{Order, Seen, Venue};
use crate::rules::{LIVE, check_live, default};
use crate::script::Act;
use crate::sockets::{Client, SLOTS, numbered};
use crate::wire::{self, CURRENT};

/// Another member leads.
const DEPOSED: Act = Act::Term(None, Some("b:2"));
/// Nobody leads yet.
const LEADERLESS: Act = Act::Term(None, None);
/// This member leads again.
const AGAIN: Act = Act::Term(Some(6), None);

fn order(id: u64) -> Act {
    Act::Message(id, wire::new_order())
}

fn bytes(bytes: &[u8]) -> Act {
    Act::Bytes(wire::message(bytes))
}

#[test]
fn a_member_that_does_not_lead_lets_nobody_in() {
    let told = ["+leader=b:2", "J L", "closed refused"];
    default("no password is looked at", &[DEPOSED, Act::Login(CURRENT, 1), order(71)], &told);
    default("it leads in time", &[DEPOSED, AGAIN, Act::Login(CURRENT, 1)], &["verify demo secret"]);
    let name: &'static str = "x".repeat(2_000).leak();
    let script = [Act::Term(None, Some(name)), Act::Login(CURRENT, 1)];
    default("a name that no packet has room for", &script, &["J L", "closed refused"]);
}

#[test]
fn a_login_waits_for_a_leader_and_not_for_ever() {
    let begin = [LEADERLESS, Act::Login(CURRENT, 1)];
    let check = |more: &[Act], expected: &[&str]| {
        let script: Vec<Act> = begin.iter().chain(more).cloned().collect();
        default(&format!("{more:?}"), &script, expected);
    };
    check(&[Act::Wait(199)], &[]);
    check(&[Act::Wait(199), DEPOSED], &["+leader=b:2", "J L", "closed refused"]);
    check(&[Act::Wait(199), AGAIN, Act::Wait(1)], &["verify demo secret"]);
    check(&[Act::Wait(200)], &["J L", "closed refused"]);
    check(&[Act::Wait(199), Act::Lost], &["closed closed"]);
}

#[test]
fn a_login_ends_with_its_term() {
    let begin = ["verify demo secret", "> login None"];
    let entering = |more: &[Act], expected: &[&str]| {
        let script: Vec<Act> = [Act::Login(CURRENT, 0), Act::Right].iter().chain(more).cloned().collect();
        let expected: Vec<&str> = begin.iter().chain(expected).copied().collect();
        default(&format!("{more:?}"), &script, &expected);
    };
    default(
        "before the password is known to be right",
        &[Act::Login(CURRENT, 0), DEPOSED],
        &["verify demo secret", "+leader=b:2", "J L", "closed refused"],
    );
    default(
        "before its frame is in the ring: it never gets there",
        &[Act::RingFull(true), Act::Login(CURRENT, 0), Act::Right, AGAIN, Act::RingFull(false)],
        &["verify demo secret", "J L", "closed server"],
    );
    // The frame may be in the log of the next term, if this member leads in it.
    entering(
        &[DEPOSED, AGAIN, Act::LoggedIn(70)],
        &["+leader=b:2", "J L", "> disconnect server", "closed server"],
    );
    entering(&[AGAIN, Act::LoggedIn(70)], &["J L", "> disconnect server", "closed server"]);
    entering(&[AGAIN, Act::Wait(10_000)], &["J L", "> disconnect server", "closed server"]);
    entering(&[LEADERLESS, Act::LoggedIn(70), Act::Wait(1)], &["J L", "closed server"]);
    entering(&[LEADERLESS, Act::Wait(10_000), Act::Wait(1)], &["J L", "closed server"]);
}

#[test]
fn a_session_ends_with_its_term_and_publishes_nothing_more() {
    let limits = SessionLimits::default();
    let named = ["+leader=b:2", "+closing=server", "closed server"];
    check_live("the leader is named", limits, &[DEPOSED, order(71)], &named);
    check_live("nobody is known", limits, &[LEADERLESS], &named[1..]);
    check_live("another term of this member is another term", limits, &[AGAIN, order(71)], &named[1..]);
    check_live(
        "and the same one is no change",
        limits,
        &[Act::Term(Some(5), None), order(71)],
        &["> NewOrder 71"],
    );
    check_live(
        "what waits for the ring is never published, nor an end that nobody needs",
        limits,
        &[Act::RingFull(true), order(71), order(72), AGAIN, Act::RingFull(false), Act::Wait(1)],
        &named[1..],
    );
    check_live(
        "what the report log has is sent first",
        limits,
        &[Act::Stalled(true), Act::Reports(3, 13), DEPOSED, Act::Stalled(false), Act::Wait(1)],
        &["S 11", "S 12", "S 13", "+leader=b:2", "+closing=server", "closed server"],
    );
    check_live(
        "a logout on its way",
        limits,
        &[Act::Bytes(wire::packet(&Packet::LogoutRequest)), DEPOSED],
        &["> logout", "+leader=b:2", "+closing=server", "closed logout"],
    );
    check_live(
        "one that is not in the ring yet stays out of it",
        limits,
        &[Act::RingFull(true), Act::Lost, DEPOSED, AGAIN, Act::RingFull(false)],
        &["closed closed"],
    );
}

#[test]
fn what_is_not_in_the_log_is_answered_only_while_the_leadership_is_confirmed() {
    let limits = SessionLimits::default();
    check_live(
        "what goes into the log needs no confirmation",
        limits,
        &[Act::Confirmed(false), order(71)],
        &["> NewOrder 71"],
    );
    let held = [
        Act::Confirmed(false),
        order(71),
        bytes(b"x"),
        order(72),
        bytes(&wire::depth_query(5, 1)),
        order(73),
    ];
    let waits = |more: &[Act], expected: &[&str]| {
        let script: Vec<Act> = held.iter().chain(more).cloned().collect();
        let expected: Vec<&str> = [&["> NewOrder 71"], expected].concat();
        check_live(&format!("{more:?}"), limits, &script, &expected);
    };
    // Frames and answers are two series: how they interleave is the driver's.
    let answered = ["> NewOrder 72", "> NewOrder 73", "refused 0 unreadable malformed", "depth 5 of 1"];
    waits(&[Act::Wait(1)], &[]);
    waits(&[Act::Confirmed(true)], &answered);
    waits(
        &[Act::Wait(1_000), Act::Reports(3, 11), Act::Confirmed(true)],
        &[&["H", "S 11"], &answered[..]].concat(),
    );
    waits(&[Act::Wait(20_000)], &["H"]);
    waits(&[AGAIN, Act::Confirmed(true)], &["+closing=server", "closed server"]);
    let query = [Act::Confirmed(false), bytes(&wire::depth_query(5, 1)), order(71)];
    for (more, expected) in [
        (Act::Confirmed(true), &["> NewOrder 71", "depth 5 of 1"][..]),
        (DEPOSED, &["+leader=b:2", "+closing=server", "closed server"]),
    ] {
        check_live("a question", limits, &[&query[..], &[more]].concat(), expected);
    }
    let throttle = Some(ThrottleLimits { rate: 1, burst: 2 });
    check_live(
        "what waits is counted once",
        SessionLimits { throttle, ..limits },
        &[Act::Confirmed(false), bytes(b"x"), Act::Wait(1), Act::Wait(1), Act::Confirmed(true), order(71)],
        &["refused 0 unreadable malformed", "> NewOrder 71"],
    );
    default("a login waits", &[Act::Confirmed(false), Act::Login(CURRENT, 11)], &[]);
    default(
        "until it can be answered",
        &[
            Act::Confirmed(false),
            Act::Login(CURRENT, 11),
            Act::Confirmed(true),
            Act::Right,
            Act::LoggedIn(70),
        ],
        &LIVE,
    );
    default(
        "or refused",
        &[Act::Confirmed(false), Act::Login(CURRENT, 11), DEPOSED],
        &["+leader=b:2", "J L", "closed refused"],
    );
}

/// Logs in as soon as the session is free.
fn login_in_the_end(venue: &Venue) -> Client {
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        assert!(Instant::now() < deadline, "the session is never free");
        let (client, lines) = Client::login(venue, 0, CURRENT, 0);
        match lines[0].as_str() {
            "J S" => std::thread::yield_now(),
            line => {
                assert!(line.starts_with("A 0000000002"), "{lines:?}");
                return client;
            }
        }
    }
}

#[test]
fn a_follower_sends_clients_to_the_leader() {
    let venue = Venue::start(SLOTS, |_| {});
    venue.lead(None, Some("127.0.0.1:9"));
    let mut client = Client::connect(&venue);
    client.send(&wire::login_packet("demo0", "secret", CURRENT, 0));
    assert_eq!(client.lines(3), ["+leader=127.0.0.1:9", "J L", "EOF"]);
    venue.lead(Some(6), None);
    let mut client = Client::live(&venue, 0);
    client.orders(1..=1);
    assert_eq!(client.line(), "S 1");
    let first = venue.seen.recv().expect("the engine runs");
    assert!(
        matches!(first, Seen::Login(SessionId(1), _)),
        "nothing of the first try was published: {first:?}"
    );
}

#[test]
fn a_deposed_leader_publishes_nothing_and_its_client_goes_on_in_the_next_term() {
    let venue = Venue::start(64, |config| config.session.throttle = None);
    let mut client = Client::live(&venue, 0);
    client.orders(1..=3);
    assert_eq!(client.lines(3), numbered(1..=3));
    venue.pause(true);
    // 64 slots: most of them wait, read or not.
    client.orders(4..=5_000);
    venue.lead(None, Some("b:2"));
    assert_eq!(client.lines(3), ["+leader=b:2", "+closing=server", "EOF"]);
    venue.pause(false);
    venue.order(Order::Start);
    venue.lead(Some(6), None);
    let mut client = login_in_the_end(&venue);
    client.orders(5_001..=5_001);
    let mut last = 0;
    venue.wait_for("the new order", |seen| {
        assert!(!matches!(seen, Seen::End(..)), "the term's first frame ended it already: {seen:?}");
        let (Seen::Command(_, _, RequestId(id)) | Seen::Stale(_, _, RequestId(id))) = *seen else {
            return false;
        };
        assert!(id == last + 1 && id < 100 || id == 5_001, "{id} behind {last}");
        last = id;
        id == 5_001
    });
}

#[test]
fn a_login_of_a_term_that_is_over_does_not_keep_the_session() {
    let venue = Venue::start(SLOTS, |_| {});
    for term in 6..16 {
        venue.pause(true);
        let mut client = Client::connect(&venue);
        client.send(&wire::login_packet("demo0", "secret", CURRENT, 0));
        if term % 2 == 0 {
            // Long enough for the password, mostly: its frame is on its way then. The next login succeeds in any case.
            std::thread::sleep(Duration::from_millis(100));
        }
        // The engine takes this before what is in the ring: a Login frame there comes behind the term's first one.
        venue.order(Order::Start);
        venue.lead(Some(term), None);
        venue.pause(false);
        let line = client.line();
        assert!(line.starts_with('J') || line.starts_with("A 0000000002"), "{line}");
        drop(client);
        drop(login_in_the_end(&venue));
    }
}

#[test]
fn a_leader_that_nobody_confirms_answers_with_reports_only() {
    let venue = Venue::start(SLOTS, |_| {});
    let mut client = Client::live(&venue, 0);
    venue.lead.confirm(false);
    // As after a stop of the whole process: the lease is over, and this member knows of no other term yet.
    client.orders(1..=2);
    client.send(&wire::message(&wire::depth_query(1, 1)));
    client.orders(3..=3);
    assert_eq!(client.lines(2), numbered(1..=2));
    let mut other = Client::connect(&venue);
    other.send(&wire::login_packet("demo1", "secret", CURRENT, 0));
    venue.order(Order::Reports(SessionId(1), 1));
    assert_eq!(client.line(), "S 3", "a report that somebody else caused");
    venue.lead.confirm(true);
    assert_eq!(client.lines(2), ["depth 1 of 1", "S 4"]);
    assert!(other.line().starts_with("A 0000000002"));

    venue.lead.confirm(false);
    client.send(&wire::message(&wire::depth_query(2, 1)));
    client.orders(4..=4);
    let mut third = Client::connect(&venue);
    third.send(&wire::login_packet("demo2", "wrong", CURRENT, 0));
    venue.order(Order::Reports(SessionId(1), 1));
    assert_eq!(client.line(), "S 5");
    venue.lead(None, None);
    assert_eq!(client.lines(2), ["+closing=server", "EOF"], "neither the question nor the order behind it");
    assert_eq!(third.lines(2), ["J L", "EOF"]);
}

//! The session's rules, as tables of what happens and what it must do.

use gateway::{Admission, SessionLimits, ThrottleLimits};
use protocol::soupbin::Packet;
use protocol::{Body, EndReason, LoginRefusal, LoginRequest};

use crate::script::{Act, Driver};
use crate::wire::{self, CURRENT};

/// Runs a script against a session with the default limits, unless it brings others, and compares all that it did.
pub(crate) fn check(name: &str, limits: SessionLimits, script: &[Act], expected: &[&str]) {
    let mut driver = Driver::new(limits);
    script.iter().for_each(|act| driver.act(act));
    assert_eq!(driver.lines, expected, "{name}");
}

pub(crate) fn default(name: &str, script: &[Act], expected: &[&str]) {
    check(name, SessionLimits::default(), script, expected);
}

/// A session that is live on day 3 and has sent all of its 10 reports.
fn live(more: &[Act]) -> Vec<Act> {
    let mut script = vec![Act::Login(CURRENT, 11), Act::Right, Act::LoggedIn(70)];
    script.extend_from_slice(more);
    script
}

pub(crate) const LIVE: [&str; 7] = [
    "verify demo secret",
    "> login None",
    "A 0000000003 11",
    "+trading_day=3",
    "+last_report=10",
    "+highest_id=70",
    "+durability=disk",
];

/// What a live session does next, after what it did to get there.
pub(crate) fn check_live(name: &str, limits: SessionLimits, more: &[Act], expected: &[&str]) {
    let expected: Vec<&str> = LIVE.iter().chain(expected).copied().collect();
    check(name, limits, &live(more), &expected);
}

fn from_client(packet: &Packet<'_>) -> Act {
    Act::Bytes(wire::packet(packet))
}

const O: Packet<'static> = Packet::LogoutRequest;
const R: Packet<'static> = Packet::ClientHeartbeat;

#[test]
fn a_login_is_verified_entered_and_answered() {
    default("the current session, only new reports", &live(&[]), &LIVE);
    for (asked, first) in [(0, 11), (1, 1), (7, 7), (10, 10), (11, 11)] {
        let script = [Act::Login(CURRENT, asked), Act::Right, Act::LoggedIn(70)];
        let mut expected: Vec<String> = LIVE.iter().map(|line| (*line).to_owned()).collect();
        expected[2] = format!("A 0000000003 {first}");
        expected.extend((first..11).map(|number| format!("S {number}")));
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        default(&format!("from {asked}"), &script, &expected);
    }
    default(
        "a number beyond the next is far future",
        &[Act::Login(CURRENT, 12), Act::Right],
        &["verify demo secret", "J S", "closed refused"],
    );
    default(
        "so is the largest",
        &[Act::Login(CURRENT, u64::MAX), Act::Right],
        &["verify demo secret", "J S", "closed refused"],
    );
    for session in ["3", "0000000003", "         3"] {
        default("the current day by name", &[Act::Login(session, 11), Act::Right, Act::LoggedIn(70)], &LIVE);
    }
}

#[test]
fn a_login_is_refused_with_its_reason() {
    default(
        "a wrong password",
        &[Act::Login(CURRENT, 0), Act::Wrong],
        &["verify demo secret", "J A", "closed refused"],
    );
    for (refusal, answer) in [(LoginRefusal::AlreadyLoggedIn, "J S"), (LoginRefusal::UnknownUser, "J A")] {
        default(
            "the exchange says no: nothing is left to end",
            &[Act::Login(CURRENT, 0), Act::Right, Act::LoginRefused(refusal)],
            &["verify demo secret", "> login None", answer, "closed refused"],
        );
    }
    for session in ["1", "4", "0", "x", "-3", "3 3"] {
        let mut driver = Driver::new(SessionLimits::default());
        driver.act(&Act::Login(session, 1));
        if driver.lines.len() == 1 {
            driver.act(&Act::Right);
        }
        let lines: Vec<&str> = driver.lines.iter().map(String::as_str).collect();
        assert!(lines.ends_with(&["J S", "closed refused"]), "session {session:?}: {lines:?}");
        assert!(!lines.contains(&"> login None"), "session {session:?}: {lines:?}");
    }
    default(
        "a name that can't be one takes as long as another",
        &[Act::Bytes(wire::login_packet("a b", "secret", "", 0)), Act::Wrong],
        &["verify nobody secret", "J A", "closed refused"],
    );
    default(
        "a stop while it is verified",
        &[Act::Login(CURRENT, 0), Act::Stop],
        &["verify demo secret", "J S", "closed refused"],
    );
}

#[test]
fn the_first_packet_is_a_login_and_comes_in_time() {
    for packet in [R, O, Packet::Unsequenced(b"x"), Packet::Debug(b"hello"), Packet::EndOfSession] {
        default("not a login", &[from_client(&packet)], &["closed protocol"]);
    }
    for bytes in [vec![0, 0], vec![0xff, 0xff], vec![0, 5, b'L', 1, 2, 3, 4], vec![0, 1, b'?']] {
        default("not a packet, or not its length", &[Act::Bytes(bytes)], &["closed protocol"]);
    }
    default("just in time", &[Act::Wait(9_999), Act::Login(CURRENT, 0)], &["verify demo secret"]);
    default("too late", &[Act::Wait(10_000), Act::Login(CURRENT, 0)], &["closed silent"]);
    default(
        "half a packet is none",
        &[Act::Bytes(wire::login_packet("demo", "secret", "", 0)[..48].to_vec()), Act::Wait(10_000)],
        &["closed silent"],
    );
    default(
        "no verdict on the password",
        &[Act::Login(CURRENT, 0), Act::Wait(10_000)],
        &["verify demo secret", "J S", "closed refused"],
    );
}

#[test]
fn a_login_that_is_given_up_on_its_way_still_ends_in_the_exchange() {
    let begin = ["verify demo secret", "> login None"];
    let entering = |more: &[Act], expected: &[&str]| {
        let script: Vec<Act> =
            [Act::Login(CURRENT, 0), Act::Right].into_iter().chain(more.iter().cloned()).collect();
        let expected: Vec<&str> = begin.iter().chain(expected).copied().collect();
        default(&format!("{more:?}"), &script, &expected);
    };
    entering(&[Act::Lost], &[]);
    entering(&[Act::Lost, Act::LoggedIn(1)], &["> disconnect closed", "closed closed"]);
    entering(&[Act::Lost, Act::LoginRefused(LoginRefusal::AlreadyLoggedIn)], &["closed closed"]);
    entering(&[Act::Lost, Act::Wait(10_000)], &["> disconnect closed", "closed closed"]);
    entering(&[Act::Wait(10_000), Act::LoggedIn(1)], &["J S", "> disconnect server", "closed server"]);
    entering(&[Act::Stop, Act::LoggedIn(1)], &["J S", "> disconnect server", "closed server"]);
    default(
        "the Login frame never got into the ring: nobody needs to know",
        &[Act::RingFull(true), Act::Login(CURRENT, 0), Act::Right, Act::Lost, Act::RingFull(false)],
        &["verify demo secret", "closed closed"],
    );
    default(
        "it waits for the ring",
        &[Act::RingFull(true), Act::Login(CURRENT, 11), Act::Right, Act::RingFull(false), Act::LoggedIn(70)],
        &LIVE,
    );
}

#[test]
fn frames_are_published_in_order_and_none_is_lost_to_a_full_ring() {
    let limits = SessionLimits::default();
    check_live(
        "one by one",
        limits,
        &[Act::Message(71, wire::new_order()), Act::Message(72, wire::cancel())],
        &["> NewOrder 71", "> CancelOrder 72"],
    );
    let pipelined: Vec<u8> =
        (71..74).flat_map(|id| wire::message(&wire::frame(id, wire::new_order()))).collect();
    check_live(
        "a full ring holds the session up and nothing else",
        limits,
        &[
            Act::RingFull(true),
            Act::Bytes(pipelined),
            Act::Reports(3, 11),
            Act::Wait(1_000),
            Act::RingFull(false),
        ],
        &["S 11", "H", "> NewOrder 71", "> NewOrder 72", "> NewOrder 73"],
    );
    default(
        "what comes before the answer to the login waits for it",
        &[
            Act::Login(CURRENT, 11),
            Act::Message(71, wire::new_order()),
            Act::Right,
            Act::Message(72, wire::new_order()),
            Act::LoggedIn(70),
        ],
        &[&LIVE[..2], &["> NewOrder 71", "> NewOrder 72"], &LIVE[2..]].concat(),
    );
    check_live(
        "the logout comes behind the orders before it",
        limits,
        &[
            Act::RingFull(true),
            Act::Message(71, wire::new_order()),
            from_client(&O),
            Act::RingFull(false),
            Act::Ended(EndReason::Logout),
        ],
        &["> NewOrder 71", "> logout", "+closing=logout", "closed logout"],
    );
}

#[test]
fn what_a_client_may_not_send_is_refused_outside_the_numbered_reports() {
    let limits = SessionLimits::default();
    let login = Body::Login(LoginRequest { trading_day: None });
    let mut long = wire::frame(71, wire::new_order());
    long.push(0);
    let mut short = wire::frame(72, wire::new_order());
    short.truncate(50);
    let mut version = wire::frame(73, wire::new_order());
    version[3] = 9;
    let mut side = wire::frame(74, wire::new_order());
    side[52] = 7;
    let cases = [
        (wire::frame(9, login), "refused 9 Login not_allowed"),
        (wire::frame(9, Body::Start), "refused 9 Start not_allowed"),
        (wire::frame(9, Body::Disconnect(EndReason::Closed)), "refused 9 Disconnect not_allowed"),
        (
            wire::frame(9, Body::SetRulebook(limits.rulebook_max + 1)),
            "refused 9 SetRulebook rulebook_unknown",
        ),
        (wire::frame(9, Body::SetRulebook(limits.rulebook_max)), "> SetRulebook 9"),
        (wire::report(wire::SESSION, 9)[..56].to_vec(), "refused 9 MassCanceled not_allowed"),
        (Vec::new(), "refused 0 unreadable malformed"),
        (vec![0; 31], "refused 0 unreadable malformed"),
        (long, "refused 71 NewOrder malformed"),
        (short, "refused 72 NewOrder malformed"),
        (version, "refused 73 NewOrder malformed"),
        (side, "refused 74 NewOrder malformed"),
        (wire::depth_query(5, 1), "depth 5 of 1"),
        (wire::depth_query(6, 2), "refused 6 DepthQuery unknown_instrument"),
        (wire::depth_query(7, 1)[..32].to_vec(), "refused 7 DepthQuery malformed"),
    ];
    for (frame, expected) in cases {
        let after = Act::Message(80, wire::new_order());
        let script = [Act::Bytes(wire::message(&frame)), after];
        check_live("refused, and the session goes on", limits, &script, &[expected, "> NewOrder 80"]);
    }
}

#[test]
fn a_full_disk_and_a_stop_are_told_and_cancels_go_on() {
    let limits = SessionLimits::default();
    check_live(
        "only cancels are taken",
        limits,
        &[
            Act::Admission(Admission::CancelsOnly),
            Act::Message(71, wire::new_order()),
            Act::Message(72, wire::replace()),
            Act::Message(73, wire::cancel()),
            Act::Message(74, wire::mass_cancel()),
            Act::Admission(Admission::Open),
            Act::Message(75, wire::new_order()),
        ],
        &[
            "refused 71 NewOrder disk_full",
            "refused 72 ReplaceOrder disk_full",
            "> CancelOrder 73",
            "> MassCancel 74",
            "> NewOrder 75",
        ],
    );
    check_live(
        "nothing that takes space is taken, and the session can still ask and leave",
        limits,
        &[
            Act::Admission(Admission::Nothing),
            Act::Message(71, wire::new_order()),
            Act::Message(72, wire::cancel()),
            Act::Message(73, wire::mass_cancel()),
            Act::Bytes(wire::message(&wire::depth_query(74, 1))),
            Act::Bytes(wire::packet(&Packet::LogoutRequest)),
        ],
        &[
            "refused 71 NewOrder disk_full",
            "refused 72 CancelOrder disk_full",
            "refused 73 MassCancel disk_full",
            "depth 74 of 1",
            "> logout",
        ],
    );
    check_live(
        "a stop refuses all, sends what is due and ends the session",
        limits,
        &[
            Act::Stop,
            Act::Message(71, wire::cancel()),
            Act::Reports(3, 12),
            Act::Ended(EndReason::Server),
            Act::Message(72, wire::cancel()),
        ],
        &[
            "> disconnect server",
            "refused 71 CancelOrder stopping",
            "S 11",
            "S 12",
            "+closing=server",
            "closed server",
        ],
    );
    check_live(
        "so does the server's own word, before its stop",
        limits,
        &[Act::Admission(Admission::Stopping), Act::Message(71, wire::cancel())],
        &["refused 71 CancelOrder stopping"],
    );
}

#[test]
fn too_many_messages_are_refused_but_cancels_have_a_reserve() {
    let throttle = Some(ThrottleLimits { rate: 10, burst: 2 });
    let limits = SessionLimits { throttle, ..SessionLimits::default() };
    let order = |id| Act::Message(id, wire::new_order());
    check_live(
        "a burst, then nothing until time has earned more",
        limits,
        &[order(71), order(72), order(73), Act::Wait(99), order(74), Act::Wait(1), order(75)],
        &[
            "> NewOrder 71",
            "> NewOrder 72",
            "refused 73 NewOrder throttled",
            "refused 74 NewOrder throttled",
            "> NewOrder 75",
        ],
    );
    check_live(
        "cancels overdraw by one burst, no more",
        limits,
        &[
            order(71),
            order(72),
            Act::Message(73, wire::cancel()),
            Act::Message(74, wire::mass_cancel()),
            Act::Message(75, wire::cancel()),
        ],
        &[
            "> NewOrder 71",
            "> NewOrder 72",
            "> CancelOrder 73",
            "> MassCancel 74",
            "refused 75 CancelOrder throttled",
        ],
    );
    check_live(
        "what does not decode counts too",
        limits,
        &[Act::Bytes(wire::message(b"x")), Act::Bytes(wire::message(b"x")), Act::Bytes(wire::message(b"x"))],
        &[
            "refused 0 unreadable malformed",
            "refused 0 unreadable malformed",
            "refused 0 unreadable throttled",
        ],
    );
}

#[test]
fn heartbeats_are_sent_and_silence_ends_the_connection() {
    let limits = SessionLimits::default();
    check_live("a heartbeat after a second of nothing", limits, &[Act::Wait(999), Act::Wait(1)], &["H"]);
    check_live(
        "anything else sent puts it off",
        limits,
        &[Act::Wait(900), Act::Reports(3, 11), Act::Wait(900), Act::Wait(100)],
        &["S 11", "H"],
    );
    let mut script: Vec<Act> = Vec::new();
    for _ in 0..20 {
        script.extend([Act::Wait(1_000), from_client(&R)]);
    }
    check_live("a client that is heard stays", limits, &script, &["H"; 20]);
    let mut script = vec![Act::Wait(14_999)];
    script.push(Act::Wait(1));
    check_live(
        "one that is silent goes",
        limits,
        &script,
        &["H", "> disconnect silent", "+closing=silent", "closed silent"],
    );
    check_live(
        "debug text is heard and means nothing",
        limits,
        &[from_client(&Packet::Debug(b"hello"))],
        &[],
    );
    check_live(
        "while the ring is full the silence is ours",
        limits,
        &[
            Act::RingFull(true),
            Act::Message(71, wire::new_order()),
            Act::Wait(20_000),
            Act::RingFull(false),
            Act::Wait(1_000),
        ],
        &["H", "> NewOrder 71", "H"],
    );
}

#[test]
fn a_client_that_breaks_the_protocol_is_dropped() {
    let limits = SessionLimits::default();
    let dropped = ["> disconnect protocol", "+closing=protocol", "closed protocol"];
    let wrong = [
        Act::Login(CURRENT, 0),
        from_client(&Packet::ServerHeartbeat),
        from_client(&Packet::EndOfSession),
        from_client(&Packet::Sequenced(b"x")),
        from_client(&Packet::LoginRejected(b'A')),
        Act::Bytes(vec![0, 0]),
        Act::Bytes(vec![4, 2, b'U']),
        Act::Bytes(vec![0, 1, b'?']),
        Act::Bytes(vec![0, 2, b'R', 0]),
    ];
    for act in wrong {
        let name = format!("{act:?}");
        check_live(&name, limits, &[act, Act::Message(71, wire::new_order())], &dropped);
    }
}

#[test]
fn the_exchange_hears_of_every_end_once() {
    let limits = SessionLimits::default();
    check_live("a lost socket", limits, &[Act::Lost], &["> disconnect closed", "closed closed"]);
    check_live(
        "though the ring is full for long",
        limits,
        &[Act::RingFull(true), Act::Lost, Act::Wait(60_000), Act::RingFull(false), Act::Wait(1)],
        &["> disconnect closed", "closed closed"],
    );
    check_live(
        "a logout waits for the last reports",
        limits,
        &[from_client(&O), Act::Reports(3, 12), Act::Ended(EndReason::Logout), Act::Lost],
        &["> logout", "S 11", "S 12", "+closing=logout", "closed logout"],
    );
    check_live(
        "but not for ever",
        limits,
        &[from_client(&O), Act::Wait(5_000)],
        &["> logout", "+closing=logout", "closed logout"],
    );
    check_live(
        "a logout is once, and nothing is taken in behind it",
        limits,
        &[from_client(&O), from_client(&O), Act::Message(71, wire::new_order()), Act::Lost],
        &["> logout", "refused 71 NewOrder not_allowed", "closed logout"],
    );
    check_live(
        "an operator's disconnect is told, and needs no frame",
        limits,
        &[Act::Reports(3, 11), Act::Ended(EndReason::Operator)],
        &["S 11", "+closing=operator", "closed operator"],
    );
    check_live(
        "one that crosses a lost socket needs none either",
        limits,
        &[Act::RingFull(true), Act::Lost, Act::Ended(EndReason::Operator), Act::RingFull(false)],
        &["closed closed"],
    );
}

#[test]
fn a_slow_reader_is_dropped() {
    let limits = SessionLimits { backlog_max: 50, ..SessionLimits::default() };
    let dropped = ["> disconnect slow_reader", "closed slow_reader"];
    check_live(
        "nothing taken for fifteen seconds, though it is heard",
        limits,
        &[
            Act::Stalled(true),
            Act::Bytes(wire::message(b"x")),
            Act::Wait(14_000),
            from_client(&R),
            Act::Wait(999),
            Act::Wait(1),
        ],
        &dropped,
    );
    check_live(
        "nothing taken and too far behind",
        limits,
        &[Act::Stalled(true), Act::Reports(3, 61), Act::Reports(3, 62)],
        &dropped,
    );
    check_live(
        "nothing waits for it: no heartbeat is due",
        limits,
        &[Act::Stalled(true), Act::Wait(900), Act::Stalled(false), Act::Wait(100)],
        &["H"],
    );
    default(
        "a replay may be as long as it is",
        &[Act::Reports(3, 1_000), Act::Login(CURRENT, 900), Act::Right, Act::Stalled(true), Act::LoggedIn(1)],
        &["verify demo secret", "> login None"],
    );
}

#[test]
fn the_end_of_the_day_ends_the_session_after_its_last_report() {
    let limits = SessionLimits::default();
    check_live(
        "all reports of the day, then Z, then the exchange is told",
        limits,
        &[Act::Reports(3, 11), Act::Reports(3, 13), Act::Today(4)],
        &["S 11", "S 12", "S 13", "Z", "> disconnect end_of_day", "closed end_of_day"],
    );
    check_live(
        "the exchange's own end for that reason comes in between",
        limits,
        &[Act::Ended(EndReason::EndOfDay), Act::Reports(3, 11), Act::Today(4)],
        &["S 11", "Z", "closed end_of_day"],
    );
    default(
        "the day ends while the login is on its way: it is over at once",
        &[
            Act::Login(CURRENT, 9),
            Act::Right,
            Act::Reports(3, 12),
            Act::Today(4),
            Act::Reports(4, 1),
            Act::LoggedIn(70),
        ],
        &[
            "verify demo secret",
            "> login None",
            "A 0000000003 9",
            "+trading_day=4",
            "+last_report=12",
            "+highest_id=70",
            "+durability=disk",
            "S 9",
            "S 10",
            "S 11",
            "S 12",
            "Z",
            "> disconnect end_of_day",
            "closed end_of_day",
        ],
    );
    check_live(
        "a logout across the end of the day ends with it",
        limits,
        &[from_client(&O), Act::Reports(3, 11), Act::Today(4)],
        &["> logout", "S 11", "Z", "closed logout"],
    );
}

#[test]
fn the_day_before_is_replayed_to_its_end() {
    let replay = |asked: u64, rest: &[&str]| {
        let first = format!("A 0000000002 {}", if asked == 0 { 5 } else { asked });
        let begin = ["verify demo secret", &first];
        let expected: Vec<&str> = begin.iter().chain(rest).copied().collect();
        default(&format!("from {asked}"), &[Act::Login("2", asked), Act::Right], &expected);
    };
    replay(1, &["S 1", "S 2", "S 3", "S 4", "Z", "closed end_of_day"]);
    replay(4, &["S 4", "Z", "closed end_of_day"]);
    replay(5, &["Z", "closed end_of_day"]);
    replay(0, &["Z", "closed end_of_day"]);
    default(
        "beyond its end there is nothing",
        &[Act::Login("2", 6), Act::Right],
        &["verify demo secret", "J S", "closed refused"],
    );
    let mut driver = Driver::new(SessionLimits::default());
    for act in [
        Act::Login("2", 1),
        Act::Stalled(true),
        Act::Right,
        Act::Message(71, wire::new_order()),
        Act::Stalled(false),
        Act::Wait(1),
    ] {
        driver.act(&act);
    }
    assert!(
        driver.lines.contains(&"refused 71 NewOrder not_allowed".to_owned()),
        "a replay takes nothing in: {:?}",
        driver.lines
    );
}

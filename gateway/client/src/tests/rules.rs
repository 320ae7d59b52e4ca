//! The rules of a session one by one: what the server may not send, and what ends a client.

use protocol::soupbin::{Packet, session_name, write_packet};
use protocol::{
    AdminDone, Event, FrameHeader, FrameKind, Output, REPORT_STRIDE, Recipient, RejectReason, Rejected,
    Report, Sequence, Timestamp,
};

use super::*;
use crate::{ClientError, LoginRejection, ServerFault, Start, SubmitError};

/// A session whose login request is out, and what it is told.
struct Bench {
    session: ClientSession,
    events: Vec<ClientEvent>,
    now: Duration,
}

impl Bench {
    fn new(change: impl FnOnce(&mut ClientConfig)) -> Self {
        let mut config = config(4);
        change(&mut config);
        let mut bench = Self {
            session: ClientSession::new(config).expect("good"),
            events: Vec::new(),
            now: Duration::ZERO,
        };
        bench.connect();
        bench
    }

    fn connect(&mut self) {
        assert!(self.session.connect_due(self.now).is_some());
        self.session.connected(self.now);
    }

    fn send(&mut self, packets: &[Packet<'_>]) {
        let mut bytes = Vec::new();
        packets.iter().for_each(|packet| write_packet(packet, &mut bytes));
        let events = &mut self.events;
        let taken = self.session.received(&bytes, self.now, &mut |event| events.push(event));
        assert_eq!(taken, bytes.len());
    }

    fn greet(&mut self, day: u32, next: u64, highest: u64, last: u64, current: u32) {
        let facts = [
            format!("highest_id={highest}"),
            format!("last_report={last}"),
            format!("trading_day={current}"),
        ];
        self.send(&[Packet::LoginAccepted { session: session_name(TradingDay(day)), next }]);
        facts.iter().for_each(|fact| self.send(&[Packet::Debug(fact.as_bytes())]));
    }

    fn login(&self) -> protocol::soupbin::Login {
        match protocol::soupbin::read_packet(self.session.outgoing()) {
            Ok(Some((Packet::LoginRequest(login), _))) => login,
            other => panic!("no login but {other:?}"),
        }
    }
}

#[test]
fn the_first_login_asks_as_configured() {
    let mut fresh = Bench::new(|_| {});
    assert_eq!((fresh.login().next, &fresh.login().session), (0, b"          "));
    assert_eq!(fresh.session.submit(request(1)), Err(SubmitError::NotReady));
    fresh.greet(3, 11, 41, 10, 3);
    assert_eq!(fresh.session.next_request_id(), Some(RequestId(42)));
    assert_eq!(fresh.session.last_report(), Some((TradingDay(3), ReportNumber(10))));

    let replay = Bench::new(|config| config.start = Start::DayStart);
    assert_eq!(replay.login().next, 1);
}

#[test]
fn entries_of_a_mass_quote_use_ids_of_their_own() {
    let entry = |ticks| protocol::QuoteEntry { ticks, lots: 1 };
    let (bids, asks) = ([entry(-1), entry(-2)], [entry(1)]);
    let ladder = |asks| {
        let quote = crate::quote(InstrumentId(1), protocol::AccountId(0), Price(9), Some(&bids), asks);
        Body::MassQuote(quote.expect("few enough"))
    };
    let mut bench = Bench::new(|config| config.window = 16);
    bench.greet(1, 1, 0, 0, 1);
    assert_eq!(bench.session.submit(ladder(Some(&asks))), Ok(RequestId(1)));
    assert_eq!(bench.session.submit(ladder(None)), Ok(RequestId(4)));
    assert_eq!(bench.session.submit(request(6)), Ok(RequestId(6)));
    assert_eq!(bench.session.pending(), 3);
    // The server has seen the first with its entries, and rejected it: it saw none of the others.
    bench.session.disconnected(bench.now, ConnectionLoss::Silent, &mut |_| {});
    bench.now += Duration::from_secs(2);
    bench.connect();
    bench.greet(1, 1, 3, 0, 1);
    let passed = ClientEvent::Outcome(RequestId(1), Outcome::NotProcessed);
    assert!(bench.events.contains(&passed), "{:?}", bench.events);
    assert_eq!((bench.session.pending(), bench.session.next_request_id()), (2, Some(RequestId(7))));
}

#[test]
fn a_text_that_says_why_is_for_administration_and_short() {
    let mut bench = Bench::new(|_| {});
    bench.greet(1, 1, 0, 0, 1);
    let session = &mut bench.session;
    assert_eq!(session.submit_because(Body::EndOfDay, ""), Err(SubmitError::Why));
    assert_eq!(session.submit_because(Body::EndOfDay, &"x".repeat(65)), Err(SubmitError::Why));
    assert_eq!(session.submit_because(request(1), "no text for orders"), Err(SubmitError::Why));
    assert_eq!(session.submit_because(Body::EndOfDay, "holiday tomorrow"), Ok(RequestId(1)));
}

#[test]
fn a_later_login_goes_on_where_the_last_one_ended() {
    let mut bench = Bench::new(|_| {});
    bench.greet(3, 11, 41, 10, 3);
    bench.session.disconnected(bench.now, ConnectionLoss::Silent, &mut |_| {});
    bench.now += Duration::from_secs(2);
    bench.connect();
    assert_eq!((bench.login().next, bench.login().session), (11, session_name(TradingDay(3))));
}

#[test]
fn what_a_server_may_not_send_ends_the_client() {
    let cases: &[(&str, &[Packet<'_>], ServerFault)] = &[
        ("a report before the login", &[Packet::Sequenced(b"x")], ServerFault::Unexpected(b'S')),
        ("an answer before the login", &[Packet::Unsequenced(b"x")], ServerFault::Unexpected(b'U')),
        ("a client's packet", &[Packet::LogoutRequest], ServerFault::Unexpected(b'O')),
        ("an end of session in a greeting", &[Packet::EndOfSession], ServerFault::Unexpected(b'Z')),
        (
            "a session that is no day",
            &[Packet::LoginAccepted { session: *b"abc       ", next: 1 }],
            ServerFault::LoginAnswer,
        ),
        (
            "a next number of zero",
            &[Packet::LoginAccepted { session: session_name(TradingDay(1)), next: 0 }],
            ServerFault::LoginAnswer,
        ),
        (
            "two answers",
            &[Packet::LoginAccepted { session: session_name(TradingDay(1)), next: 1 }; 2],
            ServerFault::LoginAnswer,
        ),
    ];
    for (name, packets, fault) in cases {
        let mut bench = Bench::new(|_| {});
        bench.send(packets);
        assert_eq!(bench.session.ended(), Some(&ClientError::Server(*fault)), "{name}");
        assert!(!bench.session.is_connected(), "{name}");
    }
}

#[test]
fn garbage_and_wrong_numbers_end_the_client_and_leave_outcomes_unknown() {
    let mut bench = Bench::new(|_| {});
    bench.greet(1, 1, 0, 0, 1);
    bench.session.submit(request(1)).expect("taken");
    bench.session.received(&[0, 0], bench.now, &mut |event| bench.events.push(event));
    assert!(matches!(bench.session.ended(), Some(ClientError::Server(ServerFault::Packet(_)))));
    assert_eq!(bench.events.last(), Some(&ClientEvent::Outcome(RequestId(1), Outcome::Unknown)));

    let mut bench = Bench::new(|_| {});
    bench.greet(1, 1, 0, 0, 1);
    bench.send(&[Packet::Sequenced(&[7; 40])]);
    assert!(matches!(bench.session.ended(), Some(ClientError::Server(ServerFault::Message(_)))));
}

/// A report of that number that answers that request.
fn report(number: u64, request: u64) -> Vec<u8> {
    let event = Event::AdminDone(AdminDone {
        to: Recipient { session: SessionId(7), number: ReportNumber(number) },
        request_id: RequestId(request),
        request_kind: FrameKind::EndOfDay,
        instrument: InstrumentId(0),
    });
    let output = Output { sequence: Sequence(number), log_time: Timestamp(1), event };
    let mut stride = [0; REPORT_STRIDE];
    Report { output, cl_ord_id: None }.encode(&mut stride).expect("a report");
    let length = FrameHeader::read(&stride).expect("a frame").length();
    stride[..length].to_vec()
}

#[test]
fn gaps_doubles_and_answers_to_nothing_end_the_client() {
    let number = |expected, got| ServerFault::ReportNumber {
        expected: ReportNumber(expected),
        got: ReportNumber(got),
    };
    let cases = [
        ("a gap", vec![report(1, 0), report(3, 0)], number(2, 3)),
        ("a double", vec![report(1, 0), report(1, 0)], number(2, 1)),
        ("an answer to a request never sent", vec![report(1, 9)], ServerFault::Answer(RequestId(9))),
    ];
    for (name, reports, fault) in cases {
        let mut bench = Bench::new(|_| {});
        bench.greet(1, 1, 0, 0, 1);
        reports.iter().for_each(|frame| bench.send(&[Packet::Sequenced(frame)]));
        assert_eq!(bench.session.ended(), Some(&ClientError::Server(fault)), "{name}");
    }
}

#[test]
fn a_session_that_somebody_else_uses_ends_the_client() {
    let mut bench = Bench::new(|_| {});
    bench.greet(1, 1, 5, 0, 1);
    bench.session.disconnected(bench.now, ConnectionLoss::Silent, &mut |_| {});
    bench.now += Duration::from_secs(2);
    bench.connect();
    bench.greet(1, 1, 6, 0, 1);
    assert_eq!(bench.session.ended(), Some(&ClientError::SessionUsedElsewhere(RequestId(6))));
}

#[test]
fn a_rejected_login_ends_at_once_or_after_patience() {
    let mut bench = Bench::new(|_| {});
    bench.send(&[Packet::LoginRejected(b'A')]);
    assert_eq!(bench.session.ended(), Some(&ClientError::Login(LoginRejection::NotAuthorized)));

    let mut bench = Bench::new(|_| {});
    let mut tries = 0;
    while bench.session.ended().is_none() {
        bench.send(&[Packet::LoginRejected(b'S')]);
        tries += 1;
        if let Some(retry_at) = bench.session.retry_at() {
            bench.now = bench.now.max(retry_at);
            bench.connect();
        }
    }
    assert_eq!(bench.session.ended(), Some(&ClientError::Login(LoginRejection::SessionNotAvailable)));
    assert!((90..220).contains(&tries), "{tries} tries, backed off to about five a second");
}

#[test]
fn the_window_bounds_what_is_pending() {
    let mut bench = Bench::new(|_| {});
    bench.greet(1, 1, 0, 0, 1);
    for n in 1..=4 {
        assert_eq!(bench.session.submit(request(n)), Ok(RequestId(n)));
    }
    assert_eq!(bench.session.submit(request(5)), Err(SubmitError::WindowFull));
    assert_eq!(bench.session.submit(Body::Logout), Err(SubmitError::WindowFull));
    assert_eq!(bench.session.pending(), 4);
    let not_a_clients = Bench::new(|_| {});
    let mut bench = not_a_clients;
    bench.greet(1, 1, 0, 0, 1);
    assert_eq!(bench.session.submit(Body::Logout), Err(SubmitError::NotAllowed));
    assert_eq!(bench.session.submit(Body::Start), Err(SubmitError::NotAllowed));
    assert!(bench.session.outgoing().len() > 40, "only the login is on its way");
}

#[test]
fn heartbeats_go_out_and_silence_ends_a_connection() {
    let mut bench = Bench::new(|_| {});
    bench.greet(1, 1, 0, 0, 1);
    let count = bench.session.outgoing().len();
    bench.session.sent(count, bench.now);
    let mut heartbeats = 0;
    for _ in 0..160 {
        bench.now += Duration::from_millis(100);
        let events = &mut bench.events;
        bench.session.tick(bench.now, &mut |event| events.push(event));
        if !bench.session.is_connected() {
            break;
        }
        if bench.session.outgoing() == [0, 1, b'R'] {
            heartbeats += 1;
            bench.session.sent(3, bench.now);
        }
    }
    assert_eq!(heartbeats, 14);
    assert_eq!(bench.events.last(), Some(&ClientEvent::Disconnected(ConnectionLoss::Silent)));
}

#[test]
fn a_leader_is_followed_and_a_ring_of_them_is_not_chased() {
    let mut bench = Bench::new(|_| {});
    for round in 0..10 {
        bench.send(&[Packet::Debug(b"leader=other:2")]);
        let due = bench.session.connect_due(bench.now);
        if round % 5 < 4 {
            assert_eq!(due.as_deref(), Some("other:2"));
        } else {
            assert_eq!(due, None, "redirect {round} is not followed at once");
            bench.now += Duration::from_secs(1);
            assert_eq!(bench.session.connect_due(bench.now).as_deref(), Some("venue:1"), "the list's turn");
        }
        bench.session.connected(bench.now);
    }
}

#[test]
fn members_are_tried_in_turn_and_each_round_waits_longer() {
    let members: Vec<String> = ["a:1", "b:1", "c:1"].map(str::to_owned).to_vec();
    let mut bench = Bench::new(|config| (config.addresses, config.seed) = (members.clone(), 9));
    let mut pauses = Vec::new();
    for attempt in 1..60 {
        bench.send(&[Packet::LoginRejected(b'L')]);
        let retry_at = bench.session.retry_at().expect("a member that doesn't lead is no reason to end");
        if attempt % 3 != 0 {
            assert_eq!(retry_at, bench.now, "the next member is tried at once");
        } else {
            pauses.push((retry_at - bench.now).as_millis());
        }
        bench.now = retry_at;
        assert_eq!(bench.session.connect_due(bench.now).as_deref(), Some(members[attempt % 3].as_str()));
        bench.session.connected(bench.now);
    }
    let soon = std::iter::repeat_n(40, 12);
    let expected = [10, 20].into_iter().chain(soon).chain([80, 160, 250, 250, 250]);
    assert_eq!(pauses.len(), expected.clone().count());
    for (pause, whole) in pauses.iter().zip(expected) {
        assert!((whole / 2..=whole).contains(pause), "{pauses:?}");
    }
    assert!(pauses.windows(2).any(|two| two[0] * 2 != two[1]), "not all clients come at once: {pauses:?}");
}

#[test]
fn a_token_goes_before_the_next_logins_until_three_are_closed_without_a_word() {
    let mut bench = Bench::new(|_| ());
    bench.greet(1, 1, 0, 0, 1);
    let sent = |bench: &Bench| match protocol::soupbin::read_packet(bench.session.outgoing()) {
        Ok(Some((Packet::Debug(text), _))) => Some(String::from_utf8_lossy(text).into_owned()),
        _ => None,
    };
    let sends = |bench: &Bench, text: &str| {
        let mut wanted = Vec::new();
        write_packet(&Packet::Debug(text.as_bytes()), &mut wanted);
        bench.session.outgoing().ends_with(&wanted)
    };
    assert!(sends(&bench, "resume"), "it is asked for");
    bench.send(&[Packet::Debug(b"resume=abc")]);
    assert!(bench.events.iter().all(|event| !format!("{event:?}").contains("abc")), "{:?}", bench.events);
    assert!(!format!("{:?}", bench.session).contains("resume=abc"));
    let closed = || ConnectionLoss::Closed("closed".to_owned());
    let lose = |bench: &mut Bench, loss: ConnectionLoss| {
        bench.session.disconnected(bench.now, loss, &mut |_| ());
        bench.now += Duration::from_secs(1);
        bench.connect();
    };
    lose(&mut bench, closed());
    assert_eq!(sent(&bench).as_deref(), Some("resume=abc"));
    lose(&mut bench, ConnectionLoss::NotLeader);
    assert_eq!(sent(&bench).as_deref(), Some("resume=abc"));
    for _ in 0..2 {
        lose(&mut bench, closed());
        assert_eq!(sent(&bench).as_deref(), Some("resume=abc"), "a member may end at any moment");
    }
    lose(&mut bench, closed());
    assert_eq!(sent(&bench), None);
    bench.login();
}

#[test]
fn what_is_unanswered_for_too_long_ends_a_connection_and_the_next_may_take_longer() {
    let mut bench = Bench::new(|config| config.answer_limit = Some(Duration::from_millis(300)));
    bench.greet(1, 1, 0, 0, 1);
    let tick = |bench: &mut Bench, ms: u64| {
        bench.now += Duration::from_millis(ms);
        let events = &mut bench.events;
        bench.session.tick(bench.now, &mut |event| events.push(event));
        bench.session.is_connected()
    };
    assert!(tick(&mut bench, 2_900), "nothing was asked");
    bench.session.submit(request(1)).expect("taken");
    assert!(tick(&mut bench, 0) && tick(&mut bench, 299));
    bench.send(&[Packet::ServerHeartbeat]);
    assert!(tick(&mut bench, 299), "it is there, if slow");
    assert_eq!(bench.session.deadline(), Some(bench.now + Duration::from_millis(1)));
    assert!(!tick(&mut bench, 1));
    assert_eq!(bench.events.last(), Some(&ClientEvent::Disconnected(ConnectionLoss::Unanswered)));
    // A login has the same limit, doubled with each time in a row that nothing came of it.
    for limit in [300, 600, 1_200] {
        bench.now += Duration::from_secs(1);
        bench.connect();
        assert!(tick(&mut bench, limit - 1));
        assert!(!tick(&mut bench, 1), "{limit}");
        assert_eq!(bench.events.last(), Some(&ClientEvent::Disconnected(ConnectionLoss::LoginTimeout)));
    }
    bench.now += Duration::from_secs(1);
    bench.connect();
    bench.greet(1, 1, 0, 0, 1);
    assert!(tick(&mut bench, 0) && tick(&mut bench, 4_799), "the request is waited for as long");
    bench.send(&[Packet::Sequenced(&rejected(1, 1, RejectReason::QuantityZero))]);
    assert_eq!(bench.session.pending(), 0);
    bench.session.query_depth(InstrumentId(1), 5).expect("live");
    assert!(tick(&mut bench, 0) && tick(&mut bench, 299));
    assert!(!tick(&mut bench, 1), "an answer makes it short again; a query counts too");
}

#[test]
fn only_as_many_dead_sends_as_there_were_say_that_nothing_happened() {
    let cases = [(0, Outcome::Unknown), (1, Outcome::Unknown), (2, Outcome::NotProcessed)];
    for (dead, expected) in cases {
        let mut bench = Bench::new(|_| {});
        bench.greet(1, 1, 0, 0, 1);
        bench.session.submit(request(1)).expect("taken");
        bench.session.disconnected(bench.now, ConnectionLoss::Silent, &mut |_| {});
        bench.now += Duration::from_secs(1);
        bench.connect();
        bench.greet(1, 1, 0, 0, 1);
        for number in 1..=dead {
            bench.send(&[Packet::Sequenced(&rejected(number, 1, RejectReason::NotLoggedIn))]);
        }
        bench.session.received(&[0, 0], bench.now, &mut |event| bench.events.push(event));
        assert_eq!(bench.events.last(), Some(&ClientEvent::Outcome(RequestId(1), expected)), "{dead} of 2");
    }
}

/// The report of that number that rejects that request.
fn rejected(number: u64, request: u64, reason: RejectReason) -> Vec<u8> {
    let event = Event::Rejected(Rejected {
        to: Recipient { session: SessionId(7), number: ReportNumber(number) },
        request_id: RequestId(request),
        client_order_id: None,
        highest_request_id: RequestId(request),
        instrument: InstrumentId(1),
        request_kind: None,
        reason,
    });
    let output = Output { sequence: Sequence(number), log_time: Timestamp(1), event };
    let mut stride = [0; REPORT_STRIDE];
    Report { output, cl_ord_id: None }.encode(&mut stride).expect("a report");
    let length = FrameHeader::read(&stride).expect("a frame").length();
    stride[..length].to_vec()
}

#[test]
fn without_reconnect_a_loss_ends_the_client() {
    let mut bench = Bench::new(|config| config.reconnect = false);
    bench.greet(1, 1, 0, 0, 1);
    bench.session.submit(request(1)).expect("taken");
    let events = &mut bench.events;
    bench
        .session
        .disconnected(bench.now, ConnectionLoss::Closed("gone".into()), &mut |event| events.push(event));
    assert_eq!(bench.session.ended(), Some(&ClientError::Lost("gone".into())));
    assert_eq!(bench.events.last(), Some(&ClientEvent::Outcome(RequestId(1), Outcome::Unknown)));
}

#[test]
fn half_packets_wait_for_the_rest() {
    let mut bench = Bench::new(|_| {});
    let mut bytes = Vec::new();
    write_packet(&Packet::LoginAccepted { session: session_name(TradingDay(1)), next: 1 }, &mut bytes);
    for fact in ["highest_id=0", "last_report=0", "trading_day=1"] {
        write_packet(&Packet::Debug(fact.as_bytes()), &mut bytes);
    }
    let mut kept = Vec::new();
    for byte in bytes {
        assert!(!bench.session.is_live());
        kept.push(byte);
        let taken = bench.session.received(&kept, bench.now, &mut |_| {});
        kept.drain(..taken);
    }
    assert!(bench.session.is_live() && kept.is_empty());
}

#[test]
fn a_day_that_is_over_is_read_to_its_end_and_nothing_is_sent_on_it() {
    let mut bench = Bench::new(|_| {});
    bench.greet(1, 1, 0, 0, 1);
    bench.session.submit(request(1)).expect("taken");
    bench.session.disconnected(bench.now, ConnectionLoss::Silent, &mut |_| {});
    bench.now += Duration::from_secs(2);
    bench.connect();
    let login = bench.session.outgoing().len();
    bench.send(&[Packet::LoginAccepted { session: session_name(TradingDay(1)), next: 1 }]);
    bench.send(&[Packet::EndOfSession]);
    assert!(bench.events.contains(&ClientEvent::DayEnded(TradingDay(1))));
    bench.connect();
    assert_eq!((bench.login().next, bench.login().session), (1, session_name(TradingDay(2))));
    assert_eq!(bench.session.outgoing().len(), login, "only the login is on its way");
    bench.greet(2, 1, 0, 0, 2);
    assert!(bench.session.outgoing().len() > login, "the pending request is sent again");
}

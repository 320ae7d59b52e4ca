//! Whole gateways on loopback. Nothing here is judged by how long it took: where a test waits, the time is only the bound
//! after which it is broken.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use gateway::{Admission, ConfigError, GatewayConfig, GatewayError, ThrottleLimits};
use protocol::soupbin::{Packet, read_packet};
use protocol::{EndReason, InstrumentId, InstrumentQuery, RequestId, SessionId, Symbol, Unsequenced};

use crate::engine::{Order, Seen, USERS, Venue};
use crate::wire::{self, CURRENT};

pub(crate) const SLOTS: usize = 4096;

/// A client with nothing clever in it.
pub(crate) struct Client {
    pub(crate) stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub(crate) fn connect(venue: &Venue) -> Self {
        let stream = TcpStream::connect(venue.gateway().local_addr()).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(30))).expect("a timeout");
        Self { stream, buffer: Vec::new() }
    }

    /// Logs in as `demo` and `user` and reads the answer with its facts.
    pub(crate) fn login(venue: &Venue, user: u32, session: &str, next: u64) -> (Self, Vec<String>) {
        let mut client = Self::connect(venue);
        client.send(&wire::login_packet(&format!("demo{user}"), "secret", session, next));
        let first = client.line();
        let mut lines = vec![first];
        while lines[0].starts_with('A') && !lines.iter().any(|line| line.starts_with("+durability")) {
            lines.push(client.line());
        }
        (client, lines)
    }

    pub(crate) fn live(venue: &Venue, user: u32) -> Self {
        let (client, lines) = Self::login(venue, user, CURRENT, 0);
        assert!(lines[0].starts_with("A 0000000002"), "{lines:?}");
        client
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("the gateway reads");
    }

    pub(crate) fn orders(&mut self, ids: std::ops::RangeInclusive<u64>) {
        let bytes: Vec<u8> = ids.flat_map(|id| wire::message(&wire::frame(id, wire::new_order()))).collect();
        self.send(&bytes);
    }

    /// The next packet but heartbeats, as a line; `EOF` at the end.
    pub(crate) fn line(&mut self) -> String {
        loop {
            if let Some((packet, length)) = read_packet(&self.buffer).expect("a packet") {
                let line = wire::describe(&packet);
                self.buffer.drain(..length);
                if line != "H" {
                    return line;
                }
                continue;
            }
            let mut bytes = [0; 16 * 1024];
            match self.stream.read(&mut bytes) {
                Ok(0) => return "EOF".to_owned(),
                Ok(length) => self.buffer.extend_from_slice(&bytes[..length]),
                Err(error) => return format!("{error}"),
            }
        }
    }

    pub(crate) fn lines(&mut self, count: usize) -> Vec<String> {
        (0..count).map(|_| self.line()).collect()
    }
}

pub(crate) fn numbered(numbers: std::ops::RangeInclusive<u64>) -> Vec<String> {
    numbers.map(|number| format!("S {number}")).collect()
}

#[test]
fn orders_go_in_and_reports_come_out_also_again() {
    let venue = Venue::start(SLOTS, |_| {});
    let (mut client, lines) = Client::login(&venue, 0, CURRENT, 0);
    assert_eq!(
        lines,
        ["A 0000000002 1", "+trading_day=2", "+last_report=0", "+highest_id=0", "+durability=disk"]
    );
    client.orders(1..=5_000);
    assert_eq!(client.lines(5_000), numbered(1..=5_000));
    client.send(&wire::packet(&Packet::LogoutRequest));
    assert_eq!(client.lines(2), ["+closing=logout", "EOF"]);

    for (asked, first) in [(1, 1), (4_000, 4_000), (5_000, 5_000), (5_001, 5_001), (0, 5_001)] {
        let (mut client, lines) = Client::login(&venue, 0, "2", asked);
        assert_eq!(lines[0], format!("A 0000000002 {first}"));
        assert_eq!(lines[1..4], ["+trading_day=2", "+last_report=5000", "+highest_id=5000"]);
        let replayed = 5_001 - first;
        assert_eq!(client.lines(replayed as usize), numbered(first..=5_000), "from {asked}");
        client.send(&wire::packet(&Packet::LogoutRequest));
        assert_eq!(client.lines(2), ["+closing=logout", "EOF"], "from {asked}");
    }
    for asked in [5_002, u64::MAX] {
        assert_eq!(Client::login(&venue, 0, CURRENT, asked).1, ["J S"], "far future");
    }
}

#[test]
fn logins_are_refused_one_and_all() {
    let venue = Venue::start(SLOTS, |_| {});
    let mut answers = Vec::new();
    for (name, password) in [("demo0", "wrong"), ("nobody", "secret"), ("off", "secret"), ("demo0", "")] {
        let mut client = Client::connect(&venue);
        client.send(&wire::login_packet(name, password, CURRENT, 0));
        answers.push(client.lines(2));
    }
    assert_eq!(answers, vec![["J A", "EOF"]; 4]);

    let mut first = Client::live(&venue, 0);
    assert_eq!(Client::login(&venue, 0, CURRENT, 0).1, ["J S"], "the session is in use");
    first.orders(1..=1);
    assert_eq!(first.line(), "S 1", "and its first connection stays usable");
    assert_eq!(venue.gateway().stats().logins_failed, 4);
}

#[test]
fn a_token_lets_its_user_in_again_without_the_password() {
    let venue = Venue::start(SLOTS, |_| {});
    let debug = |text: &str| wire::packet(&Packet::Debug(text.as_bytes()));
    let mut client = Client::live(&venue, 0);
    client.send(&debug("resume"));
    let line = client.line();
    let token = line.strip_prefix('+').expect("a debug packet").to_owned();
    assert!(token.starts_with("resume="), "{token}");
    client.orders(1..=1);
    assert_eq!(client.line(), "S 1", "it goes on as before");
    client.send(&wire::packet(&Packet::LogoutRequest));
    assert_eq!(client.lines(2), ["+closing=logout", "EOF"]);

    let attempt = |token: &str, name: &str, password: &str| {
        let mut client = Client::connect(&venue);
        client.send(&[debug(token), wire::login_packet(name, password, CURRENT, 0)].concat());
        client.line()
    };
    assert_eq!(attempt(&token, "demo0", "wrong"), "A 0000000002 2");
    let forged = format!("{}{}", &token[..token.len() - 4], "0000");
    for (token, name) in [(&*token, "demo1"), (&*token, "off"), (&*forged, "demo0"), ("resume", "demo0")] {
        assert_eq!(attempt(token, name, "wrong"), "J A", "{name}");
    }
    // The password counts where the token doesn't.
    assert_eq!(attempt(&forged, "demo1", "secret"), "A 0000000002 1");
}

#[test]
fn failed_logins_from_one_address_are_held_back() {
    let venue = Venue::start(SLOTS, |config| {
        config.listener.failed_logins = ThrottleLimits { rate: 1, burst: 2 };
        config.session.throttle = None;
    });
    let mut client = Client::live(&venue, 0);
    let mut refused = 0;
    for _ in 0..200 {
        let mut attempt = Client::connect(&venue);
        attempt.send(&wire::login_packet("demo1", "guess", CURRENT, 0));
        match attempt.line().as_str() {
            "J A" => {}
            "J S" => refused += 1,
            other => panic!("{other}"),
        }
    }
    assert!(refused > 0, "no guess was held back");
    client.orders(1..=10);
    assert_eq!(client.lines(10), numbered(1..=10), "a session that is logged in is not concerned");
}

#[test]
fn a_dead_connections_messages_are_not_processed_on_the_next() {
    let venue = Venue::start(SLOTS, |_| {});
    let mut client = Client::live(&venue, 0);
    let login = venue.wait_for("the login", |seen| matches!(seen, Seen::Login(..)));
    venue.pause(true);
    client.orders(1..=10);
    // Half a message, and the socket is gone.
    client.send(&wire::message(&wire::frame(11, wire::new_order()))[..30]);
    client.stream.shutdown(Shutdown::Both).expect("shut down");
    drop(client);
    venue.pause(false);
    let end = venue.wait_for("the disconnect", |seen| matches!(seen, Seen::End(..)));
    let (Seen::Login(_, first), Seen::End(session, ended, reason)) = (login, end) else { panic!() };
    assert_eq!((session, ended, reason), (SessionId(1), first, EndReason::Closed));

    let (mut client, lines) = Client::login(&venue, 0, CURRENT, 1);
    let Seen::Login(_, second) = venue.wait_for("the login", |seen| matches!(seen, Seen::Login(..))) else {
        panic!()
    };
    assert_ne!(first, second);
    let last: u64 =
        lines[2].strip_prefix("+last_report=").and_then(|text| text.parse().ok()).expect("a number");
    assert!(last <= 10, "the half message is none: {lines:?}");
    client.orders(11..=11);
    venue.wait_for("the new message", |seen| {
        assert!(!matches!(seen, Seen::Stale(..)), "{seen:?}");
        *seen == Seen::Command(SessionId(1), second, RequestId(11))
    });
    assert_eq!(client.lines(last as usize + 1), numbered(1..=last + 1));
}

#[test]
fn a_full_ring_holds_the_sender_back_and_nobody_else() {
    let venue = Venue::start(64, |config| config.session.throttle = None);
    let mut sender = Client::live(&venue, 0);
    let mut other = Client::live(&venue, 1);
    venue.pause(true);
    let all = 20_000;
    let mut writer = sender.stream.try_clone().expect("a second handle");
    let sending = std::thread::spawn(move || {
        let bytes: Vec<u8> =
            (1..=all).flat_map(|id| wire::message(&wire::frame(id, wire::new_order()))).collect();
        writer.write_all(&bytes).expect("it is read in the end");
    });
    for id in 1..=100 {
        let query = Unsequenced::InstrumentQuery(InstrumentQuery {
            request_id: RequestId(id),
            instrument: InstrumentId(0),
            symbol: Symbol::new("BTCUSD"),
        });
        other.send(&wire::message(query.encode().as_bytes()));
        assert_eq!(other.line(), format!("instrument {id} BTCUSD"));
    }
    venue.pause(false);
    sending.join().expect("all were sent");
    assert_eq!(sender.lines(all as usize), numbered(1..=all), "none lost, none refused, in order");
    for id in 1..=all {
        let seen = venue.wait_for("the commands", |seen| matches!(seen, Seen::Command(..)));
        assert!(
            matches!(seen, Seen::Command(SessionId(1), _, RequestId(at)) if at == id),
            "{seen:?} at {id}"
        );
    }
    assert_eq!(venue.gateway().stats().refused, 0);
}

#[test]
fn a_disconnect_is_told_though_the_ring_is_full_when_the_socket_dies() {
    let venue = Venue::start(64, |config| config.session.throttle = None);
    let mut clients: Vec<Client> = (0..USERS).map(|user| Client::live(&venue, user)).collect();
    venue.pause(true);
    // 64 slots: the ring is full before all are in.
    clients[0].orders(1..=200);
    drop(clients);
    venue.pause(false);
    for _ in 0..USERS {
        let end = venue.wait_for("each end", |seen| matches!(seen, Seen::End(..)));
        assert!(matches!(end, Seen::End(_, _, EndReason::Closed)), "{end:?}");
    }
}

#[test]
fn a_client_that_never_reads_is_dropped_and_the_others_are_answered() {
    let venue = Venue::start(SLOTS, |config| {
        config.session.stall = Duration::from_millis(300);
        config.session.throttle = None;
    });
    let slow = Client::live(&venue, 0);
    let mut other = Client::live(&venue, 1);
    // 400,000 reports: 30 MB, more than any socket's buffers take.
    for _ in 0..100 {
        venue.order(Order::Reports(SessionId(1), 4_000));
    }
    for id in 1..=200 {
        other.orders(id..=id);
        assert_eq!(other.line(), format!("S {id}"));
    }
    let end = venue.wait_for("the slow reader's end", |seen| matches!(seen, Seen::End(..)));
    assert!(matches!(end, Seen::End(SessionId(1), _, EndReason::SlowReader)), "{end:?}");
    other.orders(201..=201);
    assert_eq!(other.line(), "S 201");
    drop(slow);
    // It catches up by number.
    let (mut again, lines) = Client::login(&venue, 0, CURRENT, 399_000);
    assert_eq!(lines[0], "A 0000000002 399000");
    assert_eq!(again.lines(1_001), numbered(399_000..=400_000));
    assert_eq!(venue.gateway().stats().slow_readers, 1);
}

#[test]
fn a_full_disk_is_told_and_cancels_go_on() {
    let venue = Venue::start(SLOTS, |_| {});
    let mut client = Client::live(&venue, 0);
    *venue.admission.lock().expect("no panic") = Admission::CancelsOnly;
    client.orders(1..=1);
    assert_eq!(client.line(), "refused 1 NewOrder disk_full");
    client.send(&wire::message(&wire::frame(2, wire::cancel())));
    assert_eq!(client.line(), "S 1");
    *venue.admission.lock().expect("no panic") = Admission::Open;
    client.orders(3..=3);
    assert_eq!(client.line(), "S 2");
}

#[test]
fn the_day_ends_for_every_session_and_can_be_read_once_more() {
    let venue = Venue::start(SLOTS, |_| {});
    let mut clients: Vec<Client> = (0..USERS).map(|user| Client::live(&venue, user)).collect();
    for client in &mut clients {
        client.orders(1..=30);
        assert_eq!(client.lines(30), numbered(1..=30));
    }
    venue.order(Order::EndDay);
    for client in &mut clients {
        assert_eq!(client.lines(2), ["Z", "EOF"]);
        venue.wait_for("its end", |seen| matches!(seen, Seen::End(_, _, EndReason::EndOfDay)));
    }
    let mut old = Client::connect(&venue);
    old.send(&wire::login_packet("demo2", "secret", "0000000002", 28));
    assert_eq!(old.lines(6), ["A 0000000002 28", "S 28", "S 29", "S 30", "Z", "EOF"]);
    let (mut client, lines) = Client::login(&venue, 2, CURRENT, 1);
    assert_eq!(lines[..4], ["A 0000000003 1", "+trading_day=3", "+last_report=0", "+highest_id=30"]);
    client.orders(31..=31);
    assert_eq!(client.line(), "S 1");
    venue.order(Order::EndDay);
    assert_eq!(client.lines(2), ["Z", "EOF"]);
    assert_eq!(Client::login(&venue, 2, "2", 1).1, ["J S"], "the day before the previous one");
}

#[test]
fn an_operators_disconnect_and_a_stop_are_told() {
    let mut venue = Venue::start(SLOTS, |_| {});
    let mut first = Client::live(&venue, 0);
    let mut second = Client::live(&venue, 1);
    venue.order(Order::Disconnect(SessionId(1)));
    assert_eq!(first.lines(2), ["+closing=operator", "EOF"]);
    second.orders(1..=3);
    assert_eq!(second.lines(3), numbered(1..=3));
    let address = venue.gateway().local_addr();
    venue.gateway.take().expect("it runs").stop();
    assert_eq!(second.lines(2), ["+closing=server", "EOF"]);
    venue.wait_for("its end", |seen| matches!(seen, Seen::End(SessionId(2), _, EndReason::Server)));
    assert!(TcpStream::connect(address).is_err(), "nobody listens any more");
}

#[test]
fn a_stop_sends_the_reports_of_what_came_before_it() {
    let mut venue = Venue::start(SLOTS, |_| {});
    let mut client = Client::live(&venue, 0);
    venue.pause(true);
    client.orders(1..=1_000);
    // The gateway has them once it has answered what came behind them.
    client.send(&wire::message(&wire::depth_query(1, 1)));
    assert_eq!(client.line(), "depth 1 of 1");
    let gateway = venue.gateway.take().expect("it runs");
    let stopping = std::thread::spawn(move || gateway.stop());
    venue.pause(false);
    stopping.join().expect("it stops");
    assert_eq!(client.lines(1_000), numbered(1..=1_000));
    assert_eq!(client.lines(2), ["+closing=server", "EOF"]);
}

#[test]
fn connections_are_limited_by_address_and_in_all() {
    for (in_all, by_address) in [(3, 256), (256, 3)] {
        let venue = Venue::start(SLOTS, |config| {
            config.listener.connections_max = in_all;
            config.listener.connections_per_address_max = by_address;
            config.session.login_deadline = Duration::from_secs(3_600);
        });
        let mut live = Client::live(&venue, 0);
        let idle: Vec<Client> = (0..2).map(|_| Client::connect(&venue)).collect();
        let mut late = Client::connect(&venue);
        assert!(!late.line().starts_with('A'), "one too many is closed");
        live.orders(1..=1);
        assert_eq!(live.line(), "S 1");
        assert_eq!(venue.gateway().stats().turned_away, 1);
        drop(idle);
    }
}

#[test]
fn a_connection_that_does_not_log_in_is_closed() {
    let venue = Venue::start(SLOTS, |config| config.session.login_deadline = Duration::from_millis(50));
    let mut idle = Client::connect(&venue);
    assert_eq!(idle.line(), "EOF");
}

#[test]
fn garbage_is_dropped_and_the_others_are_answered() {
    let venue = Venue::start(SLOTS, |_| {});
    let mut good = Client::live(&venue, 0);
    let pieces: [&[u8]; 5] =
        [b"GET / HTTP/1.1\r\n\r\n", &[0; 64], &[0xff; 4096], b"\x16\x03\x01\x02\x00\x01", &[0, 47, b'L']];
    for (round, piece) in pieces.iter().cycle().take(50).enumerate() {
        let mut bad = Client::connect(&venue);
        // It may be closed before all is written.
        let _ = bad.stream.write_all(piece);
        let _ = bad.stream.shutdown(Shutdown::Write);
        let line = bad.line();
        assert!(!line.starts_with('A'), "{line}");
        let id = round as u64 + 1;
        good.orders(id..=id);
        assert_eq!(good.line(), format!("S {id}"));
    }
}

#[test]
fn an_address_that_is_not_loopback_must_be_meant() {
    let address: SocketAddr = "0.0.0.0:0".parse().expect("an address");
    let mut config = GatewayConfig::new(address);
    assert_eq!(config.check(), Err(ConfigError::NotLoopback(address)));
    config.allow_remote = true;
    assert_eq!(config.check(), Ok(()));
    config.listener.verifiers = 3;
    assert_eq!(config.check(), Err(ConfigError::Limit("verifiers", 1, 2)));
    let taken = Venue::start(SLOTS, |_| {});
    let mut config = GatewayConfig::new(taken.gateway().local_addr());
    config.listener.connections_max = 1;
    assert!(config.memory_max() < 200 * 1024, "what a connection takes is bounded: {}", config.memory_max());
    assert!(matches!(GatewayError::from(ConfigError::NotLoopback(address)), GatewayError::Config(_)));
}

//! Clients that mean harm or are broken, one kind after the other, against one server: each is answered or dropped, while a
//! well-behaved session is answered throughout, memory stays under its stated bound, and no descriptor is left behind.

use std::io::{ErrorKind, Write};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use client::{cancel, limit};
use protocol::soupbin::Packet;
use protocol::{Body, ClientOrderId, InstrumentId, Price, Quantity, RefuseReason, Side};
use rand::rngs::StdRng;
use rand::{Rng, RngExt};

use crate::harness::{Server, Trader, Venue, seeded, wait_for};
use crate::wire::{Raw, Said, bytes, frame, login, request};

const CONNECTIONS: usize = 64;
const CONNECTIONS_PER_ADDRESS: usize = 16;
const PACE: Duration = Duration::from_millis(2);
const ACME: InstrumentId = InstrumentId(4);

/// What the process may grow by besides its connections: two password checks of 19 MiB, the books of this test, and what
/// the allocator keeps of it all.
const SLACK_BYTES: u64 = 2 * (19 << 20) + (64 << 20);

/// Addresses of the attackers, 127.0.0.N: limits by address must not hit the witness, who comes from 127.0.0.1.
const NOISE: u8 = 2;
const FLOOD: u8 = 3;
const CROWD: u8 = 4;
const DEAF: u8 = 5;
const SILENT: u8 = 6;

fn configuration() -> String {
    format!(
        "[gateway]\nconnections_max = {CONNECTIONS}\nconnections_per_address_max = {CONNECTIONS_PER_ADDRESS}\n\
         login_deadline_seconds = 1\nslow_reader_seconds = 1\n[journal]\nsegment_mib = 64\nreserve_mib = 128\n\
         [snapshots]\nevery_frames = 1_000_000_000\nevery_seconds = 86_400\n[log]\nstats_seconds = 0\n"
    )
}

/// Something done to a server.
type Attack<'a> = &'a mut dyn FnMut(&Server);

fn order() -> Body {
    Body::NewOrder(limit(ACME, Side::Buy, Quantity(1), Price(100)))
}

/// A session that trades quietly all the time, and counts its answers.
struct Witness {
    answers: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl Witness {
    fn start(mut trader: Trader) -> Self {
        let (answers, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, stopped) = (Arc::clone(&answers), Arc::clone(&stop));
        // Each answer is waited for, and an answer that does not come ends the thread with a panic.
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                let id = trader.done(order());
                trader.done(cancel(ClientOrderId(id.0)));
                count.fetch_add(2, Ordering::Relaxed);
                // Quietly: it must not fill the disk meanwhile.
                std::thread::sleep(PACE);
            }
        });
        Self { answers, stop, thread }
    }

    /// Waits for answers to requests that were sent after the call.
    #[track_caller]
    fn is_answered(&self, when: &str) {
        let before = self.answers.load(Ordering::Relaxed);
        wait_for(&format!("the witness to be answered {when}"), || {
            assert!(!self.thread.is_finished(), "the witness was let down {when}");
            (self.answers.load(Ordering::Relaxed) > before + 4).then_some(())
        });
    }

    fn end(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("the witness was answered to the end");
        self.answers.load(Ordering::Relaxed)
    }
}

#[test]
fn hostile_clients_are_dropped_and_others_are_answered() {
    let (_, mut rng) = seeded("hostile");
    let mut venue = Venue::new(&configuration());
    let mut server = venue.start();
    let to = server.ready().native;
    let password = server.password("demo2");
    let witness = Witness::start(server.login("demo"));
    witness.is_answered("alone");
    let (resident, descriptors) = (server.resident_bytes(), server.descriptors());
    let limits =
        gateway::ListenerLimits { connections_max: CONNECTIONS, ..gateway::ListenerLimits::default() };
    let buffers = gateway::GatewayConfig { listener: limits, ..gateway::GatewayConfig::new(to) }.memory_max();
    let bound = resident + buffers + SLACK_BYTES;

    // Says nothing for all of the test, once logged in; 15 s are the protocol's.
    let mut silent = Raw::login_from(SILENT, to, "admin", &server.password("admin"), "", 0);
    let attacks: [(&str, Attack<'_>); 7] = [
        ("under random bytes", &mut |_| random_bytes(to, &mut rng)),
        ("under lying lengths", &mut |_| lying_lengths(to, &password)),
        ("under half frames", &mut |_| half_frames(to, &password)),
        ("under wrong logins", &mut |_| wrong_logins(to, &password)),
        ("in a flood of logins", &mut |_| login_flood(to)),
        ("in a crowd", &mut |_| crowd(to, &password)),
        ("beside a client that does not read", &mut |server| deaf(to, &password, server)),
    ];
    for (when, attack) in attacks {
        attack(&server);
        witness.is_answered(when);
        assert!(server.runs(), "it ran {when}:\n{}", venue.log());
        let now = server.resident_bytes();
        assert!(now <= bound, "{now} bytes resident {when}, the bound is {bound}");
    }
    assert!(silent.until_closed().contains(&Said::Fact("closing=silent".to_owned())));
    drop(silent);
    // Report files of the sessions that came in between, and the journal's next file, may be open; 700 sockets may not.
    wait_for("the descriptors to be given back", || (server.descriptors() <= descriptors + 8).then_some(()));
    let answers = witness.end();
    println!(
        "hostile: {answers} answers to the witness, {} MiB resident at the end, bound {} MiB",
        server.resident_bytes() >> 20,
        bound >> 20
    );
    server.terminate();
    assert_eq!(venue.ask(&["journal", "verify"])["valid"], true);
}

/// Bytes without sense, before a login. Each connection is closed, whatever it said.
fn random_bytes(to: SocketAddr, rng: &mut StdRng) {
    for _ in 0..100 {
        let mut raw = Raw::connect_from(NOISE, to).expect("connected");
        let mut noise = vec![0; rng.random_range(1..4_000)];
        rng.fill_bytes(&mut noise);
        // A server that has read enough may close while there is more to come.
        let _ = raw.send(&noise);
        let _ = raw.stream().shutdown(std::net::Shutdown::Write);
        let said = raw.until_closed();
        assert!(said.iter().all(|said| matches!(said, Said::Rejected(_))), "{said:?}");
    }
}

/// Lengths that are not what follows, before and after the login.
fn lying_lengths(to: SocketAddr, password: &str) {
    let lies: [&[u8]; 4] = [&[0, 0], &[4, 2, b'U'], &[0xff, 0xff, b'U'], &[0, 5, b'L', 1, 2, 3, 4]];
    for lie in lies {
        let mut raw = Raw::connect_from(NOISE, to).expect("connected");
        let _ = raw.send(lie);
        assert_eq!(raw.until_closed(), [], "{lie:?}");
        let mut raw = Raw::login_from(NOISE, to, "demo2", password, "", 0);
        let _ = raw.send(lie);
        let end = Said::Fact("closing=protocol".to_owned());
        assert!(raw.until_closed().contains(&end), "{lie:?}");
    }
    // A frame whose own length is not its packet's is refused, and the session goes on.
    let mut raw = Raw::login_from(NOISE, to, "demo2", password, "", 0);
    for length in [0_u16, 31, 57, 1024, u16::MAX] {
        let mut frame = frame(1, order());
        frame[..2].copy_from_slice(&length.to_le_bytes());
        raw.send(&bytes(&Packet::Unsequenced(&frame))).expect("sent");
        assert_eq!(heard(&mut raw), Said::Refused(RefuseReason::Malformed), "length {length}");
    }
    raw.send(&bytes(&Packet::Unsequenced(&[]))).expect("sent");
    assert_eq!(heard(&mut raw), Said::Refused(RefuseReason::Malformed), "an empty message");
    leave(raw);
}

/// Frames that are never completed do nothing, and one that comes byte by byte does what it says.
fn half_frames(to: SocketAddr, password: &str) {
    let highest = |raw: &mut Raw| loop {
        if let Said::Fact(fact) = raw.next().expect("the facts come")
            && let Some(id) = fact.strip_prefix("highest_id=")
        {
            return id.parse::<u64>().expect("a number");
        }
    };
    let mut raw = Raw::login_from(NOISE, to, "demo2", password, "", 0);
    let before = highest(&mut raw);
    leave(raw);
    let packet = request(before + 1, order());
    for cut in [1, 2, 3, 20, packet.len() - 1] {
        let mut raw = Raw::login_from(NOISE, to, "demo2", password, "", 0);
        assert_eq!(highest(&mut raw), before, "half a frame of {cut} bytes did nothing");
        raw.send(&packet[..cut]).expect("sent");
        let _ = raw.stream().shutdown(std::net::Shutdown::Both);
        drop(raw);
        wait_until_free(to, password);
    }
    let mut raw = Raw::login_from(NOISE, to, "demo2", password, "", 0);
    for byte in &packet {
        raw.send(&[*byte]).expect("sent");
    }
    assert!(matches!(heard(&mut raw), Said::Report(_)));
    leave(raw);
    // Half a login, and then nothing: the login's deadline ends it.
    let mut raw = Raw::connect_from(NOISE, to).expect("connected");
    raw.send(&login("demo2", password, "", 0)[..20]).expect("sent");
    assert_eq!(raw.until_closed(), []);
}

/// Waits until a session whose connection was cut off can be had again.
fn wait_until_free(to: SocketAddr, password: &str) {
    leave(wait_for("a session to be free again", || Raw::try_login_from(NOISE, to, "demo2", password)));
}

/// Logins with numbers and days that are not there, and packets that are out of order.
fn wrong_logins(to: SocketAddr, password: &str) {
    let refused = [
        ("", u64::MAX, 'S'),
        ("", 1_000_000, 'S'),
        ("0000000099", 1, 'S'),
        ("0000000000", 1, 'S'),
        ("yesterday", 1, 'S'),
    ];
    for (session, next, reason) in refused {
        let mut raw = Raw::connect_from(NOISE, to).expect("connected");
        raw.send(&login("demo2", password, session, next)).expect("sent");
        assert_eq!(raw.until_closed(), [Said::Rejected(reason)], "session {session:?}, number {next}");
    }
    let mut raw = Raw::connect_from(NOISE, to).expect("connected");
    let _ = raw.send(&request(1, order()));
    assert_eq!(raw.until_closed(), [], "an order before the login");
    let mut raw = Raw::login_from(NOISE, to, "demo2", password, "", 0);
    let mut second = Raw::connect_from(NOISE, to).expect("connected");
    second.send(&login("demo2", password, "", 0)).expect("sent");
    assert_eq!(second.until_closed(), [Said::Rejected('S')], "a second connection of a session");
    raw.send(&request(u64::MAX, Body::EndOfDay)).expect("sent");
    assert!(matches!(heard(&mut raw), Said::Report(_)), "a trader's end of day is a reject");
    let _ = raw.send(&login("demo2", password, "", 0));
    assert!(raw.until_closed().contains(&Said::Fact("closing=protocol".to_owned())), "a second login");
}

/// Wrong passwords, as fast as connections can be made.
fn login_flood(to: SocketAddr) {
    let mut flood = Vec::new();
    let mut answered = 0;
    for attempt in 0..300 {
        if flood.len() == CONNECTIONS_PER_ADDRESS {
            answered += judge(flood.remove(0));
        }
        let mut raw = Raw::connect_from(FLOOD, to).expect("connected");
        if raw.send(&login(if attempt % 2 == 0 { "demo" } else { "nobody" }, "guess", "", 0)).is_ok() {
            flood.push(raw);
        }
    }
    answered += flood.into_iter().map(judge).sum::<usize>();
    assert!(answered > 20, "{answered} of the flood got a word");
}

/// How a guess was taken: refused, or closed without a word.
fn judge(mut raw: Raw) -> usize {
    let said = raw.until_closed();
    assert!(said.iter().all(|said| matches!(said, Said::Rejected('A' | 'S'))), "{said:?}");
    said.len()
}

/// More connections than an address may have. Those above the limit are closed at once, those within it at the login's
/// deadline.
fn crowd(to: SocketAddr, password: &str) {
    let mut crowd: Vec<Raw> =
        (0..CONNECTIONS_PER_ADDRESS + 8).map(|_| Raw::connect_from(CROWD, to).expect("connected")).collect();
    // Another address still gets in.
    leave(Raw::login_from(NOISE, to, "demo2", password, "", 0));
    for raw in &mut crowd {
        assert_eq!(raw.until_closed(), []);
    }
}

/// A client that sends and never reads: it is dropped, and finds all of its reports when it comes back.
fn deaf(to: SocketAddr, password: &str, server: &Server) {
    // Enough that no buffers between the two hold all the answers.
    const ORDERS_MAX: u64 = 200_000;
    let dropped = |server: &Server| server.status()["slow_readers"].as_u64().expect("a number");
    assert_eq!(dropped(server), 0);
    let mut raw = Raw::login_from(DEAF, to, "demo2", password, "", 0);
    while !matches!(&raw.next(), Some(Said::Fact(fact)) if fact.starts_with("durability=")) {}
    // From an earlier attack, no id is left for this session: what it sends is rejected, each message by a report.
    raw.stream().set_nonblocking(true).expect("set");
    let mut batch = Vec::new();
    for _ in 0..100 {
        batch.extend_from_slice(&request(1, order()));
    }
    let mut sent = 0;
    let mut rest = &batch[..];
    wait_for("a client that does not read to be dropped", || {
        loop {
            match raw.stream().write(rest) {
                Ok(length) => {
                    rest = &rest[length..];
                    if rest.is_empty() {
                        sent += 100;
                        rest = &batch;
                        if sent >= ORDERS_MAX {
                            return (dropped(server) == 1).then_some(());
                        }
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {
                    return (dropped(server) == 1).then_some(());
                }
                Err(_) => return (dropped(server) == 1).then_some(()),
            }
        }
    });
    drop(raw);
    wait_until_free(to, password);
    let mut raw = Raw::login_from(NOISE, to, "demo2", password, "", 1);
    raw.log_out();
    let said = raw.until_closed();
    let numbers: Vec<u64> = said
        .iter()
        .filter_map(|said| if let Said::Report(number) = said { Some(*number) } else { None })
        .collect();
    assert!(
        numbers.len() > 1_000 && numbers.iter().copied().eq(1..=numbers.len() as u64),
        "{} reports",
        numbers.len()
    );
}

/// The next thing that is no fact.
#[track_caller]
fn heard(raw: &mut Raw) -> Said {
    loop {
        match raw.next().expect("an answer") {
            Said::Fact(_) => {}
            said => return said,
        }
    }
}

fn leave(mut raw: Raw) {
    raw.log_out();
    raw.until_closed();
}

//! Measures a gateway by itself: clients on loopback, a real input ring and report log, and an engine that answers each
//! command with one report and does nothing else.
//!
//! `cargo run --release -p gateway --example loopback [ORDERS [CLIENTS]]` prints orders a second flat out, and the round
//! trip of one order at a time.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use gateway::{
    Admission, Alone, Gateway, GatewayConfig, GatewayHandle, GatewayParts, Hub, HubEgress, HubSeed,
    RESUME_KEY_BYTES, ResumeKeys, credentials,
};
use journaler::{RealStorage, ReportLog, ReportLogOptions, ReportWriter};
use protocol::soupbin::{Login, Packet, read_packet, write_packet};
use protocol::*;
use ring::{InputRing, Polled, WaitStrategy, Waiter, WakeSet, input_ring};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

const RING_SLOTS: usize = 64 * 1024;
const ROUND_TRIPS: usize = 20_000;

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1).map(|text| text.parse::<u64>());
    let orders = arguments.next().transpose()?.unwrap_or(2_000_000);
    let clients = arguments.next().transpose()?.unwrap_or(1) as u32;
    let folder = tempfile::tempdir()?;
    let stop = Arc::new(AtomicBool::new(false));
    let (gateway, engine) = start(folder.path(), clients, &stop)?;
    let address = gateway.local_addr();

    let used = gateway_cpu_ns().unwrap_or(0);
    let started = Instant::now();
    let flows: Vec<_> = (1..=clients)
        .map(|session| spawn(move || flow(address, session, orders).map_err(|error| error.to_string())))
        .collect();
    for flow in flows {
        flow.join().map_err(|_| "a client panicked")??;
    }
    let seconds = started.elapsed().as_secs_f64();
    let total = orders * u64::from(clients);
    println!("{clients} clients, {total} orders in {seconds:.2} s: {:.2} M/s", total as f64 / seconds / 1e6);
    let used = gateway_cpu_ns().unwrap_or(0) - used;
    println!("gateway thread: {} ns of CPU an order", used / total);

    let mut times = round_trips(address, orders)?;
    times.sort_unstable();
    let at = |share: f64| times[((times.len() - 1) as f64 * share) as usize];
    println!("one at a time: p50 {:?}, p99 {:?}", at(0.5), at(0.99));

    gateway.stop();
    stop.store(true, Ordering::Relaxed);
    engine.join().map_err(|_| "the engine panicked")?;
    Ok(())
}

/// What the gateway's thread has used of a processor so far, in nanoseconds; says more than the rate where a machine is
/// shared. Linux only.
fn gateway_cpu_ns() -> Option<u64> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    tasks.flatten().find_map(|task| {
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        let used = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        (name.trim() == "gateway").then_some(used.split(' ').next()?.parse().ok()?)
    })
}

/// Sends all orders as fast as they are taken, and reads until all are answered.
fn flow(address: SocketAddr, session: u32, orders: u64) -> Result<()> {
    let mut stream = login(address, session)?;
    let mut reader = stream.try_clone()?;
    let reading = spawn(move || {
        let mut buffer = vec![0; 256 * 1024];
        let (mut end, mut reports) = (0, 0);
        while reports < orders {
            let length = reader.read(&mut buffer[end..]).expect("reports");
            assert!(length > 0, "the gateway closed after {reports} reports");
            end += length;
            let mut taken = 0;
            while let Some((packet, length)) = read_packet(&buffer[taken..end]).expect("a packet") {
                assert!(!matches!(packet, Packet::Unsequenced(_)), "refused");
                reports += u64::from(matches!(packet, Packet::Sequenced(_)));
                taken += length;
            }
            buffer.copy_within(taken..end, 0);
            end -= taken;
        }
    });
    let mut bytes = Vec::new();
    for id in 1..=orders {
        write_packet(&Packet::Unsequenced(order(id).as_bytes()), &mut bytes);
        if bytes.len() >= 128 * 1024 {
            stream.write_all(&bytes)?;
            bytes.clear();
        }
    }
    stream.write_all(&bytes)?;
    reading.join().map_err(|_| "the reader panicked")?;
    logout(stream)
}

fn round_trips(address: SocketAddr, last: u64) -> Result<Vec<Duration>> {
    let mut stream = login(address, 1)?;
    let mut buffer = [0; 4096];
    let mut times = Vec::with_capacity(ROUND_TRIPS);
    for id in last + 1..=last + ROUND_TRIPS as u64 {
        let mut bytes = Vec::new();
        write_packet(&Packet::Unsequenced(order(id).as_bytes()), &mut bytes);
        let sent = Instant::now();
        stream.write_all(&bytes)?;
        loop {
            let length = stream.read(&mut buffer)?;
            if matches!(read_packet(&buffer[..length])?, Some((Packet::Sequenced(_), _))) {
                break;
            }
        }
        times.push(sent.elapsed());
    }
    logout(stream)?;
    Ok(times)
}

fn login(address: SocketAddr, session: u32) -> Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut username = *b"      ";
    let name = format!("u{session}");
    username[..name.len()].copy_from_slice(name.as_bytes());
    let login = Login { username, password: *b"secret    ", session: *b"          ", next: 0 };
    let mut bytes = Vec::new();
    write_packet(&Packet::LoginRequest(login), &mut bytes);
    stream.write_all(&bytes)?;
    let mut answer = [0; 4096];
    let mut end = 0;
    while !answer[..end].windows(10).any(|bytes| bytes == b"durability") || answer[end - 1] != b'k' {
        let length = stream.read(&mut answer[end..])?;
        if length == 0 || answer[2] != b'A' {
            return Err("the login was refused".into());
        }
        end += length;
    }
    Ok(stream)
}

fn logout(mut stream: TcpStream) -> Result<()> {
    let mut bytes = Vec::new();
    write_packet(&Packet::LogoutRequest, &mut bytes);
    stream.write_all(&bytes)?;
    stream.read_to_end(&mut bytes)?;
    Ok(())
}

fn order(id: u64) -> FrameWriter {
    let body = Body::NewOrder(NewOrder {
        instrument: InstrumentId(1),
        side: Side::Buy,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::Day,
        flags: OrderFlags::default(),
        price: Some(Price(100)),
        quantity: Quantity(10),
        account: AccountId(0),
        cl_ord_id: None,
        terms: protocol::Terms::default(),
    });
    let (session, connection) = (SessionId::SYSTEM, ConnectionId(0));
    let command = Command { session, connection, request_id: RequestId(id), timestamp: Timestamp(0), body };
    command.encode().expect("an order has a frame")
}

fn start(
    folder: &std::path::Path,
    clients: u32,
    stop: &Arc<AtomicBool>,
) -> Result<(GatewayHandle, JoinHandle<()>)> {
    let log = ReportLog::open(Arc::new(RealStorage::create(folder)?), &ReportLogOptions::default())?;
    let credential = credentials::hash("secret", [1; 16])?;
    let user = |session| UserDefinition {
        session: SessionId(session),
        name: UserName::new(&format!("u{session}")).expect("a name"),
        credential,
        role: Role::Trader,
        enabled: true,
        cancel_on_disconnect: false,
        grace_ms: 0,
    };
    let users = (1..=clients).map(user).collect();
    let seed = HubSeed { trading_day: TradingDay(1), users, ..HubSeed::default() };
    let (hub, egress) = Hub::new(&seed);
    let waiter = Waiter::new(WaitStrategy::default());
    let ring = input_ring::<Command>(RING_SLOTS, WakeSet::new([waiter.waker()]))?;
    let ingress = ring.ingress.clone();
    let mut config = GatewayConfig::new("127.0.0.1:0".parse()?);
    config.session.throttle = None;
    let parts = GatewayParts {
        recorder: recorder::Writer::off(),
        resume: ResumeKeys::new([0; RESUME_KEY_BYTES]),
        ingress,
        reports: log.reader(),
        hub,
        depth: Arc::new(|_, _| None),
        admission: Arc::new(|| Admission::Open),
        leadership: Arc::new(Alone),
    };
    let gateway = Gateway::start(config, parts)?;
    let engine = Engine { egress, reports: log.writer(), numbers: BTreeMap::new(), strides: BTreeMap::new() };
    let stop = Arc::clone(stop);
    Ok((gateway, spawn(move || engine.run(ring, waiter, &stop))))
}

struct Engine {
    egress: HubEgress,
    reports: ReportWriter,
    numbers: BTreeMap<SessionId, u64>,
    strides: BTreeMap<SessionId, Vec<u8>>,
}

impl Engine {
    fn run(mut self, mut ring: InputRing<Command>, mut waiter: Waiter, stop: &AtomicBool) {
        while !stop.load(Ordering::Relaxed) {
            waiter.wait(|| {
                let _ = ring.journal.poll(usize::MAX, |_| Ok::<(), ()>(()));
                let _ = ring.replicate.poll(usize::MAX, |_| Ok::<(), ()>(()));
                ring.unmarshal.poll(usize::MAX, |frame, cell| *cell = Command::decode(frame));
                let done = ring.logic.poll(usize::MAX, |batch| {
                    batch.iter().for_each(|command| self.apply(command));
                    batch.len()
                });
                self.flush();
                matches!(done, Polled::Work(_))
            });
        }
    }

    fn apply(&mut self, command: &Command) {
        let (session, connection) = (command.session, command.connection);
        let number = self.numbers.entry(session).or_default();
        match command.body {
            Body::Login(_) => self.egress.notify(Notice::LoggedIn(LoggedIn {
                session,
                connection,
                trading_day: TradingDay(1),
                last_report: ReportNumber(*number),
                highest_request_id: RequestId(*number),
            })),
            Body::Logout | Body::Disconnect(_) => {
                self.flush();
                self.egress.notify(Notice::ConnectionEnded(session, connection, EndReason::Logout));
            }
            _ => {
                *number += 1;
                let to = Recipient { session, number: ReportNumber(*number) };
                let event = Event::Accepted(Accepted {
                    to,
                    request_id: command.request_id,
                    order_id: OrderId(*number),
                    price: Some(Price(100)),
                    quantity: Quantity(10),
                    instrument: InstrumentId(1),
                    account: AccountId(0),
                    side: Side::Buy,
                    order_type: OrderType::Limit,
                    time_in_force: TimeInForce::Day,
                    flags: OrderFlags::default(),
                });
                let output = Output { sequence: Sequence(*number), log_time: command.timestamp, event };
                let mut stride = [0; REPORT_STRIDE];
                Report { output, cl_ord_id: None }.encode(&mut stride);
                self.strides.entry(session).or_default().extend_from_slice(&stride);
            }
        }
    }

    fn flush(&mut self) {
        for (session, strides) in &mut self.strides {
            if strides.is_empty() {
                continue;
            }
            let last = self.numbers[session];
            let first = ReportNumber(last + 1 - (strides.len() / REPORT_STRIDE) as u64);
            self.reports.write(*session, TradingDay(1), first, strides).expect("reports are written");
            strides.clear();
            self.egress.notify(Notice::Reports(*session, TradingDay(1), ReportNumber(last)));
        }
    }
}

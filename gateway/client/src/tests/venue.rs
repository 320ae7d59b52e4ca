//! A venue in memory: what it processed is durable, what it only received is lost in a crash. It keeps the truth that the
//! client's outcomes are held against.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use protocol::soupbin::{self, Packet, session_day, session_name};
use protocol::{
    Accepted, AccountId, Body, CancelReason, Canceled, ClientOrderId, Command, Event, FrameHeader,
    InstrumentId, MassCanceled, OrdStatus, OrderFlags, OrderId, OrderKey, OrderStatusReport, OrderType,
    Output, Price, Quantity, REPORT_STRIDE, Recipient, RefuseReason, Refused, RejectReason, Rejected,
    Replaced, Report, ReportNumber, RequestId, Sequence, SessionId, Side, TimeInForce, Timestamp, TradingDay,
    Unsequenced,
};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::cluster::Cluster;

/// What became of a request in the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Done(ReportNumber),
    Rejected(ReportNumber, RejectReason),
}

#[derive(Debug)]
pub(super) enum Item {
    Login(u32, soupbin::Login),
    Frame(u32, Vec<u8>),
    Disconnect(u32),
    EndOfDay,
}

#[derive(Debug, Default)]
pub(super) struct Connection {
    /// Number of the member; 0 for a venue alone.
    pub(super) member: usize,
    /// Its member is stopped: bytes go nowhere.
    frozen: bool,
    inbox: Vec<u8>,
    output: Vec<u8>,
    /// Day and number of the report that it gets next.
    cursor: Option<(u32, usize)>,
    closed: bool,
}

#[derive(Debug)]
pub(super) struct Venue {
    rng: StdRng,
    /// Of 100 requests, how many the gateway refuses.
    pub(super) refusals: u32,
    /// Of 100 requests, how many are rejected.
    pub(super) rejects: u32,
    day: u32,
    highest: u64,
    reports: BTreeMap<u32, Vec<Vec<u8>>>,
    pub(super) live: Option<u32>,
    pub(super) queue: VecDeque<Item>,
    pub(super) connections: BTreeMap<u32, Connection>,
    connection_last: u32,
    pub(super) truth: BTreeMap<RequestId, Verdict>,
    pub(super) refused: BTreeSet<RequestId>,
    /// Requests that came again although they had been processed.
    pub(super) repeated: u32,
    /// Logins that came with a token.
    pub(super) resumed: u32,
    /// A `leader=` that the next login is answered with.
    pub(super) leader: Option<String>,
    /// `None` for a venue alone.
    pub(super) cluster: Option<Cluster>,
}

const SESSION: SessionId = SessionId(7);

impl Venue {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            rng: StdRng::seed_from_u64(seed),
            refusals: 0,
            rejects: 0,
            day: 1,
            highest: 0,
            reports: BTreeMap::new(),
            live: None,
            queue: VecDeque::new(),
            connections: BTreeMap::new(),
            connection_last: 0,
            truth: BTreeMap::new(),
            refused: BTreeSet::new(),
            repeated: 0,
            resumed: 0,
            leader: None,
            cluster: None,
        }
    }

    /// A connection to an address; `None` where nobody is there.
    pub(super) fn connect(&mut self, address: &str) -> Option<u32> {
        let member = match &self.cluster {
            Some(cluster) => cluster.member(address)?,
            None => 0,
        };
        let frozen = self.cluster.as_ref().is_some_and(|cluster| cluster.is_stopped(member));
        self.connection_last += 1;
        let state = Connection { member, frozen, ..Connection::default() };
        self.connections.insert(self.connection_last, state);
        Some(self.connection_last)
    }

    /// The connection's member stops: what is on its way to the client still comes, and then nothing.
    pub(super) fn freeze(&mut self, connection: u32) {
        if let Some(state) = self.connections.get_mut(&connection) {
            (state.frozen, state.cursor) = (true, None);
        }
    }

    /// The connection ends, and the exchange need not hear of it.
    pub(super) fn shut(&mut self, connection: u32) {
        if let Some(state) = self.connections.get_mut(&connection) {
            (state.closed, state.cursor) = (true, None);
        }
    }

    pub(super) fn closed(&mut self, connection: u32) {
        if self.connections.remove(&connection).is_some() {
            self.queue.push_back(Item::Disconnect(connection));
        }
    }

    pub(super) fn has_closed(&self, connection: u32) -> bool {
        self.connections.get(&connection).is_none_or(|state| state.closed && state.output.is_empty())
    }

    pub(super) fn reports_of(&self, day: TradingDay) -> u64 {
        self.reports.get(&day.0).map_or(0, |reports| reports.len() as u64)
    }

    /// Takes bytes of a connection; whole packets go into the queue, as into an input ring.
    pub(super) fn receive(&mut self, connection: u32, bytes: &[u8]) {
        let Some(state) = self.connections.get_mut(&connection) else { return };
        if state.frozen || state.closed {
            return;
        }
        state.inbox.extend_from_slice(bytes);
        let inbox = std::mem::take(&mut state.inbox);
        let mut at = 0;
        while let Some((packet, length)) =
            soupbin::read_packet(&inbox[at..]).expect("the client sends packets")
        {
            at += length;
            match packet {
                Packet::LoginRequest(login) => self.queue.push_back(Item::Login(connection, login)),
                Packet::Unsequenced(frame) => self.frame(connection, frame),
                Packet::LogoutRequest => self.close(connection),
                Packet::ClientHeartbeat => {}
                Packet::Debug(b"resume") => self.send(connection, &Packet::Debug(b"resume=good")),
                Packet::Debug(b"resume=good") => self.resumed += 1,
                other => panic!("the client sent {other:?}"),
            }
        }
        if let Some(state) = self.connections.get_mut(&connection) {
            state.inbox = inbox[at..].to_vec();
        }
    }

    fn frame(&mut self, connection: u32, frame: &[u8]) {
        let header = FrameHeader::read(frame).expect("the client sends frames");
        assert!(self.connections[&connection].cursor.is_some(), "a request before the login was answered");
        if self.rng.random_range(0..100) >= self.refusals {
            self.queue.push_back(Item::Frame(connection, frame.to_vec()));
            return;
        }
        self.refused.insert(header.request_id());
        let refused = Unsequenced::Refused(Refused {
            request_id: header.request_id(),
            reason: RefuseReason::Throttled,
            request_kind: header.kind(),
        });
        self.send(connection, &Packet::Unsequenced(refused.encode().as_bytes()));
    }

    pub(super) fn send(&mut self, connection: u32, packet: &Packet<'_>) {
        if let Some(state) = self.connections.get_mut(&connection) {
            soupbin::write_packet(packet, &mut state.output);
        }
    }

    pub(super) fn close(&mut self, connection: u32) {
        if let Some(state) = self.connections.get_mut(&connection) {
            state.closed = true;
        }
        self.queue.push_back(Item::Disconnect(connection));
    }

    /// Processes up to `count` items of the queue and sends the reports that are due.
    pub(super) fn process(&mut self, count: usize) {
        for _ in 0..count {
            let Some(item) = self.queue.pop_front() else { break };
            match item {
                Item::Login(connection, login) => self.login(connection, &login),
                Item::Frame(connection, frame) => self.command(connection, &frame),
                Item::Disconnect(connection) if self.live == Some(connection) => self.live = None,
                Item::Disconnect(_) => {}
                Item::EndOfDay => self.day += 1,
            }
        }
        self.flush();
    }

    /// Ends the day, unless the client still is in an older one: a venue keeps only the day before the current one.
    pub(super) fn end_of_day(&mut self, client_day: TradingDay) {
        let asked = self.queue.iter().any(|item| matches!(item, Item::EndOfDay));
        if client_day.0 == self.day && !asked {
            self.queue.push_back(Item::EndOfDay);
        }
    }

    /// An operator disconnects the user: what its connection sent and still is in the queue does nothing.
    pub(super) fn kick(&mut self) {
        if let Some(connection) = self.live.take() {
            self.close(connection);
        }
    }

    pub(super) fn crash(&mut self) {
        self.queue.clear();
        self.connections.clear();
        self.live = None;
    }

    pub(super) fn take_output(&mut self, connection: u32, count: usize) -> Vec<u8> {
        let Some(state) = self.connections.get_mut(&connection) else { return Vec::new() };
        let count = state.output.len().min(count);
        state.output.drain(..count).collect()
    }

    fn login(&mut self, connection: u32, login: &soupbin::Login) {
        if !self.connections.contains_key(&connection) {
            return;
        }
        if self.turn_away(connection) {
            return;
        }
        if let Some(leader) = self.leader.take() {
            self.send(connection, &Packet::Debug(format!("leader={leader}").as_bytes()));
            return self.close(connection);
        }
        let day = session_day(&login.session).map_or(self.day, |day| day.0);
        let last = self.reports_of(TradingDay(day));
        let next = if login.next == 0 { last + 1 } else { login.next };
        if self.live.is_some() || next > last + 1 || day > self.day || day + 1 < self.day {
            self.send(connection, &Packet::LoginRejected(b'S'));
            return self.close(connection);
        }
        self.send(connection, &Packet::LoginAccepted { session: session_name(TradingDay(day)), next });
        if day == self.day {
            self.live = Some(connection);
            let facts =
                [("trading_day", u64::from(day)), ("last_report", last), ("highest_id", self.highest)];
            for (name, value) in facts {
                self.send(connection, &Packet::Debug(format!("{name}={value}").as_bytes()));
            }
        }
        if let Some(state) = self.connections.get_mut(&connection) {
            state.cursor = Some((day, next as usize - 1));
        }
    }

    /// Sends the reports that connections have not got, and the end of a day that is over.
    fn flush(&mut self) {
        let mut ended = Vec::new();
        for (connection, state) in &mut self.connections {
            let Some((day, at)) = &mut state.cursor else { continue };
            if state.closed {
                continue;
            }
            for frame in self.reports.get(day).map_or(&[][..], |reports| &reports[*at..]) {
                let length = FrameHeader::read(frame).expect("a report").length();
                soupbin::write_packet(&Packet::Sequenced(&frame[..length]), &mut state.output);
                *at += 1;
            }
            if *day < self.day {
                soupbin::write_packet(&Packet::EndOfSession, &mut state.output);
                ended.push(*connection);
            }
        }
        ended.into_iter().for_each(|connection| self.close(connection));
    }

    fn command(&mut self, connection: u32, frame: &[u8]) {
        let command = Command::try_decode(frame).expect("the client sends good frames");
        let id = command.request_id;
        if self.live != Some(connection) {
            self.reject(&command, RejectReason::NotLoggedIn);
        } else if id.0 <= self.highest {
            self.repeated += 1;
            self.reject(&command, RejectReason::IdNotRising);
        } else {
            self.highest = id.0;
            let verdict = if self.rng.random_range(0..100) < self.rejects {
                Verdict::Rejected(
                    self.reject(&command, RejectReason::QuantityZero),
                    RejectReason::QuantityZero,
                )
            } else {
                Verdict::Done(self.answer(&command))
            };
            let before = self.truth.insert(id, verdict);
            assert_eq!(before, None);
        }
    }

    fn reject(&mut self, command: &Command, reason: RejectReason) -> ReportNumber {
        let highest_request_id = RequestId(self.highest);
        self.report(|to| {
            Event::Rejected(Rejected {
                to,
                request_id: command.request_id,
                client_order_id: None,
                highest_request_id,
                instrument: InstrumentId(1),
                request_kind: None,
                reason,
            })
        })
    }

    /// The reports of a request that does something; the number of the one that answers it.
    fn answer(&mut self, command: &Command) -> ReportNumber {
        let request_id = command.request_id;
        let (price, side) = (Price(100), Side::Buy);
        let order_id = OrderId(request_id.0);
        let (instrument, account) = (InstrumentId(1), AccountId(0));
        let order = |key: OrderKey| match key {
            OrderKey::Id(id) => id,
            OrderKey::Text(_) => ClientOrderId(0),
        };
        let canceled = |to: Recipient, client_order_id: ClientOrderId, reason: CancelReason| {
            Event::Canceled(Canceled {
                to,
                request_id,
                order_id,
                client_order_id,
                resting_price: Some(price),
                canceled_quantity: Quantity(1),
                cum_quantity: Quantity(0),
                instrument,
                account,
                side,
                reason,
            })
        };
        match command.body {
            Body::NewOrder(new) => self.report(|to| {
                Event::Accepted(Accepted {
                    to,
                    request_id,
                    order_id,
                    price: new.price,
                    quantity: new.quantity,
                    instrument,
                    account,
                    side,
                    order_type: OrderType::Limit,
                    time_in_force: TimeInForce::GoodTillCancel,
                    flags: OrderFlags::default(),
                })
            }),
            Body::CancelOrder(cancel) => {
                self.report(|to| canceled(to, order(cancel.order), CancelReason::Requested))
            }
            Body::ReplaceOrder(replace) => self.report(|to| {
                Event::Replaced(Replaced {
                    to,
                    request_id,
                    order_id,
                    client_order_id: order(replace.order),
                    price: replace.price,
                    quantity: replace.quantity,
                    cum_quantity: Quantity(0),
                    instrument,
                    account,
                    side,
                    kept_place: true,
                })
            }),
            Body::OrderStatus(request) => self.report(|to| {
                Event::OrderStatus(OrderStatusReport {
                    to,
                    request_id,
                    order_id,
                    client_order_id: order(request.order),
                    price: Some(price),
                    stop_price: None,
                    leaves_quantity: Quantity(1),
                    cum_quantity: Quantity(0),
                    instrument,
                    account,
                    side,
                    status: OrdStatus::New,
                })
            }),
            Body::MassCancel(_) => {
                for id in 1..=2 {
                    self.report(|to| canceled(to, ClientOrderId(id), CancelReason::MassCancel));
                }
                self.report(|to| Event::MassCanceled(MassCanceled { to, request_id, orders: 2 }))
            }
            other => panic!("the fake venue has no answer to {other:?}"),
        }
    }

    fn report(&mut self, event: impl FnOnce(Recipient) -> Event) -> ReportNumber {
        let of_day = self.reports.entry(self.day).or_default();
        let number = ReportNumber(of_day.len() as u64 + 1);
        let event = event(Recipient { session: SESSION, number });
        let output = Output { sequence: Sequence(1), log_time: Timestamp(1), event };
        let mut stride = [0; REPORT_STRIDE];
        Report { output, cl_ord_id: None }.encode(&mut stride).expect("a report");
        of_day.push(stride.to_vec());
        number
    }
}

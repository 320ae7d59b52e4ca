//! A client: sends requests, times out, goes to another member, and finds out what became of each request by the rules of
//! docs/native-order-entry.md. It must not know anything that no packet told it.

use std::collections::{BTreeMap, VecDeque};

use oracle::random::Random;
use protocol::{
    AccountId, Body, CancelOrder, ClOrdId, ClientOrderId, InstrumentId, MassCancel, NewOrder, OrderFlags,
    OrderKey, OrderStatusRequest, OrderType, Price, Quantity, ReplaceOrder, RequestId, SessionId, Side,
    TimeInForce, TradingDay,
};

use crate::edge::{ToClient, ToServer};
use crate::trace::Trace;
use crate::truth::{self, Truth};

/// What a client knows of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Unknown,
    /// The frame of this sequence decided it.
    Answered(u64),
    /// It never got into the log, or did nothing there.
    Nothing,
}

#[derive(Clone, Debug)]
struct Request {
    body: Body,
    /// All that was acknowledged to anybody before it was first sent is before it in the log.
    floor: u64,
    outcome: Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum State {
    Away {
        until: u64,
    },
    LoggingIn {
        wire: u64,
    },
    /// Reads what it missed before it goes on.
    CatchingUp {
        wire: u64,
        last_report: u64,
        highest_id: u64,
    },
    In {
        wire: u64,
    },
}

/// A user of the venue.
pub(crate) struct Client {
    pub(crate) session: SessionId,
    random: Random,
    trace: Trace,
    state: State,
    /// When it last heard anything.
    heard: u64,
    patience: u64,
    window: usize,
    think_max: u64,
    next_send: u64,
    day: TradingDay,
    seen: u64,
    requests: BTreeMap<RequestId, Request>,
    unknown: usize,
    last_id: u64,
    to_send: u64,
    /// What it sent on this connection and has no answer to, in order.
    on_wire: VecDeque<RequestId>,
    query: Option<u64>,
    leader: Option<u64>,
}

/// What a client wants of the world.
pub(crate) enum Act {
    /// Connect to a member and send a login.
    Connect {
        member: u64,
        login: ToServer,
    },
    Send {
        wire: u64,
        packet: ToServer,
    },
    Hang {
        wire: u64,
    },
}

/// One request in so many is sent twice.
const CARELESS_ONE_IN: u64 = 20;
pub(crate) const INSTRUMENTS: [InstrumentId; 2] = [InstrumentId(1), InstrumentId(2)];

impl Client {
    pub(crate) fn new(session: SessionId, seed: u64, requests: u64, trace: Trace) -> Self {
        let mut random = Random::new(seed);
        let patience = 300 + random.below(1_200);
        let window = *random.pick(&[1, 4, 16]);
        let think_max = *random.pick(&[2, 10, 40]);
        Self {
            session,
            random,
            trace,
            state: State::Away { until: 0 },
            heard: 0,
            patience,
            window,
            think_max,
            next_send: 0,
            day: TradingDay(0),
            seen: 0,
            requests: BTreeMap::new(),
            unknown: 0,
            last_id: 0,
            to_send: requests,
            on_wire: VecDeque::new(),
            query: None,
            leader: None,
        }
    }

    /// Whether it has sent all that it wanted and knows what became of it.
    pub(crate) fn is_done(&self) -> bool {
        self.to_send == 0 && self.unknown == 0
    }

    /// Sends no new requests from here on.
    pub(crate) fn finish(&mut self) {
        self.to_send = 0;
    }

    pub(crate) fn describe(&self) -> String {
        format!(
            "session {}: {:?}, {} to send, {} unknown, report {} of day {}",
            self.session, self.state, self.to_send, self.unknown, self.seen, self.day
        )
    }

    /// What it does now. `acknowledged` is the highest sequence that anybody was told of.
    pub(crate) fn step(&mut self, now: u64, members: &[u64], acknowledged: u64) -> Vec<Act> {
        let mut acts = Vec::new();
        match self.state.clone() {
            State::Away { until } => {
                if now >= until {
                    let member = self.leader.take().unwrap_or_else(|| *self.random.pick(members));
                    let login = ToServer::Login { session: self.session, day: self.day, from: self.seen + 1 };
                    acts.push(Act::Connect { member, login });
                    self.heard = now;
                }
            }
            State::LoggingIn { wire } | State::CatchingUp { wire, .. } => {
                if now > self.heard + self.patience {
                    self.leave(now, wire, &mut acts);
                }
            }
            State::In { wire } => {
                let waits = self.unknown > 0 || self.query.is_some();
                if waits && now > self.heard + self.patience {
                    self.leave(now, wire, &mut acts);
                } else {
                    self.send(now, wire, acknowledged, &mut acts);
                }
            }
        }
        acts
    }

    fn leave(&mut self, now: u64, wire: u64, acts: &mut Vec<Act>) {
        acts.push(Act::Hang { wire });
        self.away(now);
    }

    fn away(&mut self, now: u64) {
        self.query = None;
        self.on_wire.clear();
        self.state = State::Away { until: now + 5 + self.random.below(60) };
    }

    /// The connection that it asked for.
    pub(crate) fn connected(&mut self, wire: u64) {
        self.state = State::LoggingIn { wire };
    }

    fn send(&mut self, now: u64, wire: u64, acknowledged: u64, acts: &mut Vec<Act>) {
        if now < self.next_send {
            return;
        }
        self.next_send = now + self.random.below(self.think_max + 1);
        if self.query.is_none() && self.random.one_in(20) {
            let number = self.random.word();
            self.query = Some(number);
            self.heard = now;
            acts.push(Act::Send { wire, packet: ToServer::Query { number } });
        }
        if self.to_send == 0 || self.unknown >= self.window {
            return;
        }
        self.to_send -= 1;
        if self.unknown == 0 {
            self.heard = now;
        }
        self.last_id += 1 + self.random.below(2);
        let id = RequestId(self.last_id);
        let body = self.body();
        self.requests.insert(id, Request { body, floor: acknowledged, outcome: Outcome::Unknown });
        self.unknown += 1;
        self.on_wire.push_back(id);
        let packet = ToServer::Request { id, body };
        if self.random.one_in(CARELESS_ONE_IN) {
            acts.push(Act::Send { wire, packet: packet.clone() });
        }
        acts.push(Act::Send { wire, packet });
    }

    fn body(&mut self) -> Body {
        let random = &mut self.random;
        let back = 1 + random.below(12);
        let order = OrderKey::Id(ClientOrderId(self.last_id.saturating_sub(back)));
        let price = Price(95 + random.below(11) as i64);
        let quantity = Quantity(1 + random.below(20));
        let instrument = *random.pick(&INSTRUMENTS);
        match random.below(20) {
            0..=3 => Body::CancelOrder(CancelOrder { order, side: None, cl_ord_id: None }),
            4 | 5 => Body::ReplaceOrder(ReplaceOrder {
                order,
                side: None,
                price: Some(price),
                quantity,
                stop_price: None,
                display: None,
                cl_ord_id: None,
            }),
            6 => Body::OrderStatus(OrderStatusRequest { order }),
            7 if random.one_in(3) => Body::MassCancel(MassCancel {
                session: self.session,
                instrument: random.one_in(2).then_some(instrument),
                side: None,
            }),
            kind => Body::NewOrder(NewOrder {
                instrument,
                side: if random.one_in(2) { Side::Buy } else { Side::Sell },
                order_type: OrderType::Limit,
                time_in_force: match kind {
                    8 => TimeInForce::ImmediateOrCancel,
                    9..=12 => TimeInForce::Day,
                    _ => TimeInForce::GoodTillCancel,
                },
                flags: OrderFlags::default(),
                price: Some(price),
                quantity,
                account: AccountId(0),
                cl_ord_id: (kind < 12)
                    .then(|| ClOrdId::new(format!("o{}", random.below(400)).as_bytes()).ok())
                    .flatten(),
                terms: protocol::Terms::default(),
            }),
        }
    }

    /// Takes a packet. Gives the sequence of what was acknowledged, if anything was.
    pub(crate) fn take(&mut self, now: u64, wire: u64, packet: ToClient, acts: &mut Vec<Act>) -> Option<u64> {
        let current = match &self.state {
            State::Away { .. } => return None,
            State::LoggingIn { wire } | State::CatchingUp { wire, .. } | State::In { wire } => *wire,
        };
        if current != wire {
            return None;
        }
        self.heard = now;
        match packet {
            ToClient::LoggedIn { day, last_report, highest_id } => {
                if self.day != day {
                    (self.day, self.seen) = (day, 0);
                }
                self.state = State::CatchingUp { wire, last_report, highest_id };
                self.go_on(wire, acts);
            }
            ToClient::Refused { leader } => {
                self.leader = leader;
                self.away(now);
            }
            ToClient::Answer { number } => {
                if self.query == Some(number) {
                    self.query = None;
                }
            }
            ToClient::Report { number, bytes } => {
                if number != self.seen + 1 {
                    let what = format!("session {} got report {number} after {}", self.session, self.seen);
                    self.trace.violated(what);
                }
                self.seen = number;
                let told = self.learn(bytes.as_slice());
                self.go_on(wire, acts);
                return told;
            }
            ToClient::EndOfDay => {
                (self.day, self.seen) = (TradingDay(self.day.0 + 1), 0);
                self.away(now);
            }
            ToClient::Closed => self.away(now),
        }
        None
    }

    fn learn(&mut self, report: &[u8]) -> Option<u64> {
        let (id, is_answer) = truth::answer(report)?;
        let sequence = truth::cause(report);
        let Some(request) = self.requests.get_mut(&id) else {
            self.trace
                .violated(format!("session {} got an answer to {id}, which it never sent", self.session));
            return None;
        };
        let cancels = matches!(request.body, Body::CancelOrder(_) | Body::ReplaceOrder(_));
        let canceled = report.get(2) == Some(&truth::CANCELED);
        if !is_answer && (!cancels || !canceled) {
            return None;
        }
        match request.outcome {
            Outcome::Unknown => {
                request.outcome = Outcome::Answered(sequence);
                self.unknown -= 1;
            }
            before => {
                let what = format!(
                    "session {}: request {id} was {before:?}, and is answered at {sequence}",
                    self.session
                );
                self.trace.violated(what);
            }
        }
        if let Some(place) = self.on_wire.iter().position(|sent| *sent == id) {
            if place > 0 {
                let what = format!(
                    "session {}: request {id} is answered, and {:?} before it on the same connection is not",
                    self.session,
                    self.on_wire.front()
                );
                self.trace.violated(what);
            }
            self.on_wire.drain(..=place);
        }
        if sequence <= request.floor {
            let what = format!(
                "session {}: request {id} is frame {sequence} in the log, and was sent after frame {} was acknowledged",
                self.session, request.floor
            );
            self.trace.violated(what);
        }
        Some(sequence)
    }

    /// Once it has read all that it missed: what never got into the log is sent again, what was passed over did nothing.
    fn go_on(&mut self, wire: u64, acts: &mut Vec<Act>) {
        let State::CatchingUp { last_report, highest_id, .. } = self.state else { return };
        if self.seen < last_report {
            return;
        }
        self.state = State::In { wire };
        for (id, request) in &mut self.requests {
            if request.outcome != Outcome::Unknown {
                continue;
            }
            if id.0 <= highest_id {
                request.outcome = Outcome::Nothing;
                self.unknown -= 1;
            } else {
                self.on_wire.push_back(*id);
                acts.push(Act::Send { wire, packet: ToServer::Request { id: *id, body: request.body } });
            }
        }
    }

    /// What it believes against what is true.
    pub(crate) fn check(&self, truth: &Truth) {
        for (id, request) in &self.requests {
            let answers = truth.answers(self.session, *id);
            let expected: &[u64] = match &request.outcome {
                Outcome::Answered(sequence) => std::slice::from_ref(sequence),
                Outcome::Nothing => &[],
                Outcome::Unknown => continue,
            };
            let found: Vec<u64> = answers.iter().map(|answer| answer.sequence).collect();
            if found != expected {
                let what = format!(
                    "session {}: request {id} is {:?} to its client, and has answers at {found:?} in the log",
                    self.session, request.outcome
                );
                self.trace.violated(what);
            }
            if truth.bodies(self.session, *id).iter().any(|body| *body != request.body) {
                self.trace.violated(format!("session {}: request {id} is altered in the log", self.session));
            }
        }
    }
}

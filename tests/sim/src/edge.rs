//! The gateway of a simulated member: lets clients in while the member leads, publishes their frames, and gives them their
//! reports. It follows the rules of the real one; it must not decide on more than that.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use pipeline::{Clock, EngineView};
use protocol::{
    Body, Command, ConnectionId, Egress, EndReason, FrameWriter, LoginRequest, Notice, REPORT_STRIDE,
    ReportNumber, RequestId, SessionId, Term, TradingDay,
};
use replicator::Lead;
use ring::{Ingress, PublishError};

use crate::trace::lock;
use crate::truth::Truth;

/// Reports that one step gives to one connection.
const REPORTS_A_STEP: usize = 64;

/// The number of connections that only read a day that is over: the log doesn't know them.
const READER: ConnectionId = ConnectionId(0);

/// What a client sends.
#[derive(Clone, Debug)]
pub(crate) enum ToServer {
    Login { session: SessionId, day: TradingDay, from: u64 },
    Request { id: RequestId, body: Body },
    Query { number: u64 },
    Close,
}

/// What a client gets.
#[derive(Clone, Debug)]
pub(crate) enum ToClient {
    LoggedIn { day: TradingDay, last_report: u64, highest_id: u64 },
    Refused { leader: Option<u64> },
    Report { number: u64, bytes: Box<[u8; REPORT_STRIDE]> },
    Answer { number: u64 },
    EndOfDay,
    Closed,
}

/// Gathers what the engine tells.
#[derive(Clone, Default)]
pub(crate) struct Notices(Arc<Mutex<VecDeque<Notice>>>);

impl Egress for Notices {
    fn notify(&mut self, notice: Notice) {
        lock(&self.0).push_back(notice);
    }
}

struct Connection {
    session: SessionId,
    number: ConnectionId,
    /// The leadership that it lives in.
    term: Term,
    day: TradingDay,
    /// Of the next report to send; `None` until the login is through.
    next_report: Option<u64>,
    wanted: u64,
    day_over: bool,
    waiting: VecDeque<(RequestId, Body)>,
}

/// What came of one step.
#[derive(Default)]
pub(crate) struct Given {
    pub(crate) to_clients: Vec<(u64, ToClient)>,
    /// An answer outside the log was given.
    pub(crate) unlogged: bool,
    /// A report was given on a live connection.
    pub(crate) acknowledged: bool,
}

/// The gateway.
pub(crate) struct Edge {
    member: u64,
    lead: Lead,
    ingress: Ingress,
    view: EngineView,
    clock: Clock,
    notices: Notices,
    truth: Arc<Mutex<Truth>>,
    last_number: u32,
    day: TradingDay,
    connections: BTreeMap<u64, Connection>,
    /// Logins, and ends of connections, that are not published yet.
    own: VecDeque<(Term, FrameWriter)>,
}

/// What an edge is made of.
pub(crate) struct Parts {
    pub(crate) member: u64,
    pub(crate) lead: Lead,
    pub(crate) ingress: Ingress,
    pub(crate) view: EngineView,
    pub(crate) clock: Clock,
    pub(crate) notices: Notices,
    pub(crate) truth: Arc<Mutex<Truth>>,
    /// The number of the first connection, less one.
    pub(crate) first_number: u32,
    pub(crate) day: TradingDay,
}

impl Edge {
    pub(crate) fn new(parts: Parts) -> Self {
        let Parts { member, lead, ingress, view, clock, notices, truth, first_number, day } = parts;
        Self {
            member,
            lead,
            ingress,
            view,
            clock,
            notices,
            truth,
            last_number: first_number,
            day,
            connections: BTreeMap::new(),
            own: VecDeque::new(),
        }
    }

    /// Takes what came, publishes what it may, and gives what there is to give.
    pub(crate) fn step(&mut self, came: Vec<(u64, ToServer)>) -> Given {
        let mut given = Given::default();
        self.close_those_of_other_terms(&mut given);
        for (wire, packet) in came {
            self.take(wire, packet, &mut given);
        }
        self.hear(&mut given);
        self.publish();
        self.report(&mut given);
        given
    }

    fn close_those_of_other_terms(&mut self, given: &mut Given) {
        let term = self.lead.term();
        let gone: Vec<u64> = self
            .connections
            .iter()
            .filter(|(_, connection)| Some(connection.term) != term)
            .map(|(wire, _)| *wire)
            .collect();
        for wire in gone {
            self.connections.remove(&wire);
            given.to_clients.push((wire, ToClient::Closed));
        }
    }

    fn take(&mut self, wire: u64, packet: ToServer, given: &mut Given) {
        match packet {
            ToServer::Login { session, day, from } => self.login(wire, session, (day, from), given),
            ToServer::Request { id, body } => {
                if let Some(connection) = self.connections.get_mut(&wire) {
                    connection.waiting.push_back((id, body));
                }
            }
            ToServer::Query { number } => {
                if self.connections.contains_key(&wire) && self.may_answer() {
                    given.unlogged = true;
                    given.to_clients.push((wire, ToClient::Answer { number }));
                }
            }
            ToServer::Close => {
                if let Some(connection) = self.connections.remove(&wire)
                    && connection.number != READER
                {
                    self.end(&connection);
                }
            }
        }
    }

    /// Whether what is not in the log may be answered.
    fn may_answer(&self) -> bool {
        self.lead.is_confirmed()
    }

    fn login(&mut self, wire: u64, session: SessionId, (day, from): (TradingDay, u64), given: &mut Given) {
        let term = self.lead.term().filter(|_| self.lead.is_confirmed());
        let Some(term) = term else {
            let leader = self.lead.leader().map(|leader| leader.id.0);
            given.to_clients.push((wire, ToClient::Refused { leader }));
            return;
        };
        // A day that has ended is only read.
        let reads = day != TradingDay(0) && day < self.day;
        self.last_number += 1;
        let number = if reads { READER } else { ConnectionId(self.last_number) };
        let connection = Connection {
            session,
            number,
            term,
            day,
            next_report: reads.then_some(from),
            wanted: from,
            day_over: reads,
            waiting: VecDeque::new(),
        };
        self.connections.insert(wire, connection);
        if reads {
            return;
        }
        let frame =
            self.frame(session, number, RequestId(0), Body::Login(LoginRequest { trading_day: None }));
        self.own.push_back((term, frame));
    }

    fn end(&mut self, connection: &Connection) {
        let body = Body::Disconnect(EndReason::Closed);
        let frame = self.frame(connection.session, connection.number, RequestId(0), body);
        self.own.push_back((connection.term, frame));
    }

    fn frame(
        &self,
        session: SessionId,
        connection: ConnectionId,
        request_id: RequestId,
        body: Body,
    ) -> FrameWriter {
        let command = Command { session, connection, request_id, timestamp: self.clock.now(), body };
        match command.encode() {
            Some(frame) => frame,
            None => unreachable!("every body that is made here has a frame"),
        }
    }

    /// Takes what the engine told.
    fn hear(&mut self, given: &mut Given) {
        let notices = std::mem::take(&mut *lock(&self.notices.0));
        for notice in notices {
            match notice {
                Notice::LoggedIn(login) => {
                    let Some((wire, connection)) = self.of_number(login.connection) else { continue };
                    connection.next_report = Some(connection.wanted);
                    if connection.day != TradingDay(0) && connection.day != login.trading_day {
                        // The day ended during the login: its last reports, and then its end.
                        connection.day_over = true;
                        continue;
                    }
                    connection.day = login.trading_day;
                    let told = ToClient::LoggedIn {
                        day: login.trading_day,
                        last_report: login.last_report.0,
                        highest_id: login.highest_request_id.0,
                    };
                    given.to_clients.push((wire, told));
                }
                Notice::LoginRefused(refused) => {
                    let Some((wire, _)) = self.of_number(refused.connection) else { continue };
                    self.connections.remove(&wire);
                    given.to_clients.push((wire, ToClient::Refused { leader: Some(self.member) }));
                }
                Notice::ConnectionEnded(_, number, _) => {
                    let Some((wire, _)) = self.of_number(number) else { continue };
                    self.connections.remove(&wire);
                    given.to_clients.push((wire, ToClient::Closed));
                }
                Notice::DayStarted(day) => {
                    self.day = day;
                    for connection in self.connections.values_mut() {
                        connection.day_over |= connection.next_report.is_some() && connection.day != day;
                    }
                }
                Notice::Reports(..) | Notice::Instrument(_) | Notice::User(_) | Notice::Participant(..) => {}
            }
        }
    }

    fn of_number(&mut self, number: ConnectionId) -> Option<(u64, &mut Connection)> {
        let found = self.connections.iter_mut().find(|(_, connection)| connection.number == number);
        found.map(|(wire, connection)| (*wire, connection))
    }

    /// Publishes what waits, in order, as far as there is room.
    fn publish(&mut self) {
        let term = self.lead.term();
        while let Some((of, frame)) = self.own.front() {
            if Some(*of) != term {
                // The term's end, or the next one's start, ends all connections.
                self.own.pop_front();
                continue;
            }
            match self.ingress.try_publish(frame.as_bytes()) {
                Ok(()) => drop(self.own.pop_front()),
                Err(_) => return,
            }
        }
        let Self { connections, ingress, clock, .. } = self;
        for connection in connections.values_mut() {
            if connection.next_report.is_none() || Some(connection.term) != term {
                continue;
            }
            while let Some((id, body)) = connection.waiting.front() {
                let command = Command {
                    session: connection.session,
                    connection: connection.number,
                    request_id: *id,
                    timestamp: clock.now(),
                    body: *body,
                };
                let Some(frame) = command.encode() else { unreachable!("a client's body has a frame") };
                match ingress.try_publish(frame.as_bytes()) {
                    Ok(()) => drop(connection.waiting.pop_front()),
                    Err(PublishError::Full(_)) => return,
                    Err(error) => unreachable!("a client's frame is whole: {error}"),
                }
            }
        }
    }

    /// Publishes the venue's definitions, as its configuration has them.
    pub(crate) fn provision(&mut self, bodies: &[Body]) {
        let Some(term) = self.lead.term() else { return };
        for body in bodies {
            let frame = self.frame(SessionId::SYSTEM, ConnectionId(0), RequestId(0), *body);
            self.own.push_back((term, frame));
        }
    }

    fn report(&mut self, given: &mut Given) {
        let reader = self.view.report_reader();
        let truth = Arc::clone(&self.truth);
        let truth = lock(&truth);
        let mut over = Vec::new();
        for (wire, connection) in &mut self.connections {
            let Some(next) = &mut connection.next_report else { continue };
            let mut bytes = Vec::new();
            let read = reader.read(
                connection.session,
                connection.day,
                ReportNumber(*next),
                REPORTS_A_STEP,
                &mut bytes,
            );
            let count = match read {
                Ok(count) => count,
                Err(error) => {
                    truth.broken(format!("member {} can't read its report log: {error}", self.member));
                    continue;
                }
            };
            for report in bytes.as_chunks::<REPORT_STRIDE>().0 {
                truth.reported(self.member, connection.session, connection.day, *next, report);
                let report = ToClient::Report { number: *next, bytes: Box::new(*report) };
                given.to_clients.push((*wire, report));
                given.acknowledged = true;
                *next += 1;
            }
            if count == 0 && connection.day_over {
                given.to_clients.push((*wire, ToClient::EndOfDay));
                over.push(*wire);
            }
        }
        drop(truth);
        for wire in over {
            if let Some(connection) = self.connections.remove(&wire)
                && connection.number != READER
            {
                self.end(&connection);
            }
        }
    }
}

//! A session driven by a script: what happens to it goes in, everything that it does comes out as lines of text. It does
//! what a connection does, with a report log that is a number and a ring that is a flag.

use std::collections::BTreeMap;
use std::time::Duration;

use gateway::session::{Attempt, Identity, Now, Query, Session, Standing, Step};
use gateway::{Admission, DurabilityLevel, Inbound, Outbound, SessionLimits};
use protocol::soupbin::read_packet;
use protocol::{
    Body, Command, ConnectionId, DepthSnapshot, EndReason, FrameKind, LoggedIn, LoginRefusal, LoginRefused,
    REPORT_STRIDE, RefuseReason, Refused, ReportNumber, RequestId, Sequence, Term, Timestamp, TradingDay,
    Unsequenced,
};

use crate::wire::{self, SESSION};

pub(crate) const CONNECTION: ConnectionId = ConnectionId(3);
const UNIX_START: u64 = 1_000_000_000_000;

/// One thing that happens to a session.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// A login packet: session and number asked for.
    Login(&'static str, u64),
    /// These bytes come.
    Bytes(Vec<u8>),
    /// A message comes.
    Message(u64, Body),
    /// The password is right.
    Right,
    /// The password is wrong.
    Wrong,
    /// The exchange gave the session; highest id.
    LoggedIn(u64),
    /// The exchange refused it.
    LoginRefused(LoginRefusal),
    /// The report log has the session's reports of the day up to this number.
    Reports(u32, u64),
    /// It is this day now.
    Today(u32),
    /// The exchange ended the connection.
    Ended(EndReason),
    /// Milliseconds pass.
    Wait(u64),
    /// The ring has no room, or has again.
    RingFull(bool),
    /// The client takes no bytes, or does again.
    Stalled(bool),
    /// What is taken in.
    Admission(Admission),
    /// The term in which this member leads; where it doesn't, who leads.
    Term(Option<u64>, Option<&'static str>),
    /// Whether a quorum confirms that.
    Confirmed(bool),
    /// The server stops.
    Stop,
    /// The socket is gone.
    Lost,
}

pub(crate) struct Driver {
    pub(crate) session: Session,
    pub(crate) inbound: Inbound,
    pub(crate) out: Outbound,
    pub(crate) lines: Vec<String>,
    now: Now,
    attempt: Option<Attempt>,
    today: TradingDay,
    /// Last report by day.
    reports: BTreeMap<u32, u64>,
    ring_full: bool,
    stalled: bool,
    standing: Standing,
    leader: Option<&'static str>,
    asked: Option<Query>,
    unconfirmed: bool,
    was_closed: bool,
    sent: Vec<u8>,
}

impl Driver {
    pub(crate) fn new(limits: SessionLimits) -> Self {
        let now = Now { monotonic: Duration::ZERO, unix: Timestamp(UNIX_START) };
        Self {
            session: Session::new(CONNECTION, limits, DurabilityLevel::Disk, now),
            inbound: Inbound::default(),
            out: Outbound::default(),
            lines: Vec::new(),
            now,
            attempt: None,
            today: TradingDay(3),
            reports: BTreeMap::from([(2, 4), (3, 10)]),
            ring_full: false,
            stalled: false,
            standing: Standing {
                admission: Admission::Open,
                term: Some(Term(5)),
                led_elsewhere: false,
                confirmed: true,
            },
            leader: None,
            asked: None,
            unconfirmed: false,
            was_closed: false,
            sent: Vec::new(),
        }
    }

    pub(crate) fn act(&mut self, act: &Act) {
        match act {
            Act::Login(session, next) => self.bytes(&wire::login_packet("demo", "secret", session, *next)),
            Act::Bytes(bytes) => self.bytes(bytes),
            Act::Message(id, body) => self.bytes(&wire::message(&wire::frame(*id, *body))),
            Act::Right => self.verified(true),
            Act::Wrong => self.verified(false),
            Act::LoggedIn(highest) => {
                let last_report = self.last(self.today);
                let verdict = LoggedIn {
                    session: SESSION,
                    connection: CONNECTION,
                    trading_day: self.today,
                    last_report,
                    highest_request_id: RequestId(*highest),
                };
                let last = self.session.login_day().map_or(last_report, |day| self.last(day));
                self.session.logged_in(self.now, &verdict, last, &mut self.out);
            }
            Act::LoginRefused(reason) => {
                let verdict = LoginRefused { session: SESSION, connection: CONNECTION, reason: *reason };
                self.session.login_refused(self.now, &verdict, &mut self.out);
            }
            Act::Reports(day, last) => drop(self.reports.insert(*day, *last)),
            Act::Today(day) => self.today = TradingDay(*day),
            Act::Ended(reason) => self.session.ended(self.now, *reason),
            Act::Wait(milliseconds) => {
                self.now.monotonic += Duration::from_millis(*milliseconds);
                self.now.unix.0 += milliseconds * 1_000_000;
            }
            Act::RingFull(full) => self.ring_full = *full,
            Act::Stalled(stalled) => self.stalled = *stalled,
            Act::Admission(admission) => self.standing.admission = *admission,
            Act::Term(term, leader) => {
                (self.standing.term, self.leader) = (term.map(Term), *leader);
                self.standing.led_elsewhere = leader.is_some();
            }
            Act::Confirmed(confirmed) => self.standing.confirmed = *confirmed,
            Act::Stop => self.session.stop(self.now, &mut self.out),
            Act::Lost => self.session.lost(self.now, EndReason::Closed),
        }
        self.work();
    }

    fn last(&self, day: TradingDay) -> ReportNumber {
        ReportNumber(self.reports.get(&day.0).copied().unwrap_or(0))
    }

    fn verified(&mut self, right: bool) {
        let attempt = self.attempt.take().expect("a login packet came before");
        if right {
            let last_report = attempt.day_wanted(self.today).map_or(ReportNumber(0), |day| self.last(day));
            let identity = Identity { session: SESSION, today: self.today, last_report };
            self.session.verified(self.now, &identity, &mut self.out);
        } else {
            self.session.refuse(self.now, gateway::session::NOT_AUTHORIZED, &mut self.out);
        }
    }

    pub(crate) fn bytes(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            let space = self.inbound.space();
            let length = space.len().min(bytes.len());
            if length == 0 {
                // A socket would not be read either.
                return;
            }
            space[..length].copy_from_slice(&bytes[..length]);
            self.inbound.received(length);
            self.session.heard(self.now);
            bytes = &bytes[length..];
            self.work();
        }
    }

    fn work(&mut self) {
        if self.session.has_outlived(self.standing.term) {
            self.inbound.published(self.inbound.frames_waiting());
            self.asked = None;
            self.session.deposed(self.now, self.leader.map(str::to_owned), &mut self.out);
        }
        let reading = (!self.ring_full || self.inbound.frames_waiting() == 0) && !self.unconfirmed;
        self.unconfirmed = false;
        if self.session.next_deadline().is_some_and(|due| self.now.monotonic >= due) {
            self.session.tick(self.now, reading, &mut self.out);
        }
        loop {
            if !self.publish() {
                break;
            }
            if let Some(query) = self.asked {
                self.unconfirmed = !self.standing.confirmed;
                if self.unconfirmed {
                    break;
                }
                self.asked = None;
                self.session.answer(self.now, &answer(&query), &mut self.out);
            }
            let step = self.session.receive(self.now, self.standing, &mut self.inbound, &mut self.out);
            self.unconfirmed = step == Step::Unconfirmed;
            match step {
                Step::Verify(attempt) => {
                    let name = attempt.name.map_or("nobody".to_owned(), |name| name.to_string());
                    let password = String::from_utf8_lossy(attempt.password()).into_owned();
                    self.lines.push(format!("verify {name} {password}"));
                    self.attempt = Some(attempt);
                }
                Step::Query(query) => self.asked = Some(query),
                // Tokens are the driver's.
                Step::Resume => {}
                Step::NotLeader => {
                    self.session.not_leader(self.now, self.leader.map(str::to_owned), &mut self.out);
                }
                Step::More | Step::Wait | Step::Unconfirmed => {
                    self.publish();
                    break;
                }
                Step::Full => {
                    self.publish();
                    if self.stalled {
                        break;
                    }
                    self.write();
                }
            }
        }
        while let Some(wanted) = self.session.wants() {
            let max = 100;
            let last = self.last(wanted.day);
            let strides: Vec<u8> = (wanted.next.0..=last.0)
                .take(if self.stalled { 0 } else { max })
                .flat_map(|number| wire::report(SESSION, number))
                .collect();
            let is_all = !self.stalled && strides.len() / REPORT_STRIDE < max;
            self.session
                .reports(self.now, self.today, &strides, is_all, &mut self.out)
                .expect("the reports that it wanted");
            if self.stalled {
                self.session.backlog(self.now, last);
                break;
            }
            self.write();
            if is_all {
                break;
            }
        }
        self.write();
        self.publish();
        if self.session.is_finished() && !self.was_closed {
            self.was_closed = true;
            let reason = self.session.end().map_or("refused", EndReason::name);
            self.lines.push(format!("closed {reason}"));
        }
    }

    fn publish(&mut self) -> bool {
        let is_over = self.session.has_outlived(self.standing.term);
        if self.ring_full || is_over {
            return self.inbound.frames_waiting() == 0 && self.session.control(self.now).is_none();
        }
        let lines: Vec<String> = self.inbound.frames().map(published).collect();
        self.lines.extend(lines);
        self.inbound.published(self.inbound.frames_waiting());
        if let Some(frame) = self.session.control(self.now) {
            self.session.control_published();
            self.lines.push(published(frame.as_bytes()));
        }
        true
    }

    fn write(&mut self) {
        if self.stalled || self.session.is_closed() && self.out.pending().is_empty() {
            return;
        }
        self.sent.extend_from_slice(self.out.pending());
        self.out.took(self.out.pending().len());
        self.session.taken(self.now, 0);
        let mut taken = 0;
        while let Some((packet, length)) = read_packet(&self.sent[taken..]).expect("packets of the server") {
            self.lines.push(wire::describe(&packet));
            taken += length;
        }
        assert_eq!(taken, self.sent.len(), "half a packet");
        self.sent.clear();
    }
}

fn published(frame: &[u8]) -> String {
    let command = Command::decode(frame);
    assert_eq!((command.session, command.connection), (SESSION, CONNECTION), "stamped with who sent it");
    assert!(command.timestamp.0 >= UNIX_START, "stamped with when it came");
    match command.body {
        Body::Login(login) => format!("> login {:?}", login.trading_day.map(|day| day.0)),
        Body::Logout => "> logout".to_owned(),
        Body::Disconnect(reason) => format!("> disconnect {reason}"),
        _ => format!("> {:?} {}", FrameKind::from_byte(frame[2]).expect("a kind"), command.request_id),
    }
}

fn answer(query: &Query) -> Unsequenced {
    match query {
        Query::Depth(query) if query.instrument.0 == 1 => {
            let (bids, asks) = (Vec::new(), Vec::new());
            let instrument = query.instrument;
            let depth = DepthSnapshot { instrument, sequence: Sequence(1), bids, asks, state: None };
            Unsequenced::Depth(query.request_id, depth)
        }
        Query::Depth(query) => unknown(query.request_id, FrameKind::DepthQuery),
        Query::Instrument(query) => unknown(query.request_id, FrameKind::InstrumentQuery),
        Query::DropCopy(query) => unknown(query.request_id, FrameKind::DropCopyRequest),
    }
}

fn unknown(request_id: RequestId, kind: FrameKind) -> Unsequenced {
    let reason = RefuseReason::UnknownInstrument;
    Unsequenced::Refused(Refused { request_id, reason, request_kind: Some(kind) })
}

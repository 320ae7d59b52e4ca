//! What is true: the committed log as the first member showed it, and what the slow exchange makes of it. Every member's
//! log, hashes and reports are held against it. It must not know how a member works.

use std::collections::BTreeMap;

use oracle::duel::Duel;
use protocol::{
    Command, Event, FrameHeader, REPORT_STRIDE, Report, RequestId, SLOT_LENGTH, Sequence, SessionId,
    Timestamp, TradingDay,
};

use crate::trace::Trace;

/// A request's answer in the log: what a client may believe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answered {
    pub(crate) sequence: u64,
}

/// The committed log and what follows from it.
pub(crate) struct Truth {
    trace: Trace,
    frames: Vec<Vec<u8>>,
    duel: Duel,
    hashes: Vec<u64>,
    reports: BTreeMap<(SessionId, TradingDay), Vec<[u8; REPORT_STRIDE]>>,
    /// What answered each request, in the order of the log.
    answers: BTreeMap<(SessionId, RequestId), Vec<Answered>>,
    /// The bodies under which each request is in the log, without what a gateway stamps.
    bodies: BTreeMap<(SessionId, RequestId), Vec<protocol::Body>>,
    log_time: Timestamp,
}

impl Truth {
    pub(crate) fn new(trace: Trace) -> Self {
        Self {
            trace,
            frames: Vec::new(),
            duel: Duel::new(None),
            hashes: Vec::new(),
            reports: BTreeMap::new(),
            answers: BTreeMap::new(),
            bodies: BTreeMap::new(),
            log_time: Timestamp(0),
        }
    }

    /// The last committed frame that any member showed.
    pub(crate) fn end(&self) -> Sequence {
        Sequence(self.frames.len() as u64)
    }

    pub(crate) fn frame(&self, sequence: Sequence) -> Option<&[u8]> {
        let place = usize::try_from(sequence.0.checked_sub(1)?).ok()?;
        self.frames.get(place).map(Vec::as_slice)
    }

    pub(crate) fn exchange(&self) -> &exchange::Exchange {
        self.duel.exchange()
    }

    /// The running hash after a frame; 0 before the first.
    pub(crate) fn hash_at(&self, sequence: Sequence) -> Option<u64> {
        match usize::try_from(sequence.0).ok()?.checked_sub(1) {
            None => Some(exchange::Exchange::new().running_hash()),
            Some(place) => self.hashes.get(place).copied(),
        }
    }

    pub(crate) fn answers(&self, session: SessionId, id: RequestId) -> &[Answered] {
        self.answers.get(&(session, id)).map_or(&[], Vec::as_slice)
    }

    pub(crate) fn bodies(&self, session: SessionId, id: RequestId) -> &[protocol::Body] {
        self.bodies.get(&(session, id)).map_or(&[], Vec::as_slice)
    }

    /// A member fed these whole frames, the first of which is `first`, to its logic.
    pub(crate) fn fed(&mut self, member: u64, first: Sequence, mut slots: &[u8]) {
        let mut sequence = first;
        while let [low, high, ..] = *slots {
            let length = usize::from(u16::from_le_bytes([low, high]));
            let padded = length.next_multiple_of(SLOT_LENGTH);
            let (Some(frame), Some(rest)) = (slots.get(..length), slots.get(padded..)) else {
                return self.trace.violated(format!("member {member} fed half a frame at {sequence}"));
            };
            self.fed_one(member, sequence, frame);
            sequence = sequence.next();
            slots = rest;
        }
    }

    fn fed_one(&mut self, member: u64, sequence: Sequence, frame: &[u8]) {
        match self.frame(sequence) {
            Some(known) if known == frame => {}
            Some(_) => {
                let what = format!("member {member} fed another frame {sequence} than was committed before");
                self.trace.violated(what);
            }
            None if sequence == self.end().next() => self.append(sequence, frame),
            None => {
                let end = self.end();
                self.trace
                    .violated(format!("member {member} fed frame {sequence} where the log ends at {end}"));
            }
        }
    }

    fn append(&mut self, sequence: Sequence, frame: &[u8]) {
        let command = Command::decode(frame);
        self.trace.event("commit", &[sequence.0, frame.get(2).copied().unwrap_or(0).into()]);
        self.frames.push(frame.to_vec());
        if command.request_id.0 > 0 {
            self.bodies.entry((command.session, command.request_id)).or_default().push(command.body);
        }
        let mut day = self.duel.exchange().trading_day();
        let outputs = match self.duel.replay(&command) {
            Ok(outputs) => outputs.to_vec(),
            Err(mismatch) => return self.trace.violated(format!("engine and oracle: {mismatch}")),
        };
        let mut named = None;
        for output in outputs {
            if output.log_time < self.log_time {
                self.trace.violated(format!("log time went back at frame {sequence}"));
            }
            self.log_time = output.log_time;
            match output.event {
                Event::Named(name) => named = Some(name.cl_ord_id),
                Event::DayStarted(new) => day = new,
                _ => {}
            }
            let Some(to) = output.event.recipient() else { continue };
            let mut bytes = [0; REPORT_STRIDE];
            let _ = Report { output, cl_ord_id: named.take() }.encode(&mut bytes);
            if let Some(id) = answered_request(&bytes, &command) {
                let answer = Answered { sequence: sequence.0 };
                self.answers.entry((to.session, id)).or_default().push(answer);
            }
            let all = self.reports.entry((to.session, day)).or_default();
            all.push(bytes);
            if to.number.0 != all.len() as u64 {
                let what = format!(
                    "session {} day {day} has report {} in place {}",
                    to.session,
                    to.number,
                    all.len()
                );
                self.trace.violated(what);
            }
        }
        self.hashes.push(self.duel.exchange().running_hash());
    }

    /// A member gave out a report.
    pub(crate) fn reported(
        &self,
        member: u64,
        session: SessionId,
        day: TradingDay,
        number: u64,
        report: &[u8],
    ) {
        let known = usize::try_from(number)
            .ok()
            .and_then(|number| number.checked_sub(1))
            .and_then(|place| self.reports.get(&(session, day))?.get(place));
        match known {
            Some(known) if known.as_slice() == report => {}
            Some(_) => self.trace.violated(format!(
                "member {member} gave out another report {number} of session {session} day {day} than follows from the log"
            )),
            None => self.trace.violated(format!(
                "member {member} gave out report {number} of session {session} day {day}, which does not follow from the log"
            )),
        }
    }

    /// Something that must not be is so.
    pub(crate) fn broken(&self, what: String) {
        self.trace.violated(what);
    }

    /// How many reports a session has on a day.
    pub(crate) fn report_count(&self, session: SessionId, day: TradingDay) -> u64 {
        self.reports.get(&(session, day)).map_or(0, |all| all.len() as u64)
    }

    /// A member says that its running hash was this.
    pub(crate) fn hashed(&self, member: u64, sequence: Sequence, hash: u64, when: &str) {
        match self.hash_at(sequence) {
            Some(known) if known == hash => {}
            Some(known) => self.trace.violated(format!(
                "member {member}, {when}: running hash {hash:016x} at {sequence}, not {known:016x}"
            )),
            None => self.trace.violated(format!(
                "member {member}, {when}: is at {sequence}, and only {} frames are committed",
                self.end()
            )),
        }
    }

    /// What only the whole shows: books, conservation.
    pub(crate) fn check_whole(&self) {
        if let Err(mismatch) = self.duel.check_state() {
            self.trace.violated(format!("engine and oracle: {mismatch}"));
        }
    }
}

/// The request that a report answers, if it answers one and that took effect.
pub(crate) fn answered_request(report: &[u8], command: &Command) -> Option<RequestId> {
    let (id, is_answer) = answer(report)?;
    let cancels = matches!(command.body, protocol::Body::CancelOrder(_) | protocol::Body::ReplaceOrder(_));
    (is_answer || (report.get(2) == Some(&CANCELED) && cancels && id == command.request_id)).then_some(id)
}

const ACCEPTED: u8 = 64;
const REJECTED: u8 = 65;
pub(crate) const CANCELED: u8 = 67;
const REPLACED: u8 = 68;
const ORDER_STATE: u8 = 71;
const MASS_CANCELED: u8 = 72;
const ADMIN_DONE: u8 = 73;
const ID_NOT_RISING: u8 = 1;
const NOT_LOGGED_IN: u8 = 2;

/// The request id of a report, and whether the report surely answers it. A rejection that does not use the id up answers
/// nothing.
pub(crate) fn answer(report: &[u8]) -> Option<(RequestId, bool)> {
    let header = FrameHeader::read(report).ok()?;
    let id = header.request_id();
    if id.0 == 0 {
        return None;
    }
    let is_answer = match *report.get(2)? {
        ACCEPTED | REPLACED | ORDER_STATE | MASS_CANCELED | ADMIN_DONE => true,
        REJECTED => !matches!(*report.get(64)?, ID_NOT_RISING | NOT_LOGGED_IN),
        _ => false,
    };
    Some((id, is_answer))
}

/// The frame in the log that caused a report.
pub(crate) fn cause(report: &[u8]) -> u64 {
    report.get(40..48).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_le_bytes)
}

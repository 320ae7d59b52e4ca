//! The promises of a cluster that show from outside: one leader a term and one confirmed at a time, answers outside the log
//! from a leader only, hashes and reports that follow from the log. It must not change what happens.

use std::collections::BTreeMap;

use protocol::{REPORT_STRIDE, ReportNumber, SessionId, TradingDay};
use replicator::MemberRole;

use crate::edge::Given;
use crate::member::MemberProcess;
use crate::trace::Trace;
use crate::truth::Truth;

/// What was seen so far.
pub(crate) struct Promises {
    trace: Trace,
    /// Who led in each term.
    leaders: BTreeMap<u64, u64>,
    /// Whose leadership was confirmed in this millisecond.
    confirmed: Vec<u64>,
    leader: Option<u64>,
    /// The latest term in which a leader gave out reports.
    acknowledged_term: u64,
    acknowledged_sequence: u64,
}

impl Promises {
    pub(crate) fn new(trace: Trace) -> Self {
        Self {
            trace,
            leaders: BTreeMap::new(),
            confirmed: Vec::new(),
            leader: None,
            acknowledged_term: 0,
            acknowledged_sequence: 0,
        }
    }

    /// A millisecond begins.
    pub(crate) fn begin(&mut self) {
        self.confirmed.clear();
    }

    /// A member had its turn.
    pub(crate) fn stepped(
        &mut self,
        id: u64,
        member: &mut MemberProcess,
        confirmed: bool,
        given: &[Given],
        truth: &Truth,
    ) {
        let unlogged = given.iter().any(|given| given.unlogged);
        let acknowledged = given.iter().any(|given| given.acknowledged);
        if confirmed {
            self.confirmed.push(id);
        }
        if unlogged || acknowledged || (confirmed && self.leader != Some(id)) {
            let status = member.cluster.status();
            if confirmed && status.role == MemberRole::Leader {
                let known = *self.leaders.entry(status.term).or_insert(id);
                if known != id {
                    self.trace.violated(format!("members {known} and {id} both led in term {}", status.term));
                }
            }
            if acknowledged && status.role == MemberRole::Leader {
                self.acknowledged_term = self.acknowledged_term.max(status.term);
            }
            if unlogged && status.term < self.acknowledged_term {
                self.trace.violated(format!(
                    "member {id} in term {} answered outside the log, and term {} has given out reports",
                    status.term, self.acknowledged_term
                ));
            }
        }
        member.check_hashes(id, truth);
    }

    /// A millisecond ends.
    pub(crate) fn end(&mut self) {
        match self.confirmed[..] {
            [] => self.leader = None,
            [leader] => {
                if self.leader != Some(leader) {
                    self.trace.event("leader", &[leader]);
                }
                self.leader = Some(leader);
            }
            _ => self.trace.violated(format!("members {:?} are all confirmed leaders", self.confirmed)),
        }
    }

    /// The confirmed leader.
    pub(crate) fn leader(&self) -> Option<u64> {
        self.leader
    }

    /// A client got an answer.
    pub(crate) fn acknowledged(&mut self, sequence: u64) {
        self.acknowledged_sequence = self.acknowledged_sequence.max(sequence);
    }

    /// The highest frame of which a client got an answer.
    pub(crate) fn acknowledged_sequence(&self) -> u64 {
        self.acknowledged_sequence
    }

    /// A member's last state and all reports that it has, read again.
    pub(crate) fn ended(&self, id: u64, mut member: MemberProcess, truth: &Truth) {
        member.check_hashes(id, truth);
        let reader = member.view.report_reader();
        let day = truth.exchange().trading_day();
        let sessions: Vec<SessionId> = truth.exchange().users().map(|user| user.session).collect();
        for session in sessions {
            self.read_again(id, (session, day), &reader, truth);
            // And the day before, where there was one.
            self.read_again(id, (session, TradingDay(day.0 - 1)), &reader, truth);
        }
        let Some(exchange) = member.end() else {
            return self.trace.violated(format!("member {id} has no last state"));
        };
        truth.hashed(id, exchange.sequence(), exchange.running_hash(), "at its end");
        if exchange.sequence() == truth.end() && exchange.state_hash() != truth.exchange().state_hash() {
            self.trace.violated(format!("member {id} has another state at {}", exchange.sequence()));
        }
    }

    fn read_again(
        &self,
        id: u64,
        (session, day): (SessionId, TradingDay),
        reader: &journaler::ReportReader,
        truth: &Truth,
    ) {
        let mut number = 1;
        loop {
            let mut bytes = Vec::new();
            match reader.read(session, day, ReportNumber(number), 1_000, &mut bytes) {
                Ok(0) => break,
                Ok(_) => {}
                Err(error) => {
                    return self.trace.violated(format!("member {id} can't read its reports: {error}"));
                }
            }
            for report in bytes.as_chunks::<REPORT_STRIDE>().0 {
                truth.reported(id, session, day, number, report);
                number += 1;
            }
        }
        let count = truth.report_count(session, day);
        if number - 1 != count {
            let what = format!("member {id} has {} reports of session {session}, not {count}", number - 1);
            self.trace.violated(what);
        }
    }
}

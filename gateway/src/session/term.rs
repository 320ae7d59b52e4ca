//! The term that a session lives in, and what happens when it is over.

use protocol::soupbin::Packet;
use protocol::{EndReason, Term};

use super::{NOT_LEADER, Now, Session, Standing, State};
use crate::buffers::Outbound;
use crate::leadership::LEADER_LENGTH_MAX;

impl Session {
    /// Whether the session, or the frame that it still has to publish, belongs to another term than this one.
    #[must_use]
    pub fn has_outlived(&self, term: Option<Term>) -> bool {
        match self.term {
            Some(own) => term != Some(own),
            // The end of a login that was given up may be told in any term.
            None => term.is_none() && self.control.is_some(),
        }
    }

    /// The session's term is over. Nothing more is taken from the client, nor published: the first frame of the next term ends
    /// the connection in the exchange. What the report log has is the truth and is sent. `leader` is where another member
    /// leads, where that is known.
    pub fn deposed(&mut self, now: Now, leader: Option<String>, out: &mut Outbound) {
        self.term = None;
        self.is_deposed = true;
        match self.state {
            State::AwaitingLogin { .. } | State::Verifying { .. } | State::Entering { .. } => {
                self.not_leader(now, leader, out);
            }
            State::Live(stream) | State::Replaying(stream) | State::Ending { stream, .. } => {
                self.forget();
                self.leader = leader;
                self.end.get_or_insert(EndReason::Server);
                let deadline = now.monotonic + self.limits.ending_deadline;
                self.state = State::Ending { stream, reason: EndReason::Server, ended: true, deadline };
            }
            State::Closed { .. } => self.forget(),
            // Its Login frame may yet come into the log, in a later term of this member.
            State::Abandoned { .. } => {}
        }
    }

    /// Refuses a login because this member doesn't lead.
    pub fn not_leader(&mut self, now: Now, leader: Option<String>, out: &mut Outbound) {
        self.leader = leader;
        self.name_leader(now, out);
        if let State::Entering { .. } = self.state {
            self.send(now, &Packet::LoginRejected(NOT_LEADER), out);
            self.leave(now, EndReason::Server);
            self.flush(now, out);
        } else {
            self.refuse(now, NOT_LEADER, out);
        }
    }

    /// Names the leader, where there is one to name.
    pub(super) fn name_leader(&mut self, now: Now, out: &mut Outbound) {
        if let Some(leader) = self.leader.take().filter(|leader| leader.len() <= LEADER_LENGTH_MAX) {
            self.send(now, &Packet::Debug(format!("leader={leader}").as_bytes()), out);
        }
    }

    /// Whether what would be answered outside the log must wait for the leadership to be confirmed.
    pub(super) fn must_wait(&self, standing: Standing) -> bool {
        standing.term.is_some() && !standing.confirmed
    }

    /// Whether a login waits since nobody is known to lead. The members elect a leader in a moment; the client then is let in,
    /// or told where to go, at once, and doesn't come back again and again meanwhile.
    pub(super) fn waits_for_leader(&mut self, now: Now, standing: Standing) -> bool {
        if standing.term.is_some()
            || standing.led_elsewhere
            || !matches!(self.state, State::AwaitingLogin { .. })
        {
            self.leader_due = None;
            return false;
        }
        now.monotonic < *self.leader_due.get_or_insert(now.monotonic + self.limits.leader_wait)
    }

    fn forget(&mut self) {
        self.control = None;
        self.in_exchange = false;
        self.held = None;
    }
}

//! How a session ends from this side: the exchange hears of it once, and the client is told why where that can be.

use protocol::EndReason;
use protocol::soupbin::Packet;

use super::stream::Stream;
use super::{Control, NOT_AVAILABLE, Now, Session, State};
use crate::buffers::Outbound;

impl Session {
    /// Tells the exchange that the live connection ends, and waits for its last reports.
    pub(super) fn end_live(&mut self, now: Now, stream: Stream, reason: EndReason) {
        self.end = Some(reason);
        if self.in_exchange {
            self.control = Some(match reason {
                EndReason::Logout => Control::Logout,
                reason => Control::Disconnect(reason),
            });
        }
        let deadline = now.monotonic + self.limits.ending_deadline;
        self.state = State::Ending { stream, reason, ended: !self.in_exchange, deadline };
    }

    /// Ends the connection from this side. A client that was let in is told why, where there is room.
    pub(super) fn close(&mut self, now: Now, reason: EndReason, out: &mut Outbound) {
        if let State::Entering { .. } = self.state {
            self.send(now, &Packet::LoginRejected(NOT_AVAILABLE), out);
        } else if self.is_let_in() && out.has_room() {
            self.name_leader(now, out);
            let text = format!("closing={reason}");
            self.send(now, &Packet::Debug(text.as_bytes()), out);
        }
        self.leave(now, reason);
        self.flush(now, out);
    }

    /// Whatever the state, towards closed; the exchange is told where it must be.
    pub(super) fn leave(&mut self, now: Now, reason: EndReason) {
        if matches!(self.state, State::Closed { .. } | State::Abandoned { .. }) {
            return;
        }
        self.end.get_or_insert(reason);
        if let State::Entering { .. } = self.state
            && self.in_exchange
        {
            let deadline = now.monotonic + self.limits.verdict_deadline;
            self.state = State::Abandoned { reason, deadline };
            return;
        }
        self.control = match self.control {
            // It never got into the ring, so nobody needs to know.
            Some(Control::Login) => None,
            None if !self.in_exchange => None,
            None => Some(Control::Disconnect(reason)),
            told => told,
        };
        self.state = State::Closed { flush_until: None };
    }

    /// Lets what waits for the client go out, where there is something.
    pub(super) fn flush(&mut self, now: Now, out: &Outbound) {
        if let State::Closed { flush_until } = &mut self.state {
            *flush_until = (!out.pending().is_empty()).then_some(now.monotonic + self.limits.ending_deadline);
        }
    }
}

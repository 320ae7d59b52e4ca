//! A command that its operators had skipped, since applying it ended the engine: its place in the log is passed, whoever
//! sent it is answered, and nothing else of it happens. It must not touch what the command would have touched, nor run
//! timers, which may be what ended the engine.

use protocol::{Body, Command, Event, RejectReason, Skipped};

use crate::exchange::{Exchange, refusal};
use crate::outbox::{EventSink, Outbox};
use crate::sessions::SYSTEM;

impl Exchange {
    /// Passes over one command. `frame_hash` is the hash by which it was ordered, the same on every member: it goes into the
    /// running hash, so that a member that applies the command, or skips another, is found out.
    pub fn skip(&mut self, command: &Command, frame_hash: [u8; 32], sink: &mut impl EventSink) {
        self.sequence = self.sequence.next();
        self.log_time = self.log_time.max(command.timestamp);
        let mut out = Outbox::new(sink, self.sequence, self.log_time, self.running_hash);
        out.emit(Event::Skipped(Skipped { frame_hash }));
        if let Some(session) = self.sessions.place(command.session)
            && is_answered(session, &command.body)
        {
            let reason = self.use_id(session, command).unwrap_or(RejectReason::Skipped);
            self.reject(session, command, reason, &mut out);
        }
        self.running_hash = out.running_hash();
    }

    /// Uses up the request's id, or says why it can't be.
    fn use_id(&mut self, place: u32, command: &Command) -> Option<RejectReason> {
        if place == SYSTEM {
            return None;
        }
        let session = self.sessions.get_mut(place);
        let refused = refusal(session, command);
        if refused.is_some() {
            return refused;
        }
        session.highest_request_id = command.request_id;
        match &command.body {
            Body::MassQuote(quote) => self.use_quote_ids(place, quote).err(),
            _ => None,
        }
    }
}

/// Whether the frame is answered by a numbered report. The others come from a gateway, or from the server itself: their
/// connections have ended with the engine.
fn is_answered(session: u32, body: &Body) -> bool {
    match body {
        Body::Login(_) | Body::Logout | Body::Disconnect(_) => false,
        Body::Start | Body::Tick(_) => session != SYSTEM,
        _ => true,
    }
}

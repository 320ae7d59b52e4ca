//! A client's messages: which become frames of the input ring, which are answered here, and which are refused.

use protocol::soupbin::Packet;
use protocol::{
    Body, Command, EndReason, FrameHeader, FrameKind, HEADER_LENGTH, RefuseReason, Refused, Unsequenced,
};

use super::{Now, Query, Session, Standing, State, Step};
use crate::admission::Admission;
use crate::buffers::{Inbound, Outbound};

/// What becomes of a message.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fate {
    Publish,
    Ask(Query),
    Refuse(Refused),
}

impl Session {
    /// Takes the message whose packet of `length` bytes comes next in `inbound`.
    pub(super) fn message(
        &mut self,
        now: Now,
        standing: Standing,
        length: usize,
        inbound: &mut Inbound,
        out: &mut Outbound,
    ) -> Option<Step> {
        let fate = match self.state {
            // It was judged, and counted, when it came.
            _ if self.held.is_some() => self.held.take()?,
            State::Live(_) => self.judge(standing.admission, inbound.payload(length)),
            State::Replaying(_) => refuse(inbound.payload(length), RefuseReason::NotAllowed),
            State::Ending { reason: EndReason::Server, .. } => {
                refuse(inbound.payload(length), RefuseReason::Stopping)
            }
            State::Ending { .. } => refuse(inbound.payload(length), RefuseReason::NotAllowed),
            _ => {
                self.close(now, EndReason::Protocol, out);
                inbound.skip(length);
                return None;
            }
        };
        if !standing.confirmed && !matches!(fate, Fate::Publish) {
            self.held = Some(fate);
            return Some(Step::Unconfirmed);
        }
        match fate {
            Fate::Publish => {
                FrameHeader::stamp(inbound.payload(length), self.session, self.connection, now.unix);
                inbound.keep(length);
                None
            }
            Fate::Ask(query) => {
                inbound.skip(length);
                Some(Step::Query(query))
            }
            Fate::Refuse(refused) => {
                inbound.skip(length);
                self.refused += 1;
                let answer = Unsequenced::Refused(refused).encode();
                self.send(now, &Packet::Unsequenced(answer.as_bytes()), out);
                None
            }
        }
    }

    fn judge(&mut self, admission: Admission, frame: &[u8]) -> Fate {
        let header = match FrameHeader::read(frame) {
            Ok(header) if header.length() == frame.len() => header,
            _ => {
                // It counts, or a client could send without end what does not decode.
                let throttled = self.throttle.as_mut().is_some_and(|throttle| !throttle.take(false));
                let reason = if throttled { RefuseReason::Throttled } else { RefuseReason::Malformed };
                return refuse(frame, reason);
            }
        };
        let Some(kind) = header.kind() else { return refuse(frame, RefuseReason::Malformed) };
        let is_cancel = matches!(kind, FrameKind::CancelOrder | FrameKind::MassCancel);
        if let Some(throttle) = &mut self.throttle
            && !throttle.take(is_cancel)
        {
            return refuse(frame, RefuseReason::Throttled);
        }
        let adds_orders =
            matches!(kind, FrameKind::NewOrder | FrameKind::ReplaceOrder | FrameKind::MassQuote);
        match admission {
            Admission::Open => {}
            Admission::CancelsOnly if !adds_orders => {}
            // Queries are never journaled.
            Admission::Nothing if !kind.is_from_client() => {}
            Admission::CancelsOnly | Admission::Nothing => return refuse(frame, RefuseReason::DiskFull),
            Admission::Stopping => return refuse(frame, RefuseReason::Stopping),
        }
        if kind.is_from_client() {
            return match Command::try_decode(frame) {
                Ok(Command { body: Body::SetRulebook(version), .. })
                    if version > self.limits.rulebook_max =>
                {
                    refuse(frame, RefuseReason::RulebookUnknown)
                }
                Ok(_) => Fate::Publish,
                Err(_) => refuse(frame, RefuseReason::Malformed),
            };
        }
        match (kind, Unsequenced::decode(frame)) {
            (FrameKind::DepthQuery, Ok(Unsequenced::DepthQuery(query))) => Fate::Ask(Query::Depth(query)),
            (FrameKind::InstrumentQuery, Ok(Unsequenced::InstrumentQuery(query))) => {
                Fate::Ask(Query::Instrument(query))
            }
            (FrameKind::DropCopyRequest, Ok(Unsequenced::DropCopyRequest(request))) => {
                Fate::Ask(Query::DropCopy(request))
            }
            (FrameKind::DepthQuery | FrameKind::InstrumentQuery | FrameKind::DropCopyRequest, _) => {
                refuse(frame, RefuseReason::Malformed)
            }
            _ => refuse(frame, RefuseReason::NotAllowed),
        }
    }
}

/// A refusal that names the request as far as its header can be read.
fn refuse(frame: &[u8], reason: RefuseReason) -> Fate {
    // Total, and it gives the id of every frame that has a whole header.
    let request_id = Command::decode(frame).request_id;
    let kind = frame.get(2).filter(|_| frame.len() >= HEADER_LENGTH);
    let request_kind = kind.copied().and_then(FrameKind::from_byte);
    Fate::Refuse(Refused { request_id, reason, request_kind })
}

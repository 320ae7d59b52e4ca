//! What the server sends: packets, facts, reports and answers, and the outcomes that follow from them.

use std::time::Duration;

use protocol::soupbin::{self, Packet};
use protocol::{Event, FrameKind, RejectReason, Report, ReportNumber, RequestId, TradingDay, Unsequenced};

use super::{ClientSession, Link, OnEvent, Place, QueryId, SESSION_PATIENCE, token};
use crate::greeting;
use crate::{ClientError, ClientEvent, ConnectionLoss, LoggedIn, LoginRejection, Outcome, ServerFault};

/// Reason byte of a rejected login: the member doesn't lead.
const NOT_LEADER: u8 = b'L';

impl ClientSession {
    /// Takes what the server sent, in order; how many bytes were whole packets. The caller keeps the rest, gives it again
    /// with what follows, and drops it when the connection ends.
    pub fn received(&mut self, bytes: &[u8], now: Duration, on_event: OnEvent<'_>) -> usize {
        self.last_heard = now;
        let mut taken = 0;
        while self.is_connected() {
            match soupbin::read_packet(&bytes[taken..]) {
                Ok(Some((packet, length))) => {
                    taken += length;
                    if let Err(fault) = self.packet(packet, now, on_event) {
                        self.end(fault.into(), on_event);
                    }
                }
                Ok(None) => return taken,
                Err(error) => self.end(ServerFault::Packet(error).into(), on_event),
            }
        }
        bytes.len()
    }

    fn packet(
        &mut self,
        packet: Packet<'_>,
        now: Duration,
        on_event: OnEvent<'_>,
    ) -> Result<(), ServerFault> {
        if let (Packet::Sequenced(_) | Packet::EndOfSession, Link::Greeting(greeting)) = (&packet, &self.link)
            && let Some(login) = greeting.read_only()
        {
            self.logged_in(login, on_event);
        }
        match packet {
            Packet::Sequenced(frame) if matches!(self.link, Link::Live | Link::Replaying | Link::Leaving) => {
                self.report(frame, on_event)
            }
            Packet::Unsequenced(frame)
                if matches!(self.link, Link::Live | Link::Replaying | Link::Leaving) =>
            {
                self.unsequenced(frame, on_event)
            }
            Packet::ServerHeartbeat => Ok(()),
            Packet::Debug(text) => self.fact(text, now, on_event),
            Packet::LoginAccepted { session, next } => match &mut self.link {
                Link::Greeting(greeting) => greeting.accept(session, next, self.place.map(place_parts)),
                _ => Err(ServerFault::Unexpected(b'A')),
            },
            Packet::LoginRejected(reason) => {
                self.login_rejected(reason, now, on_event);
                Ok(())
            }
            Packet::EndOfSession => self.day_ended(now, on_event),
            Packet::Sequenced(_) => Err(ServerFault::Unexpected(b'S')),
            Packet::Unsequenced(_) => Err(ServerFault::Unexpected(b'U')),
            Packet::LoginRequest(_) => Err(ServerFault::Unexpected(b'L')),
            Packet::ClientHeartbeat => Err(ServerFault::Unexpected(b'R')),
            Packet::LogoutRequest => Err(ServerFault::Unexpected(b'O')),
        }
    }

    fn fact(&mut self, text: &[u8], now: Duration, on_event: OnEvent<'_>) -> Result<(), ServerFault> {
        let text = String::from_utf8_lossy(text);
        let (name, value) = text.split_once('=').unwrap_or((&text, ""));
        if name == token::NAME {
            // A secret, and nothing that a caller could use.
            self.token.take(value);
            return Ok(());
        }
        on_event(ClientEvent::Fact(text.to_string()));
        if name == "leader" && !value.is_empty() {
            self.disconnected(now, ConnectionLoss::Redirected(value.to_owned()), on_event);
            return Ok(());
        }
        let Link::Greeting(greeting) = &mut self.link else { return Ok(()) };
        greeting.fact(name, value);
        if let Some(login) = greeting.complete()? {
            self.logged_in(login, on_event);
        }
        Ok(())
    }

    fn logged_in(&mut self, login: greeting::Login, on_event: OnEvent<'_>) {
        self.unavailable_since = None;
        self.reach.logged_in();
        if self.pending.unsettled() == 0 {
            self.reach.answered();
        }
        let last_report = ReportNumber(login.next.0 - 1);
        self.place = Some(Place { trading_day: login.trading_day, last_report });
        self.link = Link::Replaying;
        let mut told = LoggedIn {
            address: self.address.clone(),
            trading_day: login.trading_day,
            sending: None,
            resent: 0,
        };
        if let Some(sender) = login.sender.filter(|sender| sender.live) {
            let highest = sender.highest_id;
            if !self.ids_known {
                self.pending.start_at(RequestId(highest.0 + 1));
                self.ids_known = true;
            } else if highest >= self.pending.next_id() {
                return self.end(ClientError::SessionUsedElsewhere(highest), on_event);
            }
            self.link = Link::Live;
            self.replayed_until = sender.last_report;
            self.settle = Some((sender.last_report, highest));
            told.resent = self.pending.resend_above(highest, &mut self.out);
            soupbin::write_packet(&Packet::Debug(token::NAME.as_bytes()), &mut self.out);
            told.sending = Some((sender.last_report, highest));
        }
        on_event(ClientEvent::LoggedIn(told));
        self.settle_passed(last_report, on_event);
    }

    fn login_rejected(&mut self, reason: u8, now: Duration, on_event: OnEvent<'_>) {
        if reason == NOT_LEADER {
            return self.disconnected(now, ConnectionLoss::NotLeader, on_event);
        }
        if reason != b'S' {
            return self.end(ClientError::Login(LoginRejection::NotAuthorized), on_event);
        }
        if now >= *self.unavailable_since.get_or_insert(now) + SESSION_PATIENCE {
            return self.end(ClientError::Login(LoginRejection::SessionNotAvailable), on_event);
        }
        self.disconnected(now, ConnectionLoss::SessionNotAvailable, on_event);
    }

    fn day_ended(&mut self, now: Duration, on_event: OnEvent<'_>) -> Result<(), ServerFault> {
        if matches!(self.link, Link::Leaving) {
            self.disconnected(now, ConnectionLoss::LoggedOut, on_event);
            return Ok(());
        }
        let place = match (&self.link, &mut self.place) {
            (Link::Live | Link::Replaying, Some(place)) => place,
            _ => return Err(ServerFault::Unexpected(b'Z')),
        };
        let over = place.trading_day;
        *place = Place { trading_day: TradingDay(over.0 + 1), last_report: ReportNumber(0) };
        self.settle = None;
        on_event(ClientEvent::DayEnded(over));
        self.disconnected(now, ConnectionLoss::DayEnded, on_event);
        Ok(())
    }

    fn report(&mut self, frame: &[u8], on_event: OnEvent<'_>) -> Result<(), ServerFault> {
        let report = Report::decode(frame)?;
        let event = &report.output.event;
        let got = event.recipient().ok_or(ServerFault::Unexpected(b'S'))?.number;
        let Some(place) = &mut self.place else { return Err(ServerFault::Unexpected(b'S')) };
        let expected = ReportNumber(place.last_report.0 + 1);
        if got != expected {
            return Err(ServerFault::ReportNumber { expected, got });
        }
        place.last_report = got;
        let answered = self.answered(event, got)?;
        on_event(ClientEvent::Report(report));
        if let Some((request_id, outcome)) = answered {
            on_event(ClientEvent::Outcome(request_id, outcome));
        }
        self.settle_passed(got, on_event);
        Ok(())
    }

    /// The pending request that the report settles, if it does.
    fn answered(
        &mut self,
        event: &Event,
        number: ReportNumber,
    ) -> Result<Option<(RequestId, Outcome)>, ServerFault> {
        let Some((request_id, rejected)) = answer(event) else { return Ok(None) };
        if rejected == Some(RejectReason::NotLoggedIn) {
            self.pending.mark_not_logged_in(request_id);
            return Ok(None);
        }
        if number > self.replayed_until && request_id >= self.pending.next_id() {
            return Err(ServerFault::Answer(request_id));
        }
        let Some(kind) = self.pending.kind(request_id) else { return Ok(None) };
        let outcome = match rejected {
            Some(reason) => Outcome::Rejected(number, reason),
            None if is_answer(kind, event) => Outcome::Done(number),
            None => return Ok(None),
        };
        self.pending.settle(request_id);
        self.reach.answered();
        Ok(Some((request_id, outcome)))
    }

    fn unsequenced(&mut self, frame: &[u8], on_event: OnEvent<'_>) -> Result<(), ServerFault> {
        self.reach.answered();
        match Unsequenced::decode(frame)? {
            Unsequenced::Depth(id, depth) => {
                self.query_answered();
                on_event(ClientEvent::Depth(QueryId(id.0), depth));
            }
            Unsequenced::InstrumentDefinition(id, definition) => {
                self.query_answered();
                on_event(ClientEvent::Instrument(QueryId(id.0), definition));
            }
            Unsequenced::Refused(refused) => match refused.request_kind {
                Some(FrameKind::DepthQuery | FrameKind::InstrumentQuery | FrameKind::DropCopyRequest) => {
                    self.query_answered();
                    on_event(ClientEvent::QueryRefused(QueryId(refused.request_id.0), refused));
                }
                _ if self.pending.settle(refused.request_id) => {
                    on_event(ClientEvent::Outcome(refused.request_id, Outcome::Refused(refused.reason)));
                }
                _ => return Err(ServerFault::Answer(refused.request_id)),
            },
            Unsequenced::DropCopy(copy) => {
                // The last of the past answers the question; the others come as long as the connection is there.
                if copy.report.is_none() {
                    self.query_answered();
                }
                on_event(ClientEvent::DropCopy(QueryId(copy.request_id.0), copy));
            }
            Unsequenced::DepthQuery(_)
            | Unsequenced::InstrumentQuery(_)
            | Unsequenced::DropCopyRequest(_) => {
                return Err(ServerFault::Unexpected(b'U'));
            }
        }
        Ok(())
    }

    fn query_answered(&mut self) {
        self.queries_open = self.queries_open.saturating_sub(1);
    }

    /// Once the reports up to the login's last one are here, what the server moved past without one never happened.
    fn settle_passed(&mut self, number: ReportNumber, on_event: OnEvent<'_>) {
        let Some((last_report, highest)) = self.settle.filter(|(last_report, _)| number >= *last_report)
        else {
            return;
        };
        debug_assert!(number == last_report);
        self.settle = None;
        while let Some((request_id, _)) = self.pending.oldest_unsettled(highest) {
            self.pending.settle(request_id);
            on_event(ClientEvent::Outcome(request_id, Outcome::NotProcessed));
        }
    }
}

fn place_parts(place: Place) -> (TradingDay, ReportNumber) {
    (place.trading_day, place.last_report)
}

/// The request that a report may answer, and why it rejects it where it does.
fn answer(event: &Event) -> Option<(RequestId, Option<RejectReason>)> {
    let (request_id, rejected) = match event {
        Event::Accepted(e) => (e.request_id, None),
        Event::Rejected(e) => (e.request_id, Some(e.reason)),
        Event::Canceled(e) => (e.request_id, None),
        Event::Replaced(e) => (e.request_id, None),
        Event::OrderStatus(e) => (e.request_id, None),
        Event::MassCanceled(e) => (e.request_id, None),
        Event::AdminDone(e) => (e.request_id, None),
        Event::MassQuoted(e) => (e.request_id, None),
        _ => return None,
    };
    (request_id != RequestId(0)).then_some((request_id, rejected))
}

/// Whether a report that is no reject answers a request of that kind. The cancels that a mass cancel makes carry its id
/// too, but only the report that counts them answers it.
fn is_answer(kind: FrameKind, event: &Event) -> bool {
    match event {
        Event::Accepted(_) => kind == FrameKind::NewOrder,
        Event::Canceled(_) => matches!(kind, FrameKind::CancelOrder | FrameKind::ReplaceOrder),
        Event::Replaced(_) => kind == FrameKind::ReplaceOrder,
        Event::OrderStatus(_) => kind == FrameKind::OrderStatus,
        Event::MassCanceled(_) => kind == FrameKind::MassCancel,
        Event::AdminDone(e) => kind == e.request_kind,
        Event::MassQuoted(_) => kind == FrameKind::MassQuote,
        _ => false,
    }
}

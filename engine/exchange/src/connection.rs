//! Logins, ends of connections, and what they do to a session's orders.
//!
//! These frames come from a gateway, not from a client: they carry no request id and are answered by the venue's own
//! events. An end that names another connection than the live one is late and means nothing.

use protocol::{Command, EndReason, Event, LoggedIn, LoginRefusal, LoginRefused, ReportNumber, Timestamp};

use crate::exchange::Exchange;
use crate::outbox::{EventSink, Outbox};

const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

impl Exchange {
    pub(crate) fn refuse_unknown_login<S: EventSink>(&self, command: &Command, out: &mut Outbox<'_, S>) {
        out.emit(Event::LoginRefused(LoginRefused {
            session: command.session,
            connection: command.connection,
            reason: LoginRefusal::UnknownUser,
        }));
    }

    /// Gives an enabled user's session to a connection, unless it has one. A login stops the timer of
    /// cancel-on-disconnect.
    pub(crate) fn login<S: EventSink>(&mut self, place: u32, command: &Command, out: &mut Outbox<'_, S>) {
        self.busy = true;
        let session = self.sessions.get_mut(place);
        let enabled = session.user.is_some_and(|user| user.enabled);
        if !enabled {
            return self.refuse_unknown_login(command, out);
        }
        if session.connection.is_some() {
            out.emit(Event::LoginRefused(LoginRefused {
                session: command.session,
                connection: command.connection,
                reason: LoginRefusal::AlreadyLoggedIn,
            }));
            return;
        }
        session.connection = Some(command.connection);
        out.emit(Event::LoggedIn(LoggedIn {
            session: command.session,
            connection: command.connection,
            trading_day: self.trading_day,
            last_report: ReportNumber(session.last_report),
            highest_request_id: session.highest_request_id,
        }));
        if session.deadline().is_some() {
            self.sessions.set_deadline(place, None);
        }
    }

    /// The connection says that it ends.
    pub(crate) fn disconnect<S: EventSink>(
        &mut self,
        place: u32,
        command: &Command,
        reason: EndReason,
        out: &mut Outbox<'_, S>,
    ) {
        if self.sessions.get(place).connection == Some(command.connection) {
            self.end_connection(place, reason, out);
        }
    }

    /// The server starts: whatever connections the log knows of are gone.
    pub(crate) fn start<S: EventSink>(&mut self, out: &mut Outbox<'_, S>) {
        let places: Vec<u32> = self.sessions.places().collect();
        for place in places {
            self.end_connection(place, EndReason::Server, out);
        }
    }

    /// Ends a session's live connection, if it has one. Where the session cancels on disconnect, its orders go now or
    /// when its grace is over; but the planned end of the trading day takes no order that is good till canceled.
    pub(crate) fn end_connection<S: EventSink>(
        &mut self,
        place: u32,
        reason: EndReason,
        out: &mut Outbox<'_, S>,
    ) {
        self.busy = true;
        let session = self.sessions.get_mut(place);
        let Some(connection) = session.connection.take() else { return };
        out.emit(Event::ConnectionEnded(session.id, connection, reason));
        let Some(user) = session.user else { return };
        if !user.cancel_on_disconnect || session.open_orders == 0 || reason == EndReason::EndOfDay {
            return;
        }
        if user.grace_ms == 0 {
            self.cancel_disconnected(place, out);
        } else {
            let grace = u64::from(user.grace_ms) * NANOSECONDS_PER_MILLISECOND;
            let deadline = Timestamp(self.log_time.0.saturating_add(grace));
            self.sessions.set_deadline(place, Some(deadline));
        }
    }
}

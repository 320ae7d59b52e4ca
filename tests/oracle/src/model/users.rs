//! Users and their sessions: what is kept of them, logins and their ends. Rules 55 to 57, 80, 101.

use protocol::{
    Command, ConnectionId, EndReason, Event, Joined, LoggedIn, LoginRefusal, LoginRefused, ParticipantId,
    RejectReason, ReportNumber, RequestId, Role, SessionId, Throttle, Timestamp, UserDefinition,
};

use super::accounts::Changed;
use super::{Fault, Oracle};

/// A session and its user.
#[derive(Clone, Debug, Default)]
pub(super) struct Session {
    pub user: Option<UserDefinition>,
    pub connection: Option<ConnectionId>,
    pub highest_request_id: RequestId,
    pub last_report: u64,
    /// When the grace of a lost connection ends.
    pub deadline: Option<Timestamp>,
    /// 0 is none.
    pub participant: ParticipantId,
    /// Since when; zeros once no report from before can be had.
    pub joined: Joined,
    pub throttle: Throttle,
    /// The second of log time in which the two counts below were counted.
    pub second: u64,
    pub orders: u32,
    pub cancels: u32,
}

impl Oracle {
    pub(super) fn is_operator(&self, session: SessionId) -> bool {
        let user = self.sessions.get(&session).and_then(|session| session.user);
        session == SessionId::SYSTEM || user.is_some_and(|user| user.role == Role::Operator)
    }

    pub(super) fn is_observer(&self, session: SessionId) -> bool {
        let user = self.sessions.get(&session).and_then(|session| session.user);
        user.is_some_and(|user| user.role == Role::Observer)
    }

    pub(super) fn put_user(&mut self, new: &UserDefinition) -> Result<(), RejectReason> {
        if new.session == SessionId::SYSTEM {
            return Err(RejectReason::DefinitionInvalid);
        }
        let clash = self.sessions.values().filter_map(|session| session.user).any(|user| {
            (user.session == new.session || user.name == new.name)
                && (user.session, user.name) != (new.session, new.name)
        });
        if clash {
            return Err(RejectReason::UserExists);
        }
        if !self.sessions.contains_key(&new.session) {
            if self.sessions.len() > self.capacities.sessions as usize {
                return Err(RejectReason::SessionsFull);
            }
            self.sessions.insert(new.session, Session { user: Some(*new), ..Session::default() });
            self.events.push(Event::UserDefined(*new));
            return Ok(());
        }
        let session = self.sessions.entry(new.session).or_default();
        if session.user != Some(*new) {
            session.user = Some(*new);
            self.events.push(Event::UserDefined(*new));
        }
        if !new.cancel_on_disconnect {
            session.deadline = None;
        }
        if !new.enabled {
            self.end_connection(new.session, EndReason::Operator);
        }
        Ok(())
    }

    fn user_session(&mut self, id: SessionId) -> Result<&mut Session, RejectReason> {
        let session = self.sessions.get_mut(&id).filter(|_| id != SessionId::SYSTEM);
        session.ok_or(RejectReason::UnknownUser)
    }

    pub(super) fn set_participant(&mut self, id: SessionId, participant: ParticipantId) -> Changed {
        let trading_day = self.trading_day;
        let session = self.user_session(id)?;
        let last_report = ReportNumber(session.last_report);
        let changed = std::mem::replace(&mut session.participant, participant) != participant;
        if changed {
            let has_one = participant.0 != 0;
            session.joined = if has_one { Joined { trading_day, last_report } } else { Joined::default() };
        }
        Ok(changed)
    }

    pub(super) fn set_throttle(&mut self, id: SessionId, throttle: Throttle) -> Changed {
        let session = self.user_session(id)?;
        if session.throttle == throttle {
            return Ok(false);
        }
        (session.throttle, session.orders, session.cancels) = (throttle, 0, 0);
        Ok(true)
    }

    pub(super) fn login(&mut self, command: &Command) {
        let (session, connection) = (command.session, command.connection);
        let trading_day = self.trading_day;
        let keeps_timer = self.is_faulty(Fault::LoginKeepsTimer);
        let refuse = |reason| Event::LoginRefused(LoginRefused { session, connection, reason });
        let event = match self.sessions.get_mut(&session) {
            Some(state) if state.user.is_some_and(|user| user.enabled) => {
                if state.connection.is_some() {
                    refuse(LoginRefusal::AlreadyLoggedIn)
                } else {
                    state.connection = Some(connection);
                    if !keeps_timer {
                        state.deadline = None;
                    }
                    Event::LoggedIn(LoggedIn {
                        session,
                        connection,
                        trading_day,
                        last_report: ReportNumber(state.last_report),
                        highest_request_id: state.highest_request_id,
                    })
                }
            }
            _ => refuse(LoginRefusal::UnknownUser),
        };
        self.events.push(event);
    }

    pub(super) fn disconnect(&mut self, command: &Command, reason: EndReason) {
        let live = self.sessions.get(&command.session).and_then(|session| session.connection);
        if live == Some(command.connection) {
            self.end_connection(command.session, reason);
        }
    }

    pub(super) fn start(&mut self) {
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in ids {
            self.end_connection(id, EndReason::Server);
        }
    }

    pub(super) fn end_connection(&mut self, id: SessionId, reason: EndReason) {
        let has_orders = self.orders.values().any(|order| order.session == id);
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(connection) = session.connection.take() else { return };
        self.events.push(Event::ConnectionEnded(id, connection, reason));
        let Some(user) = session.user.filter(|user| user.cancel_on_disconnect) else { return };
        if reason == EndReason::EndOfDay || !has_orders {
            return;
        }
        if user.grace_ms == 0 {
            self.cancel_disconnected(id);
        } else {
            let grace = u64::from(user.grace_ms) * 1_000_000;
            session.deadline = Some(Timestamp(self.log_time.0.saturating_add(grace)));
        }
    }
}

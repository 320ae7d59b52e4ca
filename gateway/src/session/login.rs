//! From the login packet to its answer.

use protocol::soupbin::{Login, Packet, session_day, session_name};
use protocol::{
    EndReason, LoggedIn, LoginRefusal, LoginRefused, ReportNumber, SessionId, TradingDay, UserName,
};

use super::stream::Stream;
use super::{Control, NOT_AUTHORIZED, NOT_AVAILABLE, Now, Session, State};
use crate::buffers::Outbound;
use crate::resume::Token;

/// What a login packet asks for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Attempt {
    /// The user's name; `None` where it can't be one, so that the login is refused in the end, but not sooner than others.
    pub name: Option<UserName>,
    password: [u8; 10],
    /// The token that came before it.
    token: Option<Token>,
    /// The day wanted; `None` for the current one.
    day: Option<TradingDay>,
    /// Number of the first report wanted; `None` for the next new one.
    next: Option<ReportNumber>,
}

/// Who a verified password belongs to, and what there is for that session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The user's session.
    pub session: SessionId,
    /// The current trading day.
    pub today: TradingDay,
    /// The session's last report of the [day wanted](Attempt::day_wanted).
    pub last_report: ReportNumber,
}

/// A verified login on its way through the log.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    day: TradingDay,
    next: Option<ReportNumber>,
}

// Neither password nor token is shown.
impl std::fmt::Debug for Attempt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attempt")
            .field("name", &self.name)
            .field("day", &self.day)
            .field("next", &self.next)
            .finish_non_exhaustive()
    }
}

impl Attempt {
    /// The password, without the padding.
    #[must_use]
    pub fn password(&self) -> &[u8] {
        self.password.trim_ascii_end()
    }

    /// The token that makes the password unnecessary, if it is a good one.
    pub(crate) fn token(&self) -> Option<&Token> {
        self.token.as_ref()
    }

    /// The day whose reports are wanted, where that is one that can be had while `today` is the current day.
    #[must_use]
    pub fn day_wanted(&self, today: TradingDay) -> Option<TradingDay> {
        let day = self.day.unwrap_or(today);
        (day.0 != 0 && day <= today && day.0 + 1 >= today.0).then_some(day)
    }
}

impl Session {
    /// Takes a login packet; gives what must be verified.
    pub(super) fn attempt(&mut self, now: Now, login: &Login, out: &mut Outbound) -> Option<Attempt> {
        let day = session_day(&login.session);
        if day.is_none() && login.session != [b' '; 10] {
            self.refuse(now, NOT_AVAILABLE, out);
            return None;
        }
        let attempt = Attempt {
            name: UserName::from_padded(&login.username),
            password: login.password,
            token: self.token.take(),
            day,
            next: (login.next != 0).then_some(ReportNumber(login.next)),
        };
        let deadline = now.monotonic + self.limits.verdict_deadline;
        self.state = State::Verifying { attempt, deadline };
        Some(attempt)
    }

    /// Gives the client the token that it asked for.
    pub(crate) fn give_token(&mut self, now: Now, token: &Token, out: &mut Outbound) {
        self.send(now, &Packet::Debug(token.text().as_bytes()), out);
    }

    /// The password or the token is right. The current day's session is asked for in the log, an older day's reports are just read.
    pub fn verified(&mut self, now: Now, identity: &Identity, out: &mut Outbound) {
        let State::Verifying { attempt, .. } = self.state else { return };
        self.session = identity.session;
        let last = identity.last_report;
        let day = attempt.day_wanted(identity.today);
        let there = attempt.next.is_none_or(|next| next.0 <= last.0.saturating_add(1));
        match day {
            Some(day) if there && day == identity.today => {
                let deadline = now.monotonic + self.limits.verdict_deadline;
                self.control = Some(Control::Login);
                self.state = State::Entering { entry: Entry { day, next: attempt.next }, deadline };
            }
            Some(day) if there => {
                let next = attempt.next.unwrap_or(ReportNumber(last.0 + 1));
                let stream = Stream::new(self.session, day, next);
                self.accept(now, &stream, out);
                self.state = State::Replaying(stream);
            }
            _ => self.refuse(now, NOT_AVAILABLE, out),
        }
    }

    /// The login is refused before it came into the log.
    pub fn refuse(&mut self, now: Now, reason: u8, out: &mut Outbound) {
        if self.is_refused() {
            return;
        }
        self.send(now, &Packet::LoginRejected(reason), out);
        self.state = State::Closed { flush_until: None };
        self.flush(now, out);
    }

    /// The output stage told that the connection has its session. `last_report` is the last of
    /// [`login_day`](Self::login_day), which is an older day than the verdict's where the day has ended in between.
    pub fn logged_in(&mut self, now: Now, verdict: &LoggedIn, last_report: ReportNumber, out: &mut Outbound) {
        match self.state {
            State::Entering { entry, .. } => {
                let next = entry.next.unwrap_or(ReportNumber(last_report.0 + 1));
                if next.0 > last_report.0.saturating_add(1) {
                    // The day rolled between the two checks and the number is of another day.
                    self.refuse(now, NOT_AVAILABLE, out);
                    self.control = Some(Control::Disconnect(EndReason::Protocol));
                    return;
                }
                let stream = Stream::new(self.session, entry.day, next);
                self.accept(now, &stream, out);
                self.state = State::Live(stream);
                // With these a client knows what to send again, and when the reports of the past are complete.
                let facts = [
                    format!("trading_day={}", verdict.trading_day),
                    format!("last_report={last_report}"),
                    format!("highest_id={}", verdict.highest_request_id),
                    format!("durability={}", self.durability.name()),
                ];
                for fact in facts {
                    self.send(now, &Packet::Debug(fact.as_bytes()), out);
                }
            }
            State::Abandoned { reason, .. } => {
                self.control = Some(Control::Disconnect(reason));
                self.state = State::Closed { flush_until: None };
            }
            _ => {}
        }
    }

    /// The output stage told that the connection doesn't get its session.
    pub fn login_refused(&mut self, now: Now, verdict: &LoginRefused, out: &mut Outbound) {
        self.in_exchange = false;
        match self.state {
            State::Entering { .. } => self.refuse(now, refusal_byte(verdict.reason), out),
            State::Abandoned { .. } => self.state = State::Closed { flush_until: None },
            _ => {}
        }
    }

    /// The day whose session a login on its way asked for.
    #[must_use]
    pub fn login_day(&self) -> Option<TradingDay> {
        match self.state {
            State::Entering { entry, .. } => Some(entry.day),
            _ => None,
        }
    }

    /// Whether the login was given up already: what is found out about it later is told to nobody.
    fn is_refused(&self) -> bool {
        matches!(self.state, State::Abandoned { .. } | State::Closed { .. })
    }

    /// Answers a login with an `A`; reports go out from here on.
    fn accept(&mut self, now: Now, stream: &Stream, out: &mut Outbound) {
        let answer = Packet::LoginAccepted { session: session_name(stream.day()), next: stream.next().0 };
        self.send(now, &answer, out);
        self.last_heard = now.monotonic;
        self.last_taken = now.monotonic;
    }
}

/// The reason byte of a login that the exchange refused.
fn refusal_byte(refusal: LoginRefusal) -> u8 {
    match refusal {
        LoginRefusal::UnknownUser => NOT_AUTHORIZED,
        LoginRefusal::AlreadyLoggedIn => NOT_AVAILABLE,
    }
}

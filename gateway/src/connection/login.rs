//! A connection's login: a token is looked at here, the password goes to a verifier's thread and back, and the session is
//! told what was found.

use std::sync::atomic::Ordering;

use protocol::{ReportNumber, UserDefinition, UserName};

use super::Connection;
use crate::session::{Attempt, Identity, NOT_AUTHORIZED, NOT_AVAILABLE, Now};

impl Connection {
    pub(super) fn verify(&mut self, now: Now, attempt: Attempt) {
        let today = self.shared.hub.trading_day();
        let is_known = match (self.user(&attempt), attempt.token()) {
            (Some(user), Some(token)) => self.shared.resume.admits(token, &user, today),
            _ => false,
        };
        if is_known {
            return self.verified(now, &attempt, true);
        }
        let allowed = self.shared.failed_logins.borrow_mut().allows(self.address, now.monotonic);
        let asked = if allowed {
            let user = self.user(&attempt);
            self.shared.verifiers.ask(user.map(|user| user.credential), attempt.password())
        } else {
            None
        };
        match asked {
            Some(answer) => self.verification = Some((attempt, answer)),
            None => {
                self.shared.stats.logins_failed.fetch_add(1, Ordering::Relaxed);
                self.session.refuse(now, NOT_AVAILABLE, &mut self.out);
            }
        }
    }

    fn user(&self, attempt: &Attempt) -> Option<UserDefinition> {
        self.enabled(attempt.name)
    }

    fn enabled(&self, name: Option<UserName>) -> Option<UserDefinition> {
        name.and_then(|name| self.shared.hub.user(name)).filter(|user| user.enabled)
    }

    /// The client asked for a token to come back with.
    pub(super) fn give_token(&mut self, now: Now) {
        let Some(user) = self.enabled(self.name) else { return };
        let token = self.shared.resume.issue(&user, self.shared.hub.trading_day());
        self.session.give_token(now, &token, &mut self.out);
    }

    pub(super) fn verified(&mut self, now: Now, attempt: &Attempt, is_right: bool) {
        // Asked again: the user may have been disabled since.
        let user = self.user(attempt).filter(|_| is_right);
        if !self.is_confirmed() {
            self.verified = Some((*attempt, is_right));
            return;
        }
        match user {
            Some(user) => {
                self.name = attempt.name;
                let today = self.shared.hub.trading_day();
                let last_report = match attempt.day_wanted(today) {
                    Some(day) => self.shared.reports.available(user.session, day),
                    None => ReportNumber(0),
                };
                let identity = Identity { session: user.session, today, last_report };
                self.session.verified(now, &identity, &mut self.out);
                self.enter();
            }
            None => {
                self.shared.failed_logins.borrow_mut().failed(self.address, now.monotonic);
                self.shared.stats.logins_failed.fetch_add(1, Ordering::Relaxed);
                self.session.refuse(now, NOT_AUTHORIZED, &mut self.out);
            }
        }
    }

    /// The client was let in: it gets its buffers.
    pub(super) fn enter(&mut self) {
        if !self.let_in && self.session.is_let_in() {
            self.let_in = true;
            self.inbound.grow();
            self.out.grow();
            self.shared.stats.sessions.fetch_add(1, Ordering::Relaxed);
            tracing::info!(
                session = self.session.session().0,
                connection = self.port.connection().0,
                address = %self.address,
                read_only = !self.session.is_live(),
                "logged in"
            );
        }
    }
}

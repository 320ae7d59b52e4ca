//! Who may ask what: connections, ids, and the answers to requests that are refused. Rules 1 to 3.

use protocol::{
    Body, ClOrdId, Command, EndReason, Event, Named, RejectReason, Rejected, RequestId, SessionId,
};

use super::describe::describe;
use super::{Fault, Oracle, quotes};

impl Oracle {
    pub(super) fn take(&mut self, command: &Command) {
        match &command.body {
            Body::Login(_) => self.login(command),
            Body::Logout => self.disconnect(command, EndReason::Logout),
            Body::Disconnect(reason) => self.disconnect(command, *reason),
            _ if !self.sessions.contains_key(&command.session) => {}
            _ => {
                if let Err(reason) = self.check_sender(command).and_then(|()| self.answer(command)) {
                    self.reject(command, reason);
                }
            }
        }
        self.follow();
    }

    /// A skipped request uses up its id where it can, and is answered like any other.
    pub(super) fn answer_skipped(&mut self, command: &Command) {
        let is_server = command.session == SessionId::SYSTEM;
        let unanswered = match command.body {
            Body::Login(_) | Body::Logout | Body::Disconnect(_) => true,
            Body::Start | Body::Tick(_) => is_server,
            _ => false,
        };
        if unanswered || !self.sessions.contains_key(&command.session) {
            return;
        }
        let reason = self.check_sender(command).err().unwrap_or(RejectReason::Skipped);
        self.reject(command, reason);
    }

    fn check_sender(&mut self, command: &Command) -> Result<(), RejectReason> {
        let repeats = self.is_faulty(Fault::RepeatedIdTaken);
        let session = self.sessions.entry(command.session).or_default();
        if command.session == SessionId::SYSTEM {
            return Ok(());
        }
        if session.connection != Some(command.connection) {
            return Err(RejectReason::NotLoggedIn);
        }
        let repeated = command.request_id == session.highest_request_id && command.request_id.0 != 0;
        if command.request_id <= session.highest_request_id && !(repeats && repeated) {
            return Err(RejectReason::IdNotRising);
        }
        // Rule 27: a mass quote uses an id for each entry.
        let further = match &command.body {
            Body::MassQuote(quote) => quotes::entries(quote).saturating_sub(1),
            _ => 0,
        };
        let last = command.request_id.0.checked_add(further);
        session.highest_request_id = last.map_or(command.request_id, RequestId);
        last.map(|_| ()).ok_or(RejectReason::IdNotRising)
    }

    fn answer(&mut self, command: &Command) -> Result<(), RejectReason> {
        let is_system = command.session == SessionId::SYSTEM;
        match &command.body {
            Body::Malformed(_) => Err(RejectReason::Malformed),
            Body::NewOrder(_)
            | Body::CancelOrder(_)
            | Body::ReplaceOrder(_)
            | Body::OrderStatus(_)
            | Body::MassQuote(_)
                if is_system || self.is_observer(command.session) =>
            {
                Err(RejectReason::NotAuthorized)
            }
            // Rule 96; the server itself may cancel.
            Body::MassCancel(_) if self.is_observer(command.session) => Err(RejectReason::NotAuthorized),
            Body::NewOrder(order) => {
                self.use_text(command.session, order.cl_ord_id)?;
                self.new_order(command, order)
            }
            Body::CancelOrder(cancel) => {
                self.use_text(command.session, cancel.cl_ord_id)?;
                self.cancel_order(command, cancel)
            }
            Body::ReplaceOrder(replace) => {
                self.use_text(command.session, replace.cl_ord_id)?;
                self.replace_order(command, replace)
            }
            Body::MassQuote(quote) => self.mass_quote(command, quote),
            Body::OrderStatus(status) => self.order_status(command, status),
            Body::MassCancel(cancel) => self.mass_cancel(command, cancel),
            Body::Start if is_system => {
                self.start();
                Ok(())
            }
            // Its checkpoint comes last of all.
            Body::Tick(_) if is_system => Ok(()),
            Body::Start | Body::Tick(_) => Err(RejectReason::NotAuthorized),
            Body::QueryAccount(account) => {
                self.query_account(command, *account)?;
                self.done(command);
                Ok(())
            }
            _ if !self.is_operator(command.session) => Err(RejectReason::NotAuthorized),
            body => self.administer(command, body),
        }
    }

    fn use_text(&mut self, session: SessionId, text: Option<ClOrdId>) -> Result<(), RejectReason> {
        let Some(text) = text else { return Ok(()) };
        if self.used_texts.contains(&(session, text)) {
            return Err(RejectReason::DuplicateClOrdId);
        }
        if self.used_texts.len() >= self.capacities.cl_ord_ids as usize {
            return Err(RejectReason::IdsFull);
        }
        self.used_texts.insert((session, text));
        Ok(())
    }

    fn reject(&mut self, command: &Command, reason: RejectReason) {
        let (kind, instrument, order, text) = describe(&command.body);
        self.name_report(command.session, text);
        let highest_request_id =
            self.sessions.get(&command.session).map_or(RequestId(0), |session| session.highest_request_id);
        self.report(command.session, |to| {
            Event::Rejected(Rejected {
                to,
                request_id: command.request_id,
                client_order_id: order,
                highest_request_id,
                instrument,
                request_kind: kind,
                reason,
            })
        });
    }

    /// The text id of the request that the next report answers.
    pub(super) fn name_report(&mut self, session: SessionId, text: Option<ClOrdId>) {
        if let Some(cl_ord_id) = text {
            self.events.push(Event::Named(Named { session, cl_ord_id }));
        }
    }
}

//! Who may ask what: connections, ids, logins and their ends, and the answers to requests that are refused.

use protocol::{
    Body, CancelReason, Checkpoint, ClOrdId, ClientOrderId, Command, EndReason, Event, FrameKind,
    InstrumentId, LoggedIn, LoginRefusal, LoginRefused, Named, OrderKey, RejectReason, Rejected,
    ReportNumber, RequestId, Role, SessionId, Timestamp,
};

use super::{Fault, Oracle};

impl Oracle {
    pub(super) fn take(&mut self, command: &Command) {
        let id = command.session;
        match &command.body {
            Body::Login(_) => self.login(command),
            Body::Logout => self.disconnect(command, EndReason::Logout),
            Body::Disconnect(reason) => self.disconnect(command, *reason),
            _ if !self.sessions.contains_key(&id) => {}
            _ => {
                if let Err(reason) = self.check_sender(command).and_then(|()| self.answer(command)) {
                    self.reject(command, reason);
                }
            }
        }
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
        let repeats = self.fault == Some(Fault::RepeatedIdTaken);
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
        session.highest_request_id = command.request_id;
        Ok(())
    }

    fn answer(&mut self, command: &Command) -> Result<(), RejectReason> {
        let is_system = command.session == SessionId::SYSTEM;
        match &command.body {
            Body::Malformed(_) => Err(RejectReason::Malformed),
            Body::NewOrder(_) | Body::CancelOrder(_) | Body::ReplaceOrder(_) | Body::OrderStatus(_)
                if is_system =>
            {
                Err(RejectReason::NotAuthorized)
            }
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
            Body::MassQuote(_) if !is_system => Err(RejectReason::OptionNotOffered),
            Body::OrderStatus(status) => self.order_status(command, status),
            Body::MassCancel(cancel) => self.mass_cancel(command, cancel),
            Body::Start if is_system => {
                self.start();
                Ok(())
            }
            Body::Tick(_) if is_system => {
                let sequence = self.sequence();
                self.events.push(Event::Checkpoint(Checkpoint { sequence, running_hash: 0 }));
                Ok(())
            }
            Body::Start | Body::Tick(_) => Err(RejectReason::NotAuthorized),
            _ if !self.is_operator(command.session) => Err(RejectReason::NotAuthorized),
            body => self.administer(command, body),
        }
    }

    pub(super) fn is_operator(&self, session: SessionId) -> bool {
        session == SessionId::SYSTEM
            || self
                .sessions
                .get(&session)
                .and_then(|session| session.user)
                .is_some_and(|user| user.role == Role::Operator)
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

    fn login(&mut self, command: &Command) {
        let (session, connection) = (command.session, command.connection);
        let trading_day = self.trading_day;
        let keeps_timer = self.fault == Some(Fault::LoginKeepsTimer);
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

    fn disconnect(&mut self, command: &Command, reason: EndReason) {
        let live = self.sessions.get(&command.session).and_then(|session| session.connection);
        if live == Some(command.connection) {
            self.end_connection(command.session, reason);
        }
    }

    fn start(&mut self) {
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in ids {
            self.end_connection(id, EndReason::Server);
        }
    }

    pub(super) fn end_connection(&mut self, id: SessionId, reason: EndReason) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(connection) = session.connection.take() else { return };
        self.events.push(Event::ConnectionEnded(id, connection, reason));
        let has_orders = self.resting.values().any(|order| order.session == id);
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

    pub(super) fn cancel_disconnected(&mut self, id: SessionId) {
        for place in self.orders_of(id) {
            self.cancel(place, CancelReason::Disconnected, RequestId(0));
        }
    }
}

/// What a reject tells of a request: kind, instrument, the order's number, the request's text id.
fn describe(body: &Body) -> (Option<FrameKind>, InstrumentId, Option<ClientOrderId>, Option<ClOrdId>) {
    let number = |key: &OrderKey| match key {
        OrderKey::Id(id) if id.0 > 0 => Some(*id),
        _ => None,
    };
    let none = InstrumentId(0);
    match body {
        Body::Malformed(_) => (None, none, None, None),
        Body::NewOrder(new) => (Some(FrameKind::NewOrder), new.instrument, None, new.cl_ord_id),
        Body::CancelOrder(cancel) => {
            (Some(FrameKind::CancelOrder), none, number(&cancel.order), cancel.cl_ord_id)
        }
        Body::ReplaceOrder(replace) => {
            (Some(FrameKind::ReplaceOrder), none, number(&replace.order), replace.cl_ord_id)
        }
        Body::MassCancel(cancel) => {
            (Some(FrameKind::MassCancel), cancel.instrument.unwrap_or(none), None, None)
        }
        Body::OrderStatus(status) => (Some(FrameKind::OrderStatus), none, number(&status.order), None),
        Body::Login(_) => (Some(FrameKind::Login), none, None, None),
        Body::Logout => (Some(FrameKind::Logout), none, None, None),
        Body::Disconnect(_) => (Some(FrameKind::Disconnect), none, None, None),
        Body::Start => (Some(FrameKind::Start), none, None, None),
        Body::Tick(_) => (Some(FrameKind::Tick), none, None, None),
        Body::EndOfDay => (Some(FrameKind::EndOfDay), none, None, None),
        Body::SetCapacities(_) => (Some(FrameKind::SetCapacities), none, None, None),
        Body::SetRulebook(_) => (Some(FrameKind::SetRulebook), none, None, None),
        Body::PutInstrument(definition) => {
            (Some(FrameKind::PutInstrument), definition.instrument, None, None)
        }
        Body::SetPhase(instrument, _) => (Some(FrameKind::SetPhase), *instrument, None, None),
        Body::PutUser(_) => (Some(FrameKind::PutUser), none, None, None),
        Body::DisconnectUser(_) => (Some(FrameKind::DisconnectUser), none, None, None),
        Body::MassQuote(quote) => (Some(FrameKind::MassQuote), quote.instrument, None, None),
        Body::PutRules(instrument, _) => (Some(FrameKind::PutRules), *instrument, None, None),
        Body::PutTickTable(instrument, _) => (Some(FrameKind::PutTickTable), *instrument, None, None),
        Body::SchedulePhase(instrument, ..) => (Some(FrameKind::SchedulePhase), *instrument, None, None),
        Body::ClearSchedule(instrument) => (Some(FrameKind::ClearSchedule), *instrument, None, None),
        Body::SetPrice(instrument, ..) => (Some(FrameKind::SetPrice), *instrument, None, None),
        Body::Delist(instrument) => (Some(FrameKind::Delist), *instrument, None, None),
        Body::SetFees(instrument, ..) => (Some(FrameKind::SetFees), *instrument, None, None),
        Body::SetLimits(_, instrument, _) => {
            (Some(FrameKind::SetLimits), instrument.unwrap_or(none), None, None)
        }
        Body::SetSeed(_) => (Some(FrameKind::SetSeed), none, None, None),
        Body::PutCurrency(..) => (Some(FrameKind::PutCurrency), none, None, None),
        Body::PutAccount(_) => (Some(FrameKind::PutAccount), none, None, None),
        Body::SetParticipant(..) => (Some(FrameKind::SetParticipant), none, None, None),
        Body::SetThrottle(..) => (Some(FrameKind::SetThrottle), none, None, None),
        Body::Transfer(_) => (Some(FrameKind::Transfer), none, None, None),
        Body::Kill(..) => (Some(FrameKind::Kill), none, None, None),
        Body::BustTrade(_) => (Some(FrameKind::BustTrade), none, None, None),
        Body::CorrectTrade(..) => (Some(FrameKind::CorrectTrade), none, None, None),
        Body::QueryAccount(_) => (Some(FrameKind::QueryAccount), none, None, None),
        Body::QueryInstrument(instrument) => (Some(FrameKind::QueryInstrument), *instrument, None, None),
    }
}

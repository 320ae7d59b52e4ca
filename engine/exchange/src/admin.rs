//! Administration: instruments, phases, users, capacities and the end of the trading day. All of it needs the operator's
//! role; the server itself has it.

use protocol::{
    AdminDone, Body, Capacities, Command, Configured, EndReason, Event, FrameKind, InstrumentDefinition,
    InstrumentId, Quantity, RejectReason, RestateReason, Restated, Role, SessionId, TradingDay,
    UserDefinition,
};

use crate::exchange::{Exchange, RULEBOOK_VERSION, Request};
use crate::instruments::{self, Instrument};
use crate::outbox::{EventSink, Outbox};
use crate::version;

/// The most that each capacity may be: what 32-bit places and the index have room for, with some to spare.
pub const CAPACITIES_MAX: Capacities = Capacities {
    orders: 1 << 30,
    levels: 1 << 30,
    cl_ord_ids: 1 << 30,
    sessions: 1 << 20,
    instruments: 1 << 22,
};

impl Exchange {
    /// Does what an operator's request asks, and says that it is done.
    pub(crate) fn administer<S: EventSink>(
        &mut self,
        request: &Request,
        command: &Command,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        self.busy = true;
        if !self.sessions.get(request.session).is_operator() {
            return Err(RejectReason::NotAuthorized);
        }
        self.offered(version::of_request(&command.body))?;
        let (kind, instrument) = match &command.body {
            Body::EndOfDay => {
                self.end_of_day(request, out);
                return Ok(());
            }
            Body::SetCapacities(capacities) => {
                self.set_capacities(capacities)?;
                (FrameKind::SetCapacities, InstrumentId(0))
            }
            Body::SetRulebook(version) => {
                self.set_rulebook(*version)?;
                (FrameKind::SetRulebook, InstrumentId(0))
            }
            Body::PutInstrument(definition) => {
                self.put_instrument(definition, out)?;
                (FrameKind::PutInstrument, definition.instrument)
            }
            Body::SetPhase(instrument, phase) => {
                self.set_phase(*instrument, *phase, out)?;
                (FrameKind::SetPhase, *instrument)
            }
            Body::PutUser(user) => {
                self.put_user(user, out)?;
                (FrameKind::PutUser, InstrumentId(0))
            }
            Body::DisconnectUser(session) => {
                self.disconnect_user(*session, out)?;
                (FrameKind::DisconnectUser, InstrumentId(0))
            }
            Body::PutRules(..)
            | Body::PutTickTable(..)
            | Body::SetPrice(..)
            | Body::SchedulePhase(..)
            | Body::ClearSchedule(_)
            | Body::Delist(_)
            | Body::SetSeed(_) => return self.administer_instrument(request, command, out),
            _ => return Err(RejectReason::OptionNotOffered),
        };
        // A user who is disconnected or disabled loses orders, and what follows from that comes before the answer.
        self.follow(out);
        self.admin_done(request, kind, instrument, out);
        Ok(())
    }

    /// Says that a request changed something that has no event of its own: of an instrument, account, session or participant
    /// of that number, or of the venue (0).
    pub(crate) fn configured<S: EventSink>(
        &self,
        kind: FrameKind,
        id: u32,
        command: &Command,
        out: &mut Outbox<'_, S>,
    ) {
        out.emit(Event::Configured(Configured { kind, id, digest: command.digest() }));
    }

    /// Answers a request that is done.
    pub(crate) fn admin_done<S: EventSink>(
        &mut self,
        request: &Request,
        request_kind: FrameKind,
        instrument: InstrumentId,
        out: &mut Outbox<'_, S>,
    ) {
        out.emit(Event::AdminDone(AdminDone {
            to: self.sessions.report(request.session),
            request_id: request.id,
            request_kind,
            instrument,
        }));
    }

    fn set_capacities(&mut self, capacities: &Capacities) -> Result<(), RejectReason> {
        let fits = |new: u32, used: u32, max: u32| (used..=max).contains(&new);
        let max = &CAPACITIES_MAX;
        if fits(capacities.orders, self.orders.arena.live(), max.orders)
            && fits(capacities.levels, self.levels, max.levels)
            && fits(capacities.cl_ord_ids, self.orders.names.len(), max.cl_ord_ids)
            && fits(capacities.sessions, self.sessions.users(), max.sessions)
            && fits(capacities.instruments, self.instruments.len(), max.instruments)
        {
            self.capacities = *capacities;
            Ok(())
        } else {
            Err(RejectReason::CapacityInvalid)
        }
    }

    /// Switches to newer rules; the same ones again change nothing. Those that this program doesn't know never get here.
    fn set_rulebook(&mut self, version: u32) -> Result<(), RejectReason> {
        if version < self.rulebook_version {
            return Err(RejectReason::RulebookLower);
        }
        assert!(version <= RULEBOOK_VERSION, "a command of unknown rules is never applied");
        self.rulebook_version = version;
        Ok(())
    }

    fn put_instrument<S: EventSink>(
        &mut self,
        definition: &InstrumentDefinition,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        if !instruments::is_valid(definition) {
            return Err(RejectReason::DefinitionInvalid);
        }
        if let Some(place) = self.instruments.place(definition.instrument) {
            let same = self.instruments.get(place).definition == *definition;
            return if same { Ok(()) } else { Err(RejectReason::InstrumentExists) };
        }
        if self.instruments.by_symbol(&definition.symbol).is_some() {
            return Err(RejectReason::InstrumentExists);
        }
        if self.instruments.len() >= self.capacities.instruments {
            return Err(RejectReason::InstrumentsFull);
        }
        self.instruments.add(Instrument::new(*definition));
        out.emit(Event::InstrumentDefined(*definition));
        Ok(())
    }

    /// Creates or changes a user. Session and name belong together for good.
    fn put_user<S: EventSink>(
        &mut self,
        user: &UserDefinition,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        if user.session == SessionId::SYSTEM {
            return Err(RejectReason::DefinitionInvalid);
        }
        let place = self.sessions.place(user.session);
        if place != self.sessions.by_name(&user.name) {
            return Err(RejectReason::UserExists);
        }
        let Some(place) = place else {
            if self.sessions.users() >= self.capacities.sessions {
                return Err(RejectReason::SessionsFull);
            }
            self.sessions.add(*user);
            out.emit(Event::UserDefined(*user));
            return Ok(());
        };
        let session = self.sessions.get_mut(place);
        session.trades = user.role != Role::Observer;
        if session.user.replace(*user) != Some(*user) {
            out.emit(Event::UserDefined(*user));
        }
        if !user.cancel_on_disconnect {
            self.sessions.set_deadline(place, None);
        }
        if !user.enabled {
            self.end_connection(place, EndReason::Operator, out);
        }
        Ok(())
    }

    fn disconnect_user<S: EventSink>(
        &mut self,
        session: SessionId,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        let place = self.sessions.place(session).ok_or(RejectReason::UnknownUser)?;
        if session == SessionId::SYSTEM {
            return Err(RejectReason::UnknownUser);
        }
        self.end_connection(place, EndReason::Operator, out);
        Ok(())
    }

    /// Ends the trading day. Of the old day: the expiries of Day orders, then the answer to the request. Then the day
    /// changes: reports are numbered from 1 again, text ids are forgotten, and the orders that go on are restated.
    /// Sessions come in the order of their ids, a session's orders oldest first.
    fn end_of_day<S: EventSink>(&mut self, request: &Request, out: &mut Outbox<'_, S>) {
        let places: Vec<u32> = self.sessions.places().collect();
        for &place in &places {
            self.expire_day_orders(place, out);
        }
        self.follow(out);
        self.settle_day(out);
        self.admin_done(request, FrameKind::EndOfDay, InstrumentId(0), out);
        self.trading_day = TradingDay(self.trading_day.0.saturating_add(1));
        for &place in &places {
            let session = self.sessions.get_mut(place);
            session.last_report = 0;
            session.controls.begin_day(self.trading_day);
        }
        out.emit(Event::DayStarted(self.trading_day));
        for &place in &places {
            self.restate_orders(place, out);
        }
        self.orders.names.clear();
    }

    fn restate_orders<S: EventSink>(&mut self, session: u32, out: &mut Outbox<'_, S>) {
        let mut handle = self.sessions.get(session).oldest;
        while handle.is_some() {
            self.orders.forget_name(handle);
            let (price, leaves) = (self.told_price(handle), self.orders.open_quantity(handle));
            let order = self.orders.arena.get(handle);
            out.emit(Event::Restated(Restated {
                to: self.sessions.report(session),
                order_id: order.order_id,
                client_order_id: order.client_order_id,
                price,
                leaves_quantity: Quantity(leaves),
                cum_quantity: Quantity(order.cum),
                instrument: self.instruments.get(order.instrument).definition.instrument,
                account: order.account,
                side: order.side,
                reason: RestateReason::NewDay,
            }));
            handle = self.orders.arena.links(handle).younger;
        }
    }
}

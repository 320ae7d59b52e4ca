//! What operators ask: instruments, phases, users, capacities, the end of the trading day.

use protocol::{
    AdminDone, Body, Capacities, Command, EndReason, Event, ExpireReason, Expired, FrameKind,
    InstrumentDefinition, InstrumentId, Phase, RejectReason, RequestId, RestateReason, Restated, SessionId,
    TimeInForce, TradingDay, UserDefinition,
};

use super::{Fault, Instrument, Oracle, Session, quantity};

impl Oracle {
    pub(super) fn administer(&mut self, command: &Command, body: &Body) -> Result<(), RejectReason> {
        let none = InstrumentId(0);
        let (kind, instrument) = match body {
            Body::EndOfDay => {
                self.expire_day_orders();
                (FrameKind::EndOfDay, none)
            }
            Body::SetCapacities(capacities) => {
                self.set_capacities(capacities)?;
                (FrameKind::SetCapacities, none)
            }
            Body::SetRulebook(version) => {
                if *version < self.rulebook {
                    return Err(RejectReason::RulebookLower);
                }
                self.rulebook = *version;
                (FrameKind::SetRulebook, none)
            }
            Body::PutInstrument(definition) => {
                self.put_instrument(definition)?;
                (FrameKind::PutInstrument, definition.instrument)
            }
            Body::SetPhase(id, phase @ (Phase::Continuous | Phase::Halted)) => {
                let instrument = self.instruments.get_mut(id).ok_or(RejectReason::UnknownInstrument)?;
                if instrument.phase != *phase {
                    instrument.phase = *phase;
                    self.events.push(Event::PhaseChanged(*id, *phase));
                }
                (FrameKind::SetPhase, *id)
            }
            Body::PutUser(user) => {
                self.put_user(user)?;
                (FrameKind::PutUser, none)
            }
            Body::DisconnectUser(id) => {
                if *id == SessionId::SYSTEM || !self.sessions.contains_key(id) {
                    return Err(RejectReason::UnknownUser);
                }
                self.end_connection(*id, EndReason::Operator);
                (FrameKind::DisconnectUser, none)
            }
            _ => return Err(RejectReason::OptionNotOffered),
        };
        self.report(command.session, |to| {
            Event::AdminDone(AdminDone { to, request_id: command.request_id, request_kind: kind, instrument })
        });
        if matches!(body, Body::EndOfDay) {
            self.begin_day();
        }
        Ok(())
    }

    fn set_capacities(&mut self, new: &Capacities) -> Result<(), RejectReason> {
        let too_small = (new.orders as usize) < self.resting.len()
            || (new.levels as usize) < self.levels()
            || (new.cl_ord_ids as usize) < self.used_texts.len()
            || (new.sessions as usize) < self.sessions.len() - 1
            || (new.instruments as usize) < self.instruments.len();
        let too_large = new.orders > 1 << 30
            || new.levels > 1 << 30
            || new.cl_ord_ids > 1 << 30
            || new.sessions > 1 << 20
            || new.instruments > 1 << 22;
        if too_small || too_large {
            return Err(RejectReason::CapacityInvalid);
        }
        self.capacities = *new;
        Ok(())
    }

    fn put_instrument(&mut self, new: &InstrumentDefinition) -> Result<(), RejectReason> {
        if new.instrument.0 == 0
            || new.price_scale > 12
            || new.quantity_scale > 12
            || new.tick_size.0 < 1
            || new.lot_size.0 < 1
            || new.price_min > new.price_max
            || new.quantity_max < new.lot_size
        {
            return Err(RejectReason::DefinitionInvalid);
        }
        if self.instruments.get(&new.instrument).is_some_and(|known| known.definition == *new) {
            return Ok(());
        }
        let taken = self.instruments.values().any(|known| {
            known.definition.instrument == new.instrument || known.definition.symbol == new.symbol
        });
        if taken {
            return Err(RejectReason::InstrumentExists);
        }
        if self.instruments.len() >= self.capacities.instruments as usize {
            return Err(RejectReason::InstrumentsFull);
        }
        self.instruments.insert(new.instrument, Instrument { definition: *new, phase: Phase::Continuous });
        self.events.push(Event::InstrumentDefined(*new));
        Ok(())
    }

    fn put_user(&mut self, new: &UserDefinition) -> Result<(), RejectReason> {
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

    fn expire_day_orders(&mut self) {
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        for place in ids.into_iter().flat_map(|id| self.orders_of(id)).collect::<Vec<_>>() {
            let is_day =
                self.resting.get(&place).is_some_and(|order| order.time_in_force == TimeInForce::Day);
            if !is_day {
                continue;
            }
            let Some(order) = self.forget(place) else { continue };
            self.report(order.session, |to| {
                Event::Expired(Expired {
                    to,
                    request_id: RequestId(0),
                    order_id: order.order_id,
                    client_order_id: order.client_order_id,
                    resting_price: Some(order.price),
                    expired_quantity: quantity(order.leaves()),
                    cum_quantity: quantity(order.cum),
                    instrument: place.instrument,
                    account: order.account,
                    side: place.side,
                    reason: ExpireReason::EndOfDay,
                })
            });
        }
    }

    fn begin_day(&mut self) {
        self.trading_day = TradingDay(self.trading_day.0 + 1);
        if self.fault != Some(Fault::TextIdsKept) {
            self.used_texts.clear();
            self.current_texts.clear();
        }
        for session in self.sessions.values_mut() {
            session.last_report = 0;
        }
        self.events.push(Event::DayStarted(self.trading_day));
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        for place in ids.into_iter().flat_map(|id| self.orders_of(id)).collect::<Vec<_>>() {
            let Some(order) = self.resting.get(&place).copied() else { continue };
            self.report(order.session, |to| {
                Event::Restated(Restated {
                    to,
                    order_id: order.order_id,
                    client_order_id: order.client_order_id,
                    price: Some(order.price),
                    leaves_quantity: quantity(order.leaves()),
                    cum_quantity: quantity(order.cum),
                    instrument: place.instrument,
                    account: order.account,
                    side: place.side,
                    reason: RestateReason::NewDay,
                })
            });
        }
    }
}

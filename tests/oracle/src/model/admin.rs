//! What operators ask, and the end of the trading day. Rules 100 to 108.

use protocol::{
    AdminDone, Body, Capacities, Command, Configured, EndReason, Event, ExpireReason, InstrumentDefinition,
    InstrumentId, Joined, KillTarget, Phase, RejectReason, RestateReason, SessionId, TradingDay,
};

use super::accounts::Changed;
use super::describe::describe;
use super::instruments::Instrument;
use super::{Fault, Oracle, UNASKED};

/// The newest version of the rulebook.
const NEWEST: u32 = 2;

impl Oracle {
    pub(super) fn administer(&mut self, command: &Command, body: &Body) -> Result<(), RejectReason> {
        if self.rulebook < 2 && !is_plain(body) {
            return Err(RejectReason::OptionNotOffered);
        }
        match body {
            Body::EndOfDay => {
                self.end_day(command);
                return Ok(());
            }
            Body::SetRulebook(version) if *version > NEWEST => return Ok(()),
            Body::SetCapacities(capacities) => self.set_capacities(capacities)?,
            Body::SetRulebook(version) => {
                if *version < self.rulebook {
                    return Err(RejectReason::RulebookLower);
                }
                self.rulebook = *version;
            }
            Body::PutInstrument(definition) => self.put_instrument(definition)?,
            Body::SetPhase(id, phase) => {
                let it = self.instruments.get(id).ok_or(RejectReason::UnknownInstrument)?;
                it.check_phase(*phase)?;
                self.change_phase(*id, *phase);
            }
            Body::PutUser(user) => self.put_user(user)?,
            Body::DisconnectUser(id) => {
                if *id == SessionId::SYSTEM || !self.sessions.contains_key(id) {
                    return Err(RejectReason::UnknownUser);
                }
                self.end_connection(*id, EndReason::Operator);
            }
            Body::Delist(id) => self.delist(*id)?,
            Body::Kill(target, on) => self.kill(command, *target, *on)?,
            Body::BustTrade(trade) => {
                self.bust(*trade)?;
            }
            Body::CorrectTrade(trade, price) => {
                self.correct(*trade, *price)?;
            }
            Body::QueryInstrument(id) => self.query_instrument(command, *id)?,
            body => {
                let changed = self.set(body)?;
                self.follow();
                if changed {
                    self.configured(command);
                }
            }
        }
        self.follow();
        self.done(command);
        Ok(())
    }

    /// What has no event of its own.
    fn set(&mut self, body: &Body) -> Changed {
        match body {
            Body::PutRules(id, rules) => self.put_rules(*id, rules),
            Body::PutTickTable(id, table) => self.put_tick_table(*id, table),
            Body::SchedulePhase(id, at, phase) => self.schedule(*id, *at, *phase),
            Body::ClearSchedule(id) => self.clear_schedule(*id),
            Body::SetPrice(id, kind, price) => self.set_price(*id, *kind, *price),
            Body::SetFees(id, group, fees) => self.set_fees(*id, *group, fees),
            Body::SetLimits(account, id, limits) => self.set_limits(*account, *id, limits),
            Body::SetSeed(seed) => Ok(std::mem::replace(&mut self.seed, *seed) != *seed),
            Body::PutCurrency(currency, scale) => self.put_currency(*currency, *scale),
            Body::PutAccount(account) => self.put_account(account),
            Body::SetParticipant(session, participant) => self.set_participant(*session, *participant),
            Body::SetThrottle(session, throttle) => self.set_throttle(*session, *throttle),
            Body::Transfer(transfer) => self.transfer(transfer),
            _ => Err(RejectReason::NotAuthorized),
        }
    }

    /// Rule 108.
    pub(super) fn configured(&mut self, command: &Command) {
        if let Body::SetParticipant(session, participant) = command.body {
            let joined = self.sessions[&session].joined;
            self.events.push(Event::ParticipantSet(session, participant, joined));
            return;
        }
        let (kind, instrument, ..) = describe(&command.body);
        let id = match &command.body {
            Body::SetLimits(account, ..) => account.0,
            Body::PutAccount(account) => account.account.0,
            Body::Transfer(transfer) => transfer.account.0,
            Body::SetThrottle(session, _) => session.0,
            Body::Kill(KillTarget::Account(account), _) => account.0,
            Body::Kill(KillTarget::Participant(participant), _) => participant.0,
            _ => instrument.0,
        };
        let Some(kind) = kind else { return };
        self.events.push(Event::Configured(Configured { kind, id, digest: command.digest() }));
    }

    pub(super) fn done(&mut self, command: &Command) {
        let (kind, instrument, ..) = describe(&command.body);
        let Some(request_kind) = kind else { return };
        self.report(command.session, |to| {
            Event::AdminDone(AdminDone { to, request_id: command.request_id, request_kind, instrument })
        });
    }

    fn set_capacities(&mut self, new: &Capacities) -> Result<(), RejectReason> {
        let too_small = (new.orders as usize) < self.orders.len()
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
        if new.instrument == InstrumentId(0)
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
        self.instruments.insert(new.instrument, Instrument::new(*new));
        self.events.push(Event::InstrumentDefined(*new));
        Ok(())
    }

    /// Rule 100.
    fn end_day(&mut self, command: &Command) {
        let sessions: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in sessions.iter().flat_map(|session| self.orders_of_session(*session)).collect::<Vec<_>>() {
            if self.order(id).ends_with_day() {
                self.expire(id, ExpireReason::EndOfDay, UNASKED);
            }
        }
        self.follow();
        self.settle_margins();
        self.done(command);
        self.trading_day = TradingDay(self.trading_day.0 + 1);
        self.kept.clear();
        if !self.is_faulty(Fault::TextIdsKept) {
            self.used_texts.clear();
            self.current_texts.clear();
            for order in self.orders.values_mut() {
                order.text = None;
            }
        }
        for session in self.sessions.values_mut() {
            session.last_report = 0;
            if session.joined.trading_day.0 + 1 < self.trading_day.0 {
                session.joined = Joined::default();
            }
        }
        self.events.push(Event::DayStarted(self.trading_day));
        for id in sessions.iter().flat_map(|session| self.orders_of_session(*session)).collect::<Vec<_>>() {
            self.report_restated(id, self.order(id).told_price(), RestateReason::NewDay);
        }
    }
}

/// Of version 1 of the rulebook.
fn is_plain(body: &Body) -> bool {
    matches!(
        body,
        Body::EndOfDay
            | Body::SetCapacities(_)
            | Body::SetRulebook(_)
            | Body::PutInstrument(_)
            | Body::SetPhase(_, Phase::Continuous | Phase::Halted)
            | Body::PutUser(_)
            | Body::DisconnectUser(_)
    )
}

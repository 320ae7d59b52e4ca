//! What operators set about accounts: currencies, accounts, fees, limits, throttles, transfers and kill switches.

use protocol::{
    AccountDefinition, AccountGroup, AccountId, Body, CancelReason, Command, Configured, Currency, Event,
    Fees, FrameKind, InstrumentId, Joined, KillTarget, Limits, ParticipantId, RejectReason, ReportNumber,
    RequestId, SessionId, Throttle, Transfer,
};

use crate::accounts::{
    ACCOUNTS_MAX, CURRENCIES_MAX, CURRENCY_SCALE_MAX, CurrencyState, LIMIT_SETS_MAX, fees,
};
use crate::arena::Handle;
use crate::exchange::{Exchange, Request};
use crate::outbox::{EventSink, Outbox};
use crate::throttle::Controls;

/// Largest amount of a transfer, and largest total after one.
const AMOUNT_MAX: i128 = 1 << 100;

/// What an administrative request did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Done {
    kind: FrameKind,
    /// The instrument that the answer tells.
    instrument: InstrumentId,
    /// What changed that has no event of its own: the number that [`Event::Configured`] tells.
    configured: Option<u32>,
}

impl Done {
    fn new(kind: FrameKind, changed: bool, id: u32) -> Self {
        Self { kind, instrument: InstrumentId(0), configured: changed.then_some(id) }
    }
}

impl Exchange {
    /// Does what an operator asks about accounts, and says that it is done.
    pub(crate) fn keep_accounts<S: EventSink>(
        &mut self,
        request: &Request,
        command: &Command,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        if !self.sessions.get(request.session).is_operator() {
            return Err(RejectReason::NotAuthorized);
        }
        self.offered(2)?;
        let done = match &command.body {
            Body::PutCurrency(currency, scale) => self.put_currency(*currency, *scale),
            Body::PutAccount(definition) => self.put_account(definition),
            Body::SetParticipant(session, participant) => self.set_participant(*session, *participant),
            Body::SetThrottle(session, throttle) => self.set_throttle(*session, *throttle),
            Body::SetFees(instrument, group, fees) => self.set_fees(*instrument, *group, fees),
            Body::SetLimits(account, instrument, limits) => self.set_limits(*account, *instrument, limits),
            Body::Transfer(transfer) => self.transfer(transfer),
            Body::Kill(target, on) => self.kill(*target, *on, command.digest(), out),
            Body::BustTrade(trade) => {
                self.bust(*trade, out).map(|()| Done::new(FrameKind::BustTrade, false, 0))
            }
            Body::CorrectTrade(trade, price) => {
                self.correct(*trade, *price, out).map(|()| Done::new(FrameKind::CorrectTrade, false, 0))
            }
            _ => Err(RejectReason::OptionNotOffered),
        }?;
        self.follow(out);
        match (&command.body, done.configured) {
            // Who may read its reports follows from it, so the value itself is told.
            (Body::SetParticipant(session, participant), Some(_)) => {
                let place = self.sessions.place(*session);
                let joined = place.map_or_else(Joined::default, |at| self.sessions.get(at).controls.joined);
                out.emit(Event::ParticipantSet(*session, *participant, joined));
            }
            (_, Some(id)) => {
                out.emit(Event::Configured(Configured { kind: done.kind, id, digest: command.digest() }));
            }
            (_, None) => {}
        }
        self.admin_done(request, done.kind, done.instrument, out);
        Ok(())
    }

    fn put_currency(&mut self, currency: Currency, scale: u8) -> Result<Done, RejectReason> {
        if scale > CURRENCY_SCALE_MAX {
            return Err(RejectReason::DefinitionInvalid);
        }
        let currencies = &mut self.accounts.currencies;
        let known = currencies.get(&currency).map(|state| state.scale);
        if known.is_some_and(|known| known != scale) {
            return Err(RejectReason::AccountExists);
        }
        if known.is_none() {
            if currencies.len() >= CURRENCIES_MAX {
                return Err(RejectReason::AccountsFull);
            }
            currencies.insert(currency, CurrencyState { scale, deposits: 0, fees: 0 });
        }
        Ok(Done::new(FrameKind::PutCurrency, known.is_none(), 0))
    }

    fn put_account(&mut self, definition: &AccountDefinition) -> Result<Done, RejectReason> {
        if definition.account == AccountId(0) || definition.participant == ParticipantId(0) {
            return Err(RejectReason::DefinitionInvalid);
        }
        let changed = match self.accounts.place(definition.account) {
            Some(place) => {
                let account = self.accounts.get_mut(place);
                if account.definition.participant != definition.participant {
                    return Err(RejectReason::AccountExists);
                }
                std::mem::replace(&mut account.definition, *definition) != *definition
            }
            None if self.accounts.len() >= ACCOUNTS_MAX => return Err(RejectReason::AccountsFull),
            None => {
                self.accounts.add(*definition);
                true
            }
        };
        Ok(Done::new(FrameKind::PutAccount, changed, definition.account.0))
    }

    fn set_participant(
        &mut self,
        session: SessionId,
        participant: ParticipantId,
    ) -> Result<Done, RejectReason> {
        let trading_day = self.trading_day;
        self.control(session, FrameKind::SetParticipant, |controls, last_report| {
            controls.set_participant(participant, Joined { trading_day, last_report });
        })
    }

    fn set_throttle(&mut self, session: SessionId, throttle: Throttle) -> Result<Done, RejectReason> {
        self.control(session, FrameKind::SetThrottle, |controls, _| controls.set_throttle(throttle))
    }

    fn control(
        &mut self,
        id: SessionId,
        kind: FrameKind,
        change: impl FnOnce(&mut Controls, ReportNumber),
    ) -> Result<Done, RejectReason> {
        let place = self.sessions.place(id).filter(|_| id != SessionId::SYSTEM);
        let session = self.sessions.get_mut(place.ok_or(RejectReason::UnknownUser)?);
        let before = session.controls;
        change(&mut session.controls, ReportNumber(session.last_report));
        session.controlled = session.controls.are_set();
        Ok(Done::new(kind, session.controls != before, id.0))
    }

    fn set_fees(
        &mut self,
        instrument: InstrumentId,
        group: AccountGroup,
        fees: &Fees,
    ) -> Result<Done, RejectReason> {
        self.instruments.place(instrument).ok_or(RejectReason::UnknownInstrument)?;
        if !fees::is_valid(fees) {
            return Err(RejectReason::DefinitionInvalid);
        }
        let schedules = &mut self.accounts.schedules;
        let known = schedules.get(instrument, group).copied();
        if known.is_none() && schedules.len() >= fees::SCHEDULES_MAX {
            return Err(RejectReason::AccountsFull);
        }
        schedules.set(instrument, group, *fees);
        let done = Done::new(FrameKind::SetFees, known != Some(*fees), instrument.0);
        Ok(Done { instrument, ..done })
    }

    fn set_limits(
        &mut self,
        account: AccountId,
        instrument: Option<InstrumentId>,
        limits: &Limits,
    ) -> Result<Done, RejectReason> {
        let place = self.accounts.place(account).ok_or(RejectReason::UnknownAccount)?;
        if instrument.is_some_and(|id| self.instruments.place(id).is_none()) {
            return Err(RejectReason::UnknownInstrument);
        }
        let none = Limits::default();
        let (sets, keeper) = (self.accounts.limit_sets, self.accounts.get_mut(place));
        let before = match instrument {
            None => keeper.limits,
            Some(id) => keeper.own_limits.get(&id).copied().unwrap_or_default(),
        };
        if before == none && *limits != none && sets >= LIMIT_SETS_MAX {
            return Err(RejectReason::AccountsFull);
        }
        match instrument {
            None => keeper.limits = *limits,
            Some(id) if *limits == none => drop(keeper.own_limits.remove(&id)),
            Some(id) => drop(keeper.own_limits.insert(id, *limits)),
        }
        self.accounts.limit_sets = sets + u32::from(*limits != none) - u32::from(before != none);
        let done = Done::new(FrameKind::SetLimits, before != *limits, account.0);
        Ok(Done { instrument: instrument.unwrap_or_default(), ..done })
    }

    fn transfer(&mut self, transfer: &Transfer) -> Result<Done, RejectReason> {
        let place = self.accounts.place(transfer.account).ok_or(RejectReason::UnknownAccount)?;
        if !self.accounts.currencies.contains_key(&transfer.currency) {
            return Err(RejectReason::UnknownCurrency);
        }
        let amount = transfer.amount.get();
        let account = self.accounts.get(place);
        let fits = |amount: i128| amount.unsigned_abs() <= AMOUNT_MAX.unsigned_abs();
        let total = account.balance(transfer.currency).total;
        if amount == 0 || !fits(amount) || (amount > 0 && total.saturating_add(amount) > AMOUNT_MAX) {
            return Err(RejectReason::AmountInvalid);
        }
        let is_too_much = amount < 0 && amount.saturating_neg() > self.free(account, transfer.currency);
        if is_too_much || amount < 0 && self.owes(account) {
            return Err(RejectReason::InsufficientFunds);
        }
        self.accounts.get_mut(place).pay_in(transfer.currency, amount);
        if let Some(currency) = self.accounts.currencies.get_mut(&transfer.currency) {
            currency.deposits = currency.deposits.saturating_add(amount);
        }
        Ok(Done::new(FrameKind::Transfer, true, transfer.account.0))
    }

    /// Switches trading off or on again. Switching it off cancels what is there, again too.
    fn kill<S: EventSink>(
        &mut self,
        target: KillTarget,
        on: bool,
        digest: u64,
        out: &mut Outbox<'_, S>,
    ) -> Result<Done, RejectReason> {
        let (switch, id) = match target {
            KillTarget::Venue => (&mut self.venue_killed, 0),
            KillTarget::Participant(id) => {
                let switch = self.accounts.participants.get_mut(&id);
                (switch.ok_or(RejectReason::UnknownAccount)?, id.0)
            }
            KillTarget::Account(id) => {
                let place = self.accounts.place(id).ok_or(RejectReason::UnknownAccount)?;
                (&mut self.accounts.get_mut(place).killed, id.0)
            }
        };
        if std::mem::replace(switch, on) != on {
            out.emit(Event::Configured(Configured { kind: FrameKind::Kill, id, digest }));
        }
        if on {
            let places: Vec<u32> = self.sessions.places().collect();
            for session in places {
                self.cancel_killed(session, target, out);
            }
        }
        Ok(Done::new(FrameKind::Kill, false, id))
    }

    fn cancel_killed<S: EventSink>(&mut self, session: u32, target: KillTarget, out: &mut Outbox<'_, S>) {
        let mut handle = self.sessions.get(session).oldest;
        while handle.is_some() {
            let younger = self.orders.arena.links(handle).younger;
            if self.is_meant(session, handle, target) {
                self.cancel(handle, CancelReason::KillSwitch, RequestId(0), out);
            }
            handle = younger;
        }
    }

    /// Whether a kill switch is about an order.
    fn is_meant(&self, session: u32, handle: Handle, target: KillTarget) -> bool {
        let account = self.tracked(handle).map(|tracked| self.accounts.get(tracked.account).definition);
        match target {
            KillTarget::Venue => true,
            KillTarget::Participant(id) => {
                self.sessions.get(session).controls.participant == id
                    || account.is_some_and(|account| account.participant == id)
            }
            KillTarget::Account(id) => account.is_some_and(|account| account.account == id),
        }
    }
}

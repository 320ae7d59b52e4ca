//! Questions: what an account has, what an instrument's state is. They change nothing.

use protocol::{
    AccountId, Amount, Balance, Event, FrameKind, InstrumentId, InstrumentState, ParticipantId, Position,
    Recipient, RejectReason,
};

use crate::exchange::{Exchange, Request};
use crate::outbox::{EventSink, Outbox};

impl Exchange {
    /// Balances by currency, then positions by instrument. An operator may ask for any account and, with number 0, for the
    /// venue's fees; a participant's user for its own.
    pub(crate) fn query_account<S: EventSink>(
        &mut self,
        request: &Request,
        id: AccountId,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        let session = self.sessions.get(request.session);
        let (is_operator, participant) = (session.is_operator(), session.controls.participant);
        let owner = self.accounts.place(id).map(|place| self.accounts.get(place).definition.participant);
        let is_own = participant != ParticipantId(0) && owner == Some(participant);
        if !is_operator && !is_own {
            return Err(RejectReason::NotAuthorized);
        }
        self.offered(2)?;
        if id == AccountId(0) {
            self.emit_venue_fees(request, out);
        } else {
            let place = self.accounts.place(id).ok_or(RejectReason::UnknownAccount)?;
            self.emit_account(request, place, out);
        }
        self.admin_done(request, FrameKind::QueryAccount, InstrumentId(0), out);
        Ok(())
    }

    fn emit_venue_fees<S: EventSink>(&mut self, request: &Request, out: &mut Outbox<'_, S>) {
        for (&currency, state) in &self.accounts.currencies {
            if state.fees == 0 {
                continue;
            }
            out.emit(Event::Balance(Balance {
                to: self.sessions.report(request.session),
                request_id: request.id,
                account: AccountId(0),
                currency,
                total: Amount::new(state.fees),
                held: Amount::ZERO,
            }));
        }
    }

    fn emit_account<S: EventSink>(&mut self, request: &Request, place: u32, out: &mut Outbox<'_, S>) {
        let account = self.accounts.get(place);
        let (id, request_id) = (account.definition.account, request.id);
        let mut report = || -> Recipient { self.sessions.report(request.session) };
        for (&currency, balance) in &account.balances {
            if (balance.total, balance.held) != (0, 0) {
                out.emit(Event::Balance(Balance {
                    to: report(),
                    request_id,
                    account: id,
                    currency,
                    total: Amount::new(balance.total),
                    held: Amount::new(balance.held),
                }));
            }
        }
        for (&instrument, position) in &account.positions {
            if !position.is_empty() {
                let [open_buy, open_sell] = position.open;
                out.emit(Event::Position(Position {
                    to: report(),
                    request_id,
                    account: id,
                    instrument,
                    quantity: position.quantity,
                    cost: Amount::new(position.cost),
                    open_buy,
                    open_sell,
                }));
            }
        }
    }

    /// An instrument's phase, prices and open interest; for operators.
    pub(crate) fn query_instrument<S: EventSink>(
        &mut self,
        request: &Request,
        id: InstrumentId,
        out: &mut Outbox<'_, S>,
    ) -> Result<(), RejectReason> {
        if !self.sessions.get(request.session).is_operator() {
            return Err(RejectReason::NotAuthorized);
        }
        self.offered(2)?;
        let place = self.instruments.place(id).ok_or(RejectReason::UnknownInstrument)?;
        let instrument = self.instruments.get(place);
        out.emit(Event::InstrumentState(InstrumentState {
            to: self.sessions.report(request.session),
            request_id: request.id,
            instrument: id,
            phase: instrument.phase,
            last_price: instrument.last_trade,
            reference_price: instrument.special.as_ref().and_then(|special| special.reference),
            mark_price: self.mark(place),
            open_interest: u64::try_from(self.accounts.sums_of(id).long).unwrap_or(u64::MAX),
        }));
        self.admin_done(request, FrameKind::QueryInstrument, id, out);
        Ok(())
    }
}

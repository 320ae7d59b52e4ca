//! Questions about accounts and instruments: rule 106.

use std::collections::BTreeSet;

use protocol::{
    AccountId, Amount, Balance, Command, Currency, Event, InstrumentId, InstrumentState, Position,
    RejectReason,
};

use super::Oracle;
use super::money::Supposed;

impl Oracle {
    pub(super) fn query_account(
        &mut self,
        command: &Command,
        account: AccountId,
    ) -> Result<(), RejectReason> {
        let participant = self.sessions[&command.session].participant;
        let known = self.accounts.registered.get(&account);
        let is_own = participant.0 != 0 && known.is_some_and(|it| it.definition.participant == participant);
        if !self.is_operator(command.session) && !is_own {
            return Err(RejectReason::NotAuthorized);
        }
        if self.rulebook < 2 {
            return Err(RejectReason::OptionNotOffered);
        }
        if account.0 == 0 {
            for (currency, total) in self.accounts.venue.clone() {
                self.report_balance(command, account, currency, (total, 0));
            }
            return Ok(());
        }
        let known = known.ok_or(RejectReason::UnknownAccount)?.clone();
        let none = Supposed::default();
        let currencies: Vec<Currency> = self.accounts.currencies.keys().copied().collect();
        for currency in currencies {
            let held = self.held(account, currency, &none);
            self.report_balance(command, account, currency, (known.balance(currency), held));
        }
        let instruments: BTreeSet<InstrumentId> = self.instruments.keys().copied().collect();
        for instrument in instruments {
            let position = known.position(instrument);
            let (buys, sells) = self.open_sides(account, instrument, &none);
            if (position.quantity, position.cost, buys, sells) == (0, 0, 0, 0) {
                continue;
            }
            self.report(command.session, |to| {
                Event::Position(Position {
                    to,
                    request_id: command.request_id,
                    account,
                    instrument,
                    quantity: position.quantity as i64,
                    cost: Amount::new(position.cost),
                    open_buy: buys as u64,
                    open_sell: sells as u64,
                })
            });
        }
        Ok(())
    }

    fn report_balance(
        &mut self,
        command: &Command,
        account: AccountId,
        currency: Currency,
        (total, held): (i128, i128),
    ) {
        if (total, held) == (0, 0) {
            return;
        }
        self.report(command.session, |to| {
            Event::Balance(Balance {
                to,
                request_id: command.request_id,
                account,
                currency,
                total: Amount::new(total),
                held: Amount::new(held),
            })
        });
    }

    pub(super) fn query_instrument(
        &mut self,
        command: &Command,
        instrument: InstrumentId,
    ) -> Result<(), RejectReason> {
        let it = self.instruments.get(&instrument).ok_or(RejectReason::UnknownInstrument)?.clone();
        let long: i128 = self
            .accounts
            .registered
            .values()
            .map(|account| account.position(instrument).quantity.max(0))
            .sum();
        self.report(command.session, |to| {
            Event::InstrumentState(InstrumentState {
                to,
                request_id: command.request_id,
                instrument,
                phase: it.phase,
                last_price: it.last_trade,
                reference_price: it.reference,
                mark_price: it.mark_price(),
                open_interest: long as u64,
            })
        });
        Ok(())
    }
}

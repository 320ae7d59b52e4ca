//! Mark prices and margin: who is called, and how positions are settled at the end of the day.

use protocol::{AccountId, Amount, Currency, Event, MarginCall, Settlement};

use crate::exchange::Exchange;
use crate::outbox::{EventSink, Outbox};

impl Exchange {
    /// A mark price was set: names every account with a position there whose equity is below its maintenance margin.
    pub(crate) fn call_margins<S: EventSink>(&self, place: u32, out: &mut Outbox<'_, S>) {
        let settling = self.settling(place);
        let (Settlement::Margin, Some(currency)) = (settling.settlement, settling.quote) else { return };
        for account in self.accounts.holders(settling.instrument) {
            self.call_margin(account, currency, out);
        }
    }

    fn call_margin<S: EventSink>(&self, id: AccountId, currency: Currency, out: &mut Outbox<'_, S>) {
        let Some(place) = self.accounts.place(id) else { return };
        let account = self.accounts.get(place);
        let margin = self.margin(account, currency);
        let equity = account.balance(currency).total.saturating_add(margin.unrealised);
        if equity < margin.maintenance {
            out.emit(Event::MarginCall(MarginCall {
                account: id,
                currency,
                equity: Amount::new(equity),
                maintenance: Amount::new(margin.maintenance),
            }));
        }
    }

    /// The end of the day for accounts: margin positions are settled at their mark prices, then margins are called, and
    /// trades can no longer be busted.
    pub(crate) fn settle_day<S: EventSink>(&mut self, out: &mut Outbox<'_, S>) {
        let places: Vec<u32> = self.accounts.places().collect();
        for &place in &places {
            self.settle_positions(place);
        }
        for place in places {
            self.call_all_margins(place, out);
        }
        self.accounts.trades.clear();
    }

    fn settle_positions(&mut self, account: u32) {
        let held: Vec<_> =
            self.accounts.get(account).positions.iter().map(|(id, position)| (*id, *position)).collect();
        for (id, position) in held {
            let Some(place) = self.instruments.place(id).filter(|_| position.quantity != 0) else { continue };
            let (settling, mark) = (self.settling(place), self.mark(place));
            let (Settlement::Margin, Some(quote)) = (settling.settlement, settling.quote) else { continue };
            if mark.is_none() {
                continue;
            }
            let gain = settling.unrealised(&position, mark);
            let account = self.accounts.get_mut(account);
            account.pay_in(quote, gain);
            if let Some(position) = account.positions.get_mut(&id) {
                position.cost = position.cost.saturating_add(gain);
            }
        }
    }

    /// Each currency in which the account has margin positions, by its code.
    fn call_all_margins<S: EventSink>(&self, place: u32, out: &mut Outbox<'_, S>) {
        let account = self.accounts.get(place);
        let mut currencies: Vec<Currency> = account
            .positions
            .iter()
            .filter(|(_, position)| position.quantity != 0)
            .filter_map(|(id, _)| self.rules(self.instruments.place(*id)?))
            .filter(|rules| rules.settlement == Settlement::Margin)
            .filter_map(|rules| rules.quote)
            .collect();
        currencies.sort_unstable();
        currencies.dedup();
        for currency in currencies {
            self.call_margin(account.definition.account, currency, out);
        }
    }
}

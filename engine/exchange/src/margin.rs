//! Mark prices and margin: who is called, and how positions are settled at the end of the day.

use protocol::{AccountId, Amount, Currency, Event, InstrumentId, MarginCall, Settlement};

use crate::accounts::{Account, Margin, Missed};
use crate::exchange::Exchange;
use crate::outbox::{EventSink, Outbox};

impl Exchange {
    /// An account's margin over all margin instruments of a quote currency.
    pub(crate) fn margin(&self, account: &Account, currency: Currency) -> Margin {
        let visited = || {
            let mut margin = Margin::default();
            for (id, position) in &account.positions {
                let Some(place) = self.instruments.place(*id) else { continue };
                let settling = self.settling(place);
                if (settling.settlement, settling.quote) == (Settlement::Margin, Some(currency)) {
                    margin.add(settling.margin(position, self.mark(place)));
                }
            }
            margin
        };
        let kept = account.margins.sum(currency, &self.accounts.marks);
        debug_assert!(kept.is_none_or(|kept| kept == visited()), "margins follow from positions and marks");
        kept.unwrap_or_else(visited)
    }

    /// Counts an account's position in an instrument anew in its margin, after any change of it, of its open orders or of
    /// the instrument's rules.
    #[inline]
    pub(crate) fn count_margin(&mut self, account: u32, place: u32) {
        let settling = self.settling(place);
        if let (Settlement::Margin, Some(currency)) = (settling.settlement, settling.quote) {
            let mark = self.mark(place);
            let keeper = self.accounts.get(account);
            let part = settling.margin(&keeper.position(settling.instrument), mark);
            self.accounts.put_margin(account, settling.instrument, currency, part);
        }
    }

    /// Before an account's margin is looked at in an instrument's currencies: has all changes of marks in it.
    #[inline]
    pub(crate) fn catch_up(&mut self, account: u32, place: u32) {
        if self.accounts.get(account).margins.is_empty() {
            return;
        }
        let settling = self.settling(place);
        for currency in [settling.quote, settling.base].into_iter().flatten() {
            match self.accounts.missed(account, currency) {
                Missed::Nothing => continue,
                Missed::Changes(numbers) => {
                    for number in numbers {
                        let place = self.accounts.marks.place(currency, number);
                        place.into_iter().for_each(|place| self.count_margin_again(account, place));
                    }
                }
                Missed::All => {
                    let mut last = InstrumentId(0);
                    while let Some(id) = self.accounts.get(account).margins.next(last) {
                        let place = self.instruments.place(id);
                        place.into_iter().for_each(|place| self.count_margin_again(account, place));
                        last = id;
                    }
                }
            }
            self.accounts.catch_up(account, currency);
        }
    }

    fn count_margin_again(&mut self, account: u32, place: u32) {
        let id = self.instruments.get(place).definition.instrument;
        if self.accounts.get(account).margins.has(id) {
            self.count_margin(account, place);
        }
    }

    /// The mark price of an instrument is, or may be, another one.
    #[inline]
    pub(crate) fn note_mark(&mut self, place: u32) {
        let settling = self.settling(place);
        if let (Settlement::Margin, Some(currency)) = (settling.settlement, settling.quote) {
            self.accounts.marks.note(currency, place);
        }
    }

    /// After an import: counts all positions on margin.
    pub(crate) fn count_all_margins(&mut self) {
        let accounts: Vec<u32> = self.accounts.places().collect();
        for account in accounts {
            let held: Vec<_> = self.accounts.get(account).positions.keys().copied().collect();
            for id in held {
                if let Some(place) = self.instruments.place(id) {
                    self.count_margin(account, place);
                }
            }
        }
    }

    /// A mark price was set: names every account with a position there whose equity is below its maintenance margin.
    pub(crate) fn call_margins<S: EventSink>(&mut self, place: u32, out: &mut Outbox<'_, S>) {
        let settling = self.settling(place);
        let (Settlement::Margin, Some(currency)) = (settling.settlement, settling.quote) else { return };
        let holders: Vec<AccountId> = self.accounts.holders(settling.instrument).collect();
        for account in holders {
            if let Some(account) = self.accounts.place(account) {
                self.catch_up(account, place);
            }
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

    fn settle_positions(&mut self, keeper: u32) {
        let held: Vec<_> =
            self.accounts.get(keeper).positions.iter().map(|(id, position)| (*id, *position)).collect();
        for (id, position) in held {
            let Some(place) = self.instruments.place(id).filter(|_| position.quantity != 0) else { continue };
            let (settling, mark) = (self.settling(place), self.mark(place));
            let (Settlement::Margin, Some(quote)) = (settling.settlement, settling.quote) else { continue };
            if mark.is_none() {
                continue;
            }
            let gain = settling.unrealised(&position, mark);
            let account = self.accounts.get_mut(keeper);
            account.pay_in(quote, gain);
            if let Some(position) = account.positions.get_mut(&id) {
                position.cost = position.cost.saturating_add(gain);
            }
            self.count_margin(keeper, place);
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

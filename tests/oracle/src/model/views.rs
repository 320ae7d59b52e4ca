//! What a comparison may read of the oracle.

use std::collections::{BTreeMap, BTreeSet};

use protocol::{
    AccountGroup, AccountId, ConnectionId, Currency, Fees, InstrumentId, OrderId, ParticipantId,
    ReportNumber, RequestId, SessionId, Side, Throttle, TradeId, TradingDay,
};

use super::money::Supposed;
use super::{Account, Instrument, Kept, Oracle, Order};

impl Oracle {
    /// Every live order: by instrument; what is displayed, bids before asks, then what rests hidden, each best price first and
    /// oldest in the queue first; then what waits, by order id.
    pub fn live(&self) -> impl Iterator<Item = &Order> {
        self.instruments.keys().flat_map(|id| {
            let queues = [(false, Side::Buy), (false, Side::Sell), (true, Side::Buy), (true, Side::Sell)];
            let resting = queues.into_iter().flat_map(|(hidden, side)| {
                self.side(*id, side).filter(move |(place, _)| place.hidden == hidden).map(|(_, order)| order)
            });
            let waiting = self
                .followed
                .range((*id, OrderId(0))..=(*id, OrderId(u64::MAX)))
                .map(|(_, order)| self.order(*order))
                .filter(|order| order.is_waiting());
            resting.chain(waiting)
        })
    }

    /// Connection, last report and highest request id of a session.
    #[must_use]
    pub fn session(&self, id: SessionId) -> Option<(Option<ConnectionId>, ReportNumber, RequestId)> {
        let session = self.sessions.get(&id)?;
        Some((session.connection, ReportNumber(session.last_report), session.highest_request_id))
    }

    /// Participant and throttle of a session, and what counts for it in the second of the last frame: orders and cancels.
    #[must_use]
    pub fn controls(&self, id: SessionId) -> Option<(ParticipantId, Throttle, u32, u32)> {
        let session = self.sessions.get(&id)?;
        let now = session.second == self.log_time.0 / 1_000_000_000;
        let (orders, cancels) = if now { (session.orders, session.cancels) } else { (0, 0) };
        Some((session.participant, session.throttle, orders, cancels))
    }

    /// The current trading day.
    #[must_use]
    pub fn trading_day(&self) -> TradingDay {
        self.trading_day
    }

    /// Version of the rules in force.
    #[must_use]
    pub fn rulebook(&self) -> u32 {
        self.rulebook
    }

    /// What draws begin with.
    #[must_use]
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// All instruments.
    #[must_use]
    pub fn instruments(&self) -> &BTreeMap<InstrumentId, Instrument> {
        &self.instruments
    }

    /// Levels in use, displayed and hidden.
    #[must_use]
    pub fn level_count(&self) -> usize {
        self.levels()
    }

    /// Every registered account.
    #[must_use]
    pub fn accounts(&self) -> &BTreeMap<AccountId, Account> {
        &self.accounts.registered
    }

    /// Currencies with their decimals, and what the venue has of them.
    pub fn currencies(&self) -> impl Iterator<Item = (Currency, u8, i128)> {
        let venue = &self.accounts.venue;
        self.accounts
            .currencies
            .iter()
            .map(|(code, scale)| (*code, *scale, venue.get(code).copied().unwrap_or(0)))
    }

    /// Fee schedules.
    pub fn fee_schedules(&self) -> impl Iterator<Item = (InstrumentId, AccountGroup, Fees)> {
        self.accounts.fees.iter().map(|((instrument, group), fees)| (*instrument, *group, *fees))
    }

    /// Trades that may be busted.
    #[must_use]
    pub fn kept_trades(&self) -> &BTreeMap<TradeId, Kept> {
        &self.kept
    }

    /// Kill switches that are on: of the venue, of participants, of accounts.
    #[must_use]
    pub fn killed(&self) -> (bool, &BTreeSet<ParticipantId>, &BTreeSet<AccountId>) {
        (self.killed_venue, &self.killed_participants, &self.killed_accounts)
    }

    /// What an account's open orders hold of a currency.
    #[must_use]
    pub fn held_of(&self, account: AccountId, currency: Currency) -> i128 {
        self.held(account, currency, &Supposed::default())
    }

    /// Live tracked orders of an account in an instrument: open buys, open sells, how many, and their notional.
    #[must_use]
    pub fn open_of(&self, account: AccountId, instrument: InstrumentId) -> (i128, i128, u32, u128) {
        let none = Supposed::default();
        let (buys, sells) = self.open_sides(account, instrument, &none);
        let orders: Vec<Order> = self
            .orders_of_account(account, &none)
            .into_iter()
            .filter(|order| order.instrument == instrument)
            .collect();
        (buys, sells, orders.len() as u32, self.open_notional(&orders))
    }
}

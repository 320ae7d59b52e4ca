//! A venue with participants, accounts and one instrument of each settlement, for tests of accounts. After each command
//! everything must add up.

use protocol::{
    AccountDefinition, AccountGroup, AccountId, Amount, Body, CancelOrder, CancelReason, ClientOrderId,
    Command, ConnectionId, Currency, Event, InstrumentDefinition, InstrumentId, InstrumentRules,
    LoginRequest, NewOrder, OrderKey, Output, ParticipantId, Price, Quantity, RejectReason, ReplaceOrder,
    RequestId, SessionId, Settled, Settlement, Timestamp, Transfer,
};

pub(super) use super::samples::limit;
use super::samples::{self, user};
use crate::{Exchange, Record};

/// Nanoseconds of a second.
pub(super) const SECOND: u64 = 1_000_000_000;
/// Sessions of the two participants, and of a user without one.
pub(super) const ANN: u32 = 1;
pub(super) const BOB: u32 = 2;
pub(super) const ZOE: u32 = 3;

/// A venue with a cash instrument (1: BTC for EUR, one decimal of price and two of quantity), a margin instrument (2, in
/// EUR) and one that settles in nothing (3); accounts 10 of participant 1 and 20 of participant 2.
pub(super) struct Till {
    pub(super) exchange: Exchange,
    request_id: u64,
    now: u64,
}

pub(super) fn currency(code: &str) -> Currency {
    Currency::new(code).expect("a valid code")
}

fn instrument(id: u32) -> InstrumentDefinition {
    InstrumentDefinition {
        price_scale: 1,
        quantity_scale: 2,
        lot_size: Quantity(10),
        price_max: Price(100_000),
        quantity_max: Quantity(1_000_000),
        ..samples::instrument(id)
    }
}

pub(super) fn account(id: u32, participant: u32) -> AccountDefinition {
    AccountDefinition {
        account: AccountId(id),
        participant: ParticipantId(participant),
        group: AccountGroup(0),
        self_trade: None,
    }
}

impl Till {
    pub(super) fn new() -> Self {
        let mut till = Self { exchange: Exchange::new(), request_id: 0, now: 100 * SECOND };
        till.admin(Body::SetRulebook(2));
        for (code, scale) in [("EUR", 4), ("BTC", 5)] {
            till.admin(Body::PutCurrency(currency(code), scale));
        }
        for id in 1..=3 {
            till.admin(Body::PutInstrument(instrument(id)));
        }
        till.rules(1, |rules| {
            rules.settlement = Settlement::Cash;
            rules.base = Some(currency("BTC"));
            rules.quote = Some(currency("EUR"));
        });
        till.rules(2, |rules| {
            rules.settlement = Settlement::Margin;
            rules.quote = Some(currency("EUR"));
            rules.initial_margin = 100;
            rules.maintenance_margin = 60;
        });
        for session in [ANN, BOB, ZOE] {
            till.admin(Body::PutUser(user(session)));
            till.send(session, Body::Login(LoginRequest { trading_day: None }));
        }
        for participant in [1, 2] {
            till.admin(Body::PutAccount(account(participant * 10, participant)));
            till.admin(Body::SetParticipant(SessionId(participant), ParticipantId(participant)));
        }
        till
    }

    /// Sets an instrument's rules: those that it has, changed.
    pub(super) fn rules(&mut self, instrument: u32, change: impl FnOnce(&mut InstrumentRules)) {
        let body = self.rules_body(instrument, change);
        self.admin(body);
    }

    pub(super) fn rules_body(&self, instrument: u32, change: impl FnOnce(&mut InstrumentRules)) -> Body {
        let id = InstrumentId(instrument);
        let place = self.exchange.instruments.place(id).expect("the instrument");
        let mut rules = self.exchange.rules(place).copied().unwrap_or_default();
        change(&mut rules);
        Body::PutRules(id, rules)
    }

    /// A mass quote used as many more.
    pub(super) fn skip_ids(&mut self, ids: u64) {
        self.request_id += ids;
    }

    /// Lets time go by; gives what it is then.
    pub(super) fn wait(&mut self, nanoseconds: u64) -> u64 {
        self.now += nanoseconds;
        self.now
    }

    /// Id of the next request.
    pub(super) fn next_id(&self) -> u64 {
        self.request_id + 1
    }

    pub(super) fn send(&mut self, session: u32, body: Body) -> Vec<Event> {
        self.request_id += 1;
        let mut outputs: Vec<Output> = Vec::new();
        let command = Command {
            session: SessionId(session),
            connection: ConnectionId(session),
            request_id: RequestId(self.request_id),
            timestamp: Timestamp(self.now),
            body,
        };
        self.exchange.apply(&command, &mut outputs);
        self.exchange.check_conservation().unwrap_or_else(|wrong| panic!("{wrong} after {body:?}"));
        outputs.into_iter().map(|output| output.event).collect()
    }

    pub(super) fn admin(&mut self, body: Body) -> Vec<Event> {
        let events = self.send(0, body);
        assert!(!events.iter().any(|event| matches!(event, Event::Rejected(_))), "{body:?}: {events:?}");
        events
    }

    pub(super) fn refused(&mut self, session: u32, body: Body) -> RejectReason {
        match self.send(session, body)[..] {
            [Event::Rejected(rejected)] => rejected.reason,
            ref events => panic!("{body:?} is not refused: {events:?}"),
        }
    }

    /// Enters an order; gives its client order id.
    pub(super) fn order(&mut self, session: u32, order: NewOrder) -> ClientOrderId {
        let events = self.send(session, Body::NewOrder(order));
        assert!(events.iter().any(|event| matches!(event, Event::Accepted(_))), "{order:?}: {events:?}");
        ClientOrderId(self.request_id)
    }

    pub(super) fn refused_order(&mut self, session: u32, order: NewOrder) -> RejectReason {
        self.refused(session, Body::NewOrder(order))
    }

    pub(super) fn replace(
        &mut self,
        session: u32,
        id: ClientOrderId,
        quantity: u64,
        price: i64,
    ) -> Vec<Event> {
        self.send(session, replace(id, quantity, price))
    }

    pub(super) fn cancel(&mut self, session: u32, id: ClientOrderId) -> Vec<Event> {
        self.send(session, cancel(id))
    }

    pub(super) fn deposit(&mut self, account: u32, code: &str, amount: i128) {
        self.admin(transfer(account, code, amount));
    }

    /// Total and held of an account.
    pub(super) fn balance(&self, account: u32, code: &str) -> (i128, i128) {
        let place = self.exchange.accounts.place(AccountId(account)).expect("the account");
        let balance = self.exchange.accounts.get(place).balance(currency(code));
        (balance.total, balance.held)
    }

    /// Quantity, cost and open quantities of an account's position.
    pub(super) fn position(&self, account: u32, instrument: u32) -> (i64, i128, [u64; 2]) {
        let place = self.exchange.accounts.place(AccountId(account)).expect("the account");
        let position = self.exchange.accounts.get(place).position(InstrumentId(instrument));
        (position.quantity, position.cost, position.open)
    }

    pub(super) fn fees_taken(&self) -> i128 {
        self.exchange.accounts.currencies[&currency("EUR")].fees
    }

    /// The state comes back from its records, and goes on alike.
    pub(super) fn check_round_trip(&self) {
        let mut records: Vec<Record> = Vec::new();
        self.exchange.export(&mut |record| records.push(record));
        let imported = Exchange::import(records).expect("a state");
        assert_eq!(imported.state_hash(), self.exchange.state_hash());
        imported.check_conservation().expect("what is imported adds up");
        let views = |exchange: &Exchange| exchange.accounts().collect::<Vec<_>>();
        assert_eq!(views(&imported), views(&self.exchange));
        assert!(imported.kept_trades().eq(self.exchange.kept_trades()));
        assert!(imported.controls().eq(self.exchange.controls()));
    }
}

pub(super) fn cancel(id: ClientOrderId) -> Body {
    Body::CancelOrder(CancelOrder { order: OrderKey::Id(id), side: None, cl_ord_id: None })
}

pub(super) fn replace(id: ClientOrderId, quantity: u64, price: i64) -> Body {
    Body::ReplaceOrder(ReplaceOrder {
        order: OrderKey::Id(id),
        side: None,
        price: Some(Price(price)),
        quantity: Quantity(quantity),
        stop_price: None,
        display: None,
        cl_ord_id: None,
    })
}

pub(super) fn transfer(account: u32, code: &str, amount: i128) -> Body {
    Body::Transfer(Transfer {
        account: AccountId(account),
        currency: currency(code),
        amount: Amount::new(amount),
    })
}

pub(super) fn settled(events: &[Event]) -> Vec<Settled> {
    let settled = |event: &Event| match event {
        Event::Settled(settled) => Some(*settled),
        _ => None,
    };
    events.iter().filter_map(settled).collect()
}

pub(super) fn canceled(events: &[Event], reason: CancelReason) -> usize {
    events.iter().filter(|event| matches!(event, Event::Canceled(e) if e.reason == reason)).count()
}

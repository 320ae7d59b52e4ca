//! Accounts from the outside: what orders hold, what trades move, what operators set and take back. After each command
//! everything must add up, and the state must come back from its records.

use protocol::{
    AccountDefinition, AccountGroup, AccountId, Amount, Balance, Body, CancelOrder, CancelReason,
    ClientOrderId, Command, ConnectionId, Credential, Currency, Event, Fees, InstrumentDefinition,
    InstrumentId, InstrumentRules, KillTarget, Limits, LoginRequest, MassCancel, NewOrder, OrderFlags,
    OrderKey, OrderType, Output, ParticipantId, Price, PriceKind, Quantity, RejectReason, ReplaceOrder,
    RequestId, Role, SessionId, Settled, Settlement, Side, Symbol, Terms, Throttle, TimeInForce, Timestamp,
    TradeId, Transfer, UserDefinition, UserName,
};

use crate::{Exchange, Record};

/// Nanoseconds of a second.
pub(super) const SECOND: u64 = 1_000_000_000;
/// Sessions of the two participants, and of a user without one.
pub(super) const ANN: u32 = 1;
pub(super) const BOB: u32 = 2;
pub(super) const ZOE: u32 = 3;

/// A venue with a cash instrument (1: BTC for EUR, one decimal of price and two of quantity), a margin instrument (2, in
/// EUR) and one that settles in nothing (3); accounts 10 of participant 1 and 20 of participant 2.
pub(super) struct Venue {
    pub(super) exchange: Exchange,
    request_id: u64,
    now: u64,
}

pub(super) fn currency(code: &str) -> Currency {
    Currency::new(code).expect("a valid code")
}

fn user(session: u32) -> UserDefinition {
    UserDefinition {
        session: SessionId(session),
        name: UserName::new(&format!("user{session}")).expect("a valid name"),
        credential: Credential { scheme: 1, salt: [0; 16], hash: [0; 32] },
        role: Role::Trader,
        enabled: true,
        cancel_on_disconnect: false,
        grace_ms: 0,
    }
}

fn instrument(id: u32) -> InstrumentDefinition {
    InstrumentDefinition {
        instrument: InstrumentId(id),
        symbol: Symbol::new(&format!("X{id}")).expect("a valid symbol"),
        price_scale: 1,
        quantity_scale: 2,
        tick_size: Price(1),
        lot_size: Quantity(10),
        price_min: Price(1),
        price_max: Price(100_000),
        quantity_max: Quantity(1_000_000),
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

/// A limit order that is good till canceled.
pub(super) fn limit(instrument: u32, account: u32, side: Side, quantity: u64, price: i64) -> NewOrder {
    NewOrder {
        instrument: InstrumentId(instrument),
        side,
        order_type: OrderType::Limit,
        time_in_force: TimeInForce::GoodTillCancel,
        flags: OrderFlags::default(),
        price: Some(Price(price)),
        quantity: Quantity(quantity),
        account: AccountId(account),
        cl_ord_id: None,
        terms: Terms::default(),
    }
}

impl Venue {
    pub(super) fn new() -> Self {
        let mut venue = Self { exchange: Exchange::new(), request_id: 0, now: 100 * SECOND };
        venue.admin(Body::SetRulebook(2));
        for (code, scale) in [("EUR", 4), ("BTC", 5)] {
            venue.admin(Body::PutCurrency(currency(code), scale));
        }
        for id in 1..=3 {
            venue.admin(Body::PutInstrument(instrument(id)));
        }
        venue.rules(1, |rules| {
            rules.settlement = Settlement::Cash;
            rules.base = Some(currency("BTC"));
            rules.quote = Some(currency("EUR"));
        });
        venue.rules(2, |rules| {
            rules.settlement = Settlement::Margin;
            rules.quote = Some(currency("EUR"));
            rules.initial_margin = 100;
            rules.maintenance_margin = 60;
        });
        for session in [ANN, BOB, ZOE] {
            venue.admin(Body::PutUser(user(session)));
            venue.send(session, Body::Login(LoginRequest { trading_day: None }));
        }
        for participant in [1, 2] {
            venue.admin(Body::PutAccount(account(participant * 10, participant)));
            venue.admin(Body::SetParticipant(SessionId(participant), ParticipantId(participant)));
        }
        venue
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

    pub(super) fn wait(&mut self, nanoseconds: u64) {
        self.now += nanoseconds;
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

fn cancel(id: ClientOrderId) -> Body {
    Body::CancelOrder(CancelOrder { order: OrderKey::Id(id), side: None, cl_ord_id: None })
}

fn replace(id: ClientOrderId, quantity: u64, price: i64) -> Body {
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

fn transfer(account: u32, code: &str, amount: i128) -> Body {
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

/// One unit of notional is ten units of EUR (scale 4 against 1 + 2), one of quantity a thousand of BTC.
#[test]
fn cash_is_held_released_and_moved() {
    let mut venue = Venue::new();
    venue.admin(Body::SetFees(
        InstrumentId(1),
        AccountGroup(0),
        Fees { maker_ppm: -100, taker_ppm: 1_000, maker_per_lot: 0, taker_per_lot: 2 },
    ));
    assert_eq!(venue.refused_order(ANN, limit(1, 10, Side::Buy, 100, 50)), RejectReason::InsufficientFunds);
    venue.deposit(10, "EUR", 100_000);
    venue.deposit(20, "BTC", 500_000);
    // 100 at 50 is 5,000 of notional, 50,000 EUR; the larger fee is the taker's: 50, and 2 for each of 10 lots.
    let bid = venue.order(ANN, limit(1, 10, Side::Buy, 100, 50));
    assert_eq!(venue.balance(10, "EUR"), (100_000, 50_070));
    assert_eq!(venue.position(10, 1), (0, 0, [100, 0]));
    assert_eq!(venue.refused(ANN, replace(bid, 200, 50)), RejectReason::InsufficientFunds);
    venue.replace(ANN, bid, 100, 40);
    assert_eq!(venue.balance(10, "EUR"), (100_000, 40_060));
    venue.replace(ANN, bid, 100, 50);

    let events = venue.send(BOB, Body::NewOrder(limit(1, 20, Side::Sell, 60, 45)));
    let [buyer, seller] = settled(&events)[..] else { panic!("{events:?}") };
    assert_eq!((buyer.fee, buyer.position, buyer.side), (Amount::new(-3), 60, Side::Buy));
    assert_eq!((seller.fee, seller.position, seller.side), (Amount::new(30 + 12), -60, Side::Sell));
    assert_eq!(venue.balance(10, "EUR"), (100_000 - 30_000 + 3, 20_028));
    assert_eq!(venue.balance(10, "BTC"), (60_000, 0));
    assert_eq!(venue.balance(20, "EUR"), (30_000 - 42, 0));
    assert_eq!(venue.balance(20, "BTC"), (440_000, 0));
    assert_eq!(venue.fees_taken(), 39);
    assert_eq!(venue.position(20, 1), (-60, -30_000, [0, 0]));
    venue.check_round_trip();
    venue.cancel(ANN, bid);
    assert_eq!(venue.balance(10, "EUR"), (70_003, 0));

    assert_eq!(venue.refused_order(BOB, limit(1, 20, Side::Sell, 450, 45)), RejectReason::InsufficientFunds);
    venue.order(BOB, limit(1, 20, Side::Sell, 440, 45));
    assert_eq!(venue.balance(20, "BTC"), (440_000, 440_000));
    assert_eq!(venue.refused(0, transfer(20, "BTC", -1)), RejectReason::InsufficientFunds);
    venue.check_round_trip();
}

#[test]
fn a_market_buy_needs_what_its_sweep_costs() {
    let mut venue = Venue::new();
    venue.deposit(20, "BTC", 100_000);
    venue.order(BOB, limit(1, 20, Side::Sell, 20, 50));
    venue.order(BOB, limit(1, 20, Side::Sell, 80, 60));
    let market = NewOrder {
        order_type: OrderType::Market,
        time_in_force: TimeInForce::ImmediateOrCancel,
        price: None,
        ..limit(1, 10, Side::Buy, 100, 0)
    };
    // 20 at 50 and 80 at 60: 5,800 of notional.
    venue.deposit(10, "EUR", 57_999);
    assert_eq!(venue.refused_order(ANN, market), RejectReason::InsufficientFunds);
    venue.deposit(10, "EUR", 1);
    venue.order(ANN, market);
    assert_eq!(venue.balance(10, "EUR"), (0, 0));
    assert_eq!(venue.balance(10, "BTC"), (100_000, 0));
}

#[test]
fn a_seller_pays_no_more_fees_than_it_receives() {
    let mut venue = Venue::new();
    let fees = Fees { taker_per_lot: 1_000_000, ..Fees::default() };
    venue.admin(Body::SetFees(InstrumentId(1), AccountGroup(0), fees));
    venue.deposit(10, "EUR", 1_000_000_000);
    venue.deposit(20, "BTC", 100_000);
    venue.order(ANN, limit(1, 10, Side::Buy, 10, 1));
    venue.order(BOB, limit(1, 20, Side::Sell, 10, 1));
    assert_eq!((venue.balance(20, "EUR"), venue.fees_taken()), ((0, 0), 100));
}

#[test]
fn margin_bounds_positions_and_is_settled_at_the_mark() {
    let mut venue = Venue::new();
    venue.deposit(10, "EUR", 1_000);
    venue.deposit(20, "EUR", 5_000);
    // 100 a lot of 10: 100 of quantity need 1,000.
    assert_eq!(venue.refused_order(ANN, limit(2, 10, Side::Buy, 110, 500)), RejectReason::InsufficientMargin);
    venue.order(ANN, limit(2, 10, Side::Buy, 100, 500));
    assert_eq!(venue.balance(10, "EUR"), (1_000, 0));
    assert_eq!(venue.refused(0, transfer(10, "EUR", -1)), RejectReason::InsufficientFunds);
    // The worse side counts, not both.
    let ask = venue.order(ANN, limit(2, 10, Side::Sell, 100, 600));
    venue.cancel(ANN, ask);
    venue.order(BOB, limit(2, 20, Side::Sell, 100, 500));
    assert_eq!(venue.position(10, 2), (100, 500_000, [0, 0]));
    venue.check_round_trip();

    // A mark of 499 costs the long side 1,000; it is called below 600 of maintenance.
    venue.admin(Body::SetPrice(InstrumentId(2), PriceKind::Mark, Price(499)));
    let events = venue.admin(Body::EndOfDay);
    let calls: Vec<_> = events.iter().filter(|event| matches!(event, Event::MarginCall(_))).collect();
    let [Event::MarginCall(call)] = calls[..] else { panic!("{events:?}") };
    assert_eq!(
        (call.account, call.equity, call.maintenance),
        (AccountId(10), Amount::ZERO, Amount::new(600))
    );
    assert_eq!(venue.position(10, 2), (100, 499_000, [0, 0]));
    assert_eq!((venue.balance(10, "EUR").0, venue.balance(20, "EUR").0), (0, 6_000));

    // What lowers the requirement is taken without equity; a closed position is paid out.
    venue.order(BOB, limit(2, 20, Side::Buy, 100, 510));
    venue.order(ANN, limit(2, 10, Side::Sell, 100, 510));
    assert_eq!((venue.position(10, 2), venue.position(20, 2)), ((0, 0, [0, 0]), (0, 0, [0, 0])));
    assert_eq!((venue.balance(10, "EUR").0, venue.balance(20, "EUR").0), (11_000, -5_000));
    venue.check_round_trip();
}

#[test]
fn positions_follow_without_settlement_and_against_the_untracked() {
    let mut venue = Venue::new();
    venue.order(ZOE, limit(3, 10, Side::Buy, 50, 100));
    let events = venue.send(ANN, Body::NewOrder(limit(3, 10, Side::Sell, 30, 100)));
    let [one] = settled(&events)[..] else { panic!("one side is tracked: {events:?}") };
    assert_eq!((one.position, one.fee), (-30, Amount::ZERO));
    assert_eq!(venue.position(10, 3), (-30, -3_000, [0, 0]));
    assert_eq!(venue.refused_order(ZOE, limit(1, 10, Side::Buy, 50, 100)), RejectReason::AccountRequired);
    venue.check_round_trip();
}

#[test]
fn accounts_are_their_participants_own() {
    let mut venue = Venue::new();
    let order = |account| limit(3, account, Side::Buy, 50, 100);
    for unknown in [0, 11, 20] {
        assert_eq!(venue.refused_order(ANN, order(unknown)), RejectReason::UnknownAccount);
    }
    let other = Body::PutAccount(account(10, 2));
    assert_eq!(venue.refused(0, other), RejectReason::AccountExists);
    assert_eq!(venue.refused(0, Body::PutAccount(account(0, 2))), RejectReason::DefinitionInvalid);
    assert_eq!(venue.refused(0, Body::PutAccount(account(30, 0))), RejectReason::DefinitionInvalid);
    let again = venue.admin(Body::PutAccount(account(10, 1)));
    assert!(matches!(again[..], [Event::AdminDone(_)]), "nothing changed: {again:?}");
    let changed =
        venue.admin(Body::PutAccount(AccountDefinition { group: AccountGroup(4), ..account(10, 1) }));
    assert!(matches!(changed[..], [Event::Configured(e), Event::AdminDone(_)] if e.id == 10));
    assert_eq!(venue.refused(0, Body::PutCurrency(currency("EUR"), 5)), RejectReason::AccountExists);
    assert_eq!(venue.refused(0, Body::PutCurrency(currency("X"), 25)), RejectReason::DefinitionInvalid);
    assert_eq!(venue.refused(0, transfer(99, "EUR", 1)), RejectReason::UnknownAccount);
    assert_eq!(venue.refused(0, transfer(10, "USD", 1)), RejectReason::UnknownCurrency);
    for amount in [0, (1 << 100) + 1, i128::MIN] {
        assert_eq!(venue.refused(0, transfer(10, "EUR", amount)), RejectReason::AmountInvalid);
    }
    assert_eq!(venue.refused(0, transfer(10, "EUR", -1)), RejectReason::InsufficientFunds);
    venue.deposit(10, "EUR", 1 << 100);
    assert_eq!(venue.refused(0, transfer(10, "EUR", 1)), RejectReason::AmountInvalid);
    assert_eq!(venue.refused(ANN, transfer(10, "EUR", 1)), RejectReason::NotAuthorized);
}

#[test]
fn limits_of_an_instrument_come_before_those_of_all() {
    let mut venue = Venue::new();
    let limits = |quantity| Limits { quantity, ..Limits::default() };
    venue.admin(Body::SetLimits(AccountId(10), None, limits(50)));
    venue.admin(Body::SetLimits(AccountId(10), Some(InstrumentId(3)), limits(70)));
    assert_eq!(venue.refused_order(ANN, limit(3, 10, Side::Buy, 80, 100)), RejectReason::LimitQuantity);
    let bid = venue.order(ANN, limit(3, 10, Side::Buy, 70, 100));
    assert_eq!(venue.refused(ANN, replace(bid, 80, 100)), RejectReason::LimitQuantity);
    venue.check_round_trip();
    venue.admin(Body::SetLimits(AccountId(10), Some(InstrumentId(3)), Limits::default()));
    assert_eq!(venue.refused_order(ANN, limit(3, 10, Side::Buy, 60, 100)), RejectReason::LimitQuantity);
    let unknown = Body::SetLimits(AccountId(10), Some(InstrumentId(9)), limits(1));
    assert_eq!(venue.refused(0, unknown), RejectReason::UnknownInstrument);
    assert_eq!(
        venue.refused(0, Body::SetLimits(AccountId(9), None, limits(1))),
        RejectReason::UnknownAccount
    );
}

#[test]
fn the_same_order_is_a_duplicate_for_a_while() {
    let mut venue = Venue::new();
    let limits = Limits { duplicate_ms: 10, ..Limits::default() };
    venue.admin(Body::SetLimits(AccountId(10), None, limits));
    venue.order(ANN, limit(3, 10, Side::Buy, 50, 100));
    venue.wait(9_999_999);
    assert_eq!(venue.refused_order(ANN, limit(3, 10, Side::Buy, 50, 100)), RejectReason::DuplicateOrder);
    venue.check_round_trip();
    venue.wait(1);
    venue.order(ANN, limit(3, 10, Side::Buy, 50, 100));
}

#[test]
fn throttles_count_what_passes_them() {
    let mut venue = Venue::new();
    venue.admin(Body::SetThrottle(SessionId(ZOE), Throttle { orders: 2, cancels: 1 }));
    let order = limit(3, 0, Side::Buy, 50, 100);
    let bid = venue.order(ZOE, order);
    // It passes, and is refused for something else; so it counts.
    assert_eq!(
        venue.refused_order(ZOE, NewOrder { quantity: Quantity(0), ..order }),
        RejectReason::QuantityZero
    );
    assert_eq!(venue.refused_order(ZOE, order), RejectReason::Throttled);
    assert_eq!(venue.refused(ZOE, replace(bid, 60, 100)), RejectReason::Throttled);
    assert_eq!(venue.refused(ZOE, cancel(ClientOrderId(9_999))), RejectReason::UnknownOrder);
    assert_eq!(venue.refused(ZOE, cancel(bid)), RejectReason::Throttled);
    let all = Body::MassCancel(MassCancel { session: SessionId(ZOE), instrument: None, side: None });
    assert_eq!(venue.refused(ZOE, all), RejectReason::Throttled);
    venue.check_round_trip();
    venue.wait(SECOND);
    assert_eq!(canceled(&venue.cancel(ZOE, bid), CancelReason::Requested), 1);
    assert_eq!(
        venue.refused(0, Body::SetThrottle(SessionId(0), Throttle { orders: 1, cancels: 0 })),
        RejectReason::UnknownUser
    );
}

#[test]
fn kill_switches_cancel_and_refuse() {
    for (target, expected, untouched) in [
        (KillTarget::Account(AccountId(10)), 2, Some(BOB)),
        (KillTarget::Participant(ParticipantId(1)), 2, Some(BOB)),
        (KillTarget::Venue, 4, None),
    ] {
        let mut venue = Venue::new();
        let order = |account| limit(3, account, Side::Buy, 50, 100);
        for (session, account) in [(ANN, 10), (BOB, 20), (ANN, 10), (ZOE, 10)] {
            venue.order(session, order(account));
        }
        let events = venue.admin(Body::Kill(target, true));
        assert!(matches!(events[0], Event::Configured(_)), "{events:?}");
        assert_eq!(canceled(&events, CancelReason::KillSwitch), expected, "{target:?}");
        assert_eq!(venue.refused_order(ANN, order(10)), RejectReason::Killed);
        if let Some(untouched) = untouched {
            venue.order(untouched, order(20));
            venue.order(ZOE, order(10));
        }
        venue.check_round_trip();
        venue.admin(Body::Kill(target, false));
        venue.order(ANN, order(10));
    }
    let mut venue = Venue::new();
    for nobody in [KillTarget::Participant(ParticipantId(3)), KillTarget::Account(AccountId(3))] {
        assert_eq!(venue.refused(0, Body::Kill(nobody, true)), RejectReason::UnknownAccount);
    }
}

#[test]
fn a_busted_trade_leaves_nothing_behind() {
    let mut venue = Venue::new();
    let fees = Fees { maker_ppm: 100, taker_ppm: 1_000, maker_per_lot: 1, taker_per_lot: 2 };
    venue.admin(Body::SetFees(InstrumentId(1), AccountGroup(0), fees));
    venue.deposit(10, "EUR", 100_000);
    venue.deposit(20, "BTC", 500_000);
    venue.order(ANN, limit(1, 10, Side::Buy, 100, 50));
    venue.order(BOB, limit(1, 20, Side::Sell, 100, 50));
    let trade = venue.exchange.kept_trades().next().expect("a trade").trade_id;

    assert_eq!(venue.refused(0, Body::CorrectTrade(trade, Price(0))), RejectReason::PriceOutsideLimits);
    let events = venue.admin(Body::CorrectTrade(trade, Price(40)));
    let [Event::TradeRevised(buyer), Event::TradeRevised(seller), Event::AdminDone(_)] = events[..] else {
        panic!("{events:?}")
    };
    assert_eq!((buyer.to.session, buyer.new_price), (SessionId(ANN), Some(Price(40))));
    assert_eq!((seller.to.session, seller.old_price), (SessionId(BOB), Price(50)));
    assert_eq!(venue.balance(10, "EUR").0, 100_000 - 40_000 - 15);
    assert_eq!(venue.position(10, 1).1, 40_000);
    venue.check_round_trip();

    venue.admin(Body::BustTrade(trade));
    assert_eq!((venue.balance(10, "EUR"), venue.balance(20, "EUR")), ((100_000, 0), (0, 0)));
    assert_eq!((venue.balance(10, "BTC"), venue.balance(20, "BTC")), ((0, 0), (500_000, 0)));
    assert_eq!((venue.position(10, 1), venue.fees_taken()), ((0, 0, [0, 0]), 0));
    venue.check_round_trip();
    for request in [Body::BustTrade(trade), Body::CorrectTrade(trade, Price(41)), Body::BustTrade(TradeId(9))]
    {
        assert_eq!(venue.refused(0, request), RejectReason::UnknownTrade);
    }
}

#[test]
fn yesterdays_trades_are_final() {
    let mut venue = Venue::new();
    venue.order(ANN, limit(3, 10, Side::Buy, 50, 100));
    venue.order(BOB, limit(3, 20, Side::Sell, 50, 100));
    let trade = venue.exchange.kept_trades().next().expect("a trade").trade_id;
    venue.admin(Body::EndOfDay);
    assert_eq!(venue.refused(0, Body::BustTrade(trade)), RejectReason::UnknownTrade);
}

#[test]
fn reduce_only_orders_never_exceed_the_position() {
    let mut venue = Venue::new();
    let reduce = |quantity, price| {
        let flags = OrderFlags { reduce_only: true, ..OrderFlags::default() };
        NewOrder { flags, ..limit(3, 10, Side::Sell, quantity, price) }
    };
    assert_eq!(venue.refused_order(ANN, reduce(10, 200)), RejectReason::ReduceOnlyWouldIncrease);
    venue.order(ANN, limit(3, 10, Side::Buy, 100, 100));
    venue.order(BOB, limit(3, 20, Side::Sell, 100, 100));
    let oldest = venue.order(ANN, reduce(40, 200));
    venue.order(ANN, reduce(30, 201));
    venue.order(ANN, reduce(30, 202));
    assert_eq!(venue.refused_order(ANN, reduce(10, 203)), RejectReason::ReduceOnlyWouldIncrease);
    assert_eq!(venue.refused(ANN, replace(oldest, 50, 200)), RejectReason::ReduceOnlyWouldIncrease);
    venue.check_round_trip();
    // The position falls to 60: one order of 30 and then nothing more fits beside 40.
    venue.order(BOB, limit(3, 20, Side::Buy, 40, 150));
    let events = venue.send(ANN, Body::NewOrder(limit(3, 10, Side::Sell, 40, 150)));
    assert_eq!(canceled(&events, CancelReason::ReduceOnly), 2);
    assert_eq!(venue.position(10, 3), (60, 100 * 100 - 40 * 150, [0, 40]));
    // A bust of the first trade turns the position.
    let first = venue.exchange.kept_trades().next().expect("a trade").trade_id;
    let events = venue.admin(Body::BustTrade(first));
    assert_eq!(canceled(&events, CancelReason::ReduceOnly), 1);
    assert_eq!(venue.position(10, 3), (-40, -6_000, [0, 0]));
}

#[test]
fn accounts_and_instruments_answer_questions() {
    let mut venue = Venue::new();
    venue.deposit(10, "EUR", 100_000);
    venue.order(ANN, limit(1, 10, Side::Buy, 10, 50));
    let question = Body::QueryAccount(AccountId(10));
    for asker in [0, ANN] {
        let events = venue.send(asker, question);
        let [Event::Balance(balance), Event::Position(position), Event::AdminDone(_)] = events[..] else {
            panic!("{events:?}")
        };
        let Balance { account, total, held, .. } = balance;
        assert_eq!((account, total, held), (AccountId(10), Amount::new(100_000), Amount::new(5_000)));
        assert_eq!((position.instrument, position.open_buy), (InstrumentId(1), 10));
    }
    for asker in [BOB, ZOE] {
        assert_eq!(venue.refused(asker, question), RejectReason::NotAuthorized);
    }
    assert_eq!(venue.refused(ANN, Body::QueryAccount(AccountId(0))), RejectReason::NotAuthorized);
    assert_eq!(venue.refused(0, Body::QueryAccount(AccountId(9))), RejectReason::UnknownAccount);
    assert!(matches!(venue.admin(Body::QueryAccount(AccountId(0)))[..], [Event::AdminDone(_)]));
    venue.deposit(20, "BTC", 10_000);
    venue.order(BOB, limit(1, 20, Side::Sell, 10, 50));
    let events = venue.admin(Body::QueryInstrument(InstrumentId(1)));
    let [Event::InstrumentState(state), Event::AdminDone(_)] = events[..] else { panic!("{events:?}") };
    assert_eq!(
        (state.open_interest, state.last_price, state.mark_price),
        (10, Some(Price(50)), Some(Price(50)))
    );
    assert_eq!(venue.refused(ANN, Body::QueryInstrument(InstrumentId(1))), RejectReason::NotAuthorized);
    assert_eq!(venue.refused(0, Body::QueryInstrument(InstrumentId(9))), RejectReason::UnknownInstrument);
}

#[test]
fn the_older_rulebook_has_no_accounts() {
    let mut exchange = Exchange::new();
    let bodies = [
        Body::PutCurrency(currency("EUR"), 2),
        Body::PutAccount(account(1, 1)),
        Body::Kill(KillTarget::Venue, true),
        Body::QueryAccount(AccountId(0)),
        Body::QueryInstrument(InstrumentId(1)),
        Body::BustTrade(TradeId(1)),
    ];
    for body in bodies {
        let mut outputs: Vec<Output> = Vec::new();
        let command = Command {
            session: SessionId(0),
            connection: ConnectionId(0),
            request_id: RequestId(1),
            timestamp: Timestamp(1),
            body,
        };
        exchange.apply(&command, &mut outputs);
        let [output] = outputs[..] else { panic!("{outputs:?}") };
        assert!(matches!(output.event, Event::Rejected(e) if e.reason == RejectReason::OptionNotOffered));
    }
    assert_eq!(exchange.currencies().count(), 0);
}

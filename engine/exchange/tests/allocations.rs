//! Once the business logic has seen as many orders, levels and positions at once as a day brings, a day like the ones before
//! allocates nothing: with and without accounts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use exchange::{EventSink, Exchange};
use protocol::{
    AccountDefinition, AccountGroup, AccountId, Amount, Body, CancelOrder, ClientOrderId, Command,
    ConnectionId, Credential, Currency, Event, Fees, InstrumentDefinition, InstrumentId, InstrumentRules,
    Limits, LoginRequest, NewOrder, OrderFlags, OrderKey, OrderType, Output, ParticipantId, Price, Quantity,
    ReplaceOrder, RequestId, Role, SessionId, Settlement, Side, Symbol, Terms, TimeInForce, Timestamp,
    Transfer, UserDefinition, UserName,
};

/// The system's allocator, which counts what the thread asks for.
struct Counting;

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.set(ALLOCATIONS.get() + 1);
        // SAFETY: the caller's promises are those that the system's allocator asks for.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        // SAFETY: as above; the place came from the system's allocator.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

const INSTRUMENT: InstrumentId = InstrumentId(1);
const SESSIONS: u32 = 8;
const ORDERS: u64 = 30_000;
/// Days of the same flow before the one that is counted.
const DAYS_BEFORE: u64 = 4;

/// Counts what the requests came to.
#[derive(Default)]
struct Tally {
    trades: u64,
    rejects: u64,
}

impl EventSink for Tally {
    fn emit(&mut self, output: Output) {
        self.trades += u64::from(matches!(output.event, Event::Trade(_)));
        self.rejects += u64::from(matches!(output.event, Event::Rejected(_)));
    }
}

struct Venue {
    exchange: Exchange,
    request_id: u64,
    tally: Tally,
}

impl Venue {
    /// One instrument and some sessions; with a settlement each of them has an account with money, limits and fees.
    fn new(settlement: Settlement) -> Self {
        let mut venue = Self { exchange: Exchange::new(), request_id: 0, tally: Tally::default() };
        let definition = InstrumentDefinition {
            instrument: INSTRUMENT,
            symbol: Symbol::new("X").expect("a valid symbol"),
            price_scale: 0,
            quantity_scale: 0,
            tick_size: Price(1),
            lot_size: Quantity(1),
            price_min: Price(1),
            price_max: Price(1_000_000),
            quantity_max: Quantity(1_000_000),
        };
        venue.set(Body::PutInstrument(definition));
        venue.set(Body::SetRulebook(2));
        for session in (1..=SESSIONS).map(SessionId) {
            let user = UserDefinition {
                session,
                name: UserName::new(&format!("u{session}")).expect("a valid name"),
                credential: Credential { scheme: 0, salt: [0; 16], hash: [0; 32] },
                role: Role::Trader,
                enabled: true,
                cancel_on_disconnect: false,
                grace_ms: 0,
            };
            venue.set(Body::PutUser(user));
            let body = Body::Login(LoginRequest { trading_day: None });
            venue.exchange.apply(&Command { body, ..from(session) }, &mut venue.tally);
        }
        if settlement != Settlement::None {
            venue.give_accounts(settlement);
        }
        assert_eq!(venue.tally.rejects, 0, "the venue is what the test means it to be");
        venue
    }

    fn give_accounts(&mut self, settlement: Settlement) {
        let currency = |code| Currency::new(code).expect("a valid code");
        let (base, quote) = (currency("BTC"), currency("USD"));
        self.set(Body::PutCurrency(base, 0));
        self.set(Body::PutCurrency(quote, 0));
        for session in 1..=SESSIONS {
            let (account, participant) = (AccountId(session), ParticipantId(session));
            let group = AccountGroup(0);
            self.set(Body::PutAccount(AccountDefinition { account, participant, group, self_trade: None }));
            self.set(Body::SetParticipant(SessionId(session), participant));
            for currency in [base, quote] {
                self.set(Body::Transfer(Transfer { account, currency, amount: Amount::new(1 << 60) }));
            }
            let limits = Limits { quantity: 500, open_orders: 1_000_000, ..Limits::default() };
            self.set(Body::SetLimits(account, None, limits));
        }
        let fees = Fees { maker_ppm: -10, taker_ppm: 50, maker_per_lot: 0, taker_per_lot: 1 };
        self.set(Body::SetFees(INSTRUMENT, AccountGroup(0), fees));
        let is_margin = settlement == Settlement::Margin;
        self.set(Body::PutRules(
            INSTRUMENT,
            InstrumentRules {
                settlement,
                base: (!is_margin).then_some(base),
                quote: Some(quote),
                initial_margin: u64::from(is_margin),
                ..InstrumentRules::default()
            },
        ));
    }

    /// A request of the server's own.
    fn set(&mut self, body: Body) {
        self.exchange.apply(&Command { body, ..Command::default() }, &mut self.tally);
    }

    fn send(&mut self, session: SessionId, body: Body) -> u64 {
        self.request_id += 1;
        let request_id = RequestId(self.request_id);
        let command = Command { request_id, timestamp: Timestamp(self.request_id), body, ..from(session) };
        self.exchange.apply(&command, &mut self.tally);
        self.request_id
    }

    /// A day of orders around a price that moves, most of them canceled, some replaced, some trading; all are gone at its end.
    fn day(&mut self) {
        let mut seed: u64 = 5;
        let mut below = move |bound: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) % bound
        };
        let mut live: Vec<(SessionId, OrderKey)> = Vec::with_capacity(ORDERS as usize);
        for number in 0..ORDERS {
            let session = SessionId(1 + below(u64::from(SESSIONS)) as u32);
            let side = if below(2) == 0 { Side::Buy } else { Side::Sell };
            let mid = 5_000 + (number / 10) as i64;
            let away = below(200) as i64 - 2;
            let price = Price(if side == Side::Buy { mid - away } else { mid + away });
            let immediate = below(7) == 0;
            let order = self.send(
                session,
                Body::NewOrder(NewOrder {
                    instrument: INSTRUMENT,
                    side,
                    order_type: OrderType::Limit,
                    time_in_force: if immediate { TimeInForce::ImmediateOrCancel } else { TimeInForce::Day },
                    flags: OrderFlags::default(),
                    price: Some(price),
                    quantity: Quantity(1 + below(100)),
                    account: AccountId(session.0),
                    cl_ord_id: None,
                    terms: Terms::default(),
                }),
            );
            if !immediate {
                live.push((session, OrderKey::Id(ClientOrderId(order))));
            }
            let at = below(live.len().max(1) as u64) as usize;
            match (below(3), live.get(at).copied()) {
                (0, Some((session, order))) => {
                    live.swap_remove(at);
                    let cancel = CancelOrder { order, side: None, cl_ord_id: None };
                    self.send(session, Body::CancelOrder(cancel));
                }
                (1, Some((session, order))) => {
                    let replace = ReplaceOrder {
                        order,
                        side: None,
                        price: Some(price),
                        quantity: Quantity(200),
                        stop_price: None,
                        display: None,
                        cl_ord_id: None,
                    };
                    self.send(session, Body::ReplaceOrder(replace));
                }
                _ => {}
            }
        }
        for (session, order) in live {
            self.send(session, Body::CancelOrder(CancelOrder { order, side: None, cl_ord_id: None }));
        }
    }
}

fn from(session: SessionId) -> Command {
    Command { session, connection: ConnectionId(session.0), ..Command::default() }
}

/// A book's windows widen in some days like each other before they stay; then a day allocates nothing but the list that
/// the test itself keeps.
fn check(settlement: Settlement) {
    let mut venue = Venue::new(settlement);
    let before = ALLOCATIONS.get();
    for _ in 0..DAYS_BEFORE {
        venue.day();
        venue.set(Body::EndOfDay);
    }
    assert!(ALLOCATIONS.get() > before + DAYS_BEFORE, "{settlement:?}: allocations are counted");
    assert!(venue.tally.trades > DAYS_BEFORE * ORDERS / 10, "{settlement:?}: {} trades", venue.tally.trades);
    assert_eq!(venue.exchange.counts().orders, 0, "{settlement:?}");
    let warm = ALLOCATIONS.get();
    venue.day();
    assert_eq!(ALLOCATIONS.get() - warm, 1, "{settlement:?}");
}

#[test]
fn a_day_like_the_one_before_allocates_nothing() {
    check(Settlement::None);
}

#[test]
fn nor_does_it_with_accounts_that_settle_in_cash() {
    check(Settlement::Cash);
}

#[test]
fn nor_does_it_with_accounts_on_margin() {
    check(Settlement::Margin);
}

//! What commands alone can't bring about, or what is seen only from inside: a breach of a book, a divergence, records that
//! are no state. The rules are held against the oracle, in the crate of that name.

use protocol::{
    Body, Command, ConnectionId, Event, InstrumentId, LoginRequest, NewOrder, OrderType, Output, Phase,
    Price, RejectReason, RequestId, Role, Sequence, SessionId, Side, Tick, Timestamp,
};

mod account_records;
mod accounts;
mod auctions;
mod chance;
mod floor;
mod funds;
mod phases;
pub(crate) mod samples;
mod special_records;
mod till;

use crate::{Exchange, ImportError, RULEBOOK_VERSION, Record, UnknownRulebook};

fn command(session: u32, id: u64, body: Body) -> Command {
    Command {
        session: SessionId(session),
        connection: ConnectionId(session),
        request_id: RequestId(id),
        timestamp: Timestamp(1_000),
        body,
    }
}

fn order(side: Side, price: i64) -> Body {
    Body::NewOrder(samples::limit(1, 0, side, 5, price))
}

fn apply(exchange: &mut Exchange, command: Command) -> Vec<Event> {
    let mut outputs: Vec<Output> = Vec::new();
    exchange.apply(&command, &mut outputs);
    outputs.into_iter().map(|output| output.event).collect()
}

/// One instrument, one user who is logged in, and some orders.
fn venue() -> Exchange {
    let mut exchange = Exchange::new();
    apply(&mut exchange, command(0, 1, Body::PutInstrument(samples::instrument(1))));
    apply(&mut exchange, command(0, 2, Body::PutUser(samples::user(1))));
    apply(&mut exchange, command(1, 0, Body::Login(LoginRequest { trading_day: None })));
    for (id, (side, price)) in
        [(Side::Buy, 99), (Side::Buy, 98), (Side::Sell, 101), (Side::Sell, 102)].into_iter().enumerate()
    {
        apply(&mut exchange, command(1, id as u64 + 1, order(side, price)));
    }
    exchange
}

fn records(exchange: &Exchange) -> Vec<Record> {
    let mut records = Vec::new();
    exchange.export(&mut |record| records.push(record));
    records
}

#[test]
fn a_breach_stops_the_instrument_before_anything_changes() {
    let mut exchange = venue();
    // A bid that crosses the book gets into it behind the rules' back.
    let handle = exchange.orders.find(0, &protocol::OrderKey::Id(protocol::ClientOrderId(1)));
    assert!(handle.is_none(), "the server itself has no orders");
    let place = exchange.sessions.place(SessionId(1)).expect("the session");
    let handle =
        exchange.orders.find(place, &protocol::OrderKey::Id(protocol::ClientOrderId(1))).expect("the order");
    let book = &mut exchange.instruments.get_mut(0).book;
    book.unlink(&mut exchange.orders.arena, handle);
    exchange.orders.arena.get_mut(handle).price = Price(150);
    book.append(&mut exchange.orders.arena, handle);

    let open = exchange.open_orders();
    let events = apply(&mut exchange, command(1, 10, order(Side::Sell, 120)));
    assert_eq!(events[0], Event::PhaseChanged(InstrumentId(1), Phase::Halted));
    let Event::Rejected(rejected) = events[1] else { panic!("{events:?}") };
    assert_eq!(rejected.reason, RejectReason::InstrumentStopped);
    assert_eq!((exchange.open_orders(), events.len()), (open, 2));

    let resume = Body::SetPhase(InstrumentId(1), Phase::Continuous);
    let events = apply(&mut exchange, command(0, 11, resume));
    assert!(matches!(events[..], [Event::Rejected(e)] if e.reason == RejectReason::InstrumentStopped));
    let cancel = Body::CancelOrder(protocol::CancelOrder {
        order: protocol::OrderKey::Id(protocol::ClientOrderId(1)),
        side: None,
        cl_ord_id: None,
    });
    let events = apply(&mut exchange, command(1, 12, cancel));
    assert!(matches!(events[..], [Event::Canceled(_)]), "cancels still work: {events:?}");

    let imported = Exchange::import(records(&exchange)).expect("a state");
    assert_eq!(imported.state_hash(), exchange.state_hash(), "it stays stopped");
}

#[test]
fn a_contradicted_checkpoint_is_a_divergence() {
    let mut exchange = venue();
    let tick =
        |sequence, hash| Body::Tick(Tick { checkpoint_sequence: Sequence(sequence), checkpoint_hash: hash });
    apply(&mut exchange, command(0, 1, tick(0, 0)));
    let checkpoint = exchange.checkpoint().expect("a checkpoint");
    assert_eq!(checkpoint.running_hash, exchange.running_hash());
    // An older checkpoint says nothing, the right one agrees.
    apply(&mut exchange, command(0, 1, tick(3, 77)));
    let sequence = exchange.checkpoint().expect("a checkpoint").sequence.0;
    let hash = exchange.running_hash();
    apply(&mut exchange, command(0, 1, tick(sequence, hash)));
    assert_eq!(exchange.divergence(), None);
    let (sequence, hash) = (exchange.sequence().0, exchange.running_hash());
    apply(&mut exchange, command(0, 1, tick(sequence, hash ^ 1)));
    let divergence = exchange.divergence().expect("a divergence");
    assert_eq!((divergence.sequence.0, divergence.logged_hash), (sequence, hash ^ 1));
    assert_eq!(divergence.computed_hash, hash);
    let (sequence, hash) = (exchange.sequence().0, exchange.running_hash());
    apply(&mut exchange, command(0, 1, tick(sequence, hash)));
    assert_eq!(exchange.divergence(), Some(divergence), "it stays");
}

#[test]
fn newer_rules_are_switched_to_and_stay() {
    let mut exchange = venue();
    assert_eq!(exchange.rulebook_version(), 1, "a venue begins with the first rules");
    let older = exchange.state_hash();
    for _ in 0..2 {
        let events = apply(&mut exchange, command(0, 1, Body::SetRulebook(2)));
        assert!(matches!(events[..], [Event::AdminDone(_)]), "the same again is done: {events:?}");
        assert_eq!(exchange.rulebook_version(), 2);
    }
    assert_ne!(exchange.state_hash(), older);
    let imported = Exchange::import(records(&exchange)).expect("a state");
    assert_eq!(imported.rulebook_version(), 2);
    let events = apply(&mut exchange, command(0, 2, Body::SetRulebook(1)));
    assert!(matches!(events[..], [Event::Rejected(e)] if e.reason == RejectReason::RulebookLower));
}

#[test]
fn nothing_of_a_switch_to_unknown_rules_is_applied() {
    let unknown = Body::SetRulebook(RULEBOOK_VERSION + 1);
    // Whoever may not switch is refused, and stops nobody.
    let refused = [
        (command(1, 10, unknown), RejectReason::NotAuthorized),
        (command(1, 1, unknown), RejectReason::IdNotRising),
    ];
    for (command, reason) in refused {
        let mut exchange = venue();
        let events = apply(&mut exchange, command);
        assert!(matches!(events[..], [Event::Rejected(e)] if e.reason == reason), "{events:?}");
        assert_eq!(exchange.unknown_rulebook(), None);
    }

    let mut operator = venue();
    let user = operator.sessions.get_mut(1).user.as_mut().expect("a user");
    user.role = Role::Operator;
    // A grace that ends with the command's own time must not end by a command that is not applied.
    let mut timed = venue();
    timed.sessions.set_deadline(1, Some(Timestamp(500)));
    for (mut exchange, session) in [(operator, 1), (timed, 0)] {
        let (state, next) = (exchange.state_hash(), exchange.sequence().next());
        let events = apply(&mut exchange, command(session, 10, unknown));
        assert_eq!(events, []);
        assert_eq!(exchange.state_hash(), state);
        let found = exchange.unknown_rulebook().expect("a switch to unknown rules");
        assert_eq!(found, UnknownRulebook { sequence: next, version: RULEBOOK_VERSION + 1 });
        let line = found.to_string();
        assert!(line.contains("version 3 at sequence") && line.contains("newer program"), "{line}");
    }
}

#[test]
fn a_limit_order_without_a_price_is_a_conflict() {
    let mut exchange = venue();
    let Body::NewOrder(limit) = order(Side::Buy, 50) else { panic!("an order") };
    let unpriced = NewOrder { price: None, ..limit };
    let priced_market = NewOrder { order_type: OrderType::Market, ..limit };
    for (id, conflict) in [(20, unpriced), (21, priced_market)] {
        let events = apply(&mut exchange, command(1, id, Body::NewOrder(conflict)));
        assert!(matches!(events[..], [Event::Rejected(e)] if e.reason == RejectReason::OptionsConflict));
    }
}

/// Records changed in one place are no state, or, where no rule can tell, another state.
#[test]
fn what_is_imported_is_checked() {
    let good = records(&venue());
    let first_order = good.iter().position(|record| matches!(record, Record::Order(_))).expect("an order");
    let changed = |change: &dyn Fn(&mut Vec<Record>)| {
        let mut records = good.clone();
        change(&mut records);
        Exchange::import(records).map(|exchange| exchange.state_hash())
    };
    let order_changed = |change: fn(&mut crate::OrderRecord)| {
        changed(&|records| {
            let Record::Order(order) = &mut records[first_order] else { panic!("an order") };
            change(order);
        })
    };
    assert_eq!(changed(&|_| {}), Ok(venue().state_hash()));
    assert_eq!(order_changed(|order| order.leaves = 0), Err(ImportError::Field("open quantity")));
    assert_eq!(order_changed(|order| order.cum = u64::MAX), Err(ImportError::Field("open quantity")));
    assert_eq!(order_changed(|order| order.side = 9), Err(ImportError::Field("side")));
    assert_eq!(order_changed(|order| order.time_in_force = 3), Err(ImportError::Field("time in force")));
    assert_eq!(order_changed(|order| order.flags = 0x80), Err(ImportError::Field("flags")));
    assert_eq!(order_changed(|order| order.session = 9), Err(ImportError::Unknown("session")));
    assert_eq!(order_changed(|order| order.instrument = 9), Err(ImportError::Unknown("instrument")));
    assert_eq!(order_changed(|order| order.order_id = 99), Err(ImportError::Field("order id")));
    assert_eq!(order_changed(|order| order.order_id = 2), Err(ImportError::Twice("order id")));
    assert_eq!(order_changed(|order| order.client_order_id = 2), Err(ImportError::Twice("client order id")));
    assert_eq!(order_changed(|order| order.price = 1), Err(ImportError::Order("order")));
    assert_eq!(order_changed(|order| order.price = 500), Err(ImportError::Crossed(1)));
    assert_ne!(order_changed(|order| order.leaves = 4), Ok(venue().state_hash()));
    for version in [0, RULEBOOK_VERSION + 1] {
        let found = changed(&|records| {
            let Record::Venue(venue) = &mut records[0] else { panic!("the venue") };
            venue.rulebook_version = version;
        });
        assert_eq!(found, Err(ImportError::Field("rulebook version")), "{version}");
    }
    let count = |what, announced, found| Err(ImportError::Count { what, announced, found });
    assert_eq!(changed(&|records| drop(records.pop())), count("orders", 4, 3));
    assert_eq!(changed(&|records| drop(records.remove(0))), Err(ImportError::Venue));
    assert_eq!(changed(&|records| records.swap(1, 2)), Err(ImportError::Order("session")));
    assert_eq!(
        changed(&|records| {
            let venue = records[0].clone();
            records.push(venue);
        }),
        Err(ImportError::Venue)
    );
    assert_eq!(changed(&|records| records.clear()), Err(ImportError::Venue));
}

#[test]
fn a_hundred_thousand_instruments_are_cheap() {
    let mut exchange = Exchange::new();
    for number in 1..=100_000 {
        let events = apply(&mut exchange, command(0, 1, Body::PutInstrument(samples::instrument(number))));
        assert!(matches!(events[..], [Event::InstrumentDefined(_), Event::AdminDone(_)]));
    }
    assert_eq!(exchange.counts().instruments, 100_000);
    assert_eq!(exchange.instruments().count(), 100_000);
}

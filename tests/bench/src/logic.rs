//! The business logic alone, rows `logic/*`: `Exchange::apply` with sessions, duplicate check, running hash and every event
//! stored, on one thread. Commands are decoded before they are timed, some at a time, so that they are in the cache as they
//! are when unmarshal has just written them.

use std::time::{Duration, Instant};

use exchange::{EventSink, Exchange};
use protocol::{
    AccountDefinition, AccountGroup, AccountId, Amount, Body, Command, ConnectionId, Credential, Currency,
    Event, Fees, InstrumentRules, Limits, LoginRequest, NewOrder, Output, ParticipantId, Peg, PegReference,
    Price, Quantity, Role, SessionId, Settlement, Side, Terms, Transfer, UserDefinition, UserName,
};

use crate::table::{Row, Table};
use crate::venue::{CONNECTION, INSTRUMENT, SESSION, command, prepared};
use crate::workload::{Message, Scenario, digest, generate};

/// Commands that are decoded together, as unmarshal does it in a step.
const BATCH_COMMANDS: usize = 1024;
/// Events from which on the sink is emptied, as the logic stage does it.
const CHUNK_EVENTS: usize = 256;
/// Participants of a venue with accounts, each with a session of its own.
const PARTICIPANTS: u32 = 100;
/// Accounts of each.
const ACCOUNTS_EACH: u32 = 10;
/// Runs of each row.
const RUNS: usize = 3;
/// Sessions of the row of many sessions.
const SESSIONS: u32 = 1_000;

/// Runs the rows with `orders` new orders each.
pub(crate) fn run(table: &mut Table, orders: u64, seed: u64) {
    let mut worst = f64::INFINITY;
    for scenario in Scenario::ALL {
        let messages = generate(scenario, orders, seed);
        let rate = best(prepared, &messages, command);
        worst = worst.min(rate);
        let note = format!("{} messages, input digest {:016x}", messages.len(), digest(&messages));
        table.push(Row::new(format!("logic/{}", scenario.name()), rate, "commands/s").note(note));
    }
    table.push(Row::new("logic/worst", worst, "commands/s").against("15 M/s aimed at", 15e6));
    let messages = generate(Scenario::NormalDay, orders, seed);
    let first = best(prepared, &messages, command);
    let second = best(on_version_2, &messages, command);
    table.push(
        Row::new("logic/version-2", second, "commands/s")
            .against("version 1 of the rules", first)
            .note("the normal day's flow, none of it special"),
    );
    table.push(
        Row::new("logic/mixed", best(on_version_2, &messages, mixed), "commands/s")
            .against("nothing special", second)
            .note("of 20 new orders one iceberg, one hidden, one stop, of 100 one peg"),
    );
    let spread = |message: &Message, place: u64| of_session(command(message, place), message, SESSIONS);
    table.push(
        Row::new("logic/sessions", best(|| with_sessions(SESSIONS), &messages, spread), "commands/s")
            .against("one session", first)
            .note(format!("{SESSIONS} sessions")),
    );
    for settlement in [Settlement::Cash, Settlement::Margin] {
        let name = if settlement == Settlement::Cash { "cash" } else { "margin" };
        let rate = best(|| with_accounts(settlement), &messages, of_account);
        table.push(
            Row::new(format!("logic/accounts-{name}"), rate, "commands/s")
                .against("no accounts", first)
                .note(format!("{} accounts with limits and fees", PARTICIPANTS * ACCOUNTS_EACH)),
        );
    }
}

/// The best of some runs: what takes the processor away in the middle of one is not the program's.
fn best(venue: impl Fn() -> Exchange, messages: &[Message], make: impl Fn(&Message, u64) -> Command) -> f64 {
    (0..RUNS).map(|_| measure(venue(), messages, &make)).fold(0.0, f64::max)
}

/// Stores events as the logic stage does.
struct Storing {
    events: Vec<Output>,
    rejected: u64,
}

impl EventSink for Storing {
    #[inline]
    fn emit(&mut self, output: Output) {
        self.events.push(output);
    }
}

impl Storing {
    fn empty(&mut self) {
        let is_reject = |output: &&Output| matches!(output.event, Event::Rejected(_));
        self.rejected += self.events.iter().filter(is_reject).count() as u64;
        self.events.clear();
    }
}

/// Commands a second of a flow.
fn measure(mut exchange: Exchange, messages: &[Message], make: impl Fn(&Message, u64) -> Command) -> f64 {
    let mut sink = Storing { events: Vec::with_capacity(2 * CHUNK_EVENTS), rejected: 0 };
    let mut commands = Vec::with_capacity(BATCH_COMMANDS);
    let (mut place, mut spent) = (0, Duration::ZERO);
    for batch in messages.chunks(BATCH_COMMANDS) {
        commands.clear();
        for message in batch {
            place += 1;
            commands.push(make(message, place));
        }
        let started = Instant::now();
        apply_all(&mut exchange, &commands, &mut sink);
        spent += started.elapsed();
    }
    sink.empty();
    // Only orders that are gone already are rejected: what is measured is that the flow is taken.
    assert!(sink.rejected * 10 < messages.len() as u64, "{} of {place} are rejected", sink.rejected);
    messages.len() as f64 / spent.as_secs_f64()
}

/// Not inlined, so that a profiler finds what is timed.
#[inline(never)]
fn apply_all(exchange: &mut Exchange, commands: &[Command], sink: &mut Storing) {
    for command in commands {
        exchange.apply(command, sink);
        if sink.events.len() >= CHUNK_EVENTS {
            sink.empty();
        }
    }
}

/// Applies a command of the server's own, which must not be refused.
fn set(exchange: &mut Exchange, body: Body) {
    let mut events: Vec<Output> = Vec::new();
    exchange.apply(&Command { body, ..Command::default() }, &mut events);
    let refused = events.iter().find(|output| matches!(output.event, Event::Rejected(_)));
    assert!(refused.is_none(), "{body:?}: {refused:?}");
}

fn on_version_2() -> Exchange {
    let mut exchange = prepared();
    set(&mut exchange, Body::SetRulebook(2));
    exchange
}

/// A venue with so many sessions that are logged in.
fn with_sessions(sessions: u32) -> Exchange {
    let mut exchange = on_version_2();
    for session in 2..=sessions {
        let user = UserDefinition {
            session: SessionId(session),
            name: UserName::new(&format!("u{session}")).expect("a valid name"),
            credential: Credential { scheme: 0, salt: [0; 16], hash: [0; 32] },
            role: Role::Trader,
            enabled: true,
            cancel_on_disconnect: false,
            grace_ms: 0,
        };
        set(&mut exchange, Body::PutUser(user));
        let login = Command {
            session: user.session,
            connection: ConnectionId(session),
            body: Body::Login(LoginRequest { trading_day: None }),
            ..Command::default()
        };
        exchange.apply(&login, &mut Vec::new());
    }
    exchange
}

/// A venue whose instrument settles so, with accounts that have money, limits and fees.
fn with_accounts(settlement: Settlement) -> Exchange {
    let mut exchange = with_sessions(PARTICIPANTS);
    let currency = |code| Currency::new(code).expect("a valid code");
    let (base, quote) = (currency("BTC"), currency("USD"));
    set(&mut exchange, Body::PutCurrency(base, 0));
    set(&mut exchange, Body::PutCurrency(quote, 2));
    for participant in 1..=PARTICIPANTS {
        set(&mut exchange, Body::SetParticipant(SessionId(participant), ParticipantId(participant)));
        for account in (0..ACCOUNTS_EACH).map(|number| account_of(participant, number)) {
            let definition = AccountDefinition {
                account,
                participant: ParticipantId(participant),
                group: AccountGroup(0),
                self_trade: None,
            };
            set(&mut exchange, Body::PutAccount(definition));
            for currency in [base, quote] {
                let amount = Amount::new(1 << 60);
                set(&mut exchange, Body::Transfer(Transfer { account, currency, amount }));
            }
            let limits = Limits { quantity: 1_000, open_orders: 1_000_000, ..Limits::default() };
            set(&mut exchange, Body::SetLimits(account, None, limits));
        }
    }
    let fees = Fees { maker_ppm: -10, taker_ppm: 50, maker_per_lot: 0, taker_per_lot: 1 };
    set(&mut exchange, Body::SetFees(INSTRUMENT, AccountGroup(0), fees));
    let margin = settlement == Settlement::Margin;
    let rules = InstrumentRules {
        settlement,
        base: (!margin).then_some(base),
        quote: Some(quote),
        initial_margin: if margin { 100 } else { 0 },
        maintenance_margin: if margin { 50 } else { 0 },
        ..InstrumentRules::default()
    };
    set(&mut exchange, Body::PutRules(INSTRUMENT, rules));
    exchange
}

fn account_of(participant: u32, number: u32) -> AccountId {
    AccountId(participant * ACCOUNTS_EACH + number)
}

/// The order that a message is about.
fn order_of(message: &Message) -> u64 {
    match *message {
        Message::New { order, .. } | Message::Cancel { order } | Message::Replace { order, .. } => order,
    }
}

/// Spread over so many sessions, each with its own orders.
fn of_session(command: Command, message: &Message, sessions: u32) -> Command {
    let session = 1 + (order_of(message) % u64::from(sessions)) as u32;
    let connection = if SessionId(session) == SESSION { CONNECTION } else { ConnectionId(session) };
    Command { session: SessionId(session), connection, ..command }
}

/// Spread over participants and accounts.
fn of_account(message: &Message, place: u64) -> Command {
    let mut command = of_session(command(message, place), message, PARTICIPANTS);
    if let Body::NewOrder(order) = &mut command.body {
        let number = order_of(message) / u64::from(PARTICIPANTS) % u64::from(ACCOUNTS_EACH);
        order.account = account_of(command.session.0, number as u32);
    }
    command
}

/// With some special orders among those that rest.
fn mixed(message: &Message, place: u64) -> Command {
    let mut command = command(message, place);
    let (Body::NewOrder(order), Message::New { immediate: false, .. }) = (&mut command.body, message) else {
        return command;
    };
    let terms = Terms::default();
    match ((place * 0x9e37_79b9) >> 16) % 100 {
        0..5 if order.quantity.0 >= 10 => order.terms = terms.with_display(Some(Quantity(5))),
        5..10 => order.flags.hidden = true,
        10..15 => order.terms = terms.with_stop_price(Some(beyond(order))),
        15 => {
            let peg = Peg { reference: PegReference::Midpoint, offset: 2 };
            order.terms = terms.with_peg(Some(peg));
        }
        _ => {}
    }
    command
}

/// A stop price that the market comes to now and then.
fn beyond(order: &NewOrder) -> Price {
    let limit = order.price.unwrap_or_default();
    match order.side {
        Side::Buy => Price(limit.0 + 40),
        Side::Sell => Price(limit.0 - 40),
    }
}

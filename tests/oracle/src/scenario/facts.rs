//! Events in the words of the scenario language, and the comparison of an expected line with an event.

use protocol::{
    ClOrdId, ClientOrderId, Event, InstrumentId, Liquidity, OrderFlags, Price, Quantity, Recipient,
    RequestId, SessionId, Side,
};

use super::world::World;

/// What an event says: `WHO KIND [ORDER] [QUANTITY@PRICE] [name=value ...] [word ...]`.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) who: String,
    pub(super) kind: &'static str,
    /// The labels that the order goes by.
    order: Vec<String>,
    amount: Option<String>,
    options: Vec<(&'static str, String)>,
    words: Vec<String>,
}

/// Kinds of the venue's own events that are compared only where a block names one of them.
pub(super) const QUIET: [&str; 5] = ["added", "reduced", "trade", "defined", "checkpoint"];

impl Facts {
    fn new(who: impl Into<String>, kind: &'static str) -> Self {
        Self { who: who.into(), kind, ..Self::default() }
    }

    fn order(mut self, world: &World, session: SessionId, id: ClientOrderId) -> Self {
        self.order = world.labels_of(session, id);
        self
    }

    fn amount(mut self, quantity: Quantity, price: Option<Price>) -> Self {
        self.amount = Some(match price {
            Some(price) => format!("{quantity}@{price}"),
            None => format!("{quantity}@market"),
        });
        self
    }

    fn option(mut self, name: &'static str, value: impl ToString) -> Self {
        self.options.push((name, value.to_string()));
        self
    }

    fn word(mut self, word: impl ToString) -> Self {
        self.words.push(word.to_string());
        self
    }

    fn on(self, world: &World, instrument: InstrumentId) -> Self {
        self.option("on", world.symbol_of(instrument))
    }

    /// A report: its number and the request that it answers.
    fn report(self, to: Recipient, request: RequestId) -> Self {
        let facts = self.option("number", to.number);
        if request.0 == 0 { facts } else { facts.option("request", request) }
    }

    /// The facts as a line of the language.
    pub(super) fn text(&self) -> String {
        let mut line = format!("{} {}", self.who, self.kind);
        for word in self.order.iter().take(1).chain(&self.amount).chain(&self.words) {
            line.push(' ');
            line.push_str(word);
        }
        for (name, value) in &self.options {
            line.push_str(&format!(" {name}={value}"));
        }
        line
    }

    /// Whether everything that the expected line says is so.
    pub(super) fn agree_with(&self, expected: &str) -> bool {
        let mut words = expected.split_whitespace();
        if words.next() != Some(&self.who) || words.next() != Some(self.kind) {
            return false;
        }
        let mut order_said = false;
        words.all(|word| {
            if let Some((name, value)) = word.split_once('=') {
                return self.options.iter().any(|(known, is)| *known == name && is == value);
            }
            if word.contains('@') {
                return self.amount.as_deref() == Some(word);
            }
            if self.words.iter().any(|known| known == word) {
                return true;
            }
            !std::mem::replace(&mut order_said, true) && self.order.iter().any(|label| label == word)
        })
    }
}

/// What an event says; `None` for a text id, which its report says. `text` is the text id just before.
pub(super) fn facts(world: &World, event: &Event, text: Option<ClOrdId>) -> Option<Facts> {
    let facts = match event {
        Event::Named(_) => return None,
        Event::Accepted(e) => Facts::new(world.name_of(e.to.session), "accepted")
            .order(world, e.to.session, ClientOrderId(e.request_id.0))
            .amount(e.quantity, e.price)
            .word(e.side)
            .word(e.time_in_force)
            .word(flags(e.flags))
            .option("account", e.account)
            .option("order", e.order_id)
            .on(world, e.instrument)
            .report(e.to, e.request_id),
        Event::Rejected(e) => {
            let named = e.client_order_id.unwrap_or(ClientOrderId(e.request_id.0));
            Facts::new(world.name_of(e.to.session), "rejected")
                .order(world, e.to.session, named)
                .word(e.reason)
                .option("highest", e.highest_request_id)
                .report(e.to, e.request_id)
        }
        Event::Executed(e) => Facts::new(world.name_of(e.to.session), "executed")
            .order(world, e.to.session, e.client_order_id)
            .amount(e.last_quantity, Some(e.last_price))
            .word(e.side)
            .word(if e.liquidity == Liquidity::Maker { "maker" } else { "taker" })
            .option("leaves", e.leaves_quantity)
            .option("cum", e.cum_quantity)
            .option("trade", e.trade_id)
            .option("account", e.account)
            .on(world, e.instrument)
            .report(e.to, e.request_id),
        Event::Canceled(e) => Facts::new(world.name_of(e.to.session), "canceled")
            .order(world, e.to.session, e.client_order_id)
            .amount(e.canceled_quantity, e.resting_price)
            .word(e.side)
            .word(e.reason)
            .option("cum", e.cum_quantity)
            .on(world, e.instrument)
            .report(e.to, e.request_id),
        Event::Replaced(e) => Facts::new(world.name_of(e.to.session), "replaced")
            .order(world, e.to.session, e.client_order_id)
            .amount(e.quantity, e.price)
            .word(e.side)
            .word(if e.kept_place { "kept-place" } else { "lost-place" })
            .option("cum", e.cum_quantity)
            .on(world, e.instrument)
            .report(e.to, e.request_id),
        Event::Restated(e) => Facts::new(world.name_of(e.to.session), "restated")
            .order(world, e.to.session, e.client_order_id)
            .amount(e.leaves_quantity, e.price)
            .word(e.side)
            .word(e.reason)
            .option("cum", e.cum_quantity)
            .on(world, e.instrument)
            .report(e.to, RequestId(0)),
        Event::Expired(e) => Facts::new(world.name_of(e.to.session), "expired")
            .order(world, e.to.session, e.client_order_id)
            .amount(e.expired_quantity, e.resting_price)
            .word(e.side)
            .word(e.reason)
            .option("left", e.expired_quantity)
            .option("cum", e.cum_quantity)
            .on(world, e.instrument)
            .report(e.to, e.request_id),
        Event::OrderStatus(e) => Facts::new(world.name_of(e.to.session), "state")
            .order(world, e.to.session, e.client_order_id)
            .amount(e.leaves_quantity, e.price)
            .word(e.side)
            .word(e.status)
            .option("cum", e.cum_quantity)
            .on(world, e.instrument)
            .report(e.to, e.request_id),
        Event::MassCanceled(e) => Facts::new(world.name_of(e.to.session), "mass-canceled")
            .option("orders", e.orders)
            .report(e.to, e.request_id),
        Event::AdminDone(e) => Facts::new(world.name_of(e.to.session), "done").report(e.to, e.request_id),
        other => venue_facts(world, other),
    };
    Some(match text {
        Some(text) => facts.option("text", text),
        None => facts,
    })
}

fn venue_facts(world: &World, event: &Event) -> Facts {
    let venue = |kind| Facts::new("venue", kind);
    match event {
        Event::Added(e) => {
            venue("added").amount(e.quantity, Some(e.price)).word(e.side).option("order", e.order_id)
        }
        Event::Reduced(e) => venue("reduced")
            .amount(e.quantity, Some(e.price))
            .word(e.side)
            .word(if e.gone { "gone" } else { "stays" })
            .option("order", e.order_id),
        Event::Trade(e) => venue("trade")
            .amount(e.quantity, Some(e.price))
            .word(e.taker_side.map_or("auction", Side::name))
            .option("maker", e.maker_order_id)
            .option("taker", e.taker_order_id)
            .option("trade", e.trade_id),
        Event::PhaseChanged(instrument, phase) => {
            venue("phase").word(world.symbol_of(*instrument)).word(phase)
        }
        Event::InstrumentDefined(e) => venue("defined").word(e.symbol),
        Event::UserDefined(e) => venue("defined").word(e.name),
        Event::LoggedIn(e) => Facts::new(world.name_of(e.session), "logged-in")
            .option("day", e.trading_day)
            .option("last", e.last_report)
            .option("highest", e.highest_request_id)
            .option("connection", e.connection),
        Event::LoginRefused(e) => Facts::new(world.name_of(e.session), "login-refused").word(e.reason),
        Event::ConnectionEnded(session, connection, reason) => {
            Facts::new(world.name_of(*session), "ended").word(reason).option("connection", connection)
        }
        Event::DayStarted(day) => venue("day").word(day),
        Event::Checkpoint(_) => venue("checkpoint"),
        Event::Skipped(_) => venue("skipped"),
        _ => venue("other"),
    }
}

fn flags(flags: OrderFlags) -> &'static str {
    if flags.post_only { "post-only" } else { "plain" }
}

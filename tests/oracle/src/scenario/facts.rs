//! Events in the words of the scenario language, and the comparison of an expected line with an event.

use protocol::{
    ClOrdId, ClientOrderId, Event, InstrumentId, OrderFlags, Price, Quantity, Recipient, RequestId, SessionId,
};

use super::world::World;

mod rules;
mod venue;

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
pub(super) const QUIET: [&str; 8] =
    ["added", "reduced", "trade", "defined", "checkpoint", "configured", "indicative", "settled"];

impl Facts {
    fn new(who: impl Into<String>, kind: &'static str) -> Self {
        Self { who: who.into(), kind, ..Self::default() }
    }

    fn order(mut self, world: &World, session: SessionId, id: ClientOrderId) -> Self {
        self.order = world.labels_of(session, id);
        self
    }

    fn amount(self, quantity: Quantity, price: Option<Price>) -> Self {
        self.amount_or(quantity, price, "none")
    }

    /// A quantity at a price, or at a word where there is no price.
    fn amount_or(mut self, quantity: Quantity, price: Option<Price>, word: impl ToString) -> Self {
        let price = price.map_or_else(|| word.to_string(), |price| price.to_string());
        self.amount = Some(format!("{quantity}@{price}"));
        self
    }

    fn option(mut self, name: &'static str, value: impl ToString) -> Self {
        self.options.push((name, value.to_string()));
        self
    }

    /// An option that says `none` where there is nothing.
    fn maybe(self, name: &'static str, value: Option<impl ToString>) -> Self {
        self.option(name, value.map_or_else(|| "none".to_string(), |value| value.to_string()))
    }

    fn word(mut self, word: impl ToString) -> Self {
        self.words.push(word.to_string());
        self
    }

    fn words(mut self, words: impl Iterator<Item = &'static str>) -> Self {
        self.words.extend(words.map(str::to_string));
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
            .amount_or(e.quantity, e.price, e.order_type)
            .word(e.side)
            .word(e.order_type)
            .word(e.time_in_force)
            .words(flags(e.flags))
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
            .word(e.liquidity)
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
            .maybe("stop", e.stop_price)
            .option("cum", e.cum_quantity)
            .on(world, e.instrument)
            .report(e.to, e.request_id),
        Event::MassCanceled(e) => Facts::new(world.name_of(e.to.session), "mass-canceled")
            .option("orders", e.orders)
            .report(e.to, e.request_id),
        Event::AdminDone(e) => Facts::new(world.name_of(e.to.session), "done").report(e.to, e.request_id),
        other => match rules::facts(world, other) {
            Some(facts) => facts,
            None => venue::facts(world, other),
        },
    };
    Some(match text {
        Some(text) => facts.option("text", text),
        None => facts,
    })
}

fn flags(flags: OrderFlags) -> impl Iterator<Item = &'static str> {
    let names = [
        (flags == OrderFlags::default(), "plain"),
        (flags.post_only, "post-only"),
        (flags.slide, "slide"),
        (flags.hidden, "hidden"),
        (flags.reduce_only, "reduce-only"),
    ];
    names.into_iter().filter(|(is_set, _)| *is_set).map(|(_, name)| name)
}

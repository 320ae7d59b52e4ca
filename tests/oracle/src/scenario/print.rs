//! Commands in the words of the scenario language, with numbers for all names: what a failing stream is printed as.

use protocol::{
    Body, CancelOrder, Command, MassCancel, MassQuote, NewOrder, OrderKey, QuoteSide, ReplaceOrder, Role,
    SelfTrade, SessionId, Terms, UserDefinition,
};

use super::world::START;

mod rules;

/// A stream as a scenario. Passwords are left out: no rule depends on them.
#[must_use]
pub fn stream_text(commands: &[Command]) -> String {
    let mut text = String::from("scenario shrunk stream\nrulebook 1\n");
    let mut time = START;
    for command in commands {
        let stamp = command.timestamp.0;
        if stamp != time {
            let sign = if stamp > time { '+' } else { '-' };
            text.push_str(&format!("clock {sign}{}ns\n", stamp.abs_diff(time)));
            time = stamp;
        }
        text.push_str(&command_text(command));
        text.push('\n');
    }
    text
}

/// One command as a step.
#[must_use]
pub fn command_text(command: &Command) -> String {
    let who = match command.session {
        SessionId::SYSTEM => "system".to_string(),
        session => format!("#{session}"),
    };
    format!("{who}: {} id={} connection={}", body_text(command), command.request_id, command.connection)
}

fn body_text(command: &Command) -> String {
    match &command.body {
        Body::Malformed(_) => "malformed".to_string(),
        Body::NewOrder(order) => new_text(command, order),
        Body::CancelOrder(CancelOrder { order, side, cl_ord_id }) => {
            format!("cancel {}{}{}", key(order), word(*side), option("text", *cl_ord_id))
        }
        Body::ReplaceOrder(replace) => replace_text(replace),
        Body::MassQuote(quote) => quote_text(command, quote),
        Body::MassCancel(MassCancel { session, instrument, side }) => format!(
            "mass-cancel of=#{session}{}{}",
            instrument.map_or_else(String::new, |id| format!(" on=#{id}")),
            word(*side)
        ),
        Body::OrderStatus(status) => format!("status {}", key(&status.order)),
        Body::Login(login) => format!("login{}", option("day", login.trading_day)),
        Body::Logout => "logout".to_string(),
        Body::Disconnect(reason) => format!("disconnect {reason}"),
        Body::Start => "start".to_string(),
        Body::Tick(_) => "tick".to_string(),
        Body::EndOfDay => "end-of-day".to_string(),
        Body::SetCapacities(c) => format!(
            "capacities orders={} levels={} texts={} sessions={} instruments={}",
            c.orders, c.levels, c.cl_ord_ids, c.sessions, c.instruments
        ),
        Body::SetRulebook(version) => format!("rulebook {version}"),
        Body::PutInstrument(d) => format!(
            "instrument {} number={} tick={} lot={} min={} max={} quantity-max={} price-scale={} quantity-scale={}",
            d.symbol,
            d.instrument,
            d.tick_size,
            d.lot_size,
            d.price_min,
            d.price_max,
            d.quantity_max,
            d.price_scale,
            d.quantity_scale
        ),
        Body::SetPhase(instrument, phase) => format!("phase #{instrument} {phase}"),
        Body::PutUser(user) => user_text(user),
        Body::DisconnectUser(session) => format!("disconnect-user #{session}"),
        body => rules::text(body),
    }
}

fn new_text(command: &Command, order: &NewOrder) -> String {
    let price = order.price.map_or_else(|| order.order_type.to_string(), |price| price.to_string());
    let flags = order.flags;
    let flag = |is_set, name| if is_set { name } else { "" };
    format!(
        "new #{} {} {}@{price} {}{}{}{}{} on=#{}{}{}{}",
        command.request_id,
        order.side,
        order.quantity,
        order.time_in_force,
        flag(flags.post_only, " post-only"),
        flag(flags.slide, " slide"),
        flag(flags.hidden, " hidden"),
        flag(flags.reduce_only, " reduce-only"),
        order.instrument,
        option("account", Some(order.account).filter(|account| account.0 != 0)),
        option("text", order.cl_ord_id),
        terms_text(&order.terms),
    )
}

fn terms_text(terms: &Terms) -> String {
    [
        option("stop", terms.stop_price()),
        option("trail", terms.trail()),
        option("display", terms.display()),
        option("high", terms.display_high()),
        option("expire", terms.expire_time()),
        option("minimum", terms.minimum()),
        option("peg", terms.peg().map(|peg| format!("{}{:+}", peg.reference, peg.offset))),
        option("stp", terms.self_trade().map(self_trade)),
        option("oco", terms.oco()),
        option("parent", terms.parent().map(|id| format!("#{id}"))),
    ]
    .concat()
}

fn self_trade(self_trade: SelfTrade) -> String {
    format!("{}:{}", self_trade.group, self_trade.action)
}

fn replace_text(replace: &ReplaceOrder) -> String {
    let price = replace.price.map_or_else(|| "market".to_string(), |price| price.to_string());
    format!(
        "replace {} {}@{price}{}{}{}{}",
        key(&replace.order),
        replace.quantity,
        word(replace.side),
        option("stop", replace.stop_price),
        option("display", replace.display),
        option("text", replace.cl_ord_id)
    )
}

fn quote_text(command: &Command, quote: &MassQuote) -> String {
    let side = |name: &str, side: &Option<QuoteSide>| {
        side.as_ref().map_or_else(String::new, |side| {
            let entries = side.entries().iter().map(|entry| format!(" {}@{}", entry.lots, entry.ticks));
            format!(" {name}{}", entries.collect::<String>())
        })
    };
    format!(
        "quote #{} on=#{} base={}{}{}{}",
        command.request_id,
        quote.instrument,
        quote.base,
        option("account", Some(quote.account).filter(|account| account.0 != 0)),
        side("bids", &quote.bids),
        side("asks", &quote.asks),
    )
}

fn user_text(user: &UserDefinition) -> String {
    format!(
        "user {} session={}{}{}{} grace={}ms",
        user.name,
        user.session,
        match user.role {
            Role::Operator => " operator",
            Role::Observer => " observer",
            Role::Trader => "",
        },
        if user.enabled { "" } else { " disabled" },
        if user.cancel_on_disconnect { " cancel-on-disconnect" } else { "" },
        user.grace_ms
    )
}

fn key(key: &OrderKey) -> String {
    match key {
        OrderKey::Id(id) => format!("#{id}"),
        OrderKey::Text(text) => format!("\"{text}\""),
    }
}

fn word(word: Option<impl ToString>) -> String {
    word.map_or_else(String::new, |word| format!(" {}", word.to_string()))
}

fn option(name: &str, value: Option<impl ToString>) -> String {
    value.map_or_else(String::new, |value| format!(" {name}={}", value.to_string()))
}

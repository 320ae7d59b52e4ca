//! Commands in the words of the scenario language, with numbers for all names: what a failing stream is printed as.

use protocol::{
    Body, CancelOrder, Command, MassCancel, NewOrder, OrderKey, ReplaceOrder, Role, SessionId, UserDefinition,
};

use super::world::START;

/// A stream as a scenario. Passwords are left out: no rule depends on them.
#[must_use]
pub fn stream_text(commands: &[Command]) -> String {
    let mut text = String::from("scenario shrunk stream\n");
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
        Body::ReplaceOrder(ReplaceOrder { order, side, price, quantity, cl_ord_id, .. }) => {
            let price = price.map_or_else(|| "market".to_string(), |price| price.to_string());
            format!("replace {} {quantity}@{price}{}{}", key(order), word(*side), option("text", *cl_ord_id))
        }
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
        other => format!("{other:?}"),
    }
}

fn new_text(command: &Command, order: &NewOrder) -> String {
    let price = order.price.map_or_else(|| "market".to_string(), |price| price.to_string());
    format!(
        "new #{} {} {}@{price} {}{} on=#{}{}{}{}{}{}",
        command.request_id,
        order.side,
        order.quantity,
        order.time_in_force,
        if order.flags.post_only { " post-only" } else { "" },
        order.instrument,
        option("account", Some(order.account).filter(|account| account.0 != 0)),
        option("text", order.cl_ord_id),
        option("stop", order.terms.stop_price()),
        option("display", order.terms.display()),
        option("expire", order.terms.expire_time()),
    )
}

fn user_text(user: &UserDefinition) -> String {
    format!(
        "user {} session={}{}{}{} grace={}ms",
        user.name,
        user.session,
        if user.role == Role::Operator { " operator" } else { "" },
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

//! Commands of the log as lines for people and as JSON for scripts. Prices and quantities are in the log's own units,
//! since a line must be readable without the instrument's definition.

mod rules;

use journaler::Skip;
use protocol::{Body, Command, OrderKey, Sequence, Timestamp};
use serde_json::{Map, Value, json};

/// One line: sequence, receive time, who, and what.
#[must_use]
pub fn command_line(sequence: Sequence, command: &Command) -> String {
    let Command { session, connection, request_id, timestamp, .. } = command;
    let (kind, fields) = describe(&command.body);
    let mut line = format!(
        "{sequence} {} session {session} connection {connection} request {request_id} {kind}",
        time(*timestamp)
    );
    append(&mut line, &fields);
    line
}

/// What a request asks for, without who, when and where.
#[must_use]
pub fn body_line(body: &Body) -> String {
    let (kind, fields) = describe(body);
    let mut line = kind.to_owned();
    append(&mut line, &fields);
    line
}

/// The same as one object.
#[must_use]
pub fn body_json(body: &Body) -> Value {
    let (kind, mut fields) = describe(body);
    fields.insert("kind".to_owned(), json!(kind));
    Value::Object(fields)
}

fn append(line: &mut String, fields: &Map<String, Value>) {
    for (name, value) in fields {
        match value {
            Value::String(text) => line.push_str(&format!(" {name} {text}")),
            other => line.push_str(&format!(" {name} {other}")),
        }
    }
}

/// The same as one object.
#[must_use]
pub fn command_json(sequence: Sequence, command: &Command) -> Value {
    let (kind, mut fields) = describe(&command.body);
    fields.insert("sequence".to_owned(), json!(sequence.0));
    fields.insert("timestamp_ns".to_owned(), json!(command.timestamp.0));
    fields.insert("session".to_owned(), json!(command.session.0));
    fields.insert("connection".to_owned(), json!(command.connection.0));
    fields.insert("request_id".to_owned(), json!(command.request_id.0));
    fields.insert("kind".to_owned(), json!(kind));
    Value::Object(fields)
}

/// Kind of the command and its own fields.
fn describe(body: &Body) -> (&'static str, Map<String, Value>) {
    let fields = Fields::default();
    let (kind, Fields(fields)) = match body {
        Body::Malformed(error) => ("malformed", fields.text("error", error)),
        Body::NewOrder(order) => (
            "new_order",
            fields
                .terms(&order.terms)
                .text("side", order.side)
                .put("quantity", order.quantity.0)
                .put("instrument", order.instrument.0)
                .maybe("price", order.price.map(|price| price.0))
                .text("order_type", order.order_type)
                .text("time_in_force", order.time_in_force)
                .maybe("post_only", order.flags.post_only.then_some(true))
                .maybe("account", (order.account.0 != 0).then_some(order.account.0))
                .maybe("slide", order.flags.slide.then_some(true))
                .maybe("hidden", order.flags.hidden.then_some(true))
                .maybe("reduce_only", order.flags.reduce_only.then_some(true))
                .maybe("cl_ord_id", order.cl_ord_id.map(|id| id.to_string())),
        ),
        Body::CancelOrder(cancel) => (
            "cancel_order",
            fields
                .order(&cancel.order)
                .maybe("side", cancel.side.map(|side| side.to_string()))
                .maybe("cl_ord_id", cancel.cl_ord_id.map(|id| id.to_string())),
        ),
        Body::ReplaceOrder(replace) => (
            "replace_order",
            fields
                .order(&replace.order)
                .put("quantity", replace.quantity.0)
                .maybe("price", replace.price.map(|price| price.0))
                .maybe("stop_price", replace.stop_price.map(|price| price.0))
                .maybe("display_quantity", replace.display.map(|quantity| quantity.0))
                .maybe("side", replace.side.map(|side| side.to_string()))
                .maybe("cl_ord_id", replace.cl_ord_id.map(|id| id.to_string())),
        ),
        Body::MassCancel(cancel) => (
            "mass_cancel",
            fields
                .put("of_session", cancel.session.0)
                .maybe("instrument", cancel.instrument.map(|instrument| instrument.0))
                .maybe("side", cancel.side.map(|side| side.to_string())),
        ),
        Body::OrderStatus(request) => ("order_status", fields.order(&request.order)),
        Body::Login(login) => ("login", fields.maybe("trading_day", login.trading_day.map(|day| day.0))),
        Body::Logout => ("logout", fields),
        Body::Disconnect(reason) => ("disconnect", fields.text("reason", reason)),
        Body::Start => ("start", fields),
        Body::Tick(tick) => (
            "tick",
            fields
                .put("checkpoint_sequence", tick.checkpoint_sequence.0)
                .text("checkpoint_hash", hash(tick.checkpoint_hash)),
        ),
        Body::EndOfDay => ("end_of_day", fields),
        Body::SetCapacities(capacities) => (
            "set_capacities",
            fields
                .put("orders", capacities.orders)
                .put("levels", capacities.levels)
                .put("cl_ord_ids", capacities.cl_ord_ids)
                .put("sessions", capacities.sessions)
                .put("instruments", capacities.instruments),
        ),
        Body::SetRulebook(version) => ("set_rulebook", fields.put("version", *version)),
        Body::PutInstrument(definition) => (
            "put_instrument",
            fields
                .put("instrument", definition.instrument.0)
                .text("symbol", definition.symbol)
                .put("price_scale", definition.price_scale)
                .put("quantity_scale", definition.quantity_scale)
                .put("tick_size", definition.tick_size.0)
                .put("lot_size", definition.lot_size.0)
                .put("price_min", definition.price_min.0)
                .put("price_max", definition.price_max.0)
                .put("quantity_max", definition.quantity_max.0),
        ),
        Body::SetPhase(instrument, phase) => {
            ("set_phase", fields.put("instrument", instrument.0).text("phase", phase))
        }
        // The credential stays out: a hash of a short password is not for logs and screens.
        Body::PutUser(user) => (
            "put_user",
            fields
                .put("of_session", user.session.0)
                .text("name", user.name)
                .text("role", user.role)
                .put("enabled", user.enabled)
                .put("cancel_on_disconnect", user.cancel_on_disconnect)
                .put("grace_ms", user.grace_ms),
        ),
        Body::DisconnectUser(session) => ("disconnect_user", fields.put("of_session", session.0)),
        other => rules::describe(other, fields),
    };
    (kind, fields)
}

/// Fields in the order in which they are added, where JSON keeps it.
#[derive(Default)]
struct Fields(Map<String, Value>);

impl Fields {
    fn put(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    fn text(self, name: &str, value: impl ToString) -> Self {
        self.put(name, value.to_string())
    }

    fn maybe(self, name: &str, value: Option<impl Into<Value>>) -> Self {
        match value {
            Some(value) => self.put(name, value),
            None => self,
        }
    }

    fn order(self, key: &OrderKey) -> Self {
        match key {
            OrderKey::Id(id) => self.put("order", id.0),
            OrderKey::Text(id) => self.text("order", id),
        }
    }
}

/// Frames that operators had skipped, as a list of objects.
#[must_use]
pub fn skips_json<'a>(skips: impl IntoIterator<Item = &'a Skip>) -> Value {
    let object = |skip: &Skip| {
        json!({
            "sequence": skip.sequence.0,
            "frame_hash": skip.frame_hash.to_string(),
            "who": skip.who,
            "why": skip.why,
            "at_ns": skip.at.0,
        })
    };
    skips.into_iter().map(object).collect()
}

/// The same of one, as a line.
#[must_use]
pub fn skip_line(skip: &Skip) -> String {
    let Skip { sequence, who, why, at, .. } = skip;
    format!("frame {sequence} is skipped, as {who} ordered at {}: {why}", time(*at))
}

/// A hash as 16 hexadecimal digits.
#[must_use]
pub fn hash(value: u64) -> String {
    format!("{value:016x}")
}

/// A moment as UTC in ISO 8601 with nanoseconds.
#[must_use]
pub fn time(timestamp: Timestamp) -> String {
    let (seconds, nanoseconds) = (timestamp.0 / 1_000_000_000, timestamp.0 % 1_000_000_000);
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{nanoseconds:09}Z")
}

/// Year, month and day of a number of days after 1970-01-01. Years are counted from March, so that the leap day is the
/// last of its year.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_TO_MARCH_OF_YEAR_0: u64 = 719_468;
    const DAYS_OF_400_YEARS: u64 = 146_097;
    let days = days + DAYS_TO_MARCH_OF_YEAR_0;
    let (era, day_of_era) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use protocol::{
        AccountId, ClOrdId, InstrumentId, NewOrder, OrderFlags, OrderType, Price, Quantity, RequestId,
        SessionId, Side, TimeInForce,
    };

    use super::*;

    #[track_caller]
    fn check(seconds: u64, expected: &str) {
        assert_eq!(time(Timestamp(seconds * 1_000_000_000 + 5)), format!("{expected}.000000005Z"));
    }

    #[test]
    fn times_are_of_the_calendar() {
        check(0, "1970-01-01T00:00:00");
        check(951_782_399, "2000-02-28T23:59:59");
        check(951_782_400, "2000-02-29T00:00:00");
        check(951_868_800, "2000-03-01T00:00:00");
        check(1_777_689_383, "2026-05-02T02:36:23");
        check(4_107_542_399, "2100-02-28T23:59:59");
        check(4_107_542_400, "2100-03-01T00:00:00");
        assert!(time(Timestamp(u64::MAX)).starts_with("2554-07-21T"));
    }

    #[test]
    fn an_order_is_a_line_and_an_object() {
        let command = Command {
            session: SessionId(3),
            request_id: RequestId(9),
            body: Body::NewOrder(NewOrder {
                instrument: InstrumentId(1),
                side: Side::Buy,
                order_type: OrderType::Limit,
                time_in_force: TimeInForce::Day,
                flags: OrderFlags { post_only: true, ..OrderFlags::default() },
                price: Some(Price(-5)),
                quantity: Quantity(7),
                account: AccountId(0),
                cl_ord_id: ClOrdId::new(b"abc").ok(),
                terms: protocol::Terms::default(),
            }),
            ..Command::default()
        };
        let line = command_line(Sequence(4), &command);
        assert!(
            line.starts_with("4 1970-01-01T00:00:00.000000000Z session 3 connection 0 request 9 new_order"),
            "{line}"
        );
        for part in [" side buy", " quantity 7", " price -5", " post_only true", " cl_ord_id abc"] {
            assert!(line.contains(part), "{line}");
        }
        let object = command_json(Sequence(4), &command);
        assert_eq!(object["sequence"], 4);
        assert_eq!(object["kind"], "new_order");
        assert_eq!(object["price"], -5);
        assert!(object.get("account").is_none() && object.get("stop_price").is_none());
    }
}

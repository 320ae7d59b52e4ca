//! What the words of a scenario stand for, and the commands that its steps become. It knows names, labels, connections and
//! the next request ids; it doesn't know what the venue makes of a command.

use std::collections::BTreeMap;

use protocol::{
    Body, ClientOrderId, Command, ConnectionId, DecodeError, EndReason, InstrumentId, LoginRequest, OrderKey,
    OrderStatusRequest, RequestId, SessionId, Timestamp, TradingDay,
};

use super::orders::entries;
use super::words::{Words, nanoseconds, parse, text_id};

/// Unix time at which scenarios begin, in nanoseconds.
pub(super) const START: u64 = 1_700_000_000_000_000_000;

/// Names and labels of a scenario.
#[derive(Clone, Debug)]
pub struct World {
    pub(super) users: BTreeMap<String, SessionId>,
    pub(super) symbols: BTreeMap<String, InstrumentId>,
    labels: BTreeMap<(SessionId, String), ClientOrderId>,
    last_ids: BTreeMap<SessionId, u64>,
    connections: BTreeMap<SessionId, ConnectionId>,
    next_connection: u32,
    pub(super) default_instrument: InstrumentId,
    time: u64,
}

impl Default for World {
    fn default() -> Self {
        Self {
            users: BTreeMap::from([("system".to_string(), SessionId::SYSTEM)]),
            symbols: BTreeMap::new(),
            labels: BTreeMap::new(),
            last_ids: BTreeMap::new(),
            connections: BTreeMap::new(),
            next_connection: 1,
            default_instrument: InstrumentId(0),
            time: START,
        }
    }
}

impl World {
    /// The commands of a step: one, but for `users`, which creates and logs in each.
    ///
    /// # Errors
    /// What the step does not say, or says wrongly.
    pub fn commands(&mut self, step: &str) -> Result<Vec<Command>, String> {
        let (who, rest) = match step.split_once(':') {
            Some((who, rest)) if !who.contains([' ', '=', '"']) => (who, rest),
            _ => ("system", step),
        };
        let session = self.session(who)?;
        let mut words = Words::new(rest);
        let verb = words.word("what to do")?;
        if verb == "users" {
            let names = words.rest();
            words.done()?;
            let mut commands = Vec::new();
            for name in names {
                commands.append(&mut self.commands(&format!("user {name}"))?);
                commands.append(&mut self.commands(&format!("{name}: login"))?);
            }
            return Ok(commands);
        }
        let id = words.number::<u64>("id")?;
        let connection = words.number::<u32>("connection")?.map(ConnectionId);
        let body = self.body(session, verb, &mut words, connection, id)?;
        words.done()?;
        let is_request = !matches!(body, Body::Login(_) | Body::Logout | Body::Disconnect(_));
        let more = if let Body::MassQuote(quote) = &body { entries(quote).saturating_sub(1) } else { 0 };
        let id = if is_request { self.use_id(session, id, more) } else { id.unwrap_or(0) };
        let connection = connection.or(self.connections.get(&session).copied()).unwrap_or(ConnectionId(0));
        Ok(vec![Command {
            session,
            connection,
            request_id: RequestId(id),
            timestamp: Timestamp(self.time),
            body,
        }])
    }

    /// Moves the time of the following commands: `+2s`, `-500ms`, `+1us`, `+7ns`.
    ///
    /// # Errors
    /// The text is no such thing.
    pub fn move_clock(&mut self, by: &str) -> Result<(), String> {
        let magnitude = nanoseconds(by.trim_start_matches(['+', '-']))?;
        self.time = match by.as_bytes().first() {
            Some(b'+') => self.time.saturating_add(magnitude),
            Some(b'-') => self.time.saturating_sub(magnitude),
            _ => return Err(format!("{by:?} is no change of the clock")),
        };
        Ok(())
    }

    /// The session of a name, or of `#number`.
    ///
    /// # Errors
    /// Nobody has the name.
    pub fn session(&self, name: &str) -> Result<SessionId, String> {
        match name.strip_prefix('#') {
            Some(number) => parse(number, "session number").map(SessionId),
            None => self.users.get(name).copied().ok_or_else(|| format!("nobody is named {name:?}")),
        }
    }

    /// The instrument of a symbol, or of `#number`.
    ///
    /// # Errors
    /// No instrument has the symbol.
    pub fn instrument(&self, symbol: &str) -> Result<InstrumentId, String> {
        match symbol.strip_prefix('#') {
            Some(number) => parse(number, "instrument number").map(InstrumentId),
            None => self.symbols.get(symbol).copied().ok_or_else(|| format!("no instrument {symbol:?}")),
        }
    }

    /// The name of a session.
    #[must_use]
    pub fn name_of(&self, session: SessionId) -> String {
        if session == SessionId::SYSTEM {
            return "system".to_string();
        }
        let name = self.users.iter().find(|(_, known)| **known == session);
        name.map_or_else(|| format!("#{session}"), |(name, _)| name.clone())
    }

    /// The symbol of an instrument.
    #[must_use]
    pub fn symbol_of(&self, instrument: InstrumentId) -> String {
        let symbol = self.symbols.iter().find(|(_, known)| **known == instrument);
        symbol.map_or_else(|| format!("#{instrument}"), |(symbol, _)| symbol.clone())
    }

    /// The labels of a session's order; its number where it has none.
    #[must_use]
    pub fn labels_of(&self, session: SessionId, id: ClientOrderId) -> Vec<String> {
        let labels: Vec<String> = self
            .labels
            .iter()
            .filter(|((owner, _), known)| *owner == session && **known == id)
            .map(|((_, label), _)| label.clone())
            .collect();
        if labels.is_empty() { vec![format!("#{id}")] } else { labels }
    }

    /// The id that the session's next request has, where it sets none.
    pub(super) fn next_id(&self, session: SessionId) -> u64 {
        self.last_ids.get(&session).copied().unwrap_or(0).saturating_add(1)
    }

    /// Uses up an id, and so many more behind it.
    fn use_id(&mut self, session: SessionId, id: Option<u64>, more: u64) -> u64 {
        let id = id.unwrap_or(self.next_id(session));
        let last = self.last_ids.entry(session).or_default();
        *last = id.saturating_add(more).max(*last);
        id
    }

    /// Gives an order a label; one by number has none.
    pub(super) fn label(&mut self, session: SessionId, label: &str, id: u64) {
        if !label.starts_with('#') {
            self.labels.insert((session, label.to_string()), ClientOrderId(id));
        }
    }

    /// The instrument of the option `on`, else the first one.
    pub(super) fn instrument_option(&self, words: &mut Words<'_>) -> Result<InstrumentId, String> {
        words.option("on").map_or(Ok(self.default_instrument), |symbol| self.instrument(symbol))
    }

    /// A time: `+5s` from now, or nanoseconds since the Unix epoch.
    pub(super) fn moment(&self, text: &str) -> Result<Timestamp, String> {
        Ok(Timestamp(match text.as_bytes().first() {
            Some(b'+') => self.time.saturating_add(nanoseconds(&text[1..])?),
            Some(b'-') => self.time.saturating_sub(nanoseconds(&text[1..])?),
            _ => parse(text, "time")?,
        }))
    }

    /// The order that a word names: a label, `user.label`, `#number` or `"text"`.
    pub(super) fn order(&self, session: SessionId, word: &str) -> Result<OrderKey, String> {
        if let Some(text) = word.strip_prefix('"') {
            return Ok(OrderKey::Text(text_id(text.trim_end_matches('"'))?));
        }
        if let Some(number) = word.strip_prefix('#') {
            return parse(number, "order number").map(|id| OrderKey::Id(ClientOrderId(id)));
        }
        let (owner, label) = match word.split_once('.') {
            Some((owner, label)) => (self.session(owner)?, label),
            None => (session, word),
        };
        let id = self.labels.get(&(owner, label.to_string()));
        id.map(|id| OrderKey::Id(*id)).ok_or_else(|| format!("no order is labelled {word:?}"))
    }

    fn body(
        &mut self,
        session: SessionId,
        verb: &str,
        words: &mut Words<'_>,
        connection: Option<ConnectionId>,
        id: Option<u64>,
    ) -> Result<Body, String> {
        Ok(match verb {
            "new" => Body::NewOrder(self.new_order(session, words, id)?),
            "cancel" => Body::CancelOrder(self.cancel_order(session, words)?),
            "replace" => Body::ReplaceOrder(self.replace_order(session, words)?),
            "mass-cancel" => Body::MassCancel(self.mass_cancel(session, words)?),
            "quote" => Body::MassQuote(self.mass_quote(session, words, id)?),
            "status" => Body::OrderStatus(OrderStatusRequest {
                order: self.order(session, words.word("the order")?)?,
            }),
            "malformed" => Body::Malformed(DecodeError::Kind),
            "login" => {
                let connection = connection.unwrap_or(ConnectionId(self.next_connection));
                self.next_connection = self.next_connection.max(connection.0.saturating_add(1));
                self.connections.insert(session, connection);
                Body::Login(LoginRequest { trading_day: words.number("day")?.map(TradingDay) })
            }
            "logout" => Body::Logout,
            "disconnect" => Body::Disconnect(words.named(EndReason::from_name).unwrap_or(EndReason::Closed)),
            _ => match self.rules_body(verb, words)? {
                Some(body) => body,
                None => self.admin_body(verb, words)?,
            },
        })
    }
}

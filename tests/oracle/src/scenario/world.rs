//! What the words of a scenario stand for, and the commands that its steps become. It knows names, labels, connections and
//! the next request ids; it doesn't know what the venue makes of a command.

use std::collections::BTreeMap;

use protocol::{
    AccountId, Body, CancelOrder, Capacities, ClOrdId, ClientOrderId, Command, ConnectionId, Credential,
    DecodeError, EndReason, InstrumentDefinition, InstrumentId, LoginRequest, MassCancel, NewOrder,
    OrderFlags, OrderKey, OrderStatusRequest, OrderType, Phase, Price, Quantity, ReplaceOrder, RequestId,
    Role, Sequence, SessionId, Side, Symbol, Terms, Tick, TimeInForce, Timestamp, TradingDay, UserDefinition,
    UserName,
};

/// Unix time at which scenarios begin, in nanoseconds.
pub(super) const START: u64 = 1_700_000_000_000_000_000;

/// The words after a verb: plain ones, and options `name=value`.
struct Words<'a> {
    plain: std::collections::VecDeque<&'a str>,
    options: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    fn new(text: &'a str) -> Self {
        let (mut plain, mut options) = (std::collections::VecDeque::new(), BTreeMap::new());
        for word in text.split_whitespace() {
            match word.split_once('=') {
                Some((name, value)) if !word.starts_with('"') => {
                    options.insert(name, value);
                }
                _ => plain.push_back(word),
            }
        }
        Self { plain, options }
    }

    fn word(&mut self, what: &str) -> Result<&'a str, String> {
        self.plain.pop_front().ok_or_else(|| format!("{what} is missing"))
    }

    fn option(&mut self, name: &str) -> Option<&'a str> {
        self.options.remove(name)
    }

    fn number<T: std::str::FromStr>(&mut self, name: &str) -> Result<Option<T>, String> {
        self.option(name).map(|value| parse(value, name)).transpose()
    }

    /// Takes a plain word out, wherever it stands.
    fn flag(&mut self, name: &str) -> bool {
        let found = self.plain.iter().position(|word| *word == name);
        found.is_some_and(|at| self.plain.remove(at).is_some())
    }

    /// Takes out the first plain word that is one of an enumeration's names.
    fn named<T>(&mut self, from_name: impl Fn(&str) -> Option<T>) -> Option<T> {
        let (at, value) =
            self.plain.iter().enumerate().find_map(|(at, word)| Some((at, from_name(word)?)))?;
        self.plain.remove(at);
        Some(value)
    }

    fn done(self) -> Result<(), String> {
        match (self.plain.front(), self.options.keys().next()) {
            (None, None) => Ok(()),
            (Some(word), _) | (None, Some(word)) => Err(format!("{word:?} means nothing here")),
        }
    }
}

pub(super) fn parse<T: std::str::FromStr>(text: &str, what: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{text:?} is no {what}"))
}

/// Names and labels of a scenario.
#[derive(Clone, Debug)]
pub struct World {
    users: BTreeMap<String, SessionId>,
    symbols: BTreeMap<String, InstrumentId>,
    labels: BTreeMap<(SessionId, String), ClientOrderId>,
    last_ids: BTreeMap<SessionId, u64>,
    connections: BTreeMap<SessionId, ConnectionId>,
    next_connection: u32,
    default_instrument: InstrumentId,
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
            let names: Vec<&str> = words.plain.drain(..).collect();
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
        let id = if is_request { self.use_id(session, id) } else { id.unwrap_or(0) };
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

    fn use_id(&mut self, session: SessionId, id: Option<u64>) -> u64 {
        let last = self.last_ids.entry(session).or_default();
        let id = id.unwrap_or(last.saturating_add(1));
        *last = id.max(*last);
        id
    }

    /// The order that a word names: a label, `user.label`, `#number` or `"text"`.
    fn order(&self, session: SessionId, word: &str) -> Result<OrderKey, String> {
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
            "cancel" => Body::CancelOrder(CancelOrder {
                order: self.order(session, words.word("the order")?)?,
                side: words.named(Side::from_name),
                cl_ord_id: words.option("text").map(text_id).transpose()?,
            }),
            "replace" => {
                let order = self.order(session, words.word("the order")?)?;
                let (quantity, price) = quantity_and_price(words.word("QUANTITY@PRICE")?)?;
                Body::ReplaceOrder(ReplaceOrder {
                    order,
                    side: words.named(Side::from_name),
                    price,
                    quantity,
                    stop_price: None,
                    display: None,
                    cl_ord_id: words.option("text").map(text_id).transpose()?,
                })
            }
            "mass-cancel" => Body::MassCancel(MassCancel {
                session: words.option("of").map_or(Ok(session), |name| self.session(name))?,
                instrument: words.option("on").map(|symbol| self.instrument(symbol)).transpose()?,
                side: words.named(Side::from_name),
            }),
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
            _ => self.admin_body(verb, words)?,
        })
    }

    fn new_order(
        &mut self,
        session: SessionId,
        words: &mut Words<'_>,
        id: Option<u64>,
    ) -> Result<NewOrder, String> {
        let label = words.word("the order's label")?;
        let side = words.word("the side")?;
        let side = Side::from_name(side).ok_or_else(|| format!("{side:?} is no side"))?;
        let (quantity, price) = quantity_and_price(words.word("QUANTITY@PRICE")?)?;
        let instrument = match words.option("on") {
            Some(symbol) => self.instrument(symbol)?,
            None => self.default_instrument,
        };
        if !label.starts_with('#') {
            let last = self.last_ids.get(&session).copied().unwrap_or(0);
            let id = ClientOrderId(id.unwrap_or(last.saturating_add(1)));
            self.labels.insert((session, label.to_string()), id);
        }
        Ok(NewOrder {
            instrument,
            side,
            order_type: if price.is_some() { OrderType::Limit } else { OrderType::Market },
            time_in_force: words.named(TimeInForce::from_name).unwrap_or(TimeInForce::Day),
            flags: OrderFlags { post_only: words.flag("post-only"), ..OrderFlags::default() },
            price,
            quantity,
            account: AccountId(words.number("account")?.unwrap_or(0)),
            cl_ord_id: words.option("text").map(text_id).transpose()?,
            terms: Terms::default()
                .with_stop_price(words.number("stop")?.map(Price))
                .with_display(words.number("display")?.map(Quantity))
                .with_expire_time(words.number("expire")?.map(Timestamp)),
        })
    }

    fn admin_body(&mut self, verb: &str, words: &mut Words<'_>) -> Result<Body, String> {
        Ok(match verb {
            "instrument" => Body::PutInstrument(self.definition(words)?),
            "phase" => {
                let instrument = self.instrument(words.word("the instrument")?)?;
                Body::SetPhase(instrument, words.named(Phase::from_name).ok_or("the phase is missing")?)
            }
            "user" => Body::PutUser(self.user(words)?),
            "disconnect-user" => Body::DisconnectUser(self.session(words.word("the user")?)?),
            "capacities" => {
                let default = Capacities::default();
                Body::SetCapacities(Capacities {
                    orders: words.number("orders")?.unwrap_or(default.orders),
                    levels: words.number("levels")?.unwrap_or(default.levels),
                    cl_ord_ids: words.number("texts")?.unwrap_or(default.cl_ord_ids),
                    sessions: words.number("sessions")?.unwrap_or(default.sessions),
                    instruments: words.number("instruments")?.unwrap_or(default.instruments),
                })
            }
            "rulebook" => {
                let version = words.word("the version")?;
                Body::SetRulebook(version.parse().map_err(|_| format!("{version:?} is no version"))?)
            }
            "end-of-day" => Body::EndOfDay,
            "start" => Body::Start,
            "tick" => Body::Tick(Tick { checkpoint_sequence: Sequence(0), checkpoint_hash: 0 }),
            _ => return Err(format!("nobody can {verb:?}")),
        })
    }

    fn definition(&mut self, words: &mut Words<'_>) -> Result<InstrumentDefinition, String> {
        let symbol = words.word("the symbol")?;
        let known = self.symbols.get(symbol).copied();
        let next = self.symbols.values().map(|id| id.0).max().unwrap_or(0).saturating_add(1);
        let instrument = words.number("number")?.map(InstrumentId).or(known).unwrap_or(InstrumentId(next));
        self.symbols.entry(symbol.to_string()).or_insert(instrument);
        if self.default_instrument == InstrumentId(0) {
            self.default_instrument = instrument;
        }
        Ok(InstrumentDefinition {
            instrument,
            symbol: Symbol::new(symbol).ok_or("a symbol has 1 to 16 characters")?,
            price_scale: words.number("price-scale")?.unwrap_or(0),
            quantity_scale: words.number("quantity-scale")?.unwrap_or(0),
            tick_size: Price(words.number("tick")?.unwrap_or(1)),
            lot_size: Quantity(words.number("lot")?.unwrap_or(1)),
            price_min: Price(words.number("min")?.unwrap_or(1)),
            price_max: Price(words.number("max")?.unwrap_or(1_000_000)),
            quantity_max: Quantity(words.number("quantity-max")?.unwrap_or(1_000_000)),
        })
    }

    fn user(&mut self, words: &mut Words<'_>) -> Result<UserDefinition, String> {
        let name = words.word("the name")?;
        let known = self.users.get(name).copied();
        let next = self.users.values().map(|session| session.0).max().unwrap_or(0).saturating_add(1);
        let session = words.number("session")?.map(SessionId).or(known).unwrap_or(SessionId(next));
        self.users.entry(name.to_string()).or_insert(session);
        let grace = words.option("grace").map_or(Ok(0), nanoseconds)? / 1_000_000;
        Ok(UserDefinition {
            session,
            name: UserName::new(name).ok_or("a name has 1 to 6 characters")?,
            credential: Credential { scheme: 1, salt: [0; 16], hash: [0; 32] },
            role: if words.flag("operator") { Role::Operator } else { Role::Trader },
            enabled: !words.flag("disabled"),
            cancel_on_disconnect: words.flag("cancel-on-disconnect"),
            grace_ms: grace.try_into().map_err(|_| "the grace is too long")?,
        })
    }
}

fn text_id(text: &str) -> Result<ClOrdId, String> {
    ClOrdId::new(text.as_bytes()).map_err(|error| error.to_string())
}

/// `10@100`, or `10@market` without a price.
pub(super) fn quantity_and_price(text: &str) -> Result<(Quantity, Option<Price>), String> {
    let (quantity, price) = text.split_once('@').ok_or_else(|| format!("{text:?} is no QUANTITY@PRICE"))?;
    let price = match price {
        "market" => None,
        price => Some(Price(parse(price, "price")?)),
    };
    Ok((Quantity(parse(quantity, "quantity")?), price))
}

fn nanoseconds(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|letter: char| letter.is_ascii_alphabetic());
    let number: u64 = parse(digits, "duration")?;
    let unit: u64 = match &text[digits.len()..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        unit => return Err(format!("{unit:?} is no unit of time")),
    };
    number.checked_mul(unit).ok_or_else(|| format!("{text:?} is too long"))
}

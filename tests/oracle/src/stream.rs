//! Random command streams: every kind of command, valid and not, with the values at the edges, from a seed. The seed also
//! chooses the temper of the stream: how many sessions and instruments, how wide the prices, how tight the capacities.

use std::collections::VecDeque;

use protocol::{
    AccountId, Body, CancelOrder, Capacities, ClOrdId, ClientOrderId, Command, ConnectionId, Credential,
    DecodeError, EndReason, InstrumentDefinition, InstrumentId, LoginRequest, MassCancel, NewOrder,
    OrderFlags, OrderKey, OrderStatusRequest, OrderType, Phase, Price, Quantity, ReplaceOrder, RequestId,
    Role, Sequence, SessionId, Side, Symbol, Terms, Tick, TimeInForce, Timestamp, TradingDay, UserDefinition,
    UserName,
};

use crate::random::Random;

/// Orders that a session remembers to cancel and replace.
const REMEMBERED: usize = 48;

/// A user as the generator believes it to be.
#[derive(Clone, Debug)]
struct Actor {
    user: UserDefinition,
    connection: Option<ConnectionId>,
    last_id: u64,
    orders: Vec<ClientOrderId>,
    texts: Vec<ClOrdId>,
}

/// Gives one command after the other.
#[derive(Clone, Debug)]
pub struct Generator {
    random: Random,
    setup: VecDeque<Command>,
    actors: Vec<Actor>,
    instruments: Vec<InstrumentDefinition>,
    mids: Vec<i64>,
    time: u64,
    connections: u32,
    texts: u64,
    /// Ticks of the grid that prices lie from the mid.
    width: i64,
    tight: bool,
    /// One in how many commands is administrative or concerns a connection.
    calm: u64,
    /// Nearly all commands are orders at prices far apart, so that books get thousands of levels.
    hoards: bool,
}

impl Generator {
    /// A stream from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let instruments = instruments(1 + random.below(4) as usize);
        let hoards = random.one_in(8);
        let mut generator = Self {
            actors: Vec::new(),
            setup: VecDeque::new(),
            mids: instruments.iter().map(|_| if hoards { 12_000 } else { 500 }).collect(),
            instruments,
            time: 1_700_000_000_000_000_000,
            connections: 0,
            texts: 0,
            width: if hoards { 10_000 } else { *random.pick(&[2, 6, 20, 400]) },
            tight: !hoards && random.one_in(3),
            calm: if hoards { 400 } else { *random.pick(&[12, 40, 200]) },
            hoards,
            random,
        };
        generator.prepare();
        generator
    }

    /// The next command.
    pub fn command(&mut self) -> Command {
        if let Some(command) = self.setup.pop_front() {
            return command;
        }
        self.advance_time();
        if self.random.one_in(self.calm) {
            return match self.random.below(10) {
                0..5 => self.connection_command(),
                5..9 => self.admin_command(),
                _ => self.odd_command(),
            };
        }
        let actor = self.random.below(self.actors.len() as u64) as usize;
        if self.actors[actor].connection.is_none() && !self.random.one_in(4) {
            return self.login(actor);
        }
        let roll = self.random.below(100);
        let body = match if self.hoards { roll * 2 / 3 } else { roll } {
            0..55 => Body::NewOrder(self.new_order(actor)),
            55..77 => Body::CancelOrder(self.cancel_order(actor)),
            77..96 => Body::ReplaceOrder(self.replace_order(actor)),
            96..98 => Body::OrderStatus(OrderStatusRequest { order: self.order_key(actor) }),
            _ => Body::MassCancel(self.mass_cancel(actor)),
        };
        self.request(actor, body)
    }

    fn prepare(&mut self) {
        if self.tight {
            let capacities = self.capacities();
            let command = self.system(Body::SetCapacities(capacities));
            self.setup.push_back(command);
        }
        for definition in self.instruments.clone() {
            let command = self.system(Body::PutInstrument(definition));
            self.setup.push_back(command);
        }
        for number in 1..=2 + self.random.below(4) as u32 {
            let user = self.user(number);
            let command = self.system(Body::PutUser(user));
            self.setup.push_back(command);
            self.actors.push(Actor {
                user,
                connection: None,
                last_id: 0,
                orders: Vec::new(),
                texts: Vec::new(),
            });
            let command = self.login(number as usize - 1);
            self.setup.push_back(command);
        }
    }

    fn advance_time(&mut self) {
        match self.random.below(200) {
            0 => self.time += 3_000_000_000,
            1 => self.time -= 500_000_000,
            2..20 => self.time += 100_000_000,
            _ => self.time += self.random.below(50_000),
        }
    }

    fn command_of(&self, session: SessionId, connection: ConnectionId, id: u64, body: Body) -> Command {
        Command { session, connection, request_id: RequestId(id), timestamp: Timestamp(self.time), body }
    }

    fn system(&mut self, body: Body) -> Command {
        let id = self.random.below(100);
        self.command_of(SessionId::SYSTEM, ConnectionId(0), id, body)
    }

    /// A client's request: now and then on a dead connection, or with an id that does not rise.
    fn request(&mut self, actor: usize, body: Body) -> Command {
        let connection = match (self.actors[actor].connection, self.random.below(60)) {
            (_, 0) => ConnectionId(self.random.below(u64::from(self.connections) + 2) as u32),
            (Some(connection), _) => connection,
            (None, _) => ConnectionId(self.connections),
        };
        let last = self.actors[actor].last_id;
        let id = match self.random.below(100) {
            0 => last,
            1 => self.random.below(last.saturating_add(1)),
            2..10 => last.saturating_add(1 + self.random.below(1_000_000)),
            _ if self.random.one_in(50_000) => u64::MAX,
            _ => last.saturating_add(1),
        };
        let state = &mut self.actors[actor];
        if id > last && state.connection == Some(connection) {
            state.last_id = id;
            if let Body::NewOrder(_) = body {
                if state.orders.len() >= REMEMBERED {
                    state.orders.remove(0);
                }
                state.orders.push(ClientOrderId(id));
            }
        }
        let session = state.user.session;
        self.command_of(session, connection, id, body)
    }

    fn price(&mut self, at: usize, side: Side) -> Price {
        let definition = &self.instruments[at];
        let (low, high, tick) = (definition.price_min.0, definition.price_max.0, definition.tick_size.0);
        match self.random.below(150) {
            0 => return *self.random.pick(&[low, high, 0, i64::MIN, i64::MAX].map(Price)),
            1 => return Price(low.saturating_sub(tick)),
            2 => return Price(high.saturating_add(tick)),
            3..6 => return Price(self.mids[at] * tick + self.random.range(-3, 3)),
            _ => {}
        }
        if self.random.one_in(40) {
            self.mids[at] = (self.mids[at] + self.random.range(-3, 3)).clamp(20, 20_000);
        }
        let crossing = if self.hoards { 20 } else { self.width / 3 + 1 };
        let away = self.random.range(-crossing, self.width);
        let ticks = match side {
            Side::Buy => self.mids[at] - away,
            Side::Sell => self.mids[at] + away,
        };
        Price(ticks * tick)
    }

    fn quantity(&mut self, at: usize) -> Quantity {
        let definition = &self.instruments[at];
        let (lot, max) = (definition.lot_size.0, definition.quantity_max.0);
        Quantity(match self.random.below(120) {
            0 => 0,
            1 => max,
            2 => max.saturating_add(1),
            3 => u64::MAX,
            4 => lot + lot / 2,
            5..10 => lot * (1 + self.random.below(500)),
            _ => lot * (1 + self.random.below(12)),
        })
    }

    fn instrument(&mut self) -> (usize, InstrumentId) {
        let at = self.random.below(self.instruments.len() as u64) as usize;
        let id = if self.random.one_in(300) { InstrumentId(77) } else { self.instruments[at].instrument };
        (at, id)
    }

    fn side(&mut self) -> Side {
        *self.random.pick(Side::ALL)
    }

    fn new_order(&mut self, actor: usize) -> NewOrder {
        let (at, instrument) = self.instrument();
        let side = self.side();
        let order_type = if self.random.one_in(15) { OrderType::Market } else { OrderType::Limit };
        let time_in_force = match self.random.below(20) {
            0..8 => TimeInForce::Day,
            8..16 => TimeInForce::GoodTillCancel,
            16..18 => TimeInForce::ImmediateOrCancel,
            _ => TimeInForce::FillOrKill,
        };
        let price = match order_type {
            OrderType::Limit => Some(self.price(at, side)),
            _ => None,
        };
        let cl_ord_id = if self.random.one_in(8) { Some(self.text(actor)) } else { None };
        let option = self.random.below(600);
        NewOrder {
            instrument,
            side,
            order_type,
            time_in_force,
            flags: OrderFlags { post_only: self.random.one_in(12), ..OrderFlags::default() },
            price,
            quantity: self.quantity(at),
            account: AccountId(self.random.below(3) as u32),
            cl_ord_id,
            terms: Terms::default()
                .with_stop_price((option == 0).then_some(Price(5)))
                .with_display((option == 1).then_some(Quantity(5)))
                .with_expire_time((option == 2).then_some(Timestamp(5))),
        }
    }

    fn text(&mut self, actor: usize) -> ClOrdId {
        let used = &self.actors[actor].texts;
        if !used.is_empty() && self.random.one_in(15) {
            return *self.random.pick(used);
        }
        self.texts += 1;
        let text = ClOrdId::new(format!("T-{}", self.texts).as_bytes()).expect("a valid text");
        let used = &mut self.actors[actor].texts;
        if used.len() >= REMEMBERED {
            used.remove(0);
        }
        used.push(text);
        text
    }

    /// Mostly a remembered order of the session itself; else a text, another session's order, or nonsense.
    fn order_key(&mut self, actor: usize) -> OrderKey {
        let own = &self.actors[actor];
        match self.random.below(40) {
            0 => OrderKey::Id(ClientOrderId(self.random.below(300))),
            1..3 => {
                let other = self.random.below(self.actors.len() as u64) as usize;
                let orders = &self.actors[other].orders;
                OrderKey::Id(orders.last().copied().unwrap_or(ClientOrderId(u64::MAX)))
            }
            3..9 if !own.texts.is_empty() => OrderKey::Text(*self.random.pick(&own.texts)),
            9..20 => OrderKey::Id(own.orders.last().copied().unwrap_or_default()),
            _ if own.orders.is_empty() => OrderKey::Id(ClientOrderId(0)),
            _ => OrderKey::Id(*self.random.pick(&own.orders)),
        }
    }

    fn optional_side(&mut self) -> Option<Side> {
        if self.random.one_in(5) { Some(self.side()) } else { None }
    }

    fn cancel_order(&mut self, actor: usize) -> CancelOrder {
        CancelOrder {
            order: self.order_key(actor),
            side: self.optional_side(),
            cl_ord_id: if self.random.one_in(12) { Some(self.text(actor)) } else { None },
        }
    }

    fn replace_order(&mut self, actor: usize) -> ReplaceOrder {
        let (at, _) = self.instrument();
        let side = self.side();
        ReplaceOrder {
            order: self.order_key(actor),
            side: self.optional_side(),
            price: Some(self.price(at, side)),
            quantity: self.quantity(at),
            stop_price: None,
            display: None,
            cl_ord_id: if self.random.one_in(8) { Some(self.text(actor)) } else { None },
        }
    }

    fn mass_cancel(&mut self, actor: usize) -> MassCancel {
        let own = self.actors[actor].user.session;
        let session = match self.random.below(6) {
            0 => SessionId(self.random.below(8) as u32),
            _ => own,
        };
        // The frame's 0 means the sender.
        let session = if session == SessionId::SYSTEM { own } else { session };
        let (_, instrument) = self.instrument();
        MassCancel {
            session,
            instrument: self.random.one_in(2).then_some(instrument),
            side: self.optional_side(),
        }
    }

    fn login(&mut self, actor: usize) -> Command {
        let connection = if self.random.one_in(20) {
            ConnectionId(self.random.below(u64::from(self.connections) + 1) as u32)
        } else {
            self.connections += 1;
            ConnectionId(self.connections)
        };
        let state = &mut self.actors[actor];
        if state.connection.is_none() && state.user.enabled {
            state.connection = Some(connection);
        }
        let session = state.user.session;
        let trading_day = self.random.one_in(9).then_some(TradingDay(1));
        self.command_of(session, connection, 0, Body::Login(LoginRequest { trading_day }))
    }

    fn connection_command(&mut self) -> Command {
        let actor = self.random.below(self.actors.len() as u64) as usize;
        if self.actors[actor].connection.is_none() || self.random.one_in(8) {
            return self.login(actor);
        }
        let body = match self.random.below(3) {
            0 => Body::Logout,
            _ => Body::Disconnect(*self.random.pick(EndReason::ALL)),
        };
        let state = &mut self.actors[actor];
        let session = state.user.session;
        let connection = if self.random.one_in(6) {
            ConnectionId(self.random.below(u64::from(self.connections) + 1) as u32)
        } else {
            state.connection.unwrap_or_default()
        };
        if state.connection == Some(connection) {
            state.connection = None;
        }
        self.command_of(session, connection, 0, body)
    }

    fn user(&mut self, number: u32) -> UserDefinition {
        UserDefinition {
            session: SessionId(number),
            name: UserName::new(&format!("user{number}")).expect("a valid name"),
            credential: Credential { scheme: 1, salt: [number as u8; 16], hash: [7; 32] },
            role: if self.random.one_in(3) { Role::Operator } else { Role::Trader },
            enabled: !self.random.one_in(20),
            cancel_on_disconnect: self.random.one_in(2),
            grace_ms: *self.random.pick(&[0, 0, 1, 50, 2_000, u32::MAX]),
        }
    }

    fn capacities(&mut self) -> Capacities {
        if !self.tight || self.random.one_in(40) {
            let large = *self.random.pick(&[1_000_000, 1 << 20, u32::MAX]);
            return Capacities { orders: large, ..Capacities::default() };
        }
        Capacities {
            orders: 8 + self.random.below(24) as u32,
            levels: 4 + self.random.below(12) as u32,
            cl_ord_ids: 10 + self.random.below(60) as u32,
            sessions: 4 + self.random.below(3) as u32,
            instruments: 3 + self.random.below(4) as u32,
        }
    }

    /// An operator's request, or one that should be.
    fn admin_command(&mut self) -> Command {
        let number = 1 + self.random.below(10) as u32;
        let (at, instrument) = self.instrument();
        let body = match self.random.below(20) {
            0 => Body::EndOfDay,
            1..3 => Body::SetCapacities(self.capacities()),
            3..5 => Body::PutInstrument(self.odd_instrument(at)),
            5..12 => {
                let phase = if self.random.one_in(3) { Phase::Halted } else { Phase::Continuous };
                Body::SetPhase(instrument, phase)
            }
            12..16 => Body::PutUser(self.changed_user(number)),
            16 => Body::DisconnectUser(SessionId(number - 1)),
            17 => Body::Start,
            18 => Body::SetRulebook(self.random.below(2) as u32),
            _ => Body::Tick(Tick { checkpoint_sequence: Sequence(0), checkpoint_hash: 0 }),
        };
        let system = self.random.one_in(2) || matches!(body, Body::Tick(_));
        let command = if system {
            self.system(body)
        } else {
            let actor = self.random.below(self.actors.len() as u64) as usize;
            self.request(actor, body)
        };
        self.believe(&command);
        command
    }

    /// What an administrative command does to the generator's picture of the actors, where it is obeyed.
    fn believe(&mut self, command: &Command) {
        let obeyed = command.session == SessionId::SYSTEM;
        for actor in self.actors.iter_mut().filter(|_| obeyed) {
            match command.body {
                Body::Start => actor.connection = None,
                Body::DisconnectUser(session) if session == actor.user.session => actor.connection = None,
                Body::PutUser(user) if user.session == actor.user.session && user.name == actor.user.name => {
                    actor.user = user;
                    actor.connection = actor.connection.filter(|_| user.enabled);
                }
                _ => {}
            }
        }
    }

    fn changed_user(&mut self, number: u32) -> UserDefinition {
        let mut user = self.user(number);
        match self.random.below(12) {
            0 => user.session = SessionId(self.random.below(6) as u32),
            1 => user.name = UserName::new("user1").expect("a valid name"),
            _ => {}
        }
        user
    }

    fn odd_instrument(&mut self, at: usize) -> InstrumentDefinition {
        let mut definition = self.instruments[at];
        match self.random.below(8) {
            0 => definition.instrument = InstrumentId(self.random.below(7) as u32),
            1 => definition.symbol = Symbol::new("OTHER").expect("a valid symbol"),
            2 => definition.tick_size = Price(self.random.range(-1, 1)),
            3 => definition.lot_size = Quantity(self.random.below(2)),
            4 => definition.price_max = Price(definition.price_min.0.saturating_sub(1)),
            5 => definition.price_scale = 13,
            6 => {
                let number = 10 + self.random.below(4) as u32;
                definition.instrument = InstrumentId(number);
                definition.symbol = Symbol::new(&format!("NEW{number}")).expect("a valid symbol");
            }
            _ => {}
        }
        definition
    }

    fn odd_command(&mut self) -> Command {
        let actor = self.random.below(self.actors.len() as u64) as usize;
        match self.random.below(5) {
            0 => self.command_of(SessionId(4_000_000_000), ConnectionId(1), 1, Body::Logout),
            1 => {
                let login = Body::Login(LoginRequest { trading_day: None });
                let session = SessionId(*self.random.pick(&[0, 99, 3_000_000_000]));
                self.command_of(session, ConnectionId(1), 0, login)
            }
            2 => {
                let order = self.new_order(actor);
                self.system(Body::NewOrder(order))
            }
            3 => {
                let session = SessionId(1 + self.random.below(6) as u32);
                self.system(Body::MassCancel(MassCancel { session, instrument: None, side: None }))
            }
            _ => self.request(actor, Body::Malformed(DecodeError::Kind)),
        }
    }
}

/// Grids that differ: plain, coarse with negative prices, the whole range of the numbers, fine.
fn instruments(count: usize) -> Vec<InstrumentDefinition> {
    let base = InstrumentDefinition {
        instrument: InstrumentId(1),
        symbol: Symbol::new("PLAIN").expect("a valid symbol"),
        price_scale: 2,
        quantity_scale: 0,
        tick_size: Price(1),
        lot_size: Quantity(1),
        price_min: Price(1),
        price_max: Price(1_000_000),
        quantity_max: Quantity(1_000_000),
    };
    let all = [
        base,
        InstrumentDefinition {
            instrument: InstrumentId(2),
            symbol: Symbol::new("COARSE").expect("a valid symbol"),
            tick_size: Price(5),
            lot_size: Quantity(100),
            price_min: Price(-100_000),
            price_max: Price(100_000),
            quantity_max: Quantity(50_000),
            ..base
        },
        InstrumentDefinition {
            instrument: InstrumentId(3),
            symbol: Symbol::new("WHOLE").expect("a valid symbol"),
            price_min: Price(i64::MIN),
            price_max: Price(i64::MAX),
            quantity_max: Quantity(u64::MAX),
            ..base
        },
        InstrumentDefinition {
            instrument: InstrumentId(3_000_000_000),
            symbol: Symbol::new("FAR").expect("a valid symbol"),
            tick_size: Price(3),
            lot_size: Quantity(7),
            ..base
        },
    ];
    all.into_iter().take(count).collect()
}

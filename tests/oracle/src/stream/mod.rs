//! Random command streams: every kind of command, valid and not, with the values at the edges, from a seed. The seed also
//! chooses what a stream is about ([`Theme`]) and its temper: how many sessions and instruments, how wide the prices, how
//! tight the capacities.

use std::collections::VecDeque;

use protocol::{
    Body, ClOrdId, ClientOrderId, Command, ConnectionId, InstrumentDefinition, OrderStatusRequest, QuoteSide,
    RequestId, SessionId, Side, Timestamp, UserDefinition,
};

use crate::random::Random;

mod accounts;
mod admin;
mod connections;
mod orders;
mod rules;
mod setup;
mod terms;
mod theme;

pub use theme::Theme;

/// Orders that a session remembers to cancel and replace.
const REMEMBERED: usize = 48;

/// An order as the generator believes it to be.
#[derive(Clone, Copy, Debug, Default)]
struct Placed {
    id: ClientOrderId,
    /// Place of its instrument in the generator's list.
    at: usize,
    /// Whether it has a limit price.
    priced: bool,
    stop: bool,
    iceberg: bool,
}

/// A user as the generator believes it to be.
#[derive(Clone, Debug)]
struct Actor {
    user: UserDefinition,
    /// 0 where it has none.
    participant: u32,
    connection: Option<ConnectionId>,
    last_id: u64,
    orders: Vec<Placed>,
    texts: Vec<ClOrdId>,
}

/// Gives one command after the other.
#[derive(Clone, Debug)]
pub struct Generator {
    random: Random,
    theme: Theme,
    setup: VecDeque<Command>,
    /// What the server is to send, and after how many more commands.
    later: Vec<(u64, Body)>,
    actors: Vec<Actor>,
    instruments: Vec<InstrumentDefinition>,
    /// Where prices are, in ticks.
    mids: Vec<i64>,
    time: u64,
    connections: u32,
    texts: u64,
    /// Commands given so far.
    given: u64,
    /// Ticks of the grid that prices lie from the mid.
    width: i64,
    tight: bool,
    /// One in how many commands is administrative or concerns a connection.
    calm: u64,
    /// Nearly all commands are orders at prices far apart, so that books get thousands of levels.
    hoards: bool,
    /// A plain stream without anything of version 2.
    pure: bool,
}

impl Generator {
    /// A stream from a seed, which chooses its theme.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::of(seed, Theme::of_seed(seed))
    }

    /// A stream of a theme from a seed.
    #[must_use]
    pub fn of(seed: u64, theme: Theme) -> Self {
        let mut random = Random::new(seed);
        let instruments = setup::instruments(1 + random.below(4) as usize);
        let hoards = theme == Theme::Plain && random.one_in(4);
        let mut generator = Self {
            theme,
            actors: Vec::new(),
            setup: VecDeque::new(),
            later: Vec::new(),
            mids: instruments.iter().map(|_| if hoards { 12_000 } else { 500 }).collect(),
            instruments,
            time: 1_700_000_000_000_000_000,
            connections: 0,
            texts: 0,
            given: 0,
            width: if hoards { 10_000 } else { *random.pick(&[2, 6, 20, 400]) },
            tight: !hoards && random.one_in(3),
            calm: if hoards { 400 } else { *random.pick(theme.calms()) },
            hoards,
            pure: !theme.is_special() && random.one_in(2),
            random,
        };
        generator.prepare();
        generator
    }

    /// The next command.
    pub fn command(&mut self) -> Command {
        self.given += 1;
        if let Some(command) = self.setup.pop_front() {
            return command;
        }
        self.advance_time();
        if let Some(body) = self.due() {
            let command = self.system(body);
            self.believe(&command);
            return command;
        }
        if self.random.one_in(self.calm) {
            return self.uncommon_command();
        }
        let actor = self.actor();
        if self.actors[actor].connection.is_none() && !self.random.one_in(4) {
            return self.login(actor);
        }
        if self.theme == Theme::Groups && self.random.one_in(400) {
            self.fill_group(actor);
        }
        let roll = self.random.below(100);
        let body = match if self.hoards { roll * 2 / 3 } else { roll } {
            0..55 if !self.pure && self.random.one_in(self.theme.quotes()) => {
                Body::MassQuote(self.mass_quote(actor))
            }
            0..55 => Body::NewOrder(self.new_order(actor)),
            55..77 => Body::CancelOrder(self.cancel_order(actor)),
            77..96 => Body::ReplaceOrder(self.replace_order(actor)),
            96..98 => Body::OrderStatus(OrderStatusRequest { order: self.order_key(actor).0 }),
            _ => Body::MassCancel(self.mass_cancel(actor)),
        };
        let command = self.request(actor, body);
        if self.theme == Theme::Limits && self.random.one_in(12) {
            // The same once more, a moment later.
            let again = self.request(actor, body);
            self.setup.push_back(again);
        }
        command
    }

    /// A command that is administrative or concerns a connection.
    fn uncommon_command(&mut self) -> Command {
        let special = self.theme.is_special();
        match self.random.below(10) {
            0..3 => self.connection_command(),
            3..5 if special => self.special_command(),
            3..5 => self.connection_command(),
            5..9 if special && self.random.one_in(2) => self.special_command(),
            5 if !self.pure && self.random.one_in(10) => self.special_command(),
            5..9 => self.admin_command(),
            _ => self.odd_command(),
        }
    }

    fn actor(&mut self) -> usize {
        self.random.below(self.actors.len() as u64) as usize
    }

    /// The first of what the server is to send whose turn has come.
    fn due(&mut self) -> Option<Body> {
        let at = self.later.iter().position(|(when, _)| *when <= self.given)?;
        Some(self.later.remove(at).1)
    }

    /// Has the server send something after up to so many more commands.
    fn send_later(&mut self, within: u64, body: Body) {
        let when = self.given + 1 + self.random.below(within);
        self.later.push((when, body));
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
            _ if self.random.one_in(50_000) => u64::MAX - self.random.below(2),
            _ => last.saturating_add(1),
        };
        if id > last && self.actors[actor].connection == Some(connection) {
            self.remember(actor, id, &body);
        }
        let session = self.actors[actor].user.session;
        self.command_of(session, connection, id, body)
    }

    /// Takes down the ids that a request uses and the orders that it may place.
    fn remember(&mut self, actor: usize, id: u64, body: &Body) {
        let at = |instrument| self.instruments.iter().position(|it| it.instrument == instrument).unwrap_or(0);
        let mut placed = Vec::new();
        match body {
            Body::NewOrder(order) => placed.push(Placed {
                id: ClientOrderId(id),
                at: at(order.instrument),
                priced: order.price.is_some(),
                stop: order.terms.stop_price().is_some() || order.terms.trail().is_some(),
                iceberg: order.terms.display().is_some(),
            }),
            Body::MassQuote(quote) => {
                let sides = [&quote.bids, &quote.asks].into_iter().flatten();
                let entries = sides.flat_map(QuoteSide::entries).count() as u64;
                let at = at(quote.instrument);
                placed.extend((0..entries).map(|entry| Placed {
                    id: ClientOrderId(id.saturating_add(entry)),
                    at,
                    priced: true,
                    ..Placed::default()
                }));
            }
            _ => {}
        }
        let state = &mut self.actors[actor];
        state.last_id = placed.last().map_or(id, |last| last.id.0).max(id);
        state.orders.append(&mut placed);
        let surplus = state.orders.len().saturating_sub(REMEMBERED);
        state.orders.drain(..surplus);
    }

    fn side(&mut self) -> Side {
        *self.random.pick(Side::ALL)
    }

    fn optional_side(&mut self) -> Option<Side> {
        if self.random.one_in(5) { Some(self.side()) } else { None }
    }
}

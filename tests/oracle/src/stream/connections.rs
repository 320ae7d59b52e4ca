//! Logins, ends of connections, users, and commands that nobody should send.

use protocol::{
    Body, Command, ConnectionId, Credential, DecodeError, EndReason, LoginRequest, MassCancel, Role,
    SessionId, TradingDay, UserDefinition, UserName,
};

use super::Generator;

impl Generator {
    pub(super) fn login(&mut self, actor: usize) -> Command {
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

    pub(super) fn connection_command(&mut self) -> Command {
        let actor = self.actor();
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

    pub(super) fn user(&mut self, number: u32) -> UserDefinition {
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

    /// What an administrative command does to the generator's picture of the actors, where it is obeyed.
    pub(super) fn believe(&mut self, command: &Command) {
        let obeyed = command.session == SessionId::SYSTEM;
        for actor in self.actors.iter_mut().filter(|_| obeyed) {
            match command.body {
                Body::Start => actor.connection = None,
                Body::SetParticipant(session, participant) if session == actor.user.session => {
                    actor.participant = participant.0;
                }
                Body::DisconnectUser(session) if session == actor.user.session => actor.connection = None,
                Body::PutUser(user) if user.session == actor.user.session && user.name == actor.user.name => {
                    actor.user = user;
                    actor.connection = actor.connection.filter(|_| user.enabled);
                }
                _ => {}
            }
        }
    }

    pub(super) fn changed_user(&mut self, number: u32) -> UserDefinition {
        let mut user = self.user(number);
        match self.random.below(12) {
            0 => user.session = SessionId(self.random.below(6) as u32),
            1 => user.name = UserName::new("user1").expect("a valid name"),
            _ => {}
        }
        user
    }

    pub(super) fn odd_command(&mut self) -> Command {
        let actor = self.actor();
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

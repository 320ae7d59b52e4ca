//! What the venue's configuration wants, published by whoever leads until it is in the log.

use protocol::{
    Body, Credential, InstrumentDefinition, InstrumentId, Price, Quantity, Role, SessionId, Symbol,
    UserDefinition, UserName,
};

use crate::client::INSTRUMENTS;
use crate::member::Process;
use crate::trace::lock;
use crate::world::World;

impl World {
    /// What the venue's configuration wants, published by whoever leads until it is in the log.
    pub(crate) fn provision(&mut self) {
        let Some(leader) = self.leader() else { return };
        if self.now < self.provisioned_at + 300 {
            return;
        }
        let known = lock(&self.ground.truth).exchange().users().count();
        if known >= self.clients.len() {
            return;
        }
        self.provisioned_at = self.now;
        let users = self.clients.iter().map(|client| Body::PutUser(user(client.session)));
        let bodies: Vec<Body> =
            INSTRUMENTS.iter().map(|id| Body::PutInstrument(instrument(*id))).chain(users).collect();
        let seat = self.seats.get_mut(&leader);
        if let Some(Process::Member(running)) = seat.and_then(|seat| seat.process.as_mut()) {
            running.edge.provision(&bodies);
        }
    }
}

fn user(session: SessionId) -> UserDefinition {
    UserDefinition {
        session,
        name: UserName::new(&format!("user{session}")).unwrap_or_else(|| unreachable!("a short name")),
        credential: Credential { scheme: 1, salt: [0; 16], hash: [0; 32] },
        role: Role::Trader,
        enabled: true,
        cancel_on_disconnect: session.0.is_multiple_of(2),
        grace_ms: 100 * session.0,
    }
}

fn instrument(id: InstrumentId) -> InstrumentDefinition {
    InstrumentDefinition {
        instrument: id,
        symbol: Symbol::new(&format!("SIM{id}")).unwrap_or_else(|| unreachable!("a short symbol")),
        price_scale: 2,
        quantity_scale: 0,
        tick_size: Price(1),
        lot_size: Quantity(1),
        price_min: Price(1),
        price_max: Price(1_000),
        quantity_max: Quantity(1_000),
    }
}

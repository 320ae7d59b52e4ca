//! What operators do under every version of the rulebook, or try to do.

use protocol::{
    Body, Capacities, Command, InstrumentDefinition, InstrumentId, Phase, Price, Quantity, Sequence,
    SessionId, Symbol, Tick,
};

use super::Generator;

impl Generator {
    pub(super) fn capacities(&mut self) -> Capacities {
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
    pub(super) fn admin_command(&mut self) -> Command {
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
            let actor = self.actor();
            self.request(actor, body)
        };
        self.believe(&command);
        command
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
}

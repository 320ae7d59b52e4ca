//! Steps of operators and of the server that every version of the rulebook has: instruments, users, phases, days.

use protocol::{
    Body, Capacities, Credential, InstrumentDefinition, InstrumentId, Phase, Price, Quantity, Role, Sequence,
    SessionId, Symbol, Tick, UserDefinition, UserName,
};

use super::words::Words;
use super::world::World;

impl World {
    pub(super) fn admin_body(&mut self, verb: &str, words: &mut Words<'_>) -> Result<Body, String> {
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
            "rulebook" => Body::SetRulebook(words.value("version")?),
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
        Ok(UserDefinition {
            session,
            name: UserName::new(name).ok_or("a name has 1 to 6 characters")?,
            credential: Credential { scheme: 1, salt: [0; 16], hash: [0; 32] },
            role: match (words.flag("operator"), words.flag("observer")) {
                (true, _) => Role::Operator,
                (false, true) => Role::Observer,
                (false, false) => Role::Trader,
            },
            enabled: !words.flag("disabled"),
            cancel_on_disconnect: words.flag("cancel-on-disconnect"),
            grace_ms: words.milliseconds("grace")?,
        })
    }
}

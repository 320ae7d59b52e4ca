//! What the configuration wants to be in the log and the log does not have yet: capacities, instruments, users. The plan
//! is made from the recovered state before anything is published, so that a start changes nothing it need not.

use std::collections::{HashMap, HashSet};

use protocol::{
    Body, Capacities, Credential, InstrumentDefinition, InstrumentId, Role, SessionId, Symbol,
    UserDefinition, UserName,
};

/// What the log has.
#[derive(Clone, Debug, Default)]
pub struct Known {
    /// Its instruments.
    pub instruments: HashMap<InstrumentId, InstrumentDefinition>,
    /// Its users.
    pub users: Vec<UserDefinition>,
    /// Its bounds.
    pub capacities: Capacities,
    /// The version of the rulebook in force.
    pub rulebook: u32,
}

impl Known {
    /// Whether nothing was ever put into the log.
    #[must_use]
    pub fn is_new(&self) -> bool {
        self.instruments.is_empty() && self.users.is_empty()
    }
}

/// What the configuration wants, passwords hashed.
#[derive(Clone, Debug)]
pub struct Wanted {
    /// Bounds of the venue.
    pub capacities: Capacities,
    /// Instruments.
    pub instruments: Vec<InstrumentDefinition>,
    /// Users.
    pub users: Vec<WantedUser>,
    /// Users that must not be able to log in any more.
    pub disabled: Vec<UserName>,
    /// The version of the rulebook that a new venue begins with.
    pub rulebook: u32,
}

/// A user to be made, or to be given a new password.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WantedUser {
    /// Login name.
    pub name: UserName,
    /// What the user may do.
    pub role: Role,
    /// The hash of its password.
    pub credential: Credential,
    /// What becomes of an existing user of this name.
    pub existing: Existing,
}

/// What becomes of a user that the log has already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// It stays as it is.
    Stays,
    /// It is given the credential.
    NewPassword,
    /// It is given the credential and the role, and may log in again.
    Restored,
}

/// What is to be published, and what must not be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// Commands of the system session, in order.
    pub commands: Vec<Body>,
    /// One line for each thing that the log has otherwise and that stays as it is.
    pub conflicts: Vec<String>,
}

impl Plan {
    /// Compares what is wanted with what is known.
    #[must_use]
    pub fn new(wanted: &Wanted, known: &Known) -> Self {
        let mut plan = Self::default();
        // Only a venue that nobody has used: the rules of others change when their operator says so.
        if known.is_new() && wanted.rulebook > known.rulebook {
            plan.commands.push(Body::SetRulebook(wanted.rulebook));
        }
        if wanted.capacities != known.capacities {
            plan.commands.push(Body::SetCapacities(wanted.capacities));
        }
        plan.add_instruments(&wanted.instruments, known);
        plan.add_users(wanted, known);
        plan
    }

    /// Tells what the log has otherwise.
    pub fn tell_conflicts(&self) {
        for conflict in &self.conflicts {
            tracing::error!("{conflict}");
        }
    }

    fn add_instruments(&mut self, wanted: &[InstrumentDefinition], known: &Known) {
        let symbols: HashMap<Symbol, InstrumentId> =
            known.instruments.values().map(|definition| (definition.symbol, definition.instrument)).collect();
        for definition in wanted {
            let InstrumentDefinition { instrument, symbol, .. } = definition;
            match (known.instruments.get(instrument), symbols.get(symbol)) {
                (Some(there), _) if there == definition => {}
                (Some(there), _) => self.conflicts.push(format!(
                    "instrument {instrument} ({symbol}): the file says {}, the log has {}; a definition can't be \
                     changed, so the log's stays: give the new one another number and symbol",
                    difference(definition, there),
                    difference(there, definition),
                )),
                (None, Some(other)) => self.conflicts.push(format!(
                    "instrument {instrument} ({symbol}): the log has this symbol as instrument {other}; it is not added"
                )),
                (None, None) => self.commands.push(Body::PutInstrument(*definition)),
            }
        }
    }

    fn add_users(&mut self, wanted: &Wanted, known: &Known) {
        let mut taken: HashSet<SessionId> = known.users.iter().map(|user| user.session).collect();
        for user in &wanted.users {
            let there = known.users.iter().find(|there| there.name == user.name);
            match (there, user.existing) {
                (Some(_), Existing::Stays) => {}
                (Some(there), Existing::NewPassword) => {
                    self.commands
                        .push(Body::PutUser(UserDefinition { credential: user.credential, ..*there }));
                }
                (Some(there), Existing::Restored) => {
                    self.commands.push(Body::PutUser(UserDefinition {
                        credential: user.credential,
                        role: user.role,
                        enabled: true,
                        ..*there
                    }));
                }
                (None, _) => {
                    let session = free_session(&taken);
                    taken.insert(session);
                    self.commands.push(Body::PutUser(UserDefinition {
                        session,
                        name: user.name,
                        credential: user.credential,
                        role: user.role,
                        enabled: true,
                        cancel_on_disconnect: false,
                        grace_ms: 0,
                    }));
                }
            }
        }
        for name in &wanted.disabled {
            if let Some(there) = known.users.iter().find(|user| user.name == *name && user.enabled) {
                self.commands.push(Body::PutUser(UserDefinition { enabled: false, ..*there }));
            }
        }
    }
}

/// The lowest session number that nobody has.
fn free_session(taken: &HashSet<SessionId>) -> SessionId {
    let mut session = SessionId(1);
    while taken.contains(&session) {
        session.0 += 1;
    }
    session
}

/// The fields of `one` that `other` has otherwise.
fn difference(one: &InstrumentDefinition, other: &InstrumentDefinition) -> String {
    let fields = |d: &InstrumentDefinition| {
        [
            ("symbol", d.symbol.to_string()),
            ("price_scale", d.price_scale.to_string()),
            ("quantity_scale", d.quantity_scale.to_string()),
            ("tick_size", d.tick_size.to_string()),
            ("lot_size", d.lot_size.to_string()),
            ("price_min", d.price_min.to_string()),
            ("price_max", d.price_max.to_string()),
            ("quantity_max", d.quantity_max.to_string()),
        ]
    };
    let pairs = fields(one).into_iter().zip(fields(other));
    let differing: Vec<String> = pairs
        .filter(|((_, value), (_, there))| value != there)
        .map(|((name, value), _)| format!("{name} {value}"))
        .collect();
    differing.join(", ")
}

#[cfg(test)]
mod tests {
    use protocol::{Price, Quantity};

    use super::*;

    fn instrument(number: u32, symbol: &str, tick: i64) -> InstrumentDefinition {
        InstrumentDefinition {
            instrument: InstrumentId(number),
            symbol: Symbol::new(symbol).expect("a symbol"),
            price_scale: 2,
            quantity_scale: 0,
            tick_size: Price(tick),
            lot_size: Quantity(1),
            price_min: Price(0),
            price_max: Price(1000),
            quantity_max: Quantity(10),
        }
    }

    fn credential(byte: u8) -> Credential {
        Credential { scheme: 1, salt: [byte; 16], hash: [byte; 32] }
    }

    fn user(session: u32, name: &str) -> UserDefinition {
        UserDefinition {
            session: SessionId(session),
            name: UserName::new(name).expect("a name"),
            credential: credential(0),
            role: Role::Trader,
            enabled: true,
            cancel_on_disconnect: true,
            grace_ms: 5,
        }
    }

    fn wanted(instruments: &[InstrumentDefinition], users: &[(&str, Existing)], disabled: &[&str]) -> Wanted {
        let name = |name: &str| UserName::new(name).expect("a name");
        Wanted {
            capacities: Capacities::default(),
            instruments: instruments.to_vec(),
            users: users
                .iter()
                .map(|(text, existing)| WantedUser {
                    name: name(text),
                    role: Role::Operator,
                    credential: credential(1),
                    existing: *existing,
                })
                .collect(),
            disabled: disabled.iter().map(|text| name(text)).collect(),
            rulebook: 2,
        }
    }

    fn known(instruments: &[InstrumentDefinition], users: &[UserDefinition]) -> Known {
        Known {
            instruments: instruments.iter().map(|definition| (definition.instrument, *definition)).collect(),
            users: users.to_vec(),
            capacities: Capacities::default(),
            rulebook: 1,
        }
    }

    #[test]
    fn only_what_is_missing_is_published() {
        let (a, b) = (instrument(1, "A", 1), instrument(2, "B", 1));
        let plan = Plan::new(
            &wanted(&[a, b], &[("x", Existing::Stays), ("y", Existing::Stays)], &[]),
            &known(&[a], &[user(1, "x")]),
        );
        let made = UserDefinition {
            credential: credential(1),
            role: Role::Operator,
            cancel_on_disconnect: false,
            grace_ms: 0,
            ..user(2, "y")
        };
        let commands = vec![Body::PutInstrument(b), Body::PutUser(made)];
        assert_eq!(plan, Plan { commands, conflicts: Vec::new() });
        let capacities = Capacities { orders: 7, ..Capacities::default() };
        let there = known(&[a], &[]);
        let plan = Plan::new(&Wanted { capacities, ..wanted(&[], &[], &[]) }, &there);
        assert_eq!(plan.commands, [Body::SetCapacities(capacities)]);
    }

    #[test]
    fn only_a_new_venue_begins_with_the_newest_rules() {
        let (nothing, a) = (wanted(&[], &[], &[]), instrument(1, "A", 1));
        let commands = |known: &Known| Plan::new(&nothing, known).commands;
        assert_eq!(commands(&known(&[], &[])), [Body::SetRulebook(2)]);
        assert_eq!(commands(&Known { rulebook: 2, ..known(&[], &[]) }), []);
        assert_eq!(commands(&known(&[a], &[])), []);
        assert_eq!(commands(&known(&[], &[user(1, "x")])), []);
    }

    #[test]
    fn changed_definitions_are_named_and_stay() {
        let plan = Plan::new(
            &wanted(&[instrument(1, "A", 5), instrument(3, "B", 1)], &[], &[]),
            &known(&[instrument(1, "A", 1), instrument(2, "B", 1)], &[]),
        );
        assert!(plan.commands.is_empty());
        assert_eq!(plan.conflicts.len(), 2);
        assert!(
            plan.conflicts[0].contains("the file says tick_size 5, the log has tick_size 1"),
            "{}",
            plan.conflicts[0]
        );
        assert!(
            plan.conflicts[1].contains("the log has this symbol as instrument 2"),
            "{}",
            plan.conflicts[1]
        );
    }

    #[test]
    fn users_are_renewed_or_disabled_where_asked() {
        let there =
            known(&[], &[user(1, "x"), user(4, "y"), UserDefinition { enabled: false, ..user(5, "z") }]);
        let users = [("x", Existing::NewPassword), ("z", Existing::Restored)];
        let plan = Plan::new(&wanted(&[], &users, &["y", "w"]), &there);
        let renewed = UserDefinition { credential: credential(1), ..user(1, "x") };
        let restored = UserDefinition { credential: credential(1), role: Role::Operator, ..user(5, "z") };
        let disabled = UserDefinition { enabled: false, ..user(4, "y") };
        assert_eq!(plan.commands, [renewed, restored, disabled].map(Body::PutUser));
    }
}

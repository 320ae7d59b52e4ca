//! How a stream begins: instruments, users, accounts, and the rules that its theme is about.

use protocol::{
    AccountId, Amount, Body, InstrumentDefinition, InstrumentId, ParticipantId, Price, Quantity, Symbol,
    Transfer,
};

use super::accounts::{ACCOUNTS, PARTICIPANTS};
use super::rules::{CURRENCIES, currency};
use super::{Actor, Generator};

impl Generator {
    pub(super) fn prepare(&mut self) {
        if self.theme.is_special() || self.random.one_in(2) {
            self.switch_rules();
        }
        if self.tight {
            let capacities = self.capacities();
            self.at_start(Body::SetCapacities(capacities));
        }
        for definition in self.instruments.clone() {
            self.at_start(Body::PutInstrument(definition));
        }
        for number in 1..=2 + self.random.below(4) as u32 {
            let user = self.user(number);
            self.at_start(Body::PutUser(user));
            self.actors.push(Actor {
                user,
                participant: 0,
                connection: None,
                last_id: 0,
                orders: Vec::new(),
                texts: Vec::new(),
            });
            let command = self.login(number as usize - 1);
            self.setup.push_back(command);
        }
        if self.theme.is_special() {
            self.prepare_special();
        }
    }

    fn at_start(&mut self, body: Body) {
        let command = self.system(body);
        self.believe(&command);
        self.setup.push_back(command);
    }

    /// Version 2 comes first, now and then in the middle of trading.
    fn switch_rules(&mut self) {
        if self.random.one_in(10) {
            self.send_later(400, Body::SetRulebook(2));
        } else {
            self.at_start(Body::SetRulebook(2));
        }
    }

    fn prepare_special(&mut self) {
        for at in 0..self.mids.len() {
            if self.instruments[at].price_min.0 < 0 && self.random.one_in(2) {
                self.mids[at] = self.random.range(-30, 10);
            }
        }
        if self.theme.has_accounts() {
            self.prepare_accounts();
        }
        for at in 0..self.instruments.len() {
            if self.theme.settles() || !self.random.one_in(3) {
                let rules = self.instrument_rules(at);
                self.at_start(Body::PutRules(self.instruments[at].instrument, rules));
            }
        }
        let seed = self.random.below(1_000);
        self.at_start(Body::SetSeed(seed));
    }

    fn prepare_accounts(&mut self) {
        for (code, scale) in CURRENCIES {
            self.at_start(Body::PutCurrency(currency(code), scale));
        }
        // Some accounts are rich, some soon have nothing left.
        for account in (1..=ACCOUNTS).map(AccountId) {
            let definition = self.account(account);
            self.at_start(Body::PutAccount(definition));
            for (code, _) in CURRENCIES {
                let amount = i128::from(*self.random.pick(&[500_000, 50_000_000, 1_000_000_000_000_i64]));
                let (currency, amount) = (currency(code), Amount::new(amount));
                self.at_start(Body::Transfer(Transfer { account, currency, amount }));
            }
        }
        for actor in 0..self.actors.len() {
            if !self.random.one_in(5) {
                let participant = ParticipantId(1 + self.random.below(u64::from(PARTICIPANTS)) as u32);
                self.at_start(Body::SetParticipant(self.actors[actor].user.session, participant));
            }
        }
    }
}

/// Grids that differ: plain, coarse with negative prices, the whole range of the numbers, fine.
pub(super) fn instruments(count: usize) -> Vec<InstrumentDefinition> {
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

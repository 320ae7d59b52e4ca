//! What operators set of instruments under version 2 of the rulebook: rules, ticks, phases, prices.

use protocol::{
    Allocation, BandAction, Body, Command, Currency, InstrumentRules, Phase, Price, PriceKind, Quantity,
    Settlement, Side, StopTrigger, TickRow, TickTable, Timestamp,
};

use super::{Generator, Theme};

const SECOND: u64 = 1_000_000_000;
/// Currencies that streams use: the first is what prices are in.
pub(super) const CURRENCIES: [(&str, u8); 3] = [("USD", 4), ("BTC", 2), ("EUR", 0)];

pub(super) fn currency(code: &str) -> Currency {
    Currency::new(code).expect("a valid code")
}

impl Generator {
    /// A request that version 2 has, mostly of an operator.
    pub(super) fn special_command(&mut self) -> Command {
        let of_accounts = match self.theme {
            Theme::Cash | Theme::Margin | Theme::Limits => 3,
            Theme::Mixed => 2,
            _ => 1,
        };
        let body = if self.random.below(4) < of_accounts { self.account_body() } else { self.rules_body() };
        let command = if self.random.one_in(3) {
            let actor = self.actor();
            self.request(actor, body)
        } else {
            self.system(body)
        };
        self.believe(&command);
        command
    }

    fn rules_body(&mut self) -> Body {
        let (at, instrument) = self.instrument();
        match self.random.below(24) {
            0..3 => Body::PutRules(instrument, self.instrument_rules(at)),
            3 => Body::PutTickTable(instrument, self.tick_table(at)),
            4..12 => {
                let calls = [Phase::PreOpen, Phase::OpeningAuction, Phase::ClosingAuction];
                let phase = if self.theme == Theme::Auctions && self.random.one_in(2) {
                    *self.random.pick(&calls)
                } else {
                    *self.random.pick(Phase::ALL)
                };
                if phase != Phase::Continuous {
                    let back = Body::SetPhase(self.instruments[at].instrument, Phase::Continuous);
                    let within = if self.theme == Theme::Auctions { 200 } else { 60 };
                    self.send_later(within, back);
                }
                Body::SetPhase(instrument, phase)
            }
            12..15 => {
                let time = match self.random.below(12) {
                    0 => self.time,
                    1 => u64::MAX,
                    _ => self.time + self.random.below(6 * SECOND),
                };
                Body::SchedulePhase(instrument, Timestamp(time), *self.random.pick(Phase::ALL))
            }
            15 => Body::ClearSchedule(instrument),
            16 => self.schedule_flood(at),
            17..20 => {
                let kind = *self.random.pick(PriceKind::ALL);
                Body::SetPrice(instrument, kind, self.price(at, Side::Sell))
            }
            20 => Body::SetSeed(self.random.below(3)),
            21 => Body::QueryInstrument(instrument),
            22 if self.random.one_in(6) => Body::Delist(instrument),
            _ => Body::SetPrice(instrument, PriceKind::Reference, self.on_tick(at)),
        }
    }

    /// The mid, on the instrument's tick.
    fn on_tick(&self, at: usize) -> Price {
        Price(self.mids[at] * self.instruments[at].tick_size.0)
    }

    /// More phases than can be scheduled, far away, which are then forgotten.
    fn schedule_flood(&mut self, at: usize) -> Body {
        let instrument = self.instruments[at].instrument;
        let start = self.time + 1_000_000 * SECOND;
        if self.random.one_in(4) {
            for number in 0..66 {
                let body = Body::SchedulePhase(instrument, Timestamp(start + number), Phase::Halted);
                let command = self.system(body);
                self.setup.push_back(command);
            }
        }
        self.send_later(40, Body::ClearSchedule(instrument));
        Body::SchedulePhase(instrument, Timestamp(start), Phase::Halted)
    }

    /// Rules that go with the theme: what it is about is nearly always on.
    pub(super) fn instrument_rules(&mut self, at: usize) -> InstrumentRules {
        let definition = self.instruments[at];
        let (tick, lot) = (definition.tick_size.0.unsigned_abs(), definition.lot_size.0);
        let pro_rata = if self.theme == Theme::ProRata { 8 } else { 2 };
        let bands = if self.theme == Theme::Auctions { 5 } else { 1 };
        let has_bands = self.random.below(10) < bands;
        let band = |random: &mut crate::random::Random, width: i64| {
            if has_bands && random.one_in(2) {
                tick * (1 + random.below(width.unsigned_abs() + 2))
            } else {
                0
            }
        };
        let mut rules = InstrumentRules {
            allocation: if self.random.below(10) < pro_rata {
                *self.random.pick(&[Allocation::ProRata, Allocation::ProRataTop])
            } else {
                Allocation::PriceTime
            },
            allocation_minimum: Quantity(if self.random.one_in(3) { lot * self.random.below(5) } else { 0 }),
            stop_trigger: *self.random.pick(StopTrigger::ALL),
            quantity_min: Quantity(if self.random.one_in(5) { lot * self.random.below(4) } else { 0 }),
            notional_min: if self.random.one_in(8) { self.random.below(10_000) } else { 0 },
            notional_max: if self.random.one_in(8) { 1_000 + self.random.below(10_000_000) } else { 0 },
            protection: if self.random.one_in(3) { 0 } else { tick * self.random.below(20) },
            static_band: band(&mut self.random, self.width),
            dynamic_band: band(&mut self.random, self.width),
            band_action: *self.random.pick(BandAction::ALL),
            volatility_ms: if self.random.one_in(20) { 0 } else { self.random.below(2_000) as u32 },
            random_end_ms: if self.random.one_in(2) { 0 } else { self.random.below(1_000) as u32 },
            ..InstrumentRules::default()
        };
        self.settle(at, &mut rules);
        rules
    }

    /// What trades move: mostly what the instrument had from the start, since that can hardly change.
    fn settle(&mut self, at: usize, rules: &mut InstrumentRules) {
        let usual = match self.theme {
            Theme::Cash => Settlement::Cash,
            Theme::Margin => Settlement::Margin,
            Theme::Mixed => *[Settlement::Cash, Settlement::Margin, Settlement::None]
                .get(at % 3)
                .unwrap_or(&Settlement::None),
            _ => Settlement::None,
        };
        // Only an instrument whose prices are above zero can settle in cash.
        let usual = match usual {
            Settlement::Cash if self.instruments[at].price_min.0 <= 0 => Settlement::Margin,
            usual => usual,
        };
        rules.settlement = if self.random.one_in(20) { *self.random.pick(Settlement::ALL) } else { usual };
        if rules.settlement != Settlement::None {
            rules.quote = (!self.random.one_in(30)).then(|| currency("USD"));
            let base = if self.random.one_in(30) { "NONE" } else { "BTC" };
            rules.base = (rules.settlement == Settlement::Cash).then(|| currency(base));
        }
        if rules.settlement == Settlement::Margin {
            rules.initial_margin = self.random.below(5_000);
            rules.maintenance_margin = match self.random.below(20) {
                0 => rules.initial_margin + 1,
                _ => rules.initial_margin / 2,
            };
        }
    }

    fn tick_table(&mut self, at: usize) -> TickTable {
        let tick = self.instruments[at].tick_size.0;
        let mut from = (self.mids[at] + self.random.range(-20, 5)) * tick;
        let rows: Vec<TickRow> = (0..self.random.below(4))
            .map(|_| {
                from += tick * self.random.range(0, 12);
                let size = if self.random.one_in(20) { tick + 1 } else { tick * self.random.range(1, 4) };
                TickRow { from: Price(from), tick: Price(size) }
            })
            .collect();
        TickTable::new(&rows).unwrap_or_default()
    }
}

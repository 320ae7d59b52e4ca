//! The requests of one load connection: a mix of new orders, cancels and replaces around a price, from a seed.

use std::collections::VecDeque;
use std::str::FromStr;

use client::{cancel, limit, replace};
use protocol::{Body, ClientOrderId, InstrumentDefinition, InstrumentId, Price, Quantity, RequestId, Side};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use crate::decimal;

/// Price levels on either side of the middle.
const LEVELS: i64 = 50;
/// Largest quantity, in lots.
const LOTS_MAX: u64 = 10;
/// Orders that the flow believes live; beyond it cancels the oldest instead of adding one.
const LIVE_MAX: usize = 10_000;
/// Middle price where none is given, in units of the instrument's price at most.
const MID_MAX: i64 = 50_000;

/// Shares of the three kinds of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mix {
    new: u32,
    cancel: u32,
    replace: u32,
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts: Vec<u32> = text.split(':').filter_map(|part| part.parse().ok()).collect();
        match parts[..] {
            [new, cancel, replace]
                if new > 0 && text.split(':').count() == 3 && new.max(cancel).max(replace) <= 1000 =>
            {
                Ok(Self { new, cancel, replace })
            }
            _ => Err("three shares up to 1000, the first above 0, such as 50:40:10".to_owned()),
        }
    }
}

/// The instrument's prices and quantities, as far as the flow uses them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    instrument: InstrumentId,
    mid: i64,
    tick: i64,
    lot: u64,
    price_min: i64,
    price_max: i64,
}

impl Grid {
    /// The grid of an instrument around `mid`, or around the middle of its limits.
    pub(super) fn new(definition: &InstrumentDefinition, mid: Option<&str>) -> Result<Self, String> {
        let tick = definition.tick_size.0;
        let mid = match mid {
            Some(text) => {
                decimal::parse(text, definition.price_scale).map_err(|error| format!("--mid: {error}"))?
            }
            None => {
                let unit = 10i64.saturating_pow(definition.price_scale.into());
                let middle = (i128::from(definition.price_min.0) + i128::from(definition.price_max.0)) / 2;
                (middle as i64).min(unit.saturating_mul(MID_MAX))
            }
        };
        Ok(Self {
            instrument: definition.instrument,
            mid: mid.div_euclid(tick).saturating_mul(tick),
            tick,
            lot: definition.lot_size.0,
            price_min: definition.price_min.0,
            price_max: definition.price_max.0,
        })
    }

    /// The price `ticks` away from the middle, inside the limits.
    fn price(&self, ticks: i64) -> Price {
        let price = self.mid.saturating_add(ticks.saturating_mul(self.tick));
        let lowest = self.price_min.div_euclid(self.tick).saturating_mul(self.tick);
        let highest = self.price_max.div_euclid(self.tick).saturating_mul(self.tick);
        let lowest = if lowest < self.price_min { lowest.saturating_add(self.tick) } else { lowest };
        Price(price.clamp(lowest, highest.max(lowest)))
    }
}

/// The flow. The same seed gives the same requests.
#[derive(Debug)]
pub(super) struct Orders {
    rng: StdRng,
    grid: Grid,
    mix: Mix,
    cross: u32,
    /// Orders that the flow believes live, oldest first. What has traded is among them until a request finds out.
    live: VecDeque<(ClientOrderId, Side)>,
    next: Option<Body>,
}

impl Orders {
    pub(super) fn new(seed: u64, grid: Grid, mix: Mix, cross: u32) -> Self {
        Self { rng: StdRng::seed_from_u64(seed), grid, mix, cross, live: VecDeque::new(), next: None }
    }

    /// The next request, the same until it is [`taken`](Self::taken).
    pub(super) fn peek(&mut self) -> Body {
        match self.next {
            Some(body) => body,
            None => {
                let body = self.make();
                *self.next.insert(body)
            }
        }
    }

    /// The request given by [`peek`](Self::peek) was sent as `id`.
    pub(super) fn taken(&mut self, id: RequestId) {
        match self.next.take() {
            Some(Body::NewOrder(order)) => self.live.push_back((ClientOrderId(id.0), order.side)),
            Some(Body::CancelOrder(_)) => {
                self.live.pop_front();
            }
            _ => {}
        }
    }

    fn make(&mut self) -> Body {
        let all = self.mix.new + self.mix.cancel + self.mix.replace;
        let kind = self.rng.random_range(0..all);
        match self.live.front().copied() {
            Some((oldest, _)) if self.live.len() >= LIVE_MAX => cancel(oldest),
            Some((oldest, _)) if kind >= self.mix.new && kind < self.mix.new + self.mix.cancel => {
                cancel(oldest)
            }
            Some(_) if kind >= self.mix.new + self.mix.cancel => {
                let (order, side) = self.live[self.rng.random_range(0..self.live.len())];
                replace(order, self.quantity(), self.passive(side))
            }
            _ => {
                let side = if self.rng.random() { Side::Buy } else { Side::Sell };
                let price = match self.rng.random_range(0..100) < self.cross {
                    true => self.passive(side.opposite()),
                    false => self.passive(side),
                };
                Body::NewOrder(limit(self.grid.instrument, side, self.quantity(), price))
            }
        }
    }

    fn quantity(&mut self) -> Quantity {
        Quantity(self.rng.random_range(1..=LOTS_MAX) * self.grid.lot)
    }

    /// A price at which an order of that side rests: on its own side of the middle.
    fn passive(&mut self, side: Side) -> Price {
        let away = self.rng.random_range(1..=LEVELS);
        self.grid.price(if side == Side::Buy { -away } else { away })
    }
}

#[cfg(test)]
mod tests {
    use protocol::{NewOrder, ReplaceOrder};

    use super::*;

    fn definition(symbol: &str) -> InstrumentDefinition {
        let list = crate::instruments::demonstration().expect("the embedded list");
        *list.iter().find(|entry| entry.symbol.as_str() == symbol).expect("an embedded instrument")
    }

    #[test]
    fn shares_are_three_numbers() {
        assert_eq!("50:40:10".parse(), Ok(Mix { new: 50, cancel: 40, replace: 10 }));
        for text in ["", "50", "50:40", "0:1:1", "1:2:x", "1:2:3:4", "1001:0:0", "-1:2:3"] {
            assert!(text.parse::<Mix>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_flow_depends_on_its_seed_and_stays_on_the_grid() {
        for symbol in ["BTCUSD", "EURUSD", "POWER"] {
            let definition = definition(symbol);
            let grid = Grid::new(&definition, None).expect("a grid");
            let mix = "50:30:20".parse().expect("a mix");
            let flow = |seed| {
                let mut orders = Orders::new(seed, grid, mix, 10);
                (1..=5_000)
                    .map(|id| {
                        let body = orders.peek();
                        assert_eq!(body, orders.peek(), "the same until it is taken");
                        orders.taken(RequestId(id));
                        body
                    })
                    .collect::<Vec<_>>()
            };
            let bodies = flow(1);
            assert_eq!(bodies, flow(1));
            assert_ne!(bodies, flow(2));
            let on_grid = |price: Price, quantity: Quantity| {
                price.0 % definition.tick_size.0 == 0
                    && (definition.price_min..=definition.price_max).contains(&price)
                    && quantity.0.is_multiple_of(definition.lot_size.0)
                    && quantity.0 > 0
            };
            let mut kinds = [0; 3];
            for body in &bodies {
                match body {
                    Body::NewOrder(NewOrder { price: Some(price), quantity, .. }) => {
                        assert!(on_grid(*price, *quantity), "{body:?}");
                        kinds[0] += 1;
                    }
                    Body::ReplaceOrder(ReplaceOrder { price: Some(price), quantity, .. }) => {
                        assert!(on_grid(*price, *quantity), "{body:?}");
                        kinds[1] += 1;
                    }
                    Body::CancelOrder(_) => kinds[2] += 1,
                    other => panic!("{other:?}"),
                }
            }
            assert!(kinds.iter().all(|count| *count > 500), "{kinds:?}");
        }
    }
}

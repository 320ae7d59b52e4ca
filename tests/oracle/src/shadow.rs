//! Order books rebuilt from events alone, as a reader of the market's data would: they must be the engine's depth.

use std::collections::BTreeMap;

use exchange::Exchange;
use protocol::{DepthLevel, Event, InstrumentId, Price, Side};

use crate::compare::leaves_depth;

#[derive(Clone, Copy, Debug, Default)]
struct Level {
    quantity: u128,
    orders: u32,
}

/// Levels of all instruments.
#[derive(Clone, Debug, Default)]
pub struct Shadow {
    levels: BTreeMap<(InstrumentId, Side, Price), Level>,
}

/// A place in the depth.
type At = (InstrumentId, Side, Price);

impl Shadow {
    /// Takes in an event.
    ///
    /// # Errors
    /// More leaves the depth than there is.
    pub fn take(&mut self, event: &Event) -> Result<(), String> {
        match event {
            Event::Added(e) => {
                let level = self.levels.entry((e.instrument, e.side, e.price)).or_default();
                level.quantity += u128::from(e.quantity.0);
                level.orders += 1;
                Ok(())
            }
            Event::Executed(e) if leaves_depth(e.liquidity) => {
                let is_last = e.leaves_quantity.0 == 0;
                self.leave((e.instrument, e.side, e.last_price), e.last_quantity.0, is_last)
            }
            Event::Canceled(e) => match e.resting_price {
                Some(price) => self.leave((e.instrument, e.side, price), e.canceled_quantity.0, true),
                None => Ok(()),
            },
            Event::Expired(e) => match e.resting_price {
                Some(price) => self.leave((e.instrument, e.side, price), e.expired_quantity.0, true),
                None => Ok(()),
            },
            Event::Reduced(e) => self.leave((e.instrument, e.side, e.price), e.quantity.0, e.gone),
            _ => Ok(()),
        }
    }

    fn leave(&mut self, at: At, quantity: u64, gone: bool) -> Result<(), String> {
        let level = self.levels.get_mut(&at).ok_or_else(|| format!("{at:?} is no level of the depth"))?;
        if level.quantity < u128::from(quantity) || level.orders == 0 {
            return Err(format!("{quantity} leaves {at:?}, which has {level:?}"));
        }
        level.quantity -= u128::from(quantity);
        level.orders -= u32::from(gone);
        if level.orders == 0 {
            if level.quantity > 0 {
                return Err(format!("{at:?} has quantity without orders"));
            }
            self.levels.remove(&at);
        }
        Ok(())
    }

    /// Compares the whole depth.
    ///
    /// # Errors
    /// The side that differs.
    pub fn check(&self, exchange: &Exchange) -> Result<(), String> {
        for (definition, _) in exchange.instruments() {
            let id = definition.instrument;
            let depth = exchange.depth(id, usize::MAX).ok_or("an instrument has no depth")?;
            for (side, ours) in [(Side::Buy, depth.bids), (Side::Sell, depth.asks)] {
                let mut theirs: Vec<DepthLevel> = self
                    .levels
                    .range((id, side, Price(i64::MIN))..=(id, side, Price(i64::MAX)))
                    .map(|((_, _, price), level)| DepthLevel {
                        price: *price,
                        quantity: u64::try_from(level.quantity).unwrap_or(u64::MAX).into(),
                        orders: level.orders,
                    })
                    .collect();
                if side == Side::Buy {
                    theirs.reverse();
                }
                if ours != theirs {
                    return Err(format!("instrument {id}, {side}: depth {ours:?}\nnot {theirs:?}"));
                }
            }
        }
        Ok(())
    }
}

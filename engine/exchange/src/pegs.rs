//! Pegged orders: the price that the displayed book gives them, and the look at them when it may have changed.

use protocol::{Peg, PegReference, Price, RequestId, Side};

use crate::exchange::Exchange;
use crate::extras::{Standing, Wait};
use crate::outbox::{EventSink, Outbox};

impl Exchange {
    /// The price of a peg where bid and ask are these; `None`: it has none and waits.
    pub(crate) fn peg_price(
        &self,
        place: u32,
        side: Side,
        peg: Peg,
        limit: Option<Price>,
        [bid, ask]: [Option<Price>; 2],
    ) -> Option<Price> {
        let wide = |price: Option<Price>| price.map(|price| i128::from(price.0));
        let (bid, ask) = (wide(bid), wide(ask));
        let instrument = self.instruments.get(place);
        // Halves are rounded away from the other side, as all of it is.
        let reference = match (peg.reference, side) {
            (PegReference::BestBid, _) => bid?,
            (PegReference::BestAsk, _) => ask?,
            (PegReference::Midpoint, Side::Buy) => (bid? + ask?).div_euclid(2),
            (PegReference::Midpoint, Side::Sell) => (bid? + ask? + 1).div_euclid(2),
        };
        let offset = i128::from(peg.offset);
        let on_tick = match side {
            Side::Buy => instrument.round_down(ask.map_or(i128::MAX, |ask| ask - 1).min(reference - offset)),
            Side::Sell => instrument.round_up(bid.map_or(i128::MIN, |bid| bid + 1).max(reference + offset)),
        };
        let price = on_tick?;
        Some(match (limit, side) {
            (None, _) => price,
            (Some(limit), Side::Buy) => price.min(limit),
            (Some(limit), Side::Sell) => price.max(limit),
        })
    }

    /// Gives every peg the price that it has now. One whose price changes comes in anew.
    pub(crate) fn look_at_pegs<S: EventSink>(&mut self, place: u32, out: &mut Outbox<'_, S>) -> bool {
        if !self.is_continuous(place) {
            return false;
        }
        let best = self.best_prices(place);
        let Some(special) = self.instruments.get_mut(place).special.as_mut() else { return false };
        let waiting = &mut special.waiting;
        if waiting.pegs.is_empty() || waiting.looked_at == Some(best) {
            return false;
        }
        waiting.looked_at = Some(best);
        let mut did = false;
        let mut last = 0;
        while self.is_continuous(place)
            && let Some((id, handle)) = self.peg_after(place, last)
        {
            last = id;
            let order = *self.orders.arena.get(handle);
            let Some(extra) = self.orders.extra(handle).copied() else { continue };
            let before = match extra.standing {
                Standing::Hidden => Some(order.price),
                Standing::Waiting(Wait::Peg) => None,
                _ => continue,
            };
            let Some(peg) = extra.terms.peg() else { continue };
            let after = self.peg_price(place, order.side, peg, extra.limit, self.best_prices(place));
            if after == before {
                continue;
            }
            did = true;
            self.withdraw(handle, out);
            match after {
                None => self.wait(handle, Wait::Peg),
                price => self.enter_priced(handle, price, RequestId(0), out),
            }
        }
        did
    }

    /// Pegs must be looked at again though the book may not have changed.
    pub(crate) fn forget_look(&mut self, place: u32) {
        if let Some(special) = self.instruments.get_mut(place).special.as_mut() {
            special.waiting.looked_at = None;
        }
    }
}

/// Whether a peg could be, apart from the book: its distance is on the tick and not towards the other side.
pub(crate) fn is_valid(peg: Peg, tick: Price) -> bool {
    peg.offset >= 0 && peg.offset % tick.0 == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_on_the_tick_and_not_negative() {
        let peg = |offset| Peg { reference: PegReference::Midpoint, offset };
        assert!(is_valid(peg(0), Price(5)) && is_valid(peg(10), Price(5)));
        assert!(!is_valid(peg(-5), Price(5)) && !is_valid(peg(7), Price(5)));
    }
}

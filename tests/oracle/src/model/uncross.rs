//! Auctions: the price of an uncross, its trades, and what it would do now. Rules 64 and 68.

use std::collections::VecDeque;

use protocol::{Event, Indicative, InstrumentId, Liquidity, OrderId, Price, Side};

use super::order::Order;
use super::{Fault, Oracle, UNASKED};

/// What an uncross does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Uncross {
    pub price: Price,
    pub quantity: u128,
    /// What is bid beyond what is offered at the price; below zero the other way round.
    pub surplus: i128,
}

impl Oracle {
    /// Rule 64.1; `None` where bids and asks don't overlap.
    pub(super) fn uncross_price(&self, instrument: InstrumentId) -> Option<Uncross> {
        let (bid, ask) = (self.best(instrument, Side::Buy)?, self.best(instrument, Side::Sell)?);
        if bid < ask {
            return None;
        }
        let side = |side| -> Vec<(Price, u128)> {
            self.side(instrument, side).map(|(place, order)| (place.price(), order.open().into())).collect()
        };
        let (bids, asks) = (side(Side::Buy), side(Side::Sell));
        let at = |price: Price| {
            let bought: u128 = bids.iter().filter(|(bid, _)| *bid >= price).map(|(_, open)| open).sum();
            let sold: u128 = asks.iter().filter(|(ask, _)| *ask <= price).map(|(_, open)| open).sum();
            Uncross { price, quantity: bought.min(sold), surplus: bought as i128 - sold as i128 }
        };
        let mut prices: Vec<Price> = bids.iter().chain(&asks).map(|(price, _)| *price).collect();
        prices.retain(|price| (ask..=bid).contains(price));
        prices.sort_unstable();
        prices.dedup();
        // What only market orders have is nobody's limit.
        let (highest, lowest) = (self.furthest(instrument, Side::Buy), self.furthest(instrument, Side::Sell));
        let has = |orders: &[(Price, u128)], price: Price| orders.iter().any(|order| order.0 == price);
        let of_market =
            |price: Price| price == highest && !has(&asks, price) || price == lowest && !has(&bids, price);
        let market_only = prices.iter().all(|price| of_market(*price));
        prices.retain(|price| market_only || !of_market(*price));
        let all: Vec<Uncross> = prices.into_iter().map(at).collect();
        let most = all.iter().map(|it| it.quantity).max()?;
        let largest = || all.iter().filter(|it| it.quantity == most);
        let least = largest().map(|it| it.surplus.abs()).min()?;
        let best: Vec<Uncross> = largest().filter(|it| it.surplus.abs() == least).copied().collect();
        let (lowest, highest) = (*best.first()?, *best.last()?);
        if best.len() == 1 || !market_only && best.iter().all(|it| it.surplus < 0) {
            return Some(lowest);
        }
        if !market_only && best.iter().all(|it| it.surplus > 0) || self.is_faulty(Fault::AuctionTakesHighest)
        {
            return Some(highest);
        }
        let it = &self.instruments[&instrument];
        let price = match it.reference.or(it.last_trade) {
            None => lowest.price,
            Some(reference) if reference < lowest.price => lowest.price,
            Some(reference) if reference > highest.price => highest.price,
            Some(reference) => it.down(reference.0.into()).unwrap_or(lowest.price).max(lowest.price),
        };
        Some(at(price))
    }

    /// Rule 64: the trades of an uncross.
    pub(super) fn uncross(&mut self, instrument: InstrumentId) {
        let Some(plan) = self.uncross_price(instrument) else { return };
        // Places are those of the beginning: an iceberg trades with its whole quantity at its place.
        let queue = |side| -> VecDeque<OrderId> {
            self.side(instrument, side).map(|(_, order)| order.order_id).collect()
        };
        let (mut bids, mut asks) = (queue(Side::Buy), queue(Side::Sell));
        let mut left = plan.quantity;
        while left > 0 {
            let (Some(bid), Some(ask)) = (bids.front(), asks.front()) else { return };
            let (bid, ask) = (*self.order(*bid), *self.order(*ask));
            let most = u64::try_from(left).unwrap_or(u64::MAX);
            let quantity = most.min(bid.open()).min(ask.open());
            left -= u128::from(quantity);
            let party = |order: &Order| (order.order_id, Liquidity::Auction, UNASKED);
            self.execute(plan.price, quantity, party(&bid), party(&ask));
            self.reduce_in_auction(&bid, quantity);
            self.reduce_in_auction(&ask, quantity);
            for (order, queue) in [(&bid, &mut bids), (&ask, &mut asks)] {
                self.refill(order.order_id, true);
                self.retire_filled(order.order_id);
                if order.open() == quantity {
                    queue.pop_front();
                }
            }
        }
        if let Some(it) = self.instruments.get_mut(&instrument) {
            it.reference = Some(plan.price);
        }
    }

    /// A trade of an uncross takes the shown part first, then the reserve.
    fn reduce_in_auction(&mut self, before: &Order, quantity: u64) {
        let id: OrderId = before.order_id;
        let lost = before.shown.min(quantity);
        self.change(id, |order| order.shown -= lost);
        self.reduced(before, lost, lost == before.shown);
    }

    /// Rule 68: at the end of a command.
    pub(super) fn indicate(&mut self) {
        let ids: Vec<InstrumentId> = self.instruments.keys().copied().collect();
        for id in ids {
            if !self.instruments[&id].phase.is_auction() {
                continue;
            }
            let plan = self.uncross_price(id);
            let surplus = plan.map_or(0, |plan| plan.surplus);
            let told = |quantity: u128| u64::try_from(quantity).unwrap_or(u64::MAX).into();
            let now = Indicative {
                instrument: id,
                price: plan.map(|plan| plan.price),
                quantity: told(plan.map_or(0, |plan| plan.quantity)),
                surplus: told(surplus.unsigned_abs()),
                surplus_side: match surplus {
                    0 => None,
                    1.. => Some(Side::Buy),
                    _ => Some(Side::Sell),
                },
            };
            let Some(it) = self.instruments.get_mut(&id) else { continue };
            if it.indicative.unwrap_or(nothing(id)) != now {
                it.indicative = Some(now);
                self.events.push(Event::Indicative(now));
            }
        }
    }
}

fn nothing(instrument: InstrumentId) -> Indicative {
    Indicative { instrument, price: None, quantity: 0.into(), surplus: 0.into(), surplus_side: None }
}

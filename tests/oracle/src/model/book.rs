//! Queues: who rests where, best prices, levels, and what the market sees of an order's coming and going.

use std::collections::BTreeSet;

use protocol::{Added, Event, InstrumentId, OrderId, Price, Reduced, Side};

use super::order::{Order, Standing, Why};
use super::{Fault, Oracle};

/// Where an order is in the list of all resting orders: by instrument, bids before asks, best price first, displayed before
/// hidden, oldest in the queue first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Its instrument.
    pub instrument: InstrumentId,
    /// Bids before asks.
    pub side: Side,
    /// Falls with the price for bids and rises with it for asks: the best has the lowest.
    rank: i128,
    /// Hidden orders come behind all displayed ones of their price.
    pub hidden: bool,
    /// Rises with every order that comes to rest.
    arrival: u64,
}

impl Place {
    fn first(instrument: InstrumentId, side: Side) -> Self {
        Self { instrument, side, rank: i128::MIN, hidden: false, arrival: 0 }
    }

    /// Its price.
    #[must_use]
    pub fn price(&self) -> Price {
        Price(match self.side {
            Side::Buy => -self.rank,
            Side::Sell => self.rank,
        } as i64)
    }

    fn level(&self) -> Level {
        (self.instrument, self.side, self.rank, self.hidden)
    }
}

fn rank(side: Side, price: Price) -> i128 {
    match side {
        Side::Buy => -i128::from(price.0),
        Side::Sell => i128::from(price.0),
    }
}

/// A level: instrument, side, the price's rank, hidden or not.
pub(super) type Level = (InstrumentId, Side, i128, bool);

/// The level at which a limit order that is shown rests.
pub(super) fn level_of(order: &Order) -> Level {
    let rank = order.limit.map_or(0, |price| rank(order.side, price));
    (order.instrument, order.side, rank, false)
}

/// Whether a price is the limit or a better one for an incoming order of the side.
pub(super) fn is_within(side: Side, price: Price, limit: Option<Price>) -> bool {
    match (side, limit) {
        (_, None) => true,
        (Side::Buy, Some(limit)) => price <= limit,
        (Side::Sell, Some(limit)) => price >= limit,
    }
}

impl Oracle {
    pub(super) fn order(&self, id: OrderId) -> &Order {
        &self.orders[&id]
    }

    pub(super) fn change(&mut self, id: OrderId, change: impl FnOnce(&mut Order)) {
        if let Some(order) = self.orders.get_mut(&id) {
            change(order);
        }
    }

    /// What rests on a side, best first.
    pub(super) fn side(&self, instrument: InstrumentId, side: Side) -> impl Iterator<Item = (Place, &Order)> {
        self.queue
            .range(Place::first(instrument, side)..)
            .take_while(move |(place, _)| place.instrument == instrument && place.side == side)
            .map(|(place, id)| (*place, self.order(*id)))
    }

    /// The orders that an incoming one of the side meets within its limit, in its order.
    pub(super) fn counterparties(
        &self,
        instrument: InstrumentId,
        side: Side,
        limit: Option<Price>,
    ) -> impl Iterator<Item = (Place, &Order)> {
        self.side(instrument, side.opposite())
            .take_while(move |(place, _)| is_within(side, place.price(), limit))
    }

    /// Best price of a side, displayed or hidden.
    pub(super) fn best(&self, instrument: InstrumentId, side: Side) -> Option<Price> {
        self.side(instrument, side).next().map(|(place, _)| place.price())
    }

    /// Best displayed price of a side.
    pub(super) fn best_displayed(&self, instrument: InstrumentId, side: Side) -> Option<Price> {
        self.side(instrument, side).find(|(place, _)| !place.hidden).map(|(place, _)| place.price())
    }

    pub(super) fn levels(&self) -> usize {
        self.levels_without(&BTreeSet::new()).len()
    }

    pub(super) fn levels_without(&self, leaving: &BTreeSet<OrderId>) -> BTreeSet<Level> {
        self.queue.iter().filter(|(_, id)| !leaving.contains(id)).map(|(place, _)| place.level()).collect()
    }

    /// Rule 16: there is a level at the price, or room for one, once some orders are gone.
    pub(super) fn has_level(
        &self,
        (instrument, side, price, hidden): (InstrumentId, Side, Price, bool),
        leaving: &BTreeSet<OrderId>,
    ) -> bool {
        if self.queue.len() < self.capacities.levels as usize {
            return true;
        }
        let levels = self.levels_without(leaving);
        let wanted = (instrument, side, rank(side, price), hidden);
        levels.contains(&wanted) || levels.len() < self.capacities.levels as usize
    }

    /// An order comes to rest behind all others of its price and kind.
    pub(super) fn rest(&mut self, id: OrderId) {
        let order = *self.order(id);
        let price = order.given.or(order.limit).expect("an order that rests has a price");
        let hidden = order.rests_hidden();
        self.arrivals += 1;
        let place = Place {
            instrument: order.instrument,
            side: order.side,
            rank: rank(order.side, price),
            hidden,
            arrival: self.arrivals,
        };
        self.put(id, place);
        if !hidden {
            let shown = order.terms.display().map_or(order.open(), |display| display.0.min(order.open()));
            self.show(id, shown);
        }
    }

    fn put(&mut self, id: OrderId, place: Place) {
        self.queue.insert(place, id);
        self.change(id, |order| order.standing = Standing::Resting(place));
        self.touched.insert(place.instrument);
        self.note_followed(id);
    }

    /// A part of an order is shown at its place.
    pub(super) fn show(&mut self, id: OrderId, shown: u64) {
        self.change(id, |order| order.shown = shown);
        let order = *self.order(id);
        let Standing::Resting(place) = order.standing else { return };
        self.events.push(Event::Added(Added {
            order_id: id,
            price: place.price(),
            quantity: shown.into(),
            instrument: order.instrument,
            side: order.side,
        }));
    }

    /// The order goes behind all others of its price.
    pub(super) fn go_back(&mut self, id: OrderId) {
        let Standing::Resting(place) = self.order(id).standing else { return };
        self.queue.remove(&place);
        self.arrivals += 1;
        self.put(id, Place { arrival: self.arrivals, ..place });
    }

    /// An order begins to wait.
    pub(super) fn wait(&mut self, id: OrderId, why: Why) {
        self.change(id, |order| {
            order.standing = Standing::Waiting(why);
            order.given = None;
        });
        self.touched.insert(self.order(id).instrument);
        self.note_followed(id);
    }

    /// Keeps the list of what rule 30 looks at.
    fn note_followed(&mut self, id: OrderId) {
        let order = self.order(id);
        let key = (order.instrument, id);
        if order.is_waiting() || order.terms.peg().is_some() {
            self.followed.insert(key);
        } else {
            self.followed.remove(&key);
        }
    }

    /// Takes an order out of its queue, or lets it wait no longer; says nothing of what it showed.
    pub(super) fn take_out(&mut self, id: OrderId) {
        let order = *self.order(id);
        self.touched.insert(order.instrument);
        if let Standing::Resting(place) = order.standing {
            self.queue.remove(&place);
        }
        self.followed.remove(&(order.instrument, id));
        self.change(id, |order| {
            order.standing = Standing::Entering;
            order.shown = 0;
        });
    }

    /// Takes an order out of its queue and tells of what it showed.
    pub(super) fn withdraw(&mut self, id: OrderId) {
        let order = *self.order(id);
        self.take_out(id);
        self.reduced(&order, order.shown, true);
    }

    /// Shown quantity left its place without a trade, a cancel or an expiry that would say so.
    pub(super) fn reduced(&mut self, before: &Order, by: u64, gone: bool) {
        let Standing::Resting(place) = before.standing else { return };
        if by > 0 {
            self.push_reduced(before, place.price(), by, gone);
        }
    }

    fn push_reduced(&mut self, order: &Order, price: Price, by: u64, gone: bool) {
        self.events.push(Event::Reduced(Reduced {
            order_id: order.order_id,
            price,
            quantity: by.into(),
            instrument: order.instrument,
            side: order.side,
            gone,
        }));
    }

    /// Rule 21: an iceberg without a shown part and with a reserve shows the next one at the back of its queue.
    pub(super) fn refill(&mut self, id: OrderId, is_told: bool) {
        let Some(order) = self.orders.get(&id).copied() else { return };
        let Standing::Resting(place) = order.standing else { return };
        if place.hidden || order.shown > 0 || order.open() == 0 {
            return;
        }
        if !is_told {
            self.push_reduced(&order, place.price(), 0, true);
        }
        let size = self.refill_size(&order);
        self.change(id, |order| order.refills += 1);
        if !self.is_faulty(Fault::RefillKeepsPlace) {
            self.go_back(id);
        }
        self.show(id, size.min(order.open()));
    }

    /// What the next refill shows, if so much is left.
    pub(super) fn refill_size(&self, order: &Order) -> u64 {
        let low = order.terms.display().map_or(u64::MAX, |display| display.0);
        let high = order.terms.display_high().map_or(low, |high| high.0);
        if high <= low {
            return low;
        }
        let lot = self.instruments[&order.instrument].definition.lot_size.0;
        let sizes = (high - low) / lot + 1;
        low + lot * self.draw([1, order.order_id.0, order.refills + 1], sizes)
    }
}

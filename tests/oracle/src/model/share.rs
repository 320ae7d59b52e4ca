//! Pro-rata allocation: rules 50 and 51.

use protocol::{Allocation, OrderId, RequestId};

use super::book::Place;
use super::{Fault, Oracle};

impl Oracle {
    /// One round at the level of a place.
    pub(super) fn share_level(&mut self, taker: OrderId, level: Place, request_id: RequestId) {
        let makers: Vec<OrderId> = self
            .side(level.instrument, level.side)
            .filter(|(place, _)| place.price() == level.price() && !place.hidden)
            .map(|(_, maker)| maker.order_id)
            .collect();
        for maker in &makers {
            let (Some(ours), Some(theirs)) = (self.orders.get(&taker), self.orders.get(maker)) else {
                return;
            };
            if let Some(action) = self.conflict(ours, theirs) {
                self.prevent(taker, *maker, action, request_id);
            }
        }
        let Some(order) = self.orders.get(&taker) else { return };
        let queue: Vec<(OrderId, u64)> =
            makers.iter().filter_map(|id| Some((*id, self.orders.get(id)?.shown))).collect();
        let parts = self.shares(level, order.open(), &queue);
        for ((maker, _), part) in queue.iter().zip(parts) {
            if part > 0 {
                self.trade(taker, *maker, part, request_id);
            }
        }
    }

    /// What each of a queue gets of an incoming quantity.
    fn shares(&self, level: Place, incoming: u64, queue: &[(OrderId, u64)]) -> Vec<u64> {
        let instrument = &self.instruments[&level.instrument];
        let lot = instrument.definition.lot_size.0;
        let shown: u128 = queue.iter().map(|(_, shown)| u128::from(*shown)).sum();
        if u128::from(incoming) >= shown {
            return queue.iter().map(|(_, shown)| *shown).collect();
        }
        let mut parts = vec![0; queue.len()];
        let mut left = incoming;
        let mut sharing = 0;
        if instrument.rules.allocation == Allocation::ProRataTop {
            parts[0] = queue[0].1.min(left);
            left -= parts[0];
            sharing = 1;
        }
        let shown: u128 = queue[sharing..].iter().map(|(_, shown)| u128::from(*shown)).sum();
        let to_share = left;
        for (part, (_, shows)) in parts[sharing..].iter_mut().zip(&queue[sharing..]) {
            let share = (u128::from(to_share) * u128::from(*shows) / shown.max(1)) as u64 / lot * lot;
            *part = if share < instrument.rules.allocation_minimum.0 { 0 } else { share };
            left -= *part;
        }
        let mut order: Vec<usize> = (0..queue.len()).collect();
        if self.is_faulty(Fault::LeftoverToYoungest) {
            order.reverse();
        }
        for at in order {
            let more = left.min(queue[at].1 - parts[at]);
            parts[at] += more;
            left -= more;
        }
        parts
    }
}

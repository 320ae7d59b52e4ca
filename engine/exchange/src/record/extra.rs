//! Record of what an order has beyond its line: given just before the order's own record.

use protocol::StreamHash;
use rkyv::{Archive, Deserialize, Serialize};

use super::accounts::RatesRecord;

/// What few orders have. Optional terms are as the order was given them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Archive, Serialize, Deserialize)]
pub struct ExtraRecord {
    /// Stop price, as given.
    pub stop_price: Option<i64>,
    /// Distance of a trailing stop.
    pub trail: Option<u64>,
    /// Display quantity.
    pub display: Option<u64>,
    /// Largest display quantity of a refill.
    pub display_high: Option<u64>,
    /// When it expires, Unix nanoseconds.
    pub expire_time: Option<u64>,
    /// Minimum quantity, as given.
    pub minimum: Option<u64>,
    /// Byte of what a peg follows.
    pub peg_reference: Option<u8>,
    /// Its distance.
    pub peg_offset: i64,
    /// Byte of the self-trade action.
    pub self_trade_action: Option<u8>,
    /// Self-trade group.
    pub self_trade_group: u32,
    /// One-cancels-the-other group.
    pub oco: Option<u64>,
    /// Client order id of the parent.
    pub parent: Option<u64>,
    /// Byte of the order type.
    pub order_type: u8,
    /// Where it stands: 1 displayed, 2 hidden; waiting: 3 stop, 4 at the close, 5 child, 6 peg.
    pub standing: u8,
    /// Limit price.
    pub limit: Option<i64>,
    /// Open quantity that is not in the queue.
    pub reserve: u64,
    /// Refills so far.
    pub refills: u32,
    /// Stop price as it is now; only of stops that have not triggered.
    pub stop_now: Option<i64>,
    /// Minimum that is in force.
    pub minimum_now: Option<u64>,
    /// What the parent of a waiting child executed, where that is done.
    pub parent_executed: Option<u64>,
    /// The parent was filled.
    pub parent_filled: bool,
    /// Entered by a mass quote.
    pub quote: bool,
    /// What it pays; only of orders that their account follows.
    pub tracked: Option<RatesRecord>,
}

impl ExtraRecord {
    pub(super) fn fold(&self, hash: &mut StreamHash) {
        let detail = [
            self.order_type,
            self.standing,
            self.peg_reference.unwrap_or(0),
            self.self_trade_action.unwrap_or(0),
            self.parent_filled.into(),
            self.quote.into(),
            self.tracked.is_some().into(),
            7,
        ];
        hash.pair(u64::from_le_bytes(detail), self.peg_offset as u64);
        hash.pair(self.self_trade_group.into(), self.reserve);
        hash.word(self.refills.into());
        for price in [self.stop_price, self.limit, self.stop_now] {
            hash.pair(price.is_some().into(), price.unwrap_or(0) as u64);
        }
        let numbers = [
            self.trail,
            self.display,
            self.display_high,
            self.expire_time,
            self.minimum,
            self.oco,
            self.parent,
            self.minimum_now,
            self.parent_executed,
        ];
        for number in numbers {
            hash.pair(number.is_some().into(), number.unwrap_or(0));
        }
        if let Some(rates) = &self.tracked {
            rates.fold(hash);
        }
    }
}

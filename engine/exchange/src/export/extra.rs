//! Export of what orders have beyond their lines.

use crate::arena::Handle;
use crate::exchange::Exchange;
use crate::extras::{Standing, Wait};
use crate::record::ExtraRecord;

use super::accounts::rates_record;

/// The byte of a standing in a record; `None` of what no order has between two commands.
fn standing_byte(standing: Standing) -> Option<u8> {
    Some(match standing {
        Standing::Entering => return None,
        Standing::Displayed => 1,
        Standing::Hidden => 2,
        Standing::Waiting(Wait::Stop) => 3,
        Standing::Waiting(Wait::Close) => 4,
        Standing::Waiting(Wait::Parent) => 5,
        Standing::Waiting(Wait::Peg) => 6,
    })
}

impl Exchange {
    /// The record of what an order has beyond its line; `None` of a plain one.
    pub(super) fn extra_record(&self, handle: Handle) -> Option<ExtraRecord> {
        let extra = self.orders.extra(handle)?;
        let terms = &extra.terms;
        let (peg, self_trade) = (terms.peg(), terms.self_trade());
        Some(ExtraRecord {
            stop_price: terms.stop_price().map(|price| price.0),
            trail: terms.trail(),
            display: terms.display().map(|quantity| quantity.0),
            display_high: terms.display_high().map(|quantity| quantity.0),
            expire_time: terms.expire_time().map(|time| time.0),
            minimum: terms.minimum().map(|quantity| quantity.0),
            peg_reference: peg.map(|peg| peg.reference.to_byte()),
            peg_offset: peg.map_or(0, |peg| peg.offset),
            self_trade_action: self_trade.map(|it| it.action.to_byte()),
            self_trade_group: self_trade.map_or(0, |it| it.group),
            oco: terms.oco(),
            parent: terms.parent().map(|id| id.0),
            order_type: extra.order_type.to_byte(),
            standing: standing_byte(extra.standing)?,
            limit: extra.limit.map(|price| price.0),
            reserve: extra.reserve,
            refills: extra.refills,
            stop_now: extra.stop_price.map(|price| price.0),
            minimum_now: extra.minimum.map(|quantity| quantity.0),
            parent_executed: extra.fate.map(|fate| fate.executed),
            parent_filled: extra.fate.is_some_and(|fate| fate.filled),
            quote: extra.quote,
            tracked: extra.tracked.map(|tracked| rates_record(&tracked.fees)),
        })
    }
}

//! Trades of the day that may still be busted or corrected: the last of those with at least one tracked side.

use std::collections::VecDeque;

use protocol::{AccountId, ClientOrderId, InstrumentId, Price, Side, TradeId};

/// Most trades that are kept; an older one can't be busted any more.
pub(crate) const TRADES_MAX: usize = 1_000_000;

/// One side of a trade.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptSide {
    /// Place of the order's session.
    pub(crate) session: u32,
    pub(crate) client_order_id: ClientOrderId,
    /// As the order had it.
    pub(crate) account: AccountId,
    /// Whether the account is a registered one that the trade moved.
    pub(crate) tracked: bool,
    /// What it paid.
    pub(crate) fee: i128,
}

/// A trade that may be busted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeptTrade {
    pub(crate) trade_id: TradeId,
    pub(crate) instrument: InstrumentId,
    /// As it is after corrections.
    pub(crate) price: Price,
    pub(crate) quantity: u64,
    pub(crate) busted: bool,
    /// The buyer's, then the seller's.
    pub(crate) sides: [KeptSide; 2],
}

/// The sides of a trade in the order in which they are settled.
pub(crate) const SIDES: [Side; 2] = [Side::Buy, Side::Sell];

/// The trades that are kept, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Trades(VecDeque<KeptTrade>);

impl Trades {
    /// Keeps a trade, whose number is above all before, and lets the oldest go where there are too many.
    pub(crate) fn keep(&mut self, trade: KeptTrade) {
        if self.0.len() >= TRADES_MAX {
            self.0.pop_front();
        }
        self.0.push_back(trade);
    }

    pub(crate) fn find(&self, id: TradeId) -> Option<&KeptTrade> {
        self.0.get(self.0.binary_search_by_key(&id, |trade| trade.trade_id).ok()?)
    }

    pub(crate) fn find_mut(&mut self, id: TradeId) -> Option<&mut KeptTrade> {
        let at = self.0.binary_search_by_key(&id, |trade| trade.trade_id).ok()?;
        self.0.get_mut(at)
    }

    /// Oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &KeptTrade> {
        self.0.iter()
    }

    /// The youngest.
    pub(crate) fn last(&self) -> Option<&KeptTrade> {
        self.0.back()
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// A new trading day: none can be busted.
    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn forget_instrument(&mut self, instrument: InstrumentId) {
        self.0.retain(|trade| trade.instrument != instrument);
    }
}

//! What the feed says against what the venue did: resting orders and trades, and why they differ. A difference is explained
//! from the feed's own rows and the reports; it is not an error.

use std::collections::{BTreeMap, HashMap, HashSet};

use protocol::{InstrumentDefinition, Price, Quantity, RejectReason, Side};
use serde_json::{Value, json};

use super::feed::{Action, FeedTrade, Row};
use super::ledger::Ledger;
use super::plan::Plan;
use crate::{decimal, say};

/// Rows that were rejected, and why.
#[derive(Debug, Default)]
pub(super) struct Rejections(HashMap<usize, RejectReason>);

impl Rejections {
    pub(super) fn new() -> Self {
        Self::default()
    }

    pub(super) fn insert(&mut self, row: usize, reason: RejectReason) {
        self.0.insert(row, reason);
    }

    pub(super) fn by_reason(&self) -> BTreeMap<RejectReason, u64> {
        let mut counts = BTreeMap::new();
        self.0.values().for_each(|reason| *counts.entry(*reason).or_default() += 1);
        counts
    }
}

/// Why the venue's outcome is not the feed's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    /// One of the orders was rejected here.
    Rejected(RejectReason),
    /// The order traded here and not, or less, in the feed.
    TradedHere,
    /// The feed's trade is with an order whose rows never reached it: its limit does not cross the other's.
    NoCross,
    /// One of the two had been filled here by others before.
    FilledBefore,
    /// The incoming order found others here first, which the feed passed over: hidden or out of order there.
    OthersFirst,
    /// Both were in the book in the feed, crossing, and did not trade with anybody there.
    CrossedInFeed,
    /// They traded with others in the feed.
    OthersInFeed,
    /// The same two traded another quantity.
    OtherQuantity,
    /// None of the above.
    Unexplained,
}

impl Reason {
    fn text(self) -> String {
        match self {
            Self::Rejected(reason) => format!("rejected here: {reason}"),
            Self::TradedHere => "traded here, not or less in the feed".to_owned(),
            Self::NoCross => {
                "the feed's rows show no crossing limits: the price moved without a row".to_owned()
            }
            Self::FilledBefore => "one of the two was filled here before".to_owned(),
            Self::OthersFirst => {
                "visible orders had priority here that the feed passed over (hidden or already gone there)"
                    .to_owned()
            }
            Self::CrossedInFeed => "the feed shows both resting with crossing limits and no trade".to_owned(),
            Self::OthersInFeed => "they traded with others in the feed".to_owned(),
            Self::OtherQuantity => "the same two traded another quantity".to_owned(),
            Self::Unexplained => "no reason found".to_owned(),
        }
    }
}

/// One difference.
#[derive(Clone, Debug)]
struct Difference {
    reason: Reason,
    what: What,
}

#[derive(Clone, Copy, Debug)]
enum What {
    /// An order rests in the feed's book with that quantity, and here with that one (0 = not at all).
    Resting { id: u64, feed: Quantity, here: Quantity },
    /// Two orders traded in sum that quantity in the feed and that one here.
    Traded { buy: u64, sell: u64, feed: Quantity, here: Quantity },
}

/// The result.
pub(super) struct Comparison {
    feed_resting: usize,
    same_resting: usize,
    unknown_deletes: u64,
    trades: Option<TradeCounts>,
    differences: Vec<Difference>,
}

struct TradeCounts {
    feed: usize,
    here: usize,
    same_pairs: usize,
    same_price: usize,
}

/// A feed's own book at its last row.
struct FeedBook {
    live: BTreeMap<u64, Quantity>,
    /// Orders that the feed says traded.
    traded: HashSet<u64>,
    unknown_deletes: u64,
}

impl FeedBook {
    fn new(rows: &[Row]) -> Self {
        let mut book = Self { live: BTreeMap::new(), traded: HashSet::new(), unknown_deletes: 0 };
        for row in rows {
            let before = match row.action {
                Action::Deleted => book.live.remove(&row.id),
                Action::Created | Action::Changed => book.live.insert(row.id, row.volume),
            };
            match row.action {
                Action::Deleted if before.is_none() => book.unknown_deletes += 1,
                Action::Deleted if row.volume == Quantity(0) => drop(book.traded.insert(row.id)),
                Action::Changed if before.is_some_and(|before| row.volume < before) => {
                    book.traded.insert(row.id);
                }
                _ => {}
            }
        }
        book
    }
}

type Pair = (u64, u64);

/// What the explanations look things up in.
struct Case<'a> {
    plan: &'a Plan,
    rejections: &'a Rejections,
    book: &'a FeedBook,
    /// Quantity that each order traded here.
    done_here: &'a HashMap<u64, u64>,
    total: &'a HashMap<u64, Quantity>,
    limits: &'a HashMap<u64, Price>,
}

impl Comparison {
    pub(super) fn new(
        rows: &[Row],
        plan: &Plan,
        ledger: &Ledger,
        rejections: &Rejections,
        trades: Option<&[FeedTrade]>,
    ) -> Self {
        let book = FeedBook::new(rows);
        let created = rows.iter().filter(|row| row.action == Action::Created);
        let total = created.clone().map(|row| (row.id, row.volume)).collect();
        let limits = created.map(|row| (row.id, row.price)).collect();
        let here = trades_here(plan, ledger);
        let mut done_here = HashMap::new();
        for ((buy, sell), (quantity, _)) in &here {
            *done_here.entry(*buy).or_default() += quantity.0;
            *done_here.entry(*sell).or_default() += quantity.0;
        }
        let case =
            Case { plan, rejections, book: &book, done_here: &done_here, total: &total, limits: &limits };
        let mut differences = Vec::new();
        let same_resting = case.resting(ledger, &mut differences);
        let trades = trades.map(|trades| {
            let known: Vec<&FeedTrade> = trades
                .iter()
                .filter(|trade| total_has(&total, trade.buy_id) && total_has(&total, trade.sell_id))
                .collect();
            case.traded(&known, &here, ledger.trades().len(), &mut differences)
        });
        let unknown_deletes = book.unknown_deletes;
        Self { feed_resting: book.live.len(), same_resting, unknown_deletes, trades, differences }
    }

    pub(super) fn print(&self, definition: &InstrumentDefinition, examples: usize) {
        say!(
            "book: {} orders rest in the feed, {} of them the same here",
            self.feed_resting,
            self.same_resting
        );
        say!("feed: {} deletes of orders that it never created", self.unknown_deletes);
        if let Some(trades) = &self.trades {
            say!(
                "trades: {} in the feed, {} here; {} pairs of orders traded the same quantity, {} of them at the same price",
                trades.feed,
                trades.here,
                trades.same_pairs,
                trades.same_price
            );
        }
        let q = |quantity: Quantity| decimal::format(quantity.0.into(), definition.quantity_scale);
        for (kind, reason, found) in self.grouped() {
            say!("{} {kind} differ: {}", found.len(), reason.text());
            for what in found.iter().take(examples) {
                match what {
                    What::Resting { id, feed, here } => {
                        say!("  order {id}: {} in the feed, {} here", q(*feed), q(*here));
                    }
                    What::Traded { buy, sell, feed, here } => {
                        say!("  buy {buy} with sell {sell}: {} in the feed, {} here", q(*feed), q(*here));
                    }
                }
            }
        }
    }

    fn grouped(&self) -> Vec<(&'static str, Reason, Vec<What>)> {
        let mut groups: BTreeMap<(&'static str, Reason), Vec<What>> = BTreeMap::new();
        for difference in &self.differences {
            let kind = match difference.what {
                What::Resting { .. } => "resting orders",
                What::Traded { .. } => "traded pairs",
            };
            groups.entry((kind, difference.reason)).or_default().push(difference.what);
        }
        groups.into_iter().map(|((kind, reason), found)| (kind, reason, found)).collect()
    }

    pub(super) fn json(&self) -> Value {
        let differences: Vec<Value> = self
            .grouped()
            .into_iter()
            .map(|(kind, reason, found)| json!({ "kind": kind, "reason": reason.text(), "count": found.len() }))
            .collect();
        json!({
            "feed_resting": self.feed_resting,
            "same_resting": self.same_resting,
            "unknown_deletes": self.unknown_deletes,
            "feed_trades": self.trades.as_ref().map(|trades| trades.feed),
            "same_pairs": self.trades.as_ref().map(|trades| trades.same_pairs),
            "differences": differences,
        })
    }
}

fn total_has(total: &HashMap<u64, Quantity>, id: u64) -> bool {
    total.contains_key(&id)
}

/// Quantity and last price that each pair of orders traded here, buyer first.
fn trades_here(plan: &Plan, ledger: &Ledger) -> BTreeMap<Pair, (Quantity, Price)> {
    let mut pairs: BTreeMap<Pair, (Quantity, Price)> = BTreeMap::new();
    for trade in ledger.trades() {
        let (Some(maker), Some(taker)) = (plan.feed_id(trade.maker), plan.feed_id(trade.taker)) else {
            continue;
        };
        let pair = if trade.taker_side == Side::Buy { (taker, maker) } else { (maker, taker) };
        let (quantity, price) = pairs.entry(pair).or_default();
        quantity.0 += trade.quantity.0;
        *price = trade.price;
    }
    pairs
}

impl Case<'_> {
    /// Compares the resting orders; how many are the same.
    fn resting(&self, ledger: &Ledger, differences: &mut Vec<Difference>) -> usize {
        let mut same = 0;
        for (id, feed) in &self.book.live {
            let order = self.plan.order(*id).and_then(|order| ledger.order(order.client_order_id));
            let here = order.map_or(Quantity(0), |order| order.leaves);
            if here == *feed && order.is_some() {
                same += 1;
                continue;
            }
            let reason = match self.rejection(*id) {
                Some(reason) => Reason::Rejected(reason),
                None if self.done_here.contains_key(id) => Reason::TradedHere,
                None => Reason::Unexplained,
            };
            differences.push(Difference { reason, what: What::Resting { id: *id, feed: *feed, here } });
        }
        for (client_order_id, order) in ledger.orders() {
            let Some(id) = self.plan.feed_id(client_order_id).filter(|id| !self.book.live.contains_key(id))
            else {
                continue;
            };
            let what = What::Resting { id, feed: Quantity(0), here: order.leaves };
            differences.push(Difference { reason: Reason::Unexplained, what });
        }
        same
    }

    /// Compares the trades, pair by pair.
    fn traded(
        &self,
        trades: &[&FeedTrade],
        here: &BTreeMap<Pair, (Quantity, Price)>,
        count_here: usize,
        differences: &mut Vec<Difference>,
    ) -> TradeCounts {
        let mut feed: BTreeMap<Pair, (Quantity, Price)> = BTreeMap::new();
        for trade in trades {
            let (quantity, price) = feed.entry((trade.buy_id, trade.sell_id)).or_default();
            quantity.0 += trade.quantity.0;
            *price = trade.price;
        }
        let mut counts = TradeCounts { feed: trades.len(), here: count_here, same_pairs: 0, same_price: 0 };
        for (pair, (quantity, price)) in &feed {
            let (done, at) = here.get(pair).copied().unwrap_or_default();
            if done == *quantity {
                counts.same_pairs += 1;
                counts.same_price += usize::from(at == *price);
                continue;
            }
            let reason = if done == Quantity(0) { self.only_in_feed(*pair) } else { Reason::OtherQuantity };
            let what = What::Traded { buy: pair.0, sell: pair.1, feed: *quantity, here: done };
            differences.push(Difference { reason, what });
        }
        for (pair, (quantity, _)) in here.iter().filter(|(pair, _)| !feed.contains_key(pair)) {
            let what = What::Traded { buy: pair.0, sell: pair.1, feed: Quantity(0), here: *quantity };
            differences.push(Difference { reason: self.only_here(*pair), what });
        }
        counts
    }

    fn only_in_feed(&self, (buy, sell): Pair) -> Reason {
        if let Some(reason) = self.rejection(buy).or_else(|| self.rejection(sell)) {
            return Reason::Rejected(reason);
        }
        let (Some(bid), Some(ask)) = (self.limits.get(&buy), self.limits.get(&sell)) else {
            return Reason::Unexplained;
        };
        // The one that was created later came in; the other one rested.
        let row = |id| self.plan.order(id).map_or(0, |order| order.row);
        let (resting, incoming) = if row(buy) < row(sell) { (buy, sell) } else { (sell, buy) };
        if bid < ask {
            Reason::NoCross
        } else if self.is_filled(resting) {
            Reason::FilledBefore
        } else if self.done_here.contains_key(&incoming) {
            Reason::OthersFirst
        } else if self.is_filled(incoming) {
            Reason::FilledBefore
        } else {
            Reason::Unexplained
        }
    }

    fn only_here(&self, (buy, sell): Pair) -> Reason {
        match (self.book.traded.contains(&buy), self.book.traded.contains(&sell)) {
            (false, false) => Reason::CrossedInFeed,
            _ => Reason::OthersInFeed,
        }
    }

    fn is_filled(&self, id: u64) -> bool {
        let done = self.done_here.get(&id).copied().unwrap_or(0);
        self.total.get(&id).is_some_and(|total| done >= total.0)
    }

    /// Why the order was rejected when it was new.
    fn rejection(&self, id: u64) -> Option<RejectReason> {
        self.rejections.0.get(&self.plan.order(id)?.row).copied()
    }
}

#[cfg(test)]
mod tests {
    use protocol::{
        Accepted, AccountId, ClientOrderId, Event, Executed, InstrumentId, Liquidity, OrderFlags, OrderId,
        OrderType, Recipient, ReportNumber, RequestId, SessionId, TimeInForce, TradeId,
    };

    use super::*;

    const TO: Recipient = Recipient { session: SessionId(1), number: ReportNumber(1) };

    fn row(id: u64, action: Action, side: Side, price: i64, volume: u64) -> Row {
        Row { id, time_ms: 1, price: Price(price), volume: Quantity(volume), action, side }
    }

    fn accepted(row: &Row, id: u64) -> Event {
        Event::Accepted(Accepted {
            to: TO,
            request_id: RequestId(id),
            order_id: OrderId(id),
            price: Some(row.price),
            quantity: row.volume,
            instrument: InstrumentId(1),
            account: AccountId(0),
            side: row.side,
            order_type: OrderType::Limit,
            time_in_force: TimeInForce::GoodTillCancel,
            flags: OrderFlags::default(),
        })
    }

    fn executed(id: u64, side: Side, quantity: u64, leaves: u64, liquidity: Liquidity) -> Event {
        Event::Executed(Executed {
            to: TO,
            request_id: RequestId(0),
            order_id: OrderId(id),
            client_order_id: ClientOrderId(id),
            trade_id: TradeId(1),
            last_price: Price(100),
            last_quantity: Quantity(quantity),
            leaves_quantity: Quantity(leaves),
            cum_quantity: Quantity(quantity),
            instrument: InstrumentId(1),
            account: AccountId(0),
            side,
            liquidity,
        })
    }

    /// Order 11 rests alike in both. 12 and 13 cross and trade here while the feed lets both rest. 14 is rejected here; the
    /// feed says that it traded with 11.
    #[test]
    fn differences_are_found_and_explained() {
        let rows = [
            row(11, Action::Created, Side::Buy, 90, 5),
            row(12, Action::Created, Side::Sell, 100, 4),
            row(13, Action::Created, Side::Buy, 100, 3),
            row(14, Action::Created, Side::Sell, 80, 2),
        ];
        let mut plan = Plan::new(InstrumentId(1));
        let mut ledger = Ledger::default();
        for (id, row) in (1..).zip(&rows) {
            plan.sent(row, None, RequestId(id));
            if id < 4 {
                ledger.report(&accepted(row, id));
            }
        }
        ledger.report(&executed(3, Side::Buy, 3, 0, Liquidity::Taker));
        ledger.report(&executed(2, Side::Sell, 3, 1, Liquidity::Maker));
        let mut rejections = Rejections::new();
        rejections.insert(3, RejectReason::QuantityZero);
        let trade = FeedTrade { buy_id: 11, sell_id: 14, price: Price(90), quantity: Quantity(2) };
        let comparison = Comparison::new(&rows, &plan, &ledger, &rejections, Some(&[trade]));
        assert_eq!((comparison.feed_resting, comparison.same_resting), (4, 1));
        let found: Vec<(&str, Reason, usize)> =
            comparison.grouped().into_iter().map(|(kind, reason, what)| (kind, reason, what.len())).collect();
        assert_eq!(
            found,
            [
                ("resting orders", Reason::Rejected(RejectReason::QuantityZero), 1),
                ("resting orders", Reason::TradedHere, 2),
                ("traded pairs", Reason::Rejected(RejectReason::QuantityZero), 1),
                ("traded pairs", Reason::CrossedInFeed, 1),
            ]
        );
    }
}

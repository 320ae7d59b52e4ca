//! What may be read of the state, outside the log: metrics, queries, comparison of books. Nothing here changes anything.

use protocol::{
    AccountId, BookHash, Capacities, Checkpoint, ClientOrderId, ConnectionId, DepthLevel, DepthSnapshot,
    InstrumentDefinition, InstrumentId, OrderFlags, OrderId, Phase, Price, Quantity, ReportNumber, RequestId,
    Sequence, SessionId, Side, TimeInForce, Timestamp, TradingDay, UserDefinition,
};

use crate::arena::Handle;
use crate::book;
use crate::exchange::{Divergence, Exchange, UnknownRulebook};

/// A session as others may see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionView {
    /// The live connection.
    pub connection: Option<ConnectionId>,
    /// Number of the last report of the trading day; 0 where there is none.
    pub last_report: ReportNumber,
    /// Highest request id that the session has used.
    pub highest_request_id: RequestId,
    /// Live orders.
    pub open_orders: u64,
    /// When its orders are canceled unless it logs in before.
    pub deadline: Option<Timestamp>,
}

/// A resting order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderView {
    /// The venue's order id.
    pub order_id: OrderId,
    /// The owner's id of the order.
    pub client_order_id: ClientOrderId,
    /// The owner.
    pub session: SessionId,
    /// For whom.
    pub account: AccountId,
    /// The instrument.
    pub instrument: InstrumentId,
    /// Side.
    pub side: Side,
    /// Price.
    pub price: Price,
    /// What is left; never zero.
    pub leaves_quantity: Quantity,
    /// Executed so far.
    pub cum_quantity: Quantity,
    /// Day or good till canceled.
    pub time_in_force: TimeInForce,
    /// One-bit options.
    pub flags: OrderFlags,
}

/// How many there are of each thing that has a capacity, and of frames that nobody could be answered for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Live orders.
    pub orders: u32,
    /// Price levels with orders.
    pub levels: u32,
    /// Text ids used today.
    pub cl_ord_ids: u32,
    /// Users.
    pub sessions: u32,
    /// Instruments.
    pub instruments: u32,
    /// Frames of sessions that don't exist.
    pub ignored_frames: u64,
    /// Orders accepted since the first frame.
    pub orders_accepted: u64,
    /// Trades since the first frame.
    pub trades: u64,
}

impl Exchange {
    /// Sequence of the last frame applied; 0 before the first.
    #[must_use]
    pub fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Log time at that frame.
    #[must_use]
    pub fn log_time(&self) -> Timestamp {
        self.log_time
    }

    /// Hash over everything emitted so far, in order, with the sequence and log time of every frame.
    #[must_use]
    pub fn running_hash(&self) -> u64 {
        self.running_hash
    }

    /// The current trading day, from 1.
    #[must_use]
    pub fn trading_day(&self) -> TradingDay {
        self.trading_day
    }

    /// Version of the rules in force, from 1.
    #[must_use]
    pub fn rulebook_version(&self) -> u32 {
        self.rulebook_version
    }

    /// The switch to unknown rules that was come upon. Once there is one, nothing more may be applied: the command at that
    /// sequence is left out, so what would follow is another history.
    #[must_use]
    pub fn unknown_rulebook(&self) -> Option<UnknownRulebook> {
        self.unknown_rulebook
    }

    /// The capacities in force.
    #[must_use]
    pub fn capacities(&self) -> Capacities {
        self.capacities
    }

    /// Running hash at the last tick.
    #[must_use]
    pub fn checkpoint(&self) -> Option<Checkpoint> {
        self.checkpoint
    }

    /// The first contradiction between the log's checkpoints and ours. Once there is one, nothing that comes out is to be
    /// trusted.
    #[must_use]
    pub fn divergence(&self) -> Option<Divergence> {
        self.divergence
    }

    /// When something is due that fires with the first frame at or after that log time.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        [self.sessions.next_deadline(), self.timers.next_deadline()].into_iter().flatten().min()
    }

    /// Live orders, over all instruments.
    #[must_use]
    pub fn open_orders(&self) -> u64 {
        self.orders.arena.live().into()
    }

    /// How many there are of each thing.
    #[must_use]
    pub fn counts(&self) -> Counts {
        Counts {
            orders: self.orders.arena.live(),
            levels: self.levels,
            cl_ord_ids: self.orders.names.len(),
            sessions: self.sessions.users(),
            instruments: self.instruments.len(),
            ignored_frames: self.ignored,
            orders_accepted: self.last_order_id,
            trades: self.last_trade_id,
        }
    }

    /// All users, by session id.
    pub fn users(&self) -> impl Iterator<Item = &UserDefinition> {
        self.sessions.places().filter_map(|place| self.sessions.get(place).user.as_ref())
    }

    /// All instruments, by number.
    pub fn instruments(&self) -> impl Iterator<Item = (&InstrumentDefinition, Phase)> {
        self.instruments.iter().map(|instrument| (&instrument.definition, instrument.phase))
    }

    /// A session; `None` where there is none.
    #[must_use]
    pub fn session(&self, id: SessionId) -> Option<SessionView> {
        let session = self.sessions.get(self.sessions.place(id)?);
        Some(SessionView {
            connection: session.connection,
            last_report: ReportNumber(session.last_report),
            highest_request_id: session.highest_request_id,
            open_orders: session.open_orders.into(),
            deadline: session.deadline(),
        })
    }

    /// The best levels of an instrument, at most `levels` a side; `None` where there is no such instrument.
    #[must_use]
    pub fn depth(&self, instrument: InstrumentId, levels: usize) -> Option<DepthSnapshot> {
        let book = &self.instruments.get(self.instruments.place(instrument)?).book;
        let side = |side: Side| {
            book.side(side)
                .iter()
                .take(levels)
                .map(|level| {
                    let (mut quantity, mut orders) = (0u64, 0u32);
                    book::for_each_of_level(&self.orders.arena, level, |handle| {
                        quantity = quantity.saturating_add(self.orders.arena.get(handle).leaves);
                        orders += 1;
                    });
                    DepthLevel { price: book::price(side, level.key), quantity: Quantity(quantity), orders }
                })
                .collect()
        };
        Some(DepthSnapshot {
            instrument,
            sequence: self.sequence,
            bids: side(Side::Buy),
            asks: side(Side::Sell),
        })
    }

    /// Calls `f` for every resting order: by instrument, bids before asks, best price first, oldest in the queue first.
    pub fn for_each_order(&self, mut f: impl FnMut(&OrderView)) {
        self.for_each_handle(|handle| f(&self.view(handle)));
    }

    /// Hash of what rests where: instrument, side, price, queue order, session, client order id and open quantity. No
    /// ids of the venue and no times, so that two runs with the same matches agree.
    #[must_use]
    pub fn book_hash(&self) -> u64 {
        let mut hash = BookHash::default();
        self.for_each_order(|order| {
            let OrderView { instrument, side, price, leaves_quantity, session, client_order_id, .. } = *order;
            hash.order(instrument, side, price, leaves_quantity, session, client_order_id);
        });
        hash.value()
    }

    pub(crate) fn for_each_handle(&self, mut f: impl FnMut(Handle)) {
        for instrument in self.instruments.iter() {
            for side in [Side::Buy, Side::Sell] {
                instrument.book.for_each(&self.orders.arena, side, &mut f);
            }
        }
    }

    fn view(&self, handle: Handle) -> OrderView {
        let order = self.orders.arena.get(handle);
        OrderView {
            order_id: order.order_id,
            client_order_id: order.client_order_id,
            session: self.sessions.get(order.session).id,
            account: order.account,
            instrument: self.instruments.get(order.instrument).definition.instrument,
            side: order.side,
            price: order.price,
            leaves_quantity: Quantity(order.leaves),
            cum_quantity: Quantity(order.cum),
            time_in_force: order.time_in_force,
            flags: order.flags(),
        }
    }
}

//! What may be read of the state, outside the log: metrics, queries, comparison of books. Nothing here changes anything.

use protocol::{
    AccountId, BookHash, Capacities, Checkpoint, ClientOrderId, ConnectionId, DepthLevel, DepthSnapshot,
    InstrumentDefinition, InstrumentId, MarketState, OrderFlags, OrderId, OrderType, Phase, Price, Quantity,
    ReportNumber, RequestId, Sequence, SessionId, Side, Terms, TimeInForce, Timestamp, TradingDay,
    UserDefinition,
};

use crate::arena::Handle;
use crate::book;
use crate::exchange::{Divergence, Exchange, UnknownRulebook};
use crate::extras::{Standing, Wait};

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

/// Where a live order is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum OrderStanding {
    /// In the book, shown, in part at least.
    Displayed,
    /// In the book, not shown.
    Hidden,
    /// Outside the book: for its trigger.
    WaitsForTrigger,
    /// Outside the book: for the closing auction.
    WaitsForClose,
    /// Outside the book: for its parent.
    WaitsForParent,
    /// Outside the book: for a price to follow.
    WaitsForPeg,
}

/// A live order.
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
    /// Where it is.
    pub standing: OrderStanding,
    /// Price at which it rests; `None` while it waits.
    pub price: Option<Price>,
    /// Limit price, which a peg has besides; `None` of an order without one.
    pub limit: Option<Price>,
    /// Stop price as it is now, of a stop that has not triggered.
    pub stop_price: Option<Price>,
    /// What is left, shown or not; never zero.
    pub leaves_quantity: Quantity,
    /// What of it is an iceberg's reserve, behind the shown part.
    pub reserve_quantity: Quantity,
    /// Least quantity of an execution while it rests.
    pub minimum: Option<Quantity>,
    /// Executed so far.
    pub cum_quantity: Quantity,
    /// Type.
    pub order_type: OrderType,
    /// Time in force.
    pub time_in_force: TimeInForce,
    /// One-bit options.
    pub flags: OrderFlags,
    /// Terms as given, with the display quantity of the last replace that had one.
    pub terms: Terms,
    /// Whether it was entered by a mass quote.
    pub is_quote: bool,
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
        let known = self.instruments.get(self.instruments.place(instrument)?);
        let book = &known.book;
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
            state: Some(MarketState {
                phase: known.phase,
                indicative: known.special.as_ref().and_then(|special| special.told),
            }),
        })
    }

    /// Calls `f` for every live order, by instrument: displayed bids, displayed asks, hidden bids, hidden asks, each best
    /// price first and oldest in the queue first, and then those that wait, by order id.
    pub fn for_each_order(&self, mut f: impl FnMut(&OrderView)) {
        self.for_each_handle(|handle| f(&self.view(handle)));
    }

    /// Hash of what rests where: instrument, side, price, queue order, session, client order id and open quantity; hidden
    /// orders behind displayed ones, and those that wait with a price of 0. No ids of the venue and no times, so that two
    /// runs with the same matches agree.
    #[must_use]
    pub fn book_hash(&self) -> u64 {
        let mut hash = BookHash::default();
        self.for_each_order(|order| {
            let OrderView { instrument, side, price, leaves_quantity, session, client_order_id, .. } = *order;
            hash.order(
                instrument,
                side,
                price.unwrap_or_default(),
                leaves_quantity,
                session,
                client_order_id,
            );
        });
        hash.value()
    }

    pub(crate) fn for_each_handle(&self, mut f: impl FnMut(Handle)) {
        for instrument in self.instruments.iter() {
            for side in [Side::Buy, Side::Sell] {
                instrument.book.for_each(&self.orders.arena, side, &mut f);
            }
            let Some(special) = &instrument.special else { continue };
            for ladder in &special.hidden {
                book::for_each(ladder, &self.orders.arena, &mut f);
            }
            if special.waiting.live.is_empty() {
                continue;
            }
            let Some(place) = self.instruments.place(instrument.definition.instrument) else { continue };
            for handle in self.special_orders(place) {
                if self.orders.extra(handle).is_some_and(|it| matches!(it.standing, Standing::Waiting(_))) {
                    f(handle);
                }
            }
        }
    }

    fn view(&self, handle: Handle) -> OrderView {
        let order = self.orders.arena.get(handle);
        let extra = self.orders.extra(handle);
        let standing = match extra.map(|extra| extra.standing) {
            None | Some(Standing::Displayed | Standing::Entering) => OrderStanding::Displayed,
            Some(Standing::Hidden) => OrderStanding::Hidden,
            Some(Standing::Waiting(Wait::Stop)) => OrderStanding::WaitsForTrigger,
            Some(Standing::Waiting(Wait::Close)) => OrderStanding::WaitsForClose,
            Some(Standing::Waiting(Wait::Parent)) => OrderStanding::WaitsForParent,
            Some(Standing::Waiting(Wait::Peg)) => OrderStanding::WaitsForPeg,
        };
        let rests = matches!(standing, OrderStanding::Displayed | OrderStanding::Hidden);
        OrderView {
            order_id: order.order_id,
            client_order_id: order.client_order_id,
            session: self.sessions.get(order.session).id,
            account: order.account,
            instrument: self.instruments.get(order.instrument).definition.instrument,
            side: order.side,
            standing,
            price: rests.then_some(order.price),
            limit: extra.map_or(Some(order.price), |extra| extra.limit),
            stop_price: extra.and_then(|extra| extra.stop_price),
            leaves_quantity: Quantity(self.orders.open_quantity(handle)),
            reserve_quantity: Quantity(extra.map_or(0, |extra| extra.reserve)),
            minimum: extra.and_then(|extra| extra.minimum).map(|it| it.min(Quantity(order.leaves))),
            cum_quantity: Quantity(order.cum),
            order_type: extra.map_or(OrderType::Limit, |extra| extra.order_type),
            time_in_force: order.time_in_force,
            flags: order.flags(),
            terms: extra.map_or_else(Terms::default, |extra| extra.terms),
            is_quote: extra.is_some_and(|extra| extra.quote),
        }
    }
}

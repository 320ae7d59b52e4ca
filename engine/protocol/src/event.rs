//! Events: what the business logic emits, in order, into the output ring.
//!
//! Events for a session carry a [`Recipient`] with their report number and become numbered reports. The others are the
//! venue's own: book changes, trades, phases, definitions, connections, checkpoints.

use crate::{
    AccountId, Amount, CancelReason, ClOrdId, ClientOrderId, ConnectionId, Currency, EndReason, ExpireReason,
    FrameKind, InstrumentDefinition, InstrumentId, Joined, Liquidity, LoginRefusal, OrdStatus, OrderFlags,
    OrderId, OrderType, ParticipantId, Phase, Price, Quantity, RejectReason, ReportNumber, RequestId,
    RestateReason, Sequence, SessionId, Side, TimeInForce, Timestamp, TradeId, TradingDay, UserDefinition,
};

/// A slot of the output ring: an event with the place in the log that caused it. Two cache lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Output {
    /// The frame that caused it.
    pub sequence: Sequence,
    /// Log time at that frame.
    pub log_time: Timestamp,
    /// What happened.
    pub event: Event,
}

const _: () = assert!(size_of::<Output>() <= 128);

/// Who must hear of an event, and the number of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recipient {
    /// The session.
    pub session: SessionId,
    /// Number within the session's trading day.
    pub number: ReportNumber,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Text id of the request whose report follows next; the report carries it.
    Named(Named),
    /// A new order was taken in. It may trade or expire in the events after it.
    Accepted(Accepted),
    /// A request was refused and did nothing.
    Rejected(Rejected),
    /// One order's side of a trade.
    Executed(Executed),
    /// An order is gone because somebody asked, or a connection was lost.
    Canceled(Canceled),
    /// An order has another price or total quantity.
    Replaced(Replaced),
    /// An order goes on in a new trading day.
    Restated(Restated),
    /// An order, or what was left of it, is gone by its own terms.
    Expired(Expired),
    /// State of an order, as asked.
    OrderStatus(OrderStatusReport),
    /// A mass cancel is done; its cancels came before.
    MassCanceled(MassCanceled),
    /// An administrative request is done.
    AdminDone(AdminDone),
    /// A stop was triggered and enters the book next.
    Triggered(Triggered),
    /// A mass quote is done; its cancels and acceptances came before.
    MassQuoted(MassQuoted),
    /// What a trade did to an account.
    Settled(Settled),
    /// A trade was taken back or given another price.
    TradeRevised(TradeRevised),
    /// A balance, as asked.
    Balance(Balance),
    /// A position, as asked.
    Position(Position),
    /// An instrument's prices and open interest, as asked.
    InstrumentState(InstrumentState),
    /// An order came to rest in the book.
    Added(Added),
    /// A replace took quantity out of the book. (Executions of makers, cancels and expiries do so by themselves.)
    Reduced(Reduced),
    /// Two orders traded.
    Trade(Trade),
    /// An instrument's phase changed.
    PhaseChanged(InstrumentId, Phase),
    /// An instrument exists.
    InstrumentDefined(InstrumentDefinition),
    /// A user exists or changed.
    UserDefined(UserDefinition),
    /// A user has another participant, behind the reports that it has by now; 0 is none.
    ParticipantSet(SessionId, ParticipantId, Joined),
    /// A connection has its session.
    LoggedIn(LoggedIn),
    /// A connection doesn't get its session.
    LoginRefused(LoginRefused),
    /// A session's live connection is no longer so.
    ConnectionEnded(SessionId, ConnectionId, EndReason),
    /// A new trading day begins; reports are numbered from 1 again.
    DayStarted(TradingDay),
    /// Running hash after a tick's sequence.
    Checkpoint(Checkpoint),
    /// An operator set something that has no event of its own.
    Configured(Configured),
    /// What the uncross of a call would do now.
    Indicative(Indicative),
    /// An account's equity is below its maintenance margin.
    MarginCall(MarginCall),
    /// The command of this sequence was skipped on its operators' order: nothing of it was applied.
    Skipped(Skipped),
}

/// See [`Event::Named`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Named {
    /// The session of the report that follows.
    pub session: SessionId,
    /// The text id.
    pub cl_ord_id: ClOrdId,
}

/// See [`Event::Accepted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accepted {
    /// Who hears it.
    pub to: Recipient,
    /// The request, which is also the order's client order id.
    pub request_id: RequestId,
    /// The venue's order id.
    pub order_id: OrderId,
    /// Limit price; `None` for a market order.
    pub price: Option<Price>,
    /// Total quantity.
    pub quantity: Quantity,
    /// The instrument.
    pub instrument: InstrumentId,
    /// For whom.
    pub account: AccountId,
    /// Side.
    pub side: Side,
    /// Type.
    pub order_type: OrderType,
    /// Time in force.
    pub time_in_force: TimeInForce,
    /// One-bit options.
    pub flags: OrderFlags,
}

/// See [`Event::Rejected`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// Who hears it.
    pub to: Recipient,
    /// The request refused.
    pub request_id: RequestId,
    /// The order that the request named, where it named one by number.
    pub client_order_id: Option<ClientOrderId>,
    /// Highest request id that the session has used.
    pub highest_request_id: RequestId,
    /// The instrument, 0 where the request has none.
    pub instrument: InstrumentId,
    /// Kind of the request; `None` where the frame did not tell.
    pub request_kind: Option<FrameKind>,
    /// Why.
    pub reason: RejectReason,
}

/// See [`Event::Executed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Executed {
    /// Who hears it.
    pub to: Recipient,
    /// The request that made the trade happen, on the taker's report; 0 on the maker's.
    pub request_id: RequestId,
    /// The venue's order id.
    pub order_id: OrderId,
    /// The owner's id of the order.
    pub client_order_id: ClientOrderId,
    /// The trade; both sides carry the same.
    pub trade_id: TradeId,
    /// Price of this execution: the maker's, or an auction's one price.
    pub last_price: Price,
    /// Quantity of this execution.
    pub last_quantity: Quantity,
    /// What is left of the order.
    pub leaves_quantity: Quantity,
    /// Executed so far.
    pub cum_quantity: Quantity,
    /// The instrument.
    pub instrument: InstrumentId,
    /// For whom.
    pub account: AccountId,
    /// Side.
    pub side: Side,
    /// Resting or incoming. Only `Maker` takes its quantity out of the depth by itself; where `Hidden` or `Auction` does,
    /// a [`Reduced`] says so.
    pub liquidity: Liquidity,
}

/// See [`Event::Canceled`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Canceled {
    /// Who hears it: the order's owner.
    pub to: Recipient,
    /// The owner's own request; 0 where it did not ask.
    pub request_id: RequestId,
    /// The venue's order id.
    pub order_id: OrderId,
    /// The owner's id of the order.
    pub client_order_id: ClientOrderId,
    /// Price at which it was shown; `None` where nothing leaves the depth with this event: it waited, was hidden, never
    /// rested, or its shown part left with a [`Reduced`] before.
    pub resting_price: Option<Price>,
    /// What was left of the order.
    pub canceled_quantity: Quantity,
    /// Executed before.
    pub cum_quantity: Quantity,
    /// The instrument.
    pub instrument: InstrumentId,
    /// For whom.
    pub account: AccountId,
    /// Side.
    pub side: Side,
    /// Why.
    pub reason: CancelReason,
}

/// See [`Event::Replaced`]. What it does to the book comes after it: a [`Reduced`], the trades it makes, and an [`Added`]
/// where it rests again with a new place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replaced {
    /// Who hears it.
    pub to: Recipient,
    /// The replace request.
    pub request_id: RequestId,
    /// The venue's order id: stays.
    pub order_id: OrderId,
    /// The owner's id of the order: stays.
    pub client_order_id: ClientOrderId,
    /// New price; `None` where the order has none.
    pub price: Option<Price>,
    /// New total quantity.
    pub quantity: Quantity,
    /// What was executed before, under the new total.
    pub cum_quantity: Quantity,
    /// The instrument.
    pub instrument: InstrumentId,
    /// For whom.
    pub account: AccountId,
    /// Side.
    pub side: Side,
    /// Whether it kept its place in the queue.
    pub kept_place: bool,
}

/// See [`Event::Restated`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restated {
    /// Who hears it.
    pub to: Recipient,
    /// The venue's order id.
    pub order_id: OrderId,
    /// The owner's id of the order.
    pub client_order_id: ClientOrderId,
    /// Price; `None` where it has none.
    pub price: Option<Price>,
    /// What is left.
    pub leaves_quantity: Quantity,
    /// Executed so far.
    pub cum_quantity: Quantity,
    /// The instrument.
    pub instrument: InstrumentId,
    /// For whom.
    pub account: AccountId,
    /// Side.
    pub side: Side,
    /// Why.
    pub reason: RestateReason,
}

/// See [`Event::Expired`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Expired {
    /// Who hears it.
    pub to: Recipient,
    /// The request on whose entry it expired; 0 where it was resting.
    pub request_id: RequestId,
    /// The venue's order id.
    pub order_id: OrderId,
    /// The owner's id of the order.
    pub client_order_id: ClientOrderId,
    /// Price at which it was shown; `None` where nothing leaves the depth with this event: it waited, was hidden, never
    /// rested, or its shown part left with a [`Reduced`] before.
    pub resting_price: Option<Price>,
    /// What expired.
    pub expired_quantity: Quantity,
    /// Executed before.
    pub cum_quantity: Quantity,
    /// The instrument.
    pub instrument: InstrumentId,
    /// For whom.
    pub account: AccountId,
    /// Side.
    pub side: Side,
    /// Why.
    pub reason: ExpireReason,
}

/// See [`Event::OrderStatus`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OrderStatusReport {
    /// Who hears it.
    pub to: Recipient,
    /// The status request.
    pub request_id: RequestId,
    /// The venue's order id.
    pub order_id: OrderId,
    /// The owner's id of the order.
    pub client_order_id: ClientOrderId,
    /// Price: the limit, or what a peg or an auction gave it; `None` where it has none.
    pub price: Option<Price>,
    /// Stop price as it is now, of a stop that waits.
    pub stop_price: Option<Price>,
    /// What is left.
    pub leaves_quantity: Quantity,
    /// Executed so far.
    pub cum_quantity: Quantity,
    /// The instrument.
    pub instrument: InstrumentId,
    /// For whom.
    pub account: AccountId,
    /// Side.
    pub side: Side,
    /// State.
    pub status: OrdStatus,
}

/// See [`Event::MassCanceled`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MassCanceled {
    /// Who hears it: the sender of the request.
    pub to: Recipient,
    /// The request.
    pub request_id: RequestId,
    /// How many orders were canceled.
    pub orders: u64,
}

/// See [`Event::AdminDone`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AdminDone {
    /// Who hears it.
    pub to: Recipient,
    /// The request.
    pub request_id: RequestId,
    /// Kind of the request.
    pub request_kind: FrameKind,
    /// The instrument, 0 where the request has none.
    pub instrument: InstrumentId,
}

/// See [`Event::Added`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Added {
    /// The venue's order id.
    pub order_id: OrderId,
    /// Price.
    pub price: Price,
    /// What rests.
    pub quantity: Quantity,
    /// The instrument.
    pub instrument: InstrumentId,
    /// Side.
    pub side: Side,
}

/// See [`Event::Reduced`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reduced {
    /// The venue's order id.
    pub order_id: OrderId,
    /// Price at which it rests or rested.
    pub price: Price,
    /// What was taken out.
    pub quantity: Quantity,
    /// The instrument.
    pub instrument: InstrumentId,
    /// Side.
    pub side: Side,
    /// Whether the order left its place altogether.
    pub gone: bool,
}

/// See [`Event::Trade`]. The two executions of the trade come before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trade {
    /// The trade.
    pub trade_id: TradeId,
    /// The order that rested; in an auction the bid.
    pub maker_order_id: OrderId,
    /// The order that came in; in an auction the ask.
    pub taker_order_id: OrderId,
    /// The maker's price, or the auction's.
    pub price: Price,
    /// Quantity.
    pub quantity: Quantity,
    /// The instrument.
    pub instrument: InstrumentId,
    /// Side of the incoming order; `None` in an auction.
    pub taker_side: Option<Side>,
}

/// See [`Event::LoggedIn`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedIn {
    /// The session.
    pub session: SessionId,
    /// The connection that has it now.
    pub connection: ConnectionId,
    /// Current trading day.
    pub trading_day: TradingDay,
    /// Reports of the session in the current day so far.
    pub last_report: ReportNumber,
    /// Highest request id that the session has used.
    pub highest_request_id: RequestId,
}

/// See [`Event::LoginRefused`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoginRefused {
    /// The session asked for.
    pub session: SessionId,
    /// The connection that asked.
    pub connection: ConnectionId,
    /// Why.
    pub reason: LoginRefusal,
}

/// See [`Event::Checkpoint`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The tick's sequence.
    pub sequence: Sequence,
    /// Running hash over everything emitted up to and with that sequence, this event excepted.
    pub running_hash: u64,
}

/// See [`Event::Triggered`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Triggered {
    /// Who hears it.
    pub to: Recipient,
    /// The venue's order id.
    pub order_id: OrderId,
    /// The owner's id of the order.
    pub client_order_id: ClientOrderId,
    /// The stop price that was reached.
    pub stop_price: Price,
    /// Limit price; `None` for a market order.
    pub price: Option<Price>,
    /// What enters.
    pub leaves_quantity: Quantity,
    /// The instrument.
    pub instrument: InstrumentId,
    /// For whom.
    pub account: AccountId,
    /// Side.
    pub side: Side,
}

/// See [`Event::MassQuoted`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MassQuoted {
    /// Who hears it.
    pub to: Recipient,
    /// The request.
    pub request_id: RequestId,
    /// The instrument.
    pub instrument: InstrumentId,
    /// For whom.
    pub account: AccountId,
    /// Bids taken.
    pub bids: u8,
    /// Asks taken.
    pub asks: u8,
    /// Why the bids were refused.
    pub bid_reason: Option<RejectReason>,
    /// Why the asks were refused.
    pub ask_reason: Option<RejectReason>,
}

/// See [`Event::Settled`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// Who hears it: the order's owner.
    pub to: Recipient,
    /// The trade.
    pub trade_id: TradeId,
    /// The owner's id of the order.
    pub client_order_id: ClientOrderId,
    /// What the account paid, in units of the instrument's quote currency; negative where it was paid.
    pub fee: Amount,
    /// The account's position after the trade, in units of quantity.
    pub position: i64,
    /// The instrument.
    pub instrument: InstrumentId,
    /// The account.
    pub account: AccountId,
    /// Side of the order.
    pub side: Side,
}

/// See [`Event::TradeRevised`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TradeRevised {
    /// Who hears it: the owner of one of the trade's orders.
    pub to: Recipient,
    /// The trade.
    pub trade_id: TradeId,
    /// The owner's id of its order.
    pub client_order_id: ClientOrderId,
    /// The trade's quantity.
    pub quantity: Quantity,
    /// The trade's price until now.
    pub old_price: Price,
    /// Its price from now on; `None` where it was taken back.
    pub new_price: Option<Price>,
    /// The instrument.
    pub instrument: InstrumentId,
    /// The account.
    pub account: AccountId,
    /// Side of the order.
    pub side: Side,
}

/// See [`Event::Balance`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Balance {
    /// Who hears it.
    pub to: Recipient,
    /// The request.
    pub request_id: RequestId,
    /// The account; 0 for the venue's own fees.
    pub account: AccountId,
    /// The currency.
    pub currency: Currency,
    /// All of it.
    pub total: Amount,
    /// What of it open orders hold.
    pub held: Amount,
}

/// See [`Event::Position`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// Who hears it.
    pub to: Recipient,
    /// The request.
    pub request_id: RequestId,
    /// The account.
    pub account: AccountId,
    /// The instrument.
    pub instrument: InstrumentId,
    /// Bought minus sold, in units of quantity.
    pub quantity: i64,
    /// Sum of the trades' signed notionals, in 10^-(price_scale + quantity_scale); in units of the quote currency where
    /// the instrument settles.
    pub cost: Amount,
    /// Open quantity of buys.
    pub open_buy: u64,
    /// Open quantity of sells.
    pub open_sell: u64,
}

/// See [`Event::InstrumentState`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InstrumentState {
    /// Who hears it.
    pub to: Recipient,
    /// The request.
    pub request_id: RequestId,
    /// The instrument.
    pub instrument: InstrumentId,
    /// Its phase.
    pub phase: Phase,
    /// Price of the last trade.
    pub last_price: Option<Price>,
    /// Reference price.
    pub reference_price: Option<Price>,
    /// Mark price.
    pub mark_price: Option<Price>,
    /// Sum of all long positions, in units of quantity.
    pub open_interest: u64,
}

/// See [`Event::Configured`]. The digest stands for the values in the running hash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Configured {
    /// Kind of the request.
    pub kind: FrameKind,
    /// The instrument, account, session or group that it is about; 0 where it is about the venue.
    pub id: u32,
    /// Hash of the request's frame without its header.
    pub digest: u64,
}

/// See [`Event::Indicative`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Indicative {
    /// The instrument.
    pub instrument: InstrumentId,
    /// The price of the uncross; `None` where nothing would trade.
    pub price: Option<Price>,
    /// What would trade.
    pub quantity: Quantity,
    /// What would be left at that price on the larger side.
    pub surplus: Quantity,
    /// The larger side; `None` where both are equal.
    pub surplus_side: Option<Side>,
}

/// See [`Event::MarginCall`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarginCall {
    /// The account.
    pub account: AccountId,
    /// The currency.
    pub currency: Currency,
    /// Its equity.
    pub equity: Amount,
    /// What it should have at least.
    pub maintenance: Amount,
}

/// See [`Event::Skipped`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// BLAKE3 of the skipped frame, without its padding.
    pub frame_hash: [u8; 32],
}

impl Default for Output {
    /// What a ring's slot holds before anything was published into it.
    fn default() -> Self {
        Self { sequence: Sequence(0), log_time: Timestamp(0), event: Event::DayStarted(TradingDay(0)) }
    }
}

impl Event {
    /// Who must hear of it; `None` for the venue's own events.
    #[must_use]
    pub fn recipient(&self) -> Option<Recipient> {
        match self {
            Self::Accepted(e) => Some(e.to),
            Self::Rejected(e) => Some(e.to),
            Self::Executed(e) => Some(e.to),
            Self::Canceled(e) => Some(e.to),
            Self::Replaced(e) => Some(e.to),
            Self::Restated(e) => Some(e.to),
            Self::Expired(e) => Some(e.to),
            Self::OrderStatus(e) => Some(e.to),
            Self::MassCanceled(e) => Some(e.to),
            Self::AdminDone(e) => Some(e.to),
            Self::Triggered(e) => Some(e.to),
            Self::MassQuoted(e) => Some(e.to),
            Self::Settled(e) => Some(e.to),
            Self::TradeRevised(e) => Some(e.to),
            Self::Balance(e) => Some(e.to),
            Self::Position(e) => Some(e.to),
            Self::InstrumentState(e) => Some(e.to),
            Self::Named(_)
            | Self::Added(_)
            | Self::Reduced(_)
            | Self::Trade(_)
            | Self::PhaseChanged(..)
            | Self::InstrumentDefined(_)
            | Self::UserDefined(_)
            | Self::ParticipantSet(..)
            | Self::LoggedIn(_)
            | Self::LoginRefused(_)
            | Self::ConnectionEnded(..)
            | Self::DayStarted(_)
            | Self::Checkpoint(_)
            | Self::Configured(_)
            | Self::Indicative(_)
            | Self::MarginCall(_)
            | Self::Skipped(_) => None,
        }
    }
}

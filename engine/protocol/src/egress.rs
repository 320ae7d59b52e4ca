//! What an output stage tells the gateways. The reports themselves are read from the report log by number.

use crate::{
    ConnectionId, EndReason, InstrumentDefinition, InstrumentId, LoggedIn, LoginRefused, ParticipantId,
    Price, Quantity, ReportNumber, Sequence, SessionId, TradingDay, UserDefinition,
};

/// One thing that gateways must know. Everything told is already durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// The report log holds the session's reports of the day up to this number.
    Reports(SessionId, TradingDay, ReportNumber),
    /// A connection has its session.
    LoggedIn(LoggedIn),
    /// A connection doesn't get its session.
    LoginRefused(LoginRefused),
    /// A session's live connection is no longer so.
    ConnectionEnded(SessionId, ConnectionId, EndReason),
    /// A new trading day begins.
    DayStarted(TradingDay),
    /// An instrument exists.
    Instrument(InstrumentDefinition),
    /// A user exists or changed.
    User(UserDefinition),
    /// A user has another participant; 0 is none.
    Participant(SessionId, ParticipantId),
}

/// Takes notices from the output stage. Called on an engine thread: it must neither block nor wait.
pub trait Egress: Send {
    /// Takes one notice, in the order of the log.
    fn notify(&mut self, notice: Notice);
}

/// One price level, without its orders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepthLevel {
    /// Price.
    pub price: Price,
    /// Sum of the orders' open quantities; at most u64::MAX, which it then stays at.
    pub quantity: Quantity,
    /// How many orders.
    pub orders: u32,
}

/// The best levels of both sides of an instrument.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DepthSnapshot {
    /// The instrument.
    pub instrument: InstrumentId,
    /// The frame whose effects are the last that it includes.
    pub sequence: Sequence,
    /// Highest price first.
    pub bids: Vec<DepthLevel>,
    /// Lowest price first.
    pub asks: Vec<DepthLevel>,
}

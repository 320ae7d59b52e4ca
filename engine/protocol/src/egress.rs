//! What an output stage tells the gateways. The reports themselves are read from the report log by number.

use std::cmp::Ordering;

use crate::{
    ConnectionId, EndReason, Indicative, InstrumentDefinition, InstrumentId, LoggedIn, LoginRefused,
    ParticipantId, Phase, Price, Quantity, ReportNumber, Sequence, SessionId, TradingDay, UserDefinition,
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
    Participant(SessionId, ParticipantId, Joined),
}

/// Since when a session has its participant: behind its report with this number of this day. Zeros are: since ever, as far as
/// its reports can still be had.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Joined {
    /// The trading day; 0 where it does not matter any more.
    pub trading_day: TradingDay,
    /// The session's last report before it.
    pub last_report: ReportNumber,
}

impl Joined {
    /// The first report of a day that the participant's observers may read; `None` where none of that day is theirs.
    #[must_use]
    pub fn first_of(&self, day: TradingDay) -> Option<ReportNumber> {
        match day.cmp(&self.trading_day) {
            Ordering::Less => None,
            Ordering::Equal => Some(ReportNumber(self.last_report.0.saturating_add(1))),
            Ordering::Greater => Some(ReportNumber(1)),
        }
    }
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
    /// How the instrument trades; `None` in an answer to a client that did not ask for it.
    pub state: Option<MarketState>,
}

/// How an instrument trades at the sequence of a [`DepthSnapshot`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MarketState {
    /// Its phase.
    pub phase: Phase,
    /// What an uncross would do; `None` where nothing would trade, and outside auctions.
    pub indicative: Option<Indicative>,
}

//! What a client tells its owner.

use protocol::{
    DepthSnapshot, DropCopy, InstrumentDefinition, RefuseReason, Refused, RejectReason, Report, ReportNumber,
    RequestId, TradingDay,
};

use crate::{LoginRejection, QueryId};

/// What became of a request. Every request taken gets exactly one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The report of that number answers it: accepted, canceled, replaced, or whatever was asked for.
    Done(ReportNumber),
    /// The report of that number rejects it; it did nothing.
    Rejected(ReportNumber, RejectReason),
    /// The gateway refused it; it did nothing.
    Refused(RefuseReason),
    /// It never reached the log, and never will; it did nothing.
    NotProcessed,
    /// The client ended before it could be known.
    Unknown,
}

/// A login that succeeded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LoggedIn {
    /// The address connected to.
    pub address: String,
    /// The day whose reports come on this connection.
    pub trading_day: TradingDay,
    /// The session's last report of that day and the highest request id that the server has seen of it, at the login.
    /// `None` where the day is over: the connection only reads, and ends with that day.
    pub sending: Option<(ReportNumber, RequestId)>,
    /// Pending requests that were sent again.
    pub resent: usize,
}

/// Why a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConnectionLoss {
    /// It could not be built.
    ConnectFailed(String),
    /// The peer closed it, or it broke.
    Closed(String),
    /// Nothing was heard for the silence limit.
    Silent,
    /// The login was not answered in time.
    LoginTimeout,
    /// A request or a query was not answered in time, and nothing else was heard.
    Unanswered,
    /// The member doesn't lead, and knows nobody who does.
    NotLeader,
    /// The session has another live connection, or what was asked for is not there; it is tried again.
    SessionNotAvailable,
    /// The member named the leader.
    Redirected(String),
    /// The day ended; the next login is for the next one.
    DayEnded,
    /// The client logged out.
    LoggedOut,
}

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ClientEvent {
    /// A login succeeded.
    LoggedIn(LoggedIn),
    /// The connection ended, or could not be built.
    Disconnected(ConnectionLoss),
    /// A fact that the server tells about itself, as `name=value`.
    Fact(String),
    /// A numbered report, each exactly once and in order.
    Report(Report),
    /// What became of a request. It comes right after the report that tells it, where one does.
    Outcome(RequestId, Outcome),
    /// The reports of the day have all come; those of the next one are numbered from 1.
    DayEnded(TradingDay),
    /// Answer to a depth query.
    Depth(QueryId, DepthSnapshot),
    /// Answer to an instrument query.
    Instrument(QueryId, InstrumentDefinition),
    /// A report of another session, as asked for with a drop copy; no report once all that there were have come. After a
    /// lost connection it must be asked for again, from the next number on.
    DropCopy(QueryId, DropCopy),
    /// The gateway refused a query.
    QueryRefused(QueryId, Refused),
}

impl std::fmt::Display for ConnectionLoss {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::ConnectFailed(reason) | Self::Closed(reason) => f.write_str(reason),
            Self::Silent => f.write_str("the server was silent for too long"),
            Self::Unanswered => f.write_str("the server left something unanswered for too long"),
            Self::NotLeader => f.write_str("the member doesn't lead and knows no leader"),
            Self::LoginTimeout => f.write_str("the login was not answered in time"),
            Self::SessionNotAvailable => LoginRejection::SessionNotAvailable.fmt(f),
            Self::Redirected(leader) => write!(f, "the leader is {leader}"),
            Self::DayEnded => f.write_str("the trading day ended"),
            Self::LoggedOut => f.write_str("logged out"),
        }
    }
}

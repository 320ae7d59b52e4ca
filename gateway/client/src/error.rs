//! Why a client ends, and why it doesn't take a request.

use std::time::Duration;

use protocol::soupbin::PacketError;
use protocol::{DecodeError, ReportNumber, RequestId};

/// Why the server does not let a session in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoginRejection {
    /// The user is unknown or disabled, or the password is wrong.
    #[error("the server doesn't know this user with this password")]
    NotAuthorized,
    /// The session has another live connection, or the day or report number asked for is not there.
    #[error("the session has another live connection, or the reports asked for are not there")]
    SessionNotAvailable,
}

/// What a server may not send. The connection, and with it the client, ends: nothing after it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerFault {
    /// Bytes that are no packet.
    #[error("{0}")]
    Packet(#[from] PacketError),
    /// A message that does not decode.
    #[error("a message of the server does not decode: {0}")]
    Message(#[from] DecodeError),
    /// A packet that has no place at this point of a session.
    #[error("a packet of type {:?} is not allowed here", char::from(*.0))]
    Unexpected(u8),
    /// A login answer whose session or next number is not what was asked for.
    #[error("the login answer names another day or report number than asked for")]
    LoginAnswer,
    /// A report's number does not follow the last one.
    #[error("report {got} came where {expected} was due")]
    ReportNumber {
        /// One above the last report's.
        expected: ReportNumber,
        /// The number that came.
        got: ReportNumber,
    },
    /// A message that answers a request never sent.
    #[error("the server answers request {0}, which was never sent")]
    Answer(RequestId),
}

/// Why a client ended. It stays ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// The configuration can't work.
    #[error("{0}")]
    Config(&'static str),
    /// The login was rejected, and trying again doesn't help or was done for long enough.
    #[error("login rejected: {0}")]
    Login(LoginRejection),
    /// No connection and login within the time given.
    #[error("no login on {address} within {waited:?}: {reason}")]
    Unreachable {
        /// The address tried last.
        address: String,
        /// How long was tried.
        waited: Duration,
        /// What the last try ended with.
        reason: String,
    },
    /// The connection was lost and the client doesn't reconnect.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// The server broke the protocol.
    #[error("the server broke the protocol: {0}")]
    Server(#[from] ServerFault),
    /// Somebody else uses the session: the server has seen ids that this client never sent.
    #[error(
        "another process uses this session: the server has seen request {0}, which this client never sent"
    )]
    SessionUsedElsewhere(RequestId),
    /// The answer to a query did not come in time.
    #[error("no answer within {0:?}")]
    NoAnswer(Duration),
    /// The client logged out.
    #[error("the client logged out")]
    LoggedOut,
}

/// Why a request was not taken. Nothing happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SubmitError {
    /// As many requests are pending as the window allows: take events until one has its outcome.
    #[error("the window of pending requests is full")]
    WindowFull,
    /// There was no first login yet, so the id is not known.
    #[error("not logged in yet")]
    NotReady,
    /// The client ended or is logging out.
    #[error("the client has ended")]
    Ended,
    /// A body that clients can't send.
    #[error("clients can't send this kind of request")]
    NotAllowed,
    /// The text that says why is empty or too long, or the request takes none.
    #[error("a text that says why has 1 to 64 characters, and goes with administrative requests only")]
    Why,
}

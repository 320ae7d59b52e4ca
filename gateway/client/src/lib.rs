//! The client library of the native order entry: SoupBinTCP sessions that survive lost connections and restarts of the
//! server, and tell the outcome of every request exactly once.
//!
//! [`ClientSession`] is the protocol as a value: bytes and time in, bytes and events out; it has no socket, no clock and
//! no thread. [`Client`] drives one over a TCP connection. Everything that the server sends is checked: what it must
//! not send is a [`ClientError`], never a panic.
//!
//! # Outcomes
//! A request that [`ClientSession::submit`] took gets one [`Outcome`]: the first numbered report that answers it, or the
//! gateway's refusal, or [`Outcome::NotProcessed`] once a later login has shown that the server moved past its id and no
//! report of it exists. Until then it is pending; after a reconnect every pending request that the server has not seen is
//! sent again, in order. What a connection that was no longer the session's live one sent is answered `not_logged_in` and
//! did nothing: such a request stays pending too.
//!
//! # Members
//! A cluster's client has the list of its members ([`ClientConfig::members`]). It tries them in turn until the leader lets it
//! in, goes where a member says that the leader is, a bounded number of times, and leaves one that is silent. A failover is
//! a lost connection like any other, and outcomes are told over it exactly once.
//!
//! # One process a session
//! Request ids rise by one from the server's highest. Two processes that use one session at a time would answer each
//! other's requests, so an id above what this client has sent ends it with [`ClientError::SessionUsedElsewhere`].

#![forbid(unsafe_code)]

mod config;
mod driver;
mod error;
mod event;
mod greeting;
pub mod order;
mod pending;
mod session;
#[cfg(test)]
mod tests;

pub use config::{ClientConfig, Password, Start};
pub use driver::Client;
pub use error::{ClientError, LoginRejection, ServerFault, SubmitError};
pub use event::{ClientEvent, ConnectionLoss, LoggedIn, Outcome};
pub use order::{
    all_or_none, cancel, child_of, for_account, good_till, hidden, iceberg, limit, market, market_protected,
    market_to_limit, minimum, one_cancels_other, pegged, post_only, quote, reduce_only, replace, replacement,
    self_trade, stop, stop_limit, trailing_stop,
};
pub use session::{ClientSession, InstrumentKey, QueryId};

//! The edge: ends the clients' connections, checks who they are and how much they send, turns their messages into frames
//! in the input ring, and sends them their numbered reports out of the report log.
//!
//! ```text
//!            bytes, time                frames
//!  socket --> Connection --> Session --> Ingress (input ring)
//!    ^            |   ^
//!    +-- bytes ---+   +-- Hub <-- notices <-- output stage
//!                 |
//!                 +-- report log, by number
//! ```
//!
//! A session's rules are [`session`], a state machine with neither socket nor clock. Live and replayed reports take the
//! same way: each connection reads the report log from its own cursor and is woken when there is more, so a slow client
//! costs a cursor and two bounded buffers.
//!
//! A member of a cluster takes something in only while it leads ([`Leadership`]): a session lives in the term in which it
//! began, and whatever is not in the log is answered only while a quorum confirms the leadership.
//!
//! It must not know the business rules: what a command does, what an id is worth, whether a user may send it. It must not
//! make anybody on an engine's thread wait.

#![forbid(unsafe_code)]

mod admission;
mod buffers;
mod clock;
mod config;
mod connection;
pub mod credentials;
mod hub;
mod leadership;
mod listener;
mod resume;
pub mod session;
mod throttle;
mod verifier;

pub use admission::{Admission, AdmissionSource, DepthSource};
pub use buffers::{Inbound, Outbound};
pub use config::{ConfigError, DurabilityLevel, GatewayConfig, ListenerLimits, SessionLimits};
pub use hub::{Hub, HubEgress, HubSeed, LoginVerdict, Port};
pub use leadership::{Alone, Leadership};
pub use listener::{Gateway, GatewayError, GatewayHandle, GatewayParts, GatewayStats};
pub use resume::{RESUME_KEY_BYTES, ResumeKeys};
pub use throttle::{Throttle, ThrottleLimits};

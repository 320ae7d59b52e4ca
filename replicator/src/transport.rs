//! How a message gets to another member. The real one is TCP with TLS; the simulator has its own. A transport carries
//! bytes: what is in them is this crate's.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;

use crate::member::Member;

/// A message: the encoded `proto::Request` or `proto::Response`, and the raw bytes that follow it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope {
    /// A prost message.
    pub control: Bytes,
    /// Payloads of entries or a piece of a file, one behind the other; in several pieces so that nothing is copied.
    pub payloads: Vec<Bytes>,
}

impl Envelope {
    /// Bytes of all payloads.
    #[must_use]
    pub fn payload_bytes(&self) -> usize {
        self.payloads.iter().map(Bytes::len).sum()
    }
}

/// Why a member did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TransportError {
    /// No connection could be made, or it broke before anything was sent. The member certainly did not see the request.
    #[error("member {address} can't be reached: {reason}")]
    Unreachable {
        /// Where it was looked for.
        address: String,
        /// What the system says.
        reason: String,
    },
    /// The request may have been seen; the answer did not come.
    #[error("member {address} did not answer: {reason}")]
    Lost {
        /// Where it is.
        address: String,
        /// What the system says.
        reason: String,
    },
}

/// An answer to come.
pub type CallFuture<'a> = Pin<Box<dyn Future<Output = Result<Envelope, TransportError>> + Send + 'a>>;

/// A connection's end to come.
pub type ClosedFuture<'a> = Pin<Box<dyn Future<Output = ()> + Send + 'a>>;

/// Carries requests to other members. Requests of one [`open`](Self::open)ed channel arrive in the order in which they were
/// called, one at a time.
pub trait Transport: Send + Sync + 'static {
    /// A channel to one member, of its own: a long transfer on one does not hold up another.
    fn open(&self, target: &Member) -> Box<dyn Channel>;
}

/// One way to one member. It connects when it is first used, and again after an error.
pub trait Channel: Send + Sync + 'static {
    /// Sends a request and waits for its answer. Whoever calls bounds the time; a call that is dropped breaks the
    /// connection, so that a late answer is never taken for another one's.
    fn call(&mut self, request: Envelope) -> CallFuture<'_>;

    /// Comes back when the other side closes the connection while no call is on its way; never where there is no connection,
    /// or none could be closed.
    fn closed(&mut self) -> ClosedFuture<'_> {
        Box::pin(std::future::pending())
    }
}

//! What the gateway must know of the cluster: whether this member leads, and whether that still holds. It must not know how
//! a leader comes to be.

use std::fmt;

use protocol::Term;

/// Longest name of a leader that is told to clients, in bytes: a host name and a port.
pub(crate) const LEADER_LENGTH_MAX: usize = 300;

/// Leadership as the gateway asks for it, several times for every read of a socket: each call but
/// [`leader`](Self::leader) is a load or two.
pub trait Leadership: fmt::Debug + Send + Sync + 'static {
    /// The term in which this member leads, takes frames and logs people in; `None` where it doesn't. A term that was given up
    /// never comes again: the exchange holds the connections of a term live until the first frame of the next.
    fn term(&self) -> Option<Term>;

    /// Whether this member leads and a quorum has confirmed that just now. Only then may be answered what is not in the log.
    fn is_confirmed(&self) -> bool;

    /// Where clients reach the leader, `HOST:PORT`, as far as is known.
    fn leader(&self) -> Option<String>;
}

/// A server alone: it always leads, and nobody could contradict it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone;

impl Leadership for Alone {
    fn term(&self) -> Option<Term> {
        Some(Term(1))
    }

    fn is_confirmed(&self) -> bool {
        true
    }

    fn leader(&self) -> Option<String> {
        None
    }
}

//! What the gateway asks the rest of the server: whether orders are taken, and how deep a book is.

use std::sync::Arc;

use protocol::{DepthSnapshot, InstrumentId};

/// What is taken in at the moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Admission {
    /// Everything.
    #[default]
    Open,
    /// The disk is nearly full: no new orders and no replaces, so that cancels can go on.
    CancelsOnly,
    /// The disk is full but for what the server needs to stay up: nothing that would be journaled. Queries are answered,
    /// and clients may log in and out.
    Nothing,
    /// The server is stopping.
    Stopping,
}

/// Tells what is taken in. Asked once for each read of a socket, so it must be no more than a few loads.
pub type AdmissionSource = Arc<dyn Fn() -> Admission + Send + Sync>;

/// Gives the best levels of an instrument, at most so many a side; `None` for an instrument that it doesn't know.
pub type DepthSource = Arc<dyn Fn(InstrumentId, usize) -> Option<DepthSnapshot> + Send + Sync>;

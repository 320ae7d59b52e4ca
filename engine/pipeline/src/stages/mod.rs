//! The stages on the input ring, the ticker that feeds it, and the proposer on a member's front ring.

mod committed;
mod journal;
mod logic;
mod proposer;
mod ticker;
mod unmarshal;

use protocol::{Body, Command, FrameWriter, SessionId, Timestamp};

pub(crate) use committed::Committed;
pub(crate) use journal::JournalStage;
pub(crate) use logic::{FinalState, Logic};
pub(crate) use proposer::Proposer;
pub(crate) use ticker::{Ticker, Ticks};
pub(crate) use unmarshal::Unmarshal;

/// A frame of the server's own: a start or a tick.
pub(crate) fn own_frame(body: Body, timestamp: Timestamp) -> FrameWriter {
    let command = Command { session: SessionId::SYSTEM, timestamp, body, ..Command::default() };
    let Some(frame) = command.encode() else { unreachable!("starts and ticks have a frame") };
    frame
}

//! The stages on the input ring, and the ticker that feeds it.

mod journal;
mod logic;
mod ticker;
mod unmarshal;

pub(crate) use journal::JournalStage;
pub(crate) use logic::{FinalState, Logic};
pub(crate) use ticker::Ticker;
pub(crate) use unmarshal::Unmarshal;

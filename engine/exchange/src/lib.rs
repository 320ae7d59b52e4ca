//! The business logic: instruments, order books, sessions. A pure state machine, [`Exchange`]: it takes commands and
//! emits events.
//!
//! It has no I/O, no clock, no threads and no randomness, and no `unsafe`. Whatever must survive is in its state, which
//! [`Exchange::export`] gives in a canonical order. It is total: a command is answered by a reject and does nothing else,
//! or it is applied whole; there is no error to return.
//!
//! ```text
//! exchange   checks of the sender, ids, where each kind of command goes
//!   entry      new orders, replaces, trades          sessions      users, ids, report numbers, timers
//!   cancel     cancels, mass cancels, expiries       instruments   definitions, phases, books
//!   connection logins and ends of connections        orders        arena + index + text ids
//!   admin      what operators ask, end of day        book, ladder  levels and queues of one instrument
//!                                                    special       what an instrument has beyond a plain book
//! ```

#![forbid(unsafe_code)]

mod admin;
mod arena;
mod auction;
mod book;
mod cancel;
mod connection;
mod course;
mod digest;
mod directory;
mod draw;
mod enter;
mod entry;
mod exchange;
mod execution;
mod export;
mod extras;
mod follow;
mod groups;
mod hooks;
mod import;
mod incoming;
mod index;
mod instrument_views;
mod instruments;
mod ladder;
mod leave;
mod names;
mod options;
mod orders;
mod outbox;
mod pegs;
mod phases;
mod quotes;
mod record;
mod replace;
mod schedule;
mod sessions;
mod settings;
mod special;
mod special_state;
mod stops;
mod sweep;
#[cfg(test)]
mod tests;
mod ticks;
mod version;
mod views;
mod waiting;

pub use admin::CAPACITIES_MAX;
pub use exchange::{Divergence, Exchange, RULEBOOK_VERSION, UnknownRulebook};
pub use import::{ImportError, Importer};
pub use instrument_views::{ChangeView, InstrumentView};
pub use outbox::EventSink;
pub use record::{
    ChangeRecord, InstrumentRecord, NameRecord, OrderRecord, Record, SessionRecord, SpecialRecord,
    ToldRecord, UserRecord, VenueRecord,
};
pub use views::{Counts, OrderView, SessionView};

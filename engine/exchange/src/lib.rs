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
//!   admin      what operators ask, end of day        book          levels and queues of one instrument
//!   settings   what operators set of instruments     special       what an instrument has beyond a plain book
//!   phases     phases and bands; delisting           auction       the uncross and what is told of it
//!   schedule   timers of orders and phases           draw          what is drawn from the venue's seed
//!   desk       what operators set of accounts        accounts      balances, positions, limits, fees
//!   bust       trades taken back or corrected        risk, limits  whether an account may have an order
//!   inquiry    questions                             tracking      what an order holds in its account
//!   quiet      the short way of what comes most often to instruments with a special part
//!   margin     mark prices, end of day               settle        what a trade moves; settling: in which units
//! ```

#![forbid(unsafe_code)]

mod account_views;
mod accounts;
mod admin;
mod arena;
mod auction;
mod book;
mod bust;
mod cancel;
mod connection;
mod conservation;
mod course;
mod desk;
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
mod import;
mod incoming;
mod inquiry;
mod instrument_views;
mod instruments;
mod leave;
mod limits;
mod margin;
mod names;
mod options;
mod orders;
mod outbox;
mod pegs;
mod phases;
mod quiet;
mod quotes;
mod record;
mod replace;
mod risk;
mod schedule;
mod sessions;
mod settings;
mod settle;
mod settling;
mod skip;
mod special;
mod special_state;
mod stops;
mod sweep;
#[cfg(test)]
mod tests;
mod throttle;
mod ticks;
mod tracking;
mod trades;
mod version;
mod views;
mod waiting;

pub use account_views::{AccountView, BalanceView, ControlsView, PositionView, TradeSideView, TradeView};
pub use admin::CAPACITIES_MAX;
pub use exchange::{Divergence, Exchange, RULEBOOK_VERSION, UnknownRulebook};
pub use import::{ImportError, Importer};
pub use instrument_views::{ChangeView, InstrumentView};
pub use outbox::EventSink;
pub use record::accounts::AccountsRecord;
pub use record::{
    ChangeRecord, ExtraRecord, InstrumentRecord, NameRecord, OrderRecord, Record, SessionRecord,
    SpecialRecord, ToldRecord, UserRecord, VenueRecord,
};
pub use views::{Counts, OrderStanding, OrderView, SessionView};

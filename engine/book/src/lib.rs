//! The pieces that order books are made of, and a matching core made of them alone.
//!
//! - [`Arena`]: storage of orders with 32-bit handles;
//! - [`Levels`]: one side of a book, price levels with queues through an arena;
//! - [`Index`]: from a hashed id to a handle;
//! - [`Core`]: limit orders in price-time priority over these, for whoever wants no more than to match.
//!
//! It has no I/O, no clock, no threads and no randomness. A core doesn't know sessions, accounts or instruments' rules: these
//! are the exchange's, which is made of the same pieces.
//!
//! ```
//! use book::{Core, EventKind, Request};
//! use protocol::{ClientOrderId, Price, Side};
//!
//! let mut core = Core::new(1, 1_000);
//! let mut events = Vec::new();
//! let (resting, taker) = (ClientOrderId(1), ClientOrderId(2));
//! let new = |order, side, price, quantity, immediate| Request::New { book: 0, order, side, price, quantity, immediate };
//! core.apply(&new(resting, Side::Sell, Price(101), 5, false), &mut events);
//! core.apply(&new(taker, Side::Buy, Price(102), 3, true), &mut events);
//! core.apply(&Request::Cancel { order: resting }, &mut events);
//! let told: Vec<_> = events.iter().map(|event| (event.kind(), event.order, event.price, event.quantity)).collect();
//! assert_eq!(
//!     told,
//!     [
//!         (Some(EventKind::Accepted), resting, Price(101), 5),
//!         (Some(EventKind::Accepted), taker, Price(102), 3),
//!         (Some(EventKind::Traded), taker, Price(101), 3),
//!         (Some(EventKind::Canceled), resting, Price(101), 2),
//!     ]
//! );
//! ```
#![forbid(unsafe_code)]

mod arena;
mod event;
mod index;
mod ladder;
mod levels;
mod matching;
mod window;

pub use arena::{Arena, Handle, Node};
pub use event::{BOOKS_MAX, Event, EventKind, Request, Sink};
pub use index::{Index, KeyHash, Vacancy};
pub use ladder::Level;
pub use levels::{Levels, key, price};
pub use matching::Core;

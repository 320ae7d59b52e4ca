//! The flight recorder: what happened on the hot path, for a price that can stay on.
//!
//! ```text
//!  Writer (one a stage) --> buffer --+
//!  Writer               --> buffer --+--> Drain --> blocks --> Files: recorder/*.rec      (a thread: Recording)
//!  Writer               --> buffer --+   (delta, varint)        |
//!                                                               v
//!                                          Contents --> records in order of time, Join --> time between two points
//! ```
//!
//! A record is a point's static number, the time stamp counter and up to four raw arguments: no text, no allocation, no
//! system call, no wait. Where a buffer is full the record is dropped and counted. `file.rs` has the format of the files, which
//! say themselves what their points mean.
//!
//! It must not know what is recorded: [`stages`] is the only list of the server's own points. Nothing in it may stop or
//! slow down the one who records: a disk that is full or gives errors ends the recording, not the server.
//!
//! `unsafe` is confined to `ticks.rs`.
#![deny(unsafe_code)]

mod buffer;
mod clock;
mod drain;
mod file;
mod files;
mod join;
mod point;
mod read;
mod record;
mod recording;
pub mod stages;
pub mod ticks;
mod varint;

pub use buffer::{BUFFER_WORDS, Writer};
pub use clock::{ClockMap, Reading};
pub use drain::{Drain, Recorder};
pub use file::{FILE_BYTES_MAX, FORMAT_VERSION};
pub use files::{FILE_BYTES, Files, list};
pub use join::{Counted, Join, Pair, Take};
pub use point::{ARGUMENTS_MAX, Format, Point, PointInfo, arguments};
pub use read::{Contents, Problem, ReadError};
pub use record::{Entry, Record};
pub use recording::{Options, Recording};

//! The rings between the stages, and the threads that drive the stages. This crate is the only user of the
//! `disruptor` crate, for rings with many publishers, and owns what that crate leaves to its callers: whole frames, partial
//! release, full rings as values, parking without lost wake-ups, progress marks, and the runner that maps stages to threads.
//!
//! ```text
//!                               +--> journal   (FramePoller) -----+
//!  Ingress (many, Clone) --> lines --> replicate (FramePoller) ---+--> logic (LogicPoller<D>)
//!                               +--> unmarshal (UnmarshalPoller<D>) -> cells
//!
//!  Ingress (many, Clone) --> lines --> FramePoller              (a frame ring: a member's front ring)
//!
//!  OutputPublisher<E> (one) --> events --> OutputPoller<E> x N, in parallel
//! ```
//!
//! It must not know what a frame means: it reads a frame's length and nothing else. It must not do I/O, read a
//! clock into anything but a parking deadline, or block a publisher.
//!
//! `unsafe` is confined to `input/storage.rs`, `input/pollers.rs` and `output.rs`.
#![deny(unsafe_code)]

mod abort;
mod error;
mod input;
mod mark;
mod output;
mod stage;
mod wait;

pub use error::{Full, PublishError, RingError};
pub use input::{
    Claimed, DecodedBatch, FRAME_BYTES_MAX, FRAME_BYTES_MIN, FRAME_SLOTS_MAX, FrameBatch, FramePoller,
    Frames, Ingress, InputRing, LOGIC_BATCH_MAX, LogicPoller, Published, SLOT_BYTES, UnmarshalPoller,
    frame_ring, input_ring,
};
pub use mark::Mark;
pub use output::{OutputPoller, OutputPublisher, output_ring};
pub use stage::{Runner, Stage, Work};
pub use wait::{WaitStrategy, Waited, Waiter, WakeSet, Waker};

/// Smallest ring, in slots: the disruptor keeps the availability of 64 slots in a word.
pub const RING_SLOTS_MIN: usize = 64;

/// Largest ring, in slots: 4 GiB of lines. A bound against a mistyped configuration, not a recommendation.
pub const RING_SLOTS_MAX: usize = 1 << 26;

/// What a poll came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Polled {
    /// So many frames (input ring) or events (output ring) were taken and released; never zero.
    Work(usize),
    /// Nothing was taken: nothing whole was there, or the reader took none of it.
    Idle,
    /// All publishers are gone and this reader has taken everything. It stays so.
    Shutdown,
}

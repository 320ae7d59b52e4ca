//! The input ring: raw frames from many publishers, read in parallel by journal, replicate and unmarshal, and decoded
//! by logic behind all three. And the frame ring, which has the same publishers and one reader of raw frames. This file
//! builds them; it must not hold anything of their ends.
//!
//! Lines (64 raw bytes each), decoded cells and spans are three arrays of their own, so that a frame is one slice of
//! memory (but for the one that wraps), a journal batch is two, and a reader of the ones never shares a cache line
//! with a writer of the others. The disruptor's ring carries only slot numbers, which never change.
//!
//! Every reader releases whole frames only, so every reader behind it sees whole frames only. That can't stall: a
//! frame's slots are claimed at once, so its rest is being published whether or not its first slots are released.

mod ingress;
mod pollers;
mod storage;

use std::sync::Arc;

use disruptor::{BusySpin, build_multi_producer};

pub use ingress::{Claimed, Ingress, Published};
pub use pollers::{
    DecodedBatch, FrameBatch, FramePoller, Frames, LOGIC_BATCH_MAX, LogicPoller, UnmarshalPoller,
};

use crate::error::{RingError, check_slots};
use crate::wait::WakeSet;
use storage::{Cells, Lines, Slot};

/// Bytes of a slot: one cache line.
pub const SLOT_BYTES: usize = 64;
/// Shortest frame in bytes: its header.
pub const FRAME_BYTES_MIN: usize = 32;
/// Longest frame in bytes.
pub const FRAME_BYTES_MAX: usize = 1024;
/// Most slots that one frame takes.
pub const FRAME_SLOTS_MAX: usize = FRAME_BYTES_MAX / SLOT_BYTES;

/// The ends of an input ring whose frames decode to `D`.
pub struct InputRing<D> {
    /// Publishes frames; clone it for each publisher. The ring shuts down when the last one is dropped.
    pub ingress: Ingress,
    /// Reads raw frames.
    pub journal: FramePoller,
    /// Reads raw frames.
    pub replicate: FramePoller,
    /// Reads raw frames and writes what they decode to.
    pub unmarshal: UnmarshalPoller<D>,
    /// Reads decoded frames that the three others have released.
    pub logic: LogicPoller<D>,
}

/// Builds an input ring of `slots` slots, which takes `slots` x (64 bytes + the size of `D` in whole cache lines + 5).
/// `readers` are the threads of the journal, replicate and unmarshal stages: each publication wakes those that are
/// parked. (Logic is woken by the runners of the three.)
///
/// # Errors
/// `slots` is not a power of two within the bounds.
pub fn input_ring<D: Default + Send + 'static>(
    slots: usize,
    readers: WakeSet,
) -> Result<InputRing<D>, RingError> {
    check_slots(slots)?;
    let lines = Arc::new(Lines::new(slots));
    let cells = Arc::new(Cells::<D>::new(slots));
    let (journal, builder) = build_multi_producer(slots, Slot::numbered(), BusySpin).new_event_poller();
    let (replicate, builder) = builder.new_event_poller();
    let (unmarshal, builder) = builder.new_event_poller();
    let (logic, builder) = builder.and_then().new_event_poller();
    let producer = builder.build();
    Ok(InputRing {
        journal: FramePoller::new(journal, Arc::clone(&lines)),
        replicate: FramePoller::new(replicate, Arc::clone(&lines)),
        unmarshal: UnmarshalPoller::new(unmarshal, Arc::clone(&lines), Arc::clone(&cells)),
        logic: LogicPoller::new(logic, cells),
        ingress: Ingress::new(producer, lines, readers),
    })
}

/// Builds a ring of `slots` slots with one reader of raw frames: the front ring of a member, whose frames have no place in
/// the log yet. Each publication wakes `reader`, the thread of the stage that reads it, if it is parked.
///
/// # Errors
/// `slots` is not a power of two within the bounds.
pub fn frame_ring(slots: usize, reader: WakeSet) -> Result<(Ingress, FramePoller), RingError> {
    check_slots(slots)?;
    let lines = Arc::new(Lines::new(slots));
    let (frames, builder) = build_multi_producer(slots, Slot::numbered(), BusySpin).new_event_poller();
    let frames = FramePoller::new(frames, Arc::clone(&lines));
    Ok((Ingress::new(builder.build(), lines, reader), frames))
}

#[cfg(test)]
mod tests;

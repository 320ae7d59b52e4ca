//! The publishing end of the input ring. It must not block, stamp or interpret a frame, or run a caller's code while it
//! holds a claim: a claim that is never published wedges the ring for everybody.

use std::sync::Arc;

use disruptor::{MissingFreeSlots, MultiProducer, Producer, SingleConsumerBarrier};

use super::storage::{Lines, Slot};
use super::{FRAME_BYTES_MAX, FRAME_BYTES_MIN, SLOT_BYTES};
use crate::abort::AbortOnUnwind;
use crate::error::{Full, PublishError};
use crate::wait::WakeSet;

/// Publishes frames into the input ring. Each publisher thread has its own clone. When the last clone is dropped the
/// ring shuts down: its readers get what is left and then [`Polled::Shutdown`](crate::Polled::Shutdown).
#[derive(Clone)]
pub struct Ingress {
    // Declared before `readers`, so that the last drop has shut the ring down before it wakes its readers.
    producer: MultiProducer<Slot, SingleConsumerBarrier>,
    readers: WakeOnDrop,
    lines: Arc<Lines>,
}

#[derive(Clone)]
struct WakeOnDrop(WakeSet);

impl Drop for WakeOnDrop {
    fn drop(&mut self) {
        self.0.wake();
    }
}

impl Ingress {
    pub(super) fn new(
        producer: MultiProducer<Slot, SingleConsumerBarrier>,
        lines: Arc<Lines>,
        readers: WakeSet,
    ) -> Self {
        Self { producer, readers: WakeOnDrop(readers), lines }
    }

    /// Slots of the ring.
    pub fn capacity(&self) -> usize {
        self.lines.slots()
    }

    /// Free slots at this moment. Other publishers may take them before this one does.
    pub fn free_slots(&mut self) -> usize {
        // One more than the ring has can never be claimed; the refusal says how many are missing.
        let asked = self.lines.slots() + 1;
        match self.producer.try_batch_publish(asked, |_| ()) {
            Ok(_) => unreachable!("a claim larger than the ring"),
            Err(MissingFreeSlots(missing)) => asked.saturating_sub(missing as usize),
        }
    }

    /// Publishes one frame: copies it into consecutive slots, fills the last one up with zeros, and wakes the readers
    /// that are parked.
    ///
    /// # Errors
    /// [`PublishError::BadLength`] for a frame that the ring does not take, [`PublishError::Full`] for now.
    #[inline]
    pub fn try_publish(&mut self, frame: &[u8]) -> Result<(), PublishError> {
        self.try_publish_many(std::slice::from_ref(&frame))
    }

    /// Publishes all of `frames` in one claim, so that they are consecutive, or none. For one wake and one claim a
    /// batch. No frames is a success.
    ///
    /// # Errors
    /// [`PublishError::BadLength`] for the first frame that the ring does not take; [`PublishError::Full`] for now;
    /// [`PublishError::ClaimTooLarge`] for ever.
    #[inline]
    pub fn try_publish_many(&mut self, frames: &[&[u8]]) -> Result<(), PublishError> {
        let mut slots = 0;
        for frame in frames {
            slots += slots_of(frame)?;
        }
        if slots == 0 {
            return Ok(());
        }
        let lines = &*self.lines;
        if slots > lines.slots() {
            return Err(PublishError::ClaimTooLarge { slots, capacity: lines.slots() });
        }
        let claimed = self.producer.try_batch_publish(slots, |mut claim| {
            let abort = AbortOnUnwind::new("publishing into the input ring");
            for frame in frames {
                for piece in frame.chunks(SLOT_BYTES) {
                    if let Some(slot) = claim.next() {
                        lines.write(slot, piece);
                    }
                }
            }
            abort.defuse();
        });
        if let Err(MissingFreeSlots(missing)) = claimed {
            return Err(Full { missing: missing as usize }.into());
        }
        self.readers.0.wake();
        Ok(())
    }
}

/// Slots that `frame` takes, after the checks that every reader relies on.
#[inline]
fn slots_of(frame: &[u8]) -> Result<usize, PublishError> {
    let declared = match frame {
        [low, high, ..] => usize::from(u16::from_le_bytes([*low, *high])),
        _ => 0,
    };
    let actual = frame.len();
    if declared != actual || !(FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&actual) {
        return Err(PublishError::BadLength { declared, actual });
    }
    Ok(actual.div_ceil(SLOT_BYTES))
}

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
    claimed: Claimed,
}

/// How much of what was given was published.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Published {
    /// Frames.
    pub frames: usize,
    /// Bytes of their slots.
    pub bytes: usize,
}

/// The slots of a publication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Claimed {
    /// How many.
    pub slots: u64,
    /// The last one's number, counted from 0 since the ring was built.
    pub last: u64,
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
        Self { producer, readers: WakeOnDrop(readers), lines, claimed: Claimed::default() }
    }

    /// Slots of the ring.
    pub fn capacity(&self) -> usize {
        self.lines.slots()
    }

    /// Where the last publication went; on a new clone, where that of the one did which it was made of.
    #[must_use]
    pub fn claimed(&self) -> Claimed {
        self.claimed
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
        if slots > self.lines.slots() {
            return Err(PublishError::ClaimTooLarge { slots, capacity: self.lines.slots() });
        }
        Ok(self.publish(slots, frames.iter().copied())?)
    }

    /// Publishes as many of `frames` as there is room for, from the first on, in one claim: none where the ring has no
    /// room for the first one, or `frames` is empty. The frames stand one behind the other as a reader gets them, each
    /// padded to whole slots.
    ///
    /// # Errors
    /// [`PublishError::BadLength`] if what would be taken is not whole frames; then nothing was published.
    pub fn publish_some(&mut self, frames: &[u8]) -> Result<Published, PublishError> {
        let mut room = self.lines.slots();
        loop {
            let fitting = fitting(frames, room)?;
            if fitting.frames == 0 {
                return Ok(fitting);
            }
            let slots = fitting.bytes / SLOT_BYTES;
            match self.publish(slots, frames.get(..fitting.bytes).into_iter()) {
                Ok(()) => return Ok(fitting),
                // Less is tried each time, so this comes to an end.
                Err(Full { missing }) => room = slots.saturating_sub(missing.max(1)),
            }
        }
    }

    /// Claims `slots` slots, at most as many as the ring has, fills them with `frames` and wakes the readers. Each of
    /// `frames` begins with a slot, and takes whole ones.
    #[inline]
    fn publish<'f>(&mut self, slots: usize, frames: impl Iterator<Item = &'f [u8]>) -> Result<(), Full> {
        let lines = &*self.lines;
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
        match claimed {
            Ok(last) => self.claimed = Claimed { slots: slots as u64, last: last.cast_unsigned() },
            Err(MissingFreeSlots(missing)) => return Err(Full { missing: missing as usize }),
        }
        self.readers.0.wake();
        Ok(())
    }
}

/// The whole padded frames at the start of `frames`, of at most `room` slots.
fn fitting(frames: &[u8], room: usize) -> Result<Published, PublishError> {
    let mut fitting = Published::default();
    loop {
        let rest = frames.get(fitting.bytes..).unwrap_or_default();
        let [low, high, ..] = *rest else {
            return match rest.len() {
                0 => Ok(fitting),
                actual => Err(PublishError::BadLength { declared: 0, actual }),
            };
        };
        let declared = usize::from(u16::from_le_bytes([low, high]));
        let Some(frame) = rest.get(..declared.next_multiple_of(SLOT_BYTES)) else {
            return Err(PublishError::BadLength { declared, actual: rest.len() });
        };
        slots_of(frame.get(..declared).unwrap_or_default())?;
        if fitting.bytes + frame.len() > room * SLOT_BYTES {
            return Ok(fitting);
        }
        fitting.frames += 1;
        fitting.bytes += frame.len();
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

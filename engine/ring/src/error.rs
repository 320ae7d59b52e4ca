//! The errors that the rings give as values. It must not hold anything fatal: a broken invariant aborts instead.

use crate::{RING_SLOTS_MAX, RING_SLOTS_MIN};

/// The ring has too few free slots. Nothing was published; the caller applies back pressure and tries again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the ring is full: {missing} more free slots are needed")]
pub struct Full {
    /// How many slots were lacking at the time.
    pub missing: usize,
}

/// Why a frame was not published. In each case nothing was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PublishError {
    /// See [`Full`].
    #[error(transparent)]
    Full(#[from] Full),
    /// The frame is shorter or longer than a frame may be, or its first two bytes (u16, little endian) don't say its
    /// length.
    #[error("a frame of {actual} bytes says that it has {declared}, of 32 to 1024 allowed")]
    BadLength {
        /// What the first two bytes say; 0 when there are none.
        declared: usize,
        /// The length of the slice given.
        actual: usize,
    },
    /// The frames of one claim need more slots than the ring has, so that waiting would never help.
    #[error("a claim of {slots} slots can never fit a ring of {capacity}")]
    ClaimTooLarge {
        /// Slots that the frames need.
        slots: usize,
        /// Slots that the ring has.
        capacity: usize,
    },
}

/// Why a ring was not built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RingError {
    /// The number of slots is not a power of two within the bounds.
    #[error("a ring of {slots} slots: it must be a power of two, {RING_SLOTS_MIN} to {RING_SLOTS_MAX}")]
    Slots {
        /// The number asked for.
        slots: usize,
    },
}

pub(crate) fn check_slots(slots: usize) -> Result<(), RingError> {
    if slots.is_power_of_two() && (RING_SLOTS_MIN..=RING_SLOTS_MAX).contains(&slots) {
        Ok(())
    } else {
        Err(RingError::Slots { slots })
    }
}

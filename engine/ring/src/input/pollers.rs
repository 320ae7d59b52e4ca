//! The reading ends of the input ring. One of the three files with `unsafe`: it opens the memory of the slots that a
//! reader holds, for the time of one closure. It must not let a reference out of that closure, release half a frame,
//! or release what the closure did not take.
#![allow(unsafe_code)]

use std::convert::Infallible;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use disruptor::{EventPoller, MultiConsumerBarrier, MultiProducerBarrier, Polling};

use super::storage::{Cells, Lines, Slot};
use super::{FRAME_BYTES_MAX, FRAME_BYTES_MIN, FRAME_SLOTS_MAX, SLOT_BYTES};
use crate::Polled;
use crate::abort::AbortOnUnwind;

/// Most frames of one [`LogicPoller::poll`].
pub const LOGIC_BATCH_MAX: usize = 4096;

/// How much of the slots offered to it a reader took.
struct Taken {
    slots: usize,
    frames: usize,
}

/// Defines a function that offers a reader's slots to a closure and releases what it took.
///
/// A macro, since the disruptor's pollers have no nameable trait in common. The guard that the disruptor gives moves
/// the cursor over everything whenever it is dropped; here it is dropped only when everything was taken. Otherwise it
/// is forgotten, which leaves the cursor where it was, and another one of just the taken length is dropped.
macro_rules! offer_slots {
    ($name:ident, $barrier:ty, $place:literal) => {
        /// Offers at most `limit` slots, from number `first` on (wrapping). An error releases nothing.
        #[inline]
        fn $name<X>(
            poller: &mut EventPoller<Slot, $barrier>,
            limit: usize,
            take: impl FnOnce(usize, usize) -> Result<Taken, X>,
        ) -> Result<Polled, X> {
            let mut guard = match poller.take(limit as u64) {
                Ok(guard) => ManuallyDrop::new(guard),
                Err(Polling::NoEvents) => return Ok(Polled::Idle),
                Err(Polling::Shutdown) => return Ok(Polled::Shutdown),
            };
            let mut slots = &mut *guard;
            let available = slots.len();
            let Some(first) = slots.next().map(Slot::number) else { return Ok(Polled::Idle) };
            let abort = AbortOnUnwind::new($place);
            let taken = take(first, available);
            abort.defuse();
            let Taken { slots, frames } = taken?;
            assert!(slots <= available, "{slots} slots taken of {available}");
            if slots == available {
                drop(ManuallyDrop::into_inner(guard));
            } else if slots > 0 {
                let Ok(part) = poller.take(slots as u64) else { unreachable!("held slots can't go away") };
                drop(part);
            }
            Ok(if frames == 0 { Polled::Idle } else { Polled::Work(frames) })
        }
    };
}

offer_slots!(offer_published, MultiProducerBarrier, "reading raw frames of the input ring");
offer_slots!(offer_decoded, MultiConsumerBarrier, "reading decoded frames of the input ring");

/// Whole frames, each filled up with zeros to whole slots, in the order of the ring.
#[derive(Clone, Copy, Debug)]
pub struct FrameBatch<'w> {
    runs: [&'w [u8]; 2],
    // A copy of the frame that starts in the first run and ends in the second, if there is one.
    wrapping: &'w [u8],
    frames: usize,
}

impl<'w> FrameBatch<'w> {
    /// The whole frames at the start of `runs`, of at most `limit` slots but at least one frame. `scratch` takes the
    /// frame that wraps.
    fn cut(runs: [&'w [u8]; 2], limit: usize, scratch: &'w mut [u8; FRAME_BYTES_MAX]) -> Self {
        let head = runs[0].len();
        let available = head + runs[1].len();
        let limit = limit.saturating_mul(SLOT_BYTES);
        let (mut end, mut frames, mut wraps_at) = (0, 0, None);
        // Nearly all frames lie whole in the first run: the same as below, without asking which run each is in.
        while let Some([low, high, ..]) = runs[0].get(end..) {
            let next = end + padded_bytes([*low, *high]);
            if next > head || (next > limit && frames > 0) {
                break;
            }
            end = next;
            frames += 1;
        }
        while end < available {
            let next = end + frame_bytes(runs, end);
            if next > available || (next > limit && frames > 0) {
                break;
            }
            if end < head && next > head {
                wraps_at = Some((end, next));
            }
            end = next;
            frames += 1;
        }
        let runs = [&runs[0][..end.min(head)], &runs[1][..end.saturating_sub(head)]];
        let wrapping: &'w [u8] = match wraps_at {
            None => &[],
            Some((from, to)) => {
                let (first, second) = (&runs[0][from..], &runs[1][..to - head]);
                scratch[..first.len()].copy_from_slice(first);
                scratch[first.len()..to - from].copy_from_slice(second);
                &scratch[..to - from]
            }
        };
        Self { runs, wrapping, frames }
    }

    /// How many frames; at least one.
    #[expect(clippy::len_without_is_empty, reason = "a batch is never empty")]
    pub fn len(&self) -> usize {
        self.frames
    }

    /// How many slots they take.
    pub fn slots(&self) -> usize {
        (self.runs[0].len() + self.runs[1].len()) / SLOT_BYTES
    }

    /// The bytes of all frames as the two pieces of memory that they lie in; the second is empty unless the batch
    /// wraps, and a frame may go from the first into the second. For writing without a copy.
    pub fn runs(&self) -> [&'w [u8]; 2] {
        self.runs
    }

    /// The frames, each with its padding; the first two bytes say its length without it.
    pub fn frames(&self) -> Frames<'w> {
        Frames { batch: *self, offset: 0 }
    }
}

/// Bytes, with padding, of the frame whose first line is at `offset` into `runs`.
#[inline]
fn frame_bytes(runs: [&[u8]; 2], offset: usize) -> usize {
    let head = runs[0].len();
    let (run, at) = if offset < head { (runs[0], offset) } else { (runs[1], offset - head) };
    padded_bytes([run[at], run[at + 1]])
}

/// Bytes, with padding, of the frame that begins with these two.
#[inline]
fn padded_bytes(length: [u8; 2]) -> usize {
    let length = usize::from(u16::from_le_bytes(length));
    // Checked before publishing; anything else means that a reader lost the frames' boundaries.
    assert!((FRAME_BYTES_MIN..=FRAME_BYTES_MAX).contains(&length), "a frame of {length} bytes in the ring");
    length.next_multiple_of(SLOT_BYTES)
}

/// Iterator over the frames of a [`FrameBatch`].
#[derive(Clone, Debug)]
pub struct Frames<'w> {
    batch: FrameBatch<'w>,
    offset: usize,
}

impl<'w> Iterator for Frames<'w> {
    type Item = &'w [u8];

    #[inline]
    fn next(&mut self) -> Option<&'w [u8]> {
        let [first, second] = self.batch.runs;
        if self.offset >= first.len() + second.len() {
            return None;
        }
        let from = self.offset;
        let to = from + frame_bytes(self.batch.runs, from);
        self.offset = to;
        Some(if to <= first.len() {
            &first[from..to]
        } else if from >= first.len() {
            &second[from - first.len()..to - first.len()]
        } else {
            self.batch.wrapping
        })
    }
}

/// Reads whole raw frames: the end of the journal and of the replicator.
pub struct FramePoller {
    poller: EventPoller<Slot, MultiProducerBarrier>,
    lines: Arc<Lines>,
    scratch: Box<[u8; FRAME_BYTES_MAX]>,
}

impl FramePoller {
    pub(super) fn new(poller: EventPoller<Slot, MultiProducerBarrier>, lines: Arc<Lines>) -> Self {
        Self { poller, lines, scratch: Box::new([0; FRAME_BYTES_MAX]) }
    }

    /// Gives all whole frames that are there, of at most `limit` slots but at least one frame, to `take`, and releases
    /// them when it returns `Ok`: so a journal writes and syncs inside it. `usize::MAX` is up to the whole ring. On
    /// `Err` nothing is released, and the same frames come again. A panic in `take` aborts the process.
    ///
    /// A call looks through all that is published, not only through what it takes (about 1 ns a slot), so a small
    /// `limit` on a deep backlog is dear: with an eighth of the ring or more it stays under about 5 ns a slot taken.
    ///
    /// # Errors
    /// What `take` returned.
    pub fn poll<X>(
        &mut self,
        limit: usize,
        take: impl FnOnce(FrameBatch<'_>) -> Result<(), X>,
    ) -> Result<Polled, X> {
        let Self { poller, lines, scratch } = self;
        offer_published(poller, limit.max(FRAME_SLOTS_MAX), |first, available| {
            // SAFETY: needed to see the slots' bytes. This reader holds `available` slots from `first` on until
            // `offer_published` releases them, after this closure; `take` can't keep the batch, as its lifetime is
            // any lifetime, however short.
            let runs = unsafe { lines.runs(first, available) };
            let batch = FrameBatch::cut(runs, limit, scratch);
            if batch.len() == 0 {
                return Ok(Taken { slots: 0, frames: 0 });
            }
            take(batch)?;
            Ok(Taken { slots: batch.slots(), frames: batch.len() })
        })
    }
}

/// Reads whole raw frames and writes what they decode to.
pub struct UnmarshalPoller<D> {
    poller: EventPoller<Slot, MultiProducerBarrier>,
    lines: Arc<Lines>,
    cells: Arc<Cells<D>>,
    scratch: Box<[u8; FRAME_BYTES_MAX]>,
}

impl<D> UnmarshalPoller<D> {
    pub(super) fn new(
        poller: EventPoller<Slot, MultiProducerBarrier>,
        lines: Arc<Lines>,
        cells: Arc<Cells<D>>,
    ) -> Self {
        Self { poller, lines, cells, scratch: Box::new([0; FRAME_BYTES_MAX]) }
    }

    /// Gives the whole frames that are there, of at most `limit` slots but at least one frame, to `decode` one by one,
    /// and then releases them. `decode` must write the value: it holds what some earlier frame left. A panic in it
    /// aborts the process. `limit` costs as in [`FramePoller::poll`].
    pub fn poll(&mut self, limit: usize, mut decode: impl FnMut(&[u8], &mut D)) -> Polled {
        let Self { poller, lines, cells, scratch } = self;
        let polled = offer_published(poller, limit.max(FRAME_SLOTS_MAX), |first, available| {
            // SAFETY: as in `FramePoller::poll`.
            let runs = unsafe { lines.runs(first, available) };
            let batch = FrameBatch::cut(runs, limit, scratch);
            let mut number = first;
            for frame in batch.frames() {
                let span = frame.len() / SLOT_BYTES;
                // SAFETY: needed to write the frame's cell. This is the unmarshal reader, it holds the slot as above,
                // and each slot of a batch has another number, so that no two references are to one value.
                decode(frame, unsafe { cells.value_mut(number, span) });
                number = (number + span) & (cells.slots() - 1);
            }
            Ok::<_, Infallible>(Taken { slots: batch.slots(), frames: batch.len() })
        });
        match polled {
            Ok(polled) => polled,
        }
    }
}

/// Decoded frames, in the order of the ring.
pub struct DecodedBatch<'w, D> {
    cells: &'w Cells<D>,
    // The first slots of frames that the logic reader holds for `'w`.
    heads: &'w [u32],
}

impl<'w, D> DecodedBatch<'w, D> {
    /// How many frames; at least one.
    #[expect(clippy::len_without_is_empty, reason = "a batch is never empty")]
    pub fn len(&self) -> usize {
        self.heads.len()
    }

    /// What the frame of this index decoded to: the one to apply, or one ahead of it. `None` past the batch.
    #[inline]
    pub fn get(&self, index: usize) -> Option<&'w D> {
        let head = *self.heads.get(index)? as usize;
        // SAFETY: needed to read the frame's cell. Only `LogicPoller::poll` makes a batch, from the first slots of
        // frames that it holds for `'w`.
        Some(unsafe { self.cells.value(head) })
    }

    /// All of them, in order.
    pub fn iter(&self) -> impl Iterator<Item = &'w D> + '_ {
        (0..self.len()).filter_map(|index| self.get(index))
    }
}

/// Reads decoded frames that journal, replicate and unmarshal have released.
pub struct LogicPoller<D> {
    poller: EventPoller<Slot, MultiConsumerBarrier>,
    cells: Arc<Cells<D>>,
    // The first slots of the frames of the batch in hand; never grows past `LOGIC_BATCH_MAX`.
    heads: Vec<u32>,
}

impl<D> LogicPoller<D> {
    pub(super) fn new(poller: EventPoller<Slot, MultiConsumerBarrier>, cells: Arc<Cells<D>>) -> Self {
        Self { poller, cells, heads: Vec::with_capacity(LOGIC_BATCH_MAX) }
    }

    /// Gives the frames that are there, at most `limit` ([`LOGIC_BATCH_MAX`] at most, one at least), to `apply` as one
    /// batch. `apply` returns how many of them, from the first on, it is done with: just those are released, and the
    /// next poll starts behind them. So it may look ahead at the whole batch, and may stop early when the output ring
    /// has no room; 0 makes the poll [`Polled::Idle`]. A panic in it aborts the process.
    ///
    /// # Panics
    /// (Aborts) when `apply` returns more than the batch has.
    pub fn poll(&mut self, limit: usize, apply: impl FnOnce(&DecodedBatch<'_, D>) -> usize) -> Polled {
        let Self { poller, cells, heads } = self;
        let limit = limit.clamp(1, LOGIC_BATCH_MAX);
        let polled = offer_decoded(poller, limit * FRAME_SLOTS_MAX, |first, available| {
            heads.clear();
            let mask = cells.slots() - 1;
            let mut end = 0;
            while end < available && heads.len() < limit {
                let head = (first + end) & mask;
                let span = cells.span(head);
                assert!(span > 0, "a frame without slots in the ring");
                if end + span > available {
                    break;
                }
                heads.push(head as u32);
                end += span;
            }
            let frames = apply(&DecodedBatch { cells, heads });
            assert!(frames <= heads.len(), "{frames} frames taken of {}", heads.len());
            let slots = match heads.get(frames) {
                Some(&untaken) => (untaken as usize).wrapping_sub(first) & mask,
                None => end,
            };
            Ok::<_, Infallible>(Taken { slots, frames })
        });
        match polled {
            Ok(polled) => polled,
        }
    }
}

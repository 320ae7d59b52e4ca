//! The memory of the input ring: lines, decoded cells and spans. One of the three files with `unsafe`: it turns the
//! right to a slot, which the disruptor gives out, into the right to the memory of that number. It must not decide who
//! has which slot.
//!
//! Who may touch what, and why two never do at once:
//!
//! | memory of slot n | written by | read by | kept apart by |
//! |---|---|---|---|
//! | line | the publisher that claimed n | journal, replicate, unmarshal | publication; logic's cursor, which the publisher waits for and which is behind the readers' cursors |
//! | cell, span | unmarshal | logic | unmarshal's cursor one way; logic's cursor, then the publisher's claim of n in the next round, the other way |
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicU8, Ordering};

use super::{FRAME_SLOTS_MAX, SLOT_BYTES};

/// What the disruptor's ring carries: the number of the slot, never changed. `&mut Slot` is proof of the exclusive
/// right to the slot's line, since only the disruptor has slots to lend.
pub(crate) struct Slot(u32);

impl Slot {
    /// Makes the slots of a ring: the n-th call gives slot n.
    pub(super) fn numbered() -> impl FnMut() -> Slot {
        let mut next = 0;
        move || {
            next += 1;
            Slot(next - 1)
        }
    }

    #[inline]
    pub(super) fn number(&self) -> usize {
        self.0 as usize
    }
}

/// The 64 bytes of a slot, a cache line.
#[repr(C, align(64))]
struct Line([u8; SLOT_BYTES]);

const _: () = assert!(size_of::<Line>() == SLOT_BYTES && align_of::<Line>() == SLOT_BYTES);

/// The raw bytes of all slots, one after the other.
pub(crate) struct Lines(Box<[UnsafeCell<Line>]>);

// SAFETY: needed to share the lines between publishers and readers. Bytes have no thread of their own, and the table
// above says why no line is written while another thread touches it; `write` and `bytes` hand the proof to the caller.
unsafe impl Sync for Lines {}

impl Lines {
    /// Zeroed lines; `slots` is a power of two.
    pub(super) fn new(slots: usize) -> Self {
        debug_assert!(slots.is_power_of_two());
        Self((0..slots).map(|_| UnsafeCell::new(Line([0; SLOT_BYTES]))).collect())
    }

    /// How many there are: a power of two.
    #[inline]
    pub(super) fn slots(&self) -> usize {
        self.0.len()
    }

    /// Writes the line of a claimed slot: `piece` (at most 64 bytes, the rest is cut), then zeros.
    #[inline]
    pub(super) fn write(&self, slot: &mut Slot, piece: &[u8]) {
        let line = self.0[slot.number()].get();
        // SAFETY: needed to write through the shared array. The pointer is valid and aligned, as it comes from a cell
        // of the array. `&mut Slot` proves that this thread alone has the slot: the disruptor lends it mutably only
        // between claim and publication, when all readers have released the slot's last round and none has this one.
        let Line(bytes) = unsafe { &mut *line };
        // The usual case, a whole line, as a copy of fixed length.
        if let Ok(whole) = <&[u8; SLOT_BYTES]>::try_from(piece) {
            *bytes = *whole;
            return;
        }
        let length = piece.len().min(SLOT_BYTES);
        let (head, tail) = bytes.split_at_mut(length);
        head.copy_from_slice(&piece[..length]);
        tail.fill(0);
    }

    /// The bytes of `count` lines that start at slot number `first`, without wrapping.
    ///
    /// # Safety
    /// The caller holds these slots as a reader (published, and not yet released by it) for all of `'w`.
    #[inline]
    unsafe fn bytes(&self, first: usize, count: usize) -> &[u8] {
        let cells = &self.0[first..first + count];
        // SAFETY: needed to see consecutive lines as one slice. `UnsafeCell<Line>` has the layout of `Line`, which is
        // 64 bytes without padding, so `count` cells are `count * 64` initialised bytes of one allocation. By this
        // function's contract nobody writes them while the slice lives.
        unsafe { std::slice::from_raw_parts(cells.as_ptr().cast::<u8>(), count * SLOT_BYTES) }
    }

    /// The bytes of `count` slots from number `first` on, in ring order: up to the end of the ring, and from its start.
    ///
    /// # Safety
    /// As for `bytes`.
    #[inline]
    pub(super) unsafe fn runs(&self, first: usize, count: usize) -> [&[u8]; 2] {
        let head = count.min(self.slots() - first);
        // SAFETY: the caller's contract is that of `bytes`.
        unsafe { [self.bytes(first, head), self.bytes(0, count - head)] }
    }
}

/// A decoded value on cache lines of its own.
#[repr(align(64))]
struct Cell<D>(UnsafeCell<D>);

/// What the frames decode to, and how many slots each takes. A frame's value and span are at its first slot; those of
/// its other slots mean nothing.
pub(crate) struct Cells<D> {
    cells: Box<[Cell<D>]>,
    // Relaxed stores by unmarshal, relaxed loads by logic: unmarshal's cursor (Release) orders them.
    spans: Box<[AtomicU8]>,
}

// SAFETY: needed to share the cells between unmarshal and logic. At most one of the two threads touches a value at a
// time (table above), so that sharing them is no more than sending the values to and fro: `D: Send` is enough.
unsafe impl<D: Send> Sync for Cells<D> {}

impl<D: Default> Cells<D> {
    /// Default values; `slots` is a power of two.
    pub(super) fn new(slots: usize) -> Self {
        debug_assert!(slots.is_power_of_two());
        Self {
            cells: (0..slots).map(|_| Cell(UnsafeCell::new(D::default()))).collect(),
            spans: (0..slots).map(|_| AtomicU8::new(0)).collect(),
        }
    }
}

impl<D> Cells<D> {
    /// How many there are: a power of two.
    #[inline]
    pub(super) fn slots(&self) -> usize {
        self.cells.len()
    }

    /// The value at slot `number`, to write, whose frame takes `span` slots.
    ///
    /// # Safety
    /// The caller is the unmarshal reader, holds the slot (published, and not yet released by it) while the reference
    /// lives, and has no other reference to the value.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "the contract makes the reference unique")]
    pub(super) unsafe fn value_mut(&self, number: usize, span: usize) -> &mut D {
        debug_assert!((1..=FRAME_SLOTS_MAX).contains(&span));
        self.spans[number].store(span as u8, Ordering::Relaxed);
        // SAFETY: needed to write through the shared array; unique by this function's contract. Logic does not read
        // it: it has released the slot's last round, or the publisher could not have published this one, and it sees
        // this round only when unmarshal has released it.
        unsafe { &mut *self.cells[number].0.get() }
    }

    /// The value at slot `number`.
    ///
    /// # Safety
    /// The caller is the logic reader, and holds the slot, a frame's first, for all of the reference's life.
    #[inline]
    pub(super) unsafe fn value(&self, number: usize) -> &D {
        // SAFETY: needed to read what unmarshal wrote. Unmarshal has released the slot and can't have it again before
        // logic releases it and a publisher claims it, so nobody writes while the reference lives.
        unsafe { &*self.cells[number].0.get() }
    }

    /// The slots of the frame whose first slot is `number`.
    #[inline]
    pub(super) fn span(&self, number: usize) -> usize {
        usize::from(self.spans[number].load(Ordering::Relaxed))
    }
}

//! The output ring: one publisher, several readers in parallel, each of which gets every event; events are plain values,
//! one behind the other. It must not wake anybody by itself: the runner does after the step that published, so that a
//! batch of events costs one fence.
//!
//! It is our own and not the disruptor's, since it knows more: there is one publisher, which alone writes how far it is,
//! so that an event costs one comparison and one store, and a batch one release; and a reader gets slices.
//!
//! ```text
//!          released (slowest reader)        published              written          released + slots
//!  ------------+--------------------------------+----------------------+----------------------+-----
//!              | readers may read               | publisher has written| publisher may write  |
//! ```
//!
//! # Why no slot is read and written at once
//!
//! The four are numbers that only rise; slot n is n modulo the number of slots.
//!
//! 1. The publisher writes slots from `written` on, below `limit`: the lowest `released` that it has seen, plus the number
//!    of slots. `published` is at most `written`. So the slots that it writes are neither in `released..published` nor the
//!    ones of the round before, as far as it has seen.
//! 2. A reader reads slots of `released..available`, where `available` is a `published` that it has seen.
//! 3. `published` is stored with Release behind the writes and loaded with Acquire before the reads (P), so that a reader
//!    sees the events whole. `released` is stored with Release behind the reads and loaded with Acquire before the writes
//!    of the next round (R), so that these can't be seen by those reads.
//! 4. A value of either that is out of date is a lower one, and allows less.
#![allow(unsafe_code)]

use std::cell::UnsafeCell;
use std::slice;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::Polled;
use crate::abort::AbortOnUnwind;
use crate::error::{Full, RingError, check_slots};

/// Set in `published` when the publisher is gone.
const CLOSED: u64 = 1 << 63;

/// Builds a ring of `slots` events with `N` readers; each reader sees every event. All of its memory, `slots` x the size
/// of `E`, is touched at once, so that no page is first met on the way of an event.
///
/// # Errors
/// `slots` is not a power of two within the bounds.
pub fn output_ring<E, const N: usize>(
    slots: usize,
) -> Result<(OutputPublisher<E>, [OutputPoller<E>; N]), RingError>
where
    E: Copy + Default + Send + Sync + 'static,
{
    const { assert!(N > 0, "an output ring needs a reader, else nothing bounds its publisher") };
    const { assert!(size_of::<E>() > 0, "events without a size have no places") };
    check_slots(slots)?;
    let ring = Arc::new(Ring {
        published: CachePadded::default(),
        released: (0..N).map(|_| CachePadded::default()).collect(),
        slots: (0..slots).map(|_| UnsafeCell::new(E::default())).collect(),
    });
    let pollers = std::array::from_fn(|reader| OutputPoller {
        ring: Arc::clone(&ring),
        reader,
        released: 0,
        available: 0,
        closed: false,
    });
    Ok((OutputPublisher::new(ring), pollers))
}

/// What the ends share. Each number is alone on its cache line, and written by one end only.
struct Ring<E> {
    /// How many events readers may read; written by the publisher.
    published: CachePadded<AtomicU64>,
    /// How many events each reader is done with; each written by its reader.
    released: Box<[CachePadded<AtomicU64>]>,
    slots: Box<[UnsafeCell<E>]>,
}

// SAFETY: needed to share the slots between the ends. The head of this file says why no slot is written while another
// thread touches it. Events are sent to the readers (`Send`), who read one at the same time (`Sync`).
unsafe impl<E: Send + Sync> Sync for Ring<E> {}

impl<E> Ring<E> {
    /// The place of slot 0.
    fn first(&self) -> *mut E {
        UnsafeCell::raw_get(self.slots.as_ptr())
    }

    /// How many events all readers are done with.
    fn slowest(&self) -> u64 {
        // R: pairs with the store in `OutputPoller::release`.
        let released = self.released.iter().map(|reader| reader.load(Ordering::Acquire));
        released.min().unwrap_or_default()
    }
}

/// The publishing end. It never blocks. Dropping it shuts the ring down: each reader gets what is left and then
/// [`Polled::Shutdown`]; what was pushed and not flushed nobody gets, since it may be a part of what belongs together, left
/// by a failure. A reader that is dropped goes on to hold the room of what it has not read: an end that is lost
/// by mistake stops the publisher, and loses nothing.
///
/// Publishing wakes nobody. In a [`Runner`](crate::Runner) give the stage the readers' wakers; elsewhere call
/// [`WakeSet::wake`](crate::WakeSet::wake) after publishing.
pub struct OutputPublisher<E> {
    /// Where the next event is written: the slot of `written`, or the end of the slots where that is slot 0.
    at: *mut E,
    /// Up to where `push` may write without looking further: what is lowest of `limit`, the end of the slots, and
    /// `flush_every` more than is published.
    stop: *mut E,
    first: *mut E,
    /// The number of the event that lies, or will lie, in slot 0 of the round that `at` is in.
    round: u64,
    published: u64,
    /// What the slowest reader had released when it was last asked, plus the number of slots.
    limit: u64,
    flush_every: u64,
    ring: Arc<Ring<E>>,
}

// SAFETY: the pointers are into `ring`, which goes with them, and only this end writes through them; see `Ring`.
unsafe impl<E: Send + Sync> Send for OutputPublisher<E> {}

impl<E: Copy> OutputPublisher<E> {
    fn new(ring: Arc<Ring<E>>) -> Self {
        let (first, limit) = (ring.first(), ring.slots.len() as u64);
        let mut publisher = Self {
            at: first,
            stop: first,
            first,
            round: 0,
            published: 0,
            limit,
            flush_every: u64::MAX,
            ring,
        };
        publisher.set_stop();
        publisher
    }

    /// Free slots at this moment. It can only grow until the next event, since only this end takes slots.
    /// Reads each reader's cursor, so ask once for a batch and count down.
    pub fn free(&mut self) -> usize {
        self.limit = self.ring.slowest() + self.capacity() as u64;
        self.set_stop();
        (self.limit - self.written()) as usize
    }

    /// From now on [`push`](Self::push) publishes by itself whenever so many events are not published yet (at least 1, at
    /// most the ring). At first it never does.
    pub fn flush_every(&mut self, events: usize) {
        self.flush_every = events.clamp(1, self.capacity()) as u64;
        self.set_stop();
    }

    /// Writes one event behind the others without publishing it: [`flush`](Self::flush) does, and so does each of the
    /// other ways to publish. For many events in a row, this is the cheapest way.
    ///
    /// # Errors
    /// The slowest reader leaves no slot free; nothing was written. What is not published takes room, too: who waits for
    /// a ring that is full has to flush before.
    #[inline]
    pub fn push(&mut self, event: E) -> Result<(), Full> {
        if self.at == self.stop {
            self.make_room()?;
        }
        // SAFETY: needed to write through the shared slots. `at` is below `stop`, so it is in the slots, and all readers
        // have released the slot's last round (1 in the head of this file), and none sees this one before a `flush`.
        unsafe {
            self.at.write(event);
            self.at = self.at.add(1);
        }
        Ok(())
    }

    /// Publishes one event.
    ///
    /// # Errors
    /// The slowest reader leaves no slot free; nothing was published.
    #[inline]
    pub fn try_publish(&mut self, event: E) -> Result<(), Full> {
        self.push(event)?;
        self.flush();
        Ok(())
    }

    /// Publishes all of `events` at once, or none.
    ///
    /// # Errors
    /// There are too few free slots; nothing was published. More events than the ring has slots never fit.
    pub fn try_publish_all(&mut self, events: &[E]) -> Result<(), Full> {
        let room = self.room_for(events.len());
        if room < events.len() {
            return Err(Full { missing: events.len() - room });
        }
        self.write(events);
        self.flush();
        Ok(())
    }

    /// Publishes as many of `events` as fit, in order, and says how many those were.
    pub fn publish_some(&mut self, events: &[E]) -> usize {
        let fitting = self.room_for(events.len()).min(events.len());
        self.write(&events[..fitting]);
        self.flush();
        fitting
    }

    /// Free slots; if the last known limit has fewer than `wanted`, as of now.
    #[inline]
    fn room_for(&mut self, wanted: usize) -> usize {
        let known = (self.limit - self.written()) as usize;
        if known < wanted { self.free() } else { known }
    }

    /// Writes `events`, for which there is room, up to the end of the slots and from their start.
    #[inline]
    fn write(&mut self, events: &[E]) {
        debug_assert!(events.len() as u64 <= self.limit - self.written());
        let mut rest = events;
        while !rest.is_empty() {
            let place = self.place();
            let (piece, behind) = rest.split_at(rest.len().min(self.capacity() - place));
            // SAFETY: needed to copy into the shared slots. The slots `place..place + piece.len()` are there, and below
            // `limit` by this function's contract, so they are this end's alone, as in `push`; `events` is none of them,
            // since slots are never lent for writing.
            unsafe {
                self.at.copy_from_nonoverlapping(piece.as_ptr(), piece.len());
                self.at = self.at.add(piece.len());
            }
            rest = behind;
        }
        self.set_stop();
    }

    /// Puts `at` to slot 0 if it is at the end of the slots, and gives the number of its slot.
    #[inline]
    fn place(&mut self) -> usize {
        let place = (self.written() - self.round) as usize;
        if place < self.capacity() {
            return place;
        }
        self.round += self.capacity() as u64;
        self.at = self.first;
        0
    }

    /// What `push` does now and then: publishes, begins a round, asks the readers how far they are.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) -> Result<(), Full> {
        if self.written() - self.published >= self.flush_every {
            self.flush();
        }
        self.place();
        if self.written() == self.limit {
            self.limit = self.ring.slowest() + self.capacity() as u64;
        }
        self.set_stop();
        if self.at == self.stop { Err(Full { missing: 1 }) } else { Ok(()) }
    }
}

impl<E> OutputPublisher<E> {
    /// Slots of the ring.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.ring.slots.len()
    }

    /// Lets the readers see all that was written, and says whether there was anything that they did not see before.
    #[inline]
    pub fn flush(&mut self) -> bool {
        let written = self.written();
        let news = written != self.published;
        if news {
            self.published = written;
            // P: pairs with the load in `OutputPoller::look`.
            self.ring.published.store(written, Ordering::Release);
            self.set_stop();
        }
        news
    }

    /// How many events were written.
    #[inline]
    fn written(&self) -> u64 {
        // SAFETY: both are in the slots or at their end, and `at` is never before `first`.
        self.round + unsafe { self.at.offset_from_unsigned(self.first) } as u64
    }

    #[inline]
    fn set_stop(&mut self) {
        let (written, end) = (self.written(), self.round + self.capacity() as u64);
        let stop = end.min(self.limit).min(self.published.saturating_add(self.flush_every)).max(written);
        // SAFETY: `written` is neither before this round nor behind its end, and so neither is `stop`.
        self.stop = unsafe { self.first.add((stop - self.round) as usize) };
    }
}

impl<E> Drop for OutputPublisher<E> {
    fn drop(&mut self) {
        // P, as in `flush`: one number, so that nobody sees the end before the last event.
        self.ring.published.store(self.published | CLOSED, Ordering::Release);
    }
}

/// One reader of the output ring.
pub struct OutputPoller<E> {
    ring: Arc<Ring<E>>,
    /// Which of the readers it is.
    reader: usize,
    /// As the ring has it: only this end writes it.
    released: u64,
    /// How many events were published when this end last looked.
    available: u64,
    closed: bool,
}

impl<E> OutputPoller<E> {
    /// Reads at most `limit` events (at least one if there is any) and then releases them. `read` gets each event and
    /// whether it is the last of this poll. A panic in it aborts the process.
    #[inline]
    pub fn poll(&mut self, limit: usize, mut read: impl FnMut(&E, bool)) -> Polled {
        self.poll_slices(limit, |slices| {
            let [first, second] = slices;
            let last = first.len() + second.len() - 1;
            for (index, event) in first.iter().chain(second).enumerate() {
                read(event, index == last);
            }
        })
    }

    /// Reads at most `limit` events (at least one if there is any), in their order, as the slices that they lie in, and then
    /// releases them. The second is empty but where the first ends with the ring's last slot. A panic in `read` aborts the
    /// process.
    #[inline]
    pub fn poll_slices(&mut self, limit: usize, read: impl FnOnce([&[E]; 2])) -> Polled {
        let limit = limit.max(1);
        if ((self.available - self.released) as usize) < limit {
            self.look();
        }
        let count = limit.min((self.available - self.released) as usize);
        if count == 0 {
            return if self.closed { Polled::Shutdown } else { Polled::Idle };
        }
        let abort = AbortOnUnwind::new("reading the output ring");
        let slots = self.ring.slots.len();
        let place = self.released as usize & (slots - 1);
        let head = count.min(slots - place);
        let first = self.ring.first();
        // SAFETY: needed to read the shared slots as slices. They are initialised, and `count` is at most the number of
        // slots, so both are in them. They are published and not released, and this end has seen that (P), so nobody
        // writes them (2 and 3 in the head of this file) before `release`, which is after the slices' lives.
        read(unsafe {
            [slice::from_raw_parts(first.add(place), head), slice::from_raw_parts(first, count - head)]
        });
        abort.defuse();
        self.release(count);
        Polled::Work(count)
    }

    /// Looks how far the publisher is.
    #[inline]
    fn look(&mut self) {
        // P: pairs with the stores in `OutputPublisher::flush` and `OutputPublisher::drop`.
        let published = self.ring.published.load(Ordering::Acquire);
        self.available = published & !CLOSED;
        self.closed = published & CLOSED != 0;
    }

    #[inline]
    fn release(&mut self, count: usize) {
        self.released += count as u64;
        // R: pairs with the load in `Ring::slowest`.
        self.ring.released[self.reader].store(self.released, Ordering::Release);
    }
}

//! The buffer between one who records and the drain: a ring of words with one writer and one reader. It must not wait, and
//! must not tell the reader of a record before all of its words are there.
//!
//! A record is one word of `ticks << 16 | point << 4 | arguments`, and a word for each argument. Words are relaxed atomics, plain
//! moves on the CPUs that there are, so that no `unsafe` is needed; the two cursors order them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crossbeam_utils::CachePadded;

use crate::point::{ARGUMENTS_MAX, Point};
use crate::ticks;

/// Words of a buffer: 128 KiB, a sixteenth of a second-level cache. Of records with three arguments it has 4,096.
pub const BUFFER_WORDS: usize = 1 << 14;
const MASK: u64 = BUFFER_WORDS as u64 - 1;
/// Bits of the counter that a record has: at 4 GHz they go round in 19 hours, and the drain knows better.
const TICK_BITS: u32 = 48;

pub(crate) struct Buffer {
    /// Words written in all. Written by the writer (Release), read by the drain (Acquire).
    written: CachePadded<AtomicU64>,
    /// Words that the drain has read. Written by the drain (Release), read by the writer (Acquire).
    read: CachePadded<AtomicU64>,
    /// Records dropped in all, since the buffer was full. Relaxed: a count.
    lost: CachePadded<AtomicU64>,
    /// The writer is gone. Pairs Release with Acquire, so that whoever sees it sees all that was written.
    closed: AtomicBool,
    words: Box<[AtomicU64; BUFFER_WORDS]>,
}

impl Buffer {
    pub(crate) fn new() -> Self {
        let words: Box<[AtomicU64]> = (0..BUFFER_WORDS).map(|_| AtomicU64::new(0)).collect();
        let Ok(words) = words.try_into() else { unreachable!("there are so many words") };
        let zero = || CachePadded::new(AtomicU64::new(0));
        Self { written: zero(), read: zero(), lost: zero(), closed: AtomicBool::new(false), words }
    }

    #[inline]
    fn word(&self, at: u64) -> &AtomicU64 {
        &self.words[(at & MASK) as usize]
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }
}

/// The drain's end.
pub(crate) struct BufferReader {
    buffer: Arc<Buffer>,
    at: u64,
    /// Dropped records that were told of.
    lost: u64,
}

/// A record as it is in the buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Raw {
    pub(crate) point: u16,
    pub(crate) ticks: u64,
    pub(crate) arguments: [u64; ARGUMENTS_MAX],
    pub(crate) count: usize,
}

impl BufferReader {
    pub(crate) fn new(buffer: Arc<Buffer>) -> Self {
        Self { buffer, at: 0, lost: 0 }
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.buffer.is_closed()
    }

    /// Hands out what there is, and then how many records were dropped since the last time; gives the words read. `now` is the
    /// counter of about this moment.
    pub(crate) fn drain(&mut self, now: u64, mut take: impl FnMut(&Raw)) -> (usize, u64) {
        let from = self.at;
        // Pairs with the store in `record`.
        let written = self.buffer.written.load(Ordering::Acquire);
        while self.at < written {
            let head = self.buffer.word(self.at).load(Ordering::Relaxed);
            let count = ((head & 15) as usize).min(ARGUMENTS_MAX);
            let mut raw = Raw {
                point: (head >> 4 & 0xfff) as u16,
                ticks: nearest(head >> 16, now),
                arguments: [0; ARGUMENTS_MAX],
                count,
            };
            for (place, argument) in raw.arguments[..count].iter_mut().enumerate() {
                *argument = self.buffer.word(self.at + 1 + place as u64).load(Ordering::Relaxed);
            }
            self.at += 1 + count as u64;
            take(&raw);
        }
        // Pairs with the load in `make_room`: the writer may write over what was read.
        self.buffer.read.store(self.at, Ordering::Release);
        let lost = self.buffer.lost.load(Ordering::Relaxed);
        let more = lost - self.lost;
        self.lost = lost;
        ((self.at - from) as usize, more)
    }
}

/// The number nearest to `now` whose low 48 bits are `low`.
fn nearest(low: u64, now: u64) -> u64 {
    let shift = 64 - TICK_BITS;
    let ahead = (low.wrapping_sub(now) << shift).cast_signed() >> shift;
    now.wrapping_add_signed(ahead)
}

/// Records into a buffer of its own. One that is [off](Writer::off) does nothing.
pub struct Writer {
    buffer: Option<Arc<Buffer>>,
    at: u64,
    /// Where the buffer is full, as far as is known: what the drain had read by then, and a buffer's length.
    limit: u64,
    lost: u64,
}

impl Writer {
    pub(crate) fn new(buffer: Arc<Buffer>) -> Self {
        Self { buffer: Some(buffer), at: 0, limit: BUFFER_WORDS as u64, lost: 0 }
    }

    /// A writer that records nothing.
    #[must_use]
    pub const fn off() -> Self {
        Self { buffer: None, at: 0, limit: 0, lost: 0 }
    }

    /// Whether it records. For callers to whom an argument is dear.
    #[inline]
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.buffer.is_some()
    }

    /// Records that `point` was passed now. Never waits: where the buffer is full, the record is dropped and counted.
    #[inline]
    pub fn record<const N: usize>(&mut self, point: Point<N>, arguments: [u64; N]) {
        self.record_at(self.ticks(), point, arguments);
    }

    /// The counter, for [`record_at`](Self::record_at); 0 where nothing is recorded.
    #[inline]
    #[must_use]
    pub fn ticks(&self) -> u64 {
        if self.is_on() { ticks::now() } else { 0 }
    }

    /// Records that `point` was passed at `ticks`, of a moment since the writer's last record.
    #[inline]
    pub fn record_at<const N: usize>(&mut self, ticks: u64, point: Point<N>, arguments: [u64; N]) {
        let Some(buffer) = &self.buffer else { return };
        let end = self.at + 1 + N as u64;
        if end > self.limit && !make_room(buffer, end, &mut self.limit, &mut self.lost) {
            return;
        }
        buffer.word(self.at).store((ticks << 16) | point.tag(), Ordering::Relaxed);
        for (place, argument) in arguments.into_iter().enumerate() {
            buffer.word(self.at + 1 + place as u64).store(argument, Ordering::Relaxed);
        }
        self.at = end;
        // Pairs with the load in `drain`.
        buffer.written.store(end, Ordering::Release);
    }
}

/// Looks how far the drain is. Where that is not far enough, counts a record as dropped.
#[cold]
fn make_room(buffer: &Buffer, end: u64, limit: &mut u64, lost: &mut u64) -> bool {
    // Pairs with the store in `drain`.
    *limit = buffer.read.load(Ordering::Acquire) + BUFFER_WORDS as u64;
    let is_room = end <= *limit;
    if !is_room {
        *lost += 1;
        buffer.lost.store(*lost, Ordering::Relaxed);
    }
    is_room
}

impl Drop for Writer {
    fn drop(&mut self) {
        if let Some(buffer) = &self.buffer {
            buffer.closed.store(true, Ordering::Release);
        }
    }
}

impl fmt::Debug for Writer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Writer").field("is_on", &self.is_on()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: Point<2> = Point::at(5);

    #[test]
    fn what_is_recorded_is_read_and_what_does_not_fit_is_counted() {
        let buffer = Arc::new(Buffer::new());
        let (mut writer, mut reader) = (Writer::new(Arc::clone(&buffer)), BufferReader::new(buffer));
        // Words of a record don't divide those of the buffer, so that records go over its end.
        let fitting = BUFFER_WORDS as u64 / 3;
        for round in 0..5 {
            let more = round * 7;
            let before = ticks::now();
            (0..fitting + more).for_each(|value| writer.record(TWO, [value, u64::MAX - value]));
            let now = ticks::now();
            let mut next = 0;
            let (words, lost) = reader.drain(now, |raw| {
                assert_eq!((raw.point, raw.count), (5, 2));
                assert_eq!(raw.arguments, [next, u64::MAX - next, 0, 0]);
                assert!((before..=now).contains(&raw.ticks), "{before} {} {now}", raw.ticks);
                next += 1;
            });
            assert_eq!((words as u64, lost), (3 * fitting, more));
        }
        assert_eq!(reader.drain(0, |_| panic!("nothing is there")), (0, 0));
        drop(writer);
        assert!(reader.is_closed());
    }

    #[test]
    fn the_counter_goes_round() {
        let now = (7 << TICK_BITS) + 5;
        for ticks in [now, now - 5, now - 6, now + 3, now - (1 << 47) + 1, now + (1 << 47) - 1] {
            assert_eq!(nearest(ticks & ((1 << TICK_BITS) - 1), now), ticks);
        }
    }

    #[test]
    fn a_writer_that_is_off_does_nothing() {
        let mut writer = Writer::off();
        writer.record(TWO, [1, 2]);
        assert!(!writer.is_on());
    }

    #[test]
    fn the_two_ends_and_the_count_have_lines_of_their_own() {
        let buffer = Buffer::new();
        let at = |field: &CachePadded<AtomicU64>| std::ptr::from_ref(field).addr();
        let mut places = [at(&buffer.written), at(&buffer.read), at(&buffer.lost)];
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 64));
    }
}

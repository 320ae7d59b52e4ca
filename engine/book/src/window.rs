//! Levels by price: an array of queues over consecutive keys, and which of them are in use in a bitmap of two storeys.

use crate::arena::Handle;

/// Most prices of a window: 64 words of 64 bits.
pub(crate) const WIDTH_MAX: u64 = 4096;
/// Fewest.
const WIDTH_MIN: u64 = 512;

/// The ends of a level's queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Queue {
    /// The oldest order; none: the level does not exist.
    pub(crate) head: Handle,
    /// The youngest order.
    pub(crate) tail: Handle,
}

/// A window over the keys of one side. The default has no place at all.
#[derive(Debug, Default)]
pub(crate) struct Window {
    /// Key of the first queue; the last one's is an `i64`, too.
    base: i64,
    queues: Box<[Queue]>,
    /// Bit `at % 64` of word `at / 64`: the queue at that place is in use.
    words: Box<[u64]>,
    /// Bit `n`: word `n` is not zero.
    summary: u64,
}

impl Window {
    /// An empty window of at least that many keys, or the most there can be.
    pub(crate) fn of_width(width: u64) -> Self {
        let width = width.clamp(WIDTH_MIN, WIDTH_MAX).next_power_of_two() as usize;
        Self {
            base: 0,
            queues: vec![Queue::default(); width].into(),
            words: vec![0; width / 64].into(),
            summary: 0,
        }
    }

    /// Gives an empty window other keys: those around `touch`.
    pub(crate) fn center(&mut self, touch: i64) {
        debug_assert_eq!(self.summary, 0, "a window is emptied before it moves");
        let width = self.width();
        self.base = touch.saturating_sub_unsigned(width / 2).min(i64::MAX - (width as i64 - 1));
    }

    /// Puts a queue into a place that is not in use.
    pub(crate) fn set(&mut self, place: usize, queue: Queue) {
        self.queues[place] = queue;
        self.mark(place);
    }

    /// Empties a place.
    pub(crate) fn clear(&mut self, place: usize) {
        self.queues[place] = Queue::default();
        self.unmark(place, true);
    }

    /// Keys that it has place for.
    pub(crate) fn width(&self) -> u64 {
        self.queues.len() as u64
    }

    /// Key of its first place.
    pub(crate) fn base(&self) -> i64 {
        self.base
    }

    /// Place of a key, if it is below the width.
    #[inline(always)]
    pub(crate) fn place(&self, key: i64) -> usize {
        // A key below the base becomes larger than any width, since base and width end within the keys.
        key.wrapping_sub(self.base) as u64 as usize
    }

    /// Key of a place.
    #[inline(always)]
    pub(crate) fn key(&self, place: usize) -> i64 {
        self.base.wrapping_add(place as i64)
    }

    #[inline(always)]
    pub(crate) fn get(&self, place: usize) -> Option<Queue> {
        self.queues.get(place).copied()
    }

    #[inline(always)]
    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut Queue> {
        self.queues.get_mut(place)
    }

    /// Notes that the queue at a place is in use.
    #[inline(always)]
    pub(crate) fn mark(&mut self, place: usize) {
        self.words[place / 64] |= 1 << (place % 64);
        self.summary |= 1 << (place / 64 % 64);
    }

    /// Notes that the queue at a place is in use no more, if it `is_gone`.
    #[inline(always)]
    pub(crate) fn unmark(&mut self, place: usize, is_gone: bool) {
        let word = &mut self.words[place / 64];
        *word &= !(u64::from(is_gone) << (place % 64));
        self.summary &= !(u64::from(*word == 0) << (place / 64 % 64));
    }

    /// The highest place in use.
    #[inline]
    pub(crate) fn last(&self) -> Option<usize> {
        let word = self.summary.checked_ilog2()? as usize;
        Some(word * 64 + self.words[word].checked_ilog2()? as usize)
    }

    /// The highest place in use below a place.
    #[inline]
    pub(crate) fn last_below(&self, place: usize) -> Option<usize> {
        let place = place.min(self.queues.len());
        let below = |bits: u64, at: usize| bits & !(u64::MAX << at);
        let word = place / 64;
        let here = self.words.get(word).map_or(0, |bits| below(*bits, place % 64));
        if here != 0 {
            return Some(word * 64 + here.ilog2() as usize);
        }
        let words = if word < 64 { below(self.summary, word) } else { self.summary };
        let word = words.checked_ilog2()? as usize;
        Some(word * 64 + self.words[word].checked_ilog2()? as usize)
    }
}

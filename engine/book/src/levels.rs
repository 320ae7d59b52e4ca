//! One side of a book: its price levels, each a first-in-first-out queue threaded through an arena.
//!
//! Keys are side-signed, so that larger is better on both sides and the code is one. Levels near the touch lie in a window,
//! an array by price with a bitmap of two storeys; the others in a [`Ladder`]. A side starts without a window and gets one,
//! wider with the number of its levels, when it has been outside often enough to pay for the move. So memory is bounded by
//! levels, whatever their prices, and whoever orders at two ends in turn pays as for a sorted list.
//!
//! The keys of the best level and of the runner-up are kept: an order that becomes best and leaves at once costs no search.

use std::hint::select_unpredictable;

use protocol::{Price, Side};

use crate::arena::{Arena, Handle, Node};
use crate::ladder::{Ladder, Level};
use crate::window::{Queue, WIDTH_MAX, Window};

/// Levels of a side that has no window yet.
const LEVELS_WITHOUT_WINDOW: u32 = 8;
/// Prices that a window has for each level of its side.
const PRICES_PER_LEVEL: u64 = 8;
/// Visits outside the window before it is worth a thought to move it, beside one for each level that would move.
const PATIENCE: u32 = 16;
/// Queues that are walked side by side before they are visited one after the other.
const LEVELS_TOGETHER: usize = 16;
/// Orders of each that are fetched so, at most: all of them together stay in the nearest cache.
const ORDERS_FETCHED: usize = 32;

/// In the place of a key that was not looked for. A level may have that key; it is then looked for each time.
const UNKNOWN: i64 = i64::MIN;

/// The key of a price: larger is better.
#[inline]
#[must_use]
pub fn key(side: Side, price: Price) -> i64 {
    price.0 ^ -i64::from(side == Side::Sell)
}

/// The price of a key.
#[inline]
#[must_use]
pub fn price(side: Side, key: i64) -> Price {
    Price(key ^ -i64::from(side == Side::Sell))
}

/// The levels of one side of a book.
#[derive(Debug)]
#[repr(align(64))]
pub struct Levels {
    /// Key of the best level, or [`UNKNOWN`] without levels.
    best: i64,
    /// Key of the level behind it, or [`UNKNOWN`] where nobody has looked, or there is none.
    second: i64,
    /// Levels in all.
    count: u32,
    /// Visits outside the window since it was last thought about.
    outside: u32,
    window: Window,
    /// The levels that the window has no place for.
    far: Ladder,
}

impl Default for Levels {
    fn default() -> Self {
        Self {
            best: UNKNOWN,
            second: UNKNOWN,
            count: 0,
            outside: 0,
            window: Window::default(),
            far: Ladder::default(),
        }
    }
}

impl Levels {
    /// Key of the best level.
    #[inline]
    #[must_use]
    pub fn best_key(&self) -> Option<i64> {
        (self.count > 0).then_some(self.best)
    }

    /// Whether there is a level at least as good as a key.
    #[inline]
    #[must_use]
    pub fn reaches(&self, key: i64) -> bool {
        self.best >= key && self.count > 0
    }

    /// Levels.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count
    }

    /// The best level.
    #[inline]
    #[must_use]
    pub fn best(&self) -> Option<Level> {
        self.get(self.best_key()?)
    }

    /// All levels, best first.
    pub fn iter(&self) -> impl Iterator<Item = Level> {
        let base = self.window.base();
        let mut below = usize::MAX;
        let near = std::iter::from_fn(move || {
            below = self.window.last_below(below)?;
            self.at(below)
        });
        let better = self.far.iter().take_while(move |level| level.key >= base);
        let worse = self.far.iter().skip_while(move |level| level.key >= base);
        better.copied().chain(near).chain(worse.copied())
    }

    /// The best level that is worse than a key.
    #[must_use]
    pub fn next_worse(&self, key: i64) -> Option<Level> {
        let place = if key < self.window.base() { 0 } else { self.window.place(key) };
        let near = self.window.last_below(place).and_then(|place| self.at(place));
        let far = self.far.next_worse(key).copied();
        near.into_iter().chain(far).max_by_key(|level| level.key)
    }

    /// The level of a key.
    #[inline]
    #[must_use]
    pub fn get(&self, key: i64) -> Option<Level> {
        match self.window.get(self.window.place(key)) {
            Some(queue) => queue.head.is_some().then_some(Level { key, head: queue.head, tail: queue.tail }),
            None => self.far.get(key).copied(),
        }
    }

    /// Place of a key in the window, or none of its places.
    pub(crate) fn place(&self, key: i64) -> usize {
        self.window.place(key)
    }

    /// Reads the ends of the queue at a place, so that they are in the cache when they are needed.
    pub(crate) fn touch(&self, place: usize) -> Handle {
        match self.window.get(place) {
            Some(queue) => queue.tail,
            None => self.far.best().map_or(Handle::NONE, |level| level.tail),
        }
    }

    /// The level at a place of the window.
    fn at(&self, place: usize) -> Option<Level> {
        let queue = self.window.get(place)?;
        Some(Level { key: self.window.key(place), head: queue.head, tail: queue.tail })
    }

    /// Puts a node at the end of the queue of a key. True: the level is new.
    #[inline(always)]
    pub fn append<N: Node>(&mut self, nodes: &mut Arena<N>, handle: Handle, key: i64) -> bool {
        let place = self.window.place(key);
        let Some(queue) = self.window.get_mut(place) else { return self.append_far(nodes, handle, key) };
        let tail = queue.tail;
        let is_new = tail.is_none();
        queue.head = select_unpredictable(is_new, handle, queue.head);
        queue.tail = handle;
        self.window.mark(place);
        let node = nodes.get_mut(handle);
        node.set_next(Handle::NONE);
        node.set_prev(tail);
        nodes.get_mut(tail).set_next(handle);
        self.entered(key, is_new);
        is_new
    }

    #[inline(never)]
    fn append_far<N: Node>(&mut self, nodes: &mut Arena<N>, handle: Handle, key: i64) -> bool {
        self.outside += 1;
        if self.outside >= PATIENCE.saturating_add(self.count - self.far.count()) {
            self.move_window(if self.count > 0 { self.best.max(key) } else { key });
            if self.window.get(self.window.place(key)).is_some() {
                return self.append(nodes, handle, key);
            }
        }
        let (level, is_new) = self.far.enter(key);
        let tail = level.tail;
        level.tail = handle;
        if is_new {
            level.head = handle;
        }
        let node = nodes.get_mut(handle);
        node.set_next(Handle::NONE);
        node.set_prev(tail);
        nodes.get_mut(tail).set_next(handle);
        self.entered(key, is_new);
        is_new
    }

    /// Takes a node out of the queue of its key. True: the level is gone.
    #[inline(always)]
    pub fn unlink<N: Node>(&mut self, nodes: &mut Arena<N>, handle: Handle, key: i64) -> bool {
        let node = nodes.get(handle);
        let (next, prev) = (node.next(), node.prev());
        nodes.get_mut(prev).set_next(next);
        nodes.get_mut(next).set_prev(prev);
        let place = self.window.place(key);
        let Some(queue) = self.window.get_mut(place) else { return self.unlink_far(key, next, prev) };
        queue.head = select_unpredictable(prev.is_none(), next, queue.head);
        queue.tail = select_unpredictable(next.is_none(), prev, queue.tail);
        let is_gone = prev.is_none() & next.is_none();
        self.window.unmark(place, is_gone);
        self.left(key, is_gone);
        is_gone
    }

    #[inline(never)]
    fn unlink_far(&mut self, key: i64, next: Handle, prev: Handle) -> bool {
        self.outside += 1;
        if next.is_some() && prev.is_some() {
            return false;
        }
        let place = self.far.find(key).expect("a resting order has its level");
        if next.is_none() && prev.is_none() {
            self.far.remove(place);
            self.left(key, true);
            return true;
        }
        let level = self.far.at_mut(place);
        if prev.is_none() {
            level.head = next;
        } else {
            level.tail = prev;
        }
        false
    }

    /// Takes the first node of the best level out, as after its last fill. True: the level is gone.
    ///
    /// # Panics
    /// There is no level.
    #[inline]
    pub fn pop_front<N: Node>(&mut self, nodes: &mut Arena<N>) -> bool {
        let front = self.front().expect("a node rests at the best level");
        self.unlink(nodes, front, self.best)
    }

    /// The first node of the best level.
    #[inline(always)]
    #[must_use]
    pub fn front(&self) -> Option<Handle> {
        match self.window.get(self.window.place(self.best)) {
            Some(queue) => queue.head.is_some().then_some(queue.head),
            None => self.far.best().map(|level| level.head),
        }
    }

    /// Calls `f` for each node, best price and oldest first.
    pub fn for_each<N: Node>(&self, nodes: &Arena<N>, mut f: impl FnMut(Handle)) {
        let mut levels = self.iter();
        loop {
            let group: [Option<Level>; LEVELS_TOGETHER] = std::array::from_fn(|_| levels.next());
            if group[1].is_some() {
                fetch(nodes, &group);
            }
            for level in group.iter().flatten() {
                level.for_each(nodes, &mut f);
            }
            if group[LEVELS_TOGETHER - 1].is_none() {
                return;
            }
        }
    }

    /// Counts a level in, if it is new. Whether it is best or second can't be foreseen, so there are no branches.
    #[inline(always)]
    fn entered(&mut self, key: i64, is_new: bool) {
        let is_best = key > self.best;
        let is_second = (key > self.second) & (key < self.best) & (self.second != UNKNOWN);
        let second = select_unpredictable(is_second, key, self.second);
        self.second = select_unpredictable(is_best, self.best, second);
        self.best = select_unpredictable(is_best, key, self.best);
        self.count += u32::from(is_new);
    }

    /// Counts a level out, if it `is_gone`.
    #[inline(always)]
    fn left(&mut self, key: i64, is_gone: bool) {
        self.count -= u32::from(is_gone);
        let was_best = key == self.best;
        let was_second = key == self.second;
        self.best = select_unpredictable(is_gone & was_best, self.second, self.best);
        self.second = select_unpredictable(is_gone & (was_best | was_second), UNKNOWN, self.second);
        if self.best == UNKNOWN {
            self.search_best();
        }
    }

    /// Finds the best level, and the runner-up where both are in the window.
    #[inline(never)]
    fn search_best(&mut self) {
        let far = self.far.best_key();
        let near = self.window.last();
        let near_key = near.map(|place| self.window.key(place));
        self.best = near_key.max(far).unwrap_or(UNKNOWN);
        let behind = near.filter(|_| near_key > far).and_then(|place| self.window.last_below(place));
        let second = behind.map(|place| self.window.key(place));
        self.second = second.filter(|_| second > far).unwrap_or(UNKNOWN);
    }

    /// Moves the window to the touch, or widens it, if that is of use.
    #[inline(never)]
    fn move_window(&mut self, touch: i64) {
        self.outside = 0;
        let width = self.window.width();
        if width == 0 && self.count < LEVELS_WITHOUT_WINDOW {
            return;
        }
        let wanted = (u64::from(self.count) * PRICES_PER_LEVEL).min(WIDTH_MAX);
        let place = self.window.place(touch) as u64;
        if wanted <= width && place >= width / 4 && place < width / 4 * 3 {
            return;
        }
        while let Some(place) = self.window.last() {
            let level = self.at(place).expect("the place is in use");
            *self.far.enter(level.key).0 = level;
            self.window.clear(place);
        }
        if wanted > width {
            self.window = Window::of_width(wanted);
        }
        self.window.center(touch);
        let end = self.window.key(self.window.width() as usize - 1);
        loop {
            let level = match self.far.get(end) {
                Some(level) => Some(level),
                None => self.far.next_worse(end),
            };
            let Some(level) = level.copied().filter(|level| level.key >= self.window.base()) else { return };
            let place = self.window.place(level.key);
            self.window.set(place, Queue { head: level.head, tail: level.tail });
            let place = self.far.find(level.key).expect("the level was found");
            self.far.remove(place);
        }
    }
}

impl Level {
    /// Calls `f` for each node of the level, oldest first.
    pub fn for_each<N: Node>(&self, nodes: &Arena<N>, mut f: impl FnMut(Handle)) {
        let mut handle = self.head;
        while handle.is_some() {
            f(handle);
            handle = nodes.get(handle).next();
        }
    }
}

/// Brings the first nodes of some queues into the cache. A queue is a chain of misses, each waiting for the one before;
/// those of different queues wait together.
fn fetch<N: Node>(nodes: &Arena<N>, levels: &[Option<Level>; LEVELS_TOGETHER]) {
    let mut at = levels.map(|level| level.map_or(Handle::NONE, |level| level.head));
    for _ in 0..ORDERS_FETCHED {
        let mut live = false;
        for handle in at.iter_mut().filter(|handle| handle.is_some()) {
            *handle = nodes.get(*handle).next();
            live = true;
        }
        if !live {
            return;
        }
    }
}

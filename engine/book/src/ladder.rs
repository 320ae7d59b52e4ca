//! The price levels of one side of a book, in price order. It knows no orders: a level is the two ends of a queue.
//!
//! Keys are side-signed, so that larger is better on both sides. The best levels are one sorted vector with the best at
//! its end, where nearly all of the work is; what is further away lies in a list of sorted blocks. So the touch is one
//! load, a search is short, and no price however far moves more than a block, or, once in half a block of changes, the
//! list of blocks.

use crate::arena::Handle;

/// Most levels of a block, the near one too.
const BLOCK: usize = 256;
/// Levels at the best end that are looked at one by one before the search turns binary.
const SCAN: usize = 4;

/// A price with orders: the ends of its queue.
#[derive(Clone, Copy, Debug)]
pub struct Level {
    /// Its key.
    pub key: i64,
    /// The oldest node.
    pub head: Handle,
    /// The youngest node.
    pub tail: Handle,
}

/// Where a level is, until the next change of the ladder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// Block of `far`; `None` is `near`.
    block: Option<usize>,
    at: usize,
}

/// Levels in the order of their keys.
#[derive(Debug, Default)]
pub(crate) struct Ladder {
    /// The best levels, worst first. Empty only where there are no others.
    near: Vec<Level>,
    /// The others, once there were any: few books have as many levels, and the others are to be small.
    blocks: Option<Box<Blocks>>,
    count: u32,
}

/// Levels that are worse than the near ones.
#[derive(Debug, Default)]
struct Blocks {
    /// Blocks that are never empty, worst first, each worst first.
    far: Vec<Vec<Level>>,
    /// Emptied blocks, so that levels that come and go allocate nothing.
    spare: Vec<Vec<Level>>,
}

impl Blocks {
    fn insert(&mut self, at: usize, levels: &mut Vec<Level>) {
        let mut better = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(BLOCK));
        better.extend(levels.drain(BLOCK / 2..));
        self.far.insert(at, better);
    }
}

impl Ladder {
    /// Key of the best level.
    #[inline]
    pub(crate) fn best_key(&self) -> Option<i64> {
        self.near.last().map(|level| level.key)
    }

    /// Levels.
    #[inline]
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// The best level.
    #[inline]
    pub(crate) fn best(&self) -> Option<&Level> {
        self.near.last()
    }

    /// All levels, best first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Level> {
        self.near.iter().rev().chain(self.far().iter().rev().flat_map(|block| block.iter().rev()))
    }

    /// The best level that is worse than a key.
    pub(crate) fn next_worse(&self, key: i64) -> Option<&Level> {
        let better = self.near.partition_point(|level| level.key < key);
        if better > 0 {
            return self.near.get(better - 1);
        }
        let block = self.far().partition_point(|block| block[0].key < key).checked_sub(1)?;
        let levels = &self.far()[block];
        levels.get(levels.partition_point(|level| level.key < key).checked_sub(1)?)
    }

    /// The level of a key.
    #[inline]
    pub(crate) fn find(&self, key: i64) -> Option<Place> {
        let place = self.search(key).ok()?;
        Some(place)
    }

    /// The level of a key, to read.
    pub(crate) fn get(&self, key: i64) -> Option<&Level> {
        let place = self.find(key)?;
        match place.block {
            None => self.near.get(place.at),
            Some(block) => self.far()[block].get(place.at),
        }
    }

    /// The level at a place that `find` gave.
    #[inline]
    pub(crate) fn at_mut(&mut self, place: Place) -> &mut Level {
        &mut self.block_mut(place.block)[place.at]
    }

    /// The blocks beside `near`.
    #[inline]
    fn far(&self) -> &[Vec<Level>] {
        self.blocks.as_ref().map_or(&[], |blocks| &blocks.far)
    }

    #[inline]
    fn block_mut(&mut self, block: Option<usize>) -> &mut Vec<Level> {
        match block {
            None => &mut self.near,
            Some(block) => &mut self.blocks.get_or_insert_default().far[block],
        }
    }

    /// The level of a key where it exists, or else a new one with an empty queue. True: it is new.
    #[inline]
    pub(crate) fn enter(&mut self, key: i64) -> (&mut Level, bool) {
        match self.search(key) {
            Ok(place) => (self.at_mut(place), false),
            Err(place) => (self.insert(place, key), true),
        }
    }

    /// Takes a level out.
    pub(crate) fn remove(&mut self, place: Place) {
        self.count -= 1;
        match place.block {
            None => {
                self.near.remove(place.at);
                self.settle_near();
            }
            Some(block) => {
                let blocks = self.blocks.get_or_insert_default();
                blocks.far[block].remove(place.at);
                if blocks.far[block].is_empty() {
                    blocks.spare.push(blocks.far.remove(block));
                }
            }
        }
    }

    /// Where the key is, or where it would be.
    #[inline]
    fn search(&self, key: i64) -> Result<Place, Place> {
        let is_near = self.far().is_empty() || self.near.first().is_some_and(|worst| key >= worst.key);
        if is_near {
            return search_block(&self.near, key)
                .map(|at| Place { block: None, at })
                .map_err(|at| Place { block: None, at });
        }
        let block = self.far().partition_point(|block| block[0].key <= key).saturating_sub(1);
        self.far()[block]
            .binary_search_by_key(&key, |level| level.key)
            .map(|at| Place { block: Some(block), at })
            .map_err(|at| Place { block: Some(block), at })
    }

    fn insert(&mut self, place: Place, key: i64) -> &mut Level {
        let level = Level { key, head: Handle::NONE, tail: Handle::NONE };
        let Place { mut block, mut at } = place;
        if self.block_mut(block).len() >= BLOCK {
            let blocks = self.blocks.get_or_insert_default();
            match block {
                None => {
                    // The better half stays near.
                    let last = blocks.far.len();
                    blocks.insert(last, &mut self.near);
                    std::mem::swap(&mut self.near, &mut blocks.far[last]);
                    if at < BLOCK / 2 {
                        block = Some(last);
                    } else {
                        at -= BLOCK / 2;
                    }
                }
                Some(full) => {
                    let mut levels = std::mem::take(&mut blocks.far[full]);
                    blocks.insert(full + 1, &mut levels);
                    blocks.far[full] = levels;
                    if at > BLOCK / 2 {
                        block = Some(full + 1);
                        at -= BLOCK / 2;
                    }
                }
            }
        }
        self.count += 1;
        let levels = self.block_mut(block);
        levels.insert(at, level);
        &mut levels[at]
    }

    /// After a level left `near`: fills it again.
    #[inline]
    fn settle_near(&mut self) {
        if self.near.is_empty()
            && let Some(blocks) = &mut self.blocks
            && let Some(block) = blocks.far.pop()
        {
            blocks.spare.push(std::mem::replace(&mut self.near, block));
        }
    }
}

/// Position of the key, or where it would be. Most keys are near the end.
#[inline]
fn search_block(levels: &[Level], key: i64) -> Result<usize, usize> {
    let scanned = levels.len().saturating_sub(SCAN);
    let (far, close) = levels.split_at(scanned);
    let mut behind = levels.len();
    for level in close.iter().rev() {
        if level.key <= key {
            return if level.key == key { Ok(behind - 1) } else { Err(behind) };
        }
        behind -= 1;
    }
    far.binary_search_by_key(&key, |level| level.key)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Compares a ladder with a set through random changes over `span` keys.
    fn check(span: u64, changes: usize) {
        let mut random: u64 = 11;
        let mut next = move || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random >> 33
        };
        let mut ladder = Ladder::default();
        let mut set = BTreeSet::new();
        for change in 0..changes {
            // Waves of growth and decline.
            let grows = (change / (changes / 6)).is_multiple_of(2);
            let key = (next() % span) as i64 - 500;
            let die = next() % 8;
            if grows == (die < 6) {
                let (level, is_new) = ladder.enter(key);
                assert_eq!(level.key, key);
                assert_eq!(is_new, set.insert(key));
            } else if die == 7 || die == 1 {
                if let Some(key) = set.pop_last() {
                    let place = ladder.find(key).expect("the set has it");
                    ladder.remove(place);
                }
            } else {
                let place = ladder.find(key);
                assert_eq!(place.is_some(), set.remove(&key));
                if let Some(place) = place {
                    assert_eq!(ladder.at_mut(place).key, key);
                    ladder.remove(place);
                }
            }
            assert_eq!(ladder.best().map(|level| level.key), set.last().copied());
            assert_eq!(ladder.best_key(), set.last().copied());
            let worse = set.range(..key).next_back().copied();
            assert_eq!(ladder.next_worse(key).map(|level| level.key), worse);
            if change % 997 == 0 {
                assert!(ladder.iter().map(|level| level.key).eq(set.iter().rev().copied()));
                assert!(ladder.far().iter().all(|block| !block.is_empty() && block.len() <= BLOCK));
            }
        }
    }

    #[test]
    fn agrees_with_a_set_in_a_narrow_span() {
        check(40, 20_000);
    }

    #[test]
    fn agrees_with_a_set_in_a_wide_span() {
        check(20_000, 120_000);
    }
}

//! The price levels of one side. It must not know of events or instruments.

use std::collections::BTreeMap;

use protocol::{Price, Side};

/// Most levels that are kept in the array. Half of them go to the map when there is one more.
const NEAR_MAX: usize = 64;

/// A level's orders taken together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Level {
    // Wider than a quantity: the sum of many may not fit one.
    pub(super) quantity: u128,
    pub(super) orders: u32,
}

/// A price seen from its side: the larger, the better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key(i64);

impl Key {
    fn of(side: Side, price: Price) -> Self {
        match side {
            Side::Buy => Self(price.0),
            // All ones' complement: the order turned round, and no price is left over.
            Side::Sell => Self(!price.0),
        }
    }

    fn price(self, side: Side) -> Price {
        match side {
            Side::Buy => Price(self.0),
            Side::Sell => Price(!self.0),
        }
    }
}

/// Levels of one side: the best ones in a short sorted array, where nearly everything happens, the others in a map. So the
/// usual change is a search among few neighbours, and no flow makes one dear: a change moves at most [`NEAR_MAX`] levels.
#[derive(Debug)]
pub(super) struct Levels {
    side: Side,
    /// Worst first, so that the best come and go at the end. Empty only if `far` is.
    near: Vec<(Key, Level)>,
    /// All of them worse than those in `near`.
    far: BTreeMap<Key, Level>,
}

impl Levels {
    /// No level.
    pub(super) fn new(side: Side) -> Self {
        Self { side, near: Vec::new(), far: BTreeMap::new() }
    }

    /// The level at a price, made if there is none.
    #[inline]
    pub(super) fn entry(&mut self, price: Price) -> &mut Level {
        let key = Key::of(self.side, price);
        if self.is_far(key) {
            return self.far.entry(key).or_default();
        }
        match self.place(key) {
            Ok(place) => &mut self.near[place].1,
            Err(0) if self.near.len() >= NEAR_MAX => self.far.entry(key).or_default(),
            Err(place) => {
                let place = self.make_room(place);
                self.near.insert(place, (key, Level::default()));
                &mut self.near[place].1
            }
        }
    }

    /// The level at a price, if there is one.
    #[inline]
    pub(super) fn get_mut(&mut self, price: Price) -> Option<&mut Level> {
        let key = Key::of(self.side, price);
        if self.is_far(key) {
            return self.far.get_mut(&key);
        }
        let place = self.place(key).ok()?;
        self.near.get_mut(place).map(|(_, level)| level)
    }

    /// Removes the level at a price.
    #[inline]
    pub(super) fn remove(&mut self, price: Price) {
        let key = Key::of(self.side, price);
        if self.is_far(key) {
            self.far.remove(&key);
        } else if let Ok(place) = self.place(key) {
            self.near.remove(place);
            if self.near.is_empty() {
                self.refill();
            }
        }
    }

    /// All levels, the best first.
    pub(super) fn best_first(&self) -> impl Iterator<Item = (Price, &Level)> {
        let near = self.near.iter().rev().map(|(key, level)| (key, level));
        near.chain(self.far.iter().rev()).map(|(key, level)| (key.price(self.side), level))
    }

    fn is_far(&self, key: Key) -> bool {
        !self.far.is_empty() && self.near.first().is_some_and(|(worst, _)| key < *worst)
    }

    /// The place of a level in the array, or where it would be.
    #[inline]
    fn place(&self, key: Key) -> Result<usize, usize> {
        self.near.binary_search_by_key(&key, |(other, _)| *other)
    }

    /// Sees to it that the array takes one more level at `place`, and says where that place is then.
    #[inline]
    fn make_room(&mut self, place: usize) -> usize {
        if self.near.len() < NEAR_MAX {
            return place;
        }
        let gone = (NEAR_MAX / 2).min(place);
        self.far.extend(self.near.drain(..gone));
        place - gone
    }

    #[cold]
    fn refill(&mut self) {
        while self.near.len() < NEAR_MAX / 2
            && let Some(level) = self.far.pop_last()
        {
            self.near.push(level);
        }
        self.near.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The same changes in a plain map; prices near each other, far apart, and at the ends of what there is.
    #[test]
    fn they_are_what_a_map_of_all_levels_is() {
        for side in [Side::Buy, Side::Sell] {
            let mut levels = Levels::new(side);
            let mut plain = BTreeMap::<i64, u32>::new();
            let mut random = 0x2545_f491_4f6c_dd1d_u64;
            for step in 0..200_000_u64 {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                // Filled and emptied by turns, so that levels go to and fro between array and map.
                let is_entry = random % 100 < if step / 2_000 % 2 == 0 { 70 } else { 30 };
                let price = match random >> 60 {
                    0 => i64::MIN,
                    1 => i64::MAX,
                    2 => (random >> 8) as i64,
                    _ => ((random >> 8) % 300) as i64 - 150,
                };
                if is_entry {
                    levels.entry(Price(price)).orders += 1;
                    *plain.entry(price).or_default() += 1;
                } else {
                    let found = levels.get_mut(Price(price)).map(|level| level.orders);
                    assert_eq!(found, plain.get(&price).copied(), "step {step}, price {price}");
                    levels.remove(Price(price));
                    plain.remove(&price);
                }
                assert!(levels.near.len() <= NEAR_MAX && (levels.far.is_empty() || !levels.near.is_empty()));
                if step % 64 == 0 {
                    let all: Vec<_> =
                        levels.best_first().map(|(price, level)| (price.0, level.orders)).collect();
                    let mut wanted: Vec<_> = plain.iter().map(|(price, orders)| (*price, *orders)).collect();
                    if side == Side::Buy {
                        wanted.reverse();
                    }
                    assert_eq!(all, wanted, "step {step}");
                }
            }
            assert!(!levels.far.is_empty(), "the map was used");
        }
    }
}

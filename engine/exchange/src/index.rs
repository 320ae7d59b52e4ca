//! Open-addressing index from a hashed key to a handle. It keeps no keys: the caller verifies a candidate in the thing
//! that the handle names. Deletion shifts back, so there are no tombstones; growth moves a few entries with every
//! insertion, so no single command pays for it. It must never be iterated toward an output.
//!
//! A slot is 8 bytes: the upper half of the key's hash as a tag, and the handle plus one; zero is an empty slot, so that a
//! fresh table is untouched zero pages. The tag's upper bits are the slot at which the search begins.

use crate::arena::Handle;

/// Slots of the smallest table.
const BITS_MIN: u32 = 6;
/// Most slots: the tag must name every one as a search's beginning.
const BITS_MAX: u32 = 32;
/// Entries that one insertion moves out of the table before.
const MOVES_PER_INSERTION: usize = 8;
/// Empty slots that one insertion looks at in the table before.
const LOOKS_PER_INSERTION: usize = 256;

/// A hash of a key; only its upper 32 bits are used.
#[derive(Clone, Copy)]
pub(crate) struct KeyHash(pub(crate) u64);

impl KeyHash {
    /// Of an order's key.
    #[inline]
    pub(crate) fn of_order(session: u32, client_order_id: u64) -> Self {
        let spread = u64::from(session).wrapping_mul(0xff51_afd7_ed55_8ccd);
        Self((client_order_id ^ spread.rotate_left(29)).wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn tag(self) -> u32 {
        (self.0 >> 32) as u32
    }
}

#[derive(Debug)]
struct Table {
    slots: Vec<u64>,
    bits: u32,
    entries: usize,
}

impl Table {
    fn new(bits: u32) -> Self {
        Self { slots: vec![0; 1 << bits], bits, entries: 0 }
    }

    fn mask(&self) -> usize {
        self.slots.len() - 1
    }

    #[inline]
    fn home(&self, tag: u32) -> usize {
        (u64::from(tag) >> (32 - self.bits)) as usize
    }

    #[inline]
    fn find(&self, tag: u32, mut is: impl FnMut(Handle) -> bool) -> Option<usize> {
        let mask = self.mask();
        let mut at = self.home(tag) & mask;
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            if (slot >> 32) as u32 == tag && is(handle_of(slot)) {
                return Some(at);
            }
            at = (at + 1) & mask;
        }
    }

    fn insert(&mut self, slot: u64) {
        let mask = self.mask();
        let mut at = self.home((slot >> 32) as u32) & mask;
        while self.slots[at] != 0 {
            at = (at + 1) & mask;
        }
        self.slots[at] = slot;
        self.entries += 1;
    }

    /// Empties a slot and moves back what a search would no longer reach.
    fn remove(&mut self, mut hole: usize) {
        let mask = self.mask();
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let home = self.home((slot >> 32) as u32) & mask;
            // It may move into the hole if its search begins at or before the hole.
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = 0;
        self.entries -= 1;
    }
}

fn handle_of(slot: u64) -> Handle {
    Handle::new((slot as u32).wrapping_sub(1))
}

fn slot_of(hash: KeyHash, handle: Handle) -> u64 {
    (u64::from(hash.tag()) << 32) | u64::from(handle.raw() + 1)
}

/// The index.
#[derive(Debug)]
pub(crate) struct Index {
    table: Table,
    /// The table before, as long as it has entries.
    old: Option<Table>,
    /// First slot of the table before that may hold an entry.
    moved: usize,
}

impl Index {
    pub(crate) fn new() -> Self {
        Self { table: Table::new(BITS_MIN), old: None, moved: 0 }
    }

    /// An empty index that takes `entries` without growing.
    pub(crate) fn with_room(entries: usize) -> Self {
        let mut bits = BITS_MIN;
        while bits < BITS_MAX && room(bits) < entries {
            bits += 1;
        }
        Self { table: Table::new(bits), old: None, moved: 0 }
    }

    /// Finds the entry that `is` says is the one.
    #[inline]
    pub(crate) fn find(&self, hash: KeyHash, mut is: impl FnMut(Handle) -> bool) -> Option<Handle> {
        if let Some(at) = self.table.find(hash.tag(), &mut is) {
            return Some(handle_of(self.table.slots[at]));
        }
        let old = self.old.as_ref()?;
        old.find(hash.tag(), &mut is).map(|at| handle_of(old.slots[at]))
    }

    /// Adds an entry; the key is not in the index.
    pub(crate) fn insert(&mut self, hash: KeyHash, handle: Handle) {
        self.move_some();
        if self.table.entries >= room(self.table.bits) && self.old.is_none() && self.table.bits < BITS_MAX {
            let next = Table::new(self.table.bits + 1);
            self.old = Some(std::mem::replace(&mut self.table, next));
            self.moved = 0;
        }
        self.table.insert(slot_of(hash, handle));
    }

    /// Takes an entry out, if it is there.
    pub(crate) fn remove(&mut self, hash: KeyHash, handle: Handle) {
        if let Some(at) = self.table.find(hash.tag(), |other| other == handle) {
            self.table.remove(at);
        } else if let Some(old) = &mut self.old
            && let Some(at) = old.find(hash.tag(), |other| other == handle)
        {
            old.remove(at);
        }
    }

    /// Reads the slot at which a search for the key begins, so that it is in the cache when the search comes.
    #[inline]
    pub(crate) fn touch(&self, hash: KeyHash) -> Handle {
        handle_of(self.table.slots[self.table.home(hash.tag()) & self.table.mask()])
    }

    /// Moves entries out of the table before. Its slots below `moved` are empty: an entry is taken out of `moved` until
    /// what shifts back into it is an empty slot, and nothing is ever inserted there again.
    fn move_some(&mut self) {
        let Some(old) = &mut self.old else { return };
        let (mut moves, mut looks) = (0, 0);
        while old.entries > 0 && moves < MOVES_PER_INSERTION && looks < LOOKS_PER_INSERTION {
            let slot = old.slots[self.moved];
            if slot == 0 {
                self.moved += 1;
                looks += 1;
            } else {
                self.table.insert(slot);
                old.remove(self.moved);
                moves += 1;
            }
        }
        if old.entries == 0 {
            self.old = None;
        }
    }
}

/// Entries of a table of 2^bits slots beyond which the next one is begun: an eighth while it is within the second-level
/// cache, a quarter a little above, then half.
fn room(bits: u32) -> usize {
    match bits {
        ..=15 => (1 << bits) / 8,
        16..=17 => (1 << bits) / 4,
        _ => (1 << bits) / 2,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_a_map_through_growth_and_removal() {
        let seed = 7;
        let mut random: u64 = seed;
        let mut next = move || {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            random >> 33
        };
        // Few distinct tags, so that clusters are long and wrap around.
        let hash = |key: u64| KeyHash((key % 97).wrapping_mul(0xf3ff_ffff_0000_0000) ^ (key << 40));
        let mut index = Index::new();
        let mut keys: Vec<u64> = Vec::new();
        let mut map = std::collections::BTreeMap::new();
        for _ in 0..60_000 {
            let key = next() % 5_000;
            let found = index.find(hash(key), |handle| keys[handle.raw() as usize] == key);
            assert_eq!(found.map(Handle::raw), map.get(&key).copied(), "key {key}");
            match found {
                None => {
                    let handle = keys.len() as u32;
                    keys.push(key);
                    map.insert(key, handle);
                    index.insert(hash(key), Handle::new(handle));
                }
                Some(handle) if next() % 3 > 0 => {
                    index.remove(hash(key), handle);
                    map.remove(&key);
                }
                Some(_) => {}
            }
        }
        assert!(map.len() > 500);
        for (key, handle) in &map {
            let found = index.find(hash(*key), |handle| keys[handle.raw() as usize] == *key);
            assert_eq!(found.map(Handle::raw), Some(*handle));
        }
    }
}

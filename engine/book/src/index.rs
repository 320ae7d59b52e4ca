//! Open-addressing index from a hashed key to a handle. It keeps no keys: the caller verifies a candidate in the node that
//! the handle names. Deletion shifts back, so there are no tombstones; growth moves a few entries with every insertion, so
//! no single command pays for it. It must never be iterated toward an output.
//!
//! A slot is 8 bytes: the upper half of the key's hash as a tag, and the handle; zero is an empty slot, so that a fresh
//! table is untouched zero pages. The tag's upper bits are the slot at which the search begins.

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
#[derive(Clone, Copy, Debug)]
pub struct KeyHash(pub u64);

impl KeyHash {
    /// Of an id.
    #[inline]
    #[must_use]
    pub fn of_id(id: u64) -> Self {
        Self(id.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}

/// Where an entry would go that was looked for in vain, until the next change of the index.
#[derive(Clone, Copy, Debug)]
pub struct Vacancy(usize);

#[derive(Debug)]
struct Table {
    /// A power of two of them.
    slots: Box<[u64]>,
    /// What a hash is shifted by to become the slot at which its search begins.
    shift: u32,
}

impl Table {
    fn new(bits: u32) -> Self {
        Self { slots: vec![0; 1 << bits].into(), shift: 64 - bits }
    }

    fn bits(&self) -> u32 {
        64 - self.shift
    }

    #[inline(always)]
    fn home(&self, hash: u64) -> usize {
        (hash >> self.shift) as usize
    }

    #[inline(always)]
    fn behind(&self, at: usize) -> usize {
        (at + 1) & (self.slots.len() - 1)
    }

    /// The slot of the entry that `is` says is the one, or the empty slot at which the search ended.
    #[inline(always)]
    fn find(&self, hash: KeyHash, mut is: impl FnMut(Handle) -> bool) -> Result<usize, usize> {
        let mut at = self.home(hash.0);
        loop {
            let slot = self.slots[at];
            if (slot ^ hash.0) >> 32 == 0 && handle_of(slot).is_some() && is(handle_of(slot)) {
                return Ok(at);
            }
            if slot == 0 {
                return Err(at);
            }
            at = self.behind(at);
        }
    }

    fn insert(&mut self, slot: u64) {
        let mut at = self.home(slot);
        while self.slots[at] != 0 {
            at = self.behind(at);
        }
        self.slots[at] = slot;
    }

    /// Empties a slot and moves back what a search would no longer reach.
    #[inline(always)]
    fn remove(&mut self, hole: usize) {
        if self.slots[self.behind(hole)] == 0 {
            self.slots[hole] = 0;
        } else {
            self.shift_back(hole);
        }
    }

    #[inline(never)]
    fn shift_back(&mut self, mut hole: usize) {
        let mask = self.slots.len() - 1;
        let mut at = hole;
        loop {
            at = (at + 1) & mask;
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let home = self.home(slot);
            // It may move into the hole if its search begins at or before the hole.
            if at.wrapping_sub(home) & mask >= at.wrapping_sub(hole) & mask {
                self.slots[hole] = slot;
                hole = at;
            }
        }
        self.slots[hole] = 0;
    }
}

#[inline(always)]
fn handle_of(slot: u64) -> Handle {
    Handle::new(slot as u32)
}

#[inline(always)]
fn slot_of(hash: KeyHash, handle: Handle) -> u64 {
    hash.0 & !u64::from(u32::MAX) | u64::from(handle.raw())
}

/// The table before, while its entries move.
#[derive(Debug)]
struct Old {
    table: Table,
    entries: usize,
    /// First slot that may hold an entry.
    moved: usize,
}

/// The index.
#[derive(Debug)]
pub struct Index {
    table: Table,
    /// Entries of `table`.
    entries: usize,
    /// Entries at which an insertion has more to do than to insert: what the table has room for, or zero while there are
    /// entries in the table before.
    limit: usize,
    old: Option<Old>,
}

impl Default for Index {
    fn default() -> Self {
        Self::with_room(0)
    }
}

impl Index {
    /// An empty index that takes `entries` without growing.
    #[must_use]
    pub fn with_room(entries: usize) -> Self {
        let mut bits = BITS_MIN;
        while bits < BITS_MAX && room(bits) < entries {
            bits += 1;
        }
        Self { table: Table::new(bits), entries: 0, limit: room(bits), old: None }
    }

    /// Finds the entry that `is` says is the one, or where it would go.
    ///
    /// # Errors
    /// There is no such entry.
    #[inline(always)]
    pub fn locate(&self, hash: KeyHash, mut is: impl FnMut(Handle) -> bool) -> Result<Handle, Vacancy> {
        match self.table.find(hash, &mut is) {
            Ok(at) => Ok(handle_of(self.table.slots[at])),
            Err(vacant) => match &self.old {
                None => Err(Vacancy(vacant)),
                Some(old) => old
                    .table
                    .find(hash, is)
                    .map(|at| handle_of(old.table.slots[at]))
                    .map_err(|_| Vacancy(vacant)),
            },
        }
    }

    /// Finds the entry that `is` says is the one.
    #[inline(always)]
    pub fn find(&self, hash: KeyHash, is: impl FnMut(Handle) -> bool) -> Option<Handle> {
        self.locate(hash, is).ok()
    }

    /// Adds an entry at a vacancy that was found for its hash. The index has not changed since.
    #[inline(always)]
    pub fn fill(&mut self, Vacancy(at): Vacancy, hash: KeyHash, handle: Handle) {
        if self.entries >= self.limit {
            return self.insert_and_move(hash, handle);
        }
        debug_assert_eq!(self.table.slots[at], 0, "a vacancy is used before the index changes");
        self.table.slots[at] = slot_of(hash, handle);
        self.entries += 1;
    }

    /// Adds an entry; the key is not in the index.
    pub fn insert(&mut self, hash: KeyHash, handle: Handle) {
        if self.entries >= self.limit {
            return self.insert_and_move(hash, handle);
        }
        self.table.insert(slot_of(hash, handle));
        self.entries += 1;
    }

    /// Takes an entry out, if it is there.
    pub fn remove(&mut self, hash: KeyHash, handle: Handle) {
        self.take(hash, |other| other == handle);
    }

    /// Takes the entry out that `is` says is the one.
    #[inline(always)]
    pub fn take(&mut self, hash: KeyHash, mut is: impl FnMut(Handle) -> bool) -> Option<Handle> {
        let Ok(at) = self.table.find(hash, &mut is) else { return self.take_old(hash, is) };
        let handle = handle_of(self.table.slots[at]);
        self.table.remove(at);
        self.entries -= 1;
        Some(handle)
    }

    #[inline(never)]
    fn take_old(&mut self, hash: KeyHash, is: impl FnMut(Handle) -> bool) -> Option<Handle> {
        let old = self.old.as_mut()?;
        let at = old.table.find(hash, is).ok()?;
        let handle = handle_of(old.table.slots[at]);
        old.table.remove(at);
        old.entries -= 1;
        Some(handle)
    }

    /// Reads the slot at which a search for the key begins, so that it is in the cache when the search comes.
    #[inline]
    #[must_use]
    pub fn touch(&self, hash: KeyHash) -> Handle {
        handle_of(self.table.slots[self.table.home(hash.0)])
    }

    /// Adds an entry, and begins a larger table or moves some entries into it.
    #[inline(never)]
    fn insert_and_move(&mut self, hash: KeyHash, handle: Handle) {
        if self.old.is_none() && self.table.bits() < BITS_MAX {
            let next = Table::new(self.table.bits() + 1);
            let table = std::mem::replace(&mut self.table, next);
            self.old = Some(Old { table, entries: self.entries, moved: 0 });
            self.entries = 0;
            self.limit = 0;
        }
        self.move_some();
        self.table.insert(slot_of(hash, handle));
        self.entries += 1;
    }

    /// Moves entries out of the table before. Its slots below `moved` are empty: an entry is taken out of `moved` until
    /// what shifts back into it is an empty slot, and nothing is ever inserted there again.
    fn move_some(&mut self) {
        let Some(old) = &mut self.old else { return };
        let (mut moves, mut looks) = (0, 0);
        while old.entries > 0 && moves < MOVES_PER_INSERTION && looks < LOOKS_PER_INSERTION {
            let slot = old.table.slots[old.moved];
            if slot == 0 {
                old.moved += 1;
                looks += 1;
            } else {
                self.table.insert(slot);
                self.entries += 1;
                old.table.remove(old.moved);
                old.entries -= 1;
                moves += 1;
            }
        }
        if old.entries == 0 {
            self.old = None;
            self.limit = room(self.table.bits());
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
        let mut index = Index::default();
        let mut keys: Vec<u64> = vec![u64::MAX];
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

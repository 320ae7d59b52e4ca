//! Numbers that operators choose, mapped to places in a table: one load for the small numbers that everybody chooses, and
//! an ordered map for whatever else, which also gives the order in which things are listed.

use std::collections::BTreeMap;

/// Numbers below this are found with one load; the table for it grows to the highest such number in use.
const DIRECT: u32 = 1 << 20;
/// No place.
const NONE: u32 = u32::MAX;

/// Places by number. Entries are never taken out.
#[derive(Debug, Default)]
pub(crate) struct Directory {
    direct: Vec<u32>,
    all: BTreeMap<u32, u32>,
}

impl Directory {
    /// The place of a number.
    #[inline]
    pub(crate) fn get(&self, number: u32) -> Option<u32> {
        match self.direct.get(number as usize) {
            Some(&place) => (place != NONE).then_some(place),
            None if number < DIRECT => None,
            None => self.all.get(&number).copied(),
        }
    }

    /// Adds a number that is not there yet.
    pub(crate) fn insert(&mut self, number: u32, place: u32) {
        if number < DIRECT {
            if self.direct.len() <= number as usize {
                self.direct.resize(number as usize + 1, NONE);
            }
            self.direct[number as usize] = place;
        }
        self.all.insert(number, place);
    }

    /// Places in the order of their numbers.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> {
        self.all.values().copied()
    }
}

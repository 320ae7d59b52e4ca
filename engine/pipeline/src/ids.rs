//! A hasher for small ids that the engine gives out itself: one multiplication. It must not be used for keys that a
//! client chooses, nor may a map that has it be iterated where the order can be seen.

use std::hash::{BuildHasherDefault, Hasher};

/// Hasher of maps by session or instrument.
pub(crate) type IdHasher = BuildHasherDefault<Multiply>;

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Multiply(u64);

impl Hasher for Multiply {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    #[inline]
    fn write_u32(&mut self, id: u32) {
        // The map takes its place from the low bits and its tags from the high ones: spread over both.
        let product = (self.0 ^ u64::from(id)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = product ^ (product >> 32);
    }
}

//! Frames for the tests: random lengths, and bytes that tell whose they are and whether they are whole.

use rand::rngs::StdRng;
use rand::{Rng, RngExt, SeedableRng};
use ring::{FRAME_BYTES_MAX, FRAME_BYTES_MIN, SLOT_BYTES};

/// The seed of a randomised test, from `RINGPIT_SEED` or fresh; printed, so that a failure can be had again.
pub(crate) fn seed() -> u64 {
    let seed = match std::env::var("RINGPIT_SEED") {
        Ok(text) => text.parse().expect("RINGPIT_SEED is a number"),
        Err(_) => rand::random(),
    };
    println!("RINGPIT_SEED={seed}");
    seed
}

/// A generator of its own for each thread of a test.
pub(crate) fn generator(seed: u64, stream: u64) -> StdRng {
    StdRng::seed_from_u64(seed ^ stream.wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// A frame of `length` bytes: length, publisher @2, count @8, checksum @16, and a body that depends on all of them.
pub(crate) fn frame(length: usize, publisher: u8, count: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    bytes[..2].copy_from_slice(&(length as u16).to_le_bytes());
    bytes[2] = publisher;
    bytes[8..16].copy_from_slice(&count.to_le_bytes());
    let mut body = generator(count, u64::from(publisher) + 1);
    body.fill_bytes(&mut bytes[24..]);
    let sum = checksum(&bytes);
    bytes[16..24].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Mostly plain orders, else any length that is allowed.
pub(crate) fn random_length(random: &mut StdRng) -> usize {
    if random.random_bool(0.5) { 56 } else { random.random_range(FRAME_BYTES_MIN..=FRAME_BYTES_MAX) }
}

/// What a frame as a reader got it says about itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Label {
    pub(crate) publisher: u8,
    pub(crate) count: u64,
    pub(crate) sum: u64,
}

/// Checks that `padded` is one whole frame with zeros up to whole slots, and reads its label.
pub(crate) fn check(padded: &[u8]) -> Label {
    let length = usize::from(u16::from_le_bytes([padded[0], padded[1]]));
    assert_eq!(padded.len(), length.next_multiple_of(SLOT_BYTES), "not one frame in whole slots");
    assert!(padded[length..].iter().all(|byte| *byte == 0), "the padding is not zero");
    let number = |at: usize| u64::from_le_bytes(padded[at..at + 8].try_into().expect("eight bytes"));
    let label = Label { publisher: padded[2], count: number(8), sum: number(16) };
    assert_eq!(checksum(&padded[..length]), label.sum, "the frame's bytes are not those published");
    label
}

fn checksum(bytes: &[u8]) -> u64 {
    let skip = 16..24;
    bytes
        .iter()
        .enumerate()
        .filter(|(at, _)| !skip.contains(at))
        .fold(0xcbf2_9ce4_8422_2325, |sum, (_, byte)| {
            (sum ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
        })
}

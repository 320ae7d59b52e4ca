//! What is drawn by chance, evenly and yet the same on every member: from the venue's seed, which a logged command sets, and
//! from numbers that name what is drawn for. Nothing else in the exchange is random.

use crate::exchange::Exchange;

/// First word of the draw of an iceberg's refill; then order id and number of the refill, from 1.
pub(crate) const FOR_REFILL: u64 = 1;
/// First word of the draw of an auction's end; then the instrument's number and the time scheduled.
pub(crate) const FOR_END: u64 = 2;

/// One step of SplitMix64.
fn split_mix(state: u64) -> u64 {
    let z = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Exchange {
    /// A number from 0 to `sizes - 1`; of no sizes it is 0.
    pub(crate) fn draw(&self, words: [u64; 3], sizes: u64) -> u64 {
        let drawn = words.iter().fold(self.seed, |state, word| split_mix(state ^ word));
        ((u128::from(drawn) * u128::from(sizes)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_step_is_split_mix() {
        // The first numbers of SplitMix64 from 1234567, as its authors' test has them.
        let mut state: u64 = 1_234_567;
        let numbers: Vec<u64> = (0..3)
            .map(|_| {
                let number = split_mix(state);
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                number
            })
            .collect();
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn draws_are_even_and_depend_on_every_word() {
        let mut exchange = Exchange::new();
        let mut counts = [0u32; 7];
        for number in 0..7_000 {
            counts[exchange.draw([FOR_REFILL, 3, number], 7) as usize] += 1;
        }
        assert!(counts.iter().all(|count| (850..1_150).contains(count)), "{counts:?}");
        assert_eq!(exchange.draw([1, 2, 3], 1), 0);
        assert_eq!(exchange.draw([1, 2, 3], 0), 0);
        let base = exchange.draw([1, 2, 3], u64::MAX);
        for words in [[2, 2, 3], [1, 3, 3], [1, 2, 4]] {
            assert_ne!(exchange.draw(words, u64::MAX), base);
        }
        exchange.seed = 1;
        assert_ne!(exchange.draw([1, 2, 3], u64::MAX), base);
    }
}

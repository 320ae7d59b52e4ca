//! Numbers in as few bytes as they need: seven bits a byte, the lowest first, the eighth bit on all but the last. It must not
//! read past what it is given.

/// Appends a number: 1 byte up to 127, 10 at most.
#[inline]
pub(crate) fn push(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Takes a number from the front; `None` where there is none.
#[inline]
pub(crate) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (first, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(first & 0x7f);
        if shift == 63 && bits > 1 {
            return None;
        }
        value |= bits << shift;
        if first & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// A difference, small numbers of either sign first.
#[inline]
pub(crate) fn zigzag(from: u64, to: u64) -> u64 {
    let difference = to.wrapping_sub(from).cast_signed();
    ((difference << 1) ^ (difference >> 63)).cast_unsigned()
}

/// What [`zigzag`] began with.
#[inline]
pub(crate) fn unzigzag(from: u64, coded: u64) -> u64 {
    from.wrapping_add((coded >> 1) ^ (coded & 1).wrapping_neg())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back_and_broken_ones_do_not() {
        let numbers = (0..64).flat_map(|bit| [(1_u64 << bit) - 1, 1 << bit, u64::MAX - (1 << bit)]);
        for number in numbers {
            let mut bytes = Vec::new();
            push(&mut bytes, number);
            assert_eq!(bytes.len(), (64 - (number | 1).leading_zeros() as usize).div_ceil(7));
            for end in 0..bytes.len() {
                assert_eq!(take(&mut &bytes[..end]), None, "{number} cut at {end}");
            }
            bytes.push(9);
            let mut rest = bytes.as_slice();
            assert_eq!((take(&mut rest), rest), (Some(number), &[9_u8][..]));
            for from in [0, 1, number, u64::MAX] {
                assert_eq!(unzigzag(from, zigzag(from, number)), number);
            }
        }
        assert_eq!(take(&mut &[0xff; 11][..]), None);
        assert_eq!([zigzag(5, 5), zigzag(5, 4), zigzag(5, 6)], [0, 1, 2]);
    }
}

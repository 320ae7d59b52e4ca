//! The optional fields behind a frame's fixed body: type u8, length u8, value.

use crate::DecodeError;

/// Type of an optional field behind the fixed body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum TlvType {
    /// Text client order id of the request, 1..=36 bytes.
    ClOrdId = 1,
    /// Text client order id of the order that the request is about, 1..=36 bytes.
    OrigClOrdId = 2,
    /// Stop price, i64.
    StopPrice = 3,
    /// Display quantity, u64.
    DisplayQuantity = 4,
    /// Expiry, u64 Unix ns.
    ExpireTime = 5,
    /// Largest quantity of a refill, u64.
    DisplayHigh = 6,
    /// Distance of a trailing stop, u64.
    TrailDistance = 7,
    /// Minimum quantity, u64.
    MinimumQuantity = 8,
    /// Peg: reference u8, offset i64.
    Peg = 9,
    /// Self-trade prevention: action u8, group u32.
    SelfTrade = 10,
    /// One-cancels-the-other group, u64.
    Oco = 11,
    /// Client order id of the parent, u64.
    Parent = 12,
    /// The order that is replaced has no limit price; no bytes.
    Unpriced = 13,
    /// Why an administrative request is made, 1..=64 bytes of UTF-8.
    Why = 14,
}

impl TlvType {
    const ALL: [Self; 14] = [
        Self::ClOrdId,
        Self::OrigClOrdId,
        Self::StopPrice,
        Self::DisplayQuantity,
        Self::ExpireTime,
        Self::DisplayHigh,
        Self::TrailDistance,
        Self::MinimumQuantity,
        Self::Peg,
        Self::SelfTrade,
        Self::Oco,
        Self::Parent,
        Self::Unpriced,
        Self::Why,
    ];

    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        Self::ALL.get(usize::from(byte).checked_sub(1)?).copied()
    }
}

/// The optional fields of a frame, each at most once, in the bytes that they came in: most frames have none, and a frame
/// with one or two is read again faster than a table of all would be filled.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Options<'a> {
    bytes: &'a [u8],
    /// A bit for each type that is there, by its number.
    present: u32,
}

/// The bits of some types.
const fn bits(tlvs: &[TlvType]) -> u32 {
    let (mut bits, mut at) = (0, 0);
    while at < tlvs.len() {
        bits |= 1 << tlvs[at] as u32;
        at += 1;
    }
    bits
}

const _: () = assert!(TlvType::ALL.len() < u32::BITS as usize);

impl<'a> Options<'a> {
    /// Reads `bytes` as a run of type, length, value.
    #[inline]
    pub(crate) fn read(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        if bytes.is_empty() { Ok(Self::default()) } else { Self::read_some(bytes) }
    }

    fn read_some(bytes: &'a [u8]) -> Result<Self, DecodeError> {
        let (mut present, mut rest) = (0, bytes);
        while let [tlv, length, behind @ ..] = rest {
            let tlv = TlvType::from_byte(*tlv).ok_or(DecodeError::Option)?;
            let (_, behind) = behind.split_at_checked(usize::from(*length)).ok_or(DecodeError::Option)?;
            let bit = bits(&[tlv]);
            if present & bit != 0 {
                return Err(DecodeError::Option);
            }
            present |= bit;
            rest = behind;
        }
        if rest.is_empty() { Ok(Self { bytes, present }) } else { Err(DecodeError::Option) }
    }

    #[inline]
    pub(crate) fn get(&self, tlv: TlvType) -> Option<&'a [u8]> {
        if self.present & bits(&[tlv]) == 0 { None } else { self.find(tlv) }
    }

    fn find(&self, wanted: TlvType) -> Option<&'a [u8]> {
        let mut rest = self.bytes;
        while let [tlv, length, behind @ ..] = rest {
            let (value, behind) = behind.split_at_checked(usize::from(*length))?;
            if *tlv == wanted as u8 {
                return Some(value);
            }
            rest = behind;
        }
        None
    }

    #[inline]
    pub(crate) fn u64(&self, tlv: TlvType) -> Result<Option<u64>, DecodeError> {
        self.get(tlv)
            .map(|value| value.try_into().map(u64::from_le_bytes).map_err(|_| DecodeError::Option))
            .transpose()
    }

    #[inline]
    pub(crate) fn i64(&self, tlv: TlvType) -> Result<Option<i64>, DecodeError> {
        Ok(self.u64(tlv)?.map(|value| value as i64))
    }

    /// Whether any field other than the `allowed` is there.
    #[inline]
    pub(crate) fn has_other_than(&self, allowed: &[TlvType]) -> bool {
        self.present & !bits(allowed) != 0
    }
}

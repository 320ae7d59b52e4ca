//! The bytes of a journal segment. Owns both headers, their checksums and the chain; does no I/O.
//!
//! A segment is a file of whole [`BLOCK_BYTES`] blocks: one block of segment header, then batches, each at the start of
//! a block, then zeros. All integers are little-endian.
//!
//! Segment header, in the first block; the rest of the block is zero:
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | magic `RINGPITJ` |
//! | 8 | 4 | CRC32C of bytes 12..128 |
//! | 12 | 4 | format version, 1 |
//! | 16 | 16 | cluster id |
//! | 32 | 8 | number of the segment, from 1 |
//! | 40 | 8 | sequence of the first frame in it |
//! | 48 | 8 | index of the first batch in it |
//! | 56 | 8 | term of the batch before, 0 if there is none |
//! | 64 | 32 | chain before the first batch |
//! | 96 | 32 | zero |
//!
//! Batch header; the payload follows at once, then zeros up to the next block:
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 4 | magic `RPJB` |
//! | 4 | 4 | CRC32C of bytes 8..length, started from the segment header's CRC |
//! | 8 | 4 | length of header and payload, without the padding |
//! | 12 | 4 | kind: 1 frames, 2 idle mark, 3 segment end, 4 clean stop, 5 blank, 6 membership |
//! | 16 | 8 | term |
//! | 24 | 8 | index: counts entries from 1; a mark has the last one's |
//! | 32 | 8 | sequence of the first frame; of the next one to come if there is none |
//! | 40 | 8 | number of frames; 0 if it is not one of frames |
//! | 48 | 8 | last sequence that was durable when this was written |
//! | 56 | 8 | index of the first entry that was written and synced together with this one; 0: this one |
//! | 64 | 32 | chain: BLAKE3 of the entry before (header and payload) |
//! | 96 | 8 | highest index that the writer knew committed, not above its own; 0: none |
//! | 104 | 24 | zero |
//!
//! An *entry* is a batch of frames, a blank or a membership: what counts in a Raft log, where an index is one more than the
//! library's. Idle, segment end and clean stop are *marks*. A blank has no payload; a membership's is opaque.
//!
//! A batch starts on a block of 4,096 bytes, the physical sector of today's disks, which they rewrite whole even for a
//! smaller write: a cut in the middle can then only damage the batch that is being written, never a durable one before
//! it. The CRC starts from the segment header's CRC, and that covers the random cluster id, so that bytes which a client
//! put into a frame can't pass for a batch when a damaged segment is searched.

use protocol::{Sequence, Term};
use zerocopy::byteorder::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Batches start at multiples of this many bytes.
pub const BLOCK_BYTES: usize = 4096;
/// Version of the format described here.
pub const JOURNAL_FORMAT_VERSION: u32 = 1;
/// Bytes of a batch header; its payload starts behind it, on a cache line.
pub const BATCH_HEADER_BYTES: usize = 128;
/// Longest payload of a batch; longer gathers of frames are cut into several.
pub const BATCH_PAYLOAD_BYTES_MAX: usize = 4 << 20;

const SEGMENT_MAGIC: [u8; 8] = *b"RINGPITJ";
const BATCH_MAGIC: [u8; 4] = *b"RPJB";
const SEGMENT_CRC_START: usize = 12;
const BATCH_CRC_START: usize = 8;

/// BLAKE3 value that commits to every entry so far.
pub(crate) type Chain = [u8; 32];

/// What a batch is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BatchKind {
    /// One or more frames.
    Frames,
    /// Nothing came for a while: everything before is durable.
    Idle,
    /// The log goes on in the next segment.
    SegmentEnd,
    /// The server stopped in good order.
    CleanStop,
    /// An entry without content: a leader begins its term with one.
    Blank,
    /// An entry that says who the members are.
    Membership,
}

/// What an entry of a Raft log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryKind {
    /// One or more frames.
    Frames,
    /// Nothing: a leader begins its term with one.
    Blank,
    /// Who the members are, in bytes that the journal doesn't look into.
    Membership,
}

impl From<EntryKind> for BatchKind {
    fn from(kind: EntryKind) -> Self {
        match kind {
            EntryKind::Frames => Self::Frames,
            EntryKind::Blank => Self::Blank,
            EntryKind::Membership => Self::Membership,
        }
    }
}

impl BatchKind {
    /// The entry that it is; `None` for a mark.
    pub fn entry(self) -> Option<EntryKind> {
        match self {
            Self::Frames => Some(EntryKind::Frames),
            Self::Blank => Some(EntryKind::Blank),
            Self::Membership => Some(EntryKind::Membership),
            Self::Idle | Self::SegmentEnd | Self::CleanStop => None,
        }
    }

    /// Whether it counts in the log; a mark doesn't.
    pub fn is_entry(self) -> bool {
        self.entry().is_some()
    }

    fn code(self) -> u32 {
        match self {
            Self::Frames => 1,
            Self::Idle => 2,
            Self::SegmentEnd => 3,
            Self::CleanStop => 4,
            Self::Blank => 5,
            Self::Membership => 6,
        }
    }

    fn decode(code: u32) -> Option<Self> {
        Some(match code {
            1 => Self::Frames,
            2 => Self::Idle,
            3 => Self::SegmentEnd,
            4 => Self::CleanStop,
            5 => Self::Blank,
            6 => Self::Membership,
            _ => return None,
        })
    }
}

/// Header of a segment, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SegmentHeader {
    pub(crate) cluster_id: u128,
    pub(crate) number: u64,
    pub(crate) first_sequence: Sequence,
    pub(crate) first_index: u64,
    pub(crate) term: Term,
    pub(crate) chain: Chain,
}

/// What the first block of a segment turned out to be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SegmentHeaderRead {
    /// All zero: prepared and not begun.
    Unused,
    /// Valid; the seed is what the batches' CRCs start from.
    Valid(SegmentHeader, u32),
    /// Valid but for the version.
    Version(u32),
    /// Anything else.
    Bad,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSegmentHeader {
    magic: [u8; 8],
    crc: U32,
    version: U32,
    cluster_id: U128,
    number: U64,
    first_sequence: U64,
    first_index: U64,
    term: U64,
    chain: Chain,
    zero: [u8; 32],
}

const _: () = {
    assert!(size_of::<RawSegmentHeader>() == 128);
    assert!(std::mem::offset_of!(RawSegmentHeader, version) == SEGMENT_CRC_START);
    assert!(std::mem::offset_of!(RawSegmentHeader, chain) == 64);
};

impl SegmentHeader {
    /// Writes the header at the start of `block` and gives the seed for the batches' CRCs.
    pub(crate) fn encode(&self, block: &mut [u8; BLOCK_BYTES]) -> u32 {
        block.fill(0);
        let mut raw = RawSegmentHeader {
            magic: SEGMENT_MAGIC,
            crc: U32::ZERO,
            version: U32::new(JOURNAL_FORMAT_VERSION),
            cluster_id: U128::new(self.cluster_id),
            number: U64::new(self.number),
            first_sequence: U64::new(self.first_sequence.0),
            first_index: U64::new(self.first_index),
            term: U64::new(self.term.0),
            chain: self.chain,
            zero: [0; 32],
        };
        let crc = crc32c::crc32c(&raw.as_bytes()[SEGMENT_CRC_START..]);
        raw.crc = U32::new(crc);
        block[..size_of::<RawSegmentHeader>()].copy_from_slice(raw.as_bytes());
        crc
    }

    /// Reads the first block of a segment.
    pub(crate) fn decode(block: &[u8]) -> SegmentHeaderRead {
        let Ok((raw, rest)) = RawSegmentHeader::ref_from_prefix(block) else { return SegmentHeaderRead::Bad };
        if is_zero(block) {
            return SegmentHeaderRead::Unused;
        }
        let crc = crc32c::crc32c(raw.as_bytes().get(SEGMENT_CRC_START..).unwrap_or_default());
        if raw.magic != SEGMENT_MAGIC || crc != raw.crc.get() || !is_zero(rest) {
            return SegmentHeaderRead::Bad;
        }
        if raw.version.get() != JOURNAL_FORMAT_VERSION {
            return SegmentHeaderRead::Version(raw.version.get());
        }
        let header = Self {
            cluster_id: raw.cluster_id.get(),
            number: raw.number.get(),
            first_sequence: Sequence(raw.first_sequence.get()),
            first_index: raw.first_index.get(),
            term: Term(raw.term.get()),
            chain: raw.chain,
        };
        SegmentHeaderRead::Valid(header, crc)
    }
}

/// Header of a batch, decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Which entry or which mark.
    pub kind: BatchKind,
    /// Term of an entry; a mark has that of the last one.
    pub term: Term,
    /// Entries up to and with this one.
    pub index: u64,
    /// Sequence of its first frame; of the next frame to come if it has none.
    pub first_sequence: Sequence,
    /// Number of frames.
    pub count: u64,
    /// Last sequence that was durable when it was written.
    pub durable_sequence: Sequence,
    /// Index of the first entry of the write that this one was part of, often its own.
    pub write_index: u64,
    /// Highest index that was known to be committed when it was written; 0 if none was. Not above its own.
    pub committed_index: u64,
    /// Bytes behind the header.
    pub payload_bytes: usize,
    /// BLAKE3 of the entry before it.
    pub chain: [u8; 32],
}

impl BatchHeader {
    /// Sequence of the last frame up to and with this batch.
    pub fn last_sequence(&self) -> Sequence {
        Sequence(self.first_sequence.0.saturating_add(self.count).saturating_sub(1))
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBatchHeader {
    magic: [u8; 4],
    crc: U32,
    length: U32,
    kind: U32,
    term: U64,
    index: U64,
    first_sequence: U64,
    count: U64,
    durable_sequence: U64,
    write_index: U64,
    chain: Chain,
    committed_index: U64,
    zero: [u8; 24],
}

const _: () = {
    assert!(size_of::<RawBatchHeader>() == BATCH_HEADER_BYTES);
    assert!(std::mem::offset_of!(RawBatchHeader, length) == BATCH_CRC_START);
    assert!(std::mem::offset_of!(RawBatchHeader, first_sequence) == 32);
    assert!(std::mem::offset_of!(RawBatchHeader, write_index) == 56);
    assert!(std::mem::offset_of!(RawBatchHeader, chain) == 64);
    assert!(std::mem::offset_of!(RawBatchHeader, committed_index) == 96);
    assert!(BATCH_HEADER_BYTES.is_multiple_of(64) && BLOCK_BYTES.is_multiple_of(512));
    assert!(BATCH_PAYLOAD_BYTES_MAX + BATCH_HEADER_BYTES <= u32::MAX as usize);
};

/// Completes `batch`, whose payload already stands behind the room for the header, and gives the chain behind it. A
/// mark leaves the chain as it is.
///
/// # Panics
/// If `batch` is shorter than a header and the payload: the caller owns the buffer.
pub(crate) fn encode_batch(batch: &mut [u8], header: &BatchHeader, seed: u32) -> Chain {
    let length = BATCH_HEADER_BYTES + header.payload_bytes;
    let batch = &mut batch[..length];
    let raw = RawBatchHeader {
        magic: BATCH_MAGIC,
        crc: U32::ZERO,
        length: U32::new(length as u32),
        kind: U32::new(header.kind.code()),
        term: U64::new(header.term.0),
        index: U64::new(header.index),
        first_sequence: U64::new(header.first_sequence.0),
        count: U64::new(header.count),
        durable_sequence: U64::new(header.durable_sequence.0),
        write_index: U64::new(if header.write_index == header.index { 0 } else { header.write_index }),
        chain: header.chain,
        committed_index: U64::new(header.committed_index),
        zero: [0; 24],
    };
    batch[..BATCH_HEADER_BYTES].copy_from_slice(raw.as_bytes());
    let crc = crc32c::crc32c_append(seed, &batch[BATCH_CRC_START..]);
    batch[4..BATCH_CRC_START].copy_from_slice(&crc.to_le_bytes());
    chain_after(batch, header)
}

/// The chain behind a batch, `bytes` being all of its header and payload.
pub(crate) fn chain_after(bytes: &[u8], header: &BatchHeader) -> Chain {
    // The header holds the chain before it, so the hash of the batch commits to all that came.
    if header.kind.is_entry() { *blake3::hash(bytes).as_bytes() } else { header.chain }
}

/// Length of header and payload that a batch claims, if it looks like one and `bytes` holds its header.
pub(crate) fn claimed_length(bytes: &[u8]) -> Option<usize> {
    let (raw, _) = RawBatchHeader::ref_from_prefix(bytes).ok()?;
    let length = raw.length.get() as usize;
    let fits = (BATCH_HEADER_BYTES..=BATCH_HEADER_BYTES + BATCH_PAYLOAD_BYTES_MAX).contains(&length);
    (raw.magic == BATCH_MAGIC && fits).then_some(length)
}

/// Checks `bytes`, all of a batch's header and payload, by its own checksum.
///
/// # Errors
/// What is wrong, in words.
pub(crate) fn decode_batch(bytes: &[u8], seed: u32) -> std::result::Result<BatchHeader, &'static str> {
    let (raw, payload) =
        RawBatchHeader::ref_from_prefix(bytes).map_err(|_| "batch shorter than its header")?;
    if raw.magic != BATCH_MAGIC || raw.length.get() as usize != bytes.len() {
        return Err("no batch header");
    }
    if crc32c::crc32c_append(seed, bytes.get(BATCH_CRC_START..).unwrap_or_default()) != raw.crc.get() {
        return Err("batch checksum is wrong");
    }
    let kind = BatchKind::decode(raw.kind.get()).ok_or("batch kind is unknown")?;
    let has_payload = matches!(kind, BatchKind::Frames | BatchKind::Membership);
    if (kind == BatchKind::Frames) != (raw.count.get() > 0) || (!has_payload && !payload.is_empty()) {
        return Err("batch kind and number of frames contradict each other");
    }
    let index = raw.index.get();
    let write_index = if raw.write_index.get() == 0 { index } else { raw.write_index.get() };
    if write_index > index || raw.committed_index.get() > index {
        return Err("batch names an index that comes after it");
    }
    Ok(BatchHeader {
        kind,
        term: Term(raw.term.get()),
        index,
        first_sequence: Sequence(raw.first_sequence.get()),
        count: raw.count.get(),
        durable_sequence: Sequence(raw.durable_sequence.get()),
        write_index,
        committed_index: raw.committed_index.get(),
        payload_bytes: payload.len(),
        chain: raw.chain,
    })
}

/// Bytes that a batch with a payload of `payload_bytes` takes in a segment.
pub(crate) fn batch_bytes(payload_bytes: usize) -> usize {
    whole_blocks(BATCH_HEADER_BYTES + payload_bytes)
}

/// `length` rounded up to whole blocks.
pub(crate) fn whole_blocks(length: usize) -> usize {
    length.next_multiple_of(BLOCK_BYTES)
}

/// Whether all bytes are zero.
pub(crate) fn is_zero(bytes: &[u8]) -> bool {
    let (words, rest) = bytes.as_chunks::<16>();
    words.iter().all(|word| u128::from_ne_bytes(*word) == 0) && rest.iter().all(|byte| *byte == 0)
}

//! The bytes of a snapshot file. Owns the header, the chunks' headers, their checksums and the end mark; does no I/O and
//! does not know what is in a chunk.
//!
//! A snapshot is one header, then chunks, then the end mark, each at a multiple of [`ALIGNMENT`]; the end mark ends the
//! file. All integers are little-endian.
//!
//! Header:
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | magic `RINGPITS` |
//! | 8 | 4 | CRC32C of bytes 12..192 |
//! | 12 | 4 | format version, 2 |
//! | 16 | 16 | cluster id |
//! | 32 | 4 | version of the rules in force |
//! | 36 | 4 | trading day |
//! | 40 | 8 | sequence: the last frame whose effects are in the state; a tick |
//! | 48 | 8 | term of that frame |
//! | 56 | 8 | log time, Unix ns |
//! | 64 | 8 | running hash |
//! | 72 | 8 | full state hash |
//! | 80 | 8 | number of records |
//! | 88 | 8 | number of chunks |
//! | 96 | 8 | length of the file |
//! | 104 | 88 | zero |
//!
//! Chunk; the payload is padded with zeros to the next multiple of 64, and the checksum covers the padding:
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 4 | magic `RPSC` |
//! | 4 | 4 | CRC32C of bytes 8..end of the padding, started from the file's seed |
//! | 8 | 4 | bytes of payload |
//! | 12 | 4 | kind of its records; 0 in the end mark |
//! | 16 | 8 | number of the chunk, from 0; in the end mark the number of chunks |
//! | 24 | 8 | number of records in it; in the end mark of all |
//! | 32 | 32 | zero |
//! | 64 | | payload: an rkyv archive of a list of records of that kind |
//!
//! The file's seed is the CRC32C of cluster id and sequence, so that a chunk of another snapshot is no chunk of this.

use protocol::{Sequence, Term, Timestamp, TradingDay};
use zerocopy::byteorder::little_endian::{U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// Version of the format described here.
pub const SNAPSHOT_FORMAT_VERSION: u32 = 3;
/// Header, chunks and end mark start at multiples of this many bytes, in the file and in the buffer of a reader: a
/// payload then stands on a cache line.
pub(crate) const ALIGNMENT: usize = 64;
/// Bytes of the file's header.
pub(crate) const HEADER_BYTES: usize = size_of::<RawHeader>();
/// Bytes of a chunk's header, and of the end mark.
pub(crate) const CHUNK_HEADER_BYTES: usize = size_of::<RawChunk>();
/// Most bytes of one chunk's payload; a reader allocates no more, whatever a file claims.
pub(crate) const PAYLOAD_BYTES_MAX: usize = 32 << 20;

const MAGIC: [u8; 8] = *b"RINGPITS";
const CHUNK_MAGIC: [u8; 4] = *b"RPSC";
const CRC_START: usize = 12;
const CHUNK_CRC_START: usize = 8;
const END_KIND: u32 = 0;

/// What a snapshot says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    /// The cluster that it belongs to.
    pub cluster_id: u128,
    /// Version of the rules in force after that frame.
    pub rulebook_version: u32,
    /// Trading day.
    pub trading_day: TradingDay,
    /// The last frame whose effects are in the state.
    pub sequence: Sequence,
    /// Term of that frame.
    pub term: Term,
    /// Log time at that frame.
    pub log_time: Timestamp,
    /// Hash over all that the business logic emitted up to that frame.
    pub running_hash: u64,
    /// Hash over all state.
    pub state_hash: u64,
    /// Records in the file.
    pub records: u64,
    /// Chunks in the file.
    pub chunks: u64,
    /// Length of the file in bytes.
    pub file_bytes: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    crc: U32,
    version: U32,
    cluster_id: U128,
    rulebook_version: U32,
    trading_day: U32,
    sequence: U64,
    term: U64,
    log_time: U64,
    running_hash: U64,
    state_hash: U64,
    records: U64,
    chunks: U64,
    file_bytes: U64,
    zero: [u8; 88],
}

const _: () = {
    assert!(size_of::<RawHeader>() == 192);
    assert!(size_of::<RawHeader>().is_multiple_of(ALIGNMENT));
    assert!(std::mem::offset_of!(RawHeader, version) == CRC_START);
    assert!(std::mem::offset_of!(RawHeader, cluster_id) == 16);
    assert!(std::mem::offset_of!(RawHeader, sequence) == 40);
    assert!(std::mem::offset_of!(RawHeader, running_hash) == 64);
    assert!(std::mem::offset_of!(RawHeader, records) == 80);
    assert!(std::mem::offset_of!(RawHeader, zero) == 104);
};

/// Why a header can't be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderError {
    /// It is not whole.
    Bad(&'static str),
    /// It is whole, of this version.
    Version(u32),
}

impl SnapshotHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut raw = RawHeader {
            magic: MAGIC,
            crc: U32::ZERO,
            version: U32::new(SNAPSHOT_FORMAT_VERSION),
            cluster_id: U128::new(self.cluster_id),
            rulebook_version: U32::new(self.rulebook_version),
            trading_day: U32::new(self.trading_day.0),
            sequence: U64::new(self.sequence.0),
            term: U64::new(self.term.0),
            log_time: U64::new(self.log_time.0),
            running_hash: U64::new(self.running_hash),
            state_hash: U64::new(self.state_hash),
            records: U64::new(self.records),
            chunks: U64::new(self.chunks),
            file_bytes: U64::new(self.file_bytes),
            zero: [0; 88],
        };
        raw.crc = U32::new(crc32c::crc32c(&raw.as_bytes()[CRC_START..]));
        zerocopy::transmute!(raw)
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let (raw, _) = RawHeader::ref_from_prefix(bytes)
            .map_err(|_| HeaderError::Bad("the file is shorter than its header"))?;
        if raw.magic != MAGIC {
            return Err(HeaderError::Bad("the header's magic is wrong"));
        }
        if crc32c::crc32c(raw.as_bytes().get(CRC_START..).unwrap_or_default()) != raw.crc.get() {
            return Err(HeaderError::Bad("the header's checksum is wrong"));
        }
        if raw.version.get() != SNAPSHOT_FORMAT_VERSION {
            return Err(HeaderError::Version(raw.version.get()));
        }
        Ok(Self {
            cluster_id: raw.cluster_id.get(),
            rulebook_version: raw.rulebook_version.get(),
            trading_day: TradingDay(raw.trading_day.get()),
            sequence: Sequence(raw.sequence.get()),
            term: Term(raw.term.get()),
            log_time: Timestamp(raw.log_time.get()),
            running_hash: raw.running_hash.get(),
            state_hash: raw.state_hash.get(),
            records: raw.records.get(),
            chunks: raw.chunks.get(),
            file_bytes: raw.file_bytes.get(),
        })
    }
}

/// Where the checksums of a snapshot's chunks start from.
pub(crate) fn seed(cluster_id: u128, sequence: Sequence) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&cluster_id.to_le_bytes()), &sequence.0.to_le_bytes())
}

/// A chunk's or the end mark's own description.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChunkHeader {
    /// Bytes of payload.
    pub(crate) payload_bytes: usize,
    /// Kind of the records; `None` for the end mark.
    pub(crate) kind: Option<u32>,
    /// Which chunk, from 0; in the end mark how many there are.
    pub(crate) number: u64,
    /// Records in the chunk; in the end mark in the file.
    pub(crate) records: u64,
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawChunk {
    magic: [u8; 4],
    crc: U32,
    payload_bytes: U32,
    kind: U32,
    number: U64,
    records: U64,
    zero: [u8; 32],
}

const _: () = {
    assert!(size_of::<RawChunk>() == 64);
    assert!(size_of::<RawChunk>().is_multiple_of(ALIGNMENT));
    assert!(std::mem::offset_of!(RawChunk, payload_bytes) == CHUNK_CRC_START);
    assert!(std::mem::offset_of!(RawChunk, number) == 16);
    assert!(std::mem::offset_of!(RawChunk, zero) == 32);
    assert!(PAYLOAD_BYTES_MAX + CHUNK_HEADER_BYTES < u32::MAX as usize);
};

impl ChunkHeader {
    /// The end mark behind `chunks` chunks with `records` records.
    pub(crate) fn end(chunks: u64, records: u64) -> Self {
        Self { payload_bytes: 0, kind: None, number: chunks, records }
    }

    /// Bytes from the chunk's start to the next one's.
    pub(crate) fn padded_bytes(&self) -> usize {
        CHUNK_HEADER_BYTES + self.payload_bytes.next_multiple_of(ALIGNMENT)
    }

    /// Completes `chunk`, which holds room for the header, the payload and the padding.
    ///
    /// # Panics
    /// If `chunk` has another length: the caller owns the buffer.
    pub(crate) fn seal(&self, chunk: &mut [u8], seed: u32) {
        assert_eq!(chunk.len(), self.padded_bytes(), "a chunk is sealed whole");
        let mut raw = RawChunk {
            magic: CHUNK_MAGIC,
            crc: U32::ZERO,
            payload_bytes: U32::new(self.payload_bytes as u32),
            kind: U32::new(self.kind.unwrap_or(END_KIND)),
            number: U64::new(self.number),
            records: U64::new(self.records),
            zero: [0; 32],
        };
        let (head, payload) = chunk.split_at_mut(CHUNK_HEADER_BYTES);
        let crc = crc32c::crc32c_append(seed, &raw.as_bytes()[CHUNK_CRC_START..]);
        raw.crc = U32::new(crc32c::crc32c_append(crc, payload));
        head.copy_from_slice(raw.as_bytes());
    }

    /// Reads what `bytes` claim, unchecked but for the bounds: enough to read the rest and [`check`](Self::check) it.
    pub(crate) fn claimed(bytes: &[u8]) -> Result<Self, &'static str> {
        let (raw, _) = RawChunk::ref_from_prefix(bytes).map_err(|_| "the file ends before its end mark")?;
        let payload_bytes = raw.payload_bytes.get() as usize;
        if raw.magic != CHUNK_MAGIC {
            return Err("the chunk's magic is wrong");
        }
        if payload_bytes > PAYLOAD_BYTES_MAX {
            return Err("the chunk's length is out of range");
        }
        let kind = raw.kind.get();
        Ok(Self {
            payload_bytes,
            kind: (kind != END_KIND).then_some(kind),
            number: raw.number.get(),
            records: raw.records.get(),
        })
    }

    /// Checks a whole chunk, padding included, against its checksum.
    pub(crate) fn check(chunk: &[u8], seed: u32) -> Result<(), &'static str> {
        let (raw, _) = RawChunk::ref_from_prefix(chunk).map_err(|_| "the file ends before its end mark")?;
        let crc = crc32c::crc32c_append(seed, chunk.get(CHUNK_CRC_START..).unwrap_or_default());
        if crc == raw.crc.get() { Ok(()) } else { Err("the chunk's checksum is wrong") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header() -> SnapshotHeader {
        SnapshotHeader {
            cluster_id: 0x0123_4567_89ab_cdef_0011_2233_4455_6677,
            rulebook_version: 3,
            trading_day: TradingDay(9),
            sequence: Sequence(1 << 40),
            term: Term(7),
            log_time: Timestamp(1_700_000_000_000_000_000),
            running_hash: 11,
            state_hash: 12,
            records: 13,
            chunks: 14,
            file_bytes: 15,
        }
    }

    #[test]
    fn a_header_reads_as_written() {
        assert_eq!(SnapshotHeader::decode(&header().encode()), Ok(header()));
    }

    #[test]
    fn another_version_is_told_from_damage() {
        for version in [SNAPSHOT_FORMAT_VERSION - 1, SNAPSHOT_FORMAT_VERSION + 1] {
            let mut bytes = header().encode();
            bytes[12..16].copy_from_slice(&version.to_le_bytes());
            assert!(matches!(SnapshotHeader::decode(&bytes), Err(HeaderError::Bad(_))));
            let crc = crc32c::crc32c(&bytes[CRC_START..]).to_le_bytes();
            bytes[8..12].copy_from_slice(&crc);
            assert_eq!(SnapshotHeader::decode(&bytes), Err(HeaderError::Version(version)));
        }
    }

    #[test]
    fn a_chunk_reads_as_sealed_and_belongs_to_one_snapshot() {
        let chunk = ChunkHeader { payload_bytes: 5, kind: Some(2), number: 1, records: 3 };
        let mut bytes = vec![0; chunk.padded_bytes()];
        bytes[CHUNK_HEADER_BYTES..CHUNK_HEADER_BYTES + 5].copy_from_slice(b"hello");
        let seed_here = seed(1, Sequence(5));
        chunk.seal(&mut bytes, seed_here);
        assert_eq!(bytes.len(), 128);
        assert_eq!(ChunkHeader::claimed(&bytes), Ok(chunk));
        assert_eq!(ChunkHeader::check(&bytes, seed_here), Ok(()));
        assert!(ChunkHeader::check(&bytes, seed(1, Sequence(6))).is_err());
        assert!(ChunkHeader::check(&bytes, seed(2, Sequence(5))).is_err());
    }
}

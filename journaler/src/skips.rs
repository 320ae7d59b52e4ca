//! The skips that operators ordered: sequences whose command ended the engine and must not be applied. A small file that only
//! grows, each record durable before it counts. This file must not judge whether a command may be skipped: whoever records
//! it does.
//!
//! The file `skips` of the data directory is whole blocks of 512 bytes, a sector of any disk: a header, then records. All
//! integers are little-endian, and what the tables don't name is zero.
//!
//! | offset | bytes | field of the header |
//! |---:|---:|---|
//! | 0 | 8 | magic `RINGPITK` |
//! | 8 | 4 | CRC32C of bytes 12..512 |
//! | 12 | 4 | format version, 1 |
//! | 16 | 16 | cluster id |
//!
//! | offset | bytes | field of a record |
//! |---:|---:|---|
//! | 0 | 4 | CRC32C of bytes 4..512 |
//! | 4 | 4 | kind: 1 a skip, 2 the withdrawal of one |
//! | 8 | 8 | sequence |
//! | 16 | 8 | when it was recorded, in nanoseconds since 1970 |
//! | 24 | 32 | BLAKE3 of the frame, without its padding |
//! | 56 | 32 | BLAKE3 of the block before this one |
//! | 88 | 2 | bytes of who |
//! | 90 | 2 | bytes of why |
//! | 96 | 64 | who, in UTF-8 |
//! | 160 | 352 | why, in UTF-8 |
//!
//! A last block that is cut short, or of which nothing arrived, was never acknowledged and doesn't count; anything else
//! that is wrong is damage. The frame's hash ties a skip to its frame: to another one at the same place it says nothing.

use std::fmt;
use std::io::ErrorKind;

use protocol::{Sequence, Timestamp};
use zerocopy::byteorder::little_endian::{U16, U32, U64, U128};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Context, JournalError, Result};
use crate::format::is_zero;
use crate::frames;
use crate::journal::take_lock;
use crate::storage::{Access, LockGuard, SharedStorage, StorageFile};

/// The file in the data directory.
pub const SKIPS_FILE: &str = "skips";
/// Longest name of who orders a skip, in bytes.
pub const SKIP_WHO_BYTES_MAX: usize = 64;
/// Longest reason of a skip, in bytes.
pub const SKIP_WHY_BYTES_MAX: usize = 352;
/// Most records of a file: a venue that needs more has another problem.
const RECORDS_MAX: usize = 1000;

const MAGIC: [u8; 8] = *b"RINGPITK";
const VERSION: u32 = 1;
const BLOCK: usize = 512;
const HEADER_CRC_START: usize = 12;
const RECORD_CRC_START: usize = 4;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    crc: U32,
    version: U32,
    cluster_id: U128,
    zero: [u8; 480],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawRecord {
    crc: U32,
    kind: U32,
    sequence: U64,
    at: U64,
    frame_hash: [u8; 32],
    before: [u8; 32],
    who_length: U16,
    why_length: U16,
    zero: U32,
    who: [u8; SKIP_WHO_BYTES_MAX],
    why: [u8; SKIP_WHY_BYTES_MAX],
}

const _: () = {
    assert!(size_of::<RawHeader>() == BLOCK && size_of::<RawRecord>() == BLOCK);
    assert!(std::mem::offset_of!(RawHeader, version) == HEADER_CRC_START);
    assert!(std::mem::offset_of!(RawRecord, kind) == RECORD_CRC_START);
    assert!(std::mem::offset_of!(RawRecord, who) == 96 && std::mem::offset_of!(RawRecord, why) == 160);
};

/// BLAKE3 of a frame, without its padding.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FrameHash(pub [u8; 32]);

impl FrameHash {
    /// The hash of a frame, which may have its padding behind it. `None` if it is no frame.
    #[must_use]
    pub fn of(frame: &[u8]) -> Option<Self> {
        let bytes = frame.get(..frames::length(frame)?)?;
        Some(Self(*blake3::hash(bytes).as_bytes()))
    }
}

impl fmt::Display for FrameHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for FrameHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A frame that must not be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skip {
    /// Its sequence.
    pub sequence: Sequence,
    /// Its hash.
    pub frame_hash: FrameHash,
    /// Who ordered it.
    pub who: String,
    /// Why.
    pub why: String,
    /// When.
    pub at: Timestamp,
}

/// The skips in force, as read at a start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Skips {
    /// By sequence, one each.
    all: Vec<Skip>,
}

impl Skips {
    /// Reads the skips of a data directory; there are none where there is no file. `cluster_id` is the cluster that they must
    /// belong to.
    ///
    /// # Errors
    /// `Skips` if the file is damaged, `WrongVersion`, `ForeignCluster`, `Io`.
    pub fn load(storage: &SharedStorage, cluster_id: u128) -> Result<Self> {
        Ok(read(storage, cluster_id)?.skips)
    }

    /// All of them, by sequence.
    pub fn iter(&self) -> impl Iterator<Item = &Skip> {
        self.all.iter()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// The skip of a sequence, whatever its frame is.
    #[inline]
    #[must_use]
    pub fn at(&self, sequence: Sequence) -> Option<&Skip> {
        let place = self.all.binary_search_by_key(&sequence, |skip| skip.sequence).ok()?;
        self.all.get(place)
    }

    /// The skip of a frame, which may have its padding behind it.
    ///
    /// # Errors
    /// `SkipOfAnotherFrame` if one was ordered for this sequence, but for other bytes: then neither applying nor skipping
    /// is what was meant.
    #[inline]
    pub fn of(&self, sequence: Sequence, frame: &[u8]) -> Result<Option<&Skip>> {
        match self.at(sequence) {
            None => Ok(None),
            Some(skip) if FrameHash::of(frame) == Some(skip.frame_hash) => Ok(Some(skip)),
            Some(skip) => {
                let (recorded, found) = (skip.frame_hash, FrameHash::of(frame));
                Err(JournalError::SkipOfAnotherFrame { sequence, recorded, found })
            }
        }
    }

    /// Refuses a skip of a frame behind `last`, the last one that a log which only this process writes has: the frame was
    /// cut away, and another one would come to its place.
    ///
    /// # Errors
    /// `SkipPastEnd`.
    pub fn check_end(&self, last: Sequence) -> Result<()> {
        match self.all.last().filter(|skip| skip.sequence > last) {
            None => Ok(()),
            Some(skip) => Err(JournalError::SkipPastEnd { sequence: skip.sequence, last }),
        }
    }

    fn take(&mut self, skip: Skip, kind: Kind) -> std::result::Result<(), &'static str> {
        match (kind, self.all.binary_search_by_key(&skip.sequence, |other| other.sequence)) {
            (Kind::Skip, Err(place)) => self.all.insert(place, skip),
            (Kind::Withdrawal, Ok(place)) => drop(self.all.remove(place)),
            (Kind::Skip, Ok(_)) => return Err("a sequence is skipped twice"),
            (Kind::Withdrawal, Err(_)) => return Err("a skip is withdrawn that is not in force"),
        }
        Ok(())
    }
}

/// What a record does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
enum Kind {
    Skip = 1,
    Withdrawal = 2,
}

/// The file, open to record. While it is open no server can start on the data directory.
#[derive(Debug)]
pub struct SkipFile {
    storage: SharedStorage,
    cluster_id: u128,
    found: Read,
    // Last: it goes when all is written.
    _lock: LockGuard,
}

impl SkipFile {
    /// Takes the data directory's lock and reads what is in force. A missing file is made with the first record.
    ///
    /// # Errors
    /// `Locked` if a server has the directory, and those of [`Skips::load`].
    pub fn open(storage: SharedStorage, cluster_id: u128) -> Result<Self> {
        let lock = take_lock(&storage)?;
        let found = read(&storage, cluster_id)?;
        Ok(Self { storage, cluster_id, found, _lock: lock })
    }

    /// What is in force.
    #[must_use]
    pub fn skips(&self) -> &Skips {
        &self.found.skips
    }

    /// Makes a skip durable.
    ///
    /// # Errors
    /// `Option` if its texts are empty or too long, if its sequence has a skip already, or if the file is full; `Io`.
    pub fn record(&mut self, skip: Skip) -> Result<()> {
        self.append(skip, Kind::Skip)
    }

    /// Makes the withdrawal of the skip of `withdrawal`'s sequence durable; who, why and when are the withdrawal's own.
    ///
    /// # Errors
    /// As [`record`](Self::record), but `Option` if the sequence has no skip.
    pub fn withdraw(&mut self, withdrawal: Skip) -> Result<()> {
        self.append(withdrawal, Kind::Withdrawal)
    }

    fn append(&mut self, skip: Skip, kind: Kind) -> Result<()> {
        let texts = [(&skip.who, SKIP_WHO_BYTES_MAX, "who"), (&skip.why, SKIP_WHY_BYTES_MAX, "why")];
        for (text, bytes_max, name) in texts {
            if text.trim().is_empty() || text.len() > bytes_max || text.chars().any(char::is_control) {
                let rule = format!("{name}: one line of 1 to {bytes_max} bytes");
                return Err(JournalError::Option(rule));
            }
        }
        if self.found.records >= RECORDS_MAX {
            return Err(JournalError::Option(format!(
                "{SKIPS_FILE} holds {RECORDS_MAX} records, which is all"
            )));
        }
        let block = encode(&skip, kind, self.found.last.unwrap_or_else(|| header(self.cluster_id)));
        let mut after = self.found.skips.clone();
        after.take(skip, kind).map_err(|reason| JournalError::Option(reason.to_owned()))?;
        let file = self.writable()?;
        let offset = (1 + self.found.records) as u64 * BLOCK as u64;
        file.write_all_at(&block, offset).context("write", SKIPS_FILE)?;
        file.sync_data().context("sync", SKIPS_FILE)?;
        self.found = Read { skips: after, records: self.found.records + 1, last: Some(block) };
        Ok(())
    }

    /// The file with a header, both durable.
    fn writable(&self) -> Result<Box<dyn StorageFile>> {
        let opened = match self.storage.open(SKIPS_FILE, Access::ReadWrite) {
            Err(error) if error.kind() == ErrorKind::NotFound => self.storage.create(SKIPS_FILE),
            opened => opened,
        };
        let file = opened.context("open", SKIPS_FILE)?;
        if self.found.last.is_none() {
            file.write_all_at(&header(self.cluster_id), 0).context("write", SKIPS_FILE)?;
            file.sync_data().context("sync", SKIPS_FILE)?;
        }
        // One that was made before may have been killed before this.
        self.storage.sync_dir("").context("sync", "data directory")?;
        Ok(file)
    }
}

/// What a file was found to hold.
#[derive(Debug, Default)]
struct Read {
    skips: Skips,
    records: usize,
    /// The last whole block; `None` if not even the header is there.
    last: Option<[u8; BLOCK]>,
}

fn read(storage: &SharedStorage, cluster_id: u128) -> Result<Read> {
    let file = match storage.open(SKIPS_FILE, Access::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Read::default()),
        opened => opened.context("open", SKIPS_FILE)?,
    };
    let length = file.length().context("measure", SKIPS_FILE)?;
    let bytes_max = (1 + RECORDS_MAX) * BLOCK;
    let damaged = |offset, reason| JournalError::Skips { offset, reason };
    let length = usize::try_from(length).ok().filter(|length| *length < bytes_max + BLOCK);
    let mut bytes = vec![0; length.ok_or_else(|| damaged(bytes_max as u64, "it is too long"))?];
    let read = file.read_at(&mut bytes, 0).context("read", SKIPS_FILE)?;
    bytes.truncate(read);
    let (blocks, _) = bytes.as_chunks::<BLOCK>();
    let Some((head, records)) = blocks.split_first() else { return Ok(Read::default()) };
    if is_zero(&bytes) {
        return Ok(Read::default());
    }
    check_header(head, cluster_id)?;
    let mut found = Read { last: Some(*head), ..Read::default() };
    for (number, block) in records.iter().enumerate() {
        if is_zero(block) && number + 1 == records.len() {
            break;
        }
        let offset = ((1 + number) * BLOCK) as u64;
        let (skip, kind) = decode(block, found.last.as_ref()).map_err(|reason| damaged(offset, reason))?;
        found.skips.take(skip, kind).map_err(|reason| damaged(offset, reason))?;
        found.records += 1;
        found.last = Some(*block);
    }
    Ok(found)
}

fn header(cluster_id: u128) -> [u8; BLOCK] {
    let mut raw = RawHeader {
        magic: MAGIC,
        crc: U32::ZERO,
        version: U32::new(VERSION),
        cluster_id: U128::new(cluster_id),
        zero: [0; 480],
    };
    raw.crc = U32::new(crc32c::crc32c(&raw.as_bytes()[HEADER_CRC_START..]));
    zerocopy::transmute!(raw)
}

fn check_header(block: &[u8; BLOCK], expected: u128) -> Result<()> {
    let raw: &RawHeader = zerocopy::transmute_ref!(block);
    let crc = crc32c::crc32c(block.get(HEADER_CRC_START..).unwrap_or_default());
    if raw.magic != MAGIC || raw.crc.get() != crc {
        return Err(JournalError::Skips { offset: 0, reason: "the header is damaged" });
    }
    let file = SKIPS_FILE.to_owned();
    match (raw.version.get(), raw.cluster_id.get()) {
        (VERSION, found) if found == expected => Ok(()),
        (VERSION, found) => Err(JournalError::ForeignCluster { file, found, expected }),
        (found, _) => Err(JournalError::WrongVersion { file, found, supported: VERSION }),
    }
}

fn encode(skip: &Skip, kind: Kind, before: [u8; BLOCK]) -> [u8; BLOCK] {
    let mut raw = RawRecord {
        crc: U32::ZERO,
        kind: U32::new(kind as u32),
        sequence: U64::new(skip.sequence.0),
        at: U64::new(skip.at.0),
        frame_hash: skip.frame_hash.0,
        before: *blake3::hash(&before).as_bytes(),
        who_length: U16::new(skip.who.len() as u16),
        why_length: U16::new(skip.why.len() as u16),
        zero: U32::ZERO,
        who: [0; SKIP_WHO_BYTES_MAX],
        why: [0; SKIP_WHY_BYTES_MAX],
    };
    raw.who[..skip.who.len()].copy_from_slice(skip.who.as_bytes());
    raw.why[..skip.why.len()].copy_from_slice(skip.why.as_bytes());
    raw.crc = U32::new(crc32c::crc32c(&raw.as_bytes()[RECORD_CRC_START..]));
    zerocopy::transmute!(raw)
}

fn decode(
    block: &[u8; BLOCK],
    before: Option<&[u8; BLOCK]>,
) -> std::result::Result<(Skip, Kind), &'static str> {
    let raw: &RawRecord = zerocopy::transmute_ref!(block);
    if raw.crc.get() != crc32c::crc32c(block.get(RECORD_CRC_START..).unwrap_or_default()) {
        return Err("the record does not match its checksum");
    }
    if before.is_none_or(|before| *blake3::hash(before).as_bytes() != raw.before) {
        return Err("the record does not follow the one before it");
    }
    let kind = match raw.kind.get() {
        1 => Kind::Skip,
        2 => Kind::Withdrawal,
        _ => return Err("a record of an unknown kind"),
    };
    let text = |bytes: &[u8], length: U16| {
        let bytes = bytes.get(..usize::from(length.get()))?;
        std::str::from_utf8(bytes).ok().map(str::to_owned)
    };
    let texts = text(&raw.who, raw.who_length).zip(text(&raw.why, raw.why_length));
    let (who, why) = texts.ok_or("a text that is none")?;
    let (sequence, at) = (Sequence(raw.sequence.get()), Timestamp(raw.at.get()));
    Ok((Skip { sequence, frame_hash: FrameHash(raw.frame_hash), who, why, at }, kind))
}

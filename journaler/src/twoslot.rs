//! Small files that hold a little durably: two slots in blocks of their own, written in turn, so that a torn write leaves
//! the older one.
//!
//! | offset in a slot | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | magic: `RINGPITM` for a sequence, `RINGPIT2` for any bytes |
//! | 8 | 4 | CRC32C of the slot's bytes from 12 on |
//! | 12 | 4 | format version, 1 |
//! | 16 | 8 | turn: the higher of two valid slots holds |
//! | 24 | 8 | `RINGPITM`: sequence, the slot's end |
//! | 24 | 4 | `RINGPIT2`: length of the payload |
//! | 28 | 8,164 | `RINGPIT2`: payload, then zeros |
//!
//! The slots stand at offsets 0 and 4096, of `RINGPIT2` at 0 and 8192. All integers are little-endian. The first content
//! goes to both slots before it counts, so that one that is blank means that nothing was ever kept.

use std::io::ErrorKind;

use protocol::Sequence;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Context, JournalError, Result};
use crate::format::{BLOCK_BYTES, is_zero};
use crate::storage::{Access, SharedStorage, StorageFile};

/// Longest payload of a [`TwoSlotFile`], in bytes.
pub const TWO_SLOT_BYTES_MAX: usize = 8000;

const VERSION: u32 = 1;
const CRC_START: usize = 12;
const HEADER_BYTES: usize = 24;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    crc: U32,
    version: U32,
    turn: U64,
}

/// What a file's slots look like.
#[derive(Debug)]
struct Shape {
    magic: [u8; 8],
    /// Bytes of a slot, header and all.
    bytes: usize,
}

impl Shape {
    /// Where a slot starts: on a block of its own.
    fn offset(&self, slot: u64) -> u64 {
        slot * self.bytes.next_multiple_of(BLOCK_BYTES) as u64
    }
}

const MARK: Shape = Shape { magic: *b"RINGPITM", bytes: HEADER_BYTES + 8 };
const ANY: Shape = Shape { magic: *b"RINGPIT2", bytes: 2 * BLOCK_BYTES };

const _: () = {
    assert!(size_of::<RawHeader>() == HEADER_BYTES);
    assert!(std::mem::offset_of!(RawHeader, version) == CRC_START);
    assert!(HEADER_BYTES + 4 + TWO_SLOT_BYTES_MAX <= ANY.bytes);
};

/// A few bytes in a file, replaced as a whole and durably: what must never be lost or half-written.
#[derive(Debug)]
pub struct TwoSlotFile {
    slots: Slots,
}

impl TwoSlotFile {
    /// Opens the file at `path`, or makes one that holds nothing, and gives what was written last. `folder`, which the path
    /// is in, must exist.
    ///
    /// # Errors
    /// `DamagedMark` if both slots were written and neither is valid; `WrongVersion`; `Io`.
    pub fn open(storage: &SharedStorage, folder: &str, path: &str) -> Result<(Self, Option<Vec<u8>>)> {
        let (slots, body) = Slots::open(storage, folder, path, &ANY)?;
        let payload = match body {
            None => None,
            Some(body) => Some(payload_of(&body).ok_or_else(|| damaged(path))?),
        };
        Ok((Self { slots }, payload))
    }

    /// Makes `payload` durable in the place of what was written before.
    ///
    /// # Errors
    /// `Option` if it is longer than [`TWO_SLOT_BYTES_MAX`], then nothing was written; `Io`, which is fatal.
    pub fn write(&mut self, payload: &[u8]) -> Result<()> {
        let bytes = payload.len();
        if bytes > TWO_SLOT_BYTES_MAX {
            let text = format!("{}: {bytes} bytes are more than {TWO_SLOT_BYTES_MAX}", self.slots.path);
            return Err(JournalError::Option(text));
        }
        let mut body = vec![0; ANY.bytes - HEADER_BYTES];
        body[..4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        body[4..4 + payload.len()].copy_from_slice(payload);
        self.slots.write(&body)
    }
}

fn payload_of(body: &[u8]) -> Option<Vec<u8>> {
    let (length, rest) = body.split_first_chunk::<4>()?;
    Some(rest.get(..u32::from_le_bytes(*length) as usize)?.to_vec())
}

/// A sequence in a file. It only rises.
#[derive(Debug)]
pub(crate) struct MarkFile {
    slots: Slots,
    sequence: Sequence,
}

impl MarkFile {
    /// Opens the mark at `path`, or makes one that holds 0. The folder must exist.
    ///
    /// # Errors
    /// `DamagedMark` if both slots were written and neither is valid; `WrongVersion`; `Io`.
    pub(crate) fn open(storage: &SharedStorage, folder: &str, path: &str) -> Result<Self> {
        let (slots, body) = Slots::open(storage, folder, path, &MARK)?;
        Ok(Self { slots, sequence: sequence_of(body) })
    }

    /// The sequence that a power cut now would leave.
    pub(crate) fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Makes `sequence` durable, unless it isn't above what is.
    pub(crate) fn set(&mut self, sequence: Sequence) -> Result<()> {
        if sequence > self.sequence {
            self.slots.write(&sequence.0.to_le_bytes())?;
            self.sequence = sequence;
        }
        Ok(())
    }
}

/// The sequence in the mark at `path` without opening it for writing; 0 if there is no such file.
pub(crate) fn peek(storage: &SharedStorage, path: &str) -> Result<Sequence> {
    match storage.open(path, Access::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Sequence(0)),
        opened => Ok(sequence_of(read(&*opened.context("open", path)?, path, &MARK)?.map(|(_, body)| body))),
    }
}

fn sequence_of(body: Option<Vec<u8>>) -> Sequence {
    Sequence(body.and_then(|body| body.first_chunk::<8>().copied()).map_or(0, u64::from_le_bytes))
}

/// The file of either kind.
#[derive(Debug)]
struct Slots {
    file: Box<dyn StorageFile>,
    path: String,
    shape: &'static Shape,
    turn: u64,
}

impl Slots {
    fn open(
        storage: &SharedStorage,
        folder: &str,
        path: &str,
        shape: &'static Shape,
    ) -> Result<(Self, Option<Vec<u8>>)> {
        let file = match storage.open(path, Access::ReadWrite) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                storage.create(path).context("create", path)?
            }
            opened => opened.context("open", path)?,
        };
        let (turn, body) = match read(&*file, path, shape)? {
            Some((turn, body)) => (turn, Some(body)),
            None => {
                // New, or left by a process that ended before the name was durable.
                file.allocate_zeroed(shape.offset(2)).context("allocate", path)?;
                file.sync_data().context("sync", path)?;
                storage.sync_dir(folder).context("sync", folder)?;
                (0, None)
            }
        };
        Ok((Self { file, path: path.to_owned(), shape, turn }, body))
    }

    fn write(&mut self, body: &[u8]) -> Result<()> {
        if self.turn == 0 {
            self.write_one(body)?;
        }
        self.write_one(body)
    }

    fn write_one(&mut self, body: &[u8]) -> Result<()> {
        let turn = self.turn + 1;
        let mut raw = RawHeader {
            magic: self.shape.magic,
            crc: U32::ZERO,
            version: U32::new(VERSION),
            turn: U64::new(turn),
        };
        raw.crc = U32::new(crc32c::crc32c_append(crc32c::crc32c(&raw.as_bytes()[CRC_START..]), body));
        let slot = [raw.as_bytes(), body].concat();
        self.file.write_all_at(&slot, self.shape.offset(turn % 2)).context("write", &self.path)?;
        self.file.sync_data().context("sync", &self.path)?;
        self.turn = turn;
        Ok(())
    }
}

/// Turn and body of the newer valid slot; `None` if nothing was ever written to both.
fn read(file: &dyn StorageFile, path: &str, shape: &Shape) -> Result<Option<(u64, Vec<u8>)>> {
    let mut newest: Option<(u64, Vec<u8>)> = None;
    let mut one_is_blank = false;
    for slot in 0..2 {
        let mut bytes = vec![0_u8; shape.bytes];
        file.read_at(&mut bytes, shape.offset(slot)).context("read", path)?;
        one_is_blank |= is_zero(&bytes);
        let Ok((raw, body)) = RawHeader::ref_from_prefix(&bytes) else { continue };
        let crc = crc32c::crc32c(bytes.get(CRC_START..).unwrap_or_default());
        if raw.magic != shape.magic || raw.crc.get() != crc {
            continue;
        }
        if raw.version.get() != VERSION {
            let (file, found) = (path.to_owned(), raw.version.get());
            return Err(JournalError::WrongVersion { file, found, supported: VERSION });
        }
        if newest.as_ref().is_none_or(|(turn, _)| *turn < raw.turn.get()) {
            newest = Some((raw.turn.get(), body.to_vec()));
        }
    }
    match newest {
        None if !one_is_blank => Err(damaged(path)),
        newest => Ok(newest),
    }
}

fn damaged(path: &str) -> JournalError {
    JournalError::DamagedMark { file: path.to_owned() }
}

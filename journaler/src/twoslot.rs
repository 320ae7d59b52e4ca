//! A small file that holds one sequence durably: two slots in sectors of their own, written in turn, so that a torn write
//! leaves the older one.
//!
//! | offset in a slot | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | magic `RINGPITM` |
//! | 8 | 4 | CRC32C of bytes 12..32 |
//! | 12 | 4 | format version, 1 |
//! | 16 | 8 | turn: the higher of two valid slots holds |
//! | 24 | 8 | sequence |
//!
//! The slots stand at offsets 0 and 4096.

use std::io::ErrorKind;

use protocol::Sequence;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Context, JournalError, Result};
use crate::format::{BLOCK_BYTES, is_zero};
use crate::storage::{Access, SharedStorage, StorageFile};

const MAGIC: [u8; 8] = *b"RINGPITM";
const VERSION: u32 = 1;
const CRC_START: usize = 12;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSlot {
    magic: [u8; 8],
    crc: U32,
    version: U32,
    turn: U64,
    sequence: U64,
}

const _: () = {
    assert!(size_of::<RawSlot>() == 32);
    assert!(std::mem::offset_of!(RawSlot, version) == CRC_START);
};

/// A sequence in a file. It only rises.
#[derive(Debug)]
pub(crate) struct MarkFile {
    file: Box<dyn StorageFile>,
    path: String,
    turn: u64,
    sequence: Sequence,
}

impl MarkFile {
    /// Opens the mark at `path`, or makes one that holds 0. The folder must exist.
    ///
    /// # Errors
    /// `DamagedMark` if something is written in it and neither slot is valid; `Io`.
    pub(crate) fn open(storage: &SharedStorage, folder: &str, path: &str) -> Result<Self> {
        let file = match storage.open(path, Access::ReadWrite) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let file = storage.create(path).context("create", path)?;
                file.allocate_zeroed(2 * BLOCK_BYTES as u64).context("allocate", path)?;
                file.sync_data().context("sync", path)?;
                storage.sync_dir(folder).context("sync", folder)?;
                file
            }
            opened => opened.context("open", path)?,
        };
        let (turn, sequence) = read(&*file, path)?;
        Ok(Self { file, path: path.to_owned(), turn, sequence })
    }

    /// The sequence that a power cut now would leave.
    pub(crate) fn sequence(&self) -> Sequence {
        self.sequence
    }

    /// Makes `sequence` durable, unless it isn't above what is.
    pub(crate) fn set(&mut self, sequence: Sequence) -> Result<()> {
        if sequence <= self.sequence {
            return Ok(());
        }
        let turn = self.turn + 1;
        let mut raw = RawSlot {
            magic: MAGIC,
            crc: U32::ZERO,
            version: U32::new(VERSION),
            turn: U64::new(turn),
            sequence: U64::new(sequence.0),
        };
        raw.crc = U32::new(crc32c::crc32c(&raw.as_bytes()[CRC_START..]));
        let offset = turn % 2 * BLOCK_BYTES as u64;
        self.file.write_all_at(raw.as_bytes(), offset).context("write", &self.path)?;
        self.file.sync_data().context("sync", &self.path)?;
        self.turn = turn;
        self.sequence = sequence;
        Ok(())
    }
}

/// The sequence in the mark at `path` without opening it for writing; 0 if there is no such file.
pub(crate) fn peek(storage: &SharedStorage, path: &str) -> Result<Sequence> {
    match storage.open(path, Access::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(Sequence(0)),
        opened => Ok(read(&*opened.context("open", path)?, path)?.1),
    }
}

fn read(file: &dyn StorageFile, path: &str) -> Result<(u64, Sequence)> {
    let mut newest = None;
    let mut blank = true;
    for offset in [0, BLOCK_BYTES as u64] {
        let mut bytes = [0_u8; size_of::<RawSlot>()];
        file.read_at(&mut bytes, offset).context("read", path)?;
        blank &= is_zero(&bytes);
        let Ok(raw) = RawSlot::ref_from_bytes(&bytes) else { continue };
        let crc = crc32c::crc32c(raw.as_bytes().get(CRC_START..).unwrap_or_default());
        let valid = raw.magic == MAGIC && raw.crc.get() == crc && raw.version.get() == VERSION;
        if valid {
            newest = newest.max(Some((raw.turn.get(), Sequence(raw.sequence.get()))));
        }
    }
    match newest {
        Some(newest) => Ok(newest),
        None if blank => Ok((0, Sequence(0))),
        None => Err(JournalError::DamagedMark { file: path.to_owned() }),
    }
}

//! The report log: every session's reports of the current and the previous trading day, each at a place that its number
//! gives.
//!
//! It is derived from the journal, so nothing waits for its disk: the output stage writes, gateways read what is
//! written, and a low-priority thread makes it durable now and then and says up to which sequence. The journal keeps
//! everything behind that mark; after a crash the engine replays it and the same reports are written again to the
//! same places.
//!
//! One file a session and day, `reports/day-D/session-S`, in records of 132 bytes: the header, then report `n` at
//! `n * 132`, its 128 bytes followed by their CRC32C, which starts from session, day and number. So neither a changed
//! byte nor a report in another's place is ever given out.
//!
//! | offset | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | magic `RINGPITR` |
//! | 8 | 4 | CRC32C of bytes 12..32 |
//! | 12 | 4 | format version, 2 |
//! | 16 | 4 | trading day |
//! | 20 | 4 | session |
//! | 24 | 4 | bytes of a record |
//! | 28 | 4 | zero |

mod files;
mod read;
mod sync;
mod write;

use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use protocol::{REPORT_STRIDE, Sequence, SessionId, TradingDay};
use zerocopy::byteorder::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::error::{Context, Result};
use crate::storage::SharedStorage;
use crate::twoslot::{self, MarkFile};
use files::Files;
pub use read::{REPORTS_READ_MAX, ReportReader};
pub use write::ReportWriter;

/// Folder of the report log in the data directory.
pub const REPORTS_FOLDER: &str = "reports";
/// Files kept open, unless configured otherwise: half of the usual limit on open files of a process.
pub const OPEN_FILES_DEFAULT: usize = 512;

/// How often [`ReportLog::sync_early`] is to be called.
pub const EARLY_SYNC_INTERVAL: Duration = Duration::from_millis(50);
/// Bytes of a file that are written before it is synced early: a disk takes them in about the time of a durable write of
/// the journal's, and a sync's own price is small beside them.
const EARLY_SYNC_BYTES: u64 = 512 << 10;

const MARK_PATH: &str = "reports/mark";
const DAY_PREFIX: &str = "day-";
const FILE_PREFIX: &str = "session-";
const MAGIC: [u8; 8] = *b"RINGPITR";
const VERSION: u32 = 2;
const CRC_START: usize = 12;
/// Bytes that a report takes in its file: itself and its checksum. The header takes as many.
pub const REPORT_RECORD_BYTES: usize = REPORT_STRIDE + size_of::<u32>();
const RECORD: u64 = REPORT_RECORD_BYTES as u64;

/// How a report log is kept.
#[derive(Clone, Debug)]
pub struct ReportLogOptions {
    /// Most files that are kept open at a time, at least 1. Any number of sessions works with any bound.
    pub open_files_max: usize,
}

impl Default for ReportLogOptions {
    fn default() -> Self {
        Self { open_files_max: OPEN_FILES_DEFAULT }
    }
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    magic: [u8; 8],
    crc: U32,
    version: U32,
    day: U32,
    session: U32,
    stride: U32,
    zero: U32,
}

const _: () = {
    assert!(size_of::<RawHeader>() == 32 && size_of::<RawHeader>() <= REPORT_RECORD_BYTES);
    assert!(std::mem::offset_of!(RawHeader, version) == CRC_START);
};

fn header(key: Key) -> [u8; REPORT_RECORD_BYTES] {
    let mut raw = RawHeader {
        magic: MAGIC,
        crc: U32::ZERO,
        version: U32::new(VERSION),
        day: U32::new(key.day.0),
        session: U32::new(key.session.0),
        stride: U32::new(REPORT_RECORD_BYTES as u32),
        zero: U32::ZERO,
    };
    raw.crc = U32::new(crc32c::crc32c(&raw.as_bytes()[CRC_START..]));
    let mut block = [0; REPORT_RECORD_BYTES];
    block[..size_of::<RawHeader>()].copy_from_slice(raw.as_bytes());
    block
}

/// The version of a header that is whole; `None` if it is none.
fn version_of(block: &[u8; REPORT_RECORD_BYTES]) -> Option<u32> {
    let (raw, _) = RawHeader::ref_from_prefix(block).ok()?;
    let whole = raw.magic == MAGIC && raw.crc.get() == crc32c::crc32c(raw.as_bytes().get(CRC_START..)?);
    whole.then(|| raw.version.get())
}

/// What a report is stored with: the CRC32C of its session, its day, its number and its bytes.
fn checksum(key: Key, number: u64, report: &[u8; REPORT_STRIDE]) -> [u8; 4] {
    // One run over whole words, since a short run costs more in its ends than in its bytes.
    let mut bytes = [0; 16 + REPORT_STRIDE];
    bytes[..4].copy_from_slice(&key.session.0.to_le_bytes());
    bytes[4..8].copy_from_slice(&key.day.0.to_le_bytes());
    bytes[8..16].copy_from_slice(&number.to_le_bytes());
    bytes[16..].copy_from_slice(report);
    crc32c::crc32c(&bytes).to_le_bytes()
}

/// One report file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct Key {
    day: TradingDay,
    session: SessionId,
}

impl Key {
    fn path(self) -> String {
        format!("{}/{FILE_PREFIX}{}", day_folder(self.day), self.session)
    }
}

fn day_folder(day: TradingDay) -> String {
    format!("{REPORTS_FOLDER}/{DAY_PREFIX}{day}")
}

/// How many reports of one file readers may see.
#[derive(Debug, Default)]
struct Available {
    /// Stored with `Release` after the reports were written, loaded with `Acquire` before they are read.
    count: AtomicU64,
    /// Set by the writer after its write, cleared by the sync before its fsync (both `AcqRel`): a write either finds
    /// the flag set and is covered by the fsync to come, or sets it and is in the next list.
    dirty: AtomicBool,
    /// Bytes written since the last sync, about: it only decides when to begin early. `Relaxed`.
    unsynced: AtomicU64,
}

impl Available {
    fn get(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    fn set(&self, count: u64) {
        self.count.store(count, Ordering::Release);
    }
}

#[derive(Debug)]
struct Shared {
    storage: SharedStorage,
    files: Files,
    mark: Mutex<MarkFile>,
    /// The newest day that was written. Stored by the writer and loaded by the sync; both `Relaxed`: a late view
    /// only removes an old day a little later.
    current_day: AtomicU32,
}

impl Shared {
    /// The sessions that have a file of a day, in the order of their files' names.
    fn sessions_of(&self, day: TradingDay) -> Result<Vec<SessionId>> {
        let folder = day_folder(day);
        let names = match self.storage.list(&folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            listed => listed.context("list", &folder)?,
        };
        let numbers = names.iter().filter_map(|name| name.strip_prefix(FILE_PREFIX)?.parse().ok());
        Ok(numbers.map(SessionId).collect())
    }
}

/// The report log of a data directory. Clones share it.
#[derive(Clone, Debug)]
pub struct ReportLog {
    shared: Arc<Shared>,
}

impl ReportLog {
    /// Opens the report log, making it if there is none. Nothing is visible to readers before it is written or
    /// [restored](ReportWriter::restore). The caller holds the data directory's lock (an open journal does).
    ///
    /// # Errors
    /// `DamagedMark`, `Io`.
    pub fn open(storage: SharedStorage, options: &ReportLogOptions) -> Result<Self> {
        storage.create_dir(REPORTS_FOLDER).context("create", REPORTS_FOLDER)?;
        storage.sync_dir("").context("sync", "data directory")?;
        let mark = MarkFile::open(&storage, REPORTS_FOLDER, MARK_PATH)?;
        let files = Files::new(storage.clone(), options.open_files_max.max(1));
        let shared = Shared { storage, files, mark: Mutex::new(mark), current_day: AtomicU32::new(0) };
        Ok(Self { shared: Arc::new(shared) })
    }

    /// The writer. There must be one only: it alone moves the counts that readers trust.
    pub fn writer(&self) -> ReportWriter {
        ReportWriter::new(Arc::clone(&self.shared))
    }

    /// A reader. Cheap to clone and to share between threads.
    pub fn reader(&self) -> ReportReader {
        ReportReader::new(Arc::clone(&self.shared))
    }

    /// All reports of frames up to this sequence are durable: the journal needs to keep only what comes behind it, and
    /// a start must replay from a snapshot that is not newer. 0 in a fresh log.
    pub fn durable_mark(&self) -> Sequence {
        self.shared.mark.lock().unwrap_or_else(PoisonError::into_inner).sequence()
    }

    /// [`durable_mark`](Self::durable_mark) of a data directory that may be another process's: reads only. 0 where there
    /// is no report log.
    ///
    /// # Errors
    /// `DamagedMark`, `Io`.
    pub fn mark_of(storage: &SharedStorage) -> Result<Sequence> {
        twoslot::peek(storage, MARK_PATH)
    }

    /// Makes durable what was written to files of which much is not, so that no [`sync`](Self::sync) finds a heap of it: the
    /// disk is the journal's, too, and a durable write waits behind all that was handed to the disk before it. No mark moves.
    /// Waits for the disk: to be called every [`EARLY_SYNC_INTERVAL`] by a low-priority thread.
    ///
    /// # Errors
    /// `Io`, fatal as for `sync`.
    pub fn sync_early(&self) -> Result<()> {
        sync::sync_early(&self.shared)
    }

    /// Makes all reports durable that were written before the call, then the mark `sequence`, whose reports and those of
    /// all frames before it must have been written. Also removes days older than the previous one. Waits for the
    /// disk: for a low-priority thread.
    ///
    /// # Errors
    /// `Io`; fatal, since a failed fsync may have lost reports that the mark would vouch for.
    pub fn sync(&self, sequence: Sequence) -> Result<()> {
        sync::sync(&self.shared, sequence)
    }
}

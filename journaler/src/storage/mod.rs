//! The small door between the journaler and a disk: files opened by name in a data directory.
//!
//! Two implementations: [`RealStorage`] (a directory, through rustix) and [`fake::FakeStorage`] (a disk in memory that
//! loses, tears and corrupts on request). Nothing here retries: an error is handed up and ends the process.

pub mod fake;
mod real;

use std::fmt::Debug;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

pub use real::RealStorage;

/// A storage shared by the journal, its reader, the report log and the snapshots.
pub type SharedStorage = Arc<dyn Storage>;

/// What a file is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reading only; a tool without write permission can do it.
    Read,
    /// Reading and writing.
    ReadWrite,
}

/// A data directory. Paths are relative to it and use `/`, e.g. `journal/segment-0000000001`.
///
/// # Errors
/// Every method gives the operating system's error as it is. `NotFound`, `AlreadyExists` and `StorageFull` are
/// branched on by callers; anything else is fatal to a process that writes.
pub trait Storage: Debug + Send + Sync {
    /// Creates a file that must not exist, for reading and writing. Durable after [`Storage::sync_dir`] of its folder.
    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>>;

    /// Opens a file that must exist.
    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn StorageFile>>;

    /// Creates a folder unless it exists, with its parents. Durable after [`Storage::sync_dir`] of the folder above.
    fn create_dir(&self, path: &str) -> io::Result<()>;

    /// Makes the names in a folder durable: creations, renames and removals. `""` is the data directory itself.
    fn sync_dir(&self, path: &str) -> io::Result<()>;

    /// Renames a file, replacing what has the new name, atomically. Durable after [`Storage::sync_dir`].
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes a file's name. Those that have it open can go on reading it.
    fn remove(&self, path: &str) -> io::Result<()>;

    /// Removes an empty folder.
    fn remove_dir(&self, path: &str) -> io::Result<()>;

    /// Names of the files and folders in a folder, sorted.
    fn list(&self, path: &str) -> io::Result<Vec<String>>;

    /// Bytes that this process may still allocate on the file system.
    fn free_space(&self) -> io::Result<u64>;

    /// Takes the exclusive lock file `path`, made if missing. It is held until the guard drops or the process ends.
    fn lock(&self, path: &str) -> io::Result<Lock>;

    /// Where a path is, for messages and for hooks that run other programs.
    fn locate(&self, path: &str) -> PathBuf;
}

/// An open file. Positions are bytes from its start.
///
/// # Errors
/// As [`Storage`]'s: the operating system's, unchanged.
pub trait StorageFile: Debug + Send + Sync {
    /// Writes all of `bytes` at `offset`, growing the file if it ends before. Not durable by itself.
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;

    /// Reads at `offset` until `buffer` is full or the file ends, and gives the bytes read.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize>;

    /// Makes the file's bytes and length durable, but not its name.
    fn sync_data(&self) -> io::Result<()>;

    /// Reserves `length` bytes on the disk and writes zeros over them all, so that later writes allocate nothing. Not
    /// durable by itself.
    fn allocate_zeroed(&self, length: u64) -> io::Result<()>;

    /// Length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Writes all of `bytes` at `offset` and returns when they are durable. `bytes` should start on a page boundary
    /// and both should be whole blocks: an implementation may then go past the page cache.
    fn write_durable(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(bytes, offset)?;
        self.sync_data()
    }
}

/// Outcome of [`Storage::lock`].
#[derive(Debug)]
pub enum Lock {
    /// The lock is ours until the guard drops.
    Held(LockGuard),
    /// Somebody else has it; the process id is what the lock file says, if it says one.
    Taken {
        /// Process that wrote its id into the lock file.
        holder: Option<u32>,
    },
}

/// Holds a lock file; dropping it lets go.
#[derive(Debug)]
pub struct LockGuard {
    _held: Box<dyn Held>,
}

impl LockGuard {
    pub(crate) fn new(held: impl Held + 'static) -> Self {
        Self { _held: Box::new(held) }
    }
}

/// What keeps a lock taken while it lives.
pub(crate) trait Held: Debug + Send {}

//! A disk in memory for tests: it forgets what was not synced, tears writes at sectors, flips bits, and fails by script.
//!
//! What a program sees is the *live* state, as with a page cache. A power cut keeps the durable state and any subset of
//! the changes that no sync had covered: sector writes and file lengths until the file's `sync_data`, names until the
//! folder's `sync_dir`. [`CrashStates`] goes through those subsets after each operation of a recorded run.

mod crash;
mod model;

use std::collections::BTreeSet;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use crash::{CrashState, CrashStates};
use model::{Image, InodeId, Model, Operation};

use super::{Access, Held, Lock, LockGuard, Storage, StorageFile};

/// Bytes that the fake disk writes all or not at all.
pub const SECTOR_BYTES: usize = 512;

/// Kinds of calls that a [`Fault`] can hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// [`Storage::create`]
    Create,
    /// [`Storage::open`]
    Open,
    /// [`StorageFile::write_all_at`]
    Write,
    /// [`StorageFile::read_at`]
    Read,
    /// [`StorageFile::sync_data`]
    SyncData,
    /// [`StorageFile::allocate_zeroed`]
    Allocate,
    /// [`Storage::sync_dir`]
    SyncDir,
    /// [`Storage::rename`]
    Rename,
    /// [`Storage::remove`]
    Remove,
}

/// An error to give at one call.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Which calls.
    pub call: Call,
    /// Only for paths that contain this.
    pub path: String,
    /// How many such calls go well before.
    pub after: u32,
    /// The operating system's error number, e.g. 5 for EIO, 28 for ENOSPC.
    pub errno: i32,
}

/// A disk that breaks its promises, to show that a test would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lie {
    /// `sync_data` says yes and does nothing.
    SyncData,
    /// `sync_dir` says yes and does nothing.
    SyncDir,
}

#[derive(Debug)]
struct Disk {
    live: Image,
    model: Model,
    start: Image,
    log: Option<Vec<Operation>>,
    next_inode: InodeId,
    capacity: u64,
    locked: bool,
    faults: Vec<Fault>,
    lies: Vec<Lie>,
}

/// The fake disk. Clones share it.
#[derive(Clone, Debug)]
pub struct FakeStorage {
    disk: Arc<Mutex<Disk>>,
}

impl Default for FakeStorage {
    fn default() -> Self {
        Self::new()
    }
}

impl FakeStorage {
    /// An empty disk of endless capacity.
    pub fn new() -> Self {
        Self::with_image(Image::default())
    }

    fn with_image(image: Image) -> Self {
        let disk = Disk {
            next_inode: image.next_inode(),
            live: image.clone(),
            model: Model::new(image.clone()),
            start: image,
            log: None,
            capacity: u64::MAX,
            locked: false,
            faults: Vec::new(),
            lies: Vec::new(),
        };
        Self { disk: Arc::new(Mutex::new(disk)) }
    }

    /// The disk as the journal's constructors want it.
    pub fn shared(&self) -> super::SharedStorage {
        Arc::new(self.clone())
    }

    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records operations from here on, for [`CrashStates`].
    pub fn record(&self) {
        let mut disk = self.disk();
        let durable = disk.model.survivors(&mut |_| true);
        disk.start = durable.clone();
        disk.model = Model::new(durable);
        disk.log = Some(Vec::new());
    }

    /// Puts a number into the record, e.g. the sequence that has just been acknowledged.
    pub fn note(&self, number: u64) {
        self.disk().carry_out(Operation::Note(number));
    }

    /// Limits the disk to `bytes` in all files together.
    pub fn set_capacity(&self, bytes: u64) {
        self.disk().capacity = bytes;
    }

    /// Arms a fault.
    pub fn inject(&self, fault: Fault) {
        self.disk().faults.push(fault);
    }

    /// How many armed faults have not struck yet.
    pub fn faults_armed(&self) -> usize {
        self.disk().faults.len()
    }

    /// Makes the disk lie from here on.
    pub fn lie(&self, lie: Lie) {
        self.disk().lies.push(lie);
    }

    /// Turns over one bit of a file, on the disk and in what is seen.
    ///
    /// # Panics
    /// If there is no such byte.
    pub fn flip_bit(&self, path: &str, offset: u64, bit: u8) {
        let mut disk = self.disk();
        assert!(disk.live.flip(path, offset, bit), "{path} has no byte {offset}");
        disk.model.durable.flip(path, offset, bit);
    }

    /// The disk after a power cut now, `keep` choosing which of the unsynced changes survive.
    pub fn power_cut(&self, mut keep: impl FnMut(usize) -> bool) -> Self {
        Self::with_image(self.disk().model.survivors(&mut keep))
    }

    /// A copy of what is seen, all of it durable.
    pub fn copy(&self) -> Self {
        Self::with_image(self.disk().live.clone())
    }
}

impl Disk {
    fn carry_out(&mut self, operation: Operation) {
        let lied = match operation {
            Operation::SyncData { .. } => self.lies.contains(&Lie::SyncData),
            Operation::SyncDir { .. } => self.lies.contains(&Lie::SyncDir),
            _ => false,
        };
        if lied {
            return;
        }
        self.live.see(&operation);
        self.model.carry_out(&operation);
        if let Some(log) = &mut self.log {
            log.push(operation);
        }
    }

    fn fault(&mut self, call: Call, path: &str) -> io::Result<()> {
        let Some(place) =
            self.faults.iter().position(|fault| fault.call == call && path.contains(&fault.path))
        else {
            return Ok(());
        };
        match self.faults[place].after.checked_sub(1) {
            Some(after) => {
                self.faults[place].after = after;
                Ok(())
            }
            None => Err(io::Error::from_raw_os_error(self.faults.remove(place).errno)),
        }
    }

    fn room(&self, growth: u64) -> io::Result<()> {
        if self.live.bytes().saturating_add(growth) > self.capacity {
            return Err(io::Error::from_raw_os_error(28));
        }
        Ok(())
    }

    fn folder_exists(&self, path: &str) -> io::Result<()> {
        if path.is_empty() || self.live.folders.contains(path) {
            Ok(())
        } else {
            Err(ErrorKind::NotFound.into())
        }
    }
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

impl Storage for FakeStorage {
    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        let mut disk = self.disk();
        disk.fault(Call::Create, path)?;
        disk.folder_exists(parent(path))?;
        if disk.live.names.contains_key(path) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        let inode = disk.next_inode;
        disk.next_inode += 1;
        disk.carry_out(Operation::Create { path: path.to_owned(), inode });
        Ok(Box::new(FakeFile { disk: Arc::clone(&self.disk), inode, path: path.to_owned(), writable: true }))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn StorageFile>> {
        let mut disk = self.disk();
        disk.fault(Call::Open, path)?;
        let inode = *disk.live.names.get(path).ok_or(ErrorKind::NotFound)?;
        let writable = access == Access::ReadWrite;
        Ok(Box::new(FakeFile { disk: Arc::clone(&self.disk), inode, path: path.to_owned(), writable }))
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        let mut disk = self.disk();
        for (end, _) in path.match_indices('/').chain([(path.len(), "")]) {
            let folder = &path[..end];
            if !disk.live.folders.contains(folder) {
                disk.carry_out(Operation::MakeFolder { path: folder.to_owned() });
            }
        }
        Ok(())
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.fault(Call::SyncDir, path)?;
        disk.folder_exists(path)?;
        disk.carry_out(Operation::SyncDir { path: path.to_owned() });
        Ok(())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.fault(Call::Rename, from)?;
        let inode = *disk.live.names.get(from).ok_or(ErrorKind::NotFound)?;
        disk.carry_out(Operation::Rename { from: from.to_owned(), to: to.to_owned(), inode });
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.fault(Call::Remove, path)?;
        if !disk.live.names.contains_key(path) {
            return Err(ErrorKind::NotFound.into());
        }
        disk.carry_out(Operation::Remove { path: path.to_owned() });
        Ok(())
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        let mut disk = self.disk();
        disk.folder_exists(path)?;
        let inside = format!("{path}/");
        if disk.live.names.keys().chain(&disk.live.folders).any(|name| name.starts_with(&inside)) {
            return Err(ErrorKind::DirectoryNotEmpty.into());
        }
        disk.carry_out(Operation::RemoveFolder { path: path.to_owned() });
        Ok(())
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let disk = self.disk();
        disk.folder_exists(path)?;
        let names: BTreeSet<String> = disk
            .live
            .names
            .keys()
            .chain(&disk.live.folders)
            .filter(|name| !name.is_empty() && parent(name) == path)
            .map(|name| name.rsplit('/').next().unwrap_or(name).to_owned())
            .collect();
        Ok(names.into_iter().collect())
    }

    fn free_space(&self) -> io::Result<u64> {
        let disk = self.disk();
        Ok(disk.capacity.saturating_sub(disk.live.bytes()))
    }

    fn lock(&self, _path: &str) -> io::Result<Lock> {
        let mut disk = self.disk();
        if disk.locked {
            return Ok(Lock::Taken { holder: Some(std::process::id()) });
        }
        disk.locked = true;
        Ok(Lock::Held(LockGuard::new(FakeLock { disk: Arc::clone(&self.disk) })))
    }

    fn locate(&self, path: &str) -> PathBuf {
        PathBuf::from("fake:").join(path)
    }
}

#[derive(Debug)]
struct FakeLock {
    disk: Arc<Mutex<Disk>>,
}

impl Held for FakeLock {}

impl Drop for FakeLock {
    fn drop(&mut self) {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner).locked = false;
    }
}

#[derive(Debug)]
struct FakeFile {
    disk: Arc<Mutex<Disk>>,
    inode: InodeId,
    path: String,
    writable: bool,
}

impl FakeFile {
    fn disk(&self) -> MutexGuard<'_, Disk> {
        self.disk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(io::Error::from_raw_os_error(9)) }
    }
}

impl StorageFile for FakeFile {
    fn write_all_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut disk = self.disk();
        disk.fault(Call::Write, &self.path)?;
        let length = disk.live.content(self.inode).len() as u64;
        disk.room((offset + bytes.len() as u64).saturating_sub(length))?;
        disk.carry_out(Operation::Write { inode: self.inode, offset, bytes: bytes.into() });
        Ok(())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut disk = self.disk();
        disk.fault(Call::Read, &self.path)?;
        let content = disk.live.content(self.inode);
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(content.len());
        let length = buffer.len().min(content.len() - start);
        buffer[..length].copy_from_slice(&content[start..start + length]);
        Ok(length)
    }

    fn sync_data(&self) -> io::Result<()> {
        let mut disk = self.disk();
        disk.fault(Call::SyncData, &self.path)?;
        disk.carry_out(Operation::SyncData { inode: self.inode });
        Ok(())
    }

    fn allocate_zeroed(&self, length: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut disk = self.disk();
        disk.fault(Call::Allocate, &self.path)?;
        let before = disk.live.content(self.inode).len() as u64;
        disk.room(length.saturating_sub(before))?;
        disk.carry_out(Operation::Allocate { inode: self.inode, length });
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.disk().live.content(self.inode).len() as u64)
    }
}

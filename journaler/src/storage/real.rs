//! A data directory on a real file system. Owns the system calls; decides nothing.

use std::fs;
use std::io::{self, ErrorKind};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{FallocateFlags, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use super::{Access, Held, Lock, LockGuard, Storage, StorageFile};

/// Zeros are written this many bytes at a time when a file is prepared: few enough that a durable write of the journal,
/// which shares the disk, never waits for long behind them.
const ZERO_CHUNK_BYTES: usize = 256 << 10;

const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR).union(Mode::RGRP);

/// A data directory of the operating system.
#[derive(Debug)]
pub struct RealStorage {
    root: PathBuf,
}

impl RealStorage {
    /// Uses `root` as the data directory, making it if it is missing.
    ///
    /// # Errors
    /// The operating system's, when the directory can't be made or its parent not synced.
    pub fn create(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        if !root.is_dir() {
            fs::create_dir_all(&root)?;
            if let Some(parent) = root.parent() {
                sync_directory(if parent.as_os_str().is_empty() { Path::new(".") } else { parent })?;
            }
        }
        Ok(Self { root })
    }

    /// Uses `root` as the data directory.
    ///
    /// # Errors
    /// `NotFound` when it isn't a directory.
    pub fn open(root: impl Into<PathBuf>) -> io::Result<Self> {
        let root = root.into();
        if root.is_dir() {
            Ok(Self { root })
        } else {
            Err(io::Error::new(ErrorKind::NotFound, format!("{} is not a directory", root.display())))
        }
    }

    fn path(&self, path: &str) -> PathBuf {
        if path.is_empty() { self.root.clone() } else { self.root.join(path) }
    }
}

fn sync_directory(path: &Path) -> io::Result<()> {
    let directory =
        rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok(rustix::fs::fsync(&directory)?)
}

impl Storage for RealStorage {
    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(self.path(path), flags, FILE_MODE)?;
        Ok(Box::new(RealFile::new(descriptor)))
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn StorageFile>> {
        let flags = match access {
            Access::Read => OFlags::RDONLY,
            Access::ReadWrite => OFlags::RDWR,
        };
        let descriptor = rustix::fs::open(self.path(path), flags | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Box::new(RealFile::new(descriptor)))
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        fs::create_dir_all(self.path(path))
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        sync_directory(&self.path(path))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.path(from), self.path(to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.path(path))
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        fs::remove_dir(self.path(path))
    }

    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.path(path))? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort_unstable();
        Ok(names)
    }

    fn free_space(&self) -> io::Result<u64> {
        let space = rustix::fs::statvfs(&self.root)?;
        Ok(space.f_bavail.saturating_mul(space.f_frsize))
    }

    fn lock(&self, path: &str) -> io::Result<Lock> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC;
        let file = RealFile::new(rustix::fs::open(self.path(path), flags, FILE_MODE)?);
        match rustix::fs::flock(&file.descriptor, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(Lock::Taken { holder: read_holder(&file)? }),
            Err(error) => return Err(error.into()),
        }
        // Only a reader of an error message uses the id; the lock itself is the kernel's and ends with the process.
        rustix::fs::ftruncate(&file.descriptor, 0)?;
        file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0)?;
        Ok(Lock::Held(LockGuard::new(HeldLock(file))))
    }

    fn locate(&self, path: &str) -> PathBuf {
        self.path(path)
    }
}

fn read_holder(file: &RealFile) -> io::Result<Option<u32>> {
    let mut text = [0_u8; 16];
    let length = file.read_at(&mut text, 0)?;
    let text = text.get(..length).unwrap_or_default();
    Ok(std::str::from_utf8(text).ok().and_then(|text| text.trim().parse().ok()))
}

/// What a write past the page cache must be aligned to, in memory, in the file and in length.
const DIRECT_ALIGNMENT: usize = 4096;

/// A zeroed piece of a file, on whole blocks, so that it may be written past the page cache.
#[repr(align(4096))]
struct Zeros([u8; ZERO_CHUNK_BYTES]);

const _: () = assert!(align_of::<Zeros>() == DIRECT_ALIGNMENT);

static ZEROS: Zeros = Zeros([0; ZERO_CHUNK_BYTES]);

#[derive(Debug)]
struct RealFile {
    descriptor: OwnedFd,
    /// The same file with `O_DIRECT | O_DSYNC`, opened by the first durable write; `None` where that can't be done.
    direct: OnceLock<Option<OwnedFd>>,
}

impl RealFile {
    fn new(descriptor: OwnedFd) -> Self {
        Self { descriptor, direct: OnceLock::new() }
    }

    /// The same file opened again with other flags; `None` where that can't be done.
    fn reopen(&self, flags: OFlags) -> Option<OwnedFd> {
        let path = format!("/proc/self/fd/{}", self.descriptor.as_raw_fd());
        rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC | flags, Mode::empty()).ok()
    }

    /// Writes past the page cache, durably; `false` if that can't be done here and nothing was written.
    fn write_direct(&self, bytes: &[u8], offset: u64) -> io::Result<bool> {
        let aligned = bytes.as_ptr().align_offset(DIRECT_ALIGNMENT) == 0
            && bytes.len().is_multiple_of(DIRECT_ALIGNMENT)
            && offset.is_multiple_of(DIRECT_ALIGNMENT as u64);
        if !aligned {
            return Ok(false);
        }
        let Some(direct) = self.direct.get_or_init(|| self.reopen(OFlags::DIRECT | OFlags::DSYNC)) else {
            return Ok(false);
        };
        match rustix::io::pwrite(direct, bytes, offset) {
            Ok(written) if written == bytes.len() => Ok(true),
            // Not possible on this file system, or cut short: the other way writes it all.
            Ok(_) | Err(Errno::INVAL | Errno::INTR) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// A lock file that is locked.
#[derive(Debug)]
struct HeldLock(RealFile);

impl Held for HeldLock {}

impl Drop for HeldLock {
    /// Closing would do, but for a child that another thread is just starting: it has a copy of the descriptor until it has
    /// become its program.
    fn drop(&mut self) {
        let unlocked = rustix::fs::flock(&self.0.descriptor, FlockOperation::Unlock);
        debug_assert!(unlocked.is_ok(), "a lock that is held can be let go");
    }
}

impl StorageFile for RealFile {
    fn write_all_at(&self, mut bytes: &[u8], mut offset: u64) -> io::Result<()> {
        while !bytes.is_empty() {
            match rustix::io::pwrite(&self.descriptor, bytes, offset) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(written) => {
                    bytes = bytes.get(written..).unwrap_or_default();
                    offset += written as u64;
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut filled = 0;
        while let Some(rest) = buffer.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            match rustix::io::pread(&self.descriptor, rest, offset + filled as u64) {
                Ok(0) => break,
                Ok(read) => filled += read,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(filled)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(rustix::fs::fdatasync(&self.descriptor)?)
    }

    fn write_durable(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        if self.write_direct(bytes, offset)? {
            return Ok(());
        }
        self.write_all_at(bytes, offset)?;
        self.sync_data()
    }

    fn allocate_zeroed(&self, length: u64) -> io::Result<()> {
        match rustix::fs::fallocate(&self.descriptor, FallocateFlags::empty(), 0, length) {
            Ok(()) | Err(Errno::OPNOTSUPP | Errno::NOSYS) => {}
            Err(error) => return Err(error.into()),
        }
        // Allocated extents are still marked unwritten: the first write into one changes metadata, which makes each
        // fdatasync a journal commit of the file system. Real zeros take that off the append path. They go past the page
        // cache where that can be had: no copy is made, and a sync finds no heap of them, behind which another file's
        // durable write would have to wait.
        let mut direct = self.reopen(OFlags::DIRECT);
        let mut offset = 0;
        while offset < length {
            let chunk = &ZEROS.0[..(length - offset).min(ZERO_CHUNK_BYTES as u64) as usize];
            let written = direct.as_ref().map(|file| rustix::io::pwrite(file, chunk, offset));
            match written {
                Some(Ok(bytes)) if bytes == chunk.len() => {}
                Some(Err(error)) if error != Errno::INVAL && error != Errno::INTR => return Err(error.into()),
                // Not possible on this file system, or cut short: the other way writes it all.
                _ => {
                    direct = None;
                    self.write_all_at(chunk, offset)?;
                }
            }
            offset += chunk.len() as u64;
        }
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(u64::try_from(rustix::fs::fstat(&self.descriptor)?.st_size).unwrap_or(0))
    }
}

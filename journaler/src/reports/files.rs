//! The open report files, bounded, and how many reports of each may be seen.

use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use protocol::TradingDay;

use super::{Available, Key, REPORT_RECORD_BYTES, VERSION, day_folder, header, version_of};
use crate::error::{Context, JournalError, Result};
use crate::storage::{Access, SharedStorage, StorageFile};

/// Files by key, with the least recently used closed first. Lookups are by hash, the order of closing by a counter.
#[derive(Debug, Default)]
struct Open {
    files: HashMap<Key, (Arc<dyn StorageFile>, u64)>,
    by_use: BTreeMap<u64, Key>,
    uses: u64,
    /// Files with reports that were not synced.
    dirty: Vec<Key>,
    /// Those among them that are to be synced early.
    early: Vec<Key>,
    /// Days in whose folder names were made that were not synced.
    new_names: Vec<TradingDay>,
}

#[derive(Debug)]
pub(super) struct Files {
    storage: SharedStorage,
    open_max: usize,
    open: Mutex<Open>,
    available: RwLock<HashMap<Key, Arc<Available>>>,
}

/// What a sync has to do.
#[derive(Debug)]
pub(super) struct Unsynced {
    pub(super) files: Vec<Key>,
    pub(super) folders: Vec<TradingDay>,
}

impl Files {
    pub(super) fn new(storage: SharedStorage, open_max: usize) -> Self {
        Self { storage, open_max, open: Mutex::default(), available: RwLock::default() }
    }

    fn open(&self) -> MutexGuard<'_, Open> {
        // Between two statements the maps agree, and a panic ends the process anyway.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The count of a file, if anything was ever written to it since the start.
    pub(super) fn available(&self, key: Key) -> Option<Arc<Available>> {
        self.available.read().unwrap_or_else(PoisonError::into_inner).get(&key).map(Arc::clone)
    }

    /// The count of a file, made if it is new.
    pub(super) fn available_or_new(&self, key: Key) -> Arc<Available> {
        let mut available = self.available.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(available.entry(key).or_default())
    }

    /// A file for reading.
    pub(super) fn existing(&self, key: Key) -> Result<Arc<dyn StorageFile>> {
        if let Some(file) = self.open().touch(key) {
            return Ok(file);
        }
        let path = key.path();
        let file: Arc<dyn StorageFile> =
            Arc::from(self.storage.open(&path, Access::ReadWrite).context("open", &path)?);
        find_header(&*file, key)?;
        self.open().keep(key, &file, self.open_max);
        Ok(file)
    }

    /// A file for writing, made with its header if it is new.
    pub(super) fn writable(&self, key: Key) -> Result<Arc<dyn StorageFile>> {
        if let Some(file) = self.open().touch(key) {
            return Ok(file);
        }
        let path = key.path();
        let file = match self.storage.open(&path, Access::ReadWrite) {
            Ok(file) => {
                check_header(&*file, key)?;
                // A process that was killed may have made it and not synced the name.
                self.push_new_name(key.day);
                file
            }
            Err(error) if error.kind() == ErrorKind::NotFound => self.create(key)?,
            Err(error) => return Err(error).context("open", &path),
        };
        let file: Arc<dyn StorageFile> = Arc::from(file);
        self.open().keep(key, &file, self.open_max);
        Ok(file)
    }

    fn create(&self, key: Key) -> Result<Box<dyn StorageFile>> {
        let (folder, path) = (day_folder(key.day), key.path());
        self.storage.create_dir(&folder).context("create", &folder)?;
        let file = self.storage.create(&path).context("create", &path)?;
        file.write_all_at(&header(key), 0).context("write", &path)?;
        self.push_new_name(key.day);
        Ok(file)
    }

    /// Puts a day on the list of those whose folder is to be synced.
    fn push_new_name(&self, day: TradingDay) {
        let mut open = self.open();
        if !open.new_names.contains(&day) {
            open.new_names.push(day);
        }
    }

    /// Puts a file on the list of those to be synced.
    pub(super) fn push_dirty(&self, key: Key) {
        self.open().dirty.push(key);
    }

    /// Puts a file on the list of those to be synced early.
    pub(super) fn push_early(&self, key: Key) {
        self.open().early.push(key);
    }

    /// Takes what is to be synced early.
    pub(super) fn take_early(&self) -> Vec<Key> {
        std::mem::take(&mut self.open().early)
    }

    /// Takes what has to be synced.
    pub(super) fn take_unsynced(&self) -> Unsynced {
        let mut open = self.open();
        Unsynced { files: std::mem::take(&mut open.dirty), folders: std::mem::take(&mut open.new_names) }
    }

    /// Forgets all files of days before `day`.
    pub(super) fn forget_before(&self, day: TradingDay) {
        let mut open = self.open();
        open.files.retain(|key, _| key.day >= day);
        open.by_use.retain(|_, key| key.day >= day);
        open.dirty.retain(|key| key.day >= day);
        open.early.retain(|key| key.day >= day);
        open.new_names.retain(|new| *new >= day);
        drop(open);
        self.available.write().unwrap_or_else(PoisonError::into_inner).retain(|key, _| key.day >= day);
    }
}

impl Open {
    fn touch(&mut self, key: Key) -> Option<Arc<dyn StorageFile>> {
        let (file, used) = self.files.get_mut(&key)?;
        self.uses += 1;
        self.by_use.remove(used);
        *used = self.uses;
        self.by_use.insert(self.uses, key);
        Some(Arc::clone(file))
    }

    fn keep(&mut self, key: Key, file: &Arc<dyn StorageFile>, open_max: usize) {
        while self.files.len() >= open_max {
            let Some((_, oldest)) = self.by_use.pop_first() else { break };
            self.files.remove(&oldest);
        }
        self.uses += 1;
        if let Some((_, used)) = self.files.insert(key, (Arc::clone(file), self.uses)) {
            self.by_use.remove(&used);
        }
        self.by_use.insert(self.uses, key);
    }
}

/// Checks the header of a file that was there. One that a crash left without its header gets it.
fn check_header(file: &dyn StorageFile, key: Key) -> Result<()> {
    if find_header(file, key)? {
        return Ok(());
    }
    // The name became durable before the bytes. The reports in it were never vouched for and come again.
    file.write_all_at(&header(key), 0).context("write", &key.path())
}

/// Whether the file has its header. False: only zeros stand there.
fn find_header(file: &dyn StorageFile, key: Key) -> Result<bool> {
    let path = key.path();
    let mut found = [0; REPORT_RECORD_BYTES];
    file.read_at(&mut found, 0).context("read", &path)?;
    if found == header(key) {
        return Ok(true);
    }
    if found.iter().all(|byte| *byte == 0) {
        return Ok(false);
    }
    match version_of(&found).filter(|found| *found != VERSION) {
        Some(found) => Err(JournalError::WrongVersion { file: path, found, supported: VERSION }),
        None => {
            Err(JournalError::Report { file: path, offset: 0, reason: "no header of this session and day" })
        }
    }
}

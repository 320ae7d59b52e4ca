//! Making the next segment ready before it is needed, and syncing closed ones at the level `memory`.

use std::io::ErrorKind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

use protocol::planted::{Bug, is_on};

use crate::error::{Context, JournalError, Result};
use crate::journal::options::Preparation;
use crate::storage::{Access, SharedStorage, StorageFile};
use crate::survey::{JOURNAL_FOLDER, segment_path, temporary_path};

/// Jobs that may wait for the thread: one preparation and the sync of a closed segment for each one begun.
const JOBS_MAX: usize = 8;

/// A segment of zeros under its final name, durable.
#[derive(Debug)]
pub(crate) struct Prepared {
    pub(crate) file: Arc<dyn StorageFile>,
    pub(crate) path: String,
    pub(crate) number: u64,
    pub(crate) length: u64,
}

enum Job {
    Prepare(u64),
    Sync(Arc<dyn StorageFile>, String),
}

enum Done {
    Prepared(Result<Prepared>),
    Synced(Result<()>),
}

/// Keeps one segment ready.
#[derive(Debug)]
pub(crate) struct Preparer {
    storage: SharedStorage,
    segment_bytes: u64,
    ready: Vec<Prepared>,
    /// The number that is being prepared.
    pending: Option<u64>,
    /// The number whose preparation failed for want of space.
    starved: Option<u64>,
    syncs_pending: usize,
    thread: Option<Thread>,
}

#[derive(Debug)]
struct Thread {
    jobs: Option<SyncSender<Job>>,
    done: Receiver<Done>,
    handle: Option<JoinHandle<()>>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.jobs = None;
        if let Some(handle) = self.handle.take()
            && handle.join().is_err()
        {
            tracing::error!("the thread that prepares segments had panicked");
        }
    }
}

impl Preparer {
    /// `ready` are segments found prepared, in the order of their numbers.
    pub(crate) fn new(
        storage: SharedStorage,
        segment_bytes: u64,
        preparation: Preparation,
        ready: Vec<Prepared>,
    ) -> Result<Self> {
        let thread = match preparation {
            Preparation::Inline => None,
            Preparation::Thread => Some(spawn(Arc::clone(&storage), segment_bytes)?),
        };
        Ok(Self { storage, segment_bytes, ready, pending: None, starved: None, syncs_pending: 0, thread })
    }

    /// Whether a segment is ready or being made ready.
    pub(crate) fn covered(&self) -> bool {
        !self.ready.is_empty() || self.pending.is_some()
    }

    /// Whether the last preparation found no space.
    pub(crate) fn is_starved(&self) -> bool {
        self.starved.is_some()
    }

    /// Sees to it that segment `number` will be ready; too little space is no error yet.
    pub(crate) fn request(&mut self, number: u64) -> Result<()> {
        if self.covered() {
            return Ok(());
        }
        self.starved = None;
        match &self.thread {
            Some(thread) => {
                thread.send(Job::Prepare(number))?;
                self.pending = Some(number);
                Ok(())
            }
            None => {
                let prepared = prepare(&self.storage, number, self.segment_bytes, None);
                self.settle(number, prepared)
            }
        }
    }

    fn settle(&mut self, number: u64, prepared: Result<Prepared>) -> Result<()> {
        match prepared {
            Ok(prepared) => self.ready.push(prepared),
            Err(JournalError::NoSpace { file, source }) => {
                tracing::warn!(file, %source, "no space to prepare the next segment");
                self.starved = Some(number);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Takes segment `number`, waiting for it if it is being prepared and preparing it here if it isn't.
    pub(crate) fn take(&mut self, number: u64) -> Result<Prepared> {
        while self.ready.is_empty() && self.pending.is_some() {
            self.receive(true)?;
        }
        let prepared = if self.ready.is_empty() {
            prepare(&self.storage, number, self.segment_bytes, None)?
        } else {
            self.ready.remove(0)
        };
        assert_eq!(prepared.number, number, "segments are begun in the order of their numbers");
        self.starved = None;
        Ok(prepared)
    }

    /// Removes what is prepared, the last one first: the number is needed for another one.
    pub(crate) fn discard(&mut self) -> Result<()> {
        while self.pending.is_some() {
            self.receive(true)?;
        }
        while let Some(prepared) = self.ready.pop() {
            remove(&self.storage, &prepared.path)?;
        }
        self.starved = None;
        Ok(())
    }

    /// Makes a closed segment durable, without waiting for it.
    pub(crate) fn sync(&mut self, file: Arc<dyn StorageFile>, path: &str) -> Result<()> {
        match &self.thread {
            Some(thread) => {
                thread.send(Job::Sync(file, path.to_owned()))?;
                self.syncs_pending += 1;
                Ok(())
            }
            None => file.sync_data().context("sync", path),
        }
    }

    /// Takes what the thread has finished.
    pub(crate) fn poll(&mut self) -> Result<()> {
        while self.pending.is_some() || self.syncs_pending > 0 {
            if !self.receive(false)? {
                break;
            }
        }
        Ok(())
    }

    /// Waits until every closed segment is durable.
    pub(crate) fn wait_for_syncs(&mut self) -> Result<()> {
        while self.syncs_pending > 0 {
            self.receive(true)?;
        }
        Ok(())
    }

    fn receive(&mut self, wait: bool) -> Result<bool> {
        let Some(thread) = &self.thread else { return Ok(false) };
        let done = if wait {
            thread.done.recv().map_err(|_| thread_ended())?
        } else {
            match thread.done.try_recv() {
                Ok(done) => done,
                Err(std::sync::mpsc::TryRecvError::Empty) => return Ok(false),
                Err(std::sync::mpsc::TryRecvError::Disconnected) => return Err(thread_ended()),
            }
        };
        match done {
            Done::Prepared(prepared) => {
                let number = self.pending.take().unwrap_or_default();
                self.settle(number, prepared)?;
            }
            Done::Synced(synced) => {
                self.syncs_pending -= 1;
                synced?;
            }
        }
        Ok(true)
    }
}

impl Thread {
    fn send(&self, job: Job) -> Result<()> {
        let jobs = self.jobs.as_ref().ok_or_else(thread_ended)?;
        jobs.send(job).map_err(|_| thread_ended())
    }
}

fn thread_ended() -> JournalError {
    let source = std::io::Error::new(ErrorKind::BrokenPipe, "the thread that prepares segments has ended");
    JournalError::Io { operation: "prepare", file: JOURNAL_FOLDER.to_owned(), source }
}

fn spawn(storage: SharedStorage, segment_bytes: u64) -> Result<Thread> {
    let (jobs, todo) = sync_channel::<Job>(JOBS_MAX);
    let (finished, done) = sync_channel(JOBS_MAX);
    let work = move || {
        while let Ok(job) = todo.recv() {
            let done = match job {
                Job::Prepare(number) => Done::Prepared(prepare(&storage, number, segment_bytes, None)),
                Job::Sync(file, path) => Done::Synced(file.sync_data().context("sync", &path)),
            };
            if finished.send(done).is_err() {
                break;
            }
        }
    };
    let handle = std::thread::Builder::new()
        .name("segments".to_owned())
        .spawn(work)
        .context("start a thread for", JOURNAL_FOLDER)?;
    Ok(Thread { jobs: Some(jobs), done, handle: Some(handle) })
}

/// Makes segment `number`: zeros under a temporary name, behind `header` if there is one, durable; then the final name,
/// durable.
pub(crate) fn prepare(
    storage: &SharedStorage,
    number: u64,
    length: u64,
    header: Option<&[u8]>,
) -> Result<Prepared> {
    let (path, temporary) = (segment_path(number), temporary_path(number));
    let file = storage.create(&temporary).context("create", &temporary);
    let made = file.and_then(|file| {
        file.allocate_zeroed(length).context("allocate", &temporary)?;
        if let Some(header) = header {
            file.write_all_at(header, 0).context("write", &temporary)?;
        }
        file.sync_data().context("sync", &temporary)?;
        storage.rename(&temporary, &path).context("rename", &temporary)?;
        if !is_on(Bug::LostDirectoryFsync) {
            storage.sync_dir(JOURNAL_FOLDER).context("sync", JOURNAL_FOLDER)?;
        }
        Ok(file)
    });
    match made {
        Ok(file) => Ok(Prepared { file: Arc::from(file), path, number, length }),
        Err(JournalError::Io { source, .. }) if source.kind() == ErrorKind::StorageFull => {
            // The half-made file takes the space that the rest of the server needs now.
            match storage.remove(&temporary) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error).context("remove", &temporary),
            }
            Err(JournalError::NoSpace { file: path, source })
        }
        Err(error) => Err(error),
    }
}

/// Removes a segment durably.
pub(crate) fn remove(storage: &SharedStorage, path: &str) -> Result<()> {
    storage.remove(path).context("remove", path)?;
    storage.sync_dir(JOURNAL_FOLDER).context("sync", JOURNAL_FOLDER)
}

/// Opens a segment that was found prepared.
pub(crate) fn reopen(storage: &SharedStorage, number: u64, length: u64) -> Result<Prepared> {
    let path = segment_path(number);
    let file = storage.open(&path, Access::ReadWrite).context("open", &path)?;
    Ok(Prepared { file: Arc::from(file), path, number, length })
}

//! The one writer of a member's journal and of its own file: takes jobs in order and makes them durable in that order. It
//! must not know the library's rules; it is told what to write and whom to tell.

use std::collections::VecDeque;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use journaler::{EntryKind, Journal, JournalError, NewEntry, SpaceState};
use openraft::storage::IOFlushed;
use protocol::{Sequence, Term};
use tokio::sync::{oneshot, watch};

use super::record::{Record, RecordError, RecordFile};
use super::types::{Entry, Types, encode_membership, term_of};
use openraft::EntryPayload;

/// How long the thread waits for a job before it looks after the journal.
const LOOK_AFTER_EVERY: Duration = Duration::from_millis(50);
/// How often the file system is asked for free space.
const SPACE_INTERVAL: Duration = Duration::from_millis(250);
/// Most bytes of entries of one group.
const GROUP_BYTES_MAX: usize = 16 << 20;

/// What is measured and told while writing.
pub trait JournalMonitor: Send {
    /// A group of so many frames took so long to become durable.
    fn appended(&mut self, frames: u64, took: Duration);
    /// Whether the disk's reserve is being used.
    fn space_low(&mut self, low: bool);
    /// Everything up to here would survive a power cut.
    fn durable(&mut self, sequence: Sequence);
}

/// Changes the member's own file.
pub(crate) type RecordChange = Box<dyn FnOnce(&mut Record) + Send>;

/// One thing to write.
pub(crate) enum Job {
    /// Entries behind the last, with their bytes; then tell the library.
    Append { entries: Vec<Pending>, flushed: IOFlushed<Types> },
    /// No entry above this journal index stays.
    Truncate { index: u64, done: oneshot::Sender<()> },
    /// The member's own file.
    Record { change: RecordChange, done: Option<oneshot::Sender<()>> },
    /// What is committed, as a journal index.
    Committed(u64),
    /// Segments that hold nothing above this sequence may go.
    Prune(Sequence),
    /// Stop in good order.
    Close { done: oneshot::Sender<()> },
}

/// An entry on its way to the journal.
#[derive(Clone, Debug)]
pub(crate) struct Pending {
    pub(crate) term: Term,
    /// The library's index.
    pub(crate) index: u64,
    pub(crate) kind: EntryKind,
    pub(crate) frames: u64,
    pub(crate) payload: Bytes,
}

impl Pending {
    pub(crate) fn of(entry: &Entry) -> Self {
        let (kind, frames, payload) = match &entry.payload {
            EntryPayload::Blank => (EntryKind::Blank, 0, Bytes::new()),
            EntryPayload::Normal(frames) => (EntryKind::Frames, frames.count, frames.bytes.clone()),
            EntryPayload::Membership(membership) => {
                (EntryKind::Membership, 0, encode_membership(membership).into())
            }
        };
        Self { term: Term(term_of(&entry.log_id)), index: entry.log_id.index, kind, frames, payload }
    }
}

/// Why writing ended.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The journal.
    #[error("journal: {0}")]
    Journal(#[from] JournalError),
    /// The member's own file.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// The writer. After an error the process must end.
pub(crate) struct Writer {
    /// `None` once it is closed.
    journal: Option<Journal>,
    record: RecordFile,
    monitor: Box<dyn JournalMonitor>,
    /// The library's index of the next entry that is not written.
    written: watch::Sender<u64>,
    started: Instant,
    space_asked: Option<Duration>,
}

impl Writer {
    pub(crate) fn new(
        journal: Journal,
        record: RecordFile,
        monitor: Box<dyn JournalMonitor>,
        written: watch::Sender<u64>,
    ) -> Self {
        written.send_replace(journal.index());
        Self { journal: Some(journal), record, monitor, written, started: Instant::now(), space_asked: None }
    }

    /// Takes jobs until all senders are gone or one closes the journal.
    ///
    /// # Errors
    /// The first write that failed: nothing after it is written.
    pub(crate) fn run(&mut self, jobs: &mpsc::Receiver<Job>) -> Result<(), WriteError> {
        let mut waiting = VecDeque::new();
        loop {
            match jobs.recv_timeout(LOOK_AFTER_EVERY) {
                Ok(job) => waiting.push_back(job),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return Ok(()),
            }
            waiting.extend(jobs.try_iter());
            let closed = self.work(&mut waiting)?;
            if closed {
                return Ok(());
            }
            self.look_after(self.started.elapsed())?;
        }
    }

    /// Does all that waits, in order, appends that stand together as one group; whether the journal was closed.
    pub(crate) fn work(&mut self, waiting: &mut VecDeque<Job>) -> Result<bool, WriteError> {
        while let Some(job) = waiting.pop_front() {
            match job {
                Job::Append { entries, flushed } => self.append(entries, flushed, waiting)?,
                Job::Truncate { index, done } => {
                    // First, so that a crash in between does not look like a loss.
                    self.record.change(|record| record.last_index_min = record.last_index_min.min(index))?;
                    if let Some(journal) = &mut self.journal {
                        journal.truncate_after(index)?;
                    }
                    self.written.send_replace(index);
                    let _ = done.send(());
                }
                Job::Record { change, done } => {
                    let index = self.journal.as_ref().map_or(0, Journal::index);
                    self.record.change(|record| {
                        change(record);
                        record.last_index_min = index;
                    })?;
                    if let Some(done) = done {
                        let _ = done.send(());
                    }
                }
                Job::Committed(index) => {
                    if let Some(journal) = &mut self.journal {
                        journal.set_committed(index.min(journal.index()));
                    }
                }
                Job::Prune(sequence) => {
                    if let Some(journal) = &self.journal {
                        for segment in journal.segments().prune(sequence)? {
                            tracing::info!(
                                file = segment.path,
                                last = segment.last_sequence.0,
                                "journal segment pruned"
                            );
                        }
                    }
                }
                Job::Close { done } => {
                    if let Some(journal) = self.journal.take() {
                        let index = journal.index();
                        journal.close()?;
                        self.record.change(|record| record.last_index_min = index)?;
                    }
                    let _ = done.send(());
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    fn append(
        &mut self,
        entries: Vec<Pending>,
        flushed: IOFlushed<Types>,
        waiting: &mut VecDeque<Job>,
    ) -> Result<(), WriteError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        let (mut group, mut told) = (entries, vec![flushed]);
        let mut bytes: usize = group.iter().map(|entry| entry.payload.len()).sum();
        while bytes < GROUP_BYTES_MAX
            && let Some(Job::Append { .. }) = waiting.front()
            && let Some(Job::Append { entries, flushed }) = waiting.pop_front()
        {
            bytes += entries.iter().map(|entry| entry.payload.len()).sum::<usize>();
            group.extend(entries);
            told.push(flushed);
        }
        let first = group.first().map_or(0, |entry| entry.index);
        assert!(group.is_empty() || journal.index() == first, "the log store left a hole in the journal");
        let new: Vec<NewEntry<'_>> = group
            .iter()
            .map(|entry| NewEntry { term: entry.term, kind: entry.kind, payload: &entry.payload })
            .collect();
        let started = Instant::now();
        journal.append_entries(&new)?;
        self.monitor.appended(group.iter().map(|entry| entry.frames).sum(), started.elapsed());
        self.monitor.durable(journal.durable_sequence());
        self.written.send_replace(journal.index());
        for flushed in told {
            flushed.io_completed(Ok(()));
        }
        Ok(())
    }

    /// What is due when nothing waits: the idle mark, the disk's space.
    pub(crate) fn look_after(&mut self, now: Duration) -> Result<(), WriteError> {
        let Some(journal) = &mut self.journal else { return Ok(()) };
        if journal.idle(now)? {
            self.monitor.durable(journal.durable_sequence());
        }
        if self.space_asked.is_none_or(|asked| now.saturating_sub(asked) >= SPACE_INTERVAL) {
            self.space_asked = Some(now);
            self.monitor.space_low(journal.space()? == SpaceState::Low);
        }
        Ok(())
    }
}

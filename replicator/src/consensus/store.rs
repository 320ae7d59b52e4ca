//! The library's log, as our journal: entries wait in memory until the writer has made them durable, and are read back
//! from there or from the journal's files. It must not write a byte itself.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds, RangeInclusive};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::{Stream, StreamExt, stream};
use journaler::{EntryKind, EntryReader, JournalError, LogSummary};
use openraft::EntryPayload;
use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use protocol::Sequence;
use protocol::planted::{Bug, is_on};
use tokio::sync::{oneshot, watch};

use super::types::{Entry, Frames, LogId, Types, Vote, decode_membership, log_id, term_of};
use super::writer::{Job, Pending};

/// Entries kept in memory behind what is written, so that followers and the state machine rarely read files.
const RECENT_BYTES_MAX: usize = 64 << 20;
/// Most bytes of entries read at once.
const READ_BYTES_MAX: usize = 1 << 20;

/// Where jobs go: a thread, or a task of a simulation.
pub(crate) type Jobs = Arc<dyn Fn(Job) -> io::Result<()> + Send + Sync>;

/// The log as the library and we see it.
#[derive(Clone)]
pub(crate) struct LogStore {
    shared: Arc<Mutex<Log>>,
    reader: EntryReader,
    jobs: Jobs,
    /// The library's index of the next entry that is not durable at the configured level.
    written: watch::Receiver<u64>,
}

struct Log {
    vote: Option<Vote>,
    /// The last entry that is no longer there.
    purged: Option<LogId>,
    last: Option<LogId>,
    committed: Option<LogId>,
    next_sequence: Sequence,
    /// Each term's first index, as far back as the log goes.
    terms: Vec<(u64, u64)>,
    /// The newest entries, without a gap up to the last; all that is not written is in it.
    recent: VecDeque<Entry>,
    recent_bytes: usize,
}

fn entry_bytes(entry: &Entry) -> usize {
    match &entry.payload {
        EntryPayload::Normal(frames) => frames.bytes.len() + 64,
        _ => 256,
    }
}

fn journal_error(error: JournalError) -> io::Error {
    io::Error::other(error)
}

/// The library's log id of a journal position; none before the first entry.
pub(crate) fn log_id_at(index: u64, term: protocol::Term) -> Option<LogId> {
    index.checked_sub(1).map(|index| log_id(term.0, index))
}

impl LogStore {
    pub(crate) fn new(
        summary: &LogSummary,
        last_sequence: Sequence,
        vote: Option<Vote>,
        reader: EntryReader,
        jobs: Jobs,
        written: watch::Receiver<u64>,
    ) -> Self {
        let terms: Vec<_> = summary.terms.iter().map(|(term, first)| (term.0, first - 1)).collect();
        let purged = log_id_at(summary.before.index, summary.before.term);
        let last = match summary.terms.last() {
            Some((term, _)) => log_id_at(summary.last_index, *term),
            None => purged,
        };
        let mut log = Log {
            vote,
            purged,
            last,
            committed: None,
            next_sequence: last_sequence.next(),
            terms,
            recent: VecDeque::new(),
            recent_bytes: 0,
        };
        let committed = summary.committed_index.min(summary.last_index);
        log.committed = committed.checked_sub(1).and_then(|index| log.id_at(index));
        Self { shared: Arc::new(Mutex::new(log)), reader, jobs, written }
    }

    fn log(&self) -> MutexGuard<'_, Log> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last entry.
    pub(crate) fn last(&self) -> Option<LogId> {
        self.log().last
    }

    /// Waits until the entry is durable here.
    pub(crate) fn unwritten(&self) -> u64 {
        *self.written.borrow()
    }

    pub(crate) async fn written(&mut self, index: u64) -> io::Result<()> {
        match self.written.wait_for(|written| *written > index).await {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::other("the journal's writer has ended")),
        }
    }

    /// The last entry all of whose frames are at or before `sequence`.
    pub(crate) fn entry_at(&mut self, sequence: Sequence) -> io::Result<(Option<LogId>, Sequence)> {
        let end = self.reader.entry_at(sequence).map_err(journal_error)?;
        Ok((log_id_at(end.index, end.term), end.sequence))
    }

    /// Changes the member's own file and waits until that is durable.
    pub(crate) async fn change_record(&self, change: super::writer::RecordChange) -> io::Result<()> {
        let (done, changed) = oneshot::channel();
        (self.jobs)(Job::Record { change, done: Some(done) })?;
        changed.await.map_err(|_| io::Error::other("the journal's writer has ended"))
    }

    /// Has segments removed that hold nothing above `sequence`.
    pub(crate) fn prune(&self, sequence: Sequence) -> io::Result<()> {
        (self.jobs)(Job::Prune(sequence))
    }

    /// Closes the journal in good order.
    pub(crate) async fn close(&self) {
        let (done, closed) = oneshot::channel();
        if (self.jobs)(Job::Close { done }).is_ok() {
            let _ = closed.await;
        }
    }

    /// Entries from..to as far as they fit into a read, at least one.
    fn read(&mut self, from: u64, to: u64) -> io::Result<Vec<Entry>> {
        let (read_to, recent) = {
            let log = self.log();
            let first_recent = log.recent.front().map_or(u64::MAX, |entry| entry.log_id.index);
            let last = log.last.map_or(0, |last| last.index + 1);
            let to = to.min(last);
            if from >= to {
                return Ok(Vec::new());
            }
            if from >= first_recent {
                (from, log.recent_from(from, to))
            } else {
                (to.min(first_recent), Vec::new())
            }
        };
        if !recent.is_empty() {
            return Ok(recent);
        }
        let entries = self.reader.read(from + 1, read_to + 1, READ_BYTES_MAX).map_err(journal_error)?;
        entries.into_iter().map(entry_from_journal).collect()
    }
}

impl Log {
    fn id_at(&self, index: u64) -> Option<LogId> {
        if let Some(purged) = self.purged
            && purged.index >= index
        {
            return (purged.index == index).then_some(purged);
        }
        let place = self.terms.partition_point(|(_, first)| *first <= index).checked_sub(1)?;
        self.terms.get(place).map(|(term, _)| log_id(*term, index))
    }

    fn recent_from(&self, from: u64, to: u64) -> Vec<Entry> {
        let first = self.recent.front().map_or(0, |entry| entry.log_id.index);
        let skip = usize::try_from(from.saturating_sub(first)).unwrap_or(usize::MAX);
        let (mut bytes, mut taken) = (0, Vec::new());
        for entry in self.recent.iter().skip(skip) {
            bytes += entry_bytes(entry);
            if entry.log_id.index >= to || (bytes > READ_BYTES_MAX && !taken.is_empty()) {
                break;
            }
            taken.push(entry.clone());
        }
        taken
    }

    /// Gives the entry its place and keeps it.
    fn push(&mut self, mut entry: Entry) -> Entry {
        let next = self.last.map_or(0, |last| last.index + 1);
        assert_eq!(entry.log_id.index, next, "the library left a hole in the log");
        if let EntryPayload::Normal(frames) = &mut entry.payload {
            frames.first_sequence = self.next_sequence;
            self.next_sequence = Sequence(self.next_sequence.0 + frames.count);
        }
        let term = term_of(&entry.log_id);
        if self.terms.last().is_none_or(|(last, _)| *last != term) {
            self.terms.push((term, entry.log_id.index));
        }
        self.last = Some(entry.log_id);
        self.recent_bytes += entry_bytes(&entry);
        self.recent.push_back(entry.clone());
        entry
    }

    /// Forgets old entries that are written.
    fn forget(&mut self, written: u64) {
        while self.recent_bytes > RECENT_BYTES_MAX
            && self.recent.front().is_some_and(|entry| entry.log_id.index < written)
            && let Some(entry) = self.recent.pop_front()
        {
            self.recent_bytes -= entry_bytes(&entry);
        }
    }
}

fn entry_from_journal(entry: journaler::Entry) -> io::Result<Entry> {
    let payload = match entry.kind {
        EntryKind::Blank => EntryPayload::Blank,
        EntryKind::Frames => EntryPayload::Normal(Frames {
            first_sequence: entry.first_sequence,
            count: entry.count,
            bytes: entry.payload.into(),
        }),
        EntryKind::Membership => {
            EntryPayload::Membership(decode_membership(&entry.payload).map_err(io::Error::other)?)
        }
    };
    Ok(Entry { log_id: log_id(entry.term.0, entry.index - 1), payload })
}

/// The range's first index and the one behind its last.
fn bounds(range: &impl RangeBounds<u64>) -> (u64, u64) {
    let from = match range.start_bound() {
        Bound::Included(from) => *from,
        Bound::Excluded(from) => from + 1,
        Bound::Unbounded => 0,
    };
    let to = match range.end_bound() {
        Bound::Included(to) => to + 1,
        Bound::Excluded(to) => *to,
        Bound::Unbounded => u64::MAX,
    };
    (from, to)
}

impl RaftLogReader<Types> for LogStore {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + openraft::OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, io::Error> {
        let (mut from, to) = bounds(&range);
        let mut entries = Vec::new();
        while from < to {
            let more = self.read(from, to)?;
            let Some(last) = more.last() else { break };
            from = last.log_id.index + 1;
            entries.extend(more);
        }
        Ok(entries)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        Ok(self.log().vote)
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, io::Error> {
        self.read(start, end)
    }

    async fn entries_stream<RB>(
        &mut self,
        range: RB,
    ) -> impl Stream<Item = Result<Entry, io::Error>> + openraft::OptionalSend
    where
        RB: RangeBounds<u64> + Clone + Debug + openraft::OptionalSend,
    {
        let (from, to) = bounds(&range);
        // Piece by piece, so that a member far behind does not hold all that it lacks in memory.
        let pieces = stream::unfold((self.clone(), from), move |(mut store, from)| async move {
            if from >= to {
                return None;
            }
            match store.read(from, to) {
                Ok(entries) => {
                    let next = entries.last()?.log_id.index + 1;
                    Some((entries.into_iter().map(Ok).collect::<Vec<_>>(), (store, next)))
                }
                Err(error) => Some((vec![Err(error)], (store, to))),
            }
        });
        Box::pin(pieces.flat_map(stream::iter))
    }

    async fn get_key_log_ids(&mut self, range: RangeInclusive<LogId>) -> Result<Vec<LogId>, io::Error> {
        let (first, last) = range.into_inner();
        let log = self.log();
        let mut ids = Vec::new();
        for (place, (term, from)) in log.terms.iter().enumerate() {
            let end = log.terms.get(place + 1).map_or(last.index, |(_, next)| next - 1).min(last.index);
            if end >= first.index && *from <= last.index {
                ids.push(log_id(*term, end));
            }
        }
        Ok(ids)
    }
}

impl RaftLogStorage<Types> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<Types>, io::Error> {
        let log = self.log();
        Ok(LogState { last_purged_log_id: log.purged, last_log_id: log.last })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        let vote = *vote;
        if !is_on(Bug::VoteNotPersisted) {
            self.change_record(Box::new(move |record| record.vote = Some(vote))).await?;
        }
        self.log().vote = Some(vote);
        Ok(())
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        let Some(committed) = committed else { return Ok(()) };
        self.log().committed = Some(committed);
        (self.jobs)(Job::Committed(committed.index + 1))
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        Ok(self.log().committed)
    }

    async fn append<I>(&mut self, entries: I, callback: IOFlushed<Types>) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + openraft::OptionalSend,
        I::IntoIter: openraft::OptionalSend,
    {
        let written = *self.written.borrow();
        let pending = {
            let mut log = self.log();
            log.forget(written);
            entries.into_iter().map(|entry| Pending::of(&log.push(entry))).collect()
        };
        (self.jobs)(Job::Append { entries: pending, flushed: callback })
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> Result<(), io::Error> {
        let keep = last_log_id.map_or(0, |last| last.index + 1);
        {
            let mut log = self.log();
            assert!(
                log.committed.is_none_or(|committed| committed.index < keep),
                "the library asked for the end of a committed entry"
            );
            while !is_on(Bug::TruncatedStayInMemory)
                && log.recent.back().is_some_and(|entry| entry.log_id.index >= keep)
                && let Some(entry) = log.recent.pop_back()
            {
                log.recent_bytes -= entry_bytes(&entry);
            }
            log.terms.retain(|(_, first)| *first < keep);
            log.last = last_log_id;
        }
        let (done, truncated) = oneshot::channel();
        (self.jobs)(Job::Truncate { index: keep, done })?;
        truncated.await.map_err(|_| io::Error::other("the journal's writer has ended"))?;
        let end = match keep {
            0 => Sequence(0),
            keep => self.reader.summary_of(keep).map_err(journal_error)?.1,
        };
        if !is_on(Bug::SequenceNotTakenBack) {
            self.log().next_sequence = end.next();
        }
        Ok(())
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), io::Error> {
        let mut log = self.log();
        if log.purged.is_none_or(|purged| purged < log_id) {
            log.purged = Some(log_id);
        }
        let place = log.terms.partition_point(|(_, first)| *first <= log_id.index);
        // The term that the first kept entry is in stays, with its kept part.
        log.terms.drain(..place.saturating_sub(1));
        if log.last.is_none_or(|last| last < log_id) {
            log.last = Some(log_id);
        }
        Ok(())
    }
}

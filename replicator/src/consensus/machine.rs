//! The library's state machine: hands committed entries that are durable here to the feed, in order, and knows the newest
//! snapshot. It must not apply anything itself, nor hand over a frame twice.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::{Stream, StreamExt};
use openraft::storage::{EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend};
use protocol::Sequence;
use protocol::planted::{Bug, is_on};

use super::snapshot::{SnapshotFiles, SnapshotFolder};
use super::store::LogStore;
use super::types::{Frames, LogId, Membership, SnapshotMeta, StoredMembership, Types};
use super::writer::RecordChange;

/// How long to wait for room in the input ring before looking again: the ring holds some milliseconds of work.
const ROOM_LOOK_EVERY: Duration = Duration::from_micros(500);

type Snapshot = openraft::type_config::alias::SnapshotOf<Types, SnapshotFiles>;

/// Takes frames that are committed and durable here.
pub trait Feed: Send + 'static {
    /// Takes as many whole frames (padded to slots) as there is room for, in order; gives the bytes taken. They go on
    /// behind [`fed`](Self::fed).
    fn push(&mut self, frames: &[u8]) -> usize;
    /// The last frame taken, ever.
    fn fed(&self) -> Sequence;
}

/// What is applied, for whoever looks.
#[derive(Clone, Debug, Default)]
pub(crate) struct Applied {
    pub(crate) id: Option<LogId>,
    pub(crate) membership: StoredMembership,
}

pub(crate) struct Machine {
    // Only this holds it; the library wants all of it to be shared.
    feed: Mutex<Box<dyn Feed>>,
    store: LogStore,
    folder: Arc<dyn SnapshotFolder>,
    applied: Arc<Mutex<Applied>>,
}

impl Machine {
    pub(crate) fn new(
        feed: Box<dyn Feed>,
        store: LogStore,
        folder: Arc<dyn SnapshotFolder>,
        applied: Applied,
    ) -> Self {
        Self { feed: Mutex::new(feed), store, folder, applied: Arc::new(Mutex::new(applied)) }
    }

    /// What is applied, as it goes on.
    pub(crate) fn applied(&self) -> Arc<Mutex<Applied>> {
        Arc::clone(&self.applied)
    }

    fn peek(&self) -> Applied {
        self.applied.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn feed(&mut self, frames: &Frames) -> io::Result<()> {
        let fed = self.feed.get_mut().unwrap_or_else(PoisonError::into_inner).fed();
        let next = fed.next();
        if frames.first_sequence > next {
            return Err(io::Error::other(format!(
                "the log goes on with frame {} where the state is at {fed}",
                frames.first_sequence
            )));
        }
        // A snapshot may lie within an entry: its first frames are in the state already.
        let mut rest = skip_frames(&frames.bytes, next.0 - frames.first_sequence.0)?;
        loop {
            let taken = self.feed.get_mut().unwrap_or_else(PoisonError::into_inner).push(rest);
            rest = rest.get(taken..).unwrap_or_default();
            if rest.is_empty() || is_on(Bug::FeedDropsRest) {
                return Ok(());
            }
            tokio::time::sleep(ROOM_LOOK_EVERY).await;
        }
    }

    fn enter_membership(&self, id: LogId, membership: &Membership) -> io::Result<RecordChange> {
        let kept = membership.clone();
        self.applied.lock().unwrap_or_else(PoisonError::into_inner).membership =
            StoredMembership::new(Some(id), membership.clone());
        Ok(Box::new(move |record| {
            record.membership = Some((id, kept));
            // The log holds it now.
            record.founding = None;
        }))
    }

    /// The newest snapshot whose place in the log is known.
    fn newest(&mut self) -> io::Result<Option<Snapshot>> {
        let membership = self.peek().membership;
        for sequence in self.folder.newest_first() {
            let (last, at) = match self.store.entry_at(sequence) {
                Ok(found) => found,
                Err(error) => {
                    tracing::debug!(%sequence, %error, "a snapshot's place in the log is not known");
                    continue;
                }
            };
            // One within an entry can't be gone on from by others.
            if at != sequence {
                continue;
            }
            let meta = SnapshotMeta { last_log_id: last, last_membership: membership };
            return Ok(Some(Snapshot { meta, snapshot: SnapshotFiles { sequence } }));
        }
        Ok(None)
    }
}

/// What is left of `frames` without the first `count`.
fn skip_frames(frames: &[u8], count: u64) -> io::Result<&[u8]> {
    let mut rest = frames;
    for _ in 0..count {
        let length = match rest {
            [low, high, ..] => usize::from(u16::from_le_bytes([*low, *high])),
            _ => 0,
        };
        let padded = length.next_multiple_of(protocol::SLOT_LENGTH);
        rest = match rest.get(padded..) {
            Some(left) if padded > 0 => left,
            _ => return Err(io::Error::other("an entry holds fewer frames than it counts")),
        };
    }
    Ok(rest)
}

impl RaftStateMachine<Types> for Machine {
    type SnapshotData = SnapshotFiles;
    type SnapshotBuilder = Builder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        let applied = self.peek();
        Ok((applied.id, applied.membership))
    }

    async fn apply<Strm>(&mut self, mut entries: Strm) -> Result<(), io::Error>
    where
        Strm: Stream<Item = Result<EntryResponder<Types>, io::Error>> + Unpin + OptionalSend,
    {
        while let Some(next) = entries.next().await {
            let (entry, responder) = next?;
            // The library may count others' disks before ours; what leaves must be durable here too.
            if !is_on(Bug::FedBeforeOwnDisk) {
                self.store.written(entry.log_id.index).await?;
            }
            match &entry.payload {
                EntryPayload::Blank => {}
                EntryPayload::Normal(frames) => self.feed(frames).await?,
                EntryPayload::Membership(membership) => {
                    let change = self.enter_membership(entry.log_id, membership)?;
                    self.store.change_record(change).await?;
                }
            }
            self.applied.lock().unwrap_or_else(PoisonError::into_inner).id = Some(entry.log_id);
            if let Some(responder) = responder {
                responder.send(());
            }
        }
        Ok(())
    }

    async fn try_create_snapshot_builder(&mut self, _force: bool) -> Option<Builder> {
        Some(self.get_snapshot_builder().await)
    }

    async fn get_snapshot_builder(&mut self) -> Builder {
        Builder(self.newest().transpose())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        _snapshot: SnapshotFiles,
    ) -> Result<(), io::Error> {
        // A transfer ends with a new start, which begins from the snapshot; the library never gets to install one.
        let last = meta.last_log_id;
        Err(io::Error::other(format!("a snapshot at {last:?} can only be installed at a start")))
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, io::Error> {
        self.newest()
    }
}

/// Gives the library the newest snapshot that the snapshot thread has made; it builds none.
pub(crate) struct Builder(Option<io::Result<Snapshot>>);

impl RaftSnapshotBuilder<Types> for Builder {
    type SnapshotData = SnapshotFiles;

    async fn build_snapshot(&mut self) -> Result<Snapshot, io::Error> {
        match self.0.take() {
            Some(newest) => newest,
            None => Err(io::Error::other("there is no snapshot yet")),
        }
    }
}

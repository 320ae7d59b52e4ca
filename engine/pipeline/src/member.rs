//! The ends of an engine that is a member of a cluster: what the consensus gives it, and what it gives the consensus. It
//! must not decide what is committed.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use protocol::Sequence;
use replicator::{Lead, ProposalReceiver};
use ring::{Ingress, Stage, WakeSet, Work};

use crate::checkpoints::{Checkpoints, ConfirmedCheckpoint};
use crate::marks::Shared;

/// Told the first sequence that the journal must still have.
pub type Retention = Box<dyn Fn(Sequence) + Send + Sync>;

/// What an engine needs to know as a member.
pub struct MemberParts {
    /// Whether this member leads.
    pub lead: Lead,
    /// Called by the housekeeping, in each of its rounds, with the first sequence that snapshots, report log and archive
    /// still need of the journal. The consensus prunes; the engine doesn't.
    pub retention: Retention,
}

impl fmt::Debug for MemberParts {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("MemberParts").field("lead", &self.lead).finish_non_exhaustive()
    }
}

/// What the consensus gets of an engine.
#[derive(Debug)]
pub struct MemberPorts {
    /// Takes what is committed and durable. The engine drains when it is dropped.
    pub feed: Feed,
    /// What gateways published on this member while it leads. It ends when all of them are gone and the engine stops.
    pub proposals: ProposalReceiver,
    /// To be woken after each change of [`Lead`], so that the new term begins at once.
    pub lead_changed: WakeSet,
    /// Where the consensus tells what a majority agrees on.
    pub confirmed: ConfirmedCheckpoint,
    /// The engine's own checkpoints, to tell the other members.
    pub checkpoints: Checkpoints,
    /// Where the journal's thread tells what it does.
    pub journal: JournalGauges,
}

/// Publishes committed frames into the input ring, of which it is the only publisher.
pub struct Feed {
    ingress: Ingress,
    fed: Sequence,
    room: Arc<Room>,
}

impl Feed {
    pub(crate) fn new(ingress: Ingress, base: Sequence, room: Arc<Room>) -> Self {
        Self { ingress, fed: base, room }
    }

    /// Publishes whole frames, each padded to whole slots, whose first has the sequence after [`fed`](Self::fed): as many as
    /// there is room for. Gives the bytes taken. They must be committed, and durable here at the configured level: from here
    /// on nothing takes them back.
    ///
    /// # Panics
    /// On anything but whole frames. The journal has checked them.
    pub fn push(&mut self, frames: &[u8]) -> usize {
        let taken = self.publish(frames);
        match frames.get(taken..) {
            Some(rest) if !rest.is_empty() => {
                self.room.ask();
                // What became free before the question is not told of.
                taken + self.publish(rest)
            }
            _ => taken,
        }
    }

    fn publish(&mut self, frames: &[u8]) -> usize {
        match self.ingress.publish_some(frames) {
            Ok(published) => {
                self.fed.0 += published.frames as u64;
                published.bytes
            }
            Err(error) => panic!("what is fed after sequence {} is not whole frames: {error}", self.fed),
        }
    }

    /// The last frame that was fed; at first the last one of the state that the engine was opened with.
    #[must_use]
    pub fn fed(&self) -> Sequence {
        self.fed
    }

    /// Whether the logic has ended, so that there will never be room again.
    #[must_use]
    pub fn is_over(&self) -> bool {
        // Pairs with the store in `end`; after `ask` also with the fence in `tell`.
        self.room.over.load(Ordering::Acquire)
    }

    /// Has `wake` called when a push that took less than it was given can go on, and when the logic has ended. It is
    /// called on the logic's thread and must not wait. Only the first call of this counts.
    pub fn on_room(&mut self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.room.wake.set(Box::new(wake));
    }
}

impl fmt::Debug for Feed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Feed").field("fed", &self.fed).finish_non_exhaustive()
    }
}

/// Says when a full input ring has room again. No wake-up is lost, for the reason that `ring`'s `wait.rs` gives: the asking
/// side sets the flag, fences and looks for room; the other side makes room, fences and looks at the flag.
#[derive(Default)]
pub(crate) struct Room {
    // Set by the feed, cleared by the logic's thread.
    asked: AtomicBool,
    // Set when the logic has ended.
    over: AtomicBool,
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Room {
    fn ask(&self) {
        // Relaxed: the fence puts it in order against `tell`.
        self.asked.store(true, Ordering::Relaxed);
        // Pairs with the fence in `tell`.
        fence(Ordering::SeqCst);
    }

    fn tell(&self) {
        // Pairs with the fence in `ask`.
        fence(Ordering::SeqCst);
        if self.asked.load(Ordering::Relaxed)
            && self.asked.swap(false, Ordering::Relaxed)
            && let Some(wake) = self.wake.get()
        {
            wake();
        }
    }

    fn end(&self) {
        self.over.store(true, Ordering::Release);
        self.tell();
    }
}

/// The logic of a member: says when it has made room, and when it never will again.
pub(crate) struct MakingRoom<S> {
    pub(crate) stage: S,
    pub(crate) room: Arc<Room>,
}

impl<S> Drop for MakingRoom<S> {
    fn drop(&mut self) {
        self.room.end();
    }
}

impl<S: Stage> Stage for MakingRoom<S> {
    fn name(&self) -> &'static str {
        self.stage.name()
    }

    fn do_work(&mut self) -> Work {
        let work = self.stage.do_work();
        if work != Work::Idle {
            self.room.tell();
        }
        work
    }
}

/// Where the thread that writes a member's journal tells what it does. Clones are the same.
#[derive(Clone, Debug)]
pub struct JournalGauges(Arc<Shared>);

impl JournalGauges {
    pub(crate) fn new(shared: Arc<Shared>) -> Self {
        Self(shared)
    }

    /// A batch of so many frames was durable at the configured level after so many nanoseconds.
    pub fn record_append(&self, nanoseconds: u64, frames: u64) {
        self.0.journal.append_ns.record(nanoseconds, 1);
        self.0.journal.batch_frames.record(frames, 1);
    }

    /// Whether the disk's reserve is being used.
    pub fn set_space_low(&self, low: bool) {
        self.0.journal.set_space_low(low);
    }

    /// Everything up to here would survive a power cut. It goes back where a tail was removed.
    pub fn set_durable(&self, to: Sequence) {
        self.0.journal.reset_durable(to);
    }
}

impl replicator::Feed for Feed {
    fn push(&mut self, frames: &[u8]) -> usize {
        Self::push(self, frames)
    }

    fn fed(&self) -> Sequence {
        Self::fed(self)
    }
}

impl replicator::JournalMonitor for JournalGauges {
    fn appended(&mut self, frames: u64, took: Duration) {
        self.record_append(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), frames);
    }

    fn space_low(&mut self, low: bool) {
        self.set_space_low(low);
    }

    fn durable(&mut self, sequence: Sequence) {
        self.set_durable(sequence);
    }
}

//! What the rest of a member knows of leadership, and the way of frames from the leader's ring to the consensus. Both are
//! read and written from several threads; nothing here waits.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use protocol::Term;
use protocol::planted::{Bug, is_on};
use ring::WakeSet;
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::member::Member;

/// Entries that may be on their way from the front ring to commitment at once.
const IN_FLIGHT_MAX: usize = 8;

/// Whether and how this member leads.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeadState {
    /// The term in which this member leads and may propose; `None` if it doesn't.
    pub term: Option<Term>,
    /// The leader as far as is known.
    pub leader: Option<Member>,
}

/// Leadership as the other threads of a member see it. Clones are the same.
#[derive(Clone, Debug)]
pub struct Lead {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// The term in which this member leads and may propose; 0 if it doesn't. Read for every batch.
    term: AtomicU64,
    /// The term whose first frame the proposer has handed over; 0 if there is none. Stored with Release after the proposer
    /// dropped what was published before.
    begun: AtomicU64,
    /// Nanoseconds since `epoch` until which a quorum has confirmed the leadership.
    lease: AtomicU64,
    /// A successor may lead at any moment, whatever the lease says. Stored with Release before it is asked to.
    yielding: AtomicBool,
    epoch: Instant,
    leader: Mutex<Option<Member>>,
    changed: tokio::sync::watch::Sender<u64>,
}

impl Default for Lead {
    fn default() -> Self {
        Self::new()
    }
}

impl Lead {
    /// Nobody leads.
    #[must_use]
    pub fn new() -> Self {
        let shared = Shared {
            term: AtomicU64::new(0),
            begun: AtomicU64::new(0),
            lease: AtomicU64::new(0),
            yielding: AtomicBool::new(false),
            epoch: Instant::now(),
            leader: Mutex::new(None),
            changed: tokio::sync::watch::Sender::new(0),
        };
        Self { shared: Arc::new(shared) }
    }

    /// The term in which this member leads and takes frames; `None` if it doesn't.
    #[must_use]
    pub fn term(&self) -> Option<Term> {
        match self.shared.term.load(Ordering::Acquire) {
            0 => None,
            term => Some(Term(term)),
        }
    }

    /// The term in which this member leads, once what is published goes into the log: what was published before the term's
    /// first frame is dropped. `None` else.
    #[must_use]
    pub fn open_term(&self) -> Option<Term> {
        // Pairs with the store in `begin`.
        let begun = Term(self.shared.begun.load(Ordering::Acquire));
        self.term().filter(|term| *term == begun)
    }

    /// The proposer has handed over the first frame of this term, or drops all that is published.
    pub fn begin(&self, term: Option<Term>) {
        let begun = term.map_or(0, |term| term.0);
        if self.shared.begun.swap(begun, Ordering::AcqRel) != begun {
            self.shared.changed.send_modify(|count| *count += 1);
        }
    }

    /// Whether this member leads and a quorum confirmed it so lately that no other can lead yet. Only then may be answered
    /// what is not in the log.
    #[must_use]
    pub fn is_confirmed(&self) -> bool {
        let holds = self.now() < self.shared.lease.load(Ordering::Acquire)
            && !self.shared.yielding.load(Ordering::Acquire);
        self.term().is_some() && (holds || is_on(Bug::StaleRead))
    }

    /// The leader as far as is known.
    #[must_use]
    pub fn leader(&self) -> Option<Member> {
        self.shared.leader.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Told whenever the term, its beginning or the leader changes.
    #[must_use]
    pub fn changes(&self) -> tokio::sync::watch::Receiver<u64> {
        self.shared.changed.subscribe()
    }

    /// Sets who leads. The consensus calls this; so do tests in its place.
    pub fn set(&self, state: &LeadState) {
        let term = state.term.map_or(0, |term| term.0);
        let mut leader = self.shared.leader.lock().unwrap_or_else(PoisonError::into_inner);
        let is_another = *leader != state.leader;
        leader.clone_from(&state.leader);
        // Behind the leader's name: who sees that a term is over finds who leads now, if that is known.
        let before = self.shared.term.swap(term, Ordering::AcqRel);
        drop(leader);
        if before != term || is_another {
            self.shared.changed.send_modify(|count| *count += 1);
        }
    }

    /// A quorum confirmed the leadership at `at`; it holds for `lease` from then.
    pub fn confirm(&self, at: Instant, lease: Duration) {
        let until = at.saturating_duration_since(self.shared.epoch).saturating_add(lease);
        self.shared.lease.fetch_max(nanoseconds(until), Ordering::Release);
    }

    /// Whether leadership is being handed over: nothing is confirmed then, and nothing proposed.
    pub(crate) fn set_yielding(&self, yielding: bool) {
        self.shared.yielding.store(yielding, Ordering::Release);
    }

    fn now(&self) -> u64 {
        nanoseconds(self.shared.epoch.elapsed())
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Frames for one entry.
#[derive(Clone, Debug)]
pub struct Proposal {
    /// The term that they were taken in. They are dropped if it is over.
    pub term: Term,
    /// Whole frames, each padded to whole slots.
    pub frames: Bytes,
}

/// Why a proposal was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProposalRefused {
    /// Enough is on its way; the thread is woken when there is room.
    #[error("enough entries are on their way")]
    Full,
    /// The consensus has ended.
    #[error("the consensus has ended")]
    Closed,
}

/// Where the proposer hands over. Clones are the same way.
#[derive(Clone, Debug)]
pub struct ProposalSender {
    sender: mpsc::UnboundedSender<Proposal>,
    in_flight: Arc<AtomicUsize>,
}

/// Where the consensus takes proposals.
#[derive(Debug)]
pub struct ProposalReceiver {
    receiver: mpsc::UnboundedReceiver<Proposal>,
    in_flight: Arc<AtomicUsize>,
    proposer: WakeSet,
}

/// The way from the proposer to the consensus. `proposer` is woken when there is room again.
#[must_use]
pub fn proposals(proposer: WakeSet) -> (ProposalSender, ProposalReceiver) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let in_flight = Arc::new(AtomicUsize::new(0));
    (
        ProposalSender { sender, in_flight: Arc::clone(&in_flight) },
        ProposalReceiver { receiver, in_flight, proposer },
    )
}

impl ProposalSender {
    /// Whether a proposal would be taken now.
    ///
    /// # Errors
    /// Why not.
    pub fn check_room(&self) -> Result<(), ProposalRefused> {
        if self.sender.is_closed() {
            return Err(ProposalRefused::Closed);
        }
        if self.in_flight.load(Ordering::Acquire) >= IN_FLIGHT_MAX {
            return Err(ProposalRefused::Full);
        }
        Ok(())
    }

    /// Hands an entry's frames over. Whether they are ever committed is not known here.
    ///
    /// # Errors
    /// [`ProposalRefused`]; nothing was taken.
    pub fn try_propose(&self, proposal: Proposal) -> Result<(), ProposalRefused> {
        self.check_room()?;
        self.in_flight.fetch_add(1, Ordering::AcqRel);
        self.sender.send(proposal).map_err(|_| ProposalRefused::Closed)
    }
}

impl ProposalReceiver {
    /// The next proposal; `None` once all senders are gone. Each must be [`settle`](Self::settled)d.
    pub async fn next(&mut self) -> Option<Proposal> {
        self.receiver.recv().await
    }

    /// A handle that counts proposals off again.
    #[must_use]
    pub fn settled(&self) -> Settled {
        Settled { in_flight: Arc::clone(&self.in_flight), proposer: self.proposer.clone() }
    }
}

impl Drop for ProposalReceiver {
    fn drop(&mut self) {
        // A proposer that waits for room must see that there will be none.
        self.receiver.close();
        self.proposer.wake();
    }
}

/// Counts proposals off: committed, dropped or refused.
#[derive(Clone, Debug)]
pub struct Settled {
    in_flight: Arc<AtomicUsize>,
    proposer: WakeSet,
}

impl Settled {
    /// One is no longer on its way.
    pub fn one(&self) {
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
        self.proposer.wake();
    }
}

//! A member at work: the library, what feeds it, and what it tells the rest of the process. It must not write a file or
//! open a socket itself.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use openraft::async_runtime::watch::WatchReceiver;
use openraft::{AsyncRuntime, Raft, RaftMetrics, ServerState};
use protocol::{Checkpoint, Sequence, Term};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::disk::DiskWatch;
use super::exchange::exchange_status;
use super::machine::{Applied, Machine};
use super::memory::{Memory, Mended, Told};
use super::peers::Network;
use super::snapshot::Incoming;
use super::standing::{LeaderWatch, stand};
use super::store::LogStore;
use super::types::{Counted, Frames, Membership, Runtime, Types, Vote, log_id_to_proto, vote_to_proto};
use super::verdict::Checkpoints;
use super::{Hooks, Timing};
use crate::lead::{LeadState, Proposal, ProposalReceiver};
use crate::member::Member;
use crate::proto;

/// How soon a proposal is tried again while no quorum confirms the leadership.
const PROPOSE_RETRY: Duration = Duration::from_millis(1);
/// How often what the journal need not keep is looked at.
const RETENTION_EVERY: Duration = Duration::from_secs(1);

/// What is known of another member.
#[derive(Clone, Debug, Default)]
pub(crate) struct PeerView {
    pub(crate) heard: Option<Instant>,
    pub(crate) answer: Option<proto::StatusAnswer>,
    pub(crate) trouble: Option<String>,
    /// The last term in which this leader was made to count nothing that the member acknowledged before this life.
    reset: Option<Reset>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reset {
    term: u64,
    life: u64,
    /// The end of the leader's log then.
    end: u64,
}

pub(crate) struct Node {
    pub(crate) raft: Raft<Types, Machine>,
    pub(crate) store: LogStore,
    pub(crate) network: Arc<Network>,
    pub(crate) memory: Memory,
    pub(crate) incoming: tokio::sync::Mutex<Option<(Incoming, u64)>>,
    pub(crate) timing: Timing,
    pub(crate) peers: Mutex<BTreeMap<u64, PeerView>>,
    applied: Arc<Mutex<Applied>>,
    checkpoints: Checkpoints,
    hooks: Arc<Hooks>,
    /// Counts the times that this member began to take frames, so that each is told from the one before.
    reigns: AtomicU64,
    /// The last reign that the library refused a proposal in: it is over.
    refused: Arc<AtomicU64>,
    /// Whom leadership is being handed to; 0 for nobody.
    handing_to: AtomicU64,
    pub(crate) leader_watch: LeaderWatch,
    /// Told when the leader's process has ended.
    pub(crate) missed: Notify,
    pub(crate) disk: Mutex<DiskWatch>,
    halted: AtomicBool,
    /// A snapshot has arrived: nothing is taken until the next start.
    restarting: AtomicBool,
    /// Tells this run of the member from others.
    life: u64,
    /// Frames before this one are not needed any more by snapshots and reports.
    needed_from: Arc<AtomicU64>,
    pub(crate) tasks: Mutex<JoinSet<()>>,
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The parts of a node that exist before it.
pub(crate) struct Parts {
    pub(crate) raft: Raft<Types, Machine>,
    pub(crate) store: LogStore,
    pub(crate) network: Arc<Network>,
    pub(crate) memory: Memory,
    pub(crate) timing: Timing,
    pub(crate) applied: Arc<Mutex<Applied>>,
    pub(crate) hooks: Arc<Hooks>,
    pub(crate) needed_from: Arc<AtomicU64>,
    pub(crate) disk: DiskWatch,
}

impl Node {
    pub(crate) fn new(parts: Parts) -> Arc<Self> {
        let Parts { raft, store, network, memory, timing, applied, hooks, needed_from, disk } = parts;
        Arc::new(Self {
            raft,
            store,
            network,
            memory,
            incoming: tokio::sync::Mutex::new(None),
            timing,
            peers: Mutex::default(),
            applied,
            checkpoints: Checkpoints::default(),
            hooks,
            reigns: AtomicU64::new(0),
            refused: Arc::default(),
            handing_to: AtomicU64::new(0),
            leader_watch: LeaderWatch::default(),
            missed: Notify::new(),
            disk: Mutex::new(disk),
            halted: AtomicBool::new(false),
            restarting: AtomicBool::new(false),
            life: rand::random(),
            needed_from,
            tasks: Mutex::new(JoinSet::new()),
        })
    }

    /// Starts what goes on by itself.
    pub(crate) fn run(self: &Arc<Self>, proposals: ProposalReceiver) {
        let mut tasks = lock(&self.tasks);
        tasks.spawn(propose(Arc::clone(self), proposals));
        tasks.spawn(follow_leadership(Arc::clone(self)));
        tasks.spawn(exchange_status(Arc::clone(self)));
        tasks.spawn(retain(Arc::clone(self)));
        tasks.spawn(stand(Arc::clone(self), Runtime::thread_rng()));
    }

    pub(crate) fn own_id(&self) -> u64 {
        self.network.identity.member.0
    }

    pub(crate) fn metrics(&self) -> RaftMetrics<Types> {
        self.raft.metrics().borrow_watched().clone()
    }

    pub(crate) fn current_vote(&self) -> Vote {
        self.raft.metrics().borrow_watched().vote
    }

    pub(crate) fn applied(&self) -> Applied {
        lock(&self.applied).clone()
    }

    /// The membership that counts now, committed or not.
    pub(crate) fn membership(&self) -> Membership {
        self.raft.metrics().borrow_watched().membership_config.membership().clone()
    }

    pub(crate) fn voter_sets(&self) -> Vec<Vec<u64>> {
        let membership = self.membership();
        membership.get_joint_config().iter().map(|set| set.iter().copied().collect()).collect()
    }

    pub(crate) fn member(&self, id: u64) -> Option<Member> {
        self.membership().get_node(&id).cloned()
    }

    pub(crate) fn restart(&self) {
        self.restarting.store(true, Ordering::Release);
        (self.hooks.restart)();
    }

    pub(crate) fn is_restarting(&self) -> bool {
        self.restarting.load(Ordering::Acquire)
    }

    /// Leadership is being handed to another member; `None` when that is over. Its sessions stay until it leads, or another,
    /// so that their clients are sent to a leader and to nobody who is not yet one; what they ask for waits meanwhile.
    pub(crate) fn hand_over(&self, to: Option<u64>) {
        self.handing_to.store(to.unwrap_or(0), Ordering::Release);
        self.network.lead.set_yielding(to.is_some());
    }

    /// The current reign, if frames are taken.
    pub(crate) fn reign(&self) -> Option<Term> {
        self.network.lead.term()
    }

    /// Whether something that was taken in this reign will never be in the log.
    fn is_refused(&self, reign: Term) -> bool {
        self.refused.load(Ordering::Relaxed) >= reign.0
    }

    /// Waits until a proposal of this reign may go to the library; whether it may. The library takes nothing from a leader that
    /// a quorum was silent to for longer than an election takes; long before that, frames wait here.
    async fn may_propose(&self, reign: Term) -> bool {
        loop {
            if self.reign() != Some(reign) || self.is_refused(reign) {
                return false;
            }
            if self.network.lead.is_confirmed() {
                return true;
            }
            tokio::time::sleep(PROPOSE_RETRY).await;
        }
    }

    /// Sets the rest of the process right about who leads. Called on the consensus's thread only: a reign that was given up must
    /// not come again by a look that is late.
    pub(crate) fn tell_leadership(&self) {
        let now = Instant::now();
        let (leads, leader, term) = {
            let metrics = self.raft.metrics();
            let metrics = metrics.borrow_watched();
            let leads = metrics.state == ServerState::Leader && metrics.current_leader == Some(metrics.id);
            (leads, metrics.current_leader, metrics.current_term)
        };
        let lead = &self.network.lead;
        let sets = self.voter_sets();
        let confirmed =
            if leads { self.network.confirmations.quorum(self.own_id(), term, &sets, now) } else { None };
        if let Some(at) = confirmed {
            lead.confirm(at, self.network.lease);
        }
        // A quorum that is silent for longer than an election takes may have another leader.
        let lost =
            confirmed.is_none_or(|at| now.saturating_duration_since(at) > self.timing.quorum_patience());
        let ready = self.applied().id.is_some_and(|id| super::types::term_of(&id) == term);
        let takes = leads && ready && !lost && !self.halted.load(Ordering::Acquire);
        let reign = match (takes, self.reign()) {
            (false, _) => None,
            (true, Some(reign)) if self.is_refused(reign) => None,
            (true, Some(reign)) => Some(reign),
            (true, None) => Some(Term(self.reigns.fetch_add(1, Ordering::Relaxed) + 1)),
        };
        // While a leadership ends, its successor is as good as known.
        let handing_to = Some(self.handing_to.load(Ordering::Acquire)).filter(|to| *to != 0 && !leads);
        let is_missed = !leads && self.leader_watch.is_missed(term, now, self.timing.word());
        let leader = leader.filter(|_| !is_missed && (!leads || takes));
        let leader = leader.or(handing_to).and_then(|leader| self.member(leader));
        lead.set(&LeadState { term: reign, leader });
    }

    /// What this member tells another one that asks.
    pub(crate) async fn status_answer(
        &self,
        sender: &proto::Sender,
        status: &proto::Status,
    ) -> proto::StatusAnswer {
        self.hear(sender.member, status.life, &status.checkpoints);
        (self.hooks.told_secret)(&status.secret);
        if status.forgetful {
            self.forget_acknowledgements_of(sender.member, status.life).await;
        }
        if status.reset_term != 0 && status.reset_life == self.life {
            self.memory.reset_by(status.reset_term, status.reset_end);
        }
        let last = self.store.last();
        let metrics = self.metrics();
        let (incoming_bytes, incoming_bytes_total) = match self.incoming.try_lock() {
            Ok(incoming) => {
                incoming.as_ref().map_or((0, 0), |(arriving, total)| (arriving.received(), *total))
            }
            Err(_) => (0, 0),
        };
        let applied = self.applied();
        proto::StatusAnswer {
            sender: Some(self.network.identity.sender()),
            last: last.as_ref().map(log_id_to_proto),
            vote: Some(vote_to_proto(&metrics.vote)),
            committed: metrics.local_committed.as_ref().map(log_id_to_proto),
            applied: applied.id.as_ref().map(log_id_to_proto),
            leader: metrics.current_leader.unwrap_or(0),
            forgetful: self.memory.is_forgetful(),
            checkpoints: self.own_checkpoints(),
            sequence: (self.hooks.sequence)().0,
            leads: self.network.lead.is_confirmed(),
            incoming_bytes,
            incoming_bytes_total,
            life: self.life,
            secret: self.hooks.secret.clone().into(),
            disk_low: self.disk_state().1,
            asker_unknown: self.member(sender.member).is_none(),
        }
    }

    /// As the leader: what a member acknowledged in an earlier life may be gone, and counts for nothing until it is sent
    /// again.
    async fn forget_acknowledgements_of(&self, member: u64, life: u64) {
        if !self.network.lead.is_confirmed() {
            return;
        }
        let term = self.metrics().current_term;
        let done = lock(&self.peers).get(&member).and_then(|view| view.reset);
        if done.is_some_and(|done| done.term == term && done.life == life) {
            return;
        }
        if let Ok(Ok(())) = self.raft.trigger().allow_next_revert(&member, true).await {
            let end = self.store.last().map_or(0, |last| last.index);
            tracing::info!(member, "a member that lost a part of its log is sent it anew");
            lock(&self.peers).entry(member).or_default().reset = Some(Reset { term, life, end });
        }
    }

    /// What another member is told.
    pub(crate) fn status_for(&self, member: u64) -> proto::Status {
        let reset = lock(&self.peers).get(&member).and_then(|view| view.reset);
        let reset = reset
            .filter(|reset| self.network.lead.is_confirmed() && reset.term == self.metrics().current_term);
        let reset = reset.unwrap_or(Reset { term: 0, life: 0, end: 0 });
        proto::Status {
            checkpoints: self.own_checkpoints(),
            forgetful: self.memory.is_forgetful(),
            life: self.life,
            reset_term: reset.term,
            reset_life: reset.life,
            reset_end: reset.end,
            secret: self.hooks.secret.clone().into(),
        }
    }

    pub(crate) fn own_checkpoints(&self) -> Vec<proto::Checkpoint> {
        let own = (self.hooks.checkpoints)();
        self.checkpoints.told(self.own_id(), self.life, own.iter().copied());
        own.iter()
            .rev()
            .take(8)
            .map(|checkpoint| proto::Checkpoint {
                sequence: checkpoint.sequence.0,
                hash: checkpoint.running_hash,
            })
            .collect()
    }

    fn hear(&self, member: u64, life: u64, checkpoints: &[proto::Checkpoint]) {
        let told = checkpoints.iter();
        let told = told.map(|told| Checkpoint { sequence: Sequence(told.sequence), running_hash: told.hash });
        self.checkpoints.told(member, life, told);
    }

    /// Compares what the members told; stops this one if a majority contradicts it, and trading if there is none.
    pub(crate) fn judge(&self) {
        let (confirmed, verdict) = self.checkpoints.judge(self.own_id(), &self.voter_sets());
        if let Some(confirmed) = confirmed {
            (self.hooks.confirmed)(confirmed);
        }
        if let Some(verdict) = verdict
            && !self.halted.swap(true, Ordering::AcqRel)
        {
            let leader = self.network.lead.leader();
            self.network.lead.set(&LeadState { term: None, leader });
            (self.hooks.diverged)(&verdict);
        }
    }

    /// Whether an answer is that of the member who was asked.
    pub(crate) fn is_from(&self, peer: u64, answer: &proto::StatusAnswer) -> bool {
        let own = &self.network.identity;
        answer.sender.as_ref().is_some_and(|sender| {
            sender.member == peer
                && sender.cluster.as_ref() == own.cluster.to_be_bytes()
                && sender.incarnation == own.incarnation
        })
    }

    /// Takes what another member answered.
    pub(crate) async fn learn(&self, peer: u64, answer: proto::StatusAnswer) {
        self.hear(peer, answer.life, &answer.checkpoints);
        (self.hooks.told_secret)(&answer.secret);
        if self.memory.is_forgetful() {
            let term = answer.vote.as_ref().map_or(0, |vote| vote.term);
            let last = answer.last.as_ref().map(super::types::log_id_from_proto);
            self.memory.told(peer, Told { term, last, leads: answer.leads });
        }
        if answer.forgetful {
            self.forget_acknowledgements_of(peer, answer.life).await;
        }
        {
            let mut peers = lock(&self.peers);
            let view = peers.entry(peer).or_default();
            (view.heard, view.answer, view.trouble) = (Some(Instant::now()), Some(answer), None);
        }
        self.judge();
        self.mend().await;
    }

    /// Ends the forgetfulness if it can be.
    pub(crate) async fn mend(&self) {
        if !self.memory.is_forgetful() {
            if self.memory.reached(self.store.last())
                && self.store.change_record(Box::new(|record| record.floor = None)).await.is_ok()
            {
                tracing::info!("the log has reached what it once may have held: this member may lead again");
            }
            return;
        }
        let membership = self.membership();
        let own = self.own_id();
        if membership.voter_ids().next().is_none() {
            return;
        }
        let others: Vec<u64> = membership.voter_ids().filter(|voter| *voter != own).collect();
        let metrics = self.metrics();
        let committed = metrics.local_committed.as_ref().map(|id| id.index);
        let leader_term = metrics.vote.committed.then_some(metrics.vote.leader_id.term);
        let forgot_votes = self.memory.forgot_votes();
        let Some(mended) = self.memory.mend(&others, self.store.last(), committed, leader_term) else {
            return;
        };
        let changed = self.store.change_record(Box::new(move |record| {
            record.forgetful = false;
            record.vote_forgotten = false;
            record.floor = match mended {
                Mended::ByVoters { floor, .. } => floor,
                Mended::ByLeader => None,
            };
            if let Mended::ByVoters { term, .. } = mended
                && record.vote.is_none_or(|vote| vote.leader_id.term < term)
            {
                record.vote = Some(Vote::new(term, record.member.0));
            }
        }));
        if changed.await.is_ok() {
            tracing::info!(?mended, "what this member lost can't be missed any more: it votes again");
            if forgot_votes && matches!(mended, Mended::ByVoters { .. }) {
                // The library has its vote from the file, at a start.
                self.restart();
            }
        }
    }
}

/// Proposes what the leader's ring gives, in its order.
async fn propose(node: Arc<Node>, mut proposals: ProposalReceiver) {
    let settled = proposals.settled();
    while let Some(Proposal { term, frames }) = proposals.next().await {
        // Counted off when this is dropped, whatever becomes of it.
        let counted = Counted {
            proposed: Instant::now(),
            hooks: Arc::clone(&node.hooks),
            settled: settled.clone(),
            reign: term,
            refused: Arc::clone(&node.refused),
        };
        if !node.may_propose(term).await {
            continue;
        }
        let count = match journaler::count_frames(&frames) {
            Ok(count) => count,
            Err(error) => {
                tracing::error!(%error, "the proposer's frames are none");
                continue;
            }
        };
        let frames = Frames { first_sequence: Sequence(0), count, bytes: frames };
        if node.raft.client_write_ff(frames, Some(counted)).await.is_err() {
            return;
        }
    }
}

/// Keeps the rest of the process right about leadership, and ends it with the library.
async fn follow_leadership(node: Arc<Node>) {
    let mut metrics = node.raft.metrics();
    let look_every = (node.network.lease / 4).max(Duration::from_millis(2));
    loop {
        node.tell_leadership();
        node.watch_disk();
        let fatal = metrics.borrow_watched().running_state.clone().err();
        if let Some(error) = fatal {
            node.network.lead.set(&LeadState::default());
            (node.hooks.fatal)(&format!("the consensus has ended: {error}"));
            return;
        }
        let changed = tokio::time::timeout(look_every, metrics.changed());
        if let Ok(Err(_)) = changed.await {
            return;
        }
    }
}

/// Lets go of what neither this member's start nor another's catching up needs.
async fn retain(node: Arc<Node>) {
    let mut purged_to = 0;
    loop {
        tokio::time::sleep(RETENTION_EVERY).await;
        let needed_from = Sequence(node.needed_from.load(Ordering::Acquire));
        if needed_from.0 <= purged_to + 1 {
            continue;
        }
        let before = Sequence(needed_from.0 - 1);
        let Ok((Some(id), sequence)) = node.store.clone().entry_at(before) else { continue };
        // The library purges no further than the newest snapshot that it knows.
        if node.raft.trigger().snapshot().await.is_err()
            || node.raft.trigger().purge_log(id.index).await.is_err()
        {
            return;
        }
        let purged = node.metrics().purged;
        if purged.is_some_and(|purged| purged >= id) && node.store.prune(sequence.next()).is_ok() {
            purged_to = sequence.0;
        }
    }
}

//! The library's types, filled in for us, and their way into and out of the members' messages. It must not hold a rule.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use openraft::impls::{BoxedErrorSource, InlineBatch, leader_id_std};
use openraft::raft::ClientWriteResult;
use openraft::raft::responder::Responder;
use openraft::{EntryPayload, RaftTypeConfig, vote};
use openraft_rt::deterministic_rng::DeterministicRng;
use openraft_rt_tokio::TokioRuntime;
use prost::Message;
use protocol::{Sequence, Term};
use tokio::time::Instant;

use super::Hooks;
use crate::lead::Settled;
use crate::member::{Member, MemberId};
use crate::proto;

/// The tokio runtime with the library's random numbers from a seed, which a simulation chooses.
pub(crate) type Runtime = DeterministicRng<TokioRuntime>;
pub(crate) type LeaderId = leader_id_std::LeaderId<u64, u64>;
pub(crate) type CommittedLeaderId = <LeaderId as vote::RaftLeaderId>::Committed;
pub(crate) type LogId = openraft::LogId<CommittedLeaderId>;
pub(crate) type Vote = openraft::Vote<LeaderId>;
pub(crate) type Payload = EntryPayload<Frames, u64, Member>;
pub(crate) type Entry = openraft::Entry<CommittedLeaderId, Payload>;
pub(crate) type Membership = openraft::Membership<u64, Member>;
pub(crate) type StoredMembership = openraft::StoredMembership<CommittedLeaderId, u64, Member>;
pub(crate) type SnapshotMeta = openraft::SnapshotMeta<CommittedLeaderId, u64, Member>;

/// What the library is configured with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Types;

impl RaftTypeConfig for Types {
    type D = Frames;
    type R = ();
    type NodeId = u64;
    type Node = Member;
    type Term = u64;
    type LeaderId = LeaderId;
    type Vote = Vote;
    type Payload = Payload;
    type Entry = Entry;
    type AsyncRuntime = Runtime;
    type Responder<T>
        = Counted
    where
        T: openraft::OptionalSend + 'static;
    type Batch<T>
        = InlineBatch<T>
    where
        T: openraft::OptionalSend + 'static;
    type ErrorSource = BoxedErrorSource;
}

/// The frames of an entry.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Frames {
    /// Of the first one; 0 until the log store has given the entry its place.
    pub(crate) first_sequence: Sequence,
    /// How many.
    pub(crate) count: u64,
    /// Whole frames, each padded to whole slots.
    pub(crate) bytes: Bytes,
}

impl fmt::Debug for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} frames from {} on", self.count, self.first_sequence)
    }
}

impl fmt::Display for Frames {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// Counts a proposal off when the library is done with it, however it ends. One that is refused is never in the log, so that
/// its reign must end: what comes behind it would take effect without it.
pub(crate) struct Counted {
    pub(crate) proposed: Instant,
    pub(crate) hooks: Arc<Hooks>,
    pub(crate) settled: Settled,
    pub(crate) reign: Term,
    /// The last reign that a proposal was refused in.
    pub(crate) refused: Arc<AtomicU64>,
}

impl<T: 'static> Responder<Types, T> for Counted {
    fn on_complete(self, result: T) {
        let result: &dyn Any = &result;
        match result.downcast_ref::<ClientWriteResult<Types>>() {
            Some(Ok(_)) => (self.hooks.commit_took)(self.proposed.elapsed()),
            Some(Err(error)) => {
                tracing::warn!(%error, "frames were refused by the consensus: their sessions are closed");
                // Relaxed: it orders nothing else; whoever looks a moment later ends the reign then.
                self.refused.fetch_max(self.reign.0, Ordering::Relaxed);
            }
            None => {}
        }
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.settled.one();
    }
}

pub(crate) fn log_id(term: u64, index: u64) -> LogId {
    LogId::new(CommittedLeaderId::new(term), index)
}

/// The term of an entry.
pub(crate) fn term_of(id: &LogId) -> u64 {
    *id.leader_id
}

pub(crate) fn log_id_to_proto(id: &LogId) -> proto::LogId {
    proto::LogId { term: term_of(id), index: id.index }
}

pub(crate) fn log_id_from_proto(id: &proto::LogId) -> LogId {
    log_id(id.term, id.index)
}

pub(crate) fn vote_to_proto(vote: &Vote) -> proto::VoteState {
    proto::VoteState {
        term: vote.leader_id.term,
        voted_for: vote.leader_id.voted_for,
        committed: vote.committed,
    }
}

pub(crate) fn vote_from_proto(vote: &proto::VoteState) -> Vote {
    Vote { leader_id: LeaderId { term: vote.term, voted_for: vote.voted_for }, committed: vote.committed }
}

pub(crate) fn member_to_proto(member: &Member) -> proto::Member {
    proto::Member {
        id: member.id.0,
        address: member.address.clone(),
        client_address: member.client_address.clone(),
        zone: member.zone.clone(),
    }
}

pub(crate) fn member_from_proto(member: proto::Member) -> Member {
    Member {
        id: MemberId(member.id),
        address: member.address,
        client_address: member.client_address,
        zone: member.zone,
    }
}

/// A membership as the journal holds it.
pub(crate) fn encode_membership(membership: &Membership) -> Vec<u8> {
    let configs = membership.get_joint_config().iter();
    let configs = configs.map(|set| proto::membership::VoterSet { voters: set.iter().copied().collect() });
    let members = membership.nodes().map(|(_, member)| member_to_proto(member));
    proto::Membership { configs: configs.collect(), members: members.collect() }.encode_to_vec()
}

/// A membership out of the journal or a message.
///
/// # Errors
/// What is wrong with the bytes.
pub(crate) fn decode_membership(bytes: &[u8]) -> Result<Membership, String> {
    let decoded = proto::Membership::decode(bytes).map_err(|error| format!("a membership: {error}"))?;
    let configs: Vec<BTreeSet<u64>> =
        decoded.configs.into_iter().map(|set| set.voters.into_iter().collect()).collect();
    let members: BTreeMap<u64, Member> =
        decoded.members.into_iter().map(|member| (member.id, member_from_proto(member))).collect();
    Membership::new(configs, members).map_err(|error| format!("a membership: {error}"))
}

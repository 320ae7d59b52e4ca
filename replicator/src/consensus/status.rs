//! A cluster as one of its members sees it, for people and dashboards.

use serde::Serialize;

use super::node::{Node, lock};
use super::types::term_of;
use crate::member::{Member, MemberId};
use crate::proto;

/// What a member's binary understands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Versions {
    /// Of the program.
    pub binary: String,
    /// Of the journal's format.
    pub journal: u32,
    /// Of the rules.
    pub rulebook: u32,
}

impl Versions {
    pub(crate) fn to_proto(&self) -> proto::Versions {
        proto::Versions { binary: self.binary.clone(), journal: self.journal, rulebook: self.rulebook }
    }

    fn from_proto(versions: Option<&proto::Versions>) -> Self {
        versions.map_or_else(Self::default, |versions| Self {
            binary: versions.binary.clone(),
            journal: versions.journal,
            rulebook: versions.rulebook,
        })
    }
}

/// What a member does in its cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum MemberRole {
    /// Takes orders.
    Leader,
    /// Has a vote and follows.
    Follower,
    /// Wants to lead.
    Candidate,
    /// Follows without a vote.
    Learner,
    /// In no cluster yet.
    Blank,
}

/// Another member, or this one, as this one sees it.
#[derive(Clone, Debug, Serialize)]
pub struct MemberStatus {
    /// Who and where.
    #[serde(flatten)]
    pub member: Member,
    /// Whether it has a vote.
    pub voter: bool,
    /// Whether it answered lately.
    pub reachable: bool,
    /// Why not.
    pub trouble: Option<String>,
    /// Its last entry.
    pub last_index: Option<u64>,
    /// The last entry that it has applied.
    pub applied_index: Option<u64>,
    /// Entries of the leader's log that it lacks.
    pub lag_entries: Option<u64>,
    /// It lost a part of its log and does not vote yet.
    pub forgetful: bool,
    /// What it runs.
    pub versions: Versions,
    /// Bytes of a snapshot that arrives there, and of all of it.
    pub catching_up: Option<(u64, u64)>,
}

/// A cluster as one member sees it.
#[derive(Clone, Debug, Serialize)]
pub struct ClusterStatus {
    /// This member.
    pub member: MemberId,
    /// The cluster's id.
    pub cluster: String,
    /// Rises when a lost quorum was given up.
    pub incarnation: u32,
    /// What this member does.
    pub role: MemberRole,
    /// The current term.
    pub term: u64,
    /// Who leads, as far as is known.
    pub leader: Option<Member>,
    /// This member leads, takes frames, and a quorum confirmed it.
    pub confirmed: bool,
    /// It lost a part of its log and does not vote yet.
    pub forgetful: bool,
    /// The last entry here.
    pub last_index: Option<u64>,
    /// The last entry known to be committed.
    pub committed_index: Option<u64>,
    /// The last entry applied here.
    pub applied_index: Option<u64>,
    /// It was removed from the cluster, as its log or a leader says.
    pub removed: bool,
    /// How long the oldest committed entry has been waiting for this member's own disk, in milliseconds.
    pub disk_lag_ms: u64,
    /// Whether that disk is nearly full.
    pub disk_low: bool,
    /// `quorum` or `memory`.
    pub durability: &'static str,
    /// All members.
    pub members: Vec<MemberStatus>,
}

impl Node {
    /// What there is to say.
    pub(crate) fn status(&self, durability: &'static str) -> ClusterStatus {
        let metrics = self.metrics();
        let membership = self.membership();
        let voters: Vec<u64> = membership.voter_ids().collect();
        let own = self.own_id();
        let last_index = self.store.last().map(|id| id.index);
        let applied_index = self.applied().id.map(|id| id.index);
        let role = match metrics.state {
            openraft::ServerState::Leader => MemberRole::Leader,
            openraft::ServerState::Candidate => MemberRole::Candidate,
            openraft::ServerState::Follower => MemberRole::Follower,
            _ => MemberRole::Learner,
        };
        // The leader's log, as far as is known: the longest that any member tells of.
        let known = lock(&self.peers);
        let told =
            known.values().filter_map(|view| view.answer.as_ref()?.last.as_ref().map(|last| last.index));
        let longest = told.chain(last_index).max();
        drop(known);
        let members = membership.nodes().map(|(id, member)| {
            let voter = voters.contains(id);
            if *id == own {
                return MemberStatus {
                    member: member.clone(),
                    voter,
                    reachable: true,
                    trouble: None,
                    last_index,
                    applied_index,
                    lag_entries: longest.map(|longest| longest.saturating_sub(last_index.unwrap_or(0))),
                    forgetful: self.memory.is_forgetful(),
                    versions: Versions::from_proto(Some(&self.network.identity.versions)),
                    catching_up: None,
                };
            }
            self.peer_status(*id, member, voter, longest)
        });
        let (disk_lag, disk_low) = self.disk_state();
        ClusterStatus {
            member: MemberId(own),
            cluster: format!("{:032x}", self.network.identity.cluster),
            incarnation: self.network.identity.incarnation,
            role,
            term: metrics.current_term,
            leader: metrics.current_leader.and_then(|leader| self.member(leader)),
            confirmed: self.network.lead.is_confirmed(),
            forgetful: self.memory.is_forgetful(),
            last_index,
            committed_index: metrics.local_committed.as_ref().map(|id| id.index),
            applied_index,
            removed: self.is_removed(),
            disk_lag_ms: u64::try_from(disk_lag.as_millis()).unwrap_or(u64::MAX),
            disk_low,
            durability,
            members: members.collect(),
        }
    }

    /// Whether this member is none any more. It may not have heard that from the log, since a leader sends it nothing then.
    fn is_removed(&self) -> bool {
        let membership = self.membership();
        let has_members = membership.nodes().next().is_some();
        let told = lock(&self.peers)
            .values()
            .any(|view| view.answer.as_ref().is_some_and(|answer| answer.leads && answer.asker_unknown));
        (has_members && membership.get_node(&self.own_id()).is_none()) || told
    }

    fn peer_status(&self, id: u64, member: &Member, voter: bool, longest: Option<u64>) -> MemberStatus {
        let view = lock(&self.peers).get(&id).cloned().unwrap_or_default();
        let answer = view.answer.unwrap_or_default();
        let index = |id: &Option<proto::LogId>| id.as_ref().map(|id| id.index);
        let theirs = index(&answer.last);
        let sending = lock(&self.network.transfers).get(&id).copied();
        let arriving =
            (answer.incoming_bytes_total > 0).then_some((answer.incoming_bytes, answer.incoming_bytes_total));
        MemberStatus {
            member: member.clone(),
            voter,
            reachable: view.trouble.is_none() && view.heard.is_some(),
            trouble: view.trouble,
            last_index: theirs,
            applied_index: index(&answer.applied),
            lag_entries: longest.map(|longest| longest.saturating_sub(theirs.unwrap_or(0))),
            forgetful: answer.forgetful,
            versions: Versions::from_proto(
                answer.sender.as_ref().and_then(|sender| sender.versions.as_ref()),
            ),
            catching_up: sending.or(arriving),
        }
    }

    /// Whether another member answered lately and has all that it acknowledged.
    pub(crate) fn is_sound(&self, id: u64) -> bool {
        let view = lock(&self.peers).get(&id).cloned().unwrap_or_default();
        view.trouble.is_none() && view.answer.is_some_and(|answer| !answer.forgetful)
    }

    /// The log's end at another member, as it last told.
    pub(crate) fn known_end(&self, id: u64) -> Option<(u64, u64)> {
        let answer = lock(&self.peers).get(&id)?.answer.clone()?;
        answer.last.as_ref().map(super::types::log_id_from_proto).map(|id| (term_of(&id), id.index))
    }
}

//! The cluster as administration sees it: what a member says of it, and what operators want of it. It must not decide
//! anything: the consensus does.

use std::sync::Arc;

use replicator::{Blank, Cluster, ClusterStatus, Member, MemberId, MemberRole, Transport};
use serde::{Deserialize, Serialize};

/// What an operator wants, as the HTTP port takes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum Wish {
    /// Found a cluster of the members that the configuration names.
    Init {
        /// Even if the layout is unsafe.
        force: bool,
    },
    /// Add a member without a vote, or give one other addresses.
    Add(Member),
    /// Give a member a vote.
    Promote(Change),
    /// Take a member its vote.
    Demote(Change),
    /// Remove a member.
    Remove(Change),
    /// Hand leadership over: to this member, or to the one that is furthest.
    HandOver {
        /// Who shall lead.
        to: Option<MemberId>,
    },
}

/// A member, and whether an unsafe layout is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Which one.
    pub member: MemberId,
    /// Even if what remains is unsafe.
    pub force: bool,
}

/// How this member stands to its cluster. Clones are the same.
#[derive(Clone)]
pub enum Membership {
    /// It is in none yet.
    Blank(Arc<Founder>),
    /// It is in one.
    Member(Cluster),
}

/// A member that may found a cluster.
pub struct Founder {
    /// The consensus before there is one.
    pub blank: Blank,
    /// How the others are reached.
    pub transport: Arc<dyn Transport>,
    /// This member.
    pub member: Member,
    /// All founders, from the configuration.
    pub members: Vec<Member>,
    /// `quorum` or `memory`.
    pub durability: &'static str,
}

impl Membership {
    /// Does what is wanted; says what was done.
    ///
    /// # Errors
    /// Why not, and what to do.
    pub async fn fulfil(&self, wish: Wish) -> Result<String, String> {
        match (self, wish) {
            (Self::Blank(founder), Wish::Init { force }) => founder.found(force).await,
            (Self::Blank(founder), _) => Err(format!(
                "member {} is in no cluster yet: found one with `ringpit cluster init`, or ask a member of the cluster that it \
                 is to be added to",
                founder.member.id
            )),
            (Self::Member(cluster), Wish::Init { .. }) => {
                let status = cluster.status();
                Ok(format!("member {} is in cluster {} already", status.member, status.cluster))
            }
            (Self::Member(cluster), Wish::Add(member)) => cluster.add(&member).await,
            (Self::Member(cluster), Wish::Promote(change)) => {
                cluster.promote(change.member, change.force).await
            }
            (Self::Member(cluster), Wish::Demote(change)) => {
                cluster.demote(change.member, change.force).await
            }
            (Self::Member(cluster), Wish::Remove(change)) => {
                cluster.remove(change.member, change.force).await
            }
            (Self::Member(cluster), Wish::HandOver { to }) => cluster.hand_over(to).await,
        }
    }

    /// The cluster as this member sees it.
    #[must_use]
    pub fn status(&self) -> ClusterStatus {
        match self {
            Self::Member(cluster) => cluster.status(),
            Self::Blank(founder) => founder.status(),
        }
    }
}

impl Founder {
    async fn found(&self, force: bool) -> Result<String, String> {
        if self.members.is_empty() {
            return Err("cluster.members of the configuration names no founders; a member that is added to a running \
                        cluster is not founded: use `ringpit cluster add` on one of its members"
                .to_owned());
        }
        self.blank.found(&self.members, force, &self.transport).await.map_err(|error| error.to_string())
    }

    fn status(&self) -> ClusterStatus {
        ClusterStatus {
            member: self.member.id,
            cluster: String::new(),
            incarnation: 0,
            role: MemberRole::Blank,
            term: 0,
            leader: None,
            confirmed: false,
            forgetful: false,
            last_index: None,
            committed_index: None,
            applied_index: None,
            removed: false,
            disk_lag_ms: 0,
            disk_low: false,
            durability: self.durability,
            members: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Commands of another version of the program may send them.
    #[test]
    fn wishes_keep_their_form() {
        let check = |wish: Wish, text: &str| {
            assert_eq!(serde_json::to_string(&wish).expect("text"), text);
            assert_eq!(serde_json::from_str::<Wish>(text).expect("a wish"), wish);
        };
        let change = Change { member: MemberId(3), force: true };
        check(Wish::Init { force: false }, r#"{"init":{"force":false}}"#);
        check(Wish::Promote(change), r#"{"promote":{"member":3,"force":true}}"#);
        check(Wish::Remove(change), r#"{"remove":{"member":3,"force":true}}"#);
        check(Wish::HandOver { to: None }, r#"{"hand-over":{"to":null}}"#);
        let member = Member {
            id: MemberId(4),
            address: "a:1".to_owned(),
            client_address: "a:2".to_owned(),
            zone: String::new(),
        };
        check(Wish::Add(member), r#"{"add":{"id":4,"address":"a:1","client_address":"a:2","zone":""}}"#);
        assert!(serde_json::from_str::<Wish>(r#"{"promote":{"member":3,"force":true,"now":1}}"#).is_err());
    }
}

//! Changes of the membership and of the leader, each safe to repeat. A member that doesn't lead passes a wish on to the
//! leader. It must not let an unsafe layout through without being forced.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use openraft::ChangeMembers;
use openraft::errors::RaftError;
use tokio::time::Instant;

use super::layout;
use super::node::Node;
use super::peers::Peer;
use super::types::{member_from_proto, member_to_proto};
use crate::member::{Member, MemberId};
use crate::proto::{self, admin::Wish, request, response};

/// How far behind a member may be that gets a vote: it catches up while the change is agreed upon.
const PROMOTION_LAG_MAX: u64 = 1_000;
/// How long a change of membership or leader may take.
const CHANGE_DEADLINE: Duration = Duration::from_secs(10);
/// How long a new leader's end is waited for before leadership is handed to it.
const HAND_OVER_DEADLINE: Duration = Duration::from_secs(1);

impl Node {
    /// Does what an operator wants, here if this member leads.
    pub(crate) async fn admin(self: &Arc<Self>, wish: proto::Admin) -> proto::AdminAnswer {
        let Some(wish) = wish.wish else {
            return proto::AdminAnswer { refused: "a wish for nothing".into(), done: String::new() };
        };
        match self.fulfil(wish).await {
            Ok(done) => proto::AdminAnswer { refused: String::new(), done },
            Err(refused) => proto::AdminAnswer { refused, done: String::new() },
        }
    }

    /// As [`admin`](Self::admin), passed on to the leader if that is another.
    pub(crate) async fn wish(self: &Arc<Self>, wish: Wish) -> Result<String, String> {
        let leader = self.metrics().current_leader;
        let Some(leader) = leader else {
            return Err(
                "there is no leader now: see `ringpit cluster status`, and try again when there is one"
                    .into(),
            );
        };
        if leader == self.own_id() {
            return self.fulfil(wish).await;
        }
        self.pass_on(leader, wish).await
    }

    /// Asks the leader, which is another member.
    async fn pass_on(self: &Arc<Self>, leader: u64, wish: Wish) -> Result<String, String> {
        let Some(member) = self.member(leader) else { return Err("the leader is not a member".into()) };
        let mut peer = Peer::new(Arc::clone(&self.network), member);
        let admin = proto::Admin { wish: Some(wish) };
        match peer.call(request::Body::Admin(admin), Vec::new(), CHANGE_DEADLINE).await {
            Ok(response::Body::Admin(answer)) if answer.refused.is_empty() => Ok(answer.done),
            Ok(response::Body::Admin(answer)) => Err(answer.refused),
            Ok(_) => Err("the leader answered another question".into()),
            Err(error) => Err(format!("the leader, member {leader}: {}", error.reason())),
        }
    }

    async fn fulfil(self: &Arc<Self>, wish: Wish) -> Result<String, String> {
        let work = async {
            match wish {
                Wish::Add(member) => self.add(member_from_proto(member)).await,
                Wish::Promote(change) => self.promote(change.member, change.force).await,
                Wish::Demote(change) => self.demote(change.member, change.force).await,
                Wish::Remove(change) => self.remove(change.member, change.force).await,
                Wish::HandOver(change) => self.hand_leadership(change.member).await,
            }
        };
        match tokio::time::timeout(CHANGE_DEADLINE, work).await {
            Ok(outcome) => outcome,
            Err(_) => Err(format!(
                "not agreed upon within {CHANGE_DEADLINE:?}; see `ringpit cluster status`, and repeat"
            )),
        }
    }

    fn voters(&self) -> BTreeSet<u64> {
        self.membership().voter_ids().collect()
    }

    fn check_layout(&self, voters: &BTreeSet<u64>, force: bool) -> Result<(), String> {
        let membership = self.membership();
        let members: Vec<Member> = voters.iter().filter_map(|id| membership.get_node(id).cloned()).collect();
        match layout::objection(&members) {
            Some(objection) if !force => Err(format!("{objection}; --force does it all the same")),
            _ => Ok(()),
        }
    }

    /// Whether enough of these voters are heard of to go on, and know what they voted.
    fn check_quorum(&self, voters: &BTreeSet<u64>) -> Result<(), String> {
        let own = self.own_id();
        let silent: Vec<u64> =
            voters.iter().copied().filter(|voter| *voter != own && !self.is_sound(*voter)).collect();
        if voters.len() - silent.len() > voters.len() / 2 {
            return Ok(());
        }
        Err(format!(
            "of the {} voters that there would be, {silent:?} are not heard of or lost a part of their log: no quorum would \
             be left. Bring them back first",
            voters.len()
        ))
    }

    async fn change(&self, change: ChangeMembers<u64, Member>, retain: bool) -> Result<(), String> {
        match self.raft.change_membership(change, retain).await {
            Ok(_) => Ok(()),
            Err(RaftError::APIError(error)) => Err(error.to_string()),
            Err(RaftError::Fatal(error)) => Err(error.to_string()),
        }
    }

    async fn add(&self, member: Member) -> Result<String, String> {
        let id = member.id;
        if id.0 == 0 || member.address.is_empty() || member.client_address.is_empty() {
            return Err("a member needs a number above 0, an address for members and one for clients".into());
        }
        let membership = self.membership();
        if let Some((other, _)) =
            membership.nodes().find(|(other, known)| **other != id.0 && known.address == member.address)
        {
            return Err(format!("member {other} is at {} already", member.address));
        }
        if let Some((other, _)) = membership
            .nodes()
            .find(|(other, known)| **other != id.0 && known.client_address == member.client_address)
        {
            return Err(format!("clients of member {other} connect to {} already", member.client_address));
        }
        match membership.get_node(&id.0) {
            Some(known) if *known == member => Ok(format!("member {id} is there already")),
            Some(_) => {
                let nodes = BTreeMap::from([(id.0, member)]);
                self.change(ChangeMembers::SetNodes(nodes), true).await?;
                Ok(format!("member {id} has its new addresses"))
            }
            None => {
                self.change(ChangeMembers::AddNodes(BTreeMap::from([(id.0, member)])), true).await?;
                Ok(format!(
                    "member {id} was added as a learner; it catches up now, and `ringpit cluster promote {id}` gives it a vote"
                ))
            }
        }
    }

    async fn promote(&self, id: u64, force: bool) -> Result<String, String> {
        let membership = self.membership();
        if membership.get_node(&id).is_none() {
            return Err(format!("there is no member {id}: add it first"));
        }
        let mut voters = self.voters();
        if !voters.insert(id) {
            return Ok(format!("member {id} has a vote already"));
        }
        let own = self.store.last().map_or(0, |last| last.index);
        match self.known_end(id) {
            Some((_, index)) if own.saturating_sub(index) <= PROMOTION_LAG_MAX => {}
            Some((_, index)) => {
                return Err(format!(
                    "member {id} still lacks {} entries: wait until it has caught up",
                    own - index
                ));
            }
            None => {
                return Err(format!(
                    "member {id} has not been heard of yet: start it, and wait until it has caught up"
                ));
            }
        }
        self.check_layout(&voters, force)?;
        // An even number may be wanted for a moment; voters that are not there, never.
        self.check_quorum(&voters)?;
        self.change(ChangeMembers::AddVoterIds(BTreeSet::from([id])), true).await?;
        Ok(format!("member {id} has a vote"))
    }

    async fn demote(self: &Arc<Self>, id: u64, force: bool) -> Result<String, String> {
        let mut voters = self.voters();
        if !voters.remove(&id) {
            return Ok(format!("member {id} has no vote already"));
        }
        check_last(id, &voters)?;
        self.check_layout(&voters, force)?;
        if !force {
            self.check_quorum(&voters)?;
        }
        if let Some(leader) = self.give_up_leadership(id).await? {
            let wish = Wish::Demote(proto::Change { member: id, force });
            return self.pass_on(leader, wish).await;
        }
        self.change(ChangeMembers::RemoveVoters(BTreeSet::from([id])), true).await?;
        Ok(format!("member {id} is a learner"))
    }

    async fn remove(self: &Arc<Self>, id: u64, force: bool) -> Result<String, String> {
        if self.membership().get_node(&id).is_none() {
            return Ok(format!("there is no member {id}"));
        }
        let mut voters = self.voters();
        if voters.remove(&id) {
            check_last(id, &voters)?;
            self.check_layout(&voters, force)?;
            if !force {
                self.check_quorum(&voters)?;
            }
            if let Some(leader) = self.give_up_leadership(id).await? {
                let wish = Wish::Remove(proto::Change { member: id, force });
                return self.pass_on(leader, wish).await;
            }
            self.change(ChangeMembers::RemoveVoters(BTreeSet::from([id])), false).await?;
        } else {
            self.change(ChangeMembers::RemoveNodes(BTreeSet::from([id])), false).await?;
        }
        Ok(format!("member {id} was removed: stop it, and don't start it again with this data directory"))
    }

    /// A leader is not taken its vote: it hands leadership over first. Gives the new leader where it did.
    async fn give_up_leadership(&self, id: u64) -> Result<Option<u64>, String> {
        if id != self.own_id() || self.voters().len() < 2 {
            return Ok(None);
        }
        self.hand_leadership(0).await?;
        Ok(self.metrics().current_leader.filter(|leader| *leader != id))
    }

    /// Hands leadership to `to`, or to whoever is furthest if that is 0.
    pub(crate) async fn hand_leadership(&self, to: u64) -> Result<String, String> {
        let own = self.own_id();
        if !self.raft.is_leader() {
            return Err("this member does not lead".into());
        }
        if to == own {
            return Ok(format!("member {own} leads already"));
        }
        let voters = self.voters();
        let to = match to {
            0 => {
                let others = voters.iter().filter(|voter| **voter != own);
                let known = others.filter_map(|voter| Some((self.known_end(*voter)?, *voter)));
                known.max().map(|(_, voter)| voter).ok_or("no other voter was heard of")?
            }
            to if voters.contains(&to) => to,
            to => return Err(format!("member {to} has no vote")),
        };
        self.hand_over(Some(to));
        let outcome = self.transfer_to(to).await;
        if outcome.is_err() && self.raft.is_leader() {
            // A request to take over that is still on its way lets its member stand at once, which no quorum's word rules
            // out: nothing is taken or answered until it can't come any more.
            tokio::time::sleep(self.timing.status_deadline() + self.timing.election_max).await;
        }
        self.hand_over(None);
        outcome.map(|()| format!("member {to} leads"))
    }

    async fn transfer_to(&self, to: u64) -> Result<(), String> {
        let asked = Instant::now();
        let mut triggered = None;
        loop {
            let metrics = self.metrics();
            if metrics.current_leader == Some(to) {
                return Ok(());
            }
            if !self.raft.is_leader() && metrics.current_leader.is_some() {
                return Err("another member became the leader meanwhile".into());
            }
            let last = self.store.last();
            let matched = metrics.replication.as_ref().and_then(|all| all.get(&to).copied().flatten());
            // The library asks the other once; a refusal (its disk was behind) is answered by asking again.
            let again = triggered.is_none_or(|at: Instant| at.elapsed() > self.timing.election_min);
            if matched == last && again && self.raft.is_leader() {
                self.raft.trigger().transfer_leader(to).await.map_err(|error| error.to_string())?;
                triggered = Some(Instant::now());
            }
            if asked.elapsed() > HAND_OVER_DEADLINE {
                return Err(format!("member {to} did not take over within {HAND_OVER_DEADLINE:?}"));
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

/// Without a voter there is no cluster, whatever is forced.
fn check_last(id: u64, left: &BTreeSet<u64>) -> Result<(), String> {
    if left.is_empty() {
        return Err(format!(
            "member {id} is the only one with a vote: give another its vote first; to end the cluster, stop its members"
        ));
    }
    Ok(())
}

pub(crate) fn add(member: &Member) -> Wish {
    Wish::Add(member_to_proto(member))
}

pub(crate) fn change(member: MemberId, force: bool) -> proto::Change {
    proto::Change { member: member.0, force }
}

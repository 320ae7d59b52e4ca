//! What the members tell each other several times a second: where each is, and that it is there. It must not decide what follows
//! from it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;

use super::node::{Node, lock};
use super::peers::{CallError, Peer};
use crate::member::Member;
use crate::proto::{request, response};

/// How often members tell each other where they are.
const STATUS_EVERY: Duration = Duration::from_millis(100);
/// How soon a member is asked again whose connection broke, or that is the leader and does not answer.
const STATUS_AGAIN: Duration = Duration::from_millis(10);
/// How soon behind a connection's end: bounds what a member costs that closes each.
const CLOSED_PAUSE: Duration = Duration::from_millis(1);

/// One task for each other member, which tells it where this one is and hears the same.
pub(crate) async fn exchange_status(node: Arc<Node>) {
    let mut exchanges: BTreeMap<u64, (Member, tokio::task::AbortHandle)> = BTreeMap::new();
    let mut running = JoinSet::new();
    loop {
        let membership = node.membership();
        let own = node.own_id();
        *lock(&node.network.addresses) =
            membership.nodes().map(|(id, member)| (*id, member.clone())).collect();
        exchanges.retain(|id, (member, task)| {
            let stays = membership.get_node(id) == Some(member);
            if !stays {
                task.abort();
                lock(&node.peers).remove(id);
            }
            stays
        });
        for (id, member) in membership.nodes().filter(|(id, _)| **id != own) {
            exchanges.entry(*id).or_insert_with(|| {
                let task = running.spawn(exchange_with(Arc::clone(&node), member.clone()));
                (member.clone(), task)
            });
        }
        // A cluster of one has nobody to hear from.
        node.own_checkpoints();
        node.judge();
        node.mend().await;
        tokio::time::sleep(STATUS_EVERY).await;
    }
}

async fn exchange_with(node: Arc<Node>, member: Member) {
    let (id, address) = (member.id.0, member.address.clone());
    let mut peer = Peer::new(Arc::clone(&node.network), member);
    let mut life = None;
    loop {
        let status = request::Body::Status(node.status_for(id));
        let mut pause = STATUS_EVERY;
        match peer.call(status, Vec::new(), node.timing.status_deadline()).await {
            Ok(response::Body::Status(answer)) if node.is_from(id, &answer) => {
                if life.replace(answer.life).is_some_and(|before| before != answer.life) {
                    node.process_ended(id);
                }
                node.learn(id, answer).await;
            }
            Ok(response::Body::Status(_)) => {
                let trouble = format!("whoever answers at {} is not member {id} of this cluster", address);
                lock(&node.peers).entry(id).or_default().trouble = Some(trouble);
            }
            Ok(_) => {}
            Err(error) => {
                lock(&node.peers).entry(id).or_default().trouble = Some(error.reason());
                match error {
                    CallError::Unreachable(_) => node.process_ended(id),
                    // A connection that broke may have been the process's end: the next one shows it.
                    CallError::Lost(_) => pause = STATUS_AGAIN,
                    CallError::Refused(_) | CallError::Late(_) => {}
                }
                if node.metrics().current_leader == Some(id) {
                    pause = STATUS_AGAIN;
                }
            }
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = peer.closed() => tokio::time::sleep(CLOSED_PAUSE).await,
        }
    }
}

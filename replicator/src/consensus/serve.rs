//! What a member answers to the others. A request from another cluster, from a version that can't be understood, or from
//! nobody who is known is refused in words. It must not decide anything that the library decides.

use std::sync::Arc;

use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, TransferLeaderRequest, VoteRequest};
use prost::Message;
use protocol::Sequence;
use tokio::time::Instant;

use super::node::Node;
use super::snapshot::{Incoming, Piece};
use super::types::{
    Entry, Frames, Payload, Types, decode_membership, log_id_from_proto, log_id_to_proto, vote_from_proto,
    vote_to_proto,
};
use crate::proto::{self, request, response};
use crate::transport::Envelope;

/// Answers one request.
pub(crate) async fn answer(node: &Arc<Node>, envelope: Envelope) -> Envelope {
    let body = match proto::Request::decode(envelope.control) {
        Err(error) => response::Body::Refused(format!("not a member's request: {error}")),
        Ok(proto::Request { sender: Some(sender), target, body: Some(body) }) => {
            match admit(node, &sender, target) {
                Err(why) => response::Body::Refused(why),
                Ok(()) => match dispatch(node, &sender, body, envelope.payloads).await {
                    Ok(body) => body,
                    Err(why) => response::Body::Refused(why),
                },
            }
        }
        Ok(_) => response::Body::Refused("a request without a sender or a body".into()),
    };
    Envelope { control: proto::Response { body: Some(body) }.encode_to_vec().into(), payloads: Vec::new() }
}

/// Whether the sender is one of ours.
fn admit(node: &Node, sender: &proto::Sender, target: u64) -> Result<(), String> {
    if target != node.own_id() {
        return Err(format!("this is member {}, not member {target}: a wrong address", node.own_id()));
    }
    if node.is_restarting() {
        return Err("this member starts again now".into());
    }
    let identity = &node.network.identity;
    let ours = identity.cluster.to_be_bytes();
    if !sender.cluster.is_empty() && sender.cluster.as_ref() != ours {
        let theirs: String = sender.cluster.iter().map(|byte| format!("{byte:02x}")).collect();
        return Err(format!(
            "member {} is of cluster {theirs}, this is {:032x}: a wrong address or data directory",
            sender.member, identity.cluster
        ));
    }
    if sender.incarnation != identity.incarnation && !sender.cluster.is_empty() {
        return Err(format!(
            "the cluster was rebuilt from a survivor (incarnation {} here, {} at member {}): members of the one that does \
             not go on must be wiped, and join again",
            identity.incarnation, sender.incarnation, sender.member
        ));
    }
    let journal = identity.versions.journal;
    match &sender.versions {
        Some(versions) if versions.journal == journal => Ok(()),
        Some(versions) => Err(format!(
            "member {} ({}) writes journal format {}, this one ({}) reads {journal}: bring both to one version",
            sender.member, versions.binary, versions.journal, identity.versions.binary
        )),
        None => Err(format!("member {} does not tell its version", sender.member)),
    }
}

async fn dispatch(
    node: &Arc<Node>,
    sender: &proto::Sender,
    body: request::Body,
    payloads: Vec<bytes::Bytes>,
) -> Result<response::Body, String> {
    Ok(match body {
        request::Body::Append(append) => {
            response::Body::Append(append_entries(node, append, payloads).await?)
        }
        request::Body::Vote(vote) => response::Body::Vote(vote_for(node, vote, false).await?),
        request::Body::PreVote(vote) => response::Body::Vote(vote_for(node, vote, true).await?),
        request::Body::TransferLeader(transfer) => {
            response::Body::TransferLeader(transfer_leader(node, transfer).await?)
        }
        request::Body::SnapshotOffer(offer) => response::Body::Snapshot(snapshot_offer(node, &offer).await?),
        request::Body::SnapshotPiece(piece) => {
            response::Body::Snapshot(snapshot_piece(node, &piece, payloads).await?)
        }
        request::Body::Found(found) => {
            let refused = if found.cluster.as_ref() == node.network.identity.cluster.to_be_bytes() {
                String::new()
            } else {
                format!("member {} is in a cluster already", node.network.identity.member)
            };
            response::Body::Found(proto::FoundAnswer { refused })
        }
        request::Body::Status(status) => response::Body::Status(node.status_answer(sender, &status).await),
        request::Body::Admin(admin) => response::Body::Admin(node.admin(admin).await),
    })
}

async fn append_entries(
    node: &Arc<Node>,
    append: proto::Append,
    payloads: Vec<bytes::Bytes>,
) -> Result<proto::Appended, String> {
    let vote = append.vote.as_ref().map(vote_from_proto).ok_or("an append without a vote")?;
    may_follow(node, vote.leader_id.term)?;
    let came = Instant::now();
    let request = AppendEntriesRequest::<Types> {
        vote,
        prev_log_id: append.previous.as_ref().map(log_id_from_proto),
        leader_commit: append.commit.as_ref().map(log_id_from_proto),
        entries: entries_from_proto(append.entries, payloads)?,
    };
    use proto::appended::{Outcome, PartialSuccess};
    let outcome = match node.raft.append_entries(request).await.map_err(|error| error.to_string())? {
        AppendEntriesResponse::Success => Outcome::Success(true),
        AppendEntriesResponse::PartialSuccess(up_to) => {
            Outcome::Partial(PartialSuccess { up_to: up_to.as_ref().map(log_id_to_proto) })
        }
        AppendEntriesResponse::Conflict => Outcome::Conflict(true),
        AppendEntriesResponse::HigherVote(vote) => Outcome::HigherVote(vote_to_proto(&vote)),
    };
    if !matches!(outcome, Outcome::HigherVote(_)) {
        node.leader_watch.heard(vote.leader_id.term, came);
    }
    Ok(proto::Appended { outcome: Some(outcome) })
}

/// A member that lost something follows only a leader that knows of it.
fn may_follow(node: &Node, term: u64) -> Result<(), String> {
    if node.memory.may_follow(term) {
        return Ok(());
    }
    Err("this member lost a part of its log: the leader must know that before it sends more".into())
}

fn entries_from_proto(
    heads: Vec<proto::EntryHead>,
    payloads: Vec<bytes::Bytes>,
) -> Result<Vec<Entry>, String> {
    let mut payloads = payloads.into_iter();
    let mut entries = Vec::with_capacity(heads.len());
    for head in heads {
        let log_id = head.log_id.as_ref().map(log_id_from_proto).ok_or("an entry without a place")?;
        let payload = match head.bytes {
            0 => bytes::Bytes::new(),
            length => payloads
                .next()
                .filter(|payload| payload.len() == length as usize)
                .ok_or("an entry without its bytes")?,
        };
        use proto::entry_head::Kind;
        let payload = match head.kind() {
            Kind::Blank => Payload::Blank,
            Kind::Frames => {
                let count = journaler::count_frames(&payload).map_err(|error| error.to_string())?;
                Payload::Normal(Frames { first_sequence: Sequence(0), count, bytes: payload })
            }
            Kind::Membership => Payload::Membership(decode_membership(&payload)?),
        };
        entries.push(Entry { log_id, payload });
    }
    Ok(entries)
}

async fn vote_for(node: &Arc<Node>, asked: proto::Vote, pre: bool) -> Result<proto::Voted, String> {
    let vote = asked.vote.as_ref().map(vote_from_proto).ok_or("a vote without a candidate")?;
    let last_log_id = asked.last.as_ref().map(log_id_from_proto);
    if !node.memory.may_vote_for(last_log_id) {
        // Neither yes nor a higher vote: to the candidate it is as if nobody had answered.
        return Err("this member lost a part of its log and does not vote until that is mended".into());
    }
    let request = VoteRequest::<Types> { vote, last_log_id, leadership_transfer: asked.leadership_transfer };
    let answered = if pre { node.raft.pre_vote(request).await } else { node.raft.vote(request).await };
    let answer = answered.map_err(|error| error.to_string())?;
    Ok(proto::Voted {
        vote: Some(vote_to_proto(&answer.vote)),
        last: answer.last_log_id.as_ref().map(log_id_to_proto),
        granted: answer.vote_granted,
    })
}

async fn transfer_leader(
    node: &Arc<Node>,
    transfer: proto::TransferLeader,
) -> Result<proto::LeaderTransferred, String> {
    let from = transfer.from.as_ref().map(vote_from_proto).ok_or("a transfer without a leader")?;
    if !node.memory.may_vote_for(node.store.last()) {
        return Err("this member lost a part of its log and can't lead until that is mended".into());
    }
    let request =
        TransferLeaderRequest::<Types>::new(from, transfer.to, transfer.last.as_ref().map(log_id_from_proto));
    let refused = match node.raft.handle_transfer_leader(request).await {
        Ok(Ok(())) => String::new(),
        Ok(Err(refused)) => refused.to_string(),
        Err(error) => return Err(error.to_string()),
    };
    Ok(proto::LeaderTransferred { refused })
}

async fn snapshot_offer(
    node: &Arc<Node>,
    offer: &proto::SnapshotOffer,
) -> Result<proto::SnapshotAnswer, String> {
    use proto::snapshot_answer::State;
    let vote = offer.vote.as_ref().map(vote_from_proto).ok_or("an offer without a vote")?;
    may_follow(node, vote.leader_id.term)?;
    let own = node.current_vote();
    let meta = offer.meta.as_ref().ok_or("an offer without a snapshot")?;
    let offered = meta.last.as_ref().map(log_id_from_proto);
    let state = if vote < own || node.store.last() >= offered {
        State::Have
    } else {
        let incoming = Incoming::begin(&node.network.storage, offer).map_err(|error| error.to_string())?;
        let total: u64 = offer.files.iter().map(|file| file.bytes).sum();
        tracing::info!(bytes = total, sequence = meta.sequence, "a snapshot arrives");
        *node.incoming.lock().await = Some((incoming, total));
        State::Send
    };
    Ok(proto::SnapshotAnswer { vote: Some(vote_to_proto(&own)), state: state.into() })
}

async fn snapshot_piece(
    node: &Arc<Node>,
    piece: &proto::SnapshotPiece,
    payloads: Vec<bytes::Bytes>,
) -> Result<proto::SnapshotAnswer, String> {
    use proto::snapshot_answer::State;
    let own = Some(vote_to_proto(&node.current_vote()));
    let mut incoming = node.incoming.lock().await;
    let Some((arriving, _)) = incoming.as_mut() else {
        return Ok(proto::SnapshotAnswer { vote: own, state: State::Again.into() });
    };
    let bytes = payloads.into_iter().next().unwrap_or_default();
    let piece = Piece { file: piece.file, offset: piece.offset, last: piece.last, bytes };
    let state = match arriving.take(&node.network.storage, &piece) {
        Ok(false) => State::Send,
        Ok(true) => {
            *incoming = None;
            node.restart();
            State::Installing
        }
        Err(error) => {
            tracing::warn!(%error, "a snapshot did not arrive whole");
            *incoming = None;
            State::Again
        }
    };
    Ok(proto::SnapshotAnswer { vote: own, state: state.into() })
}

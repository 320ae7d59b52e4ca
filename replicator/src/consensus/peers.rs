//! The library's network: its requests as messages over a [`Transport`], each with a deadline. A member that can't be
//! reached has granted nothing and has nothing. It must not retry: the library does.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use openraft::errors::{NetworkError, RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{Backoff, RPCOption};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, TransferLeaderRequest, VoteRequest,
    VoteResponse,
};
use openraft::type_config::alias::SnapshotOf;
use openraft::{AnyError, EntryPayload, OptionalSend, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use prost::Message;
use tokio::time::Instant;

use super::snapshot::{Outgoing, Piece, SnapshotFiles, SnapshotFolder};
use super::types::{
    Types, Vote, encode_membership, log_id_from_proto, log_id_to_proto, vote_from_proto, vote_to_proto,
};

use crate::lead::Lead;
use crate::member::{Member, MemberId};
use crate::proto::{self, request, response};
use crate::transport::{Channel, Envelope, Transport, TransportError};

/// Between tries while a member can't be reached.
const BACKOFF: Duration = Duration::from_millis(10);
/// For entries to be durable at a follower and answered.
const APPEND_DEADLINE: Duration = Duration::from_secs(2);
/// For a piece of a snapshot with all its tries: its receiver writes it to a disk.
const PIECE_DEADLINE: Duration = Duration::from_secs(20);
/// How soon a piece is sent again whose answer does not come: it may be lost, or the disk may be slow.
const PIECE_AGAIN: Duration = Duration::from_secs(2);

/// What this member says of itself in every request.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    pub(crate) member: MemberId,
    pub(crate) cluster: u128,
    pub(crate) incarnation: u32,
    pub(crate) versions: proto::Versions,
}

impl Identity {
    pub(crate) fn sender(&self) -> proto::Sender {
        proto::Sender {
            member: self.member.0,
            cluster: Bytes::copy_from_slice(&self.cluster.to_be_bytes()),
            incarnation: self.incarnation,
            versions: Some(self.versions.clone()),
        }
    }
}

/// When each member last confirmed this one's leadership: the sending time of the request that it answered.
#[derive(Clone, Debug, Default)]
pub(crate) struct Confirmations(Arc<Mutex<BTreeMap<u64, (u64, Instant)>>>);

impl Confirmations {
    fn note(&self, member: u64, term: u64, sent: Instant) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = all.entry(member).or_insert((term, sent));
        if (term, sent) > *last {
            *last = (term, sent);
        }
    }

    /// The latest time at which a quorum of each set of voters had confirmed the leadership of `term`; the leader counts
    /// as confirming itself at `now`.
    pub(crate) fn quorum(&self, leader: u64, term: u64, sets: &[Vec<u64>], now: Instant) -> Option<Instant> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_set = |set: &Vec<u64>| {
            let mut times: Vec<Instant> = set
                .iter()
                .filter_map(|voter| match all.get(voter) {
                    _ if *voter == leader => Some(now),
                    Some((confirmed, at)) if *confirmed == term => Some(*at),
                    _ => None,
                })
                .collect();
            times.sort_unstable_by(|a, b| b.cmp(a));
            times.get(set.len() / 2).copied()
        };
        sets.iter().map(of_set).collect::<Option<Vec<_>>>()?.into_iter().min()
    }
}

/// What all peers share.
pub(crate) struct Network {
    pub(crate) identity: Identity,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) storage: journaler::SharedStorage,
    pub(crate) folder: Arc<dyn SnapshotFolder>,
    pub(crate) confirmations: Confirmations,
    pub(crate) lead: Lead,
    pub(crate) lease: Duration,
    /// For a request without entries. One with entries waits for a disk.
    pub(crate) heartbeat_deadline: Duration,
    /// The members as the log has them now.
    pub(crate) addresses: Mutex<BTreeMap<u64, Member>>,
    /// Bytes sent and in all, of a snapshot on its way to a member.
    pub(crate) transfers: Arc<Mutex<BTreeMap<u64, (u64, u64)>>>,
}

/// Makes channels.
#[derive(Clone)]
pub(crate) struct Peers(pub(crate) Arc<Network>);

/// One channel to one member.
pub(crate) struct Peer {
    network: Arc<Network>,
    target: Member,
    channel: Box<dyn Channel>,
}

/// Why a call came to nothing.
pub(crate) enum CallError {
    /// Nobody listens there, or a connection can't be made for another reason.
    Unreachable(String),
    /// The member said so, in words.
    Refused(String),
    Lost(String),
    Late(Duration),
}

impl CallError {
    pub(crate) fn reason(&self) -> String {
        match self {
            Self::Unreachable(reason) | Self::Refused(reason) | Self::Lost(reason) => reason.clone(),
            Self::Late(deadline) => format!("no answer within {deadline:?}"),
        }
    }
}

impl Peer {
    pub(crate) fn new(network: Arc<Network>, target: Member) -> Self {
        let channel = network.transport.open(&target);
        Self { network, target, channel }
    }

    /// Goes to where the member is now: the library keeps a channel for as long as it knows the member.
    fn follow_address(&mut self) {
        let book = self.network.addresses.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(now) = book.get(&self.target.id.0).filter(|now| now.address != self.target.address) {
            self.target = now.clone();
            self.channel = self.network.transport.open(now);
        }
    }

    /// One request and its answer.
    pub(crate) async fn call(
        &mut self,
        body: request::Body,
        payloads: Vec<Bytes>,
        deadline: Duration,
    ) -> Result<response::Body, CallError> {
        self.follow_address();
        let (sender, target) = (Some(self.network.identity.sender()), self.target.id.0);
        let request = proto::Request { sender, target, body: Some(body) };
        let envelope = Envelope { control: request.encode_to_vec().into(), payloads };
        let answer = match tokio::time::timeout(deadline, self.channel.call(envelope)).await {
            Err(_) => return Err(CallError::Late(deadline)),
            Ok(Err(error @ TransportError::Unreachable { .. })) => {
                return Err(CallError::Unreachable(error.to_string()));
            }
            Ok(Err(error)) => return Err(CallError::Lost(error.to_string())),
            Ok(Ok(answer)) => answer,
        };
        let decoded = proto::Response::decode(answer.control).ok().and_then(|decoded| decoded.body);
        match decoded {
            None => Err(CallError::Lost("an answer that makes no sense".into())),
            Some(response::Body::Refused(why)) => {
                tracing::warn!(member = %self.target.id, %why, "a member refuses this one's requests");
                Err(CallError::Refused(why))
            }
            Some(body) => Ok(body),
        }
    }

    /// Comes back when the other side closes the connection.
    pub(crate) async fn closed(&mut self) {
        self.channel.closed().await;
    }

    fn rpc_error(&self, kind: RPCTypes, error: &CallError) -> RPCError<Types> {
        match error {
            CallError::Unreachable(why) | CallError::Refused(why) => {
                RPCError::Unreachable(Unreachable::new(&AnyError::error(why)))
            }
            CallError::Lost(why) => RPCError::Network(NetworkError::new(&AnyError::error(why))),
            CallError::Late(deadline) => RPCError::Timeout(Timeout {
                action: kind,
                id: self.network.identity.member.0,
                target: self.target.id.0,
                timeout: *deadline,
            }),
        }
    }

    fn nonsense(&self) -> RPCError<Types> {
        let what = format!("member {} answered another question", self.target.id);
        RPCError::Network(NetworkError::new(&AnyError::error(what)))
    }

    async fn ask_vote(
        &mut self,
        rpc: VoteRequest<Types>,
        pre: bool,
        deadline: Duration,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        let vote = proto::Vote {
            vote: Some(vote_to_proto(&rpc.vote)),
            last: rpc.last_log_id.as_ref().map(log_id_to_proto),
            leadership_transfer: rpc.leadership_transfer,
        };
        let body = if pre { request::Body::PreVote(vote) } else { request::Body::Vote(vote) };
        match self.call(body, Vec::new(), deadline).await {
            Ok(response::Body::Vote(proto::Voted { vote: Some(vote), last, granted })) => {
                Ok(VoteResponse::new(vote_from_proto(&vote), last.as_ref().map(log_id_from_proto), granted))
            }
            Ok(_) => Err(self.nonsense()),
            Err(error) => Err(self.rpc_error(RPCTypes::Vote, &error)),
        }
    }

    /// Offers the snapshot, and sends it if it is wanted.
    async fn send_snapshot(
        &mut self,
        vote: &Vote,
        snapshot: &SnapshotOf<Types, SnapshotFiles>,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let outgoing =
            Outgoing::open(&self.network.storage, &self.network.folder, snapshot.snapshot.sequence)
                .map_err(|error| streaming(&error.to_string()))?;
        let total = outgoing.bytes();
        let membership = &snapshot.meta.last_membership;
        let meta = proto::SnapshotMeta {
            last: snapshot.meta.last_log_id.as_ref().map(log_id_to_proto),
            sequence: snapshot.snapshot.sequence.0,
            membership_log_id: membership.log_id().as_ref().map(log_id_to_proto),
            membership: encode_membership(membership.membership()).into(),
        };
        let offer = proto::SnapshotOffer {
            vote: Some(vote_to_proto(vote)),
            meta: Some(meta),
            files: outgoing.listed(),
        };
        let mut answer = self.transfer(request::Body::SnapshotOffer(offer), Vec::new()).await?;
        let mut at = (0, 0);
        let mut sent = 0;
        loop {
            let theirs = answer.vote.as_ref().map(vote_from_proto);
            match answer.state() {
                proto::snapshot_answer::State::Have => {
                    let theirs = theirs.ok_or_else(|| streaming("an answer without a vote"))?;
                    return Ok(SnapshotResponse::new(theirs));
                }
                proto::snapshot_answer::State::Installing => {
                    tracing::info!(member = %self.target.id, bytes = sent, "a snapshot was sent; the member starts from it");
                    return Err(streaming("the member starts again from the snapshot"));
                }
                proto::snapshot_answer::State::Again => {
                    return Err(streaming("the member wants another offer"));
                }
                proto::snapshot_answer::State::Send => {}
            }
            let Some((piece, next)) = outgoing.piece(at).map_err(|error| streaming(&error.to_string()))?
            else {
                return Err(streaming("the member wants more than there is"));
            };
            let Piece { file, offset, last, bytes } = piece;
            sent += bytes.len() as u64;
            at = next;
            let piece = proto::SnapshotPiece { file, offset, last };
            answer = self.transfer(request::Body::SnapshotPiece(piece), vec![bytes]).await?;
            self.progress(Some((sent, total)));
        }
    }

    fn progress(&self, progress: Option<(u64, u64)>) {
        let mut transfers = self.network.transfers.lock().unwrap_or_else(PoisonError::into_inner);
        match progress {
            Some(progress) => transfers.insert(self.target.id.0, progress),
            None => transfers.remove(&self.target.id.0),
        };
    }

    async fn transfer(
        &mut self,
        body: request::Body,
        payloads: Vec<Bytes>,
    ) -> Result<proto::SnapshotAnswer, StreamingError<Types>> {
        let begun = Instant::now();
        loop {
            match self.call(body.clone(), payloads.clone(), PIECE_AGAIN).await {
                Ok(response::Body::Snapshot(answer)) => return Ok(answer),
                Ok(_) => return Err(self.nonsense().into()),
                Err(CallError::Late(_) | CallError::Lost(_)) if begun.elapsed() < PIECE_DEADLINE => {
                    tokio::time::sleep(BACKOFF).await;
                }
                Err(error) => return Err(self.rpc_error(RPCTypes::InstallSnapshot, &error).into()),
            }
        }
    }
}

fn streaming(why: &str) -> StreamingError<Types> {
    StreamingError::Network(NetworkError::new(&AnyError::error(why)))
}

/// The head and the payload of an entry in a message.
fn entry_to_proto(entry: &super::types::Entry) -> (proto::EntryHead, Bytes) {
    use proto::entry_head::Kind;
    let (kind, payload) = match &entry.payload {
        EntryPayload::Blank => (Kind::Blank, Bytes::new()),
        EntryPayload::Normal(frames) => (Kind::Frames, frames.bytes.clone()),
        EntryPayload::Membership(membership) => (Kind::Membership, encode_membership(membership).into()),
    };
    let head = proto::EntryHead {
        log_id: Some(log_id_to_proto(&entry.log_id)),
        kind: kind.into(),
        bytes: payload.len() as u32,
    };
    (head, payload)
}

impl RaftNetworkV2<Types> for Peer {
    type SnapshotData = SnapshotFiles;

    async fn append_entries(
        &mut self,
        rpc: AppendEntriesRequest<Types>,
        _option: RPCOption,
    ) -> Result<AppendEntriesResponse<Types>, RPCError<Types>> {
        let (entries, payloads): (Vec<_>, Vec<_>) = rpc.entries.iter().map(entry_to_proto).unzip();
        let append = proto::Append {
            vote: Some(vote_to_proto(&rpc.vote)),
            previous: rpc.prev_log_id.as_ref().map(log_id_to_proto),
            commit: rpc.leader_commit.as_ref().map(log_id_to_proto),
            entries,
        };
        let payloads = payloads.into_iter().filter(|payload| !payload.is_empty()).collect();
        let sent = Instant::now();
        let deadline = if rpc.entries.is_empty() { self.network.heartbeat_deadline } else { APPEND_DEADLINE };
        let answer = self.call(request::Body::Append(append), payloads, deadline).await;
        let answer = match answer {
            Ok(response::Body::Append(proto::Appended { outcome: Some(outcome) })) => outcome,
            Ok(_) => return Err(self.nonsense()),
            Err(error) => return Err(self.rpc_error(RPCTypes::AppendEntries, &error)),
        };
        use proto::appended::Outcome;
        let outcome = match answer {
            Outcome::Success(_) => AppendEntriesResponse::Success,
            Outcome::Partial(partial) => {
                AppendEntriesResponse::PartialSuccess(partial.up_to.as_ref().map(log_id_from_proto))
            }
            Outcome::Conflict(_) => AppendEntriesResponse::Conflict,
            Outcome::HigherVote(vote) => AppendEntriesResponse::HigherVote(vote_from_proto(&vote)),
        };
        if !matches!(outcome, AppendEntriesResponse::HigherVote(_)) {
            self.network.confirmations.note(self.target.id.0, rpc.vote.leader_id.term, sent);
        }
        Ok(outcome)
    }

    async fn vote(
        &mut self,
        rpc: VoteRequest<Types>,
        _option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        self.ask_vote(rpc, false, self.network.heartbeat_deadline).await
    }

    async fn pre_vote(
        &mut self,
        rpc: VoteRequest<Types>,
        _option: RPCOption,
    ) -> Result<VoteResponse<Types>, RPCError<Types>> {
        self.ask_vote(rpc, true, self.network.heartbeat_deadline).await
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: SnapshotOf<Types, SnapshotFiles>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<Types>, StreamingError<Types>> {
        let sent = tokio::select! {
            biased;
            closed = cancel => Err(StreamingError::Closed(closed)),
            sent = self.send_snapshot(&vote, &snapshot) => sent,
        };
        self.progress(None);
        sent
    }

    async fn transfer_leader(
        &mut self,
        req: TransferLeaderRequest<Types>,
        _option: RPCOption,
    ) -> Result<openraft::raft::TransferLeaderResponse<Types>, RPCError<Types>> {
        let transfer = proto::TransferLeader {
            from: Some(vote_to_proto(req.from_leader())),
            to: *req.to_node_id(),
            last: req.last_log_id().map(log_id_to_proto),
        };
        match self
            .call(request::Body::TransferLeader(transfer), Vec::new(), self.network.heartbeat_deadline)
            .await
        {
            Ok(response::Body::TransferLeader(answer)) if answer.refused.is_empty() => Ok(Ok(())),
            Ok(response::Body::TransferLeader(answer)) => {
                Err(RPCError::Network(NetworkError::new(&AnyError::error(answer.refused))))
            }
            Ok(_) => Err(self.nonsense()),
            Err(error) => Err(self.rpc_error(RPCTypes::TransferLeader, &error)),
        }
    }

    fn backoff(&self) -> Option<Backoff> {
        Some(Backoff::new(std::iter::repeat(BACKOFF)))
    }
}

impl RaftNetworkFactory<Types> for Peers {
    type Network = Peer;

    async fn new_client(&mut self, _target: u64, node: &Member) -> Peer {
        Peer::new(Arc::clone(&self.0), node.clone())
    }
}

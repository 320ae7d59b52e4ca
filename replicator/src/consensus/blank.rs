//! A member that is in no cluster yet. It enters one when it is founded with others, or when a leader that knows its
//! number sends it the log; until then it has no vote and keeps nothing. It must not enter a second one.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use journaler::SharedStorage;
use prost::Message;
use rand::RngExt;
use tokio::sync::watch;

use super::layout;
use super::record::{Record, RecordError, RecordFile};
use super::status::Versions;
use super::types::{Membership, member_from_proto, member_to_proto};
use crate::member::Member;
use crate::proto::{self, request, response};
use crate::transport::{Envelope, Transport};

/// How long another member is waited for when a cluster is founded.
const FOUND_DEADLINE: Duration = Duration::from_secs(5);

/// Why a cluster was not founded.
#[derive(Debug, thiserror::Error)]
pub enum FoundError {
    /// The layout is unsafe.
    #[error("{0}; --force founds it all the same")]
    Layout(String),
    /// This member is not among the founders, or two are the same.
    #[error("{0}")]
    Members(String),
    /// Another one can't be asked, or is in a cluster already.
    #[error("member {id} at {address}: {reason}")]
    Other {
        /// Its number.
        id: u64,
        /// Where it was asked.
        address: String,
        /// What it said.
        reason: String,
    },
    /// The member's own file.
    #[error(transparent)]
    Record(#[from] RecordError),
}

/// A member without a cluster.
pub struct Blank {
    member: Member,
    versions: Versions,
    storage: SharedStorage,
    entered: watch::Sender<bool>,
}

impl Blank {
    /// Nothing is written until it enters a cluster. Hold the data directory's lock meanwhile.
    #[must_use]
    pub fn new(storage: SharedStorage, member: Member, versions: Versions) -> Self {
        Self { member, versions, storage, entered: watch::Sender::new(false) }
    }

    /// Completes once this member is in a cluster: then start it.
    pub async fn entered(&self) {
        // The sender lives as long as self.
        let _ = self.entered.subscribe().wait_for(|entered| *entered).await;
    }

    /// Answers another member.
    pub async fn handle(&self, envelope: Envelope) -> Envelope {
        let body = self.answer(envelope);
        Envelope {
            control: proto::Response { body: Some(body) }.encode_to_vec().into(),
            payloads: Vec::new(),
        }
    }

    fn answer(&self, envelope: Envelope) -> response::Body {
        let refuse = |why: &str| response::Body::Refused(why.to_owned());
        let Ok(request) = proto::Request::decode(envelope.control) else {
            return refuse("not a member's request");
        };
        let Some(sender) = request.sender else { return refuse("a request without a sender") };
        if request.target != self.member.id.0 {
            let (own, target) = (self.member.id, request.target);
            return refuse(&format!("this is member {own}, not member {target}: a wrong address"));
        }
        match request.body {
            Some(request::Body::Found(found)) => {
                let refused = match self.enter_founded(&found) {
                    Ok(()) => String::new(),
                    Err(why) => why,
                };
                response::Body::Found(proto::FoundAnswer { refused })
            }
            Some(request::Body::Status(_)) => response::Body::Status(proto::StatusAnswer {
                sender: Some(self.sender()),
                ..Default::default()
            }),
            // Only a leader that has this member in its log sends it entries or a snapshot.
            Some(request::Body::Append(_) | request::Body::SnapshotOffer(_)) => {
                match self.enter_called(&sender) {
                    Ok(()) => refuse("this member enters the cluster now: ask again"),
                    Err(why) => refuse(&why),
                }
            }
            _ => refuse("this member is in no cluster yet"),
        }
    }

    fn sender(&self) -> proto::Sender {
        proto::Sender {
            member: self.member.id.0,
            cluster: Bytes::new(),
            incarnation: 0,
            versions: Some(self.versions.to_proto()),
        }
    }

    fn enter(&self, record: Record) -> Result<(), RecordError> {
        drop(RecordFile::create(&self.storage, record)?);
        self.entered.send_replace(true);
        Ok(())
    }

    fn enter_founded(&self, found: &proto::Found) -> Result<(), String> {
        if *self.entered.borrow() {
            return Err("this member is entering a cluster".into());
        }
        let cluster = found.cluster.as_ref().try_into().map_err(|_| "a founding without a cluster id")?;
        let members: Vec<Member> = found.members.iter().cloned().map(member_from_proto).collect();
        let mut record = Record::new(self.member.id, u128::from_be_bytes(cluster));
        record.founding = Some(membership(&members)?);
        if !members.iter().any(|member| member.id == self.member.id) {
            return Err(format!("member {} is not among the founders", self.member.id));
        }
        self.enter(record).map_err(|error| error.to_string())
    }

    /// A cluster that knows this member, which knows nothing: its disk is new, or was lost.
    fn enter_called(&self, sender: &proto::Sender) -> Result<(), String> {
        if *self.entered.borrow() {
            return Ok(());
        }
        let cluster = sender.cluster.as_ref().try_into().map_err(|_| "a leader without a cluster")?;
        let mut record = Record::new(self.member.id, u128::from_be_bytes(cluster));
        record.incarnation = sender.incarnation;
        record.forgetful = true;
        record.vote_forgotten = true;
        self.enter(record).map_err(|error| error.to_string())?;
        tracing::info!(from = sender.member, "this member enters a cluster that knows it, without a log");
        Ok(())
    }

    /// Founds a cluster of these members, of which this is one. All must be up and in no cluster.
    ///
    /// # Errors
    /// [`FoundError`]. If some have entered when another fails, repeat it with the same members once that is mended: those
    /// that have entered must be wiped before.
    pub async fn found(
        &self,
        members: &[Member],
        force: bool,
        transport: &Arc<dyn Transport>,
    ) -> Result<String, FoundError> {
        if let Some(objection) = layout::objection(members)
            && !force
        {
            return Err(FoundError::Layout(objection));
        }
        if !members.iter().any(|member| member.id == self.member.id) {
            return Err(FoundError::Members(format!("member {} is not among the founders", self.member.id)));
        }
        let founding = membership(members).map_err(FoundError::Members)?;
        let others: Vec<&Member> = members.iter().filter(|member| member.id != self.member.id).collect();
        // Nobody enters anything before all have said that they can.
        for other in &others {
            let status = request::Body::Status(proto::Status::default());
            match self.ask(other, status, transport).await? {
                response::Body::Status(answer) => self.check_founder(other, answer.sender.as_ref())?,
                _ => return Err(other_error(other, "it answered another question")),
            }
        }
        let cluster: u128 = rand::rng().random();
        let found = proto::Found {
            cluster: Bytes::copy_from_slice(&cluster.to_be_bytes()),
            members: members.iter().map(member_to_proto).collect(),
        };
        for other in &others {
            match self.ask(other, request::Body::Found(found.clone()), transport).await? {
                response::Body::Found(answer) if answer.refused.is_empty() => {}
                response::Body::Found(answer) => return Err(other_error(other, &answer.refused)),
                _ => return Err(other_error(other, "it answered another question")),
            }
        }
        let mut record = Record::new(self.member.id, cluster);
        record.founding = Some(founding);
        self.enter(record)?;
        Ok(format!("cluster {cluster:032x} of {} members is founded", members.len()))
    }

    fn check_founder(&self, other: &Member, sender: Option<&proto::Sender>) -> Result<(), FoundError> {
        match sender {
            Some(sender) if sender.member != other.id.0 => {
                Err(other_error(other, &format!("it calls itself member {}", sender.member)))
            }
            Some(sender) if !sender.cluster.is_empty() => Err(other_error(
                other,
                "it is in a cluster already. If this member lost its disk, just start it: the cluster finds it. Else wipe \
                 the other one's data directory first",
            )),
            Some(_) => Ok(()),
            None => Err(other_error(other, "it does not say who it is")),
        }
    }

    async fn ask(
        &self,
        other: &Member,
        body: request::Body,
        transport: &Arc<dyn Transport>,
    ) -> Result<response::Body, FoundError> {
        let request = proto::Request { sender: Some(self.sender()), target: other.id.0, body: Some(body) };
        let envelope = Envelope { control: request.encode_to_vec().into(), payloads: Vec::new() };
        let mut channel = transport.open(other);
        let answer = tokio::time::timeout(FOUND_DEADLINE, channel.call(envelope)).await;
        let answer = match answer {
            Err(_) => return Err(other_error(other, "no answer")),
            Ok(Err(error)) => return Err(other_error(other, &error.to_string())),
            Ok(Ok(answer)) => answer,
        };
        match proto::Response::decode(answer.control).ok().and_then(|response| response.body) {
            Some(response::Body::Refused(why)) => Err(other_error(other, &why)),
            Some(body) => Ok(body),
            None => Err(other_error(other, "an answer that makes no sense")),
        }
    }
}

fn other_error(other: &Member, reason: &str) -> FoundError {
    FoundError::Other { id: other.id.0, address: other.address.clone(), reason: reason.to_owned() }
}

fn membership(members: &[Member]) -> Result<Membership, String> {
    let nodes: std::collections::BTreeMap<u64, Member> =
        members.iter().map(|member| (member.id.0, member.clone())).collect();
    if nodes.len() != members.len() {
        return Err("two members have the same number".into());
    }
    let addresses: std::collections::BTreeSet<&str> =
        members.iter().map(|member| member.address.as_str()).collect();
    if addresses.len() != members.len() {
        return Err("two members have the same address".into());
    }
    Membership::new(vec![nodes.keys().copied().collect()], nodes).map_err(|error| error.to_string())
}

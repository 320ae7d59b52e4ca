//! The member's own file: what it must never forget and what is not in the log. Two checksummed slots, fsynced at every
//! durability level. It must not grow with the log.

use journaler::{JournalError, SharedStorage, TwoSlotFile};
use prost::Message;

use super::types::{
    LogId, Membership, Vote, decode_membership, encode_membership, log_id_from_proto, log_id_to_proto,
    vote_from_proto, vote_to_proto,
};
use crate::member::MemberId;
use crate::proto;

/// The file in the data directory.
pub const MEMBER_FILE: &str = "member";

/// What the file holds.
#[derive(Clone, PartialEq, Message)]
struct Stored {
    #[prost(uint64, tag = "1")]
    member: u64,
    #[prost(bytes = "vec", tag = "2")]
    cluster: Vec<u8>,
    #[prost(uint32, tag = "3")]
    incarnation: u32,
    #[prost(string, tag = "4")]
    boot: String,
    #[prost(message, optional, tag = "5")]
    vote: Option<proto::VoteState>,
    #[prost(bool, tag = "6")]
    forgetful: bool,
    #[prost(bool, tag = "7")]
    vote_forgotten: bool,
    #[prost(message, optional, tag = "8")]
    membership_log_id: Option<proto::LogId>,
    #[prost(bytes = "vec", tag = "9")]
    membership: Vec<u8>,
    #[prost(bytes = "vec", tag = "10")]
    founding: Vec<u8>,
    #[prost(uint64, tag = "11")]
    last_index_min: u64,
    #[prost(uint64, tag = "12")]
    place: u64,
    #[prost(message, optional, tag = "13")]
    floor: Option<proto::LogId>,
}

/// What a member keeps beside its log.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Record {
    pub(crate) member: MemberId,
    pub(crate) cluster: u128,
    /// Rises when a lost quorum was given up.
    pub(crate) incarnation: u32,
    /// The kernel's boot id when the member last ran.
    pub(crate) boot: String,
    pub(crate) vote: Option<Vote>,
    /// A part of the log that was acknowledged may be missing: no votes until that is mended.
    pub(crate) forgetful: bool,
    /// The votes that were given are missing too.
    pub(crate) vote_forgotten: bool,
    /// What a log must reach to be voted for, this member's own included: the lost part is in no longer one.
    pub(crate) floor: Option<LogId>,
    /// The last membership that was applied, since the journal may have been pruned past it.
    pub(crate) membership: Option<(LogId, Membership)>,
    /// The first membership of a cluster that this member helped to found.
    pub(crate) founding: Option<Membership>,
    /// The log once reached at least this journal index.
    pub(crate) last_index_min: u64,
    /// What tells this directory from a copy of it.
    pub(crate) place: u64,
}

impl Record {
    pub(crate) fn new(member: MemberId, cluster: u128) -> Self {
        Self {
            member,
            cluster,
            incarnation: 0,
            boot: String::new(),
            vote: None,
            forgetful: false,
            vote_forgotten: false,
            floor: None,
            membership: None,
            founding: None,
            last_index_min: 0,
            place: 0,
        }
    }

    fn encode(&self) -> Vec<u8> {
        let (membership_log_id, membership) = match &self.membership {
            Some((id, membership)) => (Some(log_id_to_proto(id)), encode_membership(membership)),
            None => (None, Vec::new()),
        };
        let stored = Stored {
            member: self.member.0,
            cluster: self.cluster.to_be_bytes().to_vec(),
            incarnation: self.incarnation,
            boot: self.boot.clone(),
            vote: self.vote.as_ref().map(vote_to_proto),
            forgetful: self.forgetful,
            vote_forgotten: self.vote_forgotten,
            floor: self.floor.as_ref().map(log_id_to_proto),
            membership_log_id,
            membership,
            founding: self.founding.as_ref().map(encode_membership).unwrap_or_default(),
            last_index_min: self.last_index_min,
            place: self.place,
        };
        stored.encode_to_vec()
    }

    fn decode(bytes: &[u8]) -> Result<Self, String> {
        let stored = Stored::decode(bytes).map_err(|error| error.to_string())?;
        let cluster =
            stored.cluster.as_slice().try_into().map_err(|_| "a cluster id of 16 bytes is missing")?;
        let membership = match &stored.membership_log_id {
            Some(id) => Some((log_id_from_proto(id), decode_membership(&stored.membership)?)),
            None => None,
        };
        let founding = match stored.founding.as_slice() {
            [] => None,
            founding => Some(decode_membership(founding)?),
        };
        Ok(Self {
            member: MemberId(stored.member),
            cluster: u128::from_be_bytes(cluster),
            incarnation: stored.incarnation,
            boot: stored.boot,
            vote: stored.vote.as_ref().map(vote_from_proto),
            forgetful: stored.forgetful,
            vote_forgotten: stored.vote_forgotten,
            floor: stored.floor.as_ref().map(log_id_from_proto),
            membership,
            founding,
            last_index_min: stored.last_index_min,
            place: stored.place,
        })
    }
}

/// The file, open.
#[derive(Debug)]
pub(crate) struct RecordFile {
    file: TwoSlotFile,
    record: Record,
}

/// Why the file can't be used.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// The disk, or both slots are damaged.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// It is whole and makes no sense.
    #[error("{MEMBER_FILE}: {0}")]
    Nonsense(String),
}

impl RecordFile {
    /// Opens the file of a member that is in a cluster; `None` where there is none yet.
    pub(crate) fn open(storage: &SharedStorage) -> Result<Option<Self>, RecordError> {
        // Not made by looking: an empty one would be taken for a damaged one.
        match storage.open(MEMBER_FILE, journaler::storage::Access::Read) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            _ => {}
        }
        let (file, bytes) = TwoSlotFile::open(storage, "", MEMBER_FILE)?;
        match bytes {
            None => Ok(None),
            Some(bytes) => {
                let record = Record::decode(&bytes).map_err(RecordError::Nonsense)?;
                Ok(Some(Self { file, record }))
            }
        }
    }

    /// Makes the file of a member that enters a cluster.
    pub(crate) fn create(storage: &SharedStorage, record: Record) -> Result<Self, RecordError> {
        let (file, _) = TwoSlotFile::open(storage, "", MEMBER_FILE)?;
        let mut created = Self { file, record };
        created.write()?;
        Ok(created)
    }

    pub(crate) fn record(&self) -> &Record {
        &self.record
    }

    /// Changes the record; durable when this returns.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut Record)) -> Result<(), RecordError> {
        change(&mut self.record);
        self.write()
    }

    fn write(&mut self) -> Result<(), RecordError> {
        Ok(self.file.write(&self.record.encode())?)
    }
}

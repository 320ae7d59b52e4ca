//! A cluster that lost its quorum for good, rebuilt from one survivor: offline, and only after its operator has read what
//! may be lost. It must not run beside a member.

use journaler::{EntryKind, Journal, JournalOptions, NewEntry, SharedStorage};
use protocol::{Sequence, Term};

use super::prepare::PrepareError;
use super::record::RecordFile;
use super::types::{Membership, Vote, encode_membership};
use super::writer::WriteError;
use crate::member::{Member, MemberId};

/// What a rebuild would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebuildPlan {
    /// The survivor.
    pub member: MemberId,
    /// The cluster.
    pub cluster: u128,
    /// The incarnation that it would have then.
    pub incarnation: u32,
    /// The survivor's last frame.
    pub last_sequence: Sequence,
    /// The last frame that the survivor knows was committed.
    pub committed_sequence: Sequence,
    /// The survivor's last term.
    pub term: Term,
    /// It had itself lost a part of its log.
    pub forgetful: bool,
    /// Torn ends that opening cut.
    pub cut: usize,
}

/// Why a cluster was not rebuilt.
#[derive(Debug, thiserror::Error)]
pub enum RebuildError {
    /// The data directory.
    #[error(transparent)]
    Prepare(#[from] PrepareError),
    /// The disk.
    #[error(transparent)]
    Write(#[from] WriteError),
    /// It is in no cluster.
    #[error("this data directory is in no cluster: there is nothing to rebuild")]
    Blank,
    /// The membership makes no sense.
    #[error("{0}")]
    Membership(String),
}

fn open(
    storage: &SharedStorage,
    options: &JournalOptions,
) -> Result<(RecordFile, Journal, RebuildPlan), RebuildError> {
    let record = RecordFile::open(storage).map_err(PrepareError::Record)?.ok_or(RebuildError::Blank)?;
    let options = JournalOptions { cluster_id: record.record().cluster, summarize: true, ..options.clone() };
    let (journal, recovery) = Journal::open(storage.clone(), options).map_err(WriteError::Journal)?;
    let kept = record.record();
    let plan = RebuildPlan {
        member: kept.member,
        cluster: kept.cluster,
        incarnation: kept.incarnation + 1,
        last_sequence: journal.journaled_sequence(),
        committed_sequence: recovery.log.as_ref().map_or(Sequence(0), |log| log.committed_sequence),
        term: journal.term(),
        forgetful: kept.forgetful,
        cut: recovery.cut.len(),
    };
    Ok((record, journal, plan))
}

/// Says what a rebuild would do, and changes nothing but a torn tail.
///
/// # Errors
/// [`RebuildError`].
pub fn plan_rebuild(storage: &SharedStorage, options: &JournalOptions) -> Result<RebuildPlan, RebuildError> {
    open(storage, options).map(|(_, _, plan)| plan)
}

/// Makes the survivor the only voter of a cluster that no member of before can enter any more without being wiped. What
/// its log holds behind the committed part becomes committed.
///
/// # Errors
/// [`RebuildError`].
pub fn rebuild(
    storage: &SharedStorage,
    options: &JournalOptions,
    survivor: &Member,
) -> Result<RebuildPlan, RebuildError> {
    let (mut record, mut journal, plan) = open(storage, options)?;
    let id = survivor.id.0;
    let nodes = std::collections::BTreeMap::from([(id, survivor.clone())]);
    let membership = Membership::new(vec![std::collections::BTreeSet::from([id])], nodes)
        .map_err(|error| RebuildError::Membership(error.to_string()))?;
    let term = record.record().vote.map_or(0, |vote| vote.leader_id.term).max(plan.term.0) + 1;
    let payload = encode_membership(&membership);
    let entry = NewEntry { term: Term(term), kind: EntryKind::Membership, payload: &payload };
    journal.append_entries(&[entry]).map_err(WriteError::Journal)?;
    let index = journal.index();
    journal.close().map_err(WriteError::Journal)?;
    record
        .change(|record| {
            record.incarnation = plan.incarnation;
            record.vote = Some(Vote::new(term, id));
            record.forgetful = false;
            record.vote_forgotten = false;
            record.founding = None;
            record.last_index_min = index;
        })
        .map_err(WriteError::Record)?;
    Ok(plan)
}

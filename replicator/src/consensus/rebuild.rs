//! A cluster that lost its quorum for good, rebuilt from one survivor, a backup or a server alone: offline, and only after
//! its operator has read what may be lost. It must not run beside a member.

use std::time::{SystemTime, UNIX_EPOCH};

use journaler::{EntryKind, Journal, JournalError, JournalOptions, JournalReader, NewEntry, SharedStorage};
use protocol::{Sequence, Term};

use super::prepare::PrepareError;
use super::record::{Record, RecordFile};
use super::types::{Membership, Vote, encode_membership};
use super::writer::WriteError;
use crate::member::{Member, MemberId};

/// What a rebuild would do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RebuildPlan {
    /// The survivor.
    pub member: MemberId,
    /// Whether the directory was a member's. Else it is a backup or a server alone's, and all of its log takes effect.
    pub was_member: bool,
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
    /// There is no log.
    #[error("there is no log in this data directory to go on with")]
    Blank,
    /// The log can't be looked at.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The membership makes no sense.
    #[error("{0}")]
    Membership(String),
}

fn open(
    storage: &SharedStorage,
    options: &JournalOptions,
    survivor: MemberId,
) -> Result<(Option<RecordFile>, Journal, RebuildPlan), RebuildError> {
    let record = RecordFile::open(storage).map_err(PrepareError::Record)?;
    let kept = match &record {
        Some(record) => record.record().clone(),
        None => {
            let cluster = JournalReader::open(storage.clone())?.cluster_id().ok_or(RebuildError::Blank)?;
            Record { incarnation: incarnation_by_clock(), ..Record::new(survivor, cluster) }
        }
    };
    let options = JournalOptions { cluster_id: kept.cluster, summarize: true, ..options.clone() };
    let (journal, recovery) = Journal::open(storage.clone(), options).map_err(WriteError::Journal)?;
    let plan = RebuildPlan {
        member: kept.member,
        was_member: record.is_some(),
        cluster: kept.cluster,
        incarnation: next_incarnation(&kept),
        last_sequence: journal.journaled_sequence(),
        committed_sequence: recovery.log.as_ref().map_or(Sequence(0), |log| log.committed_sequence),
        term: journal.term(),
        forgetful: kept.forgetful,
        cut: recovery.cut.len(),
    };
    Ok((record, journal, plan))
}

/// An incarnation above the one of before, and another one for each survivor, if somebody rebuilds from two: they are told from
/// each other then, and refuse each other. The same each time that it is asked of one.
fn next_incarnation(before: &Record) -> u32 {
    let member = before.member.0;
    let drawn = crc32c::crc32c(&[member.to_le_bytes(), before.place.to_le_bytes()].concat());
    // Below 2^20, which leaves room for thousands of rebuilds; members' numbers differ in the lowest bits.
    let step = ((drawn % (1 << 14)) << 6) | (member % (1 << 6)) as u32;
    before.incarnation.saturating_add(step.max(1))
}

/// An incarnation above all that the members of before can have, where theirs is not known: they may come back, and must be
/// refused.
fn incarnation_by_clock() -> u32 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u32::try_from(since.as_secs() / 60).unwrap_or(u32::MAX - 1)
}

/// Says what a rebuild would do, and changes nothing but a torn tail.
///
/// # Errors
/// [`RebuildError`].
pub fn plan_rebuild(
    storage: &SharedStorage,
    options: &JournalOptions,
    survivor: MemberId,
) -> Result<RebuildPlan, RebuildError> {
    open(storage, options, survivor).map(|(_, _, plan)| plan)
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
    let (record, mut journal, plan) = open(storage, options, survivor.id)?;
    let id = survivor.id.0;
    let nodes = std::collections::BTreeMap::from([(id, survivor.clone())]);
    let membership = Membership::new(vec![std::collections::BTreeSet::from([id])], nodes)
        .map_err(|error| RebuildError::Membership(error.to_string()))?;
    let voted = record.as_ref().and_then(|record| record.record().vote).map_or(0, |vote| vote.leader_id.term);
    let term = voted.max(plan.term.0) + 1;
    let payload = encode_membership(&membership);
    let entry = NewEntry { term: Term(term), kind: EntryKind::Membership, payload: &payload };
    journal.append_entries(&[entry]).map_err(WriteError::Journal)?;
    let index = journal.index();
    journal.close().map_err(WriteError::Journal)?;
    let rebuilt = |record: &mut Record| {
        record.incarnation = plan.incarnation;
        record.vote = Some(Vote::new(term, id));
        record.forgetful = false;
        record.vote_forgotten = false;
        record.floor = None;
        record.founding = None;
        record.last_index_min = index;
    };
    match record {
        Some(mut record) => record.change(rebuilt).map_err(WriteError::Record)?,
        None => {
            let mut record = Record::new(survivor.id, plan.cluster);
            rebuilt(&mut record);
            drop(RecordFile::create(storage, record).map_err(WriteError::Record)?);
        }
    }
    Ok(plan)
}

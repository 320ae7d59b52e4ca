//! What the operator's tools need: verifying, counting, dumping and cutting a journal. Returns data; prints nothing.

use std::io::ErrorKind;

use protocol::{Sequence, Term};

use crate::error::{Context, Corruption, JournalError, Result};
use crate::format::{BLOCK_BYTES, BatchHeader, BatchKind, SegmentHeaderRead};
use crate::frames::Frames;
use crate::journal::take_lock;
use crate::recovery::{self, TornTail};
use crate::scan::{Position, Segment, next_offset};
use crate::storage::{Access, SharedStorage};
use crate::survey::{JOURNAL_FOLDER, Survey, Surveyed, segment_path};
use crate::walk::{Visit, walk};

/// How far a long look has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Bytes of segments looked at.
    pub bytes_done: u64,
    /// Bytes of all segments.
    pub bytes_total: u64,
}

/// One segment, in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentStat {
    /// File, relative to the data directory.
    pub file: String,
    /// Sequence of its first frame.
    pub first_sequence: Sequence,
    /// Sequence of its last frame; one less than the first if it has none.
    pub last_sequence: Sequence,
    /// Entries: batches of frames, blanks and memberships.
    pub batches: u64,
    /// Marks.
    pub marks: u64,
    /// Bytes up to the end of its last batch.
    pub bytes_used: u64,
    /// Bytes of the file.
    pub bytes: u64,
}

/// A journal that was read from end to end, in numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JournalStat {
    /// Cluster id; `None` in a journal that nothing was written to.
    pub cluster_id: Option<u128>,
    /// Segments that were begun, oldest first.
    pub segments: Vec<SegmentStat>,
    /// Segments that are only prepared.
    pub prepared: u64,
    /// Oldest frame; one more than the last if there is none.
    pub first_sequence: Sequence,
    /// Newest frame; 0 if there is none.
    pub last_sequence: Sequence,
    /// Term of the newest entry.
    pub term: Term,
    /// Index of the newest entry.
    pub index: u64,
    /// Highest index that the last segment says is committed; 0 if it says none.
    pub committed_index: u64,
    /// BLAKE3 chain over all entries since the journal began.
    pub chain: [u8; 32],
    /// Whether the last thing written is the mark of a clean stop.
    pub clean_stop: bool,
    /// What stands behind the end without being part of the journal: of a live journal the batch that is being
    /// written, else a torn tail that the next start cuts.
    pub torn: Vec<TornTail>,
}

/// Reads and checks a whole journal without locking it; a live one is checked as far as it is written. It judges as
/// [`Journal::open`](crate::Journal::open) with the same `cluster_id` does; `None` takes the one in the headers, and can
/// then say nothing about a journal whose only header is damaged.
///
/// # Errors
/// The first damage that it finds: `Corrupt`, `MissingSegment`, `SegmentLength`, `WrongVersion`, `ForeignCluster`,
/// `UnknownCluster`; `Io`.
pub fn verify(
    storage: &SharedStorage,
    cluster_id: Option<u128>,
    progress: &mut dyn FnMut(Progress),
) -> Result<JournalStat> {
    read_all(storage, cluster_id, &mut |_, _, _, _| {}, progress)
}

/// A batch as shown by [`dump`].
#[derive(Debug)]
pub struct DumpedBatch<'a> {
    /// Segment file, relative to the data directory.
    pub file: &'a str,
    /// Where the batch starts in it, in bytes.
    pub offset: u64,
    /// Its header.
    pub header: &'a BatchHeader,
    /// Its frames with their sequences; none if it holds something else.
    pub frames: Frames<'a>,
}

/// Shows every batch and mark that touches the frames `from..=to`, in order, checking the journal on the way.
///
/// # Errors
/// As [`verify`]; what stands before the damage has been shown then.
pub fn dump(
    storage: &SharedStorage,
    cluster_id: Option<u128>,
    from: Sequence,
    to: Sequence,
    show: &mut dyn FnMut(DumpedBatch<'_>),
) -> Result<JournalStat> {
    let mut visit = |found: &Surveyed, offset: u64, header: &BatchHeader, payload: &[u8]| {
        let file = &found.path;
        let slots = if header.kind == BatchKind::Frames { payload } else { &[] };
        if header.last_sequence() >= from && header.first_sequence <= to {
            show(DumpedBatch { file, offset, header, frames: Frames::new(slots, header.first_sequence) });
        }
    };
    read_all(storage, cluster_id, &mut visit, &mut |_| {})
}

fn read_all(
    storage: &SharedStorage,
    cluster_id: Option<u128>,
    visit: &mut Visit<'_>,
    progress: &mut dyn FnMut(Progress),
) -> Result<JournalStat> {
    let survey = Survey::read(storage, cluster_id)?;
    let bytes_total = survey.segments.iter().map(|found| found.length).sum();
    let mut bytes_done = 0;
    let mut segments = Vec::new();
    walk(storage, &survey, visit, &mut |found, header, end| {
        segments.push(SegmentStat {
            file: found.path.clone(),
            first_sequence: header.first_sequence,
            last_sequence: end.position.last_sequence(),
            batches: end.batches,
            marks: end.marks,
            bytes_used: end.offset,
            bytes: found.length,
        });
        bytes_done += found.length;
        progress(Progress { bytes_done, bytes_total });
    })?;
    // The rules of a start, for what stands at and behind the end.
    let ending = settled_end(storage, &survey, cluster_id)?;
    let position = ending.position;
    progress(Progress { bytes_done: bytes_total, bytes_total });
    Ok(JournalStat {
        cluster_id: survey.cluster_id(),
        prepared: (survey.segments.len() - segments.len()) as u64,
        first_sequence: survey.first_sequence().unwrap_or(position.next_sequence),
        last_sequence: position.last_sequence(),
        term: position.term,
        index: position.index,
        committed_index: ending.committed_index,
        chain: position.chain,
        clean_stop: ending.last_kind == Some(BatchKind::CleanStop),
        torn: ending.torn,
        segments,
    })
}

/// The end by the rules of a start. In a live journal the search for evidence can meet batches that came after the bad
/// place was read, or a segment that was begun after the headers were; only damage that is still there on a second look is
/// damage.
pub(crate) fn settled_end(
    storage: &SharedStorage,
    survey: &Survey,
    cluster_id: Option<u128>,
) -> Result<recovery::Ending> {
    let mut seen: Option<Box<Corruption>> = None;
    loop {
        let again = seen.is_some().then(|| Survey::read(storage, cluster_id)).transpose()?;
        match end_of(storage, again.as_ref().unwrap_or(survey), cluster_id) {
            Err(JournalError::Corrupt(corruption)) => {
                let again = seen
                    .is_some_and(|seen| (&seen.file, seen.offset) == (&corruption.file, corruption.offset));
                if again {
                    return Err(JournalError::Corrupt(corruption));
                }
                seen = Some(corruption);
            }
            ended => return ended,
        }
    }
}

fn end_of(storage: &SharedStorage, survey: &Survey, cluster_id: Option<u128>) -> Result<recovery::Ending> {
    let begun = survey.last_begun().and_then(|place| survey.segments.get(place));
    match (cluster_id.or(survey.cluster_id()), begun) {
        (Some(cluster_id), _) => recovery::find_end(storage, survey, cluster_id),
        // The checksums of its batches start from the header, so none of them can be told from a torn write.
        (None, Some(damaged)) => Err(JournalError::UnknownCluster { file: damaged.path.clone() }),
        (None, None) => recovery::find_end(storage, survey, 0),
    }
}

/// What cutting a damaged journal would lose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CutPlan {
    /// The damage, as the start tells it.
    pub damage: String,
    /// Segment file from which on all goes.
    pub file: String,
    /// Where in it, in bytes; 0 for all of it.
    pub offset: u64,
    /// First frame that would be lost; `None` if the damage hides it.
    pub first_lost: Option<Sequence>,
    /// Last frame that is known to have been there; `None` if nothing behind the damage can be read.
    pub last_lost: Option<Sequence>,
    /// Whole entries that can still be read behind the damage and would be lost.
    pub batches_lost: u64,
    /// Later segment files that would be removed.
    pub segments_removed: Vec<String>,
}

/// Looks for damage that keeps a journal from being opened and says what a cut there would lose. `None`: there is none.
///
/// # Errors
/// `WrongVersion` and `ForeignCluster`, which no cut repairs; `UnknownCluster`; `Io`.
pub fn plan_cut(storage: &SharedStorage, cluster_id: Option<u128>) -> Result<Option<CutPlan>> {
    let damage = match verify(storage, cluster_id, &mut |_| {}) {
        Ok(_) => return Ok(None),
        Err(damage) => damage,
    };
    let text = damage.to_string();
    let (file, offset, first_lost) = match damage {
        JournalError::Corrupt(corruption) => (corruption.file, corruption.offset, Some(corruption.sequence)),
        JournalError::MissingSegment { next, .. } => (next, 0, None),
        JournalError::SegmentLength { file, .. } => (file, 0, None),
        other => return Err(other),
    };
    let later: Vec<String> = segment_files(storage)?.into_iter().filter(|name| *name > file).collect();
    let mut plan = CutPlan {
        damage: text,
        file,
        offset,
        first_lost,
        last_lost: None,
        batches_lost: 0,
        segments_removed: later,
    };
    count_lost(storage, cluster_id, &mut plan)?;
    Ok(Some(plan))
}

fn segment_files(storage: &SharedStorage) -> Result<Vec<String>> {
    let names = storage.list(JOURNAL_FOLDER).context("list", JOURNAL_FOLDER)?;
    let paths = names.into_iter().map(|name| format!("{JOURNAL_FOLDER}/{name}"));
    Ok(paths.filter(|path| crate::survey::is_segment(path)).collect())
}

/// Counts the batches that are whole by themselves behind the damage.
fn count_lost(storage: &SharedStorage, cluster_id: Option<u128>, plan: &mut CutPlan) -> Result<()> {
    let first = (&plan.file, plan.offset);
    let files = std::iter::once(first).chain(plan.segments_removed.iter().map(|file| (file, 0)));
    let (mut batches, mut last) = (0, None);
    for (file, offset) in files {
        let mut segment = Segment::open(storage, file.clone(), Access::Read)?;
        let seed = match segment.header()? {
            SegmentHeaderRead::Valid(_, seed) => seed,
            // What the header must have said is known of the log's first segment alone.
            _ => match cluster_id.filter(|_| *file == segment_path(1)) {
                Some(cluster_id) => {
                    Position::start().segment_header(cluster_id, 1).encode(&mut [0; BLOCK_BYTES])
                }
                None => continue,
            },
        };
        let mut at = offset.max(BLOCK_BYTES as u64);
        while at < segment.length {
            match segment.lone_batch(at, seed)? {
                Some(header) => {
                    batches += u64::from(header.kind.is_entry());
                    last = last.max(Some(header.last_sequence()));
                    at = next_offset(at, &header);
                }
                None => at += BLOCK_BYTES as u64,
            }
        }
    }
    plan.batches_lost = batches;
    plan.last_lost = last.filter(|last| plan.first_lost.is_none_or(|first| *last >= first));
    Ok(())
}

/// Cuts a damaged journal where `plan` says, which must still be what [`plan_cut`] says: zeros from there to the end of
/// the segment, and the later segments removed. Whatever was acknowledged in there is lost.
///
/// # Errors
/// `Locked` if a server has the directory; `Option` if the journal is no longer as it was planned; `Io`.
pub fn cut(storage: &SharedStorage, cluster_id: Option<u128>, plan: &CutPlan) -> Result<()> {
    let _lock = take_lock(storage)?;
    if plan_cut(storage, cluster_id)?.as_ref() != Some(plan) {
        return Err(JournalError::Option("the journal has changed since the cut was planned".to_owned()));
    }
    // The last one first: a power cut in between then leaves the damage, not a gap.
    let whole = (plan.offset == 0).then_some(&plan.file);
    for file in plan.segments_removed.iter().rev().chain(whole) {
        match storage.remove(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            removed => removed.context("remove", file)?,
        }
        storage.sync_dir(JOURNAL_FOLDER).context("sync", JOURNAL_FOLDER)?;
    }
    if plan.offset > 0 {
        let file = storage.open(&plan.file, Access::ReadWrite).context("open", &plan.file)?;
        let length = file.length().context("measure", &plan.file)?;
        recovery::zero_range(&*file, &plan.file, plan.offset, length)?;
    }
    Ok(())
}

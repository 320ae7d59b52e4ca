//! Where a journal ends, and whether what stands behind the end is a torn tail or damage. Reads only; the cut that it
//! finds is made by [`Ending::cut`].
//!
//! A write is made only after the one before it is durable (at `disk`), and a segment is begun only after the one
//! before it is closed and durable. So a valid batch behind a bad one shows that the bad one was whole once, unless both were
//! in one write: entries say with which one theirs began, a mark is a write of its own, and a segment's header goes with
//! the write of its first entry.

use protocol::Sequence;
use protocol::planted::{Bug, is_on};

use crate::error::{Context, Corruption, Evidence, Result};
use crate::format::{self, BLOCK_BYTES, BatchHeader, BatchKind, SegmentHeader, SegmentHeaderRead};
use crate::scan::{Found, Position, Segment, next_offset};
use crate::storage::{Access, SharedStorage};
use crate::survey::{Survey, Surveyed};

/// Bytes looked at together when a segment's rest is searched for anything but zeros.
const SEARCH_BYTES: usize = 16 * BLOCK_BYTES;

/// A torn tail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TornTail {
    /// Segment file, relative to the data directory.
    pub file: String,
    /// Where it starts, in bytes.
    pub offset: u64,
    /// Bytes from there to the last one that isn't zero.
    pub bytes: u64,
    /// The sequence that its first frame would have had. If the disk lied about an fsync, it may have been
    /// acknowledged.
    pub sequence: Sequence,
}

/// How a segment was read to its end.
#[derive(Debug)]
pub(crate) struct SegmentEnding {
    /// Behind the last batch.
    pub(crate) offset: u64,
    pub(crate) position: Position,
    /// The last batch of any kind.
    pub(crate) last_kind: Option<BatchKind>,
    /// Entries of all kinds.
    pub(crate) batches: u64,
    pub(crate) marks: u64,
    /// The highest index that a batch or mark calls committed.
    pub(crate) committed_index: u64,
    /// What stopped the reading, unless it was the end mark.
    pub(crate) stopped: Option<&'static str>,
}

/// Where a journal ends.
#[derive(Debug)]
pub(crate) struct Ending {
    pub(crate) position: Position,
    /// The segment that the next batch goes into, if one is begun and not closed: its place in the survey, the offset,
    /// and the seed of its batches' checksums.
    pub(crate) current: Option<(usize, u64, u32)>,
    pub(crate) last_kind: Option<BatchKind>,
    /// The highest index that the last segment's batches and marks call committed.
    pub(crate) committed_index: u64,
    /// Bytes behind the end that are not zero, to be zeroed before anything is written.
    pub(crate) torn: Vec<TornTail>,
}

impl Ending {
    /// The end of a journal that nothing was ever written to.
    fn of_nothing() -> Self {
        Self {
            position: Position::start(),
            current: None,
            last_kind: None,
            committed_index: 0,
            torn: Vec::new(),
        }
    }
}

/// Reads `segment` from its first batch as far as batches follow each other. `visit` sees each with its offset.
pub(crate) fn read_segment(
    segment: &mut Segment,
    seed: u32,
    start: Position,
    visit: &mut dyn FnMut(&Segment, u64, &BatchHeader),
) -> Result<SegmentEnding> {
    let mut ending = SegmentEnding {
        offset: BLOCK_BYTES as u64,
        position: start,
        last_kind: None,
        batches: 0,
        marks: 0,
        committed_index: 0,
        stopped: None,
    };
    loop {
        match segment.batch(ending.offset, seed, &mut ending.position)? {
            Found::Batch(header) => {
                visit(segment, ending.offset, &header);
                ending.offset = next_offset(ending.offset, &header);
                ending.last_kind = Some(header.kind);
                ending.committed_index = ending.committed_index.max(header.committed_index);
                if header.kind.is_entry() {
                    ending.batches += 1;
                } else {
                    ending.marks += 1;
                }
                if header.kind == BatchKind::SegmentEnd {
                    return Ok(ending);
                }
            }
            Found::Nothing(reason) => {
                ending.stopped = Some(reason);
                return Ok(ending);
            }
        }
    }
}

/// Evidence in `segment` from `offset` on that the log went on there with `next` and more. What `is_harmless` says of may
/// have been part of the write that was torn.
fn evidence_behind(
    segment: &mut Segment,
    seed: u32,
    offset: u64,
    next: Sequence,
    is_harmless: &dyn Fn(&BatchHeader) -> bool,
) -> Result<Option<Evidence>> {
    let mut followed = None;
    let mut offset = offset;
    while offset < segment.length {
        if let Some(header) = segment.lone_batch(offset, seed)? {
            if header.durable_sequence >= next {
                let (file, sequence) = (segment.name.clone(), header.durable_sequence);
                return Ok(Some(Evidence::Durable { file, offset, sequence }));
            }
            if followed.is_none() && !is_harmless(&header) {
                followed = Some(Evidence::Followed { file: segment.name.clone(), offset });
            }
        }
        offset += BLOCK_BYTES as u64;
    }
    Ok(followed)
}

/// Evidence behind what stands at `offset` and is no batch that follows `position`.
fn evidence_torn(
    segment: &mut Segment,
    seed: u32,
    offset: u64,
    position: &Position,
) -> Result<Option<Evidence>> {
    // If the entry that should be here is whole further on, what is here was a mark, a write of its own.
    let bad = position.index + 1;
    let same_write =
        |header: &BatchHeader| header.kind.is_entry() && header.index > bad && header.write_index <= bad;
    evidence_behind(segment, seed, offset + BLOCK_BYTES as u64, position.next_sequence, &same_write)
}

/// Evidence in a segment whose header is blank or bad although the log could only go on there with `expected`.
fn evidence_unbegun(segment: &mut Segment, expected: &SegmentHeader) -> Result<Option<Evidence>> {
    let mut block = [0; BLOCK_BYTES];
    let seed = expected.encode(&mut block);
    let first_write =
        |header: &BatchHeader| header.kind.is_entry() && header.write_index <= expected.first_index;
    evidence_behind(segment, seed, BLOCK_BYTES as u64, expected.first_sequence, &first_write)
}

/// What isn't zero in `segment` from `offset` on.
fn torn_behind(segment: &mut Segment, offset: u64, sequence: Sequence) -> Result<Option<TornTail>> {
    let mut end = 0;
    let mut at = offset;
    while at < segment.length {
        let bytes = segment.bytes(at, SEARCH_BYTES)?;
        if !format::is_zero(bytes)
            && let Some(last) = bytes.iter().rposition(|byte| *byte != 0)
        {
            end = at + last as u64 + 1;
        }
        at += SEARCH_BYTES as u64;
    }
    let file = segment.name.clone();
    Ok((end > 0).then(|| TornTail { file, offset, bytes: end - offset, sequence }))
}

/// Finds the end of the journal from its last begun segment on; segments before that are vouched for by it and are
/// checked when they are read.
///
/// # Errors
/// `Corrupt` if something shows that the journal once went on behind what can be read.
pub(crate) fn find_end(storage: &SharedStorage, survey: &Survey, cluster_id: u128) -> Result<Ending> {
    let mut tail = survey.last_begun();
    let mut torn = Vec::new();
    // A bad header on the last begun segment: either its first write was torn, then the log ends in the one before.
    let bad_from = match tail.and_then(|place| survey.segments.get(place).map(|found| (place, found))) {
        Some((place, found)) if !matches!(found.header, SegmentHeaderRead::Valid(..)) => {
            tail = place.checked_sub(1);
            place
        }
        Some((place, _)) => place + 1,
        None => 0,
    };
    check_headers(storage, survey, tail)?;
    let mut ending = match tail.and_then(|place| survey.segments.get(place).map(|found| (place, found))) {
        Some((place, found)) => read_tail(storage, found, place)?,
        None => Ending::of_nothing(),
    };
    for (place, found) in survey.segments.iter().enumerate().skip(bad_from) {
        let mut segment = Segment::open(storage, found.path.clone(), Access::Read)?;
        let next = ending.position.next_sequence;
        let reason = "the segment's header is damaged";
        let corrupt =
            |evidence| Corruption { file: found.path.clone(), offset: 0, sequence: next, reason, evidence };
        // Only the first segment of a log has none before it; a later one without it was begun and pruned up to.
        if tail.is_none() && place == 0 && found.number != 1 {
            return Err(corrupt(Evidence::Known { sequence: next }).into());
        }
        // A segment of zeros, the usual case, holds no evidence.
        let Some(tail) = torn_behind(&mut segment, 0, next)? else { continue };
        let expected = ending.position.segment_header(cluster_id, found.number);
        if let Some(evidence) = evidence_unbegun(&mut segment, &expected)? {
            return Err(corrupt(evidence).into());
        }
        torn.push(tail);
    }
    ending.torn.extend(torn);
    Ok(ending)
}

/// Every segment up to the tail must have a valid header, since the log went on behind it.
fn check_headers(storage: &SharedStorage, survey: &Survey, tail: Option<usize>) -> Result<()> {
    let Some(tail) = tail else { return Ok(()) };
    let mut before: Option<&Surveyed> = None;
    for found in survey.segments.iter().take(tail + 1) {
        if !matches!(found.header, SegmentHeaderRead::Valid(..)) {
            let sequence = match before {
                Some(before) => end_of(storage, before)?.position.next_sequence,
                None => Sequence(1),
            };
            let evidence =
                Evidence::Followed { file: crate::survey::segment_path(found.number + 1), offset: 0 };
            let reason = "the segment's header is damaged";
            return Err(Corruption { file: found.path.clone(), offset: 0, sequence, reason, evidence }.into());
        }
        before = Some(found);
    }
    Ok(())
}

fn end_of(storage: &SharedStorage, found: &Surveyed) -> Result<SegmentEnding> {
    let mut segment = Segment::open(storage, found.path.clone(), Access::Read)?;
    let (position, seed) = match &found.header {
        SegmentHeaderRead::Valid(header, seed) => (Position::of_segment(header), *seed),
        _ => (Position::start(), 0),
    };
    read_segment(&mut segment, seed, position, &mut |_, _, _| {})
}

fn read_tail(storage: &SharedStorage, found: &Surveyed, place: usize) -> Result<Ending> {
    let SegmentHeaderRead::Valid(header, seed) = &found.header else {
        return Ok(Ending::of_nothing());
    };
    let mut segment = Segment::open(storage, found.path.clone(), Access::Read)?;
    let end = read_segment(&mut segment, *seed, Position::of_segment(header), &mut |_, _, _| {})?;
    let Some(reason) = end.stopped else {
        return Ok(Ending {
            position: end.position,
            current: None,
            last_kind: end.last_kind,
            committed_index: end.committed_index,
            torn: Vec::new(),
        });
    };
    let next = end.position.next_sequence;
    let torn = torn_behind(&mut segment, end.offset, next)?;
    if torn.is_some()
        && !is_on(Bug::TruncateOnBadCrc)
        && let Some(evidence) = evidence_torn(&mut segment, *seed, end.offset, &end.position)?
    {
        let (file, offset) = (found.path.clone(), end.offset);
        return Err(Corruption { file, offset, sequence: next, reason, evidence }.into());
    }
    Ok(Ending {
        position: end.position,
        current: Some((place, end.offset, *seed)),
        last_kind: end.last_kind,
        committed_index: end.committed_index,
        torn: torn.into_iter().collect(),
    })
}

/// Overwrites a torn tail with zeros and makes them durable.
pub(crate) fn zero(storage: &SharedStorage, torn: &TornTail) -> Result<()> {
    let file = storage.open(&torn.file, Access::ReadWrite).context("open", &torn.file)?;
    zero_range(&*file, &torn.file, torn.offset, torn.offset + torn.bytes)
}

/// Overwrites whole blocks from `offset` to at least `end` with zeros and makes them durable.
pub(crate) fn zero_range(
    file: &dyn crate::storage::StorageFile,
    name: &str,
    offset: u64,
    end: u64,
) -> Result<()> {
    let end = end.next_multiple_of(BLOCK_BYTES as u64);
    let zeros = vec![0_u8; SEARCH_BYTES];
    let mut at = offset;
    while at < end {
        let chunk = (end - at).min(SEARCH_BYTES as u64) as usize;
        file.write_all_at(zeros.get(..chunk).unwrap_or_default(), at).context("zero", name)?;
        at += chunk as u64;
    }
    file.sync_data().context("sync", name)
}

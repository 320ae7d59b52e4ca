//! Reading all kept segments in order, each checked against the one before. Never writes.

use protocol::Sequence;

use crate::error::{Corruption, Evidence, JournalError, Result};
use crate::format::{BatchHeader, SegmentHeader};
use crate::recovery::{self, SegmentEnding};
use crate::scan::{Position, Segment};
use crate::storage::{Access, SharedStorage};
use crate::survey::{Survey, Surveyed, segment_path};

/// What sees each batch: the segment, the offset in it, the header, the payload.
pub(crate) type Visit<'a> = dyn FnMut(&Surveyed, u64, &BatchHeader, &[u8]) + 'a;

/// Reads the segments of `survey` as far as they were begun. `ended` hears of each one when it was read.
///
/// # Errors
/// `Corrupt` if one ends where it shouldn't; what stands behind the end of the last one is not looked at. `Io`.
pub(crate) fn walk(
    storage: &SharedStorage,
    survey: &Survey,
    visit: &mut Visit<'_>,
    ended: &mut dyn FnMut(&Surveyed, &SegmentHeader, SegmentEnding),
) -> Result<()> {
    let mut position: Option<Position> = None;
    for found in &survey.segments {
        let Some(header) = found.valid() else { break };
        let begins = Position::of_segment(header);
        if position.as_ref().is_some_and(|position| *position != begins) {
            // The segment before ends early, or is another log's.
            let sequence = position.map_or(begins.next_sequence, |position| position.next_sequence);
            return Err(does_not_go_on(found, sequence));
        }
        let mut segment = Segment::open(storage, found.path.clone(), Access::Read)?;
        let mut show = |segment: &Segment, offset: u64, header: &BatchHeader| {
            visit(found, offset, header, segment.payload());
        };
        let end = recovery::read_segment(&mut segment, found.seed(), begins, &mut show)?;
        let followed =
            survey.segments.iter().any(|later| later.number > found.number && later.valid().is_some());
        if let Some(reason) = end.stopped.filter(|_| followed) {
            let evidence = Evidence::Followed { file: segment_path(found.number + 1), offset: 0 };
            let (file, offset, sequence) = (found.path.clone(), end.offset, end.position.next_sequence);
            return Err(Corruption { file, offset, sequence, reason, evidence }.into());
        }
        position = Some(end.position.clone());
        ended(found, header, end);
    }
    Ok(())
}

fn does_not_go_on(found: &Surveyed, sequence: Sequence) -> JournalError {
    Corruption {
        file: found.path.clone(),
        offset: 0,
        sequence,
        reason: "the segment does not go on where the one before it ends",
        evidence: Evidence::Followed { file: found.path.clone(), offset: 0 },
    }
    .into()
}

//! Copying a journal while it is written.

use std::io::ErrorKind;

use protocol::Sequence;

use crate::error::{Context, JournalError, Result};
use crate::format::{BLOCK_BYTES, BatchKind};
use crate::inspect;
use crate::recovery;
use crate::scan::{Position, Segment, next_offset};
use crate::storage::{Access, SharedStorage, StorageFile};
use crate::survey::{JOURNAL_FOLDER, Survey};

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupReport {
    /// Segments copied.
    pub segments: u64,
    /// Bytes of batches copied.
    pub bytes: u64,
    /// Oldest frame in the copy.
    pub first_sequence: Sequence,
    /// Newest frame in the copy; it may be in the middle of nothing: only whole batches are copied.
    pub last_sequence: Sequence,
}

/// Copies the journal from `from` into `to`, which must hold no journal yet: every batch that begins at or before
/// `up_to`, as of now if `None`. Each batch is checked on the way, and the copy is read once more and durable when this
/// returns. The cluster id is as [`inspect::verify`] takes it. The writer of `from` may go on; segments that it prunes meanwhile are still copied.
///
/// # Errors
/// Those of [`inspect::verify`] for `from` and for the copy; `PastEnd` if `up_to` is not there; `Option` if `to`
/// holds a journal; `Io`.
pub fn backup(
    from: &SharedStorage,
    to: &SharedStorage,
    cluster_id: Option<u128>,
    up_to: Option<Sequence>,
) -> Result<BackupReport> {
    let survey = Survey::read(from, cluster_id)?;
    // What is copied ends where a segment can't be read: that must be the journal's end and no damage.
    inspect::settled_end(from, &survey, cluster_id)?;
    // All files are opened first: what is pruned from here on stays readable.
    let mut segments = Vec::new();
    for found in &survey.segments {
        let Some(header) = found.valid() else { break };
        if up_to.is_some_and(|up_to| header.first_sequence > up_to) {
            break;
        }
        let segment = Segment::open(from, found.path.clone(), Access::Read)?;
        segments.push((segment, found.seed(), Position::of_segment(header)));
    }
    to.create_dir(JOURNAL_FOLDER).context("create", JOURNAL_FOLDER)?;
    if !to.list(JOURNAL_FOLDER).context("list", JOURNAL_FOLDER)?.is_empty() {
        return Err(JournalError::Option(format!("{} is not empty", to.locate(JOURNAL_FOLDER).display())));
    }
    to.sync_dir("").context("sync", "backup directory")?;
    let mut report = BackupReport {
        segments: 0,
        bytes: 0,
        first_sequence: survey.first_sequence().unwrap_or(Sequence(1)),
        last_sequence: Sequence(0),
    };
    for (mut segment, seed, position) in segments {
        let copy = match to.create(&segment.name) {
            Err(error) if error.kind() == ErrorKind::StorageFull => {
                return Err(JournalError::NoSpace { file: segment.name, source: error });
            }
            created => created.context("create", &segment.name)?,
        };
        copy.allocate_zeroed(segment.length).context("allocate", &segment.name)?;
        let (end, last) = copy_segment(&mut segment, seed, position, up_to, &*copy)?;
        copy.sync_data().context("sync", &segment.name)?;
        report.segments += 1;
        report.bytes += end;
        report.last_sequence = last;
    }
    to.sync_dir(JOURNAL_FOLDER).context("sync", JOURNAL_FOLDER)?;
    if let Some(wanted) = up_to.filter(|up_to| *up_to > report.last_sequence) {
        return Err(JournalError::PastEnd { wanted, last: report.last_sequence });
    }
    let copied = inspect::verify(to, cluster_id, &mut |_| {})?;
    if copied.last_sequence != report.last_sequence || !copied.torn.is_empty() {
        return Err(JournalError::Option("the copy does not read as what was copied".to_owned()));
    }
    Ok(report)
}

/// Copies the header and the batches up to `up_to`; gives the bytes and the last sequence.
fn copy_segment(
    segment: &mut Segment,
    seed: u32,
    start: Position,
    up_to: Option<Sequence>,
    copy: &dyn StorageFile,
) -> Result<(u64, Sequence)> {
    let mut end = BLOCK_BYTES as u64;
    let mut last = start.last_sequence();
    recovery::read_segment(segment, seed, start, &mut |_, offset, header| {
        let wanted = match header.kind {
            BatchKind::Frames => up_to.is_none_or(|up_to| header.first_sequence <= up_to),
            _ => up_to.is_none_or(|up_to| header.last_sequence() <= up_to),
        };
        if wanted {
            end = next_offset(offset, header);
            last = header.last_sequence();
        }
    })?;
    let name = segment.name.clone();
    let mut at = 0;
    while at < end {
        let chunk = (end - at).min(1 << 20) as usize;
        let bytes = segment.bytes(at, chunk)?;
        copy.write_all_at(bytes, at).context("write", &name)?;
        at += chunk as u64;
    }
    Ok((end, last))
}

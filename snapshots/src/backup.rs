//! Copies of a whole data directory, made while it is in use, and the check of one. A backup has a data directory's
//! layout: a server starts from it as it stands, and restoring is backing it up into a new directory.

use std::io::ErrorKind;

use exchange::Exchange;
use journaler::storage::{Access, SharedStorage};
use journaler::{
    BackupReport, JournalReader, REPORT_RECORD_BYTES, REPORTS_FOLDER, ReportLog, ReportLogOptions, SKIPS_FILE,
};
use protocol::{FrameHeader, Output, REPORT_STRIDE, ReportNumber, Sequence, SessionId, TradingDay};

use crate::error::{Context, Result, SnapshotError};
use crate::file::{self, SNAPSHOT_FOLDER, SnapshotReader};
use crate::maker::Marks;
use crate::recovery::{Progress, Recovered, RecoveryObserver, recover};
use crate::store::SnapshotStore;

/// Bytes copied at a time.
const COPY_BYTES: usize = 1 << 20;
/// Reports looked at together by a check.
const REPORTS_AT_ONCE: usize = 1024;

/// What a backup holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The journal's part.
    pub journal: BackupReport,
    /// Snapshots, oldest first.
    pub snapshots: Vec<Sequence>,
    /// All reports up to this frame are in it; those of later frames come back by replay.
    pub reported: Sequence,
    /// Report files.
    pub report_files: u64,
}

/// Copies snapshots, report log and journal into the empty directory `to`, durable when this returns. The server may go
/// on meanwhile. The journal is copied up to `journaled`, or as far as it reads if that is not known (another process).
///
/// # Errors
/// `BackupNotEmpty`, `BackupOutrun`, `JournalTooShort`, `Journal`, `Io`. What was copied by then stays.
pub fn back_up(store: &SnapshotStore, to: &SharedStorage, journaled: Option<Sequence>) -> Result<Backup> {
    let from = store.storage();
    if !to.list("").context("list", "the backup directory")?.is_empty() {
        return Err(SnapshotError::BackupNotEmpty(to.locate("").display().to_string()));
    }
    // The order matters: what is opened later reaches at least as far. The mark first, so that the reports copied after
    // it include what it vouches for; snapshots not past it are opened then, and stay readable if they are pruned; the
    // journal last, so that it goes on from all of them. Skips don't change while a server runs.
    let reported = ReportLog::mark_of(from)?;
    let mark = whole_file(from, &mark_path())?;
    let mut snapshots = open_snapshots(store, reported)?;
    let report_files = copy_reports(from, to, mark.as_deref())?;
    let journal = journaler::backup(from, to, Some(store.cluster_id()), journaled)?;
    copy_skips(from, to)?;
    let copied = copy_snapshots(&mut snapshots, to)?;
    let newest = copied.last().copied().unwrap_or_default();
    if journal.last_sequence < newest {
        return Err(SnapshotError::JournalTooShort { newest, journal_last: journal.last_sequence });
    }
    if journal.first_sequence > newest.next() {
        return Err(SnapshotError::BackupOutrun { newest, journal_first: journal.first_sequence });
    }
    to.sync_dir("").context("sync", "the backup directory")?;
    Ok(Backup { journal, snapshots: copied, reported, report_files })
}

fn mark_path() -> String {
    format!("{REPORTS_FOLDER}/mark")
}

fn whole_file(from: &SharedStorage, path: &str) -> Result<Option<Vec<u8>>> {
    let file = match from.open(path, Access::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.context("open", path)?,
    };
    let mut bytes = vec![0; usize::try_from(file.length().context("measure", path)?).unwrap_or(usize::MAX)];
    let read = file.read_at(&mut bytes, 0).context("read", path)?;
    bytes.truncate(read);
    Ok(Some(bytes))
}

/// Copies the file of skips, if there is one: without it the copy of the journal would be another history.
fn copy_skips(from: &SharedStorage, to: &SharedStorage) -> Result<()> {
    let Some(skips) = whole_file(from, SKIPS_FILE)? else { return Ok(()) };
    write_file(to, SKIPS_FILE, &skips)
}

/// Writes a file that must not be there yet; its name is durable once its folder is.
fn write_file(to: &SharedStorage, path: &str, bytes: &[u8]) -> Result<()> {
    let copy = to.create(path).context("create", path)?;
    copy.write_all_at(bytes, 0).context("write", path)?;
    copy.sync_data().context("sync", path)
}

/// The snapshots not past `at_most`, oldest first; those whose header is bad are left out.
fn open_snapshots(store: &SnapshotStore, at_most: Sequence) -> Result<Vec<SnapshotReader>> {
    let mut readers = Vec::new();
    for sequence in store.list()?.into_iter().filter(|sequence| *sequence <= at_most) {
        match SnapshotReader::open(store.storage(), store.cluster_id(), sequence) {
            Ok(reader) => readers.push(reader),
            Err(error) => tracing::warn!(%sequence, %error, "snapshot left out of the backup"),
        }
    }
    Ok(readers)
}

/// Copies the snapshots whose checksums hold, and gives their sequences.
fn copy_snapshots(readers: &mut [SnapshotReader], to: &SharedStorage) -> Result<Vec<Sequence>> {
    to.create_dir(SNAPSHOT_FOLDER).context("create", SNAPSHOT_FOLDER)?;
    let mut copied = Vec::new();
    for reader in readers {
        let sequence = reader.header().sequence;
        match file::copy(reader, to) {
            Ok(()) => copied.push(sequence),
            Err(error @ SnapshotError::Corrupt { .. }) => {
                tracing::warn!(%sequence, %error, "snapshot left out of the backup");
            }
            Err(error) => return Err(error),
        }
    }
    to.sync_dir(SNAPSHOT_FOLDER).context("sync", SNAPSHOT_FOLDER)?;
    Ok(copied)
}

/// Copies the report files, then the mark `mark` that was read before, and gives the number of files.
fn copy_reports(from: &SharedStorage, to: &SharedStorage, mark: Option<&[u8]>) -> Result<u64> {
    let Some(mark) = mark else { return Ok(0) };
    let mut files = 0;
    to.create_dir(REPORTS_FOLDER).context("create", REPORTS_FOLDER)?;
    let days = from.list(REPORTS_FOLDER).context("list", REPORTS_FOLDER)?;
    for day in days.iter().filter(|name| name.starts_with("day-")) {
        let folder = format!("{REPORTS_FOLDER}/{day}");
        let names = match from.list(&folder) {
            // A day that ended meanwhile for good; the replay ends it as well.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            listed => listed.context("list", &folder)?,
        };
        to.create_dir(&folder).context("create", &folder)?;
        for name in names {
            files += u64::from(copy_file(from, to, &format!("{folder}/{name}"))?);
        }
        to.sync_dir(&folder).context("sync", &folder)?;
    }
    write_file(to, &mark_path(), mark)?;
    to.sync_dir(REPORTS_FOLDER).context("sync", REPORTS_FOLDER)?;
    Ok(files)
}

/// Copies a file as long as it is now. False: it is gone, or holds no report yet.
fn copy_file(from: &SharedStorage, to: &SharedStorage, path: &str) -> Result<bool> {
    let file = match from.open(path, Access::Read) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        opened => opened.context("open", path)?,
    };
    let length = file.length().context("measure", path)?;
    // The header alone may be in the middle of being written, and is nothing worth.
    if length <= REPORT_RECORD_BYTES as u64 {
        return Ok(false);
    }
    let copy = to.create(path).context("create", path)?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut at = 0;
    while at < length {
        let wanted = usize::try_from(length - at).unwrap_or(COPY_BYTES).min(COPY_BYTES);
        let chunk = buffer.get_mut(..wanted).unwrap_or_default();
        let read = file.read_at(chunk, at).context("read", path)?;
        if read == 0 {
            break;
        }
        copy.write_all_at(chunk.get(..read).unwrap_or_default(), at).context("write", path)?;
        at += read as u64;
    }
    copy.sync_data().context("sync", path)?;
    Ok(true)
}

/// What a start from a data directory that nobody uses would give.
#[derive(Debug)]
pub struct Checked {
    /// The state at the journal's end, with the snapshots that can't be used.
    pub recovered: Recovered,
    /// Last frame of the journal.
    pub journaled: Sequence,
    /// The report log's mark.
    pub reported: Sequence,
    /// Reports up to the mark that were read and found in their places.
    pub reports: u64,
}

/// Goes through a backup as a start would and as `verify` does: all of the journal, the newest usable snapshot, the
/// replay with the checkpoints in the log, and every report up to the mark.
///
/// # Errors
/// `Journal` for a damaged journal or report log, `ForeignCluster` through the snapshots, `Diverged`,
/// `NothingToStartFrom`, `Io`.
pub fn check(
    storage: &SharedStorage,
    cluster_id: u128,
    progress: &mut dyn FnMut(Progress),
) -> Result<Checked> {
    let stat = journaler::verify(storage, Some(cluster_id), &mut |_| {})?;
    let reported = ReportLog::mark_of(storage)?;
    let marks = Marks { journaled: stat.last_sequence, reported };
    let journal = JournalReader::open(storage.clone())?;
    let mut observer = CheckObserver { progress, storage, reports: Ok(0) };
    let recovered =
        recover(&SnapshotStore::new(storage.clone(), cluster_id), &journal, marks, &mut observer)?;
    Ok(Checked { recovered, journaled: stat.last_sequence, reported, reports: observer.reports? })
}

struct CheckObserver<'a> {
    progress: &'a mut dyn FnMut(Progress),
    storage: &'a SharedStorage,
    /// Reports found good at the mark, or the first that is not.
    reports: Result<u64>,
}

impl RecoveryObserver for CheckObserver<'_> {
    fn progress(&mut self, progress: Progress) {
        (self.progress)(progress);
    }

    fn at_mark(&mut self, exchange: &Exchange) {
        if exchange.sequence() > Sequence(0) {
            self.reports = read_reports(self.storage, exchange);
        }
    }

    fn output(&mut self, _output: &Output) {}
}

/// Reads each session's reports of the current trading day, as many as the state says there are.
fn read_reports(storage: &SharedStorage, exchange: &Exchange) -> Result<u64> {
    let log = ReportLog::open(storage.clone(), &ReportLogOptions::default())?;
    let day = exchange.trading_day();
    let (mut writer, reader) = (log.writer(), log.reader());
    let mut total = 0;
    for session in std::iter::once(SessionId::SYSTEM).chain(exchange.users().map(|user| user.session)) {
        let last = exchange.session(session).map_or(ReportNumber(0), |view| view.last_report);
        writer.restore(session, day, last);
        let mut next = 1;
        while next <= last.0 {
            let mut bytes = Vec::with_capacity(REPORTS_AT_ONCE * REPORT_STRIDE);
            let read = reader.read(session, day, ReportNumber(next), REPORTS_AT_ONCE, &mut bytes)?;
            let (strides, _) = bytes.as_chunks::<REPORT_STRIDE>();
            for stride in strides {
                check_report(stride, session, ReportNumber(next), day)?;
                next += 1;
            }
            if read == 0 {
                return Err(SnapshotError::ReportMissing { session, day, number: ReportNumber(next) });
            }
            total += read as u64;
        }
    }
    Ok(total)
}

fn check_report(
    stride: &[u8; REPORT_STRIDE],
    session: SessionId,
    number: ReportNumber,
    day: TradingDay,
) -> Result<()> {
    let ours = FrameHeader::read(stride).is_ok_and(|header| header.session() == session);
    let found = protocol::Report::decode(stride).ok().and_then(|report| report.output.event.recipient());
    if ours && found.is_some_and(|to| to.number == number) {
        Ok(())
    } else {
        Err(SnapshotError::ReportMissing { session, day, number })
    }
}

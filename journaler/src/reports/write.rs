//! Writing reports: the output stage's end.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use protocol::{REPORT_STRIDE, ReportNumber, SessionId, TradingDay};

use super::{Available, EARLY_SYNC_BYTES, Key, RECORD, REPORT_RECORD_BYTES, Shared, checksum};
use crate::error::{Context, JournalError, Result};

/// The one writer of a report log.
#[derive(Debug)]
pub struct ReportWriter {
    shared: Arc<Shared>,
    /// The writer's own way to the counts, so that the shared map is asked once a session and day.
    counts: HashMap<Key, Arc<Available>>,
    /// The reports of one write with their checksums.
    records: Vec<u8>,
}

/// Bytes of records kept between writes: what a step of the output stage writes at most. Longer ones give the rest back.
const RECORD_BYTES_KEPT: usize = 2048 * REPORT_RECORD_BYTES;

impl ReportWriter {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, counts: HashMap::new(), records: Vec::new() }
    }

    /// Tells, at a start, that reports 1 to `last_number` of a session are there: what the engine's state at the
    /// snapshot says. Replay then writes from the next number on.
    pub fn restore(&mut self, session: SessionId, day: TradingDay, last_number: ReportNumber) {
        let key = Key { day, session };
        self.enter_day(day);
        self.count(key).set(last_number.0);
    }

    /// Tells, at a start, that a day's files are complete as they are: for the previous day, if the snapshot that the
    /// start replays from was made after that day had ended. (If not, replay writes them again.)
    ///
    /// # Errors
    /// `Io`.
    pub fn restore_ended_day(&mut self, day: TradingDay) -> Result<()> {
        self.enter_day(day);
        for session in self.shared.sessions_of(day)? {
            let key = Key { day, session };
            let path = key.path();
            let length = self.shared.files.existing(key)?.length().context("measure", &path)?;
            self.count(key).set((length / RECORD).saturating_sub(1));
        }
        Ok(())
    }

    /// Writes the reports `first_number`, `first_number + 1`, ... of a session and shows them to readers. `reports` holds
    /// them one after the other, each [`REPORT_STRIDE`] bytes. Writing a report again is harmless.
    ///
    /// # Errors
    /// `Report` if the numbers leave a gap or `reports` is not whole strides, a bug of the caller; `Io`, which is fatal.
    pub fn write(
        &mut self,
        session: SessionId,
        day: TradingDay,
        first_number: ReportNumber,
        reports: &[u8],
    ) -> Result<()> {
        let key = Key { day, session };
        let wrong =
            |reason| JournalError::Report { file: key.path(), offset: first_number.0 * RECORD, reason };
        if !reports.len().is_multiple_of(REPORT_STRIDE) || first_number.0 == 0 {
            return Err(wrong("not whole reports, or the number 0"));
        }
        self.enter_day(day);
        let available = Arc::clone(self.count(key));
        let before = available.get();
        if first_number.0 > before + 1 {
            return Err(wrong("the numbers before it were not written"));
        }
        let file = self.shared.files.writable(key)?;
        let records = self.records_of(key, first_number.0, reports);
        if let Err(error) = file.write_all_at(records, first_number.0 * RECORD) {
            // Not before: the path is allocated.
            return Err(error).context("write", &key.path());
        }
        if !available.dirty.swap(true, Ordering::AcqRel) {
            self.shared.files.push_dirty(key);
        }
        let unsynced = available.unsynced.fetch_add(reports.len() as u64, Ordering::Relaxed);
        if unsynced < EARLY_SYNC_BYTES && unsynced + reports.len() as u64 >= EARLY_SYNC_BYTES {
            self.shared.files.push_early(key);
        }
        let last = first_number.0 + (reports.len() / REPORT_STRIDE) as u64 - 1;
        available.set(before.max(last));
        Ok(())
    }

    /// The reports with their checksums, as they stand in the file.
    fn records_of(&mut self, key: Key, first_number: u64, reports: &[u8]) -> &[u8] {
        let reports = reports.as_chunks::<REPORT_STRIDE>().0;
        let bytes = reports.len() * REPORT_RECORD_BYTES;
        if self.records.len() > bytes.max(RECORD_BYTES_KEPT) {
            self.records.truncate(bytes.max(RECORD_BYTES_KEPT));
            self.records.shrink_to_fit();
        }
        // What is there from before is written over.
        if self.records.len() < bytes {
            self.records.resize(bytes, 0);
        }
        let records = self.records[..bytes].as_chunks_mut::<REPORT_RECORD_BYTES>().0;
        for ((number, report), record) in (first_number..).zip(reports).zip(records) {
            record[..REPORT_STRIDE].copy_from_slice(report);
            record[REPORT_STRIDE..].copy_from_slice(&checksum(key, number, report));
        }
        &self.records[..bytes]
    }

    fn count(&mut self, key: Key) -> &Arc<Available> {
        let shared = &self.shared;
        self.counts.entry(key).or_insert_with(|| shared.files.available_or_new(key))
    }

    fn enter_day(&mut self, day: TradingDay) {
        if day.0 > self.shared.current_day.load(Ordering::Relaxed) {
            self.shared.current_day.store(day.0, Ordering::Relaxed);
            self.counts.retain(|key, _| key.day.0 + 1 >= day.0);
        }
    }
}

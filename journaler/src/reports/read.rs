//! Reading reports: the gateways' end.

use std::sync::Arc;

use protocol::{REPORT_STRIDE, ReportNumber, SessionId, TradingDay};

use super::{Key, RECORD, REPORT_RECORD_BYTES, Shared, checksum};
use crate::error::{Context, JournalError, Result};

/// Most reports that one call reads.
pub const REPORTS_READ_MAX: usize = 4096;

/// Reads a report log while it is written. `Send + Sync`; clones share the open files.
#[derive(Clone, Debug)]
pub struct ReportReader {
    shared: Arc<Shared>,
}

impl ReportReader {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared }
    }

    /// Number of the last report of a session and day that can be read; 0 if there is none.
    pub fn available(&self, session: SessionId, day: TradingDay) -> ReportNumber {
        ReportNumber(self.shared.files.available(Key { day, session }).map_or(0, |available| available.get()))
    }

    /// Appends the reports from `from_number` on to `buffer`, at most `max` of them and at most [`REPORTS_READ_MAX`], each
    /// [`REPORT_STRIDE`] bytes long, and gives their number; 0 if there are none.
    ///
    /// # Errors
    /// `Report` with file and offset if a report that should be there is not, or not as it was written; `WrongVersion`,
    /// `Io`.
    pub fn read(
        &self,
        session: SessionId,
        day: TradingDay,
        from_number: ReportNumber,
        max: usize,
        buffer: &mut Vec<u8>,
    ) -> Result<usize> {
        let key = Key { day, session };
        let from = from_number.0.max(1);
        let there = (self.available(session, day).0 + 1).saturating_sub(from);
        let count = usize::try_from(there).unwrap_or(usize::MAX).min(max).min(REPORTS_READ_MAX);
        if count == 0 {
            return Ok(0);
        }
        let file = self.shared.files.existing(key)?;
        let start = buffer.len();
        buffer.resize(start + count * REPORT_RECORD_BYTES, 0);
        let target = buffer.get_mut(start..).unwrap_or_default();
        let read = file.read_at(target, from * RECORD).context("read", &key.path())?;
        match check(key, from, target, read) {
            None => {
                // Without their checksums the reports move together; what is left of the last ones goes.
                for place in 1..count {
                    let record = start + place * REPORT_RECORD_BYTES;
                    buffer.copy_within(record..record + REPORT_STRIDE, start + place * REPORT_STRIDE);
                }
                buffer.truncate(start + count * REPORT_STRIDE);
                Ok(count)
            }
            Some((place, reason)) => {
                buffer.truncate(start);
                let offset = (from + place as u64) * RECORD;
                Err(JournalError::Report { file: key.path(), offset, reason })
            }
        }
    }
}

/// The first of the records, of which `read` bytes are there, that is not the report of its place.
fn check(key: Key, from: u64, records: &[u8], read: usize) -> Option<(usize, &'static str)> {
    let (records, _) = records.as_chunks::<REPORT_RECORD_BYTES>();
    records.iter().enumerate().find_map(|(place, record)| {
        let (report, stored) = record.split_first_chunk::<REPORT_STRIDE>()?;
        if (place + 1) * REPORT_RECORD_BYTES > read {
            return Some((place, "no report stands here"));
        }
        (stored != checksum(key, from + place as u64, report))
            .then_some((place, "the report does not match its checksum"))
    })
}

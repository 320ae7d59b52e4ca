//! Reading reports: the gateways' end.

use std::sync::Arc;

use protocol::{FRAME_LENGTH_MAX, HEADER_LENGTH, REPORT_STRIDE, ReportNumber, SessionId, TradingDay};

use super::{Key, STRIDE, Shared};
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
    /// `Report` with file and offset if a report that should be there is not one, `Io`.
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
        buffer.resize(start + count * REPORT_STRIDE, 0);
        let target = buffer.get_mut(start..).unwrap_or_default();
        let read = file.read_at(target, from * STRIDE).context("read", &key.path())?;
        let bad = target.as_chunks::<REPORT_STRIDE>().0.iter().enumerate().position(|(place, report)| {
            let length = usize::from(u16::from_le_bytes([report[0], report[1]]));
            let end = (place + 1) * REPORT_STRIDE;
            end > read || !(HEADER_LENGTH..=REPORT_STRIDE.min(FRAME_LENGTH_MAX)).contains(&length)
        });
        match bad {
            None => Ok(count),
            Some(place) => {
                buffer.truncate(start);
                let offset = (from + place as u64) * STRIDE;
                Err(JournalError::Report { file: key.path(), offset, reason: "no report stands here" })
            }
        }
    }
}

//! Whether a frame, or one behind it, was processed by a run that went on: then what became of it was told, and it must not
//! be skipped. It only reads.

use std::collections::BTreeMap;
use std::sync::Arc;

use exchange::Exchange;
use journaler::{JournalError, JournalReader, REPORTS_FOLDER, ReportLog, ReportLogOptions};
use protocol::{
    Body, Command, FrameHeader, FrameKind, REPORT_STRIDE, Recipient, Report, ReportNumber, Sequence,
    SessionId, Timestamp,
};
use snapshots::SnapshotStore;

use super::Site;
use crate::error::CommandError;

impl Site {
    /// Refuses a frame that the log or something made of it shows to be behind some engine already.
    pub(super) fn refuse_applied(&self, sequence: Sequence) -> Result<(), CommandError> {
        let store = SnapshotStore::new(Arc::clone(&self.storage), self.cluster_id);
        let newest = store.list().map_err(|error| self.failed(&error))?.last().copied().unwrap_or_default();
        let reported = ReportLog::mark_of(&self.storage).map_err(|error| self.failed(&error))?;
        let evidence = if newest >= sequence {
            format!("the snapshot at {newest} holds what became of it")
        } else if reported >= sequence {
            format!("the reports of all frames up to {reported} are out")
        } else if let Some((tick, checkpoint)) = self.checkpoint_behind(sequence)? {
            format!("the tick at {tick} has the running hash of frame {checkpoint}")
        } else {
            return Ok(());
        };
        Err(self.was_applied(sequence, &evidence))
    }

    fn was_applied(&self, sequence: Sequence, evidence: &str) -> CommandError {
        self.failed(&format!(
            "frame {sequence} was processed already ({evidence}): what became of it was told, and another outcome would \
             change history; nothing is recorded"
        ))
    }

    /// The first tick behind a frame that carries the running hash at or behind it.
    fn checkpoint_behind(&self, sequence: Sequence) -> Result<Option<(Sequence, Sequence)>, CommandError> {
        let failed = |error: JournalError| self.failed(&error);
        let last = self.stat.last_sequence;
        let from = sequence.next().max(self.stat.first_sequence);
        let reader = JournalReader::open(Arc::clone(&self.storage)).map_err(failed)?;
        let mut cursor = reader.frames_from(from).map_err(failed)?;
        while let Some((at, frame)) = cursor.next_frame(last).map_err(failed)? {
            let is_tick = FrameHeader::read(frame).is_ok_and(|header| {
                header.kind() == Some(FrameKind::Tick) && header.session() == SessionId::SYSTEM
            });
            if is_tick
                && let Body::Tick(tick) = Command::decode(frame).body
                && (sequence..at).contains(&tick.checkpoint_sequence)
            {
                return Ok(Some((at, tick.checkpoint_sequence)));
            }
        }
        Ok(None)
    }

    /// Refuses a frame if a report of it, or of a later one, is in the report log: a report is written when its frame was
    /// applied whole, and before anybody hears of it.
    pub(super) fn refuse_reported(&self, sequence: Sequence, before: &Exchange) -> Result<(), CommandError> {
        let next = self.reports_behind(before)?;
        let failed = |error: JournalError| self.failed(&error);
        let reader = JournalReader::open(Arc::clone(&self.storage)).map_err(failed)?;
        let mut cursor = reader.frames_from(sequence).map_err(failed)?;
        let mut log_time = before.log_time();
        while let Some((at, frame)) = cursor.next_frame(self.stat.last_sequence).map_err(failed)? {
            log_time = log_time.max(Command::decode(frame).timestamp);
            // A report of frames that a power cut took from a journal at level `memory` may stand there, of other times.
            if let Some(to) = next.get(&(at, log_time)) {
                let evidence = format!("report {} of session {} is of frame {at}", to.number, to.session);
                return Err(self.was_applied(sequence, &evidence));
            }
        }
        Ok(())
    }

    /// What stands in the report log behind the reports of a state: the next one of each session.
    fn reports_behind(
        &self,
        before: &Exchange,
    ) -> Result<BTreeMap<(Sequence, Timestamp), Recipient>, CommandError> {
        let day = before.trading_day();
        if self.storage.list(&format!("{REPORTS_FOLDER}/day-{day}")).is_err() {
            return Ok(BTreeMap::new());
        }
        let failed = |error: JournalError| self.failed(&error);
        let log = ReportLog::open(Arc::clone(&self.storage), &ReportLogOptions::default()).map_err(failed)?;
        log.writer().restore_ended_day(day).map_err(failed)?;
        let reader = log.reader();
        let mut next = BTreeMap::new();
        for session in std::iter::once(SessionId::SYSTEM).chain(before.users().map(|user| user.session)) {
            let last = before.session(session).map_or(ReportNumber(0), |view| view.last_report);
            let mut bytes = Vec::new();
            match reader.read(session, day, ReportNumber(last.0 + 1), 1, &mut bytes) {
                // One that is torn was never told.
                Err(JournalError::Report { .. }) => continue,
                read => read.map_err(failed)?,
            };
            let report = bytes.first_chunk::<REPORT_STRIDE>().and_then(|stride| Report::decode(stride).ok());
            if let Some(Report { output, .. }) = report
                && let Some(to) = output.event.recipient()
            {
                next.insert((output.sequence, output.log_time), to);
            }
        }
        Ok(next)
    }
}

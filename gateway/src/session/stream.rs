//! Reports on their way to the client: a cursor into the session's day.

use protocol::soupbin::Packet;
use protocol::{EndReason, REPORT_STRIDE, ReportNumber, SessionId, TradingDay};

use super::copies::report_of;
use super::{Control, Now, Session, State};
use crate::buffers::Outbound;

/// Where a client is in its reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    wanted: Wanted,
    /// Whether it was at the end once: a lag is its own from then on.
    caught_up: bool,
}

/// Reports that can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Whose.
    pub session: SessionId,
    /// Of which day.
    pub day: TradingDay,
    /// The next one.
    pub next: ReportNumber,
}

/// What was read of the report log is not the report that must come next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("report {next} of session {session}, day {day}, is not what stands in its place in the report log")]
pub struct BadReport {
    /// Whose.
    pub session: SessionId,
    /// Of which day.
    pub day: TradingDay,
    /// The one that was due.
    pub next: ReportNumber,
}

impl Stream {
    pub(super) fn new(session: SessionId, day: TradingDay, next: ReportNumber) -> Self {
        Self { wanted: Wanted { session, day, next }, caught_up: false }
    }

    pub(super) fn day(&self) -> TradingDay {
        self.wanted.day
    }

    pub(super) fn next(&self) -> ReportNumber {
        self.wanted.next
    }

    /// Packs reports as they stand in the report log.
    fn pack(&mut self, strides: &[u8], out: &mut Outbound) -> Result<usize, BadReport> {
        let (strides, _) = strides.as_chunks::<REPORT_STRIDE>();
        for stride in strides {
            let Wanted { session, day, next } = self.wanted;
            out.report(report_of(stride, next).ok_or(BadReport { session, day, next })?);
            self.wanted.next.0 += 1;
        }
        Ok(strides.len())
    }
}

impl Session {
    /// The reports that the client must get next, while there is room for some.
    #[must_use]
    pub fn wants(&self) -> Option<Wanted> {
        match self.state {
            State::Live(stream) | State::Replaying(stream) | State::Ending { stream, .. } => {
                Some(stream.wanted)
            }
            _ => None,
        }
    }

    /// Sends reports as read from the log for [`wants`](Self::wants). `is_all` says that the log had no more of them, and
    /// `today` is the trading day as it was **before** they were read: if that is a later day, all were read.
    ///
    /// # Errors
    /// [`BadReport`]; the connection can't go on.
    pub fn reports(
        &mut self,
        now: Now,
        today: TradingDay,
        strides: &[u8],
        is_all: bool,
        out: &mut Outbound,
    ) -> Result<(), BadReport> {
        let (State::Live(stream) | State::Replaying(stream) | State::Ending { stream, .. }) = &mut self.state
        else {
            return Ok(());
        };
        if stream.pack(strides, out)? > 0 {
            self.last_sent = now.monotonic;
        }
        if is_all {
            stream.caught_up = true;
            if today > stream.day() {
                self.end_day(now, out);
            } else if let State::Ending { ended: true, reason, .. } = self.state {
                self.close(now, reason, out);
            }
        }
        Ok(())
    }

    /// The session's last report is `last`: a client that had caught up, takes nothing and lags too far is dropped.
    pub fn backlog(&mut self, now: Now, last: ReportNumber) {
        if let State::Live(stream) | State::Ending { stream, .. } = self.state
            && stream.caught_up
            && last.0.saturating_sub(stream.next().0) > self.limits.backlog_max
        {
            self.lost(now, EndReason::SlowReader);
        }
    }

    /// The day is over and all of its reports are sent.
    fn end_day(&mut self, now: Now, out: &mut Outbound) {
        if !out.has_room() {
            return;
        }
        self.send(now, &Packet::EndOfSession, out);
        self.end.get_or_insert(EndReason::EndOfDay);
        if self.in_exchange && self.control.is_none() {
            self.control = Some(Control::Disconnect(EndReason::EndOfDay));
        }
        self.state = State::Closed { flush_until: None };
        self.flush(now, out);
    }
}

//! Drop copies: the reports of other sessions, each from a cursor of its own, as unnumbered messages. Whether the client may
//! have them is the driver's to find out.

use protocol::soupbin::Packet;
use protocol::{
    DropCopy, DropCopyRequest, HEADER_LENGTH, REPORT_STRIDE, ReportNumber, RequestId, SessionId, TradingDay,
};

use super::stream::BadReport;
use super::{Now, Session, State, Wanted};
use crate::buffers::Outbound;

/// Most sessions that a connection reads the reports of.
const COPIES_MAX: usize = 256;

/// A session whose reports are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Copying {
    request_id: RequestId,
    wanted: Wanted,
    /// The client was told once that it has all.
    is_told: bool,
    /// Nothing more will come: the day was over, and all was sent.
    is_over: bool,
}

impl Copying {
    /// The reports that come next.
    #[must_use]
    pub fn wanted(&self) -> Wanted {
        self.wanted
    }
}

/// All of a connection.
#[derive(Debug, Default)]
pub(super) struct DropCopies {
    list: Vec<Copying>,
    /// Whose turn it is, so that a busy session does not keep the others back.
    turn: usize,
}

impl Session {
    /// Begins to copy another session's reports, or begins again elsewhere; `false` where there are too many.
    pub fn copy(&mut self, request: &DropCopyRequest, day: TradingDay, next: ReportNumber) -> bool {
        let wanted = Wanted { session: request.session, day, next };
        let copying = Copying { request_id: request.request_id, wanted, is_told: false, is_over: false };
        let list = &mut self.copies.list;
        let same = |other: &Copying| (other.wanted.session, other.wanted.day) == (wanted.session, day);
        list.retain(|other| !same(other));
        if list.len() >= COPIES_MAX {
            return false;
        }
        list.push(copying);
        true
    }

    /// How many sessions are copied.
    #[must_use]
    pub fn copies(&self) -> usize {
        if matches!(self.state, State::Live(_)) { self.copies.list.len() } else { 0 }
    }

    /// The next one that may have reports, in turn.
    pub fn next_copy(&mut self) -> Option<Copying> {
        let copies = &mut self.copies;
        copies.turn = if copies.turn + 1 < copies.list.len() { copies.turn + 1 } else { 0 };
        copies.list.get(copies.turn).copied().filter(|copying| !copying.is_over)
    }

    /// Forgets the one whose turn it is: the client may not have it any more. It is refused with its request's id.
    pub fn drop_copy(&mut self) -> Option<RequestId> {
        let copies = &mut self.copies;
        (copies.turn < copies.list.len()).then(|| copies.list.remove(copies.turn).request_id)
    }

    /// Sends reports as read from the log for the [`next_copy`](Self::next_copy). `is_all` says that the log had no more of
    /// them, and `today` is the trading day as it was before they were read.
    ///
    /// # Errors
    /// [`BadReport`]; the connection can't go on.
    pub fn copied(
        &mut self,
        now: Now,
        today: TradingDay,
        strides: &[u8],
        is_all: bool,
        out: &mut Outbound,
    ) -> Result<(), BadReport> {
        let turn = self.copies.turn;
        let Some(mut copying) = self.copies.list.get(turn).copied() else { return Ok(()) };
        let (strides, _) = strides.as_chunks::<REPORT_STRIDE>();
        for stride in strides {
            let Wanted { session, day, next } = copying.wanted;
            let report = report_of(stride, next).ok_or(BadReport { session, day, next })?;
            self.send_copy(now, &copying, report, out);
            copying.wanted.next.0 += 1;
        }
        if is_all && !copying.is_told {
            self.send_copy(now, &copying, &[], out);
            copying.is_told = true;
        }
        copying.is_over = is_all && today > copying.wanted.day;
        if let Some(place) = self.copies.list.get_mut(turn) {
            *place = copying;
        }
        Ok(())
    }

    fn send_copy(&mut self, now: Now, copying: &Copying, report: &[u8], out: &mut Outbound) {
        let Wanted { session, day, .. } = copying.wanted;
        let frame = DropCopy::encode_raw(copying.request_id, session, day, report);
        self.send(now, &Packet::Unsequenced(frame.as_bytes()), out);
    }
}

/// The frame of a report as it stands in the report log, if it is that one.
pub(super) fn report_of(stride: &[u8; REPORT_STRIDE], next: ReportNumber) -> Option<&[u8]> {
    let length = usize::from(u16::from_le_bytes([stride[0], stride[1]]));
    let number = stride.get(HEADER_LENGTH..HEADER_LENGTH + 8)?.try_into().ok().map(u64::from_le_bytes)?;
    stride.get(..length).filter(|_| length > HEADER_LENGTH && number == next.0)
}

/// Whose reports, of which day and from which number on, given what there is: `None` where that can't be had.
#[must_use]
pub fn place_of(
    request: &DropCopyRequest,
    today: TradingDay,
    available: impl FnOnce(SessionId, TradingDay) -> ReportNumber,
) -> Option<(TradingDay, ReportNumber)> {
    let day = request.trading_day.unwrap_or(today);
    if day.0 == 0 || day > today || day.0 + 1 < today.0 {
        return None;
    }
    let last = available(request.session, day);
    let next = request.from.unwrap_or(ReportNumber(last.0 + 1));
    (next.0 <= last.0.saturating_add(1)).then_some((day, next))
}

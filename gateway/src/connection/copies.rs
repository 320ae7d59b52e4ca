//! Drop copies of a connection: who may have them, and the reports from the log into the outbound buffer.

use protocol::{DropCopyRequest, EndReason, FrameKind, RefuseReason, TradingDay, Unsequenced};

use super::{Connection, refused};
use crate::session::{Now, place_of};

impl Connection {
    /// Begins what an observer asks for; an answer only where that can't be.
    pub(super) fn begin_copy(&mut self, request: &DropCopyRequest) -> Option<Unsequenced> {
        let no = |reason| Some(refused(request.request_id, reason, FrameKind::DropCopyRequest));
        let (hub, observer) = (&self.shared.hub, self.session.session());
        let today = hub.trading_day();
        let day = request.trading_day.unwrap_or(today);
        let Some(first) = hub.may_observe(observer, request.session, day) else {
            return no(RefuseReason::NotAllowed);
        };
        // Before the log is read, so that nothing is missed that comes meanwhile.
        self.port.observe(request.session);
        let reports = &self.shared.reports;
        match place_of(request, today, |session, day| reports.available(session, day)) {
            Some((day, next)) if self.session.copy(request, day, next.max(first)) => None,
            _ => no(RefuseReason::ReportsUnavailable),
        }
    }

    /// Fills the outbound buffer with other sessions' reports, in turn; whether all that there were are in it. `today` is the
    /// trading day as it was before.
    pub(super) fn pump_copies(&mut self, now: Now, today: TradingDay) -> bool {
        let mut drained = 0;
        while drained < self.session.copies() {
            self.out.make_room();
            let max = self.out.copies_max();
            // With one for the word that all were sent.
            if max < 2 {
                return false;
            }
            let Some(copying) = self.session.next_copy() else {
                drained += 1;
                continue;
            };
            let wanted = copying.wanted();
            let first = self.shared.hub.may_observe(self.session.session(), wanted.session, wanted.day);
            // It may have become another participant's meanwhile, and this one's again.
            if first.is_none_or(|first| wanted.next < first) {
                if let Some(request_id) = self.session.drop_copy() {
                    let answer = refused(request_id, RefuseReason::NotAllowed, FrameKind::DropCopyRequest);
                    self.session.answer(now, &answer, &mut self.out);
                }
                continue;
            }
            let max = max - 1;
            let mut strides = self.shared.strides.borrow_mut();
            strides.clear();
            let read = self.shared.reports.read(wanted.session, wanted.day, wanted.next, max, &mut strides);
            let sent = match read {
                Ok(count) => {
                    drained = if count < max { drained + 1 } else { 0 };
                    self.session
                        .copied(now, today, &strides, count < max, &mut self.out)
                        .map_err(|e| e.to_string())
                }
                Err(error) => Err(error.to_string()),
            };
            if let Err(error) = sent {
                tracing::error!(%error, session = wanted.session.0, "a drop copy can't be sent");
                self.session.lost(now, EndReason::Server);
                return false;
            }
        }
        true
    }
}

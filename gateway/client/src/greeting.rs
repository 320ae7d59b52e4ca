//! What the server says between a login request and the first report: the accepted session, and the facts that decide what
//! is sent again.

use std::cmp::Ordering;
use std::time::Duration;

use protocol::soupbin::session_day;
use protocol::{ReportNumber, RequestId, TradingDay};

use crate::ServerFault;

/// A login under way.
#[derive(Debug)]
pub(crate) struct Greeting {
    pub(crate) deadline: Duration,
    accepted: Option<(TradingDay, ReportNumber)>,
    highest_id: Option<u64>,
    last_report: Option<u64>,
    current_day: Option<u64>,
}

/// A login that is complete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Login {
    /// The day whose reports come.
    pub(crate) trading_day: TradingDay,
    /// Number of the first one that comes.
    pub(crate) next: ReportNumber,
    /// `None` where the connection only reads.
    pub(crate) sender: Option<Sender>,
}

/// What a client must know before it sends.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sender {
    /// The last report there is of the day.
    pub(crate) last_report: ReportNumber,
    /// Highest request id that the server has seen.
    pub(crate) highest_id: RequestId,
    /// The day is the venue's current one. Where it ended during the login, nothing must be sent before the next login.
    pub(crate) live: bool,
}

impl Greeting {
    pub(crate) fn new(deadline: Duration) -> Self {
        Self { deadline, accepted: None, highest_id: None, last_report: None, current_day: None }
    }

    /// The server accepted; `asked` is the day and the last report that the request named, where it named them.
    pub(crate) fn accept(
        &mut self,
        session: [u8; 10],
        next: u64,
        asked: Option<(TradingDay, ReportNumber)>,
    ) -> Result<(), ServerFault> {
        let day = session_day(&session).ok_or(ServerFault::LoginAnswer)?;
        let fits = asked.is_none_or(|(asked, last)| day == asked && Some(next) == last.0.checked_add(1));
        if next == 0 || !fits || self.accepted.is_some() {
            return Err(ServerFault::LoginAnswer);
        }
        self.accepted = Some((day, ReportNumber(next)));
        Ok(())
    }

    /// The server told `name=value`; names that decide nothing here are passed over.
    pub(crate) fn fact(&mut self, name: &str, value: &str) {
        let place = match name {
            "highest_id" => &mut self.highest_id,
            "last_report" => &mut self.last_report,
            "trading_day" => &mut self.current_day,
            _ => return,
        };
        *place = value.parse().ok();
    }

    /// The login, once everything is there.
    pub(crate) fn complete(&self) -> Result<Option<Login>, ServerFault> {
        let (Some((trading_day, next)), Some(highest_id), Some(last_report), Some(current_day)) =
            (self.accepted, self.highest_id, self.last_report, self.current_day)
        else {
            return Ok(None);
        };
        // A day that is over ends with the end of the session, not with a number told here.
        let in_place = match u64::from(trading_day.0).cmp(&current_day) {
            Ordering::Less => true,
            Ordering::Equal => next.0 - 1 <= last_report,
            Ordering::Greater => false,
        };
        if !in_place || highest_id == u64::MAX {
            return Err(ServerFault::LoginAnswer);
        }
        let live = u64::from(trading_day.0) == current_day;
        let sender =
            Some(Sender { last_report: ReportNumber(last_report), highest_id: RequestId(highest_id), live });
        Ok(Some(Login { trading_day, next, sender }))
    }

    /// The login where a report or the end of the session comes before the facts: only the reports of a day that is over
    /// come on this connection.
    pub(crate) fn read_only(&self) -> Option<Login> {
        let (trading_day, next) = self.accepted?;
        Some(Login { trading_day, next, sender: None })
    }
}

//! How long no request was acknowledged when a leader fell: for the venue, from the last acknowledgement of any session to
//! the first new one; and for each session by itself. It only looks: going from member to member is the client library's.

use std::time::Instant;

use client::{ConnectionLoss, LoggedIn};
use hdrhistogram::Histogram;
use protocol::ReportNumber;
use serde_json::{Value, json};

/// Longest gap that the histograms hold, in microseconds: an hour.
const GAP_MAX_US: u64 = 3_600_000_000;

/// The failovers of a run.
pub(super) struct Failovers {
    pub(super) count: u64,
    /// When the last one began.
    began: Option<Instant>,
    /// No request was acknowledged by the next leader yet.
    is_open: bool,
    last_ack: Option<Instant>,
    gaps: Histogram<u64>,
    session_gaps: Histogram<u64>,
}

/// What one session sees of them.
#[derive(Debug)]
pub(super) struct Outlook {
    /// When the live connection was let in; `None` without one.
    let_in: Option<Instant>,
    /// Reports up to this one were there before the live connection was.
    replayed: ReportNumber,
    last_ack: Option<Instant>,
    /// Last acknowledgement before the connection was lost, until a new one comes.
    outage_from: Option<Instant>,
}

impl Failovers {
    pub(super) fn new() -> Self {
        let histogram =
            || Histogram::new_with_bounds(1, GAP_MAX_US, 3).expect("the bounds are constants that fit");
        Self {
            count: 0,
            began: None,
            is_open: false,
            last_ack: None,
            gaps: histogram(),
            session_gaps: histogram(),
        }
    }

    /// A connection that was let in at `let_in` is lost. All sessions lose theirs, one after the other, so that a failover is
    /// a new one only where the lost connection was built after the last one had begun.
    fn lost(&mut self, let_in: Instant, now: Instant) {
        if self.began.is_none_or(|began| let_in > began) {
            self.count += 1;
            self.began = Some(now);
            self.is_open = true;
        }
    }

    /// A request was acknowledged; `is_first` says that it is the first new one of a session that had lost its connection.
    fn acked(&mut self, is_first: bool, now: Instant) {
        if is_first && std::mem::take(&mut self.is_open) {
            let from = self.last_ack.or(self.began).unwrap_or(now);
            record(&mut self.gaps, from, now);
        }
        self.last_ack = Some(now);
    }

    /// As a line, where there were some.
    pub(super) fn line(&self) -> Option<String> {
        let of = |histogram: &Histogram<u64>| {
            let ms = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
            format!("p50 {:.1}, p99 {:.1}, max {:.1}", ms(0.5), ms(0.99), ms(1.0))
        };
        let (count, gaps, session_gaps) = (self.count, of(&self.gaps), of(&self.session_gaps));
        (count > 0).then(|| {
            format!(
                "failovers   {count}; ms from the last acknowledgement to the next: {gaps}; of a session: {session_gaps}"
            )
        })
    }

    /// The gaps for the venue and for each session, in milliseconds.
    pub(super) fn json(&self) -> (Value, Value) {
        let of = |histogram: &Histogram<u64>| {
            let ms = |quantile| histogram.value_at_quantile(quantile) as f64 / 1e3;
            json!({ "count": histogram.len(), "p50": ms(0.5), "p99": ms(0.99), "max": ms(1.0) })
        };
        (of(&self.gaps), of(&self.session_gaps))
    }
}

impl Outlook {
    pub(super) fn new() -> Self {
        Self { let_in: None, replayed: ReportNumber(0), last_ack: None, outage_from: None }
    }

    pub(super) fn logged_in(&mut self, login: &LoggedIn, now: Instant) {
        if let Some((last_report, _)) = login.sending {
            self.let_in = Some(now);
            self.replayed = last_report;
        }
    }

    pub(super) fn lost(&mut self, loss: &ConnectionLoss, failovers: &mut Failovers, now: Instant) {
        let Some(let_in) = self.let_in.take() else { return };
        if matches!(loss, ConnectionLoss::DayEnded | ConnectionLoss::LoggedOut) {
            return;
        }
        self.outage_from.get_or_insert(self.last_ack.unwrap_or(now));
        failovers.lost(let_in, now);
    }

    /// The report of that number acknowledges a request. One that was there before the connection tells nothing of how long it
    /// took.
    pub(super) fn acked(&mut self, number: ReportNumber, failovers: &mut Failovers, now: Instant) {
        if number <= self.replayed {
            return;
        }
        let outage = self.outage_from.take();
        if let Some(from) = outage {
            record(&mut failovers.session_gaps, from, now);
        }
        failovers.acked(outage.is_some(), now);
        self.last_ack = Some(now);
    }
}

fn record(histogram: &mut Histogram<u64>, from: Instant, to: Instant) {
    let microseconds = u64::try_from(to.saturating_duration_since(from).as_micros()).unwrap_or(u64::MAX);
    histogram.saturating_record(microseconds.max(1));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use protocol::{RequestId, TradingDay};

    use super::*;

    /// One thing that one of two sessions sees, at its millisecond.
    enum Seen {
        In(usize, u64, u64),
        Ack(usize, u64, u64),
        Lost(usize, u64),
        DayEnded(usize, u64),
    }
    use Seen::{Ack, DayEnded, In, Lost};

    fn check(name: &str, seen: &[Seen], count: u64, venue: &[u64], sessions: &[u64]) {
        let start = Instant::now();
        let at = |ms: &u64| start + Duration::from_millis(*ms);
        let mut failovers = Failovers::new();
        let mut outlooks = [Outlook::new(), Outlook::new()];
        for seen in seen {
            match seen {
                In(session, ms, last_report) => {
                    let login = LoggedIn {
                        address: "m".to_owned(),
                        trading_day: TradingDay(1),
                        sending: Some((ReportNumber(*last_report), RequestId(0))),
                        resent: 0,
                    };
                    outlooks[*session].logged_in(&login, at(ms));
                }
                Ack(session, ms, number) => {
                    outlooks[*session].acked(ReportNumber(*number), &mut failovers, at(ms));
                }
                Lost(session, ms) => outlooks[*session].lost(&ConnectionLoss::Silent, &mut failovers, at(ms)),
                DayEnded(session, ms) => {
                    outlooks[*session].lost(&ConnectionLoss::DayEnded, &mut failovers, at(ms));
                }
            }
        }
        let recorded = |histogram: &Histogram<u64>| -> Vec<u64> {
            histogram.iter_recorded().map(|step| step.value_iterated_to() / 1_000).collect()
        };
        assert_eq!(failovers.count, count, "{name}");
        assert_eq!(recorded(&failovers.gaps), venue, "{name}: the venue");
        assert_eq!(recorded(&failovers.session_gaps), sessions, "{name}: the sessions");
    }

    #[test]
    fn a_gap_is_from_the_last_acknowledgement_to_the_first_new_one() {
        check("none", &[In(0, 0, 0), Ack(0, 5, 1), Ack(0, 900, 2)], 0, &[], &[]);
        check(
            "one session",
            &[In(0, 0, 0), Ack(0, 5, 1), Lost(0, 10), In(0, 100, 1), Ack(0, 105, 2), Ack(0, 300, 3)],
            1,
            &[100],
            &[100],
        );
        check(
            "what was there before the login is no new acknowledgement",
            &[
                In(0, 0, 0),
                Ack(0, 5, 1),
                Lost(0, 10),
                In(0, 100, 3),
                Ack(0, 101, 2),
                Ack(0, 102, 3),
                Ack(0, 125, 4),
            ],
            1,
            &[120],
            &[120],
        );
        check(
            "two sessions are one failover, however late the second finds out",
            &[
                In(0, 0, 0),
                In(1, 0, 0),
                Ack(0, 5, 1),
                Lost(0, 10),
                Ack(1, 15, 1),
                In(0, 20, 1),
                Ack(0, 65, 2),
                Lost(1, 70),
                In(1, 80, 1),
                Ack(1, 95, 2),
            ],
            1,
            &[50],
            &[60, 80],
        );
        check(
            "the next leader falls before it acknowledges anything",
            &[
                In(0, 0, 0),
                Ack(0, 5, 1),
                Lost(0, 10),
                In(0, 20, 1),
                Lost(0, 30),
                In(0, 90, 1),
                Ack(0, 105, 2),
            ],
            2,
            &[100],
            &[100],
        );
        check(
            "the end of a day is none",
            &[In(0, 0, 0), Ack(0, 5, 1), DayEnded(0, 10), In(0, 20, 0), Ack(0, 25, 1)],
            0,
            &[],
            &[],
        );
    }
}

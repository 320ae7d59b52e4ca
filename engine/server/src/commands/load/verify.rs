//! Holds what a load was told against what the venue's reports say: all of a session's reports of the day are read again,
//! from number 1, and each request must have exactly the answer that was told. That they have no gap, the client library
//! checks.

use std::time::{Duration, Instant};

use client::{Client, ClientConfig, ClientEvent, Outcome, Start};
use protocol::{Event, RejectReason, ReportNumber, RequestId, TradingDay};

use crate::commands::connect;
use crate::error::CommandError;

/// How long the reports of a session may stand still before they are given up.
const PATIENCE: Duration = Duration::from_secs(30);

/// What was told of each request of a session, by its place behind the first.
#[derive(Debug, Default)]
pub(super) struct Told {
    first: Option<RequestId>,
    verdicts: Vec<Verdict>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Nothing was told.
    Open,
    /// It was answered by that report; whether that rejects it.
    Answered(ReportNumber, bool),
    /// It never got into the log.
    Nothing,
}

/// What the reports of one session were found to be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Verified {
    pub(super) reports: u64,
    pub(super) answers: u64,
}

impl Told {
    /// The request was submitted.
    pub(super) fn submitted(&mut self, id: RequestId) {
        self.first.get_or_insert(id);
        self.verdicts.push(Verdict::Open);
    }

    /// Its outcome was told.
    pub(super) fn outcome(&mut self, id: RequestId, outcome: Outcome) {
        let verdict = match outcome {
            Outcome::Done(number) => Verdict::Answered(number, false),
            Outcome::Rejected(number, _) => Verdict::Answered(number, true),
            Outcome::Refused(_) | Outcome::NotProcessed => Verdict::Nothing,
            Outcome::Unknown => Verdict::Open,
        };
        if let Some(place) = self.place(id).and_then(|place| self.verdicts.get_mut(place)) {
            *place = verdict;
        }
    }

    fn place(&self, id: RequestId) -> Option<usize> {
        usize::try_from(id.0.checked_sub(self.first?.0)?).ok()
    }

    /// What is wrong with the answers found, if anything.
    fn compare(&self, found: &Found) -> Result<(), String> {
        let first = self.first.map_or(0, |first| first.0);
        for (at, (told, answers)) in self.verdicts.iter().zip(&found.answers).enumerate() {
            let is_right = match *told {
                Verdict::Answered(number, rejected) => *answers == Answers::One(number, rejected),
                Verdict::Nothing => *answers == Answers::None,
                Verdict::Open => return Err(format!("request {} has no outcome", first + at as u64)),
            };
            if !is_right {
                let id = first + at as u64;
                return Err(format!("request {id} was told to be {told:?}, the reports say {answers:?}"));
            }
        }
        Ok(())
    }
}

/// The answers to one request that the reports have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answers {
    None,
    One(ReportNumber, bool),
    /// More than one.
    Several,
}

/// The answers that the reports have, by the places of [`Told`].
struct Found {
    answers: Vec<Answers>,
}

impl Found {
    fn new(told: &Told) -> Self {
        Self { answers: vec![Answers::None; told.verdicts.len()] }
    }

    fn report(&mut self, told: &Told, event: &Event) {
        let Some((id, rejected)) = answer(event) else { return };
        let Some(number) = event.recipient().map(|to| to.number) else { return };
        if let Some(answers) = told.place(id).and_then(|place| self.answers.get_mut(place)) {
            *answers = match answers {
                Answers::None => Answers::One(number, rejected),
                _ => Answers::Several,
            };
        }
    }
}

/// Reads the session's reports and compares.
///
/// # Errors
/// The first thing that is not as it was told, or why the reports can't be read.
pub(super) fn session(
    config: ClientConfig,
    day: TradingDay,
    told: &Told,
    patience: Duration,
) -> Result<Verified, CommandError> {
    let user = config.user;
    let wrong = |what: String| CommandError::failed(format!("the reports of {user}: {what}"));
    let config = ClientConfig { start: Start::DayStart, reconnect: true, ..config };
    let mut client = Client::connect(config, patience).map_err(connect::failed)?;
    let mut found = Found::new(told);
    let mut verified = Verified::default();
    let mut until = None;
    let mut read_day = None;
    let mut heard = Instant::now();
    while until.is_none_or(|until| ReportNumber(verified.reports) < until) {
        if heard.elapsed() > PATIENCE {
            return Err(wrong(format!("they stand still behind {}", verified.reports)));
        }
        let polled = client.poll(Duration::from_millis(50), |event| {
            heard = Instant::now();
            match event {
                ClientEvent::LoggedIn(login) => {
                    read_day = Some(login.trading_day);
                    until = login.sending.map(|(last, _)| last);
                }
                ClientEvent::Report(report) => {
                    verified.reports += 1;
                    found.report(told, &report.output.event);
                }
                _ => {}
            }
        });
        polled.map_err(connect::failed)?;
        if read_day.is_some_and(|read| read != day) {
            return Err(wrong("the trading day ended, so that they can't be compared".to_owned()));
        }
    }
    told.compare(&found).map_err(wrong)?;
    verified.answers = found.answers.iter().filter(|answers| **answers != Answers::None).count() as u64;
    client.logout(patience, |_| {}).map_err(connect::failed)?;
    Ok(verified)
}

/// The request that a report answers, and whether it rejects it. A load sends orders, cancels and replaces only.
fn answer(event: &Event) -> Option<(RequestId, bool)> {
    let (id, rejected) = match event {
        Event::Accepted(e) => (e.request_id, false),
        Event::Replaced(e) => (e.request_id, false),
        Event::Canceled(e) => (e.request_id, false),
        // A dead connection sent it; it was sent again, or is told to have done nothing.
        Event::Rejected(e) if e.reason == RejectReason::NotLoggedIn => return None,
        Event::Rejected(e) => (e.request_id, true),
        _ => return None,
    };
    (id != RequestId(0)).then_some((id, rejected))
}

#[cfg(test)]
mod tests {
    use protocol::{InstrumentId, Recipient, RefuseReason, Rejected, SessionId};

    use super::*;

    fn rejected(number: u64, id: u64, reason: RejectReason) -> Event {
        Event::Rejected(Rejected {
            to: Recipient { session: SessionId(1), number: ReportNumber(number) },
            request_id: RequestId(id),
            client_order_id: None,
            highest_request_id: RequestId(id),
            instrument: InstrumentId(1),
            request_kind: None,
            reason,
        })
    }

    #[test]
    fn each_request_has_the_one_answer_that_was_told() {
        let zero = RejectReason::QuantityZero;
        let told_rejected = Outcome::Rejected(ReportNumber(5), zero);
        let answer = |number| rejected(number, 41, zero);
        let dead = |number| rejected(number, 41, RejectReason::NotLoggedIn);
        let repeated = |number| rejected(number, 41, RejectReason::IdNotRising);
        let other = |number| rejected(number, 40, zero);
        let cases: [(&str, Outcome, Vec<Event>, bool); 11] = [
            ("as told", told_rejected, vec![other(4), answer(5)], true),
            ("a dead connection's is no answer", told_rejected, vec![dead(4), answer(5), dead(6)], true),
            ("another report", told_rejected, vec![answer(4)], false),
            ("none", told_rejected, vec![dead(5)], false),
            ("two", told_rejected, vec![answer(5), answer(6)], false),
            ("it was sent again though it was processed", told_rejected, vec![answer(5), repeated(6)], false),
            ("not what was told", Outcome::Done(ReportNumber(5)), vec![answer(5)], false),
            ("nothing happened", Outcome::NotProcessed, vec![dead(5)], true),
            ("but something did", Outcome::NotProcessed, vec![answer(5)], false),
            (
                "a refusal is not in the log",
                Outcome::Refused(RefuseReason::Throttled),
                vec![answer(5)],
                false,
            ),
            ("unknown", Outcome::Unknown, vec![answer(5)], false),
        ];
        for (name, outcome, events, is_right) in cases {
            let mut told = Told::default();
            told.submitted(RequestId(41));
            told.outcome(RequestId(41), outcome);
            let mut found = Found::new(&told);
            events.iter().for_each(|event| found.report(&told, event));
            assert_eq!(told.compare(&found).is_ok(), is_right, "{name}");
        }
        let mut told = Told::default();
        told.submitted(RequestId(41));
        assert!(told.compare(&Found::new(&told)).is_err(), "a request without an outcome");
    }
}

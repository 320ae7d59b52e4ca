//! Sends requests, waits for their outcomes, and says in a person's words how they ended.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use client::{Client, ClientEvent, Outcome};
use protocol::{Body, Event, KillTarget, Report, RequestId};

use super::ANSWER_PATIENCE;
use crate::commands::connect;
use crate::error::CommandError;

/// Sends requests and waits until each has its outcome; the reports that say that they were done, in order.
///
/// # Errors
/// The first request that was not done, or the end of the connection.
pub fn perform(client: &mut Client, bodies: &[Body]) -> Result<Vec<Event>, CommandError> {
    perform_because(client, bodies, None, |_| {})
}

/// The same with the text that says why, where there is one; `on_report` hears all reports.
///
/// # Errors
/// The first request that was not done, or the end of the connection.
pub fn perform_because(
    client: &mut Client,
    bodies: &[Body],
    why: Option<&str>,
    mut on_report: impl FnMut(&Report),
) -> Result<Vec<Event>, CommandError> {
    let mut unsent = bodies.iter();
    let mut next = unsent.next();
    let mut asked: HashMap<RequestId, usize> = HashMap::new();
    let mut done = Vec::new();
    let mut last = None;
    let mut progress = Instant::now();
    while done.len() < bodies.len() {
        while let Some(body) = next {
            let submitted = match why {
                Some(why) => client.submit_because(*body, why),
                None => client.submit(*body),
            };
            match submitted {
                Ok(id) => {
                    asked.insert(id, asked.len());
                    next = unsent.next();
                }
                Err(client::SubmitError::WindowFull) => break,
                Err(error) => return Err(CommandError::failed(error.to_string())),
            }
        }
        match client.next_event(Duration::from_millis(500)).map_err(connect::failed)? {
            Some(ClientEvent::Report(report)) => {
                on_report(&report);
                last = Some(report.output.event);
            }
            Some(ClientEvent::Outcome(id, outcome)) => {
                let Some(at) = asked.get(&id) else { continue };
                progress = Instant::now();
                match (outcome, last) {
                    (Outcome::Done(_), Some(event)) => done.push(event),
                    (outcome, _) => {
                        let what = bodies.get(*at).map(describe).unwrap_or_default();
                        return Err(CommandError::failed(format!("{what}: {}", outcome_text(outcome))));
                    }
                }
            }
            _ if progress.elapsed() > ANSWER_PATIENCE => {
                return Err(CommandError::failed(format!("no answer within {ANSWER_PATIENCE:?}")));
            }
            _ => {}
        }
    }
    Ok(done)
}

/// The outcome of one request.
///
/// # Errors
/// It got none.
pub(super) fn outcome_of(client: &mut Client, body: Body) -> Result<Outcome, CommandError> {
    let id = client.submit(body).map_err(|error| CommandError::failed(error.to_string()))?;
    loop {
        match client.next_event(ANSWER_PATIENCE).map_err(connect::failed)? {
            Some(ClientEvent::Outcome(of, outcome)) if of == id => return Ok(outcome),
            Some(_) => {}
            None => return Err(CommandError::failed(format!("no answer within {ANSWER_PATIENCE:?}"))),
        }
    }
}

fn describe(body: &Body) -> String {
    match body {
        Body::PutUser(user) => format!("user {} with session {}", user.name, user.session),
        Body::PutInstrument(definition) => format!("instrument {}", definition.symbol),
        Body::SetPhase(_, phase) => format!("phase {phase}"),
        Body::DisconnectUser(session) => format!("disconnecting session {session}"),
        Body::MassCancel(cancel) => format!("mass cancel of session {}", cancel.session),
        Body::EndOfDay => "end of day".to_owned(),
        Body::SetCapacities(_) => "capacities".to_owned(),
        Body::SetRulebook(version) => format!("rulebook version {version}"),
        Body::PutRules(..) => "rules".to_owned(),
        Body::PutTickTable(..) => "tick table".to_owned(),
        Body::SchedulePhase(_, at, phase) => format!("{phase} at {}", crate::text::time(*at)),
        Body::ClearSchedule(_) => "clearing the schedule".to_owned(),
        Body::SetPrice(_, kind, _) => format!("{kind} price"),
        Body::Delist(_) => "delisting".to_owned(),
        Body::SetFees(..) => "fees".to_owned(),
        Body::SetLimits(account, ..) => format!("limits of account {account}"),
        Body::SetSeed(_) => "seed".to_owned(),
        Body::PutCurrency(currency, _) => format!("currency {currency}"),
        Body::PutAccount(definition) => format!("account {}", definition.account),
        Body::SetParticipant(session, _) => format!("participant of session {session}"),
        Body::SetThrottle(session, _) => format!("throttle of session {session}"),
        Body::Transfer(transfer) => {
            format!("transfer of {} {}", transfer.amount, transfer.currency)
        }
        Body::Kill(KillTarget::Venue, _) => "kill switch of the venue".to_owned(),
        Body::Kill(KillTarget::Participant(id), _) => format!("kill switch of participant {id}"),
        Body::Kill(KillTarget::Account(id), _) => format!("kill switch of account {id}"),
        Body::BustTrade(trade) | Body::CorrectTrade(trade, _) => format!("trade {trade}"),
        Body::QueryAccount(account) => format!("account {account}"),
        Body::QueryInstrument(instrument) => format!("instrument {instrument}"),
        _ => "request".to_owned(),
    }
}

/// An outcome in a person's words.
#[must_use]
pub fn outcome_text(outcome: Outcome) -> String {
    match outcome {
        Outcome::Done(number) => format!("done (report {number})"),
        Outcome::Rejected(_, reason) => format!("rejected: {reason}"),
        Outcome::Refused(reason) => format!("refused by the gateway: {reason}"),
        Outcome::NotProcessed => "not processed: it never reached the log".to_owned(),
        Outcome::Unknown => "unknown: the connection ended before an answer".to_owned(),
    }
}

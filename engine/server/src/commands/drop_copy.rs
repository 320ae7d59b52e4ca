//! `ringpit drop-copy`: the reports of other sessions, as their owners have them, for an observer of their participant or an
//! operator.

use std::collections::HashMap;
use std::time::Duration;

use client::{Client, ClientEvent, InstrumentKey, QueryId};
use protocol::{DropCopy, InstrumentDefinition, InstrumentId, ReportNumber, SessionId, TradingDay};
use serde_json::json;

use super::connect::{self, ConnectArgs};
use super::trade::show;
use crate::error::CommandError;
use crate::say;

/// How long the next look may wait.
const LOOK: Duration = Duration::from_millis(200);
/// How long a question may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How long the logout may take.
const LOGOUT_PATIENCE: Duration = Duration::from_secs(5);

/// Show the reports of other sessions: of an observer's participant, or of any as an operator
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringpit drop-copy --session 10 --user watch                    all of today so far
  ringpit drop-copy --session 10,11 --user watch --follow        and on as they come, until it is ended
  ringpit drop-copy --session 10 --user admin --from 200 --json  an operator may read any session

An observer is a user that `ringpit ctl add-user NAME --session N --observer-role` makes and `ringpit ctl participant P
--session N` gives its participant.")]
pub struct DropCopyArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// Who reads
    #[arg(long, default_value = "admin")]
    user: String,
    /// Sessions to read, by commas or one each
    #[arg(long, required = true, value_delimiter = ',', value_name = "NUMBER")]
    session: Vec<u32>,
    /// Trading day, the current or the previous one; without it, the current one
    #[arg(long, value_name = "DAY")]
    day: Option<u32>,
    /// Number of the first report
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    from: u64,
    /// Go on showing reports as they come
    #[arg(long)]
    follow: bool,
    /// Every line is a JSON object
    #[arg(long)]
    json: bool,
}

/// Where the reading of a session is.
struct Place {
    session: SessionId,
    query: Option<QueryId>,
    next: u64,
    /// A day that ended: what is left of it comes first.
    rest_of: Option<TradingDay>,
    is_done: bool,
}

/// Runs the command.
///
/// # Errors
/// The server is not there, or does not let the user have the reports.
pub fn run(args: &DropCopyArgs) -> Result<(), CommandError> {
    let client = args.connect.connect(args.connect.config(&args.user)?)?;
    let places = args.session.iter().map(|session| Place {
        session: SessionId(*session),
        query: None,
        next: args.from,
        rest_of: None,
        is_done: false,
    });
    let day = args.day.map(TradingDay);
    let mut reader =
        Reader { client, places: places.collect(), day, json: args.json, instruments: HashMap::new() };
    while args.follow || reader.places.iter().any(|place| !place.is_done) {
        reader.look()?;
    }
    reader.client.logout(LOGOUT_PATIENCE, |_| {}).map_err(connect::failed)
}

struct Reader {
    client: Client,
    places: Vec<Place>,
    day: Option<TradingDay>,
    json: bool,
    instruments: HashMap<InstrumentId, InstrumentDefinition>,
}

impl Reader {
    fn look(&mut self) -> Result<(), CommandError> {
        for place in self.places.iter_mut().filter(|place| place.query.is_none()) {
            let from = Some(ReportNumber(place.next)).filter(|number| number.0 > 0);
            let day = place.rest_of.or(self.day);
            place.query = self.client.query_drop_copy(place.session, day, from);
        }
        match self.client.next_event(LOOK).map_err(connect::failed)? {
            Some(ClientEvent::DropCopy(query, copy)) => self.take(query, &copy),
            // What was asked is forgotten with the connection.
            Some(ClientEvent::Disconnected(_)) => {
                self.places.iter_mut().for_each(|place| place.query = None);
                Ok(())
            }
            Some(ClientEvent::DayEnded(day)) => {
                if self.day.is_none() {
                    self.places.iter_mut().for_each(|place| place.rest_of = Some(day));
                }
                Ok(())
            }
            Some(ClientEvent::QueryRefused(query, refused)) => {
                let Some(place) = self.places.iter().find(|place| place.query == Some(query)) else {
                    return Ok(());
                };
                let session = place.session;
                Err(CommandError::failed(format!("the reports of session {session}: {}", refused.reason)))
            }
            _ => Ok(()),
        }
    }

    fn take(&mut self, query: QueryId, copy: &DropCopy) -> Result<(), CommandError> {
        let Some(place) = self.places.iter_mut().find(|place| place.query == Some(query)) else {
            return Ok(());
        };
        let Some(report) = &copy.report else {
            if place.rest_of.take().is_some() {
                // The new day's reports are numbered from 1.
                (place.next, place.query) = (1, None);
            }
            place.is_done = true;
            return Ok(());
        };
        place.next = report.output.event.recipient().map_or(place.next, |to| to.number.0 + 1);
        let (_, instrument) = show::subject(&report.output.event);
        if instrument.0 != 0 && !self.instruments.contains_key(&instrument) {
            let found = self.client.instrument(InstrumentKey::Id(instrument), ANSWER_PATIENCE);
            let found = found.map_err(connect::failed)?;
            found.map(|definition| self.instruments.insert(instrument, definition));
        }
        let of = self.instruments.get(&instrument);
        if self.json {
            let mut object = show::report_json(report, of);
            object["session"] = json!(copy.session.0);
            object["trading_day"] = json!(copy.trading_day.0);
            say!("{object}");
        } else {
            say!("session {}: {}", copy.session, show::report(report, of));
        }
        Ok(())
    }
}

//! `ringpit flow`: sends an order-by-order feed as orders, checks that each row is answered once, rebuilds its orders'
//! book from the reports, and compares book and trades with what the feed says. Which requests it sends depends on the
//! feed alone, never on answers, so that speed, window and restarts of the server can't change the result.

mod compare;
mod feed;
mod ledger;
mod plan;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use client::{Client, ClientEvent, Outcome, SubmitError};
use protocol::{Event, InstrumentDefinition, InstrumentId, OutcomeHash, RequestId, Sequence};
use serde_json::{Value, json};

use self::compare::Comparison;
use self::feed::{Action, Row};
use self::ledger::Ledger;
use self::plan::Plan;
use super::connect::{self, ConnectArgs};
use crate::console::OutputArgs;
use crate::error::CommandError;
use crate::{say, text};

/// Longest wait for an answer while nothing comes, before the flow gives up.
const STALL_MAX: Duration = Duration::from_secs(60);
/// Quiet after the last answer that shows that no execution of it is still to come.
const QUIET: Duration = Duration::from_millis(200);

/// Send an order-by-order feed as orders and compare the outcome with it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringpit flow orders.csv.gz --trades trades.csv.gz       a whole feed
  ringpit flow orders.csv.gz --rows 307539 --json         stop early; the last line is one JSON object
  ringpit flow --generate 7 --rows 100000 --resend        a made-up feed, going on across restarts

The CSV has the columns id, exchange_timestamp, price, volume, action (created, changed, deleted) and direction (bid, ask).
The exit status is 0 only if every row was answered once and as it may be. Differences from the feed are explained, and are
no failure: a feed tells what another venue did.")]
pub struct FlowArgs {
    /// The feed: .csv or .csv.gz
    #[arg(required_unless_present = "generate", conflicts_with = "generate")]
    feed: Option<PathBuf>,
    /// Make up a feed from this seed instead
    #[arg(long, value_name = "SEED")]
    generate: Option<u64>,
    /// Trades of the feed, .csv or .csv.gz, to compare with
    #[arg(long, value_name = "FILE", conflicts_with = "generate")]
    trades: Option<PathBuf>,
    /// Stop after this many rows [default: all; 100,000 of a made-up feed]
    #[arg(long, value_name = "N")]
    rows: Option<usize>,
    #[command(flatten)]
    connect: ConnectArgs,
    /// Who sends
    #[arg(long, default_value = "demo")]
    user: String,
    /// Symbol of the instrument
    #[arg(long, default_value = "BTCUSD")]
    instrument: String,
    /// Requests in flight at most
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = connect::window)]
    window: usize,
    /// Go on when a connection is lost: connect again and send again what the server has not seen
    #[arg(long)]
    resend: bool,
    /// Rows a second at most
    #[arg(long, value_name = "N", value_parser = connect::rate())]
    rate: Option<u64>,
    /// Examples shown of each kind of difference
    #[arg(long, value_name = "N", default_value_t = 3)]
    examples: usize,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
///
/// # Errors
/// The feed can't be read, the server is not there, or a row was not answered as it may be.
pub fn run(args: &FlowArgs) -> Result<(), CommandError> {
    let mut config = args.connect.config(&args.user)?;
    config.window = args.window;
    config.reconnect = args.resend;
    let mut client = args.connect.connect(config)?;
    let definition = connect::instrument(&mut client, &args.instrument)?;
    let rows = rows(args, &definition)?;
    let trades = match &args.trades {
        Some(path) => {
            Some(feed::trades(path, &definition).map_err(|error| CommandError::usage(error.to_string()))?)
        }
        None => None,
    };
    let empty = book_is_empty(&mut client, &definition)?;
    let mut flow = Flow::new(&rows, definition.instrument);
    let started = Instant::now();
    flow.drive(&mut client, args.rate)?;
    let took = started.elapsed();
    client.logout(Duration::from_secs(5), |_| {}).map_err(connect::failed)?;
    say!(
        "{} rows sent in {:.3} s, {:.0} a second",
        rows.len(),
        took.as_secs_f64(),
        rows.len() as f64 / took.as_secs_f64()
    );
    flow.print();
    let comparison = match args.generate {
        None => {
            let comparison =
                Comparison::new(&rows, &flow.plan, &flow.ledger, &flow.rejections, trades.as_deref());
            comparison.print(&definition, args.examples);
            if !empty {
                say!("the book was not empty at the start: other orders had a part in the differences");
            }
            Some(comparison)
        }
        Some(_) => None,
    };
    flow.print_hashes();
    args.output.last_line(&flow.json(took, comparison.as_ref()));
    flow.verdict()
}

fn rows(args: &FlowArgs, definition: &InstrumentDefinition) -> Result<Vec<Row>, CommandError> {
    match (&args.feed, args.generate) {
        (_, Some(seed)) => Ok(feed::generate(seed, args.rows.unwrap_or(100_000), definition)),
        (Some(path), None) => {
            let rows = feed::rows(path, definition, args.rows);
            rows.map_err(|error| CommandError::usage(error.to_string()))
        }
        (None, None) => Err(CommandError::usage("a feed or --generate SEED is needed")),
    }
}

fn book_is_empty(client: &mut Client, definition: &InstrumentDefinition) -> Result<bool, CommandError> {
    let depth = client.depth(definition.instrument, 1, Duration::from_secs(10)).map_err(connect::failed)?;
    Ok(depth.is_none_or(|depth| depth.bids.is_empty() && depth.asks.is_empty()))
}

/// What may become of a row.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Answer {
    #[default]
    None,
    Done,
    Rejected,
    /// The gateway's refusal, or the end of the session.
    Unprocessed,
}

/// Counts of the answers by kind of row.
#[derive(Clone, Copy, Debug, Default)]
struct Count {
    sent: u64,
    done: u64,
    rejected: u64,
}

/// A feed on its way through the venue.
struct Flow<'a> {
    rows: &'a [Row],
    plan: Plan,
    ledger: Ledger,
    answers: Vec<Answer>,
    /// Reject reasons by row.
    rejections: compare::Rejections,
    outcomes: OutcomeHash,
    created: Count,
    changed: Count,
    deleted: Count,
    reports: u64,
    /// Reports of the user's orders from before.
    foreign: u64,
    twice: u64,
    unprocessed: u64,
    unexpected: u64,
    first_unexpected: Option<String>,
    reconnects: u64,
    resent: usize,
    last_sequence: Sequence,
}

impl<'a> Flow<'a> {
    fn new(rows: &'a [Row], instrument: InstrumentId) -> Self {
        Self {
            rows,
            plan: Plan::new(instrument),
            ledger: Ledger::default(),
            answers: vec![Answer::None; rows.len()],
            rejections: compare::Rejections::new(),
            outcomes: OutcomeHash::default(),
            created: Count::default(),
            changed: Count::default(),
            deleted: Count::default(),
            reports: 0,
            foreign: 0,
            twice: 0,
            unprocessed: 0,
            unexpected: 0,
            first_unexpected: None,
            reconnects: 0,
            resent: 0,
            last_sequence: Sequence(0),
        }
    }

    /// Sends all rows in order, as far as the window lets it, and takes what comes until all is answered.
    fn drive(&mut self, client: &mut Client, rate: Option<u64>) -> Result<(), CommandError> {
        let started = Instant::now();
        let mut next = 0;
        let mut progress = Instant::now();
        loop {
            let due =
                rate.map_or(usize::MAX, |rate| (started.elapsed().as_secs_f64() * rate as f64) as usize);
            while next < self.rows.len().min(due) {
                let Some(row) = self.rows.get(next) else { break };
                let behind = self.rows.get(next + 1);
                match client.submit(self.plan.request(row, behind)) {
                    Ok(id) => self.plan.sent(row, behind, id),
                    Err(SubmitError::WindowFull) => break,
                    Err(error) => return Err(CommandError::failed(error.to_string())),
                }
                self.count(row.action).sent += 1;
                next += 1;
            }
            let mut heard = false;
            let wait = if rate.is_some() { Duration::from_millis(1) } else { Duration::from_millis(50) };
            let polled = client.poll(wait, |event| {
                heard = true;
                self.event(event);
            });
            polled.map_err(connect::failed)?;
            if heard {
                progress = Instant::now();
            }
            let complete = next == self.rows.len() && client.pending() == 0;
            if complete && progress.elapsed() >= QUIET {
                return Ok(());
            }
            if progress.elapsed() >= STALL_MAX && next > 0 {
                let pending = client.pending();
                return Err(CommandError::failed(format!(
                    "no answer for {STALL_MAX:?}; {pending} rows are open"
                )));
            }
        }
    }

    fn count(&mut self, action: Action) -> &mut Count {
        match action {
            Action::Created => &mut self.created,
            Action::Changed => &mut self.changed,
            Action::Deleted => &mut self.deleted,
        }
    }

    fn event(&mut self, event: ClientEvent) {
        match event {
            ClientEvent::Report(report) => {
                self.reports += 1;
                self.last_sequence = report.output.sequence;
                self.outcomes.event(&report.output.event);
                match ledger::subject(&report.output.event) {
                    Some(order) if self.plan.is_before(RequestId(order.0)) => self.foreign += 1,
                    _ => self.ledger.report(&report.output.event),
                }
                if let Event::Rejected(e) = report.output.event
                    && let Some(row) = self.plan.row_of(e.request_id)
                {
                    self.rejections.insert(row, e.reason);
                }
            }
            ClientEvent::Outcome(id, outcome) => self.outcome(id, outcome),
            ClientEvent::LoggedIn(login) => {
                self.reconnects += 1;
                self.resent += login.resent;
            }
            _ => {}
        }
    }

    fn outcome(&mut self, id: RequestId, outcome: Outcome) {
        let Some((at, row)) = self.plan.row_of(id).and_then(|at| Some((at, self.rows.get(at)?))) else {
            self.twice += 1;
            return;
        };
        let answer = match outcome {
            Outcome::Done(_) => Answer::Done,
            Outcome::Rejected(_, reason) => {
                if !self.plan.may_be_rejected(row, reason) {
                    self.unexpected += 1;
                    self.first_unexpected.get_or_insert_with(|| format!("row {}: {reason}", at + 1));
                }
                Answer::Rejected
            }
            Outcome::Refused(_) | Outcome::NotProcessed | Outcome::Unknown => {
                self.unprocessed += 1;
                Answer::Unprocessed
            }
        };
        if let Some(place) = self.answers.get_mut(at)
            && std::mem::replace(place, answer) != Answer::None
        {
            self.twice += 1;
        }
        match answer {
            Answer::Done => self.count(row.action).done += 1,
            Answer::Rejected => self.count(row.action).rejected += 1,
            Answer::None | Answer::Unprocessed => {}
        }
    }

    fn unanswered(&self) -> usize {
        self.answers.iter().filter(|answer| **answer == Answer::None).count()
    }

    fn print(&self) {
        let kinds = [("created", &self.created), ("changed", &self.changed), ("deleted", &self.deleted)];
        for (name, count) in kinds {
            say!("{name}  {:>8} sent, {:>8} done, {:>8} rejected", count.sent, count.done, count.rejected);
        }
        let (answered, twice) = (self.rows.len() - self.unanswered(), self.twice);
        say!(
            "{answered} of {} rows answered, {twice} answered twice, {} not processed",
            self.rows.len(),
            self.unprocessed
        );
        for (reason, rows) in self.rejections.by_reason() {
            say!("  rejected {reason}: {rows}");
        }
        say!(
            "{} reports, {} trades, {} orders resting",
            self.reports,
            self.ledger.trades().len(),
            self.ledger.resting()
        );
        if self.foreign > 0 {
            say!(
                "{} reports were of the user's orders from before, which this run does not judge",
                self.foreign
            );
        }
        if self.reconnects > 0 {
            say!("{} reconnects, {} requests sent again", self.reconnects.saturating_sub(1), self.resent);
        }
    }

    fn print_hashes(&self) {
        say!("sequence     {} (of the last report)", self.last_sequence);
        say!("book_hash    {}", text::hash(self.ledger.book_hash()));
        say!("outcome_hash {}", text::hash(self.outcomes.value()));
    }

    /// The running hash and the state hash are the server's: `ringpit replay` tells them for the same sequence.
    fn json(&self, took: Duration, comparison: Option<&Comparison>) -> Value {
        json!({
            "rows": self.rows.len(),
            "answered": self.rows.len() - self.unanswered(),
            "answered_twice": self.twice,
            "not_processed": self.unprocessed,
            "unexpected": self.unexpected,
            "done": self.created.done + self.changed.done + self.deleted.done,
            "rejected": self.created.rejected + self.changed.rejected + self.deleted.rejected,
            "reports": self.reports,
            "foreign_reports": self.foreign,
            "inconsistent_reports": self.ledger.inconsistent(),
            "trades": self.ledger.trades().len(),
            "resting": self.ledger.resting(),
            "reconnects": self.reconnects.saturating_sub(1),
            "resent": self.resent,
            "seconds": took.as_secs_f64(),
            "comparison": comparison.map(Comparison::json),
            "sequence": self.last_sequence.0,
            "running_hash": Value::Null,
            "state_hash": Value::Null,
            "book_hash": text::hash(self.ledger.book_hash()),
            "outcome_hash": text::hash(self.outcomes.value()),
        })
    }

    fn verdict(&self) -> Result<(), CommandError> {
        let (unanswered, twice, unprocessed) = (self.unanswered(), self.twice, self.unprocessed);
        if unanswered > 0 || twice > 0 || unprocessed > 0 {
            return Err(CommandError::failed(format!(
                "{unanswered} rows unanswered, {twice} answered twice, {unprocessed} not processed"
            )));
        }
        if let Some(first) = &self.first_unexpected {
            return Err(CommandError::failed(format!(
                "{} rows rejected as they must not be; {first}",
                self.unexpected
            )));
        }
        match self.ledger.inconsistent() {
            0 => Ok(()),
            count => Err(CommandError::failed(format!("{count} reports contradict the ones before them"))),
        }
    }
}

//! `ringpit trade`: orders as lines, reports as lines. Works on a terminal and in a pipe; in a pipe it ends once every
//! request has its outcome.

mod language;
pub(super) mod show;

use std::collections::HashMap;
use std::io::{BufRead, IsTerminal, Read};
use std::sync::mpsc::{Receiver, TryRecvError, sync_channel};
use std::time::{Duration, Instant};

use client::{Client, ClientEvent, InstrumentKey, Outcome, Start, SubmitError};
use protocol::{
    Accepted, Body, ClientOrderId, Event, InstrumentDefinition, InstrumentId, MassCancel, OrderKey,
    OrderStatusRequest, Rejected, RequestId, Sequence, SessionId, Side, Symbol, Terms,
};
use serde_json::json;

use self::language::Line;
use super::connect::{self, ConnectArgs};
use super::ctl::outcome_text;
use crate::console::OutputArgs;
use crate::error::CommandError;
use crate::say;

/// Longest line in bytes. None that is understood comes near it.
const LINE_MAX: usize = 1024;
/// Lines read ahead of the venue's answers.
const LINES_AHEAD: usize = 64;
/// How long the next line may wait for the next look, and the other way round.
const LOOK: Duration = Duration::from_millis(10);
/// Quiet after the last outcome for which fills are still waited for, at the end of piped input.
const QUIET: Duration = Duration::from_millis(200);
/// How long a question may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(5);
/// How long the logout may take.
const LOGOUT_PATIENCE: Duration = Duration::from_secs(5);

/// Trade by hand: one order a line, reports as they come
#[derive(Debug, clap::Args)]
#[command(after_help = language::after())]
pub struct TradeArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// Who trades
    #[arg(long, default_value = "demo")]
    user: String,
    /// Begin with all reports of the trading day
    #[arg(long)]
    all_reports: bool,
    /// Seconds to go on showing reports after the input ends
    #[arg(long, value_name = "SECONDS", default_value_t = 0, value_parser = connect::seconds())]
    watch: u64,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
///
/// # Errors
/// The connection can't be made or is lost for good; in a pipe also a line that was not done.
pub fn run(args: &TradeArgs) -> Result<(), CommandError> {
    let mut config = args.connect.config(&args.user)?;
    config.start = if args.all_reports { Start::DayStart } else { Start::New };
    let client = args.connect.connect(config)?;
    let interactive = std::io::stdin().is_terminal();
    let mut desk = Desk {
        client,
        json: args.output.json,
        interactive,
        instruments: HashMap::new(),
        orders: HashMap::new(),
        terms: HashMap::new(),
        last_sequence: Sequence(0),
        asked: 0,
        failed: 0,
    };
    if interactive {
        say!("logged in as {}; `help` lists what to type", args.user);
    }
    let lines = read_lines();
    desk.trade(&lines)?;
    desk.finish(Duration::from_secs(args.watch))?;
    let Desk { client, asked, failed, .. } = desk;
    client.logout(LOGOUT_PATIENCE, |_| {}).map_err(connect::failed)?;
    args.output.last_line(&json!({ "requests": asked, "failed": failed }));
    if failed > 0 && !interactive {
        return Err(CommandError::failed(format!("{failed} lines were not done")));
    }
    Ok(())
}

/// Reads standard input on a thread of its own, since reading it can't be given up. The thread ends with the input or the
/// process.
fn read_lines() -> Receiver<Typed> {
    let (sender, lines) = sync_channel(LINES_AHEAD);
    std::thread::spawn(move || {
        let mut input = std::io::stdin().lock();
        while let Some(line) = next_line(&mut input) {
            let last = matches!(line, Typed::Broken(_));
            if sender.send(line).is_err() || last {
                return;
            }
        }
    });
    lines
}

/// What came as one line.
#[derive(Debug, PartialEq, Eq)]
enum Typed {
    Line(String),
    /// Not to be taken as a line, and why. The input goes on behind it.
    Refused(&'static str),
    /// The input can't be read any further, and why.
    Broken(String),
}

/// Takes a line off the input; `None` at its end. Of a line that is too long no more than a part is held in memory.
fn next_line(input: &mut impl BufRead) -> Option<Typed> {
    let mut line = Vec::new();
    let mut too_long = false;
    loop {
        let mut part = Vec::new();
        // With its end a line takes one byte more.
        match input.by_ref().take(LINE_MAX as u64 + 1).read_until(b'\n', &mut part) {
            Ok(0) if line.is_empty() => return None,
            Ok(_) => {}
            Err(error) => return Some(Typed::Broken(error.to_string())),
        }
        let ended = part.pop_if(|byte| *byte == b'\n').is_some() || part.len() <= LINE_MAX;
        too_long |= part.len() > LINE_MAX;
        line = part;
        if ended {
            break;
        }
    }
    if too_long {
        return Some(Typed::Refused("a line is longer than 1,024 bytes"));
    }
    Some(String::from_utf8(line).map_or(Typed::Refused("a line is not UTF-8 text"), Typed::Line))
}

/// One trader's session.
struct Desk {
    client: Client,
    json: bool,
    interactive: bool,
    instruments: HashMap<InstrumentId, InstrumentDefinition>,
    /// Instrument of each order that was heard of.
    orders: HashMap<ClientOrderId, InstrumentId>,
    /// Terms of new orders that have them, until these are answered: the acceptance doesn't repeat them.
    terms: HashMap<ClientOrderId, Terms>,
    /// Sequence of the last report.
    last_sequence: Sequence,
    asked: u64,
    failed: u64,
}

/// What a line led to.
enum Next {
    Go,
    Quit,
}

impl Desk {
    /// Takes lines and shows reports until the input ends.
    fn trade(&mut self, lines: &Receiver<Typed>) -> Result<(), CommandError> {
        loop {
            match lines.try_recv() {
                Ok(Typed::Line(line)) => {
                    if let Next::Quit = self.line(&line)? {
                        return Ok(());
                    }
                }
                Ok(Typed::Refused(problem)) => self.complain(problem),
                Ok(Typed::Broken(error)) => self.complain(&format!("standard input: {error}")),
                Err(TryRecvError::Disconnected) => return Ok(()),
                Err(TryRecvError::Empty) => self.look(LOOK)?,
            }
            while self.look_at_once()? {}
        }
    }

    /// Shows what comes until every request has its outcome, it was quiet for a while, and `watch` is over.
    fn finish(&mut self, watch: Duration) -> Result<(), CommandError> {
        let watch_until = Instant::now() + watch;
        let mut quiet_since = Instant::now();
        while self.client.pending() > 0 || quiet_since.elapsed() < QUIET || Instant::now() < watch_until {
            if let Some(event) = self.client.next_event(LOOK).map_err(connect::failed)? {
                quiet_since = Instant::now();
                self.event(event)?;
            }
        }
        Ok(())
    }

    fn look(&mut self, timeout: Duration) -> Result<(), CommandError> {
        match self.client.next_event(timeout).map_err(connect::failed)? {
            Some(event) => self.event(event),
            None => Ok(()),
        }
    }

    fn look_at_once(&mut self) -> Result<bool, CommandError> {
        match self.client.next_event(Duration::ZERO).map_err(connect::failed)? {
            Some(event) => self.event(event).map(|()| true),
            None => Ok(false),
        }
    }

    fn line(&mut self, text: &str) -> Result<Next, CommandError> {
        match language::parse(text) {
            Ok(None) => {}
            Ok(Some(Line::Quit)) => return Ok(Next::Quit),
            Ok(Some(Line::Help)) => say!("{}", language::LINES),
            Ok(Some(Line::Book(symbol))) => self.book(symbol)?,
            Ok(Some(line)) => match self.body(&line)? {
                Ok(body) => self.submit(body)?,
                Err(problem) => self.complain(&problem),
            },
            Err(problem) => self.complain(&problem),
        }
        Ok(Next::Go)
    }

    /// The request of a line, or what is wrong with the line.
    fn body(&mut self, line: &Line<'_>) -> Result<Result<Body, String>, CommandError> {
        let key = |id: u64| OrderKey::Id(ClientOrderId(id));
        Ok(match line {
            Line::Order(order) => match self.definition(order.symbol)? {
                Some(definition) => language::order_body(order, &definition),
                None => Err(format!("there is no instrument {}", order.symbol)),
            },
            Line::Replace(replacement) => {
                let id = replacement.id;
                let instrument = self.orders.get(&ClientOrderId(id)).copied();
                match instrument.and_then(|instrument| self.instruments.get(&instrument)) {
                    Some(definition) => language::replace_body(replacement, definition),
                    None => Err(format!("order {id} was not heard of yet: ask for `status {id}` first")),
                }
            }
            Line::Quote(ladder) => match self.definition(ladder.symbol)? {
                Some(definition) => ladder.body(&definition),
                None => Err(format!("there is no instrument {}", ladder.symbol)),
            },
            Line::Account(account) => Ok(Body::QueryAccount(*account)),
            Line::Cancel(id) => Ok(client::cancel(ClientOrderId(*id))),
            Line::Status(id) => Ok(Body::OrderStatus(OrderStatusRequest { order: key(*id) })),
            Line::CancelAll { symbol, side } => self.mass_cancel(*symbol, *side)?,
            Line::Book(_) | Line::Help | Line::Quit => Err("not an order".to_owned()),
        })
    }

    fn mass_cancel(
        &mut self,
        symbol: Option<&str>,
        side: Option<Side>,
    ) -> Result<Result<Body, String>, CommandError> {
        // Session 0 stands for the sender's own.
        let mut body = MassCancel { session: SessionId(0), instrument: None, side };
        if let Some(symbol) = symbol {
            match self.definition(symbol)? {
                Some(definition) => body.instrument = Some(definition.instrument),
                None => return Ok(Err(format!("there is no instrument {symbol}"))),
            }
        }
        Ok(Ok(Body::MassCancel(body)))
    }

    fn submit(&mut self, body: Body) -> Result<(), CommandError> {
        loop {
            match self.client.submit(body) {
                Ok(id) => {
                    if let Body::NewOrder(order) = body {
                        self.orders.insert(ClientOrderId(id.0), order.instrument);
                        if !order.terms.is_empty() {
                            self.terms.insert(ClientOrderId(id.0), order.terms);
                        }
                    }
                    self.asked += 1;
                    return Ok(());
                }
                Err(SubmitError::WindowFull) => self.look(LOOK)?,
                Err(error) => return Err(CommandError::failed(error.to_string())),
            }
        }
    }

    fn definition(&mut self, symbol: &str) -> Result<Option<InstrumentDefinition>, CommandError> {
        let known = self.instruments.values().find(|definition| definition.symbol.as_str() == symbol);
        if let Some(definition) = known {
            return Ok(Some(*definition));
        }
        match Symbol::new(symbol) {
            Some(symbol) => self.ask(InstrumentKey::Symbol(symbol)),
            None => Ok(None),
        }
    }

    fn ask(&mut self, key: InstrumentKey) -> Result<Option<InstrumentDefinition>, CommandError> {
        let found = self.client.instrument(key, ANSWER_PATIENCE).map_err(connect::failed)?;
        if let Some(definition) = found {
            self.instruments.insert(definition.instrument, definition);
        }
        Ok(found)
    }

    fn book(&mut self, symbol: &str) -> Result<(), CommandError> {
        let Some(definition) = self.definition(symbol)? else {
            self.complain(&format!("there is no instrument {symbol}"));
            return Ok(());
        };
        // The lines before this one must show: depth and reports come from stages side by side, so the depth's own
        // sequence tells whether it has caught up.
        let patience = Instant::now() + ANSWER_PATIENCE;
        while self.client.pending() > 0 && Instant::now() < patience {
            self.look(LOOK)?;
        }
        while self.look_at_once()? {}
        let depth = loop {
            let depth =
                self.client.depth(definition.instrument, 10, ANSWER_PATIENCE).map_err(connect::failed)?;
            let behind = depth.as_ref().is_some_and(|depth| depth.sequence < self.last_sequence);
            if !behind || Instant::now() >= patience {
                break depth;
            }
            self.look(LOOK)?;
        };
        if let Some(depth) = depth {
            if self.json {
                say!("{}", show::depth_json(&depth, &definition))
            } else {
                show::depth(&depth, &definition)
            }
        }
        Ok(())
    }

    fn event(&mut self, event: ClientEvent) -> Result<(), CommandError> {
        match event {
            ClientEvent::Report(report) => {
                self.last_sequence = report.output.sequence;
                let (order, instrument) = show::subject(&report.output.event);
                if instrument.0 != 0 && !self.instruments.contains_key(&instrument) {
                    self.ask(InstrumentKey::Id(instrument))?;
                }
                if let Some(order) = order {
                    self.orders.insert(order, instrument);
                }
                let definition = self.instruments.get(&instrument);
                let terms = match report.output.event {
                    Event::Accepted(Accepted { request_id, .. })
                    | Event::Rejected(Rejected { request_id, .. }) => {
                        self.terms.remove(&ClientOrderId(request_id.0))
                    }
                    _ => None,
                };
                if self.json {
                    say!("{}", show::report_json(&report, definition));
                } else {
                    let terms = terms.filter(|_| matches!(report.output.event, Event::Accepted(_)));
                    let terms = terms.map_or_else(String::new, |terms| show::terms(&terms, definition));
                    say!("{}{terms}", show::report(&report, definition));
                }
                if let Event::Rejected(_) = report.output.event {
                    self.failed += 1;
                }
            }
            ClientEvent::Outcome(_, Outcome::Done(_) | Outcome::Rejected(..)) => {}
            ClientEvent::Outcome(id, outcome) => self.unreported(id, outcome),
            ClientEvent::Disconnected(loss) => self.note(&format!("disconnected: {loss}")),
            ClientEvent::DayEnded(day) => self.note(&format!("trading day {day} ended")),
            ClientEvent::LoggedIn(_)
            | ClientEvent::Fact(_)
            | ClientEvent::Depth(..)
            | ClientEvent::DropCopy(..)
            | ClientEvent::Instrument(..)
            | ClientEvent::QueryRefused(..) => {}
        }
        Ok(())
    }

    /// An outcome that no report tells.
    fn unreported(&mut self, id: RequestId, outcome: Outcome) {
        self.failed += 1;
        let text = outcome_text(outcome);
        if self.json {
            say!("{}", json!({ "kind": "outcome", "request": id.0, "outcome": text }));
        } else {
            say!("request {id} {text}");
        }
    }

    /// A line that was not done. What it echoes of the line can't steer the terminal.
    fn complain(&mut self, problem: &str) {
        self.failed += 1;
        self.note(&printable(problem));
    }

    /// Something about the command itself. In a pipe the output is for reports alone.
    fn note(&self, text: &str) {
        if self.interactive { say!("{text}") } else { crate::console::complain(&text) }
    }
}

/// The text with its control characters escaped.
fn printable(text: &str) -> String {
    let escaped = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    text.chars().map(escaped).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(mut input: &[u8]) -> Vec<Typed> {
        std::iter::from_fn(|| next_line(&mut input)).collect()
    }

    fn line(text: &str) -> Typed {
        Typed::Line(text.to_owned())
    }

    #[test]
    fn a_line_that_is_no_text_does_not_end_the_input() {
        let refused = Typed::Refused("a line is not UTF-8 text");
        assert_eq!(lines(b"one\n\xff bad\n\nlast"), [line("one"), refused, line(""), line("last")]);
        assert_eq!(lines(b""), []);
    }

    #[test]
    fn a_line_has_an_end_within_its_bound() {
        let refused = || Typed::Refused("a line is longer than 1,024 bytes");
        for (length, taken) in
            [(LINE_MAX - 1, true), (LINE_MAX, true), (LINE_MAX + 1, false), (10 * LINE_MAX + 3, false)]
        {
            let text = "x".repeat(length);
            let first = if taken { line(&text) } else { refused() };
            assert_eq!(lines(format!("{text}\nnext\n").as_bytes()), [first, line("next")], "{length}");
            let last = if taken { line(&text) } else { refused() };
            assert_eq!(lines(text.as_bytes()), [last], "{length}");
        }
        assert_eq!(lines(&[b'x'; 2 * (LINE_MAX + 1)]), [refused()]);
    }

    #[test]
    fn what_is_echoed_steers_no_terminal() {
        assert_eq!(printable("a\u{1b}[2J\u{9b}é`"), "a\\u{1b}[2J\\u{9b}é`");
    }
}

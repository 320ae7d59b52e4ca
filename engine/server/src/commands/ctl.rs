//! `ringpit ctl`: an operator's requests over the native session. Each is in the log, and each is waited for: what the
//! command says was done is durable.

mod accounts;
mod action;
mod calendar;
mod perform;
mod rulebook;
mod rules;
mod tables;
mod users;
mod venue;
mod words;

use std::time::Duration;

use client::Client;
use protocol::{
    AccountId, Body, Capacities, Event, InstrumentDefinition, MassCancel, Phase, Report, SessionId, Side,
    WHY_LENGTH_MAX,
};
use serde_json::json;

use self::action::{Action, MassCancelArgs};
use super::connect::{self, ConnectArgs};
use crate::console::OutputArgs;
use crate::error::CommandError;
use crate::{instruments, say, text};

pub use self::perform::{outcome_text, perform, perform_because};

/// How long the answers to all requests of one call may take, with no progress in between.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// Administer a running venue: instruments, phases, users, accounts, money, limits, kill switches, trades, end of day
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringpit ctl add-user alice --session 10 --new-password-file alice.txt
  ringpit ctl halt BTCUSD --why 'news pending'
  ringpit ctl deposit 100 USD 25000.50 --scale 10
  ringpit ctl kill on participant 7
  ringpit ctl end-of-day

Each is answered by the venue before the command ends; exit status 0 only if all was done. What --why says is in the log with
the request: `ringpit journal show` prints it.")]
pub struct CtlArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// The operator who logs in
    #[arg(long, default_value = "admin")]
    operator: String,
    /// Why, in 1 to 64 bytes of UTF-8, for the readers of the log
    #[arg(long, global = true, value_name = "TEXT", value_parser = why)]
    why: Option<String>,
    /// Print one JSON object as the last line of standard output
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

fn why(text: &str) -> Result<String, String> {
    let fits = (1..=WHY_LENGTH_MAX).contains(&text.len()) && !text.contains(char::is_control);
    fits.then(|| text.to_owned()).ok_or_else(|| "1 to 64 bytes of text without control characters".to_owned())
}

/// Runs the command.
///
/// # Errors
/// The server is not there, or did not do all that was asked.
pub fn run(args: &CtlArgs) -> Result<(), CommandError> {
    // What can be wrong with the command line is found before anybody is connected to.
    let prepared = prepare(&args.action)?;
    if let (Prepared::Calendar(phases), Action::Calendar(calendar)) = (&prepared, &args.action)
        && calendar.show
    {
        tables::schedule(phases);
        return Ok(());
    }
    let connect = match &args.action {
        Action::Rulebook(asked) => rulebook::checked(&args.connect, asked.version)?,
        _ => args.connect.clone(),
    };
    let mut client = connect.connect(connect.config(&args.operator)?)?;
    let bodies = bodies(prepared, &mut client)?;
    if let Action::SetRules(rules) = &args.action {
        bodies.iter().for_each(|body| say!("{}", text::body_line(body)));
        let not_given = rules.not_given()?;
        if !not_given.is_empty() {
            say!("not given, so as of an instrument without rules: {}", not_given.join(", "));
        }
    }
    if let Action::SetRules(rules) = &args.action
        && rules.show
    {
        return client.logout(Duration::from_secs(5), |_| {}).map_err(connect::failed);
    }
    let mut told = Vec::new();
    let keep = |report: &Report| {
        if let Event::Balance(_) | Event::Position(_) | Event::InstrumentState(_) = report.output.event {
            told.push(*report);
        }
    };
    let done = perform_because(&mut client, &bodies, args.why.as_deref(), keep)?;
    let answers = tables::answers(&mut client, &told)?;
    client.logout(Duration::from_secs(5), |_| {}).map_err(connect::failed)?;
    let canceled: u64 =
        done.iter().map(|event| if let Event::MassCanceled(e) = event { e.orders } else { 0 }).sum();
    if done.iter().any(|event| matches!(event, Event::MassCanceled(_))) {
        say!("{canceled} orders canceled");
    }
    if !matches!(args.action, Action::Account(_) | Action::Instrument(_)) {
        say!("done: {} of {} requests", done.len(), bodies.len());
    }
    OutputArgs { json: args.json }.last_line(&json!({
        "requests": bodies.len(), "done": done.len(), "orders_canceled": canceled, "answers": answers,
    }));
    Ok(())
}

/// What an action asks for, but for what only the server knows.
enum Prepared<'a> {
    Bodies(Vec<Body>),
    Disable(protocol::UserDefinition),
    /// Prices, quantities or the number are those of the instrument of that symbol.
    Of(&'a str, OfInstrument<'a>),
    Limits(&'a accounts::LimitsArgs),
    Fees(&'a accounts::FeesArgs),
    /// The sign is 1 for a deposit and -1 for a withdrawal.
    Transfer(&'a accounts::TransferArgs, i128),
    Calendar(calendar::Expanded),
}

/// Makes the request for an instrument.
type OfInstrument<'a> = Box<dyn Fn(&InstrumentDefinition) -> Result<Body, CommandError> + 'a>;

/// The requests, with what the server knows.
fn bodies(prepared: Prepared<'_>, client: &mut Client) -> Result<Vec<Body>, CommandError> {
    Ok(match prepared {
        Prepared::Bodies(bodies) => bodies,
        Prepared::Disable(user) => {
            users::must_exist(client, &user)?;
            vec![Body::PutUser(user)]
        }
        Prepared::Of(symbol, body) => vec![body(&connect::instrument(client, symbol)?)?],
        Prepared::Limits(args) => vec![args.body(client)?],
        Prepared::Fees(args) => vec![args.body(client)?],
        Prepared::Transfer(args, sign) => {
            args.check_scale(client)?;
            vec![args.body(sign)?]
        }
        Prepared::Calendar(expanded) => {
            let mut bodies = Vec::new();
            for (symbol, phases) in &expanded {
                let instrument = connect::instrument(client, symbol)?.instrument;
                bodies.push(Body::ClearSchedule(instrument));
                bodies.extend(phases.iter().map(|(at, phase)| Body::SchedulePhase(instrument, *at, *phase)));
            }
            bodies
        }
    })
}

fn prepare(action: &Action) -> Result<Prepared<'_>, CommandError> {
    let one = |body| Ok(Prepared::Bodies(vec![body]));
    match action {
        Action::AddUser(user) => one(users::put_user(user)?),
        Action::DisableUser(user) => Ok(Prepared::Disable(users::disable_user(user)?)),
        Action::Disconnect(args) => one(Body::DisconnectUser(SessionId(args.session))),
        Action::AddInstruments(args) => {
            let list =
                instruments::load(&args.file).map_err(|error| CommandError::usage(error.to_string()))?;
            Ok(Prepared::Bodies(list.into_iter().map(Body::PutInstrument).collect()))
        }
        Action::SetCapacities(args) => one(Body::SetCapacities(Capacities {
            orders: args.orders,
            levels: args.levels,
            cl_ord_ids: args.cl_ord_ids,
            sessions: args.sessions,
            instruments: args.instruments,
        })),
        Action::Rulebook(args) => one(Body::SetRulebook(args.version)),
        Action::EndOfDay => one(Body::EndOfDay),
        Action::MassCancel(args) => mass_cancel(args),
        Action::Calendar(args) => Ok(Prepared::Calendar(args.expand()?)),
        other => prepare_for_instrument(other).unwrap_or_else(|| prepare_for_account(other)),
    }
}

/// Actions about one instrument; `None` for others.
fn prepare_for_instrument(action: &Action) -> Option<Result<Prepared<'_>, CommandError>> {
    fn of<'a>(
        symbol: &'a str,
        body: impl Fn(&InstrumentDefinition) -> Result<Body, CommandError> + 'a,
    ) -> Result<Prepared<'a>, CommandError> {
        Ok(Prepared::Of(symbol, Box::new(body)))
    }
    let phase =
        |symbol, phase| of(symbol, move |of: &InstrumentDefinition| Ok(Body::SetPhase(of.instrument, phase)));
    Some(match action {
        Action::Halt(args) => phase(&args.symbol, Phase::Halted),
        Action::Resume(args) => phase(&args.symbol, Phase::Continuous),
        Action::Phase(args) => phase(&args.symbol, args.phase),
        Action::SetRules(args) => match args.read() {
            Ok(rules) => of(&args.symbol, move |definition| rules.body(definition)),
            Err(error) => Err(error),
        },
        Action::SetTicks(args) => of(&args.symbol, |definition| args.body(definition)),
        Action::Schedule(args) => {
            of(&args.symbol, |definition| Ok(Body::SchedulePhase(definition.instrument, args.at, args.phase)))
        }
        Action::ClearSchedule(args) => of(&args.symbol, |of| Ok(Body::ClearSchedule(of.instrument))),
        Action::SetPrice(args) => of(&args.symbol, |definition| args.body(definition)),
        Action::Delist(args) => of(&args.symbol, |of| Ok(Body::Delist(of.instrument))),
        Action::Instrument(args) => of(&args.symbol, |of| Ok(Body::QueryInstrument(of.instrument))),
        Action::Correct(args) => of(&args.symbol, |definition| args.body(definition)),
        _ => return None,
    })
}

/// Actions about accounts, money and trades.
fn prepare_for_account(action: &Action) -> Result<Prepared<'_>, CommandError> {
    let one = |body| Ok(Prepared::Bodies(vec![body]));
    match action {
        Action::Currency(args) => one(args.body()?),
        Action::SetAccount(args) => one(args.body()),
        Action::Account(args) => one(Body::QueryAccount(AccountId(args.account))),
        Action::Participant(args) => one(args.body()),
        Action::Limits(args) => Ok(Prepared::Limits(args)),
        Action::Fees(args) => Ok(Prepared::Fees(args)),
        Action::Throttle(args) => one(args.body()),
        Action::Deposit(args) => args.body(1).map(|_| Prepared::Transfer(args, 1)),
        Action::Withdraw(args) => args.body(-1).map(|_| Prepared::Transfer(args, -1)),
        Action::Kill(args) => one(args.body()),
        Action::Bust(args) => one(Body::BustTrade(protocol::TradeId(args.trade))),
        Action::Seed(args) => one(Body::SetSeed(args.seed)),
        _ => Err(CommandError::usage("nothing to do")),
    }
}

fn mass_cancel(args: &MassCancelArgs) -> Result<Prepared<'_>, CommandError> {
    let side = args
        .side
        .as_deref()
        .map(|name| Side::from_name(name).ok_or_else(|| CommandError::usage("--side is buy or sell")));
    let body = MassCancel { session: SessionId(args.session), instrument: None, side: side.transpose()? };
    Ok(match &args.instrument {
        Some(symbol) => Prepared::Of(
            symbol,
            Box::new(move |of| Ok(Body::MassCancel(MassCancel { instrument: Some(of.instrument), ..body }))),
        ),
        None => Prepared::Bodies(vec![Body::MassCancel(body)]),
    })
}

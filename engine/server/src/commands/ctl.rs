//! `ringpit ctl`: an operator's requests over the native session. Each is in the log, and each is waited for: what the
//! command says was done is durable.

mod rulebook;

use std::collections::HashMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::Subcommand;
use client::{Client, ClientEvent, InstrumentKey, Outcome};
use protocol::{
    Body, Capacities, Credential, Event, InstrumentId, MassCancel, Phase, RejectReason, RequestId, Role,
    SessionId, Side, UserDefinition,
};
use rand::RngExt;
use serde_json::json;

use super::connect::{self, ConnectArgs};
use crate::console::OutputArgs;
use crate::error::CommandError;
use crate::{instruments, passwords, say};

/// How long the answers to all requests of one call may take, with no progress in between.
const ANSWER_PATIENCE: Duration = Duration::from_secs(30);

/// Environment variable with the password that `add-user` sets.
const NEW_PASSWORD_VARIABLE: &str = "RINGPIT_NEW_PASSWORD";

/// Administer a running venue: users, instruments, halts, capacities, end of day
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringpit ctl add-user alice --session 10 --new-password-file alice.txt
  ringpit ctl halt BTCUSD
  ringpit ctl mass-cancel --session 10
  ringpit ctl end-of-day

Each is answered by the venue before the command ends; exit status 0 only if all was done.")]
pub struct CtlArgs {
    #[command(flatten)]
    connect: ConnectArgs,
    /// The operator who logs in
    #[arg(long, default_value = "admin")]
    operator: String,
    /// Print one JSON object as the last line of standard output
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Create a user, or give one with the same name and session another password and settings
    #[command(after_help = "Example:\n  RINGPIT_NEW_PASSWORD=secret ringpit ctl add-user alice --session 10")]
    AddUser(UserArgs),
    /// Disconnect a user and let it log in no more; its orders stay. add-user with a new password lets it in again
    #[command(after_help = "Example:\n  ringpit ctl disable-user alice --session 10")]
    DisableUser(DisableArgs),
    /// End the connection of a session; it may log in again
    #[command(after_help = "Example:\n  ringpit ctl disconnect --session 10")]
    Disconnect(SessionArgs),
    /// Create the instruments of a CSV or TOML file; those that exist with the same definition stay as they are
    #[command(after_help = "Example:\n  ringpit ctl add-instruments --file instruments.csv")]
    AddInstruments(FileArgs),
    /// Stop trading in an instrument; cancels still work
    #[command(after_help = "Example:\n  ringpit ctl halt BTCUSD")]
    Halt(SymbolArgs),
    /// Go on trading in a halted instrument
    #[command(after_help = "Example:\n  ringpit ctl resume BTCUSD")]
    Resume(SymbolArgs),
    /// Set the venue's capacities, all of them, until the next start: then those of the configuration are published again
    #[command(
        after_help = "Example:\n  ringpit ctl set-capacities --orders 16000000 --levels 4000000 --cl-ord-ids 8000000 \\
      --sessions 10000 --instruments 200000

To keep them, put them into the configuration, too: the server publishes its [capacities] at each start."
    )]
    SetCapacities(CapacityArgs),
    /// Switch to the rules of a newer version, once all members of the cluster know them; the same ones again are done
    #[command(after_help = "Example:
  ringpit ctl --data data rulebook 1

It asks the server of --data, which must run on this machine, who knows the version. It is refused, and nothing is logged,
unless every member can be reached and knows it: one that doesn't could not go on. `ringpit status --json` has the version in
force (`rulebook`) and the newest known (`rulebook_known`). There is no way back to a lower one.")]
    Rulebook(RulebookArgs),
    /// End the trading day: day orders expire, reports are numbered from 1 again
    #[command(after_help = "Example:\n  ringpit ctl end-of-day")]
    EndOfDay,
    /// Cancel the orders of a session
    #[command(after_help = "Example:\n  ringpit ctl mass-cancel --session 10 --instrument BTCUSD --side buy")]
    MassCancel(MassCancelArgs),
}

#[derive(Debug, clap::Args)]
struct UserArgs {
    /// Login name, 1 to 6 characters
    name: String,
    /// Number of the user's session, unique and not 0
    #[arg(long)]
    session: u32,
    /// File whose first line is the password. Without it: $RINGPIT_NEW_PASSWORD, then one line of standard input
    #[arg(long, value_name = "FILE")]
    new_password_file: Option<PathBuf>,
    /// Make it an operator
    #[arg(long)]
    operator_role: bool,
    /// Cancel its orders when its connection is lost
    #[arg(long)]
    cancel_on_disconnect: bool,
    /// Milliseconds in which a new login prevents that
    #[arg(long, default_value_t = 0)]
    grace_ms: u32,
}

#[derive(Debug, clap::Args)]
struct DisableArgs {
    /// Login name
    name: String,
    /// Number of the user's session
    #[arg(long)]
    session: u32,
    /// Cancel its orders, too, if it is connected
    #[arg(long)]
    cancel_orders: bool,
}

#[derive(Debug, clap::Args)]
struct SessionArgs {
    /// Number of the session
    #[arg(long)]
    session: u32,
}

#[derive(Debug, clap::Args)]
struct FileArgs {
    /// The file
    #[arg(long)]
    file: PathBuf,
}

#[derive(Debug, clap::Args)]
struct SymbolArgs {
    /// Symbol of the instrument
    symbol: String,
}

#[derive(Debug, clap::Args)]
struct CapacityArgs {
    /// Live orders
    #[arg(long)]
    orders: u32,
    /// Price levels
    #[arg(long)]
    levels: u32,
    /// Text client order ids a trading day
    #[arg(long)]
    cl_ord_ids: u32,
    /// Sessions
    #[arg(long)]
    sessions: u32,
    /// Instruments
    #[arg(long)]
    instruments: u32,
}

#[derive(Debug, clap::Args)]
struct RulebookArgs {
    /// The version
    version: u32,
}

#[derive(Debug, clap::Args)]
struct MassCancelArgs {
    /// Number of the session
    #[arg(long)]
    session: u32,
    /// Only the orders of this instrument
    #[arg(long, value_name = "SYMBOL")]
    instrument: Option<String>,
    /// Only the orders of this side: buy or sell
    #[arg(long)]
    side: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// The server is not there, or did not do all that was asked.
pub fn run(args: &CtlArgs) -> Result<(), CommandError> {
    // What can be wrong with the command line is found before anybody is connected to.
    let prepared = prepare(&args.action)?;
    let connect = match &args.action {
        Action::Rulebook(asked) => rulebook::checked(&args.connect, asked.version)?,
        _ => args.connect.clone(),
    };
    let mut client = connect.connect(connect.config(&args.operator)?)?;
    let bodies = match prepared {
        Prepared::Bodies(bodies) => bodies,
        Prepared::Disable(user) => {
            must_exist(&mut client, &user)?;
            vec![Body::PutUser(user)]
        }
        Prepared::Phase(symbol, phase) => {
            vec![Body::SetPhase(connect::instrument(&mut client, symbol)?.instrument, phase)]
        }
        Prepared::MassCancel(mut body, symbol) => {
            body.instrument = Some(connect::instrument(&mut client, symbol)?.instrument);
            vec![Body::MassCancel(body)]
        }
    };
    let done = perform(&mut client, &bodies)?;
    client.logout(Duration::from_secs(5), |_| {}).map_err(connect::failed)?;
    for event in &done {
        if let Event::MassCanceled(event) = event {
            say!("{} orders canceled", event.orders);
        }
    }
    say!("done: {} of {} requests", done.len(), bodies.len());
    let canceled: u64 =
        done.iter().map(|event| if let Event::MassCanceled(e) = event { e.orders } else { 0 }).sum();
    OutputArgs { json: args.json }
        .last_line(&json!({ "requests": bodies.len(), "done": done.len(), "orders_canceled": canceled }));
    Ok(())
}

/// What an action asks for, but for what only the server knows.
enum Prepared<'a> {
    Bodies(Vec<Body>),
    Disable(UserDefinition),
    Phase(&'a str, Phase),
    MassCancel(MassCancel, &'a str),
}

fn prepare(action: &Action) -> Result<Prepared<'_>, CommandError> {
    let one = |body| Ok(Prepared::Bodies(vec![body]));
    match action {
        Action::AddUser(user) => one(put_user(user)?),
        Action::DisableUser(user) => Ok(Prepared::Disable(disable_user(user)?)),
        Action::Disconnect(args) => one(Body::DisconnectUser(SessionId(args.session))),
        Action::AddInstruments(args) => {
            let list =
                instruments::load(&args.file).map_err(|error| CommandError::usage(error.to_string()))?;
            Ok(Prepared::Bodies(list.into_iter().map(Body::PutInstrument).collect()))
        }
        Action::Halt(args) => Ok(Prepared::Phase(&args.symbol, Phase::Halted)),
        Action::Resume(args) => Ok(Prepared::Phase(&args.symbol, Phase::Continuous)),
        Action::SetCapacities(args) => one(Body::SetCapacities(Capacities {
            orders: args.orders,
            levels: args.levels,
            cl_ord_ids: args.cl_ord_ids,
            sessions: args.sessions,
            instruments: args.instruments,
        })),
        Action::Rulebook(args) => one(Body::SetRulebook(args.version)),
        Action::EndOfDay => one(Body::EndOfDay),
        Action::MassCancel(args) => {
            let side = args.side.as_deref().map(|name| {
                Side::from_name(name).ok_or_else(|| CommandError::usage("--side is buy or sell"))
            });
            let body =
                MassCancel { session: SessionId(args.session), instrument: None, side: side.transpose()? };
            match &args.instrument {
                Some(symbol) => Ok(Prepared::MassCancel(body, symbol)),
                None => one(Body::MassCancel(body)),
            }
        }
    }
}

fn put_user(args: &UserArgs) -> Result<Body, CommandError> {
    let name = connect::user_name(&args.name)?;
    let credential = gateway::credentials::hash(&new_password(args)?, rand::rng().random())
        .map_err(|error| CommandError::usage(error.to_string()))?;
    Ok(Body::PutUser(UserDefinition {
        session: SessionId(args.session),
        name,
        credential,
        role: if args.operator_role { Role::Operator } else { Role::Trader },
        enabled: true,
        cancel_on_disconnect: args.cancel_on_disconnect,
        grace_ms: args.grace_ms,
    }))
}

/// A disabled user keeps no password: its scheme is one that never verifies.
fn disable_user(args: &DisableArgs) -> Result<UserDefinition, CommandError> {
    Ok(UserDefinition {
        session: SessionId(args.session),
        name: connect::user_name(&args.name)?,
        credential: Credential { scheme: 0, salt: [0; 16], hash: [0; 32] },
        role: Role::Trader,
        enabled: false,
        cancel_on_disconnect: args.cancel_orders,
        grace_ms: 0,
    })
}

/// Finds out whether a user's session exists, since the request that disables a user would create one that does not. The
/// venue has no such question, but it looks for the session of a mass cancel before it looks for the instrument: one of an
/// instrument that is not there changes nothing, and its answer tells. That name and session belong together is checked
/// when the user is disabled. (Ending the connection would tell, too, and could cancel orders that must stay.)
fn must_exist(client: &mut Client, user: &UserDefinition) -> Result<(), CommandError> {
    let mut instrument = InstrumentId(u32::MAX);
    while client
        .instrument(InstrumentKey::Id(instrument), ANSWER_PATIENCE)
        .map_err(connect::failed)?
        .is_some()
    {
        instrument.0 -= 1;
    }
    let question = MassCancel { session: user.session, instrument: Some(instrument), side: None };
    let asked = client.submit(Body::MassCancel(question)).map_err(|e| CommandError::failed(e.to_string()))?;
    let deadline = Instant::now() + ANSWER_PATIENCE;
    while Instant::now() < deadline {
        let event = client.next_event(Duration::from_millis(500)).map_err(connect::failed)?;
        let Some(ClientEvent::Outcome(id, outcome)) = event else { continue };
        let problem = match outcome {
            _ if id != asked => continue,
            Outcome::Rejected(_, RejectReason::UnknownInstrument) => return Ok(()),
            Outcome::Rejected(_, RejectReason::UnknownUser) => "there is none".to_owned(),
            outcome => outcome_text(outcome),
        };
        return Err(CommandError::failed(format!(
            "user {} with session {}: {problem}",
            user.name, user.session
        )));
    }
    Err(CommandError::failed(format!("no answer within {ANSWER_PATIENCE:?}")))
}

fn new_password(args: &UserArgs) -> Result<String, CommandError> {
    if let Some(file) = &args.new_password_file {
        return passwords::read_file(file).map_err(|error| CommandError::failed(error.to_string()));
    }
    if let Ok(password) = std::env::var(NEW_PASSWORD_VARIABLE) {
        return Ok(password);
    }
    let mut line = String::new();
    std::io::stdin()
        .read_line(&mut line)
        .map_err(|error| CommandError::failed(format!("standard input: {error}")))?;
    Ok(line.trim_end().to_owned())
}

/// Sends requests and waits until each has its outcome; the reports that say that they were done, in order.
///
/// # Errors
/// The first request that was not done, or the end of the connection.
pub fn perform(client: &mut Client, bodies: &[Body]) -> Result<Vec<Event>, CommandError> {
    let mut unsent = bodies.iter();
    let mut next = unsent.next();
    let mut asked: HashMap<RequestId, usize> = HashMap::new();
    let mut done = Vec::new();
    let mut last = None;
    let mut progress = Instant::now();
    while done.len() < bodies.len() {
        while let Some(body) = next {
            match client.submit(*body) {
                Ok(id) => {
                    asked.insert(id, asked.len());
                    next = unsent.next();
                }
                Err(client::SubmitError::WindowFull) => break,
                Err(error) => return Err(CommandError::failed(error.to_string())),
            }
        }
        match client.next_event(Duration::from_millis(500)).map_err(connect::failed)? {
            Some(ClientEvent::Report(report)) => last = Some(report.output.event),
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

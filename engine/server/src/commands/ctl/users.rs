//! Subcommands about users and their sessions.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use client::{Client, ClientEvent, InstrumentKey, Outcome};
use protocol::{Body, Credential, InstrumentId, MassCancel, RejectReason, Role, SessionId, UserDefinition};
use rand::RngExt;

use super::ANSWER_PATIENCE;
use super::perform::outcome_text;
use crate::commands::connect;
use crate::error::CommandError;
use crate::passwords;

/// Environment variable with the password that `add-user` sets.
const NEW_PASSWORD_VARIABLE: &str = "RINGPIT_NEW_PASSWORD";

#[derive(Debug, clap::Args)]
pub(super) struct UserArgs {
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
    /// Make it an observer: it may log in and read drop copies of its participant's sessions, and neither trade nor administer
    #[arg(long, conflicts_with = "operator_role")]
    observer_role: bool,
    /// Cancel its orders when its connection is lost
    #[arg(long)]
    cancel_on_disconnect: bool,
    /// Milliseconds in which a new login prevents that
    #[arg(long, default_value_t = 0)]
    grace_ms: u32,
}

#[derive(Debug, clap::Args)]
pub(super) struct DisableArgs {
    /// Login name
    name: String,
    /// Number of the user's session
    #[arg(long)]
    session: u32,
    /// Cancel its orders, too, if it is connected
    #[arg(long)]
    cancel_orders: bool,
}

/// The request that makes a user.
pub(super) fn put_user(args: &UserArgs) -> Result<Body, CommandError> {
    let name = connect::user_name(&args.name)?;
    let credential = gateway::credentials::hash(&new_password(args)?, rand::rng().random())
        .map_err(|error| CommandError::usage(error.to_string()))?;
    Ok(Body::PutUser(UserDefinition {
        session: SessionId(args.session),
        name,
        credential,
        role: match (args.operator_role, args.observer_role) {
            (true, _) => Role::Operator,
            (false, true) => Role::Observer,
            (false, false) => Role::Trader,
        },
        enabled: true,
        cancel_on_disconnect: args.cancel_on_disconnect,
        grace_ms: args.grace_ms,
    }))
}

/// A disabled user keeps no password: its scheme is one that never verifies.
pub(super) fn disable_user(args: &DisableArgs) -> Result<UserDefinition, CommandError> {
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
pub(super) fn must_exist(client: &mut Client, user: &UserDefinition) -> Result<(), CommandError> {
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

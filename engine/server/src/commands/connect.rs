//! How the client-side commands find a server and log in: from the command line, the environment, or what a server on the
//! same machine leaves in its data directory.

use std::path::PathBuf;
use std::time::Duration;

use clap::builder::RangedU64ValueParser;
use client::{Client, ClientConfig, InstrumentKey, Password};
use protocol::{InstrumentDefinition, Symbol, UserName};

use crate::error::CommandError;
use crate::passwords::{self, Passwords};
use crate::ready::Ready;

/// Environment variable that holds the password.
pub const PASSWORD_VARIABLE: &str = "RINGPIT_PASSWORD";

/// How long a question to the server may take.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);

/// Longest time in seconds that an option takes: a year. A clock can't be set on by much more.
const SECONDS_MAX: u64 = 365 * 24 * 60 * 60;
/// Most requests in flight that an option takes.
const WINDOW_MAX: usize = 1 << 20;

/// Reads an option that is a time in seconds.
pub fn seconds() -> RangedU64ValueParser<u64> {
    RangedU64ValueParser::new().range(0..=SECONDS_MAX)
}

/// Reads an option that is a number of requests a second. None at all would never end.
pub fn rate() -> RangedU64ValueParser<u64> {
    RangedU64ValueParser::new().range(1..)
}

/// Reads an option that is a number of requests in flight.
///
/// # Errors
/// It is no number, or one that no window can have.
pub fn window(text: &str) -> Result<usize, String> {
    text.parse()
        .ok()
        .filter(|window| (1..=WINDOW_MAX).contains(window))
        .ok_or_else(|| format!("1 to {WINDOW_MAX}"))
}

/// Where the server is, and who logs in.
#[derive(Clone, Debug, clap::Args)]
pub struct ConnectArgs {
    /// Address of the native order entry; of a cluster those of all members, by commas or one each. Without it: the server that
    /// runs on --data
    #[arg(long, visible_alias = "connect", value_name = "HOST:PORT", value_delimiter = ',')]
    pub address: Vec<String>,
    /// Data directory of a server on this machine: for its address and the demonstration users' passwords
    #[arg(long, value_name = "DIR", default_value = "data")]
    pub data: PathBuf,
    /// File whose first line is the password. Without it: $RINGPIT_PASSWORD, then the demonstration users' of --data
    #[arg(long, value_name = "FILE")]
    pub password_file: Option<PathBuf>,
    /// Seconds to try to connect and log in at the start
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = seconds())]
    pub patience: u64,
}

impl ConnectArgs {
    /// A configuration of the client library for `user`.
    ///
    /// # Errors
    /// No server or no password is to be found, or the name can't be one.
    pub fn config(&self, user: &str) -> Result<ClientConfig, CommandError> {
        let name = user_name(user)?;
        let password = self.password(&name)?;
        self.config_with(name, &password)
    }

    /// A configuration of the client library for a user whose password is known.
    ///
    /// # Errors
    /// No server is to be found, or the password can't be one.
    pub fn config_with(&self, user: UserName, password: &str) -> Result<ClientConfig, CommandError> {
        let password = Password::new(password).ok_or_else(|| {
            CommandError::usage("a password is 1 to 10 printable ASCII characters without spaces")
        })?;
        let addresses = self.addresses()?;
        Ok(match self.is_cluster() {
            true => ClientConfig::members(addresses, user, password),
            false => ClientConfig { addresses, ..ClientConfig::new("", user, password) },
        })
    }

    /// Whether there is more than one member to go to.
    #[must_use]
    pub fn is_cluster(&self) -> bool {
        self.address.len() > 1
    }

    /// Connects and logs in.
    ///
    /// # Errors
    /// The server is not there or lets nobody in.
    pub fn connect(&self, config: ClientConfig) -> Result<Client, CommandError> {
        Client::connect(config, Duration::from_secs(self.patience)).map_err(failed)
    }

    /// Addresses to try, in order.
    ///
    /// # Errors
    /// None was given, and no server runs on the data directory.
    pub fn addresses(&self) -> Result<Vec<String>, CommandError> {
        if !self.address.is_empty() {
            return Ok(self.address.clone());
        }
        let data = self.data.display();
        match Ready::of_data(&self.data) {
            Ok(Some(ready)) => Ok(vec![ready.native.to_string()]),
            Ok(None) => Err(CommandError::failed(format!(
                "no server runs on {data}, or it is not ready yet: start one, or name it with --address HOST:PORT"
            ))),
            Err(error) => Err(CommandError::failed(format!("the ready file in {data}: {error}"))),
        }
    }

    fn password(&self, user: &UserName) -> Result<String, CommandError> {
        if let Some(file) = &self.password_file {
            return passwords::read_file(file).map_err(|error| CommandError::failed(error.to_string()));
        }
        if let Ok(password) = std::env::var(PASSWORD_VARIABLE) {
            return Ok(password);
        }
        let demonstration =
            Passwords::load(&self.data).map_err(|error| CommandError::failed(error.to_string()))?;
        let password = demonstration.as_ref().and_then(|passwords| passwords.of(user));
        password.map(str::to_owned).ok_or_else(|| {
            CommandError::usage(format!(
                "no password for {user}: give --password-file FILE or ${PASSWORD_VARIABLE} ({} knows none)",
                self.data.display()
            ))
        })
    }
}

/// A login name from the command line.
///
/// # Errors
/// It can't be one.
pub fn user_name(text: &str) -> Result<UserName, CommandError> {
    UserName::new(text).ok_or_else(|| {
        CommandError::usage(format!("`{text}` is no user name: 1 to 6 printable characters without spaces"))
    })
}

/// The definition of the instrument of a symbol.
///
/// # Errors
/// There is none, or the server does not answer.
pub fn instrument(client: &mut Client, symbol: &str) -> Result<InstrumentDefinition, CommandError> {
    let unknown = || CommandError::failed(format!("the venue has no instrument {symbol}"));
    let name = Symbol::new(symbol).ok_or_else(unknown)?;
    client.instrument(InstrumentKey::Symbol(name), ANSWER_PATIENCE).map_err(failed)?.ok_or_else(unknown)
}

/// What ended a client, for the person who ran the command.
pub fn failed(error: client::ClientError) -> CommandError {
    CommandError::failed(error.to_string())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::commands::Cli;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        connect: ConnectArgs,
    }

    #[test]
    fn members_are_given_by_commas_or_one_by_one() {
        for (line, members) in
            [("x --connect a:1,b:2,c:3", 3), ("x --address a:1 --address b:2,c:3", 3), ("x --address a:1", 1)]
        {
            let Only { connect } = Only::try_parse_from(line.split(' ')).expect("understood");
            let config =
                connect.config_with(user_name("demo").expect("a name"), "secret").expect("a password");
            assert_eq!(config.addresses.len(), members, "{line}");
            assert_eq!(config.answer_limit.is_some(), members > 1, "{line}");
        }
    }

    #[test]
    fn numbers_that_no_command_can_work_with_are_refused() {
        let huge = u64::MAX.to_string();
        let refused = [
            ["trade", "--watch", &huge],
            ["trade", "--patience", &huge],
            ["load", "--seconds", &huge],
            ["load", "--drain", &huge],
            ["load", "--warm-up", &huge],
            ["load", "--rate", "0"],
            ["load", "--window", "0"],
            ["flow", "--rate", "0"],
            ["flow", "--window", "0"],
            ["flow", "--window", &huge],
        ];
        for arguments in refused {
            let error = Cli::try_parse_from(["ringpit"].iter().chain(&arguments)).expect_err("refused");
            assert_eq!(error.kind(), clap::error::ErrorKind::ValueValidation, "{arguments:?}");
            assert_eq!(error.exit_code(), 2);
        }
        for arguments in
            [["trade", "--watch", "31536000"], ["load", "--drain", "0"], ["load", "--window", "1"]]
        {
            assert!(Cli::try_parse_from(["ringpit"].iter().chain(&arguments)).is_ok(), "{arguments:?}");
        }
    }
}

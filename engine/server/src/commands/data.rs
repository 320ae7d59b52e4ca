//! How commands find the data directory, and the server that may run on it.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use journaler::{RealStorage, SharedStorage, Skip};
use serde_json::Value;

use crate::config::{Config, Overrides};
use crate::error::CommandError;
use crate::http::client::{self, Answer};
use crate::oversight;
use crate::ready::Ready;
use crate::{say, text};

const LIVE_TIMEOUT: Duration = Duration::from_secs(3);

/// Where the data directory is.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct DataArgs {
    /// Configuration file that names the data directory
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Data directory; comes before the configuration's
    #[arg(long, value_name = "DIR")]
    pub data: Option<PathBuf>,
}

impl DataArgs {
    /// The checked configuration with `--data` over it.
    ///
    /// # Errors
    /// The configuration is not usable.
    pub fn load(&self) -> Result<Config, CommandError> {
        let overrides = Overrides { data: self.data.clone(), ..Overrides::default() };
        Config::load(self.config.as_deref(), &overrides)
            .map_err(|error| CommandError::usage(error.to_string()))
    }

    /// The data directory, which must exist.
    ///
    /// # Errors
    /// The configuration is not usable, or there is no such directory.
    pub fn existing(&self) -> Result<PathBuf, CommandError> {
        let data = self.load()?.data;
        if data.is_dir() {
            return Ok(data);
        }
        Err(CommandError::failed(format!(
            "{}: there is no such data directory; name it with --data DIR or --config FILE",
            data.display()
        )))
    }
}

/// The server that runs on a data directory, if its ready file names one.
///
/// # Errors
/// The ready file can't be read.
pub fn server_of(data: &Path) -> Result<Option<Ready>, CommandError> {
    Ready::of_data(data).map_err(|error| {
        CommandError::failed(format!("{}: {error}", data.join(crate::ready::READY_FILE).display()))
    })
}

/// The server that runs on a data directory and answers. A ready file whose server is gone counts as none.
///
/// # Errors
/// The ready file can't be read.
pub fn running_server(data: &Path) -> Result<Option<Ready>, CommandError> {
    Ok(server_of(data)?.filter(|ready| {
        client::request(ready.http, "GET", "/livez", None, "", LIVE_TIMEOUT)
            .is_ok_and(|answer| answer.status == 200)
    }))
}

/// The storage of an existing data directory.
///
/// # Errors
/// The system's.
pub fn open(data: &Path) -> Result<SharedStorage, CommandError> {
    let storage = RealStorage::open(data)
        .map_err(|error| CommandError::failed(format!("{}: {error}", data.display())))?;
    Ok(Arc::new(storage))
}

/// What was wrong with a file of a data directory, whose own path the error doesn't know.
pub fn failed(storage: &SharedStorage, error: &dyn std::fmt::Display) -> CommandError {
    CommandError::failed(format!("{}: {error}", storage.locate("").components().as_path().display()))
}

/// Prints the hashes of an object, one a line.
pub fn tell_hashes(object: &Value) {
    for name in
        ["sequence", "trading_day", "open_orders", "running_hash", "state_hash", "book_hash", "outcome_hash"]
    {
        match object.get(name) {
            Some(Value::String(text)) => say!("{name:16} {text}"),
            Some(Value::Null) | None => {}
            Some(value) => say!("{name:16} {value}"),
        }
    }
}

/// Prints the frames that operators had skipped, one a line.
pub fn tell_skips<'a>(skips: impl IntoIterator<Item = &'a Skip>) {
    skips.into_iter().for_each(|skip| say!("{}", text::skip_line(skip)));
}

/// Asks a running server to do something that needs the data directory's token, and gives what it answers.
///
/// # Errors
/// It does not answer, or refuses.
pub fn administer(
    ready: &Ready,
    data: &Path,
    path: &str,
    body: &str,
    timeout: Duration,
) -> Result<Value, CommandError> {
    let token = oversight::read_token(data).map_err(|error| {
        CommandError::failed(format!("{}: {error}", oversight::token_file(data).display()))
    })?;
    let answer = client::request(ready.http, "POST", path, Some(&token), body, timeout)
        .map_err(|error| no_answer(ready, &error))?;
    value_of(&answer)
}

/// Asks a running server for a JSON object.
///
/// # Errors
/// It does not answer, or not with one.
pub fn ask(ready: &Ready, path: &str, timeout: Duration) -> Result<Value, CommandError> {
    let answer = client::request(ready.http, "GET", path, None, "", timeout)
        .map_err(|error| no_answer(ready, &error))?;
    value_of(&answer)
}

fn no_answer(ready: &Ready, error: &std::io::Error) -> CommandError {
    let Ready { process, http, .. } = ready;
    CommandError::failed(format!("the server (process {process}) does not answer at http://{http}: {error}"))
}

fn value_of(answer: &Answer) -> Result<Value, CommandError> {
    let value: Value = serde_json::from_str(&answer.body).map_err(|_| {
        CommandError::failed(format!("the server answered {}: {}", answer.status, answer.body.trim()))
    })?;
    if answer.status == 200 {
        return Ok(value);
    }
    let text = value.get("error").and_then(Value::as_str).unwrap_or("no reason given");
    Err(CommandError::failed(format!("the server refused: {text}")))
}

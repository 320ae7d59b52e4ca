//! `ringpit check-config`: reads a configuration and all that it names, and starts nothing.

use std::path::PathBuf;

use replicator::tcp::TcpTransport;
use serde_json::json;

use crate::config::{Config, Overrides};
use crate::console::OutputArgs;
use crate::error::CommandError;
use crate::{instruments, passwords, say};

/// Check a configuration file and what it names
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  ringpit check-config --config /etc/ringpit/ringpit.toml")]
pub struct CheckConfigArgs {
    /// The file; without it, the embedded defaults are checked
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    output: OutputArgs,
}

/// Runs the command.
///
/// # Errors
/// The first thing that is wrong, with its place.
pub fn run(args: &CheckConfigArgs) -> Result<(), CommandError> {
    let config = Config::load(args.config.as_deref(), &Overrides::default())
        .map_err(|error| CommandError::usage(error.to_string()))?;
    let instruments = match &config.instruments {
        Some(file) => instruments::load(file),
        None => instruments::demonstration(),
    }
    .map_err(|error| CommandError::usage(error.to_string()))?;
    let capacity = config.capacities.instruments as usize;
    if instruments.len() > capacity {
        let count = instruments.len();
        return Err(CommandError::usage(format!(
            "capacities.instruments: {capacity} is below the {count} instruments of the file"
        )));
    }
    if let Some((_, file)) = &config.users.operator {
        passwords::read_file(file).map_err(|error| CommandError::usage(error.to_string()))?;
    }
    if let Some(cluster) = &config.cluster {
        // Reads the certificates as a start would.
        TcpTransport::new(&cluster.security).map_err(|error| CommandError::usage(error.to_string()))?;
    }
    let count = instruments.len();
    say!(
        "valid: data in {}, {count} instruments, clients at {}",
        config.data.display(),
        config.gateway.listen
    );
    let note = nobody(&config);
    if let Some(note) = note {
        say!("note: {note}");
    }
    args.output.last_line(&json!({
        "valid": true,
        "note": note,
        "data": config.data,
        "instruments": count,
        "native": config.gateway.listen.to_string(),
        "http": config.http.to_string(),
    }));
    Ok(())
}

/// What to know of a configuration that makes no user: it is fine for a log that has some.
fn nobody(config: &Config) -> Option<&'static str> {
    (!config.users.demonstration && config.users.operator.is_none()).then_some(
        "it makes no user, so a new data directory is refused at start; set users.operator and \
         users.operator_password_file, or users.demonstration = true",
    )
}

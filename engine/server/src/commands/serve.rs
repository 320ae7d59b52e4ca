//! `ringpit serve`: the server itself.

use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::sync::mpsc::channel;

use crate::config::{Config, Overrides};
use crate::error::CommandError;
use crate::oversight::Oversight;
use crate::server::{Ended, Server};
use crate::{logging, open_files, signals};

/// Serve: take orders until SIGTERM or SIGINT
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ringpit serve\n  ringpit serve --config /etc/ringpit/ringpit.toml --ready-file /run/ringpit/ready.json\n  ringpit serve --data /tmp/try --listen 127.0.0.1:0 --http 127.0.0.1:0\n\nThe first SIGTERM or SIGINT drains and stops; the second ends the process at once."
)]
pub struct ServeArgs {
    /// Configuration file; without it, the embedded defaults are used
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Data directory; comes before the configuration's
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where clients connect, port 0 for any free one; comes before gateway.listen
    #[arg(long, value_name = "ADDRESS")]
    listen: Option<SocketAddr>,
    /// Where health and metrics are, on loopback, port 0 for any free one; comes before http.listen
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// File to write, whole, once orders are taken: JSON with the addresses
    #[arg(long, value_name = "FILE")]
    ready_file: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// What keeps the server from starting, or what ended it.
pub fn run(args: &ServeArgs) -> Result<(), CommandError> {
    let overrides = Overrides { data: args.data.clone(), listen: args.listen, http: args.http };
    let config = Config::load(args.config.as_deref(), &overrides)
        .map_err(|error| CommandError::usage(error.to_string()))?;
    logging::start(&config.log)?;
    open_files::raise(config.gateway.connections_max)?;
    let oversight = Arc::new(Oversight::new());
    // Before anything else, so that a signal during recovery is not lost.
    let (asked, receiver) = channel();
    signals::listen(Arc::clone(&oversight), asked.clone())
        .map_err(|error| CommandError::failed(format!("signals: {error}")))?;
    tracing::info!(version = env!("CARGO_PKG_VERSION"), data = %config.data.display(), "starting");
    match Server::start(config, oversight, args.ready_file.as_deref(), &asked)?.serve(&receiver)? {
        Ended::Stopped => Ok(()),
        Ended::ForRestart => Err(start_again()),
    }
}

/// Becomes a new process with the same arguments and number, so that whoever watches over this one sees nothing of it. Comes
/// back only with why that can't be.
fn start_again() -> CommandError {
    let failed =
        |error: std::io::Error| CommandError::failed(format!("can't start again, so start it: {error}"));
    match std::env::current_exe() {
        Ok(binary) => failed(Command::new(binary).args(std::env::args_os().skip(1)).exec()),
        Err(error) => failed(error),
    }
}

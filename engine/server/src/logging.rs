//! Structured logs to standard error, as text or one JSON object a line. RUST_LOG comes before the configured filter.
//! The consensus library's own lines are its developers': of those only errors are shown, unless the filter names it.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::config::{LogConfig, LogFormat};
use crate::error::CommandError;

/// It warns of every call to a member that is away, dozens of times a second.
const QUIET: &str = "openraft=error";

/// Reads a filter: levels, and levels of targets, by commas.
///
/// # Errors
/// It is none. The library alone would take a mistyped level for the name of a target, and then log of nothing else.
pub fn filter(text: &str) -> Result<EnvFilter, String> {
    let is_level = |word: &str| word.parse::<LevelFilter>().is_ok();
    for directive in text.split(',').map(str::trim).filter(|directive| !directive.is_empty()) {
        let names_target = directive.contains(['=', '[', ':']);
        if !names_target && !is_level(directive) {
            return Err(format!("`{directive}` is no level: off, error, warn, info, debug, trace"));
        }
    }
    EnvFilter::try_new(text).map_err(|error| error.to_string())
}

/// Starts logging for the rest of the process.
///
/// # Errors
/// RUST_LOG is no filter, or logging was started before.
pub fn start(config: &LogConfig) -> Result<(), CommandError> {
    let filter = match std::env::var("RUST_LOG") {
        Ok(text) if !text.is_empty() => {
            filter(&text).map_err(|error| CommandError::usage(format!("RUST_LOG: `{text}`: {error}")))?
        }
        // A later directive for the same target wins.
        _ => filter(&format!("{QUIET},{}", config.level))
            .map_err(|error| CommandError::usage(format!("log.level: `{}`: {error}", config.level)))?,
    };
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match config.format {
        LogFormat::Text => builder.with_ansi(std::io::IsTerminal::is_terminal(&std::io::stderr())).try_init(),
        LogFormat::Json => builder.json().flatten_event(true).try_init(),
    }
    .map_err(|error| CommandError::failed(format!("logging can't be started: {error}")))
}

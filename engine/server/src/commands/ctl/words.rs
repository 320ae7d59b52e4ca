//! What the arguments of several subcommands share: names of enumerations, times, decimals.

use jiff::Timestamp as Moment;
use protocol::{InstrumentDefinition, Phase, Price, PriceKind, Timestamp};

use crate::decimal;
use crate::error::CommandError;

/// Reads a phase by its name, with hyphens or underscores. An instrument is delisted by a command of its own.
pub(super) fn phase(text: &str) -> Result<Phase, String> {
    Phase::from_name(&text.replace('-', "_")).filter(|phase| *phase != Phase::Delisted).ok_or_else(|| {
        let phases = Phase::ALL.iter().filter(|phase| **phase != Phase::Delisted);
        let names: Vec<String> = phases.map(|phase| phase.name().replace('_', "-")).collect();
        format!("one of {}", names.join(", "))
    })
}

/// Reads which price is set.
pub(super) fn price_kind(text: &str) -> Result<PriceKind, String> {
    PriceKind::from_name(text).ok_or_else(|| "reference or mark".to_owned())
}

/// Reads a time in ISO 8601 with its zone (`2026-05-02T16:00:00Z`), or `+SECONDS` from now.
pub(super) fn moment(text: &str) -> Result<Timestamp, String> {
    let wrong = || "a time like 2026-05-02T16:00:00Z, or +SECONDS from now".to_owned();
    let at = match text.strip_prefix('+') {
        Some(seconds) => {
            let seconds: u32 = seconds.parse().map_err(|_| wrong())?;
            Moment::now().checked_add(std::time::Duration::from_secs(seconds.into())).map_err(|_| wrong())?
        }
        None => text.parse::<Moment>().map_err(|_| wrong())?,
    };
    u64::try_from(at.as_nanosecond()).map(Timestamp).map_err(|_| wrong())
}

/// A price in the units of its instrument.
pub(super) fn price(text: &str, of: &InstrumentDefinition) -> Result<Price, CommandError> {
    decimal::parse(text, of.price_scale).map(Price).map_err(|error| wrong("price", &error))
}

/// A distance between prices.
pub(super) fn distance(name: &str, text: Option<&str>, scale: u8) -> Result<u64, CommandError> {
    text.map_or(Ok(0), |text| decimal::parse_unsigned(text, scale).map_err(|error| wrong(name, &error)))
}

pub(super) fn wrong(name: &str, problem: &dyn std::fmt::Display) -> CommandError {
    CommandError::usage(format!("{name}: {problem}"))
}

/// Reads one of the values of an enumeration by its name, with hyphens or underscores.
pub(super) fn named<T>(
    name: &str,
    text: Option<&str>,
    default: T,
    read: impl Fn(&str) -> Option<T>,
) -> Result<T, CommandError> {
    let Some(text) = text else { return Ok(default) };
    read(&text.replace('-', "_"))
        .ok_or_else(|| CommandError::usage(format!("{name}: `{text}` is none of its values; see --help")))
}

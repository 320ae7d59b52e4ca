//! The process's limit of open files. A server whose connections use it up can't open its journal's next file, so it is
//! raised as far as the system allows before anything starts, and one that is still too low is refused.

use journaler::OPEN_FILES_DEFAULT;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::CommandError;
use crate::http;

/// Files besides connections and report logs: the journal, snapshots, sockets that listen, the runtimes, the archive
/// command's pipes.
const OTHER_FILES: u64 = 128;

/// Raises the soft limit to the hard one.
///
/// # Errors
/// Even that is too low for `connections_max` connections; the line says what to set.
pub fn raise(connections_max: usize) -> Result<(), CommandError> {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current != maximum
        && let Err(error) = setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum })
    {
        tracing::warn!(%error, "the limit of open files can't be raised");
    }
    // No limit reads as `None`.
    let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    check(limit, connections_max).map_err(CommandError::failed)
}

/// Files of a server with so many connections.
fn needed(connections_max: usize) -> u64 {
    connections_max as u64 + fixed()
}

/// Files of a server without connections.
fn fixed() -> u64 {
    OPEN_FILES_DEFAULT as u64 + http::CONNECTIONS_MAX as u64 + OTHER_FILES
}

fn check(limit: u64, connections_max: usize) -> Result<(), String> {
    let needed = needed(connections_max);
    if limit >= needed {
        return Ok(());
    }
    let raise = format!(
        "{needed} open files are needed and the limit is {limit}: raise the hard limit (`ulimit -Hn`, or LimitNOFILE= \
         of the service) to {needed}"
    );
    match limit.saturating_sub(fixed()) {
        0 => Err(raise),
        connections => Err(format!("{raise}, or lower gateway.connections_max to {connections}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_that_is_too_low_is_refused_with_what_would_do() {
        let enough = needed(1024);
        assert_eq!(check(enough, 1024), Ok(()));
        assert_eq!(check(u64::MAX, 65_536), Ok(()));
        let line = check(enough - 1, 1024).expect_err("too low");
        assert!(
            line.contains(&format!("to {enough}")) && line.ends_with("connections_max to 1023"),
            "{line}"
        );
        let line = check(fixed(), 1024).expect_err("too low");
        assert!(!line.contains("connections_max"), "{line}");
    }

    #[test]
    fn the_soft_limit_is_raised_to_the_hard_one() {
        raise(1).expect("any machine has as many");
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        assert_eq!(current, maximum);
    }
}

//! The data directory and the files by which others find the server: made, found in use, removed.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use journaler::{RealStorage, SharedStorage};

use super::start::{LOCK_LOOK_EVERY, LOCK_PATIENCE};
use crate::config::Config;
use crate::error::CommandError;
use crate::files;
use crate::http::HttpServer;
use crate::oversight::Oversight;
use crate::ready::{READY_FILE, Ready};

/// The data directory, made if it is missing, and its absolute name.
pub(super) fn open(data: &Path) -> Result<(SharedStorage, PathBuf), CommandError> {
    let failed = |error: std::io::Error| CommandError::failed(format!("{}: {error}", data.display()));
    let storage = RealStorage::create(data).map_err(failed)?;
    Ok((Arc::new(storage), std::path::absolute(data).map_err(failed)?))
}

/// Opens the HTTP port. One that an earlier server of the same directory has is tried again for a moment: after a kill its
/// process may still be on its way out.
pub(super) fn http(
    config: &Config,
    data: &Path,
    oversight: &Arc<Oversight>,
) -> Result<HttpServer, CommandError> {
    let started = Instant::now();
    loop {
        match HttpServer::start(config.http, Arc::clone(oversight)) {
            Err(error)
                if error.kind() == ErrorKind::AddrInUse
                    && predecessor(config, data).is_some()
                    && started.elapsed() < LOCK_PATIENCE =>
            {
                std::thread::sleep(LOCK_LOOK_EVERY);
            }
            opened => return opened.map_err(|error| no_http(config, data, &error)),
        }
    }
}

/// The server of the same directory that said it has the HTTP port.
fn predecessor(config: &Config, data: &Path) -> Option<Ready> {
    Ready::of_data(data).ok().flatten().filter(|ready| ready.http == config.http)
}

/// Why the HTTP port can't be had; where that is because a server runs on the same directory, that is said.
fn no_http(config: &Config, data: &Path, error: &std::io::Error) -> CommandError {
    match predecessor(config, data) {
        Some(Ready { process, .. }) if error.kind() == ErrorKind::AddrInUse => CommandError::failed(format!(
            "data directory {} is in use by process {process}, which has http://{}",
            data.display(),
            config.http
        )),
        _ => CommandError::failed(format!(
            "http.listen: {}: {error}; give another with --http ADDRESS, port 0 for any free one",
            config.http
        )),
    }
}

/// Where this server says that it is ready; what an earlier one wrote there is removed.
pub(super) fn ready_files(data: &Path, extra: Option<&Path>) -> Result<Vec<PathBuf>, CommandError> {
    let mut all = vec![data.join(READY_FILE)];
    all.extend(extra.map(Path::to_path_buf));
    all.iter().try_for_each(|file| remove(file))?;
    Ok(all)
}

/// Removes a file that may be there.
pub(super) fn remove(file: &Path) -> Result<(), CommandError> {
    files::remove_if_there(file).map_err(|error| CommandError::failed(format!("{}: {error}", file.display())))
}

/// Writes where the server is to be found.
pub(super) fn write_ready(ready: &Ready, ready_files: &[PathBuf]) -> Result<(), CommandError> {
    ready_files.iter().try_for_each(|file| {
        ready.write(file).map_err(|error| CommandError::failed(format!("{}: {error}", file.display())))
    })
}

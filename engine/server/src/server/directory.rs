//! The data directory and the files by which others find the server: made, found in use, removed.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use journaler::{RealStorage, SharedStorage};

use crate::config::Config;
use crate::error::CommandError;
use crate::files;
use crate::ready::{READY_FILE, Ready};

/// The data directory, made if it is missing, and its absolute name.
pub(super) fn open(data: &Path) -> Result<(SharedStorage, PathBuf), CommandError> {
    let failed = |error: std::io::Error| CommandError::failed(format!("{}: {error}", data.display()));
    let storage = RealStorage::create(data).map_err(failed)?;
    Ok((Arc::new(storage), std::path::absolute(data).map_err(failed)?))
}

/// Why the HTTP port can't be had; where that is because a server runs on the same directory, that is said.
pub(super) fn no_http(config: &Config, data: &Path, error: &std::io::Error) -> CommandError {
    let other = Ready::of_data(data).ok().flatten().filter(|ready| ready.http == config.http);
    match other {
        Some(Ready { process, .. }) if error.kind() == std::io::ErrorKind::AddrInUse => {
            CommandError::failed(format!(
                "data directory {} is in use by process {process}, which has http://{}",
                data.display(),
                config.http
            ))
        }
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

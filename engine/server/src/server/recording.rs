//! The server's flight recorder: where it writes, and when the disk has room for it.

use std::path::Path;
use std::sync::Arc;

use journaler::SharedStorage;
use recorder::{Options, Recorder, Recording, stages};

use crate::config::Config;
use crate::error::CommandError;

/// Its folder in the data directory.
pub(crate) const FOLDER: &str = "recorder";

/// Starts the recorder, where there is to be one. Nothing is written before a stage records: the directory is ours by then.
pub(super) fn start(
    config: &Config,
    data: &Path,
    storage: &SharedStorage,
) -> Result<(Recorder, Option<Recording>), CommandError> {
    let Some(wanted) = config.recorder else { return Ok((Recorder::off(), None)) };
    let (recorder, drain) = Recorder::new(stages::TABLE);
    // Far from where orders are refused: the journal must find its room whatever the recorder has taken.
    let spare = config.journal.reserve_bytes.saturating_mul(2).saturating_add(wanted.bytes_max);
    let storage = Arc::clone(storage);
    let options = Options {
        folder: data.join(FOLDER),
        bytes_max: wanted.bytes_max,
        room: Box::new(move || storage.free_space().is_ok_and(|free| free >= spare)),
    };
    let recording = Recording::start(drain, options)
        .map_err(|error| CommandError::failed(format!("the flight recorder's thread: {error}")))?;
    Ok((recorder, Some(recording)))
}

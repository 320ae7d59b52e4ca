//! Beginning a journal that goes on behind a snapshot: its first segment starts at an index and a sequence of choice.

use super::open::take_folder;
use super::prepare;
use super::{Journal, JournalOptions};
use crate::error::{Context, JournalError, Result};
use crate::format::BLOCK_BYTES;
use crate::scan::Position;
use crate::storage::SharedStorage;
use crate::summary::LogEnd;
use crate::survey::{JOURNAL_FOLDER, Survey};

/// Number of the first segment. Not 1: only a log that starts with its first frame has that, and a later one without it
/// shows that something went before, also when its header is damaged.
const FIRST_NUMBER: u64 = 2;

impl Journal {
    /// An empty journal that goes on behind `behind`, which is taken as committed: for a member that starts from a
    /// snapshot. It is durable when this returns; a power cut leaves it whole or not at all.
    ///
    /// # Errors
    /// `NotEmpty` if the folder has a segment that was written to; `Locked`, `NoSpace`, `Io`.
    pub fn create_behind(storage: SharedStorage, options: JournalOptions, behind: LogEnd) -> Result<Self> {
        options.check()?;
        let lock = take_folder(&storage)?;
        let survey = Survey::read(&storage, None)?;
        if survey.last_begun().is_some() {
            return Err(JournalError::NotEmpty { directory: storage.locate(JOURNAL_FOLDER) });
        }
        for temporary in &survey.temporaries {
            storage.remove(temporary).context("remove", temporary)?;
        }
        for prepared in survey.segments.iter().rev() {
            prepare::remove(&storage, &prepared.path)?;
        }
        let mut block = [0; BLOCK_BYTES];
        Position::behind(&behind).segment_header(options.cluster_id, FIRST_NUMBER).encode(&mut block);
        prepare::prepare(&storage, FIRST_NUMBER, options.segment_bytes, Some(&block))?;
        let (mut journal, _) = Self::open_locked(storage, options, lock)?;
        journal.set_committed(behind.index);
        Ok(journal)
    }
}

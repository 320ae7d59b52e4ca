//! What a data directory needs of its disk: asked before anything is made in it, and told when the disk was full.

use std::io;
use std::path::Path;

use journaler::JOURNAL_FOLDER;

use crate::config::JournalConfig;
use crate::error::CommandError;
use crate::reserve;

const MIB: u64 = 1 << 20;
/// How the system's text for a full disk begins.
const NO_SPACE: &str = "No space left";

/// Refuses a disk that is too small for a journal that has yet to be made; nothing is made then.
///
/// # Errors
/// One line that says how much is free and how much is needed, for what.
pub fn check_new(data: &Path, journal: &JournalConfig) -> Result<(), CommandError> {
    if data.join(JOURNAL_FOLDER).exists() {
        return Ok(());
    }
    // One that can't be asked is left to the parts that write to it.
    let Ok(free) = free_around(data) else { return Ok(()) };
    enough(free, journal).map_err(|line| CommandError::failed(format!("{}: {line}", data.display())))
}

/// The line, with what to free where it tells of a full disk.
#[must_use]
pub fn explain(line: &str, data: &Path, journal: &JournalConfig) -> String {
    if !line.contains(NO_SPACE) {
        return line.to_owned();
    }
    let free = free_around(data).unwrap_or_default();
    let JournalConfig { reserve_bytes, segment_bytes, .. } = *journal;
    // A start may have to prepare two segments; what the journal could not have is more than there was.
    let start = (2 * segment_bytes).saturating_sub(free).max(segment_bytes);
    let orders = reserve::held_from(reserve_bytes).saturating_sub(free).max(start);
    format!(
        "{line}; {} MiB are free there: free {} MiB more to start, {} MiB for orders to be taken",
        free / MIB,
        start.div_ceil(MIB),
        orders.div_ceil(MIB)
    )
}

/// Two segments are made at once, and behind them the reserve must be held before an order is taken.
fn enough(free: u64, journal: &JournalConfig) -> Result<(), String> {
    let needed = 2 * journal.segment_bytes + reserve::held_from(journal.reserve_bytes);
    if free >= needed {
        return Ok(());
    }
    Err(format!(
        "{} MiB are free on this disk and {} MiB are needed: two files of journal.segment_mib and one and a half times \
         journal.reserve_mib; free some, or lower these two",
        free / MIB,
        needed.div_ceil(MIB)
    ))
}

/// Free bytes on the disk of a folder that may not be there yet.
fn free_around(folder: &Path) -> io::Result<u64> {
    let folder = std::path::absolute(folder)?;
    let there = folder.ancestors().find(|folder| folder.exists()).ok_or(io::ErrorKind::NotFound)?;
    let space = rustix::fs::statvfs(there)?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Overrides};

    #[test]
    fn a_disk_that_is_too_small_is_refused_before_anything_is_made() {
        let mut journal = Config::load(None, &Overrides::default()).expect("the defaults").journal;
        assert_eq!(enough(512 * MIB, &journal), Ok(()));
        let line = enough(512 * MIB - 1, &journal).expect_err("too small");
        assert!(line.starts_with("511 MiB are free on this disk and 512 MiB are needed"), "{line}");

        journal.reserve_bytes = 1 << 60;
        let folder = tempfile::tempdir().expect("a folder");
        let data = folder.path().join("a/b");
        let error = check_new(&data, &journal).expect_err("too small").to_string();
        assert!(error.starts_with(&data.display().to_string()), "{error}");
        assert!(!folder.path().join("a").exists());
        // A journal that is there goes on: with less space, only cancels are taken.
        std::fs::create_dir_all(data.join(JOURNAL_FOLDER)).expect("made");
        check_new(&data, &journal).expect("it is not new");
    }

    #[test]
    fn a_full_disk_is_told_with_what_to_free() {
        let journal = Config::load(None, &Overrides::default()).expect("the defaults").journal;
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(explain("other", folder.path(), &journal), "other");
        let line = explain("append: No space left on device (os error 28)", folder.path(), &journal);
        assert!(line.contains("MiB more to start") && line.lines().count() == 1, "{line}");
    }
}

//! Space kept for a disk that others fill: a file of the data directory that holds blocks and nothing else. When the disk
//! is nearly full it is given up, so that cancels and their reports still find room; from then until there is plenty
//! again, new orders are refused. When what it gave is nearly used up too, nothing is taken any more, so that the server
//! stays up for those who ask it. That the journal itself reports low space comes before, and needs nothing of this.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{FallocateFlags, fallocate};

use crate::files;

/// The file in the data directory.
const FILE: &str = "reserve";

/// The reserve of a data directory.
#[derive(Debug)]
pub struct Reserve {
    file: PathBuf,
    /// Free bytes that the journal wants to see.
    wanted: u64,
    /// Free bytes below which nothing is taken.
    floor: u64,
    // Written by the one thread that looks after the reserve. Relaxed: a moment late is no harm.
    held: AtomicBool,
    // As `held`.
    spent: AtomicBool,
}

/// What a look at the disk led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// The reserve was given up: only cancels are taken.
    GivenUp,
    /// The reserve is held again.
    Held,
    /// What was given up is nearly used: nothing is taken.
    Spent,
    /// There is space for cancels again.
    Eased,
}

impl Reserve {
    /// The reserve beside a journal of segments of `segment` bytes that wants `wanted` bytes free. Nothing is held before the first
    /// [`look`](Self::look); what an earlier process held is given up.
    ///
    /// # Errors
    /// The system's.
    pub fn new(data: &Path, wanted: u64, segment: u64) -> io::Result<Self> {
        let file = data.join(FILE);
        files::remove_if_there(&file)?;
        Ok(Self {
            file,
            wanted,
            floor: floor(wanted, segment),
            held: AtomicBool::new(false),
            spent: AtomicBool::new(false),
        })
    }

    /// Whether it is held, so that orders can be taken.
    #[must_use]
    pub fn is_held(&self) -> bool {
        self.held.load(Ordering::Relaxed)
    }

    /// Free bytes from which it is held.
    #[must_use]
    pub fn held_from(&self) -> u64 {
        held_from(self.wanted)
    }

    /// Whether it is used up too, so that not even cancels can be taken.
    #[must_use]
    pub fn is_spent(&self) -> bool {
        self.spent.load(Ordering::Relaxed)
    }

    /// Gives the reserve up, or takes it again, as the disk's free bytes ask for. `None`: it stays as it is.
    ///
    /// # Errors
    /// The system's, for the removal of the file. That it can't be made counts as a full disk.
    pub fn look(&self, free: u64) -> io::Result<Option<Change>> {
        let bytes = self.wanted / 2;
        if self.is_held() {
            if free >= self.wanted / 4 {
                return Ok(None);
            }
            files::remove_if_there(&self.file)?;
            self.held.store(false, Ordering::Relaxed);
            return Ok(Some(Change::GivenUp));
        }
        if free < held_from(self.wanted) || allocate(&self.file, bytes).is_err() {
            return Ok(self.look_at_floor(free));
        }
        self.spent.store(false, Ordering::Relaxed);
        self.held.store(true, Ordering::Relaxed);
        Ok(Some(Change::Held))
    }

    /// A little more than the floor must be free before it is eased, so that a disk that stays there does not toggle.
    fn look_at_floor(&self, free: u64) -> Option<Change> {
        let spent = if self.is_spent() { free < self.floor + self.floor / 4 } else { free < self.floor };
        if self.spent.swap(spent, Ordering::Relaxed) == spent {
            return None;
        }
        Some(if spent { Change::Spent } else { Change::Eased })
    }
}

/// Free bytes below which nothing is taken: ticks, logins, and one more segment must find room.
#[must_use]
pub fn floor(wanted: u64, segment: u64) -> u64 {
    (wanted / 4).max(segment)
}

/// Free bytes from which the reserve is held, so that orders are taken.
#[must_use]
pub fn held_from(wanted: u64) -> u64 {
    wanted + wanted / 2
}

/// Makes the file with blocks of its own; leaves nothing where that fails.
fn allocate(path: &Path, bytes: u64) -> io::Result<()> {
    let file: File = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path)?;
    match fallocate(&file, FallocateFlags::empty(), 0, bytes.max(1)) {
        Ok(()) => Ok(()),
        // A file system that can't hold blocks ahead: the journal's own threshold is all there is.
        Err(rustix::io::Errno::OPNOTSUPP) => Ok(()),
        Err(error) => {
            files::remove_if_there(path)?;
            Err(error.into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_given_up_late_and_taken_again_with_plenty() {
        let data = tempfile::tempdir().expect("a folder");
        let wanted = 1 << 20;
        let reserve = Reserve::new(data.path(), wanted, wanted / 4).expect("made");
        let there = || data.path().join(FILE).metadata().map(|file| file.len()).unwrap_or(0);
        for (free, change, held) in [
            (wanted, None, false),
            (2 * wanted, Some(Change::Held), true),
            (wanted / 2, None, true),
            (wanted / 8, Some(Change::GivenUp), false),
            (wanted / 2, None, false),
            (wanted / 4 - 1, Some(Change::Spent), false),
            (0, None, false),
            (wanted / 4, None, false),
            (wanted / 2, Some(Change::Eased), false),
            (0, Some(Change::Spent), false),
            (wanted + wanted / 2, Some(Change::Held), true),
        ] {
            assert_eq!(reserve.look(free).expect("looked"), change, "{free} bytes free");
            assert_eq!(reserve.is_held(), held, "{free} bytes free");
            assert_eq!(
                reserve.is_spent(),
                free < wanted / 4 + 1 && change != Some(Change::GivenUp),
                "{free} bytes free"
            );
            assert_eq!(there(), if held { wanted / 2 } else { 0 }, "{free} bytes free");
        }
        let reserve = Reserve::new(data.path(), wanted, wanted / 4).expect("made again");
        assert!(!reserve.is_held() && there() == 0);
    }
}

//! The recorder's folder: files of about 4 MiB with rising numbers, of which the oldest go when there are too many. It must not
//! sync anything: what a power cut takes is not worth the disk's time.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Length from which on a file is followed by another.
pub const FILE_BYTES: u64 = 4 << 20;
const SUFFIX: &str = ".rec";

/// Files of a recorder in a folder, in the order in which they were written.
///
/// # Errors
/// The system's.
pub fn list(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let mut numbers = Vec::new();
    for entry in fs::read_dir(folder)? {
        numbers.extend(entry?.file_name().to_str().and_then(number_of));
    }
    numbers.sort_unstable();
    Ok(numbers.into_iter().map(|number| path_of(folder, number)).collect())
}

fn number_of(name: &str) -> Option<u64> {
    name.strip_suffix(SUFFIX)?.parse().ok()
}

fn path_of(folder: &Path, number: u64) -> PathBuf {
    folder.join(format!("{number:010}{SUFFIX}"))
}

/// Writes a recorder's files.
#[derive(Debug)]
pub struct Files {
    folder: PathBuf,
    bytes_max: u64,
    next: u64,
    current: Option<(File, u64)>,
}

impl Files {
    /// Goes on in `folder`, which is made where it is not there; all files together take at most `bytes_max`, which should be
    /// several times [`FILE_BYTES`].
    ///
    /// # Errors
    /// The system's.
    pub fn open(folder: &Path, bytes_max: u64) -> io::Result<Self> {
        fs::create_dir_all(folder)?;
        let last = list(folder)?.last().and_then(|path| number_of(path.file_name()?.to_str()?));
        Ok(Self {
            folder: folder.to_path_buf(),
            bytes_max,
            next: last.map_or(1, |last| last + 1),
            current: None,
        })
    }

    /// Whether what comes next begins a file.
    #[must_use]
    pub fn is_due(&self) -> bool {
        self.current.as_ref().is_none_or(|(_, length)| *length >= FILE_BYTES)
    }

    /// Begins a file, after it has removed the oldest ones so that there is room for a whole one, and for what is appended to it
    /// at once when it is nearly full.
    ///
    /// # Errors
    /// The system's.
    pub fn begin(&mut self) -> io::Result<()> {
        self.current = None;
        let files = list(&self.folder)?;
        let lengths: Vec<u64> =
            files.iter().map(|path| fs::metadata(path).map_or(0, |file| file.len())).collect();
        let mut taken = lengths.iter().sum::<u64>() + 2 * FILE_BYTES;
        for (path, length) in files.iter().zip(lengths) {
            if taken <= self.bytes_max {
                break;
            }
            match fs::remove_file(path) {
                // An operator was faster.
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            taken -= length;
        }
        let path = path_of(&self.folder, self.next);
        let file = OpenOptions::new().write(true).create_new(true).open(path)?;
        self.next += 1;
        self.current = Some((file, 0));
        Ok(())
    }

    /// Appends to the file that was begun.
    ///
    /// # Errors
    /// The system's. The file then ends before these bytes, where the system lets it, and the next ones begin another.
    pub fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        let Some((file, length)) = &mut self.current else { return Err(io::ErrorKind::NotFound.into()) };
        if let Err(error) = file.write_all(bytes) {
            // Without it, a reader finds a block that is cut short.
            let _ = file.set_len(*length);
            self.current = None;
            return Err(error);
        }
        *length += bytes.len() as u64;
        Ok(())
    }
}

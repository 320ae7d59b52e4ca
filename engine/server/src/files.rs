//! Small files of the data directory that are written whole: first under another name, durable, then renamed. What must
//! be secret is readable by its owner only from the moment it exists.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Who may read a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Readers {
    /// The user that runs the server.
    Owner,
    /// Everybody.
    All,
}

/// Writes a file whole or not at all, and makes it and its name durable.
///
/// # Errors
/// The system's, for the file or its folder.
pub fn write_atomically(path: &Path, bytes: &[u8], readers: Readers) -> io::Result<()> {
    let temporary = temporary_name(path)?;
    // A leftover of a process that died here would keep its old permissions.
    remove_if_there(&temporary)?;
    let mode = match readers {
        Readers::Owner => 0o600,
        Readers::All => 0o644,
    };
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    File::open(folder_of(path))?.sync_all()
}

/// Removes a file; that it is not there is no error.
///
/// # Errors
/// The system's, for anything else.
pub fn remove_if_there(path: &Path) -> io::Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Reads a text file of at most `length_max` bytes; `None` where it is not there.
///
/// # Errors
/// The system's, or `InvalidData` where it is too long or not UTF-8.
pub fn read_small(path: &Path, length_max: u64) -> io::Result<Option<String>> {
    use std::io::Read;
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut text = String::new();
    file.take(length_max + 1).read_to_string(&mut text)?;
    if text.len() as u64 > length_max {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("longer than {length_max} bytes")));
    }
    Ok(Some(text))
}

fn temporary_name(path: &Path) -> io::Result<PathBuf> {
    let mut name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "not the name of a file"))?
        .to_owned();
    name.push(".tmp");
    Ok(path.with_file_name(name))
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn files_are_whole_and_secret_ones_are_secret() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("secret");
        write_atomically(&path, b"first", Readers::Owner).expect("written");
        write_atomically(&path, b"second", Readers::Owner).expect("replaced");
        assert_eq!(read_small(&path, 6).expect("read").as_deref(), Some("second"));
        assert!(read_small(&path, 5).is_err());
        assert_eq!(std::fs::metadata(&path).expect("there").permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(folder.path()).expect("listed").count(), 1, "no temporary file is left");
        remove_if_there(&path).expect("removed");
        remove_if_there(&path).expect("not there");
        assert_eq!(read_small(&path, 5).expect("not there"), None);
    }
}

//! The id that says which log a data directory belongs to: made at random when the directory is first used, and held by
//! every journal segment and snapshot, so that files of two servers are never mixed.

use std::path::Path;

use journaler::{JournalReader, SharedStorage};
use rand::RngExt;

use crate::error::CommandError;
use crate::files::{self, Readers};

const FILE: &str = "cluster-id";
const LENGTH_MAX: u64 = 64;

/// The id of a data directory; a new one is made and kept where neither the file nor a journal has one.
///
/// # Errors
/// The file can't be read or written or is not an id, or the journal can't be looked at.
pub fn cluster_id(data: &Path, storage: &SharedStorage) -> Result<u128, CommandError> {
    if let Some(id) = kept(data)? {
        return Ok(id);
    }
    let id = of_journal(storage)?.unwrap_or_else(|| rand::rng().random());
    let file = data.join(FILE);
    files::write_atomically(&file, format!("{id:032x}\n").as_bytes(), Readers::All)
        .map_err(|error| CommandError::failed(format!("{}: {error}", file.display())))?;
    Ok(id)
}

/// The id of an existing data directory, which is not written to.
///
/// # Errors
/// There is none, or it can't be read.
pub fn existing(data: &Path, storage: &SharedStorage) -> Result<u128, CommandError> {
    match kept(data)? {
        Some(id) => Ok(id),
        None => of_journal(storage)?.ok_or_else(|| {
            CommandError::failed(format!(
                "{}: holds no journal; is it the data directory of a server?",
                data.display()
            ))
        }),
    }
}

fn kept(data: &Path) -> Result<Option<u128>, CommandError> {
    let file = data.join(FILE);
    let text = files::read_small(&file, LENGTH_MAX)
        .map_err(|error| CommandError::failed(format!("{}: {error}", file.display())))?;
    text.map(|text| {
        u128::from_str_radix(text.trim(), 16).map_err(|_| {
            CommandError::failed(format!(
                "{}: is not an id of 32 hexadecimal digits; remove the file, and the journal's is taken",
                file.display()
            ))
        })
    })
    .transpose()
}

fn of_journal(storage: &SharedStorage) -> Result<Option<u128>, CommandError> {
    let reader = JournalReader::open(storage.clone()).map_err(|error| {
        CommandError::failed(format!("{}: {error}", storage.locate("").components().as_path().display()))
    })?;
    Ok(reader.cluster_id())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use journaler::RealStorage;

    use super::*;

    #[test]
    fn an_id_is_made_once() {
        let data = tempfile::tempdir().expect("a folder");
        let storage: SharedStorage = Arc::new(RealStorage::create(data.path()).expect("storage"));
        assert!(existing(data.path(), &storage).is_err());
        let id = cluster_id(data.path(), &storage).expect("made");
        assert_eq!(cluster_id(data.path(), &storage).expect("kept"), id);
        assert_eq!(existing(data.path(), &storage).expect("kept"), id);
        std::fs::write(data.path().join(FILE), "junk").expect("written");
        assert!(cluster_id(data.path(), &storage).is_err());
    }
}

//! A small file whose whole content changes at once, durably: two slots, written in turn, so that a torn write leaves the
//! older one.
//!
//! | offset in a slot | bytes | field |
//! |---:|---:|---|
//! | 0 | 8 | magic `RINGPIT2` |
//! | 8 | 4 | CRC32C of bytes 12..28 and the content |
//! | 12 | 4 | format version, 1 |
//! | 16 | 8 | turn: the higher of two valid slots holds |
//! | 24 | 4 | bytes of content |
//! | 28 | | content |
//!
//! The slots stand at offsets 0 and 8192.

use std::io::ErrorKind;

use crate::error::{Context, JournalError, Result};
use crate::format::{BLOCK_BYTES, is_zero};
use crate::storage::{Access, SharedStorage, StorageFile};

const MAGIC: [u8; 8] = *b"RINGPIT2";
const VERSION: u32 = 1;
const CRC_START: usize = 12;
const CONTENT_START: usize = 28;
const SLOT_BYTES: usize = 2 * BLOCK_BYTES;
/// Most bytes of content.
pub const TWO_SLOT_BYTES_MAX: usize = SLOT_BYTES - CONTENT_START;

/// The file, open. There is one writer.
#[derive(Debug)]
pub struct TwoSlotFile {
    file: Box<dyn StorageFile>,
    path: String,
    turn: u64,
}

impl TwoSlotFile {
    /// Opens the file at `path` in `folder`, which must exist, or makes one without content; gives its content.
    ///
    /// # Errors
    /// `DamagedMark` if something is written in it and neither slot is valid; `Io`.
    pub fn open(storage: &SharedStorage, folder: &str, path: &str) -> Result<(Self, Option<Vec<u8>>)> {
        let file = match storage.open(path, Access::ReadWrite) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let file = storage.create(path).context("create", path)?;
                file.allocate_zeroed(2 * SLOT_BYTES as u64).context("allocate", path)?;
                file.sync_data().context("sync", path)?;
                storage.sync_dir(folder).context("sync", folder)?;
                file
            }
            opened => opened.context("open", path)?,
        };
        let mut newest = None;
        let mut blank = 0;
        for slot in 0..2_u64 {
            let mut bytes = vec![0; SLOT_BYTES];
            file.read_at(&mut bytes, slot * SLOT_BYTES as u64).context("read", path)?;
            blank += u32::from(is_zero(&bytes));
            newest = newest.max(decode(&bytes));
        }
        let (turn, content) = match newest {
            Some((turn, content)) => (turn, Some(content)),
            // The first content goes to both slots before it counts: one that is blank still means that it never did.
            None if blank > 0 => (0, None),
            None => return Err(JournalError::DamagedMark { file: path.to_owned() }),
        };
        Ok((Self { file, path: path.to_owned(), turn }, content))
    }

    /// Replaces the content; durable when this returns. At most [`TWO_SLOT_BYTES_MAX`] bytes.
    ///
    /// # Errors
    /// `Option` if there is too much of it; `Io`, after which the process must end.
    pub fn write(&mut self, content: &[u8]) -> Result<()> {
        if content.len() > TWO_SLOT_BYTES_MAX {
            let length = content.len();
            return Err(JournalError::Option(format!("{}: {length} bytes are too many", self.path)));
        }
        if self.turn == 0 {
            self.write_next(content)?;
        }
        self.write_next(content)
    }

    fn write_next(&mut self, content: &[u8]) -> Result<()> {
        let turn = self.turn + 1;
        let mut bytes = Vec::with_capacity(CONTENT_START + content.len());
        bytes.extend(MAGIC);
        bytes.extend([0; 4]);
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(turn.to_le_bytes());
        bytes.extend((content.len() as u32).to_le_bytes());
        bytes.extend(content);
        let crc = crc32c::crc32c(&bytes[CRC_START..]);
        bytes[MAGIC.len()..CRC_START].copy_from_slice(&crc.to_le_bytes());
        let offset = turn % 2 * SLOT_BYTES as u64;
        self.file.write_all_at(&bytes, offset).context("write", &self.path)?;
        self.file.sync_data().context("sync", &self.path)?;
        self.turn = turn;
        Ok(())
    }
}

/// A slot's turn and content, if it is valid.
fn decode(slot: &[u8]) -> Option<(u64, Vec<u8>)> {
    let (magic, rest) = slot.split_first_chunk::<8>()?;
    let (crc, covered) = rest.split_first_chunk::<4>()?;
    let (version, rest) = covered.split_first_chunk::<4>()?;
    let (turn, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let length = u32::from_le_bytes(*length) as usize;
    let content = rest.get(..length)?;
    let covered = covered.get(..CONTENT_START - CRC_START + length)?;
    let valid = *magic == MAGIC
        && u32::from_le_bytes(*version) == VERSION
        && crc32c::crc32c(covered) == u32::from_le_bytes(*crc);
    valid.then(|| (u64::from_le_bytes(*turn), content.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::fake::{CrashStates, FakeStorage};

    fn content(storage: &FakeStorage) -> Option<Vec<u8>> {
        TwoSlotFile::open(&storage.shared(), "", "member").expect("one slot at least is valid").1
    }

    #[test]
    fn a_power_cut_leaves_the_old_content_or_the_new() {
        let disk = FakeStorage::new();
        disk.record();
        let (mut file, empty) = TwoSlotFile::open(&disk.shared(), "", "member").unwrap();
        assert_eq!(empty, None);
        for number in 1..=6_u64 {
            file.write(&vec![number as u8; 900 * number as usize]).unwrap();
            disk.note(number);
        }
        let mut states = 0;
        for state in CrashStates::new(&disk, 64, 7) {
            states += 1;
            let number = content(&state.storage).map_or(0, |content| {
                assert!(
                    content.iter().all(|byte| *byte == content[0])
                        && content.len() == 900 * content[0] as usize
                );
                u64::from(content[0])
            });
            let noted = state.noted.unwrap_or(0);
            assert!(number == noted || number == noted + 1, "{number} after {noted}: {}", state.description);
        }
        assert!(states > 100, "{states} states");
    }

    #[test]
    fn both_slots_damaged_is_an_error_and_one_is_none() {
        let disk = FakeStorage::new();
        let (mut file, _) = TwoSlotFile::open(&disk.shared(), "", "member").unwrap();
        file.write(b"one").unwrap();
        file.write(b"two").unwrap();
        disk.flip_bit("member", SLOT_BYTES as u64 + 30, 1);
        assert_eq!(content(&disk), Some(b"one".to_vec()), "the newer one is damaged");
        disk.flip_bit("member", 30, 1);
        assert!(matches!(
            TwoSlotFile::open(&disk.shared(), "", "member"),
            Err(JournalError::DamagedMark { .. })
        ));
        assert!(file.write(&vec![0; TWO_SLOT_BYTES_MAX + 1]).is_err());
    }
}

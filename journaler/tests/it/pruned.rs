//! Looking at a journal while its writer prunes it: what is gone between the list and the look is no damage.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use journaler::storage::{Access, Lock};
use journaler::{JOURNAL_FOLDER, Journal, JournalError, JournalReader, SharedStorage, Storage, StorageFile};
use protocol::Sequence;

use crate::support::{append, fake, options};

/// A storage where somebody removes a segment right after each of the first lists of them.
#[derive(Debug)]
struct Pruning {
    inner: SharedStorage,
    /// Which segment of the list is removed: 0 is the oldest.
    place: usize,
    left: AtomicUsize,
}

impl Storage for Pruning {
    fn list(&self, path: &str) -> io::Result<Vec<String>> {
        let names = self.inner.list(path)?;
        let due = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if path == JOURNAL_FOLDER && due.is_ok() {
            let segments: Vec<&String> = names.iter().filter(|name| name.starts_with("segment-")).collect();
            self.inner.remove(&format!("{JOURNAL_FOLDER}/{}", segments[self.place]))?;
        }
        Ok(names)
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        self.inner.create(path)
    }

    fn open(&self, path: &str, access: Access) -> io::Result<Box<dyn StorageFile>> {
        self.inner.open(path, access)
    }

    fn create_dir(&self, path: &str) -> io::Result<()> {
        self.inner.create_dir(path)
    }

    fn sync_dir(&self, path: &str) -> io::Result<()> {
        self.inner.sync_dir(path)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.inner.rename(from, to)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.inner.remove(path)
    }

    fn remove_dir(&self, path: &str) -> io::Result<()> {
        self.inner.remove_dir(path)
    }

    fn free_space(&self) -> io::Result<u64> {
        self.inner.free_space()
    }

    fn lock(&self, path: &str) -> io::Result<Lock> {
        self.inner.lock(path)
    }

    fn locate(&self, path: &str) -> PathBuf {
        self.inner.locate(path)
    }
}

/// A journal of several segments, on which `times` looks find segment `place` of their list gone.
fn pruning(place: usize, times: usize) -> SharedStorage {
    let (_, inner) = fake();
    let (mut journal, _) = Journal::open(Arc::clone(&inner), options(64 << 10)).expect("opened");
    while journal.segments().closed().len() < 6 {
        append(&mut journal, 50).expect("appended");
    }
    journal.close().expect("closed");
    Arc::new(Pruning { inner, place, left: AtomicUsize::new(times) })
}

#[test]
fn segments_that_are_pruned_meanwhile_are_no_damage() {
    for times in 0..4 {
        let storage = pruning(0, times);
        let reader = JournalReader::open(Arc::clone(&storage)).expect("what is left is a journal");
        let first = reader.first_sequence();
        assert_eq!(first > Sequence(1), times > 0, "{times} pruned: it begins with {first}");
        let mut cursor = reader.frames_from(first).expect("the first frame is there");
        assert!(cursor.next_frame(first).expect("and can be read").is_some());
        let stat = journaler::verify(&storage, None, &mut |_| {}).expect("nothing is damaged");
        assert_eq!(stat.first_sequence, first);
    }
}

#[test]
fn a_segment_that_is_missing_between_others_is_still_told() {
    let error = JournalReader::open(pruning(2, 1)).expect_err("a gap");
    assert!(matches!(error, JournalError::MissingSegment { .. } | JournalError::Io { .. }), "{error}");
    assert!(error.to_string().contains("segment-0000000003"), "{error}");
}

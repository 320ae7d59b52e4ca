//! The same on real files: the lock, the preparing thread, pruning, archive and backup.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use journaler::{
    ArchiveOptions, Archiver, Durability, Journal, JournalError, JournalOptions, JournalReader, Preparation,
    ReadBack, RealStorage, SharedStorage, archived_sequence, backup, verify,
};
use protocol::Sequence;

use crate::support::{CLUSTER, append, check_frames, options};

const SEGMENT: u64 = 16 * 4096;

fn real(directory: &Path) -> SharedStorage {
    Arc::new(RealStorage::create(directory).unwrap())
}

fn threaded() -> JournalOptions {
    JournalOptions { preparation: Preparation::Thread, ..options(SEGMENT) }
}

/// A journal of at least `segments` closed segments.
fn filled(storage: &SharedStorage, segments: usize) -> Journal {
    let (mut journal, _) = Journal::open(storage.clone(), threaded()).unwrap();
    while journal.segments().closed().len() < segments {
        append(&mut journal, 40).unwrap();
    }
    journal
}

#[test]
fn a_directory_has_one_owner() {
    let directory = tempfile::tempdir().unwrap();
    let (journal, _) = Journal::open(real(directory.path()), threaded()).unwrap();
    let refused = Journal::open(real(directory.path()), threaded()).unwrap_err();
    let expected =
        format!("data directory {} is in use by process {}", directory.path().display(), std::process::id());
    assert_eq!(refused.to_string(), expected);
    drop(journal);
    Journal::open(real(directory.path()), threaded()).unwrap();
}

#[test]
fn pruning_keeps_what_is_asked_for() {
    let directory = tempfile::tempdir().unwrap();
    let storage = real(directory.path());
    let journal = filled(&storage, 6);
    let last = journal.journaled_sequence().0;
    let segments = journal.segments();
    let third = segments.closed()[2].clone();
    // The frame before the third segment is still needed: the second stays.
    assert_eq!(segments.prune(Sequence(third.first_sequence.0 - 1)).unwrap().len(), 1);
    assert_eq!(segments.prune(third.first_sequence).unwrap().len(), 1);
    assert_eq!(JournalReader::open(storage.clone()).unwrap().first_sequence(), third.first_sequence);
    check_frames(storage.clone(), third.first_sequence.0, last).unwrap();
    let early = JournalReader::open(storage.clone()).unwrap().frames_from(Sequence(1)).unwrap_err();
    assert!(matches!(early, JournalError::Pruned { wanted: Sequence(1), .. }));
    // A reader that is on its way when its segments go is told so.
    let mut late = JournalReader::open(storage.clone()).unwrap().frames_from(third.first_sequence).unwrap();
    assert!(late.next_frame(third.first_sequence).unwrap().is_some());
    assert_eq!(segments.prune(Sequence(u64::MAX)).unwrap().len(), 3);
    assert_eq!(segments.closed().len(), 1);
    let ended = loop {
        match late.next_frame(Sequence(last)) {
            Ok(Some(_)) => {}
            Ok(None) => panic!("the pruned segments were read"),
            Err(error) => break error,
        }
    };
    assert!(matches!(ended, JournalError::Pruned { .. }), "{ended}");
    drop(journal);
    let (_, recovery) = Journal::open(storage, threaded()).unwrap();
    assert_eq!(recovery.last_sequence, Sequence(last));
}

#[test]
fn a_reader_thread_follows_a_writer_over_segments() {
    for durability in [Durability::Disk, Durability::Memory] {
        let directory = tempfile::tempdir().unwrap();
        let storage = real(directory.path());
        let (mut journal, _) =
            Journal::open(storage.clone(), JournalOptions { durability, ..threaded() }).unwrap();
        let journaled = Arc::new(AtomicU64::new(0));
        const LAST: u64 = 6000;
        let mark = Arc::clone(&journaled);
        let reading = storage.clone();
        let reader = std::thread::spawn(move || {
            while mark.load(Ordering::Acquire) == 0 {
                std::thread::yield_now();
            }
            let mut cursor = JournalReader::open(reading).unwrap().frames_from(Sequence(1)).unwrap();
            let mut read = 0;
            while read < LAST {
                let up_to = Sequence(mark.load(Ordering::Acquire));
                while let Some((sequence, _)) = cursor.next_frame(up_to).unwrap() {
                    read += 1;
                    assert_eq!(sequence, Sequence(read));
                }
            }
        });
        while journal.journaled_sequence().0 < LAST {
            let count = (LAST - journal.journaled_sequence().0).min(60);
            let sequence = append(&mut journal, count).unwrap();
            journaled.store(sequence.0, Ordering::Release);
            // A look from outside in the middle of it all finds nothing wrong.
            if sequence.0.is_multiple_of(1200) {
                verify(&storage, Some(CLUSTER), &mut |_| {}).unwrap();
            }
        }
        reader.join().unwrap();
        journal.idle(Duration::ZERO).unwrap();
        assert!(journal.idle(Duration::from_secs(1)).unwrap());
        assert_eq!(journal.durable_sequence(), Sequence(LAST));
        journal.close().unwrap();
        assert!(verify(&storage, Some(CLUSTER), &mut |_| {}).unwrap().clean_stop);
    }
}

#[test]
fn a_segment_is_archived_only_when_its_copy_is_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let copies = tempfile::tempdir().unwrap();
    let storage = real(directory.path());
    let journal = filled(&storage, 3);
    let archiver = |command: &str, read_back| {
        let timeout = Duration::from_secs(20);
        let options = ArchiveOptions { command: command.to_owned(), read_back, timeout };
        Archiver::open(journal.segments(), options).unwrap()
    };
    let folder = || ReadBack::Folder(copies.path().to_owned());
    for (command, reason) in [
        ("exit 3", "command failed: exit status: 3"),
        ("true", "No such file"),
        ("head -c 5000 \"$RINGPIT_SEGMENT\" > \"$RINGPIT_COPY\"", "the copy differs"),
        ("cp \"$RINGPIT_SEGMENT\" \"$RINGPIT_COPY\" && printf x >> \"$RINGPIT_COPY\"", "the copy differs"),
    ] {
        let mut archiver = archiver(command, folder());
        let error = archiver.run_once().unwrap_err().to_string();
        assert!(error.contains("segment-0000000001") && error.contains(reason), "{error}");
        assert_eq!(archiver.archived_sequence(), Sequence(0));
    }
    let closed = journal.segments().closed();
    let mut good = archiver("cp \"$RINGPIT_SEGMENT\" \"$RINGPIT_COPY\"", folder());
    assert_eq!(good.run_once().unwrap(), Some(closed[0].clone()));
    assert_eq!(archived_sequence(&storage).unwrap(), closed[0].last_sequence);
    drop(good);
    // Read back by command, going on where the last one stopped.
    let copy = copies.path().join("one");
    let command = format!("cp \"$RINGPIT_SEGMENT\" {0}", copy.display());
    let mut by_command = archiver(&command, ReadBack::Command(format!("cat {}", copy.display())));
    assert_eq!(by_command.run_once().unwrap(), Some(closed[1].clone()));
    let mut lying = archiver(&command, ReadBack::Command("head -c 9 /dev/zero".to_owned()));
    assert!(lying.run_once().unwrap_err().to_string().contains("the copy differs"));
    assert_eq!(by_command.run_once().unwrap(), Some(closed[2].clone()));
    assert_eq!(by_command.run_once().unwrap(), None);
}

#[test]
fn a_command_that_hangs_is_killed() {
    let directory = tempfile::tempdir().unwrap();
    let storage = real(directory.path());
    let journal = filled(&storage, 1);
    let options = ArchiveOptions {
        command: "exec sleep 60".to_owned(),
        read_back: ReadBack::Folder(directory.path().to_owned()),
        timeout: Duration::from_millis(50),
    };
    let error = Archiver::open(journal.segments(), options).unwrap().run_once().unwrap_err();
    assert!(error.to_string().contains("killed"), "{error}");
}

#[test]
fn a_backup_is_a_journal_up_to_the_wanted_batch() {
    let directory = tempfile::tempdir().unwrap();
    let storage = real(directory.path());
    let mut journal = filled(&storage, 3);
    let last = journal.journaled_sequence();
    let middle = journal.segments().closed()[1].first_sequence;
    append(&mut journal, 5).unwrap();
    for (up_to, exact) in [(None, Some(last.0 + 5)), (Some(last), Some(last.0)), (Some(middle), None)] {
        let target = tempfile::tempdir().unwrap();
        let copy = real(target.path());
        let report = backup(&storage, &copy, Some(CLUSTER), up_to).unwrap();
        assert!(up_to.is_none_or(|up_to| report.last_sequence >= up_to));
        assert!(exact.is_none_or(|exact| report.last_sequence.0 == exact), "{report:?}");
        check_frames(copy.clone(), 1, report.last_sequence.0).unwrap();
        // It is a journal that a server can go on with.
        let (mut restored, recovery) = Journal::open(copy.clone(), threaded()).unwrap();
        assert_eq!(recovery.last_sequence, report.last_sequence);
        append(&mut restored, 3).unwrap();
        drop(restored);
        assert!(matches!(backup(&storage, &copy, Some(CLUSTER), up_to), Err(JournalError::Option(_))));
    }
    let target = tempfile::tempdir().unwrap();
    let past = backup(&storage, &real(target.path()), Some(CLUSTER), Some(Sequence(last.0 + 99)));
    assert!(matches!(past, Err(JournalError::PastEnd { .. })));
}

//! Files that are not what was written.

use std::ops::ControlFlow;

use journaler::storage::Access;
use journaler::storage::fake::{Call, FakeStorage, Fault};
use protocol::{Sequence, Term};
use snapshots::{SnapshotError, SnapshotStore};

use crate::venue::{CLUSTER_ID, Shape, Venue};

struct Written {
    storage: FakeStorage,
    store: SnapshotStore,
    path: String,
    sequence: Sequence,
    bytes: u64,
    state_hash: u64,
}

fn written(frames: usize) -> Written {
    let shape = Shape { users: 2, instruments: 2, prices: 10, frames_per_tick: 10 };
    let venue = Venue::run(shape, 21, frames);
    let storage = FakeStorage::new();
    let store = SnapshotStore::open(storage.shared(), CLUSTER_ID).expect("open");
    let header = store.write(&venue.exchange, Term(1), &mut |_| ControlFlow::Continue(())).expect("write");
    Written {
        storage,
        store,
        path: format!("snapshots/snapshot-{:020}", header.sequence.0),
        sequence: header.sequence,
        bytes: header.file_bytes,
        state_hash: header.state_hash,
    }
}

#[test]
fn every_single_bit_matters_or_is_harmless() {
    let Written { storage, store, path, sequence, bytes, state_hash } = written(60);
    let good = store.load(sequence).expect("load").1;
    let (mut found, mut harmless) = (0_u64, 0_u64);
    for offset in 0..bytes {
        for bit in 0..8 {
            storage.flip_bit(&path, offset, bit);
            match store.load(sequence) {
                Ok((exchange, header)) => {
                    assert_eq!((header, exchange.state_hash()), (good, state_hash), "{offset}.{bit}");
                    harmless += 1;
                }
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.starts_with(&path) && text.contains("offset"), "{offset}.{bit}: {text}");
                    found += 1;
                }
            }
            storage.flip_bit(&path, offset, bit);
        }
    }
    println!("{bytes} bytes: {found} flips found, {harmless} harmless");
    assert_eq!(found + harmless, bytes * 8);
    assert_eq!(harmless, 0, "the checksums cover every byte of the file");
    store.load(sequence).expect("the last flip was undone");
}

#[test]
fn a_file_cut_or_lengthened_anywhere_is_refused() {
    let Written { storage, store, path, sequence, bytes, .. } = written(60);
    let mut whole = vec![0; bytes as usize];
    storage.shared().open(&path, Access::Read).expect("open").read_at(&mut whole, 0).expect("read");
    for length in (0..whole.len()).chain([whole.len() + 1, whole.len() + 64]) {
        let mut cut = whole.clone();
        cut.resize(length, 0);
        let storage = FakeStorage::new().shared();
        let other = SnapshotStore::open(storage.clone(), CLUSTER_ID).expect("open");
        storage.create(&path).expect("create").write_all_at(&cut, 0).expect("write");
        match other.load(sequence) {
            Err(SnapshotError::Corrupt { file, .. }) => assert_eq!(file, path),
            outcome => panic!("length {length}: {outcome:?}"),
        }
    }
    assert_eq!(store.list().expect("list"), [sequence]);
}

#[test]
fn another_cluster_and_another_name_are_refused() {
    let Written { storage, path, sequence, .. } = written(60);
    let foreign = SnapshotStore::new(storage.shared(), CLUSTER_ID + 1);
    assert!(matches!(foreign.load(sequence), Err(SnapshotError::ForeignCluster { .. })));
    let renamed = Sequence(sequence.0 + 1);
    storage.shared().rename(&path, &format!("snapshots/snapshot-{:020}", renamed.0)).expect("rename");
    let store = SnapshotStore::new(storage.shared(), CLUSTER_ID);
    let error = store.load(renamed).expect_err("another name");
    assert!(error.to_string().contains("another sequence"), "{error}");
}

/// Another version of the rules in the header than in the state, with a good checksum.
#[test]
fn a_state_of_other_rules_is_refused() {
    let Written { storage, path, store, sequence, .. } = written(60);
    let file = storage.shared().open(&path, Access::ReadWrite).expect("open");
    let mut header = [0; 192];
    for (version, expected) in [
        (exchange::RULEBOOK_VERSION + 1, "made under rulebook version 3, this program knows those up to 2"),
        (0, "the header says rulebook version 0x0, the state has 0x1"),
    ] {
        file.read_at(&mut header, 0).expect("read");
        header[32..36].copy_from_slice(&version.to_le_bytes());
        let checksum = crc32c::crc32c(&header[12..]).to_le_bytes();
        header[8..12].copy_from_slice(&checksum);
        file.write_all_at(&header, 0).expect("write");
        let error = store.load(sequence).expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn a_bad_sector_is_an_error_and_not_the_end() {
    let Written { storage, store, path, sequence, .. } = written(60);
    storage.inject(Fault { call: Call::Read, path, after: 2, errno: 5 });
    assert!(matches!(store.load(sequence), Err(SnapshotError::Io { operation: "read", .. })));
}

#[test]
fn a_failed_write_leaves_no_snapshot() {
    let venue = Venue::run(Shape::default(), 22, 200);
    for (call, errno) in
        [(Call::Create, 13), (Call::Write, 28), (Call::SyncData, 5), (Call::Rename, 5), (Call::SyncDir, 5)]
    {
        let storage = FakeStorage::new();
        let store = SnapshotStore::open(storage.shared(), CLUSTER_ID).expect("open");
        storage.inject(Fault { call, path: "snapshots".to_owned(), after: 0, errno });
        let outcome = store.write(&venue.exchange, Term(1), &mut |_| ControlFlow::Continue(()));
        assert!(matches!(outcome, Err(SnapshotError::Io { .. })), "{call:?}: {outcome:?}");
        // Only the last step, the folder's sync, leaves the name: whole, but perhaps not for ever.
        let names = storage.shared().list("snapshots").expect("list");
        assert_eq!(names.len(), usize::from(call == Call::SyncDir), "{call:?}: {names:?}");
    }
}

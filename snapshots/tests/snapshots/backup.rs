//! Backups of a data directory with everything in it, and their check.

use std::ops::ControlFlow;
use std::sync::Arc;

use journaler::storage::fake::FakeStorage;
use journaler::storage::{RealStorage, SharedStorage};
use journaler::{Journal, ReportLog, ReportLogOptions};
use protocol::{Event, Output, REPORT_STRIDE, Report, Sequence, TradingDay};
use snapshots::{MakerOptions, Marks, SnapshotError, SnapshotMaker, SnapshotStore, back_up, check};

use crate::venue::{CLUSTER_ID, Shape, Venue, journal_of, journal_options};

/// Writes the reports of frames up to `up_to` into the report log and makes them durable.
fn write_reports(storage: &SharedStorage, outputs: &[Output], up_to: Sequence) -> u64 {
    let log = ReportLog::open(storage.clone(), &ReportLogOptions::default()).expect("open");
    let mut writer = log.writer();
    let mut day = TradingDay(1);
    let mut written = 0;
    for output in outputs.iter().filter(|output| output.sequence <= up_to) {
        if let Event::DayStarted(started) = output.event {
            day = started;
        }
        let mut stride = [0; REPORT_STRIDE];
        if let Some(to) = output.event.recipient() {
            Report { output: *output, cl_ord_id: None }.encode(&mut stride).expect("it has a recipient");
            writer.write(to.session, day, to.number, &stride).expect("write");
            written += 1;
        }
    }
    log.sync(up_to).expect("sync");
    written
}

/// A data directory with journal, report log up to `reported` and two snapshots, its journal pruned.
fn data_directory(storage: &SharedStorage, venue: &Venue, reported: Sequence) -> SnapshotStore {
    journal_of(storage, &venue.frames, 16 << 10, 7);
    write_reports(storage, &venue.outputs, reported);
    let store = SnapshotStore::open(storage.clone(), CLUSTER_ID).expect("open");
    let mut maker = SnapshotMaker::new(store.clone(), MakerOptions::default());
    for part in [3, 2] {
        let marks = Marks { journaled: Sequence(reported.0 / part), reported };
        maker.run_once(marks, &mut |_| ControlFlow::Continue(())).expect("run_once").expect("made");
    }
    let (journal, _) = Journal::open(storage.clone(), journal_options(16 << 10)).expect("open");
    journal.segments().prune(store.journal_needed_from().expect("list")).expect("prune");
    journal.close().expect("close");
    store
}

fn check_copy(copy: &SharedStorage, venue: &Venue, reported: Sequence) {
    let checked = check(copy, CLUSTER_ID, &mut |_| {}).expect("the copy is good");
    assert_eq!(checked.journaled, venue.sequence());
    assert_eq!(checked.reported, reported);
    assert!(checked.recovered.from_snapshot.is_some());
    assert_eq!(checked.recovered.refused, []);
    assert_eq!(checked.recovered.exchange.state_hash(), venue.exchange.state_hash());
    assert_eq!(checked.recovered.exchange.running_hash(), venue.exchange.running_hash());
    assert!(checked.reports > 0);
}

#[test]
fn a_backup_is_a_data_directory_and_so_is_its_restoration() {
    let venue = Venue::run(Shape::default(), 71, 3000);
    let reported = Sequence(venue.sequence().0 - 300);
    let folders = [(); 3].map(|()| tempfile::tempdir().expect("a folder"));
    let [data, copy, restored] = folders
        .each_ref()
        .map(|folder| -> SharedStorage { Arc::new(RealStorage::create(folder.path()).expect("create")) });
    let store = data_directory(&data, &venue, reported);
    let backup = back_up(&store, &copy, Some(venue.sequence())).expect("back up");
    assert_eq!(backup.snapshots, store.list().expect("list"));
    assert_eq!(backup.reported, reported);
    assert!(backup.journal.first_sequence > Sequence(1));
    check_copy(&copy, &venue, reported);

    back_up(&SnapshotStore::new(copy, CLUSTER_ID), &restored, None).expect("restore");
    check_copy(&restored, &venue, reported);
}

#[test]
fn a_backup_goes_into_an_empty_folder_only() {
    let venue = Venue::run(Shape::default(), 72, 1000);
    let data = FakeStorage::new().shared();
    let store = data_directory(&data, &venue, venue.sequence());
    let target = FakeStorage::new().shared();
    target.create("something").expect("create");
    assert!(matches!(back_up(&store, &target, None), Err(SnapshotError::BackupNotEmpty(_))));
}

#[test]
fn a_snapshot_that_is_damaged_is_left_out() {
    let venue = Venue::run(Shape::default(), 73, 2000);
    let data = FakeStorage::new();
    let store = data_directory(&data.shared(), &venue, venue.sequence());
    let [older, newer] = store.list().expect("list")[..] else { panic!("two snapshots") };
    data.flip_bit(&format!("snapshots/snapshot-{:020}", newer.0), 999, 1);
    let target = FakeStorage::new().shared();
    let backup = back_up(&store, &target, None).expect("back up");
    assert_eq!(backup.snapshots, [older]);
    assert_eq!(target.list("snapshots").expect("list").len(), 1);
    check_copy(&target, &venue, venue.sequence());
}

#[test]
fn a_check_finds_damage_in_each_part() {
    let venue = Venue::run(Shape::default(), 74, 2000);
    let data = FakeStorage::new();
    data_directory(&data.shared(), &venue, venue.sequence());
    check_copy(&data.shared(), &venue, venue.sequence());
    let damaged = |path: &str, offset: u64| {
        let disk = data.copy();
        disk.flip_bit(path, offset, 2);
        check(&disk.shared(), CLUSTER_ID, &mut |_| {})
    };
    let storage = data.shared();
    let first = |folder: &str| format!("{folder}/{}", storage.list(folder).expect("list")[0]);

    let segment = damaged(&first("journal"), 4096 + 300).expect_err("the journal is damaged").to_string();
    assert!(segment.contains("journal/segment-") && segment.contains("offset"), "{segment}");

    let newest = format!("snapshots/{}", storage.list("snapshots").expect("list")[1]);
    let checked = damaged(&newest, 500).expect("the older one is used");
    assert_eq!(checked.recovered.refused.len(), 1);
    assert!(checked.recovered.refused[0].reason.contains("offset"));

    let day = format!("reports/day-{}", venue.exchange.trading_day());
    let report = damaged(&first(&day), 132 + 40).expect_err("the report log is damaged").to_string();
    assert!(report.contains("offset 132: the report does not match its checksum"), "{report}");
}

//! The report log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use journaler::storage::Access;
use journaler::storage::fake::{CrashStates, FakeStorage};
use journaler::{
    JournalError, REPORT_RECORD_BYTES, REPORTS_READ_MAX, RealStorage, ReportLog, ReportLogOptions,
    SharedStorage,
};
use protocol::{REPORT_STRIDE, ReportNumber, Sequence, SessionId, TradingDay};
use rand::RngExt;

use crate::support::{fake, seeded};

const DAY: TradingDay = TradingDay(1);

fn report(session: u32, day: u32, number: u64) -> [u8; REPORT_STRIDE] {
    let mut bytes = [0; REPORT_STRIDE];
    bytes[..2].copy_from_slice(&100_u16.to_le_bytes());
    bytes[4..8].copy_from_slice(&session.to_le_bytes());
    bytes[8..12].copy_from_slice(&day.to_le_bytes());
    bytes[16..24].copy_from_slice(&number.to_le_bytes());
    bytes
}

fn reports(session: u32, day: u32, first: u64, count: u64) -> Vec<u8> {
    (first..first + count).flat_map(|number| report(session, day, number)).collect()
}

fn open(storage: &SharedStorage, open_files_max: usize) -> ReportLog {
    ReportLog::open(storage.clone(), &ReportLogOptions { open_files_max }).unwrap()
}

#[test]
fn reports_are_read_by_number_while_they_are_written() {
    let (_, storage) = fake();
    let log = open(&storage, 4);
    let (mut writer, reader) = (log.writer(), log.reader());
    let session = SessionId(7);
    let mut buffer = Vec::new();
    assert_eq!(reader.read(session, DAY, ReportNumber(1), 10, &mut buffer).unwrap(), 0);
    writer.write(session, DAY, ReportNumber(1), &reports(7, 1, 1, 5)).unwrap();
    writer.write(session, DAY, ReportNumber(6), &reports(7, 1, 6, 1)).unwrap();
    assert_eq!(reader.available(session, DAY), ReportNumber(6));
    assert_eq!(reader.read(session, DAY, ReportNumber(3), 2, &mut buffer).unwrap(), 2);
    assert_eq!(buffer, reports(7, 1, 3, 2));
    assert_eq!(reader.read(session, DAY, ReportNumber(5), 100, &mut buffer).unwrap(), 2);
    assert_eq!(buffer, [reports(7, 1, 3, 2), reports(7, 1, 5, 2)].concat());
    assert_eq!(reader.read(session, DAY, ReportNumber(7), 100, &mut buffer).unwrap(), 0);
    // Again and overlapping is harmless, a gap is refused.
    writer.write(session, DAY, ReportNumber(2), &reports(7, 1, 2, 3)).unwrap();
    assert_eq!(reader.available(session, DAY), ReportNumber(6));
    let gap = writer.write(session, DAY, ReportNumber(8), &reports(7, 1, 8, 1));
    assert!(matches!(gap, Err(JournalError::Report { .. })));
    let ragged = writer.write(session, DAY, ReportNumber(7), &[0; REPORT_STRIDE + 1]);
    assert!(matches!(ragged, Err(JournalError::Report { .. })));
    let many = REPORTS_READ_MAX as u64 + 10;
    writer.write(session, DAY, ReportNumber(7), &reports(7, 1, 7, many)).unwrap();
    assert_eq!(
        reader.read(session, DAY, ReportNumber(7), usize::MAX, &mut buffer).unwrap(),
        REPORTS_READ_MAX
    );
}

#[test]
fn ten_thousand_sessions_share_a_few_open_files() {
    let directory = tempfile::tempdir().unwrap();
    let storage: SharedStorage = Arc::new(RealStorage::create(directory.path()).unwrap());
    let log = open(&storage, 16);
    let (mut writer, reader) = (log.writer(), log.reader());
    for round in 0..2 {
        for session in 0..10_000 {
            writer
                .write(SessionId(session), DAY, ReportNumber(round + 1), &report(session, 1, round + 1))
                .unwrap();
        }
    }
    let open_files = std::fs::read_dir("/proc/self/fd").unwrap().count();
    assert!(open_files < 200, "{open_files} files are open");
    let mut buffer = Vec::new();
    for session in (0..10_000).step_by(97) {
        buffer.clear();
        assert_eq!(reader.read(SessionId(session), DAY, ReportNumber(1), 9, &mut buffer).unwrap(), 2);
        assert_eq!(buffer, reports(session, 1, 1, 2));
    }
}

#[test]
fn the_current_and_the_previous_day_are_kept() {
    let (_, storage) = fake();
    let log = open(&storage, 4);
    let (mut writer, reader) = (log.writer(), log.reader());
    for day in 1..=3 {
        for session in 1..=3 {
            writer
                .write(SessionId(session), TradingDay(day), ReportNumber(1), &reports(session, day, 1, 2))
                .unwrap();
        }
        log.sync(Sequence(u64::from(day) * 10)).unwrap();
    }
    assert_eq!(log.durable_mark(), Sequence(30));
    assert_eq!(storage.list("reports").unwrap(), ["day-2", "day-3", "mark"]);
    let mut buffer = Vec::new();
    assert_eq!(reader.read(SessionId(1), TradingDay(1), ReportNumber(1), 9, &mut buffer).unwrap(), 0);
    assert_eq!(reader.read(SessionId(1), TradingDay(2), ReportNumber(1), 9, &mut buffer).unwrap(), 2);
    // A restart from a snapshot of day 3: its state says 2 reports a session, and day 2 is as its files are.
    drop((log, writer, reader));
    let log = open(&storage, 4);
    let (mut writer, reader) = (log.writer(), log.reader());
    assert_eq!(reader.available(SessionId(2), TradingDay(3)), ReportNumber(0));
    writer.restore(SessionId(2), TradingDay(3), ReportNumber(2));
    writer.restore_ended_day(TradingDay(2)).unwrap();
    for day in [2, 3] {
        buffer.clear();
        assert_eq!(reader.read(SessionId(2), TradingDay(day), ReportNumber(1), 9, &mut buffer).unwrap(), 2);
        assert_eq!(buffer, reports(2, day, 1, 2));
    }
    assert_eq!(storage.list("reports").unwrap(), ["day-2", "day-3", "mark"]);
}

#[test]
fn a_report_that_is_not_there_is_an_error_with_its_place() {
    let (fake, storage) = fake();
    let log = open(&storage, 4);
    let mut writer = log.writer();
    writer.write(SessionId(1), DAY, ReportNumber(1), &reports(1, 1, 1, 3)).unwrap();
    // Every bit of a record, its checksum's too.
    for place in 0..REPORT_RECORD_BYTES as u64 * 8 {
        let offset = 2 * REPORT_RECORD_BYTES as u64 + place / 8;
        let flip = || fake.flip_bit("reports/day-1/session-1", offset, (place % 8) as u8);
        let mut buffer = vec![7];
        flip();
        let error = log.reader().read(SessionId(1), DAY, ReportNumber(1), 9, &mut buffer).unwrap_err();
        let text = "reports/day-1/session-1: offset 264: the report does not match its checksum";
        assert_eq!((error.to_string().as_str(), buffer.as_slice()), (text, &[7][..]));
        flip();
    }
    writer.restore(SessionId(1), DAY, ReportNumber(4));
    let error = log.reader().read(SessionId(1), DAY, ReportNumber(4), 9, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "reports/day-1/session-1: offset 528: no report stands here");
}

#[test]
fn a_report_in_anothers_place_and_a_file_of_another_version_are_refused() {
    let (_, storage) = fake();
    let log = open(&storage, 4);
    log.writer().write(SessionId(1), DAY, ReportNumber(1), &reports(1, 1, 1, 3)).unwrap();
    let file = storage.open("reports/day-1/session-1", Access::ReadWrite).unwrap();
    let mut record = [0; REPORT_RECORD_BYTES];
    file.read_at(&mut record, REPORT_RECORD_BYTES as u64).unwrap();
    file.write_all_at(&record, 2 * REPORT_RECORD_BYTES as u64).unwrap();
    let error = log.reader().read(SessionId(1), DAY, ReportNumber(1), 9, &mut Vec::new()).unwrap_err();
    assert!(matches!(error, JournalError::Report { offset: 264, .. }), "{error}");

    let mut header = [0; 32];
    file.read_at(&mut header, 0).unwrap();
    header[12] = 1;
    let checksum = crc32c::crc32c(&header[12..]);
    header[8..12].copy_from_slice(&checksum.to_le_bytes());
    file.write_all_at(&header, 0).unwrap();
    let log = open(&storage, 4);
    let mut writer = log.writer();
    writer.restore(SessionId(1), DAY, ReportNumber(3));
    for refused in [
        log.reader().read(SessionId(1), DAY, ReportNumber(1), 9, &mut Vec::new()).map(|_| ()),
        writer.write(SessionId(1), DAY, ReportNumber(4), &reports(1, 1, 4, 1)),
    ] {
        assert!(matches!(refused, Err(JournalError::WrongVersion { found: 1, supported: 2, .. })));
    }
}

/// After every power cut, the mark vouches for what is in the files, and replay from the mark fills in the rest.
#[test]
fn the_mark_never_vouches_for_lost_reports() {
    let (seed, mut random) = seeded(11);
    let fake = FakeStorage::new();
    fake.record();
    let log = open(&fake.shared(), 2);
    let mut writer = log.writer();
    // Frame `n` makes one report; who gets it follows from `n`.
    let target = |frame: u64| (1 + (frame * 7 % 3) as u32, 1 + (frame / 40) as u32);
    let mut numbers = std::collections::HashMap::new();
    let mut script = Vec::new();
    for frame in 1..=110_u64 {
        let (session, day) = target(frame);
        let number = numbers.entry((session, day)).and_modify(|number| *number += 1).or_insert(1_u64);
        script.push((session, day, *number));
    }
    for (frame, (session, day, number)) in (1_u64..).zip(&script) {
        let bytes = report(*session, *day, *number);
        writer.write(SessionId(*session), TradingDay(*day), ReportNumber(*number), &bytes).unwrap();
        if random.random_range(0..6) == 0 {
            log.sync(Sequence(frame)).unwrap();
        }
    }
    let mut states = 0;
    for state in CrashStates::new(&fake, 40, seed) {
        states += 1;
        let log = open(&state.storage.shared(), 2);
        let mark = log.durable_mark().0;
        let (mut writer, reader) = (log.writer(), log.reader());
        let newest_day = script.iter().take(mark as usize).map(|(_, day, _)| *day).max().unwrap_or(1);
        for (session, day, number) in script.iter().take(mark as usize) {
            if day + 1 >= newest_day {
                writer.restore(SessionId(*session), TradingDay(*day), ReportNumber(*number));
            }
        }
        for (session, day, number) in &script[mark as usize..] {
            let bytes = report(*session, *day, *number);
            writer.write(SessionId(*session), TradingDay(*day), ReportNumber(*number), &bytes).unwrap();
        }
        for ((session, day), last) in &numbers {
            if *day < newest_day.max(2) - 1 || *day + 1 < 3 {
                continue;
            }
            let mut buffer = Vec::new();
            let read = reader.read(SessionId(*session), TradingDay(*day), ReportNumber(1), 999, &mut buffer);
            let place =
                format!("operation {} {}, choice {}", state.operation, state.description, state.choice);
            assert_eq!(read.unwrap() as u64, *last, "session {session} day {day} mark {mark}: {place}");
            assert_eq!(buffer, reports(*session, *day, 1, *last), "{place}");
        }
    }
    println!("report log: {states} crash states, 0 wrong");
    assert!(states > 1000);
}

#[test]
fn files_with_much_that_is_not_durable_are_synced_early_and_no_mark_moves() {
    let (fake, storage) = fake();
    let log = open(&storage, 4);
    let mut writer = log.writer();
    let mut write = |session, first, count| {
        let bytes = reports(session, 1, first, count);
        writer.write(SessionId(session), DAY, ReportNumber(first), &bytes).unwrap();
    };
    let durable = |session: u32| {
        let storage = fake.power_cut(|_| false).shared();
        let file = storage.open(&format!("reports/day-1/session-{session}"), Access::Read).unwrap();
        file.length().unwrap() / REPORT_RECORD_BYTES as u64 - 1
    };
    write(1, 1, 1);
    write(2, 1, 1);
    log.sync(Sequence(2)).unwrap();
    write(1, 2, 3_000);
    write(2, 2, 3_000);
    write(1, 3_002, 3_000);
    assert_eq!((durable(1), durable(2)), (1, 1));
    log.sync_early().unwrap();
    assert_eq!((durable(1), durable(2)), (6_001, 1));
    assert_eq!(log.durable_mark(), Sequence(2));
    log.sync(Sequence(3)).unwrap();
    assert_eq!((durable(1), durable(2)), (6_001, 3_001));
}

#[test]
fn a_reader_thread_never_sees_a_report_before_it_is_written() {
    let directory = tempfile::tempdir().unwrap();
    let storage: SharedStorage = Arc::new(RealStorage::create(directory.path()).unwrap());
    let log = open(&storage, 8);
    let done = Arc::new(AtomicBool::new(false));
    let reader = log.reader();
    let ended = Arc::clone(&done);
    let thread = std::thread::spawn(move || {
        let (mut next, mut buffer) = (1, Vec::new());
        loop {
            let last_look = ended.load(Ordering::Acquire);
            buffer.clear();
            let read = reader.read(SessionId(1), DAY, ReportNumber(next), 100, &mut buffer).unwrap() as u64;
            assert_eq!(buffer, reports(1, 1, next, read));
            next += read;
            if last_look && read == 0 {
                return next - 1;
            }
        }
    });
    let mut writer = log.writer();
    for number in 1..=5000 {
        writer.write(SessionId(1), DAY, ReportNumber(number), &report(1, 1, number)).unwrap();
        if number % 1000 == 0 {
            log.sync(Sequence(number)).unwrap();
        }
    }
    done.store(true, Ordering::Release);
    assert_eq!(thread.join().unwrap(), 5000);
}

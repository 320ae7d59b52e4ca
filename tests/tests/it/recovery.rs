//! Starts after stops, kills and damage: the same hashes whichever way the state was made again, and a clear refusal where
//! it can't be.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Server, Venue, WHOLE_HISTORY, ringpit, seeded, wait_for};
use crate::tool::Job;

/// A snapshot every second; the journal's first file is long enough to stay, so that a replay from 0 is possible.
const SNAPSHOTS: &str = "\
[journal]
segment_mib = 64
reserve_mib = 128
[snapshots]
every_frames = 1_000
every_seconds = 1
keep = 100
[log]
stats_seconds = 0
";

/// What is the same for the same frames, however the state came about.
const STATE: [&str; 5] = ["sequence", "running_hash", "state_hash", "book_hash", "open_orders"];

#[track_caller]
fn same(one: &Value, other: &Value, names: &[&str]) {
    for name in names {
        assert!(!one[*name].is_null(), "{name} is not there: {one}");
        assert_eq!(one[*name], other[*name], "{name}");
    }
}

/// Some orders, a part of which trade.
fn trade(venue: &Venue, orders: u32, seed: u64) {
    let (orders, seed) = (orders.to_string(), seed.to_string());
    venue.ask(&["load", "--orders", &orders, "--seed", &seed, "--cross", "30"]);
}

/// Waits for a tick in the log that vouches for a checkpoint behind all that was done so far: a snapshot goes up to such a
/// one. Frames can't be counted instead, since the ends of the connections may still be on their way.
fn let_a_checkpoint_be_logged(venue: &Venue, server: &Server) {
    let sequence = server.sequence();
    let from = (sequence + 1).to_string();
    wait_for("a tick with a new checkpoint", || {
        let dumped = venue.tool(&["journal", "dump", "--from", &from, "--json"]).succeeded();
        let mut frames = dumped.out.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        frames.any(|frame| frame["checkpoint_sequence"].as_u64() > Some(sequence)).then_some(())
    });
}

/// The round of the test below whose end makes a snapshot; it is a clean stop.
const SNAPSHOT_ROUND: u64 = 2;

#[test]
fn every_way_back_leads_to_the_same_state() {
    let (seed, _) = seeded("recovery");
    let mut venue = Venue::new(WHOLE_HISTORY);
    let mut last = None;
    for round in 0..4 {
        let server = venue.start();
        trade(&venue, 3_000, seed + round);
        if round == SNAPSHOT_ROUND {
            let_a_checkpoint_be_logged(&venue, &server);
        }
        // A clean stop and a kill in turn; what was answered is in the journal either way.
        if round % 2 == 0 {
            server.terminate()
        } else {
            server.kill()
        }
        let now = venue.ask(&["replay"]);
        if let Some(before) = last {
            let again = venue.ask(&["replay", "--to", &format!("{}", before_sequence(&before))]);
            same(&before, &again, &STATE);
            same(&before, &again, &["outcome_hash"]);
        }
        if round == SNAPSHOT_ROUND {
            venue.ask(&["snapshot", "make"]);
        }
        if round >= SNAPSHOT_ROUND {
            same(&now, &venue.ask(&["replay", "--from-snapshot"]), &STATE);
        }
        last = Some(now);
    }
}

fn before_sequence(replayed: &Value) -> u64 {
    replayed["sequence"].as_u64().expect("a number")
}

#[test]
fn snapshots_made_under_load_are_states_that_were() {
    let (seed, _) = seeded("recovery, snapshots");
    let mut venue = Venue::new(SNAPSHOTS);
    let server = venue.start();
    let seed = seed.to_string();
    // More than it will get to send.
    let mut load =
        venue.job(&["load", "--rate", "2000", "--orders", "1000000", "--seed", &seed, "--cross", "30"]);
    let snapshots = || sequences(&venue.ask(&["snapshot", "list"]));
    wait_for("two snapshots", || (snapshots().len() >= 2).then_some(()));
    assert!(load.runs(), "the snapshots were made while it ran");
    server.kill();
    drop(load);
    for sequence in snapshots() {
        let sequence = sequence.to_string();
        let verified = venue.ask(&["snapshot", "verify", "--sequence", &sequence]);
        same(&verified, &venue.ask(&["replay", "--to", &sequence]), &STATE);
    }
    let (whole, behind) = (venue.ask(&["replay"]), venue.ask(&["replay", "--from-snapshot"]));
    assert!(behind["from_snapshot"].as_u64() > Some(0), "{behind}");
    same(&whole, &behind, &STATE);
    let server = venue.start();
    assert!(venue.log().contains("snapshot="), "{}", venue.log());
    server.terminate();
}

fn sequences(list: &Value) -> Vec<u64> {
    let all = list["snapshots"].as_array().expect("a list");
    all.iter().map(|snapshot| snapshot["sequence"].as_u64().expect("a number")).collect()
}

/// Files of a folder of the data directory, in the order of their names.
fn files(venue: &Venue, folder: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(venue.data().join(folder)).expect("a folder");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files
}

fn flip(path: &Path, offset: u64) {
    let file = fs::File::options().read(true).write(true).open(path).expect("a file");
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).expect("read");
    file.write_all_at(&[byte[0] ^ 0x10], offset).expect("written");
}

fn name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).expect("a name")
}

#[test]
fn a_damaged_snapshot_is_named_and_the_one_before_is_used() {
    let mut venue = Venue::new(WHOLE_HISTORY);
    for round in 0..2 {
        let server = venue.start();
        trade(&venue, 1_000, round);
        let_a_checkpoint_be_logged(&venue, &server);
        server.terminate();
        venue.ask(&["snapshot", "make"]);
    }
    let (whole, list) = (venue.ask(&["replay"]), sequences(&venue.ask(&["snapshot", "list"])));
    let snapshots: Vec<PathBuf> = files(&venue, "snapshots")
        .into_iter()
        .filter(|path| fs::metadata(path).is_ok_and(|file| file.len() > 1024))
        .collect();
    assert_eq!((snapshots.len(), list.len()), (2, 2), "{snapshots:?}");
    let newest = &snapshots[1];
    flip(newest, fs::metadata(newest).expect("a file").len() / 2);
    let damaged = venue.tool(&["snapshot", "verify"]);
    assert!(damaged.failed(1).contains(name(newest)), "{}", damaged.err);
    let behind = venue.ask(&["replay", "--from-snapshot"]);
    assert_eq!(behind["from_snapshot"], list[0]);
    same(&whole, &behind, &STATE);
    let server = venue.start();
    assert!(venue.log().contains(name(newest)), "it says which one it does not use: {}", venue.log());
    assert!(venue.log().contains(&format!("snapshot={}", list[0])), "{}", venue.log());
    server.kill();

    // With both damaged, the journal alone is enough.
    flip(&snapshots[0], 4_096);
    let server = venue.start();
    assert!(
        venue.log().contains(name(&snapshots[0])) && venue.log().contains("snapshot=0"),
        "{}",
        venue.log()
    );
    server.terminate();
    same(&whole, &venue.ask(&["replay", "--to", &before_sequence(&whole).to_string()]), &STATE);
}

/// The journal's first file.
fn segment(venue: &Venue) -> PathBuf {
    venue.data().join("journal/segment-0000000001")
}

#[test]
fn damage_in_the_journal_is_refused_and_told_apart_from_a_torn_tail() {
    let mut venue = Venue::new(WHOLE_HISTORY);
    let server = venue.start();
    trade(&venue, 2_000, 1);
    server.kill();
    let whole = venue.ask(&["replay"]);
    let used = venue.ask(&["journal", "stat"])["bytes"].as_u64().expect("a number");

    // A write that was not completed: the beginning of an earlier batch behind the end.
    let file = fs::File::options().read(true).write(true).open(segment(&venue)).expect("the segment");
    let mut torn = [0; 300];
    file.read_exact_at(&mut torn, used / 2 / 4_096 * 4_096).expect("read");
    file.write_all_at(&torn, used).expect("written");
    assert!(torn.iter().any(|byte| *byte != 0), "something is written");
    let server = venue.start();
    assert!(venue.log().contains("torn tail"), "it says that it cut: {}", venue.log());
    server.terminate();
    same(&whole, &venue.ask(&["replay", "--to", &before_sequence(&whole).to_string()]), &STATE);

    // A bit in the middle of what was whole once.
    flip(&segment(&venue), used / 2);
    let refused = venue.refuses_to_start();
    let line = refused.failed(1);
    for part in ["journal/segment-0000000001", "offset ", "sequence ", "ringpit journal cut"] {
        assert!(line.contains(part), "{part:?} is not in {line:?}");
    }
    // Nothing was changed by that, and the command that it names says what would be lost.
    assert_eq!(venue.refuses_to_start().failed(1), line);
    let cut = venue.tool(&["journal", "cut"]);
    cut.failed(1);
    assert!(cut.out.contains("would lose"), "{}", cut.out);
    venue.tool(&["journal", "cut", "--yes"]).succeeded();
    let server = venue.start();
    trade(&venue, 100, 2);
    server.terminate();
    venue.ask(&["replay"]);
}

#[test]
fn a_second_server_is_kept_out() {
    let mut venue = Venue::new(WHOLE_HISTORY);
    let server = venue.start();
    let mut other = Venue::on(venue.data().to_owned(), WHOLE_HISTORY);
    let refused = other.refuses_to_start();
    let process = server.ready().process;
    assert!(refused.failed(1).contains(&format!("in use by process {process}")), "{}", refused.err);
    trade(&venue, 100, 1);
    server.kill();
    // The lock goes with its owner, however that ends.
    let server = other.start();
    server.terminate();
}

#[test]
fn a_backup_of_a_running_server_can_be_checked_and_started() {
    let mut venue = Venue::new(SNAPSHOTS);
    let server = venue.start();
    trade(&venue, 2_000, 1);
    let mut load =
        venue.job(&["load", "--rate", "2000", "--orders", "4000", "--seed", "2", "--cross", "30", "--json"]);
    wait_for("some of the load", || (server.sequence() > 2_500).then_some(()));
    let (copy, restored) = (venue.path("copy"), venue.path("restored"));
    let texts = [&copy, &restored].map(|path| path.display().to_string());
    let backup = venue.ask(&["backup", "--to", &texts[0]]);
    assert!(load.runs(), "the backup was made while it ran");
    assert!(backup["last_sequence"].as_u64() > Some(2_500), "{backup}");
    // It takes nothing but an empty directory.
    assert!(venue.tool(&["backup", "--to", &texts[0]]).failed(1).contains("copy"));
    load.finish().succeeded();
    server.terminate();

    let mut restore = ringpit();
    restore.args(["restore", "--from", &texts[0], "--to", &texts[1], "--json"]);
    let checked = Job::spawn(restore).finish().succeeded().json();
    let mut restored = Venue::on(restored, SNAPSHOTS);
    restored.ask(&["journal", "verify"]);
    let at_copy = restored.ask(&["replay"]);
    assert_eq!(at_copy["sequence"], backup["last_sequence"]);
    same(&at_copy, &checked, &STATE);
    same(&at_copy, &venue.ask(&["replay", "--to", &before_sequence(&at_copy).to_string()]), &STATE);
    let server = restored.start();
    assert_eq!(server.ready().recovered_sequence, before_sequence(&at_copy));
    trade(&restored, 100, 3);
    server.terminate();
}

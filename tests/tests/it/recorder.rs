//! The flight recorder of a real server: what it says of a load is what happened, and what is damaged is told.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::harness::{Venue, WHOLE_HISTORY};

/// So few that no buffer is full, whenever the recorder's thread gets its turn.
const ORDERS: u64 = 3_000;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("a number, not {value}"))
}

fn rows<'a>(stats: &'a Value, list: &str) -> &'a [Value] {
    stats[list].as_array().unwrap_or_else(|| panic!("no {list} in {stats}"))
}

/// Frames that passed a point; a point that none passed has no row.
fn frames_of(stats: &Value, point: &str) -> u64 {
    let row = rows(stats, "points").iter().find(|row| row["point"] == point);
    row.map_or(0, |row| number(&row["frames"]))
}

/// Frames whose time from one point to the other is told.
fn frames_between(stats: &Value, from: &str, to: &str) -> u64 {
    let row = rows(stats, "times").iter().find(|row| row["from"] == from && row["to"] == to);
    number(&row.unwrap_or_else(|| panic!("nothing from {from} to {to} in {stats}"))["frames"])
}

fn files(venue: &Venue) -> Vec<PathBuf> {
    recorder::list(&venue.data().join("recorder")).expect("the recorder's folder")
}

/// What the command says of one frame, in order of time.
fn passed(venue: &Venue, sequence: u64) -> Vec<String> {
    let lines =
        venue.tool(&["recorder", "grep", "--json", "--sequence", &sequence.to_string()]).succeeded().out;
    let points = lines.lines().filter_map(|line| {
        let object: Value = serde_json::from_str(line).expect("a line is JSON");
        Some(object["point"].as_str()?.to_owned())
    });
    points.collect()
}

#[test]
fn each_stage_is_told_of_each_frame_of_a_load() {
    let mut venue = Venue::new(WHOLE_HISTORY);
    let server = venue.start();
    let load = venue.ask(&["load", "--orders", &ORDERS.to_string(), "--window", "64", "--connections", "2"]);
    assert_eq!(load["complete"], true, "{load}");
    // The files of a running server are read, too.
    venue.ask(&["recorder", "stats"]);
    venue.tool(&["recorder", "decode"]).succeeded();
    server.terminate();

    let last = number(&venue.ask(&["journal", "stat"])["last_sequence"]);
    let stats = venue.ask(&["recorder", "stats"]);
    assert_eq!((number(&stats["lost"]), number(&stats["damaged"])), (0, 0));
    let stages = [
        "journal.taken",
        "journal.written",
        "journal.durable",
        "replicate.committed",
        "unmarshal.decoded",
        "logic.applied",
        "reports.written",
    ];
    for stage in stages {
        assert_eq!(frames_of(&stats, stage), last, "{stage} is passed by every frame");
    }
    // The server published the others itself: its start, its configuration, its ticks.
    let (published, ticks) = (frames_of(&stats, "gateway.published"), frames_of(&stats, "ticker.published"));
    assert!(published >= ORDERS && published + ticks < last, "{published} of {last}");
    for (from, to) in recorder::stages::TIMES {
        let told = frames_between(&stats, from, to);
        let (least, most) = match (*from, *to) {
            // Each order is answered; a disconnect is not.
            (_, "gateway.sent") => (ORDERS, published),
            ("gateway.published", _) => (published, published),
            _ => (last, last),
        };
        assert!((least..=most).contains(&told), "{from} to {to}: {told} of {least} to {most}");
    }

    // One frame of the load, whose way is told in order.
    let passed = passed(&venue, last - ORDERS / 2);
    let place = |point: &str| {
        passed.iter().position(|other| other == point).unwrap_or_else(|| panic!("no {point} in {passed:?}"))
    };
    let in_order = ["journal.taken", "journal.written", "logic.applied", "reports.written", "gateway.sent"];
    assert!(in_order.map(place).is_sorted(), "{passed:?}");
    assert!(place("unmarshal.decoded") < place("logic.applied"), "{passed:?}");
    let one = venue.ask(&["recorder", "stats", "--sequence", &(last - ORDERS / 2).to_string()]);
    assert_eq!(rows(&one, "times").len(), recorder::stages::TIMES.len(), "{one}");
    assert!(rows(&one, "times").iter().all(|row| row["frames"] == 1), "{one}");

    a_damaged_file_is_told_in_one_line(&venue);
}

fn a_damaged_file_is_told_in_one_line(venue: &Venue) {
    let files = files(venue);
    let file = files.last().expect("a file");
    let whole = fs::read(file).expect("readable");
    let shown = |expected: Option<i32>| {
        let done = venue.tool(&["recorder", "decode"]);
        assert_eq!(done.code, expected, "{}", done.err);
        (done.out.lines().count(), done.err)
    };
    let (all, complaint) = shown(Some(0));
    assert_eq!(complaint, "");

    let mut damaged = whole.clone();
    let middle = damaged.len() / 2;
    damaged[middle] ^= 4;
    fs::write(file, &damaged).expect("written");
    let (left, complaint) = shown(Some(1));
    assert!(left > 0 && left < all, "{left} of {all} records are shown");
    assert!(
        complaint.contains("are damaged and passed over") && complaint.lines().count() == 1,
        "{complaint}"
    );

    fs::write(file, &whole[..whole.len() - 3]).expect("written");
    let (left, complaint) = shown(Some(0));
    assert!(left > 0 && left < all, "{left} of {all} records are shown");
    assert!(complaint.contains("it ends within the block at byte"), "{complaint}");

    fs::write(file, "nothing of a recorder").expect("written");
    let (_, complaint) = shown(Some(1));
    assert!(complaint.contains("no file of a flight recorder"), "{complaint}");
}

#[test]
fn a_server_without_a_recorder_writes_nothing() {
    let mut venue = Venue::new(&format!("{WHOLE_HISTORY}[recorder]\nenabled = false\n"));
    venue.start().terminate();
    assert!(!venue.data().join("recorder").exists());
    venue.tool(&["recorder", "stats"]).failed(1);
}

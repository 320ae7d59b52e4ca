//! A cluster of real processes whose leaders are killed, paused, restarted, wiped and retired under load: nothing
//! acknowledged is lost or done twice, all members have the same journal and the same hashes, and no report number is
//! missing. The long forms: docs/testing.md.

use std::fs;
use std::io::{Read, Seek, SeekFrom, Write};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::Value;

use crate::harness::{WHOLE_HISTORY, seeded, wait_for};
use crate::tool::Job;
use crate::trio::Trio;
use crate::truth::{Told, Truth, told};

/// Requests a second of the disturbed runs.
const RATE: u64 = 2_000;
/// Disturbances under one load; the next load goes on with the same sessions.
const DISTURBANCES_A_LOAD: u64 = 25;
/// Disturbances of one cluster; then it is checked, and the next one is founded. Each start replays the whole history.
const DISTURBANCES_A_CLUSTER: u64 = 100;

/// How many times a disturbance is made: from the environment, or so that all of them together take a minute or two.
pub(crate) fn times(variable: &str, short: u64) -> u64 {
    std::env::var(variable).map_or(short, |text| text.parse().expect("a number"))
}

/// A load that goes on until the disturbances are over: enough requests for all of them.
pub(crate) struct Load {
    job: Job,
    outcomes: std::path::PathBuf,
    /// Bytes of outcomes when it was last looked at.
    seen: u64,
}

impl Load {
    /// One that lasts for about `seconds`.
    pub(crate) fn begin(trio: &Trio, seconds: u64, seed: u64) -> Self {
        let outcomes = trio.path(&format!("outcomes-{seed}"));
        let rate = times("RINGPIT_LOAD_RATE", RATE);
        let (orders, window) = ((seconds * rate).to_string(), (rate / 8).max(512).to_string());
        let (rate, seed) = (rate.to_string(), seed.to_string());
        let arguments = [
            "--connections",
            "2",
            "--rate",
            &rate,
            "--orders",
            &orders,
            "--window",
            &window,
            "--cross",
            "30",
            "--seed",
            &seed,
            "--drain",
            "120",
        ];
        let mut load = Self { job: trio.load(&arguments, &outcomes), outcomes, seen: 0 };
        wait_for("the load to begin", || (load.outcomes.exists() || !load.job.runs()).then_some(()));
        load
    }

    /// Waits until it has had more answers than at the last call. False: it has ended.
    fn goes_on(&mut self) -> bool {
        let seen = self.seen;
        wait_for("another answer", || {
            self.seen = fs::metadata(&self.outcomes).map_or(0, |file| file.len());
            (self.seen > seen || !self.job.runs()).then_some(())
        });
        self.job.runs()
    }

    /// Waits for its end: nothing may be unanswered or answered twice.
    #[track_caller]
    pub(crate) fn end(mut self) -> (Value, Vec<Told>) {
        while self.goes_on() {}
        let result = self.job.finish().succeeded().json();
        assert_eq!((&result["lost"], &result["duplicated"]), (&0.into(), &0.into()), "{result}");
        let told = told(&fs::read_to_string(&self.outcomes).expect("the outcomes"));
        (result, told)
    }
}

/// After a run: all members have applied the same, and what their journals say is what the clients were told.
#[track_caller]
pub(crate) fn check_all(trio: &mut Trio, told: &[Told]) {
    trio.settled();
    let end = last_applied(trio);
    trio.terminate();
    let mut hashes = Vec::new();
    for id in trio.ids() {
        let data = trio.seat(id).data();
        let truth = Truth::read_until(&data, protocol::Sequence(end))
            .unwrap_or_else(|error| panic!("member {id}: {error}"));
        assert_eq!(truth.sequence().0, end, "member {id} has the whole log");
        truth.check_outcomes(told).unwrap_or_else(|error| panic!("member {id}: {error}"));
        hashes.push(truth.hashes());
        if id == 1 {
            truth.check_report_files(&data).expect("the report files are those of the journal");
        }
    }
    hashes.dedup();
    assert_eq!(hashes.len(), 1, "all members come to the same: {hashes:?}");
}

/// The last frame that all members have applied.
fn last_applied(trio: &Trio) -> u64 {
    let applied = |id: usize| {
        let status: Value =
            serde_json::from_str(&trio.seat(id).get("/status").expect("it answers").1).expect("JSON");
        status["applied_sequence"].as_u64().expect("a number")
    };
    trio.ids().map(applied).min().expect("members")
}

/// Disturbs a cluster under load, `wanted` times with a load of `seconds_each`; gives what the clients were told.
#[track_caller]
pub(crate) fn disturb(
    name: &str,
    trio: &mut Trio,
    (wanted, seconds_each): (u64, u64),
    seed: u64,
    rng: &mut StdRng,
    mut disturbance: impl FnMut(&mut Trio, &mut StdRng),
) -> Vec<Told> {
    let mut all = Vec::new();
    let mut made = 0;
    while made < wanted {
        let round = (wanted - made).min(DISTURBANCES_A_LOAD);
        let mut load = Load::begin(trio, 3 + round * seconds_each, seed + made);
        let mut here = 0;
        // Each disturbance meets a cluster that answers: the one before is over.
        while here < round && load.goes_on() {
            trio.rest(Duration::from_millis(rng.random_range(50..600)));
            disturbance(trio, rng);
            here += 1;
        }
        let (result, told) = load.end();
        println!("{name}: {here} times, {result}");
        all.extend(told);
        made += here;
    }
    all
}

/// Disturbs a cluster of its own, and checks it afterwards.
#[track_caller]
fn disturbed(
    name: &str,
    durability: &str,
    wanted: u64,
    seconds_each: u64,
    mut disturbance: impl FnMut(&mut Trio, &mut StdRng),
) {
    let (seed, mut rng) = seeded(name);
    let mut made = 0;
    while made < wanted {
        let here = (wanted - made).min(DISTURBANCES_A_CLUSTER);
        let mut trio = Trio::founded(durability);
        let told = disturb(name, &mut trio, (here, seconds_each), seed + made, &mut rng, &mut disturbance);
        check_all(&mut trio, &told);
        made += here;
        println!("{name}: {made} of {wanted} times, and checked");
    }
}

#[test]
fn leaders_that_are_killed_lose_nothing() {
    let wanted = times("RINGPIT_LEADER_KILLS", 12);
    disturbed("cluster, kills", "quorum", wanted, 2, |trio, rng| {
        let leader = trio.leader();
        trio.seat_mut(leader).kill();
        // Some come back before they are missed, some only when the next one leads.
        if rng.random_range(0..3) > 0 {
            trio.leader();
        }
        trio.start(leader);
    });
}

#[test]
fn leaders_that_are_killed_lose_nothing_at_memory() {
    let wanted = times("RINGPIT_LEADER_KILLS", 12) / 3;
    disturbed("cluster, kills at memory", "memory", wanted, 2, |trio, _| {
        let leader = trio.leader();
        trio.seat_mut(leader).kill();
        trio.start(leader);
    });
}

#[test]
fn leaders_that_are_paused_acknowledge_nothing_new() {
    let wanted = times("RINGPIT_PAUSES", 6);
    let (shortest, longest) = (0.1, times("RINGPIT_PAUSE_SECONDS_MAX", 3) as f64);
    let mean = (longest - shortest) / (longest / shortest).ln();
    disturbed("cluster, pauses", "quorum", wanted, mean as u64 + 2, |trio, rng| {
        let leader = trio.leader();
        let pause = shortest * (longest / shortest).powf(rng.random_range(0.0..1.0));
        trio.seat(leader).pause();
        trio.rest(Duration::from_secs_f64(pause));
        trio.seat(leader).resume();
    });
}

#[test]
fn a_rolling_restart_leaves_no_order_unanswered() {
    let rounds = times("RINGPIT_ROLLING_RESTARTS", 1);
    disturbed("cluster, rolling restart", "quorum", rounds, 12, |trio, _| {
        for id in trio.ids() {
            trio.seat_mut(id).terminate();
            trio.start(id);
            trio.leader();
            trio.settled_roughly(id);
        }
    });
}

#[test]
fn leadership_is_handed_over_under_load() {
    let wanted = times("RINGPIT_HAND_OVERS", 5);
    disturbed("cluster, hand-overs", "quorum", wanted, 2, |trio, _| {
        let leader = trio.leader();
        let done = trio.command(leader, &["cluster", "hand-over"]).finish().succeeded();
        assert!(done.out.contains("leads"), "{}", done.out);
    });
}

#[test]
fn a_member_is_added_under_load_and_the_old_leader_retired() {
    let (seed, _) = seeded("cluster, added");
    let mut trio = Trio::new("quorum", 4, WHOLE_HISTORY);
    trio.found();
    let load = Load::begin(&trio, 15, seed);
    trio.begin(4);
    let (members, native) = (trio.seat(4).members(), trio.seat(4).native());
    let old = trio.leader();
    trio.command(old, &["cluster", "add", "4", &members, &native]).finish().succeeded();
    wait_for("the new member to catch up", || {
        trio.command(1, &["cluster", "promote", "4", "--force"]).finish().code.filter(|code| *code == 0)
    });
    let next = (1..=3).find(|id| *id != old).expect("another");
    trio.command(next, &["cluster", "hand-over", "4"]).finish().succeeded();
    wait_for("the new member to lead", || (trio.leads() == Some(4)).then_some(()));
    trio.command(4, &["cluster", "remove", &old.to_string()]).finish().succeeded();
    wait_for("the removed member to be known as none", || {
        trio.seat(old).get("/healthz").filter(|(code, why)| *code == 503 && why.contains("removed"))
    });
    trio.seat_mut(old).kill();
    let (result, told) = load.end();
    println!("cluster, added: {result}");
    trio.settled();
    let end = [4, next].map(|id| applied_sequence(&trio, id)).into_iter().min().expect("two");
    trio.terminate();
    for id in trio.ids().filter(|id| *id != old) {
        let truth = Truth::read_until(&trio.seat(id).data(), protocol::Sequence(end)).expect("a whole log");
        truth.check_outcomes(&told).unwrap_or_else(|error| panic!("member {id}: {error}"));
    }
}

fn applied_sequence(trio: &Trio, id: usize) -> u64 {
    let status: Value =
        serde_json::from_str(&trio.seat(id).get("/status").expect("it answers").1).expect("JSON");
    status["applied_sequence"].as_u64().expect("a number")
}

#[test]
fn a_wiped_member_comes_back_by_itself_and_a_truncated_one_is_refused() {
    let (seed, _) = seeded("cluster, wiped");
    let mut trio = Trio::founded("quorum");
    let load = Load::begin(&trio, 8, seed);
    let leader = trio.leader();
    let lost = trio.ids().find(|id| *id != leader).expect("a follower");
    trio.seat_mut(lost).kill();
    let data = trio.seat(lost).data();
    let passwords = fs::read(data.join("demonstration-passwords")).expect("passwords");
    fs::remove_dir_all(&data).expect("wiped");
    fs::create_dir_all(&data).expect("a folder");
    fs::write(data.join("demonstration-passwords"), passwords).expect("written");
    trio.begin(lost);
    wait_for("its vote", || (!trio.is_forgetful(lost)).then_some(()));
    let (_, told) = load.end();
    trio.settled();

    // A file cut short is damage that no process made: it is refused by name, and mended by wiping.
    trio.seat_mut(lost).terminate();
    let journal = trio.seat(lost).data().join("journal");
    let first = fs::read_dir(&journal).expect("a folder").map(|entry| entry.expect("an entry").path()).min();
    let file = fs::OpenOptions::new().write(true).open(first.expect("a segment")).expect("opened");
    file.set_len(5_000).expect("truncated");
    trio.begin(lost);
    let code = trio.seat_mut(lost).ends();
    let log = trio.seat(lost).log();
    assert_ne!(code, Some(0));
    assert!(log.contains("segment-") && log.contains("5000 bytes is no segment's length"), "{log}");
    let passwords = fs::read(data.join("demonstration-passwords")).expect("passwords");
    fs::remove_dir_all(&data).expect("wiped");
    fs::create_dir_all(&data).expect("a folder");
    fs::write(data.join("demonstration-passwords"), passwords).expect("written");
    trio.begin(lost);
    wait_for("its vote", || (!trio.is_forgetful(lost)).then_some(()));
    check_all(&mut trio, &told);
}

#[test]
fn a_copy_and_a_foreign_directory_are_refused() {
    let mut trio = Trio::founded("quorum");
    let leader = trio.leader();
    let follower = trio.ids().find(|id| *id != leader).expect("a follower");
    trio.seat_mut(follower).terminate();
    let data = trio.seat(follower).data();
    let moved = data.with_extension("original");
    fs::rename(&data, &moved).expect("moved");
    copy_folder(&moved, &data);
    trio.begin(follower);
    assert_ne!(trio.seat_mut(follower).ends(), Some(0));
    let log = trio.seat(follower).log();
    assert!(log.contains("is a copy"), "{log}");
    fs::remove_dir_all(&data).expect("removed");
    fs::rename(&moved, &data).expect("moved back");
    trio.start(follower);

    // Another member's directory.
    trio.seat_mut(follower).terminate();
    let other = trio.ids().find(|id| *id != leader && *id != follower).expect("the third");
    trio.seat_mut(other).terminate();
    let (one, two) = (trio.seat(follower).data(), trio.seat(other).data());
    fs::rename(&one, &moved).expect("moved");
    fs::rename(&two, &one).expect("moved");
    trio.begin(follower);
    assert_ne!(trio.seat_mut(follower).ends(), Some(0));
    let log = trio.seat(follower).log();
    assert!(log.contains(&format!("the data directory is member {other}'s")), "{log}");
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    fs::create_dir_all(to).expect("a folder");
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("copied");
        }
    }
}

/// A quantity that stands nowhere else in a process, as typed and in lots.
const ODD_QUANTITY: (&str, u64) = ("71234.56789013", 7_123_456_789_013);

/// Changes each place in a process's memory that holds `from`.
fn corrupt(process: u32, from: u64, to: u64) -> usize {
    let maps = fs::read_to_string(format!("/proc/{process}/maps")).expect("its maps");
    let mut memory = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(format!("/proc/{process}/mem"))
        .expect("a child's memory can be written");
    let mut changed = 0;
    for line in maps.lines() {
        let mut words = line.split_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else { continue };
        let Some((start, end)) = range.split_once('-') else { continue };
        let number = |text| u64::from_str_radix(text, 16).expect("an address");
        let (start, end) = (number(start), number(end));
        if !rights.starts_with("rw") || end - start > 1 << 30 {
            continue;
        }
        let mut bytes = vec![0; (end - start) as usize];
        let read = memory.seek(SeekFrom::Start(start)).and_then(|_| memory.read_exact(&mut bytes));
        if read.is_err() {
            continue;
        }
        let pattern = from.to_le_bytes();
        let places = bytes.windows(8).enumerate().filter(|(_, window)| *window == pattern).map(|(at, _)| at);
        for at in places.collect::<Vec<_>>() {
            memory.seek(SeekFrom::Start(start + at as u64)).expect("a place");
            memory.write_all(&to.to_le_bytes()).expect("written");
            changed += 1;
        }
    }
    changed
}

/// Corrupts one member's memory and makes that matter; gives the trio when that member has stopped.
fn corrupted(the_leader: bool) {
    let mut trio = Trio::founded("quorum");
    let leader = trio.leader();
    let victim = if the_leader { leader } else { trio.ids().find(|id| *id != leader).expect("a follower") };
    let (typed, lots) = ODD_QUANTITY;
    trio.trade("demo", &format!("buy {typed} BTCUSD @ 100")).succeeded();
    trio.settled();
    let process = trio.seat(victim).process();
    trio.seat(victim).pause();
    let changed = corrupt(process, lots, lots - 2);
    trio.seat(victim).resume();
    assert!(changed > 0, "the order is somewhere in its memory");
    // What it trades is more than the victim believes to be there.
    trio.trade("demo2", &format!("sell {typed} BTCUSD @ 100"));
    let code = trio.seat_mut(victim).ends();
    let log = trio.seat(victim).log();
    assert_ne!(code, Some(0));
    assert!(log.contains("running hash"), "{log}");
    let evidence = fs::read_dir(trio.seat(victim).data())
        .expect("a folder")
        .any(|entry| entry.expect("an entry").file_name().to_string_lossy().starts_with("divergence-"));
    assert!(evidence, "it keeps what shows it:\n{log}");
    // The others go on.
    let next = trio.leader();
    assert_ne!(next, victim);
    trio.trade("demo", "buy 1 BTCUSD @ 100").succeeded();
    for id in trio.ids().filter(|id| *id != victim) {
        assert!(trio.seat_mut(id).runs(), "member {id} goes on");
    }
}

#[test]
fn a_follower_whose_memory_is_corrupted_stops() {
    corrupted(false);
}

#[test]
fn a_leader_whose_memory_is_corrupted_stops() {
    corrupted(true);
}

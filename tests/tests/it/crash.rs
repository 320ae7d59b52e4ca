//! `kill -9` at random moments, many times, under load: nothing acknowledged is lost, nothing is done twice, no report
//! number is missing, and the books are those of an undisturbed run. A kill keeps the page cache, so that an
//! acknowledgement before the fsync can't be seen here: the simulated power cuts of the pipeline's tests are for that.
//!
//! RINGPIT_KILLS is the number of kills of the module together, 20 without it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rand::RngExt;
use rand::rngs::StdRng;
use serde_json::Value;

use crate::harness::{Server, Venue, WHOLE_HISTORY, seeded, wait_for};
use crate::tool::Job;
use crate::truth::{Told, Truth, told};

/// Requests a second of the disturbed runs.
const RATE: &str = "4000";
/// Frames that a server lives for at most, counted from when it takes orders.
const LIFE_FRAMES: u64 = 1_200;
/// The same where snapshots and pruning shall find the time to happen: some seconds.
const LONG_LIFE_FRAMES: u64 = 14_000;
/// Kills under one load; the next load goes on with the same sessions.
const KILLS_A_LOAD: u64 = 20;
/// A start that is killed is killed within so long; about half of them are up by then.
const START_MICROS: u64 = 300_000;

/// A snapshot every second, files that are soon full, and every file to the archive before it is pruned.
fn forgetful(archive: &Path) -> String {
    format!(
        "[journal]\nsegment_mib = 1\nreserve_mib = 8\narchive_command = 'cp \"$RINGPIT_SEGMENT\" \"$RINGPIT_COPY\"'\n\
         archive_folder = '{}'\n[snapshots]\nevery_frames = 1_000\nevery_seconds = 1\n[log]\nstats_seconds = 0\n",
        archive.display()
    )
}

/// The kills of each test: under a flow, under a load, under a load with snapshots and pruning.
fn kills() -> [u64; 3] {
    let all =
        std::env::var("RINGPIT_KILLS").map_or(20, |text| text.parse().expect("RINGPIT_KILLS is a number"));
    let fifth = all / 5;
    [2 * fifth, 2 * fifth, all - 4 * fifth]
}

/// Requests to send for so many kills: lives last half of `life_frames` in the mean, so mostly the kills are over first.
fn requests(kills: u64, life_frames: u64) -> String {
    (kills * life_frames).to_string()
}

/// Kills servers while `job` runs, `wanted` times or until it ends, each after at most `life_frames`; gives the kills made
/// and the last server.
fn kill_under(
    venue: &mut Venue,
    mut server: Server,
    job: &mut Job,
    (wanted, life_frames): (u64, u64),
    rng: &mut StdRng,
) -> (u64, Server) {
    let mut made = 0;
    while made < wanted && job.runs() {
        let goal = server.sequence() + rng.random_range(1..=life_frames);
        let reached = wait_for("the frames before a kill", || {
            (server.sequence() >= goal).then_some(true).or_else(|| (!job.runs()).then_some(false))
        });
        if !reached {
            break;
        }
        // The looks come every few milliseconds; a kill may come at any moment between them.
        std::thread::sleep(Duration::from_micros(rng.random_range(0..3_000)));
        server.kill();
        made += 1;
        if made < wanted && rng.random_range(0..4) == 0 {
            let starting = venue.begin();
            std::thread::sleep(Duration::from_micros(rng.random_range(0..START_MICROS)));
            starting.kill();
            made += 1;
        }
        server = venue.start();
    }
    (made, server)
}

/// After the last server was stopped: all views of what happened agree. Gives the truth.
#[track_caller]
fn check_all(venue: &Venue) -> (Truth, Value) {
    let truth = Truth::read(venue.data()).expect("engine and oracle agree on the journal");
    truth.check_report_files(venue.data()).expect("the report files are those of the journal");
    let replayed = venue.ask(&["replay"]);
    check_hashes(&truth, &replayed);
    (truth, replayed)
}

/// The tool that users have tells the hashes of the truth.
#[track_caller]
fn check_hashes(truth: &Truth, replayed: &Value) {
    let [running, state, book] = truth.hashes();
    assert_eq!(replayed["sequence"], truth.sequence().0);
    assert_eq!(replayed["running_hash"], running);
    assert_eq!(replayed["state_hash"], state);
    assert_eq!(replayed["book_hash"], book);
}

#[test]
fn a_flow_that_is_killed_ends_with_the_books_of_one_that_is_not() {
    let (seed, mut rng) = seeded("crash, flow");
    let [wanted, ..] = kills();
    let mut made = 0;
    let mut round = 0;
    while made < wanted {
        let rows = requests(wanted - made, LIFE_FRAMES);
        let flow_seed = (seed + round).to_string();
        let flow = ["flow", "--generate", &flow_seed, "--rows", &rows];
        let mut venue = Venue::new(WHOLE_HISTORY);
        let server = venue.start();
        let mut job =
            venue.job(&[&flow[..], &["--resend", "--rate", RATE, "--window", "256", "--json"]].concat());
        let (here, server) = kill_under(&mut venue, server, &mut job, (wanted - made, LIFE_FRAMES), &mut rng);
        let disturbed = job.finish().succeeded().json();
        server.terminate();
        let (truth, replayed) = check_all(&venue);
        assert_eq!(disturbed["book_hash"], replayed["book_hash"]);

        // What the client can have again, from the first number on, is what the journal says.
        let server = venue.start();
        let password = server.password("demo");
        let expected = truth.reports("demo");
        let mut trader = server.login_as("demo", &password, client::Start::DayStart);
        let again = trader.reports_until(expected.len() as u64);
        assert!(again.iter().map(|report| &report.output).eq(expected), "the reports again are other ones");
        drop(trader);
        server.terminate();

        let mut calm = Venue::new(WHOLE_HISTORY);
        let server = calm.start();
        let undisturbed = calm.ask(&flow);
        server.terminate();
        assert_eq!(disturbed["book_hash"], undisturbed["book_hash"]);
        assert_eq!(disturbed["resting"], undisturbed["resting"]);
        assert_eq!(calm.ask(&["replay"])["book_hash"], undisturbed["book_hash"]);
        println!(
            "crash, flow: {here} kills, {rows} rows, {} reconnects, {} sent again, book {}",
            disturbed["reconnects"], disturbed["resent"], disturbed["book_hash"]
        );
        made += here;
        round += 1;
    }
}

/// A load with kills on it: its last server, and what its clients were told.
fn disturbed_load(
    venue: &mut Venue,
    (wanted, life_frames): (u64, u64),
    seed: u64,
    rng: &mut StdRng,
) -> (Server, Vec<Told>) {
    let mut server = venue.start();
    let mut all = Vec::new();
    let mut made = 0;
    while made < wanted {
        let round = (wanted - made).min(KILLS_A_LOAD);
        let outcomes = venue.path(&format!("outcomes-{made}"));
        let orders = requests(round, life_frames);
        let mut job = load(venue, &outcomes, &orders, seed + made);
        wait_for("the load to begin", || (outcomes.exists() || !job.runs()).then_some(()));
        let (here, last) = kill_under(venue, server, &mut job, (round, life_frames), rng);
        server = last;
        // One that ends by itself meanwhile tells why.
        wait_for("the rest of the load", || {
            server.status();
            (!job.runs()).then_some(())
        });
        let result = job.finish().succeeded().json();
        assert_eq!((&result["lost"], &result["duplicated"]), (&0.into(), &0.into()), "{result}");
        assert_eq!(result["sent"], orders.parse::<u64>().expect("a number"));
        println!(
            "crash, load: {here} kills, {orders} requests, {} done, {} reconnects, {} sent again",
            result["done"], result["reconnects"], result["resent"]
        );
        all.extend(told(&fs::read_to_string(&outcomes).expect("the outcomes")));
        made += here;
    }
    (server, all)
}

fn load(venue: &Venue, outcomes: &Path, orders: &str, seed: u64) -> Job {
    let (outcomes, seed) = (outcomes.display().to_string(), seed.to_string());
    venue.job(&[
        "load",
        "--connections",
        "2",
        "--rate",
        RATE,
        "--orders",
        orders,
        "--window",
        "512",
        "--cross",
        "30",
        "--seed",
        &seed,
        "--resend",
        "--drain",
        "120",
        "--outcomes",
        &outcomes,
        "--json",
    ])
}

#[test]
fn a_load_that_is_killed_loses_nothing_and_does_nothing_twice() {
    let (seed, mut rng) = seeded("crash, load");
    let [_, wanted, _] = kills();
    let mut venue = Venue::new(WHOLE_HISTORY);
    let (server, told) = disturbed_load(&mut venue, (wanted, LIFE_FRAMES), seed, &mut rng);
    server.terminate();
    let (truth, _) = check_all(&venue);
    truth.check_outcomes(&told).expect("the clients were told the truth");
    the_check_notices_what_is_wrong(&venue, truth, &told);
}

#[test]
fn kills_amid_snapshots_pruning_and_archive_lose_nothing() {
    let (seed, mut rng) = seeded("crash, pruned");
    let [.., wanted] = kills();
    let archive = tempfile::tempdir().expect("a folder");
    let mut venue = Venue::new(&forgetful(archive.path()));
    let (server, told) = disturbed_load(&mut venue, (wanted, LONG_LIFE_FRAMES), seed, &mut rng);
    // All that this test is about did happen, if not before then now.
    let first = wait_for("the journal to be pruned", || {
        let first = venue.ask(&["journal", "stat"])["first_sequence"].as_u64().expect("a number");
        (first > 1).then_some(first)
    });
    let snapshot = server.status()["snapshot_sequence"].as_u64().expect("a number");
    server.terminate();

    let truth =
        Truth::read(&whole_journal(&venue, archive.path())).expect("engine and oracle agree on the journal");
    truth.check_outcomes(&told).expect("the clients were told the truth");
    truth.check_report_files(venue.data()).expect("the report files are those of the journal");
    check_hashes(&truth, &venue.ask(&["replay", "--from-snapshot"]));
    println!(
        "crash, pruned: the journal begins with {first} of {}, last snapshot {snapshot}",
        truth.sequence()
    );
}

/// A copy of the journal with the pruned files back in their places, from the archive; gives its data directory.
fn whole_journal(venue: &Venue, archive: &Path) -> PathBuf {
    let whole = venue.path("whole");
    let journal = whole.join("journal");
    fs::create_dir_all(&journal).expect("a folder");
    for folder in [archive, &venue.data().join("journal")] {
        for entry in fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name");
            if name.to_string_lossy().starts_with("segment-") {
                fs::copy(&path, journal.join(name)).expect("copied");
            }
        }
    }
    whole
}

/// The check itself, on the same run with faults planted in it.
fn the_check_notices_what_is_wrong(venue: &Venue, mut truth: Truth, told: &[Told]) {
    let lost = Truth::read_until(venue.data(), protocol::Sequence(truth.last_verdict().0 - 1))
        .expect("a shorter log");
    noticed(&lost, told, "acknowledged and lost");

    let middle = told.len() / 2;
    let at = middle + told[middle..].iter().position(Told::is_done).expect("something was done");
    let doctored = |change: &dyn Fn(&mut Vec<Told>)| {
        let mut told = told.to_vec();
        change(&mut told);
        told
    };
    noticed(&truth, &doctored(&|told| told.push(told[at].clone())), "two outcomes");
    noticed(&truth, &doctored(&|told| drop(told.remove(at))), "has no outcome");
    noticed(&truth, &doctored(&|told| told[at].forge_number()), "but the log has");
    noticed(&truth, &doctored(&|told| told[at].forge_outcome()), "but the log has");
    // The end of one session's outcomes is missing.
    let user = told[at].user().to_owned();
    let last = told.iter().filter(|told| told.user() == user && told.is_done()).map(Told::request).max();
    let last = last.expect("something was done");
    noticed(
        &truth,
        &doctored(&|told| told.retain(|told| told.user() != user || told.request() < last)),
        "unheard",
    );

    truth.plant_duplicate(told[at].user(), told[at].request());
    noticed(&truth, told, "taken twice");
}

#[track_caller]
fn noticed(truth: &Truth, told: &[Told], what: &str) {
    let error = truth.check_outcomes(told).expect_err("a planted fault is noticed");
    assert!(error.contains(what), "{what:?} is not in {error:?}");
}

//! `kill -9` at random moments, many times, under load: nothing acknowledged is lost, nothing is done twice, no report
//! number is missing, and the books are those of an undisturbed run. A kill keeps the page cache, so that an
//! acknowledgement before the fsync can't be seen here: the simulated power cuts of the pipeline's tests are for that.
//!
//! RINGPIT_KILLS is the number of kills of the module together, 20 without it.

use std::path::PathBuf;
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
/// Requests sent for each kill: enough that the flow rarely ends before the kills do.
const REQUESTS_PER_KILL: u64 = 1_500;
/// A start that is killed is killed within so long; about half of them are up by then.
const START_MICROS: u64 = 300_000;

fn kills() -> u64 {
    std::env::var("RINGPIT_KILLS").map_or(20, |text| text.parse().expect("RINGPIT_KILLS is a number"))
}

/// Kills servers while `job` runs, `wanted` times or until it ends; gives the kills made and the last server.
fn kill_under(
    venue: &mut Venue,
    mut server: Server,
    job: &mut Job,
    wanted: u64,
    rng: &mut StdRng,
) -> (u64, Server) {
    let mut made = 0;
    while made < wanted && job.runs() {
        let goal = server.sequence() + rng.random_range(1..=LIFE_FRAMES);
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
    let [running, state, book] = truth.hashes();
    assert_eq!(replayed["sequence"], truth.sequence().0);
    assert_eq!(replayed["running_hash"], running);
    assert_eq!(replayed["state_hash"], state);
    assert_eq!(replayed["book_hash"], book);
    (truth, replayed)
}

#[test]
fn a_flow_that_is_killed_ends_with_the_books_of_one_that_is_not() {
    let (seed, mut rng) = seeded("crash, flow");
    let wanted = kills() / 2;
    let mut made = 0;
    let mut round = 0;
    while made < wanted {
        let rows = ((wanted - made) * REQUESTS_PER_KILL).to_string();
        let flow_seed = (seed + round).to_string();
        let flow = ["flow", "--generate", &flow_seed, "--rows", &rows];
        let mut venue = Venue::new(WHOLE_HISTORY);
        let server = venue.start();
        let mut job = venue.job(&[&flow[..], &["--resend", "--rate", RATE, "--json"]].concat());
        let (here, server) = kill_under(&mut venue, server, &mut job, wanted - made, &mut rng);
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

/// A load with kills on it, stopped in the end: its venue, and what its clients were told.
fn disturbed_load(wanted: u64, seed: u64, rng: &mut StdRng) -> (Venue, Vec<Told>) {
    let mut venue = Venue::new(WHOLE_HISTORY);
    let mut server = venue.start();
    let mut all = Vec::new();
    let mut made = 0;
    while made < wanted {
        let outcomes = venue.path(&format!("outcomes-{made}"));
        let orders = ((wanted - made) * REQUESTS_PER_KILL).to_string();
        let mut job = load(&venue, &outcomes, &orders, seed + made);
        wait_for("the load to begin", || (outcomes.exists() || !job.runs()).then_some(()));
        let (here, last) = kill_under(&mut venue, server, &mut job, wanted - made, rng);
        server = last;
        let result = job.finish().succeeded().json();
        assert_eq!((&result["lost"], &result["duplicated"]), (&0.into(), &0.into()), "{result}");
        println!(
            "crash, load: {here} kills, {orders} requests, {} done, {} reconnects, {} sent again",
            result["done"], result["reconnects"], result["resent"]
        );
        all.extend(told(&std::fs::read_to_string(&outcomes).expect("the outcomes")));
        assert_eq!(result["sent"], orders.parse::<u64>().expect("a number"));
        made += here;
    }
    server.terminate();
    (venue, all)
}

fn load(venue: &Venue, outcomes: &PathBuf, orders: &str, seed: u64) -> Job {
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
    let (venue, told) = disturbed_load(kills() - kills() / 2, seed, &mut rng);
    let (truth, _) = check_all(&venue);
    truth.check_outcomes(&told).expect("the clients were told the truth");
    the_check_notices_what_is_wrong(&venue, truth, &told);
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

//! What a new user does: the first trade of the README between two terminals, and an operator's day around it.

use crate::harness::{Server, Venue, WHOLE_HISTORY, ringpit};
use crate::tool::{Done, Job};
use crate::wire::{Raw, Said};

/// Starts `trade` as a user, with its lines still to come.
fn trader(venue: &Venue, user: &str) -> Job {
    let mut command = ringpit();
    command.args(["trade", "--user", user]).arg("--data").arg(venue.data());
    Job::talking(command)
}

/// Lets a user trade some lines and leave.
fn trade(venue: &Venue, user: &str, lines: &str) -> Done {
    let mut job = trader(venue, user);
    job.say(lines);
    job.finish()
}

/// As [`trade`], for a user whose password the data directory does not hold.
fn trade_as(venue: &Venue, user: &str, password: &str, lines: &str) -> Done {
    let mut command = ringpit();
    command.args(["trade", "--user", user]).arg("--data").arg(venue.data()).env("RINGPIT_PASSWORD", password);
    let mut job = Job::talking(command);
    job.say(lines);
    job.finish()
}

#[test]
fn the_first_trade_is_as_the_readme_says() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/../README.md");
    let readme = std::fs::read_to_string(readme).expect("the README");
    let (sell, buy) = ("sell 1.5 BTCUSD @ 50000\n", "buy 1 BTCUSD @ 50100\nbook BTCUSD\n");
    assert!(
        readme.contains(sell) && readme.contains(buy),
        "the README has another first trade than this test"
    );

    let mut venue = Venue::new(WHOLE_HISTORY);
    let server = venue.start();
    let mut seller = trader(&venue, "demo");
    seller.say(sell);
    seller.prints("accepted");
    let bought = trade(&venue, "demo2", buy).succeeded();
    assert!(bought.out.contains("accepted") && bought.out.contains("executed"), "{}", bought.out);
    assert!(bought.out.contains("@ 50000"), "at the seller's price: {}", bought.out);
    seller.prints("executed");
    let sold = seller.finish().succeeded();
    assert!(sold.out.contains("@ 50000") && sold.out.contains("0.5"), "{}", sold.out);

    server.kill();
    let server = venue.start();
    let book = trade(&venue, "demo2", "book BTCUSD\n").succeeded();
    let level = book.out.lines().find(|line| line.contains("50000")).unwrap_or_default();
    assert!(level.contains("0.5"), "0.5 is left at 50000: {}", book.out);
    server.terminate();
}

#[test]
fn a_script_hears_each_report_as_an_object() {
    let mut venue = Venue::new(WHOLE_HISTORY);
    let server = venue.start();
    let mut command = ringpit();
    command.args(["trade", "--json"]).arg("--data").arg(venue.data());
    let mut job = Job::talking(command);
    job.say("sell 3 ACME @ 10.50\nbuy 2 ACME @ 10.50\n");
    job.prints("\"cum\":\"2\"");
    job.say("replace 1 2 @ 10.60\ncancel 1\nstatus 1\n");
    let done = job.finish();
    // The status of an order that is gone is a reject, and a line that was not done.
    done.failed(1);
    let objects: Vec<serde_json::Value> =
        done.out.lines().map(|line| serde_json::from_str(line).expect("every line is an object")).collect();
    let kinds: Vec<&str> = objects.iter().filter_map(|object| object["kind"].as_str()).collect();
    // A replace to the quantity that was executed leaves nothing: the answer is a cancel.
    let expected = ["accepted", "accepted", "executed", "executed", "canceled", "rejected", "rejected"];
    assert_eq!(kinds, expected, "{}", done.out);
    assert_eq!(objects.last().expect("a last line")["requests"], 5);
    server.terminate();
}

/// An operator's command that must be done.
#[track_caller]
fn operate(venue: &Venue, arguments: &[&str]) {
    control(venue, arguments).succeeded();
}

/// An operator's command. The options of `ctl` come before its action.
fn control(venue: &Venue, arguments: &[&str]) -> Done {
    let mut command = ringpit();
    command.arg("ctl").arg("--data").arg(venue.data()).args(arguments).env("RINGPIT_NEW_PASSWORD", "secret");
    Job::spawn(command).finish()
}

#[test]
fn users_are_added_disconnected_and_disabled_while_it_runs() {
    let mut venue = Venue::new(WHOLE_HISTORY);
    let server = venue.start();
    let line = trade_as(&venue, "alice", "secret", "buy 1 ACME @ 9\n");
    assert!(line.failed(1).contains("user"), "{}", line.err);
    operate(&venue, &["add-user", "alice", "--session", "50"]);
    let taken = control(&venue, &["add-user", "bob", "--session", "50"]);
    assert!(taken.failed(1).contains("user_exists"), "{}", taken.err);
    trade_as(&venue, "alice", "secret", "buy 1 ACME @ 9\n").succeeded();
    trade_as(&venue, "alice", "wrong", "buy 1 ACME @ 9\n").failed(1);
    // Not an operator.
    let mut command = ringpit();
    command.args(["ctl", "--operator", "alice"]).arg("--data").arg(venue.data()).arg("end-of-day");
    command.env("RINGPIT_PASSWORD", "secret");
    let refused = Job::spawn(command).finish();
    assert!(refused.failed(1).contains("not_authorized"), "{}", refused.err);

    let mut alice = Raw::login(server.ready().native, "alice", "secret", "", 0);
    operate(&venue, &["disconnect", "--session", "50"]);
    assert!(alice.until_closed().contains(&Said::Fact("closing=operator".to_owned())));
    let mut alice = Raw::login(server.ready().native, "alice", "secret", "", 0);
    operate(&venue, &["disable-user", "alice", "--session", "50"]);
    assert!(alice.until_closed().contains(&Said::Fact("closing=operator".to_owned())));
    trade_as(&venue, "alice", "secret", "book ACME\n").failed(1);

    // Users are part of the log: also after a kill.
    server.kill();
    let server = venue.start();
    trade_as(&venue, "alice", "secret", "book ACME\n").failed(1);
    operate(&venue, &["add-user", "alice", "--session", "50"]);
    let status = trade_as(&venue, "alice", "secret", "status 1\n").succeeded();
    assert!(status.out.contains("status 1: buy 1 ACME @ 9"), "the order stayed: {}", status.out);
    operate(&venue, &["mass-cancel", "--session", "50"]);
    server.terminate();
}

#[test]
fn a_halt_stops_orders_and_not_cancels() {
    let mut venue = Venue::new(WHOLE_HISTORY);
    let server = venue.start();
    trade(&venue, "demo", "buy 1 ACME @ 9\n").succeeded();
    operate(&venue, &["halt", "ACME"]);
    // Also for whoever comes after a restart.
    server.kill();
    let server = venue.start();
    let halted = trade(&venue, "demo", "buy 1 ACME @ 9\n");
    halted.failed(1);
    assert!(halted.out.contains("instrument_halted"), "{}", halted.out);
    let canceled = trade(&venue, "demo", "cancel 1\n").succeeded();
    assert!(canceled.out.contains("canceled 1"), "{}", canceled.out);
    operate(&venue, &["resume", "ACME"]);
    trade(&venue, "demo", "buy 1 ACME @ 9\n").succeeded();
    server.terminate();
}

/// Numbers of the reports that a day's session gives from the first one on, and whether it ended with `Z`.
fn day(server: &Server, session: &str, is_current: bool) -> (Vec<u64>, bool) {
    let mut raw = Raw::login(server.ready().native, "demo", &server.password("demo"), session, 1);
    // A day that is over ends by itself.
    if is_current {
        raw.log_out();
    }
    let said = raw.until_closed();
    let numbers =
        said.iter().filter_map(|said| if let Said::Report(number) = said { Some(*number) } else { None });
    (numbers.collect(), said.contains(&Said::EndOfSession))
}

#[test]
fn a_new_day_numbers_from_one_and_the_old_one_can_be_read() {
    let mut venue = Venue::new(WHOLE_HISTORY);
    let server = venue.start();
    trade(&venue, "demo", "buy 1 ACME @ 9 day\nbuy 2 ACME @ 8 gtc\nbuy 3 ACME @ 7 gtc\n").succeeded();
    assert_eq!(day(&server, "0000000001", true), (vec![1, 2, 3], false));
    operate(&venue, &["end-of-day"]);
    let (first, ended) = day(&server, "0000000001", false);
    assert!(
        first.len() >= 4 && first.iter().copied().eq(1..=first.len() as u64) && ended,
        "{first:?} {ended}"
    );
    server.kill();
    let server = venue.start();
    assert_eq!(day(&server, "0000000001", false), (first, true));
    let (second, _) = day(&server, "0000000002", true);
    assert!(second.iter().copied().eq(1..=second.len() as u64), "{second:?}");
    // The day order is gone, the others stand in their places; new reports go on from where the day is.
    let gone = trade(&venue, "demo", "status 1\n");
    gone.failed(1);
    assert!(gone.out.contains("unknown_order"), "{}", gone.out);
    trade(&venue, "demo", "status 2\nstatus 3\n").succeeded();
    let (now, _) = day(&server, "0000000002", true);
    assert_eq!(now.len(), second.len() + 3);
    server.terminate();
}

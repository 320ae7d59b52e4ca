//! The rulebook's second version through the real binary: an operator sets a venue up with `ringpit ctl`, two traders use
//! `ringpit trade`, an observer reads drop copies, and a kill loses nothing of it.

use std::time::{Duration, Instant};

use serde_json::Value;

use crate::harness::{PATIENCE, Venue, WHOLE_HISTORY, ringpit, wait_for};
use crate::tool::{Done, Job};

const INSTRUMENTS: &str =
    "instrument,symbol,price_scale,quantity_scale,tick_size,lot_size,price_min,price_max,quantity_max
70,GOLD,2,0,0.01,1,1,100000,10000
71,FUTURE,0,0,1,1,1,100000,1000
";

/// What an operator and the traders do.
trait Desk {
    fn operate(&self, words: &[&str]) -> Done;
    fn ctl(&self, line: &str) -> Value;
    fn refused(&self, line: &str) -> String;
    fn trade(&self, user: &str, lines: &str) -> String;
    fn balances(&self, account: &str) -> Vec<(String, String)>;
}

impl Desk for Venue {
    /// Runs `ringpit ctl` with its JSON.
    fn operate(&self, words: &[&str]) -> Done {
        let mut command = ringpit();
        command.arg("ctl").arg("--data").arg(self.data()).args(words).arg("--json");
        Job::spawn(command).finish()
    }

    /// An operator's request that must be done. Words are split at spaces; an underscore stands for one within a word.
    #[track_caller]
    fn ctl(&self, line: &str) -> Value {
        let words: Vec<String> = line.split(' ').map(|word| word.replace('_', " ")).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        self.operate(&words).succeeded().json()
    }

    /// An operator's request that must be rejected; gives the reason.
    #[track_caller]
    fn refused(&self, line: &str) -> String {
        let words: Vec<&str> = line.split(' ').collect();
        self.operate(&words).failed(1).to_owned()
    }

    /// What a trader is told for some lines.
    fn trade(&self, user: &str, lines: &str) -> String {
        let mut command = ringpit();
        command.args(["trade", "--user", user]).arg("--data").arg(self.data());
        let mut job = Job::talking(command);
        job.say(lines);
        let done = job.finish();
        format!("{}{}", done.out, done.err)
    }

    /// Totals of an account by currency, and its positions by symbol.
    #[track_caller]
    fn balances(&self, account: &str) -> Vec<(String, String)> {
        let answers = self.ctl(&format!("account {account}"))["answers"].clone();
        let fact = |answer: &Value| {
            let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
            match text("kind").as_str() {
                "balance" => (text("currency"), text("total")),
                _ => (text("symbol"), text("quantity")),
            }
        };
        answers.as_array().expect("a list").iter().map(fact).collect()
    }
}

#[track_caller]
fn has(said: &str, parts: &[&str]) {
    for part in parts {
        assert!(said.contains(part), "no {part:?} in:\n{said}");
    }
}

fn facts(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// Currencies, accounts, rules, fees and limits; a cash and a margin instrument.
fn set_up(venue: &Venue) {
    std::fs::write(venue.path("more.csv"), INSTRUMENTS).expect("the file is written");
    let file = venue.path("more.csv").display().to_string();
    venue.operate(&["add-instruments", "--file", &file]).succeeded();
    for line in [
        "currency USD --scale 2",
        "currency XAU --scale 0",
        "set-rules GOLD --settlement cash --base XAU --quote USD --protection 5 --why first_rules",
        "set-rules FUTURE --settlement margin --quote USD --initial-margin 1000 --maintenance-margin 500",
        "set-ticks GOLD 1:0.01 500:0.05",
        "set-account 100 --participant 7",
        "set-account 200 --participant 8 --self-trade 1:cancel-resting",
        "participant 7 --session 1",
        "participant 8 --session 2",
        "deposit 100 USD 100000.00 --scale 2",
        "deposit 200 XAU 50",
        "deposit 200 USD 1000 --scale 2",
        "withdraw 100 USD 0.01 --scale 2",
        "fees GOLD --taker-ppm 1000",
        "limits 100 --instrument GOLD --quantity 40 --collar 30",
        "throttle --session 2 --orders 1000 --cancels 1000",
        "seed 42",
        "set-price GOLD reference 100",
    ] {
        venue.ctl(line);
    }
    has(&venue.refused("withdraw 200 XAU 51"), &["insufficient_funds"]);
    has(&venue.refused("currency USD --scale 3"), &["account_exists"]);
    has(&venue.refused("deposit 100 USD 5"), &["USD has another number of decimals than --scale 0"]);
    has(&venue.refused("deposit 100 USDX 5"), &["unknown_currency"]);
}

/// An iceberg, fees, limits, a stop, and a future.
fn trade_both(venue: &Venue) {
    has(
        &venue.trade("demo2", "sell 20 GOLD @ 100 account=200 display=5\n"),
        &["accepted 1: sell 20 GOLD @ 100.00", " account 200 display=5\n"],
    );
    let said = venue.trade(
        "demo",
        "buy 7 GOLD @ 100 account=100\nbuy 41 GOLD @ 99 account=100\nbuy 1 GOLD @ 60 account=100\n",
    );
    has(&said, &["executed 1: buy 5 GOLD @ 100.00", "executed 1: buy 2 GOLD @ 100.00", "fee 50", "fee 20"]);
    has(&said, &["position 7 GOLD", "limit_quantity", "price_collar"]);
    // 700.00 and a fee of 0.70; a cent was withdrawn.
    assert_eq!(venue.balances("100"), facts(&[("USD", "9929929"), ("XAU", "7"), ("GOLD", "7")]));
    assert_eq!(venue.balances("0"), facts(&[("USD", "70")]));

    has(&venue.trade("demo2", "buy 5 GOLD @ 95 account=200\n"), &["accepted 2"]);
    let said = venue.trade("demo", "sell 2 GOLD market stop=95 account=100\nsell 1 GOLD @ 95 account=100\n");
    has(&said, &["accepted 4: sell 2 GOLD market", " stop=95.00\n"]);
    has(&said, &["executed 5: sell 1 GOLD @ 95.00", "triggered 4", "executed 4: sell 2 GOLD @ 95.00"]);

    has(&venue.trade("demo2", "sell 2 FUTURE @ 500 account=200\n"), &["accepted 3"]);
    has(&venue.trade("demo", "buy 2 FUTURE @ 500 account=100\n"), &["position 2 FUTURE"]);
    // Far beyond what the seller has.
    venue.ctl("set-price FUTURE mark 100000");
    wait_for("the margin call in the log", || {
        let log = venue.log();
        log.lines()
            .find(|line| line.contains("below its maintenance margin") && line.contains("200"))
            .map(|_| ())
    });
    venue.ctl("set-price FUTURE mark 510");
    let state = venue.ctl("instrument FUTURE")["answers"][0].clone();
    assert_eq!((&state["open_interest"], &state["mark_price"]), (&Value::from("2"), &Value::from("510")));
}

/// A ladder, and the kill switch that takes it out.
fn quote_and_kill(venue: &Venue) {
    let said = venue.trade("demo2", "quote GOLD account=200 bids 1@90 1@89 asks 1@120\nstatus 6\n");
    has(&said, &["quoted 4: bids 2, asks 1", "accepted 4", "accepted 5", "accepted 6", "status 6"]);
    venue.ctl("kill on participant 8 --why runaway_quotes");
    has(&venue.trade("demo2", "buy 1 GOLD @ 90 account=200\n"), &["killed"]);
    venue.ctl("kill off participant 8");
    has(&venue.trade("demo2", "status 6\n"), &["unknown_order"]);
}

/// Orders cross in a call, and a scheduled phase uncrosses them.
fn auction(venue: &Venue) {
    venue.ctl("phase GOLD opening-auction");
    has(&venue.trade("demo2", "sell 3 GOLD @ 98 account=200\n"), &["accepted"]);
    let said = venue
        .trade("demo", "buy 3 GOLD @ 99 account=100 good-for-auction\nbuy 1 GOLD @ 99 account=100 ioc\n");
    has(&said, &["accepted", "not_in_this_phase"]);
    assert!(!said.contains("executed"), "{said}");
    has(
        &venue.trade("demo2", "book GOLD\n"),
        &["GOLD at sequence ", ", opening_auction: 3 @ 99.00 would trade\n"],
    );
    venue.ctl("schedule GOLD +5 continuous");
    let deadline = Instant::now() + PATIENCE;
    let state = loop {
        let state = venue.ctl("instrument GOLD")["answers"][0].clone();
        if state["phase"] == "continuous" || Instant::now() > deadline {
            break state;
        }
        std::thread::sleep(Duration::from_millis(100));
    };
    // Both prices trade the same without a surplus, and the reference is above them.
    assert_eq!((&state["phase"], &state["last_price"]), (&Value::from("continuous"), &Value::from("99.00")));
}

/// Trade 1 was of 5 at 100; trade 2 of 2.
fn bust_and_correct(venue: &Venue) {
    let gold = |balances: &[(String, String)]| {
        let of =
            |name: &str| balances.iter().find(|(of, _)| of == name).map(|(_, total)| total.parse::<i64>());
        (of("XAU").expect("gold").expect("a number"), of("USD").expect("money").expect("a number"))
    };
    let (gold_before, money_before) = gold(&venue.balances("100"));
    venue.ctl("bust 1 --why clearly_erroneous");
    has(&venue.refused("bust 1"), &["unknown_trade"]);
    venue.ctl("correct 2 GOLD 90");
    let (gold_after, money_after) = gold(&venue.balances("100"));
    assert_eq!((gold_before - gold_after, money_after - money_before), (5, 50_050 + 2_000));
}

/// An observer reads what its participant's trader was told, and nothing else.
fn drop_copy(venue: &Venue) {
    std::fs::write(venue.path("watch"), "watching\n").expect("the file is written");
    let password = venue.path("watch").display().to_string();
    let new_user =
        ["add-user", "watch", "--session", "20", "--observer-role", "--new-password-file", &password];
    venue.operate(&new_user).succeeded();
    let read = |session: &str| {
        venue.tool(&[
            "drop-copy",
            "--json",
            "--user",
            "watch",
            "--password-file",
            &password,
            "--session",
            session,
        ])
    };
    has(read("1").failed(1), &["not_allowed"]);
    venue.ctl("participant 7 --session 20");
    let copied = read("1").succeeded().out;
    let numbers = self::copied(venue, "watch", "1");
    assert_eq!(numbers, (1..=numbers.len() as u64).collect::<Vec<_>>(), "without gaps");
    has(&copied, &["\"kind\":\"triggered\"", "\"kind\":\"settled\"", "\"kind\":\"trade_busted\""]);
    has(read("2").failed(1), &["not_allowed"]);
    let mut command = ringpit();
    command.args(["trade", "--user", "watch", "--password-file", &password]).arg("--data").arg(venue.data());
    let mut job = Job::talking(command);
    job.say("buy 1 GOLD @ 90\ncancel all\n");
    assert_eq!(job.finish().out.matches("not_authorized").count(), 2);
}

/// The numbers of a session's reports of the day that a user gets.
fn copied(venue: &Venue, user: &str, session: &str) -> Vec<u64> {
    let mut arguments = vec!["drop-copy", "--json", "--user", user, "--session", session];
    let file = venue.path(user).display().to_string();
    if venue.path(user).exists() {
        arguments.extend(["--password-file", &file]);
    }
    let number = |line: &str| serde_json::from_str::<Value>(line).expect("an object")["report"].as_u64();
    venue.tool(&arguments).succeeded().out.lines().map(|line| number(line).expect("a number")).collect()
}

/// What was set is shown while the server runs, and what `set-rules` sets beyond what it is given is said.
fn settings(venue: &Venue) {
    let all = venue.tool(&["settings"]).succeeded().out;
    for parts in [
        ["put_currency", " currency USD", " scale 2"],
        ["put_user", " name demo2", " role trader"],
        ["set_participant", " of_session 1 ", " participant 7"],
        ["set_throttle", " of_session 2 ", " orders 1000"],
        ["put_account", " account 200 ", " self_trade cancel_resting"],
        ["set_limits", " account 100 ", " quantity 40"],
        ["put_rules", " instrument 70 ", " settlement cash"],
        ["put_tick_table", " instrument 70 ", "[[100,1],[50000,5]]"],
        ["set_fees", " instrument 70 ", " taker_ppm 1000"],
        ["set_price", " instrument 71 ", " price_kind mark"],
    ] {
        let is_there = |line: &&str| parts.iter().all(|part| format!("{line} ").contains(part));
        assert!(all.lines().any(|line| is_there(&line)), "no line with {parts:?} in:\n{all}");
    }
    let accounts = venue.tool(&["settings", "accounts", "--json"]).succeeded().json();
    assert!(accounts["sequence"].as_u64() > Some(0) && accounts.get("users").is_none(), "{accounts}");
    assert_eq!(accounts["accounts"][0]["kind"], "put_account", "{accounts}");
    let said = venue.operate(&["set-rules", "FUTURE", "--settlement", "none", "--show"]).succeeded().out;
    has(
        &said,
        &["put_rules", " settlement none", "not given, so as of an instrument without rules: allocation, "],
    );
    has(&said, &["random-end-ms, base, quote, initial-margin, maintenance-margin"]);
}

#[test]
fn a_venue_is_set_up_traded_and_watched_with_the_tools() {
    let mut venue = Venue::new(WHOLE_HISTORY);
    let server = venue.start();
    // A new venue begins with the newest rules: all of this needs them.
    set_up(&venue);
    trade_both(&venue);
    quote_and_kill(&venue);
    auction(&venue);
    bust_and_correct(&venue);
    drop_copy(&venue);
    settings(&venue);
    venue.ctl("participant 7 --session 2");
    let other_lives = copied(&venue, "admin", "2");
    assert!(!other_lives.is_empty() && copied(&venue, "watch", "2").is_empty());
    has(&venue.trade("demo2", "buy 1 GOLD @ 80 account=100\n"), &["accepted"]);
    let before = (venue.balances("100"), venue.balances("200"), venue.balances("0"));
    server.kill();
    let server = venue.start();
    assert_eq!((venue.balances("100"), venue.balances("200"), venue.balances("0")), before);
    // The observer knows that since when, also after a start.
    let all = copied(&venue, "admin", "2");
    assert!(all.len() > other_lives.len());
    assert_eq!(copied(&venue, "watch", "2"), all[other_lives.len()..]);
    server.terminate();
    let shown = venue.tool(&["journal", "show"]).succeeded().out;
    has(
        &shown,
        &["put_rules", "why \"first rules\"", "kill on true", "why \"runaway quotes\"", "mass_quote"],
    );
}

#[test]
fn a_calendar_is_scheduled_again_and_again() {
    let mut venue = Venue::new(WHOLE_HISTORY);
    let server = venue.start();
    let calendar = r#"
        time_zone = "Asia/Tokyo"
        weekdays = ["monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"]
        [[hours]]
        instruments = ["BTCUSD"]
        phases = [{ at = "09:00", phase = "continuous" }, { at = "15:00", phase = "closed" }]
    "#;
    std::fs::write(venue.path("calendar.toml"), calendar).expect("the file is written");
    let file = venue.path("calendar.toml").display().to_string();
    let shown = venue.operate(&["calendar", &file, "--days", "3", "--show"]).succeeded().out;
    let opens = shown.lines().filter(|line| line.contains("T00:00:00") && line.ends_with("continuous"));
    assert!((2..=3).contains(&opens.count()), "{shown}");
    for _ in 0..2 {
        let done = venue.operate(&["calendar", &file, "--days", "3"]).succeeded().json();
        assert_eq!(done["done"].as_u64(), Some(1 + shown.lines().count() as u64));
    }
    server.terminate();
}

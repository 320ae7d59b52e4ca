//! The commands that look at a data directory: beside a running server, after it, and on a damaged one.

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::process::{Command, Output, Stdio};

use client::Outcome;
use protocol::{Body, InstrumentId, Price, Quantity, Side};
use serde_json::Value;

use crate::harness::{Home, Running, complaint, last_json, ringpit, wait};

const ACME: InstrumentId = InstrumentId(4);

/// Trades a little, so that there is something to look at.
fn trade(server: &Running) {
    let mut seller = server.login("demo");
    let mut buyer = server.login("demo2");
    for at in 0..20 {
        let order = |side, price| Body::NewOrder(client::limit(ACME, side, Quantity(5), Price(price)));
        let (_, outcome, _) = seller.ask(order(Side::Sell, 1_000 + at));
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
        let (_, outcome, _) = buyer.ask(order(Side::Buy, 990 + at));
        assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    }
}

/// Runs a command on a home that must succeed; gives its object.
#[track_caller]
fn ask(home: &Home, command: &[&str]) -> Value {
    let data = home.data_text();
    let arguments = [command, &["--data", &data, "--json"]].concat();
    let output = ringpit(&arguments);
    assert!(output.status.success(), "{command:?}: {}", complaint(&output));
    last_json(&output)
}

/// Runs a command on a home that must fail with status 1; gives what it says.
#[track_caller]
fn refused(home: &Home, command: &[&str]) -> String {
    let data = home.data_text();
    let output = ringpit(&[command, &["--data", &data]].concat());
    assert_eq!(output.status.code(), Some(1), "{command:?}: {}", complaint(&output));
    complaint(&output)
}

#[test]
fn a_live_directory_can_be_looked_at_and_snapshots_agree_with_the_replay() {
    let home = Home::new();
    let server = home.start(&[]);
    trade(&server);
    assert_eq!(ask(&home, &["journal", "verify"])["valid"], true);
    let live = ask(&home, &["replay"]);
    assert_eq!(live["trades"], 10);
    // A snapshot goes up to a checkpoint, which a tick brings every second.
    let mut made = Value::Null;
    for _ in 0..100 {
        let data = home.data_text();
        let output = ringpit(&["snapshot", "make", "--data", &data, "--json"]);
        if output.status.success() {
            made = last_json(&output);
            if made["sequence"].as_u64() > Some(40) {
                break;
            }
        } else {
            assert!(complaint(&output).contains("no checkpoint"), "{}", complaint(&output));
        }
        std::thread::sleep(std::time::Duration::from_millis(200));
    }
    let sequence = made["sequence"].as_u64().expect("a snapshot was made").to_string();
    let at_snapshot = ask(&home, &["replay", "--to", &sequence]);
    let verified = ask(&home, &["snapshot", "verify"]);
    for name in ["sequence", "running_hash", "state_hash", "book_hash"] {
        assert_eq!(verified[name], at_snapshot[name], "{name}");
    }
    assert_eq!(made["running_hash"], at_snapshot["running_hash"]);
    assert_eq!(verified["outcome_hash"], Value::Null);
    assert!(at_snapshot["outcome_hash"].is_string());
    assert_eq!(server.terminate(), Some(0), "{}", home.log());

    let (whole, behind) = (ask(&home, &["replay"]), ask(&home, &["replay", "--from-snapshot"]));
    for name in ["sequence", "running_hash", "state_hash", "book_hash", "open_orders"] {
        assert_eq!(whole[name], behind[name], "{name}");
    }
    assert_eq!(behind["outcome_hash"], Value::Null);
    assert_eq!(whole["book_hash"], live["book_hash"]);
    assert_eq!(whole["outcome_hash"], live["outcome_hash"]);
    let stat = ask(&home, &["journal", "stat"]);
    assert_eq!((&stat["last_sequence"], &stat["clean_stop"]), (&whole["sequence"], &true.into()));
    let dumped = ask(&home, &["journal", "dump", "--from", "2", "--to", "4"]);
    assert_eq!(dumped["shown"], 3);
    // While no server runs, the command makes the snapshot itself.
    for entry in std::fs::read_dir(home.data().join("snapshots")).expect("the folder") {
        std::fs::remove_file(entry.expect("an entry").path()).expect("removed");
    }
    let offline = ask(&home, &["snapshot", "make"]);
    assert!(offline["sequence"].as_u64() >= made["sequence"].as_u64(), "{offline}");
    assert_eq!(ask(&home, &["snapshot", "list"])["snapshots"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_backup_of_a_live_server_is_a_data_directory() {
    let home = Home::new();
    let server = home.start(&[]);
    trade(&server);
    let backup = home.path("backup").display().to_string();
    let copied = ask(&home, &["backup", "--to", &backup]);
    let text = refused(&home, &["backup", "--to", &backup]);
    assert!(text.contains("is not empty"), "{text}");
    server.kill();

    let output = ringpit(&["restore", "--from", &backup, "--check", "--json"]);
    assert!(output.status.success(), "{}", complaint(&output));
    let checked = last_json(&output);
    assert_eq!(checked["sequence"], copied["last_sequence"]);
    let sequence = checked["sequence"].to_string();
    let original = ask(&home, &["replay", "--to", &sequence]);
    for name in ["running_hash", "state_hash", "book_hash", "open_orders"] {
        assert_eq!(checked[name], original[name], "{name}");
    }
    let restored = Home::new();
    let output = ringpit(&["restore", "--from", &backup, "--to", &restored.data_text()]);
    assert!(output.status.success(), "{}", complaint(&output));
    // It trades on, with new demonstration passwords.
    let server = restored.start(&[]);
    trade(&server);
    assert_eq!(server.terminate(), Some(0), "{}", restored.log());
    let whole = ask(&restored, &["replay"]);
    assert_eq!(whole["trades"], 20, "{whole}");
}

#[test]
fn a_damaged_journal_is_refused_named_and_cut_only_when_told() {
    let home = Home::new();
    let server = home.start(&[]);
    trade(&server);
    assert_eq!(server.terminate(), Some(0), "{}", home.log());
    let stat = ask(&home, &["journal", "stat"]);
    assert_eq!(ask(&home, &["journal", "cut"])["damaged"], false);
    // A bit of the batch that holds frame 20; what pads a batch to its block may change without harm.
    let data = home.data_text();
    let dumped =
        ringpit(&["journal", "dump", "--data", &data, "--batches", "--json", "--from", "20", "--to", "20"]);
    let text = String::from_utf8(dumped.stdout).expect("text");
    let batch: Value = serde_json::from_str(text.lines().next().expect("a batch")).expect("an object");
    assert!(batch["batch"].is_string(), "{batch}");
    let offset = batch["offset"].as_u64().expect("an offset") + 70;
    let path = home.data().join("journal/segment-0000000001");
    let file = std::fs::File::options().read(true).write(true).open(&path).expect("the segment");
    let mut byte = [0];
    file.read_exact_at(&mut byte, offset).expect("read");
    file.write_all_at(&[byte[0] ^ 1], offset).expect("written");

    let text = refused(&home, &["journal", "verify"]);
    assert!(
        text.contains("journal/segment-0000000001: offset ") && text.contains("`ringpit journal cut`"),
        "{text}"
    );
    let text = refused(&home, &["serve", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]);
    assert!(
        text.lines().last().is_some_and(|line| line.contains("journal/segment-0000000001: offset ")),
        "{text}"
    );
    let text = refused(&home, &["journal", "cut"]);
    assert!(text.contains("was not cut"), "{text}");
    assert_eq!(ask(&home, &["journal", "cut", "--yes"])["cut"], true);
    let left = ask(&home, &["journal", "verify"]);
    assert!(left["last_sequence"].as_u64() < stat["last_sequence"].as_u64(), "{left}");
}

#[test]
fn low_disk_space_stops_orders_and_not_cancels() {
    let home = Home::new();
    let server = home.start(&[]);
    let mut trader = server.login("demo");
    let order = || Body::NewOrder(client::limit(ACME, Side::Buy, Quantity(5), Price(100)));
    let (id, outcome, _) = trader.ask(order());
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    assert_eq!(server.terminate(), Some(0), "{}", home.log());

    // A reserve of twice what is free: too little for orders, and more than the quarter below which nothing is taken.
    let space = rustix::fs::statvfs(home.path("")).expect("the disk tells");
    let reserve_mib = (2 * ((space.f_bavail * space.f_frsize) >> 20)).min(1 << 20);
    let config = home.path("ringpit.toml");
    std::fs::write(&config, format!("[journal]\nreserve_mib = {reserve_mib}\n")).expect("written");
    let server = home.start(&["--config", &config.display().to_string()]);
    server.get_until_status("/readyz", 503);
    assert_eq!(server.get("/readyz").1, "disk space low: only cancels are taken\n");
    let mut trader = server.login("demo");
    let (_, outcome, _) = trader.ask(order());
    assert_eq!(outcome, Outcome::Refused(protocol::RefuseReason::DiskFull));
    let (_, outcome, _) = trader.ask(client::cancel(protocol::ClientOrderId(id.0)));
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    let output = ringpit(&["status", "--data", &home.data_text()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(complaint(&output).contains("disk space low"), "{}", complaint(&output));
    assert_eq!(server.terminate(), Some(0), "{}", home.log());
}

/// Runs an operator's command; gives its exit status and what it says.
fn control(home: &Home, command: &[&str]) -> (Option<i32>, String) {
    let output = ringpit(&[&["ctl", "--data", &home.data_text()], command].concat());
    (output.status.code(), complaint(&output))
}

#[test]
fn an_unknown_user_is_not_disabled_and_not_created() {
    let home = Home::new();
    let server = home.start(&[]);
    let mut trader = server.login("demo");
    // Had the first try created it, the second would find it.
    for _ in 0..2 {
        let (status, said) = control(&home, &["disable-user", "typo", "--session", "77"]);
        assert!(status == Some(1) && said.contains("there is none"), "{said}");
    }
    let password = home.path("password");
    std::fs::write(&password, "secret\n").expect("written");
    let password = password.display().to_string();
    let done = (Some(0), String::new());
    let added = control(&home, &["add-user", "typo", "--session", "77", "--new-password-file", &password]);
    assert_eq!(added, done);
    // With somebody else's session nothing happens to anybody.
    let (status, said) = control(&home, &["disable-user", "demo", "--session", "77"]);
    assert!(status == Some(1) && said.contains("user_exists"), "{said}");
    let (_, outcome, _) =
        trader.ask(Body::NewOrder(client::limit(ACME, Side::Buy, Quantity(5), Price(1_000))));
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    assert_eq!(control(&home, &["disable-user", "typo", "--session", "77"]), done);
    assert_eq!(server.terminate(), Some(0), "{}", home.log());
}

#[test]
fn capacities_are_set_all_or_not_at_all() {
    let home = Home::new();
    let server = home.start(&[]);
    let (status, said) = control(&home, &["set-capacities", "--orders", "5000"]);
    assert!(status == Some(2) && said.contains("--levels"), "{said}");
    let mut all = vec!["set-capacities"];
    for name in ["--orders", "--levels", "--cl-ord-ids", "--sessions", "--instruments"] {
        all.extend([name, "5000"]);
    }
    assert_eq!(control(&home, &all), (Some(0), String::new()));
    assert_eq!(server.terminate(), Some(0), "{}", home.log());
}

#[test]
fn the_rulebook_is_switched_to_what_the_server_knows_only() {
    let home = Home::new();
    let server = home.start(&[]);
    // A new venue began with it.
    let done = (Some(0), String::new());
    for _ in 0..2 {
        assert_eq!(control(&home, &["rulebook", "2"]), done);
    }
    let refused = [
        (Some(1), "version 3: this server knows it up to version 2; nothing was logged", "3"),
        (Some(1), "rulebook version 1: rejected: rulebook_lower", "1"),
        (Some(2), "invalid value", "newest"),
    ];
    for (expected, what, version) in refused {
        let (status, said) = control(&home, &["rulebook", version]);
        assert!(status == expected && said.contains(what), "{version}: {status:?} {said}");
    }
    let (status, said) = control(&home, &["--address", "127.0.0.1:1", "rulebook", "2"]);
    assert!(status == Some(2) && said.contains("leave --address out"), "{said}");
    // Whoever doesn't ask before comes no further.
    let (_, outcome, _) = server.login("admin").ask(Body::SetRulebook(3));
    assert_eq!(outcome, Outcome::Refused(protocol::RefuseReason::RulebookUnknown));
    // The page is renewed now and then.
    let status = wait("the rules in force on the status page", || {
        let status: Value = serde_json::from_str(&server.get("/status").1).expect("a status");
        (status["rulebook"] != 1).then_some(status)
    });
    assert_eq!((&status["rulebook"], &status["rulebook_known"]), (&Value::from(2), &Value::from(2)));
    assert_eq!(server.terminate(), Some(0), "{}", home.log());
    let (status, said) = control(&home, &["rulebook", "2"]);
    assert!(status == Some(1) && said.contains("no server runs on"), "{said}");
}

#[test]
fn a_flow_can_be_sent_again_into_the_books_it_left() {
    let home = Home::new();
    let server = home.start(&[]);
    let flow = ["flow", "--generate", "1", "--rows", "2000"];
    let first = ask(&home, &flow);
    assert_eq!((&first["foreign_reports"], &first["answered"]), (&Value::from(0), &Value::from(2000)));
    assert!(first["resting"].as_u64() > Some(0), "{first}");
    // The orders that rest from the first run trade in the second, and are none of its own.
    let second = ask(&home, &flow);
    assert!(second["foreign_reports"].as_u64() > Some(0), "{second}");
    assert_eq!(second["inconsistent_reports"], 0);
    assert_eq!(server.terminate(), Some(0), "{}", home.log());
}

/// Runs `trade` with the lines as its input.
fn trade_lines(home: &Home, lines: &[u8]) -> Output {
    let mut trade = Command::new(env!("CARGO_BIN_EXE_ringpit"))
        .args(["trade", "--data", &home.data_text()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    trade.stdin.take().expect("a pipe").write_all(lines).expect("written");
    trade.wait_with_output().expect("ended")
}

#[test]
fn a_line_that_is_no_text_fails_and_the_next_ones_are_done() {
    let home = Home::new();
    let server = home.start(&[]);
    let output = trade_lines(&home, b"buy 1 ACME @ 5\n\xff bad\n\x1b[2J\nbuy 1 ACME @ 6\nbook ACME\n");
    let (out, said) = (String::from_utf8_lossy(&output.stdout), complaint(&output));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("a line is not UTF-8 text") && said.contains("2 lines were not done"), "{said}");
    assert!(!said.contains('\u{1b}') && said.contains("`\\u{1b}[2J`"), "{said}");
    let accepted = |out: &str| out.matches("accepted").count();
    assert_eq!(accepted(&out), 2, "{out}");
    // The book comes after the answers to all lines before it.
    let before = out.split("ACME at sequence").next().map(accepted);
    assert!(before == Some(2) && out.contains("at sequence"), "{out}");
    assert_eq!(server.terminate(), Some(0), "{}", home.log());
}

/// Starts `load` on a home with what it prints kept.
fn load(home: &Home, more: &[&str]) -> std::process::Child {
    Command::new(env!("CARGO_BIN_EXE_ringpit"))
        .args(["load", "--instrument", "ACME", "--json", "--data", &home.data_text()])
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started")
}

#[test]
fn a_load_whose_server_goes_tells_what_it_measured() {
    let home = Home::new();
    let server = home.start(&[]);
    let outcomes = home.path("outcomes");
    let name = outcomes.display().to_string();
    let running = load(&home, &["--rate", "2000", "--seconds", "60", "--outcomes", &name]);
    // Outcomes reach the file by the buffer: some are there before the server goes.
    for _ in 0..3_000 {
        if std::fs::metadata(&outcomes).is_ok_and(|file| file.len() > 0) {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    server.kill();
    let output = running.wait_with_output().expect("ended");
    assert_eq!(output.status.code(), Some(1), "{}", complaint(&output));
    let measured = last_json(&output);
    assert_eq!(measured["complete"], false);
    assert!(measured["acked"].as_u64() > Some(0), "{measured}");
}

#[test]
fn a_load_whose_files_cannot_be_written_does_not_begin() {
    let home = Home::new();
    for option in ["--histogram", "--outcomes"] {
        let output = load(&home, &[option, "/nonexistent/file"]).wait_with_output().expect("ended");
        let said = complaint(&output);
        assert!(output.status.code() == Some(1) && said.contains("/nonexistent/file"), "{said}");
    }
}

//! A server's life: it trades, answers about itself, stops, and comes back with the same books.

use std::net::TcpListener;
use std::process::{Command, Stdio};
use std::time::Duration;

use client::Outcome;
use protocol::{Body, Event, InstrumentId, Price, Quantity, Side};
use server::ready::Ready;

use crate::harness::{Home, Trader, complaint, is_there, last_json, ringpit, wait};

/// The demonstration instrument ACME.
const ACME: InstrumentId = InstrumentId(4);

fn order(side: Side, quantity: u64, price: i64) -> Body {
    Body::NewOrder(client::limit(ACME, side, Quantity(quantity), Price(price)))
}

fn accepted(trader: &mut Trader, body: Body) -> protocol::RequestId {
    let (id, outcome, _) = trader.ask(body);
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    id
}

#[test]
fn it_trades_and_keeps_the_books_over_a_stop_and_a_kill() {
    let home = Home::new();
    let server = home.start(&[]);
    let mut seller = server.login("demo");
    let mut buyer = server.login("demo2");
    let resting = accepted(&mut seller, order(Side::Sell, 10, 10_000));
    accepted(&mut buyer, order(Side::Buy, 4, 10_100));
    let Event::Executed(bought) = buyer.report().output.event else { panic!("an execution") };
    let Event::Executed(sold) = seller.report().output.event else { panic!("an execution") };
    assert_eq!(
        (bought.last_price, bought.last_quantity, bought.trade_id),
        (Price(10_000), Quantity(4), sold.trade_id)
    );
    drop((seller, buyer));
    assert_eq!(server.terminate(), Some(0), "{}", home.log());
    assert!(!is_there(&home.path("ready")) && !is_there(&home.data().join("ready.json")));

    // After the clean stop the rest of the order is there, and goes on trading.
    let server = home.start(&[]);
    assert!(server.ready().recovered_sequence > 0);
    let mut buyer = server.login("demo2");
    accepted(&mut buyer, order(Side::Buy, 1, 10_000));
    let Event::Executed(bought) = buyer.report().output.event else { panic!("an execution") };
    assert_eq!((bought.last_price, bought.last_quantity), (Price(10_000), Quantity(1)));
    server.kill();

    // And after a kill.
    let server = home.start(&[]);
    let mut seller = server.login("demo");
    let (_, outcome, reports) = seller.ask(client::cancel(protocol::ClientOrderId(resting.0)));
    assert!(matches!(outcome, Outcome::Done(_)), "{outcome:?}");
    let Some(Event::Canceled(canceled)) = reports.last().map(|report| report.output.event) else {
        panic!("a cancel, not {reports:?}")
    };
    assert_eq!((canceled.canceled_quantity, canceled.cum_quantity), (Quantity(5), Quantity(5)));
    assert_eq!(server.terminate(), Some(0), "{}", home.log());
}

#[test]
fn it_answers_about_itself() {
    let home = Home::new();
    let server = home.start(&[]);
    assert_eq!(server.get("/livez"), (200, "live\n".to_owned()));
    assert_eq!(server.get("/readyz"), (200, "ready\n".to_owned()));
    assert_eq!(server.get("/nothing").0, 404);
    let mut trader = server.login("demo");
    let (_, outcome, _) = trader.ask(order(Side::Buy, 0, 1));
    assert!(matches!(outcome, Outcome::Rejected(..)), "{outcome:?}");
    // The counts of what the exchange holds are of the last tick.
    server.get_with(
        "/metrics",
        &[
            "ringpit_ready 1",
            "ringpit_rejects_total{reason=\"quantity_zero\"} 1",
            "ringpit_instruments 5",
            "ringpit_connections 1",
            "ringpit_logged_in_connections 1",
        ],
    );
    let output = ringpit(&["status", "--data", &home.data_text(), "--json"]);
    assert!(output.status.success(), "{}", complaint(&output));
    let status = last_json(&output);
    assert_eq!((&status["ready"], &status["phase"]), (&true.into(), &"serving".into()));
    assert_eq!(status["durability"], "disk");
}

#[test]
fn a_directory_has_one_server() {
    let home = Home::new();
    let server = home.start(&[]);
    let arguments =
        ["serve", "--data", &home.data_text(), "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let output = ringpit(&arguments);
    assert_eq!(output.status.code(), Some(1));
    let text = complaint(&output);
    let expected = format!("is in use by process {}", server.ready().process);
    assert!(text.lines().last().is_some_and(|line| line.contains(&expected)), "{text}");
    // The first one is not disturbed.
    assert_eq!(server.get("/readyz").0, 200);
    assert!(is_there(&home.data().join("ready.json")));
}

/// A killed process may have its port for a while yet.
#[test]
fn a_predecessor_on_its_way_out_is_waited_for() {
    let home = Home::new();
    home.start(&[]).terminate();
    let dying = TcpListener::bind("127.0.0.1:0").expect("a port");
    let http = dying.local_addr().expect("its address");
    let file = home.data().join("ready.json");
    let durability = "disk".to_owned();
    let ready = Ready {
        process: 1,
        native: http,
        http,
        data: home.data(),
        durability,
        recovered_sequence: 0,
        member: None,
    };
    ready.write(&file).expect("written");
    let mut child = Command::new(env!("CARGO_BIN_EXE_ringpit"))
        .args(["serve", "--listen", "127.0.0.1:0", "--http", &http.to_string(), "--data", &home.data_text()])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .expect("the binary starts");
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().expect("asked").is_none(), "it waits");
    drop(dying);
    let process = child.id();
    let ready =
        wait("the server", || Ready::read(&file).expect("whole").filter(|ready| ready.process == process));
    assert_eq!(ready.http, http);
    child.kill().expect("killed");
    child.wait().expect("reaped");
}

/// The first signal asks for a clean stop and the second ends the process: here both come together, so that either may
/// win, and the next start finds the books as they were.
#[test]
fn a_second_signal_ends_it_at_once() {
    let home = Home::new();
    let server = home.start(&[]);
    let mut trader = server.login("demo");
    accepted(&mut trader, order(Side::Buy, 3, 100));
    let status = server.terminate_twice();
    assert!(matches!(status, Some(0 | 1)), "{status:?}");
    let server = home.start(&[]);
    server.get_with("/metrics", &["ringpit_open_orders 1"]);
}

#[test]
fn passwords_are_checked() {
    let home = Home::new();
    let server = home.start(&[]);
    let user = protocol::UserName::new("demo").expect("a name");
    let password = client::Password::new("wrong").expect("a password");
    let config = client::ClientConfig::new(server.ready().native.to_string(), user, password);
    let error = client::Client::connect(config, std::time::Duration::from_secs(10)).expect_err("refused");
    assert!(matches!(error, client::ClientError::Login(..)), "{error:?}");
}

/// The instruments file says more, and otherwise, at the second start.
#[test]
fn instruments_are_added_and_never_changed() {
    const HEADER: &str =
        "instrument,symbol,price_scale,quantity_scale,tick_size,lot_size,price_min,price_max,quantity_max";
    let home = Home::new();
    let config = home.path("ringpit.toml");
    std::fs::write(&config, "[instruments]\nfile = 'list.csv'\n").expect("written");
    let with_config = ["--config", &config.display().to_string()];
    let list =
        |lines: &str| std::fs::write(home.path("list.csv"), format!("{HEADER}\n{lines}")).expect("written");
    list("4,A,2,0,0.01,1,0,1000,1000\n");
    assert_eq!(home.start(&with_config).terminate(), Some(0), "{}", home.log());
    list("4,A,2,0,0.05,1,0,1000,1000\n7,B,2,0,0.01,1,0,1000,1000\n");
    let server = home.start(&with_config);
    let log = home.log();
    assert!(log.contains("instrument 4 (A): the file says tick_size 5, the log has tick_size 1"), "{log}");
    server.get_with("/metrics", &["ringpit_instruments 2"]);
    let mut trader = server.login("demo");
    accepted(&mut trader, order(Side::Buy, 1, 101));
    assert_eq!(server.terminate(), Some(0), "{}", home.log());
}

/// What was a demonstration must not stay open once the server is meant for more.
#[test]
fn demonstration_users_are_disabled_when_an_operator_is_named() {
    let home = Home::new();
    let server = home.start(&[]);
    let mut trader = server.login("demo");
    accepted(&mut trader, order(Side::Buy, 1, 100));
    let kept = server::passwords::Passwords::load(&home.data()).expect("passwords").expect("there");
    assert_eq!(server.terminate(), Some(0), "{}", home.log());

    let config = home.path("ringpit.toml");
    let users = "[users]\ndemonstration = false\noperator = 'ops'\noperator_password_file = 'ops.password'\n";
    std::fs::write(&config, users).expect("written");
    let arguments = ["serve", "--config", &config.display().to_string(), "--data", &home.data_text()];
    let output = ringpit(&[&arguments[..], &["--listen", "127.0.0.1:0", "--http", "127.0.0.1:0"]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", complaint(&output));
    assert!(complaint(&output).contains("ops.password: is not there"), "{}", complaint(&output));

    std::fs::write(home.path("ops.password"), "s3cret\n").expect("written");
    let server = home.start(&["--config", &config.display().to_string()]);
    assert!(!is_there(&home.data().join(server::passwords::DEMONSTRATION_FILE)));
    let login = |name: &str, password: &str| {
        let user = protocol::UserName::new(name).expect("a name");
        let password = client::Password::new(password).expect("a password");
        let config = client::ClientConfig::new(server.ready().native.to_string(), user, password);
        client::Client::connect(config, std::time::Duration::from_secs(10)).map(drop)
    };
    let demo = protocol::UserName::new("demo").expect("a name");
    let refused = login("demo", kept.of(&demo).expect("its password"));
    assert!(matches!(refused, Err(client::ClientError::Login(..))), "{refused:?}");
    login("ops", "s3cret").expect("the operator logs in");
    assert_eq!(server.terminate(), Some(0), "{}", home.log());

    // The file may go; one that says otherwise is the way back in.
    std::fs::remove_file(home.path("ops.password")).expect("removed");
    let with_config = ["--config", &config.display().to_string()];
    assert_eq!(home.start(&with_config).terminate(), Some(0), "{}", home.log());
    std::fs::write(home.path("ops.password"), "an0ther\n").expect("written");
    let server = home.start(&with_config);
    assert!(home.log().contains("it had another password"), "{}", home.log());
    let ops = protocol::UserName::new("ops").expect("a name");
    let password = client::Password::new("an0ther").expect("a password");
    let config = client::ClientConfig::new(server.ready().native.to_string(), ops, password);
    client::Client::connect(config, std::time::Duration::from_secs(10)).map(drop).expect("it is back in");
    assert_eq!(server.terminate(), Some(0), "{}", home.log());
}

//! A server's life: it trades, answers about itself, stops, and comes back with the same books.

use client::Outcome;
use protocol::{Body, Event, InstrumentId, Price, Quantity, Side};

use crate::harness::{Home, Trader, complaint, is_there, last_json, ringpit};

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

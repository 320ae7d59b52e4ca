//! Real order flow: a part of the Bitstamp half hour, sent twice into empty venues, gives the same books and the same
//! outcomes, however much of it is in flight at a time. The data is in `../shared/data` beside the repository, or in the
//! folder that RINGPIT_DATA names; RINGPIT_ROWS sends more of it.

use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::harness::{Venue, WHOLE_HISTORY};
use crate::truth::Truth;

const ORDERS: &str = "bitstamp_btcusd_orders.csv.gz";
const TRADES: &str = "bitstamp_btcusd_trades.csv.gz";
const ROWS: u64 = 20_000;

/// The folder of the data, where there is one.
fn data() -> Option<PathBuf> {
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let folder = std::env::var_os("RINGPIT_DATA").map_or(beside, PathBuf::from);
    folder.join(ORDERS).is_file().then_some(folder)
}

/// Sends the feed into an empty venue; gives what the client and what the journal's replay have to say.
fn flow(folder: &Path, rows: &str, window: &str) -> (Value, Value) {
    let mut venue = Venue::new(WHOLE_HISTORY);
    let server = venue.start();
    let file = |name: &str| folder.join(name).display().to_string();
    let (orders, trades) = (file(ORDERS), file(TRADES));
    let sent = venue.ask(&["flow", &orders, "--trades", &trades, "--rows", rows, "--window", window]);
    server.terminate();
    let truth = Truth::read(venue.data()).expect("engine and oracle agree on the journal");
    truth.check_report_files(venue.data()).expect("the report files are those of the journal");
    (sent, venue.ask(&["replay"]))
}

#[test]
fn the_same_feed_gives_the_same_books_and_outcomes() {
    let Some(folder) = data() else {
        println!("SKIPPED: {ORDERS} is neither in ../shared/data nor in the folder that RINGPIT_DATA names");
        return;
    };
    let rows = std::env::var("RINGPIT_ROWS").unwrap_or_else(|_| ROWS.to_string());
    let (wide, replayed) = flow(&folder, &rows, "4096");
    let (narrow, replayed_again) = flow(&folder, &rows, "37");
    assert_eq!((&wide["answered"], &wide["answered_twice"]), (&wide["rows"], &0.into()), "{wide}");
    for name in ["rows", "answered", "trades", "resting", "book_hash", "outcome_hash", "comparison"] {
        assert!(!wide[name].is_null(), "{name}: {wide}");
        assert_eq!(wide[name], narrow[name], "{name}");
    }
    // The books that the client makes of its reports are those of the engine.
    for (sent, replayed) in [(&wide, &replayed), (&narrow, &replayed_again)] {
        assert_eq!(sent["book_hash"], replayed["book_hash"]);
        assert_eq!(sent["resting"], replayed["open_orders"]);
    }
    println!(
        "bitstamp: {} rows, {} trades, {} resting, book {}, outcomes {}",
        wide["rows"], wide["trades"], wide["resting"], wide["book_hash"], wide["outcome_hash"]
    );
}

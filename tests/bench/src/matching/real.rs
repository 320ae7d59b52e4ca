//! Feeds of real venues as requests, where the data lies beside the repository.

use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use book::Request;
use flate2::read::GzDecoder;
use protocol::{ClientOrderId, Price, Side};

use super::Flow;

/// The flows of the feeds that are there; of each that isn't, a line says so.
pub(super) fn flows() -> Vec<Flow> {
    let bitstamp = lines("bitstamp_btcusd_orders.csv.gz").map(|lines| flow("bitstamp", bitstamp(lines)));
    let lobster = lines("lobster_amzn_messages.csv.gz").map(|lines| flow("lobster", lobster(lines)));
    [bitstamp, lobster].into_iter().flatten().collect()
}

fn flow(name: &str, requests: Vec<Request>) -> Flow {
    Flow { name: format!("real-{name}"), books: 1, before: Vec::new(), requests }
}

fn lines(name: &str) -> Option<impl Iterator<Item = Vec<String>>> {
    let folder =
        std::env::var_os("RINGPIT_DATA").map_or_else(|| PathBuf::from("../shared/data"), PathBuf::from);
    let path = folder.join(name);
    match std::fs::File::open(&path) {
        Ok(file) => {
            let lines = BufReader::new(GzDecoder::new(file)).lines();
            Some(lines.map_while(Result::ok).map(|line| line.split(',').map(str::to_owned).collect()))
        }
        Err(error) => {
            eprintln!("core/real-*: skipped: {}: {error}", path.display());
            None
        }
    }
}

/// A quantity of at least a lot.
fn lots(quantity: f64) -> u32 {
    (quantity.round() as u32).max(1)
}

/// Rows of created, changed and deleted orders; ticks are cents, lots a millionth.
fn bitstamp(rows: impl Iterator<Item = Vec<String>>) -> Vec<Request> {
    rows.skip(1)
        .filter_map(|row| {
            let order = ClientOrderId(row.first()?.parse().ok()?);
            let price = Price((row.get(3)?.parse::<f64>().ok()? * 100.0).round() as i64);
            let quantity = lots(row.get(4)?.parse::<f64>().ok()? * 1e6);
            let side = if row.get(6)? == "bid" { Side::Buy } else { Side::Sell };
            Some(match row.get(5)?.as_str() {
                "created" => Request::New { book: 0, order, side, price, quantity, immediate: false },
                "changed" => Request::Modify { order, price, quantity },
                _ => Request::Cancel { order },
            })
        })
        .collect()
}

/// Messages of a level-1 feed: an execution is made by an immediate order of the other side.
fn lobster(rows: impl Iterator<Item = Vec<String>>) -> Vec<Request> {
    let mut open: HashMap<u64, u32> = HashMap::new();
    let mut takers = 1 << 60;
    rows.filter_map(|row| {
        let id: u64 = row.get(2)?.parse().ok()?;
        let order = ClientOrderId(id);
        let quantity = lots(row.get(3)?.parse::<f64>().ok()?);
        let price = Price(row.get(4)?.parse().ok()?);
        let side = if row.get(5)? == "1" { Side::Buy } else { Side::Sell };
        match row.get(1)?.as_str() {
            "1" => {
                open.insert(id, quantity);
                Some(Request::New { book: 0, order, side, price, quantity, immediate: false })
            }
            "2" => {
                let left = open.get_mut(&id)?;
                *left = left.saturating_sub(quantity).max(1);
                Some(Request::Modify { order, price, quantity: *left })
            }
            "3" => Some(Request::Cancel { order }),
            "4" => {
                takers += 1;
                let (order, side) = (ClientOrderId(takers), side.opposite());
                Some(Request::New { book: 0, order, side, price, quantity, immediate: true })
            }
            _ => None,
        }
    })
    .collect()
}

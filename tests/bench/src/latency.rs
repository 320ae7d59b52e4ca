//! Curves over TCP: percentiles of the latency of a durable acknowledgement against the rate, up to 80% of the most that
//! the server takes here, and that most against the number of connections. Rates are kept whatever comes back, and a latency
//! counts from when its request was due.

use std::path::Path;

use crate::plot::{Axis, Plot};
use crate::table::{Row, Table};
use crate::tcp::{Server, conditions, figure, rate_of};

type Error = Box<dyn std::error::Error>;

/// Percent of the most.
const PERCENTS: [u64; 6] = [1, 10, 20, 40, 60, 80];
const PERCENTILES: [&str; 5] = ["p50", "p90", "p99", "p99.9", "p99.99"];
/// Connections among which the rates are shared.
const SHARED_AMONG: &str = "4";
/// Requests in flight over all connections.
const WINDOW: u32 = 16_384;

/// Runs the rows `latency/*` and `connections/*`, and draws them where a folder for plots is named.
pub(crate) fn run(table: &mut Table, folder: &Path, quick: bool, plots: Option<&Path>) -> Result<(), Error> {
    let seconds = if quick { "2" } else { "10" };
    let server = Server::start(&folder.join("latency"))?;
    let window = (WINDOW / 4).to_string();
    let flat_out = server.load(&[
        "--connections",
        SHARED_AMONG,
        "--window",
        &window,
        "--seconds",
        seconds,
        "--warm-up",
        "1",
    ])?;
    let most = rate_of(&flat_out)?;
    table.push(Row::new("latency/most", most, "orders/s").note(conditions(&flat_out)));
    let percents = if quick { &[10, 40][..] } else { &PERCENTS };
    let rates: Vec<u64> = percents.iter().map(|percent| (most as u64 * percent / 100).max(1)).collect();
    let x = Axis { label: "orders a second", from: rates[0] as f64, to: rates[rates.len() - 1] as f64 };
    let mut plot = Plot::new(
        "Latency of a durable acknowledgement over TCP loopback, client on the same two cores",
        x,
        "us",
    );
    let mut lines = PERCENTILES.map(|_| Vec::new());
    for (percent, rate) in percents.iter().zip(&rates) {
        let result = server.load(&[
            "--connections",
            SHARED_AMONG,
            "--rate",
            &rate.to_string(),
            "--seconds",
            seconds,
            "--warm-up",
            "1",
        ])?;
        for (name, line) in PERCENTILES.iter().zip(&mut lines) {
            let value = figure(&result, name)?;
            line.push((*rate as f64, value));
            table.push(
                Row::new(format!("latency/{percent}%-{name}"), value, "us")
                    .note(format!("{rate} orders/s; {}", conditions(&result))),
            );
        }
    }
    PERCENTILES.iter().zip(lines).for_each(|(name, line)| plot.line(*name, line));
    let rates = connections(table, &server, seconds, quick)?;
    let Some(plots) = plots else { return Ok(()) };
    plot.write(&plots.join("latency.svg"))?;
    let x = Axis { label: "connections", from: 1.0, to: rates[rates.len() - 1].0 };
    let mut plot =
        Plot::new("Durable orders a second over TCP loopback, client on the same two cores", x, "orders/s");
    plot.line("flat out", rates);
    plot.write(&plots.join("connections.svg"))
}

/// The most for each number of connections.
fn connections(
    table: &mut Table,
    server: &Server,
    seconds: &str,
    quick: bool,
) -> Result<Vec<(f64, f64)>, Error> {
    let mut points: Vec<(f64, f64)> = Vec::new();
    for connections in if quick { &[1, 16][..] } else { &[1, 4, 16, 64, 256] } {
        let window = (WINDOW / connections).to_string();
        let result = server.load(&[
            "--connections",
            &connections.to_string(),
            "--window",
            &window,
            "--seconds",
            seconds,
            "--warm-up",
            "1",
        ])?;
        let rate = rate_of(&result)?;
        let first = points.first().map_or(rate, |first| first.1);
        points.push((f64::from(*connections), rate));
        table.push(
            Row::new(format!("connections/{connections}"), rate, "orders/s")
                .against("one connection", first)
                .note(conditions(&result)),
        );
    }
    Ok(points)
}

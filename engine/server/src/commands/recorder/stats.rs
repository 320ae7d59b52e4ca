//! `ringpit recorder stats`: how often each point was passed, and how long frames took between two of them.

use hdrhistogram::Histogram;
use recorder::{ClockMap, Join, Pair, stages};
use serde_json::{Value, json};

use super::{Complaints, FilesArgs};
use crate::console::OutputArgs;
use crate::error::CommandError;
use crate::say;

/// Longest time that is told apart from longer ones: an hour, in nanoseconds.
const NANOSECONDS_MAX: u64 = 3_600_000_000_000;
const PERCENTILES: [(&str, f64); 5] =
    [("p50_us", 0.5), ("p90_us", 0.9), ("p99_us", 0.99), ("p99.9_us", 0.999), ("max_us", 1.0)];

/// Say how often each point was passed, and how long frames took from point to point, in microseconds
///
/// A frame counts once a row, whatever batch it was in. A time of 0 is one that ended before it began, as stages that run beside
/// each other may. Frames whose records were lost, or are in files that are gone, are left out.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ringpit recorder stats --data data\n  ringpit recorder stats --data data --sequence 4711\n  ringpit recorder stats --data data --from journal.taken --to logic.applied --json"
)]
pub(super) struct StatsArgs {
    #[command(flatten)]
    files: FilesArgs,
    /// Only the time from this point...
    #[arg(long, value_name = "POINT", requires = "to")]
    from: Option<String>,
    /// ...to this one
    #[arg(long, value_name = "POINT", requires = "from")]
    to: Option<String>,
    /// Only the times of this frame
    #[arg(long, value_name = "SEQUENCE")]
    sequence: Option<u64>,
    #[command(flatten)]
    output: OutputArgs,
}

/// The times between two points.
struct Row {
    pair: Pair,
    nanoseconds: Histogram<u64>,
}

impl Row {
    fn new(pair: Pair) -> Self {
        let Ok(nanoseconds) = Histogram::new_with_bounds(1, NANOSECONDS_MAX, 3) else {
            unreachable!("the bounds are constants that fit")
        };
        Self { pair, nanoseconds }
    }

    fn figures(&self) -> Vec<(&'static str, f64)> {
        let us = |nanoseconds: u64| nanoseconds as f64 / 1e3;
        let times = &self.nanoseconds;
        let mut figures = vec![("min_us", us(times.min())), ("mean_us", times.mean() / 1e3)];
        figures.extend(PERCENTILES.map(|(name, quantile)| (name, us(times.value_at_quantile(quantile)))));
        figures
    }
}

/// Runs the command.
pub(super) fn run(args: &StatsArgs) -> Result<(), CommandError> {
    let pairs: Vec<Pair> = match (&args.from, &args.to) {
        (Some(from), Some(to)) => vec![(from.clone(), to.clone())],
        _ => stages::TIMES.iter().map(|(from, to)| ((*from).to_owned(), (*to).to_owned())).collect(),
    };
    let mut rows: Vec<Row> = pairs.iter().cloned().map(Row::new).collect();
    let (first, last) = args.sequence.map_or((1, u64::MAX), |sequence| (sequence, sequence));
    let mut join = Join::new(pairs).within(first, last);
    let mut before: Option<(u64, ClockMap)> = None;
    let paths = args.files.paths()?;
    let complaints = Complaints::read(&paths, &mut |contents| {
        // What is left of another start is told by that one's clock.
        if let Some((_, clock)) = before.take_if(|(run, _)| *run != contents.run) {
            join.finish(&mut |row, ticks, frames| record(&mut rows, &clock, row, ticks, frames));
        }
        join.add(contents, &mut |row, ticks, frames| record(&mut rows, &contents.clock, row, ticks, frames));
        before = Some((contents.run, contents.clock.clone()));
        Ok(true)
    })?;
    if let Some((_, clock)) = before {
        join.finish(&mut |row, ticks, frames| record(&mut rows, &clock, row, ticks, frames));
    }
    rows.retain(|row| !row.nanoseconds.is_empty());
    tell(&join, &rows);
    args.output.last_line(&object(&join, &rows, (paths.len(), complaints.count)));
    complaints.end()
}

fn record(rows: &mut [Row], clock: &ClockMap, row: usize, ticks: u64, frames: u64) {
    if let Some(row) = rows.get_mut(row) {
        row.nanoseconds.saturating_record_n(clock.nanoseconds(ticks), frames);
    }
}

fn tell(join: &Join, rows: &[Row]) {
    say!("{:19} {:>12} {:>12}", "point", "records", "frames");
    for (name, counted) in join.counted() {
        say!("{name:19} {:>12} {:>12}", counted.records, counted.frames);
    }
    if join.lost() > 0 {
        say!("{} records were lost: a buffer was full, or the disk", join.lost());
    }
    if rows.is_empty() {
        say!("no frame passed two points");
        return;
    }
    say!("");
    let heads: Vec<String> = rows[0].figures().iter().map(|(name, _)| format!("{name:>10}")).collect();
    say!("{:19} {:19} {:>12} {}", "from", "to", "frames", heads.join(" "));
    for row in rows {
        let figures: Vec<String> = row.figures().iter().map(|(_, us)| format!("{us:>10.1}")).collect();
        let (from, to) = &row.pair;
        say!("{from:19} {to:19} {:>12} {}", row.nanoseconds.len(), figures.join(" "));
    }
}

fn object(join: &Join, rows: &[Row], (files, damaged): (usize, usize)) -> Value {
    let points: Vec<Value> = join
        .counted()
        .map(|(name, counted)| json!({ "point": name, "records": counted.records, "frames": counted.frames }))
        .collect();
    let times: Vec<Value> = rows
        .iter()
        .map(|row| {
            let (from, to) = &row.pair;
            let mut object = json!({ "from": from, "to": to, "frames": row.nanoseconds.len() });
            row.figures().into_iter().for_each(|(name, us)| object[name] = us.into());
            object
        })
        .collect();
    json!({ "files": files, "damaged": damaged, "lost": join.lost(), "points": points, "times": times })
}

//! The flight recorder: what a record costs its writer, what the drain takes, and what a pipeline that records costs more;
//! against `tracing` in the same run.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use journaler::Durability;
use journaler::storage::{RealStorage, SharedStorage};
use recorder::{
    BUFFER_WORDS, Contents, Drain, Entry, Options, Reading, Recorder, Recording, Writer, stages, ticks,
};

use crate::engine::{self, Error};
use crate::machine::new_histogram;
use crate::table::{Row, Table};
use crate::workload::{Scenario, generate};

recorder::points! {
    static TABLE;
    BATCH = "bench.batch": "batch of {frames} frames, {bytes} bytes written";
}

/// Records of two arguments that fit a buffer.
const BURST: u64 = BUFFER_WORDS as u64 / 3;
/// How long two threads record and drain.
const BESIDE: Duration = Duration::from_secs(1);

/// Runs the rows `recorder/*`.
pub(crate) fn run(table: &mut Table, folder: &Path, quick: bool, seed: u64) -> Result<(), Error> {
    let bursts = if quick { 300 } else { 3_000 };
    let ours = records(table, bursts)?;
    let theirs = tracing_events(bursts * BURST / 10);
    for (name, quantile, aim) in [("p50", 0.5, 10.0), ("p99.9", 0.999, 40.0)] {
        let (own, other) =
            (ours.value_at_quantile(quantile) as f64 / 1e3, theirs.value_at_quantile(quantile) as f64 / 1e3);
        table.push(
            Row::new(format!("recorder/record-{name}"), own, "ns")
                .against(format!("{aim} ns aimed at"), aim)
                .note("two arguments, from one record's time stamp counter to the next one's"),
        );
        table.push(
            Row::new(format!("recorder/tracing-{name}"), other, "ns")
                .against("our record", own)
                .note("an event with two fields, formatted to a sink that takes nothing"),
        );
    }
    drained(table)?;
    let (frames, runs) = if quick { (500_000, 3) } else { (2_000_000, 7) };
    pipeline_price(table, folder, (frames, runs), seed)
}

fn two(writer: &mut Writer, value: u64) {
    writer.record(BATCH, [value & 255, 64 * (value & 255)]);
}

/// Bursts into a buffer that is empty before each. Gives picoseconds from record to record, of all bursts but the first ones,
/// and tells what draining them took.
fn records(table: &mut Table, bursts: u64) -> Result<Histogram<u64>, Error> {
    let (recorder, mut drain) = Recorder::new(TABLE);
    let mut writer = recorder.writer("bench");
    let mut times = new_histogram();
    let mut null = OpenOptions::new().write(true).open("/dev/null")?;
    let (mut out, mut bytes) = (Vec::new(), 0);
    let (mut spent, mut drained) = (Duration::ZERO, Duration::ZERO);
    let first = Reading::now();
    for _ in 0..bursts {
        let started = Instant::now();
        (0..BURST).for_each(|value| two(&mut writer, value));
        spent += started.elapsed();
        let started = Instant::now();
        out.clear();
        drain.collect(ticks::now());
        drain.blocks(&mut out);
        drain.written();
        null.write_all(&out)?;
        drained += started.elapsed();
        bytes += out.len();
        let now = Reading::now();
        if let Some(rate) = first.ticks_per_second(&now) {
            add(&mut times, &out, &now, rate, &mut drain)?;
        }
    }
    let all = (bursts * BURST) as f64;
    table.push(
        Row::new("recorder/record-mean", spent.as_secs_f64() * 1e9 / all, "ns")
            .note("a burst's time by its records"),
    );
    table.push(
        Row::new("recorder/drain-alone", all / drained.as_secs_f64(), "records/s")
            .against("20 M/s aimed at", 2e7)
            .note("collected, compacted and written to /dev/null"),
    );
    table.push(Row::new("recorder/bytes-a-record", bytes as f64 / all, "bytes").note("two small numbers"));
    Ok(times)
}

/// The times between the records of one drain, in picoseconds.
fn add(
    times: &mut Histogram<u64>,
    blocks: &[u8],
    now: &Reading,
    ticks_per_second: u64,
    drain: &mut Drain,
) -> Result<(), Error> {
    let mut file = Vec::new();
    drain.begin(&mut file, 0, now, ticks_per_second);
    file.extend_from_slice(blocks);
    let contents = Contents::parse(&file)?;
    let passed = contents.records.iter().filter(|record| matches!(record.entry, Entry::Passed { .. }));
    let ticks: Vec<u64> = passed.map(|record| record.ticks).collect();
    for pair in ticks.windows(2) {
        times.saturating_record((pair[1] - pair[0]) * 1_000_000 / (ticks_per_second / 1_000_000));
    }
    Ok(())
}

/// The same with `tracing`, whose formatter is given a writer that does nothing: picoseconds from event to event.
fn tracing_events(events: u64) -> Histogram<u64> {
    let subscriber = tracing_subscriber::fmt().with_writer(io::sink).finish();
    let mut times = new_histogram();
    let first = Reading::now();
    let mut stamps = Vec::with_capacity(usize::try_from(events).unwrap_or_default());
    tracing::subscriber::with_default(subscriber, || {
        for value in 0..events {
            stamps.push(ticks::now());
            tracing::info!(frames = value & 255, bytes = 64 * (value & 255), "batch written");
        }
    });
    let rate = first.ticks_per_second(&Reading::now()).unwrap_or(1_000_000_000);
    for pair in stamps.windows(2) {
        times.saturating_record((pair[1] - pair[0]) * 1_000_000 / (rate / 1_000_000));
    }
    times
}

/// One thread records flat out while another drains to /dev/null.
fn drained(table: &mut Table) -> Result<(), Error> {
    let (recorder, mut drain) = Recorder::new(TABLE);
    let mut writer = recorder.writer("bench");
    let mut null = OpenOptions::new().write(true).open("/dev/null")?;
    let ended = AtomicBool::new(false);
    let mut file = Vec::new();
    let (mut recorded, mut bytes) = (0_u64, 0);
    let mut took = Duration::ZERO;
    std::thread::scope(|scope| -> Result<(), Error> {
        let ended = &ended;
        let writes = scope.spawn(move || {
            let mut count = 0;
            while !ended.load(Ordering::Relaxed) {
                (0..256).for_each(|value| two(&mut writer, value));
                count += 256;
            }
            count
        });
        let started = Instant::now();
        while started.elapsed() < BESIDE {
            file.clear();
            drain.collect(ticks::now());
            drain.blocks(&mut file);
            drain.written();
            null.write_all(&file)?;
            bytes += file.len();
        }
        ended.store(true, Ordering::Relaxed);
        took = started.elapsed();
        recorded = writes.join().map_err(|_| "the writing thread panicked")?;
        Ok(())
    })?;
    // Of what was dropped nothing is in the file but a number.
    let kept = bytes as f64 / table.value("recorder/bytes-a-record").unwrap_or(5.0);
    table.push(
        Row::new("recorder/drained", kept / took.as_secs_f64(), "records/s")
            .against("20 M/s aimed at", 2e7)
            .note(format!(
                "beside a writer of {:.0} M/s, what is too much dropped and counted",
                recorded as f64 / took.as_secs_f64() / 1e6
            )),
    );
    Ok(())
}

/// The pipeline in this process with its recorder on and off, in turn, so many runs of so many frames each: the best counts.
fn pipeline_price(
    table: &mut Table,
    folder: &Path,
    (frames, runs): (u64, usize),
    seed: u64,
) -> Result<(), Error> {
    let messages = generate(Scenario::NormalDay, frames * 2 / 5, seed);
    for durability in [Durability::Memory, Durability::Disk] {
        let mut best = [0_f64; 2];
        for run in 0..2 * runs {
            let is_on = run % 2 == 1;
            let data = folder.join("price");
            let storage: SharedStorage = Arc::new(RealStorage::create(&data)?);
            let mut config = engine::config(durability);
            let recording = if is_on {
                let (recorder, drain) = Recorder::new(stages::TABLE);
                config.recorder = recorder;
                let options =
                    Options { folder: data.join("recorder"), bytes_max: 64 << 20, room: Box::new(|| true) };
                Some(Recording::start(drain, options)?)
            } else {
                None
            };
            let (rate, _) = engine::pipeline(&storage, &config, &messages)?;
            drop(recording);
            best[usize::from(is_on)] = best[usize::from(is_on)].max(rate);
            drop(storage);
            std::fs::remove_dir_all(&data)?;
        }
        let name = if durability == Durability::Memory { "memory" } else { "disk" };
        table.push(
            Row::new(format!("recorder/pipeline-{name}"), best[1], "commands/s")
                .against("the same without a recorder", best[0])
                .note(format!("best of {runs} runs each, in turn")),
        );
    }
    Ok(())
}

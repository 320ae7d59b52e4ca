//! Runs seeds of the simulation from the command line.

#![forbid(unsafe_code)]

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;

/// Simulates a cluster of members, clients and faults, one run a seed.
#[derive(Parser)]
#[command(name = "sim")]
struct Options {
    /// How many seeds.
    #[arg(long, default_value_t = 100)]
    seeds: u64,
    /// The first one.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Stop after this many seconds.
    #[arg(long, value_name = "SECONDS")]
    r#for: Option<u64>,
    /// Write the trace of the last seed that ran to this file.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Go on after a seed that fails.
    #[arg(long)]
    keep_going: bool,
    /// Plant a bug, by its name in engine/protocol/src/planted.rs.
    #[cfg(feature = "planted")]
    #[arg(long, value_name = "BUG")]
    plant: Option<String>,
}

/// The seed that runs. A release build ends at a panic, and then this is all that tells which it was.
static SEED: AtomicU64 = AtomicU64::new(0);

fn main() -> ExitCode {
    let options = Options::parse();
    if !sim::REPLAYS {
        eprintln!("this build can't replay a seed exactly: use `cargo sim`, which is in .cargo/config.toml");
    }
    #[cfg(feature = "planted")]
    if let Some(name) = &options.plant {
        let Some(bug) = sim::Bug::ALL.iter().find(|bug| format!("{bug:?}") == *name) else {
            eprintln!("no bug {name}; there are {:?}", sim::Bug::ALL);
            return ExitCode::FAILURE;
        };
        sim::plant(Some(*bug));
    }
    let told_by_default = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        told_by_default(panic);
        eprintln!("{}", sim::replay_command(SEED.load(Ordering::Relaxed)));
    }));
    let (started, mut told) = (Instant::now(), Instant::now());
    let (mut ran, mut failed, mut frames, mut milliseconds) = (0_u64, 0_u64, 0, 0);
    for seed in options.from..options.from.saturating_add(options.seeds) {
        if options.r#for.is_some_and(|seconds| started.elapsed() >= Duration::from_secs(seconds)) {
            break;
        }
        SEED.store(seed, Ordering::Relaxed);
        let outcome = sim::run(seed, options.trace.is_some());
        ran += 1;
        frames += outcome.frames;
        milliseconds += outcome.milliseconds;
        if let Some(path) = &options.trace
            && let Err(error) = std::fs::write(path, outcome.lines.join("\n"))
        {
            eprintln!("{}: {error}", path.display());
            return ExitCode::FAILURE;
        }
        if let Some(violation) = outcome.violation {
            failed += 1;
            println!("seed {seed} fails {violation}\n{}", sim::replay_command(seed));
            if !options.keep_going {
                return ExitCode::FAILURE;
            }
        }
        if told.elapsed() >= Duration::from_secs(5) {
            told = Instant::now();
            let rate = ran as f64 / started.elapsed().as_secs_f64();
            println!("{ran} seeds, {failed} failed, {rate:.1} seeds a second");
            let _ = std::io::stdout().flush();
        }
    }
    println!(
        "{ran} seeds, {failed} failed: {frames} frames in {:.0} virtual seconds, {:.1} s",
        milliseconds as f64 / 1_000.0,
        started.elapsed().as_secs_f64()
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

//! `cargo run --release -p bench -- [GROUP...]`: every figure of docs/performance.md, each held against a limit of the
//! machine or of the same program, measured in the same run.

#![forbid(unsafe_code)]

mod cluster;
mod consensus;
mod engine;
mod full;
mod latency;
mod logic;
mod machine;
mod matching;
mod plot;
mod recorder;
mod rings;
mod scale;
mod storage;
mod table;
mod tcp;
mod venue;
mod workload;

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use crate::table::Table;

/// Measures Ringpit. Without a group: all of them.
#[derive(Parser)]
#[command(after_help = "Example: cargo run --release -p bench -- --quick core logic")]
struct Args {
    /// What to measure.
    groups: Vec<Group>,
    /// Print one JSON object a row.
    #[arg(long)]
    json: bool,
    /// Fewer and shorter rows: under a minute in all.
    #[arg(long)]
    quick: bool,
    /// Seed of the flows.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Draw the curves of the groups `scale` and `latency` into this folder, as SVG files.
    #[arg(long, value_name = "FOLDER")]
    plots: Option<PathBuf>,
    /// Folder on the disk to measure; a temporary folder in it is used and removed.
    #[arg(long, default_value = ".")]
    folder: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Group {
    /// The disk's durable write and the loopback round trip.
    Machine,
    /// Rings and queues, and agents that pass messages around.
    Rings,
    /// The matching core alone, and with its events handed to another thread.
    Core,
    /// The business logic alone: sessions, special orders, accounts.
    Logic,
    /// The consensus alone, one and three members.
    Consensus,
    /// The whole pipeline in this process, journal in memory and on disk.
    Pipeline,
    /// The flight recorder, and what it costs the pipeline.
    Recorder,
    /// The server over TCP.
    Tcp,
    /// Three members over TCP, and changes of their leader.
    Cluster,
    /// Replay, snapshots written and loaded.
    Storage,
    /// What an order costs as instruments, resting orders and sessions become many.
    Scale,
    /// Percentiles of the latency over TCP against the rate, and the rate against the number of connections.
    Latency,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args = Args::parse();
    let wanted = |group| args.groups.is_empty() || args.groups.contains(&group);
    let folder = tempfile::tempdir_in(&args.folder)?;
    let mut table = Table::new(args.json);
    if wanted(Group::Machine) || wanted(Group::Tcp) || wanted(Group::Pipeline) || wanted(Group::Consensus) {
        machine::measure(&mut table, folder.path())?;
    }
    if wanted(Group::Rings) {
        rings::run(&mut table, args.quick);
    }
    if wanted(Group::Core) {
        matching::run(&mut table, if args.quick { 200_000 } else { 1_000_000 }, args.seed);
    }
    if wanted(Group::Logic) {
        logic::run(&mut table, if args.quick { 200_000 } else { 1_000_000 }, args.seed);
    }
    if wanted(Group::Pipeline) {
        engine::run(&mut table, folder.path(), if args.quick { 500_000 } else { 5_000_000 }, args.seed)?;
    }
    if wanted(Group::Recorder) {
        recorder::run(&mut table, folder.path(), args.quick, args.seed)?;
    }
    if wanted(Group::Consensus) {
        consensus::run(&mut table, folder.path(), args.quick)?;
    }
    if wanted(Group::Scale) {
        let extent = if args.quick {
            scale::Extent { orders: 100_000, orders_max: 100_000, commands: 100_000 }
        } else {
            scale::Extent { orders: 4_000_000, orders_max: 10_000_000, commands: 2_000_000 }
        };
        scale::run(&mut table, folder.path(), &extent, args.plots.as_deref())?;
    }
    if wanted(Group::Storage) {
        let orders: &[u64] = if args.quick { &[100_000] } else { &[1_000_000, 5_000_000] };
        storage::run(&mut table, folder.path(), orders)?;
    }
    if wanted(Group::Tcp) {
        tcp::run(&mut table, folder.path(), args.quick)?;
    }
    if wanted(Group::Latency) {
        latency::run(&mut table, folder.path(), args.quick, args.plots.as_deref())?;
    }
    if wanted(Group::Cluster) {
        cluster::run(&mut table, folder.path(), args.quick)?;
    }
    Ok(())
}

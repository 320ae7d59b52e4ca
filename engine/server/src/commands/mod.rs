//! The command line: which commands there are, and which module runs each.

pub mod backup;
pub mod check_config;
pub mod cluster;
pub mod connect;
pub mod ctl;
pub mod data;
pub mod drop_copy;
pub mod flow;
pub mod journal;
pub mod load;
pub mod recorder;
pub mod replay;
pub mod serve;
pub mod settings;
pub mod snapshot;
pub mod status;
pub mod trade;

use clap::{Parser, Subcommand};

use crate::error::CommandError;

/// Ringpit, an exchange server. Without a command it serves.
#[derive(Debug, Parser)]
#[command(
    name = "ringpit",
    version,
    about,
    args_conflicts_with_subcommands = true,
    after_help = "Example:\n  ringpit                       serve with the embedded defaults and ./data\n  ringpit trade --help          how to trade from a terminal"
)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::ServeArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(serve::ServeArgs),
    CheckConfig(check_config::CheckConfigArgs),
    Cluster(cluster::ClusterArgs),
    Status(status::StatusArgs),
    Journal(journal::JournalArgs),
    Snapshot(snapshot::SnapshotArgs),
    Replay(replay::ReplayArgs),
    Backup(backup::BackupArgs),
    Restore(backup::RestoreArgs),
    Trade(trade::TradeArgs),
    Ctl(ctl::CtlArgs),
    Settings(settings::SettingsArgs),
    DropCopy(drop_copy::DropCopyArgs),
    Load(load::LoadArgs),
    Recorder(recorder::RecorderArgs),
    Flow(flow::FlowArgs),
}

impl Cli {
    /// Runs the command.
    ///
    /// # Errors
    /// What the command could not do; its text is for the person who ran it.
    pub fn run(self) -> Result<(), CommandError> {
        match self.command {
            Some(Command::CheckConfig(args)) => check_config::run(&args),
            Some(Command::Cluster(args)) => cluster::run(&args),
            Some(Command::Status(args)) => status::run(&args),
            Some(Command::Journal(args)) => journal::run(&args),
            Some(Command::Snapshot(args)) => snapshot::run(&args),
            Some(Command::Replay(args)) => replay::run(&args),
            Some(Command::Backup(args)) => backup::run(&args),
            Some(Command::Restore(args)) => backup::run_restore(&args),
            Some(Command::Trade(args)) => trade::run(&args),
            Some(Command::Ctl(args)) => ctl::run(&args),
            Some(Command::Settings(args)) => settings::run(&args),
            Some(Command::DropCopy(args)) => drop_copy::run(&args),
            Some(Command::Load(args)) => load::run(&args),
            Some(Command::Recorder(args)) => recorder::run(&args),
            Some(Command::Flow(args)) => flow::run(&args),
            Some(Command::Serve(args)) => serve::run(&args),
            None => serve::run(&self.serve),
        }
    }
}

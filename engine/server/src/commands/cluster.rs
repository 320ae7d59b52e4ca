//! `ringpit cluster`: founds a cluster, says how it is, and changes it. The commands ask a member on this machine, which
//! passes on to the leader what only that can do. Each may be repeated without harm.

mod adopt;
mod demo;
mod rebuild;
mod status;
mod wishes;

use clap::Subcommand;

use crate::config::{ClusterConfig, Config};
use crate::error::CommandError;

/// Found a cluster, see how it is, change its members and its leader
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  ringpit cluster demo                                     three members on this machine, to try it out
  ringpit cluster init --config ringpit.toml               found the cluster, on one of its members
  ringpit cluster status --config ringpit.toml
  ringpit cluster add 4 four.example:7301 four.example:4410 --wait --config ringpit.toml
  ringpit cluster promote 4 --config ringpit.toml

Run them on the machine of any member that runs, with its configuration or data directory: only whoever may read the data
directory may change the cluster.")]
pub struct ClusterArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    Init(wishes::InitArgs),
    Status(status::StatusArgs),
    Add(wishes::AddArgs),
    Promote(wishes::PromoteArgs),
    Demote(wishes::DemoteArgs),
    Remove(wishes::RemoveArgs),
    HandOver(wishes::HandOverArgs),
    Rebuild(rebuild::RebuildArgs),
    Adopt(adopt::AdoptArgs),
    Demo(demo::DemoArgs),
}

/// Runs the command.
///
/// # Errors
/// What could not be done, and what to do about it.
pub fn run(args: &ClusterArgs) -> Result<(), CommandError> {
    match &args.action {
        Action::Init(args) => wishes::init(args),
        Action::Status(args) => status::run(args),
        Action::Add(args) => wishes::add(args),
        Action::Promote(args) => wishes::promote(args),
        Action::Demote(args) => wishes::demote(args),
        Action::Remove(args) => wishes::remove(args),
        Action::HandOver(args) => wishes::hand_over(args),
        Action::Rebuild(args) => rebuild::run(args),
        Action::Adopt(args) => adopt::run(args),
        Action::Demo(args) => demo::run(args),
    }
}

/// The part for the cluster of a configuration that a command needs it of.
fn of_member(config: &Config) -> Result<&ClusterConfig, CommandError> {
    config.cluster.as_ref().ok_or_else(|| {
        CommandError::usage("the configuration has no [cluster] section: give the configuration of a member")
    })
}

//! The command line: which commands there are, and which module runs each.

use clap::{Parser, Subcommand};

use crate::error::CommandError;

/// Ringpit, an exchange server. Without a command it serves.
#[derive(Debug, Parser)]
#[command(
    name = "ringpit",
    version,
    about,
    after_help = "Example:\n  ringpit                       serve with the embedded defaults and ./data\n  ringpit trade --help          how to trade from a terminal"
)]
pub struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {}

impl Cli {
    /// Runs the command.
    ///
    /// # Errors
    /// What the command could not do; its text is for the person who ran it.
    pub fn run(self) -> Result<(), CommandError> {
        match self.command {
            Some(command) => match command {},
            None => Ok(()),
        }
    }
}

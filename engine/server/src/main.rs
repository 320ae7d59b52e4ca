//! The `ringpit` binary: parses the command line, runs the command, and turns its error into one line and an exit
//! status. Everything else is in the library of this crate.

#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    server::panics::install();
    #[cfg(debug_assertions)]
    server::panics::plant_poison();
    let cli = server::commands::Cli::parse();
    match cli.run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            server::console::complain(&error);
            ExitCode::from(error.exit_status())
        }
    }
}

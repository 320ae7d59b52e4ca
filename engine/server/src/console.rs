//! Text for the person (or script) that ran the command. Results go to standard output, complaints to standard error.
//! A closed pipe is no error of the command's: what can't be written is dropped.

use std::fmt;
use std::io::Write;

/// The option that every command has for scripts.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct OutputArgs {
    /// Print one JSON object as the last line of standard output
    #[arg(long)]
    pub json: bool,
}

impl OutputArgs {
    /// Prints the object as the last line, if `--json` was given.
    pub fn last_line(&self, object: &serde_json::Value) {
        if self.json {
            say(format_args!("{object}"));
        }
    }
}

/// Writes one line to standard output and flushes it, so that a reader on a pipe sees it at once.
pub fn say(line: fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    // A reader that went away does not make the command fail.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// Writes an error's one line to standard error.
pub fn complain(error: &dyn fmt::Display) {
    // Nobody is left to be told when standard error is closed.
    let _ = writeln!(std::io::stderr().lock(), "ringpit: {error}");
}

/// Writes one line to standard output: `say!("{} orders", n)`.
#[macro_export]
macro_rules! say {
    ($($argument:tt)*) => { $crate::console::say(format_args!($($argument)*)) };
}

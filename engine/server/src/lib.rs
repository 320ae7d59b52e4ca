//! The server's own code: configuration, assembly of the parts, signals, HTTP, and the command line. It owns no rule of
//! trading, no byte format of the log and no protocol of clients: those are the other crates'.

#![forbid(unsafe_code)]

pub mod commands;
pub mod config;
pub mod console;
pub mod decimal;
pub mod error;
pub mod files;
pub mod instruments;
pub mod logging;
pub mod panics;
pub mod passwords;
pub mod ready;

//! The server's own code: configuration, assembly of the parts, signals, HTTP, and the command line. It owns no rule of
//! trading, no byte format of the log and no protocol of clients: those are the other crates'.

#![forbid(unsafe_code)]

pub mod assembly;
pub mod commands;
pub mod config;
pub mod console;
pub mod decimal;
pub mod error;
pub mod files;
pub mod http;
pub mod identity;
pub mod instruments;
pub mod logging;
pub mod member;
pub mod membership;
pub mod metrics;
pub mod open_files;
pub mod oversight;
pub mod panics;
pub mod passwords;
pub mod progress;
pub mod provision;
pub mod ready;
pub mod replay;
pub mod reserve;
pub mod server;
pub mod signals;
pub mod space;
pub mod stats;
pub mod system;
pub mod text;

//! The real binary in a temporary directory: it starts, trades, stops, comes back, and says what is wrong.

mod cluster;
mod command_line;
mod harness;
mod serving;
mod tools;

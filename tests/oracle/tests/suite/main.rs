//! Scenarios and random streams.

mod scenarios;
mod streams;

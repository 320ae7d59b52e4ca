//! Scenarios and random streams.

mod cascade;
mod faults;
mod language;
mod reach;
mod scenarios;
mod skips;
mod streams;

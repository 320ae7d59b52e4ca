//! Scenarios and random streams.

mod streams;

//! Tests of the rings from outside: frames whole and in order under many publishers, back pressure, shut-down,
//! waking, aborting, running. It must not reach into the crate.

mod abort;
mod frames;
mod input;
mod output;
mod runner;
mod stress;
mod waiting;

//! Tests of the journal and the report log, on the fake disk and on real files.

mod append;
mod crash;
mod damage;
mod format;
mod pruned;
mod raft_crash;
mod raft_damage;
mod raft_log;
mod raft_reader;
mod real;
mod reports;
mod skips;
mod support;
mod twoslot;

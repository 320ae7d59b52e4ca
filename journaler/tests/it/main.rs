//! Tests of the journal and the report log, on the fake disk and on real files.

mod append;
mod crash;
mod damage;
mod format;
mod pruned;
mod raft_log;
mod real;
mod reports;
mod support;
mod twoslot;

//! The one integration-test binary: the house rules, and the real `ringpit` binary over real sockets and real files.

#![forbid(unsafe_code)]

mod bitstamp;
mod cli;
mod cluster;
mod cluster_disks;
mod crash;
mod deploy;
mod first_trade;
mod full_disk;
mod harness;
mod hostile;
mod network;
mod observers;
mod partitions;
mod poison;
mod recorder;
mod recovery;
mod rulebook;
mod small_disk;
mod structure;
mod tool;
mod trio;
mod truth;
mod wire;

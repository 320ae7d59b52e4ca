//! Snapshots end to end: what is written is what is loaded, damage is found, a power cut at any moment costs nothing, and
//! a start from a snapshot is a start from the beginning.

mod backup;
mod crash;
mod damage;
mod maker;
mod recovery;
mod round_trip;
mod skips;
mod thread;
mod venue;

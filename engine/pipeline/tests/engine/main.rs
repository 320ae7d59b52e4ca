//! The assembled engine: driven step by step on a fake disk, and with its threads on a real one.

mod alloc;
mod cluster;
mod crash;
mod flow;
mod member;
mod member_threads;
mod pressure;
mod skips;
mod support;
mod threaded;

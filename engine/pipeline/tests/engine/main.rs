//! The assembled engine: driven step by step on a fake disk, and with its threads on a real one.

mod crash;
mod flow;
mod pressure;
mod support;
mod threaded;

//! The gateway's tests: the session's rules as tables, its input as bytes of every kind, and whole gateways on loopback.

mod engine;
mod fuzz;
mod hub;
mod leader;
mod page;
mod rules;
mod script;
mod sockets;
mod throttle;
mod wire;

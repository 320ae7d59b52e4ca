//! The scenario language: text files that somebody who writes rules can read. `docs/scenarios.md` describes it.
//!
//! A scenario is run against engine and oracle at once, and a second time with an export and import of the whole state
//! after every step.

mod admin;
mod expect;
mod facts;
mod orders;
mod print;
mod rules;
mod run;
mod state;
mod words;
mod world;

pub use print::{command_text, stream_text};
pub use run::{ScenarioError, run_text};
pub use world::World;

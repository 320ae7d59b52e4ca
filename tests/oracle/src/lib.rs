//! What the engine is held against: a slow and obvious second implementation of the rules ([`model`]), random command
//! streams ([`stream`]), the comparison of the two ([`duel`]) with a shrinker for what fails, and the scenario language
//! ([`scenario`]) in which cases are written and failures printed. [`plain`] is the same for the matching core alone.

#![forbid(unsafe_code)]

pub mod campaign;
pub mod compare;
pub mod duel;
pub mod ledger;
pub mod model;
pub mod plain;
pub mod random;
pub mod scenario;
pub mod shadow;
pub mod stream;

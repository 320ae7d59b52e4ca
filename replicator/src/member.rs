//! Who the members are.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Number of a member: given by its operator, never zero, never given to another one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MemberId(pub u64);

impl fmt::Display for MemberId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A member as the log has it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Member {
    /// Its number.
    pub id: MemberId,
    /// Where the other members reach it: `host:port`.
    pub address: String,
    /// Where clients reach it: `host:port`.
    pub client_address: String,
    /// What it may fail together with: a rack, a room, a region. Empty: nothing is known.
    #[serde(default)]
    pub zone: String,
}

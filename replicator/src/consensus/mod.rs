//! The consensus of a member: openraft on a thread of its own, its log our journal, its network a [`Transport`].
//!
//! ```text
//!  proposals --> propose --> openraft --> LogStore --> Writer (journal thread) --> journal, member file
//!                               |  ^          |
//!                 other members <-- Peers     +--> Machine --> Feed (committed, durable here)
//!                               |
//!                               +--> Lead (who leads, and whether a quorum says so)
//! ```
//!
//! What the library is told and why: it never restores leadership at a start (a leader that lost its unflushed tail would
//! overwrite what others acknowledged); it asks before it stands for election; it makes no snapshots of its own.

mod admin;
mod blank;
mod cluster;
mod disk;
mod exchange;
mod layout;
mod machine;
mod memory;
mod node;
mod peers;
mod prepare;
mod rebuild;
mod record;
mod serve;
mod snapshot;
mod standing;
mod status;
mod store;
mod types;
mod verdict;
mod writer;

use std::time::Duration;

use protocol::{Checkpoint, Sequence};

pub use blank::{Blank, FoundError};
pub use cluster::{BoxFuture, Cluster, ClusterError, ClusterOptions, WriterHome, raise, seeded};
pub use layout::objection;
pub use machine::Feed;
pub use prepare::{PrepareError, Prepared, Start, prepare};
pub use rebuild::{RebuildError, RebuildPlan, plan_rebuild, rebuild};
pub use record::MEMBER_FILE;
pub use snapshot::{InstallError, SnapshotFolder};
pub use status::{ClusterStatus, MemberRole, MemberStatus, Versions};
pub use verdict::Verdict;
pub use writer::{JournalMonitor, WriteError};

/// How fast a lost leader is missed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Between a leader's signs of life.
    pub heartbeat: Duration,
    /// Shortest silence of a leader after which a member stands for election.
    pub election_min: Duration,
    /// Longest such silence. Each member chooses between the two anew each time, so that they rarely collide.
    pub election_max: Duration,
}

impl Default for Timing {
    /// For one data centre: a lost leader is replaced in about a third of a second.
    fn default() -> Self {
        Self {
            heartbeat: Duration::from_millis(30),
            election_min: Duration::from_millis(150),
            election_max: Duration::from_millis(250),
        }
    }
}

impl Timing {
    /// What makes elections needless or endless, in words.
    ///
    /// # Errors
    /// What is wrong.
    pub fn check(&self) -> Result<(), String> {
        if self.heartbeat < Duration::from_millis(5) {
            return Err("a heartbeat of less than 5 ms".into());
        }
        if self.election_min < self.heartbeat * 3 {
            return Err(
                "an election after less than three heartbeats: one late heartbeat would unseat a leader"
                    .into(),
            );
        }
        if self.election_max <= self.election_min {
            return Err(
                "the longest silence must be longer than the shortest: else members stand at once".into()
            );
        }
        Ok(())
    }

    /// How long a quorum may be silent before the leader lets its sessions go.
    pub(crate) fn quorum_patience(&self) -> Duration {
        self.election_max * 2
    }

    pub(crate) fn status_deadline(&self) -> Duration {
        (self.election_max * 2).max(Duration::from_millis(500))
    }

    /// How long a voter keeps its word to a leader: it agrees to no other so soon after the leader's last message, whatever
    /// it knows of the leader's end.
    #[must_use]
    pub fn word(&self) -> Duration {
        (self.heartbeat * 4).min(self.election_min)
    }

    /// How long a leader relies on a quorum's word from when it asked: less than the word holds, since the library refuses what
    /// is proposed after that, and a thread may stand still between the look at the one and at the other.
    pub(crate) fn lease(&self) -> Duration {
        self.word() - self.heartbeat * 3 / 2
    }
}

/// Takes what another member tells the others and nobody else.
pub type TakeSecret = Box<dyn Fn(&[u8]) + Send + Sync>;

/// What the consensus calls in the rest of the process.
pub struct Hooks {
    /// This member's last checkpoints, the oldest first.
    pub checkpoints: Box<dyn Fn() -> Vec<Checkpoint> + Send + Sync>,
    /// What this leader proposed took so long until it was committed and fed here.
    pub commit_took: Box<dyn Fn(Duration) + Send + Sync>,
    /// A majority agrees on this one.
    pub confirmed: Box<dyn Fn(Checkpoint) + Send + Sync>,
    /// The last frame applied.
    pub sequence: Box<dyn Fn() -> Sequence + Send + Sync>,
    /// This member is contradicted, or nobody knows who is right: keep the evidence and stop.
    pub diverged: Box<dyn Fn(&Verdict) + Send + Sync>,
    /// The process can't go on: one line says why.
    pub fatal: Box<dyn Fn(&str) + Send + Sync>,
    /// A snapshot has arrived: the process must start again.
    pub restart: Box<dyn Fn() + Send + Sync>,
    /// What this member tells the other members and nobody else; what it means is not known here. May be empty.
    pub secret: Vec<u8>,
    /// Another member told its own.
    pub told_secret: TakeSecret,
}

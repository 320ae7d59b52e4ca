//! The order of commitment: alone, or agreed upon by the members of a cluster.
//!
//! ```text
//!  alone    gateways --> input ring --> journal, Sequencer, unmarshal --> logic
//!
//!  member   gateways --> front ring --> Proposer --ProposalSender--> [consensus: openraft on a thread of its own]
//!                                                                      |  append: journal thread, then the others
//!                                                                      v  committed, and durable here
//!                                               input ring <-- Feed ---+
//!                                                   +--> unmarshal --> logic        (the same stages as alone)
//! ```
//!
//! On every member, leader or not, the input ring holds only what is committed and durable at the configured level. So
//! nothing that is taken back by a change of leader was ever in it, and there is nothing to drain or to void.
//!
//! This crate knows frames, never commands. It has no file of its own: the journal is the log. A [`Transport`] carries
//! the messages; the real one is in [`tcp`], and nothing else here knows of sockets.

#![forbid(unsafe_code)]

mod alone;
mod consensus;
mod lead;
mod member;
pub mod proto;
pub mod tcp;
mod transport;

pub use alone::{ALONE, Sequencer};
pub use consensus::{
    Blank, BoxFuture, Cluster, ClusterError, ClusterOptions, ClusterStatus, Feed, FoundError, Hooks,
    InstallError, JournalMonitor, MEMBER_FILE, MemberRole, MemberStatus, PrepareError, Prepared,
    RebuildError, RebuildPlan, SnapshotFolder, Start, TakeSecret, Timing, Verdict, Versions, WriteError,
    WriterHome, objection, plan_rebuild, prepare, raise, rebuild, seeded,
};
pub use lead::{
    Lead, LeadState, Proposal, ProposalReceiver, ProposalRefused, ProposalSender, Settled, proposals,
};
pub use member::{Member, MemberId};
pub use transport::{CallFuture, Channel, ClosedFuture, Envelope, Transport, TransportError};

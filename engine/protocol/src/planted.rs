//! Bugs planted on purpose, one at a time, so that the simulation can show that it would find them. Only the feature
//! `planted` makes them possible, and only the simulation's own test turns it on: without it [`is_on`] is a constant, and
//! nothing of this is in a binary.

macro_rules! bugs {
    ($($(#[$doc:meta])* $name:ident),+ $(,)?) => {
        /// What can be planted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Bug { $($(#[$doc])* $name),+ }

        impl Bug {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];
        }
    };
}

bugs! {
    /// An append counts as durable though nothing was synced.
    AckBeforeFsync,
    /// A vote is given before it is in the member's file.
    VoteNotPersisted,
    /// Any bad batch is taken for a torn tail, whatever follows it.
    TruncateOnBadCrc,
    /// A start applies all that the journal has, committed or not.
    ApplyBeyondCommit,
    /// What is not in the log is answered without a quorum's confirmation.
    StaleRead,
    /// A new segment's name is not made durable.
    LostDirectoryFsync,
    /// Snapshots don't have the sessions' highest request ids.
    IdsOutsideSnapshot,
    /// What is committed is fed though this member's own disk doesn't have it yet.
    FedBeforeOwnDisk,
    /// A leader that was started again leads on without an election.
    LeaderRestored,
    /// A leadership begins without the frame that ends all connections.
    NoStartFrame,
    /// A request whose id does not rise is taken.
    DuplicatesTaken,
    /// Log time is the frame's stamp.
    LogTimeGoesBack,
    /// The report log's mark says more than was synced.
    ReportMarkAhead,
    /// What a full input ring did not take of an entry is dropped.
    FeedDropsRest,
    /// Entries that were taken back stay in the log store's memory.
    TruncatedStayInMemory,
    /// Entries that were taken back still count when the next one gets its sequence.
    SequenceNotTakenBack,
}

#[cfg(feature = "planted")]
mod switch {
    use std::sync::atomic::{AtomicU8, Ordering};

    use super::Bug;

    const NONE: u8 = u8::MAX;
    // Relaxed: it is set before a run begins and stays.
    static PLANTED: AtomicU8 = AtomicU8::new(NONE);

    /// Plants a bug in the whole process, or none.
    pub fn plant(bug: Option<Bug>) {
        PLANTED.store(bug.map_or(NONE, |bug| bug as u8), Ordering::Relaxed);
    }

    /// Whether a bug is planted.
    #[inline]
    #[must_use]
    pub fn is_on(bug: Bug) -> bool {
        PLANTED.load(Ordering::Relaxed) == bug as u8
    }
}

#[cfg(feature = "planted")]
pub use switch::{is_on, plant};

/// Whether a bug is planted: never, without the feature.
#[cfg(not(feature = "planted"))]
#[inline]
#[must_use]
pub const fn is_on(_bug: Bug) -> bool {
    false
}

/// A poisonous command: one on which the business logic panics after it has changed its state. It is there in builds with
/// debug assertions alone, which no release is, and only after a test has planted it.
#[cfg(debug_assertions)]
mod poison {
    use std::sync::atomic::{AtomicU64, Ordering};

    use crate::{Body, Command};

    const NONE: u64 = 0;
    // Relaxed: it is set before anything is applied and stays.
    static QUANTITY: AtomicU64 = AtomicU64::new(NONE);

    /// Makes new orders of this quantity, in lots, poisonous in the whole process.
    pub fn plant_poison(quantity: u64) {
        QUANTITY.store(quantity, Ordering::Relaxed);
    }

    /// Whether a command is poisonous.
    #[inline]
    #[must_use]
    pub fn is_poison(command: &Command) -> bool {
        let quantity = QUANTITY.load(Ordering::Relaxed);
        quantity != NONE && matches!(&command.body, Body::NewOrder(order) if order.quantity.0 == quantity)
    }
}

#[cfg(debug_assertions)]
pub use poison::{is_poison, plant_poison};

/// Whether a command is poisonous: never, in a release.
#[cfg(not(debug_assertions))]
#[inline]
#[must_use]
pub const fn is_poison(_command: &crate::Command) -> bool {
    false
}

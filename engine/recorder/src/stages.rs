//! The points of the server's stages, in the order in which a frame passes them, and which of them are told apart by time.
//! It must not be known to the rest of this crate: files say themselves what their points are.
//!
//! A gateway does not know a frame's sequence yet when it publishes it: it records the ring's slots, and the journal stage
//! says which sequences are in which slots. On a member of a cluster the slots are those of the front ring, which have no
//! sequence before they are committed, so nothing is told between these and what follows.

crate::points! {
    /// The points of the server's stages.
    pub static TABLE;
    /// Frames were published into the ring.
    pub PUBLISHED = "gateway.published": "{frames} frames of session {session} published in {slots} slots up to slot {slot}";
    /// The server published a frame of its own.
    pub TICKED = "ticker.published": "{frames} frames of the server's own published in {slots} slots up to slot {slot}";
    /// The journal took a batch from the ring.
    pub TAKEN = "journal.taken": "batch of {frames} frames up to {sequence} taken, up to slot {slot}";
    /// The batch is written, and durable at the configured level.
    pub WRITTEN = "journal.written": "batch of {frames} frames up to {sequence} written, {bytes} bytes";
    /// The frames would survive a power cut.
    pub DURABLE = "journal.durable": "{frames} frames up to {sequence} durable";
    /// The frames are committed.
    pub COMMITTED = "replicate.committed": "{frames} frames up to {sequence} committed";
    /// The frames are decoded.
    pub DECODED = "unmarshal.decoded": "{frames} frames up to {sequence} decoded";
    /// The commands are applied.
    pub APPLIED = "logic.applied": "{frames} commands up to {sequence} applied";
    /// All of their reports are in the report log, and gateways were told.
    pub REPORTED = "reports.written": "reports of {frames} frames up to {sequence} written";
    /// The kernel has taken a session's reports.
    pub SENT = "gateway.sent": "reports of {first} to {sequence} sent to session {session}";
}

/// The times that a table of stages shows, from and to.
pub const TIMES: &[(&str, &str)] = &[
    ("gateway.published", "journal.taken"),
    ("journal.taken", "journal.written"),
    ("journal.written", "journal.durable"),
    ("gateway.published", "unmarshal.decoded"),
    ("journal.written", "logic.applied"),
    ("replicate.committed", "logic.applied"),
    ("unmarshal.decoded", "logic.applied"),
    ("logic.applied", "reports.written"),
    ("reports.written", "gateway.sent"),
    ("gateway.published", "gateway.sent"),
];

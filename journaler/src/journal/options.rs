//! What a journal is opened with.

use std::time::Duration;

use crate::error::{JournalError, Result};
use crate::format::BLOCK_BYTES;
use crate::frames;
use crate::survey::SEGMENT_BLOCKS_MIN;
use protocol::FRAME_LENGTH_MAX;

/// When an append counts as done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// When the operating system has the bytes: a killed process loses nothing, a power cut may.
    Memory,
    /// When the disk has the bytes.
    #[default]
    Disk,
}

/// Who prepares the next segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preparation {
    /// A thread of the journal's, so that no append waits for it.
    #[default]
    Thread,
    /// The append that begins a segment: for tests and simulations, which have one order of events.
    Inline,
}

/// How a journal is kept.
#[derive(Clone, Debug)]
pub struct JournalOptions {
    /// Id of the cluster that the journal belongs to, made at random when the server was set up.
    pub cluster_id: u128,
    /// Length of a segment file in bytes, whole blocks.
    pub segment_bytes: u64,
    /// When an append counts as done.
    pub durability: Durability,
    /// Idleness after which a mark is written.
    pub idle_mark_after: Duration,
    /// Free bytes on the file system below which [`SpaceState::Low`](crate::SpaceState::Low) is told. Everything that
    /// must still be written while cancels go on comes out of this: segments, report log, snapshots.
    pub reserve_bytes: u64,
    /// Who prepares the next segment.
    pub preparation: Preparation,
    /// Whether the journal is a Raft log: opening it then reads all that is kept for [`Recovery::log`](crate::Recovery::log),
    /// and what isn't known to be committed is neither pruned nor archived.
    pub summarize: bool,
}

/// Default length of a segment in bytes.
pub const SEGMENT_BYTES_DEFAULT: u64 = 64 << 20;
/// Longest segment in bytes.
pub const SEGMENT_BYTES_MAX: u64 = 4 << 30;
/// Idleness after which a mark is written, unless configured otherwise.
pub const IDLE_MARK_AFTER_DEFAULT: Duration = Duration::from_millis(100);

impl JournalOptions {
    /// The defaults: 64 MiB segments, `disk`, marks after 100 ms, two segments in reserve, a preparing thread.
    pub fn new(cluster_id: u128) -> Self {
        Self {
            cluster_id,
            segment_bytes: SEGMENT_BYTES_DEFAULT,
            durability: Durability::Disk,
            idle_mark_after: IDLE_MARK_AFTER_DEFAULT,
            reserve_bytes: 2 * SEGMENT_BYTES_DEFAULT,
            preparation: Preparation::Thread,
            summarize: false,
        }
    }

    /// Refuses a segment length that can't be kept.
    pub(crate) fn check(&self) -> Result<()> {
        let block = BLOCK_BYTES as u64;
        let range = SEGMENT_BLOCKS_MIN * block..=SEGMENT_BYTES_MAX;
        if !range.contains(&self.segment_bytes) || !self.segment_bytes.is_multiple_of(block) {
            let text = format!(
                "segment_bytes {} is not whole blocks of {block} within {range:?}",
                self.segment_bytes
            );
            return Err(JournalError::Option(text));
        }
        Ok(())
    }
}

/// A segment holds at least one batch with the longest frame.
const _: () = assert!(
    crate::format::BATCH_HEADER_BYTES + frames::PADDED_LENGTH_MAX <= BLOCK_BYTES
        && FRAME_LENGTH_MAX <= frames::PADDED_LENGTH_MAX
);

//! The business logic fed from the journal, and the search for checkpoints that the log holds. Pure but for reading.

use std::ops::ControlFlow;

use exchange::{EventSink, Exchange};
use journaler::{Cursor, JournalError, JournalReader, Skips};
use protocol::{Body, Command, FrameHeader, FrameKind, Output, Sequence, SessionId, Tick, in_work};

use crate::error::{Result, SnapshotError};
use crate::format::SnapshotHeader;
use crate::store::Refused;

/// Frames that the search for a checkpoint looks at first, from the end; it doubles until one is found.
const SEARCH_FRAMES: u64 = 1 << 16;

/// Frames of one step of a replay.
const SLICE_FRAMES: u64 = 4096;

/// A piece of long work that was just done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The journal was replayed up to this frame.
    Replayed(Sequence),
    /// So many more records were written.
    Written(u64),
}

/// Called after each piece of long work: it may wait, and may stop the work.
pub type Breathe<'a> = dyn FnMut(Step) -> ControlFlow<()> + 'a;

/// A running hash that the log itself vouches for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LoggedCheckpoint {
    /// A tick.
    pub(crate) sequence: Sequence,
    /// Running hash after it, as a later tick carries it.
    pub(crate) running_hash: u64,
}

/// Takes no outputs.
#[derive(Debug)]
pub(crate) struct Mute;

impl EventSink for Mute {
    #[inline]
    fn emit(&mut self, _output: Output) {}
}

/// Feeds `exchange` the frame that follows its state, or passes over it where its operators had it skipped. Every way from
/// the journal to the business logic goes through here, but for the live one.
///
/// # Errors
/// `SkipOfAnotherFrame`; then nothing happened.
#[inline]
pub fn apply_frame(
    exchange: &mut Exchange,
    skips: &Skips,
    frame: &[u8],
    sink: &mut impl EventSink,
) -> std::result::Result<(), JournalError> {
    let sequence = exchange.sequence().next();
    let mut command = Command::default();
    Command::decode_into(frame, &mut command);
    match skips.of(sequence, frame)? {
        None => in_work::applying(sequence, &command, || exchange.apply(&command, sink)),
        Some(skip) => exchange.skip(&command, skip.frame_hash.0, sink),
    }
    Ok(())
}

/// Feeds `exchange` the next [`SLICE_FRAMES`] of the journal's frames, none past `up_to`. False: `up_to` was reached
/// already.
///
/// # Errors
/// `Journal` (a skip of another frame among them), `Gap`, `UnknownRulebook`, and `Diverged` as soon as a tick contradicts the state.
pub(crate) fn slice(
    exchange: &mut Exchange,
    cursor: &mut Cursor,
    skips: &Skips,
    up_to: Sequence,
    sink: &mut impl EventSink,
) -> Result<bool> {
    let end = Sequence(exchange.sequence().0.saturating_add(SLICE_FRAMES)).min(up_to);
    if exchange.sequence() >= end {
        return Ok(false);
    }
    while let Some((sequence, frame)) = cursor.next_frame(end)? {
        let expected = exchange.sequence().next();
        if sequence != expected {
            return Err(SnapshotError::Gap { expected, found: sequence });
        }
        apply_frame(exchange, skips, frame, sink)?;
        if let Some(unknown) = exchange.unknown_rulebook() {
            return Err(unknown.into());
        }
        if let Some(divergence) = exchange.divergence() {
            return Err(SnapshotError::Diverged {
                sequence: divergence.sequence,
                expected: divergence.logged_hash,
                found: divergence.computed_hash,
            });
        }
    }
    Ok(true)
}

/// The newest checkpoint in `after..=up_to` that a tick up to `up_to` carries; `None` if there is none yet.
///
/// # Errors
/// `Journal`.
pub(crate) fn newest_checkpoint(
    journal: &JournalReader,
    after: Sequence,
    up_to: Sequence,
) -> Result<Option<LoggedCheckpoint>> {
    let first = after.next().max(journal.first_sequence());
    let mut window = SEARCH_FRAMES;
    loop {
        let from = Sequence(up_to.0.saturating_sub(window)).max(first);
        if from > up_to {
            return Ok(None);
        }
        let found = last_tick(journal, from, up_to)?
            .map(|tick| LoggedCheckpoint {
                sequence: tick.checkpoint_sequence,
                running_hash: tick.checkpoint_hash,
            })
            .filter(|checkpoint| checkpoint.sequence > after && checkpoint.sequence < up_to);
        if found.is_some() || from == first {
            return Ok(found);
        }
        window = window.saturating_mul(2);
    }
}

fn last_tick(journal: &JournalReader, from: Sequence, up_to: Sequence) -> Result<Option<Tick>> {
    let mut cursor = journal.frames_from(from)?;
    let mut last = None;
    while let Some((sequence, frame)) = cursor.next_frame(up_to)? {
        let is_tick = FrameHeader::read(frame).is_ok_and(|header| {
            header.kind() == Some(FrameKind::Tick) && header.session() == SessionId::SYSTEM
        });
        if is_tick
            && let Body::Tick(tick) = Command::decode(frame).body
            && tick.checkpoint_sequence < sequence
        {
            last = Some(tick);
        }
    }
    Ok(last)
}

/// The exchange to replay from: the loaded one, or an empty one where the journal goes on from it.
///
/// # Errors
/// `NothingToStartFrom` where the journal starts behind it.
pub(crate) fn start(
    loaded: Option<(Exchange, SnapshotHeader)>,
    journal: &JournalReader,
    refused: &[Refused],
) -> Result<Exchange> {
    let exchange = loaded.map_or_else(Exchange::new, |(exchange, _)| exchange);
    let journal_first = journal.first_sequence();
    if journal_first > exchange.sequence().next() {
        return Err(SnapshotError::NothingToStartFrom { journal_first, refused: refused.to_vec() });
    }
    Ok(exchange)
}

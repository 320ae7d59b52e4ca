//! The journal fed through the business logic again, and what comes of it: the numbers by which two runs, two members or
//! two versions are compared. Reads only; a running server is not disturbed.

use exchange::{EventSink, Exchange};
use journaler::{JournalReader, SharedStorage, Skip, Skips};
use protocol::{Event, OutcomeHash, Output, Sequence};
use serde_json::{Value, json};
use snapshots::{Made, SnapshotStore};

use crate::error::CommandError;
use crate::text;

/// Frames between two calls of the progress.
const SLICE_FRAMES: u64 = 4096;

/// Where a replay begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// With the first frame, if the journal still has it.
    Beginning,
    /// With the newest snapshot that verifies.
    Snapshot,
}

/// What a replay came to.
#[derive(Debug)]
pub struct Replayed {
    /// The state at its end.
    pub exchange: Exchange,
    /// The snapshot that it began with.
    pub from_snapshot: Option<Sequence>,
    /// Frames replayed.
    pub frames: u64,
    /// Those of them that were passed over, since their operators had them skipped.
    pub skipped: Vec<Skip>,
    /// What came out meanwhile.
    pub tally: Tally,
}

/// Counts what comes out, and hashes what became of the requests.
#[derive(Debug, Default)]
pub struct Tally {
    /// Hash of every report.
    pub outcome: OutcomeHash,
    /// Reports.
    pub reports: u64,
    /// Trades.
    pub trades: u64,
    /// Rejects.
    pub rejects: u64,
}

impl EventSink for Tally {
    fn emit(&mut self, output: Output) {
        self.outcome.event(&output.event);
        self.reports += u64::from(output.event.recipient().is_some());
        match output.event {
            Event::Trade(_) => self.trades += 1,
            Event::Rejected(_) => self.rejects += 1,
            _ => {}
        }
    }
}

/// Replays the journal of a data directory up to `end`, which must be journaled. `progress` hears frames done and frames
/// in all.
///
/// # Errors
/// The journal, the skips or the snapshots can't be read, a skip is for another frame, the journal does not reach back far enough, it switches to rules that are
/// unknown here, or a tick in the log contradicts the replay.
pub fn replay(
    storage: &SharedStorage,
    cluster_id: u128,
    from: From,
    end: Sequence,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<Replayed, CommandError> {
    let failed = |error: &dyn std::fmt::Display| CommandError::failed(error.to_string());
    let reader = JournalReader::open(storage.clone()).map_err(|error| failed(&error))?;
    let skips = Skips::load(storage, cluster_id).map_err(|error| failed(&error))?;
    let loaded = match from {
        From::Beginning => None,
        From::Snapshot => {
            let store = SnapshotStore::new(storage.clone(), cluster_id);
            store.load_newest(end).map_err(|error| failed(&error))?.loaded
        }
    };
    let from_snapshot = loaded.as_ref().map(|(_, header)| header.sequence);
    let mut exchange = loaded.map_or_else(Exchange::new, |(exchange, _)| exchange);
    let start = exchange.sequence();
    if reader.first_sequence() > start.next() {
        let first = reader.first_sequence();
        return Err(CommandError::failed(match from {
            From::Beginning => format!(
                "the journal begins with sequence {first}, since older segments were pruned; replay from a snapshot \
                 with --from-snapshot"
            ),
            From::Snapshot => {
                format!("the journal begins with sequence {first}, and no snapshot that verifies reaches it")
            }
        }));
    }
    let mut tally = Tally::default();
    let total = end.0.saturating_sub(start.0);
    let mut cursor = reader.frames_from(start.next()).map_err(|error| failed(&error))?;
    while exchange.sequence() < end {
        let slice_end = Sequence(exchange.sequence().0.saturating_add(SLICE_FRAMES)).min(end);
        while let Some((_, frame)) = cursor.next_frame(slice_end).map_err(|error| failed(&error))? {
            snapshots::apply_frame(&mut exchange, &skips, frame, &mut tally)
                .map_err(|error| failed(&error))?;
            if let Some(unknown) = exchange.unknown_rulebook() {
                return Err(failed(&unknown));
            }
        }
        if let Some(divergence) = exchange.divergence() {
            return Err(CommandError::failed(format!(
                "the replay diverges at sequence {}: running hash {}, the log says {}",
                divergence.sequence,
                text::hash(divergence.computed_hash),
                text::hash(divergence.logged_hash),
            )));
        }
        progress(exchange.sequence().0 - start.0, total);
    }
    let skipped =
        skips.iter().filter(|skip| (start.next()..=end).contains(&skip.sequence)).cloned().collect();
    Ok(Replayed { exchange, from_snapshot, frames: total, skipped, tally })
}

/// The numbers of a state: what it is after which frame. `outcome` is known only where all reports were seen.
#[must_use]
pub fn hashes(exchange: &Exchange, outcome: Option<&OutcomeHash>) -> Value {
    json!({
        "sequence": exchange.sequence().0,
        "trading_day": exchange.trading_day().0,
        "running_hash": text::hash(exchange.running_hash()),
        "state_hash": text::hash(exchange.state_hash()),
        "book_hash": text::hash(exchange.book_hash()),
        "outcome_hash": outcome.map(|outcome| text::hash(outcome.value())),
        "open_orders": exchange.open_orders(),
    })
}

/// What is said of a snapshot that was made.
#[must_use]
pub fn made_json(made: &Made) -> Value {
    json!({
        "sequence": made.header.sequence.0,
        "running_hash": text::hash(made.header.running_hash),
        "state_hash": text::hash(made.header.state_hash),
        "replayed": made.replayed,
    })
}

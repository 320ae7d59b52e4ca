//! What a Raft log is asked for when it is opened, gathered by reading all that is kept. Never writes.

use protocol::{Sequence, Term};

use crate::entry_reader::EntryReader;
use crate::error::Result;
use crate::format::{BatchHeader, EntryKind, SegmentHeader};
use crate::places::Places;
use crate::scan::Position;
use crate::storage::SharedStorage;
use crate::survey::{Survey, Surveyed};
use crate::walk::walk;

/// A place between two entries, told by what stands before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogEnd {
    /// Index of the last entry; 0 if there is none.
    pub index: u64,
    /// Sequence of the last frame; 0 if there is none.
    pub sequence: Sequence,
    /// Term of the last entry; 0 if there is none.
    pub term: Term,
}

impl LogEnd {
    /// What a segment follows.
    pub(crate) fn before(header: &SegmentHeader) -> Self {
        let position = Position::of_segment(header);
        Self { index: position.index, sequence: position.last_sequence(), term: position.term }
    }
}

/// The entries that a journal keeps, told by what a Raft log must know of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogSummary {
    /// Index of the oldest entry; one more than `last_index` if there is none.
    pub first_index: u64,
    /// Index of the newest entry; that of `before` if there is none.
    pub last_index: u64,
    /// What the oldest entry follows.
    pub before: LogEnd,
    /// Each term that has an entry, with the index of its first one, in order.
    pub terms: Vec<(Term, u64)>,
    /// Index, term and content of each membership, in order.
    pub memberships: Vec<(u64, Term, Vec<u8>)>,
    /// Highest index that is known to be committed: as the journal says, and whatever was pruned. Not above `last_index`.
    pub committed_index: u64,
    /// Sequence of the last frame up to that entry.
    pub committed_sequence: Sequence,
}

impl LogSummary {
    /// Reads the segments of `survey`, whose end was found before, and remembers places in them.
    ///
    /// # Errors
    /// `Corrupt` wherever the damage is; `Io`.
    pub(crate) fn read(storage: &SharedStorage, survey: &Survey, places: &Places) -> Result<Self> {
        let before =
            survey.segments.first().and_then(Surveyed::valid).map(LogEnd::before).unwrap_or_default();
        let mut summary = Self {
            first_index: before.index + 1,
            last_index: before.index,
            before,
            committed_index: before.index,
            ..Self::default()
        };
        let mut visit = |found: &Surveyed, offset: u64, header: &BatchHeader, payload: &[u8]| {
            if header.kind.is_entry() {
                places.remember(found.number, offset, &summary.position_before(header));
            }
            summary.add(header, payload);
        };
        walk(storage, survey, &mut visit, &mut |_, _, _| ())?;
        summary.committed_sequence =
            EntryReader::beside(storage.clone(), places.clone()).summary_of(summary.committed_index)?.1;
        Ok(summary)
    }

    /// What the entry with `header`, the next to be added, follows.
    fn position_before(&self, header: &BatchHeader) -> Position {
        let term = self.terms.last().map_or(self.before.term, |(term, _)| *term);
        let index = header.index.saturating_sub(1);
        Position { next_sequence: header.first_sequence, index, term, chain: header.chain }
    }

    fn add(&mut self, header: &BatchHeader, payload: &[u8]) {
        self.committed_index = self.committed_index.max(header.committed_index);
        let Some(kind) = header.kind.entry() else { return };
        self.last_index = header.index;
        if self.terms.last().is_none_or(|(term, _)| *term != header.term) {
            self.terms.push((header.term, header.index));
        }
        if kind == EntryKind::Membership {
            self.memberships.push((header.index, header.term, payload.to_vec()));
        }
    }
}

//! The sequencer of a server alone: every frame of the ring is committed as soon as it is seen. The business logic still
//! waits for the journal.

use std::convert::Infallible;
use std::sync::Arc;

use protocol::{Sequence, Term};
use ring::{FramePoller, Mark, Polled, Stage, Work};

/// The term of a server without a cluster.
pub const ALONE: Term = Term(1);

/// Most slots of an entry: so that a deep backlog is committed, and taken by the stages behind it, in pieces.
const ENTRY_SLOTS_MAX: usize = 4096;

/// The sequencer of a server alone.
pub struct Sequencer {
    poller: FramePoller,
    /// Last frame that this stage has taken.
    sequence: Sequence,
    /// Entries so far.
    index: u64,
    term: Arc<Mark>,
    /// The last committed sequence; this stage is its one writer.
    committed: Arc<Mark>,
}

impl Sequencer {
    /// A sequencer whose first frame has the sequence after `base`. `committed` is its mark of committed sequences.
    #[must_use]
    pub fn new(poller: FramePoller, base: Sequence, committed: Arc<Mark>) -> Self {
        committed.advance(base.0);
        Self { poller, sequence: base, index: 0, term: Arc::new(Mark::new(ALONE.0)), committed }
    }

    /// The term that batches are journaled under.
    #[must_use]
    pub fn term_mark(&self) -> Arc<Mark> {
        Arc::clone(&self.term)
    }

    /// Entries assigned since the start.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }
}

impl Stage for Sequencer {
    fn name(&self) -> &'static str {
        "replicate"
    }

    fn do_work(&mut self) -> Work {
        let Self { poller, sequence, index, committed, .. } = self;
        let polled = poller.poll(ENTRY_SLOTS_MAX, |batch| {
            *index += 1;
            *sequence = Sequence(sequence.0 + batch.len() as u64);
            // Before the release of the slots, so that whoever sees them sees the mark.
            committed.advance(sequence.0);
            Ok::<(), Infallible>(())
        });
        match polled {
            Ok(Polled::Work(frames)) => Work::Done(frames),
            Ok(Polled::Idle) => Work::Idle,
            Ok(Polled::Shutdown) => Work::Finished,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ring::{WakeSet, input_ring};

    fn frame() -> [u8; 32] {
        let mut frame = [0; 32];
        frame[0] = 32;
        frame
    }

    #[test]
    fn commits_every_frame_it_sees_and_ends_with_the_ring() {
        let mut ring = input_ring::<u8>(64, WakeSet::default()).unwrap();
        let committed = Arc::new(Mark::default());
        let mut sequencer = Sequencer::new(ring.replicate, Sequence(40), Arc::clone(&committed));
        assert_eq!((committed.get(), sequencer.term_mark().get()), (40, 1));
        assert_eq!(sequencer.do_work(), Work::Idle);
        for _ in 0..3 {
            ring.ingress.try_publish(&frame()).unwrap();
        }
        assert_eq!(sequencer.do_work(), Work::Done(3));
        assert_eq!((committed.get(), sequencer.index()), (43, 1));
        ring.ingress.try_publish(&frame()).unwrap();
        drop(ring.ingress);
        assert_eq!(sequencer.do_work(), Work::Done(1));
        assert_eq!((committed.get(), sequencer.index()), (44, 2));
        assert_eq!(sequencer.do_work(), Work::Finished);
    }
}

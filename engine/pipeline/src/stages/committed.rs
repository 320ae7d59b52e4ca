//! What stands in a member for the journal and the replicate stage: whatever is in its input ring was committed and durable
//! before it was fed, so there is nothing left to do but to say so. It must not be used where gateways publish into the
//! input ring.

use std::convert::Infallible;
use std::sync::Arc;

use protocol::Sequence;
use recorder::{Writer, stages as points};
use ring::{FramePoller, Polled, Stage, Work};

use crate::control::{Control, Course};
use crate::marks::Shared;

/// Most slots of one step, so that a deep backlog reaches the stages behind in pieces.
const STEP_SLOTS_MAX: usize = 4096;

pub(crate) struct Committed {
    journal: FramePoller,
    replicate: FramePoller,
    journaled: Sequence,
    committed: Sequence,
    recorder: Writer,
    shared: Arc<Shared>,
    control: Arc<Control>,
}

impl Committed {
    /// `journal` and `replicate` are the ends that those stages have in a server alone.
    pub(crate) fn new(
        journal: FramePoller,
        replicate: FramePoller,
        base: Sequence,
        shared: Arc<Shared>,
        control: Arc<Control>,
    ) -> Self {
        let recorder = shared.recorder.writer("replicate");
        Self { journal, replicate, journaled: base, committed: base, recorder, shared, control }
    }

    fn step(&mut self) -> Result<[Polled; 2], Infallible> {
        let Self { journal, replicate, journaled, committed, recorder, shared, .. } = self;
        // The marks move before the slots are released, so that the logic sees what it asserts.
        let first = journal.poll(STEP_SLOTS_MAX, |batch| {
            journaled.0 += batch.len() as u64;
            shared.marks.advance_journaled(*journaled);
            Ok::<_, Infallible>(())
        })?;
        let second = replicate.poll(STEP_SLOTS_MAX, |batch| {
            committed.0 += batch.len() as u64;
            shared.marks.advance_committed(*committed);
            recorder.record(points::COMMITTED, [batch.len() as u64, committed.0]);
            Ok::<_, Infallible>(())
        })?;
        Ok([first, second])
    }
}

impl Stage for Committed {
    fn name(&self) -> &'static str {
        "committed"
    }

    fn do_work(&mut self) -> Work {
        if self.control.is_at_least(Course::Abandoned) {
            return Work::Finished;
        }
        match self.step() {
            Ok([Polled::Shutdown, Polled::Shutdown]) => Work::Finished,
            Ok([_, Polled::Work(frames)] | [Polled::Work(frames), _]) => Work::Done(frames),
            Ok(_) if self.control.is_at_least(Course::Leaving) => Work::Finished,
            Ok(_) => Work::Idle,
        }
    }
}

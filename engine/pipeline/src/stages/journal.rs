//! The journal stage: makes every frame of the input ring durable before the logic may see it. It must not release a
//! frame that is not durable at the configured level, and it never retries: an error ends the engine.

use std::sync::Arc;
use std::time::Duration;

use journaler::{Journal, JournalError, SpaceState};
use protocol::{FRAME_LENGTH_MAX, SLOT_LENGTH, Sequence, Term};
use ring::{FrameBatch, FramePoller, Mark, Polled, Stage, Work};

use crate::clock::Clock;
use crate::control::{Control, Course};
use crate::marks::Shared;

/// How often the file system is asked for free space.
const SPACE_INTERVAL: Duration = Duration::from_millis(250);

pub(crate) struct JournalStage {
    poller: FramePoller,
    /// Taken when the stage has finished.
    journal: Option<Journal>,
    term: Arc<Mark>,
    clock: Clock,
    space_asked: Duration,
    shared: Arc<Shared>,
    control: Arc<Control>,
}

impl JournalStage {
    pub(crate) fn new(
        poller: FramePoller,
        journal: Journal,
        term: Arc<Mark>,
        clock: Clock,
        shared: Arc<Shared>,
        control: Arc<Control>,
    ) -> Self {
        Self { poller, journal: Some(journal), term, clock, space_asked: Duration::ZERO, shared, control }
    }

    /// What of a step can fail.
    fn step(&mut self, now: Duration) -> Result<Work, JournalError> {
        let Self { poller, journal, term, clock, space_asked, shared, control } = self;
        let Some(open) = journal.as_mut() else { return Ok(Work::Finished) };
        if now.saturating_sub(*space_asked) >= SPACE_INTERVAL {
            *space_asked = now;
            shared.journal.set_space_low(open.space()? == SpaceState::Low);
        }
        let limit = open.batch_bytes_max() / SLOT_LENGTH;
        debug_assert!(limit * SLOT_LENGTH >= FRAME_LENGTH_MAX, "a batch takes at least one frame");
        let polled = poller.poll(limit, |batch| {
            let journaled = append(open, batch, Term(term.get()))?;
            shared.journal.append_ns.record(nanoseconds(clock.since_epoch().saturating_sub(now)), 1);
            shared.journal.batch_frames.record(batch.len() as u64, 1);
            shared.journal.set_durable(open.durable_sequence());
            // Before the release of the slots, so that the logic sees the mark that it asserts.
            shared.marks.advance_journaled(journaled);
            Ok::<(), JournalError>(())
        })?;
        match polled {
            Polled::Work(frames) => return Ok(Work::Done(frames)),
            Polled::Idle if control.is_at_least(Course::Leaving) => {}
            Polled::Idle => {
                if open.idle(now)? {
                    shared.journal.set_durable(open.durable_sequence());
                }
                return Ok(Work::Idle);
            }
            Polled::Shutdown => {}
        }
        let last = open.journaled_sequence();
        if let Some(journal) = journal.take() {
            journal.close()?;
            shared.journal.set_durable(last);
        }
        Ok(Work::Finished)
    }
}

/// One batch, one write. The limit of the poll sees to it that it fits.
fn append(journal: &mut Journal, batch: FrameBatch<'_>, term: Term) -> Result<Sequence, JournalError> {
    let before = journal.journaled_sequence();
    for run in batch.runs() {
        assert!(journal.push(run), "a batch of {} slots does not fit the journal's", batch.slots());
    }
    let journaled = journal.write(term)?;
    assert_eq!(journaled.0, before.0 + batch.len() as u64, "the journal counted other frames than the ring");
    Ok(journaled)
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Stage for JournalStage {
    fn name(&self) -> &'static str {
        "journal"
    }

    fn do_work(&mut self) -> Work {
        if self.control.is_at_least(Course::Abandoned) {
            return Work::Finished;
        }
        match self.step(self.clock.since_epoch()) {
            Ok(work) => work,
            Err(error) => {
                self.control.fail(&format_args!("journal: {error}"));
                Work::Finished
            }
        }
    }
}

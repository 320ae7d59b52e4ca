//! The journal stage: makes every frame of the input ring durable before the logic may see it. It must not release a
//! frame that is not durable at the configured level, and it never retries: an error ends the engine.

use std::sync::Arc;
use std::time::Duration;

use journaler::{Journal, JournalError, SpaceState};
use protocol::{FRAME_LENGTH_MAX, SLOT_LENGTH, Sequence, Term};
use recorder::{Writer, stages as points};
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
    /// Slots of the ring that it took.
    slots: u64,
    /// Up to where it told that frames are durable.
    durable: Sequence,
    recorder: Writer,
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
        let durable = journal.durable_sequence();
        let recorder = shared.recorder.writer("journal");
        Self {
            poller,
            journal: Some(journal),
            term,
            clock,
            space_asked: Duration::ZERO,
            slots: 0,
            durable,
            recorder,
            shared,
            control,
        }
    }

    /// What of a step can fail.
    fn step(&mut self, now: Duration) -> Result<Work, JournalError> {
        let Self { poller, journal, term, clock, space_asked, slots, durable, recorder, shared, control } =
            self;
        let Some(open) = journal.as_mut() else { return Ok(Work::Finished) };
        if now.saturating_sub(*space_asked) >= SPACE_INTERVAL {
            *space_asked = now;
            shared.journal.set_space_low(open.space()? == SpaceState::Low);
        }
        let limit = open.batch_bytes_max() / SLOT_LENGTH;
        debug_assert!(limit * SLOT_LENGTH >= FRAME_LENGTH_MAX, "a batch takes at least one frame");
        let polled = poller.poll(limit, |batch| {
            *slots += batch.slots() as u64;
            let frames = batch.len() as u64;
            recorder.record(points::TAKEN, [frames, open.journaled_sequence().0 + frames, *slots - 1]);
            let journaled = append(open, batch, Term(term.get()))?;
            recorder.record(points::WRITTEN, [frames, journaled.0, (batch.slots() * SLOT_LENGTH) as u64]);
            shared.journal.append_ns.record(nanoseconds(clock.since_epoch().saturating_sub(now)), 1);
            shared.journal.batch_frames.record(batch.len() as u64, 1);
            tell_durable(open.durable_sequence(), durable, recorder, shared);
            // Before the release of the slots, so that the logic sees the mark that it asserts.
            shared.marks.advance_journaled(journaled);
            Ok::<(), JournalError>(())
        })?;
        match polled {
            Polled::Work(frames) => return Ok(Work::Done(frames)),
            Polled::Idle if control.is_at_least(Course::Leaving) => {}
            Polled::Idle => {
                if open.idle(now)? {
                    tell_durable(open.durable_sequence(), durable, recorder, shared);
                }
                return Ok(Work::Idle);
            }
            Polled::Shutdown => {}
        }
        let last = open.journaled_sequence();
        if let Some(journal) = journal.take() {
            journal.close()?;
            tell_durable(last, durable, recorder, shared);
        }
        Ok(Work::Finished)
    }
}

fn tell_durable(to: Sequence, told: &mut Sequence, recorder: &mut Writer, shared: &Shared) {
    shared.journal.set_durable(to);
    if to > *told {
        recorder.record(points::DURABLE, [to.0 - told.0, to.0]);
        *told = to;
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

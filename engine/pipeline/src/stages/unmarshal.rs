//! The unmarshal stage: decodes each frame into the cell beside it. It must not judge what it decodes: a frame that
//! does not decode becomes a malformed command, which the business logic answers. It sees the bytes, so it is here that a
//! frame which is to be skipped is held against what was meant.

use std::sync::Arc;

use journaler::Skips;
use protocol::{Command, Sequence};
use recorder::{Writer, stages as points};
use ring::{Polled, Stage, UnmarshalPoller, Work};

use crate::control::{Control, Course};
use crate::marks::Shared;

/// Most slots of one step: decoded commands stay in the caches until the logic takes them.
const STEP_SLOTS_MAX: usize = 1024;

pub(crate) struct Unmarshal {
    poller: UnmarshalPoller<Command>,
    sequence: Sequence,
    skips: Arc<Skips>,
    recorder: Writer,
    shared: Arc<Shared>,
    control: Arc<Control>,
}

impl Unmarshal {
    pub(crate) fn new(
        poller: UnmarshalPoller<Command>,
        base: Sequence,
        skips: Arc<Skips>,
        shared: Arc<Shared>,
        control: Arc<Control>,
    ) -> Self {
        let recorder = shared.recorder.writer("unmarshal");
        Self { poller, sequence: base, skips, recorder, shared, control }
    }
}

impl Stage for Unmarshal {
    fn name(&self) -> &'static str {
        "unmarshal"
    }

    fn do_work(&mut self) -> Work {
        if self.control.is_at_least(Course::Abandoned) {
            return Work::Finished;
        }
        let Self { poller, skips, control, .. } = self;
        let mut sequence = self.sequence;
        let polled = poller.poll(STEP_SLOTS_MAX, |frame, cell| {
            sequence = sequence.next();
            if let Err(error) = skips.of(sequence, frame) {
                // The logic looks at the course before each command, so it never gets to this one.
                control.fail(&error);
            }
            Command::decode_into(frame, cell);
        });
        match polled {
            Polled::Work(frames) => {
                self.sequence.0 += frames as u64;
                self.recorder.record(points::DECODED, [frames as u64, self.sequence.0]);
                self.shared.marks.advance_unmarshaled(self.sequence);
                Work::Done(frames)
            }
            Polled::Idle if self.control.is_at_least(Course::Leaving) => Work::Finished,
            Polled::Idle => Work::Idle,
            Polled::Shutdown => Work::Finished,
        }
    }
}

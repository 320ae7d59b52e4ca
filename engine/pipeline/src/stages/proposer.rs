//! The proposer of a member: takes what gateways published into the front ring and hands it to the consensus, entry by
//! entry, while this member leads. It must not propose a frame that was published under another leadership, split a frame,
//! or release one that the consensus did not take.

use std::convert::Infallible;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use protocol::planted::{Bug, is_on};
use protocol::{Body, FrameHeader, FrameKind, Term};
use replicator::{Lead, Proposal, ProposalRefused, ProposalSender};
use ring::{FrameBatch, FramePoller, Polled, SLOT_BYTES, Stage, Work};

use super::own_frame;
use crate::clock::Clock;
use crate::control::{Control, Course};

/// Most slots, and with that most frames, of one entry.
const ENTRY_SLOTS_MAX: usize = 2048;

pub(crate) struct Proposer {
    frames: FramePoller,
    lead: Lead,
    proposals: ProposalSender,
    /// The term whose first frame was handed over.
    begun: Option<Term>,
    /// The consensus ended first: nothing will be committed any more.
    closed: bool,
    /// Slots that an entry may have.
    entry_slots_max: usize,
    clock: Clock,
    control: Arc<Control>,
}

impl Proposer {
    /// `entry_bytes_max` is what the journal takes as one batch.
    pub(crate) fn new(
        frames: FramePoller,
        lead: Lead,
        proposals: ProposalSender,
        entry_bytes_max: usize,
        clock: Clock,
        control: Arc<Control>,
    ) -> Self {
        let entry_slots_max = ENTRY_SLOTS_MAX.min(entry_bytes_max / SLOT_BYTES);
        Self { frames, lead, proposals, begun: None, closed: false, entry_slots_max, clock, control }
    }

    fn set_begun(&mut self, term: Option<Term>) {
        if self.begun != term {
            self.begun = term;
            self.lead.begin(term);
        }
    }

    /// Takes all that was published and forgets it: its connections are closed, or will be by a start.
    fn discard(&mut self) -> Polled {
        match self.frames.poll(usize::MAX, |_| Ok::<_, Infallible>(())) {
            Ok(polled) => polled,
        }
    }

    /// The first frame of a term: all connections are lost. What was published before it is dropped.
    fn begin(&mut self, term: Term) -> Result<Polled, ProposalRefused> {
        if self.discard() == Polled::Shutdown {
            return Ok(Polled::Shutdown);
        }
        let start = own_frame(Body::Start, self.clock.now());
        let mut frames = BytesMut::from(start.as_bytes());
        frames.resize(frames.len().next_multiple_of(SLOT_BYTES), 0);
        if !is_on(Bug::NoStartFrame) {
            self.proposals.try_propose(Proposal { term, frames: frames.freeze() })?;
        }
        self.set_begun(Some(term));
        Ok(Polled::Work(1))
    }

    fn step(&mut self) -> Result<Polled, ProposalRefused> {
        let Some(term) = self.lead.term().filter(|_| !self.closed) else {
            // Also for the same term once more: what was dropped meanwhile may have been a disconnect.
            self.set_begun(None);
            return Ok(self.discard());
        };
        if self.begun != Some(term) {
            return self.begin(term);
        }
        self.proposals.check_room()?;
        let Self { frames, proposals, entry_slots_max, .. } = self;
        let mut propose = |slots_max| {
            frames.poll(slots_max, |batch| match slots_to_tick(batch) {
                Some(slots) if slots < batch.slots() => Err(Cut::BehindTick(slots)),
                _ => {
                    let proposal = Proposal { term, frames: copied(batch) };
                    proposals.try_propose(proposal).map_err(Cut::Refused)
                }
            })
        };
        let polled = match propose(*entry_slots_max) {
            Err(Cut::BehindTick(slots)) => propose(slots),
            polled => polled,
        };
        polled.map_err(|cut| match cut {
            Cut::Refused(refused) => refused,
            Cut::BehindTick(slots) => unreachable!("an entry of {slots} slots ends behind its tick"),
        })
    }
}

/// Why a batch did not become an entry.
enum Cut {
    Refused(ProposalRefused),
    /// An entry ends behind a tick, since snapshots are of ticks, and a member that starts from one goes on with the next
    /// entry.
    BehindTick(usize),
}

/// Slots of the batch up to and with its first tick, if it has one.
fn slots_to_tick(batch: FrameBatch<'_>) -> Option<usize> {
    let mut slots = 0;
    batch.frames().find_map(|frame| {
        slots += frame.len() / SLOT_BYTES;
        let kind = FrameHeader::read(frame).ok().and_then(|header| header.kind());
        (kind == Some(FrameKind::Tick)).then_some(slots)
    })
}

fn copied(batch: FrameBatch<'_>) -> Bytes {
    let mut bytes = BytesMut::with_capacity(batch.slots() * SLOT_BYTES);
    for run in batch.runs() {
        bytes.extend_from_slice(run);
    }
    bytes.freeze()
}

impl Stage for Proposer {
    fn name(&self) -> &'static str {
        "proposer"
    }

    fn do_work(&mut self) -> Work {
        if self.control.is_at_least(Course::Abandoned) {
            return Work::Finished;
        }
        let polled = self.step().unwrap_or_else(|refused| {
            self.closed |= refused == ProposalRefused::Closed;
            Polled::Idle
        });
        match polled {
            Polled::Work(frames) => Work::Done(frames),
            Polled::Idle if self.control.is_at_least(Course::Leaving) => Work::Finished,
            Polled::Idle => Work::Idle,
            Polled::Shutdown => Work::Finished,
        }
    }
}

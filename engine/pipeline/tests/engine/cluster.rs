//! A stand-in for the consensus, for a cluster of one: it takes what is proposed, writes it into the journal, and feeds it
//! in pieces as random as is wanted. What is committed is the test's word.

use std::future::Future;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

use journaler::{EntryKind, EntryReader, Journal, NewEntry, SharedStorage};
use pipeline::{Engine, EngineConfig, EngineStepper, Feed, MemberParts, MemberPorts};
use protocol::{Command, FrameHeader, FrameWriter, Sequence, Term};
use replicator::{Lead, LeadState, Proposal, ProposalReceiver, Settled};
use ring::Ingress;

use crate::support::*;

/// The member's end of the stand-in.
pub(crate) struct Consensus {
    pub(crate) lead: Lead,
    pub(crate) journal: Option<Journal>,
    pub(crate) feed: Option<Feed>,
    proposals: ProposalReceiver,
    settled: Settled,
    lead_changed: ring::WakeSet,
    /// Journaled and not fed yet: padded frames.
    pub(crate) waiting: Vec<u8>,
    /// Each entry's frames.
    pub(crate) entries: Vec<usize>,
    /// Whether the journal is told of what is committed.
    pub(crate) tells: bool,
    /// How often the input ring did not take all that it was given.
    pub(crate) refused: usize,
}

impl Consensus {
    pub(crate) fn new(
        lead: Lead,
        journal: Journal,
        feed: Feed,
        proposals: ProposalReceiver,
        lead_changed: ring::WakeSet,
    ) -> Self {
        let settled = proposals.settled();
        let (waiting, entries) = (Vec::new(), Vec::new());
        let (journal, feed) = (Some(journal), Some(feed));
        Self {
            lead,
            journal,
            feed,
            proposals,
            settled,
            lead_changed,
            waiting,
            entries,
            tells: true,
            refused: 0,
        }
    }

    pub(crate) fn lead_in(&self, term: Option<u64>) {
        self.lead.set(&LeadState { term: term.map(Term), leader: None });
        self.lead_changed.wake();
    }

    /// The next proposal, if there is one now; `Err` when there will be none.
    pub(crate) fn proposal(&mut self) -> Result<Option<Proposal>, ()> {
        let mut next = pin!(self.proposals.next());
        match next.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Pending => Ok(None),
            Poll::Ready(Some(proposal)) => {
                self.settled.one();
                Ok(Some(proposal))
            }
            Poll::Ready(None) => Err(()),
        }
    }

    /// Journals what was proposed in the term that is on; whether more can come.
    pub(crate) fn journal(&mut self) -> bool {
        loop {
            match self.proposal() {
                Ok(Some(proposal)) if Some(proposal.term) == self.lead.term() => {
                    self.append(&proposal.frames, proposal.term);
                    self.waiting.extend_from_slice(&proposal.frames);
                }
                Ok(Some(_)) => {}
                Ok(None) => return true,
                Err(()) => return false,
            }
        }
    }

    /// Writes an entry without committing it.
    pub(crate) fn append(&mut self, frames: &[u8], term: Term) {
        let journal = self.journal.as_mut().expect("an open journal");
        let before = journal.journaled_sequence();
        let entry = NewEntry { term, kind: EntryKind::Frames, payload: frames };
        let after = journal.append_entries(&[entry]).expect("the journal takes the entry");
        self.entries.push((after.0 - before.0) as usize);
    }

    /// Takes all that the journal has and the engine was not fed.
    pub(crate) fn catch_up(&mut self, storage: &SharedStorage) {
        let end = self.journal.as_ref().expect("an open journal").index() + 1;
        let fed = self.feed.as_ref().expect("a feed").fed();
        let mut reader = EntryReader::open(storage.clone()).expect("the journal opens");
        let mut from = reader.entry_at(fed).expect("an entry").index + 1;
        while from < end {
            for entry in reader.read(from, end, 1 << 16).expect("entries") {
                let known = (fed.0 + 1).saturating_sub(entry.first_sequence.0) as usize;
                let skipped = lengths(&entry.payload).take(known).sum::<usize>();
                self.waiting.extend_from_slice(&entry.payload[skipped..]);
                from = entry.index + 1;
            }
        }
    }

    /// Feeds at most `frames` of the waiting frames; whether any was taken. When all are fed, all is committed.
    pub(crate) fn feed(&mut self, frames: usize) -> bool {
        let end = lengths(&self.waiting).take(frames).sum::<usize>();
        let taken = self.feed.as_mut().expect("a feed").push(&self.waiting[..end]);
        self.waiting.drain(..taken);
        self.refused += usize::from(taken < end);
        if self.tells && self.waiting.is_empty() {
            let journal = self.journal.as_mut().expect("an open journal");
            journal.set_committed(journal.index());
        }
        taken > 0
    }
}

/// Padded lengths of the frames in `slots`.
pub(crate) fn lengths(slots: &[u8]) -> impl Iterator<Item = usize> {
    let mut rest = slots;
    std::iter::from_fn(move || {
        let [low, high, ..] = *rest else { return None };
        let padded = usize::from(u16::from_le_bytes([low, high])).next_multiple_of(64);
        rest = &rest[padded..];
        Some(padded)
    })
}

pub(crate) fn padded(frame: &FrameWriter) -> Vec<u8> {
    let mut bytes = frame.as_bytes().to_vec();
    bytes.resize(bytes.len().next_multiple_of(64), 0);
    bytes
}

/// What the housekeeping told of what it still needs.
pub(crate) type Needed = Arc<Mutex<Vec<Sequence>>>;

pub(crate) fn parts(lead: &Lead) -> (MemberParts, Needed) {
    let needed = Needed::default();
    let told = Arc::clone(&needed);
    let retention = Box::new(move |from| told.lock().unwrap().push(from));
    (MemberParts { lead: lead.clone(), retention }, needed)
}

/// A member that is stepped, with its consensus.
pub(crate) struct Member {
    pub(crate) engine: EngineStepper,
    pub(crate) consensus: Consensus,
    pub(crate) confirmed: pipeline::ConfirmedCheckpoint,
    pub(crate) checkpoints: pipeline::Checkpoints,
    pub(crate) gauges: pipeline::JournalGauges,
    pub(crate) recorder: Recorder,
    pub(crate) needed: Needed,
    pub(crate) ingress: Ingress,
}

impl Member {
    pub(crate) fn open(storage: &SharedStorage, config: &EngineConfig) -> Self {
        let (opened, journal) =
            Engine::open_member(storage.clone(), config, &mut |_| ()).expect("the data directory opens");
        let (lead, recorder) = (Lead::new(), Recorder::default());
        let (parts, needed) = parts(&lead);
        let egress = Box::new(recorder.clone());
        let (engine, ports) =
            Engine::stepped_member(config, opened, egress, parts).expect("the engine starts");
        let MemberPorts { feed, proposals, lead_changed, confirmed, checkpoints, journal: gauges } = ports;
        let consensus = Consensus::new(lead, journal, feed, proposals, lead_changed);
        let ingress = engine.ingress();
        Self { engine, consensus, confirmed, checkpoints, gauges, recorder, needed, ingress }
    }

    /// One step of the engine and of the consensus, which commits all that it journals.
    pub(crate) fn step(&mut self) {
        self.engine.step();
        self.consensus.journal();
        self.consensus.feed(usize::MAX);
        self.tell_durable();
    }

    pub(crate) fn tell_durable(&mut self) {
        if let Some(journal) = &self.consensus.journal {
            self.gauges.set_durable(journal.durable_sequence());
        }
    }

    /// Steps until nothing moves.
    pub(crate) fn settle(&mut self) {
        for _ in 0..STEPS_MAX {
            let idle = self.engine.step() == ring::Work::Idle;
            self.consensus.journal();
            let fed = self.consensus.feed(usize::MAX);
            self.tell_durable();
            if idle && !fed {
                return;
            }
        }
        panic!("the member never comes to rest");
    }

    pub(crate) fn publish(&mut self, frame: &FrameWriter) {
        let mut ingress = self.ingress.clone();
        publish(&mut ingress, frame, || self.step());
    }

    /// Publishes all frames and brings the member to rest.
    pub(crate) fn publish_all(&mut self, frames: &[FrameWriter]) {
        frames.iter().for_each(|frame| self.publish(frame));
        self.settle();
    }

    /// Stops in good order and gives the last state.
    pub(crate) fn stop(self) -> Option<exchange::Exchange> {
        let Self { mut engine, mut consensus, ingress, .. } = self;
        drop(ingress);
        engine.begin_stop();
        for _ in 0..STEPS_MAX {
            engine.step();
            let more = consensus.journal();
            consensus.feed(usize::MAX);
            if !more && consensus.waiting.is_empty() {
                break;
            }
        }
        consensus.feed = None;
        let last = engine.stop(STEPS_MAX);
        consensus.journal.take()?.close().expect("the journal closes");
        last
    }
}

/// The frames of a journal, up to and with `end`.
pub(crate) fn logged(storage: &SharedStorage, end: Sequence) -> Vec<Command> {
    let reader = journaler::JournalReader::open(storage.clone()).unwrap();
    let mut cursor = reader.frames_from(Sequence(1)).unwrap();
    let mut commands = Vec::new();
    while let Some((_, frame)) = cursor.next_frame(end).unwrap() {
        assert!(FrameHeader::read(frame).is_ok());
        commands.push(Command::decode(frame));
    }
    commands
}

//! Where events leave the business logic, and where each is folded into the running hash.

use protocol::{Event, Output, Sequence, StreamHash, Timestamp};

use crate::digest::fold_event;

/// Takes what the business logic emits, in order. Called on the engine's thread.
pub trait EventSink {
    /// Takes one event. It must not block, and it can't refuse.
    fn emit(&mut self, output: Output);
}

impl EventSink for Vec<Output> {
    fn emit(&mut self, output: Output) {
        self.push(output);
    }
}

/// The sink of one command.
pub(crate) struct Outbox<'a, S> {
    sink: &'a mut S,
    sequence: Sequence,
    log_time: Timestamp,
    hash: StreamHash,
}

impl<'a, S: EventSink> Outbox<'a, S> {
    /// Goes on from a running hash. The command's own place in the log is folded in here, once for all of its events.
    #[inline]
    pub(crate) fn new(sink: &'a mut S, sequence: Sequence, log_time: Timestamp, running_hash: u64) -> Self {
        let mut hash = StreamHash::resume(running_hash);
        hash.pair(sequence.0, log_time.0);
        Self { sink, sequence, log_time, hash }
    }

    /// Emits an event. Not inlined: it is asked for in many places, and few of them are on every plain order's way.
    #[inline(never)]
    pub(crate) fn emit(&mut self, event: Event) {
        self.emit_inline(event);
    }

    /// Emits an event on a plain order's way: where its kind is known, its hash is a dozen instructions in line.
    #[inline(always)]
    pub(crate) fn emit_inline(&mut self, event: Event) {
        fold_event(&mut self.hash, &event);
        self.sink.emit(Output { sequence: self.sequence, log_time: self.log_time, event });
    }

    /// Emits an event that tells the running hash and is therefore not in it.
    pub(crate) fn emit_unhashed(&mut self, event: Event) {
        self.sink.emit(Output { sequence: self.sequence, log_time: self.log_time, event });
    }

    pub(crate) fn running_hash(&self) -> u64 {
        self.hash.value()
    }
}

//! What follows from a command once it has had its own effect: groups, pegs, trailing stops, stops that trigger, children
//! whose parent is done. It goes on until nothing more follows, within a bound, and never calls itself.

use std::collections::BTreeSet;

use protocol::Phase;

use crate::exchange::Exchange;
use crate::outbox::{EventSink, Outbox};

/// Most stops and children that enter within one command; what is left goes on with the next one.
pub(crate) const CASCADE_MAX: u32 = 10_000;

/// An instrument's number with its place.
type Numbered = (u32, u32);

/// Instruments, lowest number first. It is nearly always one, which is kept outside the set.
#[derive(Debug, Default)]
struct Places {
    one: Option<Numbered>,
    others: BTreeSet<Numbered>,
}

impl Places {
    #[inline]
    fn insert(&mut self, instrument: Numbered) {
        if self.one.is_none_or(|one| one == instrument) {
            self.one = Some(instrument);
        } else {
            self.others.insert(instrument);
        }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.one.is_none() && self.others.is_empty()
    }

    /// The lowest one. It may be in both.
    #[inline]
    fn pop_first(&mut self) -> Option<Numbered> {
        if self.others.is_empty() {
            return self.one.take();
        }
        let first = self.one.into_iter().chain(self.others.first().copied()).min()?;
        self.remove(first);
        Some(first)
    }

    #[inline]
    fn remove(&mut self, instrument: Numbered) {
        self.one = self.one.filter(|one| *one != instrument);
        if !self.others.is_empty() {
            self.others.remove(&instrument);
        }
    }

    fn append(&mut self, more: &mut Self) {
        while let Some(instrument) = more.pop_first() {
            self.insert(instrument);
        }
    }
}

/// What is still to be looked at.
#[derive(Debug, Default)]
pub(crate) struct Consequences {
    /// Instruments with a special part in which something happened.
    touched: Places,
    /// Instruments with a triggered stop or a child whose turn it was, for which the command had no room any more.
    unfinished: Places,
    /// Stops that entered within this command, and children whose turn came.
    entered: u32,
}

impl Exchange {
    /// Something happened in an instrument that others may follow from.
    #[inline]
    pub(crate) fn touch(&mut self, place: u32) {
        let instrument = self.instruments.get(place);
        if instrument.special.is_some() {
            self.consequences.touched.insert((instrument.definition.instrument.0, place));
            self.busy = true;
            self.note_auction(place);
        }
    }

    /// What the command before left goes on.
    pub(crate) fn resume_effects<S: EventSink>(&mut self, out: &mut Outbox<'_, S>) {
        self.consequences.entered = 0;
        self.consequences.touched.append(&mut self.consequences.unfinished);
        self.follow(out);
    }

    /// Something of this command is left to the next one, or it used up some of what may be done within one.
    pub(crate) fn has_left_over(&self) -> bool {
        self.consequences.entered > 0
    }

    /// A command, a timer or one part of either had its effect: what follows from it happens.
    #[inline]
    pub(crate) fn follow<S: EventSink>(&mut self, out: &mut Outbox<'_, S>) {
        if !self.consequences.touched.is_empty() {
            self.follow_touched(out);
        }
    }

    fn follow_touched<S: EventSink>(&mut self, out: &mut Outbox<'_, S>) {
        self.settle_effect(out);
        while let Some((id, place)) = self.consequences.touched.pop_first() {
            let special = self.instruments.get(place).special.as_ref();
            if special.is_some_and(|special| special.waiting.is_quiet()) {
                continue;
            }
            loop {
                let mut did = self.look_at_pegs(place, out);
                self.settle_effect(out);
                self.look_at_trails(place);
                did |= self.trigger_stop(place, out);
                self.settle_effect(out);
                did |= self.activate_children(place, out);
                self.settle_effect(out);
                if !did {
                    break;
                }
            }
            self.consequences.touched.remove((id, place));
        }
    }

    /// What an effect means for others at once, in whatever phase: reduce-only orders and groups.
    pub(crate) fn settle_effect<S: EventSink>(&mut self, out: &mut Outbox<'_, S>) {
        self.cancel_reduce_only(out);
        self.cancel_groups(out);
    }

    /// Whether one more stop or child may enter within this command. If not, its instrument goes on with the next one.
    pub(crate) fn may_cascade(&mut self, place: u32) -> bool {
        if self.consequences.entered < CASCADE_MAX {
            self.consequences.entered += 1;
            return true;
        }
        let id = self.instruments.get(place).definition.instrument.0;
        self.consequences.unfinished.insert((id, place));
        false
    }

    /// After an import: instruments with a stop or a child whose turn it was go on with the next command.
    pub(crate) fn find_unfinished(&mut self) {
        for place in 0..self.instruments.len() {
            let special = self.instruments.get(place).special.as_ref();
            let has_ready = special.is_some_and(|special| !special.waiting.ready.is_empty());
            if self.is_continuous(place) && (has_ready || self.first_triggered(place).is_some()) {
                let id = self.instruments.get(place).definition.instrument.0;
                self.consequences.unfinished.insert((id, place));
                self.consequences.entered = CASCADE_MAX;
            }
        }
    }

    pub(crate) fn is_continuous(&self, place: u32) -> bool {
        let instrument = self.instruments.get(place);
        instrument.phase == Phase::Continuous && !instrument.stopped
    }
}

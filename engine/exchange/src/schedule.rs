//! What is due at a log time: dated orders' expiries and scheduled changes of phases. Graces of lost connections are in
//! `sessions`; here is who fires first.

use std::collections::BTreeMap;

use protocol::{ExpireReason, InstrumentId, OrderId, Phase, RejectReason, RequestId, Timestamp};

use crate::arena::Handle;
use crate::draw::FOR_END;
use crate::exchange::Exchange;
use crate::outbox::{EventSink, Outbox};

/// Most changes of phase that are scheduled for an instrument at a time.
pub(crate) const SCHEDULE_MAX: usize = 64;
pub(crate) const NANOSECONDS_PER_MILLISECOND: u64 = 1_000_000;

/// What fires, in the order of those that fire at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    Expiry(OrderId),
    Phase(InstrumentId),
}

/// Timers of orders and instruments. They follow from the state of those and are no state of their own.
#[derive(Debug)]
pub(crate) struct Timers {
    /// With the order's handle or the instrument's place.
    due: BTreeMap<(Timestamp, Due), u32>,
    /// The first of them, or the end of time.
    next: Timestamp,
}

impl Default for Timers {
    fn default() -> Self {
        Self { due: BTreeMap::new(), next: Timestamp(u64::MAX) }
    }
}

impl Timers {
    fn set(&mut self, at: Timestamp, due: Due, what: u32) {
        self.due.insert((at, due), what);
        self.next = self.next.min(at);
    }

    fn remove(&mut self, at: Timestamp, due: Due) {
        self.due.remove(&(at, due));
        self.next = self.due.first_key_value().map_or(Timestamp(u64::MAX), |((at, _), _)| *at);
    }

    /// When the first is due, or the end of time.
    #[inline]
    pub(crate) fn next(&self) -> Timestamp {
        self.next
    }

    /// When the first is due.
    pub(crate) fn next_deadline(&self) -> Option<Timestamp> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }
}

/// A change of phase to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) at: Timestamp,
    pub(crate) phase: Phase,
    /// Its time has come already, and `at` is the time that was drawn then.
    pub(crate) delayed: bool,
}

impl Change {
    pub(crate) fn new(at: u64, phase: Phase) -> Self {
        Self { at: Timestamp(at), phase, delayed: false }
    }
}

/// Changes of an instrument's phase to come.
#[derive(Debug, Default)]
pub(crate) struct Schedule {
    /// By their time.
    pub(crate) changes: BTreeMap<Timestamp, Change>,
    /// End of the volatility auction that a band brought about.
    pub(crate) volatility_end: Option<Change>,
    /// For when the instrument has its timer.
    armed: Option<Timestamp>,
}

impl Schedule {
    /// The first change; of two at one time the end of the volatility auction.
    fn first(&self) -> Option<Change> {
        let scheduled = self.changes.first_key_value().map(|(_, change)| *change);
        match (self.volatility_end, scheduled) {
            (Some(end), Some(change)) if change.at < end.at => Some(change),
            (Some(end), _) => Some(end),
            (None, scheduled) => scheduled,
        }
    }

    /// Takes the first change out. True: it is the end of the volatility auction.
    fn take_first(&mut self) -> Option<(Change, bool)> {
        let first = self.first()?;
        let is_volatility_end = self.volatility_end == Some(first);
        if is_volatility_end {
            self.volatility_end = None;
        } else {
            self.changes.remove(&first.at);
        }
        Some((first, is_volatility_end))
    }

    /// Puts a change back at a later time. One that is there already gives way.
    fn put_off(&mut self, change: Change, is_volatility_end: bool) {
        if is_volatility_end {
            self.volatility_end = Some(change);
        } else {
            self.changes.insert(change.at, change);
        }
    }
}

impl Exchange {
    /// Does what an earlier command left, and fires what is due at log time, earliest first, each with all that follows from it.
    #[cold]
    pub(crate) fn fire_due<S: EventSink>(&mut self, out: &mut Outbox<'_, S>) {
        self.busy = true;
        self.resume_effects(out);
        loop {
            // At one time expiries and phases come before graces.
            if self.timers.next <= self.log_time
                && self.sessions.next_deadline().is_none_or(|grace| self.timers.next <= grace)
            {
                self.fire_first(out);
            } else if let Some(session) = self.sessions.take_due(self.log_time) {
                self.cancel_disconnected(session, out);
                self.follow(out);
            } else {
                return;
            }
        }
    }

    #[cold]
    fn fire_first<S: EventSink>(&mut self, out: &mut Outbox<'_, S>) {
        let Some(((at, due), what)) = self.timers.due.first_key_value().map(|(key, what)| (*key, *what))
        else {
            return;
        };
        match due {
            Due::Expiry(_) => {
                let handle = Handle::new(what);
                self.finish_expired(handle, ExpireReason::Expired, RequestId(0), out);
                debug_assert!(!self.timers.due.contains_key(&(at, due)), "who leaves forgets its expiry");
            }
            Due::Phase(_) => self.fire_phase(what, out),
        }
        self.follow(out);
    }

    /// The first change of an instrument's phase is due: it is done, or put off where it ends an auction.
    fn fire_phase<S: EventSink>(&mut self, place: u32, out: &mut Outbox<'_, S>) {
        let first = self.instruments.get_mut(place).special_mut().schedule.take_first();
        self.arm(place);
        let Some((change, is_volatility_end)) = first else { return };
        let instrument = self.instruments.get(place);
        if instrument.stopped || change.phase == instrument.phase {
            return;
        }
        if change.delayed || !instrument.phase.is_auction() {
            self.change_phase(place, change.phase, out);
            return;
        }
        let sizes = u64::from(instrument.rules().random_end_ms) + 1;
        let id = instrument.definition.instrument;
        let delay = self.draw([FOR_END, id.0.into(), change.at.0], sizes) * NANOSECONDS_PER_MILLISECOND;
        let at = Timestamp(change.at.0.saturating_add(delay));
        let change = Change { at, delayed: true, ..change };
        self.instruments.get_mut(place).special_mut().schedule.put_off(change, is_volatility_end);
        self.arm(place);
    }

    /// Sets an instrument's timer to its first change.
    pub(crate) fn arm(&mut self, place: u32) {
        let instrument = self.instruments.get_mut(place);
        let due = Due::Phase(instrument.definition.instrument);
        let schedule = &mut instrument.special_mut().schedule;
        let first = schedule.first().map(|change| change.at);
        if let Some(before) = std::mem::replace(&mut schedule.armed, first) {
            self.timers.remove(before, due);
        }
        if let Some(at) = first {
            self.timers.set(at, due, place);
        }
    }

    /// A dated order will expire.
    pub(crate) fn schedule_expiry(&mut self, handle: Handle) {
        if let Some((at, due)) = self.expiry(handle) {
            self.timers.set(at, due, handle.raw());
        }
    }

    /// A dated order leaves, or has already.
    pub(crate) fn forget_expiry(&mut self, handle: Handle) {
        if let Some((at, due)) = self.expiry(handle) {
            self.timers.remove(at, due);
        }
    }

    fn expiry(&self, handle: Handle) -> Option<(Timestamp, Due)> {
        let at = self.orders.extra(handle)?.terms.expire_time()?;
        Some((at, Due::Expiry(self.orders.arena.get(handle).order_id)))
    }

    /// True: the schedule is another one now.
    pub(crate) fn schedule_phase(
        &mut self,
        id: InstrumentId,
        at: Timestamp,
        phase: Phase,
    ) -> Result<bool, RejectReason> {
        let place = self.check_phase(id, phase)?;
        if at <= self.log_time {
            return Err(RejectReason::SchedulePast);
        }
        let schedule = &mut self.instruments.get_mut(place).special_mut().schedule;
        let before = schedule.changes.get(&at);
        if before.is_none() && schedule.changes.len() >= SCHEDULE_MAX {
            return Err(RejectReason::ScheduleFull);
        }
        let change = Change::new(at.0, phase);
        if before == Some(&change) {
            return Ok(false);
        }
        schedule.changes.insert(at, change);
        self.arm(place);
        Ok(true)
    }

    /// True: something was scheduled.
    pub(crate) fn clear_schedule(&mut self, id: InstrumentId) -> Result<bool, RejectReason> {
        let place = self.instruments.place(id).ok_or(RejectReason::UnknownInstrument)?;
        let Some(special) = &mut self.instruments.get_mut(place).special else { return Ok(false) };
        let before = special.schedule.changes.len();
        // The time of a delayed one has come: what is scheduled next would not bring it again.
        special.schedule.changes.retain(|_, change| change.delayed);
        let had = special.schedule.changes.len() < before;
        if had {
            self.arm(place);
        }
        Ok(had)
    }
}

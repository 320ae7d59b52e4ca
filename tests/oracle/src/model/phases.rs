//! Phases, schedules and everything else that a clock brings: rules 57, 60 to 66.

use protocol::{
    Event, ExpireReason, InstrumentId, OrderId, Phase, RejectReason, SessionId, TimeInForce, Timestamp,
};

use super::accounts::Changed;
use super::order::{Standing, Why};
use super::{Fault, Oracle, UNASKED};

/// Most phases scheduled for an instrument.
const MOST_SCHEDULED: usize = 64;
const MILLISECOND: u64 = 1_000_000;

/// A change of phase by timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scheduled {
    /// The phase.
    pub phase: Phase,
    /// Its time is one that it was delayed to.
    pub delayed: bool,
}

/// What is due, in the order of rule 65 among what is due at one time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Expiry(OrderId),
    /// The end of a volatility auction comes before what is scheduled.
    Volatility(InstrumentId),
    Scheduled(InstrumentId, Timestamp),
    Grace(SessionId),
}

impl Timer {
    fn class(self) -> (u8, u64, u8, u64) {
        match self {
            Self::Expiry(id) => (0, id.0, 0, 0),
            Self::Volatility(id) => (1, id.0.into(), 0, 0),
            Self::Scheduled(id, at) => (1, id.0.into(), 1, at.0),
            Self::Grace(id) => (2, id.0.into(), 0, 0),
        }
    }
}

impl Oracle {
    fn timers(&self) -> impl Iterator<Item = (Timestamp, Timer)> {
        let expiries =
            self.dated.iter().filter_map(|id| Some((self.order(*id).expiry()?, Timer::Expiry(*id))));
        let phases = self.instruments.iter().flat_map(|(id, it)| {
            let volatility =
                it.volatility.map(|(end, delayed)| (delayed.unwrap_or(end), Timer::Volatility(*id)));
            let scheduled = it.schedule.keys().map(|at| (*at, Timer::Scheduled(*id, *at)));
            volatility.into_iter().chain(scheduled)
        });
        let graces =
            self.sessions.iter().filter_map(|(id, session)| Some((session.deadline?, Timer::Grace(*id))));
        expiries.chain(phases).chain(graces)
    }

    /// The earliest timer.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.timers().map(|(at, _)| at).min()
    }

    /// Rule 65: what is due fires, each with all that follows from it.
    pub(super) fn fire_timers(&mut self) {
        loop {
            let due = self.timers().filter(|(at, _)| *at <= self.log_time);
            let Some((_, timer)) = due.min_by_key(|(at, timer)| (*at, timer.class())) else { return };
            match timer {
                Timer::Expiry(id) => self.expire(id, ExpireReason::Expired, UNASKED),
                Timer::Volatility(id) => self.end_volatility(id),
                Timer::Scheduled(id, at) => self.fire_scheduled(id, at),
                Timer::Grace(id) => {
                    self.sessions.entry(id).or_default().deadline = None;
                    self.cancel_disconnected(id);
                }
            }
            self.follow();
        }
    }

    /// Rule 66: how long after its time the end of an auction comes.
    fn delayed(&self, instrument: InstrumentId, at: Timestamp) -> Timestamp {
        let most = u64::from(self.instruments[&instrument].rules.random_end_ms);
        let by = self.draw([2, instrument.0.into(), at.0], most + 1);
        let by = if self.is_faulty(Fault::EndNotDelayed) { 0 } else { by };
        Timestamp(at.0.saturating_add(by * MILLISECOND))
    }

    fn end_volatility(&mut self, id: InstrumentId) {
        let Some((end, delayed)) = self.instruments[&id].volatility else { return };
        if delayed.is_none() {
            let delayed = Some(self.delayed(id, end));
            self.instruments.entry(id).and_modify(|it| it.volatility = Some((end, delayed)));
        } else {
            self.change_phase(id, Phase::Continuous);
        }
    }

    fn fire_scheduled(&mut self, id: InstrumentId, at: Timestamp) {
        let Some(it) = self.instruments.get_mut(&id) else { return };
        let Some(change) = it.schedule.remove(&at) else { return };
        let ends_auction = it.phase.is_auction() && it.phase != change.phase;
        if !change.delayed && ends_auction {
            // What is scheduled for just the delayed time gives way to it.
            let at = self.delayed(id, at);
            let change = Scheduled { delayed: true, ..change };
            self.instruments.entry(id).and_modify(|it| {
                it.schedule.insert(at, change);
            });
        } else {
            self.change_phase(id, change.phase);
        }
    }

    /// Rule 70: a price band was reached.
    pub(super) fn start_volatility_auction(&mut self, id: InstrumentId) {
        self.change_phase(id, Phase::VolatilityAuction);
        let log_time = self.log_time.0;
        self.instruments.entry(id).and_modify(|it| {
            let end = log_time.saturating_add(u64::from(it.rules.volatility_ms) * MILLISECOND);
            it.volatility = Some((Timestamp(end), None));
        });
    }

    /// Rules 60 to 64: everything that a change of phase does but what follows from it.
    pub(super) fn change_phase(&mut self, id: InstrumentId, to: Phase) {
        let from = self.instruments[&id].phase;
        if from == to {
            return;
        }
        if matches!(to, Phase::Continuous | Phase::Closed) {
            self.uncross(id);
        }
        self.expire_auction_orders(id, from, to);
        self.instruments.entry(id).and_modify(|it| {
            it.phase = to;
            it.volatility = None;
            it.indicative = None;
            it.looked_at = None;
        });
        self.touched.insert(id);
        self.events.push(Event::PhaseChanged(id, to));
        let orders = self.orders_of_instrument(id);
        for order in orders {
            let Some(known) = self.orders.get(&order).copied() else { continue };
            let rests = matches!(known.standing, Standing::Resting(_));
            if to.is_call() && known.terms.peg().is_some() && rests {
                self.take_out(order);
                self.wait(order, Why::Peg);
            } else if to == Phase::ClosingAuction && known.standing == Standing::Waiting(Why::Close) {
                self.take_out(order);
                self.enter(order, UNASKED);
            } else if to == Phase::Closed && known.ends_with_day() {
                self.expire(order, ExpireReason::EndOfDay, UNASKED);
            }
        }
    }

    /// Rule 64.5.
    fn expire_auction_orders(&mut self, id: InstrumentId, from: Phase, to: Phase) {
        let ends_all = matches!(to, Phase::Continuous | Phase::Closed);
        let is_left = !matches!(to, Phase::Halted | Phase::CancelOnly);
        let ends = |auction: Phase| ends_all || from == auction && is_left;
        for order in self.orders_of_instrument(id) {
            let known = *self.order(order);
            let is_over = match known.time_in_force {
                TimeInForce::AtTheOpen => ends(Phase::OpeningAuction),
                TimeInForce::AtTheClose => {
                    ends(Phase::ClosingAuction) && matches!(known.standing, Standing::Resting(_))
                }
                TimeInForce::GoodForAuction => ends_all || from.is_auction() && is_left,
                _ => false,
            };
            if is_over {
                self.expire(order, ExpireReason::AuctionEnd, UNASKED);
            }
        }
    }

    pub(super) fn orders_of_instrument(&self, id: InstrumentId) -> Vec<OrderId> {
        let orders = self.orders.values().filter(|order| order.instrument == id);
        orders.map(|order| order.order_id).collect()
    }

    /// Rule 66.
    pub(super) fn schedule(&mut self, id: InstrumentId, at: Timestamp, phase: Phase) -> Changed {
        let log_time = self.log_time;
        let it = self.instruments.get_mut(&id).ok_or(RejectReason::UnknownInstrument)?;
        it.check_phase(phase)?;
        if at <= log_time {
            return Err(RejectReason::SchedulePast);
        }
        if it.schedule.len() >= MOST_SCHEDULED && !it.schedule.contains_key(&at) {
            return Err(RejectReason::ScheduleFull);
        }
        let change = Scheduled { phase, delayed: false };
        Ok(it.schedule.insert(at, change) != Some(change))
    }

    pub(super) fn clear_schedule(&mut self, id: InstrumentId) -> Changed {
        let it = self.instruments.get_mut(&id).ok_or(RejectReason::UnknownInstrument)?;
        let before = it.schedule.len();
        it.schedule.retain(|_, change| change.delayed);
        Ok(it.schedule.len() < before)
    }
}

//! What bounds a session beyond its role: whose it is, and how many messages of each kind it may send in a second of log
//! time.

use protocol::{Joined, ParticipantId, Throttle, Timestamp, TradingDay};

const NANOSECONDS_PER_SECOND: u64 = 1_000_000_000;

/// Participant, throttle and the counts of the second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Controls {
    /// 0 is none.
    pub(crate) participant: ParticipantId,
    /// Since when it is the participant's.
    pub(crate) joined: Joined,
    pub(crate) throttle: Throttle,
    /// The second of log time that the counts are of.
    pub(crate) second: u64,
    /// Orders, replaces and quote entries that passed. Only what is limited is counted.
    pub(crate) orders: u32,
    /// Cancels and mass cancels that passed.
    pub(crate) cancels: u32,
}

impl Controls {
    /// Whether its requests are checked at all.
    pub(crate) fn are_set(&self) -> bool {
        self.participant != ParticipantId(0) || self.throttle != Throttle::default()
    }

    /// Counts so many orders if they may still be sent in this second; false: they may not, and count not.
    pub(crate) fn take_orders(&mut self, now: Timestamp, weight: u32) -> bool {
        self.throttle.orders == 0 || {
            self.turn(now);
            take(&mut self.orders, weight, self.throttle.orders)
        }
    }

    /// The same for a cancel or mass cancel.
    pub(crate) fn take_cancel(&mut self, now: Timestamp) -> bool {
        self.throttle.cancels == 0 || {
            self.turn(now);
            take(&mut self.cancels, 1, self.throttle.cancels)
        }
    }

    /// Another participant has it from here on.
    pub(crate) fn set_participant(&mut self, participant: ParticipantId, now: Joined) {
        if self.participant != participant {
            self.participant = participant;
            self.joined = if participant == ParticipantId(0) { Joined::default() } else { now };
        }
    }

    /// Forgets since when it is the participant's once no report from before can be had any more: those of the current and
    /// the previous day can.
    pub(crate) fn begin_day(&mut self, day: TradingDay) {
        if self.joined.trading_day.0.saturating_add(1) < day.0 {
            self.joined = Joined::default();
        }
    }

    /// Another throttle counts from zero.
    pub(crate) fn set_throttle(&mut self, throttle: Throttle) {
        if self.throttle != throttle {
            let Self { participant, joined, .. } = *self;
            *self = Self { participant, joined, throttle, ..Self::default() };
        }
    }

    fn turn(&mut self, now: Timestamp) {
        let second = now.0 / NANOSECONDS_PER_SECOND;
        if second != self.second {
            (self.second, self.orders, self.cancels) = (second, 0, 0);
        }
    }
}

fn take(count: &mut u32, weight: u32, limit: u32) -> bool {
    let after = count.saturating_add(weight);
    let fits = after <= limit;
    if fits {
        *count = after;
    }
    fits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_and_cancels_have_budgets_of_their_own_by_whole_seconds() {
        let throttle = Throttle { orders: 3, cancels: 1 };
        let mut controls = Controls { throttle, ..Controls::default() };
        let at = |second: u64, nanosecond: u64| Timestamp(second * NANOSECONDS_PER_SECOND + nanosecond);
        assert!(controls.take_orders(at(5, 900_000_000), 2));
        assert!(!controls.take_orders(at(5, 900_000_000), 2), "refused ones count not");
        assert!(controls.take_orders(at(5, 999_999_999), 1));
        assert!(controls.take_cancel(at(5, 999_999_999)));
        assert!(!controls.take_cancel(at(5, 999_999_999)));
        assert!(controls.take_cancel(at(6, 0)) && controls.take_orders(at(6, 0), 3));
    }

    #[test]
    fn no_limit_is_never_reached() {
        let mut controls = Controls::default();
        assert!(!controls.are_set());
        assert!(controls.take_orders(Timestamp(1), u32::MAX) && controls.take_orders(Timestamp(1), u32::MAX));
        assert_eq!(controls, Controls::default(), "what is not limited is not counted");
    }

    #[test]
    fn another_throttle_counts_from_zero() {
        let mut controls = Controls { throttle: Throttle { orders: 1, cancels: 0 }, ..Controls::default() };
        assert!(controls.take_orders(Timestamp(1), 1));
        controls.set_throttle(controls.throttle);
        assert!(!controls.take_orders(Timestamp(1), 1));
        controls.set_throttle(Throttle { orders: 1, cancels: 9 });
        assert!(controls.take_orders(Timestamp(1), 1));
    }
}

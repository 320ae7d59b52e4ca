//! A token bucket over a caller's time. It must not read a clock.

use std::time::Duration;

/// How many messages a session may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottleLimits {
    /// Messages a second, in the long run. Above zero.
    pub rate: u32,
    /// Messages at once after a pause. Above zero.
    pub burst: u32,
}

/// What is left of a session's allowance. Cancels may overdraw it by one more burst, so that a client that is throttled
/// can still take its orders out of the book.
#[derive(Clone, Copy, Debug)]
pub struct Throttle {
    // In nanoseconds of time to be earned; from -burst_ns to burst_ns.
    credit_ns: i64,
    cost_ns: i64,
    burst_ns: i64,
    filled_at: Duration,
}

impl Throttle {
    /// A full allowance at `now`.
    #[must_use]
    pub fn new(limits: ThrottleLimits, now: Duration) -> Self {
        let cost_ns = 1_000_000_000 / i64::from(limits.rate.max(1));
        let burst_ns = cost_ns.saturating_mul(i64::from(limits.burst.max(1)));
        Self { credit_ns: burst_ns, cost_ns, burst_ns, filled_at: now }
    }

    /// Adds what time has earned.
    pub fn refill(&mut self, now: Duration) {
        let earned = now.saturating_sub(self.filled_at).as_nanos();
        let earned = i64::try_from(earned).unwrap_or(i64::MAX);
        self.credit_ns = self.credit_ns.saturating_add(earned).min(self.burst_ns);
        self.filled_at = self.filled_at.max(now);
    }

    /// Takes one message's worth; `false` where there is not enough, and nothing was taken.
    pub fn take(&mut self, is_cancel: bool) -> bool {
        let floor = if is_cancel { -self.burst_ns } else { 0 };
        let left = self.credit_ns - self.cost_ns;
        if left < floor {
            return false;
        }
        self.credit_ns = left;
        true
    }

    /// Whether one more message's worth is there.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.credit_ns >= self.cost_ns
    }

    /// Whether nothing is missing: the allowance is as good as a new one.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.credit_ns >= self.burst_ns
    }
}

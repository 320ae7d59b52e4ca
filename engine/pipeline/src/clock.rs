//! The engine's clock: real, or set by a simulation. It owns the one place in the engine that reads time; it must not
//! reach the business logic, whose time comes from frames.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use protocol::Timestamp;

/// Gives Unix time that never goes back.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    /// Unix time at `started`, and the monotonic clock from there on: a step of the system's clock does not reach the
    /// log.
    System { unix: Duration, started: Instant },
    /// Nanoseconds, written by the [`ManualClock`] only.
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's time.
    #[must_use]
    pub fn system() -> Self {
        // A system clock before 1970 counts as 1970: log time then starts low, which nothing forbids.
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(Source::System { unix, started: Instant::now() })
    }

    /// Unix time in nanoseconds.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        Timestamp(nanoseconds(self.since_epoch()))
    }

    /// The same as a duration, for those who measure spans.
    #[must_use]
    pub fn since_epoch(&self) -> Duration {
        match &self.0 {
            Source::System { unix, started } => *unix + started.elapsed(),
            // Relaxed: time orders nothing between threads.
            Source::Manual(now) => Duration::from_nanos(now.load(Ordering::Relaxed)),
        }
    }
}

/// Time that stands still until it is moved: for simulations and tests.
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// A clock that stands at `now`.
    #[must_use]
    pub fn at(now: Timestamp) -> Self {
        Self(Arc::new(AtomicU64::new(now.0)))
    }

    /// The clock for an engine; it shows what this one is moved to.
    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock(Source::Manual(Arc::clone(&self.0)))
    }

    /// Moves time on.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(nanoseconds(by), Ordering::Relaxed);
    }
}

fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_time_moves_only_when_told() {
        let manual = ManualClock::at(Timestamp(5));
        let clock = manual.clock();
        assert_eq!(clock.now(), Timestamp(5));
        manual.advance(Duration::from_micros(1));
        assert_eq!(clock.now(), Timestamp(1_005));
    }

    #[test]
    fn system_time_never_goes_back() {
        let clock = Clock::system();
        let first = clock.now();
        assert!(clock.now() >= first);
    }
}

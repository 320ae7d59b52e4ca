//! From the counter's ticks to time. It must not be needed while something is recorded.

use rustix::time::{ClockId, clock_gettime};

use crate::ticks;

/// The counter and the system's clocks at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// The time stamp counter.
    pub ticks: u64,
    /// Nanoseconds of the monotonic clock: how long a tick is follows from it, since nobody sets it.
    pub monotonic_ns: u64,
    /// Nanoseconds since 1970 (UTC): what people are shown.
    pub wall_ns: u64,
}

impl Reading {
    /// This moment. Of a few tries the one is taken whose counter was read closest to the clocks.
    #[must_use]
    pub fn now() -> Self {
        const TRIES: usize = 4;
        let look = || {
            let before = ticks::now();
            let (monotonic_ns, wall_ns) = (nanoseconds(ClockId::Monotonic), nanoseconds(ClockId::Realtime));
            let took = ticks::now().saturating_sub(before);
            (took, Self { ticks: before + took / 2, monotonic_ns, wall_ns })
        };
        let (_, reading) =
            (1..TRIES).map(|_| look()).fold(look(), |best, next| if next.0 < best.0 { next } else { best });
        reading
    }

    /// Ticks a second from here to `later`; `None` where too little has passed to tell.
    #[must_use]
    pub fn ticks_per_second(&self, later: &Self) -> Option<u64> {
        const ENOUGH_NS: u64 = 1_000_000;
        let nanoseconds =
            later.monotonic_ns.checked_sub(self.monotonic_ns).filter(|passed| *passed >= ENOUGH_NS)?;
        let ticks = later.ticks.checked_sub(self.ticks)?;
        u64::try_from(u128::from(ticks) * 1_000_000_000 / u128::from(nanoseconds))
            .ok()
            .filter(|rate| *rate > 0)
    }
}

fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    seconds.saturating_mul(1_000_000_000).saturating_add(u64::try_from(time.tv_nsec).unwrap_or_default())
}

/// What a file tells of ticks and time.
#[derive(Clone, Debug, PartialEq)]
pub struct ClockMap {
    readings: Vec<Reading>,
    nanoseconds_per_tick: f64,
}

impl ClockMap {
    /// From a file's readings, and the ticks a second that its writer had found. Where the readings are far enough apart, they
    /// tell themselves.
    #[must_use]
    pub fn new(mut readings: Vec<Reading>, ticks_per_second: u64) -> Self {
        readings.sort_by_key(|reading| reading.ticks);
        let own = match (readings.first(), readings.last()) {
            (Some(first), Some(last)) => first.ticks_per_second(last),
            _ => None,
        };
        let nanoseconds_per_tick = 1e9 / own.unwrap_or(ticks_per_second).max(1) as f64;
        Self { readings, nanoseconds_per_tick }
    }

    /// How long so many ticks are, in nanoseconds.
    #[must_use]
    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        (ticks as f64 * self.nanoseconds_per_tick) as u64
    }

    /// When that was, in nanoseconds since 1970 (UTC): from the last reading before, or else the first.
    #[must_use]
    pub fn wall_ns(&self, ticks: u64) -> u64 {
        let behind = self.readings.partition_point(|reading| reading.ticks <= ticks);
        let Some(reading) = self.readings.get(behind.saturating_sub(1)) else { return 0 };
        match ticks.checked_sub(reading.ticks) {
            Some(since) => reading.wall_ns.saturating_add(self.nanoseconds(since)),
            None => reading.wall_ns.saturating_sub(self.nanoseconds(reading.ticks - ticks)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_told_from_the_reading_before() {
        let at = |seconds: u64, wall_ns: u64| Reading {
            ticks: 1_000 + 3_000_000_000 * seconds,
            monotonic_ns: 77 + 1_000_000_000 * seconds,
            wall_ns,
        };
        // The wall clock is set forward by an hour between the readings, which makes no interval longer.
        let (hour, second) = (3_600_000_000_000, 1_000_000_000);
        let map = ClockMap::new(vec![at(1, hour + second), at(0, 0)], 1);
        assert_eq!(map.nanoseconds(3_000), 1_000);
        assert_eq!(map.wall_ns(1_000 + 1_500_000_000), second / 2);
        assert_eq!(map.wall_ns(1_000 + 3_000_000_000 + 3_000), hour + second + 1_000);
        // Before the first, and with only one.
        let map = ClockMap::new(vec![at(1, hour)], 3_000_000_000);
        assert_eq!(map.wall_ns(1_000), hour - second);
        assert_eq!(ClockMap::new(Vec::new(), 0).wall_ns(5), 0);
    }

    #[test]
    fn the_counter_rises_with_the_clock() {
        let first = Reading::now();
        let later = std::iter::repeat_with(Reading::now)
            .find(|later| first.ticks_per_second(later).is_some())
            .expect("an endless iterator");
        assert!(later.ticks > first.ticks && later.wall_ns > 0);
    }
}

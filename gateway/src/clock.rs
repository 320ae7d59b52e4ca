//! The gateway's clock: the only place of this crate that reads one.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use protocol::Timestamp;

use crate::session::Now;

/// Wall time carried on by the monotonic clock from one reading at the start: a step of the system's clock can't put a
/// time stamp far ahead into the log, from where log time could not come back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    started: Instant,
    started_unix_ns: u64,
}

impl Clock {
    pub(crate) fn start() -> Self {
        let unix = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self { started: Instant::now(), started_unix_ns: u64::try_from(unix.as_nanos()).unwrap_or(u64::MAX) }
    }

    pub(crate) fn now(&self) -> Now {
        let monotonic = self.started.elapsed();
        let elapsed_ns = u64::try_from(monotonic.as_nanos()).unwrap_or(u64::MAX);
        Now { monotonic, unix: Timestamp(self.started_unix_ns.saturating_add(elapsed_ns)) }
    }

    /// The runtime's instant of a moment of this clock.
    pub(crate) fn instant(&self, monotonic: Duration) -> tokio::time::Instant {
        tokio::time::Instant::from_std(self.started + monotonic)
    }
}

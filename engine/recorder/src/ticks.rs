//! The time stamp counter. The one file with `unsafe`: reading it takes 7 ns where a clock of the system takes 16, of the 10
//! that a record may take. It must not be compared between machines, or between starts of one: [`crate::ClockMap`] turns it into
//! time.
#![allow(unsafe_code)]

/// The counter of this CPU: of a frequency that does not change, and the same on all CPUs, on every machine that Linux takes it
/// for a clock on.
#[cfg(target_arch = "x86_64")]
#[inline]
#[must_use]
pub fn now() -> u64 {
    // SAFETY: needed since the intrinsic is declared unsafe. It has no precondition: every x86_64 CPU has the instruction, and
    // it touches no memory.
    unsafe { core::arch::x86_64::_rdtsc() }
}

/// Nanoseconds of the monotonic clock since the first call.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
#[must_use]
pub fn now() -> u64 {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    let start = START.get_or_init(std::time::Instant::now);
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

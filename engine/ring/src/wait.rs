//! Waiting and waking: a thread that finds nothing to do spins a little and parks; whoever gives it something to do
//! wakes it. It must not decide what "something to do" is: the caller's check does. No `yield` loops (with more
//! threads than cores they measured worst).
//!
//! # Why no wake-up is lost
//!
//! ```text
//!  waker                                    waiter
//!  W1  make work visible (Release)          R1  parked = true
//!  W2  fence(SeqCst)                        R2  fence(SeqCst)
//!  W3  load parked                          R3  check for work
//!  W4  if it was set: clear it, unpark      R4  if there is none: park
//! ```
//!
//! The two fences are in one total order. If W2 comes first, R3 sees what W1 made visible and the waiter does not
//! park. If R2 comes first, W3 sees `parked` and W4 unparks. Unparking leaves a token, so it also works between R3
//! and R4. A token whose waiter found work in R3 stays and lets the next park return at once, which costs one round
//! of checks and nothing else.
//!
//! A slot that a slower publisher has claimed and not yet published hides later ones from R3; that publisher runs W2
//! to W4 after its own W1, so the waiter is woken then. The parking time is thus not needed for correctness: it bounds
//! how late a stage sees what nobody wakes it for (its own timers).

use std::fmt;
use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use crossbeam_utils::sync::{Parker, Unparker};

/// How a thread waits when none of its stages has work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitStrategy {
    /// Never gives the core up: for a pinned thread that has a core to itself.
    BusySpin,
    /// Checks `spins` times, then parks until woken, at most `park` long.
    SpinThenPark {
        /// Rounds over all stages of the thread before it parks; a round of idle stages costs some tens of ns.
        spins: u32,
        /// Longest time to stay parked: what the shortest timer in the thread's stages can bear.
        park: Duration,
    },
}

impl Default for WaitStrategy {
    /// A short spin, since a spinning thread takes the core from one with work when there are more threads than cores.
    fn default() -> Self {
        Self::SpinThenPark { spins: 64, park: Duration::from_millis(10) }
    }
}

/// Why [`Waiter::wait`] came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The check found work (and did it).
    Worked,
    /// The thread was woken, or had only spun: check again.
    Woken,
    /// It stayed parked for the whole parking time.
    TimedOut,
}

struct Shared {
    // Set by the waiter (R1), read by wakers (W3) and cleared by either (W4, after parking). On a line of its own:
    // wakers read it after each publication and it changes only around a park.
    parked: CachePadded<AtomicBool>,
    unparker: Unparker,
}

/// The waiting end; it belongs to one thread and can be made before that thread starts.
pub struct Waiter {
    parker: Parker,
    shared: Arc<Shared>,
    strategy: WaitStrategy,
}

impl Waiter {
    /// A waiter that waits by `strategy`.
    pub fn new(strategy: WaitStrategy) -> Self {
        let parker = Parker::new();
        let unparker = parker.unparker().clone();
        let shared = Arc::new(Shared { parked: CachePadded::new(AtomicBool::new(false)), unparker });
        Self { parker, shared, strategy }
    }

    /// The end that wakes this waiter.
    pub fn waker(&self) -> Waker {
        Waker { shared: Arc::clone(&self.shared), can_park: self.strategy != WaitStrategy::BusySpin }
    }

    /// Waits once by the strategy. `check` looks for work, does it, and says whether there was any.
    pub fn wait(&mut self, mut check: impl FnMut() -> bool) -> Waited {
        let (spins, park) = match self.strategy {
            WaitStrategy::BusySpin => {
                hint::spin_loop();
                return Waited::Woken;
            }
            WaitStrategy::SpinThenPark { spins, park } => (spins, park),
        };
        for _ in 0..spins {
            hint::spin_loop();
            if check() {
                return Waited::Worked;
            }
        }
        let parked = &self.shared.parked;
        // R1. Relaxed: the fence behind it (R2) puts it in order against W2 and W3 of `Waker::wake_after_fence`.
        parked.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if check() {
            // Relaxed: a waker that still sees it set leaves a token too many, which is harmless.
            parked.store(false, Ordering::Relaxed);
            return Waited::Worked;
        }
        let started = Instant::now();
        self.parker.park_timeout(park);
        // A waker that cleared it is why we are back; Relaxed: the data is ordered by the rings' own cursors.
        let woken = !parked.swap(false, Ordering::Relaxed);
        if woken || started.elapsed() < park { Waited::Woken } else { Waited::TimedOut }
    }
}

impl fmt::Debug for Waiter {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Waiter").field("strategy", &self.strategy).finish_non_exhaustive()
    }
}

/// The waking end of a [`Waiter`].
#[derive(Clone)]
pub struct Waker {
    shared: Arc<Shared>,
    can_park: bool,
}

impl Waker {
    /// Wakes the waiter if it is parked. Call it after the work was made visible. Costs a fence and a load when the
    /// waiter is awake, a system call when it sleeps.
    #[inline]
    pub fn wake(&self) {
        if self.can_park {
            // W2, pairs with the fence R2 in `Waiter::wait`.
            fence(Ordering::SeqCst);
            self.wake_after_fence();
        }
    }

    #[inline]
    fn wake_after_fence(&self) {
        // W3, pairs with the store R1 in `Waiter::wait` by way of the two fences.
        if self.shared.parked.load(Ordering::Relaxed) {
            self.unpark();
        }
    }

    #[cold]
    fn unpark(&self) {
        // The swap lets one of several wakers pay for the system call.
        if self.shared.parked.swap(false, Ordering::Relaxed) {
            self.shared.unparker.unpark();
        }
    }
}

impl fmt::Debug for Waker {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Waker").field("can_park", &self.can_park).finish_non_exhaustive()
    }
}

/// The wakers of all threads that one event may give work to. Waiters that never park are left out, so that an
/// all-spinning layout pays nothing.
#[derive(Clone, Debug, Default)]
pub struct WakeSet(Arc<[Waker]>);

impl WakeSet {
    /// The set of `wakers`; several of one waiter count once.
    pub fn new(wakers: impl IntoIterator<Item = Waker>) -> Self {
        let mut distinct: Vec<Waker> = Vec::new();
        for waker in wakers {
            if waker.can_park && !distinct.iter().any(|known| Arc::ptr_eq(&known.shared, &waker.shared)) {
                distinct.push(waker);
            }
        }
        Self(distinct.into())
    }

    /// Wakes all of them that are parked, with one fence.
    #[inline]
    pub fn wake(&self) {
        if self.0.is_empty() {
            return;
        }
        // W2, pairs with the fence R2 in `Waiter::wait`.
        fence(Ordering::SeqCst);
        for waker in self.0.iter() {
            waker.wake_after_fence();
        }
    }
}

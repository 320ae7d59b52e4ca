//! Runs producers and consumers of whatever kind for a while, and checks that what arrived is what was sent. It must not
//! know what lies between them.

use std::ops::Range;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use ring::{Polled, WaitStrategy, Waiter, WakeSet};
use rustix::thread::{CpuSet, sched_setaffinity};

/// Messages that a producer sends between two looks at the clock, and a consumer takes between two looks at the digest.
pub(crate) const CHUNK: u64 = 64;
/// Bits of a message's number below that of its producer.
const PRODUCER_SHIFT: u32 = 40;

/// An entry of `W` words of 8 bytes.
pub(crate) type Entry<const W: usize> = [u64; W];

/// The entry of a number: each word is written.
#[inline]
pub(crate) fn entry<const W: usize>(number: u64) -> Entry<W> {
    let mut words = [number; W];
    words[W - 1] = number ^ (W as u64 - 1);
    words
}

/// Sends the messages with these numbers, as many as there is room for, and says how many. Its drop ends the stream.
pub(crate) type Produce = Box<dyn FnMut(Range<u64>) -> u64 + Send>;
/// Takes what is there, up to about a chunk or a batch, into the digest.
pub(crate) type Consume = Box<dyn FnMut(&mut Digest) -> Polled + Send>;

/// What arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest {
    count: u64,
    sum: u64,
    // Depends on the order, too.
    chain: u64,
}

impl Digest {
    /// Takes in an entry by its first and last word, so that of a long one each cache line but the middle is read.
    #[inline]
    pub(crate) fn take<const W: usize>(&mut self, entry: &Entry<W>) {
        self.number(entry[0], entry[W - 1] ^ (W as u64 - 1));
    }

    /// Takes in a message whose number was read at its start and at its end.
    #[inline]
    pub(crate) fn number(&mut self, start: u64, end: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(end);
        self.chain = self.chain.rotate_left(5) ^ start;
    }
}

/// How a thread waits that has nothing to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Looks again at once.
    Spin,
    /// Looks again after the processor's hint for such loops.
    Hint,
    /// Lets another thread go first.
    Yield,
    /// Sleeps for so long.
    Sleep(Duration),
    /// So many looks, then parked until woken. A producer yields: in the product, too, it never parks.
    Park(u32),
}

impl Idle {
    /// For the names of rows.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Spin => "spin".into(),
            Self::Hint => "spin-hint".into(),
            Self::Yield => "yield".into(),
            Self::Sleep(time) => format!("sleep-{}us", time.as_micros()),
            Self::Park(spins) => format!("park-after-{spins}"),
        }
    }

    #[inline]
    /// Waits once, but for [`Idle::Park`], which is its thread's.
    pub(crate) fn wait(self) {
        match self {
            Self::Spin => {}
            Self::Hint => std::hint::spin_loop(),
            Self::Yield | Self::Park(_) => thread::yield_now(),
            Self::Sleep(time) => thread::sleep(time),
        }
    }
}

/// One thing to measure.
pub(crate) struct Setup {
    /// Each on a thread of its own.
    pub(crate) producers: Vec<Produce>,
    /// Those of each thread; each sees every message.
    pub(crate) consumers: Vec<Vec<Consume>>,
    /// How all threads wait.
    pub(crate) idle: Idle,
}

impl Setup {
    /// One producer, one consumer, both spinning.
    pub(crate) fn pair(produce: Produce, consume: Consume) -> Self {
        Self { producers: vec![produce], consumers: vec![vec![consume]], idle: Idle::Spin }
    }
}

/// Sends for `time` and until all has arrived; messages a second.
///
/// # Panics
/// When something else arrived than what was sent.
pub(crate) fn measure(setup: Setup, time: Duration) -> f64 {
    let Setup { producers, consumers, idle } = setup;
    let threads = producers.len() + consumers.len();
    let waiters: Vec<Waiter> = consumers.iter().map(|_| waiter(idle)).collect();
    let wakes = WakeSet::new(waiters.iter().map(Waiter::waker));
    let start = Barrier::new(threads + 1);
    let (senders, start, wakes) = (producers.len(), &start, &wakes);
    thread::scope(|scope| {
        let consumers: Vec<_> = consumers
            .into_iter()
            .zip(waiters)
            .enumerate()
            .map(|(nth, (consumers, waiter))| {
                scope.spawn(move || {
                    place(senders + nth, threads);
                    start.wait();
                    consume(consumers, waiter, wakes, idle)
                })
            })
            .collect();
        let producers: Vec<_> = producers
            .into_iter()
            .enumerate()
            .map(|(nth, producer)| {
                scope.spawn(move || {
                    place(nth, threads);
                    start.wait();
                    produce(producer, (nth as u64) << PRODUCER_SHIFT, wakes, idle, time)
                })
            })
            .collect();
        start.wait();
        let started = Instant::now();
        let sent: Vec<u64> = producers.into_iter().map(|thread| thread.join().expect("no panic")).collect();
        let arrived: Vec<Digest> =
            consumers.into_iter().flat_map(|thread| thread.join().expect("no panic")).collect();
        let rate = sent.iter().sum::<u64>() as f64 / started.elapsed().as_secs_f64();
        check(&sent, &arrived);
        rate
    })
}

fn check(sent: &[u64], arrived: &[Digest]) {
    let mut expected = Digest::default();
    for (producer, sent) in sent.iter().enumerate() {
        let base = (producer as u64) << PRODUCER_SHIFT;
        (base..base + sent).for_each(|number| expected.number(number, number));
    }
    for digest in arrived {
        assert_eq!((digest.count, digest.sum), (expected.count, expected.sum), "what arrived was not sent");
        assert!(sent.len() > 1 || digest.chain == expected.chain, "one producer's order is kept");
    }
}

fn waiter(idle: Idle) -> Waiter {
    Waiter::new(match idle {
        Idle::Park(spins) => WaitStrategy::SpinThenPark { spins, park: Duration::from_millis(10) },
        _ => WaitStrategy::BusySpin,
    })
}

/// How many cores the calling thread may use.
pub(crate) fn cores() -> usize {
    thread::available_parallelism().map_or(1, usize::from)
}

/// Keeps a thread on a core of its own where there are enough.
pub(crate) fn place(nth: usize, threads: usize) {
    if threads <= cores() {
        let mut set = CpuSet::new();
        set.set(nth);
        // Without the right to it, the system places the thread.
        let _ = sched_setaffinity(None, &set);
    }
}

fn produce(mut produce: Produce, base: u64, wakes: &WakeSet, idle: Idle, time: Duration) -> u64 {
    let started = Instant::now();
    let (mut sent, mut ended) = (0, false);
    while !ended {
        let end = sent + CHUNK;
        while sent < end {
            let taken = produce(base + sent..base + end);
            sent += taken;
            if taken == 0 {
                wakes.wake();
                idle.wait();
                // What waits for long must not go on for long.
                if started.elapsed() >= time {
                    break;
                }
            }
        }
        wakes.wake();
        ended = started.elapsed() >= time;
    }
    drop(produce);
    wakes.wake();
    sent
}

fn consume(mut consumers: Vec<Consume>, mut waiter: Waiter, wakes: &WakeSet, idle: Idle) -> Vec<Digest> {
    let mut digests = vec![Digest::default(); consumers.len()];
    let mut open = consumers.len();
    // One that has seen the end says so each time; it is asked no more than the others are.
    let mut step = || {
        let mut worked = false;
        open = 0;
        for (consumer, digest) in consumers.iter_mut().zip(&mut digests) {
            match consumer(digest) {
                Polled::Work(_) => worked = true,
                Polled::Idle => {}
                Polled::Shutdown => continue,
            }
            open += 1;
        }
        if worked && matches!(idle, Idle::Park(_)) {
            wakes.wake();
        }
        (worked, open == 0)
    };
    loop {
        match (step(), idle) {
            ((_, true), _) => break,
            ((true, _), _) => {}
            (_, Idle::Park(_)) => {
                waiter.wait(|| {
                    let (worked, ended) = step();
                    worked || ended
                });
            }
            _ => idle.wait(),
        }
    }
    // Whoever is behind these ends now.
    drop(consumers);
    wakes.wake();
    digests
}

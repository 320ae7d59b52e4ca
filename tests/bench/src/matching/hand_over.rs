//! A core on one thread, a digest on another, and the product's output ring between them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use book::{Core, Event, Sink};
use ring::{OutputPublisher, Polled};

use super::{Digest, Flow};

/// Events that the ring holds: 512 KiB, a quarter of the second-level cache that the core shares with it.
const RING_EVENTS: usize = 1 << 14;
/// Events that are published at once.
const FLUSH_EVENTS: usize = 256;

/// A run.
pub(super) struct HandOver {
    /// Requests a second, until the last event was digested.
    pub(super) rate: f64,
    /// Events that were not digested when the core was done.
    lag: u64,
    /// Times that the core found the ring full.
    waits: u64,
}

impl HandOver {
    pub(super) fn note(&self) -> String {
        format!("ring of {RING_EVENTS} events, {} behind at the stop, {} waits", self.lag, self.waits)
    }
}

struct Handing {
    ring: OutputPublisher<Event>,
    waits: u64,
}

impl Handing {
    #[cold]
    fn wait(&mut self, event: Event) {
        self.waits += 1;
        self.ring.flush();
        while self.ring.push(event).is_err() {
            std::hint::spin_loop();
        }
    }
}

impl Sink for Handing {
    #[inline(always)]
    fn emit(&mut self, event: Event) {
        if self.ring.push(event).is_err() {
            self.wait(event);
        }
    }
}

/// Runs a flow once; the reader's digest is as expected.
pub(super) fn measure(flow: &Flow, core: &mut Core, expected: Digest) -> HandOver {
    let (mut publisher, [mut poller]) = ring::output_ring::<Event, 1>(RING_EVENTS).expect("a power of two");
    publisher.flush_every(FLUSH_EVENTS);
    // Read by the core's thread when it is done; nothing is published by it.
    let digested = Arc::new(AtomicU64::new(0));
    let reader = std::thread::spawn({
        let digested = Arc::clone(&digested);
        move || {
            let mut digest = Digest::default();
            loop {
                let polled = poller.poll_slices(RING_EVENTS, |slices| {
                    slices.into_iter().flatten().for_each(|event| digest.add(event));
                });
                match polled {
                    Polled::Work(_) => digested.store(digest.events, Ordering::Relaxed),
                    Polled::Idle => std::hint::spin_loop(),
                    Polled::Shutdown => return digest,
                }
            }
        }
    });
    let mut sink = Handing { ring: publisher, waits: 0 };
    let started = Instant::now();
    core.apply_all(&flow.requests, &mut sink);
    sink.ring.flush();
    let lag = expected.events.saturating_sub(digested.load(Ordering::Relaxed));
    let waits = sink.waits;
    drop(sink);
    let digest = reader.join().expect("the reader does not panic");
    let seconds = started.elapsed().as_secs_f64();
    assert_eq!(digest, expected, "{}: the reader digests what the slow core emits", flow.name);
    flow.reset(core);
    HandOver { rate: flow.requests.len() as f64 / seconds, lag, waits }
}

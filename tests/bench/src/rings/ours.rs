//! The product's own rings in the shapes that they have there.

use std::convert::Infallible;
use std::ops::Range;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use ring::{
    FramePoller, Ingress, OutputPoller, Polled, SLOT_BYTES, WaitStrategy, Waiter, WakeSet, frame_ring,
    input_ring, output_ring,
};

use super::harness::{Consume, Digest, Entry, Idle, Produce, Setup, entry};
use crate::machine::new_histogram;

/// How the output ring is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Write {
    /// Each event published by itself.
    Each,
    /// Events pushed, and published each [`CHUNK`](super::harness::CHUNK).
    Push,
}

fn output_consumer<const W: usize>(mut poller: OutputPoller<Entry<W>>, limit: usize) -> Consume {
    Box::new(move |digest: &mut Digest| {
        poller.poll_slices(limit, |slices| slices.into_iter().flatten().for_each(|entry| digest.take(entry)))
    })
}

/// The output ring with `N` readers, on one thread or on one each, that take at most `limit` events at once.
pub(crate) fn output<const W: usize, const N: usize>(
    slots: usize,
    write: Write,
    limit: usize,
    one_thread: bool,
    idle: Idle,
) -> Setup
where
    Entry<W>: Default,
{
    let (mut publisher, pollers) = output_ring::<Entry<W>, N>(slots).expect("a legal size");
    let produce: Produce = Box::new(move |numbers: Range<u64>| {
        let written = numbers.take_while(|number| match write {
            Write::Each => publisher.try_publish(entry(*number)).is_ok(),
            Write::Push => publisher.push(entry(*number)).is_ok(),
        });
        let count = written.count() as u64;
        publisher.flush();
        count
    });
    let consumers = pollers.map(|poller| output_consumer(poller, limit));
    let consumers = if one_thread {
        vec![consumers.into()]
    } else {
        consumers.into_iter().map(|consumer| vec![consumer]).collect()
    };
    Setup { producers: vec![produce], consumers, idle }
}

/// Frames of one slot, their number at both ends, published so many at once.
fn frames(mut ingress: Ingress, at_once: usize) -> Produce {
    let mut bytes = [[0; SLOT_BYTES]; 64];
    bytes.iter_mut().for_each(|frame| frame[..2].copy_from_slice(&(SLOT_BYTES as u16).to_le_bytes()));
    Box::new(move |numbers: Range<u64>| {
        let mut next = numbers.start;
        while next < numbers.end {
            let count = at_once.min((numbers.end - next) as usize);
            for (frame, number) in bytes.iter_mut().zip(next..).take(count) {
                frame[8..16].copy_from_slice(&number.to_le_bytes());
                frame[SLOT_BYTES - 8..].copy_from_slice(&number.to_le_bytes());
            }
            let sent = if at_once == 1 {
                usize::from(ingress.try_publish(&bytes[0]).is_ok())
            } else {
                ingress.publish_some(bytes[..count].as_flattened()).map_or(0, |published| published.frames)
            };
            next += sent as u64;
            if sent < count {
                break;
            }
        }
        next - numbers.start
    })
}

#[inline]
fn take_frame(digest: &mut Digest, frame: &[u8]) {
    let number = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    digest.number(number(&frame[8..16]), number(&frame[SLOT_BYTES - 8..]));
}

fn frame_consumer(mut poller: FramePoller) -> Consume {
    Box::new(move |digest: &mut Digest| {
        let polled = poller.poll(usize::MAX, |batch| {
            batch.frames().for_each(|frame| take_frame(digest, frame));
            Ok::<_, Infallible>(())
        });
        match polled {
            Ok(polled) => polled,
        }
    })
}

/// The front ring: so many publishers, one reader of raw frames.
pub(crate) fn front(slots: usize, producers: usize, at_once: usize) -> Setup {
    let (ingress, poller) = frame_ring(slots, WakeSet::default()).expect("a legal size");
    let idle = if producers == 1 { Idle::Spin } else { Idle::Yield };
    let producers = (0..producers).map(|_| frames(ingress.clone(), at_once)).collect();
    Setup { producers, consumers: vec![vec![frame_consumer(poller)]], idle }
}

/// The input ring: so many publishers, three readers beside each other, and the logic behind them, all on one thread.
pub(crate) fn input(slots: usize, producers: usize) -> Setup {
    let ring = input_ring::<(u64, u64)>(slots, WakeSet::default()).expect("a legal size");
    let mut unmarshal = ring.unmarshal;
    let unmarshal: Consume = Box::new(move |digest: &mut Digest| {
        unmarshal.poll(usize::MAX, |frame, decoded| {
            let mut own = Digest::default();
            take_frame(&mut own, frame);
            take_frame(digest, frame);
            let number = |at: usize| u64::from_le_bytes(frame[at..at + 8].try_into().expect("eight bytes"));
            *decoded = (number(8), number(SLOT_BYTES - 8));
        })
    });
    let mut logic = ring.logic;
    let logic: Consume = Box::new(move |digest: &mut Digest| {
        logic.poll(usize::MAX, |batch| {
            batch.iter().for_each(|(start, end)| digest.number(*start, *end));
            batch.len()
        })
    });
    let consumers = vec![frame_consumer(ring.journal), frame_consumer(ring.replicate), unmarshal, logic];
    let idle = if producers == 1 { Idle::Spin } else { Idle::Yield };
    let producers = (0..producers).map(|_| frames(ring.ingress.clone(), 16)).collect();
    Setup { producers, consumers: vec![consumers], idle }
}

/// One message to and fro between two threads over two output rings, for so long: ns a round trip.
pub(crate) fn ping_pong(idle: Idle, time: Duration) -> Histogram<u64> {
    let waiter = || {
        Waiter::new(match idle {
            Idle::Park(spins) => WaitStrategy::SpinThenPark { spins, park: Duration::from_millis(10) },
            _ => WaitStrategy::BusySpin,
        })
    };
    let (mut here, mut there) = (waiter(), waiter());
    let (wake_here, wake_there) = (here.waker(), there.waker());
    let (mut out, [mut arriving]) = output_ring::<u64, 1>(64).expect("a legal size");
    let (mut back, [mut returning]) = output_ring::<u64, 1>(64).expect("a legal size");
    let echo = std::thread::spawn(move || {
        let mut ended = false;
        while !ended {
            let mut step = || {
                let polled =
                    arriving.poll(1, |number, _| back.try_publish(*number).expect("one is on its way"));
                if polled != Polled::Idle {
                    wake_here.wake();
                }
                ended |= polled == Polled::Shutdown;
                polled != Polled::Idle
            };
            wait(idle, &mut there, &mut step);
        }
    });
    let mut histogram = new_histogram();
    let started = Instant::now();
    let mut number = 0;
    while started.elapsed() < time {
        let sent = Instant::now();
        out.try_publish(number).expect("one is on its way");
        wake_there.wake();
        let mut returned = false;
        while !returned {
            let mut step = || {
                let polled = returning.poll(1, |answer, _| assert_eq!(*answer, number));
                returned |= polled == Polled::Work(1);
                returned
            };
            wait(idle, &mut here, &mut step);
        }
        histogram.saturating_record(sent.elapsed().as_nanos() as u64);
        number += 1;
    }
    drop(out);
    wake_there.wake();
    echo.join().expect("no panic");
    histogram
}

fn wait(idle: Idle, waiter: &mut Waiter, step: &mut impl FnMut() -> bool) {
    if !step() {
        match idle {
            Idle::Park(_) => {
                waiter.wait(step);
            }
            _ => idle.wait(),
        }
    }
}

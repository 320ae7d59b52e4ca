//! A ring of one producer and one consumer in the steps that made such rings fast, each a constant of one
//! implementation. Its words are atomics that are read and written relaxed, which are plain moves, so that it needs no
//! `unsafe`. It must not be used for anything but to be measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crossbeam_utils::atomic::AtomicCell;
use ring::Polled;

use super::harness::{CHUNK, Digest, Entry, Produce, Setup, entry};

/// What entries lie in.
trait Slots<const W: usize>: Send + Sync + 'static {
    fn new(slots: usize) -> Self;
    fn put(&self, at: usize, entry: Entry<W>);
    fn get(&self, at: usize) -> Entry<W>;
}

/// Each entry an allocation of its own, freed by the consumer.
struct Boxed<const W: usize>(Box<[AtomicCell<Option<Box<Entry<W>>>>]>);

impl<const W: usize> Slots<W> for Boxed<W> {
    fn new(slots: usize) -> Self {
        Self((0..slots).map(|_| AtomicCell::new(None)).collect())
    }

    #[inline]
    fn put(&self, at: usize, entry: Entry<W>) {
        self.0[at].store(Some(Box::new(entry)));
    }

    #[inline]
    fn get(&self, at: usize) -> Entry<W> {
        *self.0[at].take().expect("what is published is there")
    }
}

/// All entries in one piece of memory, made once.
struct Inline<const W: usize>(Box<[[AtomicU64; W]]>);

impl<const W: usize> Slots<W> for Inline<W> {
    fn new(slots: usize) -> Self {
        Self((0..slots).map(|_| std::array::from_fn(|_| AtomicU64::new(0))).collect())
    }

    #[inline]
    fn put(&self, at: usize, entry: Entry<W>) {
        for (place, word) in self.0[at].iter().zip(entry) {
            place.store(word, Ordering::Relaxed);
        }
    }

    #[inline]
    fn get(&self, at: usize) -> Entry<W> {
        std::array::from_fn(|word| self.0[at][word].load(Ordering::Relaxed))
    }
}

/// A pair of numbers that only rise, side by side or each on lines of its own.
#[repr(align(256))]
struct Indices([AtomicU64; 32]);

/// `CACHED`: each end keeps what it last saw of the other's index and looks again only where that is used up. `RELEASE`:
/// indices are stored with Release, else sequentially consistent. `MASK`: places by a mask, else by a remainder. `PADDED`:
/// indices on lines of their own.
struct Ring<S, const CACHED: bool, const RELEASE: bool, const MASK: bool, const PADDED: bool> {
    slots: S,
    size: u64,
    indices: Indices,
}

impl<S, const CACHED: bool, const RELEASE: bool, const MASK: bool, const PADDED: bool>
    Ring<S, CACHED, RELEASE, MASK, PADDED>
{
    const HEAD: usize = 0;
    const TAIL: usize = if PADDED { 16 } else { 1 };

    #[inline]
    fn place(&self, number: u64) -> usize {
        (if MASK { number & (self.size - 1) } else { number % self.size }) as usize
    }

    #[inline]
    fn load(&self, index: usize) -> u64 {
        // Pairs with the store below. On x86 the two orders are the same load.
        self.indices.0[index].load(if RELEASE { Ordering::Acquire } else { Ordering::SeqCst })
    }

    #[inline]
    fn store(&self, index: usize, to: u64) {
        // Pairs with the load above.
        self.indices.0[index].store(to, if RELEASE { Ordering::Release } else { Ordering::SeqCst });
    }
}

/// A pair over the ring with these steps taken.
fn pair<
    S: Slots<W>,
    const W: usize,
    const CACHED: bool,
    const RELEASE: bool,
    const MASK: bool,
    const PADDED: bool,
>(
    slots: usize,
) -> Setup {
    let ring = Arc::new(Ring::<S, CACHED, RELEASE, MASK, PADDED> {
        slots: S::new(slots),
        size: slots as u64,
        indices: Indices(std::array::from_fn(|_| AtomicU64::new(0))),
    });
    let consumer = Arc::clone(&ring);
    let (mut head, mut far_tail) = (0, 0);
    let produce: Produce = Box::new(move |numbers| {
        for number in numbers.clone() {
            if !CACHED || head - far_tail == ring.size {
                far_tail = ring.load(Ring::<S, CACHED, RELEASE, MASK, PADDED>::TAIL);
            }
            if head - far_tail == ring.size {
                return number - numbers.start;
            }
            ring.slots.put(ring.place(head), entry(number));
            head += 1;
            ring.store(Ring::<S, CACHED, RELEASE, MASK, PADDED>::HEAD, head);
        }
        numbers.end - numbers.start
    });
    let produce = ending(produce, &consumer);
    let (mut tail, mut far_head) = (0, 0);
    let consume = move |digest: &mut Digest| {
        for taken in 0..CHUNK as usize {
            if !CACHED || far_head == tail {
                far_head = consumer.load(Ring::<S, CACHED, RELEASE, MASK, PADDED>::HEAD);
            }
            if far_head & !CLOSED == tail {
                return match (taken, far_head & CLOSED) {
                    (0, CLOSED) => Polled::Shutdown,
                    (0, _) => Polled::Idle,
                    _ => Polled::Work(taken),
                };
            }
            digest.take(&consumer.slots.get(consumer.place(tail)));
            tail += 1;
            consumer.store(Ring::<S, CACHED, RELEASE, MASK, PADDED>::TAIL, tail);
        }
        Polled::Work(CHUNK as usize)
    };
    Setup::pair(produce, Box::new(consume))
}

/// In the head index when the producer is gone.
const CLOSED: u64 = 1 << 63;

/// Closes the ring when the producer is dropped.
fn ending<S: Send + Sync + 'static, const C: bool, const R: bool, const M: bool, const P: bool>(
    mut produce: Produce,
    ring: &Arc<Ring<S, C, R, M, P>>,
) -> Produce {
    struct Close<F: Fn()>(F);
    impl<F: Fn()> Drop for Close<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    let ring = Arc::clone(ring);
    let close = Close(move || {
        ring.indices.0[0].fetch_or(CLOSED, Ordering::AcqRel);
    });
    Box::new(move |numbers| {
        let _close = &close;
        produce(numbers)
    })
}

/// The steps, each with all before it, and their names. Allocation goes first, since it would hide all others.
pub(crate) fn steps<const W: usize>(slots: usize) -> Vec<(&'static str, Setup)> {
    vec![
        ("plain", pair::<Boxed<W>, W, false, false, false, false>(slots)),
        ("+preallocated", pair::<Inline<W>, W, false, false, false, false>(slots)),
        ("+cached-far-index", pair::<Inline<W>, W, true, false, false, false>(slots)),
        ("+release-stores", pair::<Inline<W>, W, true, true, false, false>(slots)),
        ("+mask", pair::<Inline<W>, W, true, true, true, false>(slots)),
        ("+padding", pair::<Inline<W>, W, true, true, true, true>(slots)),
    ]
}

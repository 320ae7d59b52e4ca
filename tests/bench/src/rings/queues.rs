//! The queues that everybody has: a mutex with a condition variable, the standard library's and crossbeam's bounded
//! channels, and rtrb.

use std::collections::VecDeque;
use std::mem;
use std::sync::mpsc::{self, TryRecvError, TrySendError};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use ring::Polled;

use super::harness::{CHUNK, Digest, Entry, Setup, entry};

struct Locked<const W: usize> {
    state: Mutex<(VecDeque<Entry<W>>, bool)>,
    filled: Condvar,
    emptied: Condvar,
    slots: usize,
}

struct LockedEnd<const W: usize>(Arc<Locked<W>>);

impl<const W: usize> Drop for LockedEnd<W> {
    fn drop(&mut self) {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner).1 = true;
        self.0.filled.notify_one();
    }
}

/// A queue behind a mutex; both ends block. With `batching` the consumer takes all that is there at once.
pub(crate) fn mutex_condvar<const W: usize>(slots: usize, batching: bool) -> Setup {
    let queue = Arc::new(Locked {
        state: Mutex::new((VecDeque::with_capacity(slots), false)),
        filled: Condvar::new(),
        emptied: Condvar::new(),
        slots,
    });
    let sender = LockedEnd(Arc::clone(&queue));
    let produce = move |numbers: std::ops::Range<u64>| {
        for number in numbers.clone() {
            let LockedEnd(queue) = &sender;
            let mut state = queue.state.lock().expect("unpoisoned");
            while state.0.len() == queue.slots {
                state = queue.emptied.wait(state).expect("unpoisoned");
            }
            state.0.push_back(entry(number));
            drop(state);
            queue.filled.notify_one();
        }
        numbers.end - numbers.start
    };
    let mut batch: VecDeque<Entry<W>> = VecDeque::with_capacity(slots);
    let consume = move |digest: &mut Digest| {
        let mut state = queue.state.lock().expect("unpoisoned");
        while state.0.is_empty() {
            if state.1 {
                return Polled::Shutdown;
            }
            state = queue.filled.wait(state).expect("unpoisoned");
        }
        if batching {
            mem::swap(&mut state.0, &mut batch);
        } else {
            batch.extend(state.0.pop_front());
        }
        drop(state);
        queue.emptied.notify_one();
        let taken = batch.len();
        batch.drain(..).for_each(|entry| digest.take(&entry));
        Polled::Work(taken)
    };
    Setup::pair(Box::new(produce), Box::new(consume))
}

/// The standard library's bounded channel, without blocking.
pub(crate) fn sync_channel<const W: usize>(slots: usize) -> Setup {
    let (sender, receiver) = mpsc::sync_channel::<Entry<W>>(slots);
    let produce = move |numbers: std::ops::Range<u64>| {
        for number in numbers.clone() {
            match sender.try_send(entry(number)) {
                Ok(()) => {}
                Err(TrySendError::Full(_)) => return number - numbers.start,
                Err(TrySendError::Disconnected(_)) => unreachable!("the consumer stays to the end"),
            }
        }
        numbers.end - numbers.start
    };
    let consume = move |digest: &mut Digest| {
        for taken in 0..CHUNK as usize {
            match receiver.try_recv() {
                Ok(entry) => digest.take(&entry),
                Err(TryRecvError::Empty) if taken == 0 => return Polled::Idle,
                Err(TryRecvError::Disconnected) if taken == 0 => return Polled::Shutdown,
                Err(_) => return Polled::Work(taken),
            }
        }
        Polled::Work(CHUNK as usize)
    };
    Setup::pair(Box::new(produce), Box::new(consume))
}

/// crossbeam's bounded channel, without blocking, for so many producers.
pub(crate) fn crossbeam<const W: usize>(slots: usize, producers: usize) -> Setup {
    use crossbeam_channel::{TryRecvError, TrySendError};
    let (sender, receiver) = crossbeam_channel::bounded::<Entry<W>>(slots);
    let produce = |sender: crossbeam_channel::Sender<Entry<W>>| {
        move |numbers: std::ops::Range<u64>| {
            for number in numbers.clone() {
                match sender.try_send(entry(number)) {
                    Ok(()) => {}
                    Err(TrySendError::Full(_)) => return number - numbers.start,
                    Err(TrySendError::Disconnected(_)) => unreachable!("the consumer stays to the end"),
                }
            }
            numbers.end - numbers.start
        }
    };
    let consume = move |digest: &mut Digest| {
        for taken in 0..CHUNK as usize {
            match receiver.try_recv() {
                Ok(entry) => digest.take(&entry),
                Err(TryRecvError::Empty) if taken == 0 => return Polled::Idle,
                Err(TryRecvError::Disconnected) if taken == 0 => return Polled::Shutdown,
                Err(_) => return Polled::Work(taken),
            }
        }
        Polled::Work(CHUNK as usize)
    };
    let mut setup = Setup::pair(Box::new(produce(sender.clone())), Box::new(consume));
    setup.producers.extend((1..producers).map(|_| Box::new(produce(sender.clone())) as _));
    setup
}

/// rtrb; with `batching`, in chunks on both sides.
pub(crate) fn rtrb<const W: usize>(slots: usize, batching: bool) -> Setup {
    let (mut sender, mut receiver) = rtrb::RingBuffer::<Entry<W>>::new(slots);
    let produce = move |numbers: std::ops::Range<u64>| {
        if batching {
            let room = sender.slots().min((numbers.end - numbers.start) as usize);
            let Ok(chunk) = sender.write_chunk_uninit(room) else { unreachable!("there is that room") };
            return chunk.fill_from_iter(numbers.map(entry)) as u64;
        }
        for number in numbers.clone() {
            if sender.push(entry(number)).is_err() {
                return number - numbers.start;
            }
        }
        numbers.end - numbers.start
    };
    let consume = move |digest: &mut Digest| {
        // Asked first: what was sent before the producer went away is then seen.
        let ended = receiver.is_abandoned();
        let mut taken = 0;
        if batching {
            taken = receiver.slots();
            let Ok(chunk) = receiver.read_chunk(taken) else { unreachable!("they are there") };
            let (first, second) = chunk.as_slices();
            first.iter().chain(second).for_each(|entry| digest.take(entry));
            chunk.commit_all();
        } else {
            while taken < CHUNK as usize
                && let Ok(entry) = receiver.pop()
            {
                digest.take(&entry);
                taken += 1;
            }
        }
        match taken {
            0 if ended => Polled::Shutdown,
            0 => Polled::Idle,
            taken => Polled::Work(taken),
        }
    };
    Setup::pair(Box::new(produce), Box::new(consume))
}

//! The output ring: one publisher, several readers in parallel, events as plain values. It must not wake anybody by
//! itself: the runner does after the step that published, so that a batch of events costs one fence.

use std::mem::ManuallyDrop;

use crossbeam_utils::CachePadded;
use disruptor::{
    BusySpin, EventPoller, MissingFreeSlots, MultiConsumerBarrier, Polling, Producer, SingleProducer,
    SingleProducerBarrier, build_single_producer,
};

use crate::Polled;
use crate::abort::AbortOnUnwind;
use crate::error::{Full, RingError, check_slots};

/// Builds a ring of `slots` events with `N` readers; each reader sees every event.
///
/// # Errors
/// `slots` is not a power of two within the bounds.
pub fn output_ring<E, const N: usize>(
    slots: usize,
) -> Result<(OutputPublisher<E>, [OutputPoller<E>; N]), RingError>
where
    E: Copy + Default + Send + Sync + 'static,
{
    const { assert!(N > 0, "an output ring needs a reader, else nothing bounds its publisher") };
    check_slots(slots)?;
    let mut builder = build_single_producer(slots, CachePadded::<E>::default, BusySpin).with_multi_consumer();
    let mut pollers = Vec::with_capacity(N);
    for _ in 0..N {
        let (poller, next) = builder.new_event_poller();
        builder = next;
        pollers.push(OutputPoller { poller });
    }
    let Ok(pollers) = <[OutputPoller<E>; N]>::try_from(pollers) else { unreachable!("N pollers were made") };
    Ok((OutputPublisher { producer: builder.build(), capacity: slots }, pollers))
}

/// The publishing end. It never blocks. Dropping it shuts the ring down: each reader gets what is left and then
/// [`Polled::Shutdown`].
///
/// Publishing wakes nobody. In a [`Runner`](crate::Runner) give the stage the readers' wakers; elsewhere call
/// [`WakeSet::wake`](crate::WakeSet::wake) after publishing.
pub struct OutputPublisher<E> {
    producer: SingleProducer<CachePadded<E>, MultiConsumerBarrier>,
    capacity: usize,
}

impl<E: Copy + Default + Send + Sync + 'static> OutputPublisher<E> {
    /// Slots of the ring.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// Free slots at this moment. It can only grow until the next publication, since only this end takes slots.
    /// Reads each reader's cursor, so ask once for a batch and count down.
    pub fn free(&mut self) -> usize {
        // One more than the ring has can never be claimed; the refusal says how many are missing.
        let asked = self.capacity + 1;
        match self.producer.try_batch_publish(asked, |_| ()) {
            Ok(_) => unreachable!("a claim larger than the ring"),
            Err(MissingFreeSlots(missing)) => asked.saturating_sub(missing as usize),
        }
    }

    /// Publishes one event.
    ///
    /// # Errors
    /// The slowest reader leaves no slot free; nothing was published.
    #[inline]
    pub fn try_publish(&mut self, event: E) -> Result<(), Full> {
        match self.producer.try_publish(|slot| **slot = event) {
            Ok(_) => Ok(()),
            Err(_) => Err(Full { missing: 1 }),
        }
    }

    /// Publishes all of `events` at once, or none.
    ///
    /// # Errors
    /// There are too few free slots; nothing was published. More events than the ring has slots never fit.
    pub fn try_publish_all(&mut self, events: &[E]) -> Result<(), Full> {
        if events.is_empty() {
            return Ok(());
        }
        let claimed = self.producer.try_batch_publish(events.len(), |slots| {
            for (slot, event) in slots.zip(events) {
                **slot = *event;
            }
        });
        match claimed {
            Ok(_) => Ok(()),
            Err(MissingFreeSlots(missing)) => Err(Full { missing: missing as usize }),
        }
    }

    /// Publishes as many of `events` as fit, in order, and says how many those were.
    pub fn publish_some(&mut self, events: &[E]) -> usize {
        let Err(Full { missing }) = self.try_publish_all(events) else { return events.len() };
        let fitting = events.len().saturating_sub(missing);
        match self.try_publish_all(&events[..fitting]) {
            Ok(()) => fitting,
            Err(full) => unreachable!("free slots vanished: {full}"),
        }
    }
}

/// One reader of the output ring.
pub struct OutputPoller<E> {
    poller: EventPoller<CachePadded<E>, SingleProducerBarrier>,
}

impl<E: Copy + Default + Send + Sync + 'static> OutputPoller<E> {
    /// Reads at most `limit` events (at least one if there is any) and then releases them. `read` gets each event and
    /// whether it is the last of this poll. A panic in it aborts the process.
    pub fn poll(&mut self, limit: usize, mut read: impl FnMut(&E, bool)) -> Polled {
        let mut guard = match self.poller.take(limit.max(1) as u64) {
            Ok(guard) => ManuallyDrop::new(guard),
            Err(Polling::NoEvents) => return Polled::Idle,
            Err(Polling::Shutdown) => return Polled::Shutdown,
        };
        let abort = AbortOnUnwind::new("reading the output ring");
        let events = &mut *guard;
        let available = events.len();
        for (index, event) in events.enumerate() {
            read(event, index + 1 == available);
        }
        abort.defuse();
        drop(ManuallyDrop::into_inner(guard));
        Polled::Work(available)
    }
}

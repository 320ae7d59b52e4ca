//! The disruptor crate in the shapes that the Disruptor is known for. Its pollers are stepped by our threads, so that a
//! shape can be measured with a thread for each consumer and with all of them on one.

use disruptor::{BusySpin, Polling, Producer, build_multi_producer, build_single_producer};
use ring::Polled;

use super::harness::{Consume, Digest, Entry, Idle, Produce, Setup, entry};

/// Messages that a producer claims at once where it batches.
const CLAIM: usize = 16;

/// Steps a poller; a macro, since the crate's pollers have no trait in common. `$limit` events are released at once.
macro_rules! consume {
    ($poller:expr, $limit:expr) => {{
        let mut poller = $poller;
        let limit = $limit as u64;
        let consume: Consume = Box::new(move |digest: &mut Digest| match poller.take(limit) {
            Ok(mut events) => {
                let mut count = 0;
                for event in &mut events {
                    digest.take(event);
                    count += 1;
                }
                Polled::Work(count)
            }
            Err(Polling::NoEvents) => Polled::Idle,
            Err(Polling::Shutdown) => Polled::Shutdown,
        });
        consume
    }};
}

/// Sends by `producer`, one claim a message or one for [`CLAIM`] of them.
fn produce<const W: usize>(
    mut producer: impl Producer<Entry<W>> + Send + 'static,
    batching: bool,
) -> Produce {
    Box::new(move |numbers| {
        let mut next = numbers.start;
        while next < numbers.end {
            let claim = if batching { (numbers.end - next).min(CLAIM as u64) } else { 1 };
            let sent = if batching {
                let claimed = producer.try_batch_publish(claim as usize, |events| {
                    events.zip(next..).for_each(|(event, number)| *event = entry(number));
                });
                claimed.is_ok()
            } else {
                producer.try_publish(|event| *event = entry(next)).is_ok()
            };
            if !sent {
                break;
            }
            next += claim;
        }
        next - numbers.start
    })
}

/// The consumers on one thread, or one each; a thread each is more than there are cores here, so that they yield.
fn spread(producers: Vec<Produce>, consumers: Vec<Consume>, one_thread: bool) -> Setup {
    if one_thread {
        let idle = if producers.len() > 1 { Idle::Yield } else { Idle::Spin };
        return Setup { producers, consumers: vec![consumers], idle };
    }
    let consumers = consumers.into_iter().map(|consumer| vec![consumer]).collect();
    Setup { producers, consumers, idle: Idle::Yield }
}

/// One producer, one consumer.
pub(crate) fn one_to_one<const W: usize>(slots: usize, batching: bool) -> Setup {
    let (poller, builder) = build_single_producer(slots, || [0; W], BusySpin).new_event_poller();
    let limit = if batching { slots } else { 1 };
    Setup::pair(produce(builder.build(), batching), consume!(poller, limit))
}

/// So many producers, one consumer.
pub(crate) fn many_to_one<const W: usize>(slots: usize, producers: usize) -> Setup {
    let (poller, builder) = build_multi_producer(slots, || [0; W], BusySpin).new_event_poller();
    let producer = builder.build();
    let producers = (0..producers).map(|_| produce(producer.clone(), true)).collect();
    spread(producers, vec![consume!(poller, slots)], true)
}

/// One producer and three consumers, each behind the one before it.
pub(crate) fn pipeline<const W: usize>(slots: usize, one_thread: bool) -> Setup {
    let builder = build_single_producer(slots, || [0; W], BusySpin);
    let (first, builder) = builder.new_event_poller();
    let (second, builder) = builder.and_then().new_event_poller();
    let (third, builder) = builder.and_then().new_event_poller();
    let consumers = vec![consume!(first, slots), consume!(second, slots), consume!(third, slots)];
    spread(vec![produce(builder.build(), true)], consumers, one_thread)
}

/// One producer, `parallel` consumers beside each other, and one behind all of them: with two, the diamond.
pub(crate) fn fan_in<const W: usize>(slots: usize, parallel: usize, one_thread: bool) -> Setup {
    let mut builder = build_single_producer(slots, || [0; W], BusySpin).with_multi_consumer();
    let mut consumers = Vec::new();
    for _ in 0..parallel {
        let (poller, next) = builder.new_event_poller();
        builder = next;
        consumers.push(consume!(poller, slots));
    }
    let (last, builder) = builder.and_then().new_event_poller();
    consumers.push(consume!(last, slots));
    spread(vec![produce(builder.build(), true)], consumers, one_thread)
}

//! What only a claim that is published late or in parts shows. The disruptor's own producer stands in for a publisher
//! that is interrupted there; from outside that is a race.

use std::convert::Infallible;

use disruptor::{MultiConsumerBarrier, MultiProducer, Producer, SingleConsumerBarrier};

use super::*;
use crate::Polled;

type Raw = MultiProducer<Slot, SingleConsumerBarrier>;

/// A ring as `input_ring` builds it, with a bare producer besides.
fn ring(slots: usize) -> (InputRing<u64>, Raw, Arc<Lines>) {
    let lines = Arc::new(Lines::new(slots));
    let cells = Arc::new(Cells::<u64>::new(slots));
    let (journal, builder) = build_multi_producer(slots, Slot::numbered(), BusySpin).new_event_poller();
    let (replicate, builder) = builder.new_event_poller();
    let (unmarshal, builder) = builder.new_event_poller();
    let (logic, builder): (disruptor::EventPoller<Slot, MultiConsumerBarrier>, _) =
        builder.and_then().new_event_poller();
    let producer = builder.build();
    let ring = InputRing {
        journal: FramePoller::new(journal, Arc::clone(&lines)),
        replicate: FramePoller::new(replicate, Arc::clone(&lines)),
        unmarshal: UnmarshalPoller::new(unmarshal, Arc::clone(&lines), Arc::clone(&cells)),
        logic: LogicPoller::new(logic, cells),
        ingress: Ingress::new(producer.clone(), Arc::clone(&lines), WakeSet::default()),
    };
    (ring, producer, lines)
}

fn frame(length: usize, fill: u8) -> Vec<u8> {
    let mut bytes = vec![fill; length];
    bytes[..2].copy_from_slice(&(length as u16).to_le_bytes());
    bytes
}

fn journal(ring: &mut InputRing<u64>, limit: usize) -> (Polled, Vec<Vec<u8>>) {
    let mut frames = Vec::new();
    let polled = ring.journal.poll(limit, |batch| {
        frames.extend(batch.frames().map(<[u8]>::to_vec));
        Ok::<_, Infallible>(())
    });
    match polled {
        Ok(polled) => (polled, frames),
    }
}

fn padded(mut frame: Vec<u8>) -> Vec<u8> {
    frame.resize(frame.len().next_multiple_of(SLOT_BYTES), 0);
    frame
}

/// A frame of five slots of which readers see one, two, ... slots, at every place of the ring (also across its end and
/// across the 64-slot availability words): it comes whole, once, and what lies before it does not wait for it.
#[test]
fn a_frame_that_is_visible_in_part_is_not_read() {
    const SPAN: usize = 5;
    for place in 0..128 {
        let (mut ring, mut producer, lines) = ring(128);
        for _ in 0..place {
            ring.ingress.try_publish(&frame(40, 1)).expect("room");
            assert_eq!(journal(&mut ring, 64).0, Polled::Work(1));
            let _ = ring.replicate.poll(64, |_| Ok::<_, Infallible>(()));
            ring.unmarshal.poll(64, |_, value| *value = 1);
            assert_eq!(ring.logic.poll(64, |batch| batch.len()), Polled::Work(1));
        }
        ring.ingress.try_publish(&frame(40, 2)).expect("room");
        let long = padded(frame(SPAN * SLOT_BYTES - 7, 3));
        for (index, piece) in long.chunks(SLOT_BYTES).enumerate() {
            producer
                .try_batch_publish(1, |claim| claim.for_each(|slot| lines.write(slot, piece)))
                .expect("room");
            let (polled, frames) = journal(&mut ring, usize::MAX);
            let values = ring.unmarshal.poll(usize::MAX, |bytes, value| *value = u64::from(bytes[2]));
            let _ = ring.replicate.poll(usize::MAX, |_| Ok::<_, Infallible>(()));
            let mut decoded = Vec::new();
            ring.logic.poll(64, |batch| {
                decoded.extend(batch.iter().copied());
                batch.len()
            });
            let (expected, fill) = match index {
                0 => (vec![padded(frame(40, 2))], vec![2]),
                _ if index + 1 == SPAN => (vec![long.clone()], vec![3]),
                _ => (vec![], vec![]),
            };
            assert_eq!(polled, if fill.is_empty() { Polled::Idle } else { Polled::Work(1) });
            assert_eq!((values, frames, decoded), (polled, expected, fill), "place {place}, slot {index}");
        }
    }
}

/// A claim that is not yet published hides what other publishers put behind it, and hands it over afterwards.
#[test]
fn a_late_publisher_delays_but_loses_nothing() {
    let (mut ring, mut producer, lines) = ring(64);
    let mut other = ring.ingress.clone();
    ring.ingress.try_publish(&frame(70, 1)).expect("room");
    producer
        .try_batch_publish(2, |claim| {
            other.try_publish(&frame(64, 3)).expect("room");
            assert_eq!(journal(&mut ring, usize::MAX), (Polled::Work(1), vec![padded(frame(70, 1))]));
            assert_eq!(journal(&mut ring, usize::MAX).0, Polled::Idle);
            for (slot, piece) in claim.zip(padded(frame(100, 2)).chunks(SLOT_BYTES)) {
                lines.write(slot, piece);
            }
        })
        .expect("room");
    let expected = vec![padded(frame(100, 2)), padded(frame(64, 3))];
    assert_eq!(journal(&mut ring, usize::MAX), (Polled::Work(2), expected));
}

/// Zeros after a shorter frame, whatever a longer one left in the slot.
#[test]
fn what_an_earlier_round_left_is_not_read() {
    let (mut ring, _producer, _lines) = ring(64);
    for (length, fill) in [(1024, 0xff); 4].into_iter().chain([(33, 1), (65, 2), (127, 3)]) {
        ring.ingress.try_publish(&frame(length, fill)).expect("room");
        assert_eq!(journal(&mut ring, usize::MAX), (Polled::Work(1), vec![padded(frame(length, fill))]));
        let _ = ring.replicate.poll(64, |_| Ok::<_, Infallible>(()));
        ring.unmarshal.poll(64, |_, value| *value = 1);
        ring.logic.poll(64, |batch| batch.len());
    }
}

#[test]
fn lines_and_cells_lie_on_cache_lines_of_their_own() {
    let (mut ring, _producer, _lines) = ring(64);
    ring.ingress.try_publish_many(&[&frame(64, 1), &frame(64, 2)]).expect("room");
    let _ = ring.journal.poll(64, |batch| {
        let starts: Vec<usize> = batch.frames().map(|frame| frame.as_ptr().addr()).collect();
        assert_eq!((starts[0] % 64, starts[1] - starts[0]), (0, 64), "lines are dense");
        Ok::<_, Infallible>(())
    });
    let mut values = Vec::new();
    ring.unmarshal.poll(64, |bytes, value| {
        assert!(bytes.as_ptr().addr().abs_diff(std::ptr::from_mut(value).addr()) >= 64);
        values.push(std::ptr::from_mut(value).addr());
    });
    assert_eq!((values[0] % 64, values[1] - values[0]), (0, 64), "a value has its line to itself");
}

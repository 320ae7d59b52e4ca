//! The output ring stepped on one thread.

use rand::RngExt;
use ring::{Full, OutputPoller, Polled, RingError, output_ring};

use crate::frames::{generator, seed};

fn read(poller: &mut OutputPoller<u64>, limit: usize) -> (Polled, Vec<u64>) {
    let (mut events, mut ends) = (Vec::new(), Vec::new());
    let polled = poller.poll(limit, |event, end_of_batch| {
        events.push(*event);
        ends.push(end_of_batch);
    });
    let last = ends.pop();
    assert!(last.is_none_or(|end| end), "the last event of a poll says so");
    assert!(ends.iter().all(|end| !end), "and no other");
    (polled, events)
}

#[test]
fn each_reader_sees_every_event_and_the_slowest_holds_the_room() {
    let (mut publisher, [mut first, mut second, mut third]) =
        output_ring::<u64, 3>(64).expect("a legal size");
    assert_eq!((publisher.capacity(), publisher.free()), (64, 64));
    assert_eq!(read(&mut first, 8).0, Polled::Idle);
    publisher.try_publish(0).expect("room");
    publisher.try_publish_all(&(1..60).collect::<Vec<_>>()).expect("room");
    assert_eq!(publisher.free(), 4);
    assert_eq!(publisher.try_publish_all(&[60, 61, 62, 63, 64]), Err(Full { missing: 1 }));
    assert_eq!(publisher.publish_some(&[60, 61, 62, 63, 64]), 4);
    assert_eq!(publisher.try_publish(64), Err(Full { missing: 1 }));
    assert_eq!(publisher.publish_some(&[64]), 0);
    assert_eq!(read(&mut first, usize::MAX), (Polled::Work(64), (0..64).collect()));
    assert_eq!(read(&mut second, 10), (Polled::Work(10), (0..10).collect()));
    assert_eq!(publisher.free(), 0, "the third has read nothing");
    assert_eq!(read(&mut third, 3), (Polled::Work(3), vec![0, 1, 2]));
    assert_eq!(publisher.free(), 3);
    assert_eq!(publisher.try_publish_all(&[]), Ok(()));
    assert_eq!(publisher.try_publish_all(&[64, 65, 66]), Ok(()));
    assert_eq!(read(&mut first, usize::MAX), (Polled::Work(3), vec![64, 65, 66]));
}

#[test]
fn it_drains_and_then_shuts_down() {
    let (mut publisher, [mut only]) = output_ring::<u64, 1>(64).expect("a legal size");
    publisher.try_publish_all(&[1, 2, 3]).expect("room");
    drop(publisher);
    assert_eq!(read(&mut only, 0), (Polled::Work(1), vec![1]), "a limit of none is one");
    assert_eq!(read(&mut only, 8), (Polled::Work(2), vec![2, 3]));
    assert_eq!(read(&mut only, 8).0, Polled::Shutdown);
    assert_eq!(read(&mut only, 8).0, Polled::Shutdown);
}

#[test]
fn sizes_are_checked() {
    assert_eq!(output_ring::<u64, 1>(48).err(), Some(RingError::Slots { slots: 48 }));
}

#[test]
fn random_steps_match_a_list() {
    let mut random = generator(seed(), 0);
    let (mut publisher, mut pollers) = output_ring::<u64, 3>(64).expect("a legal size");
    let mut published = 0_u64;
    let mut seen = [0_u64; 3];
    for _ in 0..50_000 {
        let reader = random.random_range(0..6);
        if let Some(poller) = pollers.get_mut(reader) {
            let (polled, events) = read(poller, random.random_range(0..40));
            let expected: Vec<u64> = (seen[reader]..seen[reader] + events.len() as u64).collect();
            assert_eq!(events, expected);
            seen[reader] += events.len() as u64;
            assert_eq!(polled == Polled::Idle, events.is_empty());
        } else {
            let slowest = *seen.iter().min().expect("three readers");
            let free = 64 - (published - slowest);
            assert_eq!(publisher.free() as u64, free);
            let events: Vec<u64> = (published..published + random.random_range(0..30)).collect();
            let fitted = publisher.publish_some(&events) as u64;
            assert_eq!(fitted, free.min(events.len() as u64));
            published += fitted;
        }
    }
    assert!(published > 10_000);
}

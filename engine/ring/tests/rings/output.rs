//! The output ring stepped on one thread, at every limit, wrap and edge, and under real threads. `MIRIFLAGS=
//! -Zmiri-disable-isolation cargo +nightly miri test -p ring --test rings output` looks for accesses that race or go astray.

use std::thread;

use rand::RngExt;
use ring::{Full, OutputPoller, OutputPublisher, Polled, RingError, output_ring};

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
fn what_is_pushed_is_seen_once_it_is_flushed() {
    let (mut publisher, [mut first, mut second]) = output_ring::<u64, 2>(64).expect("a legal size");
    for event in 0..64 {
        assert_eq!(publisher.push(event), Ok(()));
    }
    assert_eq!((publisher.push(64), publisher.free()), (Err(Full { missing: 1 }), 0), "it takes room");
    assert_eq!(read(&mut first, 64), (Polled::Idle, vec![]), "but is not seen");
    publisher.flush();
    assert_eq!(read(&mut first, 64).0, Polled::Work(64));
    assert_eq!(publisher.push(64), Err(Full { missing: 1 }), "the second has read nothing");
    assert_eq!(read(&mut second, 2), (Polled::Work(2), vec![0, 1]));
    assert_eq!((publisher.push(64), publisher.push(65)), (Ok(()), Ok(())));
    assert_eq!(publisher.push(66), Err(Full { missing: 1 }));
    assert_eq!(read(&mut first, 64).0, Polled::Idle);
    assert_eq!(read(&mut second, 62).0, Polled::Work(62));
    assert_eq!(publisher.try_publish(66), Ok(()), "publishes what was pushed before, too");
    assert_eq!(read(&mut first, 64), (Polled::Work(3), vec![64, 65, 66]));
    publisher.push(67).expect("room");
    assert_eq!(publisher.publish_some(&[68, 69]), 2);
    assert_eq!(read(&mut first, 64).1, [67, 68, 69]);
    publisher.push(70).expect("room");
    drop(publisher);
    assert_eq!(read(&mut second, 64), (Polled::Work(6), (64..70).collect()), "the end doesn't publish");
    assert_eq!([read(&mut first, 1).0, read(&mut second, 1).0], [Polled::Shutdown; 2]);
}

#[test]
fn it_flushes_by_itself_where_told() {
    let (mut publisher, [mut only]) = output_ring::<u64, 1>(64).expect("a legal size");
    let mut seen = |publisher: &mut OutputPublisher<u64>, pushes: u64| {
        (0..pushes).for_each(|event| publisher.push(event).expect("room"));
        read(&mut only, 64).1.len()
    };
    assert_eq!(seen(&mut publisher, 3), 0);
    publisher.flush_every(4);
    // Pushing the event that would be one too many publishes those before it.
    assert_eq!([1; 9].map(|pushes| seen(&mut publisher, pushes)), [0, 4, 0, 0, 0, 4, 0, 0, 0]);
    publisher.flush_every(1);
    assert_eq!([1; 3].map(|pushes| seen(&mut publisher, pushes)), [4, 1, 1]);
    publisher.flush_every(usize::MAX);
    assert_eq!(seen(&mut publisher, 40), 0);
    publisher.flush();
    assert_eq!(seen(&mut publisher, 64 - 41), 41);
}

#[test]
fn slices_are_cut_where_the_ring_ends() {
    let (mut publisher, [mut only]) = output_ring::<u64, 1>(64).expect("a legal size");
    let mut next = 0..;
    for (publish, limit, lengths) in
        [(50, 40, [40, 0]), (54, 64, [24, 40]), (10, 3, [3, 0]), (14, 64, [21, 0]), (64, 64, [0, 0])]
    {
        let events: Vec<u64> = next.by_ref().take(publish).collect();
        assert_eq!(publisher.publish_some(&events), publish);
        let mut seen = [0, 0];
        only.poll_slices(limit, |slices| {
            seen = slices.map(<[u64]>::len);
            let events = slices.concat();
            assert!(events.windows(2).all(|pair| pair[1] == pair[0] + 1), "in order: {events:?}");
        });
        if publish == 64 {
            assert_eq!(seen, [64, 0], "a whole round that begins with slot 0");
        } else {
            assert_eq!(seen, lengths);
        }
    }
}

#[test]
fn a_reader_that_is_dropped_holds_its_room() {
    let (mut publisher, [mut first, second]) = output_ring::<u64, 2>(64).expect("a legal size");
    publisher.try_publish(0).expect("room");
    drop(second);
    assert_eq!(publisher.publish_some(&[1; 100]), 63);
    assert_eq!(read(&mut first, 64).0, Polled::Work(64));
    assert_eq!(publisher.free(), 0);
    drop(publisher);
    assert_eq!(read(&mut first, 64).0, Polled::Shutdown);
}

#[test]
fn random_steps_match_a_list() {
    let mut random = generator(seed(), 0);
    let (mut publisher, mut pollers) = output_ring::<u64, 3>(64).expect("a legal size");
    let (mut written, mut published, mut every) = (0_u64, 0_u64, u64::MAX);
    let mut seen = [0_u64; 3];
    for _ in 0..if cfg!(miri) { 300 } else { 100_000 } {
        let step = random.random_range(0..8);
        if let Some(poller) = pollers.get_mut(step) {
            let (polled, events) = read(poller, random.random_range(0..40));
            let expected: Vec<u64> = (seen[step]..seen[step] + events.len() as u64).collect();
            assert_eq!(events, expected);
            seen[step] += events.len() as u64;
            assert!(seen[step] <= published, "nothing is seen before it is flushed");
            assert_eq!(polled == Polled::Idle, events.is_empty());
            continue;
        }
        let free = 64 - (written - seen.iter().min().expect("three readers"));
        if random.random_bool(0.5) {
            assert_eq!(publisher.free() as u64, free);
        }
        match step {
            3 | 4 => {
                let events: Vec<u64> = (written..written + random.random_range(0..30)).collect();
                let fitted = publisher.publish_some(&events) as u64;
                assert_eq!(fitted, free.min(events.len() as u64));
                written += fitted;
                published = written;
            }
            5 | 6 => {
                for nth in 0..random.random_range(1..20) {
                    // The event that would be one too many publishes those before it, whether or not it has room.
                    if written - published >= every {
                        published = written;
                    }
                    let pushed = publisher.push(written).is_ok();
                    assert_eq!(pushed, nth < free);
                    written += u64::from(pushed);
                }
            }
            _ if random.random_bool(0.9) => {
                publisher.flush();
                published = written;
            }
            _ => {
                every = random.random_range(1..=64);
                publisher.flush_every(every as usize);
            }
        }
    }
    assert!(cfg!(miri) || published > 10_000);
}

/// One thread publishes in each of the ways, three read in theirs, one of them slowly; all see the same events.
#[test]
fn readers_on_their_own_threads_see_all_events_whole() {
    const SLOTS: usize = 64;
    let count: u64 = if cfg!(miri) { 300 } else { 100_000 };
    // Both halves differ, so that an event of which only one was seen is found.
    let event = |number: u64| (number, number.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x55);
    let seed = seed();
    let (mut publisher, pollers) = output_ring::<(u64, u64), 3>(SLOTS).expect("a legal size");
    thread::scope(|scope| {
        for (reader, mut poller) in pollers.into_iter().enumerate() {
            scope.spawn(move || {
                let mut random = generator(seed, reader as u64);
                let (mut next, mut polls) = (0, 0_u64);
                loop {
                    let limit = [1, 7, 64, usize::MAX][random.random_range(0..4)];
                    let polled = poller.poll_slices(limit, |slices| {
                        for seen in slices.into_iter().flatten() {
                            assert_eq!(*seen, event(next));
                            next += 1;
                        }
                    });
                    polls += 1;
                    match polled {
                        Polled::Shutdown => break,
                        Polled::Idle => thread::yield_now(),
                        // Makes the first of them the one that the others and the publisher have to wait for.
                        Polled::Work(_) if reader == 0 && polls % 64 == 0 => thread::yield_now(),
                        Polled::Work(_) => {}
                    }
                }
                assert_eq!(next, count);
            });
        }
        let mut random = generator(seed, 3);
        let mut next = 0;
        publisher.flush_every(16);
        while next < count {
            let wanted = random.random_range(1..=40).min(count - next);
            let before = next;
            if random.random_bool(0.5) {
                while next < before + wanted && publisher.push(event(next)).is_ok() {
                    next += 1;
                }
            } else {
                let events: Vec<_> = (next..next + wanted).map(event).collect();
                next += publisher.publish_some(&events) as u64;
            }
            if next < before + wanted {
                publisher.flush();
                thread::yield_now();
            }
        }
        publisher.flush();
        drop(publisher);
    });
}

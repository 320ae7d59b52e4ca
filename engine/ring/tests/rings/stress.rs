//! The input and output ring under real threads: several publishers, frames of random lengths, all readers at once.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::thread;

use rand::RngExt;
use rand::rngs::StdRng;
use ring::{
    FramePoller, Ingress, LogicPoller, OutputPoller, OutputPublisher, Polled, PublishError, Runner, Stage,
    UnmarshalPoller, WaitStrategy, Waiter, WakeSet, Work, input_ring, output_ring,
};

use crate::frames::{Label, check, frame, generator, random_length, seed};

const PUBLISHERS: u8 = 3;
const FRAMES_EACH: u64 = 10_000;

type Seen = Arc<Mutex<Vec<Label>>>;

fn work(polled: Polled) -> Work {
    match polled {
        Polled::Work(frames) => Work::Done(frames),
        Polled::Idle => Work::Idle,
        Polled::Shutdown => Work::Finished,
    }
}

fn limit(random: &mut StdRng) -> usize {
    [1, 20, 100, usize::MAX][random.random_range(0..4)]
}

/// Reads raw frames; now and then it fails and must get the same ones again.
struct RawStage {
    poller: FramePoller,
    random: StdRng,
    seen: Seen,
    failed: Option<Label>,
}

impl Stage for RawStage {
    fn name(&self) -> &'static str {
        "raw"
    }

    fn do_work(&mut self) -> Work {
        let Self { poller, random, seen, failed } = self;
        let polled = poller.poll(limit(random), |batch| {
            let first = batch.frames().next().map(check);
            if let Some(label) = failed.take() {
                assert_eq!(first, Some(label), "a failed batch comes again");
            } else if random.random_bool(0.1) {
                *failed = first;
                return Err(());
            }
            seen.lock().expect("unpoisoned").extend(batch.frames().map(check));
            Ok(())
        });
        polled.map_or(Work::Idle, work)
    }
}

struct UnmarshalStage(UnmarshalPoller<Label>, StdRng);

impl Stage for UnmarshalStage {
    fn name(&self) -> &'static str {
        "unmarshal"
    }

    fn do_work(&mut self) -> Work {
        let Self(poller, random) = self;
        work(poller.poll(limit(random), |bytes, label| *label = check(bytes)))
    }
}

/// Stops at random and when the small output ring is full.
struct LogicStage(LogicPoller<Label>, OutputPublisher<Label>, StdRng);

impl Stage for LogicStage {
    fn name(&self) -> &'static str {
        "logic"
    }

    fn do_work(&mut self) -> Work {
        let Self(poller, output, random) = self;
        work(poller.poll(limit(random), |batch| {
            let wanted = random.random_range(1..=batch.len());
            let labels: Vec<Label> = batch.iter().take(wanted).copied().collect();
            output.publish_some(&labels)
        }))
    }
}

struct OutputStage(OutputPoller<Label>, StdRng, Seen);

impl Stage for OutputStage {
    fn name(&self) -> &'static str {
        "output"
    }

    fn do_work(&mut self) -> Work {
        let Self(poller, random, seen) = self;
        work(poller.poll(limit(random), |label, _| seen.lock().expect("unpoisoned").push(*label)))
    }
}

fn publish(mut ingress: Ingress, publisher: u8, mut random: StdRng) {
    let mut count = 0;
    while count < FRAMES_EACH {
        let claim: u64 = random.random_range(1..=3).min(FRAMES_EACH - count);
        let frames: Vec<Vec<u8>> =
            (0..claim).map(|next| frame(random_length(&mut random), publisher, count + next)).collect();
        let frames: Vec<&[u8]> = frames.iter().map(Vec::as_slice).collect();
        loop {
            match ingress.try_publish_many(&frames) {
                Ok(()) => break,
                // Gives the only two cores to the readers.
                Err(PublishError::Full(_)) => thread::yield_now(),
                Err(error) => panic!("{error}"),
            }
        }
        count += claim;
    }
}

/// Runs all stages, split over two threads as `split` says (stage number -> thread), and compares what they saw.
fn check_order(split: [usize; 6], slots: usize) {
    let seed = seed();
    let strategy = WaitStrategy::SpinThenPark { spins: 4, park: std::time::Duration::from_secs(3600) };
    let mut waiters = [Waiter::new(strategy), Waiter::new(strategy)];
    // Everybody wakes both threads: up for new work, down for new room.
    let wakes = WakeSet::new(waiters.iter().map(Waiter::waker));
    let ring = input_ring::<Label>(slots, wakes.clone()).expect("a legal size");
    let (output, [first, second]) = output_ring::<Label, 2>(64).expect("a legal size");
    let seen: [Seen; 4] = Default::default();
    let random = |stream| generator(seed, 100 + stream);
    let raw = |poller, stream: usize| RawStage {
        poller,
        random: random(stream as u64),
        seen: Arc::clone(&seen[stream]),
        failed: None,
    };
    let stages: [Box<dyn Stage>; 6] = [
        Box::new(raw(ring.journal, 0)),
        Box::new(raw(ring.replicate, 1)),
        Box::new(UnmarshalStage(ring.unmarshal, random(4))),
        Box::new(LogicStage(ring.logic, output, random(5))),
        Box::new(OutputStage(first, random(2), Arc::clone(&seen[2]))),
        Box::new(OutputStage(second, random(3), Arc::clone(&seen[3]))),
    ];
    let mut runners = waiters
        .each_mut()
        .map(|waiter| Runner::new("stress", std::mem::replace(waiter, Waiter::new(WaitStrategy::BusySpin))));
    for (stage, thread) in stages.into_iter().zip(split) {
        runners[thread].add(stage, wakes.clone());
    }
    let runners = runners.map(|runner| runner.spawn().expect("a thread"));
    let publishers: Vec<_> = (0..PUBLISHERS)
        .map(|publisher| {
            let ingress = ring.ingress.clone();
            thread::spawn(move || publish(ingress, publisher, generator(seed, u64::from(publisher))))
        })
        .collect();
    drop(ring.ingress);
    for handle in publishers.into_iter().chain(runners) {
        handle.join().expect("no panic");
    }
    let [journaled, others @ ..] = seen.map(|seen| std::mem::take(&mut *seen.lock().expect("unpoisoned")));
    assert_eq!(journaled.len() as u64, u64::from(PUBLISHERS) * FRAMES_EACH);
    for other in others {
        assert!(other == journaled, "all stages see the same frames in the same order");
    }
    for publisher in 0..PUBLISHERS {
        let counts = journaled.iter().filter(|label| label.publisher == publisher).map(|label| label.count);
        assert!(counts.eq(0..FRAMES_EACH), "each publisher's order is kept");
    }
}

#[test]
fn all_stages_see_the_same_whole_frames() {
    check_order([0, 1, 1, 1, 1, 1], 256);
}

#[test]
fn also_on_other_threads_and_in_the_smallest_ring() {
    check_order([0, 0, 1, 0, 1, 0], 64);
}

#[test]
fn also_on_one_thread_and_in_a_large_ring() {
    check_order([0; 6], 4096);
}

/// Publishers that give up half-way leave the others' frames whole, and the ring drains.
#[test]
fn publishers_come_and_go() {
    let ring = input_ring::<Label>(64, WakeSet::default()).expect("a legal size");
    let (mut journal, mut replicate, mut unmarshal, mut logic) =
        (ring.journal, ring.replicate, ring.unmarshal, ring.logic);
    let publishers: Vec<_> = (0..20)
        .map(|publisher| {
            let mut ingress = ring.ingress.clone();
            thread::spawn(move || {
                (0..2).all(|count| ingress.try_publish(&frame(90, publisher, count)).is_ok())
            })
        })
        .collect();
    drop(ring.ingress);
    let accepted: Vec<bool> = publishers.into_iter().map(|handle| handle.join().expect("no panic")).collect();
    assert!(accepted.iter().filter(|all| **all).count() >= 12, "64 slots take 32 frames of two");
    let mut seen = 0;
    loop {
        let raw = journal.poll(8, |batch| {
            seen += batch.frames().map(check).count();
            Ok::<_, Infallible>(())
        });
        let _ = replicate.poll(8, |_| Ok::<_, Infallible>(()));
        unmarshal.poll(8, |bytes, label| *label = check(bytes));
        if logic.poll(8, |batch| batch.len()) == Polled::Shutdown {
            assert_eq!(raw, Ok(Polled::Shutdown));
            break;
        }
    }
    assert_eq!(seen, 32);
}

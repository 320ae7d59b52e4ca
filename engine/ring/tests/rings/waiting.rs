//! No wake-up is lost. The verdict is a count, never a time: the parking time is so long that only a lost wake-up can
//! use it up.

use std::convert::Infallible;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use rand::RngExt;
use ring::{Polled, WaitStrategy, Waited, Waiter, WakeSet, Waker, input_ring};

use crate::frames::{Label, frame, generator, seed};

const LONG: Duration = Duration::from_secs(20);

fn parking(spins: u32) -> Waiter {
    Waiter::new(WaitStrategy::SpinThenPark { spins, park: LONG })
}

/// Waits until `ready`, and says how often the parking time ran out.
fn wait_until(waiter: &mut Waiter, mut ready: impl FnMut() -> bool) -> u64 {
    let mut timeouts = 0;
    while !ready() {
        if waiter.wait(&mut ready) == Waited::TimedOut {
            timeouts += 1;
        }
    }
    timeouts
}

/// Two threads hand a number to and fro; each parks while it is the other's turn.
fn ping_pong(spins: u32, rounds: u64) {
    let turn = Arc::new(AtomicU64::new(0));
    let mut here = parking(spins);
    let mut there = parking(spins);
    let (wake_here, wake_there) = (here.waker(), there.waker());
    let other = {
        let turn = Arc::clone(&turn);
        thread::spawn(move || {
            let mut timeouts = 0;
            for round in 0..rounds {
                timeouts += wait_until(&mut there, || turn.load(Ordering::Acquire) == 2 * round + 1);
                turn.store(2 * round + 2, Ordering::Release);
                wake_here.wake();
            }
            timeouts
        })
    };
    let mut timeouts = 0;
    for round in 0..rounds {
        turn.store(2 * round + 1, Ordering::Release);
        wake_there.wake();
        timeouts += wait_until(&mut here, || turn.load(Ordering::Acquire) == 2 * round + 2);
    }
    timeouts += other.join().expect("no panic");
    assert_eq!(timeouts, 0, "wake-ups were lost");
}

/// Spins until `ready`; gives the core up now and then, since there may be only one.
fn spin_until(ready: impl Fn() -> bool) {
    let mut spins = 0_u32;
    while !ready() {
        std::hint::spin_loop();
        spins += 1;
        if spins.is_multiple_of(1000) {
            thread::yield_now();
        }
    }
}

/// The moment that matters, over and over: one thread goes to park just as the other publishes and looks whether it
/// has to wake it, a random few ns before or after. (With the fences taken out, four of six runs of a release build on two cores found
/// a lost wake-up; a debug build is too slow to meet that moment often.)
#[test]
fn no_wake_up_is_lost_when_arming_and_publishing_meet() {
    const ROUNDS: u64 = 100_000;
    let seed = seed();
    let [ready, published, taken, lost] = [const { AtomicU64::new(0) }; 4];
    let mut waiter = parking(0);
    let waker = waiter.waker();
    // `spin_loop` is too coarse for this on some CPUs.
    let pause = |steps: u32| {
        for step in 0..steps {
            black_box(step);
        }
    };
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut random = generator(seed, 1);
            for round in 1..=ROUNDS {
                let steps = random.random_range(50..400);
                ready.store(round, Ordering::Release);
                pause(steps);
                let timeouts = wait_until(&mut waiter, || published.load(Ordering::Acquire) == round);
                lost.fetch_add(timeouts, Ordering::Relaxed);
                taken.store(round, Ordering::Release);
                if timeouts > 0 {
                    break;
                }
            }
        });
        let mut random = generator(seed, 2);
        for round in 1..=ROUNDS {
            let steps = random.random_range(0..200);
            spin_until(|| ready.load(Ordering::Acquire) == round);
            pause(steps);
            published.store(round, Ordering::Release);
            waker.wake();
            spin_until(|| taken.load(Ordering::Acquire) == round);
            if lost.load(Ordering::Relaxed) > 0 {
                break;
            }
        }
    });
    assert_eq!(lost.into_inner(), 0, "wake-ups were lost");
}

#[test]
fn no_wake_up_is_lost_between_two_threads_that_always_park() {
    ping_pong(0, 20_000);
}

#[test]
fn no_wake_up_is_lost_between_two_threads_that_spin_about_as_long_as_it_takes() {
    for spins in [1, 8, 30, 60, 200] {
        ping_pong(spins, 5_000);
    }
}

/// Several publishers at once, each waits until its frame was read: a reader that sleeps over one stops its publisher.
#[test]
fn no_wake_up_is_lost_between_publishers_and_a_reader() {
    const ROUNDS: u64 = 5_000;
    let mut reader = parking(2);
    let ring = input_ring::<Label>(64, WakeSet::new([reader.waker()])).expect("a legal size");
    let read: Arc<[AtomicU64; 2]> = Arc::default();
    let mut waiters = [parking(0), parking(0)];
    let wake_publishers = waiters.each_mut().map(|waiter| waiter.waker());
    let publishers = waiters.into_iter().enumerate().map(|(publisher, mut waiter)| {
        let mut ingress = ring.ingress.clone();
        let read = Arc::clone(&read);
        thread::spawn(move || {
            let mut timeouts = 0;
            for round in 0..ROUNDS {
                ingress.try_publish(&frame(32 + round as usize % 200, publisher as u8, round)).expect("room");
                timeouts += wait_until(&mut waiter, || read[publisher].load(Ordering::Acquire) > round);
            }
            timeouts
        })
    });
    let publishers: Vec<_> = publishers.collect();
    drop(ring.ingress);
    let (mut journal, mut replicate, mut unmarshal, mut logic) =
        (ring.journal, ring.replicate, ring.unmarshal, ring.logic);
    let mut step = || {
        let raw = journal.poll(usize::MAX, |_| Ok::<_, Infallible>(()));
        let _ = replicate.poll(usize::MAX, |_| Ok::<_, Infallible>(()));
        unmarshal.poll(usize::MAX, |bytes, label| label.publisher = bytes[2]);
        logic.poll(usize::MAX, |batch| {
            for label in batch.iter() {
                let publisher = usize::from(label.publisher);
                read[publisher].fetch_add(1, Ordering::Release);
                wake_publishers[publisher].wake();
            }
            batch.len()
        });
        raw
    };
    let mut timeouts = 0;
    let mut shut_down = false;
    while !shut_down {
        let waited = reader.wait(|| match step() {
            Ok(Polled::Idle) => false,
            Ok(Polled::Shutdown) => {
                shut_down = true;
                true
            }
            _ => true,
        });
        timeouts += u64::from(waited == Waited::TimedOut);
    }
    for publisher in publishers {
        timeouts += publisher.join().expect("no panic");
    }
    assert_eq!(timeouts, 0, "wake-ups were lost");
}

#[test]
fn the_last_publisher_s_end_wakes_the_reader() {
    for _ in 0..200 {
        let mut reader = parking(0);
        let ring = input_ring::<Label>(64, WakeSet::new([reader.waker()])).expect("a legal size");
        let mut journal = ring.journal;
        let ingress = ring.ingress;
        let publisher = thread::spawn(move || drop(ingress));
        let timeouts = wait_until(&mut reader, || {
            journal.poll(usize::MAX, |_| Ok::<_, Infallible>(())) == Ok(Polled::Shutdown)
        });
        publisher.join().expect("no panic");
        assert_eq!(timeouts, 0, "the shut-down was slept over");
    }
}

#[test]
fn a_wake_before_the_park_is_kept() {
    let mut waiter = parking(0);
    let waker = waiter.waker();
    // The check runs after the flag was set and before the park: the moment in which a wake-up would be lost.
    assert_eq!(
        waiter.wait(|| {
            waker.wake();
            false
        }),
        Waited::Woken
    );
}

#[test]
fn work_found_while_arming_is_not_slept_over() {
    let mut waiter = parking(0);
    assert_eq!(waiter.wait(|| true), Waited::Worked);
    let mut waiter = parking(3);
    let mut checks = 0;
    let third = || {
        checks += 1;
        checks == 3
    };
    assert_eq!(waiter.wait(third), Waited::Worked);
}

#[test]
fn nobody_wakes_the_sleeper_but_its_parking_time() {
    let mut waiter = Waiter::new(WaitStrategy::SpinThenPark { spins: 5, park: Duration::from_millis(1) });
    let (mut checks, mut rounds) = (0, 0);
    loop {
        rounds += 1;
        let waited = waiter.wait(|| {
            checks += 1;
            false
        });
        assert_eq!(checks, rounds * 6, "five spins and the check after arming");
        // The system may wake a thread for no reason, but not for ever.
        if waited == Waited::TimedOut {
            break;
        }
    }
    let mut spinning = Waiter::new(WaitStrategy::BusySpin);
    assert_eq!(spinning.wait(|| panic!("busy spinning leaves the check to its caller")), Waited::Woken);
}

#[test]
fn a_set_wakes_each_of_its_sleepers() {
    const SLEEPERS: usize = 3;
    let go = Arc::new(AtomicBool::new(false));
    let waiters: Vec<Waiter> = (0..SLEEPERS).map(|_| parking(0)).collect();
    let wakers: Vec<Waker> = waiters.iter().map(Waiter::waker).collect();
    let spinning = Waiter::new(WaitStrategy::BusySpin).waker();
    let set = WakeSet::new(wakers.iter().cloned().chain(wakers.iter().cloned()).chain([spinning]));
    let sleepers: Vec<_> = waiters
        .into_iter()
        .map(|mut waiter| {
            let go = Arc::clone(&go);
            thread::spawn(move || wait_until(&mut waiter, || go.load(Ordering::Acquire)))
        })
        .collect();
    go.store(true, Ordering::Release);
    set.wake();
    let timeouts: u64 = sleepers.into_iter().map(|sleeper| sleeper.join().expect("no panic")).sum();
    assert_eq!(timeouts, 0, "a sleeper was left out");
}

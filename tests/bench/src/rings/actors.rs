//! The actor ring: agents in a circle pass messages to their next one, each until it has made its hops. On the output
//! rings an agent belongs to a thread and a message to an agent of another one goes over the ring between the two; in the
//! kernel behind a mutex any thread takes any message. What a message has seen on its way is checked.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Barrier, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use ring::{OutputPoller, OutputPublisher, WaitStrategy, Waiter, WakeSet, output_ring};

use super::harness::{cores, place};

/// A message, small enough for two a cache line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Message {
    agent: u32,
    hops_left: u32,
    seen: u64,
}

/// Hops that a thread makes between two looks at its rings.
const STEP_HOPS: u32 = 512;

/// The size of a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Circle {
    /// Agents in the circle.
    pub(crate) agents: u32,
    /// Messages on their way at once; the n-th starts at agent n, around the circle.
    pub(crate) messages: u32,
    /// Agents that each message visits.
    pub(crate) hops: u32,
    /// What an agent does with a message: so many multiplications, each behind the other.
    pub(crate) work: u32,
}

/// Which thread an agent belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Placement {
    /// Neighbours together: a message changes the thread once a block.
    Blocks,
    /// Neighbours apart: each hop changes the thread.
    InTurn,
}

impl Circle {
    fn start(self, nth: u32) -> Message {
        Message { agent: nth % self.agents, hops_left: self.hops, seen: u64::from(nth) }
    }

    /// An agent's work: takes a message in and says what to send on; `None` when it has made its last hop.
    fn visit(self, mut message: Message, states: &mut u64) -> Option<Message> {
        *states += u64::from(message.agent);
        message.seen = self.visited(message);
        message.hops_left -= 1;
        message.agent = if message.agent + 1 == self.agents { 0 } else { message.agent + 1 };
        (message.hops_left > 0).then_some(message)
    }

    /// What all finished messages have seen, and what all agents have.
    fn expected(self) -> (u64, u64) {
        let mut agents = 0;
        let seen = (0..self.messages).map(|nth| {
            let mut message = self.start(nth);
            loop {
                let sent_on = self.visit(message, &mut agents);
                match sent_on {
                    Some(next) => message = next,
                    None => break self.visited(message),
                }
            }
        });
        let seen = seen.fold(0, u64::wrapping_add);
        (seen, agents)
    }

    /// What a message has seen after the visit that it is about to make.
    fn visited(self, message: Message) -> u64 {
        let seen = message.seen.wrapping_mul(31).wrapping_add(u64::from(message.agent));
        (0..self.work).fold(seen, |seen, _| seen.wrapping_mul(31) ^ seen >> 7)
    }

    fn owner(self, agent: u32, threads: u32, placement: Placement) -> usize {
        (match placement {
            Placement::Blocks => agent / self.agents.div_ceil(threads),
            Placement::InTurn => agent % threads,
        }) as usize
    }

    fn rate(self, started: Instant) -> f64 {
        f64::from(self.messages) * f64::from(self.hops) / started.elapsed().as_secs_f64()
    }
}

/// The ends of one thread: to each of the others, and from them.
struct Ends {
    to: Vec<Option<OutputPublisher<Message>>>,
    from: Vec<OutputPoller<Message>>,
}

/// Hops a second on so many threads over output rings, one from each thread to each other one. An idle thread parks.
pub(crate) fn over_rings(circle: Circle, threads: u32, placement: Placement) -> f64 {
    let expected = circle.expected();
    let count = threads as usize;
    // No ring can ever be full: all messages fit one.
    let slots = (circle.messages as usize).next_power_of_two().max(64);
    let mut ends: Vec<Ends> = (0..count).map(|_| Ends { to: Vec::new(), from: Vec::new() }).collect();
    for from in 0..count {
        for to in 0..count {
            if from == to {
                ends[from].to.push(None);
                continue;
            }
            let (mut publisher, [poller]) = output_ring::<Message, 1>(slots).expect("a legal size");
            // The other thread goes on while this one is not through with its messages.
            publisher.flush_every(64);
            ends[from].to.push(Some(publisher));
            ends[to].from.push(poller);
        }
    }
    // As the product chooses: long where each thread has a core.
    let spins = if count <= cores() { 20_000 } else { 64 };
    let strategy = WaitStrategy::SpinThenPark { spins, park: Duration::from_millis(10) };
    let waiters: Vec<Waiter> = ends.iter().map(|_| Waiter::new(strategy)).collect();
    let wakes: Vec<WakeSet> = waiters.iter().map(|waiter| WakeSet::new([waiter.waker()])).collect();
    let left = AtomicU32::new(circle.messages);
    let start = Barrier::new(count + 1);
    thread::scope(|scope| {
        let workers: Vec<_> = ends
            .into_iter()
            .zip(waiters)
            .enumerate()
            .map(|(own, (ends, waiter))| {
                let (wakes, left, start) = (&wakes[..], &left, &start);
                let worker = Worker { circle, threads, placement, own, ends, wakes, left };
                scope.spawn(move || {
                    place(own, count);
                    start.wait();
                    worker.run(waiter)
                })
            })
            .collect();
        start.wait();
        let started = Instant::now();
        let seen = workers.into_iter().map(|worker| worker.join().expect("no panic"));
        let seen = seen.fold((0_u64, 0), |sum, seen| (sum.0.wrapping_add(seen.0), sum.1 + seen.1));
        let rate = circle.rate(started);
        assert_eq!(seen, expected, "each message has made its way");
        rate
    })
}

struct Worker<'a> {
    circle: Circle,
    threads: u32,
    placement: Placement,
    own: usize,
    ends: Ends,
    wakes: &'a [WakeSet],
    left: &'a AtomicU32,
}

impl Worker<'_> {
    fn run(mut self, mut waiter: Waiter) -> (u64, u64) {
        let owned = |nth: &u32| {
            self.circle.owner(self.circle.start(*nth).agent, self.threads, self.placement) == self.own
        };
        let mut local: VecDeque<Message> =
            (0..self.circle.messages).filter(owned).map(|nth| self.circle.start(nth)).collect();
        let mut seen = (0_u64, 0);
        // Relaxed: only a count; nothing is read because of it but that all is over.
        while self.left.load(Ordering::Relaxed) > 0 {
            if !self.step(&mut local, &mut seen) {
                waiter.wait(|| self.left.load(Ordering::Relaxed) == 0 || self.step(&mut local, &mut seen));
            }
        }
        seen
    }

    /// Takes in what has arrived, makes some hops, and publishes what goes out. The newest message goes first, as far as it
    /// can: where each goes one hop in turn, those that once came together stay together, and only the thread that has them
    /// works.
    fn step(&mut self, local: &mut VecDeque<Message>, seen: &mut (u64, u64)) -> bool {
        for poller in &mut self.ends.from {
            poller.poll_slices(usize::MAX, |slices| {
                slices.into_iter().flatten().for_each(|message| local.push_front(*message));
            });
        }
        let worked = !local.is_empty();
        for _ in 0..STEP_HOPS {
            let Some(message) = local.pop_back() else { break };
            let Some(next) = self.circle.visit(message, &mut seen.1) else {
                seen.0 = seen.0.wrapping_add(self.circle.visited(message));
                // Relaxed: only a count.
                if self.left.fetch_sub(1, Ordering::Relaxed) == 1 {
                    self.wakes.iter().for_each(WakeSet::wake);
                }
                continue;
            };
            let owner = self.circle.owner(next.agent, self.threads, self.placement);
            match self.ends.to.get_mut(owner) {
                Some(Some(publisher)) => publisher.push(next).expect("all messages fit one ring"),
                _ => local.push_back(next),
            }
        }
        for (publisher, wake) in self.ends.to.iter_mut().zip(self.wakes) {
            if let Some(publisher) = publisher
                && publisher.flush()
            {
                wake.wake();
            }
        }
        worked
    }
}

/// Hops a second on so many threads that share a queue behind a mutex.
pub(crate) fn over_mutex(circle: Circle, threads: u32) -> f64 {
    let expected = circle.expected();
    let queue: VecDeque<Message> = (0..circle.messages).map(|nth| circle.start(nth)).collect();
    let kernel = Mutex::new((queue, circle.messages));
    let start = Barrier::new(threads as usize + 1);
    thread::scope(|scope| {
        let workers: Vec<_> = (0..threads)
            .map(|nth| {
                let (kernel, start) = (&kernel, &start);
                scope.spawn(move || {
                    place(nth as usize, threads as usize);
                    start.wait();
                    let mut seen = (0_u64, 0);
                    loop {
                        let mut state = kernel.lock().expect("unpoisoned");
                        if state.1 == 0 {
                            return seen;
                        }
                        let message = state.0.pop_front();
                        drop(state);
                        let Some(message) = message else {
                            thread::yield_now();
                            continue;
                        };
                        let next = circle.visit(message, &mut seen.1);
                        let mut state = kernel.lock().expect("unpoisoned");
                        match next {
                            Some(next) => state.0.push_back(next),
                            None => {
                                seen.0 = seen.0.wrapping_add(circle.visited(message));
                                state.1 -= 1;
                            }
                        }
                    }
                })
            })
            .collect();
        start.wait();
        let started = Instant::now();
        let seen = workers.into_iter().map(|worker| worker.join().expect("no panic"));
        let seen = seen.fold((0_u64, 0), |sum, seen| (sum.0.wrapping_add(seen.0), sum.1 + seen.1));
        let rate = circle.rate(started);
        assert_eq!(seen, expected, "each message has made its way");
        rate
    })
}

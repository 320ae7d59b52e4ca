//! Frames a second through the four readers of the input ring, with trivial work in each:
//! `cargo run --release -p ring --example throughput -- [FRAMES]`. A check of the ring's own cost, not a benchmark of
//! the exchange.

use std::time::Instant;

use ring::{
    FramePoller, Ingress, InputRing, LogicPoller, Polled, Runner, Stage, UnmarshalPoller, WaitStrategy,
    Waiter, WakeSet, Work, input_ring,
};

/// Frames that logic takes at a time.
const LOGIC_FRAMES: usize = 256;
/// Slots that replicate and unmarshal take at a time: see the cost of a limit at `FramePoller::poll`.
const CHUNK_SLOTS: usize = 2048;

struct Journal(FramePoller, u64);

impl Stage for Journal {
    fn name(&self) -> &'static str {
        "journal"
    }

    fn do_work(&mut self) -> Work {
        let Self(poller, bytes) = self;
        let polled = poller.poll(usize::MAX, |batch| {
            *bytes += batch.runs().iter().map(|run| run.len() as u64).sum::<u64>();
            Ok::<_, std::convert::Infallible>(())
        });
        work(polled.unwrap_or(Polled::Idle))
    }
}

struct Replicate(FramePoller, u64);

impl Stage for Replicate {
    fn name(&self) -> &'static str {
        "replicate"
    }

    fn do_work(&mut self) -> Work {
        let Self(poller, frames) = self;
        let polled = poller.poll(CHUNK_SLOTS, |batch| {
            *frames += batch.len() as u64;
            Ok::<_, std::convert::Infallible>(())
        });
        work(polled.unwrap_or(Polled::Idle))
    }
}

#[derive(Clone, Copy, Default)]
struct Order([u64; 8]);

struct Unmarshal(UnmarshalPoller<Order>);

impl Stage for Unmarshal {
    fn name(&self) -> &'static str {
        "unmarshal"
    }

    fn do_work(&mut self) -> Work {
        work(self.0.poll(CHUNK_SLOTS, |frame, order| {
            for (word, bytes) in order.0.iter_mut().zip(frame.chunks_exact(8)) {
                *word = bytes.try_into().map_or(0, u64::from_le_bytes);
            }
        }))
    }
}

struct Logic(LogicPoller<Order>, u64, u64);

impl Stage for Logic {
    fn name(&self) -> &'static str {
        "logic"
    }

    fn do_work(&mut self) -> Work {
        let Self(poller, frames, sum) = self;
        let polled = poller.poll(LOGIC_FRAMES, |batch| {
            for order in batch.iter() {
                *sum = sum.wrapping_add(order.0.iter().fold(0, |sum, word| sum ^ word));
            }
            *frames += batch.len() as u64;
            batch.len()
        });
        if polled == Polled::Shutdown {
            println!("  logic saw {frames} frames, check {sum:x}");
        }
        work(polled)
    }
}

fn work(polled: Polled) -> Work {
    match polled {
        Polled::Work(frames) => Work::Done(frames),
        Polled::Idle => Work::Idle,
        Polled::Shutdown => Work::Finished,
    }
}

/// Publishes `frames` frames of `bytes` bytes, `batch` a claim; back pressure spins in `full`.
fn publish(ingress: &mut Ingress, frames: u64, bytes: usize, batch: usize, mut full: impl FnMut()) {
    let mut frame = vec![0_u8; bytes];
    frame[..2].copy_from_slice(&(bytes as u16).to_le_bytes());
    let claim: Vec<&[u8]> = vec![&frame; batch];
    let mut left = frames;
    while left > 0 {
        let count = batch.min(left as usize);
        match ingress.try_publish_many(&claim[..count]) {
            Ok(()) => left -= count as u64,
            Err(_) => full(),
        }
    }
}

fn stages(ring: InputRing<Order>) -> (Ingress, Box<dyn Stage>, [Box<dyn Stage>; 3]) {
    let rest: [Box<dyn Stage>; 3] = [
        Box::new(Replicate(ring.replicate, 0)),
        Box::new(Unmarshal(ring.unmarshal)),
        Box::new(Logic(ring.logic, 0, 0)),
    ];
    (ring.ingress, Box::new(Journal(ring.journal, 0)), rest)
}

fn report(layout: &str, slots: usize, bytes: usize, batch: usize, frames: u64, started: Instant) {
    let rate = frames as f64 / started.elapsed().as_secs_f64() / 1e6;
    println!("{layout:<44} slots={slots:<6} bytes={bytes:<5} claim={batch:<4} {rate:>7.2} M frames/s");
}

fn one_thread(
    frames: u64,
    slots: usize,
    bytes: usize,
    batch: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let (mut ingress, journal, rest) = stages(input_ring(slots, WakeSet::default())?);
    let mut runner = Runner::new("all", Waiter::new(WaitStrategy::BusySpin));
    runner.add(journal, WakeSet::default());
    rest.into_iter().for_each(|stage| runner.add(stage, WakeSet::default()));
    let started = Instant::now();
    publish(&mut ingress, frames, bytes, batch, || {
        runner.run_once();
    });
    drop(ingress);
    runner.run();
    report("publisher and stages on one thread", slots, bytes, batch, frames, started);
    Ok(())
}

fn threads(
    split: bool,
    frames: u64,
    slots: usize,
    bytes: usize,
    batch: usize,
) -> Result<(), Box<dyn std::error::Error>> {
    let strategy = WaitStrategy::default();
    let (core, journal_waiter) = (Waiter::new(strategy), Waiter::new(strategy));
    let (wake_core, wake_journal) = (core.waker(), journal_waiter.waker());
    let readers = if split { vec![wake_core.clone(), wake_journal] } else { vec![wake_core.clone()] };
    let (mut ingress, journal, rest) = stages(input_ring(slots, WakeSet::new(readers))?);
    let mut core_runner = Runner::new("core", core);
    let mut journal_runner = Runner::new("journal", journal_waiter);
    let journal_home = if split { &mut journal_runner } else { &mut core_runner };
    journal_home.add(journal, WakeSet::new([wake_core]));
    rest.into_iter().for_each(|stage| core_runner.add(stage, WakeSet::default()));
    let started = Instant::now();
    let handles = [core_runner.spawn()?, journal_runner.spawn()?];
    publish(&mut ingress, frames, bytes, batch, std::hint::spin_loop);
    drop(ingress);
    for handle in handles {
        handle.join().map_err(|_| "a stage thread panicked")?;
    }
    let layout = if split { "publisher | journal | the other three" } else { "publisher | all four stages" };
    report(layout, slots, bytes, batch, frames, started);
    Ok(())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let frames = std::env::args().nth(1).map_or(Ok(10_000_000), |text| text.parse())?;
    for (bytes, batch) in [(64, 1), (64, 64), (256, 16)] {
        for slots in [1 << 12, 1 << 14] {
            one_thread(frames, slots, bytes, batch)?;
            threads(false, frames, slots, bytes, batch)?;
            threads(true, frames, slots, bytes, batch)?;
        }
    }
    Ok(())
}

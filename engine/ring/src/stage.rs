//! Stages and the runner that drives a set of them on one thread. Which stages share a thread is the wiring's choice;
//! a simulator steps the same runners with `run_once` and no threads. It must not know what a stage does.

use std::io;
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use rustix::thread::{CpuSet, sched_setaffinity};

use crate::wait::{Waiter, WakeSet};

/// What one step of a stage came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// So many frames, events or other units were done. `Done(0)` counts as work too.
    Done(usize),
    /// There was nothing to do.
    Idle,
    /// There will never be anything to do again.
    Finished,
}

/// One stage of the pipeline: a plain struct that is stepped.
pub trait Stage: Send {
    /// The stage's name in logs, metrics and configuration.
    fn name(&self) -> &'static str;

    /// Does what is there to do now, bounded, and never blocks on another stage.
    fn do_work(&mut self) -> Work;
}

struct Seat {
    // Taken out and dropped when the stage has finished, so that a publisher that it owns shuts its ring down.
    stage: Option<Box<dyn Stage>>,
    wakes: WakeSet,
}

/// Drives stages on one thread, in the order in which they were added.
pub struct Runner {
    name: String,
    seats: Vec<Seat>,
    waiter: Waiter,
    core: Option<usize>,
}

impl Runner {
    /// A runner without stages. `name` becomes the thread's name; `waiter` says how it waits, and its wakers go to
    /// whoever gives these stages work.
    pub fn new(name: impl Into<String>, waiter: Waiter) -> Self {
        Self { name: name.into(), seats: Vec::new(), waiter, core: None }
    }

    /// Pins the thread to the CPU of this number when it is spawned.
    #[must_use]
    pub fn pin_to(mut self, core: usize) -> Self {
        self.core = Some(core);
        self
    }

    /// Adds a stage. `wakes` are woken after each step in which it did work or finished: the threads of the stages
    /// that its work goes to, and of those that wait for room it makes. This runner's own waker is not needed there.
    pub fn add(&mut self, stage: Box<dyn Stage>, wakes: WakeSet) {
        self.seats.push(Seat { stage: Some(stage), wakes });
    }

    /// The thread's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Names of the stages that have not finished, in order.
    pub fn stages(&self) -> impl Iterator<Item = &'static str> {
        self.seats.iter().filter_map(|seat| seat.stage.as_ref().map(|stage| stage.name()))
    }

    /// Steps each stage once: `Done` with the sum if any worked, `Finished` once all have finished (also when there
    /// are none), else `Idle`. Never waits.
    pub fn run_once(&mut self) -> Work {
        step(&mut self.seats)
    }

    /// Runs until all stages have finished, on the calling thread and without pinning it.
    pub fn run(&mut self) {
        loop {
            match step(&mut self.seats) {
                Work::Finished => return,
                Work::Done(_) => {}
                Work::Idle => {
                    let seats = &mut self.seats;
                    self.waiter.wait(|| step(seats) != Work::Idle);
                }
            }
        }
    }

    /// Starts a thread that runs the stages until all have finished.
    ///
    /// # Errors
    /// The thread can't be made, or can't be pinned to the core asked for (then it has ended again, and the stages
    /// are dropped).
    pub fn spawn(mut self) -> io::Result<JoinHandle<()>> {
        let (started, start) = mpsc::sync_channel::<io::Result<()>>(1);
        let handle = thread::Builder::new().name(self.name.clone()).spawn(move || {
            let pinned = self.core.map_or(Ok(()), pin_current_thread);
            let failed = pinned.is_err();
            // The receiver waits for this one message, so it can't be gone.
            let _ = started.send(pinned);
            if !failed {
                self.run();
            }
        })?;
        start.recv().map_err(io::Error::other)??;
        Ok(handle)
    }
}

fn step(seats: &mut [Seat]) -> Work {
    let mut worked = false;
    let mut done = 0;
    let mut open = 0;
    for seat in seats {
        let Some(stage) = seat.stage.as_mut() else { continue };
        match stage.do_work() {
            Work::Done(units) => {
                worked = true;
                open += 1;
                done += units;
                seat.wakes.wake();
            }
            Work::Idle => open += 1,
            Work::Finished => {
                // Dropped before the wake, so that the woken see the shut-down.
                seat.stage = None;
                worked = true;
                seat.wakes.wake();
            }
        }
    }
    match (open, worked) {
        (0, _) => Work::Finished,
        (_, true) => Work::Done(done),
        (_, false) => Work::Idle,
    }
}

fn pin_current_thread(core: usize) -> io::Result<()> {
    if core >= CpuSet::MAX_CPU {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, format!("there is no CPU {core}")));
    }
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set).map_err(io::Error::from)
}

//! An engine without threads: the same stages and rings, stepped in one order by a simulation or a test. It must not
//! differ from the threaded one in anything but who calls.

use std::sync::PoisonError;

use exchange::Exchange;
use ring::{Ingress, Runner, Work};
use snapshots::{Made, MakerOptions};

use crate::background::House;
use crate::control::Course;
use crate::stages::FinalState;
use crate::view::EngineView;
use crate::wiring::Wired;

/// An engine that its owner steps. Dropping it is a kill: nothing is closed.
pub struct EngineStepper {
    ingress: Option<Ingress>,
    runners: Vec<Runner>,
    house: House,
    maker: MakerOptions,
    view: EngineView,
    last: FinalState,
}

impl EngineStepper {
    pub(crate) fn new(wired: Wired, maker: MakerOptions) -> Self {
        let Wired { ingress, runners, view, house, last } = wired;
        Self { ingress: Some(ingress), runners, house, maker, view, last }
    }

    /// A publisher of frames.
    #[must_use]
    pub fn ingress(&self) -> Ingress {
        let Some(ingress) = &self.ingress else { unreachable!("only the end takes it") };
        ingress.clone()
    }

    /// Progress, counts, depth and reports.
    #[must_use]
    pub fn view(&self) -> EngineView {
        self.view.clone()
    }

    /// How many threads the plan would have.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.runners.len()
    }

    /// Steps the stages of one of the plan's threads once, so that a simulation can hold up the others.
    pub fn step_thread(&mut self, thread: usize) -> Work {
        self.runners.get_mut(thread).map_or(Work::Idle, Runner::run_once)
    }

    /// Steps every stage once, in the order of the plan; whether any had work.
    pub fn step(&mut self) -> Work {
        let mut all = Work::Finished;
        for thread in 0..self.threads() {
            all = match (all, self.step_thread(thread)) {
                (Work::Done(before), Work::Done(now)) => Work::Done(before + now),
                (Work::Done(before), _) => Work::Done(before),
                (_, Work::Done(now)) => Work::Done(now),
                (Work::Finished, Work::Finished) => Work::Finished,
                _ => Work::Idle,
            };
        }
        all
    }

    /// Steps until no stage has work, at most `steps` times; whether it got there.
    pub fn settle(&mut self, steps: usize) -> bool {
        (0..steps).any(|_| matches!(self.step(), Work::Idle | Work::Finished))
    }

    /// Does the background threads' housekeeping: the report log made durable, unneeded segments removed.
    ///
    /// # Errors
    /// The line that would end the process.
    pub fn keep_house(&mut self) -> Result<(), String> {
        self.house.keep().map_err(|error| error.to_string())
    }

    /// Makes a snapshot, if the log holds a newer checkpoint than the last one's.
    ///
    /// # Errors
    /// The line that would end the process.
    pub fn make_snapshot(&mut self) -> Result<Option<Made>, String> {
        self.house.make_snapshot(self.maker).map_err(|error| error.to_string())
    }

    /// Begins a stop in good order. A member's owner steps on from here, until the proposals have ended and what is
    /// committed was fed, and drops the feed before [`stop`](Self::stop).
    pub fn begin_stop(&mut self) {
        self.view.control.raise(Course::Stopping);
        self.ingress = None;
    }

    /// Stops in good order, at most `steps` steps long; gives the last state. `None` where publishers are left, or the
    /// engine had failed.
    pub fn stop(mut self, steps: usize) -> Option<Exchange> {
        self.begin_stop();
        for _ in 0..steps {
            if self.step() == Work::Finished {
                self.house.keep().ok()?;
                return self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
            }
        }
        None
    }

    /// Ends the engine where it is, as a kill would, and gives the state that its logic had.
    #[must_use]
    pub fn abandon(mut self) -> Option<Exchange> {
        self.view.control.raise(Course::Abandoned);
        self.step();
        self.last.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

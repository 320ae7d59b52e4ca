//! The runner: order, ends, wakes, pinning.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ring::{
    Mark, OutputPoller, OutputPublisher, Polled, Runner, Stage, WaitStrategy, Waiter, WakeSet, Work,
    output_ring,
};
use rustix::thread::{CpuSet, sched_getaffinity};

const LONG: WaitStrategy = WaitStrategy::SpinThenPark { spins: 2, park: Duration::from_secs(3600) };

/// Follows a script, then is finished.
struct Scripted {
    name: &'static str,
    script: Vec<Work>,
    steps: Arc<Mutex<Vec<&'static str>>>,
}

impl Stage for Scripted {
    fn name(&self) -> &'static str {
        self.name
    }

    fn do_work(&mut self) -> Work {
        self.steps.lock().expect("unpoisoned").push(self.name);
        if self.script.is_empty() { Work::Finished } else { self.script.remove(0) }
    }
}

#[test]
fn steps_each_stage_in_order_until_all_have_finished() {
    let steps = Arc::new(Mutex::new(Vec::new()));
    let mut runner = Runner::new("steps", Waiter::new(LONG));
    let stage = |name, script| Box::new(Scripted { name, script, steps: Arc::clone(&steps) });
    runner.add(stage("a", vec![Work::Done(2), Work::Idle]), WakeSet::default());
    runner.add(stage("b", vec![Work::Done(3), Work::Idle, Work::Idle]), WakeSet::default());
    assert_eq!(runner.stages().collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(runner.run_once(), Work::Done(5));
    assert_eq!(runner.run_once(), Work::Idle);
    assert_eq!(runner.run_once(), Work::Done(0), "that one has finished is news");
    assert_eq!(runner.stages().collect::<Vec<_>>(), ["b"]);
    assert_eq!(runner.run_once(), Work::Finished);
    assert_eq!(runner.run_once(), Work::Finished, "and it stays so");
    assert_eq!(*steps.lock().expect("unpoisoned"), ["a", "b", "a", "b", "a", "b", "b"]);
    assert_eq!(Runner::new("none", Waiter::new(LONG)).run_once(), Work::Finished);
}

struct Source(OutputPublisher<u64>, u64, Arc<Mark>);

impl Stage for Source {
    fn name(&self) -> &'static str {
        "source"
    }

    fn do_work(&mut self) -> Work {
        let Self(publisher, next, mark) = self;
        if *next == 10_000 {
            return Work::Finished;
        }
        if publisher.try_publish(*next).is_err() {
            return Work::Idle;
        }
        *next += 1;
        mark.advance(*next);
        Work::Done(1)
    }
}

struct Sink(OutputPoller<u64>, u64, Arc<Mark>, Arc<Mark>);

impl Stage for Sink {
    fn name(&self) -> &'static str {
        "sink"
    }

    fn do_work(&mut self) -> Work {
        let Self(poller, next, sent, mark) = self;
        match poller.poll(7, |event, _| {
            assert_eq!(*event, *next);
            *next += 1;
        }) {
            Polled::Work(events) => {
                mark.advance(*next);
                assert!(sent.get() >= mark.get().saturating_sub(1), "received before it was sent");
                Work::Done(events)
            }
            Polled::Idle => Work::Idle,
            Polled::Shutdown => Work::Finished,
        }
    }
}

/// Both threads park for an hour when idle, on new events and on new room: the runner's wakes alone keep this going.
/// The source's end drops its publisher, which is what ends the sink.
#[test]
fn two_threads_wake_each_other_and_end_by_themselves() {
    let (publisher, [poller]) = output_ring::<u64, 1>(64).expect("a legal size");
    let (source_waiter, sink_waiter) = (Waiter::new(LONG), Waiter::new(LONG));
    let (wake_source, wake_sink) =
        (WakeSet::new([source_waiter.waker()]), WakeSet::new([sink_waiter.waker()]));
    let (sent, received) = (Arc::new(Mark::default()), Arc::new(Mark::default()));
    let mut source = Runner::new("source", source_waiter);
    source.add(Box::new(Source(publisher, 0, Arc::clone(&sent))), wake_sink);
    let mut sink = Runner::new("sink", sink_waiter);
    sink.add(Box::new(Sink(poller, 0, Arc::clone(&sent), Arc::clone(&received))), wake_source);
    assert_eq!((source.name(), sink.name()), ("source", "sink"));
    for handle in [sink.spawn().expect("a thread"), source.spawn().expect("a thread")] {
        handle.join().expect("no panic");
    }
    assert_eq!((sent.get(), received.get()), (10_000, 10_000));
}

struct ReadAffinity(Arc<Mutex<Option<CpuSet>>>);

impl Stage for ReadAffinity {
    fn name(&self) -> &'static str {
        "affinity"
    }

    fn do_work(&mut self) -> Work {
        *self.0.lock().expect("unpoisoned") = Some(sched_getaffinity(None).expect("a readable affinity"));
        Work::Finished
    }
}

#[test]
fn pins_the_thread_where_asked() {
    let allowed = sched_getaffinity(None).expect("a readable affinity");
    let core = (0..CpuSet::MAX_CPU).rev().find(|core| allowed.is_set(*core)).expect("a CPU");
    let affinity = Arc::new(Mutex::new(None));
    let mut runner = Runner::new("pinned", Waiter::new(LONG)).pin_to(core);
    runner.add(Box::new(ReadAffinity(Arc::clone(&affinity))), WakeSet::default());
    runner.spawn().expect("a thread").join().expect("no panic");
    let set = affinity.lock().expect("unpoisoned").take().expect("the stage ran");
    assert_eq!((set.count(), set.is_set(core)), (1, true));
}

#[test]
fn a_core_that_is_not_there_is_an_error() {
    for core in [CpuSet::MAX_CPU - 1, CpuSet::MAX_CPU, usize::MAX] {
        let mut runner = Runner::new("nowhere", Waiter::new(LONG)).pin_to(core);
        runner.add(Box::new(ReadAffinity(Arc::default())), WakeSet::default());
        assert!(runner.spawn().is_err(), "CPU {core}");
    }
}

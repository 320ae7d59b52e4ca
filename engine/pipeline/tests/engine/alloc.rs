//! Nothing is allocated on the way of a frame once the engine is warm: a counting allocator over all stages, stepped on
//! real files. It must not count what other tests of this binary do: it counts on the thread that asks.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::hint::black_box;
use std::sync::Arc;

use journaler::{Durability, RealStorage, SharedStorage};
use pipeline::{Engine, EngineStepper, ManualClock};
use protocol::{Egress, FrameWriter, Notice};
use ring::Ingress;

use crate::support::*;

/// Counts on threads that count, and leaves everything else to the system's allocator.
struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

/// How many pieces were asked for, and how long the longest was.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Asked {
    pieces: u64,
    longest: usize,
}

thread_local! {
    // Without a drop and made at compile time, so that reading it allocates nothing.
    static ASKED: Cell<Option<Asked>> = const { Cell::new(None) };
}

fn note(length: usize) {
    ASKED.with(|asked| {
        asked.set(
            asked
                .get()
                .map(|Asked { pieces, longest }| Asked { pieces: pieces + 1, longest: longest.max(length) }),
        );
    });
}

// SAFETY: needed to see allocations at all. Each call goes on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        note(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, length: usize) -> *mut u8 {
        note(length);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(pointer, layout, length) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// What this thread asks for meanwhile.
fn asked(work: impl FnOnce()) -> Asked {
    ASKED.set(Some(Asked::default()));
    work();
    ASKED.take().expect("it was set")
}

/// A gateway that hears its notices and keeps none.
struct Deaf;

impl Egress for Deaf {
    fn notify(&mut self, notice: Notice) {
        black_box(notice);
    }
}

#[test]
fn an_allocation_is_counted() {
    assert_eq!(asked(|| ()).pieces, 0);
    assert_eq!(asked(|| drop(black_box(Box::new([0_u8; 100])))), Asked { pieces: 1, longest: 100 });
    let mut grown = Vec::with_capacity(1);
    assert_eq!(asked(|| grown.extend(black_box([1_u64, 2]))).pieces, 1);
}

/// Frames of a flow that has come to its steady state.
const WARM_UP: usize = 300_000;
/// Frames after which the clock moves on, so that ticks are among them.
const BURST: usize = 500;

fn burst(engine: &mut EngineStepper, ingress: &mut Ingress, time: &ManualClock, frames: &[FrameWriter]) {
    time.advance(milliseconds(300));
    feed(engine, ingress, frames);
}

#[test]
fn the_hot_path_allocates_nothing_once_it_is_warm() {
    let folder = tempfile::tempdir().expect("a folder");
    let time = ManualClock::at(START);
    let mut config = config(&time);
    config.journal.segment_bytes = 256 << 20;
    config.journal.durability = Durability::Memory;
    let storage: SharedStorage = Arc::new(RealStorage::create(folder.path()).expect("the folder opens"));
    let opened = Engine::open(storage, &config, &mut |_| ()).expect("the data directory opens");
    let mut engine = Engine::stepped(&config, opened, Box::new(Deaf)).expect("the engine starts");
    let mut ingress = engine.ingress();
    let mut flow = Flow::new(seed(11));
    feed(&mut engine, &mut ingress, &flow.opening());
    let mut frames = |count: usize| -> Vec<FrameWriter> { (0..count).map(|_| flow.request()).collect() };
    for _ in 0..WARM_UP / BURST {
        burst(&mut engine, &mut ingress, &time, &frames(BURST));
    }
    let mut found = Asked::default();
    for _ in 0..100 {
        let frames = frames(BURST);
        let Asked { pieces, longest } = asked(|| burst(&mut engine, &mut ingress, &time, &frames));
        found = Asked { pieces: found.pieces + pieces, longest: found.longest.max(longest) };
    }
    assert_eq!(found, Asked::default(), "of {} frames", 100 * BURST);
    let applied = engine.view().marks().applied_sequence().0;
    assert!(applied > (WARM_UP + 100 * BURST) as u64, "with the ticks, {applied} frames were applied");
    drop(ingress);
    assert!(engine.stop(STEPS_MAX).is_some());
}
